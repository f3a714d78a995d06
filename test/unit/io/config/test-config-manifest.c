/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/config/test-config-read.h"

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "io/config/read.h"
#include "lib/yaml/yaml.h"

/* Whole files: manifests with ConfigMaps, the user's own ones, and hostile ones. */

/* The reports of config_each(), one line each. */
static void add_config_report(void *arg, const char *name, const char *text, struct config *c,
	const struct strv *warnings, const struct error *err, const struct strv *more)
{
	struct buf *b = arg;

	assert_true(!!c + !!err + !text == 1);
	assert_true(err || more->n == 0);
	if (err)
		buf_printf(b, "bad %s\n", err->msg);
	for (size_t i = 0; i < more->n; i++)
		buf_printf(b, "and %s\n", more->v[i]);
	if (c)
		buf_printf(b, "good %s x%u\n", name,
			c->sharing.n_entries ? c->sharing.entries[0].replicas : 1);
	else if (!text)
		buf_printf(b, "skipped %s\n", warnings->v[0]);
}

static int each_text(const char *text, size_t len, struct buf *b, struct error *err)
{
	struct config_sources sources = { .env = no_env };

	buf_clear(b);
	return config_each_text("m.yaml", text, len, &sources, add_config_report, b, err);
}

static void config_each__finds_the_configs_of_a_file(void **state)
{
	static const struct {
		const char *text;
		int n;
		const char *want;
	} rows[] = {
		{ "", 1, "good m.yaml x1\n" },
		{ "version: v1\n", 1, "good m.yaml x1\n" },
		{ "kind: ConfigMap\ndata:\n  a: |\n    version: v1\n  b: \"\"\n", 2,
			"good m.yaml#a x1\ngood m.yaml#b x1\n" },
		{ "---\nkind: Pod\nmetadata: {name: p}\n---\nkind: ConfigMap\ndata: {a: ''}\n---\n",
			1,
			"skipped m.yaml:2:1: Pod 'p' skipped: there is no config in this kind\n"
			"good m.yaml#a x1\n" },
		{ "kind: List\nitems:\n- {kind: Secret}\n- kind: ConfigMap\n  data: {a: ''}\n",
			1,
			"skipped m.yaml:3:3: Secret '' skipped: there is no config in this kind\n"
			"good m.yaml#a x1\n" },
		{ "kind: ConfigMapList\nitems:\n- data: {a: ''}\n", 1, "good m.yaml#a x1\n" },
		{ "kind: ConfigMap\n---\nkind: ConfigMap\ndata: {a: ''}", 1,
			"skipped m.yaml:1:1: ConfigMap '' skipped: it has no data\n"
			"good m.yaml#a x1\n" },
		{ "{\"kind\":\"ConfigMap\",\"data\":{\"a\":\"version: v1\\nflags: {}\\n\"}}", 1,
			"good m.yaml#a x1\n" },
		{ "kind: ConfigMap\ndata:\n  a: 5\n", 1,
			"bad m.yaml#a:3:6: data: expected the config as a text (\"a: |\"), found 5\n" },
		{ "config:\n  map:\n    a: |-\n      version: v1\n    b: 'version: v1'\ngfd: {}\n",
			2,
			"skipped m.yaml:3:5: values of a Helm chart: the configs below config.map are "
			"checked\n"
			"good m.yaml#a x1\ngood m.yaml#b x1\n" },
		{ "config:\n  map:\n    a: |-\n      sharing: {mps: 5}\n", 1,
			"skipped m.yaml:3:5: values of a Helm chart: the configs below config.map are "
			"checked\n"
			"bad m.yaml#a:4:22: sharing.mps: expected an object, found 5: cannot unmarshal "
			"number 5 into Go value of type struct\n" },
		{ "config: {map: {a: 5}}\n", 1,
			"skipped m.yaml:1:15: values of a Helm chart: the configs below config.map are "
			"checked\n"
			"bad m.yaml#a:1:19: config.map: expected the config as a text (\"a: |\"), found "
			"5\n" },
		{ "devicePlugin: {config: {data: {a: ''}}}\n", 1,
			"skipped m.yaml:1:31: values of a Helm chart: the configs below "
			"devicePlugin.config.data are checked\n"
			"good m.yaml#a x1\n" },
		{ "gpuslice: {config: {map: {a: ''}}}\n", 1,
			"skipped m.yaml:1:26: values of a Helm chart: the configs below "
			"gpuslice.config.map are checked\n"
			"good m.yaml#a x1\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
		struct error err = ERROR_INIT;
		int n = each_text(rows[i].text, strlen(rows[i].text), &b, &err);

		if (n != rows[i].n)
			fail_msg("%s\n-- %d: %s", rows[i].text, n, err.msg);
		assert_string_equal(buf_str(&b), rows[i].want);
	}
}

/* A values file without a config is answered with where the config is. A flag at the top is none. */
static void config_each__reports_where_a_values_file_has_its_config(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "gfd: {enabled: true}\nconfig: {name: gpu-configs}\n",
			"m.yaml:2:16: this is a values file of a Helm chart, which names a ConfigMap" },
		{ "gfd: {}\ntolerations: []\n",
			"m.yaml:2:1: 'tolerations' is a key of the values file of a Helm chart" },
		{ "config: {map: {}}\n", "m.yaml:1:1: 'config' is a key of the values file" },
	};
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_true(each_text(rows[i].text, strlen(rows[i].text), &b, &err) < 0);
		if (strncmp(err.msg, rows[i].want, strlen(rows[i].want)) != 0)
			fail_msg("row %zu: %s", i, err.msg);
	}
	assert_int_equal(each_text("migStrategy: none\n", 18, &b, &err), 1);
	assert_non_null(strstr(buf_str(&b), "did you mean 'flags.migStrategy'?"));
}

