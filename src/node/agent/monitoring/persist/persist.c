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

int monitoring_persist_init(struct monitoring_persist *persist, const char *state_dir,
	struct error *err)
{
	*persist = (struct monitoring_persist){ .db = NULL };
	return path_join(persist->path, sizeof(persist->path), state_dir, USAGE_DB_FILE, err);
}

void monitoring_totals_free(struct usage_db_total *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((char *)(uintptr_t)v[i].key);
	free(v);
}

void monitoring_persist_fini(struct monitoring_persist *persist)
{
	persist->db = usage_db_close(persist->db);
	for (size_t i = 0; i < persist->n_rows; i++)
		free(persist->rows[i].text);
	free(persist->rows);
	monitoring_totals_free(persist->totals, persist->n_totals);
	monitoring_totals_free(persist->loaded_totals, persist->n_loaded_totals);
	free(persist->period_text);
	*persist = (struct monitoring_persist){ .db = NULL };
}

/* --- on a pool thread --- */

static int restore_usage_total(void *arg, const struct usage_db_total *total, struct error *err)
{
	struct monitoring_persist *persist = arg;

	if (!ARRAY_GROW(&persist->loaded_totals, persist->n_loaded_totals,
		    &persist->room_loaded_totals, ARRAY_NO_LIMIT))
		return error_nomem(err);
	persist->loaded_totals[persist->n_loaded_totals] = *total;
	persist->loaded_totals[persist->n_loaded_totals].key = strdup(total->key);
	if (!persist->loaded_totals[persist->n_loaded_totals].key)
		return error_nomem(err);
	persist->n_loaded_totals++;
	return 0;
}

static void read_usage_db_size(struct monitoring_persist *persist)
{
	struct stat st;

	persist->bytes =
		persist->db && stat(persist->path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int make_persist_dir(const struct monitoring_persist *persist, struct error *err)
{
	char dir[PATH_MAX];
	char *slash;

	(void)snprintf(dir, sizeof(dir), "%s", persist->path);
	slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return 0;
	*slash = '\0';
	return dir_make(dir, 0755, err);
}

static void open_persist_db(struct monitoring_persist *persist, uint64_t now_ns)
{
	int r;

	error_clear(&persist->error);
	persist->retry_ns = now_ns + RETRY_NS;
	if (make_persist_dir(persist, &persist->error) < 0)
		return;
	error_clear(&persist->error);
	r = usage_db_open(&persist->db, persist->path, USAGE_DB_BYTES, &persist->error);
	if (r == USAGE_DB_RECREATED) {
		persist->note = persist->error;
		error_clear(&persist->error);
	}
	persist->file = file_stamp_of(persist->path);
}

/* Writes to a file that was removed or replaced are lost. */
static bool is_persist_file_replaced(const struct monitoring_persist *persist)
{
	struct file_stamp now = file_stamp_of(persist->path);

	return now.dev != persist->file.dev || now.ino != persist->file.ino;
}

void monitoring_persist_open(struct monitoring_persist *persist, uint64_t now_ns)
{
	open_persist_db(persist, now_ns);
	if (persist->db && usage_db_totals_load(persist->db, restore_usage_total, persist,
				   &persist->error) < 0) {
		/* A part of the totals would give counters that do not match. */
		monitoring_totals_free(persist->loaded_totals, persist->n_loaded_totals);
		persist->loaded_totals = NULL;
		persist->n_loaded_totals = 0;
	}
	read_usage_db_size(persist);
}

static int write_batch(struct monitoring_persist *persist, uint64_t now_ns)
{
	CLEANUP(freep) struct usage_db_row *rows = calloc(persist->n_rows + 1, sizeof(*rows));
	struct usage_db_batch b = { .period = &persist->period,
		.deltas = rows,
		.n_deltas = persist->n_rows,
		.set_totals = true,
		.totals = persist->totals,
		.n_totals = persist->n_totals };
	int r;

	if (!rows)
		return error_nomem(&persist->error);
	if (persist->db && is_persist_file_replaced(persist)) {
		persist->db = usage_db_close(persist->db);
		persist->retry_ns = now_ns;
	}
	if (!persist->db && now_ns >= persist->retry_ns)
		open_persist_db(persist, now_ns);
	if (!persist->db)
		return -1;
	persist->period.cost_nano = 0;
	for (size_t i = 0; i < persist->n_rows; i++) {
		rows[i] = persist->rows[i].row;
		persist->period.cost_nano += rows[i].cost_nano;
	}
	error_clear(&persist->error);
	r = usage_db_add(persist->db, &b, persist->now_s, &persist->error);
	if (r == USAGE_DB_RECREATED) {
		persist->note = persist->error;
		error_clear(&persist->error);
	}
	return r < 0 ? -1 : 0;
}

void monitoring_persist_write(struct monitoring_persist *persist, uint64_t now_ns)
{
	if (write_batch(persist, now_ns) == 0)
		error_clear(&persist->error);
	else if (persist->error.code == ERR_NONE)
		(void)error_set(&persist->error, ERR_UNAVAILABLE, "'%s' is not open",
			persist->path);
	read_usage_db_size(persist);
}

/* --- on the loop --- */

void monitoring_persist_written(struct monitoring_persist *persist)
{
	if (persist->note.code != ERR_NONE)
		log_error("the ledger was begun anew", LOG_STR("file", persist->path),
			LOG_STR("reason", persist->note.msg));
	error_clear(&persist->note);
	persist->failure = persist->error;
	if (persist->error.code == ERR_NONE) {
		if (*persist->logged_error)
			log_info("the ledger is written again", LOG_STR("file", persist->path));
		persist->logged_error[0] = '\0';
		for (size_t i = 0; i < persist->n_rows; i++)
			free(persist->rows[i].text);
		persist->n_rows = 0;
		persist->covered_ns = 0;
		return;
	}
	persist->errors++;
	if (strcmp(persist->logged_error, persist->error.msg) != 0)
		log_error("the ledger cannot be written, counting goes on in memory",
			LOG_STR("file", persist->path), LOG_STR("reason", persist->error.msg));
	memcpy(persist->logged_error, persist->error.msg, sizeof(persist->logged_error));
}
