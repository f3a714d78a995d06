/* SPDX-License-Identifier: Apache-2.0 */
#include "model/labels/set.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/units.h"
#include "model/offer/selection.h"
#include "model/offer/slices.h"
#include "model/slice/slice.h"

/*
 * The labels of each resource: KEY.product, KEY.count and so on. KEY is the resource name before renaming.
 * A label has one value, so one GPU represents a resource: the first by index, GPUs without MIG first.
 * NVIDIA's program lets GPUs of several models write the same labels in random order.
 *
 * Additions to NVIDIA's labels. A resource of the operator's own patterns has labels of its own. The
 * sharing labels follow `devices:` and `rename:`. The code of the offer decides which entry has which
 * device, and a test compares labels and offer on random configs. The labels do not use the offer itself,
 * which has an ID for each replica (megabytes).
 */

/* How a resource is shared. Where its devices differ, the greatest number counts. */
struct shared {
	uint32_t replicas;
	enum sharing_strategy strategy;
	const char *mark; /* suffix of the product: "-SHARED" if the name is unchanged */
};

struct gpu_labels {
	struct label_set *set;
	const struct inventory *inv;
	const struct config *config;
	/* offer_can_have() of each GPU; cached, as it compares each GPU with all others */
	bool can_have[GPU_NODE_MAX];
	struct offer_candidates devices; /* with .groups; both empty if nothing is shared */
	struct offer_slice_groups groups;
	bool *picks; /* [sharing.n_entries] whether the entry has any device */
};

/* Whether GPU @i counts in the labels. */
static bool is_labelled_gpu(const struct gpu_labels *v, uint32_t i)
{
	return v->inv->gpus[i].name[0] && v->can_have[i];
}

/* Whether MIG device @m counts: only with MIG enabled on its GPU. */
static bool mig_counts(const struct gpu_labels *v, const struct gpu_mig *m)
{
	return m->gpu < v->inv->n && v->inv->gpus[m->gpu].mig_enabled &&
	       is_labelled_gpu(v, m->gpu);
}

/* "1g.24gb+gfx,me" becomes 1g.24gb.gfx.me in names. */
static void profile_name(char *ret, size_t cap, const struct gpu_mig *m)
{
	(void)snprintf(ret, cap, "%s", m->profile);
	for (char *p = ret; *p; p++)
		if (*p == '+' || *p == ',')
			*p = '.';
}

static void mig_builtin_name(char *ret, const struct gpu_labels *v, const struct gpu_mig *m)
{
	char profile[sizeof(m->profile)];

	profile_name(profile, sizeof(profile), m);
	if (v->config->mig_strategy == MIG_STRATEGY_MIXED)
		(void)snprintf(ret, RESOURCE_NAME_MAX, "nvidia.com/mig-%s", profile);
	else
		(void)snprintf(ret, RESOURCE_NAME_MAX, "%s", LABEL_RESOURCE);
}

static void mig_resource_name(char *ret, const struct gpu_labels *v, const struct gpu_mig *m)
{
	for (size_t i = 0; i < v->config->n_mig_patterns; i++) {
		const struct resource_pattern *p = &v->config->mig_patterns[i];

		if (pattern_match(p->pattern, m->profile)) {
			(void)snprintf(ret, RESOURCE_NAME_MAX, "%s", p->name);
			return;
		}
	}
	mig_builtin_name(ret, v, m);
}

/* ---- sharing ---- */

/* Number of slices of one device, of all profiles. */
static uint32_t count_unit_slices(const struct gpu_labels *v, uint32_t device)
{
	uint32_t n = 0;

	for (size_t i = 0; i < v->groups.n; i++)
		n += v->groups.v[i].candidate == device ? v->groups.v[i].count : 0;
	return n;
}

/* Counts the slices of the devices of @resource. The slices themselves have resource names of their own. */
static void add_slices(const struct gpu_labels *v, const char *resource, struct shared *ret)
{
	for (uint32_t i = 0; i < v->devices.n; i++) {
		uint32_t n =
			strcmp(v->devices.v[i].name, resource) ? 0 : count_unit_slices(v, i);

		if (n && ret->strategy == SHARING_NONE)
			ret->strategy = SHARING_SLICES;
		if (n > ret->replicas)
			ret->replicas = n;
	}
}

static struct shared sharing_of(const struct gpu_labels *v, const char *resource)
{
	const struct sharing *s = &v->config->sharing;
	struct shared ret = { .replicas = 1, .strategy = SHARING_NONE, .mark = "" };

