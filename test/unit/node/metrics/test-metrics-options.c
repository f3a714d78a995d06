/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/time.h"
#include "node/metrics/options.h"

/* The environment of a test: NAME, value, ..., NULL. */
static const char *const *env_pairs;

static const char *get_option_env(const char *name)
{
	for (size_t i = 0; env_pairs && env_pairs[i]; i += 2)
		if (!strcmp(env_pairs[i], name))
			return env_pairs[i + 1];
	return NULL;
}

static int read_options(struct metrics_options *ret, const char *const *pairs, int argc,
	const char *const *argv, struct strv *warnings, struct error *err)
{
	struct options o;
	int r;

	env_pairs = pairs;
	r = options_parse(&o, metrics_option_defs, metrics_n_option_defs, argc,
		(char *const *)(uintptr_t)argv, 0, get_option_env, err);
	if (!r)
		r = metrics_options_read(ret, &o, get_option_env, warnings, err);
	options_fini(&o);
	return r;
}

static void metrics_options_read__has_defaults(void **state)
{
	static const char *const argv[] = { "x", NULL };
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct metrics_options o, usual;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(read_options(&o, NULL, 1, argv, &warnings, &err), &err);
	metrics_options_default(&usual);
	assert_int_equal(warnings.n, 0);
	assert_int_equal(o.hostname, METRICS_HOSTNAME);
	assert_true(o.kubernetes && o.opencost && o.devices.gpus && o.devices.instances);
	assert_false(o.old_namespace || o.pod_uid || o.virtual_gpus || o.per_instance_board ||
		     o.replace_blanks_in_model_name || o.gpm_raw_units);
	assert_int_equal(o.xid_window_ns, 300 * NS_PER_SEC);
	assert_string_equal(o.collectors, "");
	assert_string_equal(o.config_map, "none");
	assert_int_equal(usual.xid_window_ns, o.xid_window_ns);
	assert_int_equal(o.clock_window_ns, 300 * NS_PER_SEC);
	assert_int_equal(usual.clock_window_ns, o.clock_window_ns);
	assert_int_equal(usual.kubernetes, o.kubernetes);
}

static void metrics_options_read__accepts_names_of_dcgm_exporter(void **state)
{
	static const char *const pairs[] = { "DCGM_EXPORTER_COLLECTORS", "/etc/c.csv",
		"DCGM_EXPORTER_KUBERNETES", "false",
		"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", "true",
		"DCGM_EXPORTER_DEVICES_STR", "g:0,2-4", "KUBERNETES_VIRTUAL_GPUS", "true",
		"DCGM_EXPORTER_USE_OLD_NAMESPACE", "true",
		"DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE", "60000",
		"DCGM_EXPORTER_CONFIGMAP_DATA", "a:b", "NVIDIA_RESOURCE_NAMES", "a,b",
		"DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE", "uid", NULL };
	static const char *const argv[] = { "x", "-n", "-x", "1000",
		"--replace-blanks-in-model-name", "--kubernetes-enable-pod-uid", NULL };
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct metrics_options o;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(read_options(&o, pairs, 6, argv, &warnings, &err), &err);
	assert_int_equal(warnings.n, 0);
	assert_string_equal(o.collectors, "/etc/c.csv");
	assert_string_equal(o.config_map, "a:b");
	assert_false(o.kubernetes);
	assert_true(o.virtual_gpus && o.old_namespace && o.pod_uid &&
		    o.replace_blanks_in_model_name);
	assert_int_equal(o.hostname, METRICS_HOSTNAME_NONE);
	assert_int_equal(o.xid_window_ns, NS_PER_SEC);
	assert_int_equal(o.clock_window_ns, 60 * NS_PER_SEC);
	assert_false(o.pod_labels); /* without pods */
	assert_false(metrics_devices_have(&o.devices, true, 0));
	assert_true(metrics_devices_have(&o.devices, false, 3));
	assert_false(metrics_devices_have(&o.devices, false, 1));
}

