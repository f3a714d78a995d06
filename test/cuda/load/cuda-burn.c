/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps a GPU as busy as it can, and prints its progress.
 *
 *	cuda-burn [--device N] [--kernel-us US | --work ROUNDS] [--calibrate-only] [--blocks N]
 *	          [--depth N] [--threads N] [--streams N] [--graph N] [--short N] [--sync-every N]
 *	          [--think-us US] [--pace-us US] [--copy BYTES] [--start-at NS] [--seconds S]
 *	          [--window-ms MS]
 *
 *	--kernel-us   calibrates kernels to this time (500), which needs a GPU without other work;
 *	              --calibrate-only prints the rounds for --work and ends. --work 0: empty kernels
 *	--blocks      0, the default: all multiprocessors are full
 *	--depth       iterations in flight, of each thread (16)
 *	--streams     of each thread, in rotation (1)
 *	--graph       an iteration is a graph of so many kernels
 *	--short       behind each kernel so many short kernels, a fortieth of its work each
 *	--copy        an iteration also copies so many bytes to the GPU and back
 *	--sync-every  waits for all work after so many iterations, then sleeps for --think-us
 *	--pace-us     processor time between two iterations: the GPU is hardly busy
 *	--start-at    begins at this time of the monotonic clock, so that several programs begin together
 *	--seconds     10; 0: until SIGTERM
 *
 * Prints "ready", a line for each window (time, iterations ended so far and in the window), and at the end one
 * JSON object. Gaps are the times between iterations that ended.
 */
#include "lib/base/time.h"
#include "cuda/load/load.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define NO_TIMING   2
#define RELAXED     2 /* capture mode */
#define DEPTH_MAX   1024
#define THREADS_MAX 64
#define STREAMS_MAX 1024
#define SAMPLES     1000000
#define SPIN_NS     100000

struct burn {
	struct load load, short_load;
	uint64_t ordinal, kernel_us, work, blocks, depth, threads, streams, graph, shorts,
		sync_every, think_us, pace_us, copy, start_at, seconds, window_ms;
	bool calibrate_only;
	atomic_bool over;
};

struct worker {
	const struct burn *burn;
	pthread_t thread;
	CUstream streams[STREAMS_MAX];
	CUgraphExec graphs[STREAMS_MAX];
	CUevent events[DEPTH_MAX]; /* the end of each iteration in flight */
	uint64_t begun, last_ns, next_ns;
	_Atomic uint64_t done;
	void *host;
	CUdeviceptr copy;
	struct load_samples gaps;
};

static CUgraphExec make_graph(const struct burn *b, CUstream s)
{
	CUgraphExec x;
	CUgraph g;

	must(cu.cuStreamBeginCapture_v2(s, RELAXED), "begin a capture");
	for (uint64_t i = 0; i < b->graph; i++)
		load_launch(&b->load, s);
	must(cu.cuStreamEndCapture(s, &g), "cuStreamEndCapture");
	must(cu.cuGraphInstantiateWithFlags(&x, g, 0), "cuGraphInstantiateWithFlags");
	must(cu.cuGraphDestroy(g), "cuGraphDestroy");
	return x;
}

static void prepare_worker(struct worker *w)
{
	const struct burn *b = w->burn;

	for (uint64_t i = 0; i < b->streams; i++) {
		w->streams[i] = load_stream();
		if (b->graph)
			w->graphs[i] = make_graph(b, w->streams[i]);
	}
	for (uint64_t i = 0; i < b->depth; i++)
		must(cu.cuEventCreate(&w->events[i], NO_TIMING), "cuEventCreate");
	if (b->copy) {
		must(cu.cuMemAllocHost_v2(&w->host, b->copy), "cuMemAllocHost_v2");
		must(cu.cuMemAlloc_v2(&w->copy, b->copy), "cuMemAlloc_v2");
	}
	load_samples_open(&w->gaps, SAMPLES);
}

/* The oldest iteration in flight ends. */
static void await_oldest(struct worker *w)
{
	uint64_t done = atomic_load_explicit(&w->done, memory_order_relaxed), now;

	must(cu.cuEventSynchronize(w->events[done % w->burn->depth]), "cuEventSynchronize");
	now = time_mono_ns();
	if (w->last_ns)
		load_sample(&w->gaps, now - w->last_ns);
	w->last_ns = now;
	atomic_store_explicit(&w->done, done + 1, memory_order_relaxed);
}

