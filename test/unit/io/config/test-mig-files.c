/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "io/config/mig/mig.h"
#include "model/mig/geometry/geometry.h"
#include "unit/model/mig/layouts.h"

/* The default map on every product, hooks, GPU clients, checkpoints. */

static struct mig_node_gpu gpu_of(uint32_t index, enum product_id id, uint32_t pci)
{
	struct mig_node_gpu g = { .index = index, .layout = product_layout(id) };

	g.pci.device = pci << 16 | 0x10DE;
	g.state.capable = true;
	return g;
}

/* Whether the config fits an empty GPU: 1 yes, 0 it has no profile of that very name, -1 no. */
static int check_fit_on_empty_gpu(const struct mig_config *c, const struct mig_node_gpu *g,
	struct mig_desired *desired, struct error *err)
{
	const struct mig_entry *e = mig_config_entry(c, g);
	struct mig_placement placements[MIG_GIS_MAX];
	CLEANUP(strv_fini) struct strv guesses = STRV_INIT;

	if (!e || mig_entry_want(e, g, desired, &guesses, err) < 0 || guesses.n)
		return 0;
	return mig_geometry_place(&g->layout, NULL, desired, MIG_KEEP_NOTHING, placements,
		       err) < 0
		       ? -1
		       : 1;
}

static const struct {
	enum product_id id;
	uint32_t pci;
	const char *names; /* that must be there, without "all-" */
} products_of_map[] = {
	{ A100_40, 0x20B0, "1g.5gb 1g.5gb.me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb" },
	{ A100_80, 0x20B2, "1g.10gb 1g.10gb.me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb" },
	{ H100, 0x2330, "1g.10gb 1g.10gb.me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb" },
	{ H100_NVL, 0x2321, "1g.12gb 1g.12gb.me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb" },
	{ GH200_96, 0x2342, "1g.12gb 1g.12gb.me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb" },
	{ H200, 0x2335, "1g.18gb 1g.18gb.me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb" },
	{ GH200_144, 0x2348, "1g.18gb 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb" },
	{ B200, 0x2901, "1g.23gb 1g.23gb.me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb" },
	{ GB200, 0x2941, "1g.23gb 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb" },
	{ B300, 0x3182, "1g.34gb 1g.34gb.me 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb" },
	{ GB300, 0x31C2, "1g.35gb 1g.35gb.me 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb" },
	{ A30, 0x20B7, "1g.6gb 1g.6gb.me 2g.12gb 2g.12gb.me 4g.24gb" },
	{ RTX_PRO_6000, 0x2BB5,
		"1g.24gb 1g.24gb.me 1g.24gb.gfx 1g.24gb.me.all 1g.24gb-me 2g.48gb 2g.48gb.gfx "
		"2g.48gb.me.all 2g.48gb-me 4g.96gb 4g.96gb.gfx" },
};

static void mig_default_configs__fit_each_product(void **state)
{
	struct mig_configs *c = NULL;
	struct error err = ERROR_INIT;
	struct mig_desired desired;

	(void)state;
	assert_ok(mig_default_configs(&c, &err), &err);
	assert_int_equal(c->n, 81);
	for (size_t i = 0; i < ARRAY_LEN(products_of_map); i++) {
		struct mig_node_gpu g =
			gpu_of(0, products_of_map[i].id, products_of_map[i].pci);
		char names[256], name[80], *at = names;

		(void)snprintf(names, sizeof(names), "%s balanced", products_of_map[i].names);
		for (char *word; (word = strsep(&at, " "));) {
			const struct mig_config *config;

			(void)snprintf(name, sizeof(name), "all-%s", word);
			config = mig_configs_find(c, name);
			if (!config || check_fit_on_empty_gpu(config, &g, &desired, &err) != 1)
				fail_msg("%s on %s: %s", name,
					product_name(products_of_map[i].id), err.msg);
			assert_true(desired.n > 0);
		}
		/* A config fits a GPU that has its profiles. */
		for (size_t k = 0; k < c->n; k++)
			if (check_fit_on_empty_gpu(&c->configs[k], &g, &desired, &err) < 0)
				fail_msg("%s on %s: %s", c->configs[k].name,
					product_name(products_of_map[i].id), err.msg);
	}
	(void)mig_configs_free(c);
}

