/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every form of submitting work, in an order of chance, with all results compared bit by bit with what the
 * CPU makes of the same steps.
 *
 *	cuda-mix [--device N] [--rounds N] [--seed N] [--threads N] [--check-every N] [--burn ROUNDS]
 *	         [--only NAME] [--list] [--verbose]
 *
 * Without --rounds each step runs once, in the order of the list; else so many of chance. So many --threads
 * (2) launch and copy besides, in streams and buffers of their own, which are compared too. --burn: so many
 * rounds of work in front of each step, so that queues are long. The last line has the number of steps,
 * those that the driver lacks, and a hash of the buffers: the same seed makes the same hash, alone or
 * beside others.
 */
#include "lib/base/time.h"
#include "cuda/mix/mix.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX   64
#define STEPS_MAX     256
#define STEP_FACTOR   UINT32_C(1664525)
#define RELAXED       2
#define FORMAT_UINT32 3
#define BURN_BLOCKS   64

struct side {
	pthread_t thread;
	struct mix mix; /* a copy: the context and the kernels */
	unsigned int number;
	unsigned long laps;
	atomic_bool *over;
};

void mix_fail(const struct mix *m, const char *fmt, ...)
{
	va_list ap;

	(void)printf("result=failed step=%s reason=\"", m->name);
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)printf("\"\n");
	(void)fflush(stdout);
	_Exit(1);
}

bool mix_lacks(CUresult r, const char *what)
{
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		return true;
	must(r, what);
	return false;
}

uint32_t mix_random(struct mix *m, uint32_t n)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return (uint32_t)(m->random >> 32) % n;
}

struct mix_span mix_span(struct mix *m)
{
	struct mix_span s = { .buffer = mix_random(m, MIX_BUFFERS) };

	s.first = mix_random(m, MIX_WORDS - 1);
	s.count = 1 + mix_random(m, MIX_WORDS - s.first);
	return s;
}

CUdeviceptr mix_at(const struct mix *m, struct mix_span s)
{
	return m->at[s.buffer] + (CUdeviceptr)s.first * 4;
}

uint32_t *mix_shadow(const struct mix *m, struct mix_span s)
{
	return m->shadow[s.buffer] + s.first;
}

void mix_launch_init(struct mix *m, struct mix_launch *l, struct mix_span s)
{
	*l = (struct mix_launch){ .p = mix_at(m, s),
		.count = s.count,
		.c = mix_random(m, UINT32_MAX) };
	l->params[0] = &l->p;
	l->params[1] = &l->count;
	l->params[2] = &l->c;
}

static void step_shadow(uint32_t *words, size_t count, uint32_t c)
{
	for (size_t i = 0; i < count; i++)
		words[i] = words[i] * STEP_FACTOR + c;
}

void mix_stepped(const struct mix *m, struct mix_span s, uint32_t c)
{
	step_shadow(mix_shadow(m, s), s.count, c);
}

void mix_settle(const struct mix *m)
{
	must(cu.cuStreamSynchronize(m->stream), "cuStreamSynchronize");
}

/* Work of other threads while the steps run. */

static void compare_buffers(const struct mix *m, const char *what, const uint32_t *found,
	const uint32_t *expected)
{
	for (size_t i = 0; i < MIX_WORDS; i++)
		if (found[i] != expected[i])
			mix_fail(m, "%s: word %zu is %08x instead of %08x", what, i, found[i],
				expected[i]);
}

static void side_lap(struct mix *m, CUstream s, uint32_t *host)
{
	struct mix_span all = { .buffer = MIX_X, .count = MIX_WORDS };
	struct mix_launch l;

	for (int i = 0; i < 8; i++) {
		mix_launch_init(m, &l, all);
		must(cu.cuLaunchKernel(m->step, 4, 1, 1, MIX_BLOCK, 1, 1, 0, s, l.params, NULL),
			"cuLaunchKernel of another thread");
		mix_stepped(m, all, l.c);
	}
	must(cu.cuMemcpyDtoHAsync_v2(host, m->at[MIX_X], sizeof(uint32_t) * MIX_WORDS, s),
		"cuMemcpyDtoHAsync_v2 of another thread");
	must(cu.cuStreamSynchronize(s), "cuStreamSynchronize of another thread");
	compare_buffers(m, "another thread", host, m->shadow[MIX_X]);
}

/* The second thread must not invalidate captures: of its calls only launches and copies in its own stream
 * affect a capture. */
