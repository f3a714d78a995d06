/* SPDX-License-Identifier: Apache-2.0 */

/* The address map. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "testbed/sim/cuda/memory/memory.h"

#include "lib/base/array.h"

/* Device addresses: the largest reservation that the kernel grants, from 16 TiB down to 64 GiB. */
#define ARENA_BYTES_MAX (UINT64_C(1) << 44)
#define ARENA_BYTES_MIN (UINT64_C(1) << 36)

static CUdeviceptr arena_start, arena_end;

struct space {
	CUdeviceptr start;
	uint64_t bytes;
};

static struct {
	struct space *rows; /* by address */
	size_t count, room;
} spaces;

static struct {
	struct address_range **rows; /* by address */
	size_t count, room;
} ranges;

static bool arena_open(void)
{
	for (uint64_t bytes = ARENA_BYTES_MAX; !arena_start && bytes >= ARENA_BYTES_MIN;
		bytes /= 2) {
		void *p = mmap(NULL, bytes + GRANULE, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			continue;
		arena_start = ((uintptr_t)p + GRANULE - 1) & ~(GRANULE - 1);
		arena_end = arena_start + bytes;
	}
	return arena_start;
}

/* The first reservation that ends behind @p. */
static size_t space_index(CUdeviceptr p)
{
	size_t low = 0, high = spaces.count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (spaces.rows[mid].start + spaces.rows[mid].bytes <= p)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static uint64_t round_up_map_address(uint64_t v, uint64_t to)
{
	return (v + to - 1) & ~(to - 1);
}

static CUdeviceptr space_insert(size_t at, CUdeviceptr start, uint64_t bytes)
{
	if (!ARRAY_GROW(&spaces.rows, spaces.count, &spaces.room, ARRAY_NO_LIMIT))
		return 0;
	memmove(&spaces.rows[at + 1], &spaces.rows[at],
		(spaces.count - at) * sizeof(*spaces.rows));
	spaces.rows[at] = (struct space){ start, bytes };
	spaces.count++;
	return start;
}

CUdeviceptr space_reserve(uint64_t bytes, uint64_t align, CUdeviceptr hint)
{
	CUdeviceptr from;
	size_t i;

	if (!arena_open() || !bytes || bytes > arena_end - arena_start)
		return 0;
	bytes = round_up_map_address(bytes, GRANULE);
	align = align < GRANULE ? GRANULE : align;
	if (hint && hint % align == 0 && hint >= arena_start && hint + bytes <= arena_end) {
		i = space_index(hint);
		if (i == spaces.count || spaces.rows[i].start >= hint + bytes)
			return space_insert(i, hint, bytes);
	}
	from = round_up_map_address(arena_start, align);
	for (i = 0; i < spaces.count; i++) {
		if (spaces.rows[i].start >= from && spaces.rows[i].start - from >= bytes)
			break;
		from = round_up_map_address(spaces.rows[i].start + spaces.rows[i].bytes, align);
	}
	return from + bytes <= arena_end ? space_insert(i, from, bytes) : 0;
}

void space_release(CUdeviceptr start)
{
	size_t i = space_index(start);

	if (i == spaces.count || spaces.rows[i].start != start)
		return;
	spaces.count--;
	memmove(&spaces.rows[i], &spaces.rows[i + 1],
		(spaces.count - i) * sizeof(*spaces.rows));
}

uint64_t space_size(CUdeviceptr start)
{
	size_t i = space_index(start);

	return i < spaces.count && spaces.rows[i].start == start ? spaces.rows[i].bytes : 0;
}

bool space_covers(CUdeviceptr start, uint64_t bytes)
{
	size_t i = space_index(start);

	return i < spaces.count && spaces.rows[i].start <= start &&
	       start + bytes <= spaces.rows[i].start + spaces.rows[i].bytes;
}

bool space_contains(CUdeviceptr p)
{
	return arena_start && p >= arena_start && p < arena_end;
}

/* --- ranges --- */

static CUdeviceptr range_end(const struct address_range *r)
{
	return r->start + (r->span > r->bytes ? r->span : r->bytes);
}

static size_t range_index(CUdeviceptr p)
{
	size_t low = 0, high = ranges.count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (range_end(ranges.rows[mid]) <= p)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct address_range *range_add(struct address_range r)
{
	static uint64_t last_buffer;
	size_t i = range_index(r.start);
	struct address_range *new;

	if (!ARRAY_GROW(&ranges.rows, ranges.count, &ranges.room, ARRAY_NO_LIMIT))
		return NULL;
	new = malloc(sizeof(*new));
	if (!new)
		return NULL;
	*new = r;
	new->buffer_id = ++last_buffer;
	memmove(&ranges.rows[i + 1], &ranges.rows[i],
		(ranges.count - i) * sizeof(*ranges.rows));
	ranges.rows[i] = new;
	ranges.count++;
	return new;
}

struct address_range *range_after(CUdeviceptr p)
{
	size_t i = range_index(p);

	return i < ranges.count ? ranges.rows[i] : NULL;
}

struct address_range *range_at(CUdeviceptr p)
{
	struct address_range *r = range_after(p);

	return r && r->start <= p ? r : NULL;
}

struct address_range *range_nth(size_t n)
{
	return n < ranges.count ? ranges.rows[n] : NULL;
}

bool range_clear(CUdeviceptr start, uint64_t bytes)
{
	const struct address_range *r = range_after(start);

	return !r || r->start >= start + bytes;
}

void range_remove(struct address_range *r)
{
	size_t i = range_index(r->start);

	ranges.count--;
	memmove(&ranges.rows[i], &ranges.rows[i + 1],
		(ranges.count - i) * sizeof(*ranges.rows));
	phys_drop(r->phys);
	free(r);
}

/* ret->bytes: in, the requested bytes; out, the contiguous ones. */
static CUresult slot_piece(struct physical_memory *slot, uint64_t offset,
	struct memory_piece *ret)
{
	if (!slot || !phys_cpu(slot))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (ret->bytes > slot->bytes - offset)
		ret->bytes = slot->bytes - offset;
	ret->cpu = phys_cpu(slot) + offset;
	ret->pin = phys_ref(slot);
	return CUDA_SUCCESS;
}

static CUresult ghost_piece(CUdeviceptr p, uint64_t bytes, struct memory_piece *ret)
{
	struct physical_memory *slot;
	uint64_t offset, left;

	if (!pool_ghost_at(p, &left, &slot, &offset))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (struct memory_piece){ .bytes = left < bytes ? left : bytes };
	return slot_piece(slot, offset, ret);
}

CUresult piece_at(CUdeviceptr p, uint64_t bytes, struct memory_piece *ret)
{
	const struct address_range *r = range_after(p);
	uint64_t in;

	if ((!r || r->start > p || (r->kind == RANGE_POOL && p - r->start >= r->bytes)) &&
		space_contains(p))
		return ghost_piece(p, bytes, ret);
	if (!r || r->start > p) {
		/* Host memory of the program, unknown to the driver. */
		if (p < 4096)
			return CUDA_ERROR_INVALID_VALUE;
		if (r && r->start - p < bytes)
			bytes = r->start - p;
		*ret = (struct memory_piece){ .cpu = (unsigned char *)(uintptr_t)p,
			.bytes = bytes };
		return CUDA_SUCCESS;
	}
	in = p - r->start;
	if (in >= r->bytes || (r->kind == RANGE_MAPPED && !r->access))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (struct memory_piece){ .bytes = r->bytes - in < bytes ? r->bytes - in : bytes };
	if (r->kind == RANGE_POOL) {
		uint64_t offset;
		struct physical_memory *slot = pool_slot(r, p, &offset);

		return slot_piece(slot, offset, ret);
	} else if (r->phys) {
		ret->cpu = phys_cpu(r->phys);
		if (!ret->cpu)
			return CUDA_ERROR_OUT_OF_MEMORY;
		ret->cpu += r->offset + in;
		ret->pin = phys_ref(r->phys);
	} else if (r->cpu) {
		ret->cpu = r->cpu + in;
	} else {
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}
