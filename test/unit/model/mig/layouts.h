/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How real GPUs can be partitioned, written from the documents of NVIDIA and from NVML: neither from the
 * simulator's tables nor from what the code under test computes (but for the GB of a name).
 */
#include "model/mig/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum product_id {
	A100_40,
	A100_40_OLD, /* drivers before 550: other MB (and before 525 no 1g.10gb: not here) */
	A100_80,
	H100,
	H100_PCIE,
	H100_NVL,
	GH200_96,
	H200,
	GH200_144,
	B200,
	GB200,
	B300,
	GB300,
	A30,
	RTX_PRO_6000,
	PRODUCTS, /* not one */
};

#define AT(s)  (1u << (s))
#define AT_0_6 0x7fu                   /* 0 to 6 */
#define AT_2_4 (AT(0) | AT(2) | AT(4)) /* every other */
#define AT_2_6 (AT(0) | AT(2) | AT(4) | AT(6))
#define AT_3_9 (AT(0) | AT(3) | AT(6) | AT(9)) /* of 12 slots */

/* Engines: copy, decoder, encoder, JPEG, optical flow. */
struct product_row {
	uint32_t number, id, slices, max, multiprocessors;
	uint32_t engines[5];
	uint64_t memory_mib;
	uint32_t size, starts;
};

/* 16.1: the same on all with 7 slices. SMs, engines and MB are per product. */
#define SEVEN_ROWS 7
static const struct product_row seven_rows[SEVEN_ROWS] = {
	{ .number = 0, .id = 19, .slices = 1, .max = 7, .size = 1, .starts = AT_0_6 },
	{ .number = 1, .id = 14, .slices = 2, .max = 3, .size = 2, .starts = AT_2_4 },
	{ .number = 2, .id = 9, .slices = 3, .max = 2, .size = 4, .starts = AT(0) | AT(4) },
	{ .number = 3, .id = 5, .slices = 4, .max = 1, .size = 4, .starts = AT(0) },
	{ .number = 4, .id = 0, .slices = 7, .max = 1, .size = 8, .starts = AT(0) },
	{ .number = 7, .id = 20, .slices = 1, .max = 1, .size = 1, .starts = AT_0_6 },
	{ .number = 9, .id = 15, .slices = 1, .max = 4, .size = 2, .starts = AT_2_6 },
};

enum generation { AMPERE, HOPPER, BLACKWELL };
static const uint32_t seven_engines[][SEVEN_ROWS][5] = {
	[AMPERE] = { { 1, 0, 0, 0, 0 }, { 2, 1, 0, 0, 0 }, { 3, 2, 0, 0, 0 }, { 4, 2, 0, 0, 0 },
		{ 7, 5, 0, 1, 1 }, { 1, 1, 0, 1, 1 }, { 1, 1, 0, 0, 0 } },
	[HOPPER] = { { 1, 1, 0, 1, 0 }, { 2, 2, 0, 2, 0 }, { 3, 3, 0, 3, 0 }, { 4, 4, 0, 4, 0 },
		{ 8, 7, 0, 7, 1 }, { 1, 1, 0, 1, 1 }, { 1, 1, 0, 1, 0 } },
	[BLACKWELL] = { { 2, 1, 0, 1, 0 }, { 4, 2, 0, 2, 0 }, { 6, 3, 0, 3, 0 },
		{ 8, 4, 0, 4, 0 }, { 16, 7, 0, 7, 1 }, { 2, 1, 0, 1, 1 }, { 2, 1, 0, 1, 0 } },
};

/* 16.2: SMs of 1g 2g 3g 4g 7g 1g+me and 1g of double memory; MB of each. */
static const struct product_seven {
	const char *name;
	uint64_t total_mib;
	enum generation generation;
	uint32_t multiprocessors[SEVEN_ROWS];
	uint64_t memory_mib[SEVEN_ROWS];
} sevens[] = {
	[A100_40] = { "A100-40", 40960, AMPERE, { 14, 28, 42, 56, 98, 14, 14 },
		{ 4864, 9984, 20096, 20096, 40448, 4864, 9984 } },
	[A100_40_OLD] = { "A100-40, old driver", 40960, AMPERE, { 14, 28, 42, 56, 98, 14, 14 },
		{ 4864, 9856, 19968, 19968, 40192, 4864, 9856 } },
	[A100_80] = { "A100-80", 81920, AMPERE, { 14, 28, 42, 56, 98, 14, 14 },
		{ 9728, 19968, 40192, 40192, 80896, 9728, 19968 } },
	[H100] = { "H100", 81559, HOPPER, { 16, 32, 60, 64, 132, 16, 26 },
		{ 9984, 20096, 40448, 40448, 81152, 9984, 20096 } },
	[H100_PCIE] = { "H100 PCIe", 81559, HOPPER, { 14, 30, 46, 62, 114, 14, 14 },
		{ 9984, 20096, 40448, 40448, 81152, 9984, 20096 } },
	[H100_NVL] = { "H100 NVL", 95830, HOPPER, { 16, 32, 60, 64, 132, 16, 26 },
		{ 10880, 22016, 47232, 47232, 94848, 10880, 22016 } },
	[GH200_96] = { "GH200 96", 97871, HOPPER, { 16, 32, 60, 64, 132, 16, 26 },
		{ 11264, 23552, 47616, 47616, 95232, 11264, 23552 } },
	[H200] = { "H200", 143771, HOPPER, { 16, 32, 60, 64, 132, 16, 26 },
		{ 16384, 33280, 71424, 71424, 143360, 16384, 33280 } },
	[GH200_144] = { "GH200 144", 147456, HOPPER, { 16, 32, 60, 64, 132, 16, 26 },
		{ 17920, 36096, 71488, 71488, 146944, 17920, 36096 } },
	[B200] = { "B200", 183359, BLACKWELL, { 18, 36, 70, 72, 148, 18, 30 },
		{ 22528, 45312, 91136, 91136, 182528, 22528, 45312 } },
	[GB200] = { "GB200", 189471, BLACKWELL, { 18, 38, 74, 76, 152, 18, 32 },
		{ 22528, 46592, 91840, 91840, 188672, 22528, 46592 } },
	[B300] = { "B300", 275040, BLACKWELL, { 18, 36, 70, 72, 148, 18, 30 },
		{ 33344, 66688, 133376, 133376, 274240, 33344, 66688 } },
	[GB300] = { "GB300", 284208, BLACKWELL, { 18, 38, 74, 76, 152, 18, 32 },
		{ 34432, 68864, 137792, 137792, 283200, 34432, 68864 } },
};

