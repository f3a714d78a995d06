/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/load/work-unit.h"

#include "lib/base/buf.h"
#include "lib/base/time.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- the driver --- */

struct cuda_table cu;

static void print_load_error(const char *text)
{
	json_t *o = json_pack("{s:s}", "error", text);
	char *line = o ? json_dumps(o, JSON_COMPACT) : NULL;

	(void)printf("%s\n", line ? line : "{\"error\":\"out of memory\"}");
	(void)fflush(stdout);
}

void load_exit_with_error(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	print_load_error(text);
	_exit(1);
}

void cuda_check_result(CUresult r, const char *what)
{
	const char *name = NULL;

	if (r == CUDA_SUCCESS)
		return;
	if (!cu.cuGetErrorName || cu.cuGetErrorName(r, &name) != CUDA_SUCCESS)
		name = NULL;
	load_exit_with_error("%s: %s (%u)", what, name ? name : "CUDA error", r);
}

void cuda_open(void)
{
	void *lib = dlopen(CUDA_SONAME, RTLD_NOW);

	if (!lib) {
		print_load_error(dlerror());
		_exit(LOAD_EXIT_NO_DRIVER);
	}
#define X(name, params) *(void **)&cu.name = dlsym(lib, #name);
	CUDA_FUNCTIONS(X)
#undef X
	if (!cu.cuInit)
		load_exit_with_error("%s has no cuInit", CUDA_SONAME);
	cuda_check_result(cu.cuInit(0), "cuInit");
}

/* --- a unit of work --- */

#define THREADS       256
#define BLOCKS_PER_SM 8
#define MP_COUNT      16  /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
#define MPS_ENABLED   133 /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED */
#define NON_BLOCKING  1
#define RELAXED       2  /* capture mode */
#define WORD          16 /* bytes that a thread of "stream" copies at a time */

#define TRIES        5 /* the shortest time counts, as disturbances only add time */
#define AT_ONCE      4 /* kernels per measurement; alone, one includes its launch delay */
#define STEPS        16
#define FIRST_ROUNDS 1000
#define NEAR         0.01

static const char *const names[] = {
	[WORK_UNIT_BURN] = "burn",
	[WORK_UNIT_STREAM] = "stream",
	[WORK_UNIT_NOP] = "nop",
	[WORK_UNIT_BAD] = "bad_address",
};

static void launch_one(const struct work_unit *u)
{
	uint64_t rounds = u->plan.rounds, words = u->plan.bytes / WORD;
	CUdeviceptr from = u->from, to = u->to;
	void *of_burn[] = { &rounds }, *of_stream[] = { &to, &from, &words };
	void **args = u->plan.kernel == WORK_UNIT_BURN     ? of_burn
		      : u->plan.kernel == WORK_UNIT_STREAM ? of_stream
							   : NULL;

	cuda_check_result(cu.cuLaunchKernel(u->function, u->blocks, 1, 1, THREADS, 1, 1, 0,
				  u->stream, args, NULL),
		"cuLaunchKernel");
}

static void make_graph(struct work_unit *u)
{
	CUgraph g;

	cuda_check_result(cu.cuStreamBeginCapture_v2(u->stream, RELAXED),
		"cuStreamBeginCapture");
	for (uint32_t i = 0; i < u->plan.kernels; i++)
		launch_one(u);
	cuda_check_result(cu.cuStreamEndCapture(u->stream, &g), "cuStreamEndCapture");
	cuda_check_result(cu.cuGraphInstantiateWithFlags(&u->graph, g, 0),
		"cuGraphInstantiateWithFlags");
	cuda_check_result(cu.cuGraphDestroy(g), "cuGraphDestroy");
}

static CUdeviceptr allocate_unit_buffer(uint64_t bytes)
{
	CUdeviceptr p;

	cuda_check_result(cu.cuMemAlloc_v2(&p, bytes), "cuMemAlloc");
	cuda_check_result(cu.cuMemsetD8_v2(p, 0, bytes), "cuMemsetD8");
	return p;
}

/* Allocates memory without writing to it, which takes no time. */
static void reserve_unit_memory(struct work_unit *u)
{
	CUdeviceptr p;

	cuda_check_result(cu.cuMemGetInfo_v2(&u->free, &u->total), "cuMemGetInfo");
	u->held = (uint64_t)u->free / 100 * u->plan.reserve_percent;
	if (u->held)
		cuda_check_result(cu.cuMemAlloc_v2(&p, u->held), "cuMemAlloc");
}

