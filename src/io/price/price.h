/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The price of a node per hour: the shipped catalogue, and a file of the user's over it (import/load.h:
 * further sources).
 *
 * Money is a whole number of nano-units of its currency (10^-9 USD) everywhere, so that parts add up
 * to the whole. Prices with more decimals are rounded half to even.
 * Thread: any. A catalogue does not change after it is loaded.
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRICE_NANO         INT64_C(1000000000)             /* of one unit of currency */
#define PRICE_MAX          (INT64_C(1000000) * PRICE_NANO) /* per hour: a million */
#define PRICE_FILE_MAX     (1U << 20)                      /* limit of a catalogue, bytes */
#define PRICE_TYPES_MAX    4096 /* limit of instance types in a catalogue */
#define PRICE_NAME_MAX     64   /* limit of the name of a type, region, product, with NUL */
#define PRICE_STALE_DAYS   90
#define PRICE_USUAL_REGION "us-east-1" /* the region to use if no region is given */

struct price_catalogue;

/* An instance type and its price in one region. The texts live as long as the catalogue. */
struct price {
	const char *type;     /* "g5.xlarge" */
	const char *region;   /* "us-east-1" */
	const char *currency; /* "USD" */
	const char *stamp;    /* day of the prices, "2026-07-20"; "": unknown */
	const char *source;   /* "shipped catalogue", "--price", or the path of a file */
	int64_t nano_per_hour;
	bool assumed;    /* no region was given, and .region was assumed */
	const char *gpu; /* product, "A10G"; "": unknown, then all below are 0 */
	uint32_t gpus;   /* logical GPUs */
	uint32_t gpu_memory_mib, vcpus, memory_mib;
};

/* One offer of an instance type in a region. */
struct price_offer {
	struct price price; /* .nano_per_hour: of spot the middle of .low and .high */
	bool spot;
	int64_t low, high; /* range of the zones; on demand both are the price */
	/* Spot: thousandths of instances that are interrupted in a month, from and to; 0, 0:
	 * unknown. */
	uint32_t interrupt_low_milli, interrupt_high_milli;
	const char *arch;   /* "amd64", "arm64" */
	uint32_t gpu_milli; /* size of each GPU, in thousandths */
	uint32_t allocatable_cpu_milli, allocatable_memory_mib; /* what pods may request */
};

/*
 * The shipped catalogue, and over it @user_file (NULL or "": none). A type of the file replaces the
 * shipped type. Without the key gpu the type inherits, where the file gives none, the shipped hardware
 * facts and the spot prices of the same currency. Errors of the file begin with "file:line:column: ".
 * Blocks on the file.
 */
int price_catalogue_load(struct price_catalogue **ret, const char *user_file,
	struct error *err) MUST_USE;

/* Parses only @text, as if it were the file @name; for tests and fuzzing. */
int price_catalogue_parse(struct price_catalogue **ret, const char *name, const char *text,
	size_t len, struct error *err) MUST_USE;

struct price_catalogue *price_catalogue_free(struct price_catalogue *c); /* returns NULL */
DEFINE_CLEANUP(struct price_catalogue *, price_catalogue_free)

/*
 * @region "": unknown. Then the price is that of the region "*" (everywhere), else that of
 * PRICE_USUAL_REGION, else the lowest. ERR_NOT_FOUND: the text distinguishes an unknown type from a
 * type without a price in @region, and lists the regions with a price.
 */
int price_find(const struct price_catalogue *c, const char *type, const char *region,
	struct price *ret, struct error *err) MUST_USE;

/*
 * Calls @visit for each offer in @region, by name of the type, on demand before spot. The offers
 * borrow @region as .region. @visit returns < 0 to stop, and price_each() returns that value. Where
 * the file does not give what pods may request, the defaults are 90 % of the memory, and all CPUs but
 * 0.31 of one.
 */
int price_each(const struct price_catalogue *c, const char *region,
	int (*visit)(void *arg, const struct price_offer *offer), void *arg);

/*
 * True if @p is from the shipped catalogue and its prices are older than PRICE_STALE_DAYS at @now_s
 * (seconds since 1970). Then @buf of PRICE_WARNING_MAX bytes has a sentence for people.
 */
#define PRICE_WARNING_MAX 256
bool price_is_stale(const struct price *p, uint64_t now_s, char *buf);

/* --- amounts --- */

/* "3.06", "0.0000000005" (half to even): no sign, no exponent. False: no such number, or more than
 * PRICE_MAX. */
bool price_parse(const char *text, int64_t *ret_nano);

/* Nine decimals without the zeros at the end, but at least @decimals: "3.06", "0.0000005". @buf has
 * PRICE_TEXT_MAX bytes. Returns @buf. */
#define PRICE_TEXT_MAX 32
const char *price_text(int64_t nano, unsigned decimals, char *buf);

/* @nano times @n, and @a plus @b. The results stop at PRICE_SUM_MAX, 9.2 million an hour: the sum of a month
 * still fits into int64_t. Arguments are not negative. */
#define PRICE_SUM_MAX (INT64_MAX / 1000)
int64_t price_times(int64_t nano, uint64_t n);
int64_t price_plus(int64_t a, int64_t b);

/*
 * Splits @total by @weights into @ret, both of @n. Each amount is rounded down; the last one gets the
 * remainder. By convention the last one is the idle share. So the amounts always sum to @total. If all
 * weights are 0, the last one gets everything. Weights below 0 count as 0.
 */
void price_split(int64_t total, const int64_t *weights, int64_t *ret, size_t n);

/*
 * OpenCost's split of the price of a node whose components have no prices of their own. The weights
 * are OpenCost's list prices of a CPU, a GiB and a GPU (0.031611, 0.004237 and 0.95 USD an hour). So
 * the GPUs' share is a third on large nodes, four fifths on small ones.
 */
struct price_parts {
	int64_t cpu, gib, gpu; /* nano-units an hour of one of each */
};
/* @nano_per_hour: price of the node. All parts are 0 for a node without CPUs, memory and GPUs. */
struct price_parts price_opencost(int64_t nano_per_hour, uint32_t vcpus, uint32_t memory_mib,
	uint32_t gpus);
