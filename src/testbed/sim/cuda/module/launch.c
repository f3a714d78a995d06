/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels: arguments, duration, effect. */
#include <stdlib.h>
#include <string.h>

#include "testbed/sim/cuda/module/module.h"

#define OTHER_NS      UINT64_C(5000)
#define NOP_NS        UINT64_C(1000)
#define THREADS_SM    2048
#define STEP_FACTOR   UINT32_C(1664525)
#define WORDS_IN_A_NS 250 /* of a GPU with 1 TB/s, at 4 bytes a word */

enum { LAUNCH_END = 0, LAUNCH_BUFFER = 1, LAUNCH_SIZE = 2 };

static uint64_t get_kernel_arg64(const struct cuda_work *w, unsigned i)
{
	const struct function *f = w->kernel.function;
	uint64_t v = 0;

	if (i < f->param_count && f->offsets[i] + f->sizes[i] <= w->kernel.args_len)
		memcpy(&v, w->kernel.args + f->offsets[i], f->sizes[i] < 8 ? f->sizes[i] : 8);
	return v;
}

/*
 * The argument is the work of each thread: 1 ns is one round of the loop. As many threads run at once as the
 * multiprocessors hold.
 */
static uint64_t burn_ns(const struct cuda_work *w, unsigned sm_count)
{
	const unsigned *g = w->kernel.grid, *b = w->kernel.block;
	double threads = (double)g[0] * g[1] * g[2] * b[0] * b[1] * b[2];
	double waves = threads / ((double)THREADS_SM * (sm_count ? sm_count : 1));
	double ns = (double)get_kernel_arg64(w, 0) * (waves > 1 ? waves : 1);

	return ns < 1e18 ? (uint64_t)ns : UINT64_MAX;
}

uint64_t kernel_ns(const struct cuda_work *w, unsigned sm_count)
{
	switch ((int)w->kernel.function->kernel) {
	case KERNEL_SPIN:
		return get_kernel_arg64(w, 0);
	case KERNEL_BURN:
		return NOP_NS + burn_ns(w, sm_count);
	case KERNEL_FILL32:
	case KERNEL_ADD32:
	case KERNEL_STEP32:
		return NOP_NS + get_kernel_arg64(w, 1) / WORDS_IN_A_NS;
	case KERNEL_STREAM: /* an element: reads 16 bytes, writes 16 bytes */
		return NOP_NS + get_kernel_arg64(w, 2) * 8 / WORDS_IN_A_NS;
	case KERNEL_NOP:
	case KERNEL_BAD:
	case KERNEL_TRAP:
		return NOP_NS;
	default:
		return OTHER_NS;
	}
}

CUresult kernel_error(const struct cuda_work *w)
{
	switch ((int)w->kernel.function->kernel) {
	case KERNEL_BAD:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case KERNEL_TRAP:
		return CUDA_ERROR_LAUNCH_FAILED;
	default:
		return CUDA_SUCCESS;
	}
}

bool kernel_has_effect(const struct cuda_work *w)
{
	enum kernel k = w->kernel.function->kernel;

	return k == KERNEL_FILL32 || k == KERNEL_ADD32 || k == KERNEL_STEP32;
}

static uint32_t effect_on(enum kernel k, uint32_t before, uint32_t v)
{
	switch ((int)k) {
	case KERNEL_ADD32:
		return before + v;
	case KERNEL_STEP32:
		return before * STEP_FACTOR + v;
	default:
		return v;
	}
}

