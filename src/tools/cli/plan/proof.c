/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/plan/proof.h"

#include "tools/cli/config-offer.h"
#include "io/config/config.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_PERCENT \
	97 /* of the catalogue's memory that a driver shows at least: tools/plan/gpus/gpus.yaml */

struct proof {
	const struct pools *pools;
	unsigned complaints;
	struct error broken; /* ERR_NOMEM: the proof is incomplete */
};

static const char *ignore_proof_env(const char *name)
{
	(void)name;
	return NULL;
}

/* The GPUs have no MIG devices: the sharing configs of the pools do not depend on MIG. */
static int inventory_of(struct inventory **ret, const struct plan_offer *o, struct error *err)
{
	uint64_t bytes = ((uint64_t)o->gpu_memory_mib << 20) / 100 * SHOWN_PERCENT;

	if (inventory_new(ret, o->gpus, err) < 0)
		return -1;
	for (uint32_t i = 0; i < o->gpus; i++) {
		struct gpu *g = &(*ret)->gpus[i];

		*g = (struct gpu){ .index = i,
			.minor = i,
			.has_minor = true,
			.numa_node = -1,
			.cc_major = o->gpu->cc_major,
			.cc_minor = o->gpu->cc_minor,
			.memory_total_bytes = bytes,
			.memory_usable_bytes = bytes,
			.mig_capable = o->gpu->mig != NULL };
		(void)snprintf(g->uuid, sizeof(g->uuid), "GPU-%u", i);
		(void)snprintf(g->name, sizeof(g->name), "%s", o->gpu->product);
	}
	return 0;
}

static void report_proof_error(struct proof *p, const char *name, const char *text)
{
	p->complaints++;
	if (name)
		(void)fprintf(stderr, "error: %s: %s\n", name, text);
	else
		(void)fprintf(stderr, "error: %s\n", text);
}

static void complain_all(struct proof *p, const char *name, const struct strv *texts)
{
	for (size_t i = 0; i < texts->n; i++)
		report_proof_error(p, name, texts->v[i]);
}

/* The pool has the name of the ConfigMap's key, which follows the last '#'. NULL: no pool has this
 * name. */
static const struct plan_pool *find_config_pool(const struct pools *pools, const char *name)
{
	const char *key = strrchr(name, '#');

	for (size_t i = 0; key && i < pools->n; i++)
		if (!strcmp(pools->v[i].name, key + 1))
			return &pools->v[i];
	return NULL;
}

static void prove_one(void *arg, const char *name, const char *text, struct config *config,
	const struct strv *warnings, const struct error *err, const struct strv *more)
{
	struct proof *p = arg;
	const struct plan_pool *pool = find_config_pool(p->pools, name);
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	CLEANUP(config_offer_fini) struct config_offer of = { .offer = NULL };
	struct error why = ERROR_INIT;

	(void)text;
	complain_all(p, NULL, warnings);
	if (err) {
		report_proof_error(p, NULL, err->msg);
		complain_all(p, NULL, more);
		return;
	}
	if (!pool || !config)
		return;
	if (inventory_of(&inv, pool->offer, &p->broken) < 0)
		return;
	if (config_offer_make(&of, name, config, inv, &why) < 0) {
		report_proof_error(p, NULL, why.msg);
		return;
	}
	complain_all(p, name, &of.offer->warnings);
	complain_all(p, name, &of.offer->notes);
}

int plan_prove(const struct make_files *files, const struct pools *pools, struct error *err)
{
	const struct config_sources sources = { .env = ignore_proof_env };
	struct proof p = { .pools = pools, .broken = ERROR_INIT };

	for (size_t i = 0; i < files->n; i++) {
		const struct make_file *f = &files->v[i];

		if (!strcmp(f->path, MAKE_CONFIG_PATH) &&
			config_each_text(f->path, buf_str(&f->text), f->text.len, &sources,
				prove_one, &p, err) < 0)
			return error_prefix(err, "--write");
	}
	if (p.broken.code != ERR_NONE) {
		error_copy(err, &p.broken);
		return -1;
	}
	if (p.complaints)
		return error_set(err, ERR_INVALID,
			"--write: an agent does not accept the sharing configs of this plan as they "
			"are (%u error%s above), so nothing is written",
			p.complaints, p.complaints == 1 ? "" : "s");
	return 0;
}
