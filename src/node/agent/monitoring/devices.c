/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/devices.h"

#include "model/usage/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- devices --- */

/* By product name: NVML does not report this for a GPU that is not in MIG mode. */
uint32_t monitoring_mig_compute_slices(const struct gpu *g)
{
	if (!g->mig_capable && !g->mig_enabled)
		return 0;
	return strstr(g->name, "A30") || strstr(g->name, "RTX PRO") ? 4 : 7;
}

uint32_t monitoring_mig_memory_slices(const struct gpu *g)
{
	if (!g->mig_capable && !g->mig_enabled)
		return 0;
	return strstr(g->name, "A30") ? 4 : strstr(g->name, "RTX PRO") ? 12 : 8;
}

static bool is_offered_whole(const struct offer *offer, const struct inventory *of,
	const char *uuid)
{
	for (uint32_t i = 0; offer && of && i < offer->n; i++)
		for (uint32_t k = 0; k < offer->resources[i].n_devices; k++) {
			const struct offer_device *d = &offer->resources[i].devices[k];

			if (d->mig == OFFER_WHOLE && d->gpu < of->n &&
				!strcmp(of->gpus[d->gpu].uuid, uuid))
				return true;
		}
	return false;
}

static void add_gpu_device(struct monitoring_devices *u, const struct gpu *g, uint32_t at)
{
	u->v[u->n++] = (struct monitoring_device){ .gpu = g,
		.gpu_index = at,
		.mig_index = MONITORING_NONE,
		.part = ACCOUNT_MILLION,
		.uuid = g->uuid };
}

static void add_gpu_mig_devices(struct monitoring_devices *u, const struct inventory *inv,
	uint32_t at)
{
	uint32_t slices = monitoring_mig_compute_slices(&inv->gpus[at]), left = ACCOUNT_MILLION;

	for (uint32_t i = 0; i < inv->n_mig; i++) {
		const struct gpu_mig *m = &inv->mig[i];
		uint64_t part =
			(uint64_t)ACCOUNT_MILLION * m->ci_slices / (slices ? slices : 7);

		if (m->gpu != at || !*m->uuid)
			continue;
		if (part > left)
			part = left;
		left -= (uint32_t)part;
		u->v[u->n++] = (struct monitoring_device){ .gpu = &inv->gpus[at],
			.mig = m,
			.gpu_index = at,
			.mig_index = i,
			.part = (uint32_t)part,
			.uuid = m->uuid };
	}
}

int monitoring_devices_make(struct monitoring_devices *ret, const struct inventory *inv,
	const struct offer *offer, const struct inventory *of, struct error *err)
{
	*ret = (struct monitoring_devices){ .n = 0 };
	if (!inv)
		return 0;
	ret->v = calloc(inv->n + inv->n_mig + 1, sizeof(*ret->v));
	if (!ret->v)
		return error_nomem(err);
	for (uint32_t i = 0; i < inv->n; i++) {
		if (!*inv->gpus[i].uuid)
			continue;
		if (!inv->gpus[i].mig_enabled || is_offered_whole(offer, of, inv->gpus[i].uuid))
			add_gpu_device(ret, &inv->gpus[i], i);
		else
			add_gpu_mig_devices(ret, inv, i);
	}
	return 0;
}

void monitoring_devices_fini(struct monitoring_devices *u)
{
	free(u->v);
	*u = (struct monitoring_devices){ .n = 0 };
}

uint32_t monitoring_devices_find_uuid(const struct monitoring_devices *u, const char *uuid)
{
	for (uint32_t i = 0; i < u->n; i++)
		if (!strcmp(u->v[i].uuid, uuid))
			return i;
	return MONITORING_NONE;
}

/* --- ids --- */

static uint32_t find_device_by_uuid(const struct monitoring_devices *u, const char *id,
	size_t len)
{
	for (uint32_t i = 0; i < u->n; i++)
		if (strlen(u->v[i].uuid) == len && !strncasecmp(u->v[i].uuid, id, len))
			return i;
	return MONITORING_NONE;
}