/* Each mistake that does not come of another one, in the order of reading. */
static void config_each__reports_all_mistakes(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		/* a line each: keys, flags, resources, sharing, slices, health */
		{ "flag: {}\nflags: {migStrateg: none, failOnInitError: 7, plugin: {passDeviceSpecs: x}}\n"
		  "resources: {gpus: [{name: X, pattern: x}, {name: x, pattern: }]}\n"
		  "sharing:\n  timeSlicing:\n    resources:\n"
		  "    - {name: gpu, replicas: 1, isolation: {memory: 200%}}\n"
		  "    - {name: B, replicas: 2, devices: x, isolation: {memory: x, class: y}}\n"
		  "  slices:\n  - name: gpu\n    profiles:\n"
		  "    - {name: gpu.a, count: 0, memory: x, weight: 0, class: x}\n    - {nam: b}\n"
		  "health: {probes: 0, cooldown: 5}\nheath: {}\n",
			"bad m.yaml:1:1: unknown key 'flag'; did you mean 'flags'?\n"
			"and m.yaml:15:1: unknown key 'heath'\n"
			"and m.yaml:2:9: flags: unknown key 'migStrateg'\n"
			"and m.yaml:2:44: flags.failOnInitError: \n"
			"and m.yaml:2:73: flags.plugin.passDeviceSpecs: \n"
			"and m.yaml:3:27: resources.gpus[0].name: \n"
			"and m.yaml:3:53: resources.gpus[1]: \n"
			"and m.yaml:7:29: sharing.timeSlicing.resources[0].replicas: \n"
			"and m.yaml:8:14: sharing.timeSlicing.resources[1].name: \n"
			"and m.yaml:8:39: sharing.timeSlicing.resources[1].devices: \n"
			"and m.yaml:8:62: sharing.timeSlicing.resources[1].isolation.memory: \n"
			"and m.yaml:8:72: sharing.timeSlicing.resources[1].isolation.class: \n"
			"and m.yaml:12:28: sharing.slices[0].profiles[0].count: \n"
			"and m.yaml:12:39: sharing.slices[0].profiles[0].memory: \n"
			"and m.yaml:12:50: sharing.slices[0].profiles[0].weight: \n"
			"and m.yaml:12:60: sharing.slices[0].profiles[0].class: \n"
			"and m.yaml:13:8: sharing.slices[0].profiles[1]: unknown key 'nam'\n"
			"and m.yaml:14:31: health.cooldown: \n"
			"and m.yaml:14:18: health.probes: \n" },
		/* consequences of an error are not reported: no name, as it is misspelt; limits without replicas */
		{ "sharing: {timeSlicing: {resources: [{nam: gpu, replica: 2}]}}",
			"bad m.yaml:1:38: sharing.timeSlicing.resources[0]: unknown key 'nam'\n"
			"and m.yaml:1:48: sharing.timeSlicing.resources[0]: unknown key 'replica'\n" },
		{ "sharing: {slices: [{name: X, profiles: [{name: A, count: 1}, {name: B, count: 1}]}]}",
			"bad m.yaml:1:27: sharing.slices[0].name: \n"
			"and m.yaml:1:48: sharing.slices[0].profiles[0].name: \n"
			"and m.yaml:1:69: sharing.slices[0].profiles[1].name: \n" },
		/* of both kinds of sharing, in the order of NVIDIA's decoder */
		{ "flags: {migStrategy: X, mpsRoot: x}\nsharing: {mps: {computeMode: off, resources: [{name: gpu}]},"
		  "\n  timeSlicing: {resources: [{name: X, replicas: 1}]}}",
			"bad m.yaml:3:36: sharing.timeSlicing.resources[0].name: \n"
			"and m.yaml:3:49: sharing.timeSlicing.resources[0].replicas: \n"
			"and m.yaml:2:30: sharing.mps.computeMode: \n"
			"and m.yaml:2:47: sharing.mps.resources[0]: no replicas\n"
			"and m.yaml:1:34: flags.mpsRoot: expected an absolute path\n"
			"and m.yaml:1:22: flags.migStrategy: unknown MIG strategy: X\n" },
		/* another version or another form: nothing else would make sense */
		{ "version: v2\nx: 1\n", "bad m.yaml:1:10: version: \n" },
		{ "[x]", "bad m.yaml:1:1: expected a config\n" },
	};
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 16), many = BUF_INIT(1 << 16);
	struct error err = ERROR_INIT;
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *line, *want = rows[i].want;

		if (each_text(rows[i].text, strlen(rows[i].text), &b, &err) != 1)
			fail_msg("row %zu: %s", i, err.msg);
		/* Each line begins with the expected text. */
		for (line = buf_str(&b); *line; line = strchr(line, '\n') + 1) {
			size_t len = strcspn(want, "\n");

			if (!len || strncmp(line, want, len) != 0)
				fail_msg("row %zu: '%.*s' in:\n%s", i, (int)len, want,
					buf_str(&b));
			want += len + 1;
		}
		if (*want)
			fail_msg("row %zu: '%s' is missing in:\n%s", i, want, buf_str(&b));
	}
	for (int i = 0; i < 3 * CONFIG_MISTAKES_MAX; i++)
		buf_printf(&many, "key%d: 1\n", i);
	assert_int_equal(each_text(buf_str(&many), many.len, &b, &err), 1);
	for (const char *p = buf_str(&b); *p; p = strchr(p, '\n') + 1)
		n++;
	assert_int_equal(n, CONFIG_MISTAKES_MAX);
}

