/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests of src/model share: small nodes and configurations made in a line. */
#include "support/test.h"

#include "lib/base/time.h"
#include "model/config/config.h"
#include "model/gpu/gpu.h"
#include "model/offer/offer.h"

/* @n GPUs "GPU-0", "GPU-1" ... of one product, all readable. Yours. */
static inline struct inventory *fixture_inventory(uint32_t n)
{
	struct error err = ERROR_INIT;
	struct inventory *inv = NULL;

	assert_ok(inventory_new(&inv, n, &err), &err);
	for (uint32_t i = 0; i < n; i++) {
		struct gpu *g = &inv->gpus[i];

		g->index = i;
		g->minor = i;
		g->has_minor = true;
		g->numa_node = -1;
		(void)snprintf(g->uuid, sizeof(g->uuid), "GPU-%u", i);
		(void)snprintf(g->name, sizeof(g->name), "Tesla T4");
		(void)snprintf(g->bus_id, sizeof(g->bus_id), "00000000:%02X:00.0", i + 1);
	}
	return inv;
}

/*
 * Cuts a MIG device "MIG-<gpu>-<index>" with profile "<ci>c.<gi>g.<gb>gb", or "<gi>g.<gb>gb", from
 * the GPU at position @gpu and switches its MIG mode on. GPUs in order. Valid until the next.
 */
static inline struct gpu_mig *fixture_mig(struct inventory *inv, uint32_t gpu, uint32_t ci,
	uint32_t gi, uint32_t gb)
{
	struct gpu_mig *m;
	uint32_t index = 0;

	inv->mig = realloc(inv->mig, (inv->n_mig + 1) * sizeof(*m));
	assert_non_null(inv->mig);
	m = &inv->mig[inv->n_mig];
	for (uint32_t i = 0; i < inv->n_mig; i++)
		index += inv->mig[i].gpu == gpu;
	*m = (struct gpu_mig){ .gpu = gpu,
		.index = index,
		.gi = 7 + index,
		.memory_mib = (uint64_t)gb << 10,
		.multiprocessors = 14 * ci,
		.gi_slices = gi,
		.ci_slices = ci,
		.has_minors = true,
		.gi_minor = 100 * gpu + 10 * index,
		.ci_minor = 100 * gpu + 10 * index + 1 };
	(void)snprintf(m->uuid, sizeof(m->uuid), "MIG-%u-%u", inv->gpus[gpu].index, index);
	if (ci == gi)
		(void)snprintf(m->profile, sizeof(m->profile), "%ug.%ugb", gi, gb);
	else
		(void)snprintf(m->profile, sizeof(m->profile), "%uc.%ug.%ugb", ci, gi, gb);
	inv->gpus[gpu].mig_enabled = true;
	inv->n_mig++;
	return m;
}

static inline struct config *fixture_config(void)
{
	struct error err = ERROR_INIT;
	struct config *c = NULL;

	assert_ok(config_new(&c, &err), &err);
	return c;
}

/*
 * Adds a sharing entry; @list (NULL-terminated or NULL) makes it DEVICES_LIST. Those of MPS are kept first. Valid
 * until the next.
 */
static inline struct replicated *fixture_share_by(struct config *c,
	enum sharing_strategy strategy, const char *name, const char *rename, uint32_t replicas,
	const char *const *list)
{
	struct error err = ERROR_INIT;
	struct sharing *s = &c->sharing;
	struct replicated *e;
	size_t at = s->n_entries;

	s->entries = realloc(s->entries, (s->n_entries + 1) * sizeof(*s->entries));
	assert_non_null(s->entries);
	while (strategy == SHARING_MPS && at > 0 && s->entries[at - 1].strategy != SHARING_MPS)
		at--;
	memmove(&s->entries[at + 1], &s->entries[at],
		(s->n_entries++ - at) * sizeof(*s->entries));
	e = &s->entries[at];
	*e = (struct replicated){ .strategy = strategy, .replicas = replicas };
	(void)snprintf(e->name, sizeof(e->name), "%s", name);
	(void)snprintf(e->rename, sizeof(e->rename), "%s", rename ? rename : "");
	for (e->devices = list ? DEVICES_LIST : DEVICES_ALL; list && *list; list++)
		assert_ok(strv_add(&e->list, *list, &err), &err);
	return e;
}

/* One of time-slicing. */
static inline struct replicated *fixture_share(struct config *c, const char *name,
	const char *rename, uint32_t replicas, const char *const *list)
{
	return fixture_share_by(c, SHARING_TIME_SLICING, name, rename, replicas, list);
}

/* Makes all entries those of @strategy. */
static inline void fixture_strategy(struct config *c, enum sharing_strategy strategy)
{
	for (size_t i = 0; i < c->sharing.n_entries; i++)
		c->sharing.entries[i].strategy = strategy;
}