void kernel_effect(const struct cuda_work *w)
{
	CUdeviceptr at = get_kernel_arg64(w, 0);
	uint64_t words = get_kernel_arg64(w, 1);
	uint32_t v = (uint32_t)get_kernel_arg64(w, 2);

	while (words) {
		struct memory_piece piece;
		uint32_t *to;
		uint64_t n;

		(void)pthread_mutex_lock(&sim_cuda.lock);
		if (words > UINT64_MAX / 8 || at % 4 ||
			(!range_at(at) && !space_contains(at)) ||
			piece_at(at, words * 4, &piece)) {
			ctx_fault(w->kernel.function->module->ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
			(void)pthread_mutex_unlock(&sim_cuda.lock);
			return;
		}
		(void)pthread_mutex_unlock(&sim_cuda.lock);
		to = (uint32_t *)(void *)piece.cpu;
		n = piece.bytes / 4;
		for (uint64_t i = 0; i < n; i++)
			to[i] = effect_on(w->kernel.function->kernel, to[i], v);
		(void)pthread_mutex_lock(&sim_cuda.lock);
		phys_drop(piece.pin);
		(void)pthread_mutex_unlock(&sim_cuda.lock);
		at += n * 4;
		words = piece.bytes % 4 ? 0 : words - n;
	}
}

/* --- work --- */

bool work_copy(struct cuda_work *to, const struct cuda_work *from)
{
	*to = *from;
	if (from->kind == WORK_KERNEL && from->kernel.args_len) {
		to->kernel.args = malloc(from->kernel.args_len);
		if (!to->kernel.args)
			return false;
		memcpy(to->kernel.args, from->kernel.args, from->kernel.args_len);
	}
	return true;
}

void work_clear(struct cuda_work *w)
{
	if (w->kind == WORK_KERNEL)
		free(w->kernel.args);
	*w = (struct cuda_work){ .kind = WORK_EMPTY };
}

/* Copies the arguments into one block, from a pointer to each, or from a block of the program. */
static CUresult copy_launch_args(struct cuda_work *w, void **params, void **extra)
{
	const struct function *f = w->kernel.function;
	const void *block = NULL;
	size_t len = 0;

	w->kernel.args_len = f->bytes;
	if (!f->bytes)
		return CUDA_SUCCESS;
	if (!params && !extra)
		return CUDA_ERROR_INVALID_VALUE;
	w->kernel.args = calloc(1, f->bytes);
	if (!w->kernel.args)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; params && i < f->param_count; i++)
		memcpy(w->kernel.args + f->offsets[i], params[i], f->sizes[i]);
	if (params)
		return CUDA_SUCCESS;
	for (; (uintptr_t)*extra != LAUNCH_END; extra += 2) {
		if ((uintptr_t)*extra == LAUNCH_BUFFER)
			block = extra[1];
		else if ((uintptr_t)*extra == LAUNCH_SIZE)
			memcpy(&len, extra[1], sizeof(len));
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (!block || len < f->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(w->kernel.args, block, f->bytes);
	return CUDA_SUCCESS;
}

CUresult kernel_work(const void *function, const unsigned *grid, const unsigned *block,
	unsigned shared, void **params, void **extra, struct cuda_work *ret)
{
	CUresult r;

	if (!obj_is(function, OBJ_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = (struct cuda_work){ .kind = WORK_KERNEL };
	memcpy(&ret->kernel.function, &function, sizeof(function));
	for (int i = 0; i < 3; i++) {
		if (!grid[i] || !block[i] || block[i] > (i == 2 ? 64 : 1024))
			return CUDA_ERROR_INVALID_VALUE;
		if (i && grid[i] > 65535)
			return CUDA_ERROR_INVALID_VALUE;
		ret->kernel.grid[i] = grid[i];
		ret->kernel.block[i] = block[i];
	}
	if ((uint64_t)block[0] * block[1] * block[2] > 1024 ||
		(int64_t)shared > ret->kernel.function->attributes[8])
		return CUDA_ERROR_INVALID_VALUE;
	ret->kernel.shared = shared;
	r = copy_launch_args(ret, params, extra);
	if (r)
		work_clear(ret);
	return r;
}

static CUresult launch_with(CUfunction h, const unsigned *grid, const unsigned *block,
	unsigned shared, CUstream stream, void **params, void **extra, bool programmatic)
{
	struct sim_cuda_ctx *c;
	struct sim_cuda_stream *s;
	struct cuda_work w;
	CUresult r;

	lib_spin(sim_cuda.launch_ns);
	for (bool waited = true; waited;) {
		waited = false;
		r = sim_cuda_enter_ctx(&c);
		if (r)
			return r;
		r = sim_cuda_find_stream(stream, &s);
		if (r == CUDA_SUCCESS && s->ctx != c)
			r = CUDA_ERROR_INVALID_HANDLE;
		if (r == CUDA_SUCCESS && !s->capture)
			r = queue_wait_launch_slot(s->queue, &waited);
		/* Other threads may have changed the handles while the lock was free. */
		if (waited && r == CUDA_SUCCESS)
			(void)sim_cuda_leave(r);
		else if (r)
			return sim_cuda_leave(r);
	}
	r = kernel_work(h, grid, block, shared, params, extra, &w);
	if (r)
		return sim_cuda_leave(r);
	w.kernel.programmatic = programmatic;
	if (w.kernel.function->module->ctx != s->ctx && !w.kernel.function->module->is_library)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r) {
		work_clear(&w);
		return sim_cuda_leave(r);
	}
	if (s->capture)
		return sim_cuda_leave(stream_add_work(s, &w));
	r = stream_add_work(s, &w);
	if (r == CUDA_SUCCESS)
		queue_launched(s->queue);
	return sim_cuda_leave(r);
}

static CUresult launch_function(CUfunction h, const unsigned *grid, const unsigned *block,
	unsigned shared, CUstream stream, void **params, void **extra)
{
	return launch_with(h, grid, block, shared, stream, params, extra, false);
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
	unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream h,
	void **params, void **extra)
{
	return launch_function(f, (unsigned[]){ gx, gy, gz }, (unsigned[]){ bx, by, bz },
		shared, h, params, extra);
}

EXPORT CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy,
	unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
	CUstream h, void **params, void **extra)
{
	return launch_function(f, (unsigned[]){ gx, gy, gz }, (unsigned[]){ bx, by, bz },
		shared, PER_THREAD(h), params, extra);
}

EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy,
	unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
	CUstream h, void **params)
{
	return launch_function(f, (unsigned[]){ gx, gy, gz }, (unsigned[]){ bx, by, bz },
		shared, h, params, NULL);
}

EXPORT CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy,
	unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
	CUstream h, void **params)
{
	return launch_function(f, (unsigned[]){ gx, gy, gz }, (unsigned[]){ bx, by, bz },
		shared, PER_THREAD(h), params, NULL);
}

