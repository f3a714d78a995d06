/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/keep/internal.h"

#include "lib/base/time.h"
#include "lib/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS 8 /* of a row */

/* --- texts --- */

struct text {
	const char *text;
	size_t max;
};

/* Copies them one behind the other; what is too long, or no UTF-8, is made to fit. NULL: out of memory. */
static char *copy_texts(const struct text *from, size_t n, const char **to)
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

static int add(struct see_keep *k, const struct ledger_row *row, struct error *err)
{
	const struct text from[TEXTS] = {
		{ row->namespace_, LEDGER_NAME_MAX },
		{ row->pod, LEDGER_NAME_MAX },
		{ row->pod_uid, LEDGER_DEVICE_MAX },
		{ row->container, LEDGER_WORD_MAX },
		{ row->gpu, LEDGER_DEVICE_MAX },
		{ row->device, LEDGER_DEVICE_MAX },
		{ row->resource, LEDGER_NAME_MAX },
		{ row->mode, LEDGER_WORD_MAX },
	};
	const char *to[TEXTS];
	struct see_row *more = reallocarray(k->rows, k->n_rows + 1, sizeof(*more));
	char *text;

	if (more)
		k->rows = more;
	text = more ? copy_texts(from, TEXTS, to) : NULL;
	if (!text)
		return error_nomem(err);
	k->rows[k->n_rows].row = *row;
	k->rows[k->n_rows].row.namespace_ = to[0];
	k->rows[k->n_rows].row.pod = to[1];
	k->rows[k->n_rows].row.pod_uid = to[2];
	k->rows[k->n_rows].row.container = to[3];
	k->rows[k->n_rows].row.gpu = to[4];
	k->rows[k->n_rows].row.device = to[5];
	k->rows[k->n_rows].row.resource = to[6];
	k->rows[k->n_rows].row.mode = to[7];
	k->rows[k->n_rows++].text = text;
	return 0;
}

/* --- what a round added --- */

static const char *mode_of(const struct account *a, const char *gpu, const char *device)
{
	static const char *const names[] = {
		[ACCOUNT_EXCLUSIVE] = "exclusive",
		[ACCOUNT_TIME_SLICING] = "time-slicing",
		[ACCOUNT_MPS] = "mps",
		[ACCOUNT_SLICES] = "slices",
	};

	/* A wall that is not shared further. */
	if (a->mode == ACCOUNT_EXCLUSIVE && strcmp(gpu, device) != 0)
		return "mig";
	return names[a->mode];
}

static bool is_nothing(const struct account_counts *c)
{
	return !c->held_ns && !c->gpu_ns && !c->busy_ns && !c->memory_byte_s && !c->cost_nano;
}

static int add_use(struct see_keep *k, const struct account *a, const char *gpu,
	const char *device, struct error *err)
{
	const struct ledger_row row = { .kind = LEDGER_HELD,
		.namespace_ = a->namespace_,
		.pod = a->pod,
		.pod_uid = a->uid,
		.container = a->container,
		.gpu = gpu,
		.device = device,
		.resource = a->resource,
		.mode = mode_of(a, gpu, device),
		.held_ns = (int64_t)a->delta.held_ns,
		.gpu_ns = (int64_t)a->delta.gpu_ns,
		.busy_ns = (int64_t)a->delta.busy_ns,
		.busy_unknown = !a->busy_from,
		.memory_byte_seconds = (int64_t)a->delta.memory_byte_s,
		.memory_unknown = (a->live && !a->memory_from) || !a->peak_known,
		.memory_peak_bytes = (int64_t)a->memory_high,
		.cost_nano = (int64_t)a->delta.cost_nano };

	return is_nothing(&a->delta) ? 0 : add(k, &row, err);
}

