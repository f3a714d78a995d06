/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

static void config_new__has_the_documented_defaults(void **state)
{
	struct config *c = fixture_config();

	(void)state;
	assert_string_equal(c->path, "");
	assert_string_equal(c->entry, "");
	assert_int_equal(c->mig_strategy, MIG_STRATEGY_NONE);
	assert_int_equal(c->discovery, DISCOVERY_AUTO);
	assert_true(c->fail_on_init_error);
	assert_string_equal(c->mps_root, "/run/nvidia/mps");
	assert_string_equal(c->driver_root, "/");
	assert_string_equal(c->dev_root, "/");
	assert_false(c->gdrcopy || c->gds || c->mofed || c->pass_device_specs);
	assert_int_equal(c->device_lists, DEVICE_LIST_ENVVAR);
	assert_int_equal(c->device_id, DEVICE_ID_UUID);
	assert_int_equal(c->allocation, ALLOCATION_DISTRIBUTED);
	assert_string_equal(c->cdi_annotation_prefix, "cdi.k8s.io/");
	assert_string_equal(c->cdi_hook_path, "/usr/bin/nvidia-ctk");
	assert_string_equal(c->container_driver_root, "/driver-root");
	assert_false(c->imex_channel0 || c->imex_required);
	assert_false(c->gfd.oneshot || c->gfd.no_timestamp);
	assert_true(c->gfd.use_node_feature_api);
	assert_true(c->gfd.sleep_interval_ns == 60 * (int64_t)NS_PER_SEC);
	assert_string_equal(c->gfd.output_file,
		"/etc/kubernetes/node-feature-discovery/features.d/gfd");
	assert_string_equal(c->gfd.machine_type_file, "/sys/class/dmi/id/product_name");
	assert_int_equal(c->sharing.n_entries, 0);
	assert_false(SLICING(c).fail_requests_greater_than_one);
	assert_true(MPS(c).fail_requests_greater_than_one);
	assert_int_equal(c->n_gpu_patterns + c->n_mig_patterns + c->n_slices, 0);
	assert_true(c->health.recovery);
	assert_true(c->health.cooldown_ns == 30 * NS_PER_SEC);
	assert_true(c->health.reset_cooldown_ns == 600 * NS_PER_SEC);
	assert_true(c->health.max_cooldown_ns == 3600 * NS_PER_SEC);
	assert_int_equal(c->health.probes_needed, 2);
	c = config_free(c);
	assert_null(c);
	assert_null(config_free(NULL));
}

/* One configuration with something in every list. */
static struct config *make_full_config(void)
{
	static const char *const list[] = { "GPU-0", "1", NULL };
	struct config *c = fixture_config();
	struct error err = ERROR_INIT;

	fixture_share(c, "nvidia.com/gpu", "nvidia.com/part", 4, list);
	fixture_pattern(c, "Tesla*", "nvidia.com/t");
	c->mig_patterns = calloc(1, sizeof(*c->mig_patterns));
	c->n_mig_patterns = 1;
	c->mig_patterns[0].pattern = strdup("1g.*");
	c->slices = calloc(1, sizeof(*c->slices));
	c->n_slices = 1;
	c->slices[0].product = strdup("Tesla T4");
	assert_ok(strv_add(&c->slices[0].list, "0", &err), &err);
	c->slices[0].profiles = calloc(1, sizeof(*c->slices[0].profiles));
	c->slices[0].n_profiles = 1;
	c->health.rules[0] = (struct xid_rule){ .xid = 48, .act = true };
	c->health.n_rules = 1;
	return c;
}

static void config_equal__ignores_the_source(void **state)
{
	struct config *a = make_full_config(), *b = make_full_config();

	(void)state;
	assert_true(config_equal(a, b));
	free(b->path);
	b->path = strdup("/etc/x.yaml");
	free(b->entry);
	b->entry = strdup("default");
	SLICING(b).pos.line = 7;
	b->sharing.entries[0].pos.line = 8;
	b->gpu_patterns[0].pos.line = 9;
	b->slices[0].pos.column = 3;
	assert_true(config_equal(a, b));
	config_free(a);
	config_free(b);
}

static void set_text(char **to, const char *text)
{
	free(*to);
	*to = strdup(text);
}

