/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of memory, contexts and figures between a small driver and an unkind arbiter. */
#include "lib/test.h"
#include "slice-arbiter.h"

#include "runtime/cuda/driver.h"
#include "runtime/cuda/lump.h"
#include "runtime/ledger.h"
#include "runtime/link.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB     (UINT64_C(1) << 20)
#define G       LEDGER_GRANULE
#define LIMIT   (1024 * MIB)
#define PRIMARY (518 * MIB)

#define CHECK(condition)                                                                   \
	do {                                                                               \
		if (!(condition)) {                                                        \
			(void)fprintf(stderr, "# %s:%d: not so: %s\n", __FILE__, __LINE__, \
				#condition);                                               \
			_exit(1);                                                          \
		}                                                                          \
	} while (0)

/* ---- a driver --------------------------------------------------------------------------------- */

/* Addresses from BASE, in granules; small ones in slots of a granule. Freed addresses and handles are
 * given again at once, which is the hardest case. */
#define BASE    (UINT64_C(0x7f) << 40)
#define SPAN    2048
#define SLOT    (UINT64_C(64) << 10)
#define HANDLES 64
#define LOW_MAX 16
#define LOW     (64 * MIB) /* between low pointers */
#define IN_POOL 0x5000     /* the pool's pointer, and its handle */
#define SMALL   (1 * MIB)

struct shared {
	_Atomic uint64_t total, of[8], over, refused, done;
	_Atomic bool stop;
};

static struct shared *shared;
static int me;

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	uint32_t slots[SPAN];  /* in use, of a chunk */
	uint32_t length[SPAN]; /* of a large one that begins here */
	bool taken[SPAN];
	struct {
		int refs, maps;
		uint64_t bytes;
	} handles[HANDLES];
	int mapped[SPAN]; /* handle + 1 */
	int primary_refs;
	int contexts;
	size_t stack;
	CUresult fail; /* the next free, alloc or destroy */
	/* As another thread would at that moment: before the next free or release does anything, after it. */
	void (*before)(void), (*after)(void);
	bool strict; /* one thread: what is held is never more than what is charged */
	uint64_t real_free;
	int context_refs;
	uint64_t pool;         /* that it holds */
	bool unmaps;           /* with the addresses, else they are refused */
	uint64_t low[LOW_MAX]; /* of pointers that fit into 32 bits */
} d;

static struct slice_gpu_page *page(void)
{
	return &link_page()->gpus[0];
}

static uint64_t used(void)
{
	return page()->granted - page()->credit;
}

static uint64_t held(void)
{
	return atomic_load(&shared->of[me]);
}

static void hold(uint64_t bytes)
{
	/* A kill between these two leaves the total too low, never too high: no false alarm. */
	atomic_fetch_add(&shared->of[me], bytes);
	if ((int64_t)(atomic_fetch_add(&shared->total, bytes) + bytes) > (int64_t)LIMIT)
		atomic_fetch_add(&shared->over, 1);
	CHECK(!d.strict || used() >= held());
}

static void unhold(uint64_t bytes)
{
	atomic_fetch_sub(&shared->total, bytes);
	atomic_fetch_sub(&shared->of[me], bytes);
	CHECK(!d.strict || used() >= held());
}

static void once(void (**fn)(void))
{
	void (*f)(void) = *fn;

	if (!f)
		return;
	*fn = NULL;
	f();
	CHECK(!d.strict || used() >= held());
}

static CUresult d_fail(void)
{
	CUresult r = d.fail;

	d.fail = CUDA_SUCCESS;
	return r;
}

static int find_span(uint32_t n)
{
	for (int i = 0; i + (int)n <= SPAN; i++) {
		uint32_t k = 0;

		while (k < n && !d.taken[i + (int)k])
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
		if (d.slots[i] && d.slots[i] != UINT32_MAX)
			at = i;
	if (at < 0) {
		at = find_span(1);
		d.taken[at] = true;
		hold(G);
	}
	for (uint32_t k = 0; k < 32; k++) {
		if (d.slots[at] & 1U << k)
			continue;
		d.slots[at] |= 1U << k;
		return BASE + (uint64_t)at * G + k * SLOT;
	}
	abort();
}

static uint64_t place_large(uint64_t bytes)
{
	uint32_t n = (uint32_t)(granules(bytes) / G);
	int at = find_span(n);

	for (uint32_t k = 0; k < n; k++)
		d.taken[at + (int)k] = true;
	d.length[at] = n;
	hold(n * G);
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

	once(&d.before);
	pthread_mutex_lock(&driver_lock);
	r = d_fail();
	if (!r && p >= BASE && at < SPAN && d.slots[at]) {
		d.slots[at] &= ~(1U << (p % G / SLOT));
		if (!d.slots[at]) {
			d.taken[at] = false;
			unhold(G);
		}
	} else if (!r && p >= BASE && at < SPAN && d.length[at]) {
		for (uint32_t k = 0; k < d.length[at]; k++)
			d.taken[at + k] = false;
		unhold(d.length[at] * G);
		d.length[at] = 0;
	} else if (!r) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&driver_lock);
	once(&d.after);
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
	*ret = atomic_fetch_add(&next, granules(bytes));
	return CUDA_SUCCESS;
}

static CUresult d_managed_or_free(CUdeviceptr p)
{
	if (p == IN_POOL && d.pool) {
		unhold(d.pool);
		d.pool = 0;
		return CUDA_SUCCESS;
	}
	return p < BASE ? d_fail() : d_free(p);
}

