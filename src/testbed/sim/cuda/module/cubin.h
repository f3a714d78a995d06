/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a cubin (an ELF file for a GPU) declares: kernels with the offsets of their parameters, and variables. This
 * module reads no instruction. So programs that bring compiled code (cuda.core, Numba, Triton) run on a simulated
 * GPU, where their kernels take time and compute nothing. Pure. Thread: any.
 *
 * The module reads the ELF64 tables and, in the sections .nv.info.KERNEL, the attributes of parameters as
 * cuobjdump -elf prints them: EIATTR_KPARAM_INFO and EIATTR_CBANK_PARAM_SIZE.
 */
#include "testbed/sim/cuda/module/ptx.h"

#define CUBIN_MAX_BYTES (UINT64_C(256) << 20)

struct cubin {
	const unsigned char *image;
	size_t bytes;  /* size by its own tables */
	unsigned arch; /* 90: compute capability 9.0 */
	/* Offsets in the image, counts and sizes. */
	size_t symbols, symbol_count, strings, strings_bytes, sections, section_count, names,
		names_bytes;
	size_t at; /* next symbol */
};

/* Tests for the first bytes of an ELF file. A text may be of any length, if it ends in NUL. */
bool cubin_is(const void *image);

/*
 * Reads the tables of @image, which is borrowed and has at most @max bytes. CUBIN_MAX_BYTES: the driver's
 * interface names no size, so the tables must. False: no cubin, or a damaged one.
 */
bool cubin_open(struct cubin *ret, const void *image, size_t max);

/* The next kernel or variable. 1: found; 0: no more; -1: damaged. */
int cubin_next(struct cubin *c, struct ptx_entry *ret);
