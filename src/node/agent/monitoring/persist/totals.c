/* SPDX-License-Identifier: Apache-2.0 */
/* Saves the counters as totals, and restores them after a restart of the agent (internal.h has the keys). */
#include "node/agent/monitoring/persist/internal.h"

#include "lib/base/buf.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 8

static int64_t signed_of(uint64_t v)
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static uint64_t unsigned_of(int64_t v)
{
	return v < 0 ? 0 : (uint64_t)v;
}

/* --- save --- */

/* A key that does not fit is left out: its account restarts at zero after a restart. */
static int add_persist_total(struct monitoring_persist *persist, const char *const *parts,
	size_t n, const int64_t v[USAGE_DB_TOTAL_COUNT], struct error *err)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(USAGE_DB_KEY_MAX + 1);
	struct usage_db_total *t;

	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(&key, MONITORING_KEY_SEPARATOR);
		buf_puts(&key, parts[i]);
	}
	if (!buf_ok(&key) || key.len > USAGE_DB_KEY_MAX || !utf8_is_valid(buf_str(&key)) ||
		persist->n_totals == USAGE_DB_TOTALS_MAX)
		return 0;
	t = &persist->totals[persist->n_totals];
	memcpy(t->v, v, sizeof(t->v));
	t->key = buf_steal(&key);
	if (!t->key)
		return error_nomem(err);
	persist->n_totals++;
	return 0;
}

static int add_usage_total(struct monitoring_persist *persist,
	const struct account_device *device, const struct account *a, struct error *err)
{
	const char mode[2] = { (char)('0' + a->mode), '\0' };
	const char *const parts[] = { "use", device->uuid, a->namespace_, a->pod, a->uid,
		a->container, a->resource, mode };
	int64_t ended = a->live ? 0 : signed_of(a->ended_wall_ns) & ~MONITORING_UNKNOWN_MASK;
	const int64_t v[USAGE_DB_TOTAL_COUNT] = { signed_of(a->total.allocated_ns),
		signed_of(a->total.gpu_ns), signed_of(a->total.busy_ns),
		signed_of(a->total.memory_byte_s), signed_of(a->memory_peak),
		signed_of(a->total.cost_nano), signed_of(a->began_wall_ns),
		ended | (a->busy_unknown ? MONITORING_BUSY_UNKNOWN : 0) |
			(a->memory_unknown ? MONITORING_MEMORY_UNKNOWN : 0) };

	return add_persist_total(persist, parts, ARRAY_LEN(parts), v, err);
}

static int add_device_totals(struct monitoring_persist *persist,
	const struct account_device *device, struct error *err)
{
	const char *const parts[] = { "unit", device->uuid };
	const int64_t v[USAGE_DB_TOTAL_COUNT] = { signed_of(device->present_ns),
		signed_of(device->idle_gpu_ns), signed_of(device->busy_ns),
		signed_of(device->other_busy_ns), signed_of(device->cost_nano),
		signed_of(device->idle_cost_nano), signed_of(device->present_rest) };

	if (add_persist_total(persist, parts, ARRAY_LEN(parts), v, err) < 0)
		return -1;
	for (size_t i = 0; i < device->n_uses; i++)
		if (add_usage_total(persist, device, device->uses[i], err) < 0)
			return -1;
	return 0;
}

static int add_xid_total(struct monitoring_persist *persist,
	const struct monitoring_persist_xid *x, struct error *err)
{
	char number[16];
	const char *const parts[] = { "xid", x->uuid, number };
	const int64_t v[USAGE_DB_TOTAL_COUNT] = { signed_of(x->count),
		signed_of(x->last_wall_ns) };

	(void)snprintf(number, sizeof(number), "%u", x->xid);
	return add_persist_total(persist, parts, ARRAY_LEN(parts), v, err);
}

static int add_charge(struct monitoring_persist *persist, const struct monitoring_charge *c,
	struct error *err)
{
	const char *const parts[] = { "charge", c->id, c->device_uuid };
	const int64_t v[USAGE_DB_TOTAL_COUNT] = { signed_of(c->charged_ns),
		signed_of(c->at_wall_ns), signed_of(c->estimated_ns) };

	return c->at_ns || c->restored
		       ? add_persist_total(persist, parts, ARRAY_LEN(parts), v, err)
		       : 0;
}

int monitoring_totals_make(struct monitoring_persist *persist, const struct accounts *a,
	uint64_t since_wall_ns, const struct monitoring_persist_xid *xids, size_t n_xids,
	const struct monitoring_charges *charges, struct error *err)
{
	const char *const node[] = { "node" };
	const int64_t v[USAGE_DB_TOTAL_COUNT] = { signed_of(a->cost_nano),
		signed_of(a->other_cost_nano), signed_of(since_wall_ns),
		signed_of(a->price_rest), a->next_odd };
	size_t n = 1 + a->n_devices + n_xids + charges->n;

	for (size_t i = 0; i < a->n_devices; i++)
		n += a->devices[i]->n_uses;
	monitoring_totals_free(persist->totals, persist->n_totals);
	persist->n_totals = 0;
	persist->totals = calloc(n, sizeof(*persist->totals));
	if (!persist->totals)
		return error_nomem(err);
	if (add_persist_total(persist, node, 1, v, err) < 0)
		return -1;
	for (size_t i = 0; i < a->n_devices; i++)
		if (add_device_totals(persist, a->devices[i], err) < 0)
			return -1;
	for (size_t i = 0; i < n_xids; i++)
		if (add_xid_total(persist, &xids[i], err) < 0)
			return -1;
	for (size_t i = 0; i < charges->n; i++)
		if (add_charge(persist, &charges->v[i], err) < 0)
			return -1;
	return 0;
}

/* --- restore --- */

