/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpuslice validate: options and output of a validation (tools/validate/validate.h). It takes the options of
 * NVIDIA's validator.
 */
#include "lib/base/paths.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/report/table.h"
#include "tools/cli/cmd.h"
#include "tools/cli/output.h"
#include "tools/validate/files.h"
#include "tools/validate/validate.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_DIR     "/run/nvidia/validations"
#define DRIVER_DIR     "/run/nvidia/driver"
#define INTERVAL_S     5
#define INTERVAL_MAX_S 86400
#define WATCH_FAILURES 3
#define OUTPUT_MAX     (4 * 1024 * 1024)

/* Sorted by name. Names, letters and variables are those of NVIDIA's validator where it has the
 * option. */
static const struct option_def options[] = {
	{ .name = "cdi-dirs",
		.type = OPTION_LIST,
		.arg = "DIR,...",
		.def = "/etc/cdi,/var/run/cdi",
		.help = "where CDI specs are" },
	{ .name = "cleanup-all",
		.letter = 'r',
		.type = OPTION_BOOL,
		.env = { "CLEANUP_ALL" },
		.help = "remove all status files first" },
	{ .name = "component",
		.letter = 'c',
		.type = OPTION_STR,
		.env = { "COMPONENT" },
		.arg = "NAME",
		.help = "the one component to validate, as NVIDIA's validator has it" },
	{ .name = "cuda",
		.type = OPTION_STR,
		.env = { "GPUSLICE_CUDA" },
		.arg = "PATH",
		.help = "libcuda.so.1, instead of the one in the library path" },
	{ .name = "default-gpu-workload-config",
		.letter = 'g',
		.type = OPTION_STR,
		.env = { "DEFAULT_GPU_WORKLOAD_CONFIG" },
		.arg = "NAME",
		.help = "taken for NVIDIA's sake, not used" },
	{ .name = "dev-char-dir",
		.type = OPTION_STR,
		.arg = "DIR",
		.help = "where the node's /dev/char is; /host-dev-char if there is one" },
	{ .name = "disable-dev-char-symlink-creation",
		.type = OPTION_BOOL,
		.env = { "DISABLE_DEV_CHAR_SYMLINK_CREATION" },
		.help = "leave device nodes and /dev/char alone" },
	{ .name = "driver-install-dir",
		.type = OPTION_STR,
		.env = { "DRIVER_INSTALL_DIR" },
		.arg = "DIR",
		.def = DRIVER_DIR,
		.help = "root of the driver container, on the node" },
	{ .name = "driver-install-dir-ctr-path",
		.type = OPTION_STR,
		.env = { "DRIVER_INSTALL_DIR_CTR_PATH" },
		.arg = "DIR",
		.def = DRIVER_DIR,
		.help = "the same, as this process sees it" },
	{ .name = "driver-validation-skip-gpu-init",
		.type = OPTION_BOOL,
		.env = { "DRIVER_VALIDATION_SKIP_GPU_INIT" },
		.help = "driver: only 'nvidia-smi --version', which leaves GPUs alone" },
	{ .name = "host-root",
		.type = OPTION_STR,
		.env = { "HOST_ROOT" },
		.arg = "DIR",
		.def = "/",
		.help = "root of the node, on the node" },
	{ .name = "host-root-ctr-path",
		.type = OPTION_STR,
		.env = { "HOST_ROOT_CTR_PATH" },
		.arg = "DIR",
		.help = "the same, as this process sees it; /host if there is one, else /" },
	{ .name = "json", .type = OPTION_BOOL, .help = "JSON on standard output" },
	{ .name = "kubeconfig",
		.type = OPTION_STR,
		.env = { "KUBECONFIG" },
		.arg = "FILE",
		.help = "taken for NVIDIA's sake, not used" },
	{ .name = "kubelet-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_KUBELET_DIR" },
		.arg = "DIR",
		.def = DEFAULT_KUBELET_DIR,
		.help = "the kubelet's directory, with pod-resources/" },
	{ .name = "metrics-port",
		.letter = 'p',
		.type = OPTION_UINT,
		.env = { "METRICS_PORT" },
		.arg = "PORT",
		.help = "taken for NVIDIA's sake, not used" },
	{ .name = "mig-strategy",
		.letter = 'm',
		.type = OPTION_STR,
		.env = { "MIG_STRATEGY" },
		.arg = "NAME",
		.help = "taken for NVIDIA's sake, not used" },
	{ .name = "namespace",
		.alias = "ns",
		.type = OPTION_STR,
		.env = { "OPERATOR_NAMESPACE" },
		.arg = "NAME",
		.help = "taken for NVIDIA's sake: no pod is created" },
	{ .name = "node-name",
		.letter = 'n',
		.type = OPTION_STR,
		.env = { "NODE_NAME" },
		.arg = "NAME",
		.help = "taken for NVIDIA's sake: no API server is asked" },
	{ .name = "nvml",
		.type = OPTION_STR,
		.env = { "GPUSLICE_NVML" },
		.arg = "PATH",
		.help = "libnvidia-ml.so.1, instead of the driver's" },
	{ .name = "output-dir",
		.letter = 'o',
		.type = OPTION_STR,
		.env = { "OUTPUT_DIR" },
		.arg = "DIR",
		.def = OUTPUT_DIR,
		.help = "where the status files are; empty: write none" },
	{ .name = "own-root",
		.type = OPTION_STR,
		.arg = "DIR",
		.def = "/",
		.help = "toolkit: root whose dev/ must have the device nodes" },
	{ .name = "procfs",
		.type = OPTION_STR,
		.env = { "GPUSLICE_PROCFS" },
		.arg = "DIR",
		.def = "/proc",
		.help = "where device numbers and the capabilities of MIG instances are read" },
	{ .name = "require",
		.type = OPTION_LIST,
		.arg = "RESOURCE[=COUNT],...",
		.help = "plugin: what must be offered, with so many healthy devices" },
	{ .name = "run-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_RUN_DIR" },
		.arg = "DIR",
		.def = DEFAULT_RUN_DIR,
		.help = "run directory of the agent" },
	{ .name = "sleep-interval-seconds",
		.letter = 's',
		.type = OPTION_UINT,
		.env = { "SLEEP_INTERVAL_SECONDS" },
		.arg = "N",
		.def = "5",
		.help = "with --with-wait: seconds between tries, if nothing changes before" },
	{ .name = "timeout",
		.type = OPTION_DURATION,
		.arg = "TIME",
		.help = "for one call into the driver (default: 30s for CUDA, 5s for NVML)" },
	{ .name = "watch",
		.type = OPTION_DURATION,
		.arg = "TIME",
		.help = "validate again and again, and take back what is not valid any more" },
	{ .name = "watch-failures",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "3",
		.help = "with --watch: failures in a row that take it back" },
	{ .name = "with-wait",
		.letter = 'w',
		.type = OPTION_BOOL,
		.env = { "WITH_WAIT" },
		.help = "try until it passes" },
	{ .name = "with-workload",
		.letter = 'l',
		.type = OPTION_BOOL,
		.env = { "WITH_WORKLOAD" },
		.def = "true",
		.help = "cuda: have the GPUs compute something" },
};

