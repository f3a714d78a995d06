/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/persist/internal.h"

#include "lib/base/array.h"
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

int monitoring_persist_init(struct monitoring_persist *k, const char *state_dir,
	struct error *err)
{
	*k = (struct monitoring_persist){ .db = NULL };
	return path_join(k->path, sizeof(k->path), state_dir, USAGE_DB_FILE, err);
}

void monitoring_totals_free(struct usage_db_total *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((char *)(uintptr_t)v[i].key);
	free(v);
}

void monitoring_persist_fini(struct monitoring_persist *k)
{
	k->db = usage_db_close(k->db);
	for (size_t i = 0; i < k->n_rows; i++)
		free(k->rows[i].text);
	free(k->rows);
	monitoring_totals_free(k->totals, k->n_totals);
	monitoring_totals_free(k->loaded_totals, k->n_loaded_totals);
	free(k->period_text);
	*k = (struct monitoring_persist){ .db = NULL };
}

/* --- on a pool thread --- */

static int restore_usage_total(void *arg, const struct usage_db_total *total, struct error *err)
{
	struct monitoring_persist *k = arg;

	if (!ARRAY_GROW(&k->loaded_totals, k->n_loaded_totals, &k->room_loaded_totals,
		    ARRAY_NO_LIMIT))
		return error_nomem(err);
	k->loaded_totals[k->n_loaded_totals] = *total;
	k->loaded_totals[k->n_loaded_totals].key = strdup(total->key);
	if (!k->loaded_totals[k->n_loaded_totals].key)
		return error_nomem(err);
	k->n_loaded_totals++;
	return 0;
}

static void read_usage_db_size(struct monitoring_persist *k)
{
	struct stat st;

	k->bytes = k->db && stat(k->path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int make_persist_dir(const struct monitoring_persist *k, struct error *err)
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

static void open_persist_db(struct monitoring_persist *k, uint64_t now_ns)
{
	int r;

	error_clear(&k->error);
	k->retry_ns = now_ns + RETRY_NS;
	if (make_persist_dir(k, &k->error) < 0)
		return;
	error_clear(&k->error);
	r = usage_db_open(&k->db, k->path, USAGE_DB_BYTES, &k->error);
	if (r == USAGE_DB_RECREATED) {
		k->note = k->error;
		error_clear(&k->error);
	}
	k->file = file_stamp_of(k->path);
}

/* Writes to a file that was removed or replaced are lost. */
static bool is_persist_file_replaced(const struct monitoring_persist *k)
{
	struct file_stamp now = file_stamp_of(k->path);

	return now.dev != k->file.dev || now.ino != k->file.ino;
}

void monitoring_persist_open(struct monitoring_persist *k, uint64_t now_ns)
{
	open_persist_db(k, now_ns);
	if (k->db && usage_db_totals_load(k->db, restore_usage_total, k, &k->error) < 0) {
		/* A part of the totals would give counters that do not match. */
		monitoring_totals_free(k->loaded_totals, k->n_loaded_totals);
		k->loaded_totals = NULL;
		k->n_loaded_totals = 0;
	}
	read_usage_db_size(k);
}

static int write_batch(struct monitoring_persist *k, uint64_t now_ns)
{
	CLEANUP(freep) struct usage_db_row *rows = calloc(k->n_rows + 1, sizeof(*rows));
	struct usage_db_batch b = { .period = &k->period,
		.deltas = rows,
		.n_deltas = k->n_rows,
		.set_totals = true,
		.totals = k->totals,
		.n_totals = k->n_totals };
	int r;

	if (!rows)
		return error_nomem(&k->error);
	if (k->db && is_persist_file_replaced(k)) {
		k->db = usage_db_close(k->db);
		k->retry_ns = now_ns;
	}
	if (!k->db && now_ns >= k->retry_ns)
		open_persist_db(k, now_ns);
	if (!k->db)
		return -1;
	k->period.cost_nano = 0;
	for (size_t i = 0; i < k->n_rows; i++) {
		rows[i] = k->rows[i].row;
		k->period.cost_nano += rows[i].cost_nano;
	}
	error_clear(&k->error);
	r = usage_db_add(k->db, &b, k->now_s, &k->error);
	if (r == USAGE_DB_RECREATED) {
		k->note = k->error;
		error_clear(&k->error);
	}
	return r < 0 ? -1 : 0;
}

void monitoring_persist_write(struct monitoring_persist *k, uint64_t now_ns)
{
	if (write_batch(k, now_ns) == 0)
		error_clear(&k->error);
	else if (k->error.code == ERR_NONE)
		(void)error_set(&k->error, ERR_UNAVAILABLE, "'%s' is not open", k->path);
	read_usage_db_size(k);
}

/* --- on the loop --- */

void monitoring_persist_written(struct monitoring_persist *k)
{
	if (k->note.code != ERR_NONE)
		log_error("the ledger was begun anew", LOG_STR("file", k->path),
			LOG_STR("reason", k->note.msg));
	error_clear(&k->note);
	k->failure = k->error;
	if (k->error.code == ERR_NONE) {
		if (*k->logged_error)
			log_info("the ledger is written again", LOG_STR("file", k->path));
		k->logged_error[0] = '\0';
		for (size_t i = 0; i < k->n_rows; i++)
			free(k->rows[i].text);
		k->n_rows = 0;
		k->covered_ns = 0;
		return;
	}
	k->errors++;
	if (strcmp(k->logged_error, k->error.msg) != 0)
		log_error("the ledger cannot be written, counting goes on in memory",
			LOG_STR("file", k->path), LOG_STR("reason", k->error.msg));
	memcpy(k->logged_error, k->error.msg, sizeof(k->logged_error));
}
