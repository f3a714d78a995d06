/* SPDX-License-Identifier: Apache-2.0 */

/* Memory of other processes and other interfaces: IPC handles, external memory, shared pools. */
#include <string.h>
#include <unistd.h>

#include "testbed/sim/cuda/node.h"
#include "testbed/sim/cuda/memory/memory.h"

/* The content of a handle's 64 bytes. */
struct ipc {
	uint64_t id, cookie;    /* the daemon's */
	uint64_t offset, bytes; /* of the allocation, in the daemon's memory */
	uint32_t slot, pid;
	uint64_t start; /* address in the owning process */
};

_Static_assert(sizeof(struct ipc) <= sizeof(CUipcMemHandle), "a handle holds it");

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *ret, CUdeviceptr p)
{
	const struct address_range *range;
	struct sim_cuda_ctx *c;
	struct ipc ipc;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	range = range_at(p);
	if (!ret || !range || range->freeing || range->kind != RANGE_PLAIN)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	/* The handle stands for the whole allocation, for any address in it. */
	ipc = (struct ipc){ .id = range->phys->id,
		.cookie = range->phys->cookie,
		.offset = range->offset,
		.bytes = range->bytes,
		.slot = range->device->slot,
		.pid = (uint32_t)getpid(),
		.start = range->start };
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, &ipc, sizeof(ipc));
	return sim_cuda_leave(CUDA_SUCCESS);
}

static CUresult map_foreign(struct sim_cuda_ctx *c, const struct ipc *ipc,
	struct physical_memory *p, CUdeviceptr *ret)
{
	CUdeviceptr at = space_reserve(p->bytes, GRANULE, 0);

	if (at && range_add((struct address_range){ .start = at + ipc->offset,
			  .bytes = ipc->bytes,
			  .kind = RANGE_IPC,
			  .ctx = c,
			  .device = p->device,
			  .phys = p,
			  .offset = ipc->offset,
			  .flags = 1 })) {
		*ret = at + ipc->offset;
		return CUDA_SUCCESS;
	}
	if (at)
		space_release(at);
	phys_drop(p);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ret, CUipcMemHandle h, unsigned int flags)
{
	struct sim_device_reply reply;
	struct address_range *range;
	struct sim_cuda_ctx *c;
	struct physical_memory *p;
	struct ipc ipc;
	int fd = -1;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (!ret || flags > 1)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	memcpy(&ipc, &h, sizeof(ipc));
	if (ipc.pid == (uint32_t)getpid())
		return sim_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	for (size_t i = 0; (range = range_nth(i)); i++)
		if (range->kind == RANGE_IPC && range->phys->id == ipc.id &&
			range->offset == ipc.offset) {
			range->flags++; /* counts the opens */
			*ret = range->start;
			return sim_cuda_leave(CUDA_SUCCESS);
		}
	if (ipc.slot != c->device->slot && !device_of_slot(ipc.slot))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = gpu_call((struct sim_device_request){ .op = SIM_DEVICE_MEM_OPEN,
			     .id = ipc.id,
			     .cookie = ipc.cookie },
		&reply, -1, &fd);
	if (r)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (ipc.offset > reply.bytes || ipc.bytes > reply.bytes - ipc.offset) {
		if (fd >= 0)
			(void)close(fd);
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	}
	r = phys_adopt(device_of_slot(reply.slot), reply.id, reply.bytes, fd, &p);
	return sim_cuda_leave(r ? r : map_foreign(c, &ipc, p, ret));
}

EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *ret, CUipcMemHandle h, unsigned int flags)
{
	return cuIpcOpenMemHandle_v2(ret, h, flags);
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr p)
{
	struct address_range *range;
	CUdeviceptr at;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	range = range_at(p);
	if (!range || range->kind != RANGE_IPC || range->start != p)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (--range->flags)
		return sim_cuda_leave(CUDA_SUCCESS);
	at = range->start - range->offset;
	range_remove(range);
	space_release(at);
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* External memory: another interface exported it as a descriptor. */

enum { TYPE_OPAQUE_FD = 1 };

struct external {
	struct sim_cuda_object obj;
	struct physical_memory *phys;
	uint64_t bytes;
};

EXPORT CUresult cuImportExternalMemory(CUexternalMemory *ret,
	const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct external *e;
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (!ret || !desc || !desc->size)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (desc->type != TYPE_OPAQUE_FD)
		return sim_cuda_leave(CUDA_ERROR_NOT_SUPPORTED);
	e = obj_new(OBJ_EXTERNAL, sizeof(*e));
	if (!e)
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	r = import_fd(desc->handle.fd, &e->phys);
	if (r == CUDA_SUCCESS && desc->size > e->phys->bytes) {
		phys_drop(e->phys);
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r) {
		obj_drop(e, OBJ_EXTERNAL);
		return sim_cuda_leave(r);
	}
	e->bytes = desc->size;
	(void)close(desc->handle.fd); /* the import owns it on success */
	*ret = (CUexternalMemory)e;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *ret, CUexternalMemory h,
	const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	struct external *e = (struct external *)h;
	CUdeviceptr at;
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (!obj_is(h, OBJ_EXTERNAL))
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!ret || !desc || !desc->size || desc->size > e->bytes ||
		desc->offset > e->bytes - desc->size)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	at = space_reserve(desc->size, GRANULE, 0);
	/* All frees treat the range as plain memory: cuMemFree() ends the mapping. */
	if (at && range_add((struct address_range){ .start = at,
			  .bytes = desc->size,
			  .kind = RANGE_EXTERNAL,
			  .ctx = c,
			  .device = e->phys->device,
			  .phys = phys_ref(e->phys),
			  .offset = desc->offset })) {
		*ret = at;
		return sim_cuda_leave(CUDA_SUCCESS);
	}
	if (at) {
		space_release(at);
		phys_drop(e->phys);
	}
	return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory h)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!obj_is(h, OBJ_EXTERNAL))
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	phys_drop(((struct external *)h)->phys);
	obj_drop(h, OBJ_EXTERNAL);
	return sim_cuda_leave(CUDA_SUCCESS);
}
