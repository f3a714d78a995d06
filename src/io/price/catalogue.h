/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A catalogue in memory, and its reader. Inside src/io/price only. Thread: the owner's of the catalogue while
 * it changes it; then any.
 */
#include "lib/base/strv.h"
#include "io/price/price.h"

#define PRICE_REGIONS_MAX 256 /* of one type */
#define PRICE_ANYWHERE    "*" /* the region of a price that holds everywhere */

/* The facts that all prices of one file share. Texts are in the catalogue's pool. */
struct price_file {
	const char *source, *currency, *stamp;
	bool shipped;
};

struct price_region {
	const char *name;
	int64_t nano_per_hour;       /* on demand; < 0: not sold on demand */
	int64_t spot_low, spot_high; /* range of the zones; < 0: not sold as spot */
	/* The sources of the prices, NULL: the type's own file; and their ranks (PRICE_RANK_... of
	 * amend.h). */
	const struct price_file *from, *spot_from;
	unsigned rank, spot_rank, interrupt_rank;
	uint32_t interrupt_low_milli, interrupt_high_milli; /* a month; 0, 0: unknown */
};

struct price_type {
	const char *name, *gpu, *arch;
	uint32_t gpus, gpu_memory_mib, vcpus, memory_mib;
	uint32_t gpu_milli, allocatable_cpu_milli, allocatable_memory_mib;
	const struct price_file *file;
	struct price_region *regions;
	size_t n_regions;
};

struct price_catalogue {
	struct price_type *types; /* sorted by name after the read */
	size_t n, room;
	struct price_file files[2]; /* shipped, the user's */
	struct price_file **more;   /* of imported files and --price */
	size_t n_more;
	struct strv pool;
};

/* Adds the types of @text to @c. A type that is there is replaced. Without the key gpu in @text the
 * type keeps the facts that @text does not give, except prices on demand. */
int price_catalogue_read(struct price_catalogue *c, struct price_file *file, const char *name,
	const char *text, size_t len, struct error *err) MUST_USE;

/* NULL: the catalogue does not have the type. */
struct price_type *price_type_find(const struct price_catalogue *c, const char *name);

/* The region @name itself, not PRICE_ANYWHERE in its place. NULL: none. Valid until @t gets a region. */
struct price_region *price_type_find_region(const struct price_type *t, const char *name);

/*
 * Adds to @t a region without prices. @t must have fewer than PRICE_REGIONS_MAX regions, and not @name. The region
 * borrows @name. Moves the other regions of @t. NULL: ERR_NOMEM.
 */
struct price_region *price_type_add_region(struct price_type *t, const char *name,
	struct error *err);