static size_t split_total_key(char *key, char *parts[PARTS_MAX])
{
	size_t n = 0;

	for (char *p = key; p && n < PARTS_MAX; n++) {
		char *next = strchr(p, MONITORING_KEY_SEPARATOR);

		if (next)
			*next++ = '\0';
		parts[n] = p;
		p = next;
	}
	return n;
}

static int restore_device_total(struct accounts *a, char *const *parts, const int64_t *v,
	struct error *err)
{
	struct account_device *device;

	if (accounts_restore_device(a, parts[1], &device, err) < 0)
		return -1;
	device->present_ns = unsigned_of(v[0]);
	device->idle_gpu_ns = unsigned_of(v[1]);
	device->busy_ns = unsigned_of(v[2]);
	device->other_busy_ns = unsigned_of(v[3]);
	device->cost_nano = unsigned_of(v[4]);
	device->idle_cost_nano = unsigned_of(v[5]);
	device->present_rest = unsigned_of(v[6]) % ACCOUNT_MILLION;
	return 0;
}

static int restore_usage_account(struct accounts *a, char *const *parts, const int64_t *v,
	struct error *err)
{
	struct account_device *device = accounts_find_device(a, parts[1]);
	const struct account_use use = { .namespace_ = parts[2],
		.pod = parts[3],
		.uid = parts[4],
		.container = parts[5],
		.resource = parts[6],
		.mode = (enum account_mode)(parts[7][0] - '0') };
	struct account *one;

	if (!device || parts[7][0] < '0' || parts[7][0] > '0' + ACCOUNT_SLICES || parts[7][1])
		return 0;
	if (accounts_restore_account(device, &use, &one, err) < 0)
		return -1;
	one->total = (struct account_counts){ .allocated_ns = unsigned_of(v[0]),
		.gpu_ns = unsigned_of(v[1]),
		.busy_ns = unsigned_of(v[2]),
		.memory_byte_s = unsigned_of(v[3]),
		.cost_nano = unsigned_of(v[5]) };
	one->memory_peak = unsigned_of(v[4]);
	one->began_wall_ns = unsigned_of(v[6]);
	one->ended_wall_ns = unsigned_of(v[7] & ~MONITORING_UNKNOWN_MASK);
	one->live = one->ended_wall_ns == 0;
	one->busy_unknown = (v[7] & MONITORING_BUSY_UNKNOWN) != 0;
	one->busy_ever = one->total.busy_ns > 0 || !one->busy_unknown;
	one->memory_unknown = (v[7] & MONITORING_MEMORY_UNKNOWN) != 0;
	one->memory_ever = one->memory_peak > 0 || !one->memory_unknown;
	one->peak_known = one->memory_peak > 0;
	return 0;
}

static void restore_xid_total(char *const *parts, const int64_t *v,
	void (*xid)(void *arg, const struct monitoring_persist_xid *x), void *arg)
{
	struct monitoring_persist_xid x = { .count = unsigned_of(v[0]),
		.last_wall_ns = unsigned_of(v[1]) };

	if (!parse_u32(parts[2], &x.xid))
		return;
	(void)snprintf(x.uuid, sizeof(x.uuid), "%s", parts[1]);
	xid(arg, &x);
}

static int restore_charge(struct monitoring_charges *c, char *const *parts, const int64_t *v,
	struct error *err)
{
	return monitoring_charges_restore(c, parts[1], parts[2],
		&(struct monitoring_charge){ .charged_ns = unsigned_of(v[0]),
			.at_wall_ns = unsigned_of(v[1]),
			.estimated_ns = unsigned_of(v[2]) },
		err);
}

static void restore_node(struct accounts *a, const int64_t *v, uint64_t *since_wall_ns)
{
	a->cost_nano = unsigned_of(v[0]);
	a->other_cost_nano = unsigned_of(v[1]);
	if (v[2] > 0)
		*since_wall_ns = (uint64_t)v[2];
	a->price_rest = unsigned_of(v[3]) % (UINT64_C(3600) * 1000000000);
	a->next_odd = (uint32_t)(unsigned_of(v[4]) % UINT32_MAX);
}

int monitoring_persist_restore(struct monitoring_persist *persist, struct accounts *a,
	struct monitoring_charges *charges, uint64_t *since_wall_ns,
	void (*xid)(void *arg, const struct monitoring_persist_xid *x), void *arg,
	struct error *err)
{
	/* Devices before their accounts. */
	for (int uses = 0; uses < 2; uses++)
		for (size_t i = 0; i < persist->n_loaded_totals; i++) {
			CLEANUP(freep) char *key = strdup(persist->loaded_totals[i].key);
			const int64_t *v = persist->loaded_totals[i].v;
			char *parts[PARTS_MAX];
			size_t n;

			if (!key)
				return error_nomem(err);
			n = split_total_key(key, parts);
			if (uses) {
				if (n == 8 && !strcmp(parts[0], "use") &&
					restore_usage_account(a, parts, v, err) < 0)
					return -1;
			} else if (n == 1 && !strcmp(parts[0], "node")) {
				restore_node(a, v, since_wall_ns);
			} else if (n == 2 && !strcmp(parts[0], "unit")) {
				if (restore_device_total(a, parts, v, err) < 0)
					return -1;
			} else if (n == 3 && !strcmp(parts[0], "xid")) {
				restore_xid_total(parts, v, xid, arg);
			} else if (n == 3 && !strcmp(parts[0], "charge")) {
				if (restore_charge(charges, parts, v, err) < 0)
					return -1;
			}
		}
	monitoring_totals_free(persist->loaded_totals, persist->n_loaded_totals);
	persist->loaded_totals = NULL;
	persist->n_loaded_totals = 0;
	accounts_settle(a);
	return 0;
}
