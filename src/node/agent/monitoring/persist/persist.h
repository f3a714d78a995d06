/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Persists the counters and what each round added, in the usage records (io/usage-db/usage-db.h). The counters go
 * on after a restart.
 *
 *	1. The loop prepares a batch.
 *	2. A pool thread writes the batch; the loop does not touch the batch meanwhile.
 *	3. The loop takes the result. A batch that was not written stays and is merged with the next batch.
 *
 * Thread: see each function.
 */
#include "node/agent/monitoring/charges.h"
#include "lib/base/paths.h"
#include "model/usage/usage.h"
#include "model/gpu/gpu.h"
#include "io/usage-db/usage-db.h"

#include <limits.h>

struct monitoring_persist_row {
	struct usage_db_row row; /* texts are in .text */
	char *text;
};

/* The node that a batch is for. Texts are copied. */
struct monitoring_persist_node {
	const char *node, *instance_type, *region, *currency, *price_source;
	int64_t price_nano_per_hour;
	uint32_t n_gpus;
	const char *const *gpus; /* UUIDs, by the positions of account_device_round.gpu */
	uint64_t wall_ns, dt_ns, since_wall_ns;
};

struct monitoring_persist_xid {
	char uuid[GPU_UUID_MAX];
	uint32_t xid;
	uint64_t count, last_wall_ns;
};

struct monitoring_persist {
	char path[PATH_MAX];
	struct usage_db *db;    /* the pool thread's */
	bool opened;            /* at least once */
	struct file_stamp file; /* when it was opened */
	uint64_t retry_ns;      /* monotonic: when to retry to open the file */

	/* The batch: the pool thread's during a write, else the loop's. */
	struct monitoring_persist_row *rows;
	size_t n_rows, room_rows;
	struct usage_db_total *totals;
	size_t n_totals;
	struct usage_db_period period;
	char *period_text; /* its texts */
	int64_t covered_ns;
	uint64_t now_s;

	/* The result of the pool thread. */
	struct error error; /* of the last try; ERR_NONE: written */
	struct error note;  /* why the file was recreated; ERR_NONE: it was not */
	uint64_t bytes;

	/* What the pool thread found at the start, for the loop. */
	struct usage_db_total *loaded_totals;
	size_t n_loaded_totals, room_loaded_totals;

	uint64_t errors;      /* counter; the loop's */
	struct error failure; /* the loop's copy of .error */
	char logged_error[ERROR_MSG_MAX];
};

/* Loop. The file is USAGE_DB_FILE in @state_dir. */
int monitoring_persist_init(struct monitoring_persist *persist, const char *state_dir,
	struct error *err) MUST_USE;
void monitoring_persist_fini(struct monitoring_persist *persist);

/* Pool: opens the file and reads the totals. */
void monitoring_persist_open(struct monitoring_persist *persist, uint64_t now_ns);
/* Loop, once, after monitoring_persist_open(): restores @a and @charges, and calls @xid for each XID counter. */
int monitoring_persist_restore(struct monitoring_persist *persist, struct accounts *a,
	struct monitoring_charges *charges, uint64_t *since_wall_ns,
	void (*xid)(void *arg, const struct monitoring_persist_xid *x), void *arg,
	struct error *err) MUST_USE;

/* Loop: prepares the batch of a round. @r is the round that was just counted. */
int monitoring_persist_prepare(struct monitoring_persist *persist, const struct accounts *a,
	const struct account_round *r, const struct monitoring_persist_node *node,
	const struct monitoring_persist_xid *xids, size_t n_xids,
	const struct monitoring_charges *charges, struct error *err) MUST_USE;
/* Pool: writes the batch. */
void monitoring_persist_write(struct monitoring_persist *persist, uint64_t now_ns);
/* Loop: the write has ended. Frees the batch, or retains it if it was not written. Logs changes. */
void monitoring_persist_written(struct monitoring_persist *persist);
