/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/charges.h"

#include "lib/base/array.h"
#include "lib/json/record.h"
#include "lib/base/buf.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 4096

static int format_charge_key(const struct monitoring_usage_entry *u, struct buf *b,
	struct error *err)
{
	buf_clear(b);
	buf_printf(b, "%s\n%s\n%s\n%s\n%s", u->in.namespace_, u->in.pod, u->in.container,
		u->in.resource, u->in.uid);
	return buf_ok(b) ? 0 : error_nomem(err);
}

static struct monitoring_charge *charge_of(struct monitoring_charges *c, const char *id,
	const char *device_uuid)
{
	struct monitoring_charge *added;

	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->v[i].id, id) && !strcmp(c->v[i].device_uuid, device_uuid))
			return &c->v[i];
	if (!ARRAY_GROW(&c->v, c->n, &c->room, ARRAY_NO_LIMIT))
		return NULL;
	added = &c->v[c->n++];
	*added = (struct monitoring_charge){ .at_ns = 0 };
	(void)snprintf(added->id, sizeof(added->id), "%s", id);
	(void)snprintf(added->device_uuid, sizeof(added->device_uuid), "%s", device_uuid);
	return added;
}

static void add_busy(struct monitoring_charge *c, struct account_use *in, uint64_t charged_ns,
	uint64_t now_ns)
{
	uint64_t grown = charged_ns > c->charged_ns ? charged_ns - c->charged_ns : 0;

	grown = grown > c->estimated_ns ? grown - c->estimated_ns : 0;
	if (in->busy_from != ACCOUNT_FROM_SLICE) /* the slice's time replaces NVML's */
		in->busy_ns = in->busy_of_ns = 0;
	in->busy_from = ACCOUNT_FROM_SLICE;
	in->busy_ns += grown;
	if (now_ns - c->at_ns > in->busy_of_ns)
		in->busy_of_ns = now_ns - c->at_ns;
	c->charged_ns = charged_ns;
	c->at_ns = now_ns;
	c->estimated_ns = 0;
}

/* Sets the start of a charge at its first report; see charges.h. */
static void init_slice_charge(struct monitoring_charge *c, const struct stored_slice *slice,
	uint64_t charged_ns, uint64_t started_wall_ns, uint64_t wall_ns, uint64_t now_ns)
{
	uint64_t created = slice->file.created_s * NS_PER_SEC;
	uint64_t age = wall_ns > created ? wall_ns - created : 0;

	if (c->restored) {
		created = c->at_wall_ns;
		age = wall_ns > created ? wall_ns - created : 0;
		c->at_ns = now_ns > age ? now_ns - age : 1;
		return;
	}
	c->at_ns = now_ns;
	c->charged_ns = charged_ns;
	if (created + NS_PER_SEC <= started_wall_ns)
		return;
	c->charged_ns = 0;
	c->at_ns = now_ns > age ? now_ns - age : 1;
}

/* The larger of NVML's and the arbiter's memory figures counts. */
static void apply_slice_memory(struct monitoring_usage_entry *u,
	const struct monitoring_slice *s)
{
	uint64_t used, peak;

	u->in.sliced = true;
	if (monitoring_read_number(s->gpu_status, "peak", &peak)) {
		u->in.peak_known = true;
		u->in.peak = peak > u->in.peak ? peak : u->in.peak;
	}
	if (!monitoring_read_number(s->gpu_status, "used", &used))
		return;
	if (u->in.memory_from && u->in.memory >= used)
		return;
	u->in.memory = used;
	u->in.memory_from = ACCOUNT_FROM_SLICE;
}

