/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a node costs per hour: the shipped catalogue, and a file of the user's over it.
 *
 * Money is a whole number of nano-units of its currency (10^-9 USD) everywhere, so that parts add up
 * to the whole. Prices with more decimals are rounded half to even. A catalogue is read once and
 * never changes: any thread may look things up.
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRICE_NANO       INT64_C(1000000000)             /* of one unit of currency */
#define PRICE_MAX        (INT64_C(1000000) * PRICE_NANO) /* per hour: a million */
#define PRICE_FILE_MAX   (1U << 20)                      /* bytes of a catalogue */
#define PRICE_TYPES_MAX  4096                            /* instance types in one */
#define PRICE_NAME_MAX   64 /* of a type, region, product, with the end */
#define PRICE_STALE_DAYS 90
#define PRICE_USUAL_REGION \
	"us-east-1" /* where prices are looked up that nobody says the region of */

struct price_catalogue;

/* An instance type and its price in one region. The texts live as long as the catalogue. */
struct price {
	const char *type;     /* "g5.xlarge" */
	const char *region;   /* "us-east-1" */
	const char *currency; /* "USD" */
	const char *stamp;    /* day of the prices, "2026-07-20"; "" if the file has none */
	const char *source;   /* "shipped catalogue", or the path of the user's file */
	int64_t nano_per_hour;
	bool assumed;    /* nobody said the region, and .region was taken */
	const char *gpu; /* product, "A10G"; "" if unknown, as all below are 0 then */
	uint32_t gpus;   /* logical GPUs */
	uint32_t gpu_memory_mib, vcpus, memory_mib;
};

/* A way to have an instance type in a region. */
struct price_offer {
	struct price price; /* .nano_per_hour: of spot the middle of .low and .high */
	bool spot;
	int64_t low, high; /* of the zones; on demand both are the price */
	/* Spot: thousandths of an interruption of an instance in a month, from and to; 0, 0: not known. */
	uint32_t interrupt_low_milli, interrupt_high_milli;
	const char *arch; /* "amd64", "arm64" */
	uint32_t
		gpu_milli; /* of a GPU that each of .gpus is; 1000 but for types with a part of one */
	uint32_t allocatable_cpu_milli, allocatable_memory_mib; /* what pods may ask for */
};

/*
 * The shipped catalogue, and over it @user_file (NULL or "": none), which replaces whole types.
 * Errors of the file begin with "file:line:column: ".
 */
int price_catalogue_load(struct price_catalogue **ret, const char *user_file,
	struct error *err) MUST_USE;

/* Only @text as if it were the file @name; for tests and fuzzing. */
int price_catalogue_parse(struct price_catalogue **ret, const char *name, const char *text,
	size_t len, struct error *err) MUST_USE;

struct price_catalogue *price_catalogue_free(struct price_catalogue *c); /* returns NULL */
DEFINE_CLEANUP(struct price_catalogue *, price_catalogue_free)

/*
 * @region "": not known. Then it is the price of any region, else that of PRICE_USUAL_REGION, else the lowest.
 * ERR_NOT_FOUND tells an unknown type from a type without a price in @region, and what there is.
 */
int price_find(const struct price_catalogue *c, const char *type, const char *region,
	struct price *ret, struct error *err) MUST_USE;

/*
 * Calls @visit for each offer in @region, whose text is then that of the offers, by name of the type, on demand before spot; it returns < 0 to stop, which
 * is returned. What pods may ask for is reckoned where the file does not say: 90 % of the memory, and all
 * processors but 0.31 of one.
 */
int price_each(const struct price_catalogue *c, const char *region,
	int (*visit)(void *arg, const struct price_offer *offer), void *arg);

size_t price_catalogue_count(const struct price_catalogue *c); /* of types */

/*
 * True, and a sentence for people in @buf of PRICE_WARNING_MAX bytes, if @p comes of the shipped
 * catalogue and its prices are older than PRICE_STALE_DAYS at @now_s (seconds since 1970).
 */
#define PRICE_WARNING_MAX 256
bool price_is_stale(const struct price *p, uint64_t now_s, char *buf);

/* ---- amounts ---------------------------------------------------------------------------------- */

/* "3.06", "0.0000000005" (half to even), no sign, no exponent. False: not such a number, or more
 * than PRICE_MAX. */
bool price_parse(const char *text, int64_t *ret_nano);

/* All nine decimals but for zeros at the end, at least @decimals of them: "3.06", "0.0000005". */
#define PRICE_TEXT_MAX 32
const char *price_text(int64_t nano, unsigned decimals, char *buf);

/*
 * Adds up a price over time without losing anything: what does not come to a whole nano-unit stays
 * in .rest for the next call. Begin with zeros; @nano_per_hour may change between calls.
 */
struct price_meter {
	uint64_t rest; /* nano-units times nanoseconds, below one hour */
};

/* What @ns nanoseconds cost. @ns is at most 366 days. */
int64_t price_meter_add(struct price_meter *m, int64_t nano_per_hour, uint64_t ns);

/*
 * Sums that stop at PRICE_SUM_MAX, so that a month of one can still be reckoned: 9.2 million an hour. Arguments are
 * not negative.
 */
#define PRICE_SUM_MAX (INT64_MAX / 1000)
int64_t price_times(int64_t nano, uint64_t n);
int64_t price_plus(int64_t a, int64_t b);

/*
 * Splits @total by @weights into @ret, both of @n: each part is rounded down and what is left over
 * goes to the last one, which is the idle part by custom. So the parts always sum to @total. If all
 * weights are 0 the last part is everything. Weights below 0 count as 0.
 */
void price_split(int64_t total, const int64_t *weights, int64_t *ret, size_t n);

/*
 * How OpenCost splits the price of a node without prices of its parts: by its list prices of a processor, a GiB and a
 * GPU (0.031611, 0.004237 and 0.95 USD an hour). Nano-units an hour of one of each. So of large nodes it calls GPU
 * cost a third, of small ones four fifths.
 */
struct price_parts {
	int64_t cpu, gib, gpu;
};
struct price_parts price_opencost(int64_t nano_per_hour, uint32_t vcpus, uint32_t memory_mib,
	uint32_t gpus);
