/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the rows of a batch from what the rounds added, and merges rows of a batch that was not written
 * (persist.h).
 */
#include "node/agent/monitoring/persist/internal.h"

#include "lib/base/array.h"
#include "lib/base/time.h"
#include "lib/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS 8 /* of a row */

/* --- texts --- */

struct row_text {
	const char *text;
	size_t max;
};

/* Copies texts one behind the other; cuts them to .max and makes them valid UTF-8. NULL: out of memory. */
static char *copy_row_texts(const struct row_text *from, size_t n, const char **to)
{
	size_t size = 0, at = 0;
	char *block;

	for (size_t i = 0; i < n; i++)
		size += strnlen(from[i].text, from[i].max) + 1;
	block = malloc(size);
	if (!block)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t len = strnlen(from[i].text, from[i].max);

		memcpy(block + at, from[i].text, len);
		block[at + len] = '\0';
		utf8_make_valid(block + at);
		to[i] = block + at;
		at += len + 1;
	}
	return block;
}

static int add_persist_row(struct monitoring_persist *persist, const struct usage_db_row *row,
	struct error *err)
{
	const struct row_text from[TEXTS] = {
		{ row->namespace_, USAGE_DB_NAME_MAX },
		{ row->pod, USAGE_DB_NAME_MAX },
		{ row->pod_uid, USAGE_DB_DEVICE_MAX },
		{ row->container, USAGE_DB_WORD_MAX },
		{ row->gpu, USAGE_DB_DEVICE_MAX },
		{ row->device, USAGE_DB_DEVICE_MAX },
		{ row->resource, USAGE_DB_NAME_MAX },
		{ row->mode, USAGE_DB_WORD_MAX },
	};
	const char *to[TEXTS];
	char *text;

	if (!ARRAY_GROW(&persist->rows, persist->n_rows, &persist->room_rows, ARRAY_NO_LIMIT))
		return error_nomem(err);
	text = copy_row_texts(from, TEXTS, to);
	if (!text)
		return error_nomem(err);
	persist->rows[persist->n_rows].row = *row;
	persist->rows[persist->n_rows].row.namespace_ = to[0];
	persist->rows[persist->n_rows].row.pod = to[1];
	persist->rows[persist->n_rows].row.pod_uid = to[2];
	persist->rows[persist->n_rows].row.container = to[3];
	persist->rows[persist->n_rows].row.gpu = to[4];
	persist->rows[persist->n_rows].row.device = to[5];
	persist->rows[persist->n_rows].row.resource = to[6];
	persist->rows[persist->n_rows].row.mode = to[7];
	persist->rows[persist->n_rows++].text = text;
	return 0;
}

/* --- what a round added --- */

static const char *get_persist_mode_name(const struct account *a, const char *gpu,
	const char *device)
{
	static const char *const names[] = {
		[ACCOUNT_EXCLUSIVE] = "exclusive",
		[ACCOUNT_TIME_SLICING] = "time-slicing",
		[ACCOUNT_MPS] = "mps",
		[ACCOUNT_SLICES] = "slices",
	};

	/* A MIG device that is not shared further. */
	if (a->mode == ACCOUNT_EXCLUSIVE && strcmp(gpu, device) != 0)
		return "mig";
	return names[a->mode];
}

static bool is_nothing(const struct account_counts *c)
{
	return !c->allocated_ns && !c->gpu_ns && !c->busy_ns && !c->memory_byte_s &&
	       !c->cost_nano;
}

static int add_usage_row(struct monitoring_persist *persist, const struct account *a,
	const char *gpu, const char *device, struct error *err)
{
	const struct usage_db_row row = { .kind = USAGE_DB_ALLOCATED,
		.namespace_ = a->namespace_,
		.pod = a->pod,
		.pod_uid = a->uid,
		.container = a->container,
		.gpu = gpu,
		.device = device,
		.resource = a->resource,
		.mode = get_persist_mode_name(a, gpu, device),
		.allocated_ns = (int64_t)a->delta.allocated_ns,
		.gpu_ns = (int64_t)a->delta.gpu_ns,
		.busy_ns = (int64_t)a->delta.busy_ns,
		.busy_unknown = !a->busy_from,
		.memory_byte_seconds = (int64_t)a->delta.memory_byte_s,
		.memory_unknown = (a->live && !a->memory_from) || !a->peak_known,
		.memory_peak_bytes = (int64_t)a->memory_high,
		.cost_nano = (int64_t)a->delta.cost_nano };

	return is_nothing(&a->delta) ? 0 : add_persist_row(persist, &row, err);
}

static int add_idle(struct monitoring_persist *persist, const char *gpu, uint64_t gpu_ns,
	uint64_t cost_nano, struct error *err)
{
	const struct usage_db_row row = { .kind = USAGE_DB_UNALLOCATED,
		.namespace_ = "",
		.pod = "",
		.pod_uid = "",
		.container = "",
		.gpu = gpu,
		.device = "",
		.resource = "",
		.mode = "",
		.gpu_ns = (int64_t)gpu_ns,
		.cost_nano = (int64_t)cost_nano };

	return gpu_ns || cost_nano ? add_persist_row(persist, &row, err) : 0;
}

