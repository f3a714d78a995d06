/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "io/config/mig/mig.h"
#include "support/failing-memory.h"
#include "unit/model/mig/layouts.h"

/*
 * Every allocation of the readers and printers of MIG's files fails once, the first, the second,
 * ... until the call succeeds. libfyaml, which takes a failure badly, keeps its memory.
 */

static struct mig_node_gpu gpus[2];
static const struct mig_node node = { ARRAY_LEN(gpus), gpus };

static const char layouts[] =
	"version: v1\n"
	"mig-configs:\n"
	"  a:\n"
	"  - {device-filter: [x, \"0x20B010DE\"], devices: [0, 1], mig-enabled: true, "
	"mig-devices: {1g.5gb: 1, 2g.10gb: 1}}\n"
	"  - {devices: all, mig-enabled: true, mig-devices: [{profile: 1g.5gb, start: 1}]}\n"
	"  b: [{devices: all, mig-enabled: false}]\n";

static int parse_layouts(struct error *err)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	CLEANUP(mig_configs_freep) struct mig_configs *c = NULL;
	const struct yaml_source src = { .name = "m", .text = layouts, .len = strlen(layouts) };

	return mig_configs_parse(&c, &src, &warnings, err);
}

static int parse_hooks(struct error *err)
{
	static const char text[] = "version: v1\nhooks: {x: [{command: a, args: [b, c], envs: "
				   "{d: e, f: g}}, {command: h, workdir: i}], apply-exit: []}";
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	CLEANUP(mig_hooks_freep) struct mig_hooks *h = NULL;
	const struct yaml_source src = { .name = "h", .text = text, .len = strlen(text) };

	return mig_hooks_parse(&h, &src, &warnings, err);
}

static int parse_clients(struct error *err)
{
	static const char text[] = "version: v1\nsystemd-services: [a, b]\n";
	CLEANUP(strv_fini) struct strv services = STRV_INIT;
	const struct yaml_source src = { .name = "c", .text = text, .len = strlen(text) };

	return mig_services_parse(&services, &src, NULL, err);
}

static int parse_checkpoint(struct error *err)
{
	static const char text[] =
		"{\"Version\":\"v1\",\"MigState\":{\"Devices\":[{\"UUID\":\"GPU-1\",\"MigMode\":1,"
		"\"GpuInstances\":[{\"ProfileID\":0,\"Placement\":{\"Start\":0,\"Size\":1}}]}]}}";
	CLEANUP(mig_checkpoint_freep) struct mig_checkpoint *c = NULL;

	return mig_checkpoint_parse(&c, "c", text, strlen(text), err);
}

static int make_checkpoint(struct error *err)
{
	CLEANUP(mig_checkpoint_freep) struct mig_checkpoint *c = NULL;
	CLEANUP(freep) char *text = NULL;

	if (mig_checkpoint_make(&c, &node, err) < 0)
		return -1;
	text = mig_checkpoint_to_json(c);
	return text ? 0 : error_nomem(err);
}

static int export_current(struct error *err)
{
	CLEANUP(mig_configs_freep) struct mig_configs *c = NULL;

	return mig_config_export(&c, &node, "current", err);
}

static int generate(struct error *err)
{
	CLEANUP(mig_configs_freep) struct mig_configs *c = NULL;
	CLEANUP(freep) char *yaml = NULL, *json = NULL;

	if (mig_builtin_configs(&c, &node, err) < 0)
		return -1;
	yaml = mig_configs_to_yaml(c);
	json = yaml ? mig_configs_to_json(c) : NULL;
	return json ? 0 : error_nomem(err);
}

static int collect_notes(struct error *err)
{
	CLEANUP(strv_fini) struct strv lines = STRV_INIT;
	struct mig_entry e = { .devices = (uint32_t[]){ 7 }, .n_devices = 1 };
	struct mig_config c = { .name = "x", .entries = &e, .n = 1 };

	return mig_config_notes(&c, &node, &lines, err);
}

static void mig_files__survive_each_allocation_that_fails(void **state)
{
	static int (*const calls[])(struct error * err) = { parse_layouts, parse_hooks,
		parse_clients, parse_checkpoint, make_checkpoint, export_current, generate,
		collect_notes };

	(void)state;
	gpus[0].layout = product_layout(A100_40);
	gpus[0].state.capable = gpus[0].state.enabled = true;
	gpus[0].state.n = 1;
	gpus[0].state.gi[0].n_ci = 1;
	gpus[0].state.gi[0].ci[0].slices = 1;
	gpus[1] = gpus[0];
	gpus[1].index = 1;
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		bool failed = true; /* an allocation, also one that the call can do without */
		long n = 0;
		int r = -1;

		for (; failed; n++) {
			struct error err = ERROR_INIT;

			countdown = n;
			r = calls[i](&err);
			failed = countdown < 0;
			countdown = -1;
			if (r < 0 && err.code != ERR_NOMEM)
				fail_msg("call %zu, allocation %ld: %s", i, n, err.msg);
			if (n > 100000)
				fail_msg("call %zu never succeeds", i);
		}
		assert_true(r >= 0 && n > 2); /* or nothing was wrapped */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mig_files__survive_each_allocation_that_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
