/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/load/load.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCKS_PER_SM 8
#define THREADS       256
#define TRIES         5 /* the shortest counts: others only make it longer */
#define STEPS         16
#define FIRST_ROUNDS  1000
#define NON_BLOCKING  1
#define MP_COUNT      16  /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
#define MPS_ENABLED   133 /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED, from CUDA 12.1 on */

atomic_bool load_stop;

void load_options(char **argv, const struct load_option *options)
{
	for (int i = 1; argv[i]; i++) {
		const struct load_option *o = options;

		while (o->name && strcmp(o->name, argv[i]) != 0)
			o++;
		if (!o->name)
			die("unknown option '%s'", argv[i]);
		if (o->flag) {
			*o->flag = true;
			continue;
		}
		i++;
		if (!argv[i])
			die("%s needs a value", o->name);
		if (o->text)
			*o->text = argv[i];
		else
			*o->number = number(argv[i], o->name);
	}
}

void load_open(struct load *l, int ordinal, unsigned int blocks)
{
	CUmodule m;
	int sms = 0, mps = 0;

	l->device = cuda_start(ordinal, &l->context);
	must(cu.cuModuleLoadData(&m, kernels()), "cuModuleLoadData");
	must(cu.cuModuleGetFunction(&l->burn, m, "burn"), "burn");
	must(cu.cuModuleGetFunction(&l->nop, m, "nop"), "nop");
	must(cu.cuModuleGetFunction(&l->spin, m, "spin"), "spin");
	must(cu.cuDeviceGetAttribute(&sms, MP_COUNT, l->device), "cuDeviceGetAttribute");
	l->sms = (unsigned int)sms;
	l->mps = cu.cuDeviceGetAttribute(&mps, MPS_ENABLED, l->device) == CUDA_SUCCESS && mps;
	l->blocks = blocks ? blocks : l->sms * BLOCKS_PER_SM;
	l->threads = THREADS;
}

void load_enter(const struct load *l)
{
	must(cu.cuCtxSetCurrent(l->context), "cuCtxSetCurrent");
}

void load_launch(const struct load *l, CUstream stream)
{
	uint64_t rounds = l->rounds;
	void *args[] = { &rounds };

	if (rounds == 0)
		must(cu.cuLaunchKernel(l->nop, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL),
			"cuLaunchKernel");
	else
		must(cu.cuLaunchKernel(l->burn, l->blocks, 1, 1, l->threads, 1, 1, 0, stream,
			     args, NULL),
			"cuLaunchKernel");
}

CUstream load_stream(void)
{
	CUstream s;

	must(cu.cuStreamCreate(&s, NON_BLOCKING), "cuStreamCreate");
	return s;
}

/* Several at once: a single kernel that waits for its launch seems longer than it is. */
static uint64_t measure_kernel(const struct load *l, CUstream s, const CUevent *e)
{
	enum { AT_ONCE = 4 };
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		float ms = 0;
		uint64_t ns;

		load_launch(l, s);
		must(cu.cuEventRecord(e[0], s), "cuEventRecord");
		for (int k = 0; k < AT_ONCE; k++)
			load_launch(l, s);
		must(cu.cuEventRecord(e[1], s), "cuEventRecord");
		must(cu.cuStreamSynchronize(s), "cuStreamSynchronize");
		must(cu.cuEventElapsedTime(&ms, e[0], e[1]), "cuEventElapsedTime");
		ns = (uint64_t)((double)ms * 1e6 / (double)AT_ONCE);
		best = ns < best ? ns : best;
	}
	return best ? best : 1;
}

void load_calibrate(struct load *l, uint64_t ns)
{
	CUstream s = load_stream();
	CUevent e[2];

	for (int i = 0; i < 2; i++)
		must(cu.cuEventCreate(&e[i], 0), "cuEventCreate");
	l->rounds = FIRST_ROUNDS;
	for (int i = 0; i < STEPS; i++) {
		double ratio;

		l->kernel_ns = measure_kernel(l, s, e);
		ratio = (double)ns / (double)l->kernel_ns;
		if (ratio > 0.99 && ratio < 1.01)
			break;
		/* A start takes time besides the rounds: not too far at once. */
		ratio = ratio > 16 ? 16 : ratio < 1.0 / 16 ? 1.0 / 16 : ratio;
		l->rounds = (uint64_t)((double)l->rounds * ratio);
		l->rounds = l->rounds ? l->rounds : 1;
	}
	for (int i = 0; i < 2; i++)
		must(cu.cuEventDestroy_v2(e[i]), "cuEventDestroy_v2");
	must(cu.cuStreamDestroy_v2(s), "cuStreamDestroy_v2");
}

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&load_stop, true);
}

void load_catch_signals(void)
{
	const struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	(void)sigaction(SIGTERM, &a, NULL);
	(void)sigaction(SIGINT, &a, NULL);
}

void load_sleep_until(uint64_t at_ns)
{
	struct timespec t = { .tv_sec = (time_t)(at_ns / NS_PER_SEC),
		.tv_nsec = (long)(at_ns % NS_PER_SEC) };

	while (at_ns && !atomic_load(&load_stop) &&
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

void load_samples_open(struct load_samples *s, size_t room)
{
	*s = (struct load_samples){ .ns = calloc(room, sizeof(*s->ns)), .room = room };
	if (!s->ns)
		die("no memory for %zu samples", room);
}

void load_sample(struct load_samples *s, uint64_t ns)
{
	if (s->count < s->room)
		s->ns[s->count++] = ns;
	else
		s->lost++;
}

static int compare_load_samples(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void load_samples_sort(struct load_samples *s)
{
	qsort(s->ns, s->count, sizeof(*s->ns), compare_load_samples);
}

uint64_t load_percentile(const struct load_samples *s, unsigned int permille)
{
	size_t rank = (s->count * permille + 999) / 1000;

	return s->count ? s->ns[rank ? rank - 1 : 0] : 0;
}