static void config_each__points_into_the_outer_file(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "kind: ConfigMap\ndata:\n  ok: |-\n    version: v1\n  any: |-\n    version: v1\n"
		  "    sharing:\n      timeSlicing:\n        resources:\n        - name: gpu\n"
		  "          replicas: 1\n",
			"m.yaml#any:11:21: sharing.timeSlicing.resources[0].replicas: number" },
		{ "kind: ConfigMap\ndata:\n  any: |\n\n\n    # c\n    version: v2\n",
			"m.yaml#any:7:14: version: unknown version: v2" },
		{ "kind: ConfigMap\ndata:\n  any: |4\n          version: v2\n",
			"m.yaml#any:4:20: version: unknown version: v2" },
		{ "kind: ConfigMap\ndata:\n  any: \"version: v2\"\n",
			"m.yaml#any:3:18: version: unknown version: v2" },
		{ "kind: ConfigMap\ndata:\n  any: '{version: v2}'\n",
			"m.yaml#any:3:19: version: unknown version: v2" },
		{ "kind: ConfigMap\ndata:\n  any: \"version: v1\\nflags: {a: 1}\\n\"\n",
			"m.yaml#any:2:9 (inside the text of line 3): flags: unknown key 'a'" },
		{ "kind: ConfigMap\ndata:\n  any: >\n    version: v1\n\n    flags: {a: 1}\n",
			"m.yaml#any:2:9 (inside the text of line 4): flags: unknown key 'a'" },
		{ "kind: List\nitems:\n- kind: ConfigMap\n  data:\n    any: |\n      a: [\n",
			"m.yaml#any:" },
		{ "kind: ConfigMap\ndata:\n  any: |\n    a: 1\n    a: 2\n",
			"m.yaml#any:5:5: duplicate key 'a': already given in line 4" },
		{ "kind: ConfigMap\ndata:\n  any: |\n    flags: {plugin: {deviceIDStrategy: x}}\n",
			"m.yaml#any:4:40: flags.plugin.deviceIDStrategy: invalid" },
		{ "kind: ConfigMap\ndata:\n  any: |\n    sharing: {slices: [{name: g, profiles: "
		  "[{name: x, count: 1, memory: 1}]}]}\n",
			"m.yaml#any:4:73: sharing.slices[0].profiles[0].memory: expected at least 2Mi" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
		struct error err = ERROR_INIT;

		if (each_text(rows[i].text, strlen(rows[i].text), &b, &err) < 1)
			fail_msg("%s\n-- %s", rows[i].text, err.msg);
		if (!strstr(buf_str(&b), rows[i].want))
			fail_msg("%s\n-- %s-- expected %s", rows[i].text, buf_str(&b),
				rows[i].want);
	}
}

