/* SPDX-License-Identifier: Apache-2.0 */
#include "labels-fixture.h"

#include "model/labels/set.h"

static void labels_new__describes_a_plain_node(void **state)
{
	static const char *const expected[] = {
		"nvidia.com/cuda.driver-version.full=400.300",
		"nvidia.com/cuda.driver-version.major=400",
		"nvidia.com/cuda.driver-version.minor=300",
		"nvidia.com/cuda.driver-version.revision=",
		"nvidia.com/cuda.driver.major=400",
		"nvidia.com/cuda.driver.minor=300",
		"nvidia.com/cuda.driver.rev=",
		"nvidia.com/cuda.runtime-version.full=8.0",
		"nvidia.com/cuda.runtime-version.major=8",
		"nvidia.com/cuda.runtime-version.minor=0",
		"nvidia.com/cuda.runtime.major=8",
		"nvidia.com/cuda.runtime.minor=0",
		"nvidia.com/gfd.timestamp=1700000000",
		"nvidia.com/gpu.compute.major=8",
		"nvidia.com/gpu.compute.minor=0",
		"nvidia.com/gpu.count=1",
		"nvidia.com/gpu.family=ampere",
		"nvidia.com/gpu.machine=p3.8xlarge",
		"nvidia.com/gpu.memory=300",
		"nvidia.com/gpu.mode=compute",
		"nvidia.com/gpu.product=MOCKMODEL",
		"nvidia.com/gpu.replicas=1",
		"nvidia.com/gpu.sharing-strategy=none",
		"nvidia.com/mig.capable=false",
		"nvidia.com/mps.capable=false",
		"nvidia.com/vgpu.present=false",
	};
	struct inventory *inv = mock_inventory("w");
	struct config *c = fixture_config();
	struct labels *l = mock_labels(inv, c, NULL);
	char line[LABEL_KEY_MAX + LABEL_VALUE_MAX + 2];

	(void)state;
	for (size_t i = 0; i < l->n && i < ARRAY_LEN(expected); i++) {
		(void)snprintf(line, sizeof(line), "%s=%s", l->v[i].key, l->v[i].value);
		assert_string_equal(line, expected[i]);
	}
	assert_int_equal(l->n, ARRAY_LEN(expected));
	labels_free(l);
	config_free(c);
	inventory_free(inv);
}

/* The only labels without a driver, or without a GPU to offer, are those from files. */
static void labels_new__has_few_labels_without_gpus(void **state)
{
	struct config *c = fixture_config();
	struct strv notes = STRV_INIT;
	struct inventory *inv;
	struct labels *l;

	(void)state;
	for (int i = 0; i < 4; i++) {
		inv = mock_inventory(i == 0 ? "" : "w");
		if (i == 1)
			inv->driver_version[0] = '\0';
		if (i == 2)
			inv->gpus[0].uuid[0] = '\0';
		if (i == 3)
			(void)snprintf(inv->gpus[0].name, sizeof(inv->gpus[0].name),
				"NVIDIA DGX Display");
		l = mock_labels(inv, c, &notes);
		assert_int_equal(l->n, 2);
		assert_label(l, "gfd.timestamp", "1700000000");
		assert_label(l, "vgpu.present", "false");
		assert_int_equal(notes.n, 0);
		labels_free(l);
		inventory_free(inv);
	}
	assert_null(labels_free(NULL));
	strv_fini(&notes);
	config_free(c);
}

static void labels_new__omits_unknown_facts(void **state)
{
	struct inventory *inv = mock_inventory("w");
	struct config *c = fixture_config();
	struct label_facts facts = { .machine = NULL };
	struct error err = ERROR_INIT;
	struct strv notes = STRV_INIT;
	struct labels *l = NULL;

	(void)state;
	inv->cuda_version = 0;
	inv->gpus[0].memory_total_bytes = MIB - 1;
	inv->gpus[0].cc_major = 0;
	inv->gpus[0].pci_class = 0;
	assert_ok(labels_new(&l, inv, c, &facts, &notes, &err), &err);
	assert_label(l, "gfd.timestamp", NULL);
	assert_label(l, "vgpu.present", NULL);
	assert_label(l, "cuda.runtime.major", NULL);
	assert_label(l, "cuda.runtime-version.full", NULL);
	assert_label(l, "gpu.memory", NULL);
	assert_label(l, "gpu.family", NULL);
	assert_label(l, "gpu.compute.major", NULL);
	assert_label(l, "gpu.machine", "unknown");
	assert_label(l, "gpu.mode", "unknown");
	assert_label(l, "gpu.clique", NULL);
	assert_label(l, "mig.strategy", NULL);
	assert_int_equal(notes.n, 1);
	assert_non_null(strstr(notes.v[0], "CUDA version"));
	labels_free(l);
	strv_fini(&notes);
	config_free(c);
	inventory_free(inv);
}

