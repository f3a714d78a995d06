/* SPDX-License-Identifier: Apache-2.0 */

/* Virtual memory management: addresses, memory and mappings. */
#include "testbed/sim/cuda/memory/memory.h"

#include <string.h>
#include <unistd.h>

#include "testbed/sim/cuda/node.h"

struct sim_cuda_device *device_of_slot(uint32_t slot)
{
	for (unsigned i = 0; i < sim_cuda.device_count; i++)
		if (sim_cuda.devices[i].slot == slot)
			return &sim_cuda.devices[i];
	return NULL;
}

CUresult import_fd(int fd, struct physical_memory **ret)
{
	struct sim_device_reply r;
	int map = -1;
	CUresult err = gpu_call((struct sim_device_request){ .op = SIM_DEVICE_MEM_IMPORT }, &r,
		fd, &map);

	if (err)
		return CUDA_ERROR_INVALID_VALUE;
	return phys_adopt(device_of_slot(r.slot) ? device_of_slot(r.slot)
						 : &sim_cuda.devices[0],
		r.id, r.bytes, map, ret);
}

/* A descriptor of memory. */
static CUresult export_fd(const struct physical_memory *p, int *ret)
{
	CUresult err;

	if (!p->device)
		return CUDA_ERROR_NOT_SUPPORTED; /* host memory */
	err = gpu_call((struct sim_device_request){ .op = SIM_DEVICE_MEM_EXPORT, .id = p->id },
		NULL, -1, ret);
	return err || *ret >= 0 ? err : CUDA_ERROR_UNKNOWN;
}

static struct vmm_memory *find_vmm_memory(CUmemGenericAllocationHandle h)
{
	struct vmm_memory *m = (struct vmm_memory *)(uintptr_t)h;

	return obj_is(m, OBJ_MEMORY) && m->handles ? m : NULL;
}

static CUmemGenericAllocationHandle encode_vmm_handle(struct vmm_memory *m)
{
	return (uintptr_t)m;
}

static void maybe_drop(struct vmm_memory *m)
{
	if (m->handles || m->mapped)
		return;
	phys_drop(m->phys);
	obj_drop(m, OBJ_MEMORY);
}