/* 16.3 */
static const struct product_row a30_rows[] = {
	{ 0, 14, 1, 4, 14, { 1, 1, 0, 0, 0 }, 5952, 1, 0xf },
	{ 1, 5, 2, 2, 28, { 2, 2, 0, 0, 0 }, 11968, 2, AT(0) | AT(2) },
	{ 3, 0, 4, 1, 56, { 4, 4, 0, 1, 1 }, 24000, 4, AT(0) },
	{ 7, 21, 1, 1, 14, { 1, 1, 0, 1, 1 }, 5952, 1, 0xf },
	{ 8, 6, 2, 1, 28, { 2, 2, 0, 1, 1 }, 11968, 2, AT(0) | AT(2) },
};

/* 16.4 */
static const struct product_row rtx_rows[] = {
	{ 0, 14, 1, 4, 46, { 1, 1, 1, 1, 0 }, 24192, 3, AT_3_9 },
	{ 1, 5, 2, 2, 94, { 2, 2, 2, 2, 0 }, 48512, 6, AT(0) | AT(6) },
	{ 3, 0, 4, 1, 188, { 4, 4, 4, 4, 1 }, 97408, 12, AT(0) },
	{ 7, 21, 1, 1, 46, { 1, 1, 1, 1, 1 }, 24192, 3, AT_3_9 },
	{ 10, 47, 1, 4, 46, { 1, 1, 1, 1, 0 }, 24192, 3, AT_3_9 },
	{ 11, 35, 2, 2, 94, { 2, 2, 2, 2, 0 }, 48512, 6, AT(0) | AT(6) },
	{ 12, 32, 4, 1, 188, { 4, 4, 4, 4, 1 }, 97408, 12, AT(0) },
	{ 13, 67, 1, 4, 46, { 1, 0, 0, 0, 0 }, 24192, 3, AT_3_9 },
	{ 14, 66, 2, 2, 94, { 2, 0, 0, 0, 0 }, 48512, 6, AT(0) | AT(6) },
	{ 15, 65, 1, 1, 46, { 1, 4, 4, 4, 1 }, 24192, 3, AT_3_9 },
	{ 16, 64, 2, 1, 94, { 2, 4, 4, 4, 1 }, 48512, 6, AT(0) | AT(6) },
};

static inline void add_profile(struct mig_layout *l, const struct product_row *r)
{
	struct mig_gi_profile *to = &l->profiles[l->n++];

	*to = (struct mig_gi_profile){ .number = r->number,
		.id = r->id,
		.slices = r->slices,
		.max = r->max,
		.multiprocessors = r->multiprocessors,
		.memory_mib = r->memory_mib,
		.copy = r->engines[0],
		.decoder = r->engines[1],
		.encoder = r->engines[2],
		.jpeg = r->engines[3],
		.ofa = r->engines[4],
		.size = r->size,
		.starts = r->starts };
	to->name.c = to->name.g = r->slices;
	to->name.gb = mig_profile_gb(r->memory_mib, l->memory_total_mib);
	(void)snprintf(to->name.attributes, sizeof(to->name.attributes), "%s",
		mig_profile_attributes(r->number));
}

static inline struct mig_layout product_layout(enum product_id id)
{
	struct mig_layout a30 = { .memory_total_mib = 24576, .slots = 4, .slices = 4 };
	struct mig_layout rtx = { .memory_total_mib = 97887, .slots = 12, .slices = 4 };
	struct mig_layout seven = { .slots = 8, .slices = 7 };

	for (size_t i = 0; id == A30 && i < ARRAY_LEN(a30_rows); i++)
		add_profile(&a30, &a30_rows[i]);
	for (size_t i = 0; id == RTX_PRO_6000 && i < ARRAY_LEN(rtx_rows); i++)
		add_profile(&rtx, &rtx_rows[i]);
	for (size_t i = 0; id < A30 && i < SEVEN_ROWS; i++) {
		const struct product_seven *p = &sevens[id];
		struct product_row row = seven_rows[i];

		seven.memory_total_mib = p->total_mib;
		row.multiprocessors = p->multiprocessors[i];
		row.memory_mib = p->memory_mib[i];
		memcpy(row.engines, seven_engines[p->generation][i], sizeof(row.engines));
		add_profile(&seven, &row);
	}
	return id == A30 ? a30 : id == RTX_PRO_6000 ? rtx : seven;
}

static inline const char *product_name(enum product_id id)
{
	return id == A30 ? "A30" : id == RTX_PRO_6000 ? "RTX PRO 6000" : sevens[id].name;
}

/* The profile of @l with this name; it is there. */
static inline uint32_t profile_at(const struct mig_layout *l, const char *name)
{
	for (uint32_t i = 0; i < l->n; i++) {
		char text[MIG_PROFILE_NAME_MAX];

		mig_profile_format(&l->profiles[i].name, text);
		if (strcmp(text, name) == 0)
			return i;
	}
	abort();
}
