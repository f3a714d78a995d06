/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a cubin (an ELF file for a GPU) declares: kernels with the places of their parameters, and variables. No
 * instruction is looked at. So programs that bring compiled code (cuda.core, Numba, Triton) run on a simulated GPU,
 * where their kernels take time and compute nothing. Pure; thread: any.
 *
 * Read are the ELF64 tables and, in the sections .nv.info.KERNEL, the attributes for parameters as cuobjdump -elf
 * prints them: EIATTR_KPARAM_INFO and EIATTR_CBANK_PARAM_SIZE.
 */
#include "testbed/sim/cuda/module/ptx.h"

#define CUBIN_MAX_BYTES (UINT64_C(256) << 20)

struct cubin {
	const unsigned char *image;
	size_t bytes;  /* all of it, by its own tables */
	unsigned arch; /* 90: compute capability 9.0 */
	size_t symbols, symbol_count, strings, strings_bytes, sections, section_count, names,
		names_bytes; /* offsets in the image, and how much there is */
	size_t at;           /* symbol that comes next */
};

/* Begins as an ELF file does; a text may be as short as it likes, if it ends in NUL. */
bool cubin_is(const void *image);

/*
 * Reads the tables of @image, which is borrowed and has @max bytes at most; CUBIN_MAX_BYTES of one whose size its own
 * tables have to say, as the driver's interface names none. False: it is no cubin, or damaged.
 */
bool cubin_open(struct cubin *ret, const void *image, size_t max);

/* The next kernel or variable. 1: one was found; 0: no more; -1: damaged. */
int cubin_next(struct cubin *c, struct ptx_entry *ret);
