/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cmd.h"

#include "lib/base/buf.h"
#include "lib/base/time.h"
#include "tools/cli/node-probe.h"
#include "tools/cli/output.h"
#include "io/config/config.h"
#include "io/config/json.h"
#include "model/labels/labels.h"
#include "io/nvml/label-facts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * gpuslice labels: prints, once, the node labels that the agent would write, in the form of a feature
 * file. The command takes the flags and variables of gpu-feature-discovery, except those for the
 * NodeFeature object, which only the agent writes. --oneshot has no effect: the command always runs
 * once.
 */

#define OUTPUT_MAX (64U << 10) /* bytes; node feature discovery reads no more of a file */

/* Sorted by name. */
static const struct option_def options[] = {
	{ .name = "config-file",
		.type = OPTION_STR,
		.env = { "GFD_CONFIG_FILE", "CONFIG_FILE" },
		.arg = "FILE",
		.def = "",
		.help = "configuration file, or manifest with a ConfigMap (FILE#ENTRY: that entry of it)" },
	{ .name = "device-discovery-strategy",
		.type = OPTION_STR,
		.env = { "DEVICE_DISCOVERY_STRATEGY" },
		.arg = "STRATEGY",
		.def = "auto",
		.help = "how GPUs are found: auto or nvml" },
	{ .name = "driver-root-ctr-path",
		.alias = "container-driver-root",
		.type = OPTION_STR,
		.env = { "DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT" },
		.arg = "DIR",
		.def = "/driver-root",
		.help = "where the driver root is mounted in this container" },
	{ .name = "fail-on-init-error",
		.type = OPTION_BOOL,
		.env = { "GFD_FAIL_ON_INIT_ERROR", "FAIL_ON_INIT_ERROR" },
		.def = "true",
		.help = "fail if NVML cannot be used; else print the labels of a node without GPUs" },
	{ .name = "json", .type = OPTION_BOOL, .def = "false", .help = "print JSON" },
	{ .name = "machine-type-file",
		.type = OPTION_STR,
		.env = { "GFD_MACHINE_TYPE_FILE" },
		.arg = "FILE",
		.def = "/sys/class/dmi/id/product_name",
		.help = "file with the type of the machine" },
	{ .name = "mig-strategy",
		.type = OPTION_STR,
		.env = { "GFD_MIG_STRATEGY", "MIG_STRATEGY" },
		.arg = "STRATEGY",
		.def = "none",
		.help = "how MIG devices are labelled: none, single or mixed" },
	{ .name = "no-timestamp",
		.type = OPTION_BOOL,
		.env = { "GFD_NO_TIMESTAMP" },
		.def = "false",
		.help = "leave out the label with the time" },
	{ .name = "node",
		.type = OPTION_STR,
		.arg = "MODEL",
		.help = "show the labels of a simulated node of this model, such as p3.8xlarge" },
	{ .name = "nvml",
		.type = OPTION_STR,
		.env = { "GPUSLICE_NVML" },
		.arg = "PATH",
		.help = "NVML library to ask for the GPUs, instead of the driver's" },
	{ .name = "oneshot",
		.type = OPTION_BOOL,
		.env = { "GFD_ONESHOT" },
		.def = "true",
		.help = "accepted for compatibility: labels are made once in any case" },
	{ .name = "output-file",
		.alias = "output",
		.letter = 'o',
		.type = OPTION_STR,
		.env = { "GFD_OUTPUT_FILE" },
		.arg = "FILE",
		.def = "",
		.help = "write this file, a regular one as a whole; - or empty: standard output" },
	{ .name = "procfs",
		.type = OPTION_STR,
		.env = { "GPUSLICE_PROCFS" },
		.arg = "DIR",
		.def = "/proc",
		.help = "where the capabilities of MIG instances are read" },
	{ .name = "sleep-interval",
		.type = OPTION_DURATION,
		.env = { "GFD_SLEEP_INTERVAL" },
		.arg = "TIME",
		.def = "60s",
		.help = "accepted for compatibility, without effect" },
	{ .name = "sysfs",
		.type = OPTION_STR,
		.env = { "GPUSLICE_SYSFS" },
		.arg = "DIR",
		.def = "/sys",
		.help = "where PCI devices are looked up" },
	{ .name = "use-node-feature-api",
		.type = OPTION_BOOL,
		.env = { "GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API" },
		.def = "false",
		.help = "only false: NodeFeature objects are written by the agent" },
};

