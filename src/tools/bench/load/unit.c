/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/load/unit.h"

#include "tools/bench/load/kernels.h"

#define THREADS       256
#define BLOCKS_PER_SM 8
#define MP_COUNT      16  /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
#define MPS_ENABLED   133 /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED */
#define NON_BLOCKING  1
#define RELAXED       2  /* capture mode */
#define WORD          16 /* bytes that a thread of stream copies at a time */

#define TRIES        5 /* the shortest counts: others only make it longer */
#define AT_ONCE      4 /* one that waits for its launch looks longer than it is */
#define STEPS        16
#define FIRST_ROUNDS 1000
#define NEAR         0.01

static const char *const names[] = {
	[UNIT_BURN] = "burn",
	[UNIT_STREAM] = "stream",
	[UNIT_NOP] = "nop",
	[UNIT_BAD] = "bad_address",
};

static void launch_one(const struct unit *u)
{
	uint64_t rounds = u->plan.rounds, words = u->plan.bytes / WORD;
	CUdeviceptr from = u->from, to = u->to;
	void *of_burn[] = { &rounds }, *of_stream[] = { &to, &from, &words };
	void **args = u->plan.kernel == UNIT_BURN     ? of_burn
		      : u->plan.kernel == UNIT_STREAM ? of_stream
						      : NULL;

	must(cu.cuLaunchKernel(u->function, u->blocks, 1, 1, THREADS, 1, 1, 0, u->stream, args,
		     NULL),
		"cuLaunchKernel");
}

static void make_graph(struct unit *u)
{
	CUgraph g;

	must(cu.cuStreamBeginCapture_v2(u->stream, RELAXED), "cuStreamBeginCapture");
	for (uint32_t i = 0; i < u->plan.kernels; i++)
		launch_one(u);
	must(cu.cuStreamEndCapture(u->stream, &g), "cuStreamEndCapture");
	must(cu.cuGraphInstantiateWithFlags(&u->graph, g, 0), "cuGraphInstantiateWithFlags");
	must(cu.cuGraphDestroy(g), "cuGraphDestroy");
}

static CUdeviceptr allocate(uint64_t bytes)
{
	CUdeviceptr p;

	must(cu.cuMemAlloc_v2(&p, bytes), "cuMemAlloc");
	must(cu.cuMemsetD8_v2(p, 0, bytes), "cuMemsetD8");
	return p;
}

/* Reserved, and not written to: that takes no time. */
static void hold(struct unit *u)
{
	CUdeviceptr p;

	must(cu.cuMemGetInfo_v2(&u->free, &u->total), "cuMemGetInfo");
	u->held = (uint64_t)u->free / 100 * u->plan.hold;
	if (u->held)
		must(cu.cuMemAlloc_v2(&p, u->held), "cuMemAlloc");
}

void unit_open(struct unit *u, const struct unit_plan *p)
{
	CUmodule m;
	int sms = 0;

	*u = (struct unit){ .plan = *p };
	must(cu.cuDeviceGet(&u->device, 0), "cuDeviceGet");
	must(cu.cuDeviceGetAttribute(&sms, MP_COUNT, u->device), "cuDeviceGetAttribute");
	must(cu.cuDevicePrimaryCtxRetain(&u->context, u->device), "cuDevicePrimaryCtxRetain");
	must(cu.cuCtxSetCurrent(u->context), "cuCtxSetCurrent");
	must(cu.cuModuleLoadData(&m, load_kernels), "cuModuleLoadData");
	must(cu.cuModuleGetFunction(&u->function, m, names[p->kernel]), "cuModuleGetFunction");
	must(cu.cuStreamCreate(&u->stream, NON_BLOCKING), "cuStreamCreate");
	u->multiprocessors = (uint32_t)sms;
	u->blocks = p->blocks ? p->blocks : u->multiprocessors * BLOCKS_PER_SM;
	if (p->kernel == UNIT_STREAM) {
		u->from = allocate(p->bytes);
		u->to = allocate(p->bytes);
	}
	if (p->graph)
		make_graph(u);
	must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
	hold(u);
}

void unit_launch(const struct unit *u, uint32_t units)
{
	for (uint32_t k = 0; k < units; k++) {
		if (u->graph) {
			must(cu.cuGraphLaunch(u->graph, u->stream), "cuGraphLaunch");
			continue;
		}
		for (uint32_t i = 0; i < u->plan.kernels; i++)
			launch_one(u);
	}
}

void unit_wait(const struct unit *u)
{
	must(cu.cuStreamSynchronize(u->stream), "cuStreamSynchronize");
}

int unit_under_mps(const struct unit *u)
{
	int mps = 0;

	return cu.cuDeviceGetAttribute(&mps, MPS_ENABLED, u->device) == CUDA_SUCCESS ? mps != 0
										     : -1;
}

static uint64_t measure(const struct unit *u, const CUevent *e)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		float ms = 0;
		uint64_t ns;

		launch_one(u);
		must(cu.cuEventRecord(e[0], u->stream), "cuEventRecord");
		for (int k = 0; k < AT_ONCE; k++)
			launch_one(u);
		must(cu.cuEventRecord(e[1], u->stream), "cuEventRecord");
		unit_wait(u);
		must(cu.cuEventElapsedTime(&ms, e[0], e[1]), "cuEventElapsedTime");
		ns = (uint64_t)((double)ms * 1e6 / AT_ONCE);
		best = ns < best ? ns : best;
	}
	return best ? best : 1;
}

uint64_t unit_calibrate(struct unit *u, uint64_t kernel_ns)
{
	uint64_t took = 0;
	CUevent e[2];

	for (int i = 0; i < 2; i++)
		must(cu.cuEventCreate(&e[i], 0), "cuEventCreate");
	if (u->plan.kernel == UNIT_BURN)
		u->plan.rounds = FIRST_ROUNDS;
	for (int i = 0; i < STEPS; i++) {
		double ratio;

		took = measure(u, e);
		ratio = (double)kernel_ns / (double)took;
		if (u->plan.kernel != UNIT_BURN || (ratio > 1 - NEAR && ratio < 1 + NEAR))
			break;
		/* A start takes time besides the rounds: not too far at once. */
		ratio = ratio > 16 ? 16 : ratio < 1.0 / 16 ? 1.0 / 16 : ratio;
		u->plan.rounds = (uint64_t)((double)u->plan.rounds * ratio);
		u->plan.rounds = u->plan.rounds ? u->plan.rounds : 1;
	}
	for (int i = 0; i < 2; i++)
		must(cu.cuEventDestroy_v2(e[i]), "cuEventDestroy");
	return took;
}