/* --- options --- */

/* NVIDIA's validator requires these options because of its pods. Users' scripts know the error
 * texts. */
static int check_needs(enum validate_component c, const struct options *o, struct error *err)
{
	const char *name = validate_component_name(c);

	if (c == VALIDATE_PLUGIN && !*option_str(o, "node-name", ""))
		return error_set(err, ERR_INVALID,
			"invalid -n <node-name> flag: must not be empty string for %s validation",
			name);
	if ((c == VALIDATE_PLUGIN || c == VALIDATE_CUDA) && !*option_str(o, "namespace", ""))
		return error_set(err, ERR_INVALID,
			"invalid -ns <namespace> flag: must not be empty string for %s validation",
			name);
	return 0;
}

static int read_component(struct run_options *run, const char *name, bool theirs,
	struct error *err)
{
	enum validate_component c;
	const char *advice;

	if (validate_component_find(name, &c, &advice)) {
		for (size_t i = 0; i < run->n; i++) {
			if (run->list[i] == c)
				return error_set(err, ERR_INVALID,
					"component '%s' is given twice", name);
		}
		run->list[run->n++] = c;
		return 0;
	}
	if (advice)
		return error_set(err, ERR_INVALID, "component '%s' is not validated here: %s",
			name, advice);
	if (theirs)
		return error_set(err, ERR_INVALID,
			"invalid -c <component-name> flag value: %.100s", name);
	return error_set(err, ERR_INVALID,
		"unknown component '%.100s'; there are driver, toolkit, cdi, cuda and plugin",
		name);
}

static int parse_component_args(struct run_options *run, const struct options *o,
	struct error *err)
{
	const char *theirs = option_str(o, "component", NULL);

	/* Arguments on the command line win over a variable, as in all commands. */
	if (theirs && o->args.n > 0 && option_get(o, "component")->source == OPTION_FROM_ARGS)
		return error_set(err, ERR_INVALID,
			"either -c or components as arguments, not both");
	if (theirs && o->args.n == 0) {
		if (!*theirs)
			return error_set(err, ERR_INVALID,
				"invalid -c <component-name> flag: must not be empty string");
		return read_component(run, theirs, true, err) < 0
			       ? -1
			       : check_needs(run->list[0], o, err);
	}
	for (size_t i = 0; i < o->args.n; i++) {
		if (read_component(run, o->args.v[i], false, err) < 0)
			return -1;
	}
	run->skip = run->n == 0;
	for (int i = 0; run->skip && i < VALIDATE_COUNT_; i++)
		run->list[run->n++] = (enum validate_component)i;
	return 0;
}

