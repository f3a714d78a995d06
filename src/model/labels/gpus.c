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
struct sharing_label {
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
static bool is_labelled_gpu(const struct gpu_labels *labels, uint32_t i)
{
	return labels->inv->gpus[i].name[0] && labels->can_have[i];
}

/* Whether MIG device @m counts: only with MIG enabled on its GPU. */
static bool mig_counts(const struct gpu_labels *labels, const struct gpu_mig *m)
{
	return m->gpu < labels->inv->n && labels->inv->gpus[m->gpu].mig_enabled &&
	       is_labelled_gpu(labels, m->gpu);
}

/* "1g.24gb+gfx,me" becomes 1g.24gb.gfx.me in names. */
static void profile_name(char *ret, size_t cap, const struct gpu_mig *m)
{
	(void)snprintf(ret, cap, "%s", m->profile);
	for (char *p = ret; *p; p++)
		if (*p == '+' || *p == ',')
			*p = '.';
}

static void mig_builtin_name(char *ret, const struct gpu_labels *labels,
	const struct gpu_mig *m)
{
	char profile[sizeof(m->profile)];

	profile_name(profile, sizeof(profile), m);
	if (labels->config->mig_strategy == MIG_STRATEGY_MIXED)
		(void)snprintf(ret, RESOURCE_NAME_MAX, "nvidia.com/mig-%s", profile);
	else
		(void)snprintf(ret, RESOURCE_NAME_MAX, "%s", LABEL_RESOURCE);
}

static void mig_resource_name(char *ret, const struct gpu_labels *labels,
	const struct gpu_mig *m)
{
	for (size_t i = 0; i < labels->config->n_mig_patterns; i++) {
		const struct resource_pattern *p = &labels->config->mig_patterns[i];

		if (pattern_match(p->pattern, m->profile)) {
			(void)snprintf(ret, RESOURCE_NAME_MAX, "%s", p->name);
			return;
		}
	}
	mig_builtin_name(ret, labels, m);
}

/* --- sharing --- */

/* Number of slices of one device, of all profiles. */
static uint32_t count_unit_slices(const struct gpu_labels *labels, uint32_t device)
{
	uint32_t n = 0;

	for (size_t i = 0; i < labels->groups.n; i++)
		n += labels->groups.v[i].candidate == device ? labels->groups.v[i].count : 0;
	return n;
}

/* Counts the slices of the devices of @resource. The slices themselves have resource names of their own. */
static void add_slices(const struct gpu_labels *labels, const char *resource,
	struct sharing_label *ret)
{
	for (uint32_t i = 0; i < labels->devices.n; i++) {
		uint32_t n = strcmp(labels->devices.v[i].name, resource)
				     ? 0
				     : count_unit_slices(labels, i);

		if (n && ret->strategy == SHARING_NONE)
			ret->strategy = SHARING_SLICES;
		if (n > ret->replicas)
			ret->replicas = n;
	}
}

static struct sharing_label sharing_of(const struct gpu_labels *labels, const char *resource)
{
	const struct sharing *s = &labels->config->sharing;
	struct sharing_label ret = { .replicas = 1, .strategy = SHARING_NONE, .mark = "" };