static int add_gpu_rows(struct monitoring_persist *persist, const struct accounts *a,
	const struct account_round *r, uint32_t gpu, const char *uuid, struct error *err)
{
	uint64_t idle = 0, cost = gpu < a->n_gpu_other ? a->gpu_other[gpu] : 0;

	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct account_device *device =
			accounts_find_device(a, r->devices[i].uuid);

		if (!device || r->devices[i].gpu != gpu)
			continue;
		idle += device->delta.idle_gpu_ns;
		cost += device->delta.idle_cost_nano;
		for (size_t k2 = 0; k2 < device->n_uses; k2++)
			if (add_usage_row(persist, device->uses[k2], uuid, device->uuid, err) <
				0)
				return -1;
	}
	/* Time that is not known to be idle gets no record. */
	return r->allocations_unknown ? 0 : add_idle(persist, uuid, idle, cost, err);
}

/* --- rows of an unwritten batch are added up --- */

static int by_key(const void *a, const void *b)
{
	const struct usage_db_row *x = &((const struct monitoring_persist_row *)a)->row;
	const struct usage_db_row *y = &((const struct monitoring_persist_row *)b)->row;
	const char *const left[TEXTS] = { x->namespace_, x->pod, x->pod_uid, x->container,
		x->gpu, x->device, x->resource, x->mode };
	const char *const right[TEXTS] = { y->namespace_, y->pod, y->pod_uid, y->container,
		y->gpu, y->device, y->resource, y->mode };

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	for (size_t i = 0; i < TEXTS; i++) {
		int r = strcmp(left[i], right[i]);

		if (r)
			return r;
	}
	return 0;
}

static int64_t add_row_values(int64_t a, int64_t b)
{
	return a + b > USAGE_DB_VALUE_MAX ? USAGE_DB_VALUE_MAX : a + b;
}

static void add_to(struct usage_db_row *to, const struct usage_db_row *from)
{
	to->allocated_ns = add_row_values(to->allocated_ns, from->allocated_ns);
	to->gpu_ns = add_row_values(to->gpu_ns, from->gpu_ns);
	to->busy_ns = add_row_values(to->busy_ns, from->busy_ns);
	to->busy_unknown = to->busy_unknown || from->busy_unknown;
	to->memory_unknown = to->memory_unknown || from->memory_unknown;
	to->memory_byte_seconds =
		add_row_values(to->memory_byte_seconds, from->memory_byte_seconds);
	if (from->memory_peak_bytes > to->memory_peak_bytes)
		to->memory_peak_bytes = from->memory_peak_bytes;
	to->cost_nano = add_row_values(to->cost_nano, from->cost_nano);
}

static void merge_persist_rows(struct monitoring_persist *persist)
{
	size_t kept = 0;

	if (persist->n_rows)
		qsort(persist->rows, persist->n_rows, sizeof(*persist->rows), by_key);
	for (size_t i = 0; i < persist->n_rows; i++) {
		if (!kept || by_key(&persist->rows[kept - 1], &persist->rows[i]) != 0) {
			persist->rows[kept++] = persist->rows[i];
			continue;
		}
		add_to(&persist->rows[kept - 1].row, &persist->rows[i].row);
		free(persist->rows[i].text);
	}
	persist->n_rows = kept;
	while (persist->n_rows > USAGE_DB_DELTAS_MAX) /* after days: drops the excess */
		free(persist->rows[--persist->n_rows].text);
}

/* @dt_ns: of the round, as far as it is counted. */
static int set_period(struct monitoring_persist *persist,
	const struct monitoring_persist_node *node, uint64_t dt_ns, struct error *err)
{
	const struct row_text from[] = {
		{ node->node, USAGE_DB_NAME_MAX },
		{ node->instance_type, USAGE_DB_WORD_MAX },
		{ node->region, USAGE_DB_WORD_MAX },
		{ node->currency, USAGE_DB_WORD_MAX },
		{ node->price_source, USAGE_DB_WORD_MAX },
	};
	const char *to[ARRAY_LEN(from)];
	char *text = copy_row_texts(from, ARRAY_LEN(from), to);

	if (!text)
		return error_nomem(err);
	free(persist->period_text);
	persist->period_text = text;
	persist->now_s = node->wall_ns / NS_PER_SEC;
	persist->covered_ns = add_row_values(persist->covered_ns, (int64_t)dt_ns);
	persist->period =
		(struct usage_db_period){ .start_s = persist->now_s -
						     persist->now_s % USAGE_DB_BUCKET_S,
			.node = to[0],
			.instance_type = to[1],
			.region = to[2],
			.currency = to[3],
			.price_source = to[4],
			.price_nano_per_hour = node->price_nano_per_hour,
			.gpus = node->n_gpus,
			.covered_ns = persist->covered_ns };
	return 0;
}

int monitoring_persist_prepare(struct monitoring_persist *persist, const struct accounts *a,
	const struct account_round *r, const struct monitoring_persist_node *node,
	const struct monitoring_persist_xid *xids, size_t n_xids,
	const struct monitoring_charges *charges, struct error *err)
{
	bool left_over = persist->n_rows > 0;

	if (set_period(persist, node, r->allocations_unknown ? 0 : node->dt_ns, err) < 0)
		return -1;
	for (uint32_t i = 0; i < node->n_gpus; i++)
		if (add_gpu_rows(persist, a, r, i, node->gpus[i], err) < 0)
			return -1;
	if (!node->n_gpus && !r->allocations_unknown &&
		add_idle(persist, "", 0, a->delta.other_cost_nano, err) < 0)
		return -1;
	if (left_over || persist->n_rows > USAGE_DB_DELTAS_MAX)
		merge_persist_rows(persist);
	return monitoring_totals_make(persist, a, node->since_wall_ns, xids, n_xids, charges,
		err);
}