static bool on_device(const CUmemAllocationProp *p)
{
	return p->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

static CUresult check_prop(const CUmemAllocationProp *p)
{
	if (p->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
		p->location.type == CU_MEM_LOCATION_TYPE_INVALID ||
		p->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
		p->requestedHandleTypes & ~(unsigned)(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR |
						      CU_MEM_HANDLE_TYPE_FABRIC))
		return CUDA_ERROR_INVALID_VALUE;
	if (p->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC)
		return CUDA_ERROR_NOT_PERMITTED; /* as without the fabric service */
	if (on_device(p) &&
		(p->location.id < 0 || (unsigned)p->location.id >= sim_cuda.device_count))
		return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *ret, const CUmemAllocationProp *prop,
	unsigned int option)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || !prop || option > 1)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = check_prop(prop);
	if (r == CUDA_SUCCESS)
		*ret = GRANULE;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *ret, size_t bytes,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct sim_cuda_device *d;
	struct vmm_memory *m;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || !prop || flags || !bytes || bytes % GRANULE)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = check_prop(prop);
	if (r)
		return sim_cuda_leave(r);
	m = obj_new(OBJ_MEMORY, sizeof(*m));
	if (!m)
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	d = on_device(prop) ? &sim_cuda.devices[prop->location.id] : NULL;
	r = d ? phys_new(d, bytes, 0, &m->phys) : phys_new_host(bytes, &m->phys);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && d && pools_release(d))
		r = phys_new(d, bytes, 0, &m->phys);
	if (r) {
		obj_drop(m, OBJ_MEMORY);
		return sim_cuda_leave(r);
	}
	m->prop = *prop;
	m->handles = 1;
	*ret = encode_vmm_handle(m);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
	struct vmm_memory *m;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	m = find_vmm_memory(h);
	if (!m)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	m->handles--;
	maybe_drop(m);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret, void *p)
{
	struct address_range *range;
	struct vmm_memory *m;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	range = range_at((uintptr_t)p);
	if (!ret || !range || range->kind != RANGE_MAPPED)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	m = range->owner;
	m->handles++;
	*ret = encode_vmm_handle(m);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *ret,
	CUmemGenericAllocationHandle h)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || !find_vmm_memory(h))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*ret = find_vmm_memory(h)->prop;
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* --- addresses --- */

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ret, size_t bytes, size_t align,
	CUdeviceptr hint, unsigned long long flags)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || !bytes || bytes % GRANULE || (align & (align - 1)) || flags)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*ret = space_reserve(bytes, align, hint);
	return sim_cuda_leave(*ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!bytes || space_size(p) != bytes || !range_clear(p, bytes))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	space_release(p);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset,
	CUmemGenericAllocationHandle h, unsigned long long flags)
{
	struct vmm_memory *m;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	m = find_vmm_memory(h);
	if (!m || !bytes || p % GRANULE || flags)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (offset || bytes % GRANULE)
		return sim_cuda_leave(CUDA_ERROR_NOT_SUPPORTED); /* measured */
	if (bytes > m->phys->bytes || !space_covers(p, bytes) || !range_clear(p, bytes))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (!range_add((struct address_range){ .start = p,
		    .bytes = bytes,
		    .kind = RANGE_MAPPED,
		    .device = m->phys->device ? m->phys->device : &sim_cuda.devices[0],
		    .phys = phys_ref(m->phys),
		    .offset = offset,
		    .owner = m })) {
		phys_drop(m->phys);
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	m->mapped++;
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* Whether whole mappings make up the piece, without a gap. */
static bool each_mapped(CUdeviceptr p, uint64_t bytes)
{
	CUdeviceptr end = p + bytes;

	while (p < end) {
		const struct address_range *r = range_at(p);

		if (!r || r->kind != RANGE_MAPPED || r->start != p || r->start + r->bytes > end)
			return false;
		p += r->bytes;
	}
	return true;
}

/* Whether no mapping reaches beyond an end of the piece. Unmapped addresses are no error. */
static bool whole_mapped(CUdeviceptr p, uint64_t bytes)
{
	const struct address_range *first = range_at(p), *last = range_at(p + bytes - 1);

	return space_covers(p, bytes) &&
	       (!first || (first->kind == RANGE_MAPPED && first->start == p)) &&
	       (!last ||
		       (last->kind == RANGE_MAPPED && last->start + last->bytes == p + bytes));
}

EXPORT CUresult cuMemUnmap(CUdeviceptr p, size_t bytes)
{
	struct address_range *range;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!bytes || p % GRANULE || bytes % GRANULE || !whole_mapped(p, bytes))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	while ((range = range_after(p)) && range->start < p + bytes) {
		struct vmm_memory *m = range->owner;

		range_remove(range);
		m->mapped--;
		maybe_drop(m);
	}
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access,
	size_t n)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!bytes || !access || !n || p % GRANULE || bytes % GRANULE || !each_mapped(p, bytes))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < n; i++) {
		const CUmemLocation *at = &access[i].location;

		if (access[i].flags != 0 && access[i].flags != 1 && access[i].flags != 3)
			return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
		if (at->type == CU_MEM_LOCATION_TYPE_DEVICE &&
			(at->id < 0 || (unsigned)at->id >= sim_cuda.device_count))
			return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	}
	for (struct address_range *range = range_at(p); range && range->start < p + bytes;
		range = range_after(range->start + range->bytes))
		range->access = access[n - 1].flags;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemGetAccess(unsigned long long *ret, const CUmemLocation *at, CUdeviceptr p)
{
	const struct address_range *range;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	range = range_at(p);
	if (!ret || !at || !range || range->kind != RANGE_MAPPED)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*ret = range->access;
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* --- sharing --- */

EXPORT CUresult cuMemExportToShareableHandle(void *ret, CUmemGenericAllocationHandle h,
	unsigned int type, unsigned long long flags)
{
	struct vmm_memory *m;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	m = find_vmm_memory(h);
	if (!ret || !m || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		!(m->prop.requestedHandleTypes & type))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	return sim_cuda_leave(export_fd(m->phys, ret));
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *ret,
	void *os_handle, unsigned int type)
{
	struct vmm_memory *m;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	m = obj_new(OBJ_MEMORY, sizeof(*m));
	if (!m)
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	r = import_fd((int)(intptr_t)os_handle, &m->phys);
	if (r) {
		obj_drop(m, OBJ_MEMORY);
		return sim_cuda_leave(r);
	}
	m->handles = 1;
	m->prop = (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = type,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE,
			(int)(m->phys->device - sim_cuda.devices) } };
	*ret = encode_vmm_handle(m);
	return sim_cuda_leave(CUDA_SUCCESS);
}