static void *side_main(void *arg)
{
	struct side *side = arg;
	struct mix *m = &side->mix;
	unsigned int relaxed = RELAXED;
	uint32_t *host;

	m->name = "beside";
	m->random = UINT64_C(0x9E3779B97F4A7C15) + side->number;
	m->shadow[MIX_X] = calloc(MIX_WORDS, sizeof(uint32_t));
	if (!m->shadow[MIX_X])
		die("no memory");
	must(cu.cuCtxSetCurrent(m->context), "cuCtxSetCurrent");
	must(cu.cuThreadExchangeStreamCaptureMode(&relaxed), "exchange the capture mode");
	must(cu.cuStreamCreate(&m->stream, NON_BLOCKING), "cuStreamCreate");
	must(cu.cuMemAlloc_v2(&m->at[MIX_X], sizeof(uint32_t) * MIX_WORDS), "cuMemAlloc_v2");
	must(cu.cuMemAllocHost_v2((void **)&host, sizeof(uint32_t) * MIX_WORDS),
		"cuMemAllocHost_v2");
	must(cu.cuMemsetD8Async(m->at[MIX_X], 0, sizeof(uint32_t) * MIX_WORDS, m->stream),
		"cuMemsetD8Async");
	do {
		side_lap(m, m->stream, host);
		side->laps++;
	} while (!atomic_load(side->over));
	must(cu.cuMemFreeHost(host), "cuMemFreeHost");
	must(cu.cuMemFree_v2(m->at[MIX_X]), "cuMemFree_v2");
	must(cu.cuStreamDestroy_v2(m->stream), "cuStreamDestroy_v2");
	free(m->shadow[MIX_X]);
	return NULL;
}

/* --- the steps --- */

static void open_all(struct mix *m, int ordinal)
{
	CUDA_ARRAY_DESCRIPTOR row = { .Width = MIX_WORDS,
		.Format = FORMAT_UINT32,
		.NumChannels = 1 };
	CUmodule again;
	int devices = 1;
	CUdevice far;

	m->device = cuda_start(ordinal, &m->context);
	must(cu.cuDeviceGetCount(&devices), "cuDeviceGetCount");
	must(cu.cuDeviceGet(&far, (ordinal + 1) % devices), "cuDeviceGet");
	must(cu.cuCtxCreate_v2(&m->other, 0, far), "cuCtxCreate_v2");
	must(cu.cuMemAlloc_v2(&m->far, sizeof(uint32_t) * MIX_WORDS), "cuMemAlloc_v2");
	must(cu.cuCtxSetCurrent(m->context), "cuCtxSetCurrent");
	must(cu.cuModuleLoadData(&m->module, kernels()), "cuModuleLoadData");
	must(cu.cuModuleGetFunction(&m->step, m->module, "step32"), "step32");
	must(cu.cuModuleLoadData(&again, kernels()), "cuModuleLoadData");
	must(cu.cuModuleGetFunction(&m->set, again, "step32"), "step32");
	must(cu.cuModuleGetFunction(&m->fill, m->module, "fill32"), "fill32");
	must(cu.cuModuleGetFunction(&m->add, m->module, "add32"), "add32");
	must(cu.cuModuleGetFunction(&m->nop, m->module, "nop"), "nop");
	must(cu.cuModuleGetFunction(&m->burn, m->module, "burn"), "burn");
	must(cu.cuStreamCreate(&m->stream, NON_BLOCKING), "cuStreamCreate");
	must(cu.cuStreamCreate(&m->second, NON_BLOCKING), "cuStreamCreate");
	m->pageable = calloc(MIX_WORDS, sizeof(uint32_t));
	must(cu.cuMemAllocHost_v2((void **)&m->pinned, sizeof(uint32_t) * MIX_WORDS),
		"cuMemAllocHost_v2");
	for (int i = 0; i < MIX_BUFFERS; i++) {
		must(cu.cuMemAlloc_v2(&m->at[i], sizeof(uint32_t) * MIX_WORDS),
			"cuMemAlloc_v2");
		must(cu.cuMemsetD8Async(m->at[i], 0, sizeof(uint32_t) * MIX_WORDS, m->stream),
			"cuMemsetD8Async");
		must(cu.cuArrayCreate_v2(&m->arrays[i], &row), "cuArrayCreate_v2");
		m->shadow[i] = calloc(MIX_WORDS, sizeof(uint32_t));
		if (!m->shadow[i] || !m->pageable)
			die("no memory");
	}
	mix_settle(m);
}

static void close_all(struct mix *m)
{
	for (int i = 0; i < MIX_BUFFERS; i++) {
		free(m->shadow[i]);
		must(cu.cuArrayDestroy(m->arrays[i]), "cuArrayDestroy");
		must(cu.cuMemFree_v2(m->at[i]), "cuMemFree_v2");
	}
	free(m->pageable);
	must(cu.cuMemFreeHost(m->pinned), "cuMemFreeHost");
	must(cu.cuCtxDestroy_v2(m->other), "cuCtxDestroy_v2");
}