static void config_each__refuses_a_file_without_a_config(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "kind: Deployment\nmetadata: {name: d}\n",
			"m.yaml: expected a config (version: v1) or a ConfigMap with one, found "
			"Deployment" },
		{ "version: v1\n---\nversion: v1\n",
			"m.yaml:1:1: expected a Kubernetes manifest" },
		{ "kind: ConfigMap\ndata: []\n", "m.yaml:2:7: data: expected an object" },
		{ "kind: List\nitems: [5]\n", "items[0]: expected a manifest" },
		{ "a: [1, 2\n", "m.yaml:2:1: expected YAML or JSON" },
		{ "a: 1\na: 2\n", "m.yaml:2:1: duplicate key 'a'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
		struct error err = ERROR_INIT;

		assert_error(each_text(rows[i].text, strlen(rows[i].text), &b, &err), &err,
			rows[i].want);
	}
}

/* The user's own manifests, as they stand. */
static void config_each__reads_the_users_manifests(void **state)
{
	static const struct {
		const char *file;
		const char *want; /* NULL: refused */
		const char *error;
	} rows[] = {
		{ "time-slicing-config.yaml", "#p3.2xlarge x4\n", NULL },
		{ "time-slicing-config.yaml", "#p3.8xlarge x8\n", NULL },
		{ "nvidia-device-plugin.yaml", "#any x10\n", NULL },
		{ "nvidia-device-plugin-config.yaml", "#shared_gpu x10\n", NULL },
		{ "default-mig-parted-config.yaml",
			"default-mig-parted-config.yaml:2:1: unknown key 'mig-configs': this is a "
			"mig-parted config",
			NULL },
		{ "cifar10-train-deploy.yaml", NULL, "found Deployment" },
		{ "dcgmproftester-pod.yaml", NULL, "found Pod" },
		{ "eksctl-p4d-cluster.yaml", NULL, "found ClusterConfig" },
		{ "gpu-app.yaml", NULL, "found Deployment" },
		{ "gpu-deployment.yaml", NULL, "found Deployment" },
		{ "karpenter-node-template-p3-2xlarge.yaml", NULL, "found Provisioner" },
		{ "karpenter-node-template-p3-8xlarge.yaml", NULL, "found Provisioner" },
		{ "karpenter-provisioner-gpu-shared.yaml", NULL, "found Provisioner" },
		{ "mig-1g-5gb-deployment.yaml", NULL, "found Deployment" },
		{ "mig-2g-10gb-and-3g.20gb-deployments.yaml", NULL, "found Deployment" },
		{ "time-slicing-verification.yaml", NULL, "found Deployment" },
	};
	struct config_sources sources = { .env = no_env };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
		struct error err = ERROR_INIT;
		char path[512];
		int n;

		(void)snprintf(path, sizeof(path), "%s/%s", TEST_FIXTURES, rows[i].file);
		n = config_each(path, &sources, add_config_report, &b, &err);
		if (rows[i].error ? n >= 0 || !strstr(err.msg, rows[i].error)
				  : n < 1 || !strstr(buf_str(&b), rows[i].want))
			fail_msg("%s: %d %s\n%s", path, n, err.msg, buf_str(&b));
	}
}

