/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/config.h"

#include <string.h>

/* Paths and prefixes: NVIDIA's defaults and our mpsRoot. config_new() sets the other defaults. */
static int default_strings(struct config *c)
{
	const struct {
		char **to;
		const char *text;
	} rows[] = {
		{ &c->path, "" },
		{ &c->entry, "" },
		{ &c->mps_root, MPS_DEFAULT_ROOT },
		{ &c->driver_root, "/" },
		{ &c->dev_root, "/" },
		{ &c->cdi_annotation_prefix, "cdi.k8s.io/" },
		{ &c->cdi_hook_path, "/usr/bin/nvidia-ctk" },
		{ &c->container_driver_root, "/driver-root" },
		{ &c->gfd.output_file,
			"/etc/kubernetes/node-feature-discovery/features.d/gfd" },
		{ &c->gfd.machine_type_file, "/sys/class/dmi/id/product_name" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		*rows[i].to = strdup(rows[i].text);
		if (!*rows[i].to)
			return -1;
	}
	return 0;
}

int config_new(struct config **ret, struct error *err)
{
	CLEANUP(config_freep) struct config *c = calloc(1, sizeof(*c));

	if (!c || default_strings(c) < 0)
		return error_nomem(err);
	c->mig_strategy = MIG_STRATEGY_NONE;
	c->discovery = DISCOVERY_AUTO;
	c->fail_on_init_error = true;
	c->device_lists = DEVICE_LIST_ENVVAR;
	c->device_id = DEVICE_ID_UUID;
	c->allocation = ALLOCATION_DISTRIBUTED;
	c->gfd.use_node_feature_api = true;
	c->gfd.sleep_interval_ns = INT64_C(60000000000);
	c->sharing.kinds[SHARING_MPS].fail_requests_greater_than_one = true;
	health_policy_default(&c->health);
	*ret = STEAL_PTR(c);
	return 0;
}

static void patterns_free(struct resource_pattern *patterns, size_t n)
{
	for (size_t i = 0; patterns && i < n; i++)
		free(patterns[i].pattern);
	free(patterns);
}

static void slices_free(struct slice_set *sets, size_t n)
{
	for (size_t i = 0; sets && i < n; i++) {
		strv_fini(&sets[i].list);
		free(sets[i].product);
		free(sets[i].profiles);
	}
	free(sets);
}

struct config *config_free(struct config *c)
{
	if (!c)
		return NULL;
	free(c->path);
	free(c->entry);
	free(c->mps_root);
	free(c->driver_root);
	free(c->dev_root);
	free(c->cdi_annotation_prefix);
	free(c->cdi_hook_path);
	free(c->container_driver_root);
	strv_fini(&c->cdi_features);
	strv_fini(&c->cdi_disabled_hooks);
	free(c->gfd.output_file);
	free(c->gfd.machine_type_file);
	patterns_free(c->gpu_patterns, c->n_gpu_patterns);
	patterns_free(c->mig_patterns, c->n_mig_patterns);
	for (size_t i = 0; c->sharing.entries && i < c->sharing.n_entries; i++)
		strv_fini(&c->sharing.entries[i].list);
	free(c->sharing.entries);
	slices_free(c->slices, c->n_slices);
	free(c);
	return NULL;
}

bool isolation_enforces(const struct isolation *i)
{
	return i->memory != ISOLATION_MEMORY_NONE || i->compute != ISOLATION_COMPUTE_NONE;
}

bool sharing_has(const struct sharing *s, enum sharing_strategy strategy)
{
	for (size_t i = 0; i < s->n_entries; i++)
		if (s->entries[i].strategy == strategy)
			return true;
	return false;
}

/* Whether an MPS entry for the resource of @e covers the device @ref of a `devices` list. NULL: whether
 * such an entry covers all devices. */
static bool mps_has(const struct sharing *s, const struct replicated *e, const char *ref)
{
	for (size_t i = 0; i < s->n_entries; i++) {
		const struct replicated *m = &s->entries[i];

		if (m->strategy != SHARING_MPS || strcmp(m->name, e->name) != 0)
			continue;
		if (m->devices == DEVICES_ALL ||
			(ref && m->devices == DEVICES_LIST && strv_has(&m->list, ref)))
			return true;
	}
	return false;
}

bool sharing_leaves_nothing(const struct sharing *s, const struct replicated *e)
{
	if (e->strategy != SHARING_TIME_SLICING)
		return false;
	if (e->devices != DEVICES_LIST)
		return mps_has(s, e, NULL);
	for (size_t i = 0; i < e->list.n; i++)
		if (!mps_has(s, e, e->list.v[i]))
			return false;
	return e->list.n > 0;
}

bool config_wants_mps(const struct config *c)
{
	for (size_t i = 0; i < c->n_slices; i++)
		if (c->slices[i].mps)
			return true;
	return sharing_has(&c->sharing, SHARING_MPS);
}

const char *sharing_strategy_name(enum sharing_strategy s)
{
	switch (s) {
	case SHARING_NONE:
		break;
	case SHARING_TIME_SLICING:
		return "time-slicing";
	case SHARING_MPS:
		return "mps";
	case SHARING_SLICES:
		return "slices";
	}
	return "none";
}

void config_sharing_text(const struct config *c, struct buf *text)
{
	const bool has[] = { [SHARING_NONE] = false,
		[SHARING_TIME_SLICING] = sharing_has(&c->sharing, SHARING_TIME_SLICING),
		[SHARING_MPS] = sharing_has(&c->sharing, SHARING_MPS),
		[SHARING_SLICES] = c->n_slices > 0 };

	for (size_t i = 0; i < ARRAY_LEN(has); i++)
		if (has[i])
			buf_printf(text, "%s%s", text->len ? ", " : "",
				sharing_strategy_name((enum sharing_strategy)i));
	if (!text->len)
		buf_puts(text, sharing_strategy_name(SHARING_NONE));
}

static bool is_fair_share(const struct replicated *e)
{
	return e->isolation.compute != ISOLATION_COMPUTE_NONE;
}

bool replicated_mix_fair_share(const struct replicated *a, const struct replicated *b)
{
	return a->strategy == SHARING_TIME_SLICING && b->strategy == SHARING_TIME_SLICING &&
	       is_fair_share(a) != is_fair_share(b) && strcmp(a->name, b->name) == 0 &&
	       strcmp(*a->rename ? a->rename : a->name, *b->rename ? b->rename : b->name) != 0;
}

static bool means_none(const struct replicated *e)
{
	return e->devices == DEVICES_LIST && e->list.n == 0;
}

bool replicated_always_overlap(const struct replicated *a, const struct replicated *b)
{
	if (means_none(a) || means_none(b))
		return false;
	return a->devices == DEVICES_ALL || b->devices == DEVICES_ALL ||
	       (a->devices == DEVICES_COUNT && b->devices == DEVICES_COUNT);
}

bool config_wants_slices(const struct config *c)
{
	for (size_t i = 0; i < c->sharing.n_entries; i++)
		if (isolation_enforces(&c->sharing.entries[i].isolation))
			return true;
	return c->n_slices > 0;
}

/* NULL equals "" (half-built object) and "none" (optional field). */
static bool is_same_optional_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool patterns_equal(const struct resource_pattern *a, size_t n_a,
	const struct resource_pattern *b, size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++)
		if (!is_same_optional_text(a[i].pattern, b[i].pattern) ||
			strcmp(a[i].name, b[i].name) != 0)
			return false;
	return true;
}