struct labels_output {
	const struct options *o;
	struct labels *labels;
	struct strv notes; /* for the user, on standard error */
	const char *entry; /* of the ConfigMap; NULL: expect one config only */
	uint32_t n;        /* matching configs found */
	struct error err;  /* of the first config */
};

/* --- options over the config --- */

static int choose_mig(const struct options *o, struct config *c, struct error *err)
{
	static const char *const names[] = {
		[MIG_STRATEGY_NONE] = "none",
		[MIG_STRATEGY_SINGLE] = "single",
		[MIG_STRATEGY_MIXED] = "mixed",
	};
	const char *wanted = option_str(o, "mig-strategy", NULL);

	if (!wanted)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(names[i], wanted) == 0) {
			c->mig_strategy = (enum mig_strategy)i;
			return 0;
		}
	}
	return error_set(err, ERR_INVALID,
		"unknown MIG strategy: %s; expected none, single or mixed", wanted);
}

static int check_options(const struct options *o, struct error *err)
{
	const char *strategy = option_str(o, "device-discovery-strategy", "auto");
	const struct option_value *api = option_get(o, "use-node-feature-api");

	if (strcmp(strategy, "auto") != 0 && strcmp(strategy, "nvml") != 0)
		return error_set(err, ERR_UNSUPPORTED,
			"--device-discovery-strategy: expected auto or nvml, found '%s'",
			strategy);
	/* A variable is meant for the agent: this command may run in the agent's container. Only the
	 * option is refused. */
	if (api->source == OPTION_FROM_ARGS && api->b)
		return error_set(err, ERR_UNSUPPORTED,
			"--use-node-feature-api: NodeFeature objects are written by the agent; "
			"this command prints labels or writes a file");
	if (o->args.n)
		return error_set(err, ERR_INVALID, "expected no argument, found '%s'",
			o->args.v[0]);
	return 0;
}

/* --- building the labels --- */

/*
 * A simulated node has no files except those of its GPUs. Its machine type is the name of its model,
 * as on the machines that the models are named after.
 */
static int read_node_label_facts(const struct labels_output *output, const struct config *c,
	struct label_facts_store *facts, struct strv *notes, struct error *err)
{
	const char *model = option_str(output->o, "node", NULL);
	const char *file = option_str(output->o, "machine-type-file",
		model ? "" : c->gfd.machine_type_file);

	if (label_facts_read(facts, file, option_str(output->o, "sysfs", NULL), notes, err) < 0)
		return -1;
	if (model)
		facts->facts.vgpu = VGPU_UNKNOWN;
	if (model && !facts->facts.machine && !strchr(model, '/'))
		facts->facts.machine = model;
	if (!option_bool(output->o, "no-timestamp", c->gfd.no_timestamp))
		facts->facts.timestamp_s = time_wall_ns() / NS_PER_SEC;
	return 0;
}

static int probe_labels_node(const struct labels_output *output, const struct config *c,
	struct node_probe *node, struct error *err)
{
	const char *root =
		option_str(output->o, "driver-root-ctr-path", c->container_driver_root);
	const struct node_roots roots = { .sysfs = option_str(output->o, "sysfs", NULL),
		.procfs = option_str(output->o, "procfs", NULL) };

	/* A library named by --nvml is no exception: .nvml has the error of NVML. */
	if (node_probe(node, output->o, root, &roots, err) < 0 && node->nvml.code == ERR_NONE)
		return -1;
	if (node->inv)
		return 0;
	if (option_bool(output->o, "fail-on-init-error", c->fail_on_init_error)) {
		error_copy(err, &node->nvml);
		return -1;
	}
	error_clear(err);
	return inventory_new(&node->inv, 0, err);
}

static int build_node_labels(struct labels_output *output, struct config *c, struct error *err)
{
	struct label_facts_store facts = { .machine = NULL };
	struct node_probe node = { .inv = NULL };
	int r = choose_mig(output->o, c, err);

	if (r >= 0)
		r = probe_labels_node(output, c, &node, err);
	if (r >= 0 && node.nvml.code != ERR_NONE)
		r = strv_add(&output->notes, node.nvml.msg, err);
	if (r >= 0)
		r = read_node_label_facts(output, c, &facts, &output->notes, err);
	if (r >= 0)
		r = labels_new(&output->labels, node.inv, c, &facts.facts, &output->notes, err);
	label_facts_fini(&facts);
	inventory_free(node.inv);
	return r;
}

