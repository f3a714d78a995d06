/* SPDX-License-Identifier: Apache-2.0 */
#include "model/offer/offer.h"

#include "model/offer/resource.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* FNV-1a. The keys are IDs of this node's GPUs, so an attacker cannot choose colliding keys. */
static uint32_t hash_device_id(const char *text)
{
	uint32_t h = 2166136261u;

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 16777619u;
	return h ^ (h >> 15);
}

int resource_build_index(struct resource *r, struct error *err)
{
	uint32_t slots = 16;

	while (slots < r->n_devices * 2)
		slots *= 2;
	r->index = calloc(slots, sizeof(*r->index));
	if (!r->index)
		return error_nomem(err);
	r->index_slots = slots;
	for (uint32_t i = 0; i < r->n_devices; i++) {
		uint32_t at = hash_device_id(r->devices[i].id) & (slots - 1);

		while (r->index[at])
			at = (at + 1) & (slots - 1);
		r->index[at] = i + 1;
	}
	return 0;
}

void resource_fini(struct resource *r)
{
	free(r->devices);
	free(r->shares);
	free(r->index);
}

const struct offer_device *resource_find(const struct resource *r, const char *id)
{
	if (!r->index) {
		for (uint32_t i = 0; i < r->n_devices; i++)
			if (strcmp(r->devices[i].id, id) == 0)
				return &r->devices[i];
		return NULL;
	}
	for (uint32_t at = hash_device_id(id) & (r->index_slots - 1); r->index[at];
		at = (at + 1) & (r->index_slots - 1)) {
		const struct offer_device *d = &r->devices[r->index[at] - 1];

		if (strcmp(d->id, id) == 0)
			return d;
	}
	return NULL;
}

const struct offer_share *resource_share(const struct resource *r, const struct offer_device *d)
{
	return d->share && d->share <= r->n_shares ? &r->shares[d->share - 1] : NULL;
}

/* --- IDs of replicas and slices --- */

bool device_id_make(char *ret, size_t cap, const char *uuid, uint32_t replica)
{
	int n = snprintf(ret, cap, "%s::%" PRIu32, uuid, replica);

	return n >= 0 && (size_t)n < cap;
}

bool device_id_make_slice(char *ret, size_t cap, const char *uuid, const char *resource,
	uint32_t number)
{
	const char *slash = strrchr(resource, '/');
	int n = snprintf(ret, cap, "%s::%s::%" PRIu32, uuid, slash ? slash + 1 : resource,
		number);

	return n >= 0 && (size_t)n < cap;
}

bool device_id_is_replica(const char *id)
{
	return strstr(id, "::");
}

size_t device_id_physical_len(const char *id)
{
	const char *sep = strstr(id, "::");

	return sep ? (size_t)(sep - id) : strlen(id);
}