static void labels_new__splits_the_driver_version(void **state)
{
	static const struct {
		const char *version, *major, *minor, *rev, *full;
	} rows[] = {
		{ "400.300", "400", "300", "", "400.300" },
		{ "580.159.04", "580", "159", "04", "580.159.04" },
		{ "580", NULL, NULL, NULL, NULL }, { "1.2.3.4", NULL, NULL, NULL, NULL },
		{ "580.x!.04", "580", NULL, "04", NULL }, /* the legal part is a label */
	};
	struct config *c = fixture_config();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct inventory *inv = mock_inventory("w");
		struct strv notes = STRV_INIT;
		struct labels *l;

		(void)snprintf(inv->driver_version, sizeof(inv->driver_version), "%s",
			rows[i].version);
		l = mock_labels(inv, c, &notes);
		assert_label(l, "cuda.driver.major", rows[i].major);
		assert_label(l, "cuda.driver.minor", rows[i].minor);
		assert_label(l, "cuda.driver.rev", rows[i].rev);
		assert_label(l, "cuda.driver-version.major", rows[i].major);
		assert_label(l, "cuda.driver-version.minor", rows[i].minor);
		assert_label(l, "cuda.driver-version.revision", rows[i].rev);
		assert_label(l, "cuda.driver-version.full", rows[i].full);
		assert_label(l, "gpu.product", "MOCKMODEL"); /* the others are there */
		assert_true((notes.n > 0) == (rows[i].full == NULL));
		labels_free(l);
		strv_fini(&notes);
		inventory_free(inv);
	}
	config_free(c);
}

static void labels_new__splits_the_cuda_version(void **state)
{
	struct inventory *inv = mock_inventory("w");
	struct config *c = fixture_config();
	struct labels *l;

	(void)state;
	inv->cuda_version = 12080;
	l = mock_labels(inv, c, NULL);
	assert_label(l, "cuda.runtime.major", "12");
	assert_label(l, "cuda.runtime.minor", "8");
	assert_label(l, "cuda.runtime-version.major", "12");
	assert_label(l, "cuda.runtime-version.minor", "8");
	assert_label(l, "cuda.runtime-version.full", "12.8");
	labels_free(l);
	config_free(c);
	inventory_free(inv);
}

static void labels_new__names_families(void **state)
{
	static const struct {
		uint32_t major, minor;
		const char *name;
	} rows[] = {
		{ 1, 3, "tesla" },
		{ 2, 0, "fermi" },
		{ 3, 7, "kepler" },
		{ 4, 0, "undefined" },
		{ 5, 2, "maxwell" },
		{ 6, 1, "pascal" },
		{ 7, 0, "volta" },
		{ 7, 4, "volta" },
		{ 7, 5, "turing" },
		{ 8, 0, "ampere" },
		{ 8, 8, "ampere" },
		{ 8, 9, "ada-lovelace" },
		{ 9, 0, "hopper" },
		{ 10, 3, "blackwell" },
		{ 11, 0, "undefined" },
		{ 12, 0, "blackwell" },
		{ 13, 0, "rubin" },
		{ 14, 0, "undefined" },
	};
	struct inventory *inv = mock_inventory("w");
	struct config *c = fixture_config();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct labels *l;

		inv->gpus[0].cc_major = rows[i].major;
		inv->gpus[0].cc_minor = rows[i].minor;
		l = mock_labels(inv, c, NULL);
		assert_label(l, "gpu.family", rows[i].name);
		labels_free(l);
	}
	config_free(c);
	inventory_free(inv);
}

static void labels_new__names_the_common_mode(void **state)
{
	static const struct {
		uint32_t classes[3];
		const char *mode;
	} rows[] = {
		{ { 0x030000, 0x030000, 0x030000 }, "graphics" },
		{ { 0x030200, 0x030200, 0x030200 }, "compute" },
		{ { 0x068000, 0x068000, 0x068000 }, "unknown" },
		{ { 0x030000, 0x030200, 0x030200 }, "unknown" },
		{ { 0x030200, 0x030000, 0x030200 }, "unknown" },
		{ { 0x030200, 0x030200, 0x030000 }, "unknown" },
		{ { 0x030200, 0x030200, 0 }, "unknown" },
		{ { 0, 0x030200, 0x030200 }, "unknown" },
	};
	struct inventory *inv = mock_inventory("www");
	struct config *c = fixture_config();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct labels *l;

		for (uint32_t g = 0; g < 3; g++)
			inv->gpus[g].pci_class = rows[i].classes[g];
		l = mock_labels(inv, c, NULL);
		assert_label(l, "gpu.mode", rows[i].mode);
		labels_free(l);
	}
	config_free(c);
	inventory_free(inv);
}