static void each_config(void *arg, const char *name, const char *text, struct config *config,
	const struct strv *warnings, const struct error *err, const struct strv *more)
{
	const char *entry = strrchr(name, '#');
	struct labels_output *output = arg;
	int r = 0;

	(void)more; /* `config check` reports them */
	if (!text || (output->entry && (!entry || strcmp(entry + 1, output->entry) != 0)) ||
		output->n++ > 0)
		return;
	for (size_t i = 0; i < warnings->n && r >= 0; i++)
		r = strv_add(&output->notes, warnings->v[i], &output->err);
	if (r >= 0 && err)
		error_copy(&output->err, err);
	else if (r >= 0)
		(void)build_node_labels(output, config, &output->err);
}

static const char *ignore_labels_env(const char *name)
{
	(void)name;
	return NULL;
}

static int make_from_file(struct labels_output *output, const char *file, struct error *err)
{
	const struct config_sources sources = { .env = ignore_labels_env };
	CLEANUP(freep) char *path = strdup(file);
	char *hash = path ? strrchr(path, '#') : NULL;

	if (!path)
		return error_nomem(err);
	if (hash && access(path, F_OK) != 0) {
		*hash = '\0';
		output->entry = hash + 1;
	}
	if (config_each(path, &sources, each_config, output, err) < 0)
		return -1;
	if (output->n != 1)
		return error_set(err, ERR_INVALID,
			"--config-file: expected one config, found %u in '%s'; FILE#ENTRY names "
			"one of a ConfigMap",
			output->n, file);
	if (output->err.code != ERR_NONE) {
		error_copy(err, &output->err);
		return -1;
	}
	return 0;
}

static int make_from_defaults(struct labels_output *output, struct error *err)
{
	CLEANUP(config_freep) struct config *c = NULL;

	return config_new(&c, err) < 0 ? -1 : build_node_labels(output, c, err);
}

/* --- output --- */

static int as_json(const struct labels *l, struct buf *b, struct error *err)
{
	json_t *o = json_object();
	char *text;

	for (size_t i = 0; o && i < l->n; i++)
		(void)json_object_set_new(o, l->v[i].key, json_string(l->v[i].value));
	text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	json_decref(o);
	if (!text)
		return error_nomem(err);
	buf_printf(b, "%s\n", text);
	free(text);
	return 0;
}

static int write_labels_output(const struct labels_output *output, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(OUTPUT_MAX);

	for (size_t i = 0; i < output->notes.n; i++)
		(void)fprintf(stderr, "gpuslice labels: note: %s\n", output->notes.v[i]);
	if (option_bool(output->o, "json", false)) {
		if (as_json(output->labels, &b, err) < 0)
			return -1;
	} else {
		for (size_t i = 0; i < output->labels->n; i++)
			buf_printf(&b, "%s=%s\n", output->labels->v[i].key,
				output->labels->v[i].value);
	}
	if (!buf_ok(&b))
		return error_set(err, ERR_LIMIT, "more than %u bytes of labels", OUTPUT_MAX);
	return output_write(option_str(output->o, "output-file", NULL), buf_str(&b), b.len,
		err);
}

static int run_labels_command(const struct cmd *cmd, const struct options *o, struct error *err)
{
	struct labels_output output = { .o = o };
	const char *path = option_str(o, "config-file", "");
	int r = check_options(o, err);

	(void)cmd;
	if (r >= 0)
		r = path[0] ? make_from_file(&output, path, err)
			    : make_from_defaults(&output, err);
	if (r >= 0)
		r = write_labels_output(&output, err);
	labels_free(output.labels);
	strv_fini(&output.notes);
	return r;
}

const struct cmd cmd_labels = {
	.name = "labels",
	.usage = "[OPTION]...",
	.summary = "print the node labels that describe the GPUs",
	.description =
		"The labels of GPU feature discovery, one KEY=VALUE a line, as the agent writes them and\n"
		"as node feature discovery reads them from a file. It takes the options of\n"
		"gpu-feature-discovery; what is odd is told on standard error.\n"
		"\n"
		"  gpuslice labels\n"
		"  gpuslice labels --node p3.8xlarge --config-file time-slicing-config.yaml#p3.8xlarge\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_labels_command,
};
