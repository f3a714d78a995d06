/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/config/test-config-read.h"

#include "lib/base/fd.h"
#include "io/config/field.h"
#include "io/config/read.h"

#include <jansson.h>

/* NVIDIA's configuration file, case by case, and our own keys. */

#define UUID           "4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
#define DEVICES(value) TS("name: gpu, replicas: 2, devices: " value)

static void config_parse__reads_an_empty_text_as_all_defaults(void **state)
{
	static const char *const texts[] = { "", "{}", "\n", "# only a comment\n", "---\n",
		"null", "version:", "version: \"\"", "version: v1", "version: null\nflags:\n",
		"flags: {}", "flags: null", "sharing:", "sharing: {}", "sharing: {mps: null}",
		"imex: {}", "imex: null", "imex: {channelIDs: []}", "imex: {channelIDs: }",
		"resources:", "resources: {gpus: [], mig: null}",
		"health:", "{\"version\":\"v1\"}", "flags: {plugin: null, gfd: {}}",
		"flags: {migStrategy: , failOnInitError: null}",
		"flags: {plugin: {deviceListStrategy: null}}", "\xef\xbb\xbfversion: v1\n",
		"version: v1\r\nflags:\r\n  migStrategy: none\r\n", "sharing: {slices: []}" };
	struct config *d = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(config_new(&d, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct config *c = read_good(texts[i], NULL);

		if (!config_equal(c, d))
			fail_msg("not the defaults: %s", texts[i]);
		(void)config_free(c);
	}
	(void)config_free(d);
}

static void config_is_empty__is_true_without_keys(void **state)
{
	static const struct {
		const char *text;
		bool empty;
	} rows[] = { { "", true }, { " \n\t\n", true }, { "# version: v1\n", true },
		{ "\xef\xbb\xbf", true }, { "\xef\xbb\xbf# x\n", true }, { "null", true },
		{ "~\n", true }, { "---\n", true }, { "---\n...\n", true },
		{ "--- null\n", true }, { "{}", true }, { "version: v1\n", false },
		{ "sharing:\n", false }, { "version: v2", false }, { "[]", false },
		{ "x", false }, { "{", false }, { "\xff", false } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (config_is_empty(rows[i].text, strlen(rows[i].text)) != rows[i].empty)
			fail_msg("'%s'", rows[i].text);
	assert_false(config_is_empty("\0", 1));
}

/* The defaults that the table names are those that config_new() sets. */
static void config_fields__name_the_defaults_of_config_new(void **state)
{
	struct config *c = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(config_new(&c, &err), &err);
	for (size_t i = 0; i < config_n_fields; i++) {
		const struct config_field *f = &config_fields[i];
		const char *at = (const char *)c + f->offset;
		char text[DURATION_TEXT_MAX];

		assert_int_equal(field_by_path(f->path) - config_fields, i); /* no row twice */
		if (!(f->flags & FIELD_STORED))
			continue;
		if (f->type == FIELD_STR && strcmp(f->path, "flags.nvidiaDevRoot") != 0)
			assert_string_equal(f->def, *(char *const *)at);
		if (f->type == FIELD_BOOL)
			assert_string_equal(f->def, *(const bool *)at ? "true" : "false");
		if (f->type == FIELD_WORD)
			assert_string_equal(f->def, f->words->words[*(const int *)at]);
		if (f->type == FIELD_DURATION) {
			duration_text(*(const int64_t *)at, text);
			assert_string_equal(f->def, text);
		}
	}
	(void)config_free(c);
}

static void config_parse__reads_every_flag(void **state)
{
	struct config *c = read_good("version: v1\n"
				     "FLAGS:\n"
				     "  MIGSTRATEGY: mixed\n"
				     "  failOnInitError: no\n"
				     "  mpsRoot: /run/mps\n"
				     "  nvidiaDriverRoot: /run/nvidia/driver\n"
				     "  gdrcopyEnabled: on\n"
				     "  gdsEnabled: yes\n"
				     "  mofedEnabled: True\n"
				     "  useNodeFeatureAPI: off\n"
				     "  deviceDiscoveryStrategy: nvml\n"
				     "  plugin:\n"
				     "    passDeviceSpecs: y\n"
				     "    deviceListStrategy: [volume-mounts, cdi-cri]\n"
				     "    deviceIdStrategy: index\n"
				     "    cdiAnnotationPrefix: x/\n"
				     "    nvidiaCTKPath: /ctk\n"
				     "    containerDriverRoot: /host\n"
				     "    sharedDevicesAllocationPolicy: packed\n"
				     "  gfd:\n"
				     "    oneshot: true\n"
				     "    noTimestamp: true\n"
				     "    sleepInterval: 5s\n"
				     "    outputFile: \"\"\n"
				     "    machineTypeFile: 7\n"
				     "imex: {channelIDs: [0.0], required: true}\n",
		NULL);

	(void)state;
	assert_int_equal(c->mig_strategy, MIG_STRATEGY_MIXED);
	assert_false(c->fail_on_init_error);
	assert_string_equal(c->mps_root, "/run/mps");
	assert_string_equal(c->driver_root, "/run/nvidia/driver");
	assert_string_equal(c->dev_root, "/run/nvidia/driver");
	assert_true(c->gdrcopy && c->gds && c->mofed && c->pass_device_specs);
	assert_false(c->gfd.use_node_feature_api);
	assert_int_equal(c->discovery, DISCOVERY_NVML);
	assert_int_equal(c->device_lists, DEVICE_LIST_VOLUME_MOUNTS | DEVICE_LIST_CDI_CRI);
	assert_int_equal(c->device_id, DEVICE_ID_INDEX);
	assert_int_equal(c->allocation, ALLOCATION_PACKED);
	assert_string_equal(c->cdi_annotation_prefix, "x/");
	assert_string_equal(c->cdi_hook_path, "/ctk");
	assert_string_equal(c->container_driver_root, "/host");
	assert_true(c->gfd.oneshot && c->gfd.no_timestamp);
	assert_true(c->gfd.sleep_interval_ns == INT64_C(5000000000));
	assert_string_equal(c->gfd.output_file, "");
	assert_string_equal(c->gfd.machine_type_file, "7");
	assert_true(c->imex_channel0 && c->imex_required);
	assert_string_equal(c->path, "c.yaml");
	(void)config_free(c);
	c = read_good("flags: {plugin: {deviceListStrategy: []}}", NULL);
	assert_int_equal(c->device_lists, 0);
	(void)config_free(c);
	c = read_good("flags: {plugin: {deviceListStrategy: volume-mounts}}", NULL);
	assert_int_equal(c->device_lists, DEVICE_LIST_VOLUME_MOUNTS);
	(void)config_free(c);
	c = read_good("flags: {nvidiaDriverRoot: /a, nvidiaDevRoot: /b}", NULL);
	assert_string_equal(c->dev_root, "/b");
	(void)config_free(c);
}

static void config_parse__reads_durations_as_go_does(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
		const char *shown;
	} rows[] = {
		{ "5", 5, "5ns" },
		{ "1.5", 1, "1ns" },
		{ "0", 0, "0s" },
		{ "\"0s\"", 0, "0s" },
		{ "\"0\"", 0, "0s" },
		{ "5s", INT64_C(5000000000), "5s" },
		{ "1m30s", INT64_C(90000000000), "1m30s" },
		{ "500ms", INT64_C(500000000), "500ms" },
		{ "1.5h", INT64_C(5400000000000), "1h30m0s" },
		{ "2500us", INT64_C(2500000), "2.5ms" },
		{ "1500ns", INT64_C(1500), "1.5\xc2\xb5s" },
		{ "infinite", INT64_MAX, "infinite" },
		{ "60000000000", INT64_C(60000000000), "1m0s" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
		char text[128], shown[DURATION_TEXT_MAX];
		struct config *c;
		bool small = rows[i].ns > 0 && rows[i].ns <= 5;

		(void)snprintf(text, sizeof(text), "flags: {gfd: {sleepInterval: %s}}",
			rows[i].text);
		c = read_good(text, &warnings);
		assert_true(c->gfd.sleep_interval_ns == rows[i].ns);
		duration_text(rows[i].ns, shown);
		assert_string_equal(shown, rows[i].shown);
		/* One warning is for nanoseconds, and one for an option without effect. */
		assert_int_equal(warnings.n, 1 + small);
		if (small)
			assert_non_null(strstr(warnings.v[0], "nanoseconds"));
		(void)config_free(c);
	}
	read_expect_error("flags: {gfd: {sleepInterval: \"60\"}}",
		"time: missing unit in duration \"60\"");
	read_expect_error("flags: {gfd: {sleepInterval: \"-5s\"}}",
		"flags.gfd.sleepInterval: expected a duration such as \"60s\", \"1m30s\" or "
		"\"infinite\" that is not negative, found \"-5s\"");
	read_expect_error("flags: {gfd: {sleepInterval: -5}}",
		"that is not negative, found -5");
	read_expect_error("flags: {gfd: {sleepInterval: -1.5}}",
		"that is not negative, found -1.5");
	read_expect_error("flags: {gfd: {sleepInterval: soon}}",
		"time: invalid duration \"soon\"");
	read_expect_error("flags: {gfd: {sleepInterval: yes}}", "invalid duration");
	read_expect_error("flags: {gfd: {sleepInterval: []}}", "invalid duration");
	read_expect_error("flags: {gfd: {sleepInterval: {}}}", "invalid duration");
}

static void config_parse__refuses_with_nvidias_text(void **state)
{
	static const struct row rows[] = {
		{ "version: v2", "version: unknown version: v2" },
		{ "version: 1", "unknown version: 1" },
		{ "version: 1.0", "unknown version: 1" },
		{ "sharing: {timeSlicing: }", "no resources specified" },
		{ "sharing: {timeSlicing: {}}", "no resources specified" },
		{ "sharing: {timeSlicing: {resources: []}}", "no resources specified" },
		{ "sharing: {timeSlicing: {resources: null}}", "no resources specified" },
		{ "sharing: {mps: {}}", "no resources specified" },
		{ "sharing: {mps: {resources: []}}", "no resources specified" },
		{ TS(""), "no resource name specified" },
		{ TS("replicas: 2"), "no resource name specified" },
		{ "sharing: {timeSlicing: {resources: [null]}}", "no resource name specified" },
		{ TS("name: gpu"), "no replicas specified" },
		{ TS("name: gpu, devices: all"), "no replicas specified" },
		{ TS("name: gpu, devices: all, rename: x"), "no replicas specified" },
		{ TS("name: gpu, replicas: 1"), "number of replicas must be >= 2" },
		{ TS("name: gpu, replicas: 0"), "number of replicas must be >= 2" },
		{ TS("name: gpu, replicas: -1"), "number of replicas must be >= 2" },
		{ TS("name: gpu, replicas: null"), "number of replicas must be >= 2" },
		{ TS("name: gpu, replicas: \"4\""),
			"cannot unmarshal string into Go value of type int" },
		{ TS("name: gpu, replicas: 2.5"),
			"cannot unmarshal number 2.5 into Go value of type int" },
		{ TS("name: gpu, replicas: yes"),
			"cannot unmarshal bool into Go value of type int" },
		{ TS("name: gpu, replicas: []"), "cannot unmarshal array" },
		{ TS("name: gpu, replicas: 40001"), "must be <= 40000" },
		{ TS("name: gpu, replicas: 99999999999999999999"), "cannot unmarshal number" },
		{ DEVICES("some"),
			"devices set as 'some' but the only valid string input is 'all'" },
		{ DEVICES("null"),
			"devices set as '' but the only valid string input is 'all'" },
		{ DEVICES("0"), "devices set as '0' but a count of devices must be > 0" },
		{ DEVICES("-2"), "devices set as '-2' but a count of devices must be > 0" },
		{ DEVICES("2.5"), "unrecognized type for devices spec: 2.5" },
		{ DEVICES("yes"), "unrecognized type for devices spec: true" },
		{ DEVICES("{a: b}"), "unrecognized type for devices spec: {\"a\":\"b\"}" },
		{ DEVICES("[-1]"), "unsupported type for device in devices list: -1, string" },
		{ DEVICES("[\"-1\"]"),
			"unsupported type for device in devices list: -1, string" },
		{ DEVICES("[GPU-UUID]"),
			"unsupported type for device in devices list: GPU-UUID, string" },
		{ DEVICES("[invalid-UUID]"),
			"unsupported type for device in devices list: invalid-UUID, string" },
		{ DEVICES("[MIG-UUID]"),
			"unsupported type for device in devices list: MIG-UUID" },
		{ DEVICES("[MIG-GPU-" UUID "]"),
			"unsupported type for device in devices list" },
		{ DEVICES("[MIG-GPU-" UUID "/0]"),
			"unsupported type for device in devices list" },
		{ DEVICES("[GPU-" UUID "0]"), "unsupported type for device in devices list" },
		{ DEVICES("[\"0:\"]"), "unsupported type for device in devices list" },
		{ DEVICES("[[]]"), "unsupported type for device in devices list: []" },
		{ DEVICES("[1.5]"), "unsupported type for device in devices list: 1.5" },
		{ DEVICES("[null]"), "unsupported type for device in devices list: null" },
		{ TS("name: null, replicas: 2"),
			"incorrect format for resource name 'nvidia.com/'" },
		{ TS("name: gpu, replicas: 2, rename: "),
			"incorrect format for resource name 'nvidia.com/'" },
		{ TS("name: GPU, replicas: 2"),
			"incorrect format for resource name 'nvidia.com/GPU': [" },
		{ TS("name: $x$, replicas: 2"),
			"incorrect format for resource name 'nvidia.com/$x$': [" },
		{ TS("name: foo.com/gpu, replicas: 2"),
			"incorrect format for resource name 'nvidia.com/foo.com/gpu': [" },
		{ TS("name: a/b, replicas: 2"), "resource name 'nvidia.com/a/b': [" },
		{ TS("name: a..b, replicas: 2"), "incorrect format" },
		{ TS("name: -a, replicas: 2"), "incorrect format" },
		{ TS("name: a-.b, replicas: 2"), "incorrect format" },
		{ TS("name: a., replicas: 2"), "incorrect format" },
		{ TS("name: gpu, replicas: 2, rename: $x$"), "resource name 'nvidia.com/$x$'" },
		{ TS("name: 5, replicas: 2"),
			"cannot unmarshal number 5 into Go value of type string" },
		{ TS("name: a12345678901234567890123456789012345678901234567890xy, replicas: 2"),
			"fully-qualified resource name must be 63 characters or less: "
			"nvidia.com/a12345678901234567890123456789012345678901234567890xy" },
		{ "resources: {gpus: [{}]}", "resources must have a 'pattern' field set" },
		{ "resources: {gpus: [null]}", "resources must have a 'pattern' field set" },
		{ "resources: {gpus: [{name: x}]}",
			"resources must have a 'pattern' field set" },
		{ "resources: {mig: [{pattern: x}]}",
			"resources must have a 'name' field set" },
		{ "resources: {mig: [{pattern: x, name: X}]}",
			"incorrect format for resource name" },
		{ "flags: {plugin: {deviceListStrategy: 5}}", "invalid deviceListStrategy: 5" },
		{ "flags: {plugin: {deviceListStrategy: [5]}}",
			"invalid deviceListStrategy: [5]" },
		{ "imex: {channelIDs: 0}",
			"cannot unmarshal number 0 into Go value of type []int" },
		{ "imex: {channelIDs: [2]}", "invalid IMEX config" },
		{ "imex: {channelIDs: [0, 1]}",
			"invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; "
			"found [0 1]" },
		{ "imex: {channelIDs: [x]}", "cannot unmarshal string" },
		{ "flags: {failOnInitError: \"true\"}",
			"cannot unmarshal string into Go value of type bool" },
		{ "flags: {failOnInitError: 1}", "cannot unmarshal number 1" },
		{ "flags: []", "flags: expected an object, found []: cannot unmarshal array" },
		{ "flags: {migStrategy: []}",
			"cannot unmarshal array into Go value of type string" },
		{ "sharing: {timeSlicing: {resources: {}}}", "cannot unmarshal object" },
		{ "sharing: {timeSlicing: {renameByDefault: \"yes\", resources: [{}]}}",
			"cannot unmarshal string into Go value of type bool" },
		{ "- a", "expected a config" },
		{ "text", "cannot unmarshal string" },
		{ "version: v1\n---\nversion: v1\n", "expected one document" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		read_expect_error(rows[i].text, rows[i].want);
}

static void config_parse__reports_the_place_and_the_error(void **state)
{
	static const struct row rows[] = {
		{ "sharing:\n  timeSlicing:\n    resources:\n    - name: gpu\n      replicas: 1\n",
			"c.yaml:5:17: sharing.timeSlicing.resources[0].replicas: number of replicas "
			"must be >= 2; found 1" },
		{ "flags:\n  failOnInitError: \"true\"\n",
			"c.yaml:2:20: flags.failOnInitError: expected true or false, found \"true\"" },
		{ "sharing:\n  timeSlicing:\n    resources:\n    - name: gpu\n      replica: 1\n",
			"c.yaml:5:7: sharing.timeSlicing.resources[0]: unknown key 'replica'; did you "
			"mean 'replicas'? Expected one of name, rename, devices, replicas, isolation" },
		{ "a: b: c", "c.yaml:1:5: expected YAML or JSON, found: " },
		{ "{\n\t\"version\": \"v2\"}", "c.yaml:2:13: version: unknown version" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		read_expect_error(rows[i].text, rows[i].want);
}

static void config_parse__suggests_the_intended_key(void **state)
{
	static const struct row rows[] = {
		{ "sharng: {}", "unknown key 'sharng'; did you mean 'sharing'?" },
		{ "migStrategy: none",
			"unknown key 'migStrategy'; did you mean 'flags.migStrategy'?" },
		{ "flags: {passDeviceSpecs: true}",
			"did you mean 'flags.plugin.passDeviceSpecs'?" },
		{ "sharing: {timeSlicing: {Resources: []}}",
			"unknown key 'Resources'; did you mean 'resources' (the case counts here)?" },
		{ "sharing: {timeSlicing: {resources: [{Name: gpu}]}}", "did you mean 'name'" },
		{ "resources: {gpus: [{Pattern: x}]}", "did you mean 'pattern'" },
		{ "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, isolation: "
		  "{mem: 1}}]}}",
			"isolation: unknown key 'mem'" },
		{ "zzz: 1",
			"unknown key 'zzz': expected one of version, flags, resources, sharing, "
			"imex, health" },
		{ "apiVersion: v1\nkind: ConfigMap\n", "this is a Kubernetes manifest" },
		{ "version: v1\nmig-configs: {}\n", "this is a mig-parted config" },
		{ "health: {cooldwn: 3s}", "did you mean 'cooldown'" },
		{ "flags: {a: 1, a: 2}", "duplicate key 'a': already given in line 1" },
		{ "flags: {\"a\\nb\": 1, \"a\\nb\": 2}",
			"duplicate key 'a b': already given in line 1" },
		{ "version: v1\nflags: {}\nversion: v1\n",
			"c.yaml:3:1: duplicate key 'version': already given in line 1" },
		{ "version: v1\nVersion: v1\n",
			"c.yaml:2:1: duplicate key 'Version': already given as 'version' in line 1" },
		{ TS("name: gpu, replicas: 2, replicas: 4"), "duplicate key 'replicas'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		read_expect_error(rows[i].text, rows[i].want);
}

static void config_parse__reads_device_lists(void **state)
{
	static const struct {
		const char *text;
		enum devices_kind kind;
		const char *joined;
	} rows[] = {
		{ "all", DEVICES_ALL, "" },
		{ "\"all\"", DEVICES_ALL, "" },
		{ "2", DEVICES_COUNT, "" },
		{ "2.0", DEVICES_COUNT, "" },
		{ "[]", DEVICES_LIST, "" },
		{ "[0]", DEVICES_LIST, "0 " },
		{ "[\"0\"]", DEVICES_LIST, "0 " },
		{ "[\"0:0\"]", DEVICES_LIST, "0:0 " },
		{ "[GPU-" UUID "]", DEVICES_LIST, "GPU-" UUID " " },
		{ "[MIG-" UUID "]", DEVICES_LIST, "MIG-" UUID " " },
		{ "[MIG-GPU-" UUID "/0/0]", DEVICES_LIST, "MIG-GPU-" UUID "/0/0 " },
		{ "[0, \"0:0\", GPU-" UUID "]", DEVICES_LIST, "0 0:0 GPU-" UUID " " },
		{ "[\"0\", \"0:0\", \"GPU-" UUID "\"]", DEVICES_LIST, "0 0:0 GPU-" UUID " " },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(1024);
		char text[512];
		struct config *c;
		const struct replicated *e;

		(void)snprintf(text, sizeof(text), DEVICES("%s"), rows[i].text);
		c = read_good(text, NULL);
		e = &c->sharing.entries[0];
		assert_int_equal(e->devices, rows[i].kind);
		if (rows[i].kind == DEVICES_COUNT)
			assert_int_equal(e->count, 2);
		for (size_t k = 0; k < e->list.n; k++)
			buf_printf(&b, "%s ", e->list.v[k]);
		assert_string_equal(buf_str(&b), rows[i].joined);
		(void)config_free(c);
	}
}

static void config_parse__reads_sharing(void **state)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	const struct sharing_kind *kind;
	struct config *c = read_good(
		"sharing:\n  TimeSlicing:\n    renameByDefault: true\n"
		"    failRequestsGreaterThanOne: true\n    resources:\n"
		"    - {name: valid1, replicas: 2}\n"
		"    - {name: nvidia.com/valid2, replicas: 4.0, rename: valid-shared}\n",
		&warnings);

	(void)state;
	assert_true(sharing_has(&c->sharing, SHARING_TIME_SLICING));
	assert_false(sharing_has(&c->sharing, SHARING_MPS));
	kind = &c->sharing.kinds[SHARING_TIME_SLICING];
	assert_true(kind->rename_by_default && kind->fail_requests_greater_than_one);
	assert_int_equal(c->sharing.n_entries, 2);
	assert_string_equal(c->sharing.entries[0].name, "nvidia.com/valid1");
	assert_string_equal(c->sharing.entries[0].rename, "");
	assert_int_equal(c->sharing.entries[0].devices, DEVICES_ALL);
	assert_int_equal(c->sharing.entries[0].replicas, 2);
	assert_int_equal(c->sharing.entries[1].replicas, 4);
	assert_string_equal(c->sharing.entries[1].name, "nvidia.com/valid2");
	assert_string_equal(c->sharing.entries[1].rename, "nvidia.com/valid-shared");
	assert_int_equal(c->sharing.entries[1].pos.line, 7);
	assert_int_equal(warnings.n, 0);
	(void)config_free(c);

	c = read_good(
		"resources: {gpus: [{pattern: \"Tesla *\", name: tesla}], mig: [{pattern: "
		"1g.*, name: nvidia.com/small}]}",
		NULL);
	assert_int_equal(c->n_gpu_patterns, 1);
	assert_string_equal(c->gpu_patterns[0].pattern, "Tesla *");
	assert_string_equal(c->gpu_patterns[0].name, "nvidia.com/tesla");
	assert_string_equal(c->mig_patterns[0].name, "nvidia.com/small");
	(void)config_free(c);
}

static void config_parse__applies_anchors_and_merges(void **state)
{
	struct config *c = read_good("sharing:\n  timeSlicing:\n    resources:\n"
				     "    - &a {name: gpu, replicas: 2}\n"
				     "    - {<<: *a, replicas: 8}\n"
				     "    - *a\n"
				     "    - {<<: [*a, {replicas: 5, rename: x}]}\n",
		NULL);

	(void)state;
	assert_int_equal(c->sharing.n_entries, 4);
	assert_string_equal(c->sharing.entries[1].name, "nvidia.com/gpu");
	assert_int_equal(c->sharing.entries[1].replicas, 8);
	assert_int_equal(c->sharing.entries[2].replicas, 2);
	assert_int_equal(c->sharing.entries[3].replicas, 2);
	assert_string_equal(c->sharing.entries[3].rename, "nvidia.com/x");
	(void)config_free(c);
	c = read_good(
		"flags: {mpsRoot: 'a''''b', nvidiaDriverRoot: '''''''x''', nvidiaDevRoot: 'a''b'}",
		NULL);
	assert_string_equal(c->mps_root, "a''b"); /* libfyaml 0.7.12 alone returns a''' */
	assert_string_equal(c->driver_root, "'''x'");
	assert_string_equal(c->dev_root, "a'b");
	(void)config_free(c);
	read_expect_error("a: *b", "alias '*b' names no anchor");
	read_expect_error("flags: &a [*a]", "alias '*a' names no anchor");
	read_expect_error("flags: {<<: 5}", "<<: expected an object");
	read_expect_error("? [a]\n: b", "expected a text as key");
	read_expect_error("version: !mine v1", "expected a value without a tag");
	c = read_good("version: !!str v1\nflags: {failOnInitError: !!bool yes}", NULL);
	(void)config_free(c);
	c = read_good(TS("name: gpu, replicas: 0x10"), NULL);
	assert_int_equal(c->sharing.entries[0].replicas, 16);
	(void)config_free(c);
	c = read_good(TS("name: gpu, replicas: 010"), NULL); /* octal in YAML 1.1 */
	assert_int_equal(c->sharing.entries[0].replicas, 8);
	(void)config_free(c);
}

static void config_parse__warns_of_settings_without_effect(void **state)
{
	static const struct row rows[] = {
		{ "flags: {gfd: {oneshot: true, noTimestamp: true}}",
			"flags.gfd.oneshot: has no effect" },
		{ "flags: {gfd: {sleepInterval: 60s, outputFile: /x, machineTypeFile: /y}}",
			"flags.gfd.sleepInterval: has no effect: labels are written when" },
		{ "flags: {useNodeFeatureAPI: true}",
			"flags.useNodeFeatureAPI: has no effect: the agent's --labels" },
		{ DEVICES("[]"), "devices: an empty list selects no device" },
		{ DEVICES("[1, \"1\"]"), "devices[1]: 1 is in the list already" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv warnings = STRV_INIT;

		(void)config_free(read_good(rows[i].text, &warnings));
		assert_int_equal(warnings.n, 1);
		if (!strstr(warnings.v[0], rows[i].want))
			fail_msg("%s -- expected %s", warnings.v[0], rows[i].want);
	}
}

/* A name that only renaming makes, or that is misspelt, shares nothing: the warning suggests the intended name. */
static void config_parse__warns_of_a_source_that_no_device_has(void **state)
{
#define SHARE(name)                                                               \
	"sharing: {timeSlicing: {renameByDefault: true, resources: [{name: " name \
	", replicas: 2}]}}"
	static const struct {
		const char *text, *want; /* want NULL: no warning */
	} rows[] = {
		{ SHARE("nvidia.com/gpu"), NULL },
		{ SHARE("gpu"), NULL },
		{ SHARE("mig-1g.5gb"), NULL },
		{ SHARE("nvidia.com/gpu.shared"), "did you mean 'nvidia.com/gpu'?" },
		{ SHARE("nvidia.com/mig-1g.5gb.shared"),
			"did you mean 'nvidia.com/mig-1g.5gb'?" },
		{ SHARE("nvidia.com/gpus"), "did you mean 'nvidia.com/gpu'?" },
		{ SHARE("big"), NULL }, /* nothing is near */
		{ "resources: {gpus: [{pattern: A100*, name: big}]}\n" SHARE("big"), NULL },
		{ "resources: {mig: [{pattern: 1g.5gb, name: small}]}\n" SHARE("small"), NULL },
		{ "resources: {gpus: [{pattern: A100*, name: a.shared}]}\n" SHARE("a.shared"),
			NULL },
		{ "resources: {gpus: [{pattern: A100*, name: bigger}]}\n" SHARE("biger"),
			"did you mean 'nvidia.com/bigger'?" },
		{ "sharing: {mps: {resources: [{name: nvidia.com/gpu.shared, replicas: 2}]}}",
			"c.yaml:1:36: sharing.mps.resources[0].name: has no effect" },
		{ "sharing: {slices: [{name: gpu.shared, profiles: [{name: a, count: 1}]}]}",
			"c.yaml:1:27: sharing.slices[0].name: has no effect" },
	};
#undef SHARE

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
		struct config *c = read_good(rows[i].text, &warnings);

		if (warnings.n != (rows[i].want ? 1 : 0) ||
			(rows[i].want && !strstr(warnings.v[0], rows[i].want)))
			fail_msg("row %zu: %zu warnings: %s", i, warnings.n,
				warnings.n ? warnings.v[0] : "");
		(void)config_free(c);
	}
}

static void config_parse__refuses_unsupported_settings(void **state)
{
	static const struct row rows[] = {
		{ "flags: {deviceDiscoveryStrategy: tegra}",
			"c.yaml:1:34: flags.deviceDiscoveryStrategy: Tegra GPUs are not supported" },
		{ "flags: {deviceDiscoveryStrategy: vfio}", "VFIO pass-through GPUs" },
	};
	struct config_sources sources = { .env = no_env };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct config *c = NULL;
		struct error err = ERROR_INIT;

		assert_error(config_parse(&c, "c.yaml", 0, rows[i].text, strlen(rows[i].text),
				     &sources, NULL, &err),
			&err, rows[i].want);
		assert_int_equal(err.code, ERR_UNSUPPORTED);
		c = read_good(rows[i].text, NULL);
		assert_true(config_unsupported(c, "c.yaml", &err) < 0);
		(void)config_free(c);
	}
	static const char *const in_force[] = { "memory: none", "memory: equal", "memory: 8Gi",
		"memory: 25%, unhooked: stop", "memory: equal, compute: none, class: batch",
		"compute: fair", "compute: capped, class: latency, unhooked: stop" };

	for (size_t i = 0; i < ARRAY_LEN(in_force); i++) {
		struct error err = ERROR_INIT;
		struct config *c = NULL;
		char text[200];

		(void)snprintf(text, sizeof(text),
			TS("name: gpu, replicas: 2, isolation: {%s}"), in_force[i]);
		assert_ok(
			config_parse(&c, "c.yaml", 0, text, strlen(text), &sources, NULL, &err),
			&err);
		(void)config_free(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_parse__reads_an_empty_text_as_all_defaults),
		cmocka_unit_test(config_is_empty__is_true_without_keys),
		cmocka_unit_test(config_fields__name_the_defaults_of_config_new),
		cmocka_unit_test(config_parse__reads_every_flag),
		cmocka_unit_test(config_parse__reads_durations_as_go_does),
		cmocka_unit_test(config_parse__refuses_with_nvidias_text),
		cmocka_unit_test(config_parse__reports_the_place_and_the_error),
		cmocka_unit_test(config_parse__suggests_the_intended_key),
		cmocka_unit_test(config_parse__reads_device_lists),
		cmocka_unit_test(config_parse__reads_sharing),
		cmocka_unit_test(config_parse__applies_anchors_and_merges),
		cmocka_unit_test(config_parse__warns_of_settings_without_effect),
		cmocka_unit_test(config_parse__warns_of_a_source_that_no_device_has),
		cmocka_unit_test(config_parse__refuses_unsupported_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
