/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/container/cuda/memory-driver.h"

#include "unit/container/slice-arbiter.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct md_shared *md_shared;
int md_me;
struct memory_driver md;

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

struct slice_gpu_page *page(void)
{
	return &link_page()->gpus[0];
}

uint64_t used(void)
{
	return page()->granted - page()->credit;
}

uint64_t md_driver_bytes(void)
{
	return atomic_load(&md_shared->of[md_me]);
}

void md_driver_take(uint64_t bytes)
{
	/* A kill between these two leaves the total too low, never too high: no false alarm. */
	atomic_fetch_add(&md_shared->of[md_me], bytes);
	if ((int64_t)(atomic_fetch_add(&md_shared->total, bytes) + bytes) > (int64_t)LIMIT)
		atomic_fetch_add(&md_shared->over, 1);
	CHECK(!md.strict || used() >= md_driver_bytes());
}

void md_driver_give(uint64_t bytes)
{
	atomic_fetch_sub(&md_shared->total, bytes);
	atomic_fetch_sub(&md_shared->of[md_me], bytes);
	CHECK(!md.strict || used() >= md_driver_bytes());
}

static void run_hook_once(void (**fn)(void))
{
	void (*f)(void) = *fn;

	if (!f)
		return;
	*fn = NULL;
	f();
	CHECK(!md.strict || used() >= md_driver_bytes());
}

static CUresult d_fail(void)
{
	CUresult r = md.fail;

	md.fail = CUDA_SUCCESS;
	return r;
}

static int find_span(uint32_t n)
{
	for (int i = 0; i + (int)n <= SPAN; i++) {
		uint32_t k = 0;

		while (k < n && !md.taken[i + (int)k])
			k++;
		if (k == n)
			return i;
	}
	abort();
}

static uint64_t place_small(void)
{
	int at = -1;

	for (int i = 0; i < SPAN && at < 0; i++)
		if (md.slots[i] && md.slots[i] != UINT32_MAX)
			at = i;
	if (at < 0) {
		at = find_span(1);
		md.taken[at] = true;
		md_driver_take(G);
	}
	for (uint32_t k = 0; k < 32; k++) {
		if (md.slots[at] & 1U << k)
			continue;
		md.slots[at] |= 1U << k;
		return BASE + (uint64_t)at * G + k * SLOT;
	}
	abort();
}

static uint64_t place_large(uint64_t bytes)
{
	uint32_t n = (uint32_t)(round_up_to_granule(bytes) / G);
	int at = find_span(n);

	for (uint32_t k = 0; k < n; k++)
		md.taken[at + (int)k] = true;
	md.length[at] = n;
	md_driver_take(n * G);
	return BASE + (uint64_t)at * G;
}

static CUresult d_alloc(CUdeviceptr *ret, size_t bytes)
{
	CUresult r;

	pthread_mutex_lock(&driver_lock);
	r = d_fail();
	if (!r)
		*ret = bytes <= SMALL ? place_small() : place_large(bytes);
	pthread_mutex_unlock(&driver_lock);
	(void)sched_yield();
	return r;
}

static CUresult d_free(CUdeviceptr p)
{
	size_t at = (p - BASE) / G;
	CUresult r;

	run_hook_once(&md.before);
	pthread_mutex_lock(&driver_lock);
	r = d_fail();
	if (!r && p >= BASE && at < SPAN && md.slots[at]) {
		md.slots[at] &= ~(1U << (p % G / SLOT));
		if (!md.slots[at]) {
			md.taken[at] = false;
			md_driver_give(G);
		}
	} else if (!r && p >= BASE && at < SPAN && md.length[at]) {
		for (uint32_t k = 0; k < md.length[at]; k++)
			md.taken[at + k] = false;
		md_driver_give(md.length[at] * G);
		md.length[at] = 0;
	} else if (!r) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&driver_lock);
	run_hook_once(&md.after);
	(void)sched_yield();
	return r;
}

