/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is counted, kept in the ledger (io/usage-db/usage-db.h): the counters themselves, so that they go on after a restart,
 * and what each round added. The loop prepares a batch and takes the result; the pool's thread writes it
 * meanwhile. What could not be written is given again with the next batch.
 * Thread: as each function says.
 */
#include "node/agent/monitoring/charges.h"
#include "lib/base/stamp.h"
#include "model/usage/usage.h"
#include "model/gpu/gpu.h"
#include "io/usage-db/usage-db.h"

#include <limits.h>

struct monitoring_persist_row {
	struct usage_db_row row; /* its texts are in .text */
	char *text;
};

/* What the parts of a batch are said to be of. Texts are copied where they are kept. */
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
	struct usage_db *db;    /* the pool's */
	bool opened;            /* once, at least */
	struct file_stamp file; /* as it was opened */
	uint64_t retry_ns;      /* monotonic: when to try to open it again */

	/* The batch: the loop's while none is written, else the pool's. */
	struct monitoring_persist_row *rows;
	size_t n_rows;
	struct usage_db_total *totals;
	size_t n_totals;
	struct usage_db_period period;
	char *period_text; /* its texts */
	int64_t covered_ns;
	uint64_t now_s;

	/* The pool's answer. */
	struct error error; /* of the last try; ERR_NONE: it was written */
	struct error note;  /* the file was renewed; ERR_NONE */
	uint64_t bytes;

	/* What was found at the start, for the loop. */
	struct usage_db_total *loaded_totals;
	size_t n_loaded_totals;

	uint64_t errors;      /* counter; the loop's */
	struct error failure; /* the loop's copy of .error */
	char logged_error[ERROR_MSG_MAX];
};

/* Loop. "STATE/ledger.db". */
int monitoring_persist_init(struct monitoring_persist *k, const char *state_dir,
	struct error *err) MUST_USE;
void monitoring_persist_fini(struct monitoring_persist *k);

/* Pool: opens it and reads what is there. */
void monitoring_persist_open(struct monitoring_persist *k, uint64_t now_ns);
/* Loop, once, after that: fills @a and @charges, and tells what else was kept. */
int monitoring_persist_restore(struct monitoring_persist *k, struct accounts *a,
	struct monitoring_charges *charges, uint64_t *since_wall_ns,
	void (*xid)(void *arg, const struct monitoring_persist_xid *x), void *arg,
	struct error *err) MUST_USE;

/* Loop: the batch of a round. @r is the round that was just counted. */
int monitoring_persist_prepare(struct monitoring_persist *k, const struct accounts *a,
	const struct account_round *r, const struct monitoring_persist_node *node,
	const struct monitoring_persist_xid *xids, size_t n_xids,
	const struct monitoring_charges *charges, struct error *err) MUST_USE;
/* Pool: writes it. */
void monitoring_persist_write(struct monitoring_persist *k, uint64_t now_ns);
/* Loop: it was written, or stays for the next time. Logs what is new. */
void monitoring_persist_written(struct monitoring_persist *k);