static bool isolation_equal(const struct isolation *a, const struct isolation *b)
{
	return a->present == b->present && a->memory == b->memory &&
	       a->memory_value == b->memory_value && a->compute == b->compute &&
	       a->class_ == b->class_ && a->unhooked == b->unhooked;
}

static bool entry_equal(const struct replicated *a, const struct replicated *b)
{
	return a->strategy == b->strategy && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->rename, b->rename) == 0 && a->devices == b->devices &&
	       a->count == b->count && strv_equal(&a->list, &b->list) &&
	       a->replicas == b->replicas && isolation_equal(&a->isolation, &b->isolation);
}

static bool sharing_equal(const struct sharing *a, const struct sharing *b)
{
	if (a->mps_exclusive != b->mps_exclusive || a->n_entries != b->n_entries)
		return false;
	for (size_t k = 0; k < SHARING_KINDS; k++)
		if (a->kinds[k].rename_by_default != b->kinds[k].rename_by_default ||
			a->kinds[k].fail_requests_greater_than_one !=
				b->kinds[k].fail_requests_greater_than_one)
			return false;
	for (size_t i = 0; i < a->n_entries; i++)
		if (!entry_equal(&a->entries[i], &b->entries[i]))
			return false;
	return true;
}

static bool profiles_equal(const struct slice_profile *a, const struct slice_profile *b,
	size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(a[i].name, b[i].name) != 0 || a[i].count != b[i].count ||
			a[i].weight != b[i].weight ||
			!isolation_equal(&a[i].isolation, &b[i].isolation))
			return false;
	return true;
}