	for (size_t i = 0; i < s->n_entries; i++) {
		const struct replicated *e = &s->entries[i];
		bool renamed = e->rename[0] ? strcmp(e->rename, e->name) != 0
					    : s->kinds[e->strategy].rename_by_default;

		if (e->replicas <= 1 || strcmp(e->name, resource) != 0 || !labels->picks[i])
			continue;
		if (ret.strategy == SHARING_NONE) /* MPS entries come first */
			ret.strategy = e->strategy;
		if (e->replicas > ret.replicas)
			ret.replicas = e->replicas;
		if (!renamed)
			ret.mark = "-SHARED";
	}
	add_slices(labels, resource, &ret);
	return ret;
}

static void add_replica_labels(struct label_set *set, const char *key,
	const struct sharing_label *s)
{
	label_set_add(set, key, "replicas", "%" PRIu32, s->replicas);
	label_set_add(set, key, "sharing-strategy", "%s", sharing_strategy_name(s->strategy));
}

/* --- whole GPUs --- */

/* The GPU that represents @resource (NULL: the node); inv->n: none. */
static uint32_t find_representative_gpu(const struct gpu_labels *labels, const char *resource)
{
	uint32_t found = labels->inv->n;

	for (uint32_t i = 0; i < labels->inv->n; i++) {
		const struct gpu *g = &labels->inv->gpus[i];

		if (!is_labelled_gpu(labels, i) ||
			(resource &&
				strcmp(offer_original_name(labels->config, g), resource) != 0))
			continue;
		if (!g->mig_enabled)
			return i;
		if (found == labels->inv->n)
			found = i;
	}
	return found;
}

static uint32_t count_model(const struct gpu_labels *labels, const char *name)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < labels->inv->n; i++)
		n += is_labelled_gpu(labels, i) && strcmp(labels->inv->gpus[i].name, name) == 0;
	return n;
}