static int parse_validate_times(struct run_options *run, struct validate_settings *s,
	const struct options *o, struct error *err)
{
	uint64_t interval = option_uint(o, "sleep-interval-seconds", INTERVAL_S);
	int64_t timeout = option_get(o, "timeout")->ns, watch = option_get(o, "watch")->ns;

	if (interval == 0 || interval > INTERVAL_MAX_S)
		return error_set(err, ERR_INVALID,
			"--sleep-interval-seconds: expected 1 to %d, found %llu",
			INTERVAL_MAX_S, (unsigned long long)interval);
	if (timeout < 0 || (option_get(o, "timeout")->source != OPTION_UNSET && timeout == 0))
		return error_set(err, ERR_INVALID, "--timeout: expected more than 0s");
	if (watch < 0 || (option_get(o, "watch")->source != OPTION_UNSET &&
				 (uint64_t)watch < NS_PER_SEC))
		return error_set(err, ERR_INVALID, "--watch: expected at least 1s");
	run->interval_ns = interval * NS_PER_SEC;
	run->watch_ns = (uint64_t)watch;
	run->watch_failures = option_uint(o, "watch-failures", WATCH_FAILURES);
	/* One hour counts as forever here, and keeps multiples of the timeout in range. */
	s->timeout_ns =
		(uint64_t)timeout < 3600 * NS_PER_SEC ? (uint64_t)timeout : 3600 * NS_PER_SEC;
	if (run->watch_failures == 0)
		return error_set(err, ERR_INVALID, "--watch-failures: expected at least 1");
	if (run->watch_ns && option_bool(o, "json", false))
		return error_set(err, ERR_INVALID,
			"--json and --watch do not go together: the JSON is in the status files");
	return 0;
}

static const char *if_there(const char *path, const char *def)
{
	return access(path, F_OK) == 0 ? path : def;
}

static int read_settings(struct validate_settings *s, const struct options *o,
	struct error *err)
{
	char name[VALIDATE_NAME_MAX];
	uint64_t count;

	s->host_root = option_str(o, "host-root", "/");
	s->host_ctr = option_str(o, "host-root-ctr-path", if_there("/host", "/"));
	s->driver_dir = option_str(o, "driver-install-dir", DRIVER_DIR);
	s->driver_ctr = option_str(o, "driver-install-dir-ctr-path", DRIVER_DIR);
	s->own_root = option_str(o, "own-root", "/");
	s->status_dir = option_str(o, "output-dir", OUTPUT_DIR);
	s->dev_char_dir = option_str(o, "dev-char-dir", if_there("/host-dev-char", NULL));
	s->nvml_path = option_str(o, "nvml", NULL);
	s->cuda_path = option_str(o, "cuda", NULL);
	s->run_dir = option_str(o, "run-dir", NULL);
	s->proc_dir = option_str(o, "procfs", NULL);
	s->kubelet_dir = option_str(o, "kubelet-dir", NULL);
	s->cdi_dirs = option_get(o, "cdi-dirs")->list; /* borrowed */
	s->require = option_get(o, "require")->list;
	s->keep_dev = option_bool(o, "disable-dev-char-symlink-creation", false);
	s->skip_gpu_init = option_bool(o, "driver-validation-skip-gpu-init", false);
	s->no_workload = !option_bool(o, "with-workload", true);
	for (size_t i = 0; i < s->require.n; i++) {
		if (!validate_require_parse(s->require.v[i], name, sizeof(name), &count))
			return error_set(err, ERR_INVALID,
				"--require: expected RESOURCE or RESOURCE=COUNT, found '%.100s'",
				s->require.v[i]);
	}
	return 0;
}

/* --- output --- */

static void show_items(struct buf *b, const struct validate_report *r)
{
	for (size_t i = 0; i < r->n_items; i++) {
		const struct validate_item *item = &r->items[i];
		char took[TIME_AGE_MAX] = "";

		if (r->component == VALIDATE_CUDA && item->took_ns > 1)
			time_age(item->took_ns, took);
		buf_printf(b, "  %-9s %s  %s%s%s%s%s\n",
			item->result == VALIDATE_PASS ? "ok"
						      : validate_result_name(item->result),
			item->name, item->detail, *took ? "  " : "", took,
			item->text[0] ? "  " : "", item->text);
	}
}

