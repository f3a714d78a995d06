/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The symbols of a loaded ELF object, read as the dynamic loader does, but without calling it. The libraries
 * import none of its dl* functions, which are in a different library in each generation of the C library.
 */
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct loader_image {
	uintptr_t base; /* added to the addresses in the file */
	const Elf64_Sym *symbols;
	const char *strings;
	const uint16_t *versions; /* NULL: none */
	const uint32_t *hash;     /* DT_HASH; NULL: none */
	const char *soname;       /* NULL: none */

	/* DT_GNU_HASH; NULL: none. chain[i] belongs to symbols[first + i]. */
	const uint32_t *gnu;
	const Elf64_Addr *bloom;
	const uint32_t *buckets, *chain;
	uint32_t bucket_count, first, bloom_words, bloom_shift;
};

/* @dynamic: the object's dynamic section in memory. False: the object has no symbols. */
bool image_of(uintptr_t base, const Elf64_Dyn *dynamic, struct loader_image *ret);
/* For a callback of dl_iterate_phdr(). False: the object has no dynamic section, or no symbols. */
bool image_of_phdr(const struct dl_phdr_info *info, struct loader_image *ret);

/* This library. */
void image_self(struct loader_image *ret);
/* Whether @info is of this library. */
bool image_is_self(const struct dl_phdr_info *info);

/* Index of the symbol that is defined under @name, in its default version; 0: there is none. */
uint32_t image_find(const struct loader_image *im, const char *name);
/* Address of that symbol; NULL: there is none. */
void *image_address(const struct loader_image *im, const char *name);

/* Number of symbols, the undefined included. */
uint32_t image_count(const struct loader_image *im);

/* Whether other objects find the symbol by name: a function or variable that is defined and not hidden. */
bool image_offers(const struct loader_image *im, uint32_t symbol);

/* The hash of a name in DT_GNU_HASH. */
uint32_t gnu_hash(const char *name);

#pragma GCC visibility pop
