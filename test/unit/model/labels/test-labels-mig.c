/* SPDX-License-Identifier: Apache-2.0 */
#include "labels-fixture.h"

/* --- labels of MIG devices --- */

static struct config *mig_config(enum mig_strategy strategy)
{
	struct config *c = fixture_config();

	c->mig_strategy = strategy;
	return c;
}

static void labels_single__of_whole_gpus_are_as_without(void **state)
{
	struct inventory *inv = mock_inventory("wc");
	struct config *c = mig_config(MIG_STRATEGY_SINGLE);
	struct labels *l;

	(void)state;
	mock_mig(inv, 1, 3, 3, 20); /* MIG is off there: no MIG device for us */
	l = mock_labels(inv, c, NULL);
	assert_label(l, "mig.strategy", "single");
	assert_label(l, "gpu.count", "2");
	assert_label(l, "gpu.product", "MOCKMODEL");
	assert_label(l, "gpu.memory", "300");
	assert_label(l, "gpu.slices.gi", NULL);
	labels_free(l);
	config_free(c);
	inventory_free(inv);
}

static void labels_single__of_one_mig_device(void **state)
{
	static const struct {
		const char *rename;
		enum sharing_strategy strategy;
		const char *product, *replicas, *name;
	} rows[] = {
		{ NULL, SHARING_NONE, "MOCKMODEL-MIG-1g.300gb", "1", "none" },
		{ NULL, SHARING_TIME_SLICING, "MOCKMODEL-MIG-1g.300gb-SHARED", "2",
			"time-slicing" },
		{ "nvidia.com/gpu.shared", SHARING_TIME_SLICING, "MOCKMODEL-MIG-1g.300gb", "2",
			"time-slicing" },
		{ NULL, SHARING_MPS, "MOCKMODEL-MIG-1g.300gb-SHARED", "2", "mps" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct inventory *inv = mock_inventory("m");
		struct config *c = mig_config(MIG_STRATEGY_SINGLE);
		struct labels *l;

		mock_mig(inv, 0, 1, 2, 300);
		if (rows[i].strategy != SHARING_NONE)
			fixture_share_by(c, rows[i].strategy, "nvidia.com/gpu", rows[i].rename,
				2, NULL);
		l = mock_labels(inv, c, NULL);
		assert_label(l, "gpu.product", rows[i].product);
		assert_label(l, "gpu.replicas", rows[i].replicas);
		assert_label(l, "gpu.sharing-strategy", rows[i].name);
		assert_label(l, "gpu.count", "1");
		assert_label(l, "gpu.memory", "300");
		assert_label(l, "gpu.multiprocessors", "0");
		assert_label(l, "gpu.slices.gi", "1");
		assert_label(l, "gpu.slices.ci", "2");
		assert_label(l, "gpu.engines.copy", "0");
		assert_label(l, "gpu.engines.decoder", "0");
		assert_label(l, "gpu.engines.encoder", "0");
		assert_label(l, "gpu.engines.jpeg", "0");
		assert_label(l, "gpu.engines.ofa", "0");
		assert_label(l, "mig.capable", "true");
		labels_free(l);
		config_free(c);
		inventory_free(inv);
	}
}

static void labels_single__of_two_gpus_count_devices(void **state)
{
	struct inventory *inv = mock_inventory("mm");
	struct config *c = mig_config(MIG_STRATEGY_SINGLE);
	struct labels *l;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct gpu_mig *m = mock_mig(inv, i, 3, 3, 20);

		m->multiprocessors = 12;
		m->copy = 13;
		m->decoder = 14;
		m->encoder = 15;
		m->jpeg = 16;
		m->ofa = 17;
		inv->gpus[i].cc_major = 8; /* a real GPU reports it with MIG on as well */
	}
	l = mock_labels(inv, c, NULL);
	assert_label(l, "gpu.count", "2");
	assert_label(l, "gpu.product", "MOCKMODEL-MIG-3g.20gb");
	assert_label(l, "gpu.memory", "20");
	assert_label(l, "gpu.multiprocessors", "12");
	assert_label(l, "gpu.engines.copy", "13");
	assert_label(l, "gpu.engines.decoder", "14");
	assert_label(l, "gpu.engines.encoder", "15");
	assert_label(l, "gpu.engines.jpeg", "16");
	assert_label(l, "gpu.engines.ofa", "17");
	assert_label(l, "gpu.family", "ampere");
	labels_free(l);
	config_free(c);
	inventory_free(inv);
}

