/* SPDX-License-Identifier: Apache-2.0 */

/* gpuslice cdi: prints the CDI specification that the agent would write for a node, and lists the
 * names that a container runtime finds. */
#include "tools/cli/cmd.h"

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/report/table.h"
#include "tools/cli/cdi-list/cdi-list.h"
#include "tools/cli/node-probe.h"
#include "tools/cli/output.h"
#include "io/cdi/cdi.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LIST_OUTPUT_MAX_BYTES (16 * 1024 * 1024)
#define LIST_FILES_MAX        1024
#define LIST_DEVICES_MAX      16384 /* in all files */

static const struct option_def options[] = {
	{ .name = "cdi-dir",
		.type = OPTION_LIST,
		.arg = "DIR",
		.def = "/etc/cdi,/var/run/cdi",
		.help = "list: where specifications are; of two, a later directory's counts" },
	{ .name = "cdi-disable-hooks",
		.type = OPTION_LIST,
		.env = { "CDI_DISABLE_HOOKS" },
		.arg = "LIST",
		.def = "",
		.help = "CDI hooks to leave out, by name; all: none is written" },
	{ .name = "cdi-feature-flags",
		.type = OPTION_LIST,
		.env = { "CDI_FEATURE_FLAGS" },
		.arg = "LIST",
		.def = "",
		.help = "what CDI specifications contain: disable-ipc-discoverer and others" },
	{ .name = "class",
		.type = OPTION_STR,
		.arg = "CLASS",
		.def = "gpu",
		.help = "generate: gpu, imex-channel, gdrcopy, gds or mofed" },
	{ .name = "dev-root",
		.alias = "nvidia-dev-root",
		.type = OPTION_STR,
		.env = { "NVIDIA_DEV_ROOT" },
		.arg = "DIR",
		.def = "",
		.help = "root of the device nodes, as the host sees it; empty: the driver root" },
	{ .name = "device-id-strategy",
		.type = OPTION_STR,
		.env = { "DEVICE_ID_STRATEGY" },
		.arg = "STRATEGY",
		.def = "uuid",
		.help = "what names a GPU: uuid or index" },
	{ .name = "driver-root",
		.alias = "nvidia-driver-root",
		.type = OPTION_STR,
		.env = { "NVIDIA_DRIVER_ROOT" },
		.arg = "DIR",
		.def = "/",
		.help = "root of the driver installation, as the host sees it" },
	{ .name = "driver-root-ctr-path",
		.alias = "container-driver-root",
		.type = OPTION_STR,
		.env = { "DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT" },
		.arg = "DIR",
		.def = "/driver-root",
		.help = "where the driver root is seen from here" },
	{ .name = "node",
		.type = OPTION_STR,
		.arg = "MODEL",
		.help = "generate: for a simulated node of this model, such as p3.8xlarge" },
	{ .name = "nvidia-cdi-hook-path",
		.alias = "nvidia-ctk-path",
		.type = OPTION_STR,
		.env = { "NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH" },
		.arg = "PATH",
		.def = "",
		.help = "program for CDI hooks on the host; empty: no hooks" },
	{ .name = "nvml",
		.type = OPTION_STR,
		.env = { "GPUSLICE_NVML" },
		.arg = "PATH",
		.help = "NVML library to ask for the GPUs, instead of the driver's" },
	{ .name = "output",
		.letter = 'o',
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "generate: write this file, a regular one as a whole; -: standard output" },
	{ .name = "procfs",
		.type = OPTION_STR,
		.env = { "GPUSLICE_PROCFS" },
		.arg = "DIR",
		.def = "/proc",
		.help = "where the capabilities of MIG instances are read" },
	{ .name = "sysfs",
		.type = OPTION_STR,
		.env = { "GPUSLICE_SYSFS" },
		.arg = "DIR",
		.def = "/sys",
		.help = "where the graphics nodes of a GPU are read" },
};

/* --- generate --- */

static int set_cdi_config_text(char **at, const char *text, struct error *err)
{
	char *copy = strdup(text);

	if (!copy)
		return error_nomem(err);
	free(*at);
	*at = copy;
	return 0;
}

static int choose_ids(struct config *c, const char *strategy, struct error *err)
{
	if (!strcmp(strategy, "index"))
		c->device_id = DEVICE_ID_INDEX;
	else if (strcmp(strategy, "uuid") != 0)
		return error_set(err, ERR_INVALID,
			"--device-id-strategy: expected uuid or index, found '%.60s'",
			strategy);
	return 0;
}

