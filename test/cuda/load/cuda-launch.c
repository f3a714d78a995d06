/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What it costs to submit work, in ns of the caller's time: empty kernels and graphs, and copies.
 *
 *	cuda-launch [--device N] [--rounds N] [--launches N] [--threads N] [--bytes BYTES]
 *
 * launch       one of --launches (1,000) empty kernels in a row, without the sync behind them
 * launch_all   the same with it
 * threads      the same in --threads (4) threads at once, each with its stream: ns between two of a thread
 * event        launch with an event recorded behind it
 * sync_loop    one kernel and a sync, each time
 * graph        launch of a graph of one empty kernel
 * to, from     a copy of so many bytes that returns when it is done; 4 KiB, 1 MiB, and --bytes (64 MiB)
 * to_async     the call of a copy from pinned memory
 *
 * Each row: the median of the rounds (--rounds, 15) and the least. To be started alone, and then in what is
 * to be compared.
 */
#include "lib/base/time.h"
#include "cuda/load/load.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX  1001
#define THREADS_MAX 64
#define NO_TIMING   2
#define RELAXED     2
#define LOOPS       200 /* of what waits each time */

struct bench {
	struct load load;
	uint64_t ordinal, rounds, launches, threads, bytes;
	CUstream stream;
	CUevent event;
	CUgraphExec graph;
	CUdeviceptr device;
	void *pageable, *pinned;
	uint64_t copy; /* bytes of the copies of this row */
};

static void synchronize_stream(const struct bench *b)
{
	must(cu.cuStreamSynchronize(b->stream), "cuStreamSynchronize");
}

static double of(uint64_t start_ns, uint64_t n)
{
	return (double)(time_mono_ns() - start_ns) / (double)n;
}

/* Each returns ns for one. */

static double run_launch(struct bench *b)
{
	uint64_t start = time_mono_ns();
	double each;

	for (uint64_t i = 0; i < b->launches; i++)
		load_launch(&b->load, b->stream);
	each = of(start, b->launches);
	synchronize_stream(b);
	return each;
}

static double run_launch_all(struct bench *b)
{
	uint64_t start = time_mono_ns();

	for (uint64_t i = 0; i < b->launches; i++)
		load_launch(&b->load, b->stream);
	synchronize_stream(b);
	return of(start, b->launches);
}

struct one {
	pthread_t thread;
	pthread_barrier_t *barrier;
	const struct bench *b;
	double each;
};

static void *launch_in_thread(void *arg)
{
	struct one *o = arg;
	CUstream s;
	uint64_t start;

	load_enter(&o->b->load);
	s = load_stream();
	(void)pthread_barrier_wait(o->barrier);
	start = time_mono_ns();
	for (uint64_t i = 0; i < o->b->launches; i++)
		load_launch(&o->b->load, s);
	o->each = of(start, o->b->launches);
	must(cu.cuStreamSynchronize(s), "cuStreamSynchronize");
	must(cu.cuStreamDestroy_v2(s), "cuStreamDestroy_v2");
	return NULL;
}

static double run_threads(struct bench *b)
{
	struct one ones[THREADS_MAX];
	pthread_barrier_t barrier;
	double sum = 0;

	(void)pthread_barrier_init(&barrier, NULL, (unsigned int)b->threads);
	for (uint64_t i = 0; i < b->threads; i++) {
		ones[i] = (struct one){ .barrier = &barrier, .b = b };
		if (pthread_create(&ones[i].thread, NULL, launch_in_thread, &ones[i]) != 0)
			die("no thread");
	}
	for (uint64_t i = 0; i < b->threads; i++) {
		(void)pthread_join(ones[i].thread, NULL);
		sum += ones[i].each;
	}
	(void)pthread_barrier_destroy(&barrier);
	return sum / (double)b->threads;
}

static double run_event(struct bench *b)
{
	uint64_t start = time_mono_ns();
	double each;

	for (uint64_t i = 0; i < b->launches; i++) {
		load_launch(&b->load, b->stream);
		must(cu.cuEventRecord(b->event, b->stream), "cuEventRecord");
	}
	each = of(start, b->launches);
	synchronize_stream(b);
	return each;
}

static double run_sync_loop(struct bench *b)
{
	uint64_t start = time_mono_ns();

	for (uint64_t i = 0; i < LOOPS; i++) {
		load_launch(&b->load, b->stream);
		synchronize_stream(b);
	}
	return of(start, LOOPS);
}

static double run_graph(struct bench *b)
{
	uint64_t start = time_mono_ns();
	double each;

	for (uint64_t i = 0; i < b->launches; i++)
		must(cu.cuGraphLaunch(b->graph, b->stream), "cuGraphLaunch");
	each = of(start, b->launches);
	synchronize_stream(b);
	return each;
}