static int add_idle(struct see_keep *k, const char *gpu, uint64_t gpu_ns, uint64_t cost_nano,
	struct error *err)
{
	const struct ledger_row row = { .kind = LEDGER_IDLE,
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

	return gpu_ns || cost_nano ? add(k, &row, err) : 0;
}

static int add_gpu(struct see_keep *k, const struct accounts *a, const struct account_round *r,
	uint32_t gpu, const char *uuid, struct error *err)
{
	uint64_t idle = 0, cost = gpu < a->n_gpu_other ? a->gpu_other[gpu] : 0;

	for (uint32_t i = 0; i < r->n_units; i++) {
		const struct account_unit *u = accounts_unit(a, r->units[i].uuid);

		if (!u || r->units[i].gpu != gpu)
			continue;
		idle += u->delta.idle_gpu_ns;
		cost += u->delta.idle_cost_nano;
		for (size_t k2 = 0; k2 < u->n_uses; k2++)
			if (add_use(k, u->uses[k2], uuid, u->uuid, err) < 0)
				return -1;
	}
	/* What is not known to be idle is no record. */
	return r->holders_unknown ? 0 : add_idle(k, uuid, idle, cost, err);
}

/* --- rows of a batch that could not be written are added up --- */

static int by_key(const void *a, const void *b)
{
	const struct ledger_row *x = &((const struct see_row *)a)->row;
	const struct ledger_row *y = &((const struct see_row *)b)->row;
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

static int64_t sum(int64_t a, int64_t b)
{
	return a + b > LEDGER_VALUE_MAX ? LEDGER_VALUE_MAX : a + b;
}

static void add_to(struct ledger_row *to, const struct ledger_row *from)
{
	to->held_ns = sum(to->held_ns, from->held_ns);
	to->gpu_ns = sum(to->gpu_ns, from->gpu_ns);
	to->busy_ns = sum(to->busy_ns, from->busy_ns);
	to->busy_unknown = to->busy_unknown || from->busy_unknown;
	to->memory_unknown = to->memory_unknown || from->memory_unknown;
	to->memory_byte_seconds = sum(to->memory_byte_seconds, from->memory_byte_seconds);
	if (from->memory_peak_bytes > to->memory_peak_bytes)
		to->memory_peak_bytes = from->memory_peak_bytes;
	to->cost_nano = sum(to->cost_nano, from->cost_nano);
}

static void merge(struct see_keep *k)
{
	size_t kept = 0;

	if (k->n_rows)
		qsort(k->rows, k->n_rows, sizeof(*k->rows), by_key);
	for (size_t i = 0; i < k->n_rows; i++) {
		if (!kept || by_key(&k->rows[kept - 1], &k->rows[i]) != 0) {
			k->rows[kept++] = k->rows[i];
			continue;
		}
		add_to(&k->rows[kept - 1].row, &k->rows[i].row);
		free(k->rows[i].text);
	}
	k->n_rows = kept;
	while (k->n_rows > LEDGER_DELTAS_MAX) /* for days: what is too much is lost */
		free(k->rows[--k->n_rows].text);
}

/* @dt_ns: of the round, as far as it is accounted. */
static int set_period(struct see_keep *k, const struct see_keep_node *node, uint64_t dt_ns,
	struct error *err)
{
	const struct text from[] = {
		{ node->node, LEDGER_NAME_MAX },
		{ node->instance_type, LEDGER_WORD_MAX },
		{ node->region, LEDGER_WORD_MAX },
		{ node->currency, LEDGER_WORD_MAX },
		{ node->price_source, LEDGER_WORD_MAX },
	};
	const char *to[ARRAY_LEN(from)];
	char *text = copy_texts(from, ARRAY_LEN(from), to);

	if (!text)
		return error_nomem(err);
	free(k->period_text);
	k->period_text = text;
	k->now_s = node->wall_ns / NS_PER_SEC;
	k->covered_ns = sum(k->covered_ns, (int64_t)dt_ns);
	k->period = (struct ledger_period){ .start_s = k->now_s - k->now_s % LEDGER_BUCKET_S,
		.node = to[0],
		.instance_type = to[1],
		.region = to[2],
		.currency = to[3],
		.price_source = to[4],
		.price_nano_per_hour = node->price_nano_per_hour,
		.gpus = node->n_gpus,
		.covered_ns = k->covered_ns };
	return 0;
}

int see_keep_prepare(struct see_keep *k, const struct accounts *a,
	const struct account_round *r, const struct see_keep_node *node,
	const struct see_kept_xid *xids, size_t n_xids, const struct see_charges *charges,
	struct error *err)
{
	bool left_over = k->n_rows > 0;

	if (set_period(k, node, r->holders_unknown ? 0 : node->dt_ns, err) < 0)
		return -1;
	for (uint32_t i = 0; i < node->n_gpus; i++)
		if (add_gpu(k, a, r, i, node->gpus[i], err) < 0)
			return -1;
	if (!node->n_gpus && !r->holders_unknown &&
		add_idle(k, "", 0, a->delta.other_cost_nano, err) < 0)
		return -1;
	if (left_over || k->n_rows > LEDGER_DELTAS_MAX)
		merge(k);
	return see_totals_make(k, a, node->since_wall_ns, xids, n_xids, charges, err);
}