static CUresult d_pool_attribute(CUmemoryPool pool, unsigned int attribute, void *value)
{
	CHECK(attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	*(uint64_t *)value = d.pool;
	return (uintptr_t)pool == IN_POOL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The first versions of functions. One thread. */

static CUresult d_alloc_low(CUdeviceptr_v1 *ret, unsigned int bytes)
{
	CUresult r = d_fail();

	for (unsigned int i = 1; i < LOW_MAX && !r; i++) {
		if (d.low[i])
			continue;
		d.low[i] = granules(bytes);
		hold(d.low[i]);
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

	if (r || p % LOW || p / LOW >= LOW_MAX || !d.low[p / LOW])
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	unhold(d.low[p / LOW]);
	d.low[p / LOW] = 0;
	return CUDA_SUCCESS;
}

static CUresult d_info_low(unsigned int *free_bytes, unsigned int *total)
{
	*free_bytes = *total = UINT32_MAX;
	return CUDA_SUCCESS;
}

static void drop_handle(size_t i)
{
	if (d.handles[i].refs || d.handles[i].maps)
		return;
	unhold(d.handles[i].bytes);
	d.handles[i].bytes = 0;
}

static CUresult d_create(CUmemGenericAllocationHandle *h, size_t bytes,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	(void)flags;
	pthread_mutex_lock(&driver_lock);
	for (size_t i = 0; i < HANDLES && r; i++) {
		if (d.handles[i].bytes)
			continue;
		d.handles[i].refs = 1;
		d.handles[i].bytes = bytes;
		if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
			hold(bytes);
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

	once(&d.before);
	pthread_mutex_lock(&driver_lock);
	if (d.handles[h - 1000].refs > 0) {
		d.handles[h - 1000].refs--;
		drop_handle(h - 1000);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&driver_lock);
	once(&d.after);
	(void)sched_yield();
	return r;
}

/* One handle a granule of addresses; those of mappings are beyond SPAN's. */
static CUresult d_map(CUdeviceptr p, size_t bytes, size_t offset,
	CUmemGenericAllocationHandle h, unsigned long long flags)
{
	(void)bytes;
	(void)offset;
	(void)flags;
	if (p < BASE * 2)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&driver_lock);
	d.handles[h - 1000].maps++;
	d.mapped[(p - BASE * 2) / G] = (int)(h - 1000) + 1;
	pthread_mutex_unlock(&driver_lock);
	return CUDA_SUCCESS;
}

static CUresult d_unmap(CUdeviceptr p, size_t bytes)
{
	pthread_mutex_lock(&driver_lock);
	for (uint64_t i = (p - BASE * 2) / G; i < (p - BASE * 2 + bytes) / G; i++) {
		int h = d.mapped[i] - 1;

		d.mapped[i] = 0;
		if (h < 0)
			continue;
		d.handles[h].maps--;
		drop_handle((size_t)h);
	}
	pthread_mutex_unlock(&driver_lock);
	(void)sched_yield();
	return CUDA_SUCCESS;
}

static CUresult d_retain_handle(CUmemGenericAllocationHandle *h, void *address)
{
	pthread_mutex_lock(&driver_lock);
	*h = 1000 + (uint64_t)d.mapped[((uintptr_t)address - BASE * 2) / G] - 1;
	d.handles[*h - 1000].refs++;
	pthread_mutex_unlock(&driver_lock);
	return CUDA_SUCCESS;
}

/* Of its own export a process is given the handle that it has. */
static CUresult d_import(CUmemGenericAllocationHandle *h, void *shared_handle,
	unsigned int type)
{
	(void)type;
	*h = *(CUmemGenericAllocationHandle *)shared_handle;
	d.handles[*h - 1000].refs++;
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
	bool small = d.slots[(p - BASE) / G];

	*base = small ? p : p / G * G;
	*bytes = small ? SLOT : d.length[(p - BASE) / G] * G;
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
	return d.unmaps ? d_unmap(p, bytes) : CUDA_ERROR_INVALID_VALUE;
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
	if (!r && !d.primary_refs++)
		hold(PRIMARY);
	*context = (CUcontext)&d.primary_refs;
	pthread_mutex_unlock(&driver_lock);
	return r;
}

static void empty(void)
{
	for (int i = 0; i < SPAN; i++) {
		if (d.slots[i])
			unhold(G);
		unhold(d.length[i] * G);
		d.slots[i] = d.length[i] = 0;
		d.taken[i] = false;
	}
}

static CUresult d_primary_release(CUdevice device)
{
	(void)device;
	pthread_mutex_lock(&driver_lock);
	if (!--d.primary_refs) {
		empty();
		unhold(PRIMARY);
	}
	pthread_mutex_unlock(&driver_lock);
	return CUDA_SUCCESS;
}

static CUresult d_primary_reset(CUdevice device)
{
	unhold(d.pool);
	d.pool = 0;
	d.primary_refs = 1;
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
	*context = (CUgreenCtx)((char *)&d + d.primary_refs);
	return r;
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
	*active = d.primary_refs > 0;
	pthread_mutex_unlock(&driver_lock);
	return CUDA_SUCCESS;
}

static CUresult d_ctx_create(CUcontext *context, unsigned int flags, CUdevice device)
{
	(void)flags;
	(void)device;
	d.contexts++;
	d.context_refs = 1;
	*context = (CUcontext)&d.contexts;
	hold(300 * MIB);
	return d_fail();
}

static CUresult d_ctx_destroy(CUcontext context)
{
	CUresult r = d_fail();

	(void)context;
	if (!r) {
		empty();
		unhold(300 * MIB);
		d.contexts--;
	}
	return r;
}

static CUresult d_attach(CUcontext *context, unsigned int flags)
{
	(void)flags;
	*context = (CUcontext)&d.contexts;
	d.context_refs++;
	return CUDA_SUCCESS;
}

static CUresult d_detach(CUcontext context)
{
	if (!d.fail && --d.context_refs)
		return CUDA_SUCCESS;
	return d_ctx_destroy(context);
}

static CUresult d_current(CUcontext *context)
{
	*context = d.contexts ? (CUcontext)&d.contexts : (CUcontext)&d.primary_refs;
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
		memcpy(uuid, ta_uuid, sizeof(*uuid));
	return CUDA_SUCCESS;
}

static CUresult d_info(size_t *free_bytes, size_t *total)
{
	*total = 80 * 1024 * MIB;
	*free_bytes = d.real_free;
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
	*value = limit == CU_LIMIT_STACK_SIZE ? d.stack : 8 * MIB;
	return CUDA_SUCCESS;
}

static CUresult d_set_limit(unsigned int limit, size_t value)
{
	if (limit == CU_LIMIT_STACK_SIZE)
		d.stack = value;
	return CUDA_SUCCESS;
}

static CUresult d_attribute(int *value, unsigned int attribute, CUdevice device)
{
	(void)device;
	*value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 132 : 2048;
	return CUDA_SUCCESS;
}

static CUresult absent(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

void *forward_slots[SLOTS_CUDA];

void *forward_resolve(unsigned int slot)
{
	(void)slot;
	return (void *)absent;
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

static void driver_new(void)
{
#define FILL(name, fn) forward_slots[SLOT_##name] = (void *)(fn);
	SLOTS(FILL)
#undef FILL
	/* Of the right type each. */
#define TYPE(name, fn)                                                                     \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), __typeof__(&(fn))), \
		#name);
	SLOTS(TYPE)
#undef TYPE
	memset(&d, 0, sizeof(d));
	d.real_free = 70 * 1024 * MIB;
	d.stack = 1024;
	if (!shared)
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(shared, 0, sizeof(*shared));
}

/* ---- tests ------------------------------------------------------------------------------------ */

static char *dir;
static struct test_arbiter *arbiter;

static bool no_slice;
static unsigned int status_of_hello;

static void in_child(void (*fn)(void))
{
	int status = -1, go[2];
	pid_t pid;

	driver_new();
	assert_int_equal(pipe(go), 0);
	pid = fork(); /* before there are threads: what is a child of many has none (TSan) */
	if (!pid) {
		char byte;

		alarm(30);
		(void)close(go[1]);
		while (read(go[0], &byte, 1) > 0)
			;
		if (!no_slice)
			CHECK(!setenv("GPUSLICE_SLICE_DIR", dir, 1));
		d.strict = ledger_active() && link_page();
		fn();
		CHECK(!shared->over);
		CHECK(!link_page() || page()->begun == page()->done);
		_exit(0);
	}
	ta_start(arbiter, dir, LIMIT);
	atomic_store(&arbiter->status, status_of_hello);
	(void)close(go[0]);
	(void)close(go[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	ta_fini(arbiter);
	assert_int_equal(status, 0);
}

static void sizes(void)
{
	CUdeviceptr small[40], p, q;
	size_t pitch;

	for (size_t i = 0; i < 40; i++)
		CHECK(!cuMemAlloc_v2(&small[i], 100));
	CHECK(held() == 2 * G && used() == 2 * G && page()->seen == 2 * G);
	for (size_t i = 0; i < 40; i++)
		CHECK(!cuMemFree_v2(small[i]));
	CHECK(held() == 0 && used() == 0 && page()->seen == 0);
	CHECK(!cuMemAlloc_v2(&p, MIB + 1));
	CHECK(used() == G && held() == G);
	CHECK(!cuMemAllocPitch_v2(&q, &pitch, 1000, 10000, 4)); /* 10.24 MB */
	CHECK(used() == G + 5 * G && held() == used());
	CHECK(!cuMemFree_v2(p) && !cuMemFree_v2(q) && used() == 0);
	CHECK(!cuMemAllocManaged(&p, 10 * MIB, CU_MEM_ATTACH_GLOBAL));
	CHECK(used() == 10 * MIB && page()->seen == 0 && page()->unseen == 10 * MIB);
	CHECK(!cuMemFree_v2(p) && used() == 0 && page()->unseen == 0);
	/* What the driver refuses, or nobody knows. */
	CHECK(cuMemFree_v2(0x1234567) == CUDA_SUCCESS); /* d_fail() says so: passed on */
	d.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuMemAlloc_v2(&p, 5 * MIB) == CUDA_ERROR_ILLEGAL_ADDRESS && used() == 0);
	CHECK(!cuMemAlloc_v2(&p, 5 * MIB) && !cuMemAlloc_v2(&q, 5));
	d.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuMemFree_v2(p) == CUDA_ERROR_ILLEGAL_ADDRESS && used() == 8 * MIB);
	d.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuMemFree_v2(q) == CUDA_ERROR_ILLEGAL_ADDRESS && used() == 8 * MIB);
	CHECK(!cuMemFree_v2(p) && !cuMemFree_v2(q) && used() == 0);
}

static void memory__is_charged_as_the_driver_takes_it(void **state)
{
	(void)state;
	in_child(sizes);
}

static void full(void)
{
	CUdeviceptr p, q;
	size_t f, t;
	unsigned int t32;

	CHECK(!cuInit(0));
	CHECK(!cuMemAlloc_v2(&p, LIMIT - 4 * MIB));
	CHECK(cuMemAlloc_v2(&q, 5 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(!cuMemGetInfo_v2(&f, &t) && f == 4 * MIB && t == LIMIT);
	CHECK(arbiter->views == 1);
	atomic_store(&page()->alone, 1);
	CHECK(!cuMemGetInfo_v2(&f, &t) && f == 4 * MIB && t == LIMIT);
	CHECK(arbiter->views == 1);
	d.real_free = 3 * MIB;
	CHECK(!cuMemGetInfo_v2(&f, &t) && f == 3 * MIB);
	CHECK(!cuDeviceTotalMem_v2(&t, 3) && t == LIMIT);
	CHECK(!cuDeviceTotalMem_v2(&t, 2) && t == 80 * 1024 * MIB); /* not of the slice */
	CHECK(!cuDeviceTotalMem(&t32, 3) && t32 == LIMIT);
	CHECK(!cuDeviceTotalMem(&t32, 2) && t32 == UINT32_MAX);
	CHECK(!cuMemAlloc_v2(&q, 4 * MIB));
	CHECK(!cuMemGetInfo_v2(&f, &t) && f == 0);
	CHECK(cuMemAlloc_v2(&q, 1) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAllocManaged(&q, 1, 1) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void memory__ends_at_the_limit_and_says_so(void **state)
{
	(void)state;
	in_child(full);
}

static void refused(void)
{
	CUdeviceptr p;

	CHECK(cuInit(0) == CUDA_ERROR_SYSTEM_NOT_READY);
	CHECK(cuMemAlloc_v2(&p, 1) == CUDA_ERROR_OUT_OF_MEMORY && !held());
	/* It lets us in later. */
	atomic_store(&arbiter->status, SLICE_OK);
	(void)usleep(150 * 1000);
	CHECK(!cuInit(0) && !cuMemAlloc_v2(&p, 1) && used() == G);
}

static void init__fails_where_the_slice_is_not_served(void **state)
{
	(void)state;
	status_of_hello = SLICE_TOO_MANY;
	in_child(refused);
	status_of_hello = SLICE_OK;
}

static void outside(void)
{
	CUdeviceptr p;
	size_t f, t;

	CHECK(!cuInit(0) && !cuMemAlloc_v2(&p, 900 * MIB) && !cuMemFree_v2(p));
	CHECK(!cuMemGetInfo_v2(&f, &t) && t == 80 * 1024 * MIB && arbiter->hellos == 0);
}

static void memory__is_the_drivers_alone_in_no_slice(void **state)
{
	(void)state;
	no_slice = true;
	in_child(outside);
	no_slice = false;
}

static void handles(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	const uint64_t at = BASE * 2;
	CUmemGenericAllocationHandle h, again;

	/* The handle goes first, then the mapping. */
	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0) && used() == 4 * MIB);
	CHECK(!cuMemMap(at, 2 * MIB, 0, h, 0));
	CHECK(!cuMemRelease(h) && used() == 4 * MIB);
	CHECK(!cuMemRetainAllocationHandle(&again, (void *)at) && again == h);
	CHECK(!cuMemUnmap(at, 2 * MIB) && used() == 4 * MIB);
	CHECK(!cuMemRelease(again) && used() == 0 && held() == 0);
	CHECK(cuMemRelease(h) == CUDA_ERROR_INVALID_VALUE);
	/* Several mappings by one call; one that fails; one of two handles. */
	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0) && !cuMemCreate(&again, 2 * MIB, &prop, 0));
	CHECK(!cuMemMap(at, 2 * MIB, 0, h, 0) && !cuMemMap(at + G, 2 * MIB, 0, again, 0));
	CHECK(cuMemMap(5, 2 * MIB, 0, h, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(!cuMemRelease(h) && !cuMemRelease(again) && used() == 4 * MIB);
	CHECK(!cuMemUnmap(at, 4 * MIB) && used() == 0 && held() == 0 && page()->seen == 0);
	/* Others may have it still: only NVML knows. */
	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0));
	CHECK(!cuMemExportToShareableHandle(&again, h, 1, 0));
	CHECK(!cuMemRelease(h) && used() == 2 * MIB && page()->seen == 0);
	CHECK(arbiter->compares > 0);
	/* Of the host, or of a GPU that is not the slice's. */
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0) && used() == 2 * MIB);
	CHECK(!cuMemMap(at, 2 * MIB, 0, h, 0) && !cuMemUnmap(at, 2 * MIB));
	prop.location = (CUmemLocation){ CU_MEM_LOCATION_TYPE_DEVICE, 2 };
	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0) && used() == 2 * MIB);
	prop.location.id = 3;
	CHECK(cuMemCreate(&h, LIMIT, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void handles__cost_until_the_last_reference(void **state)
{
	(void)state;
	in_child(handles);
}

static CUdeviceptr other;
static CUmemGenericAllocationHandle other_handle;

static void free_other(void)
{
	CHECK(!cuMemFree_v2(other));
}

static void alloc_other(void)
{
	CHECK(!cuMemAlloc_v2(&other, 100));
}

static void pool_shrinks(void)
{
	unhold(d.pool);
	d.pool = 0;
}

static void unmap_other(void)
{
	CHECK(!cuMemUnmap(BASE * 2, G));
}

static void create_other(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };

	CHECK(!cuMemCreate(&other_handle, 6 * MIB, &prop, 0));
}

/* Two threads in the driver at once, one of which is held up there; the checks are in hold(), unhold()
 * and once(). */
static void orders(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	CUmemGenericAllocationHandle h;
	CUdeviceptr p;

	/* Both pointers of a chunk are freed at once. */
	CHECK(!cuMemAlloc_v2(&p, 100) && !cuMemAlloc_v2(&other, 100));
	d.before = free_other;
	CHECK(!cuMemFree_v2(p) && used() == 0);
	CHECK(!cuMemAlloc_v2(&p, 100) && !cuMemAlloc_v2(&other, 100));
	d.after = free_other;
	CHECK(!cuMemFree_v2(p) && used() == 0);
	/* The last one is freed while the next one comes, before the chunk goes and after. */
	CHECK(!cuMemAlloc_v2(&p, 100));
	d.before = alloc_other;
	CHECK(!cuMemFree_v2(p) && used() == G);
	CHECK(!cuMemFree_v2(other) && used() == 0);
	CHECK(!cuMemAlloc_v2(&p, 100));
	d.after = alloc_other;
	CHECK(!cuMemFree_v2(p) && used() == G && other == p);
	CHECK(!cuMemFree_v2(other) && used() == 0);
	/* The same address, larger: the old row must not take the new one's. */
	CHECK(!cuMemAlloc_v2(&p, 4 * MIB));
	d.after = alloc_other;
	CHECK(!cuMemFree_v2(p) && used() == G);
	CHECK(!cuMemFree_v2(other) && used() == 0 && page()->seen == 0);
	/* A handle and its mapping. */
	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0) && !cuMemMap(BASE * 2, G, 0, h, 0));
	d.before = unmap_other;
	CHECK(!cuMemRelease(h) && used() == 0);
	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0) && !cuMemMap(BASE * 2, G, 0, h, 0));
	d.after = unmap_other;
	CHECK(!cuMemRelease(h) && used() == 0);
	/* The handle is given again before the last reference was counted out: NVML will tell. */
	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0));
	d.after = create_other;
	CHECK(!cuMemRelease(h) && other_handle == h);
	CHECK(used() == 10 * MIB && page()->seen == 6 * MIB && held() == 6 * MIB);
	CHECK(!cuMemRelease(h) && page()->seen == 0 && used() == 4 * MIB);
}