	for (size_t i = 0; i < s->n_entries; i++) {
		const struct replicated *e = &s->entries[i];
		bool renamed = e->rename[0] ? strcmp(e->rename, e->name) != 0
					    : s->kinds[e->strategy].rename_by_default;

		if (e->replicas <= 1 || strcmp(e->name, resource) != 0 || !v->picks[i])
			continue;
		if (ret.strategy == SHARING_NONE) /* MPS entries come first */
			ret.strategy = e->strategy;
		if (e->replicas > ret.replicas)
			ret.replicas = e->replicas;
		if (!renamed)
			ret.mark = "-SHARED";
	}
	add_slices(v, resource, &ret);
	return ret;
}

static void add_replica_labels(struct label_set *set, const char *key, const struct shared *s)
{
	label_set_add(set, key, "replicas", "%" PRIu32, s->replicas);
	label_set_add(set, key, "sharing-strategy", "%s", sharing_strategy_name(s->strategy));
}

/* ---- whole GPUs ---- */

/* The GPU that represents @resource (NULL: the node); inv->n: none. */
static uint32_t find_representative_gpu(const struct gpu_labels *v, const char *resource)
{
	uint32_t found = v->inv->n;

	for (uint32_t i = 0; i < v->inv->n; i++) {
		const struct gpu *g = &v->inv->gpus[i];

		if (!is_labelled_gpu(v, i) ||
			(resource && strcmp(offer_original_name(v->config, g), resource) != 0))
			continue;
		if (!g->mig_enabled)
			return i;
		if (found == v->inv->n)
			found = i;
	}
	return found;
}

static uint32_t count_model(const struct gpu_labels *v, const char *name)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->inv->n; i++)
		n += is_labelled_gpu(v, i) && strcmp(v->inv->gpus[i].name, name) == 0;
	return n;
}

static void add_gpu_labels(const struct gpu_labels *v, const char *key, const struct gpu *g)
{
	struct shared s = sharing_of(v, offer_original_name(v->config, g));

	/* A representative with MIG means that all are MIG GPUs: no whole GPU is shared. */
	if (g->mig_enabled)
		s = (struct shared){ .replicas = 0, .strategy = SHARING_NONE, .mark = "" };
	label_set_add_text(v->set, key, "product", g->name, s.mark);
	label_set_add(v->set, key, "count", "%" PRIu32, count_model(v, g->name));
	add_replica_labels(v->set, key, &s);
	if (g->memory_total_bytes / MIB)
		label_set_add(v->set, key, "memory", "%" PRIu64, g->memory_total_bytes / MIB);
}

/* Names by compute capability: the first row with this major number and a sufficient minor_max. */
static const char *family_name(uint32_t major, uint32_t minor)
{
	static const struct {
		uint32_t major, minor_max;
		const char *name;
	} families[] = {
		{ 1, UINT32_MAX, "tesla" },
		{ 2, UINT32_MAX, "fermi" },
		{ 3, UINT32_MAX, "kepler" },
		{ 5, UINT32_MAX, "maxwell" },
		{ 6, UINT32_MAX, "pascal" },
		{ 7, 4, "volta" },
		{ 7, UINT32_MAX, "turing" },
		{ 8, 8, "ampere" },
		{ 8, UINT32_MAX, "ada-lovelace" },
		{ 9, UINT32_MAX, "hopper" },
		{ 10, UINT32_MAX, "blackwell" },
		{ 12, UINT32_MAX, "blackwell" },
		{ 13, UINT32_MAX, "rubin" },
	};

	for (size_t i = 0; i < ARRAY_LEN(families); i++)
		if (families[i].major == major && minor <= families[i].minor_max)
			return families[i].name;
	return "undefined";
}

static void add_compute_labels(const struct gpu_labels *v, const struct gpu *g)
{
	if (!g->cc_major)
		return;
	label_set_add(v->set, LABEL_RESOURCE, "family", "%s",
		family_name(g->cc_major, g->cc_minor));
	label_set_add(v->set, LABEL_RESOURCE, "compute.major", "%" PRIu32, g->cc_major);
	label_set_add(v->set, LABEL_RESOURCE, "compute.minor", "%" PRIu32, g->cc_minor);
}