static void attach_fabric(struct gpu *g, const char *cluster, uint32_t clique)
{
	g->fabric_attached = true;
	(void)snprintf(g->cluster_uuid, sizeof(g->cluster_uuid), "%s", cluster);
	g->clique_id = clique;
}

static void labels_new__names_the_common_clique(void **state)
{
	static const char a[] = "3b1f9d2e-0000-4000-8000-0123456789ab";
	struct inventory *inv = mock_inventory("www");
	struct config *c = fixture_config();
	struct strv notes = STRV_INIT;
	struct labels *l;

	(void)state;
	attach_fabric(&inv->gpus[1], a,
		4294967295); /* GPU 0 is not attached and does not count */
	attach_fabric(&inv->gpus[2], a, 4294967295);
	l = mock_labels(inv, c, &notes);
	assert_label(l, "gpu.clique", "3b1f9d2e-0000-4000-8000-0123456789ab.4294967295");
	assert_int_equal(notes.n, 0);
	labels_free(l);
	inv->gpus[2].clique_id = 1;
	l = mock_labels(inv, c, &notes);
	assert_label(l, "gpu.clique", NULL);
	assert_int_equal(notes.n, 1);
	assert_non_null(strstr(notes.v[0], "GPU 2 of 3b1f9d2e"));
	labels_free(l);
	attach_fabric(&inv->gpus[2], "other", 4294967295);
	l = mock_labels(inv, c, NULL);
	assert_label(l, "gpu.clique", NULL);
	labels_free(l);
	strv_fini(&notes);
	config_free(c);
	inventory_free(inv);
}