static void check_shadow(struct mix *m)
{
	static uint32_t found[MIX_WORDS];

	mix_settle(m);
	for (int i = 0; i < MIX_BUFFERS; i++) {
		must(cu.cuMemcpyDtoH_v2(found, m->at[i], sizeof(found)), "cuMemcpyDtoH_v2");
		compare_buffers(m, i == MIX_X ? "x" : "y", found, m->shadow[i]);
	}
	if (atomic_load(&m->host_calls) != m->host_expected)
		mix_fail(m, "%u calls of host functions instead of %u",
			atomic_load(&m->host_calls), m->host_expected);
}

static uint64_t hash_of(const struct mix *m)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (int i = 0; i < MIX_BUFFERS; i++)
		for (size_t k = 0; k < MIX_WORDS; k++)
			h = (h ^ m->shadow[i][k]) * UINT64_C(0x100000001b3);
	return h;
}

static unsigned int collect_steps(struct mix_step *ret)
{
	static const struct mix_step *const lists[] = { mix_launch_steps, mix_copy_steps,
		mix_graph_steps, mix_other_steps };
	unsigned int n = 0;

	for (unsigned int i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		for (const struct mix_step *s = lists[i]; s->name && n < STEPS_MAX; s++)
			ret[n++] = *s;
	return n;
}

static void put_work(const struct mix *m, uint64_t rounds)
{
	if (rounds)
		must(cu.cuLaunchKernel(m->burn, BURN_BLOCKS, 1, 1, MIX_BLOCK, 1, 1, 0,
			     m->stream, (void *[]){ &rounds }, NULL),
			"cuLaunchKernel of burn");
}

struct options {
	uint64_t ordinal, rounds, seed, threads, check_every, burn;
	const char *only;
	bool list, verbose;
};

static void run_mix(struct mix *m, const struct options *o)
{
	struct mix_step steps[STEPS_MAX];
	unsigned int n = collect_steps(steps);
	uint64_t count = o->rounds ? o->rounds : n, ran = 0, lacking = 0;

	for (uint64_t i = 0; i < count; i++) {
		const struct mix_step *s = &steps[o->rounds ? mix_random(m, n) : i];
		bool has;

		if (o->only && strcmp(o->only, s->name) != 0)
			continue;
		m->name = s->name;
		put_work(m, o->burn);
		has = s->run(m);
		ran += has;
		lacking += !has;
		if (o->verbose || (!has && !o->rounds))
			(void)printf("step=%s %s\n", s->name, has ? "ok" : "lacking");
		if (i % o->check_every == 0)
			check_shadow(m);
	}
	m->name = "end";
	check_shadow(m);
	(void)printf("result=ok steps=%llu lacking=%llu hash=%016llx\n",
		(unsigned long long)ran, (unsigned long long)lacking,
		(unsigned long long)hash_of(m));
}

static void read_options(char **argv, struct options *o)
{
	for (int i = 1; argv[i]; i++) {
		static const char *const names[] = { "--device", "--rounds", "--seed",
			"--threads", "--check-every", "--burn" };
		uint64_t *const values[] = { &o->ordinal, &o->rounds, &o->seed, &o->threads,
			&o->check_every, &o->burn };
		unsigned int k = 0;

		while (k < 6 && strcmp(argv[i], names[k]) != 0)
			k++;
		if (k < 6)
			*values[k] = number(argv[++i], names[k]);
		else if (strcmp(argv[i], "--only") == 0 && argv[i + 1])
			o->only = argv[++i];
		else if (strcmp(argv[i], "--list") == 0)
			o->list = true;
		else if (strcmp(argv[i], "--verbose") == 0)
			o->verbose = true;
		else
			die("unknown option '%s'", argv[i]);
		if (!argv[i])
			break;
	}
	if (!o->check_every || o->threads > THREADS_MAX)
		die("an option is out of range");
}

int main(int argc, char **argv)
{
	struct options o = { .seed = 1, .threads = 2, .check_every = 1 };
	struct mix m = { .name = "start" };
	struct side sides[THREADS_MAX];
	atomic_bool over = false;

	(void)argc;
	read_options(argv, &o);
	if (o.list) {
		struct mix_step steps[STEPS_MAX];
		unsigned int n = collect_steps(steps);

		for (unsigned int i = 0; i < n; i++)
			(void)printf("%s\n", steps[i].name);
		return 0;
	}
	cuda_open();
	m.random = o.seed * UINT64_C(0x9E3779B97F4A7C15) | 1;
	open_all(&m, (int)o.ordinal);
	for (unsigned int i = 0; i < o.threads; i++) {
		sides[i] = (struct side){ .mix = m, .number = i, .over = &over };
		if (pthread_create(&sides[i].thread, NULL, side_main, &sides[i]) != 0)
			die("no thread");
	}
	run_mix(&m, &o);
	atomic_store(&over, true);
	for (unsigned int i = 0; i < o.threads; i++)
		(void)pthread_join(sides[i].thread, NULL);
	close_all(&m);
	return 0;
}