static void charges__cover_the_driver_in_every_order(void **state)
{
	(void)state;
	in_child(orders);
}

static void *retain(void *arg)
{
	CUcontext context;

	return cuDevicePrimaryCtxRetain(&context, 3) ? arg : NULL;
}

static void primary(void)
{
	pthread_t threads[8];
	CUdeviceptr p;
	void *bad;

	/* Two bounds do not fit. */
	for (size_t i = 0; i < 8; i++)
		CHECK(!pthread_create(&threads[i], NULL, retain, &bad));
	for (size_t i = 0; i < 8; i++)
		CHECK(!pthread_join(threads[i], &bad) && !bad);
	CHECK(used() == 600 * MIB && page()->seen == 0 && arbiter->compares == 1);
	CHECK(!cuMemAlloc_v2(&p, 100 * MIB) && !cuMemAlloc_v2(&p, 100));
	CHECK(used() == 702 * MIB);
	for (size_t i = 0; i < 7; i++)
		CHECK(!cuDevicePrimaryCtxRelease_v2(3));
	CHECK(used() == 702 * MIB && arbiter->compares == 1);
	CHECK(!cuDevicePrimaryCtxRelease_v2(3));
	CHECK(used() == 600 * MIB && page()->seen == 0 && arbiter->compares == 2 && !held());
	/* As the arbiter does when it has looked. */
	atomic_fetch_add(&page()->credit, 600 * MIB);
	d.fail = CUDA_ERROR_DEVICE_UNAVAILABLE;
	CHECK(retain(&bad) && used() == 0);
	CHECK(!retain(&bad) && used() == 600 * MIB);
	CHECK(!retain(&bad) && used() == 600 * MIB);
}