static uint64_t count_copies(const struct bench *b)
{
	uint64_t n = 64 * MIB / b->copy;

	return n < 1 ? 1 : n > LOOPS ? LOOPS : n;
}

static double run_to(struct bench *b)
{
	uint64_t start = time_mono_ns(), n = count_copies(b);

	for (uint64_t i = 0; i < n; i++)
		must(cu.cuMemcpyHtoD_v2(b->device, b->pageable, b->copy), "cuMemcpyHtoD_v2");
	return of(start, n);
}

static double run_from(struct bench *b)
{
	uint64_t start = time_mono_ns(), n = count_copies(b);

	for (uint64_t i = 0; i < n; i++)
		must(cu.cuMemcpyDtoH_v2(b->pageable, b->device, b->copy), "cuMemcpyDtoH_v2");
	return of(start, n);
}

static double run_to_async(struct bench *b)
{
	uint64_t start = time_mono_ns(), n = count_copies(b);
	double each;

	for (uint64_t i = 0; i < n; i++)
		must(cu.cuMemcpyHtoDAsync_v2(b->device, b->pinned, b->copy, b->stream),
			"cuMemcpyHtoDAsync_v2");
	each = of(start, n);
	synchronize_stream(b);
	return each;
}

static void measure_launches(struct bench *b, const char *name, uint64_t bytes,
	double (*run)(struct bench *b))
{
	double ns[ROUNDS_MAX], min, middle;

	b->copy = bytes;
	(void)run(b);
	for (uint64_t i = 0; i < b->rounds; i++)
		ns[i] = run(b);
	middle = median(ns, (unsigned int)b->rounds);
	min = ns[0];
	(void)printf("what=%s bytes=%llu median_ns=%.1f least_ns=%.1f rounds=%llu\n", name,
		(unsigned long long)bytes, middle, min, (unsigned long long)b->rounds);
	(void)fflush(stdout);
}

static void prepare_bench(struct bench *b)
{
	CUgraph g;

	b->stream = load_stream();
	must(cu.cuEventCreate(&b->event, NO_TIMING), "cuEventCreate");
	must(cu.cuStreamBeginCapture_v2(b->stream, RELAXED), "begin a capture");
	load_launch(&b->load, b->stream);
	must(cu.cuStreamEndCapture(b->stream, &g), "cuStreamEndCapture");
	must(cu.cuGraphInstantiateWithFlags(&b->graph, g, 0), "cuGraphInstantiateWithFlags");
	must(cu.cuGraphDestroy(g), "cuGraphDestroy");
	must(cu.cuMemAlloc_v2(&b->device, b->bytes), "cuMemAlloc_v2");
	must(cu.cuMemAllocHost_v2(&b->pinned, b->bytes), "cuMemAllocHost_v2");
	b->pageable = malloc(b->bytes);
	if (!b->pageable)
		die("no memory");
	memset(b->pageable, 1, b->bytes);
	memset(b->pinned, 1, b->bytes);
}

int main(int argc, char **argv)
{
	struct bench b = { .rounds = 15, .launches = 1000, .threads = 4, .bytes = 64 * MIB };
	const struct load_option options[] = {
		{ .name = "--device", .number = &b.ordinal },
		{ .name = "--rounds", .number = &b.rounds },
		{ .name = "--launches", .number = &b.launches },
		{ .name = "--threads", .number = &b.threads },
		{ .name = "--bytes", .number = &b.bytes },
		{ .name = NULL },
	};

	(void)argc;
	load_options(argv, options);
	if (!b.rounds || b.rounds > ROUNDS_MAX || !b.launches || !b.threads ||
		b.threads > THREADS_MAX || b.bytes < 4096)
		die("an option is out of range");
	cuda_open();
	load_open(&b.load, (int)b.ordinal, 0);
	prepare_bench(&b);
	measure_launches(&b, "launch", 0, run_launch);
	measure_launches(&b, "launch_all", 0, run_launch_all);
	measure_launches(&b, "threads", 0, run_threads);
	measure_launches(&b, "event", 0, run_event);
	measure_launches(&b, "sync_loop", 0, run_sync_loop);
	measure_launches(&b, "graph", 0, run_graph);
	for (uint64_t bytes = 4096; bytes; bytes = bytes < MIB       ? MIB
						   : bytes < b.bytes ? b.bytes
								     : 0) {
		if (bytes > b.bytes)
			break;
		measure_launches(&b, "to", bytes, run_to);
		measure_launches(&b, "from", bytes, run_from);
		measure_launches(&b, "to_async", bytes, run_to_async);
	}
	free(b.pageable);
	(void)printf("result=ok\n");
	return 0;
}