/* The map and the generator must have the same names for a product. */
static void mig_default_configs__have_the_counts_of_the_profiles(void **state)
{
	struct mig_configs *c = NULL, *made = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(mig_default_configs(&c, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(products_of_map); i++) {
		struct mig_node_gpu g =
			gpu_of(0, products_of_map[i].id, products_of_map[i].pci);
		struct mig_node node = { 1, &g };

		assert_ok(mig_config_generate(&made, &node, &err), &err);
		for (size_t k = 0; k < made->n; k++) {
			const struct mig_config *same =
				mig_configs_find(c, made->configs[k].name);
			struct mig_desired w1 = { 0 }, w2 = { 0 };

			if (!same || !mig_config_entry(same, &g))
				continue;
			assert_int_equal(check_fit_on_empty_gpu(same, &g, &w1, &err), 1);
			assert_int_equal(
				check_fit_on_empty_gpu(&made->configs[k], &g, &w2, &err), 1);
			if (memcmp(&w1, &w2, sizeof(w1)) != 0)
				fail_msg("%s on %s", same->name,
					product_name(products_of_map[i].id));
		}
		made = mig_configs_free(made);
	}
	(void)mig_configs_free(c);
}

static void mig_builtin_configs__prefer_the_profiles_of_the_gpus(void **state)
{
	struct mig_node_gpu g = gpu_of(0, A100_40, 0x20B1);
	struct mig_node node = { 1, &g };
	struct mig_configs *c = NULL;
	const struct mig_config *config = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(mig_builtin_configs(&c, &node, &err), &err);
	assert_ok(mig_configs_select(c, "all-1g.10gb", &config, &err), &err);
	assert_int_equal(config->n, 1); /* generated; the map has two */
	assert_int_equal(config->entries[0].rows[0].count, 4);
	assert_ok(mig_configs_select(c, "all-1g.18gb", &config, &err), &err);
	assert_int_equal(c->n, 81);
	c = mig_configs_free(c);
	g.state.capable = false;
	assert_ok(mig_builtin_configs(&c, &node, &err), &err);
	assert_int_equal(c->n, 81);
	(void)mig_configs_free(c);
}

static void mig_configs__of_the_user_fit_their_products(void **state)
{
	struct mig_node_gpu g = gpu_of(0, A100_40, 0x20B0);
	struct mig_configs *c = NULL;
	struct mig_desired desired = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(mig_configs_load(&c, TEST_FIXTURES "/default-mig-parted-config.yaml", NULL,
			  &err),
		&err);
	for (size_t i = 0; i < c->n; i++)
		assert_int_equal(check_fit_on_empty_gpu(&c->configs[i], &g, &desired, &err), 1);
	assert_int_equal(desired.n, 4); /* all-balanced */
	(void)mig_configs_free(c);
}

static struct yaml_source source_of(const char *text)
{
	return (struct yaml_source){ .name = "f", .text = text, .len = strlen(text) };
}

static void mig_hooks__are_read(void **state)
{
	struct mig_hooks *h = NULL;
	const struct mig_hook_list *l;
	struct strv warnings = STRV_INIT;
	struct yaml_source src =
		source_of("version: v1\nhooks: {apply-strat: [{command: x}], apply-exit: }");
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(mig_hooks_load(&h, TEST_SOURCE "/test/data/mig/hooks.yaml", &warnings, &err),
		&err);
	assert_int_equal(warnings.n, 0);
	assert_null(mig_hooks_find(h, "pre-apply-config"));
	l = mig_hooks_find(h, "apply-start");
	assert_int_equal(l->n, 1);
	assert_string_equal(l->hooks[0].command, "/bin/bash");
	assert_string_equal(l->hooks[0].workdir, "/etc/nvidia-mig-manager");
	assert_int_equal(l->hooks[0].args.n, 3);
	l = mig_hooks_find(h, "pre-apply-mode");
	assert_string_equal(l->hooks[0].args.v[2], "30");
	assert_string_equal(l->hooks[0].workdir, "");
	assert_int_equal(l->hooks[0].envs.n, 2);
	assert_string_equal(l->hooks[0].envs.v[0], "A=1");
	assert_string_equal(l->hooks[0].envs.v[1], "SYSTEMD_COLORS=false");
	assert_int_equal(mig_hooks_find(h, "apply-exit")->n, 2);
	h = mig_hooks_free(h);
	assert_ok(mig_hooks_parse(&h, &src, &warnings, &err), &err);
	assert_int_equal(warnings.n, 1);
	assert_non_null(strstr(warnings.v[0], "f:2:9: hooks: 'apply-strat' is never run"));
	assert_int_equal(mig_hooks_find(h, "apply-exit")->n, 0);
	h = mig_hooks_free(h);
	src = source_of("");
	assert_ok(mig_hooks_parse(&h, &src, &warnings, &err), &err);
	assert_int_equal(h->n, 0);
	(void)mig_hooks_free(h);
	strv_fini(&warnings);
}

static void mig_hooks__are_refused_whole(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "hooks: {}", "f:1:1: unable to parse with missing 'version' field" },
		{ "version: v2\nhooks: {}", "unknown version: v2" },
		{ "version: v1\nhook: {}", "f:2:1: unexpected field: hook" },
		{ "version: v1\nhooks: []", "hooks: json: cannot unmarshal array" },
		{ "version: v1\nhooks: {a: {}}", "hooks.a: json: cannot unmarshal object" },
		{ "version: v1\nhooks: {apply-exit: [x]}",
			"hooks.apply-exit[0]: json: cannot" },
		{ "version: v1\nhooks: {apply-exit: [{}]}", "missing required field: command" },
		{ "version: v1\nhooks: {apply-exit: [{command: \"\"}]}",
			"missing required field: command" },
		{ "version: v1\nhooks: {apply-exit: [{cmd: x}]}",
			"hooks.apply-exit[0]: unexpected field: cmd; expected command, args" },
		{ "version: v1\nhooks: {apply-exit: [{command: [x]}]}", "command: expected" },
		{ "version: v1\nhooks: {apply-exit: [{command: x, args: s}]}",
			"args: json: cannot unmarshal string into Go value of type []string" },
		{ "version: v1\nhooks: {apply-exit: [{command: x, args: [{}]}]}", "args[0]: " },
		{ "version: v1\nhooks: {apply-exit: [{command: x, envs: [a]}]}",
			"envs: json: cannot unmarshal array" },
		{ "version: v1\nhooks: {apply-exit: [{command: x, envs: {a=b: c}}]}",
			"expected the name of a variable, found 'a=b'" },
		{ "version: v1\nhooks: {apply-exit: [{command: x, envs: {a: []}}]}",
			"envs.a: " },
	};
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct yaml_source src = source_of(rows[i].text);
		struct mig_hooks *h = NULL;

		assert_error(mig_hooks_parse(&h, &src, NULL, &err), &err, rows[i].want);
		assert_null(h);
	}
}

