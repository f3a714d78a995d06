/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/slices.h"

#include "lib/json/record.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool monitoring_read_number(const json_t *o, const char *key, uint64_t *ret)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return false;
	*ret = (uint64_t)json_integer_value(v);
	return true;
}

const json_t *monitoring_find_gpu_status(const json_t *slice_status, const char *uuid)
{
	return json_find_uuid(json_object_get(slice_status, "gpus"), uuid);
}

/* The usage entry, on that device, of the container that holds one of the slice's devices. */
static uint32_t find_slice_usage(const struct stored_slice *slice, const char *uuid,
	const struct monitoring_allocations *allocations)
{
	for (size_t i = 0; i < slice->file.devices.n; i++) {
		const struct monitoring_allocation *allocation = monitoring_allocations_find(
			allocations, slice->file.resource, slice->file.devices.v[i]);

		if (allocation && !strcasecmp(allocation->device_uuid, uuid))
			return allocation->usage;
	}
	return MONITORING_NONE;
}

static int compare_slices_by_usage(const void *a, const void *b)
{
	const struct monitoring_slice *x = a, *y = b;

	if (x->usage != y->usage)
		return x->usage < y->usage ? -1 : 1;
	if (x->slice->file.created_s != y->slice->file.created_s)
		return x->slice->file.created_s < y->slice->file.created_s ? -1 : 1;
	return strcmp(x->slice->file.id, y->slice->file.id);
}

int monitoring_slices_make(struct monitoring_slices *ret, const struct slices *s,
	const struct monitoring_allocations *allocations, struct error *err)
{
	size_t room = 1;

	*ret = (struct monitoring_slices){ .n = 0 };
	for (size_t i = 0; i < s->store.n; i++)
		room += s->store.v[i]->file.plan.n;
	ret->v = calloc(room, sizeof(*ret->v));
	ret->by_id = json_by_id(s->arbiter_slices);
	if (!ret->v || !ret->by_id) {
		monitoring_slices_fini(ret);
		return error_nomem(err);
	}
	for (size_t i = 0; i < s->store.n; i++) {
		const struct stored_slice *slice = s->store.v[i];
		const json_t *seen = json_object_get(ret->by_id, slice->file.id);

		for (uint32_t k = 0; k < slice->file.plan.n && !slice->superseded; k++) {
			const char *uuid = slice->file.plan.gpus[k].uuid;
			uint32_t use = find_slice_usage(slice, uuid, allocations);

			if (use != MONITORING_NONE)
				ret->v[ret->n++] = (struct monitoring_slice){ .slice = slice,
					.plan_gpu = k,
					.usage = use,
					.status = seen,
					.gpu_status = monitoring_find_gpu_status(seen, uuid) };
		}
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), compare_slices_by_usage);
	return 0;
}

void monitoring_slices_fini(struct monitoring_slices *s)
{
	free(s->v);
	json_decref(s->by_id);
	*s = (struct monitoring_slices){ .n = 0 };
}

const struct monitoring_slice *monitoring_slices_find(const struct monitoring_slices *s,
	uint32_t use)
{
	uint32_t low = 0, high = s->n;

	while (low < high) { /* the first slice behind those of @use */
		uint32_t mid = low + (high - low) / 2;

		if (s->v[mid].usage <= use)
			low = mid + 1;
		else
			high = mid;
	}
	return low && s->v[low - 1].usage == use ? &s->v[low - 1] : NULL;
}

static bool has_process(const json_t *list, uint32_t pid)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_integer_value(json_object_get(json_array_get(list, i), "host_pid")) ==
			(json_int_t)pid)
			return true;
	return false;
}

uint32_t monitoring_slices_find_process(const struct monitoring_slices *s,
	const struct monitoring_usage *usage, uint32_t device, uint32_t pid)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const json_t *seen = s->v[i].status;

		if (usage->v[s->v[i].usage].device_index == device &&
			(has_process(json_object_get(seen, "processes"), pid) ||
				has_process(json_object_get(seen, "unhooked_processes"), pid)))
			return s->v[i].usage;
	}
	return MONITORING_NONE;
}