/* The options have the names and the meaning of the agent's flags. */
static int make_cdi_config(struct config **ret, const struct options *o, struct error *err)
{
	CLEANUP(config_freep) struct config *c = NULL;
	const char *root = option_str(o, "driver-root", "/"),
		   *dev = option_str(o, "dev-root", "");
	const char *hook = option_str(o, "nvidia-cdi-hook-path", "");

	if (config_new(&c, err) < 0 || set_cdi_config_text(&c->driver_root, root, err) < 0 ||
		set_cdi_config_text(&c->dev_root, *dev ? dev : root, err) < 0 ||
		set_cdi_config_text(&c->container_driver_root,
			option_str(o, "driver-root-ctr-path", "/driver-root"), err) < 0 ||
		set_cdi_config_text(&c->cdi_hook_path, hook, err) < 0 ||
		choose_ids(c, option_str(o, "device-id-strategy", "uuid"), err) < 0 ||
		strv_copy(&c->cdi_features, &option_get(o, "cdi-feature-flags")->list, err) <
			0 ||
		strv_copy(&c->cdi_disabled_hooks, &option_get(o, "cdi-disable-hooks")->list,
			err) < 0)
		return -1;
	c->cdi_hook_path_set = *hook != '\0';
	c->imex_channel0 = c->gdrcopy = c->gds = c->mofed = true; /* --class selects */
	*ret = STEAL_PTR(c);
	return 0;
}

struct cdi_generation {
	const struct options *o;
	struct config *config;
	enum cdi_class class_;
	char *text;
};

/* A simulated node has its files below the directory @root; the host has its files in "/" (@root
 * NULL). */
static int make_spec(void *arg, const struct inventory *inv, const char *root,
	struct error *err)
{
	CLEANUP(cdi_found_freep) struct cdi_found *found = NULL;
	struct cdi_generation *w = arg;
	char sysfs[PATH_MAX];
	int r;

	(void)snprintf(sysfs, sizeof(sysfs), "%s%s", root ? root : "",
		root ? "/sys" : option_str(w->o, "sysfs", "/sys"));
	if ((root && set_cdi_config_text(&w->config->container_driver_root, root, err) < 0) ||
		cdi_search(&found, w->config, inv, sysfs, err) < 0)
		return -1;
	r = cdi_spec_new(&w->text, w->class_, found, w->config, err);
	if (r == CDI_E_EMPTY)
		return error_set(err, ERR_NOT_FOUND, "this node has no device of class %s",
			cdi_class_name(w->class_));
	return r;
}

static int generate_cdi_spec(struct cdi_generation *w, struct error *err)
{
	const char *class_ = option_str(w->o, "class", "gpu");
	const struct node_roots roots = { .sysfs = option_str(w->o, "sysfs", NULL),
		.procfs = option_str(w->o, "procfs", NULL) };
	struct node_probe node = { .inv = NULL };
	int r;

	if (!cdi_class_find(class_, &w->class_))
		return error_set(err, ERR_INVALID,
			"--class: expected gpu, imex-channel, gdrcopy, gds or mofed, found '%.60s'",
			class_);
	if (make_cdi_config(&w->config, w->o, err) < 0)
		return -1;
	r = node_probe_and_call(&node, w->o, w->config->container_driver_root, &roots,
		make_spec, w, err);
	if (r >= 0 && !node.inv) {
		error_copy(err, &node.nvml);
		r = -1;
	}
	(void)inventory_free(node.inv);
	return r < 0 ? r
		     : output_write(option_str(w->o, "output", NULL), w->text, strlen(w->text),
			       err);
}

static int run_cdi_generate(const struct options *o, struct error *err)
{
	struct cdi_generation w = { .o = o };
	int r = generate_cdi_spec(&w, err);

	(void)config_free(w.config);
	free(w.text);
	return r;
}

/* --- list --- */

struct cdi_row {
	char *name; /* fully qualified */
	char *file;
	size_t dir; /* position of its directory; the last directory has precedence */
	bool hidden, in_conflict;
};

struct list {
	struct cdi_row *rows;
	size_t n, room;
	size_t n_files;
	int exit_code; /* for the first bad file */
};

static void list_free(struct list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->rows[i].name);
		free(l->rows[i].file);
	}
	free(l->rows);
}

static int add_cdi_list_row(struct list *l, const char *kind, const char *device,
	const char *file, size_t dir, struct error *err)
{
	struct cdi_row *r;

	if (l->n >= LIST_DEVICES_MAX)
		return error_set(err, ERR_LIMIT, "'%s': more than %d CDI devices in all", file,
			LIST_DEVICES_MAX);
	if (!ARRAY_GROW(&l->rows, l->n, &l->room, LIST_DEVICES_MAX))
		return error_nomem(err);
	r = &l->rows[l->n++];
	*r = (struct cdi_row){ .file = strdup(file), .dir = dir };
	if (asprintf(&r->name, "%s=%s", kind, device) < 0)
		r->name = NULL;
	return r->name && r->file ? 0 : error_nomem(err);
}

/* Reports a file that no runtime accepts on standard error, and goes on with the others. */
static int read_spec(struct list *l, const char *path, size_t dir, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(CDI_SPEC_MAX_BYTES);
	CLEANUP(cdi_listed_fini) struct cdi_listed listed = { .kind = NULL };
	struct error why = ERROR_INIT;

	if (file_read(path, &b, &why) < 0 ||
		cdi_list_parse(&listed, path, buf_str(&b), b.len, &why) < 0) {
		(void)fprintf(stderr, "%s\n", why.msg);
		if (!l->exit_code)
			l->exit_code = error_class(why.code)->exit_code;
		return 0;
	}
	for (size_t i = 0; i < listed.devices.n; i++)
		if (add_cdi_list_row(l, listed.kind, listed.devices.v[i], path, dir, err) < 0)
			return -1;
	return 0;
}