static void add_models_note(const struct gpu_labels *v, const struct gpu *chosen)
{
	for (uint32_t i = 0; i < v->inv->n; i++) {
		if (!is_labelled_gpu(v, i) || strcmp(v->inv->gpus[i].name, chosen->name) == 0)
			continue;
		label_set_add_note(v->set,
			"several GPU models: the labels " LABEL_RESOURCE
			".* are about '%s' (GPU %" PRIu32 "), not about '%s'",
			chosen->name, chosen->index, v->inv->gpus[i].name);
		return;
	}
}

static void add_all_gpu_labels(const struct gpu_labels *v)
{
	uint32_t at = find_representative_gpu(v, LABEL_RESOURCE);

	if (at == v->inv->n) /* all GPUs have other names: the first one represents the node */
		at = find_representative_gpu(v, NULL);
	if (at == v->inv->n)
		return;
	add_gpu_labels(v, LABEL_RESOURCE, &v->inv->gpus[at]);
	add_compute_labels(v, &v->inv->gpus[at]);
	add_models_note(v, &v->inv->gpus[at]);
	for (size_t i = 0; i < v->config->n_gpu_patterns; i++) {
		const char *name = v->config->gpu_patterns[i].name;

		at = strcmp(name, LABEL_RESOURCE) != 0 ? find_representative_gpu(v, name)
						       : v->inv->n;
		if (at < v->inv->n)
			add_gpu_labels(v, name, &v->inv->gpus[at]);
	}
}

/* ---- MIG devices ---- */

static void add_mig_labels(const struct gpu_labels *v, const char *key, const struct gpu_mig *m,
	uint32_t count)
{
	char resource[RESOURCE_NAME_MAX], profile[sizeof(m->profile)], end[64];
	struct shared s;

	mig_resource_name(resource, v, m);
	s = sharing_of(v, resource);
	profile_name(profile, sizeof(profile), m);
	label_sanitise(profile);
	(void)snprintf(end, sizeof(end), "-MIG-%s%s", profile, s.mark);
	label_set_add_text(v->set, key, "product", v->inv->gpus[m->gpu].name, end);
	label_set_add(v->set, key, "count", "%" PRIu32, count);
	add_replica_labels(v->set, key, &s);
	label_set_add(v->set, key, "memory", "%" PRIu64, m->memory_mib);
}

static void add_mig_attribute_labels(const struct gpu_labels *v, const char *key,
	const struct gpu_mig *m)
{
	label_set_add(v->set, key, "multiprocessors", "%" PRIu32, m->multiprocessors);
	label_set_add(v->set, key, "slices.gi", "%" PRIu32, m->gi_slices);
	label_set_add(v->set, key, "slices.ci", "%" PRIu32, m->ci_slices);
	label_set_add(v->set, key, "engines.copy", "%" PRIu32, m->copy);
	label_set_add(v->set, key, "engines.decoder", "%" PRIu32, m->decoder);
	label_set_add(v->set, key, "engines.encoder", "%" PRIu32, m->encoder);
	label_set_add(v->set, key, "engines.jpeg", "%" PRIu32, m->jpeg);
	label_set_add(v->set, key, "engines.ofa", "%" PRIu32, m->ofa);
}

/* The number of MIG devices with the resource of @m, by the name that @name gives. 0: an earlier MIG device
 * represents that resource. */
static uint32_t count_mig(const struct gpu_labels *v, const struct gpu_mig *m,
	void (*name)(char *ret, const struct gpu_labels *v, const struct gpu_mig *m))
{
	char mine[RESOURCE_NAME_MAX], other[RESOURCE_NAME_MAX];
	uint32_t n = 0;

	name(mine, v, m);
	for (uint32_t i = 0; i < v->inv->n_mig; i++) {
		const struct gpu_mig *o = &v->inv->mig[i];

		if (!mig_counts(v, o))
			continue;
		name(other, v, o);
		if (strcmp(mine, other) != 0)
			continue;
		if (n == 0 && o != m)
			return 0;
		n++;
	}
	return n;
}

/* One set of labels for each resource of MIG devices. The first device represents the resource. */
static void add_mig_resource_labels(const struct gpu_labels *v)
{
	char builtin[RESOURCE_NAME_MAX], custom[RESOURCE_NAME_MAX];
	uint32_t n;

	for (uint32_t i = 0; i < v->inv->n_mig; i++) {
		const struct gpu_mig *m = &v->inv->mig[i];

		if (!mig_counts(v, m))
			continue;
		mig_builtin_name(builtin, v, m);
		mig_resource_name(custom, v, m);
		n = count_mig(v, m, mig_builtin_name);
		if (n) {
			add_mig_labels(v, builtin, m, n);
			add_mig_attribute_labels(v, builtin, m);
		}
		if (strcmp(builtin, custom) == 0)
			continue;
		n = count_mig(v, m, mig_resource_name);
		if (n)
			add_mig_labels(v, custom, m, n);
	}
}

