/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory an array takes, from its descriptor: with the padding of blocks, and of its texels alone
 * (memory.h).
 */
#include "container/cuda/memory/memory.h"

#define GOB_WIDTH  64  /* bytes of a row of the smallest block */
#define GOB_HEIGHT 8   /* its rows */
#define ROWS_MAX   128 /* of the blocks of a flat array */
#define SLICES_MAX 16  /* of the blocks of a solid array, each one GOB high */

/* Formats by number. A format outside these ranges counts as 4 bytes a channel, the maximum. */
static const struct format {
	unsigned int first, last;
	unsigned int bytes;    /* per channel, or per block */
	unsigned int channels; /* 0: as the descriptor says */
	unsigned int block;    /* texels along an edge of a block */
	unsigned int halves;   /* memory in halves of the first plane; 3: 4:2:0 */
} formats[] = {
	{ 0x01, 0x01, 1, 0, 1, 2 }, /* integers */
	{ 0x02, 0x02, 2, 0, 1, 2 },
	{ 0x03, 0x03, 4, 0, 1, 2 },
	{ 0x08, 0x08, 1, 0, 1, 2 },
	{ 0x09, 0x09, 2, 0, 1, 2 },
	{ 0x0a, 0x0a, 4, 0, 1, 2 },
	{ 0x10, 0x10, 2, 0, 1, 2 },  /* half */
	{ 0x20, 0x20, 4, 0, 1, 2 },  /* float */
	{ 0x50, 0x50, 4, 1, 1, 2 },  /* 10 10 10 2 */
	{ 0x91, 0x92, 8, 1, 4, 2 },  /* BC1 */
	{ 0x93, 0x96, 16, 1, 4, 2 }, /* BC2, BC3 */
	{ 0x97, 0x98, 8, 1, 4, 2 },  /* BC4 */
	{ 0x99, 0x9e, 16, 1, 4, 2 }, /* BC5, BC6H, BC7 */
	{ 0x9f, 0xa1, 2, 1, 1, 4 },  /* P010, P016 */
	{ 0xa2, 0xa2, 1, 1, 1, 4 },  /* NV16 */
	{ 0xa3, 0xa4, 2, 1, 1, 4 },  /* P210, P216 */
	{ 0xa5, 0xa5, 2, 1, 1, 2 },  /* YUY2 */
	{ 0xa6, 0xa7, 4, 1, 1, 2 },  /* Y210, Y216 */
	{ 0xa8, 0xa9, 4, 1, 1, 2 },  /* AYUV, Y410 */
	{ 0xb0, 0xb0, 1, 1, 1, 4 },  /* NV12 */
	{ 0xb1, 0xb1, 8, 1, 1, 2 },  /* Y416 */
	{ 0xb2, 0xb2, 1, 1, 1, 6 },  /* 4:4:4 in planes */
	{ 0xb3, 0xb3, 2, 1, 1, 6 },
	{ 0xb4, 0xb4, 1, 1, 1, 6 },
	{ 0xb5, 0xb5, 2, 1, 1, 6 },
	{ 0xc0, 0xc0, 1, 1, 1, 2 }, /* normalized integers, 1, 2 and 4 channels */
	{ 0xc1, 0xc1, 1, 2, 1, 2 },
	{ 0xc2, 0xc2, 1, 4, 1, 2 },
	{ 0xc3, 0xc3, 2, 1, 1, 2 },
	{ 0xc4, 0xc4, 2, 2, 1, 2 },
	{ 0xc5, 0xc5, 2, 4, 1, 2 },
	{ 0xc6, 0xc6, 1, 1, 1, 2 },
	{ 0xc7, 0xc7, 1, 2, 1, 2 },
	{ 0xc8, 0xc8, 1, 4, 1, 2 },
	{ 0xc9, 0xc9, 2, 1, 1, 2 },
	{ 0xca, 0xca, 2, 2, 1, 2 },
	{ 0xcb, 0xcb, 2, 4, 1, 2 },
};

static struct format format_of(unsigned int number)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (number >= formats[i].first && number <= formats[i].last)
			return formats[i];
	return (struct format){ .bytes = 4, .block = 1, .halves = 6 };
}

static uint64_t multiply_array_bytes(uint64_t a, uint64_t b)
{
	uint64_t n;

	return __builtin_mul_overflow(a, b, &n) ? UINT64_MAX : n;
}

static uint64_t round_up_array_bytes(uint64_t n, uint64_t to)
{
	uint64_t parts = n / to + (n % to != 0);

	return multiply_array_bytes(parts, to);
}

/* The smallest power of two times @min that is no less than @n; at most @max. */
static uint64_t block_for(uint64_t n, uint64_t min, uint64_t max)
{
	uint64_t b = min;

	while (b < n && b < max)
		b *= 2;
	return b;
}

/* One level of one layer. @padded: with the padding in memory; else the texels only. */
static uint64_t level_bytes(const struct format *f, unsigned int channels, uint64_t w,
	uint64_t h, uint64_t depth, bool padded)
{
	uint64_t columns = w / f->block + (w % f->block != 0);
	uint64_t rows = h / f->block + (h % f->block != 0);
	uint64_t row = multiply_array_bytes(columns, (uint64_t)f->bytes * channels);

	if (!padded)
		return multiply_array_bytes(multiply_array_bytes(row, rows), depth);
	row = round_up_array_bytes(row, GOB_WIDTH);
	if (depth > 1)
		return multiply_array_bytes(
			multiply_array_bytes(row, round_up_array_bytes(rows, GOB_HEIGHT)),
			round_up_array_bytes(depth, block_for(depth, 1, SLICES_MAX)));
	return multiply_array_bytes(row,
		round_up_array_bytes(rows, block_for(rows, GOB_HEIGHT, ROWS_MAX)));
}

static uint64_t at_level(uint64_t n, unsigned int level)
{
	n = level < 64 ? n >> level : 0;
	return n ? n : 1;
}

static uint64_t compute_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels,
	bool padded)
{
	struct format f = format_of(d->Format);
	unsigned int channels = f.channels ? f.channels : d->NumChannels;
	bool flat = d->Flags & (ARRAY_LAYERED | ARRAY_CUBEMAP) || !d->Depth;
	uint64_t layers = flat && d->Depth ? d->Depth : 1, sum = 0;

	if (d->Flags & (ARRAY_SPARSE | ARRAY_DEFERRED))
		return 0;
	/* The driver refuses more levels than there can be. */
	for (unsigned int i = 0; i < levels && i < 64; i++) {
		uint64_t n = level_bytes(&f, channels, at_level(d->Width, i),
			at_level(d->Height, i), flat ? 1 : at_level(d->Depth, i), padded);

		if (__builtin_add_overflow(sum, n, &sum))
			return UINT64_MAX;
	}
	sum = multiply_array_bytes(sum, layers);
	if (!padded) /* the first plane only; for an unknown format nothing is known */
		return f.first ? sum : 0;
	return sum > UINT64_MAX / 3 ? UINT64_MAX : sum * f.halves / 2;
}

uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	return compute_array_bytes(d, levels, true);
}

uint64_t array_texels(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	return compute_array_bytes(d, levels, false);
}