void work_unit_open(struct work_unit *u, const struct work_unit_plan *p)
{
	CUmodule m;
	int sms = 0;

	*u = (struct work_unit){ .plan = *p };
	cuda_check_result(cu.cuDeviceGet(&u->device, 0), "cuDeviceGet");
	cuda_check_result(cu.cuDeviceGetAttribute(&sms, MP_COUNT, u->device),
		"cuDeviceGetAttribute");
	cuda_check_result(cu.cuDevicePrimaryCtxRetain(&u->context, u->device),
		"cuDevicePrimaryCtxRetain");
	cuda_check_result(cu.cuCtxSetCurrent(u->context), "cuCtxSetCurrent");
	cuda_check_result(cu.cuModuleLoadData(&m, load_kernels), "cuModuleLoadData");
	cuda_check_result(cu.cuModuleGetFunction(&u->function, m, names[p->kernel]),
		"cuModuleGetFunction");
	cuda_check_result(cu.cuStreamCreate(&u->stream, NON_BLOCKING), "cuStreamCreate");
	u->multiprocessors = (uint32_t)sms;
	u->blocks = p->blocks ? p->blocks : u->multiprocessors * BLOCKS_PER_SM;
	if (p->kernel == WORK_UNIT_STREAM) {
		u->from = allocate_unit_buffer(p->bytes);
		u->to = allocate_unit_buffer(p->bytes);
	}
	if (p->graph)
		make_graph(u);
	cuda_check_result(cu.cuCtxSynchronize(), "cuCtxSynchronize");
	reserve_unit_memory(u);
}

void work_unit_launch(const struct work_unit *u, uint32_t units)
{
	for (uint32_t k = 0; k < units; k++) {
		if (u->graph) {
			cuda_check_result(cu.cuGraphLaunch(u->graph, u->stream),
				"cuGraphLaunch");
			continue;
		}
		for (uint32_t i = 0; i < u->plan.kernels; i++)
			launch_one(u);
	}
}

void work_unit_wait(const struct work_unit *u)
{
	cuda_check_result(cu.cuStreamSynchronize(u->stream), "cuStreamSynchronize");
}

int work_unit_probe_mps(const struct work_unit *u)
{
	int mps = 0;

	return cu.cuDeviceGetAttribute(&mps, MPS_ENABLED, u->device) == CUDA_SUCCESS ? mps != 0
										     : -1;
}

static uint64_t measure_kernel_time(const struct work_unit *u, const CUevent *e)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		float ms = 0;
		uint64_t ns;

		launch_one(u);
		cuda_check_result(cu.cuEventRecord(e[0], u->stream), "cuEventRecord");
		for (int k = 0; k < AT_ONCE; k++)
			launch_one(u);
		cuda_check_result(cu.cuEventRecord(e[1], u->stream), "cuEventRecord");
		work_unit_wait(u);
		cuda_check_result(cu.cuEventElapsedTime(&ms, e[0], e[1]), "cuEventElapsedTime");
		ns = (uint64_t)((double)ms * 1e6 / AT_ONCE);
		best = ns < best ? ns : best;
	}
	return best ? best : 1;
}

uint64_t work_unit_calibrate(struct work_unit *u, uint64_t kernel_ns)
{
	uint64_t took = 0;
	CUevent e[2];

	for (int i = 0; i < 2; i++)
		cuda_check_result(cu.cuEventCreate(&e[i], 0), "cuEventCreate");
	if (u->plan.kernel == WORK_UNIT_BURN)
		u->plan.rounds = FIRST_ROUNDS;
	for (int i = 0; i < STEPS; i++) {
		double ratio;

		took = measure_kernel_time(u, e);
		ratio = (double)kernel_ns / (double)took;
		if (u->plan.kernel != WORK_UNIT_BURN || (ratio > 1 - NEAR && ratio < 1 + NEAR))
			break;
		/* A launch takes time besides the rounds, so a step changes the rounds by at most 16 times. */
		ratio = ratio > 16 ? 16 : ratio < 1.0 / 16 ? 1.0 / 16 : ratio;
		u->plan.rounds = (uint64_t)((double)u->plan.rounds * ratio);
		u->plan.rounds = u->plan.rounds ? u->plan.rounds : 1;
	}
	for (int i = 0; i < 2; i++)
		cuda_check_result(cu.cuEventDestroy_v2(e[i]), "cuEventDestroy");
	return took;
}

/* --- all memory --- */

#define PIECE_FIRST    (UINT64_C(64) << 20)
#define PIECE_LAST     (UINT64_C(2) << 20) /* smallest allocation unit of GPUs */
#define FILL_BYTES_MAX (UINT64_C(4) << 40)

void fill_run(struct memory_fill *ret)
{
	uint64_t piece = PIECE_FIRST;

	*ret = (struct memory_fill){ .refusal = CUDA_SUCCESS };
	while (piece >= PIECE_LAST && ret->bytes < FILL_BYTES_MAX) {
		uint64_t from = time_mono_ns();
		CUdeviceptr p;
		CUresult r = cu.cuMemAlloc_v2(&p, piece);

		if (r == CUDA_SUCCESS) {
			ret->bytes += piece;
			continue;
		}
		if (ret->refusal == CUDA_SUCCESS) {
			ret->refusal = r;
			ret->refusal_ns = time_mono_ns() - from;
		}
		if (r != CUDA_ERROR_OUT_OF_MEMORY) {
			ret->refusal = r;
			return;
		}
		piece /= 2;
	}
}