static void contexts__are_charged_once_for_many_threads(void **state)
{
	(void)state;
	in_child(primary);
}

static void *look_later(void *arg)
{
	(void)usleep(30 * 1000);
	atomic_fetch_add(&page()->credit, 600 * MIB);
	return arg;
}

/* The first one has gone, which the arbiter has yet to see. */
static void one_by_one(void)
{
	pthread_t looker;
	CUcontext c;
	int compares;

	CHECK(!cuCtxCreate_v2(&c, 0, 3) && !cuCtxDestroy_v2(c) && used() == 600 * MIB);
	compares = arbiter->compares;
	CHECK(cuCtxCreate_v2(&c, 0, 3) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(arbiter->compares == compares + 1);
	CHECK(!pthread_create(&looker, NULL, look_later, NULL));
	CHECK(!cuCtxCreate_v2(&c, 0, 3) && used() == 600 * MIB);
	CHECK(!pthread_join(looker, NULL));
}

static void contexts__wait_for_a_look_before_they_are_refused(void **state)
{
	(void)state;
	in_child(one_by_one);
}

static void own_context(void)
{
	CUcontext c;
	CUdeviceptr p;

	CHECK(!cuCtxCreate_v2(&c, 0, 3) && used() == 600 * MIB);
	CHECK(!cuMemAlloc_v2(&p, 100 * MIB) && used() == 700 * MIB);
	CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16384) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(d.stack == 1024);
	CHECK(!cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024 + 512));
	CHECK(used() == 700 * MIB + granules(UINT64_C(512) * 132 * 2048));
	CHECK(cuCtxCreate_v2(&c, 0, 3) == CUDA_ERROR_OUT_OF_MEMORY);
	d.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuCtxDestroy_v2(c) == CUDA_ERROR_ILLEGAL_ADDRESS && page()->seen == 100 * MIB);
	CHECK(!cuCtxDestroy_v2(c) && page()->seen == 0);
	CHECK(held() == 0);
}