static int read_config_file(struct config **ret, const char *path,
	const struct config_sources *sources, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(CONFIG_FILE_MAX);

	if (config_file_read(path, &b, err) < 0)
		return -1;
	return config_parse(ret, path, 0, buf_str(&b), b.len, sources, NULL, err);
}

static void config_file_read__opens_files_as_nvidias_loader_does(void **state)
{
	struct config_sources sources = { .env = no_env };
	char *dir = test_tmpdir(), path[128];
	struct error err = ERROR_INIT;
	struct config *c = NULL;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/c.yaml", dir);
	assert_error(read_config_file(&c, path, &sources, &err), &err,
		"error opening config file: open ");
	assert_non_null(strstr(err.msg, "c.yaml: no such file or directory"));
	assert_error(read_config_file(&c, dir, &sources, &err), &err,
		"expected a regular file");
	assert_ok(file_write_atomic(path, "flags: {migStrategy: single}", 28, 0600, &err),
		&err);
	assert_ok(read_config_file(&c, path, &sources, &err), &err);
	assert_int_equal(c->mig_strategy, MIG_STRATEGY_SINGLE);
	assert_string_equal(c->path, path);
	assert_string_equal(c->entry, "");
	(void)config_free(c);
	c = NULL;
	assert_ok(config_parse(&c, "", 0, "", 0, &sources, NULL, &err), &err);
	(void)config_free(c);
	assert_ok(config_parse(&c, "a#b", 10, "", 0, &sources, NULL, &err), &err);
	assert_string_equal(c->path, "a");
	assert_string_equal(c->entry, "b");
	(void)config_free(c);
	assert_error(config_parse(&c, "a#b", 10, "version: v2", 11, &sources, NULL, &err), &err,
		"a#b:11:10: version");
	test_rmdir(dir);
}

static void repeat_text(struct buf *b, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_puts(b, text);
}

/* Each is refused in good time, with a place, and without a leak. */
static void config_parse__survives_hostile_input(void **state)
{
	static const struct {
		const char *before, *unit;
		size_t n;
		const char *after, *want;
	} rows[] = {
		{ "", "[", 1000000, "", "nested deeper than 32 levels" },
		{ "", "{", 1000000, "", "nested deeper than 32 levels" },
		{ "", "- ", 500000, "", "nested deeper than 32 levels" },
		{ "", "? ", 500000, "", "nested deeper than 32 levels" },
		{ "a: [", "b, ", 300000, "]", "more than 100000 values" },
		{ "a: [", "&a x, ", 160000, "]", "more than 100000 values" },
		{ "", "- &a", 1, "", "expected a config" },
		{ "", "---\n", 250000, "", "more than 100000 values" },
		{ "a: \"", "x", 1000000, "", "expected YAML or JSON" },
		{ "", "\t", 100, "a: b", "" },
		{ "a:\n", "\tb: c\n", 1, "", "tab character" },
		{ "a: \xff\xfe", "", 0, "",
			"c.yaml:1:4: expected UTF-8 text, found the byte 0xff" },
		{ "a: \"x", "\r\n  ", 20, "\"", "found a carriage return in it" },
		{ "a: 'x", "\r\n  ", 20, "'", "found a carriage return in it" },
		{ "? a:\t- b\n", "", 0, "", "c.yaml:1:5: expected spaces behind the ':'" },
		{ "x: y\n - ? a: b\n  c:  \t >d", "", 0, "", "c.yaml:3:7: expected spaces" },
		{ "a: \xc0\x80", "", 0, "", "expected UTF-8 text" },
		{ "a: \xed\xa0\x80", "", 0, "", "expected UTF-8 text" },
		{ "a: \xf0\x9f", "", 0, "", "expected UTF-8 text" },
		{ "\x7f"
		  "ELF\x02",
			"", 0, "", "c.yaml:1:1: expected UTF-8 text, found the byte 0x7f" },
		{ "version: v1\n\x01", "", 0, "", "c.yaml:2:1: expected UTF-8 text" },
		{ "a: \"\\0\"", "", 0, "", "NUL" },
		{ "version: \"v", "", 0, "", "expected YAML or JSON" },
		{ "sharing: {timeSlicing: {resources: [{name: gpu", "", 0, "", "" },
		{ "sharing: {timeSlicing: {resources: [", "{name: gpu, replicas: 2},", 1025,
			"]}}", "expected at most 1024 entries, found 1025" },
		{ "a: [", "&a1 x,", 1, "*a1, *a2]", "alias '*a2'" },
	};
	struct config_sources sources = { .env = no_env };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(4 << 20);
		struct config *c = NULL;
		struct error err = ERROR_INIT;

		buf_puts(&b, rows[i].before);
		repeat_text(&b, rows[i].unit, rows[i].n);
		buf_puts(&b, rows[i].after);
		if (config_parse(&c, "c.yaml", 0, buf_str(&b), b.len, &sources, NULL, &err) >=
			0)
			fail_msg("row %zu is accepted", i);
		if (!strstr(err.msg, rows[i].want) || strncmp(err.msg, "c.yaml:", 7) != 0)
			fail_msg("row %zu: %s -- expected %s", i, err.msg, rows[i].want);
	}
}