/* Each change, one at a time, must be seen in both directions. */
static void config_equal__compares_each_field(void **state)
{
	struct error err = ERROR_INIT;
	int n = 0;

	(void)state;
#define CHANGE(statement)                                                       \
	do {                                                                    \
		struct config *a = make_full_config(), *c = make_full_config(); \
		statement;                                                      \
		if (config_equal(a, c) || config_equal(c, a))                   \
			fail_msg("not seen: %s", #statement);                   \
		config_free(a);                                                 \
		config_free(c);                                                 \
		n++;                                                            \
	} while (0)
	CHANGE(c->mig_strategy = MIG_STRATEGY_MIXED);
	CHANGE(c->discovery = DISCOVERY_NVML);
	CHANGE(c->fail_on_init_error = false);
	CHANGE(set_text(&c->mps_root, "/run"));
	CHANGE(set_text(&c->driver_root, "/run"));
	CHANGE(set_text(&c->dev_root, "/run"));
	CHANGE(c->gdrcopy = true);
	CHANGE(c->gds = true);
	CHANGE(c->mofed = true);
	CHANGE(c->pass_device_specs = true);
	CHANGE(c->device_lists = 0);
	CHANGE(c->device_id = DEVICE_ID_INDEX);
	CHANGE(c->allocation = ALLOCATION_PACKED);
	CHANGE(set_text(&c->cdi_annotation_prefix, "x/"));
	CHANGE(set_text(&c->cdi_hook_path, "/x"));
	CHANGE(c->cdi_hook_path_set = true);
	CHANGE(strv_add(&c->cdi_features, "x", NULL) < 0 ? abort() : (void)0);
	CHANGE(strv_add(&c->cdi_disabled_hooks, "x", NULL) < 0 ? abort() : (void)0);
	CHANGE(set_text(&c->container_driver_root, "/x"));
	CHANGE(c->imex_channel0 = true);
	CHANGE(c->imex_required = true);
	CHANGE(c->gfd.oneshot = true);
	CHANGE(c->gfd.no_timestamp = true);
	CHANGE(c->gfd.use_node_feature_api = false);
	CHANGE(c->gfd.sleep_interval_ns = 1);
	CHANGE(set_text(&c->gfd.output_file, ""));
	CHANGE(set_text(&c->gfd.machine_type_file, ""));
	CHANGE(set_text(&c->gpu_patterns[0].pattern, "*"));
	CHANGE(c->gpu_patterns[0].name[0] = 'x');
	CHANGE(fixture_pattern(c, "*", "nvidia.com/x"));
	CHANGE(set_text(&c->mig_patterns[0].pattern, "*"));
	CHANGE(c->mig_patterns[0].name[0] = 'x');
	CHANGE(fixture_strategy(c, SHARING_MPS));
	CHANGE(c->sharing.mps_exclusive = true);
	CHANGE(MPS(c).rename_by_default = true);
	CHANGE(MPS(c).fail_requests_greater_than_one = false);
	CHANGE(c->slices[0].mps = true);
	CHANGE(SLICING(c).rename_by_default = true);
	CHANGE(SLICING(c).fail_requests_greater_than_one = true);
	CHANGE(fixture_share(c, "nvidia.com/x", NULL, 2, NULL));
	CHANGE(c->sharing.entries[0].name[0] = 'x');
	CHANGE(c->sharing.entries[0].rename[0] = 'x');
	CHANGE(c->sharing.entries[0].devices = DEVICES_ALL);
	CHANGE(c->sharing.entries[0].count = 1);
	CHANGE(assert_ok(strv_add(&c->sharing.entries[0].list, "2", &err), &err));
	CHANGE(c->sharing.entries[0].replicas = 5);
	CHANGE(c->sharing.entries[0].isolation.present = true);
	CHANGE(c->sharing.entries[0].isolation.memory = ISOLATION_MEMORY_EQUAL);
	CHANGE(c->sharing.entries[0].isolation.memory_value = 1);
	CHANGE(c->sharing.entries[0].isolation.compute = ISOLATION_COMPUTE_FAIR);
	CHANGE(c->sharing.entries[0].isolation.class_ = SLICE_CLASS_LATENCY);
	CHANGE(c->sharing.entries[0].isolation.unhooked = UNHOOKED_STOP);
	CHANGE(c->slices[0].name[0] = 'x');
	CHANGE(c->slices[0].devices = DEVICES_COUNT);
	CHANGE(assert_ok(strv_add(&c->slices[0].list, "2", &err), &err));
	CHANGE(set_text(&c->slices[0].product, "Tesla V100"));
	CHANGE(c->slices[0].n_profiles = 0);
	CHANGE(c->slices[0].profiles[0].name[0] = 'x');
	CHANGE(c->slices[0].profiles[0].count = 3);
	CHANGE(c->slices[0].profiles[0].weight = 3);
	CHANGE(c->slices[0].profiles[0].isolation.memory_value = 3);
	CHANGE(c->slices[0].profiles[0].isolation.compute = ISOLATION_COMPUTE_CAPPED);
	CHANGE(c->slices[0].profiles[0].isolation.class_ = SLICE_CLASS_LATENCY);
	CHANGE(c->health.disabled = true);
	CHANGE(c->health.act_on_all = true);
	CHANGE(c->health.n_rules = 0);
	CHANGE(c->health.rules[0].xid = 1);
	CHANGE(c->health.rules[0].act = false);
	CHANGE(c->health.recovery = false);
	CHANGE(c->health.rates_id = 1);
	CHANGE(c->health.signals[GPU_SIGNAL_RESET] = HEALTH_WARN);
	CHANGE(c->health.cooldown_ns = 1);
	CHANGE(c->health.reset_cooldown_ns = 1);
	CHANGE(c->health.max_cooldown_ns = 1);
	CHANGE(c->health.probes_needed = 1);
	CHANGE(c->health.probe_interval_ns = 1);
	CHANGE(c->health.forget_after_ns = 1);
#undef CHANGE
	assert_int_equal(n, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_new__has_the_documented_defaults),
		cmocka_unit_test(config_equal__ignores_the_source),
		cmocka_unit_test(config_equal__compares_each_field),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
