/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the SONAME of a shared library from its ELF file. Reads a few hundred bytes, whatever the
 * file's size, and checks each of them.
 * Thread: any.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_SONAME_MAX   256
#define ELF_SEGMENTS_MAX 128
#define ELF_DYNAMIC_MAX  4096 /* entries */

/* Reads exactly @len bytes at @offset; false: the file has fewer. */
typedef bool elf_read_fn(void *arg, uint64_t offset, void *to, size_t len);

/*
 * Fills @ret of ELF_SONAME_MAX bytes. Returns ELF_E_NONE if the library has no SONAME. ERR_INVALID: no
 * ELF file, or a malformed one. ERR_UNSUPPORTED: a library of another machine (for example 32 bits).
 */
#define ELF_E_NONE 1
int elf_soname(char *ret, elf_read_fn *read, void *arg, struct error *err) MUST_USE;

/* elf_soname() of the file @path. Blocks on the file. */
int elf_file_soname(char *ret, const char *path, struct error *err) MUST_USE;