static void contexts__take_what_is_in_them_along(void **state)
{
	(void)state;
	in_child(own_context);
}

static void attached(void)
{
	CUcontext c, again;
	CUdeviceptr p;

	CHECK(!cuCtxCreate_v2(&c, 0, 3) && !cuCtxAttach(&again, 0) && again == c);
	CHECK(!cuMemAlloc_v2(&p, 100 * MIB) && !cuCtxDetach(c));
	CHECK(used() == 700 * MIB && page()->seen == 100 * MIB && d.contexts == 1);
	d.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuCtxDetach(c) == CUDA_ERROR_ILLEGAL_ADDRESS && page()->seen == 100 * MIB);
	CHECK(!cuCtxDetach(c) && page()->seen == 0 && !d.contexts && !held());
	CHECK(used() == 600 * MIB && arbiter->compares >= 2);
}

static void contexts__end_with_their_last_detach(void **state)
{
	(void)state;
	in_child(attached);
}

static void green(void)
{
	CUgreenCtx first, second;
	CUdeviceptr p;
	int compares;

	CHECK(!cuGreenCtxCreate(&first, NULL, 3, 0) && used() == 664 * MIB);
	CHECK(!cuGreenCtxCreate(&second, NULL, 3, 0) && used() == 728 * MIB);
	CHECK(page()->seen == 0 && held() == PRIMARY);
	d.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuGreenCtxDestroy(first) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(!cuGreenCtxDestroy(first) && held() == PRIMARY);
	compares = arbiter->compares;
	CHECK(!cuGreenCtxDestroy(second) && !held() && arbiter->compares > compares);
	/* As the arbiter does when it has looked. */
	atomic_fetch_add(&page()->credit, 728 * MIB);
	CHECK(!cuMemAlloc_v2(&p, 400 * MIB));
	CHECK(cuGreenCtxCreate(&first, NULL, 3, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(used() == 400 * MIB && held() == 400 * MIB);
	/* The driver does not: the next one is charged for the primary context anew. */
	CHECK(!cuMemFree_v2(p) && used() == 0);
	d.fail = CUDA_ERROR_NOT_SUPPORTED;
	CHECK(cuGreenCtxCreate(&first, NULL, 3, 0) == CUDA_ERROR_NOT_SUPPORTED && used() == 0);
	CHECK(!cuGreenCtxCreate(&first, NULL, 3, 0) && used() == 664 * MIB);
}

static void green_contexts__are_charged_with_their_primary_one(void **state)
{
	(void)state;
	in_child(green);
}

static void make_pool(uint64_t bytes)
{
	struct lump *l = lump_of(LUMP_POOL, IN_POOL, 3, 0, CHARGE_SEEN);
	struct lump_op op;

	CHECK(l && !lump_begin(&op, l, bytes));
	hold(bytes);
	d.pool = bytes;
	lump_end(&op);
	CHECK(page()->seen >= bytes);
}

static void reset(void)
{
	CUcontext c;
	CUdeviceptr p;

	for (int i = 0; i < 2; i++) {
		CHECK(!cuDevicePrimaryCtxRetain(&c, 3) && !cuDevicePrimaryCtxRetain(&c, 3));
		CHECK(!cuMemAlloc_v2(&p, 100 * MIB) && !cuMemAlloc_v2(&p, 100));
		make_pool(64 * MIB);
		CHECK(used() == 766 * MIB && held() == 166 * MIB + PRIMARY);
		CHECK(!(i ? cuDevicePrimaryCtxReset_v2(3) : cuDevicePrimaryCtxReset(3)));
		CHECK(!held() && page()->seen == 0 && used() == 600 * MIB);
		atomic_fetch_add(&page()->credit, 600 * MIB);
	}
	CHECK(used() == 0);
}

static void reset__gives_all_but_the_context_back(void **state)
{
	(void)state;
	in_child(reset);
}

static void pool_pointer(void)
{
	CUdeviceptr p;

	make_pool(32 * MIB);
	CHECK(!cuMemAlloc_v2(&p, 100) && used() == 34 * MIB);
	CHECK(!cuMemFree_v2(IN_POOL) && used() == G && page()->seen == G);
	/* A pool shrinks while another pointer is freed, which waits for the GPU. */
	make_pool(32 * MIB);
	d.after = pool_shrinks;
	CHECK(!cuMemFree_v2(p) && used() == 0 && page()->seen == 0 && !held());
}

static void free__lets_pools_shrink(void **state)
{
	(void)state;
	in_child(pool_pointer);
}

static void imported(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	CUmemGenericAllocationHandle h, again;
	const uint64_t at = BASE * 2;
	int fd;

	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0));
	CHECK(!cuMemExportToShareableHandle(&again, h, 1, 0));
	CHECK(!cuMemImportFromShareableHandle(&again, &h, 1) && again == h);
	CHECK(used() == 4 * MIB && !cuMemRelease(h) && page()->seen == 4 * MIB);
	/* Now only NVML knows whether somebody else has it. */
	CHECK(!cuMemRelease(again) && page()->seen == 0 && used() == 4 * MIB && !held());
	/* The same by a dma-buf of where it is mapped. */
	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0) && !cuMemMap(at, 2 * MIB, 0, h, 0));
	CHECK(!cuMemGetHandleForAddressRange(&fd, at, 2 * MIB, 1, 0));
	CHECK(!cuMemUnmap(at, 2 * MIB) && page()->seen == 2 * MIB);
	CHECK(!cuMemRelease(h) && page()->seen == 0 && used() == 6 * MIB && !held());
}