/* ---- strategies ---- */

/* The first GPU with MIG enabled; NULL: none. */
static const struct gpu *first_mig_gpu(const struct gpu_labels *v)
{
	for (uint32_t i = 0; i < v->inv->n; i++)
		if (is_labelled_gpu(v, i) && v->inv->gpus[i].mig_enabled)
			return &v->inv->gpus[i];
	return NULL;
}

static bool has_mig_device(const struct inventory *inv, uint32_t gpu)
{
	for (uint32_t i = 0; i < inv->n_mig; i++)
		if (inv->mig[i].gpu == gpu)
			return true;
	return false;
}

/* The violation of strategy single, in NVIDIA's order of checks; NULL: none. */
static const char *single_fault(const struct gpu_labels *v)
{
	const struct inventory *inv = v->inv;
	const struct gpu_mig *one = NULL;
	bool whole = false;

	for (uint32_t i = 0; i < inv->n; i++) {
		if (!is_labelled_gpu(v, i))
			continue;
		whole = whole || !inv->gpus[i].mig_enabled;
		if (inv->gpus[i].mig_enabled && !has_mig_device(inv, i))
			return "a GPU has MIG on and no MIG device";
	}
	if (whole)
		return "MIG is on for some GPUs and off for others";
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		if (!mig_counts(v, &inv->mig[i]))
			continue;
		if (one && strcmp(one->profile, inv->mig[i].profile) != 0)
			return "there are MIG devices of several profiles";
		one = &inv->mig[i];
	}
	return NULL;
}

static void add_single_strategy_labels(const struct gpu_labels *v)
{
	const struct gpu *g = first_mig_gpu(v);
	const char *fault = g ? single_fault(v) : NULL;

	if (!g)
		return;
	if (!fault) {
		add_mig_resource_labels(v);
		return;
	}
	label_set_add_note(v->set, "MIG strategy single: %s; labelled as MIG-INVALID", fault);
	label_set_add_text(v->set, LABEL_RESOURCE, "product", g->name, "-MIG-INVALID");
	label_set_add(v->set, LABEL_RESOURCE, "count", "0");
	label_set_add(v->set, LABEL_RESOURCE, "replicas", "0");
	label_set_add(v->set, LABEL_RESOURCE, "sharing-strategy", "%s", "");
	label_set_add(v->set, LABEL_RESOURCE, "memory", "0");
}

/* ---- profiles of sharing.slices ---- */

/* The first group by device with the profile of group @at. NULL: an earlier group in the list represents
 * that profile. */
static const struct offer_slice_group *find_representative_profile(const struct gpu_labels *v,
	size_t at, uint32_t *ret_count, uint32_t *ret_replicas)
{
	const struct offer_slice_group *first = &v->groups.v[at];

	*ret_count = *ret_replicas = 0;
	for (size_t i = 0; i < v->groups.n; i++) {
		const struct offer_slice_group *c = &v->groups.v[i];

		if (strcmp(c->profile->name, v->groups.v[at].profile->name) != 0)
			continue;
		if (i < at)
			return NULL;
		if (c->candidate < first->candidate)
			first = c;
		if (c->count > *ret_replicas)
			*ret_replicas = c->count;
		++*ret_count;
	}
	return first;
}

static void add_slice_profile_labels(const struct gpu_labels *v,
	const struct offer_slice_group *c, uint32_t count, uint32_t replicas)
{
	const struct offer_candidate *u = &v->devices.v[c->candidate];
	const struct slice_profile *p = c->profile;
	const struct shared s = { .replicas = replicas,
		.strategy = SHARING_SLICES,
		.mark = "" };
	uint64_t memory =
		slice_limit(&p->isolation, 1, slice_usable(v->inv, u->gpu, u->mig), 1);
	char end[GPU_PROFILE_MAX + 8] = "", profile[GPU_PROFILE_MAX];

	if (u->mig != OFFER_WHOLE) {
		profile_name(profile, sizeof(profile), &v->inv->mig[u->mig]);
		label_sanitise(profile);
		(void)snprintf(end, sizeof(end), "-MIG-%s", profile);
	}
	label_set_add_text(v->set, p->name, "product", v->inv->gpus[u->gpu].name, end);
	label_set_add(v->set, p->name, "count", "%" PRIu32, count);
	add_replica_labels(v->set, p->name, &s);
	if (memory && memory != SLICE_NO_LIMIT)
		label_set_add(v->set, p->name, "memory", "%" PRIu64, memory / MIB);
	label_set_add(v->set, p->name, "weight", "%" PRIu32, p->weight);
	label_set_add(v->set, p->name, "compute", "%s",
		p->isolation.compute == ISOLATION_COMPUTE_CAPPED ? "capped" : "fair");
	label_set_add(v->set, p->name, "class", "%s",
		p->isolation.class_ == SLICE_CLASS_LATENCY ? "latency" : "batch");
}