static void config_parse__refuses_nul_and_bombs(void **state)
{
	static const char bomb[] = "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
				   "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
				   "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
				   "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
				   "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
				   "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
	struct config_sources sources = { .env = no_env };
	CLEANUP(buf_fini) struct buf big = BUF_INIT(16 << 20);
	struct error err = ERROR_INIT;
	struct config *c = NULL;
	char *dir = test_tmpdir(), path[128];

	(void)state;
	assert_error(config_parse(&c, "c", 0, "a: \0b", 5, &sources, NULL, &err), &err,
		"c:1:4: expected UTF-8 text, found the byte 0x00");
	assert_error(config_parse(&c, "c", 0, bomb, sizeof(bomb) - 1, &sources, NULL, &err),
		&err, "more than 100000 values once the aliases are written out");
	repeat_text(&big, "# 64 bytes of nothing that is of any use to anybody in the world\n",
		160000);
	assert_error(config_parse(&c, "c", 0, buf_str(&big), big.len, &sources, NULL, &err),
		&err, "expected at most 1048576 bytes");
	(void)snprintf(path, sizeof(path), "%s/c.yaml", dir);
	assert_ok(file_write_atomic(path, buf_str(&big), big.len, 0600, &err), &err);
	assert_error(read_config_file(&c, path, &sources, &err), &err,
		"larger than the limit of 1048576 bytes");
	test_rmdir(dir);
}

/* Cuts a good config at every byte: no crash, no leak, and never a half config. */
static void config_parse__refuses_a_truncated_file(void **state)
{
	static const char text[] =
		"version: v1\nflags: &f {migStrategy: \"none\", gfd: {sleepInterval: 5s}}\n"
		"resources: {gpus: [{pattern: 'a*', name: a}]}\n"
		"sharing:\n  timeSlicing:\n    resources:\n    - name: gpu\n      replicas: 2\n"
		"      devices: [0, \"0:1\"]\n      isolation: {memory: none}\n"
		"health: {ignoreXids: [1, 2]}\n";
	struct config_sources sources = { .env = no_env };

	(void)state;
	for (size_t n = 0; n < sizeof(text); n++) {
		CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
		struct config *c = NULL;
		struct error err = ERROR_INIT;
		int r = config_parse(&c, "c", 0, text, n, &sources, &warnings, &err);

		assert_true((r == 0) == (c != NULL));
		assert_true((r == 0) == (err.code == ERR_NONE));
		(void)config_free(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_each__finds_the_configs_of_a_file),
		cmocka_unit_test(config_each__reports_where_a_values_file_has_its_config),
		cmocka_unit_test(config_each__reports_all_mistakes),
		cmocka_unit_test(config_each__points_into_the_outer_file),
		cmocka_unit_test(config_each__refuses_a_file_without_a_config),
		cmocka_unit_test(config_each__reads_the_users_manifests),
		cmocka_unit_test(config_file_read__opens_files_as_nvidias_loader_does),
		cmocka_unit_test(config_parse__survives_hostile_input),
		cmocka_unit_test(config_parse__refuses_nul_and_bombs),
		cmocka_unit_test(config_parse__refuses_a_truncated_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