static int count_slice(struct monitoring_charges *c, const struct monitoring_slice *s,
	struct monitoring_usage *usage, const struct monitoring_devices *devices,
	uint64_t started_wall_ns, uint64_t wall_ns, uint64_t now_ns, struct error *err)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KEY_MAX);
	struct monitoring_usage_entry *u = &usage->v[s->usage];
	struct monitoring_charge *ch =
		charge_of(c, s->slice->file.id, devices->v[u->device_index].uuid);
	uint64_t charged;

	if (!ch || format_charge_key(u, &key, err) < 0)
		return ch ? -1 : error_nomem(err);
	if (!ch->usage_key || strcmp(ch->usage_key, buf_str(&key)) != 0) {
		free(ch->usage_key);
		ch->usage_key = strdup(buf_str(&key));
		if (!ch->usage_key)
			return error_nomem(err);
	}
	ch->usage = s->usage;
	ch->present = true;
	apply_slice_memory(u, s);
	if (s->slice->file.plan.compute == SLICE_COMPUTE_NONE ||
		!monitoring_read_number(s->gpu_status, "charged_ns", &charged))
		return 0;
	if (!ch->at_ns)
		init_slice_charge(ch, s->slice, charged, started_wall_ns, wall_ns, now_ns);
	add_busy(ch, &u->in, charged, now_ns);
	return 0;
}

/* Counts the last growth for the ended usage entry of the slice's container. */
static void count_last(struct monitoring_charge *c, struct monitoring_usage *usage,
	const struct monitoring_devices *devices, const json_t *by_id, uint64_t now_ns)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KEY_MAX);
	uint64_t charged;

	if (!c->usage_key || !c->at_ns ||
		!monitoring_read_number(monitoring_find_gpu_status(
						json_object_get(by_id, c->id), c->device_uuid),
			"charged_ns", &charged))
		return;
	for (uint32_t i = 0; i < usage->n; i++) {
		struct monitoring_usage_entry *u = &usage->v[i];

		if (u->in.live ||
			strcmp(devices->v[u->device_index].uuid, c->device_uuid) != 0 ||
			format_charge_key(u, &key, NULL) < 0 ||
			strcmp(buf_str(&key), c->usage_key) != 0)
			continue;
		c->usage = i;
		add_busy(c, &u->in, charged, now_ns);
		return;
	}
}

/* Drops the charges whose slice is gone. */
static void drop_old(struct monitoring_charges *c, const json_t *by_id, bool known)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (c->v[i].present || !known || json_object_get(by_id, c->v[i].id))
			c->v[kept++] = c->v[i];
		else
			free(c->v[i].usage_key);
	}
	c->n = kept;
}

int monitoring_charges_count(struct monitoring_charges *c,
	const struct monitoring_slices *slices, struct monitoring_usage *usage,
	const struct monitoring_devices *devices, uint64_t started_wall_ns, uint64_t wall_ns,
	uint64_t now_ns, struct error *err)
{
	for (size_t i = 0; i < c->n; i++) {
		c->v[i].usage = MONITORING_NONE;
		c->v[i].present = false;
	}
	for (uint32_t i = 0; i < slices->n; i++)
		if (count_slice(c, &slices->v[i], usage, devices, started_wall_ns, wall_ns,
			    now_ns, err) < 0)
			return -1;
	for (size_t i = 0; i < c->n; i++)
		if (!c->v[i].present)
			count_last(&c->v[i], usage, devices, slices->by_id, now_ns);
	drop_old(c, slices->by_id, json_object_size(slices->by_id) > 0);
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].at_ns == now_ns)
			c->v[i].at_wall_ns = wall_ns;
	return 0;
}

void monitoring_charges_add_estimate(struct monitoring_charges *c,
	const struct monitoring_usage *usage)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct account_use *in;

		if (c->v[i].usage == MONITORING_NONE || (!c->v[i].at_ns && !c->v[i].restored))
			continue;
		in = &usage->v[c->v[i].usage].in;
		if (in->busy_from != ACCOUNT_FROM_SLICE && in->account)
			c->v[i].estimated_ns += in->account->delta.busy_ns;
	}
}

int monitoring_charges_restore(struct monitoring_charges *c, const char *id,
	const char *device_uuid, const struct monitoring_charge *as, struct error *err)
{
	struct monitoring_charge *own = charge_of(c, id, device_uuid);

	if (!own)
		return error_nomem(err);
	own->charged_ns = as->charged_ns;
	own->at_wall_ns = as->at_wall_ns;
	own->estimated_ns = as->estimated_ns;
	own->restored = true;
	return 0;
}

void monitoring_charges_fini(struct monitoring_charges *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].usage_key);
	free(c->v);
	*c = (struct monitoring_charges){ .n = 0 };
}
