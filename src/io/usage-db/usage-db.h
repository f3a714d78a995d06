/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's ledger: who held and used which GPU, and what it cost, in an SQLite file of bounded
 * size. All numbers are whole, so that rows sum exactly to the price of the node.
 *
 *	struct usage_db_batch b = { .period = &period, .deltas = deltas, .n_deltas = n,
 *		.totals = totals, .n_totals = m };
 *	r = usage_db_add(l, &b, now_s, &err);
 *
 * Calls block (locks up to USAGE_DB_BUSY_MS, fsync): from a thread of a pool, never from a loop. An
 * open ledger is for one thread at a time; usage_db_read() opens for itself, from anywhere.
 *
 * The file has a rollback journal beside it ("-journal", truncated between writes) and no
 * write-ahead log: a reader then creates nothing and needs no right to write, which a log would
 * want. A write is in the file as a whole or not at all, also after kill -9 at any point, power loss
 * and a full disk; who gets an error keeps the numbers and gives them again.
 *
 * Time goes into buckets of 5 minutes. They are merged into hours after 2 days and into days after
 * 60; sums stay what they were. When the file comes near its ceiling the oldest buckets go.
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USAGE_DB_FILE          "ledger.db" /* below the state directory */
#define USAGE_DB_BUCKET_S      300         /* the shortest bucket, in seconds */
#define USAGE_DB_HOURS_AFTER_S (2U * 86400)
#define USAGE_DB_DAYS_AFTER_S  (60U * 86400)
#define USAGE_DB_BUSY_MS       5000
#define USAGE_DB_BYTES_MIN     (256U << 10)
#define USAGE_DB_BYTES         (64U << 20) /* a good ceiling */

/* Bounds of one call; more is ERR_LIMIT. */
#define USAGE_DB_VALUE_MAX   (INT64_C(1) << 53) /* of a number in a delta, a total may be any */
#define USAGE_DB_DELTAS_MAX  16384
#define USAGE_DB_TOTALS_MAX  65536
#define USAGE_DB_NAME_MAX    253 /* bytes of a name: namespace, pod, node, resource */
#define USAGE_DB_WORD_MAX    63  /* of container, mode, instance type, region, source */
#define USAGE_DB_DEVICE_MAX  128 /* of a device or GPU, pod UID */
#define USAGE_DB_KEY_MAX     1024
#define USAGE_DB_TOTAL_COUNT 8

enum usage_db_kind {
	USAGE_DB_ALLOCATED,   /* a container's */
	USAGE_DB_UNALLOCATED, /* GPU time that nobody held: only .gpu is set, of the names */
};

/* Of whose price the rows of a bucket are parts. Texts are never NULL; "" is unknown. */
struct usage_db_period {
	uint64_t
		start_s; /* UTC, since 1970; for usage_db_add() a multiple of USAGE_DB_BUCKET_S */
	uint64_t end_s; /* for usage_db_add(): ignored, it is one bucket */
	const char *node, *instance_type, *region;
	const char *currency;        /* three letters, or "" without a price */
	const char *price_source;    /* "catalogue 2026-07-20", "--node-price", "" */
	int64_t price_nano_per_hour; /* of the node; 0: unknown, and all costs are 0 */
	uint32_t gpus;               /* GPUs of the node (whole ones) */
	int64_t covered_ns;          /* node time that was accounted */
	int64_t cost_nano;           /* what the rows come to, exactly */
};

/* What a container, or nobody, had of a device. To be added; numbers are 0 or more. */
struct usage_db_row {
	enum usage_db_kind kind;
	const char *namespace_, *pod, *pod_uid, *container;
	const char *gpu;      /* UUID of the whole GPU */
	const char *device;   /* UUID of the MIG instance, or as .gpu */
	const char *resource; /* "nvidia.com/gpu.shared" */
	const char *mode;     /* exclusive, time-slicing, mps, mig or slices */
	int64_t allocated_ns; /* time it held the device */
	int64_t gpu_ns;       /* that times its share of the GPU: time of a whole GPU */
	int64_t busy_ns;      /* time of a whole GPU that it was measured to use */
	bool busy_unknown;    /* some of busy_ns could not be measured; stays set on adding */
	int64_t memory_byte_seconds;
	int64_t memory_peak_bytes; /* adding keeps the larger */
	int64_t cost_nano;
	bool memory_unknown; /* some of the memory could not be measured; stays set on adding */
};

/* A counter of several numbers that must outlive the agent. What they mean is the caller's. */
struct usage_db_total {
	const char *key; /* UTF-8, 1 to USAGE_DB_KEY_MAX bytes */
	int64_t v[USAGE_DB_TOTAL_COUNT];
};

/* One transaction. */
struct usage_db_batch {
	const struct usage_db_period *period; /* NULL: no deltas */
	const struct usage_db_row *deltas;    /* rows of the same key are added */
	size_t n_deltas;
	bool set_totals; /* .totals replace all that are stored */
	const struct usage_db_total *totals;
	size_t n_totals;
};

struct usage_db;

/* The file was damaged, or of another program or version: it was renamed, a new one is begun, and
 * @err tells the name. Not a failure. Of renamed files the newest is kept. */
#define USAGE_DB_RECREATED 1

/*
 * Opens @path, or creates it with mode 0600, for at most @max_bytes (USAGE_DB_BYTES_MIN or more) of
 * file; the journal comes on top, no larger than what one call changes. 0 or USAGE_DB_RECREATED;
 * ERR_INVALID for what is not a regular file (also a link), ERR_UNAVAILABLE while another holds it.
 */
int usage_db_open(struct usage_db **ret, const char *path, uint64_t max_bytes,
	struct error *err) MUST_USE;
struct usage_db *usage_db_close(struct usage_db *l); /* returns NULL; NULL is fine */
DEFINE_CLEANUP(struct usage_db *, usage_db_close)

/*
 * Adds a batch, then merges and drops what is due at @now_s, a bounded part of it. 0 or
 * USAGE_DB_RECREATED: the batch is in the file; < 0: nothing of it is. ERR_INVALID (a bug, or a name
 * that is not UTF-8) if period.cost_nano is not the sum of the deltas' costs.
 * ERR_UNAVAILABLE: locked by a reader, ERR_IO with .sys ENOSPC: disk full; give it again later. The
 * ledger stays usable after any error.
 */
int usage_db_add(struct usage_db *l, const struct usage_db_batch *b, uint64_t now_s,
	struct error *err) MUST_USE;

/* Each stored total; @total is borrowed for the call. A callback < 0 ends it with that result. */
int usage_db_totals_load(struct usage_db *l,
	int (*each)(void *arg, const struct usage_db_total *total, struct error *err),
	void *arg, struct error *err) MUST_USE;

/*
 * Calls @each for every bucket that overlaps [@from_s, @to_s), in the order of time: first with
 * @row NULL for the period, then for its rows. Borrowed for the call; < 0 ends it with that result.
 * Numbers are those of whole buckets. Creates nothing and works beside an agent that writes, which
 * waits meanwhile: be quick. ERR_NOT_FOUND if there is no file.
 */
typedef int (*usage_db_each)(void *arg, const struct usage_db_period *period,
	const struct usage_db_row *row, struct error *err);
int usage_db_read(const char *path, uint64_t from_s, uint64_t to_s, usage_db_each each,
	void *arg, struct error *err) MUST_USE;