static void labels_new__describes_mig_and_mps(void **state)
{
	static const struct {
		const char *gpus; /* w whole, c MIG-capable, m MIG on, u not known */
		enum sharing_strategy strategy;
		uint32_t replicas; /* 0: no entry */
		const char *mig, *mps;
		size_t notes;
	} rows[] = {
		{ "w", SHARING_NONE, 0, "false", "false", 0 },
		{ "wc", SHARING_NONE, 0, "true", "false", 0 },
		{ "wm", SHARING_NONE, 0, "true", "false", 0 },
		{ "w", SHARING_TIME_SLICING, 2, "false", "false", 0 },
		{ "w", SHARING_MPS, 0, "false", "false", 0 },
		{ "w", SHARING_MPS, 1, "false", "true", 0 },
		{ "w", SHARING_MPS, 2, "false", "true", 0 },
		{ "wc", SHARING_MPS, 2, "true", "true", 0 },
		{ "wm", SHARING_MPS, 2, "true", "true", 0 }, /* NVIDIA's exits here */
		{ "u", SHARING_NONE, 0, NULL, "false", 0 },
		{ "wu", SHARING_NONE, 0, NULL, "false", 0 },
		{ "uc", SHARING_NONE, 0, "true", "false", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct inventory *inv = mock_inventory(rows[i].gpus);
		struct config *c = fixture_config();
		struct strv notes = STRV_INIT;
		struct labels *l;

		if (rows[i].replicas)
			fixture_share(c, "nvidia.com/gpu", NULL, rows[i].replicas, NULL);
		fixture_strategy(c, rows[i].strategy);
		l = mock_labels(inv, c, &notes);
		assert_label(l, "mig.capable", rows[i].mig);
		assert_label(l, "mps.capable", rows[i].mps);
		assert_int_equal(notes.n, rows[i].notes);
		labels_free(l);
		strv_fini(&notes);
		config_free(c);
		inventory_free(inv);
	}
}

static void labels_new__describes_a_vgpu(void **state)
{
	struct label_facts facts = { .vgpu = VGPU_PRESENT,
		.vgpu_host_version = "460.16",
		.vgpu_host_branch = "r460_00" };
	struct inventory *inv = mock_inventory("");
	struct config *c = fixture_config();
	struct error err = ERROR_INIT;
	struct strv notes = STRV_INIT;
	struct labels *l = NULL;

	(void)state;
	assert_ok(labels_new(&l, inv, c, &facts, &notes, &err), &err);
	assert_int_equal(l->n, 3);
	assert_label(l, "vgpu.present", "true");
	assert_label(l, "vgpu.host-driver-version", "460.16");
	assert_label(l, "vgpu.host-driver-branch", "r460_00");
	assert_int_equal(notes.n, 0);
	labels_free(l);
	facts.vgpu_host_version[0] = facts.vgpu_host_branch[0] = '\0';
	assert_ok(labels_new(&l, inv, c, &facts, &notes, &err), &err);
	assert_int_equal(l->n, 1);
	assert_label(l, "vgpu.present", "true");
	assert_int_equal(notes.n, 1);
	labels_free(l);
	strv_fini(&notes);
	config_free(c);
	inventory_free(inv);
}

/* --- texts --- */

static void label_sanitise__agrees_with_nvidia(void **state)
{
	static const char *const rows[][2] = {
		{ "a space separated string", "a-space-separated-string" },
		{ "some(thing)else", "somethingelse" },
		{ "some ( thing )else", "some-thing-else" },
		{ "NVIDIA-TITAN-X-(Pascal)", "NVIDIA-TITAN-X-Pascal" },
		{ " input  with multiple   spaces   ", "input-with-multiple-spaces" },
		{ "some [ / thing / ]else", "some-thing-else" },
		{ "some / thing /else", "some-thing-else" },
		{ "some-thing.else_new", "some-thing.else_new" },
		{ "", "" },
		{ " ( ) ", "" },
		{ "tab\there", "tabhere" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[64];

		(void)snprintf(text, sizeof(text), "%s", rows[i][0]);
		label_sanitise(text);
		assert_string_equal(text, rows[i][1]);
	}
}

static void label_value_ok__follows_the_rule_of_kubernetes(void **state)
{
	static const char *const good[] = { "", "a", "1g.5gb", "a-b_c.D",
		"123456789012345678901234567890123456789012345678901234567890123" };
	static const char *const bad[] = { " ", "-a", "a-", ".", "a b", "a/b", "a+b",
		"\xc3\xa4",
		"1234567890123456789012345678901234567890123456789012345678901234" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(label_value_ok(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(label_value_ok(bad[i]));
}

static void labels_new__makes_any_text_legal(void **state)
{
	static const struct {
		const char *name, *product, *shared;
		size_t notes;
	} rows[] = {
		{ "NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB",
			"NVIDIA-A100-SXM4-40GB-SHARED", 0 },
		{ "-_.Odd._-", "Odd", "Odd-SHARED", 0 },
		{ "\xe4\xba\xba", "", "unknown-SHARED", 0 },
		/* 62 and ( ) 64: the suffix that programs search for stays, no '.' before it */
		{ "12345678901234567890123456789012345678901234567890123456.8901234",
			"12345678901234567890123456789012345678901234567890123456.890123",
			"12345678901234567890123456789012345678901234567890123456-SHARED", 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (int shared = 0; shared < 2; shared++) {
			struct inventory *inv = mock_inventory("w");
			struct config *c = fixture_config();
			struct strv notes = STRV_INIT;
			struct labels *l;

			(void)snprintf(inv->gpus[0].name, sizeof(inv->gpus[0].name), "%s",
				rows[i].name);
			if (shared)
				fixture_share(c, "nvidia.com/gpu", NULL, 2, NULL);
			l = mock_labels(inv, c, &notes);
			assert_label(l, "gpu.product",
				shared ? rows[i].shared : rows[i].product);
			assert_int_equal(notes.n, rows[i].notes);
			labels_free(l);
			strv_fini(&notes);
			config_free(c);
			inventory_free(inv);
		}
	}
}

static void labels_equal__ignores_the_timestamp(void **state)
{
	struct inventory *inv = mock_inventory("w");
	struct config *c = fixture_config();
	struct label_facts facts = { .machine = "m", .timestamp_s = 1 };
	struct error err = ERROR_INIT;
	struct labels *a = NULL, *b = NULL;

	(void)state;
	assert_ok(labels_new(&a, inv, c, &facts, NULL, &err), &err);
	for (facts.timestamp_s = 0; facts.timestamp_s < 3; facts.timestamp_s++) {
		assert_ok(labels_new(&b, inv, c, &facts, NULL, &err), &err);
		assert_true(labels_equal(a, b) && labels_equal(b, a));
		b = labels_free(b);
	}
	facts.machine = "n";
	assert_ok(labels_new(&b, inv, c, &facts, NULL, &err), &err);
	assert_false(labels_equal(a, b) || labels_equal(b, a));
	labels_free(b);
	facts.machine = "m";
	facts.vgpu = VGPU_ABSENT; /* one more, behind all others */
	assert_ok(labels_new(&b, inv, c, &facts, NULL, &err), &err);
	assert_false(labels_equal(a, b) || labels_equal(b, a));
	labels_free(a);
	labels_free(b);
	config_free(c);
	inventory_free(inv);
}

/* --- anything at all --- */

static void random_text(char *ret, size_t cap, uint64_t *seed)
{
	static const char likely[] = "aZ09-_. ()/\xc3\xa4\t+";
	size_t len = fixture_random(seed) % cap;

	for (size_t i = 0; i < len; i++) {
		uint32_t r = fixture_random(seed);

		ret[i] = r % 4 ? likely[r / 4 % (sizeof(likely) - 1)] : (char)(1 + r / 4 % 255);
	}
	ret[len] = '\0';
}

static void key_ok(const char *key)
{
	const char *name = strchr(key, '/');

	assert_true(strlen(key) <= LABEL_KEY_MAX);
	assert_true(name && name[1] && label_value_ok(name + 1));
}

static void labels_new__is_legal_and_deterministic_for_any_text(void **state)
{
	static const enum mig_strategy strategies[] = { MIG_STRATEGY_NONE, MIG_STRATEGY_SINGLE,
		MIG_STRATEGY_MIXED };
	struct error err = ERROR_INIT;
	uint64_t seed = 42;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct inventory *inv = mock_inventory(round % 2 ? "wmw" : "mm");
		struct config *c = fixture_config();
		char machine[200], resource[RESOURCE_NAME_MAX];
		struct label_facts facts = { .machine = machine, .vgpu = VGPU_PRESENT };
		struct labels *a = NULL, *b = NULL;

		random_text(machine, sizeof(machine), &seed);
		random_text(inv->driver_version, round % 3 ? 10 : sizeof(inv->driver_version),
			&seed);
		random_text(facts.vgpu_host_version, sizeof(facts.vgpu_host_version), &seed);
		for (uint32_t i = 0; i < inv->n; i++) {
			random_text(inv->gpus[i].name, sizeof(inv->gpus[i].name), &seed);
			random_text(inv->gpus[i].cluster_uuid,
				sizeof(inv->gpus[i].cluster_uuid), &seed);
			inv->gpus[i].fabric_attached = fixture_random(&seed) % 2;
		}
		mock_mig(inv, round % 2, 1, 2, 3);
		mock_mig(inv, 0, 2, 2, 3);
		for (uint32_t i = 0; i < inv->n_mig; i++)
			random_text(inv->mig[i].profile, sizeof(inv->mig[i].profile), &seed);
		(void)snprintf(resource, sizeof(resource), "nvidia.com/%0*d",
			1 + (int)(fixture_random(&seed) % 52), 1);
		fixture_pattern(c, "*a*", resource);
		if (round % 5)
			fixture_share(c, round % 3 ? resource : "nvidia.com/gpu", NULL, 2,
				NULL);
		c->mig_strategy = strategies[round % 3];
		assert_ok(labels_new(&a, inv, c, &facts, NULL, &err), &err);
		assert_ok(labels_new(&b, inv, c, &facts, NULL, &err), &err);
		assert_true(labels_equal(a, b));
		for (size_t i = 0; i < a->n; i++) {
			key_ok(a->v[i].key);
			assert_true(label_value_ok(a->v[i].value));
			if (i)
				assert_true(strcmp(a->v[i - 1].key, a->v[i].key) < 0);
		}
		labels_free(a);
		labels_free(b);
		config_free(c);
		inventory_free(inv);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_new__describes_a_plain_node),
		cmocka_unit_test(labels_new__has_few_labels_without_gpus),
		cmocka_unit_test(labels_new__omits_unknown_facts),
		cmocka_unit_test(labels_new__splits_the_driver_version),
		cmocka_unit_test(labels_new__splits_the_cuda_version),
		cmocka_unit_test(labels_new__names_families),
		cmocka_unit_test(labels_new__names_the_common_mode),
		cmocka_unit_test(labels_new__names_the_common_clique),
		cmocka_unit_test(labels_new__describes_mig_and_mps),
		cmocka_unit_test(labels_new__describes_a_vgpu),
		cmocka_unit_test(label_sanitise__agrees_with_nvidia),
		cmocka_unit_test(label_value_ok__follows_the_rule_of_kubernetes),
		cmocka_unit_test(labels_new__makes_any_text_legal),
		cmocka_unit_test(labels_equal__ignores_the_timestamp),
		cmocka_unit_test(labels_new__is_legal_and_deterministic_for_any_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
