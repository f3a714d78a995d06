/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/make/make.h"

#include <string.h>

/* Sharing configs, one key for each pool; the node label nvidia.com/device-plugin.config selects the key. */

static void map_head(struct buf *b, const struct pools *p, const char *what, const char *name)
{
	make_head(b, p, what);
	buf_printf(b,
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: %s\ndata:\n",
		name, MAKE_NAMESPACE);
}

/*
 * The resource is renamed, so that a pod that requests a whole GPU does not get a slot, or the other way round. A
 * request for two slots is refused, because two slots are no more than one.
 */
static void render_pool_replicas(struct buf *b, const struct plan_pool *p, const char *key)
{
	buf_printf(b,
		"    sharing:\n      %s:\n        renameByDefault: true\n"
		"        failRequestsGreaterThanOne: true\n        resources:\n"
		"        - name: " POOL_RESOURCE_WHOLE "\n          replicas: %u\n",
		key, p->slots);
}

static void render_device_list(struct buf *b, uint32_t from, uint32_t to)
{
	buf_puts(b, "[");
	for (uint32_t g = from; g < to; g++)
		buf_printf(b, "%s%u", g > from ? ", " : "", g);
	buf_puts(b, "]\n");
}

static void render_pool_slices(struct buf *b, const struct plan_pool *p)
{
	buf_puts(b, "    sharing:\n      slices:\n");
	for (uint32_t g = 0, to; g < p->offer->gpus; g = to) {
		const struct pool_partition *c = &p->partitions[g];

		to = make_alike(p, g);
		if (!c->n)
			continue; /* stays whole */
		buf_puts(b, "      - name: " POOL_RESOURCE_WHOLE "\n");
		if (g || to < p->offer->gpus) {
			buf_puts(b, "        devices: ");
			render_device_list(b, g, to);
		}
		buf_puts(b, "        profiles:\n");
		for (uint32_t i = 0, next; i < c->n; i = next) {
			for (next = i + 1; next < c->n && c->v[next] == c->v[i];)
				next++;
			buf_printf(b,
				"        - {name: nvidia.com/gpu.%umi, count: %u, memory: %uMi}\n",
				c->v[i], next - i, c->v[i]);
		}
	}
}

static void pool_config(struct buf *b, const struct plan_pool *p)
{
	buf_printf(b, "  %s: |\n    version: v1\n", p->name);
	switch (p->mode) {
	case PLAN_TIME_SLICING:
		render_pool_replicas(b, p, "timeSlicing");
		break;
	case PLAN_MPS:
		render_pool_replicas(b, p, "mps");
		break;
	case PLAN_SLICES:
		render_pool_slices(b, p);
		break;
	case PLAN_MIG:
		buf_puts(b, "    flags:\n      migStrategy: mixed\n");
		break;
	case PLAN_EXCLUSIVE:
	case PLAN_MODES:
		break;
	}
}

void make_sharing_config(struct buf *b, const struct pools *p)
{
	map_head(b, p, "How the GPUs of each pool are shared.", MAKE_CONFIG_MAP);
	for (size_t i = 0; i < p->n; i++)
		pool_config(b, &p->v[i]);
}

/* --- MIG --- */

static void mig_pool(struct buf *b, const struct plan_pool *p)
{
	const struct mig_layout *m = p->offer->gpu->mig;

	buf_printf(b, "      %s:\n", p->name);
	for (uint32_t g = 0, to; g < p->offer->gpus; g = to) {
		const struct pool_partition *c = &p->partitions[g];

		to = make_alike(p, g);
		buf_puts(b, "      - devices: ");
		if (!g && to == p->offer->gpus)
			buf_puts(b, "all\n");
		else
			render_device_list(b, g, to);
		buf_printf(b, "        mig-enabled: %s\n", c->n ? "true" : "false");
		if (c->n)
			buf_puts(b, "        mig-devices:\n");
		for (uint32_t i = 0, next; i < c->n; i = next) {
			char name[MIG_PROFILE_NAME_MAX];

			for (next = i + 1; next < c->n && c->v[next] == c->v[i];)
				next++;
			mig_layout_name(m, c->v[i], 0, name);
			buf_printf(b, "          \"%s\": %u\n", name, next - i);
		}
	}
}

void make_mig(struct buf *b, const struct pools *p)
{
	bool any = false;

	for (size_t i = 0; i < p->n; i++) {
		if (p->v[i].mode != PLAN_MIG)
			continue;
		if (!any) {
			map_head(b, p, "The MIG layout of each pool.", MAKE_MIG_MAP);
			buf_puts(b, "  config.yaml: |\n    version: v1\n    mig-configs:\n");
		}
		any = true;
		mig_pool(b, &p->v[i]);
	}
}