static void handles__that_are_imported_again_cost_once(void **state)
{
	(void)state;
	in_child(imported);
}

static void in_array(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	CUarrayMapInfo map = { .memOperationType = CU_MEM_OPERATION_TYPE_MAP };
	CUmemGenericAllocationHandle h;

	/* The array holds it, which no call of the driver's tells us. */
	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0));
	map.memHandle = h;
	d.handles[h - 1000].maps = 1;
	CHECK(!cuMemMapArrayAsync(&map, 1, NULL) && !cuMemRelease(h));
	CHECK(held() == 4 * MIB && used() == 4 * MIB && page()->seen == 0);
	CHECK(!cuMemMapArrayAsync_ptsz(&map, 0, NULL) && arbiter->compares >= 3);
}

static void handles__of_sparse_arrays_are_left_to_nvml(void **state)
{
	(void)state;
	in_child(in_array);
}

static void ipc(void)
{
	CUipcMemHandle handle;
	CUdeviceptr p, q, small, beside;
	CUcontext c;
	int fd;

	CHECK(!cuMemAlloc_v2(&p, 10 * MIB) && !cuMemAlloc_v2(&q, 6 * MIB));
	CHECK(!cuMemAlloc_v2(&small, 100) && !cuMemAlloc_v2(&beside, 100));
	CHECK(!cuIpcGetMemHandle(&handle, p + 5) && !cuIpcGetMemHandle(&handle, small));
	/* Others may have it open: the arbiter finds whose it is. */
	CHECK(!cuMemFree_v2(p) && page()->seen == 8 * MIB && used() == 18 * MIB);
	CHECK(arbiter->compares == 1);
	/* The handle was of the whole chunk. */
	CHECK(!cuMemFree_v2(small) && page()->seen == 8 * MIB);
	CHECK(!cuMemFree_v2(beside) && page()->seen == 6 * MIB && used() == 18 * MIB);
	CHECK(!cuMemFree_v2(q) && page()->seen == 0 && used() == 12 * MIB);
	/* The next ones are the process's alone. */
	CHECK(!cuMemAlloc_v2(&p, 10 * MIB) && !cuMemFree_v2(p) && used() == 12 * MIB);
	CHECK(!cuMemAlloc_v2(&p, 100) && !cuMemFree_v2(p) && used() == 12 * MIB && !held());
	/* A dma-buf is such a handle too. */
	CHECK(!cuMemAlloc_v2(&p, 10 * MIB));
	CHECK(!cuMemGetHandleForAddressRange(&fd, p, 10 * MIB, 1, 0));
	CHECK(!cuMemFree_v2(p) && page()->seen == 0 && used() == 22 * MIB);
	/* With its context. */
	CHECK(!cuCtxCreate_v2(&c, 0, 3) && !cuMemAlloc_v2(&p, 10 * MIB));
	CHECK(!cuIpcGetMemHandle(&handle, p) && used() == 632 * MIB);
	CHECK(!cuCtxDestroy_v2(c) && page()->seen == 0 && used() == 632 * MIB);
}