static CUresult d_pitch(CUdeviceptr *ret, size_t *pitch, size_t width, size_t height,
	unsigned int element)
{
	(void)element;
	*pitch = (width + 511) / 512 * 512;
	return d_alloc(ret, *pitch * height);
}

static CUresult d_managed(CUdeviceptr *ret, size_t bytes, unsigned int flags)
{
	static _Atomic uint64_t next = UINT64_C(0x10) << 40;

	(void)flags;
	*ret = atomic_fetch_add(&next, round_up_to_granule(bytes));
	return CUDA_SUCCESS;
}

static CUresult d_managed_or_free(CUdeviceptr p)
{
	if (p == IN_POOL && md.pool) {
		md_driver_give(md.pool);
		md.pool = 0;
		return CUDA_SUCCESS;
	}
	return p < BASE ? d_fail() : d_free(p);
}

static CUresult d_pool_attribute(CUmemoryPool pool, unsigned int attribute, void *value)
{
	CHECK(attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	*(uint64_t *)value = md.pool;
	return (uintptr_t)pool == IN_POOL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The first versions of functions. One thread. */

static CUresult d_alloc_low(CUdeviceptr_v1 *ret, unsigned int bytes)
{
	CUresult r = d_fail();

	for (unsigned int i = 1; i < LOW_MAX && !r; i++) {
		if (md.low[i])
			continue;
		md.low[i] = round_up_to_granule(bytes);
		md_driver_take(md.low[i]);
		*ret = i * (unsigned int)LOW;
		return CUDA_SUCCESS;
	}
	return r ? r : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult d_pitch_low(CUdeviceptr_v1 *ret, unsigned int *pitch, unsigned int width,
	unsigned int height, unsigned int element)
{
	(void)element;
	*pitch = (width + 511) / 512 * 512;
	return d_alloc_low(ret, *pitch * height);
}

static CUresult d_free_low(CUdeviceptr_v1 p)
{
	CUresult r = d_fail();

	if (r || p % LOW || p / LOW >= LOW_MAX || !md.low[p / LOW])
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	md_driver_give(md.low[p / LOW]);
	md.low[p / LOW] = 0;
	return CUDA_SUCCESS;
}

static CUresult d_info_low(unsigned int *free_bytes, unsigned int *total)
{
	*free_bytes = *total = UINT32_MAX;
	return CUDA_SUCCESS;
}

static void drop_handle(size_t i)
{
	if (md.handles[i].refs || md.handles[i].maps)
		return;
	md_driver_give(md.handles[i].bytes);
	md.handles[i].bytes = 0;
}

static CUresult d_create(CUmemGenericAllocationHandle *h, size_t bytes,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	(void)flags;
	pthread_mutex_lock(&driver_lock);
	for (size_t i = 0; i < HANDLES && r; i++) {
		if (md.handles[i].bytes)
			continue;
		md.handles[i].refs = 1;
		md.handles[i].bytes = bytes;
		if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
			md_driver_take(bytes);
		*h = 1000 + i;
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&driver_lock);
	(void)sched_yield();
	return r;
}

static CUresult d_release(CUmemGenericAllocationHandle h)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	run_hook_once(&md.before);
	pthread_mutex_lock(&driver_lock);
	if (md.handles[h - 1000].refs > 0) {
		md.handles[h - 1000].refs--;
		drop_handle(h - 1000);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&driver_lock);
	run_hook_once(&md.after);
	(void)sched_yield();
	return r;
}

/* Each granule of addresses has one handle. The handles of mappings are beyond SPAN. */
static CUresult d_map(CUdeviceptr p, size_t bytes, size_t offset,
	CUmemGenericAllocationHandle h, unsigned long long flags)
{
	(void)bytes;
	(void)offset;
	(void)flags;
	if (p < BASE * 2)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&driver_lock);
	md.handles[h - 1000].maps++;
	md.mapped[(p - BASE * 2) / G] = (int)(h - 1000) + 1;
	pthread_mutex_unlock(&driver_lock);
	return CUDA_SUCCESS;
}

static CUresult d_unmap(CUdeviceptr p, size_t bytes)
{
	pthread_mutex_lock(&driver_lock);
	for (uint64_t i = (p - BASE * 2) / G; i < (p - BASE * 2 + bytes) / G; i++) {
		int h = md.mapped[i] - 1;

		md.mapped[i] = 0;
		if (h < 0)
			continue;
		md.handles[h].maps--;
		drop_handle((size_t)h);
	}
	pthread_mutex_unlock(&driver_lock);
	(void)sched_yield();
	return CUDA_SUCCESS;
}

static CUresult d_retain_handle(CUmemGenericAllocationHandle *h, void *address)
{
	pthread_mutex_lock(&driver_lock);
	*h = 1000 + (uint64_t)md.mapped[((uintptr_t)address - BASE * 2) / G] - 1;
	md.handles[*h - 1000].refs++;
	pthread_mutex_unlock(&driver_lock);
	return CUDA_SUCCESS;
}

/* A process that imports its own export gets the handle that it already has. */
static CUresult d_import(CUmemGenericAllocationHandle *h, void *shared_handle,
	unsigned int type)
{
	(void)type;
	*h = *(CUmemGenericAllocationHandle *)shared_handle;
	md.handles[*h - 1000].refs++;
	return CUDA_SUCCESS;
}

static CUresult d_ipc_handle(CUipcMemHandle *handle, CUdeviceptr p)
{
	memset(handle, 0, sizeof(*handle));
	return p >= BASE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult d_address_handle(void *handle, CUdeviceptr p, size_t bytes, unsigned int type,
	unsigned long long flags)
{
	(void)bytes;
	(void)type;
	(void)flags;
	*(int *)handle = -1;
	return p >= BASE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult d_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr p)
{
	bool small = md.slots[(p - BASE) / G];

	*base = small ? p : p / G * G;
	*bytes = small ? SLOT : md.length[(p - BASE) / G] * G;
	return CUDA_SUCCESS;
}

static CUresult d_map_array(CUarrayMapInfo *maps, unsigned int n, CUstream stream)
{
	(void)maps;
	(void)n;
	(void)stream;
	return CUDA_SUCCESS;
}

static CUresult d_address_free(CUdeviceptr p, size_t bytes)
{
	return md.unmaps ? d_unmap(p, bytes) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult d_export(void *shared_handle, CUmemGenericAllocationHandle h, unsigned int type,
	unsigned long long flags)
{
	(void)shared_handle;
	(void)h;
	(void)type;
	(void)flags;
	return CUDA_SUCCESS;
}

static CUresult d_primary_retain(CUcontext *context, CUdevice device)
{
	CUresult r;

	(void)device;
	(void)usleep(2000);
	pthread_mutex_lock(&driver_lock);
	r = d_fail();
	if (!r && !md.primary_refs++)
		md_driver_take(PRIMARY);
	*context = (CUcontext)&md.primary_refs;
	pthread_mutex_unlock(&driver_lock);
	return r;
}

static void free_all_memory(void)
{
	for (int i = 0; i < SPAN; i++) {
		if (md.slots[i])
			md_driver_give(G);
		md_driver_give(md.length[i] * G);
		md.slots[i] = md.length[i] = 0;
		md.taken[i] = false;
	}
}

static CUresult d_primary_release(CUdevice device)
{
	(void)device;
	pthread_mutex_lock(&driver_lock);
	if (!--md.primary_refs) {
		free_all_memory();
		md_driver_give(PRIMARY);
	}
	pthread_mutex_unlock(&driver_lock);
	return CUDA_SUCCESS;
}

static CUresult d_primary_reset(CUdevice device)
{
	md_driver_give(md.pool);
	md.pool = 0;
	md.primary_refs = 1;
	return d_primary_release(device);
}

static CUresult d_green_create(CUgreenCtx *context, CUdevResourceDesc desc, CUdevice device,
	unsigned int flags)
{
	CUcontext primary;
	CUresult r;

	(void)desc;
	(void)flags;
	r = d_primary_retain(&primary, device);
	*context = (CUgreenCtx)((char *)&md + md.primary_refs);
	return r;
}

static CUresult d_from_green(CUcontext *context, CUgreenCtx green)
{
	*context = (CUcontext)green;
	return CUDA_SUCCESS;
}

static CUresult d_green_destroy(CUgreenCtx context)
{
	CUresult r = d_fail();

	(void)context;
	return r ? r : d_primary_release(3);
}

static CUresult d_primary_state(CUdevice device, unsigned int *flags, int *active)
{
	(void)device;
	*flags = 0;
	pthread_mutex_lock(&driver_lock);
	*active = md.primary_refs > 0;
	pthread_mutex_unlock(&driver_lock);
	return CUDA_SUCCESS;
}

static CUresult d_ctx_create(CUcontext *context, unsigned int flags, CUdevice device)
{
	(void)flags;
	(void)device;
	md.contexts++;
	md.context_refs = 1;
	*context = (CUcontext)&md.contexts;
	md_driver_take(300 * MIB);
	return d_fail();
}

static CUresult d_ctx_destroy(CUcontext context)
{
	CUresult r = d_fail();

	(void)context;
	if (!r) {
		free_all_memory();
		md_driver_give(300 * MIB);
		md.contexts--;
	}
	return r;
}

static CUresult d_attach(CUcontext *context, unsigned int flags)
{
	(void)flags;
	*context = (CUcontext)&md.contexts;
	md.context_refs++;
	return CUDA_SUCCESS;
}

static CUresult d_detach(CUcontext context)
{
	if (!md.fail && --md.context_refs)
		return CUDA_SUCCESS;
	return d_ctx_destroy(context);
}

static CUresult d_current(CUcontext *context)
{
	*context = md.contexts ? (CUcontext)&md.contexts : (CUcontext)&md.primary_refs;
	return CUDA_SUCCESS;
}

static CUresult d_device(CUdevice *device)
{
	*device = 3;
	return CUDA_SUCCESS;
}

static CUresult d_uuid(CUuuid *uuid, CUdevice device)
{
	memset(uuid, 0xee, sizeof(*uuid));
	if (device == 3)
		memcpy(uuid, slice_arbiter_uuid, sizeof(*uuid));
	return CUDA_SUCCESS;
}

static CUresult d_info(size_t *free_bytes, size_t *total)
{
	*total = 80 * 1024 * MIB;
	*free_bytes = md.real_free;
	return CUDA_SUCCESS;
}

static CUresult d_total(size_t *bytes, CUdevice device)
{
	(void)device;
	*bytes = 80 * 1024 * MIB;
	return CUDA_SUCCESS;
}

static CUresult d_total_v1(unsigned int *bytes, CUdevice device)
{
	(void)device;
	*bytes = UINT32_MAX;
	return CUDA_SUCCESS;
}

static CUresult d_init(unsigned int flags)
{
	(void)flags;
	return CUDA_SUCCESS;
}

static CUresult d_get_limit(size_t *value, unsigned int limit)
{
	*value = limit == CU_LIMIT_STACK_SIZE ? md.stack : 8 * MIB;
	return CUDA_SUCCESS;
}

static CUresult d_set_limit(unsigned int limit, size_t value)
{
	if (limit == CU_LIMIT_STACK_SIZE)
		md.stack = value;
	return CUDA_SUCCESS;
}

static CUresult d_attribute(int *value, unsigned int attribute, CUdevice device)
{
	(void)device;
	if (attribute == CU_DEVICE_ATTRIBUTE_MPS_ENABLED) {
		md.attributes++;
		*value = md.mps;
		return md.mps < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	}
	*value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 132 : 2048;
	return CUDA_SUCCESS;
}

static CUresult return_not_found(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

void *forward_slots[SLOTS_CUDA];

void *forward_resolve(unsigned int slot)
{
	(void)slot;
	return (void *)return_not_found;
}

#define SLOTS(X)                                           \
	X(cuMemAlloc, d_alloc_low)                         \
	X(cuMemAllocPitch, d_pitch_low)                    \
	X(cuMemFree, d_free_low)                           \
	X(cuMemGetInfo, d_info_low)                        \
	X(cuMemPoolGetAttribute, d_pool_attribute)         \
	X(cuMemImportFromShareableHandle, d_import)        \
	X(cuIpcGetMemHandle, d_ipc_handle)                 \
	X(cuMemGetHandleForAddressRange, d_address_handle) \
	X(cuMemGetAddressRange_v2, d_range)                \
	X(cuMemMapArrayAsync, d_map_array)                 \
	X(cuMemMapArrayAsync_ptsz, d_map_array)            \
	X(cuMemAddressFree, d_address_free)                \
	X(cuDevicePrimaryCtxReset, d_primary_reset)        \
	X(cuDevicePrimaryCtxReset_v2, d_primary_reset)     \
	X(cuGreenCtxCreate, d_green_create)                \
	X(cuGreenCtxDestroy, d_green_destroy)              \
	X(cuCtxFromGreenCtx, d_from_green)                 \
	X(cuCtxAttach, d_attach)                           \
	X(cuCtxDetach, d_detach)                           \
	X(cuMemAlloc_v2, d_alloc)                          \
	X(cuMemFree_v2, d_managed_or_free)                 \
	X(cuMemAllocPitch_v2, d_pitch)                     \
	X(cuMemAllocManaged, d_managed)                    \
	X(cuMemCreate, d_create)                           \
	X(cuMemRelease, d_release)                         \
	X(cuMemMap, d_map)                                 \
	X(cuMemUnmap, d_unmap)                             \
	X(cuMemRetainAllocationHandle, d_retain_handle)    \
	X(cuMemExportToShareableHandle, d_export)          \
	X(cuDevicePrimaryCtxRetain, d_primary_retain)      \
	X(cuDevicePrimaryCtxRelease_v2, d_primary_release) \
	X(cuDevicePrimaryCtxGetState, d_primary_state)     \
	X(cuCtxCreate_v2, d_ctx_create)                    \
	X(cuCtxDestroy_v2, d_ctx_destroy)                  \
	X(cuCtxGetCurrent, d_current)                      \
	X(cuCtxGetDevice, d_device)                        \
	X(cuCtxGetLimit, d_get_limit)                      \
	X(cuCtxSetLimit, d_set_limit)                      \
	X(cuDeviceGetAttribute, d_attribute)               \
	X(cuDeviceGetUuid_v2, d_uuid)                      \
	X(cuDeviceTotalMem, d_total_v1)                    \
	X(cuDeviceTotalMem_v2, d_total)                    \
	X(cuInit, d_init)                                  \
	X(cuMemGetInfo_v2, d_info)

void md_new(void)
{
#define FILL(name, fn) forward_slots[SLOT_##name] = (void *)(fn);
	SLOTS(FILL)
#undef FILL
	/* Each fake function has the type of the driver's function. */
#define TYPE(name, fn)                                                                     \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), __typeof__(&(fn))), \
		#name);
	SLOTS(TYPE)
#undef TYPE
	memset(&md, 0, sizeof(md));
	md.real_free = 70 * 1024 * MIB;
	md.stack = 1024;
	if (!md_shared)
		md_shared = mmap(NULL, sizeof(*md_shared), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(md_shared, 0, sizeof(*md_shared));
}