static void add_all_profile_labels(const struct gpu_labels *v)
{
	for (size_t i = 0; i < v->groups.n; i++) {
		uint32_t count, replicas;
		const struct offer_slice_group *c =
			find_representative_profile(v, i, &count, &replicas);

		if (c && v->inv->gpus[v->devices.v[c->candidate].gpu].name[0])
			add_slice_profile_labels(v, c, count, replicas);
	}
}

static int pick_all(struct gpu_labels *v)
{
	const size_t room = (size_t)v->devices.n + 1;
	CLEANUP(freep) bool *picks = calloc(room, sizeof(*picks));
	CLEANUP(freep) bool *cut = calloc(room, sizeof(*cut));
	CLEANUP(freep) bool *mps = calloc(room, sizeof(*mps));
	struct offer_selection p = { .candidates = &v->devices,
		.inv = v->inv,
		.config = v->config,
		.sliced = cut,
		.mps = mps };

	v->picks = calloc(v->config->sharing.n_entries + 1, sizeof(*v->picks));
	if (!picks || !cut || !mps || !v->picks)
		return -1;
	for (size_t i = 0; i < v->groups.n; i++)
		cut[v->groups.v[i].candidate] = true;
	for (size_t k = 0; k < v->config->sharing.n_entries; k++) {
		if (offer_select_entry(&p, k, picks, NULL) < 0)
			return -1;
		for (uint32_t i = 0; i < v->devices.n; i++)
			v->picks[k] = v->picks[k] || picks[i];
	}
	return 0;
}

/* Builds candidates and slices like the offer. Drops the notes, which the offer reports. */
static int find_shared_units(struct gpu_labels *v)
{
	CLEANUP(strv_fini) struct strv notes = STRV_INIT, warnings = STRV_INIT;

	if (!v->config->n_slices && !v->config->sharing.n_entries)
		return 0;
	if (offer_candidates_make(&v->devices, v->inv, v->config, &notes, NULL) < 0 ||
		offer_slices_make(&v->groups, &v->devices, v->inv, v->config, &notes, &warnings,
			NULL) < 0)
		return -1;
	return pick_all(v);
}

/* A GPU that was lost before its first successful probe. The labels do not count that GPU. */
static void add_unknown_gpus_note(const struct gpu_labels *v)
{
	for (uint32_t i = 0; i < v->inv->n; i++) {
		const struct gpu *g = &v->inv->gpus[i];
		const char *id = g->uuid[0] ? g->uuid : g->bus_id;

		if (!g->name[0])
			label_set_add_note(v->set,
				"GPU %" PRIu32
				"%s%s%s is not counted in the labels, as NVML does not report what it is: %s",
				g->index, *id ? " (" : "", id, *id ? ")" : "", g->reason);
	}
}

void labels_of_gpus(struct label_set *s, const struct inventory *inv,
	const struct config *config)
{
	struct gpu_labels v = { .set = s, .inv = inv, .config = config };

	for (uint32_t i = 0; i < inv->n && i < GPU_NODE_MAX; i++)
		v.can_have[i] = offer_can_have(inv, i);
	if (find_shared_units(&v) < 0) {
		s->failed = true;
		goto out;
	}
	add_unknown_gpus_note(&v);
	add_all_gpu_labels(&v);
	add_all_profile_labels(&v);
	switch (config->mig_strategy) {
	case MIG_STRATEGY_NONE:
		break;
	case MIG_STRATEGY_SINGLE:
		add_single_strategy_labels(&v);
		break;
	case MIG_STRATEGY_MIXED:
		add_mig_resource_labels(&v);
		break;
	}
out:
	free(v.devices.v);
	free(v.groups.v);
	free(v.picks);
}