static void free__of_what_others_may_have_is_left_to_nvml(void **state)
{
	(void)state;
	in_child(ipc);
}

static void addresses(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	CUmemGenericAllocationHandle h;
	const uint64_t at = BASE * 2;

	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0));
	CHECK(!cuMemMap(at, G, 0, h, 0) && !cuMemMap(at + G, G, 0, h, 0) && !cuMemRelease(h));
	CHECK(cuMemAddressFree(at, 2 * G) == CUDA_ERROR_INVALID_VALUE && used() == 2 * MIB);
	d.unmaps = true;
	CHECK(!cuMemAddressFree(at, 2 * G) && !held() && used() == 0 && page()->seen == 0);
	CHECK(!cuMemAddressFree(at, 2 * G) && used() == 0);
}

static void mappings__go_with_their_addresses_if_the_driver_lets_them(void **state)
{
	(void)state;
	in_child(addresses);
}

static void first_versions(void)
{
	unsigned int f, t, pitch;
	CUdeviceptr_v1 p, q;

	CHECK(!cuMemAlloc(&p, 3 * MIB) && used() == 4 * MIB);
	CHECK(!cuMemAllocPitch(&q, &pitch, 1000, 5, 4) && pitch == 1024 && used() == 6 * MIB);
	CHECK(!cuMemGetInfo(&f, &t) && f == LIMIT - 6 * MIB && t == LIMIT);
	CHECK(cuMemAlloc(&q, LIMIT) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAllocPitch(&q, &pitch, LIMIT, 1, 4) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAllocPitch(&q, &pitch, UINT32_MAX, UINT32_MAX, 4) ==
		CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemFree(5) == CUDA_ERROR_INVALID_VALUE && used() == 6 * MIB);
	d.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuMemFree(p) == CUDA_ERROR_ILLEGAL_ADDRESS && used() == 6 * MIB);
	CHECK(!cuMemFree(p) && used() == 2 * MIB);
	CHECK(!cuMemFree(2 * (unsigned int)LOW) && used() == 0 && !held());
}

static void first_versions__are_charged_as_the_second_ones(void **state)
{
	(void)state;
	in_child(first_versions);
}

/* ---- many at once ----------------------------------------------------------------------------- */

#define HELD_MAX 24

struct thing {
	enum { NOTHING, PLAIN, PHYSICAL } kind;
	CUdeviceptr p;
	CUmemGenericAllocationHandle h;
};

static bool make(struct thing *t, unsigned int *seed, uint64_t at)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	unsigned int dice = (unsigned int)rand_r(seed);
	uint64_t n = dice % 3 ? 1 + dice % 30000 : (1 + dice % 40) * G;

	t->p = at;
	if (dice % 7 == 0) {
		if (cuMemCreate(&t->h, (1 + dice % 20) * G, &prop, 0))
			return false;
		CHECK(!cuMemMap(at, G, 0, t->h, 0));
		t->kind = PHYSICAL;
		return true;
	}
	if (cuMemAlloc_v2(&t->p, n))
		return false;
	t->kind = PLAIN;
	return true;
}

static void unmake(struct thing *t, unsigned int *seed)
{
	bool handle_first = rand_r(seed) % 2;

	if (t->kind == PLAIN)
		CHECK(!cuMemFree_v2(t->p));
	if (t->kind == PHYSICAL) {
		CHECK(!handle_first || !cuMemRelease(t->h));
		CHECK(!cuMemUnmap(t->p, G));
		CHECK(handle_first || !cuMemRelease(t->h));
	}
	t->kind = NOTHING;
}