static void metrics_options_read__accepts_patterns_of_pod_labels(void **state)
{
	static const char *const pairs[] = { "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS",
		"true", "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX", "^app$,^t",
		NULL };
	static const char *const argv[] = { "x", NULL };
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct metrics_options o;
	struct options read;
	struct error err = ERROR_INIT;

	(void)state;
	env_pairs = pairs;
	assert_ok(options_parse(&read, metrics_option_defs, metrics_n_option_defs, 1,
			  (char *const *)(uintptr_t)argv, 0, get_option_env, &err),
		&err);
	assert_ok(metrics_options_read(&o, &read, get_option_env, &warnings, &err), &err);
	assert_int_equal(warnings.n, 0);
	assert_true(o.pod_labels);
	assert_int_equal(o.pod_label_patterns->n, 2);
	assert_string_equal(o.pod_label_patterns->v[1], "^t");
	options_fini(&read);
}

static void metrics_options_read__warns_by_name(void **state)
{
	static const char *const pairs[] = { "DCGM_REMOTE_HOSTENGINE_INFO", "localhost:5555",
		"KUBERNETES_ENABLE_DRA", "false", "DCGM_HPC_JOB_MAPPING_DIR", "/jobs", NULL };
	static const char *const argv[] = { "x", NULL };
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct metrics_options o;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(read_options(&o, pairs, 1, argv, &warnings, &err), &err);
	assert_int_equal(warnings.n, 2);
	strv_sort(&warnings);
	assert_non_null(strstr(warnings.v[0], "DCGM_HPC_JOB_MAPPING_DIR has no effect"));
	assert_non_null(strstr(warnings.v[1], "DCGM_REMOTE_HOSTENGINE_INFO has no effect"));
}

static void metrics_options_read__refuses_unknown_words(void **state)
{
	static const char *const label[] = { "x", "--metrics-hostname-label", "host", NULL };
	static const char *const devices[] = { "x", "-d", "h", NULL };
	static const char *const window[] = { "x", "-x", "18446744073709551615", NULL };
	static const char *const clocks[] = { "x", "--clock-events-count-window-size",
		"18446744073709551615", NULL };
	struct metrics_options o;
	struct error err = ERROR_INIT;

	(void)state;
	assert_error(read_options(&o, NULL, 3, label, NULL, &err), &err,
		"expected Hostname, hostname or none, found 'host'");
	assert_error(read_options(&o, NULL, 3, devices, NULL, &err), &err, "found 'h'");
	assert_error(read_options(&o, NULL, 3, window, NULL, &err), &err,
		"--xid-count-window-size: expected milliseconds");
	assert_error(read_options(&o, NULL, 3, clocks, NULL, &err), &err,
		"--clock-events-count-window-size: expected milliseconds");
}

static void metrics_devices_parse__is_strict(void **state)
{
	static const char *const good[] = { "f", "g", "i", "g:0", "i:0-6", "g:0,2-4,9" };
	static const char *const wrong[] = { "", "x", "gg", "f:0", "g:", "g:a", "g:3-1", "g:0,",
		"g:-1", "g:0-", "i:99999999999999999999" };
	struct metrics_devices d;
	struct error err = ERROR_INIT;
	char many[300] = "g:0";

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_ok(metrics_devices_parse(&d, good[i], &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_error(metrics_devices_parse(&d, wrong[i], &err), &err,
			"expected f, g, i");
	for (size_t i = 0; i < METRICS_RANGES_MAX; i++)
		memcpy(many + 3 + 2 * i, ",1", 3);
	assert_error(metrics_devices_parse(&d, many, &err), &err,
		"at most 32 ranges, found 33");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_options_read__has_defaults),
		cmocka_unit_test(metrics_options_read__accepts_names_of_dcgm_exporter),
		cmocka_unit_test(metrics_options_read__accepts_patterns_of_pod_labels),
		cmocka_unit_test(metrics_options_read__warns_by_name),
		cmocka_unit_test(metrics_options_read__refuses_unknown_words),
		cmocka_unit_test(metrics_devices_parse__is_strict),
	};

	return cmocka_run_group_tests_name("metrics-options", tests, NULL, NULL);
}
