/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/health/changes.h"

#include "lib/base/array.h"
#include "lib/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct logged_device {
	char key[GPU_UUID_MAX]; /* UUID, or position: "0", "0:1" */
	char reason[GPU_REASON_MAX], warning[GPU_REASON_MAX];
	bool ok;
	bool mig;
	bool present; /* a MIG device of the present inventory */
};

/*
 * The search begins at *at, behind the last found entry: callers mostly ask in the same order. NULL: out of
 * memory.
 */
static struct logged_device *find_logged_device(struct health_changes *c, const char *key,
	bool mig, size_t *at)
{
	struct logged_device *added;

	for (size_t i = 0; i < c->n; i++) {
		size_t k = (*at + i) % c->n;

		if (c->devices[k].mig != mig || strcmp(c->devices[k].key, key) != 0)
			continue;
		*at = k + 1;
		return &c->devices[k];
	}
	if (!ARRAY_GROW(&c->devices, c->n, &c->room, ARRAY_NO_LIMIT))
		return NULL;
	added = &c->devices[c->n++];
	*added = (struct logged_device){ .ok = true, .mig = mig };
	(void)snprintf(added->key, sizeof(added->key), "%s", key);
	*at = c->n;
	return added;
}

/*
 * The key of a device without a UUID is its position. With a common key each such device would be logged again and
 * again.
 */
static struct logged_device *find_logged_gpu(struct health_changes *c, const struct gpu *g,
	size_t *at)
{
	char place[16];

	(void)snprintf(place, sizeof(place), "%u", g->index);
	return find_logged_device(c, g->uuid[0] ? g->uuid : place, false, at);
}

static struct logged_device *find_logged_mig(struct health_changes *c, const struct gpu *g,
	const struct gpu_mig *m, size_t *at)
{
	char place[32];

	(void)snprintf(place, sizeof(place), "%u:%u", g->index, m->index);
	return find_logged_device(c, m->uuid[0] ? m->uuid : place, true, at);
}

static void log_gpu_change(const struct reporter *to, const struct gpu *g,
	const struct health *h)
{
	if (health_ok(h)) {
		log_info("GPU is healthy again", LOG_UINT("gpu", g->index),
			LOG_STR("uuid", g->uuid));
		report_event(to, EVENT_NORMAL, "GPUHealthy", "GPU %u (%s) is healthy again",
			g->index, g->uuid);
	} else {
		log_warn("GPU is unhealthy", LOG_UINT("gpu", g->index),
			LOG_STR("uuid", g->uuid), LOG_STR("reason", h->reason));
		report_event(to, EVENT_WARNING, "GPUUnhealthy", "GPU %u (%s): %s", g->index,
			g->uuid, h->reason);
	}
}

static void log_mig_change(const struct reporter *to, const struct gpu *g,
	const struct gpu_mig *m, const struct health *h)
{
	if (health_ok(h)) {
		log_info("MIG device is healthy again", LOG_UINT("gpu", g->index),
			LOG_UINT("mig", m->index), LOG_STR("uuid", m->uuid));
		report_event(to, EVENT_NORMAL, "GPUHealthy",
			"MIG device %u:%u (%s) is healthy again", g->index, m->index, m->uuid);
	} else {
		log_warn("MIG device is unhealthy", LOG_UINT("gpu", g->index),
			LOG_UINT("mig", m->index), LOG_STR("uuid", m->uuid),
			LOG_STR("profile", m->profile), LOG_STR("reason", h->reason));
		report_event(to, EVENT_WARNING, "GPUUnhealthy", "MIG device %u:%u (%s): %s",
			g->index, m->index, m->uuid, h->reason);
	}
}

/*
 * A warning is not a health state: the device stays allocatable, and may be unhealthy too. @what: "GPU 0
 * (GPU-...)".
 */
static void log_gpu_warning(const struct reporter *to, const char *what, const char *warning)
{
	if (*warning) {
		log_warn("GPU has a health warning, it stays allocatable",
			LOG_STR("device", what), LOG_STR("warning", warning));
		report_event(to, EVENT_WARNING, "GPUWarning", "%s: %s", what, warning);
	} else {
		log_info("GPU has no health warning any more", LOG_STR("device", what));
		report_event(to, EVENT_NORMAL, "GPUWarningCleared",
			"%s: the health warning is over", what);
	}
}

/* Whether the warning of @h is new. Saves it as logged. */
static bool is_new_warning(struct logged_device *seen, const struct health *h)
{
	if (!strcmp(seen->warning, h->warning))
		return false;
	memcpy(seen->warning, h->warning, sizeof(seen->warning));
	return true;
}

/* Whether @h is a change of the device's health. Saves it as logged. */
static bool is_news(struct logged_device *seen, const struct health *h)
{
	bool ok = health_ok(h);

	if (seen->ok == ok && (ok || !strcmp(seen->reason, h->reason)))
		return false;
	seen->ok = ok;
	memcpy(seen->reason, h->reason, sizeof(seen->reason));
	return true;
}

/* Removes MIG devices that no longer exist, or the entries of old layouts would accumulate. */
static void drop_old_migs(struct health_changes *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (c->devices[i].mig && !c->devices[i].present)
			continue;
		c->devices[kept] = c->devices[i];
		c->devices[kept++].present = false;
	}
	c->n = kept;
}

void health_changes_log(struct health_changes *c, const struct node *n)
{
	const struct inventory *inv = n->inv;
	char what[GPU_UUID_MAX + 48];
	size_t at = 0;

	for (uint32_t i = 0; i < inv->n; i++) {
		const struct node_gpu *g = &n->gpus[i];
		struct logged_device *seen = find_logged_gpu(c, &g->gpu, &at);

		if (!seen)
			continue;
		if (is_news(seen, &g->health))
			log_gpu_change(c->reporter, &g->gpu, &g->health);
		if (is_new_warning(seen, &g->health)) {
			(void)snprintf(what, sizeof(what), "GPU %u (%s)", g->gpu.index,
				g->gpu.uuid);
			log_gpu_warning(c->reporter, what, g->health.warning);
		}
	}
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		const struct gpu_mig *m = &inv->mig[i];
		const struct node_gpu *g = &n->gpus[m->gpu];
		struct logged_device *seen = find_logged_mig(c, &g->gpu, m, &at);

		if (!seen)
			continue;
		seen->present = true;
		/* A MIG device of an unhealthy GPU is not logged: the GPU is. */
		if (health_ok(&g->health) && is_news(seen, &n->migs[i]))
			log_mig_change(c->reporter, &g->gpu, m, &n->migs[i]);
		if (is_new_warning(seen, &n->migs[i])) {
			(void)snprintf(what, sizeof(what), "MIG device %u:%u (%s)",
				g->gpu.index, m->index, m->uuid);
			log_gpu_warning(c->reporter, what, n->migs[i].warning);
		}
	}
	drop_old_migs(c);
}

void health_changes_fini(struct health_changes *c)
{
	free(c->devices);
}