static bool slices_equal(const struct slice_set *a, size_t n_a, const struct slice_set *b,
	size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++)
		if (strcmp(a[i].name, b[i].name) != 0 || a[i].devices != b[i].devices ||
			!strv_equal(&a[i].list, &b[i].list) ||
			!is_same_optional_text(a[i].product, b[i].product) ||
			a[i].mps != b[i].mps || a[i].n_profiles != b[i].n_profiles ||
			!profiles_equal(a[i].profiles, b[i].profiles, a[i].n_profiles))
			return false;
	return true;
}

static bool health_equal(const struct health_policy *a, const struct health_policy *b)
{
	if (a->disabled != b->disabled || a->act_on_all != b->act_on_all ||
		a->recovery != b->recovery || a->cooldown_ns != b->cooldown_ns ||
		a->reset_cooldown_ns != b->reset_cooldown_ns ||
		a->max_cooldown_ns != b->max_cooldown_ns ||
		a->probes_needed != b->probes_needed ||
		a->probe_interval_ns != b->probe_interval_ns ||
		a->forget_after_ns != b->forget_after_ns || a->n_rules != b->n_rules ||
		a->n_rates != b->n_rates || a->rates_id != b->rates_id ||
		memcmp(a->signals, b->signals, sizeof(a->signals)) != 0)
		return false;
	for (size_t i = 0; i < a->n_rules; i++)
		if (a->rules[i].xid != b->rules[i].xid || a->rules[i].act != b->rules[i].act)
			return false;
	return true;
}

static bool flags_equal(const struct config *a, const struct config *b)
{
	return a->mig_strategy == b->mig_strategy && a->discovery == b->discovery &&
	       a->fail_on_init_error == b->fail_on_init_error &&
	       is_same_optional_text(a->mps_root, b->mps_root) &&
	       is_same_optional_text(a->driver_root, b->driver_root) &&
	       is_same_optional_text(a->dev_root, b->dev_root) && a->gdrcopy == b->gdrcopy &&
	       a->gds == b->gds && a->mofed == b->mofed &&
	       a->pass_device_specs == b->pass_device_specs &&
	       a->device_lists == b->device_lists && a->device_id == b->device_id &&
	       a->allocation == b->allocation &&
	       is_same_optional_text(a->cdi_annotation_prefix, b->cdi_annotation_prefix) &&
	       is_same_optional_text(a->cdi_hook_path, b->cdi_hook_path) &&
	       a->cdi_hook_path_set == b->cdi_hook_path_set &&
	       strv_equal(&a->cdi_features, &b->cdi_features) &&
	       strv_equal(&a->cdi_disabled_hooks, &b->cdi_disabled_hooks) &&
	       is_same_optional_text(a->container_driver_root, b->container_driver_root) &&
	       a->imex_channel0 == b->imex_channel0 && a->imex_required == b->imex_required;
}

static bool gfd_equal(const struct config *a, const struct config *b)
{
	return a->gfd.oneshot == b->gfd.oneshot && a->gfd.no_timestamp == b->gfd.no_timestamp &&
	       a->gfd.use_node_feature_api == b->gfd.use_node_feature_api &&
	       a->gfd.sleep_interval_ns == b->gfd.sleep_interval_ns &&
	       is_same_optional_text(a->gfd.output_file, b->gfd.output_file) &&
	       is_same_optional_text(a->gfd.machine_type_file, b->gfd.machine_type_file);
}

bool config_equal(const struct config *a, const struct config *b)
{
	return flags_equal(a, b) && gfd_equal(a, b) &&
	       patterns_equal(a->gpu_patterns, a->n_gpu_patterns, b->gpu_patterns,
		       b->n_gpu_patterns) &&
	       patterns_equal(a->mig_patterns, a->n_mig_patterns, b->mig_patterns,
		       b->n_mig_patterns) &&
	       sharing_equal(&a->sharing, &b->sharing) &&
	       slices_equal(a->slices, a->n_slices, b->slices, b->n_slices) &&
	       health_equal(&a->health, &b->health);
}
