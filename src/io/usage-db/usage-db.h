/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Usage records: which container held and used which GPU, and at what cost, in an SQLite file of bounded size.
 * All numbers are integers, so that rows sum exactly to the price of the node.
 *
 *	struct usage_db_batch b = { .period = &period, .deltas = deltas, .n_deltas = n,
 *		.totals = totals, .n_totals = m };
 *	r = usage_db_add(l, &b, now_s, &err);
 *
 * Threads. Calls block: on locks up to USAGE_DB_BUSY_MS, and on fsync. Call them on a pool thread, never on a
 * loop. One thread at a time uses an open usage_db. usage_db_read() opens the file itself, from any thread or
 * process.
 *
 * Crash safety:
 *	1. SQLite keeps a rollback journal beside the file ("-journal") and truncates it between writes.
 *	2. A write is in the file as a whole or not at all. This holds after kill -9 at any point, a power
 *	   loss or a full disk.
 *	3. A caller that gets an error keeps the numbers and adds them again later.
 *
 * There is no write-ahead log, which a reader would need write permission for. So a reader creates no file and
 * needs no permission to write.
 *
 * Buckets. Time goes into buckets of 5 minutes. They are merged into hours after 2 days and into days after 60;
 * sums stay the same. When the file comes near its size limit, the oldest buckets are dropped.
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USAGE_DB_FILE          "ledger.db" /* in the state directory */
#define USAGE_DB_BUCKET_S      300         /* the shortest bucket, in seconds */
#define USAGE_DB_HOURS_AFTER_S (2U * 86400)
#define USAGE_DB_DAYS_AFTER_S  (60U * 86400)
#define USAGE_DB_BUSY_MS       5000
#define USAGE_DB_BYTES_MIN     (256U << 10)
#define USAGE_DB_BYTES         (64U << 20) /* a good limit */

/* Limits of one call; beyond them ERR_LIMIT. */
#define USAGE_DB_VALUE_MAX   (INT64_C(1) << 53) /* of a number in a delta; a total has no limit */
#define USAGE_DB_DELTAS_MAX  16384
#define USAGE_DB_TOTALS_MAX  65536
#define USAGE_DB_NAME_MAX    253 /* bytes of a name: namespace, pod, node, resource */
#define USAGE_DB_WORD_MAX    63  /* of container, mode, instance type, region, source */
#define USAGE_DB_DEVICE_MAX  128 /* of a device or GPU, pod UID */
#define USAGE_DB_KEY_MAX     1024
#define USAGE_DB_TOTAL_COUNT 8

enum usage_db_kind {
	USAGE_DB_ALLOCATED,   /* a container's */
	USAGE_DB_UNALLOCATED, /* GPU time that no container held: of the names only .gpu is set */
};

/* The node and the price that the rows of a bucket belong to. Texts are never NULL; "": not known. */
struct usage_db_period {
	/* UTC, since 1970; for usage_db_add() a multiple of USAGE_DB_BUCKET_S */
	uint64_t start_s;
	uint64_t end_s; /* UTC, since 1970; usage_db_add() ignores it: one bucket */
	const char *node, *instance_type, *region;
	const char *currency;        /* three letters; "": no price */
	const char *price_source;    /* "catalogue 2026-07-20", "option", "" */
	int64_t price_nano_per_hour; /* of the node; 0: not known, and all costs are 0 */
	uint32_t gpus;               /* GPUs of the node (whole ones) */
	int64_t covered_ns;          /* node time that was counted */
	int64_t cost_nano;           /* the exact sum of the rows' costs */
};

/* What a container had of a device, or what was unallocated. usage_db_add() adds the row; numbers are 0 or more. */
struct usage_db_row {
	enum usage_db_kind kind;
	const char *namespace_, *pod, *pod_uid, *container;
	const char *gpu;      /* UUID of the whole GPU */
	const char *device;   /* UUID of the MIG device, or .gpu */
	const char *resource; /* "nvidia.com/gpu.shared" */
	const char *mode;     /* exclusive, time-slicing, mps, mig or slices */
	int64_t allocated_ns; /* time it held the device */
	int64_t gpu_ns;    /* allocated time times the share of the GPU: time of a whole GPU */
	int64_t busy_ns;   /* measured use, in time of a whole GPU */
	bool busy_unknown; /* a part of .busy_ns could not be measured; adding keeps true */
	int64_t memory_byte_seconds;
	int64_t memory_peak_bytes; /* adding keeps the larger */
	int64_t cost_nano;
	bool memory_unknown; /* a part of the memory could not be measured; adding keeps true */
};

/* A counter of several numbers that must survive the agent. The caller defines the numbers. */
struct usage_db_total {
	const char *key; /* UTF-8, 1 to USAGE_DB_KEY_MAX bytes */
	int64_t v[USAGE_DB_TOTAL_COUNT];
};

/* One transaction. */
struct usage_db_batch {
	const struct usage_db_period *period; /* NULL: no deltas */
	const struct usage_db_row *deltas;    /* rows of one key are added up */
	size_t n_deltas;
	bool set_totals; /* .totals replace all stored totals */
	const struct usage_db_total *totals;
	size_t n_totals;
};

struct usage_db;

/* Not a failure. The file was damaged, or of another program or version. It was renamed, a new file was created,
 * and @err has the new name. Of the renamed files only the newest is kept. */
#define USAGE_DB_RECREATED 1

/*
 * Opens @path, or creates it with mode 0600. The file has at most @max_bytes (USAGE_DB_BYTES_MIN or more). The
 * journal comes on top, no larger than what one call changes. Returns 0 or USAGE_DB_RECREATED. ERR_INVALID: not a
 * regular file, or more than one link. ERR_UNAVAILABLE: locked by another process.
 */
int usage_db_open(struct usage_db **ret, const char *path, uint64_t max_bytes,
	struct error *err) MUST_USE;
struct usage_db *usage_db_close(struct usage_db *db); /* returns NULL; NULL is fine */
DEFINE_CLEANUP(struct usage_db *, usage_db_close)

/*
 * Adds a batch, then merges and drops a bounded part of what is due at @now_s. 0 or USAGE_DB_RECREATED: the file
 * has the batch. < 0: the file has nothing of it. The usage_db stays usable after any error.
 *
 * ERR_INVALID: a bug, or a name that is not UTF-8; also if period.cost_nano is not the sum of the deltas' costs.
 * ERR_UNAVAILABLE (locked by a reader) and ERR_IO with .sys ENOSPC (disk full): add the batch again later.
 */
int usage_db_add(struct usage_db *db, const struct usage_db_batch *b, uint64_t now_s,
	struct error *err) MUST_USE;

/* Calls @each for each stored total. @total is borrowed for the call. A result < 0 of @each ends the walk and is
 * returned. */
int usage_db_totals_load(struct usage_db *db,
	int (*each)(void *arg, const struct usage_db_total *total, struct error *err),
	void *arg, struct error *err) MUST_USE;

/*
 * Calls @each for every bucket that overlaps [@from_s, @to_s), in order of time: first with @row NULL for the
 * period, then for each row. Arguments are borrowed for the call. A result < 0 of @each ends the walk and is
 * returned. Numbers are those of whole buckets.
 *
 * Creates no file, and works beside an agent. The agent's writes wait meanwhile, so @each must be quick.
 * ERR_NOT_FOUND: no file.
 */
typedef int (*usage_db_each)(void *arg, const struct usage_db_period *period,
	const struct usage_db_row *row, struct error *err);
int usage_db_read(const char *path, uint64_t from_s, uint64_t to_s, usage_db_each each,
	void *arg, struct error *err) MUST_USE;
