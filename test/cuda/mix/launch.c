/* SPDX-License-Identifier: Apache-2.0 */

/* All forms of launching a kernel. */
#include "cuda/mix/mix.h"

#include <string.h>

#define LAUNCH_BUFFER ((void *)1)
#define LAUNCH_SIZE   ((void *)2)
#define LAUNCH_END    ((void *)0)
#define BURST         60

static bool launch_plain(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l;

	mix_launch_init(m, &l, s);
	MIX_TRY(cu.cuLaunchKernel(m->step, 3, 1, 1, MIX_BLOCK, 1, 1, 0, m->stream, l.params,
		NULL));
	mix_stepped(m, s, l.c);
	return true;
}

/* The three arguments as one block. */
static size_t pack_arguments(const struct mix_launch *l, unsigned char *ret)
{
	memcpy(ret, &l->p, 8);
	memcpy(ret + 8, &l->count, 8);
	memcpy(ret + 16, &l->c, 4);
	return 20;
}

static bool block_of_arguments(struct mix *m)
{
	struct mix_span s = mix_span(m);
	unsigned char block[24];
	struct mix_launch l;
	size_t len;

	mix_launch_init(m, &l, s);
	len = pack_arguments(&l, block);
	MIX_TRY(cu.cuLaunchKernel(m->step, 1, 1, 1, MIX_BLOCK, 1, 1, 0, m->stream, NULL,
		(void *[]){ LAUNCH_BUFFER, block, LAUNCH_SIZE, &len, LAUNCH_END }));
	mix_stepped(m, s, l.c);
	return true;
}

/* The default stream, and that of the thread: neither waits for ours. */
static bool legacy_stream(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l;

	mix_launch_init(m, &l, s);
	mix_settle(m);
	MIX_TRY(cu.cuLaunchKernel(m->step, 2, 1, 1, MIX_BLOCK, 1, 1, 0, NULL, l.params, NULL));
	must(cu.cuStreamSynchronize(NULL), "cuStreamSynchronize");
	mix_stepped(m, s, l.c);
	return true;
}

static bool thread_stream(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l;

	MIX_NEED(cuLaunchKernel_ptsz);
	mix_launch_init(m, &l, s);
	mix_settle(m);
	MIX_TRY(cu.cuLaunchKernel_ptsz(m->step, 2, 1, 1, MIX_BLOCK, 1, 1, 0, NULL, l.params,
		NULL));
	must(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD), "cuStreamSynchronize");
	mix_stepped(m, s, l.c);
	return true;
}

static bool launch_cooperative(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l;

	MIX_NEED(cuLaunchCooperativeKernel);
	mix_launch_init(m, &l, s);
	MIX_TRY(cu.cuLaunchCooperativeKernel(m->step, 2, 1, 1, MIX_BLOCK, 1, 1, 0, m->stream,
		l.params));
	mix_stepped(m, s, l.c);
	return true;
}

static bool cooperative_ptsz(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l;

	MIX_NEED(cuLaunchCooperativeKernel_ptsz);
	mix_launch_init(m, &l, s);
	MIX_TRY(cu.cuLaunchCooperativeKernel_ptsz(m->step, 2, 1, 1, MIX_BLOCK, 1, 1, 0,
		m->stream, l.params));
	mix_stepped(m, s, l.c);
	return true;
}

/* Deprecated; drivers may refuse it where there is one device. */
static bool cooperative_several(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l;
	CUDA_LAUNCH_PARAMS p = { .function = m->step,
		.gridDimX = 2,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = MIX_BLOCK,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = m->stream };

	MIX_NEED(cuLaunchCooperativeKernelMultiDevice);
	mix_launch_init(m, &l, s);
	p.kernelParams = l.params;
	if (cu.cuLaunchCooperativeKernelMultiDevice(&p, 1, 0) != CUDA_SUCCESS)
		return false;
	mix_stepped(m, s, l.c);
	return true;
}

static CUlaunchConfig config_of(const struct mix *m, unsigned int blocks)
{
	return (CUlaunchConfig){ .gridDimX = blocks,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = MIX_BLOCK,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = m->stream };
}

static bool launch_by_ex(struct mix *m)
{
	CUlaunchConfig config = config_of(m, 3);
	struct mix_span s = mix_span(m);
	struct mix_launch l;

	MIX_NEED(cuLaunchKernelEx);
	mix_launch_init(m, &l, s);
	MIX_TRY(cu.cuLaunchKernelEx(&config, m->step, l.params, NULL));
	mix_stepped(m, s, l.c);
	return true;
}

static bool ex_ptsz(struct mix *m)
{
	CUlaunchConfig config = config_of(m, 3);
	struct mix_span s = mix_span(m);
	struct mix_launch l;

	MIX_NEED(cuLaunchKernelEx_ptsz);
	mix_launch_init(m, &l, s);
	MIX_TRY(cu.cuLaunchKernelEx_ptsz(&config, m->step, l.params, NULL));
	mix_stepped(m, s, l.c);
	return true;
}

static bool ex_cooperative(struct mix *m)
{
	CUlaunchAttribute a = { .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
		.value = { .number = 1 } };
	CUlaunchConfig config = config_of(m, 2);
	struct mix_span s = mix_span(m);
	struct mix_launch l;

	MIX_NEED(cuLaunchKernelEx);
	config.attrs = &a;
	config.numAttrs = 1;
	mix_launch_init(m, &l, s);
	MIX_TRY(cu.cuLaunchKernelEx(&config, m->step, l.params, NULL));
	mix_stepped(m, s, l.c);
	return true;
}

