/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/keep/internal.h"

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RETRY_NS (60 * NS_PER_SEC)

int see_keep_init(struct see_keep *k, const char *state_dir, struct error *err)
{
	*k = (struct see_keep){ .ledger = NULL };
	return path_join(k->path, sizeof(k->path), state_dir, LEDGER_FILE, err);
}

void see_totals_free(struct ledger_total *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((char *)(uintptr_t)v[i].key);
	free(v);
}

void see_keep_fini(struct see_keep *k)
{
	k->ledger = ledger_close(k->ledger);
	for (size_t i = 0; i < k->n_rows; i++)
		free(k->rows[i].text);
	free(k->rows);
	see_totals_free(k->totals, k->n_totals);
	see_totals_free(k->found, k->n_found);
	free(k->period_text);
	*k = (struct see_keep){ .ledger = NULL };
}

/* --- on the pool's thread --- */

static int take_total(void *arg, const struct ledger_total *total, struct error *err)
{
	struct see_keep *k = arg;
	struct ledger_total *more = reallocarray(k->found, k->n_found + 1, sizeof(*more));

	if (!more)
		return error_nomem(err);
	k->found = more;
	k->found[k->n_found] = *total;
	k->found[k->n_found].key = strdup(total->key);
	if (!k->found[k->n_found].key)
		return error_nomem(err);
	k->n_found++;
	return 0;
}

static void look_size(struct see_keep *k)
{
	struct stat st;

	k->bytes = k->ledger && stat(k->path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int make_dir(const struct see_keep *k, struct error *err)
{
	char dir[PATH_MAX];
	char *slash;

	(void)snprintf(dir, sizeof(dir), "%s", k->path);
	slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return 0;
	*slash = '\0';
	return dir_make(dir, 0755, err);
}

static void open_ledger(struct see_keep *k, uint64_t now_ns)
{
	int r;

	error_clear(&k->error);
	k->retry_ns = now_ns + RETRY_NS;
	if (make_dir(k, &k->error) < 0)
		return;
	error_clear(&k->error);
	r = ledger_open(&k->ledger, k->path, LEDGER_BYTES, &k->error);
	if (r == LEDGER_RENEWED) {
		k->note = k->error;
		error_clear(&k->error);
	}
	k->file = file_stamp_of(k->path);
}

/* What is written to a file that was removed, or that another has replaced, is lost. */
static bool is_lost(const struct see_keep *k)
{
	struct file_stamp now = file_stamp_of(k->path);

	return now.dev != k->file.dev || now.ino != k->file.ino;
}

void see_keep_open(struct see_keep *k, uint64_t now_ns)
{
	open_ledger(k, now_ns);
	if (k->ledger && ledger_totals_load(k->ledger, take_total, k, &k->error) < 0) {
		/* Half of it would make counters that do not fit together. */
		see_totals_free(k->found, k->n_found);
		k->found = NULL;
		k->n_found = 0;
	}
	look_size(k);
}

static int write_batch(struct see_keep *k, uint64_t now_ns)
{
	CLEANUP(freep) struct ledger_row *rows = calloc(k->n_rows + 1, sizeof(*rows));
	struct ledger_batch b = { .period = &k->period,
		.deltas = rows,
		.n_deltas = k->n_rows,
		.set_totals = true,
		.totals = k->totals,
		.n_totals = k->n_totals };
	int r;

	if (!rows)
		return error_nomem(&k->error);
	if (k->ledger && is_lost(k)) {
		k->ledger = ledger_close(k->ledger);
		k->retry_ns = now_ns;
	}
	if (!k->ledger && now_ns >= k->retry_ns)
		open_ledger(k, now_ns);
	if (!k->ledger)
		return -1;
	k->period.cost_nano = 0;
	for (size_t i = 0; i < k->n_rows; i++) {
		rows[i] = k->rows[i].row;
		k->period.cost_nano += rows[i].cost_nano;
	}
	error_clear(&k->error);
	r = ledger_add(k->ledger, &b, k->now_s, &k->error);
	if (r == LEDGER_RENEWED) {
		k->note = k->error;
		error_clear(&k->error);
	}
	return r < 0 ? -1 : 0;
}

void see_keep_write(struct see_keep *k, uint64_t now_ns)
{
	if (write_batch(k, now_ns) == 0)
		error_clear(&k->error);
	else if (k->error.code == ERR_NONE)
		(void)error_set(&k->error, ERR_UNAVAILABLE, "'%s' is not open", k->path);
	look_size(k);
}

/* --- on the loop --- */

void see_keep_written(struct see_keep *k)
{
	if (k->note.code != ERR_NONE)
		log_error("the ledger was begun anew", LOG_STR("file", k->path),
			LOG_STR("reason", k->note.msg));
	error_clear(&k->note);
	k->failure = k->error;
	if (k->error.code == ERR_NONE) {
		if (*k->told)
			log_info("the ledger is written again", LOG_STR("file", k->path));
		k->told[0] = '\0';
		for (size_t i = 0; i < k->n_rows; i++)
			free(k->rows[i].text);
		k->n_rows = 0;
		k->covered_ns = 0;
		return;
	}
	k->errors++;
	if (strcmp(k->told, k->error.msg) != 0)
		log_error("the ledger cannot be written, counting goes on in memory",
			LOG_STR("file", k->path), LOG_STR("reason", k->error.msg));
	memcpy(k->told, k->error.msg, sizeof(k->told));
}