static void labels_single__of_gpus_that_single_does_not_allow(void **state)
{
	static const struct {
		const char *gpus;
		uint32_t gi[3]; /* one device each; 0: none */
		uint32_t more;  /* slices of one more device on GPU 0; 0: none */
		const char *family, *note;
	} rows[] = {
		{ "m", { 0 }, 0, NULL, "no MIG device" },
		{ "m", { 1 }, 3, NULL, "several profiles" },
		{ "mm", { 1, 2 }, 0, NULL, "several profiles" },
		{ "mw", { 1 }, 0, "ampere", "on for some" },
		{ "wm", { 0, 1 }, 0, "ampere", "on for some" },
		{ "mwm", { 1, 0, 0 }, 0, "ampere", "no MIG device" },
		{ "mm", { 1, 0 }, 0, NULL, "no MIG device" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct inventory *inv = mock_inventory(rows[i].gpus);
		struct config *c = mig_config(MIG_STRATEGY_SINGLE);
		struct strv notes = STRV_INIT;
		struct labels *l;

		for (uint32_t g = 0; g < inv->n; g++)
			if (rows[i].gi[g])
				mock_mig(inv, g, rows[i].gi[g], 1, 5);
		if (rows[i].more)
			mock_mig(inv, 0, rows[i].more, 1, 5);
		fixture_share(c, "nvidia.com/gpu", NULL, 2, NULL);
		l = mock_labels(inv, c, &notes);
		assert_label(l, "gpu.product", "MOCKMODEL-MIG-INVALID");
		assert_label(l, "gpu.count", "0");
		assert_label(l, "gpu.replicas", "0");
		assert_label(l, "gpu.sharing-strategy", "");
		assert_label(l, "gpu.memory", "0");
		assert_label(l, "gpu.slices.gi", NULL);
		assert_label(l, "gpu.family", rows[i].family);
		assert_label(l, "gpu.compute.major", rows[i].family ? "8" : NULL);
		assert_label(l, "mig.strategy", "single");
		assert_int_equal(notes.n, 1);
		assert_non_null(strstr(notes.v[0], rows[i].note));
		labels_free(l);
		strv_fini(&notes);
		config_free(c);
		inventory_free(inv);
	}
}

static void labels_mixed__have_a_key_for_each_profile(void **state)
{
	struct inventory *inv = mock_inventory("mwm");
	struct config *c = mig_config(MIG_STRATEGY_MIXED);
	struct labels *l;

	(void)state;
	mock_mig(inv, 0, 3, 3, 20);
	mock_mig(inv, 0, 1, 1, 5);
	mock_mig(inv, 0, 1, 1, 5);
	(void)snprintf(mock_mig(inv, 0, 1, 1, 10)->profile, 32, "1g.10gb+me");
	(void)snprintf(mock_mig(inv, 0, 1, 1, 24)->profile, 32, "1g.24gb+gfx,me");
	fixture_share(c, "nvidia.com/gpu", "nvidia.com/gpu.shared", 4, NULL);
	fixture_share(c, "nvidia.com/mig-1g.5gb", NULL, 2, NULL);
	l = mock_labels(inv, c, NULL);
	assert_label(l, "mig.strategy", "mixed");
	assert_label(l, "gpu.count", "3");
	assert_label(l, "gpu.product", "MOCKMODEL");
	assert_label(l, "gpu.replicas", "4"); /* of the one GPU without MIG */
	assert_label(l, "gpu.memory", "300");
	assert_label(l, "gpu.slices.gi", NULL);
	assert_label(l, "mig-3g.20gb.count", "1");
	assert_label(l, "mig-1g.24gb.gfx.me.count", "1");
	assert_label(l, "mig-3g.20gb.product", "MOCKMODEL-MIG-3g.20gb");
	assert_label(l, "mig-3g.20gb.replicas", "1");
	assert_label(l, "mig-3g.20gb.sharing-strategy", "none");
	assert_label(l, "mig-3g.20gb.memory", "20");
	assert_label(l, "mig-3g.20gb.slices.gi", "3");
	assert_label(l, "mig-3g.20gb.family", NULL);
	assert_label(l, "mig-1g.5gb.count", "2");
	assert_label(l, "mig-1g.5gb.product", "MOCKMODEL-MIG-1g.5gb-SHARED");
	assert_label(l, "mig-1g.5gb.replicas", "2");
	assert_label(l, "mig-1g.5gb.sharing-strategy", "time-slicing");
	assert_label(l, "mig-1g.10gb.me.count", "1");
	assert_label(l, "mig-1g.10gb.me.product", "MOCKMODEL-MIG-1g.10gb.me");
	labels_free(l);
	config_free(c);
	inventory_free(inv);
}

/* Sharing of some MIG devices, by UUID, new and old, and by "GPU:device". */
static void labels_mixed__follow_lists_of_devices(void **state)
{
	static const char *const refs[] = { "MIG-1-1", "1:1", "1:0", "1:9", "1", "GPU-1",
		"MIG-GPU-1/9/2", "MIG-GPU-1/9/1" };
	static const char *const replicas[] = { "3", "3", "1", "1", "1", "1", "3", "1" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refs); i++) {
		const char *const list[] = { refs[i], NULL };
		struct inventory *inv = mock_inventory("mm");
		struct config *c = mig_config(MIG_STRATEGY_MIXED);
		struct labels *l;

		mock_mig(inv, 0, 1, 1, 5);
		mock_mig(inv, 1, 3, 3, 20);
		mock_mig(inv, 1, 1, 1, 5);
		inv->mig[2].gi = 9;
		inv->mig[2].ci = 2;
		fixture_share(c, "nvidia.com/mig-1g.5gb", NULL, 3, list);
		l = mock_labels(inv, c, NULL);
		assert_label(l, "mig-1g.5gb.replicas", replicas[i]);
		assert_label(l, "mig-3g.20gb.replicas", "1");
		labels_free(l);
		config_free(c);
		inventory_free(inv);
	}
}