/* Each kernel may begin before the one in front has ended, so the kernels use different words. */
static bool launch_dependent(struct mix *m)
{
	CUlaunchAttribute a = { .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
		.value = { .number = 1 } };
	CUlaunchConfig config = config_of(m, 1);
	struct mix_span s = { .buffer = mix_random(m, MIX_BUFFERS), .count = 64 };
	struct mix_launch l[8];

	MIX_NEED(cuLaunchKernelEx);
	for (unsigned int i = 0; i < 8; i++) {
		s.first = i * 64;
		mix_launch_init(m, &l[i], s);
		config.attrs = i ? &a : NULL;
		config.numAttrs = i ? 1 : 0;
		MIX_TRY(cu.cuLaunchKernelEx(&config, m->step, l[i].params, NULL));
		mix_stepped(m, s, l[i].c);
	}
	return true;
}

/* Sets the launch parameters before the launch, in the function itself. No other step launches this
 * function: a launch of another kind resets the parameters, and fails because of them (H100). */
static bool set_parameters_first(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l;

	MIX_NEED(cuLaunchGridAsync);
	mix_launch_init(m, &l, s);
	MIX_TRY(cu.cuFuncSetBlockShape(m->set, MIX_BLOCK, 1, 1));
	MIX_TRY(cu.cuFuncSetSharedSize(m->set, 0));
	MIX_TRY(cu.cuParamSetSize(m->set, 20));
	MIX_TRY(cu.cuParamSetv(m->set, 0, &l.p, 8));
	MIX_TRY(cu.cuParamSetv(m->set, 8, &l.count, 8));
	MIX_TRY(cu.cuParamSeti(m->set, 16, l.c));
	MIX_TRY(cu.cuLaunchGridAsync(m->set, 2, 1, m->stream));
	mix_stepped(m, s, l.c);
	mix_settle(m);
	MIX_TRY(cu.cuLaunchGrid(m->set, 2, 1));
	mix_stepped(m, s, l.c);
	MIX_TRY(cu.cuLaunch(m->set));
	mix_stepped(m, s, l.c);
	must(cu.cuStreamSynchronize(NULL), "cuStreamSynchronize");
	return true;
}

static bool of_a_library(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l;
	CUlibrary library;
	CUkernel kernel;
	CUfunction as_function;

	MIX_NEED(cuLibraryLoadData);
	MIX_TRY(cu.cuLibraryLoadData(&library, kernels(), NULL, NULL, 0, NULL, NULL, 0));
	MIX_TRY(cu.cuLibraryGetKernel(&kernel, library, "step32"));
	mix_launch_init(m, &l, s);
	memcpy(&as_function, &kernel, sizeof(kernel)); /* it may stand where a function does */
	MIX_TRY(cu.cuLaunchKernel(as_function, 1, 1, 1, MIX_BLOCK, 1, 1, 0, m->stream, l.params,
		NULL));
	mix_stepped(m, s, l.c);
	mix_settle(m);
	MIX_TRY(cu.cuLibraryUnload(library));
	return true;
}

static bool launch_burst(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l;

	for (int i = 0; i < BURST; i++) {
		mix_launch_init(m, &l, s);
		MIX_TRY(cu.cuLaunchKernel(m->step, 1, 1, 1, MIX_BLOCK, 1, 1, 0, m->stream,
			l.params, NULL));
		MIX_TRY(cu.cuLaunchKernel(m->nop, 1, 1, 1, 32, 1, 1, 0, m->stream, NULL, NULL));
		mix_stepped(m, s, l.c);
	}
	return true;
}

/* Halves in two streams that know nothing of each other. */
static bool two_streams(struct mix *m)
{
	struct mix_span s = { .buffer = MIX_X, .count = MIX_WORDS };
	struct mix_launch l;

	mix_settle(m);
	for (int i = 0; i < 10; i++) {
		s.buffer = (unsigned int)i % MIX_BUFFERS;
		mix_launch_init(m, &l, s);
		MIX_TRY(cu.cuLaunchKernel(m->step, 2, 1, 1, MIX_BLOCK, 1, 1, 0,
			s.buffer ? m->second : m->stream, l.params, NULL));
		mix_stepped(m, s, l.c);
	}
	must(cu.cuStreamSynchronize(m->second), "cuStreamSynchronize");
	return true;
}

const struct mix_step mix_launch_steps[] = {
	{ "launch", launch_plain },
	{ "launch-block", block_of_arguments },
	{ "launch-legacy", legacy_stream },
	{ "launch-thread", thread_stream },
	{ "launch-cooperative", launch_cooperative },
	{ "launch-cooperative-ptsz", cooperative_ptsz },
	{ "launch-cooperative-several", cooperative_several },
	{ "launch-ex", launch_by_ex },
	{ "launch-ex-ptsz", ex_ptsz },
	{ "launch-ex-cooperative", ex_cooperative },
	{ "launch-programmatic", launch_dependent },
	{ "launch-set", set_parameters_first },
	{ "launch-library", of_a_library },
	{ "launch-burst", launch_burst },
	{ "launch-two-streams", two_streams },
	{ NULL, NULL },
};
