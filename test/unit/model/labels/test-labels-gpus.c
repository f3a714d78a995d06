/* SPDX-License-Identifier: Apache-2.0 */
#include "labels-fixture.h"

/* Labels of resources: those of NVIDIA's program, and those that the agent adds. */

struct expected {
	const char *count, *product, *replicas, *strategy;
};

static void assert_resource(const struct labels *l, const char *resource, struct expected e)
{
	char key[128];

#define CHECK(suffix, value)                                              \
	do {                                                              \
		(void)snprintf(key, sizeof(key), "%s." suffix, resource); \
		assert_label(l, key, value);                              \
	} while (0)
	CHECK("count", e.count);
	CHECK("product", e.product);
	CHECK("replicas", e.replicas);
	CHECK("sharing-strategy", e.strategy);
#undef CHECK
}

static void labels__of_one_gpu_with_each_sharing(void **state)
{
	static const struct {
		const char *resource, *rename;
		enum sharing_strategy strategy;
		uint32_t replicas;
		bool rename_by_default;
		struct expected e;
	} rows[] = {
		{ NULL, NULL, SHARING_NONE, 0, false, { "1", "MOCKMODEL", "1", "none" } },
		{ "nvidia.com/other", NULL, SHARING_TIME_SLICING, 2, false,
			{ "1", "MOCKMODEL", "1", "none" } },
		{ "nvidia.com/gpu", NULL, SHARING_TIME_SLICING, 2, false,
			{ "1", "MOCKMODEL-SHARED", "2", "time-slicing" } },
		{ "nvidia.com/gpu", "nvidia.com/gpu.shared", SHARING_TIME_SLICING, 2, false,
			{ "1", "MOCKMODEL", "2", "time-slicing" } },
		{ "nvidia.com/gpu", NULL, SHARING_TIME_SLICING, 2, true,
			{ "1", "MOCKMODEL", "2", "time-slicing" } },
		{ "nvidia.com/gpu", "nvidia.com/gpu", SHARING_TIME_SLICING, 2, true,
			{ "1", "MOCKMODEL-SHARED", "2", "time-slicing" } },
		{ "nvidia.com/gpu", NULL, SHARING_MPS, 2, false,
			{ "1", "MOCKMODEL-SHARED", "2", "mps" } },
		{ "nvidia.com/gpu", "nvidia.com/gpu.shared", SHARING_MPS, 2, false,
			{ "1", "MOCKMODEL", "2", "mps" } },
		{ "nvidia.com/gpu", NULL, SHARING_MPS, 1, false,
			{ "1", "MOCKMODEL", "1", "none" } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct inventory *inv = mock_inventory("w");
		struct config *c = fixture_config();
		struct labels *l;

		if (rows[i].resource)
			fixture_share(c, rows[i].resource, rows[i].rename, rows[i].replicas,
				NULL);
		fixture_strategy(c, rows[i].strategy);
		SLICING(c).rename_by_default = MPS(c).rename_by_default =
			rows[i].rename_by_default;
		l = mock_labels(inv, c, NULL);
		assert_resource(l, "gpu", rows[i].e);
		assert_label(l, "gpu.memory", "300");
		assert_label(l, "gpu.family", "ampere");
		assert_label(l, "gpu.compute.major", "8");
		assert_label(l, "gpu.compute.minor", "0");
		assert_label(l, "gpu.shared.count", NULL); /* keys never have the new name */
		labels_free(l);
		config_free(c);
		inventory_free(inv);
	}
}

static void labels__count_gpus_with_mig_but_do_not_share_them(void **state)
{
	static const struct {
		const char *gpus;
		struct expected e;
		const char *family;
	} rows[] = {
		{ "ww", { "2", "MOCKMODEL-SHARED", "2", "time-slicing" }, "ampere" },
		{ "m", { "1", "MOCKMODEL", "0", "none" }, NULL },
		{ "mm", { "2", "MOCKMODEL", "0", "none" }, NULL },
		{ "mw", { "2", "MOCKMODEL-SHARED", "2", "time-slicing" }, "ampere" },
		{ "wm", { "2", "MOCKMODEL-SHARED", "2", "time-slicing" }, "ampere" },
		{ "", { NULL, NULL, NULL, NULL }, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct inventory *inv = mock_inventory(rows[i].gpus);
		struct config *c = fixture_config();
		struct labels *l;

		fixture_share(c, "nvidia.com/gpu", NULL, 2, NULL);
		l = mock_labels(inv, c, NULL);
		assert_resource(l, "gpu", rows[i].e);
		assert_label(l, "gpu.memory", rows[i].e.count ? "300" : NULL);
		assert_label(l, "gpu.family", rows[i].family);
		assert_label(l, "mig.strategy", NULL);
		labels_free(l);
		config_free(c);
		inventory_free(inv);
	}
}

static void labels__of_an_unhealthy_gpu_stay(void **state)
{
	struct inventory *inv = mock_inventory("ww");
	struct config *c = fixture_config();
	struct labels *well = mock_labels(inv, c, NULL), *sick;

	(void)state;
	for (enum gpu_fault f = GPU_FAULT_FIELD; f <= GPU_FAULT_GONE; f++) {
		inv->gpus[0].fault = inv->gpus[1].fault = f;
		sick = mock_labels(inv, c, NULL);
		assert_true(labels_equal(well, sick));
		labels_free(sick);
	}
	inv->gpus[1].uuid[0] = '\0'; /* never was read: it is not offered either */
	sick = mock_labels(inv, c, NULL);
	assert_label(sick, "gpu.count", "1");
	labels_free(sick);
	labels_free(well);
	config_free(c);
	inventory_free(inv);
}

/* --- several models and patterns --- */

static void set_model(struct inventory *inv, uint32_t i, const char *name, uint32_t mib)
{
	(void)snprintf(inv->gpus[i].name, sizeof(inv->gpus[i].name), "%s", name);
	inv->gpus[i].memory_total_bytes = mib * MIB;
}

static void labels__of_several_models_are_of_the_first(void **state)
{
	struct inventory *inv = mock_inventory("www");
	struct config *c = fixture_config();
	struct strv notes = STRV_INIT;
	struct labels *l;

	(void)state;
	set_model(inv, 1, "Tesla T4", 15360);
	set_model(inv, 2, "Tesla T4", 15360);
	l = mock_labels(inv, c, &notes);
	assert_resource(l, "gpu", (struct expected){ "1", "MOCKMODEL", "1", "none" });
	assert_label(l, "gpu.memory", "300");
	assert_int_equal(notes.n, 1);
	assert_non_null(strstr(notes.v[0], "about 'MOCKMODEL' (GPU 0), not about 'Tesla T4'"));
	labels_free(l);
	inv->gpus[0].mig_enabled = true; /* those without MIG before those with it */
	l = mock_labels(inv, c, NULL);
	assert_resource(l, "gpu", (struct expected){ "2", "Tesla-T4", "1", "none" });
	assert_label(l, "gpu.memory", "15360");
	labels_free(l);
	strv_fini(&notes);
	config_free(c);
	inventory_free(inv);
}

static void labels__follow_the_users_patterns(void **state)
{
	struct inventory *inv = mock_inventory("www");
	struct config *c = fixture_config();
	struct labels *l;

	(void)state;
	set_model(inv, 0, "Tesla T4", 15360);
	fixture_pattern(c, "Tesla*", "nvidia.com/t4");
	fixture_pattern(c, "None such", "nvidia.com/none");
	fixture_share(c, "nvidia.com/t4", NULL, 4, NULL);
	l = mock_labels(inv, c, NULL);
	assert_resource(l, "t4",
		(struct expected){ "1", "Tesla-T4-SHARED", "4", "time-slicing" });
	assert_label(l, "t4.memory", "15360");
	assert_label(l, "t4.family", NULL);
	assert_label(l, "none.count", NULL);
	/* nvidia.com/gpu is about the GPUs that have this name, though another one is first. */
	assert_resource(l, "gpu", (struct expected){ "2", "MOCKMODEL", "1", "none" });
	labels_free(l);
	/* No resource has the name: the first one represents the node. */
	fixture_pattern(c, "MOCK*", "nvidia.com/mock");
	l = mock_labels(inv, c, NULL);
	assert_resource(l, "gpu",
		(struct expected){ "1", "Tesla-T4-SHARED", "4", "time-slicing" });
	assert_resource(l, "mock", (struct expected){ "2", "MOCKMODEL", "1", "none" });
	labels_free(l);
	config_free(c);
	inventory_free(inv);
}

static void labels__with_too_long_a_key_are_omitted(void **state)
{
	/* 63 characters in all is a legal resource. */
	static const char name[] =
		"nvidia.com/a2345678901234567890123456789012345678901234567890ab";
	struct inventory *inv = mock_inventory("w");
	struct config *c = fixture_config();
	struct strv notes = STRV_INIT;
	struct labels *l;

	(void)state;
	fixture_pattern(c, "*", name);
	l = mock_labels(inv, c, &notes);
	assert_label(l, "a2345678901234567890123456789012345678901234567890ab.count", "1");
	assert_label(l, "a2345678901234567890123456789012345678901234567890ab.sharing-strategy",
		NULL);
	assert_int_equal(notes.n, 1);
	assert_non_null(strstr(notes.v[0], "sharing-strategy: it would not be a legal key"));
	labels_free(l);
	strv_fini(&notes);
	config_free(c);
	inventory_free(inv);
}

/* --- sharing of some devices --- */

static void labels__of_partly_shared_gpus_have_the_largest_count(void **state)
{
	static const char *const first[] = { "0", NULL }, *const second[] = { "GPU-1", NULL };
	static const char *const none[] = { "7", "GPU-x", "MIG-x", "0:0", NULL };
	struct inventory *inv = mock_inventory("www");
	struct config *c = fixture_config();
	struct labels *l;

	(void)state;
	fixture_share(c, "nvidia.com/gpu", NULL, 8, none); /* means no device of this node */
	l = mock_labels(inv, c, NULL);
	assert_resource(l, "gpu", (struct expected){ "3", "MOCKMODEL", "1", "none" });
	labels_free(l);
	inv->gpus[2].index = 7; /* NVML's, not our position */
	l = mock_labels(inv, c, NULL);
	assert_label(l, "gpu.replicas", "8");
	labels_free(l);
	inv->gpus[2].index = 2;
	fixture_share(c, "nvidia.com/gpu", "nvidia.com/gpu.shared", 4, first);
	l = mock_labels(inv, c, NULL);
	assert_resource(l, "gpu", (struct expected){ "3", "MOCKMODEL", "4", "time-slicing" });
	labels_free(l);
	fixture_share(c, "nvidia.com/gpu", NULL, 2, second);
	l = mock_labels(inv, c, NULL);
	assert_resource(l, "gpu",
		(struct expected){ "3", "MOCKMODEL-SHARED", "4", "time-slicing" });
	labels_free(l);
	config_free(c);
	inventory_free(inv);
}

/* What the offer has of the resources whose original name is @name. */
static void find_offered(const struct offer *o, const struct inventory *inv,
	const struct config *c, const char *name, uint32_t *replicas, bool *kept_name,
	bool *mps)
{
	uint32_t n[GPU_NODE_MAX];

	*replicas = 1;
	*kept_name = *mps = false;
	for (uint32_t r = 0; r < o->n; r++) {
		const struct resource *res = &o->resources[r];

		memset(n, 0, sizeof(n));
		for (uint32_t d = 0; d < res->n_devices; d++) {
			uint32_t g = res->devices[d].gpu;

			if (!device_id_is_replica(res->devices[d].id) ||
				strcmp(offer_original_name(c, &inv->gpus[g]), name) != 0)
				continue;
			n[g]++;
			*replicas = n[g] > *replicas ? n[g] : *replicas;
			*kept_name = *kept_name || strcmp(res->name, name) == 0;
			*mps = *mps ||
			       resource_share(res, &res->devices[d])->strategy == SHARING_MPS;
		}
	}
}

static void random_share(struct config *c, uint64_t *seed)
{
	static const char *const names[] = { "nvidia.com/gpu", "nvidia.com/a", "nvidia.com/b" };
	static const char *const refs[] = { "0", "1", "2", "5", "GPU-0", "GPU-3", "0:1",
		"MIG-1" };
	const char *list[3] = { refs[fixture_random(seed) % ARRAY_LEN(refs)],
		refs[fixture_random(seed) % ARRAY_LEN(refs)], NULL };
	uint32_t kind = fixture_random(seed) % 3;
	struct replicated *e = fixture_share_by(c,
		fixture_random(seed) % 3 ? SHARING_TIME_SLICING : SHARING_MPS,
		names[fixture_random(seed) % 3],
		fixture_random(seed) % 3 ? NULL : "nvidia.com/renamed",
		2 + fixture_random(seed) % 5, kind == 0 ? list : NULL);

	if (kind == 1) {
		e->devices = DEVICES_COUNT;
		e->count = 1 + fixture_random(seed) % 3;
	}
}

static void labels__agree_with_the_offer(void **state)
{
	static const char *const names[] = { "gpu", "a", "b" };
	uint64_t seed = 7;
	unsigned n_shared = 0, n_mps = 0;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct inventory *inv = mock_inventory("wwww");
		struct config *c = fixture_config();
		struct offer *o;
		struct labels *l;

		for (uint32_t i = 0; i < inv->n; i++) {
			(void)snprintf(inv->gpus[i].name, sizeof(inv->gpus[i].name), "%c",
				'x' + (char)(fixture_random(&seed) % 3));
			if (fixture_random(&seed) % 8 == 0)
				inv->gpus[i].uuid[0] = '\0';
			if (fixture_random(&seed) % 8 == 0)
				(void)snprintf(inv->gpus[i].uuid, sizeof(inv->gpus[i].uuid),
					"GPU-3");
		}
		fixture_pattern(c, "y", "nvidia.com/a");
		fixture_pattern(c, "z", "nvidia.com/b");
		for (uint32_t n = fixture_random(&seed) % 4; n; n--)
			random_share(c, &seed);
		SLICING(c).rename_by_default = round % 4 == 0;
		o = fixture_offer(inv, c);
		l = mock_labels(inv, c, NULL);
		for (size_t i = 0; i < ARRAY_LEN(names); i++) {
			char key[64], number[16];
			const char *found, *product;
			uint32_t replicas;
			bool kept, mps;

			(void)snprintf(key, sizeof(key), "nvidia.com/%s", names[i]);
			find_offered(o, inv, c, key, &replicas, &kept, &mps);
			(void)snprintf(key, sizeof(key), "nvidia.com/%s.replicas", names[i]);
			found = labels_get(l, key);
			/* nvidia.com/gpu may speak for GPUs of another name; a test above. */
			if (!found || (i == 0 && replicas == 1))
				continue;
			(void)snprintf(number, sizeof(number), "%u", replicas);
			assert_string_equal(found, number);
			(void)snprintf(key, sizeof(key), "nvidia.com/%s.product", names[i]);
			product = labels_get(l, key);
			assert_int_equal(strstr(product, "-SHARED") != NULL, kept);
			(void)snprintf(key, sizeof(key), "nvidia.com/%s.sharing-strategy",
				names[i]);
			assert_string_equal(labels_get(l, key), mps            ? "mps"
								: replicas > 1 ? "time-slicing"
									       : "none");
			n_shared += replicas > 1;
			n_mps += mps;
		}
		labels_free(l);
		offer_free(o);
		config_free(c);
		inventory_free(inv);
	}
	assert_true(n_shared > 500 && n_mps > 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels__of_one_gpu_with_each_sharing),
		cmocka_unit_test(labels__count_gpus_with_mig_but_do_not_share_them),
		cmocka_unit_test(labels__of_an_unhealthy_gpu_stay),
		cmocka_unit_test(labels__of_several_models_are_of_the_first),
		cmocka_unit_test(labels__follow_the_users_patterns),
		cmocka_unit_test(labels__with_too_long_a_key_are_omitted),
		cmocka_unit_test(labels__of_partly_shared_gpus_have_the_largest_count),
		cmocka_unit_test(labels__agree_with_the_offer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