static void labels_mixed__count_mig_devices_only_where_mig_is_on(void **state)
{
	static const char *const first[] = { "0", NULL };
	struct inventory *inv = mock_inventory("mc");
	struct config *c = mig_config(MIG_STRATEGY_MIXED);
	struct labels *l;

	(void)state;
	mock_mig(inv, 0, 1, 1, 5);
	mock_mig(inv, 1, 3, 3, 20);
	mock_mig(inv, 7, 2, 2, 10);                         /* of no GPU */
	fixture_share(c, "nvidia.com/gpu", NULL, 2, first); /* it is no GPU as a whole */
	l = mock_labels(inv, c, NULL);
	assert_label(l, "mig-1g.5gb.count", "1");
	assert_label(l, "mig-3g.20gb.count", NULL);
	assert_label(l, "mig-2g.10gb.count", NULL);
	assert_label(l, "gpu.count", "2");
	assert_label(l, "gpu.replicas", "1");
	labels_free(l);
	config_free(c);
	inventory_free(inv);
}

/* A name of the user's own comes besides NVIDIA's, which stays whole. */
static void labels_mixed__follow_the_users_patterns(void **state)
{
	struct inventory *inv = mock_inventory("m");
	struct config *c = mig_config(MIG_STRATEGY_MIXED);
	struct labels *l;

	(void)state;
	c->mig_patterns = calloc(1, sizeof(*c->mig_patterns));
	assert_non_null(c->mig_patterns);
	c->n_mig_patterns = 1;
	c->mig_patterns[0].pattern = strdup("1g.*");
	(void)snprintf(c->mig_patterns[0].name, RESOURCE_NAME_MAX, "nvidia.com/small");
	mock_mig(inv, 0, 1, 1, 5);
	mock_mig(inv, 0, 1, 1, 10);
	fixture_share(c, "nvidia.com/small", NULL, 2, NULL);
	l = mock_labels(inv, c, NULL);
	assert_label(l, "small.count", "2");
	assert_label(l, "small.product", "MOCKMODEL-MIG-1g.5gb-SHARED"); /* the first */
	assert_label(l, "small.replicas", "2");
	assert_label(l, "small.slices.gi", NULL);
	assert_label(l, "mig-1g.5gb.count", "1");
	assert_label(l, "mig-1g.5gb.replicas", "2"); /* as it is offered */
	assert_label(l, "mig-1g.10gb.count", "1");
	assert_label(l, "mig-1g.10gb.slices.gi", "1");
	labels_free(l);
	config_free(c);
	inventory_free(inv);
}

/* Labels of a node at every limit must not block the agent for half a minute. */
static void labels_mixed__of_the_largest_node_are_built_quickly(void **state)
{
	const uint32_t n = GPU_NODE_MAX * GPU_MIG_MAX;
	struct inventory *inv = fixture_inventory(GPU_NODE_MAX);
	struct config *c = mig_config(MIG_STRATEGY_MIXED);
	struct labels *l;
	uint64_t start;

	(void)state;
	(void)snprintf(inv->driver_version, sizeof(inv->driver_version), "580.65.06");
	(void)mock_mig(inv, 0, 1, 1, 5);
	inv->mig = realloc(inv->mig, n * sizeof(*inv->mig));
	assert_non_null(inv->mig);
	for (uint32_t i = 0; i < n; i++) {
		inv->mig[i] = inv->mig[0];
		inv->mig[i].gpu = i / GPU_MIG_MAX;
		inv->mig[i].index = i % GPU_MIG_MAX;
		inv->gpus[i / GPU_MIG_MAX].mig_enabled = true;
	}
	inv->n_mig = n;
	start = time_mono_ns();
	l = mock_labels(inv, c, NULL);
	assert_true(time_mono_ns() - start < 3 * NS_PER_SEC);
	assert_label(l, "mig-1g.5gb.count", "4096");
	labels_free(l);
	config_free(c);
	inventory_free(inv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_single__of_whole_gpus_are_as_without),
		cmocka_unit_test(labels_single__of_one_mig_device),
		cmocka_unit_test(labels_single__of_two_gpus_count_devices),
		cmocka_unit_test(labels_single__of_gpus_that_single_does_not_allow),
		cmocka_unit_test(labels_mixed__have_a_key_for_each_profile),
		cmocka_unit_test(labels_mixed__follow_lists_of_devices),
		cmocka_unit_test(labels_mixed__of_the_largest_node_are_built_quickly),
		cmocka_unit_test(labels_mixed__count_mig_devices_only_where_mig_is_on),
		cmocka_unit_test(labels_mixed__follow_the_users_patterns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