/* "MIG-GPU-…/7/0" */
static uint32_t by_old_name(const struct monitoring_devices *u, const char *id, size_t len)
{
	char text[GPU_UUID_MAX + 32];

	for (uint32_t i = 0; i < u->n; i++) {
		int n;

		if (!u->v[i].mig)
			continue;
		n = snprintf(text, sizeof(text), "MIG-%s/%u/%u", u->v[i].gpu->uuid,
			u->v[i].mig->gi, u->v[i].mig->ci);
		if (n > 0 && (size_t)n == len && !strncasecmp(text, id, len))
			return i;
	}
	return MONITORING_NONE;
}

/* Reads a number of at most six digits at *p; false: none. */
static bool parse_device_id_number(const char **p, const char *end, uint32_t *ret)
{
	uint32_t n = 0;
	const char *s = *p;

	while (s < end && *s >= '0' && *s <= '9' && s - *p < 6)
		n = n * 10 + (uint32_t)(*s++ - '0');
	if (s == *p)
		return false;
	*p = s;
	*ret = n;
	return true;
}

static bool skip_device_id_word(const char **p, const char *end, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(end - *p) < n || strncmp(*p, word, n) != 0)
		return false;
	*p += n;
	return true;
}

static bool is_minor(const struct gpu *g, uint32_t minor)
{
	return g->has_minor ? g->minor == minor : g->index == minor;
}

/* "nvidia0", "nvidia0/gi1", "nvidia0/vgpu2", "nvidia0/gi1/vgpu0" */
static uint32_t by_gke_name(const struct monitoring_devices *u, const char *p, const char *end)
{
	uint32_t minor, gi = GPU_NO_INSTANCE, copy;

	if (!skip_device_id_word(&p, end, "nvidia") ||
		!parse_device_id_number(&p, end, &minor) ||
		(skip_device_id_word(&p, end, "/gi") &&
			!parse_device_id_number(&p, end, &gi)) ||
		(skip_device_id_word(&p, end, "/vgpu") &&
			!parse_device_id_number(&p, end, &copy)) ||
		p != end)
		return MONITORING_NONE;
	for (uint32_t i = 0; i < u->n; i++) {
		const struct monitoring_device *x = &u->v[i];

		if (is_minor(x->gpu, minor) &&
			(gi == GPU_NO_INSTANCE ? !x->mig : x->mig && x->mig->gi == gi))
			return i;
	}
	return MONITORING_NONE;
}

/* The number behind the last '-' of a name: the first memory slice of a MIG device. */
static uint32_t start_in(const char *p, const char *end)
{
	const char *at = end;
	uint32_t start = MONITORING_NONE;

	while (at > p && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return at > p && at[-1] == '-' && parse_device_id_number(&at, end, &start)
		       ? start
		       : MONITORING_NONE;
}

/* "gpu-0"; "gpu-0-mig-…-4" by its position, or if the GPU has only one MIG device. */
static uint32_t by_driver_name(const struct monitoring_devices *u, const char *p,
	const char *end)
{
	uint32_t minor, start, found = MONITORING_NONE;
	bool mig;

	if (!skip_device_id_word(&p, end, "gpu-") || !parse_device_id_number(&p, end, &minor))
		return MONITORING_NONE;
	mig = skip_device_id_word(&p, end, "-mig-");
	if (!mig && p != end)
		return MONITORING_NONE;
	start = mig ? start_in(p, end) : MONITORING_NONE;
	for (uint32_t i = 0; i < u->n; i++) {
		const struct gpu_mig *m = u->v[i].mig;

		if (!is_minor(u->v[i].gpu, minor) || mig != (m != NULL))
			continue;
		if (m && m->placed && start != MONITORING_NONE && m->start != start)
			continue;
		if (found != MONITORING_NONE)
			return MONITORING_NONE;
		found = i;
	}
	return found;
}

uint32_t monitoring_devices_find_id(const struct monitoring_devices *u, const char *id,
	bool dynamic)
{
	size_t len = device_id_physical_len(id);
	uint32_t found = find_device_by_uuid(u, id, len);

	if (found == MONITORING_NONE)
		found = by_old_name(u, id, len);
	if (found == MONITORING_NONE)
		found = dynamic ? by_driver_name(u, id, id + len)
				: by_gke_name(u, id, id + len);
	return found;
}