static int select_spec(const struct dirent *e)
{
	const char *dot = strrchr(e->d_name, '.');

	return dot && (!strcmp(dot, ".json") || !strcmp(dot, ".yaml"));
}

static int read_cdi_dir(struct list *l, const char *dir, size_t position, struct error *err)
{
	struct dirent **names = NULL;
	int n = scandir(dir, &names, select_spec, alphasort), r = 0;

	if (n < 0)
		return errno == ENOENT ? 0
				       : error_sys(err, errno, "read the directory '%s'", dir);
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];

		if (r == 0 && ++l->n_files > LIST_FILES_MAX)
			r = error_set(err, ERR_LIMIT, "'%s': more than %d specifications", dir,
				LIST_FILES_MAX);
		if (r == 0)
			r = path_join(path, sizeof(path), dir, names[i]->d_name, err);
		if (r == 0)
			r = read_spec(l, path, position, err);
		free(names[i]);
	}
	free(names);
	return r;
}

static int compare_cdi_rows(const void *a, const void *b)
{
	const struct cdi_row *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	if (r == 0 && x->dir != y->dir)
		r = x->dir < y->dir ? 1 : -1; /* highest precedence first */
	return r ? r : strcmp(x->file, y->file);
}

/* Of rows with one name, the row of the last directory counts. Two rows in that directory make each
 * other unusable. */
static void mark_cdi_conflicts(struct list *l)
{
	for (size_t i = 0, first = 0; i < l->n; i++) {
		struct cdi_row *r = &l->rows[i];

		if (i == 0 || strcmp(l->rows[first].name, r->name) != 0) {
			first = i;
		} else if (l->rows[first].dir == r->dir) {
			l->rows[first].in_conflict = r->in_conflict = true;
		} else {
			r->hidden = true;
		}
	}
}

static int print_list(const struct list *l, struct error *err)
{
	static const char *const heads[] = { "DEVICE", "FILE", NULL };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIST_OUTPUT_MAX_BYTES);
	CLEANUP(table_fini) struct table t = { .columns = 0 };

	table_init(&t, heads);
	for (size_t i = 0; i < l->n; i++) {
		const struct cdi_row *r = &l->rows[i];

		table_add(&t, r->name);
		table_addf(&t, "%s%s", r->file,
			r->in_conflict ? " (in conflict: of no use)"
			: r->hidden    ? " (hidden by the above)"
				       : "");
	}
	if (table_has_rows(&t))
		table_print(&t, &b);
	else
		buf_puts(&b, "no CDI devices\n");
	if (!buf_ok(&b) || t.failed)
		return error_nomem(err);
	return output_write(NULL, buf_str(&b), b.len, err);
}

static int run_cdi_list(const struct options *o, struct error *err)
{
	static const char *const usual[] = { "/etc/cdi", CDI_DIR };
	const struct strv *dirs = &option_get(o, "cdi-dir")->list;
	struct list l = { .rows = NULL };
	int r = 0;

	for (size_t i = 0; r == 0 && !dirs->n && i < ARRAY_LEN(usual); i++)
		r = read_cdi_dir(&l, usual[i], i, err);
	for (size_t i = 0; r == 0 && i < dirs->n; i++)
		r = read_cdi_dir(&l, dirs->v[i], i, err);
	if (r == 0) {
		if (l.n)
			qsort(l.rows, l.n, sizeof(*l.rows), compare_cdi_rows);
		mark_cdi_conflicts(&l);
		(void)fflush(stderr);
		r = print_list(&l, err);
	}
	list_free(&l);
	return r < 0 ? r : l.exit_code;
}

static int run_cdi_command(const struct cmd *cmd, const struct options *o, struct error *err)
{
	const char *action = o->args.n ? o->args.v[0] : "";

	(void)cmd;
	if (o->args.n > 1)
		return error_set(err, ERR_INVALID, "unexpected argument '%.60s'", o->args.v[1]);
	if (!strcmp(action, "generate"))
		return run_cdi_generate(o, err);
	if (!strcmp(action, "list"))
		return run_cdi_list(o, err);
	return error_set(err, ERR_INVALID, "expected generate or list, found '%.60s'", action);
}

const struct cmd cmd_cdi = {
	.name = "cdi",
	.usage = "generate|list [OPTION]...",
	.summary = "show a node's CDI specification, or the CDI devices that there are",
	.description =
		"Actions:\n"
		"  generate  the specification of this node, or of a simulated one, as the agent\n"
		"            writes it with the same flags and variables\n"
		"  list      the names of all CDI devices, of any vendor, and the files they are\n"
		"            from; files that a container runtime would pass over are told on\n"
		"            standard error and make the exit status non-zero\n"
		"\n"
		"Example:\n"
		"  gpuslice cdi generate --node p3.8xlarge\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_cdi_command,
};