static void add_gpu_labels(const struct gpu_labels *labels, const char *key,
	const struct gpu *g)
{
	struct sharing_label s = sharing_of(labels, offer_original_name(labels->config, g));

	/* A representative with MIG means that all are MIG GPUs: no whole GPU is shared. */
	if (g->mig_enabled)
		s = (struct sharing_label){ .replicas = 0,
			.strategy = SHARING_NONE,
			.mark = "" };
	label_set_add_text(labels->set, key, "product", g->name, s.mark);
	label_set_add(labels->set, key, "count", "%" PRIu32, count_model(labels, g->name));
	add_replica_labels(labels->set, key, &s);
	if (g->memory_total_bytes / MIB)
		label_set_add(labels->set, key, "memory", "%" PRIu64,
			g->memory_total_bytes / MIB);
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

static void add_compute_labels(const struct gpu_labels *labels, const struct gpu *g)
{
	if (!g->cc_major)
		return;
	label_set_add(labels->set, LABEL_RESOURCE, "family", "%s",
		family_name(g->cc_major, g->cc_minor));
	label_set_add(labels->set, LABEL_RESOURCE, "compute.major", "%" PRIu32, g->cc_major);
	label_set_add(labels->set, LABEL_RESOURCE, "compute.minor", "%" PRIu32, g->cc_minor);
}

static void add_models_note(const struct gpu_labels *labels, const struct gpu *chosen)
{
	for (uint32_t i = 0; i < labels->inv->n; i++) {
		if (!is_labelled_gpu(labels, i) ||
			strcmp(labels->inv->gpus[i].name, chosen->name) == 0)
			continue;
		label_set_add_note(labels->set,
			"several GPU models: the labels " LABEL_RESOURCE
			".* are about '%s' (GPU %" PRIu32 "), not about '%s'",
			chosen->name, chosen->index, labels->inv->gpus[i].name);
		return;
	}
}

static void add_all_gpu_labels(const struct gpu_labels *labels)
{
	uint32_t at = find_representative_gpu(labels, LABEL_RESOURCE);

	if (at ==
		labels->inv
			->n) /* all GPUs have other names: the first one represents the node */
		at = find_representative_gpu(labels, NULL);
	if (at == labels->inv->n)
		return;
	add_gpu_labels(labels, LABEL_RESOURCE, &labels->inv->gpus[at]);
	add_compute_labels(labels, &labels->inv->gpus[at]);
	add_models_note(labels, &labels->inv->gpus[at]);
	for (size_t i = 0; i < labels->config->n_gpu_patterns; i++) {
		const char *name = labels->config->gpu_patterns[i].name;

		at = strcmp(name, LABEL_RESOURCE) != 0 ? find_representative_gpu(labels, name)
						       : labels->inv->n;
		if (at < labels->inv->n)
			add_gpu_labels(labels, name, &labels->inv->gpus[at]);
	}
}

/* --- MIG devices --- */

static void add_mig_labels(const struct gpu_labels *labels, const char *key,
	const struct gpu_mig *m, uint32_t count)
{
	char resource[RESOURCE_NAME_MAX], profile[sizeof(m->profile)], end[64];
	struct sharing_label s;

	mig_resource_name(resource, labels, m);
	s = sharing_of(labels, resource);
	profile_name(profile, sizeof(profile), m);
	label_sanitise(profile);
	(void)snprintf(end, sizeof(end), "-MIG-%s%s", profile, s.mark);
	label_set_add_text(labels->set, key, "product", labels->inv->gpus[m->gpu].name, end);
	label_set_add(labels->set, key, "count", "%" PRIu32, count);
	add_replica_labels(labels->set, key, &s);
	label_set_add(labels->set, key, "memory", "%" PRIu64, m->memory_mib);
}

static void add_mig_attribute_labels(const struct gpu_labels *labels, const char *key,
	const struct gpu_mig *m)
{
	label_set_add(labels->set, key, "multiprocessors", "%" PRIu32, m->multiprocessors);
	label_set_add(labels->set, key, "slices.gi", "%" PRIu32, m->gi_slices);
	label_set_add(labels->set, key, "slices.ci", "%" PRIu32, m->ci_slices);
	label_set_add(labels->set, key, "engines.copy", "%" PRIu32, m->copy);
	label_set_add(labels->set, key, "engines.decoder", "%" PRIu32, m->decoder);
	label_set_add(labels->set, key, "engines.encoder", "%" PRIu32, m->encoder);
	label_set_add(labels->set, key, "engines.jpeg", "%" PRIu32, m->jpeg);
	label_set_add(labels->set, key, "engines.ofa", "%" PRIu32, m->ofa);
}

/* The number of MIG devices with the resource of @m, by the name that @name gives. 0: an earlier MIG device
 * represents that resource. */
static uint32_t count_mig(const struct gpu_labels *labels, const struct gpu_mig *m,
	void (*name)(char *ret, const struct gpu_labels *labels, const struct gpu_mig *m))
{
	char mine[RESOURCE_NAME_MAX], other[RESOURCE_NAME_MAX];
	uint32_t n = 0;

	name(mine, labels, m);
	for (uint32_t i = 0; i < labels->inv->n_mig; i++) {
		const struct gpu_mig *o = &labels->inv->mig[i];

		if (!mig_counts(labels, o))
			continue;
		name(other, labels, o);
		if (strcmp(mine, other) != 0)
			continue;
		if (n == 0 && o != m)
			return 0;
		n++;
	}
	return n;
}

/* One set of labels for each resource of MIG devices. The first device represents the resource. */
static void add_mig_resource_labels(const struct gpu_labels *labels)
{
	char builtin[RESOURCE_NAME_MAX], custom[RESOURCE_NAME_MAX];
	uint32_t n;

	for (uint32_t i = 0; i < labels->inv->n_mig; i++) {
		const struct gpu_mig *m = &labels->inv->mig[i];

		if (!mig_counts(labels, m))
			continue;
		mig_builtin_name(builtin, labels, m);
		mig_resource_name(custom, labels, m);
		n = count_mig(labels, m, mig_builtin_name);
		if (n) {
			add_mig_labels(labels, builtin, m, n);
			add_mig_attribute_labels(labels, builtin, m);
		}
		if (strcmp(builtin, custom) == 0)
			continue;
		n = count_mig(labels, m, mig_resource_name);
		if (n)
			add_mig_labels(labels, custom, m, n);
	}
}

/* --- strategies --- */

/* The first GPU with MIG enabled; NULL: none. */
static const struct gpu *first_mig_gpu(const struct gpu_labels *labels)
{
	for (uint32_t i = 0; i < labels->inv->n; i++)
		if (is_labelled_gpu(labels, i) && labels->inv->gpus[i].mig_enabled)
			return &labels->inv->gpus[i];
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
static const char *single_fault(const struct gpu_labels *labels)
{
	const struct inventory *inv = labels->inv;
	const struct gpu_mig *one = NULL;
	bool whole = false;

	for (uint32_t i = 0; i < inv->n; i++) {
		if (!is_labelled_gpu(labels, i))
			continue;
		whole = whole || !inv->gpus[i].mig_enabled;
		if (inv->gpus[i].mig_enabled && !has_mig_device(inv, i))
			return "a GPU has MIG on and no MIG device";
	}
	if (whole)
		return "MIG is on for some GPUs and off for others";
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		if (!mig_counts(labels, &inv->mig[i]))
			continue;
		if (one && strcmp(one->profile, inv->mig[i].profile) != 0)
			return "there are MIG devices of several profiles";
		one = &inv->mig[i];
	}
	return NULL;
}

static void add_single_strategy_labels(const struct gpu_labels *labels)
{
	const struct gpu *g = first_mig_gpu(labels);
	const char *fault = g ? single_fault(labels) : NULL;

	if (!g)
		return;
	if (!fault) {
		add_mig_resource_labels(labels);
		return;
	}
	label_set_add_note(labels->set, "MIG strategy single: %s; labelled as MIG-INVALID",
		fault);
	label_set_add_text(labels->set, LABEL_RESOURCE, "product", g->name, "-MIG-INVALID");
	label_set_add(labels->set, LABEL_RESOURCE, "count", "0");
	label_set_add(labels->set, LABEL_RESOURCE, "replicas", "0");
	label_set_add(labels->set, LABEL_RESOURCE, "sharing-strategy", "%s", "");
	label_set_add(labels->set, LABEL_RESOURCE, "memory", "0");
}

/* --- profiles of sharing.slices --- */

/* The first group by device with the profile of group @at. NULL: an earlier group in the list represents
 * that profile. */
static const struct offer_slice_group *find_representative_profile(
	const struct gpu_labels *labels, size_t at, uint32_t *ret_count, uint32_t *ret_replicas)
{
	const struct offer_slice_group *first = &labels->groups.v[at];

	*ret_count = *ret_replicas = 0;
	for (size_t i = 0; i < labels->groups.n; i++) {
		const struct offer_slice_group *group = &labels->groups.v[i];

		if (strcmp(group->profile->name, labels->groups.v[at].profile->name) != 0)
			continue;
		if (i < at)
			return NULL;
		if (group->candidate < first->candidate)
			first = group;
		if (group->count > *ret_replicas)
			*ret_replicas = group->count;
		++*ret_count;
	}
	return first;
}

static void add_slice_profile_labels(const struct gpu_labels *labels,
	const struct offer_slice_group *group, uint32_t count, uint32_t replicas)
{
	const struct offer_candidate *candidate = &labels->devices.v[group->candidate];
	const struct slice_profile *p = group->profile;
	const struct sharing_label s = { .replicas = replicas,
		.strategy = SHARING_SLICES,
		.mark = "" };
	uint64_t memory = slice_limit(&p->isolation, 1,
		slice_usable(labels->inv, candidate->gpu, candidate->mig), 1);
	char end[GPU_PROFILE_MAX + 8] = "", profile[GPU_PROFILE_MAX];

	if (candidate->mig != OFFER_WHOLE) {
		profile_name(profile, sizeof(profile), &labels->inv->mig[candidate->mig]);
		label_sanitise(profile);
		(void)snprintf(end, sizeof(end), "-MIG-%s", profile);
	}
	label_set_add_text(labels->set, p->name, "product",
		labels->inv->gpus[candidate->gpu].name, end);
	label_set_add(labels->set, p->name, "count", "%" PRIu32, count);
	add_replica_labels(labels->set, p->name, &s);
	if (memory && memory != SLICE_NO_LIMIT)
		label_set_add(labels->set, p->name, "memory", "%" PRIu64, memory / MIB);
	label_set_add(labels->set, p->name, "weight", "%" PRIu32, p->weight);
	label_set_add(labels->set, p->name, "compute", "%s",
		p->isolation.compute == ISOLATION_COMPUTE_CAPPED ? "capped" : "fair");
	label_set_add(labels->set, p->name, "class", "%s",
		p->isolation.class_ == SLICE_CLASS_LATENCY ? "latency" : "batch");
}

static void add_all_profile_labels(const struct gpu_labels *labels)
{
	for (size_t i = 0; i < labels->groups.n; i++) {
		uint32_t count, replicas;
		const struct offer_slice_group *group =
			find_representative_profile(labels, i, &count, &replicas);

		if (group && labels->inv->gpus[labels->devices.v[group->candidate].gpu].name[0])
			add_slice_profile_labels(labels, group, count, replicas);
	}
}

static int pick_all(struct gpu_labels *labels)
{
	const size_t room = (size_t)labels->devices.n + 1;
	CLEANUP(freep) bool *picks = calloc(room, sizeof(*picks));
	CLEANUP(freep) bool *cut = calloc(room, sizeof(*cut));
	CLEANUP(freep) bool *mps = calloc(room, sizeof(*mps));
	struct offer_selection selection = { .candidates = &labels->devices,
		.inv = labels->inv,
		.config = labels->config,
		.sliced = cut,
		.mps = mps };

	labels->picks = calloc(labels->config->sharing.n_entries + 1, sizeof(*labels->picks));
	if (!picks || !cut || !mps || !labels->picks)
		return -1;
	for (size_t i = 0; i < labels->groups.n; i++)
		cut[labels->groups.v[i].candidate] = true;
	for (size_t k = 0; k < labels->config->sharing.n_entries; k++) {
		if (offer_select_entry(&selection, k, picks, NULL) < 0)
			return -1;
		for (uint32_t i = 0; i < labels->devices.n; i++)
			labels->picks[k] = labels->picks[k] || picks[i];
	}
	return 0;
}

/* Builds candidates and slices like the offer. Drops the notes, which the offer reports. */
static int find_shared_units(struct gpu_labels *labels)
{
	CLEANUP(strv_fini) struct strv notes = STRV_INIT, warnings = STRV_INIT;

	if (!labels->config->n_slices && !labels->config->sharing.n_entries)
		return 0;
	if (offer_candidates_make(&labels->devices, labels->inv, labels->config, &notes, NULL) <
			0 ||
		offer_slices_make(&labels->groups, &labels->devices, labels->inv,
			labels->config, &notes, &warnings, NULL) < 0)
		return -1;
	return pick_all(labels);
}

/* A GPU that was lost before its first successful probe. The labels do not count that GPU. */
static void add_unknown_gpus_note(const struct gpu_labels *labels)
{
	for (uint32_t i = 0; i < labels->inv->n; i++) {
		const struct gpu *g = &labels->inv->gpus[i];
		const char *id = g->uuid[0] ? g->uuid : g->bus_id;

		if (!g->name[0])
			label_set_add_note(labels->set,
				"GPU %" PRIu32
				"%s%s%s is not counted in the labels, as NVML does not report what it is: %s",
				g->index, *id ? " (" : "", id, *id ? ")" : "", g->reason);
	}
}

void labels_of_gpus(struct label_set *s, const struct inventory *inv,
	const struct config *config)
{
	struct gpu_labels labels = { .set = s, .inv = inv, .config = config };

	for (uint32_t i = 0; i < inv->n && i < GPU_NODE_MAX; i++)
		labels.can_have[i] = offer_can_have(inv, i);
	if (find_shared_units(&labels) < 0) {
		s->failed = true;
		goto out;
	}
	add_unknown_gpus_note(&labels);
	add_all_gpu_labels(&labels);
	add_all_profile_labels(&labels);
	switch (config->mig_strategy) {
	case MIG_STRATEGY_NONE:
		break;
	case MIG_STRATEGY_SINGLE:
		add_single_strategy_labels(&labels);
		break;
	case MIG_STRATEGY_MIXED:
		add_mig_resource_labels(&labels);
		break;
	}
out:
	free(labels.devices.v);
	free(labels.groups.v);
	free(labels.picks);
}