/* Settings of sharing.timeSlicing, or sharing.mps, for all its entries. */
#define SLICING(c) ((c)->sharing.kinds[SHARING_TIME_SLICING])
#define MPS(c)     ((c)->sharing.kinds[SHARING_MPS])

/* Adds a set of slices; @list as above. Valid until the next. */
static inline struct slice_set *fixture_add_slices(struct config *c, const char *name,
	const char *const *list)
{
	struct error err = ERROR_INIT;
	struct slice_set *s;

	c->slices = realloc(c->slices, (c->n_slices + 1) * sizeof(*c->slices));
	assert_non_null(c->slices);
	s = &c->slices[c->n_slices++];
	*s = (struct slice_set){ .pos.line = (uint32_t)c->n_slices };
	(void)snprintf(s->name, sizeof(s->name), "%s", name);
	for (s->devices = list ? DEVICES_LIST : DEVICES_ALL; list && *list; list++)
		assert_ok(strv_add(&s->list, *list, &err), &err);
	return s;
}

/* Adds a profile of so many MiB (0: no limit), weight 1, fair. Valid until the next. */
static inline struct slice_profile *fixture_profile(struct slice_set *s, const char *name,
	uint32_t count, uint64_t mib)
{
	struct slice_profile *p;

	s->profiles = realloc(s->profiles, (s->n_profiles + 1) * sizeof(*s->profiles));
	assert_non_null(s->profiles);
	p = &s->profiles[s->n_profiles++];
	*p = (struct slice_profile){ .count = count,
		.weight = 1,
		.isolation = { .present = true,
			.memory = mib ? ISOLATION_MEMORY_BYTES : ISOLATION_MEMORY_NONE,
			.memory_value = mib << 20,
			.compute = ISOLATION_COMPUTE_FAIR },
		.pos.line = (uint32_t)s->n_profiles + 10 };
	(void)snprintf(p->name, sizeof(p->name), "%s", name);
	return p;
}

static inline void fixture_pattern(struct config *c, const char *pattern, const char *name)
{
	struct resource_pattern *p;

	c->gpu_patterns = realloc(c->gpu_patterns, (c->n_gpu_patterns + 1) * sizeof(*p));
	assert_non_null(c->gpu_patterns);
	p = &c->gpu_patterns[c->n_gpu_patterns++];
	*p = (struct resource_pattern){ .pattern = strdup(pattern) };
	(void)snprintf(p->name, sizeof(p->name), "%s", name);
}

static inline struct offer *fixture_offer(const struct inventory *inv, const struct config *c)
{
	struct error err = ERROR_INIT;
	struct offer *o = NULL;

	assert_ok(offer_new(&o, inv, c, &err), &err);
	return o;
}

/* Numbers that are the same in every run. */
static inline uint32_t fixture_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33);
}

static inline void set_link(struct inventory *inv, uint32_t a, uint32_t b, enum gpu_level level,
	uint8_t nvlinks)
{
	struct gpu_link link = { .level = (uint8_t)level, .nvlinks = nvlinks };

	inv->links[a * inv->n + b] = link;
	inv->links[b * inv->n + a] = link;
}

static inline void connect_cube(struct inventory *inv)
{
	static const uint8_t twice[][2] = { { 0, 3 }, { 0, 4 }, { 1, 2 }, { 1, 5 }, { 2, 3 },
		{ 4, 7 }, { 5, 6 }, { 6, 7 } };
	static const uint8_t once[][2] = { { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 6 }, { 3, 7 },
		{ 4, 5 }, { 4, 6 }, { 5, 7 } };

	for (size_t i = 0; i < ARRAY_LEN(twice); i++)
		inv->links[twice[i][0] * 8 + twice[i][1]].nvlinks =
			inv->links[twice[i][1] * 8 + twice[i][0]].nvlinks = 2;
	for (size_t i = 0; i < ARRAY_LEN(once); i++)
		inv->links[once[i][0] * 8 + once[i][1]].nvlinks =
			inv->links[once[i][1] * 8 + once[i][0]].nvlinks = 1;
}

/*
 * Four nodes of 8 GPUs each: NVLink pairs, two CPUs, a cube mesh, everything linked to everything.
 */
static inline struct inventory *fixture_topology(char which)
{
	struct inventory *inv = fixture_inventory(8);

	for (uint32_t a = 0; a < 8; a++) {
		for (uint32_t b = a + 1; b < 8; b++) {
			bool near = which == 'A' || which == 'D' || a / 4 == b / 4;
			enum gpu_level level = which == 'A' || which == 'D' ? GPU_LEVEL_SAME_CPU
					       : near ? GPU_LEVEL_HOST_BRIDGE
						      : GPU_LEVEL_CROSS_CPU;

			set_link(inv, a, b, level,
				which == 'D'                     ? 18
				: which == 'A' && a / 2 == b / 2 ? 4
								 : 0);
		}
	}
	if (which == 'C')
		connect_cube(inv);
	return inv;
}
