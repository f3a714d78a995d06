/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/cuda/lib.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "testbed/sim/cuda/node.h"
#include "testbed/sim/cuda/mps.h"

struct sim_cuda_lib sim_cuda = { .lock = PTHREAD_MUTEX_INITIALIZER, .driver_version = 13000 };

static atomic_bool ready, orphan, ended;

/* Objects. */

#define MAGIC       UINT32_C(0x53434F00)
#define BLOCK_BYTES 65536

static struct sim_cuda_object *unused[OBJ_KINDS];

/* All blocks, for leak checkers: they find what the objects hold. */
static struct sim_object_block {
	_Alignas(16) struct sim_object_block *next;
	_Alignas(16) char objects[];
} * blocks;

/* Divides a new block into objects of one kind. No block is ever freed. */
static bool refill_unused_objects(enum obj_kind kind, size_t size)
{
	size_t n = size > BLOCK_BYTES / 4 ? 1 : BLOCK_BYTES / size;
	struct sim_object_block *block = calloc(1, sizeof(*block) + size * n);

	if (!block)
		return false;
	block->next = blocks;
	blocks = block;
	while (n-- > 0) {
		struct sim_cuda_object *o =
			(struct sim_cuda_object *)(void *)(block->objects + n * size);

		o->next = unused[kind];
		unused[kind] = o;
	}
	return true;
}

void *obj_new(enum obj_kind kind, size_t size)
{
	struct sim_cuda_object *o;
	uint32_t serial;

	size = (size + 15) & ~(size_t)15;
	if (!unused[kind] && !refill_unused_objects(kind, size))
		return NULL;
	o = unused[kind];
	unused[kind] = o->next;
	serial = o->serial + 1;
	memset(o, 0, size);
	*o = (struct sim_cuda_object){ .magic = MAGIC + kind, .serial = serial };
	return o;
}

void obj_drop(void *object, enum obj_kind kind)
{
	struct sim_cuda_object *o = object;

	o->magic = MAGIC;
	o->next = unused[kind];
	unused[kind] = o;
}

bool obj_is(const void *object, enum obj_kind kind)
{
	const struct sim_cuda_object *o = object;

	return o && ((uintptr_t)o & 15) == 0 && o->magic == MAGIC + kind;
}

/* --- entry --- */

bool lib_is_orphan(void)
{
	return atomic_load_explicit(&orphan, memory_order_relaxed);
}

/* Whether exit() has begun. */
static bool lib_has_ended(void)
{
	return atomic_load_explicit(&ended, memory_order_relaxed);
}

/* Frees nothing, as threads of the program may still be in calls. The end of the process frees all. */
static void on_exit_begun(void)
{
	atomic_store(&ended, true);
}

CUresult sim_cuda_enter(void)
{
	if (lib_has_ended())
		return CUDA_ERROR_DEINITIALIZED;
	if (!atomic_load_explicit(&ready, memory_order_acquire) || lib_is_orphan())
		return CUDA_ERROR_NOT_INITIALIZED;
	(void)pthread_mutex_lock(&sim_cuda.lock);
	return CUDA_SUCCESS;
}

CUresult sim_cuda_enter_device(CUdevice d, struct sim_cuda_device **ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (d < 0 || (unsigned)d >= sim_cuda.device_count)
		return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	*ret = &sim_cuda.devices[d];
	return CUDA_SUCCESS;
}

CUresult sim_cuda_enter_ctx(struct sim_cuda_ctx **ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	*ret = ctx_current(&r);
	return r ? sim_cuda_leave(r) : CUDA_SUCCESS;
}

unsigned int cuda_lib_stub(void)
{
	CUresult r = sim_cuda_enter();

	return r ? r : sim_cuda_leave(CUDA_ERROR_NOT_SUPPORTED);
}

uint64_t thread_id(void)
{
	static _Atomic uint64_t last;
	static _Thread_local uint64_t own;

	if (!own)
		own = atomic_fetch_add(&last, 1) + 1;
	return own;
}

void lib_spin(uint64_t ns)
{
	uint64_t end;

	if (!ns)
		return;
	end = time_mono_ns() + ns;
	while (time_mono_ns() < end)
		;
}

/* --- init --- */

static void fork_child(void)
{
	if (!atomic_load(&ready))
		return;
	atomic_store(&orphan, true);
	gpu_forget();
	mps_forget();
}

static uint64_t env_ns(const char *name)
{
	const char *text = getenv(name);
	uint64_t v;

	return text && parse_u64(text, &v) ? v : 0;
}

static void init_cuda_lib_once(void)
{
	sim_cuda.launch_ns = env_ns("GPUSLICE_SIM_LAUNCH_NS");
	sim_cuda.event_ns = env_ns("GPUSLICE_SIM_EVENT_NS");
	(void)pthread_atfork(NULL, NULL, fork_child);
	(void)atexit(on_exit_begun);
}

EXPORT CUresult cuInit(unsigned int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	CUresult r = CUDA_SUCCESS;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (lib_has_ended())
		return CUDA_ERROR_DEINITIALIZED;
	if (lib_is_orphan())
		return CUDA_ERROR_NOT_INITIALIZED;
	(void)pthread_once(&once, init_cuda_lib_once);
	(void)pthread_mutex_lock(&sim_cuda.lock);
	if (!atomic_load(&ready))
		r = node_open();
	if (r == CUDA_SUCCESS)
		atomic_store_explicit(&ready, true, memory_order_release);
	return sim_cuda_leave(r);
}

EXPORT CUresult cuDriverGetVersion(int *ret)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	(void)pthread_mutex_lock(&sim_cuda.lock);
	*ret = sim_cuda.driver_version;
	return sim_cuda_leave(CUDA_SUCCESS);
}