static void mig_services__are_names_only(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "", "f: expected an object with version" },
		{ "[]", "expected an object with `version`" },
		{ "{}", "expected an object with version" },
		{ "systemd-services: []", "missing 'version' field" },
		{ "version: v2\nsystemd-services: []", "expected v1" },
		{ "version: v1\nservices: []", "unexpected field: services" },
		{ "version: v1\nsystemd_services: [a]", "unexpected field: systemd_services" },
		{ "version: v1\nsystemd-services: x", "cannot unmarshal string" },
		{ "version: v1\nsystemd-services: [a, {}]", "systemd-services[1]: " },
		{ "version: v1\nsystemd-services: [a, --now]",
			"f:2:23: systemd-services: expected the name of a service, found" },
		{ "version: v1\nsystemd-services: ['a b']", "expected the name of a service" },
		{ "version: v1\nsystemd-services: [1]", "found 1" },
		{ "version: v1\nsystemd-services: [\"\"]", "expected the name of a service" },
		{ "version: v1\nsystemd-services: [../x]", "expected the name of a service" },
	};
	static const struct {
		const char *text;
		size_t n;
	} good[] = {
		{ "version: v1\nsystemd-services: [nvsm.service, a@b-c_1.service]\n", 2 },
		{ "version: v1\n", 0 },
		{ "version: v1\nsystemd-services:\n", 0 },
	};
	struct strv s = STRV_INIT;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(mig_services_load(&s, TEST_SOURCE "/test/data/mig/clients.yaml", NULL, &err),
		&err);
	assert_int_equal(s.n, 9);
	assert_string_equal(s.v[0], "nvsm.service");
	assert_string_equal(s.v[8], "dcgm-exporter.service");
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		CLEANUP(strv_fini) struct strv names = STRV_INIT;
		struct yaml_source src = source_of(good[i].text);

		assert_ok(mig_services_parse(&names, &src, NULL, &err), &err);
		assert_int_equal(names.n, good[i].n);
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct yaml_source src = source_of(rows[i].text);

		assert_error(mig_services_parse(&s, &src, NULL, &err), &err, rows[i].want);
		assert_int_equal(s.n, 9);
	}
	strv_fini(&s);
}

