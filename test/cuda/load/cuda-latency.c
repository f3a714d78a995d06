/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Short bursts on a GPU at fixed times, and the time of each: what a user of a service waits for.
 *
 *	cuda-latency [--device N] [--period-ms MS] [--burst N] [--kernel-us US | --work ROUNDS]
 *	             [--blocks N] [--graph] [--start-at NS] [--seconds S] [--file PATH]
 *
 * Every --period-ms (10) a burst of --burst (20) kernels and a sync. --kernel-us (8) calibrates the kernels, which
 * needs a GPU without other work; --work 0: empty kernels. --blocks: 16, which fits beside other work; 0 fills the
 * GPU. --graph: each burst is one launch. --start-at and --seconds as in cuda-burn.
 *
 * The time of a burst is from before its first launch to after its sync. A burst that is due before the last burst
 * has ended begins at once, and its lateness is reported separately. Prints "ready", and at the end one JSON
 * object. --file: a line for each burst, with its begin (monotonic clock), its time, and its lateness, in ns.
 */
#include "lib/base/time.h"
#include "cuda/load/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLES 1000000
#define RELAXED 2

struct latency {
	struct load load;
	uint64_t ordinal, period_ms, burst, kernel_us, work, blocks, start_at, seconds;
	bool as_graph;
	const char *path;
	CUstream stream;
	CUgraphExec graph;
	struct load_samples took, late;
	uint64_t *began;
};

static void launch_all(const struct latency *l)
{
	for (uint64_t i = 0; i < l->burst; i++)
		load_launch(&l->load, l->stream);
}

static void make_graph(struct latency *l)
{
	CUgraph g;

	must(cu.cuStreamBeginCapture_v2(l->stream, RELAXED), "begin a capture");
	launch_all(l);
	must(cu.cuStreamEndCapture(l->stream, &g), "cuStreamEndCapture");
	must(cu.cuGraphInstantiateWithFlags(&l->graph, g, 0), "cuGraphInstantiateWithFlags");
	must(cu.cuGraphDestroy(g), "cuGraphDestroy");
}

static void run_burst(const struct latency *l)
{
	if (l->graph)
		must(cu.cuGraphLaunch(l->graph, l->stream), "cuGraphLaunch");
	else
		launch_all(l);
	must(cu.cuStreamSynchronize(l->stream), "cuStreamSynchronize");
}

static void write_samples(const struct latency *l)
{
	FILE *f = fopen(l->path, "we");

	if (!f)
		die("open %s: %s", l->path, strerror(errno));
	for (size_t i = 0; i < l->took.count; i++)
		(void)fprintf(f, "%llu %llu %llu\n", (unsigned long long)l->began[i],
			(unsigned long long)l->took.ns[i], (unsigned long long)l->late.ns[i]);
	if (fclose(f) != 0)
		die("write %s: %s", l->path, strerror(errno));
}

static void print_percentiles(const char *name, const struct load_samples *s)
{
	(void)printf(
		",\"%s_p50_ns\":%llu,\"%s_p95_ns\":%llu,\"%s_p99_ns\":%llu,\"%s_max_ns\":%llu",
		name, (unsigned long long)load_percentile(s, 500), name,
		(unsigned long long)load_percentile(s, 950), name,
		(unsigned long long)load_percentile(s, 990), name,
		(unsigned long long)load_percentile(s, 1000));
}

static void run_latency(struct latency *l)
{
	uint64_t period = l->period_ms * NS_PER_MS, start, end;

	l->stream = load_stream();
	if (l->as_graph)
		make_graph(l);
	load_samples_open(&l->took, SAMPLES);
	load_samples_open(&l->late, SAMPLES);
	l->began = calloc(SAMPLES, sizeof(*l->began));
	if (!l->began)
		die("no memory");
	run_burst(l); /* what is done at the first time only */
	(void)printf("ready pid=%d t_ns=%llu rounds=%llu kernel_ns=%llu\n", (int)getpid(),
		(unsigned long long)time_mono_ns(), (unsigned long long)l->load.rounds,
		(unsigned long long)l->load.kernel_ns);
	(void)fflush(stdout);
	load_sleep_until(l->start_at);
	start = time_mono_ns();
	end = l->seconds ? start + l->seconds * NS_PER_SEC : UINT64_MAX;
	for (uint64_t at = start; at < end && !atomic_load(&load_stop); at += period) {
		uint64_t began, ended;

		load_sleep_until(at);
		began = time_mono_ns();
		run_burst(l);
		ended = time_mono_ns();
		if (l->took.count < SAMPLES)
			l->began[l->took.count] = began;
		load_sample(&l->took, ended - began);
		load_sample(&l->late, began - at);
		/* The program does not make up for requests that it was too late for. */
		while (at + period < ended)
			at += period;
	}
	if (l->path)
		write_samples(l);
	load_samples_sort(&l->took);
	load_samples_sort(&l->late);
	(void)printf(
		"{\"program\":\"cuda-latency\",\"result\":\"ok\",\"pid\":%d,\"bursts\":%zu,"
		"\"burst\":%llu,\"rounds\":%llu,\"kernel_ns\":%llu,\"blocks\":%u,\"sms\":%u,\"mps\":%d",
		(int)getpid(), l->took.count, (unsigned long long)l->burst,
		(unsigned long long)l->load.rounds, (unsigned long long)l->load.kernel_ns,
		l->load.blocks, l->load.sms, l->load.mps);
	print_percentiles("burst", &l->took);
	print_percentiles("late", &l->late);
	(void)printf("}\n");
	free(l->took.ns);
	free(l->late.ns);
	free(l->began);
}

int main(int argc, char **argv)
{
	struct latency l = { .period_ms = 10,
		.burst = 20,
		.kernel_us = 8,
		.work = UINT64_MAX,
		.blocks = 16,
		.seconds = 10 };
	const struct load_option options[] = {
		{ .name = "--device", .number = &l.ordinal },
		{ .name = "--period-ms", .number = &l.period_ms },
		{ .name = "--burst", .number = &l.burst },
		{ .name = "--kernel-us", .number = &l.kernel_us },
		{ .name = "--work", .number = &l.work },
		{ .name = "--blocks", .number = &l.blocks },
		{ .name = "--graph", .flag = &l.as_graph },
		{ .name = "--start-at", .number = &l.start_at },
		{ .name = "--seconds", .number = &l.seconds },
		{ .name = "--file", .text = &l.path },
		{ .name = NULL },
	};

	(void)argc;
	load_options(argv, options);
	if (l.burst == 0 || l.period_ms == 0)
		die("--burst and --period-ms must be at least 1");
	cuda_open();
	load_catch_signals();
	load_open(&l.load, (int)l.ordinal, (unsigned int)l.blocks);
	if (l.work != UINT64_MAX)
		l.load.rounds = l.work;
	else
		load_calibrate(&l.load, l.kernel_us * 1000);
	run_latency(&l);
	return 0;
}