/* A sleep may be 50 us too long. */
static void await_next(const struct worker *w)
{
	uint64_t now = time_mono_ns();

	if (w->next_ns > now + SPIN_NS)
		load_sleep_until(w->next_ns - SPIN_NS);
	while (time_mono_ns() < w->next_ns)
		;
}

static void run_iteration(struct worker *w)
{
	const struct burn *b = w->burn;
	uint64_t i = w->begun % b->streams;
	CUstream s = w->streams[i];

	if (w->begun - atomic_load_explicit(&w->done, memory_order_relaxed) == b->depth)
		await_oldest(w);
	if (b->pace_us)
		await_next(w);
	if (b->copy)
		must(cu.cuMemcpyHtoDAsync_v2(w->copy, w->host, b->copy, s), "copy to");
	if (b->graph)
		must(cu.cuGraphLaunch(w->graphs[i], s), "cuGraphLaunch");
	else
		load_launch(&b->load, s);
	for (uint64_t k = 0; k < b->shorts; k++)
		load_launch(&b->short_load, s);
	if (b->copy)
		must(cu.cuMemcpyDtoHAsync_v2(w->host, w->copy, b->copy, s), "copy from");
	must(cu.cuEventRecord(w->events[w->begun % b->depth], s), "cuEventRecord");
	w->begun++;
	w->next_ns = time_mono_ns() + b->pace_us * 1000;
}

static void *run_burn_thread(void *arg)
{
	struct worker *w = arg;
	const struct burn *b = w->burn;

	load_enter(&b->load);
	load_sleep_until(b->start_at);
	while (!atomic_load_explicit(&b->over, memory_order_relaxed) &&
		!atomic_load_explicit(&load_stop, memory_order_relaxed)) {
		run_iteration(w);
		if (b->sync_every && w->begun % b->sync_every == 0) {
			while (w->begun > atomic_load(&w->done))
				await_oldest(w);
			if (b->think_us)
				sleep_us((unsigned int)b->think_us);
		}
	}
	return NULL;
}

static uint64_t all_done(struct worker *const *w, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += atomic_load_explicit(&w[i]->done, memory_order_relaxed);
	return sum;
}

/* Prints the windows until the end; returns the iterations by then. */
static uint64_t watch_windows(const struct burn *b, struct worker *const *w, uint64_t start_ns)
{
	uint64_t end = b->seconds ? start_ns + b->seconds * NS_PER_SEC : UINT64_MAX;
	uint64_t step = b->window_ms ? b->window_ms * NS_PER_MS : NS_PER_SEC, before = 0;

	for (uint64_t at = start_ns + step; !atomic_load(&load_stop); at += step) {
		uint64_t done;

		load_sleep_until(at < end ? at : end);
		done = all_done(w, b->threads);
		if (at >= end || b->window_ms)
			(void)printf("window t_ns=%llu done=%llu delta=%llu\n",
				(unsigned long long)time_mono_ns(), (unsigned long long)done,
				(unsigned long long)(done - before));
		(void)fflush(stdout);
		before = done;
		if (at >= end)
			break;
	}
	return all_done(w, b->threads);
}

static void report_burn(const struct burn *b, struct worker *const *w, uint64_t done,
	uint64_t ns)
{
	struct load_samples all;

	load_samples_open(&all, SAMPLES * b->threads);
	for (uint64_t i = 0; i < b->threads; i++)
		for (size_t k = 0; k < w[i]->gaps.count; k++)
			load_sample(&all, w[i]->gaps.ns[k]);
	load_samples_sort(&all);
	(void)printf(
		"{\"program\":\"cuda-burn\",\"result\":\"ok\",\"pid\":%d,\"done\":%llu,"
		"\"seconds\":%.6f,\"per_second\":%.2f,\"rounds\":%llu,\"kernel_ns\":%llu,"
		"\"gap_p50_ns\":%llu,\"gap_p99_ns\":%llu,\"gap_max_ns\":%llu,\"blocks\":%u,"
		"\"sms\":%u,\"mps\":%d}\n",
		(int)getpid(), (unsigned long long)done, (double)ns / 1e9,
		(double)done * 1e9 / (double)ns, (unsigned long long)b->load.rounds,
		(unsigned long long)b->load.kernel_ns,
		(unsigned long long)load_percentile(&all, 500),
		(unsigned long long)load_percentile(&all, 990),
		(unsigned long long)load_percentile(&all, 1000), b->load.blocks, b->load.sms,
		b->load.mps);
	free(all.ns);
}

