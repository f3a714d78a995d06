/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "io/config/config.h"
#include "model/mps/mps.h"
#include "model/slice/slice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *no_env(const char *name)
{
	(void)name;
	return NULL;
}

#define MIB (UINT64_C(1) << 20)

/* Two GPUs of different size, one with a MIG device, one whose memory is not known. */
static struct inventory *make_fuzz_inventory(void)
{
	static const struct gpu_mig mig = { .uuid = "MIG-0",
		.profile = "3g.20gb",
		.memory_mib = 20096 };
	struct inventory *inv = NULL;

	if (inventory_new(&inv, 4, NULL) < 0)
		abort();
	for (uint32_t i = 0; i < inv->n; i++) {
		struct gpu *g = &inv->gpus[i];

		g->index = i;
		g->memory_usable_bytes = i < 3 ? (i + 1) * 9999 * MIB : 0;
		g->cc_major = 7 + i;
		(void)snprintf(g->uuid, sizeof(g->uuid), "GPU-%u", i);
		(void)snprintf(g->name, sizeof(g->name), i ? "Tesla T4" : "NVIDIA A100");
	}
	inv->gpus[0].mig_enabled = true;
	if (inventory_add_mig(inv, 0, &mig, 1, NULL) < 0)
		abort();
	return inv;
}

/* Slices of profiles have no more memory and time than their GPU, whatever the config is. */
static void check_slices(const struct offer *o, const struct inventory *inv)
{
	uint64_t memory[4] = { 0 }, caps[4] = { 0 };

	for (uint32_t i = 0; i < o->n; i++) {
		const struct resource *r = &o->resources[i];

		for (uint32_t k = 0; k < r->n_devices && r->strategy == SHARING_SLICES; k++) {
			const char *const id = r->devices[k].id;
			uint32_t gpu = r->devices[k].gpu;
			struct slice_plan plan;

			if (slice_plan_make(&plan, r, inv, &id, 1, NULL) < 0)
				continue; /* of unknown memory */
			if (!plan.wanted || plan.gpus[0].cap > SLICE_CAP_ALL ||
				!plan.gpus[0].weight)
				abort();
			caps[gpu] += plan.gpus[0].cap;
			if (plan.gpus[0].memory != SLICE_NO_LIMIT && gpu < 3)
				memory[gpu] += plan.gpus[0].memory;
		}
	}
	for (uint32_t g = 0; g < 3;
		g++) /* the least cap is 1, which may be more than the part */
		if (memory[g] > (g ? inv->gpus[g].memory_usable_bytes : 20096 * MIB) ||
			caps[g] > SLICE_CAP_ALL + OFFER_DEVICES_MAX)
			abort();
}

/* A container's limits are no more than its daemon's. A device without MPS has no daemon. */
static void check_mps(const struct offer *o, const struct inventory *inv,
	const struct config *c)
{
	struct mps_plan *p = NULL;
	struct mps_grant g;

	if (mps_plan_new(&p, o, inv, c, NULL) < 0)
		abort();
	for (uint32_t i = 0; i < o->n; i++) {
		const struct resource *r = &o->resources[i];

		for (uint32_t k = 0; k < r->n_devices; k++) {
			const struct offer_device *d = &r->devices[k];
			const char *const id = d->id;
			bool mps = mps_shares(r, d);

			if ((mps_grant_make(&g, p, r, inv, &id, 1, NULL) < 0) !=
				(mps && d->why))
				abort();
			if (mps && d->why)
				continue;
			if ((g.daemon != NULL) != mps ||
				g.daemon != (mps ? mps_plan_find(p, d->gpu, d->mig) : NULL))
				abort();
			if (mps && (g.percent < 1 || g.percent > g.daemon->percent ||
					   g.daemon->percent > 100))
				abort();
		}
	}
	p = mps_plan_free(p);
}

static void check_offers(struct config *c)
{
	struct inventory *inv = make_fuzz_inventory();
	struct offer *o = NULL;

	for (int s = MIG_STRATEGY_NONE; s <= MIG_STRATEGY_MIXED; s++) {
		c->mig_strategy = (enum mig_strategy)s;
		if (offer_new(&o, inv, c, NULL) == 0) {
			check_mps(o, inv, c);
			if (s == MIG_STRATEGY_MIXED)
				check_slices(o, inv);
		}
		o = offer_free(o);
	}
	(void)inventory_free(inv);
}

/* Reads one config. A config that is accepted must print, and say whether it is for a later version. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct config_sources sources = { .env = no_env };
	struct strv warnings = STRV_INIT;
	struct config *c = NULL, *again = NULL;
	struct error err = ERROR_INIT;
	int r = config_parse_any(&c, "c.yaml", 0, (const char *)data, size, &sources, &warnings,
		&err);

	if ((r == 0) != (c != NULL) || (r < 0 && (err.code == ERR_NONE || !*err.msg)))
		abort();
	if (c) {
		char *json = config_to_json(c);

		if (!json)
			abort();
		free(json);
		r = config_unsupported(c, "c.yaml", &err);
		if ((config_parse(&again, "c.yaml", 0, (const char *)data, size, &sources, NULL,
			     &err) == 0) != (r == 0))
			abort();
		if (again && !config_equal(c, again))
			abort();
		check_offers(c);
	}
	(void)config_free(c);
	(void)config_free(again);
	strv_fini(&warnings);
	return 0;
}