static int show_table(const struct validate_report *reports, size_t n, struct error *err)
{
	static const char *const heads[] = { "COMPONENT", "RESULT", "CODE", "DETAIL", NULL };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(OUTPUT_MAX);
	CLEANUP(table_fini) struct table t = { .columns = 0 };

	table_init(&t, heads);
	for (size_t i = 0; i < n; i++) {
		table_add(&t, validate_component_name(reports[i].component));
		table_add(&t, validate_result_name(reports[i].result));
		table_add(&t, validate_code_name(reports[i].code));
		table_add(&t, reports[i].text);
	}
	table_print(&t, &b);
	for (size_t i = 0; i < n; i++) {
		const char *advice = validate_code_advice(reports[i].code);

		if (reports[i].n_items == 0 && !*advice)
			continue;
		buf_printf(&b, "\n%s\n", validate_component_name(reports[i].component));
		show_items(&b, &reports[i]);
		if (*advice)
			buf_printf(&b, "  what to do: %s\n", advice);
	}
	if (!buf_ok(&b))
		return error_nomem(err);
	return output_write(NULL, buf_str(&b), b.len, err);
}

static int print_validate_json(const struct validate_report *reports, size_t n,
	struct error *err)
{
	json_auto_t *root = json_object();
	json_t *list = json_array();
	CLEANUP(freep) char *text = NULL;

	for (size_t i = 0; list && i < n; i++)
		(void)json_array_append_new(list, files_json(&reports[i]));
	if (!root || json_object_set_new(root, "components", list) < 0 ||
		json_array_size(list) != n)
		return error_nomem(err);
	text = json_dumps(root, JSON_INDENT(2));
	if (!text)
		return error_nomem(err);
	(void)printf("%s\n", text); /* main.c checks at the end whether the output arrived */
	return 0;
}

/* In the words of NVIDIA's validator, for users and scripts that search logs for them. */
static int print_validator_failures(const struct validate_report *reports, size_t n)
{
	int status = 0;

	for (size_t i = 0; i < n; i++) {
		if (reports[i].result != VALIDATE_FAIL)
			continue;
		(void)fprintf(stderr, "error validating %s: %s\n",
			validate_component_name(reports[i].component), reports[i].text);
		status = EXIT_FINDING;
	}
	return status;
}

static void print_validate_progress(const char *line)
{
	(void)fprintf(stderr, "%s\n", line);
}

static int run_validate_components(const struct run_options *run,
	const struct validate_settings *s, bool json, struct error *err)
{
	struct validate_report reports[VALIDATE_COUNT_] = { { .items = NULL } };
	int r = run->watch_ns ? run_watch(run, s, reports, err)
			      : run_round(run, s, reports, err);
	int status = 0;

	if (r >= 0 && !run->watch_ns) {
		int shown = json ? print_validate_json(reports, run->n, err)
				 : show_table(reports, run->n, err);

		status = print_validator_failures(reports, run->n);
		r = shown < 0 ? shown : r > 0 ? EXIT_FINDING : status;
	} else if (r > 0) {
		r = 0; /* a signal is the normal end of --watch */
	}
	for (size_t i = 0; i < run->n; i++)
		validate_report_fini(&reports[i]);
	return r;
}

static int run_validate_command(const struct cmd *cmd, const struct options *o,
	struct error *err)
{
	struct validate_settings s = { .timeout_ns = 0 };
	struct run_options run = { .progress = print_validate_progress };

	(void)cmd;
	/* This process is the child that the command starts for CUDA: see
	 * tools/validate/validate.h. */
	if (o->args.n > 0 && strcmp(o->args.v[0], CUDA_CHILD_WORD) == 0)
		return cuda_child(o->args.n > 1 ? o->args.v[1] : NULL);
	if (parse_component_args(&run, o, err) < 0 ||
		parse_validate_times(&run, &s, o, err) < 0 || read_settings(&s, o, err) < 0)
		return -1;
	run.output_dir = option_str(o, "output-dir", OUTPUT_DIR);
	run.cleanup = option_bool(o, "cleanup-all", false);
	run.wait = option_bool(o, "with-wait", false);
	return run_validate_components(&run, &s, option_bool(o, "json", false), err);
}

const struct cmd cmd_validate = {
	.name = "validate",
	.usage = "[COMPONENT]... [OPTION]...",
	.summary = "prove that driver, container runtime, CUDA and plugin work here",
	.description =
		"Components: driver, toolkit, cdi, cuda, plugin. Without any, all that make sense on this\n"
		"machine, in this order; one that fails ends the round. Each that passes leaves the file\n"
		"COMPONENT-ready in the output directory, as the GPU operator's validator does.\n\n"
		"Exit status: 0 all pass, 1 one fails, 2 wrong usage.\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_validate_command,
};