static void run_burn(struct burn *b)
{
	struct worker **w = calloc(b->threads, sizeof(struct worker *));
	uint64_t start, done;

	for (uint64_t i = 0; i < b->threads && w; i++) {
		w[i] = calloc(1, sizeof(**w));
		if (!w[i])
			die("no memory");
		w[i]->burn = b;
		prepare_worker(w[i]);
	}
	if (!w)
		die("no memory");
	must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
	(void)printf("ready pid=%d t_ns=%llu rounds=%llu kernel_ns=%llu\n", (int)getpid(),
		(unsigned long long)time_mono_ns(), (unsigned long long)b->load.rounds,
		(unsigned long long)b->load.kernel_ns);
	(void)fflush(stdout);
	for (uint64_t i = 0; i < b->threads; i++)
		if (pthread_create(&w[i]->thread, NULL, run_burn_thread, w[i]) != 0)
			die("no thread");
	start = time_mono_ns();
	start = b->start_at > start ? b->start_at : start;
	done = watch_windows(b, w, start);
	start = time_mono_ns() - start;
	atomic_store(&b->over, true);
	for (uint64_t i = 0; i < b->threads; i++)
		(void)pthread_join(w[i]->thread, NULL);
	must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
	report_burn(b, w, done, start);
	for (uint64_t i = 0; i < b->threads; i++) {
		free(w[i]->gaps.ns);
		free(w[i]);
	}
	free(w);
}

static void check_range(const char *name, uint64_t value, uint64_t max)
{
	if (value == 0 || value > max)
		die("%s: expected 1 to %llu, found %llu", name, (unsigned long long)max,
			(unsigned long long)value);
}

int main(int argc, char **argv)
{
	struct burn b = { .kernel_us = 500,
		.work = UINT64_MAX,
		.depth = 16,
		.threads = 1,
		.streams = 1,
		.seconds = 10 };
	const struct load_option options[] = {
		{ .name = "--device", .number = &b.ordinal },
		{ .name = "--kernel-us", .number = &b.kernel_us },
		{ .name = "--work", .number = &b.work },
		{ .name = "--calibrate-only", .flag = &b.calibrate_only },
		{ .name = "--blocks", .number = &b.blocks },
		{ .name = "--depth", .number = &b.depth },
		{ .name = "--threads", .number = &b.threads },
		{ .name = "--streams", .number = &b.streams },
		{ .name = "--graph", .number = &b.graph },
		{ .name = "--short", .number = &b.shorts },
		{ .name = "--sync-every", .number = &b.sync_every },
		{ .name = "--think-us", .number = &b.think_us },
		{ .name = "--pace-us", .number = &b.pace_us },
		{ .name = "--copy", .number = &b.copy },
		{ .name = "--start-at", .number = &b.start_at },
		{ .name = "--seconds", .number = &b.seconds },
		{ .name = "--window-ms", .number = &b.window_ms },
		{ .name = NULL },
	};

	(void)argc;
	load_options(argv, options);
	check_range("--depth", b.depth, DEPTH_MAX);
	check_range("--threads", b.threads, THREADS_MAX);
	check_range("--streams", b.streams, STREAMS_MAX);
	cuda_open();
	load_catch_signals();
	load_open(&b.load, (int)b.ordinal, (unsigned int)b.blocks);
	if (b.work != UINT64_MAX)
		b.load.rounds = b.work;
	else
		load_calibrate(&b.load, b.kernel_us * 1000);
	b.short_load = b.load;
	b.short_load.rounds /= 40;
	if (b.calibrate_only)
		(void)printf("{\"program\":\"cuda-burn\",\"result\":\"ok\",\"rounds\":%llu,"
			     "\"kernel_ns\":%llu,\"blocks\":%u,\"sms\":%u,\"mps\":%d}\n",
			(unsigned long long)b.load.rounds, (unsigned long long)b.load.kernel_ns,
			b.load.blocks, b.load.sms, b.load.mps);
	else
		run_burn(&b);
	return 0;
}