static void mig_checkpoint__is_read_and_printed_byte_for_byte(void **state)
{
	static const char *const same[] = {
		"{\"Version\":\"v1\",\"MigState\":{\"Devices\":null}}",
		"{\"Version\":\"v1\",\"MigState\":{\"Devices\":[{\"UUID\":\"GPU-\\\"\\u003c\","
		"\"MigMode\":1,\"GpuInstances\":[{\"ProfileID\":0,\"Placement\":{\"Start\":6,"
		"\"Size\":1},\"ComputeInstances\":null}]}]}}",
	};
	static const char old[] =
		"{\"version\": \"v1\", \"MIGSTATE\": {\"devices\": [{\"UUID\": "
		"\"GPU-1\", \"MigMode\": 1, \"GpuInstances\": [{\"ProfileId\": "
		"3, \"Placement\": {\"Start\": 0, \"Size\": 4}, "
		"\"ComputeInstances\": [{\"ProfileId\": 3, \"EngProfileId\": "
		"0}]}]}]}}";
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIG_FILE_MAX);
	struct mig_checkpoint *c = NULL;
	struct error err = ERROR_INIT;
	char *text;

	(void)state;
	assert_ok(file_read(TEST_SOURCE "/test/data/mig/checkpoint.json", &b, &err), &err);
	assert_ok(mig_checkpoint_load(&c, TEST_SOURCE "/test/data/mig/checkpoint.json", &err),
		&err);
	assert_int_equal(c->n, 2);
	assert_true(c->gpus[0].enabled && !c->gpus[1].enabled);
	assert_int_equal(c->gpus[0].gi[1].n_ci, 2);
	assert_int_equal(c->gpus[0].gi[0].start, 4);
	text = mig_checkpoint_to_json(c);
	assert_string_equal(text, buf_str(&b));
	free(text);
	c = mig_checkpoint_free(c);
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		assert_ok(mig_checkpoint_parse(&c, "c", same[i], strlen(same[i]), &err), &err);
		text = mig_checkpoint_to_json(c);
		assert_string_equal(text, same[i]);
		free(text);
		c = mig_checkpoint_free(c);
	}
	assert_ok(mig_checkpoint_parse(&c, "c", old, strlen(old), &err), &err);
	assert_int_equal(c->gpus[0].gi[0].profile, 3);
	assert_int_equal(c->gpus[0].gi[0].ci[0].profile, 3);
	(void)mig_checkpoint_free(c);
}

#define GPU(rest) "{Version: v1, MigState: {Devices: [{UUID: GPU-1, MigMode: 1, " rest "}]}}"
#define GI(rest)  GPU("GpuInstances: [{ProfileID: 0, Placement: {Start: 0, Size: 1}, " rest "}]")

static void mig_checkpoint__is_refused_whole(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "", "c:1:1: expected the one object of a checkpoint, found nothing" },
		{ "{}\n---\n{}", "found several" },
		{ "[]", "expected an object, found []" },
		{ "{}", "unknown version: none" },
		{ "{Version: v2}", "c:1:11: unknown version: \"v2\"" },
		{ "{Version: v1}", "missing required field: MigState" },
		{ "{Version: v1, MigState: {}, x: 1}", "unexpected field: x" },
		{ "{Version: v1, MigState: {Devices: {}}}",
			"expected a list or null, found {}" },
		{ "{Version: v1, MigState: {Devices: [{}]}}", "expected the UUID of a GPU" },
		{ "{Version: v1, MigState: {Devices: [{UUID: a}, {UUID: a}]}}",
			"Devices[1].UUID: a is there already" },
		{ "{Version: v1, MigState: {Devices: [{UUID: a, MigMode: 2}]}}",
			"MigMode: expected a number from 0 to 1, found 2" },
		{ "{Version: v1, MigState: {Devices: [{UUID: a, MigMode: 0, GpuInstances: [1]}]}}",
			"expected no instances where MigMode is 0, found 1" },
		{ GPU("GpuInstances: [{ProfileID: 0}]"), "missing required field: Placement" },
		{ GPU("GpuInstances: [{ProfileID: -1}]"), "ProfileID: expected a number" },
		{ GPU("GpuInstances: [{Placement: {Start: 32, Size: 1}}]"),
			"Start: expected a number from 0 to 31" },
		{ GPU("GpuInstances: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"),
			"expected at most 16 elements, found 17" },
		{ GI("ComputeInstances: [1,2,3,4,5,6,7,8,9]"), "expected at most 8 elements" },
		{ GI("ComputeInstances: [{ProfileID: x}]"),
			"c:1:155: MigState.Devices[0].GpuInstances[0].ComputeInstances[0].ProfileID: "
			"expected a number" },
		{ GI("Size: 1"), "unexpected field: Size" },
	};
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mig_checkpoint *c = NULL;

		assert_error(
			mig_checkpoint_parse(&c, "c", rows[i].text, strlen(rows[i].text), &err),
			&err, rows[i].want);
		assert_null(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mig_default_configs__fit_each_product),
		cmocka_unit_test(mig_default_configs__have_the_counts_of_the_profiles),
		cmocka_unit_test(mig_builtin_configs__prefer_the_profiles_of_the_gpus),
		cmocka_unit_test(mig_configs__of_the_user_fit_their_products),
		cmocka_unit_test(mig_hooks__are_read),
		cmocka_unit_test(mig_hooks__are_refused_whole),
		cmocka_unit_test(mig_services__are_names_only),
		cmocka_unit_test(mig_checkpoint__is_read_and_printed_byte_for_byte),
		cmocka_unit_test(mig_checkpoint__is_refused_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
