/* SPDX-License-Identifier: Apache-2.0 */

/* Attributes of an address. */
#include <string.h>

#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/stream/stream.h"

enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2 };

static bool is_host(const struct address_range *r)
{
	return r->kind == RANGE_HOST || r->kind == RANGE_REGISTERED;
}

/* Start and size of the granules of a range. */
static void mapping_of(const struct address_range *r, CUdeviceptr *start, uint64_t *bytes)
{
	*start = r->start;
	*bytes = r->span > r->bytes ? r->span : r->bytes;
	if (r->kind == RANGE_PLAIN && r->owner) {
		*start = r->start & ~(GRANULE - 1);
		*bytes = GRANULE;
	}
}

#define PUT(type, value)                              \
	do {                                          \
		type put_v_ = (type)(value);          \
		memcpy(ret, &put_v_, sizeof(put_v_)); \
		return CUDA_SUCCESS;                  \
	} while (0)

static CUresult get_range_attribute(void *ret, unsigned attribute, CUdeviceptr p,
	const struct address_range *r)
{
	CUdeviceptr start;
	uint64_t bytes;

	mapping_of(r, &start, &bytes);
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		PUT(CUcontext, r->ctx);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		PUT(unsigned, is_host(r) ? MEMORY_HOST : MEMORY_DEVICE);
	case 3: /* device address */
		PUT(CUdeviceptr, p);
	case 4: /* CPU address */
		if (!r->cpu)
			return CUDA_ERROR_INVALID_VALUE;
		PUT(void *, (uintptr_t)p);
	case 5: /* tokens for other drivers */
		memset(ret, 0, 16);
		return CUDA_SUCCESS;
	case 6:
		PUT(unsigned, 1);
	case 7:
		PUT(uint64_t, r->buffer_id);
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		PUT(unsigned, r->kind == RANGE_MANAGED);
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		PUT(int, r->device - sim_cuda.devices);
	case 10: /* for cuIpcGetMemHandle() */
		PUT(unsigned, r->kind == RANGE_PLAIN);
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		PUT(CUdeviceptr, r->start);
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		PUT(size_t, r->bytes);
	case 13:
		PUT(unsigned, 1);
	case 14:
		PUT(unsigned, 0);
	case 15:
		PUT(unsigned, !is_host(r));
	case 16:
		PUT(unsigned, r->kind == RANGE_MAPPED ? r->access : 3);
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		PUT(void *, pool_handle_of(r));
	case 18:
		PUT(size_t, bytes);
	case 19:
		PUT(CUdeviceptr, start);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Values for an address that the driver does not know; only in a query of several attributes. */
static void store_unknown_attribute(void *ret, unsigned attribute)
{
	static const unsigned words[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 6,
		CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 10, 13,
		14, 15, 16 };
	int no_device = -2;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (words[i] == attribute) {
			memset(ret, 0, 4);
			if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
				memcpy(ret, &no_device, sizeof(no_device));
			return;
		}
	memset(ret, 0, attribute == 5 ? 16 : 8);
}

static const struct address_range *find_live_range(CUdeviceptr p)
{
	const struct address_range *r = range_at(p);

	return r && !r->freeing && p - r->start < r->bytes ? r : NULL;
}

EXPORT CUresult cuPointerGetAttribute(void *ret, unsigned int attribute, CUdeviceptr p)
{
	const struct address_range *range;
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	range = find_live_range(p);
	if (!ret || !range)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	return sim_cuda_leave(get_range_attribute(ret, attribute, p, range));
}

EXPORT CUresult cuPointerGetAttributes(unsigned int n, unsigned int *attributes, void **values,
	CUdeviceptr p)
{
	const struct address_range *range;
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (!n || !attributes || !values)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	range = find_live_range(p);
	for (unsigned i = 0; i < n; i++)
		if (!range || get_range_attribute(values[i], attributes[i], p, range))
			store_unknown_attribute(values[i], attributes[i]);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuPointerSetAttribute(const void *from, unsigned int attribute, CUdeviceptr p)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	return sim_cuda_leave(from && attribute == 6 && find_live_range(p)
				      ? CUDA_SUCCESS
				      : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes, CUdeviceptr p)
{
	const struct address_range *range;
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	range = find_live_range(p);
	if (!range)
		return sim_cuda_leave(CUDA_ERROR_NOT_FOUND);
	if (start)
		*start = range->start;
	if (bytes)
		*bytes = range->bytes;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemRangeGetAttribute(void *ret, size_t len, unsigned int attribute,
	CUdeviceptr p, size_t bytes)
{
	const struct address_range *range;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	range = find_live_range(p);
	if (!ret || !bytes || len < 4 || !attribute || !range || range->kind != RANGE_MANAGED)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	memset(ret, 0, len);
	if (attribute > 1) {
		int nowhere = -2;

		for (size_t i = 0; i + 4 <= len; i += 4)
			memcpy((char *)ret + i, &nowhere, sizeof(nowhere));
	}
	return sim_cuda_leave(CUDA_SUCCESS);
}