static CUresult launch_ex(const CUlaunchConfig *c, CUfunction f, void **params, void **extra,
	CUstream h)
{
	const CUlaunchAttribute *a = c->attrs;
	bool programmatic = false;

	if (c->numAttrs && !a)
		return CUDA_ERROR_INVALID_VALUE;
	/* The simulator ignores the other attributes. */
	for (unsigned i = 0; i < c->numAttrs; i++)
		if (a[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
			programmatic = a[i].value.number != 0;
	return launch_with(f, (unsigned[]){ c->gridDimX, c->gridDimY, c->gridDimZ },
		(unsigned[]){ c->blockDimX, c->blockDimY, c->blockDimZ }, c->sharedMemBytes, h,
		params, extra, programmatic);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params,
	void **extra)
{
	return c ? launch_ex(c, f, params, extra, c->hStream) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *c, CUfunction f, void **params,
	void **extra)
{
	return c ? launch_ex(c, f, params, extra, PER_THREAD(c->hStream))
		 : CUDA_ERROR_INVALID_VALUE;
}

/* The first interface: the program sets the parameters before the launch. */

static CUresult enter_launch_function(CUfunction h, struct function **ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	*ret = (struct function *)h;
	return obj_is(h, OBJ_FUNCTION) ? CUDA_SUCCESS
				       : sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
}

EXPORT CUresult cuFuncSetBlockShape(CUfunction h, int x, int y, int z)
{
	struct function *f;
	CUresult r = enter_launch_function(h, &f);

	if (r)
		return r;
	if (x <= 0 || y <= 0 || z <= 0)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	memcpy(f->block, (unsigned[]){ (unsigned)x, (unsigned)y, (unsigned)z },
		sizeof(f->block));
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuFuncSetSharedSize(CUfunction h, unsigned int bytes)
{
	struct function *f;
	CUresult r = enter_launch_function(h, &f);

	if (r)
		return r;
	f->shared = bytes;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuParamSetSize(CUfunction h, unsigned int bytes)
{
	struct function *f;
	CUresult r = enter_launch_function(h, &f);

	return r ? r
		 : sim_cuda_leave(bytes <= sizeof(f->legacy_args) ? CUDA_SUCCESS
								  : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuParamSetv(CUfunction h, int offset, void *from, unsigned int bytes)
{
	struct function *f;
	CUresult r = enter_launch_function(h, &f);

	if (r)
		return r;
	if (offset < 0 || !from || (size_t)offset + bytes > sizeof(f->legacy_args))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	memcpy(f->legacy_args + offset, from, bytes);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuParamSeti(CUfunction h, int offset, unsigned int v)
{
	return cuParamSetv(h, offset, &v, sizeof(v));
}

EXPORT CUresult cuParamSetf(CUfunction h, int offset, float v)
{
	return cuParamSetv(h, offset, &v, sizeof(v));
}

EXPORT CUresult cuLaunchGridAsync(CUfunction h, int width, int height, CUstream stream)
{
	unsigned char args[sizeof(((struct function *)NULL)->legacy_args)];
	size_t len = sizeof(args);
	unsigned block[3], shared;
	struct function *f;
	CUresult r = enter_launch_function(h, &f);

	if (r)
		return r;
	memcpy(args, f->legacy_args, sizeof(args));
	memcpy(block, f->block, sizeof(block));
	shared = f->shared;
	(void)sim_cuda_leave(r);
	if (width <= 0 || height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	return launch_function(h, (unsigned[]){ (unsigned)width, (unsigned)height, 1 }, block,
		shared, stream, NULL,
		(void *[]){ (void *)LAUNCH_BUFFER, args, (void *)LAUNCH_SIZE, &len, NULL });
}

EXPORT CUresult cuLaunchGrid(CUfunction h, int width, int height)
{
	return cuLaunchGridAsync(h, width, height, NULL);
}

EXPORT CUresult cuLaunch(CUfunction h)
{
	return cuLaunchGridAsync(h, 1, 1, NULL);
}