static void *race(void *arg)
{
	uint64_t number = (uintptr_t)arg;
	unsigned int seed = (unsigned int)number + 1 + 100 * (unsigned int)me;
	struct thing things[HELD_MAX] = { 0 };

	while (!atomic_load(&shared->stop)) {
		uint64_t i = (uint64_t)rand_r(&seed) % HELD_MAX;

		if (things[i].kind != NOTHING)
			unmake(&things[i], &seed);
		else if (make(&things[i], &seed, BASE * 2 + (number * HELD_MAX + i) * G))
			atomic_fetch_add(&shared->done, 1);
		else
			atomic_fetch_add(&shared->refused, 1);
	}
	for (int i = 0; i < HELD_MAX; i++)
		unmake(&things[i], &seed);
	return NULL;
}

static void hooks__hold_the_limit_with_many_threads(void **state)
{
	pthread_t threads[8];

	(void)state;
	driver_new();
	ta_start(arbiter, dir, LIMIT);
	atomic_store(&arbiter->unkind, true);
	for (uintptr_t i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, race, (void *)i), 0);
	(void)usleep(999 * 1000);
	atomic_store(&shared->stop, true);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	atomic_store(&arbiter->unkind, false);
	print_message("# %d done, %d refused\n", (int)shared->done, (int)shared->refused);
	assert_int_equal(atomic_load(&shared->over), 0);
	assert_true(shared->done > 100 && shared->refused > 10);
	pthread_mutex_lock(&arbiter->lock);
	assert_int_equal(held(), 0);
	assert_int_equal(used(), atomic_load(&page()->seen) + ledger_overhead(0));
	assert_int_equal(atomic_load(&page()->begun), atomic_load(&page()->done));
	/* Handles given again before the last reference was counted out are disowned. */
	assert_int_equal(atomic_load(&page()->seen), 0);
	pthread_mutex_unlock(&arbiter->lock);
	ta_fini(arbiter);
}

static void check_dead(const struct ta_process *p, void *arg)
{
	const struct slice_gpu_page *g = &p->page->gpus[0];
	uint64_t in_driver = *(uint64_t *)arg, credit = g->credit;

	assert_true(credit <= p->granted);
	assert_true(in_driver <= p->granted - credit);
}

static void hooks__survive_a_kill_at_any_instruction(void **state)
{
	enum { N = 4, ROUNDS = 20 };
	unsigned int seed = 3;
	uint64_t done = 0, refusals = 0;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		pid_t pids[N] = { 0 };
		int go[2];

		driver_new();
		assert_int_equal(pipe(go), 0);
		assert_int_equal(setenv("GPUSLICE_SLICE_DIR", dir, 1), 0);
		for (me = 0; me < N; me++) {
			pthread_t threads[4];
			char byte;

			pids[me] = fork();
			if (pids[me])
				continue;
			alarm(30);
			(void)close(go[1]);
			while (read(go[0], &byte, 1) > 0)
				;
			for (uintptr_t i = 0; i < 4; i++)
				(void)pthread_create(&threads[i], NULL, race, (void *)i);
			for (size_t i = 0; i < 4; i++)
				(void)pthread_join(threads[i], NULL);
			_exit(0);
		}
		ta_start(arbiter, dir, LIMIT);
		atomic_store(&arbiter->unkind, true);
		(void)close(go[0]);
		(void)close(go[1]);
		for (int i = 0; i < N; i++) {
			uint64_t in_driver;

			(void)usleep((unsigned int)rand_r(&seed) % 12000 + (i ? 0 : 20000));
			assert_int_equal(kill(pids[i], SIGKILL), 0);
			assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
			in_driver = atomic_load(&shared->of[i]);
			atomic_fetch_sub(&shared->total, in_driver);
			ta_reap(arbiter, pids[i], check_dead, &in_driver);
		}
		assert_int_equal(atomic_load(&shared->over), 0);
		assert_int_equal(ta_granted_sum(arbiter), 0);
		done += atomic_load(&shared->done);
		refusals += atomic_load(&shared->refused);
		ta_fini(arbiter);
	}
	print_message("# %d done, %d refused\n", (int)done, (int)refusals);
	assert_true(done > 100 && refusals > 0);
}

static int setup(void **state)
{
	(void)state;
	dir = test_tmpdir();
	arbiter = ta_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_rmdir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory__is_charged_as_the_driver_takes_it),
		cmocka_unit_test(memory__ends_at_the_limit_and_says_so),
		cmocka_unit_test(memory__is_the_drivers_alone_in_no_slice),
		cmocka_unit_test(init__fails_where_the_slice_is_not_served),
		cmocka_unit_test(handles__cost_until_the_last_reference),
		cmocka_unit_test(charges__cover_the_driver_in_every_order),
		cmocka_unit_test(contexts__are_charged_once_for_many_threads),
		cmocka_unit_test(contexts__wait_for_a_look_before_they_are_refused),
		cmocka_unit_test(contexts__take_what_is_in_them_along),
		cmocka_unit_test(contexts__end_with_their_last_detach),
		cmocka_unit_test(green_contexts__are_charged_with_their_primary_one),
		cmocka_unit_test(reset__gives_all_but_the_context_back),
		cmocka_unit_test(free__lets_pools_shrink),
		cmocka_unit_test(handles__that_are_imported_again_cost_once),
		cmocka_unit_test(handles__of_sparse_arrays_are_left_to_nvml),
		cmocka_unit_test(free__of_what_others_may_have_is_left_to_nvml),
		cmocka_unit_test(mappings__go_with_their_addresses_if_the_driver_lets_them),
		cmocka_unit_test(first_versions__are_charged_as_the_second_ones),
		cmocka_unit_test(hooks__survive_a_kill_at_any_instruction),
		cmocka_unit_test(hooks__hold_the_limit_with_many_threads),
	};

	return cmocka_run_group_tests_name("memory-hooks", tests, setup, teardown);
}
