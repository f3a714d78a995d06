/* SPDX-License-Identifier: Apache-2.0 */

/* gpuslice mig apply and restore: bring the node to the state of a config or of a checkpoint. */
#include "lib/base/paths.h"
#include "tools/cli/mig/mig.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "io/mig-editor/command.h"
#include "io/mig-editor/lock.h"

#define LOCK_WAIT_NS (10 * NS_PER_SEC)
#define IGNORED_MAX  1024 /* processes */

static volatile sig_atomic_t mig_stop_requested;

static void request_mig_stop(int signal)
{
	(void)signal;
	mig_stop_requested = 1;
}

struct mig_change {
	const struct options *o;
	struct mig_progress progress;
	struct mig_editor *editor;
	const struct mig_config *config;         /* of apply */
	const struct mig_checkpoint *checkpoint; /* of restore */
	const struct mig_hooks *hooks;           /* NULL: none */
	struct strv env;                         /* of the hooks */
	struct strv notes;                       /* already printed */
	uint32_t ignored[IGNORED_MAX];
	bool debug;
};

/* --- the desired state --- */

static void print_new_mig_notes(struct mig_change *c, const struct strv *notes)
{
	for (size_t i = 0; i < notes->n; i++) {
		if (!strv_has(&c->notes, notes->v[i])) {
			mig_progress_note(&c->progress, notes->v[i]);
			(void)!strv_add(&c->notes, notes->v[i], NULL);
		}
	}
}

static int skip_mig_gpu(struct error *err, const char *why)
{
	(void)error_set(err, ERR_NOT_FOUND, "%s", why);
	return 1;
}

/* Some drivers report profiles only while MIG is on. For these only .enabled is set now, and the
 * editor asks again. */
static bool is_mig_layout_unknown(const struct mig_node_gpu *g, bool enabled,
	struct mig_desired *ret)
{
	if (!enabled || g->state.enabled || !g->state.capable || g->layout.n)
		return false;
	*ret = (struct mig_desired){ .enabled = true };
	return true;
}

/* Removes the GPU from the text: the reporter of the error adds it. */
static void without_gpu(const struct mig_node_gpu *g, struct error *err)
{
	char prefix[32 + sizeof(g->uuid)];

	for (int i = 0; i < 2; i++) {
		size_t len =
			(size_t)(i ? snprintf(prefix, sizeof(prefix), "GPU %u (%s): ", g->index,
					     g->uuid)
				   : snprintf(prefix, sizeof(prefix), "GPU %u: ", g->index));

		if (!strncmp(err->msg, prefix, len))
			memmove(err->msg, err->msg + len, strlen(err->msg + len) + 1);
	}
}

static int want_config(struct mig_change *c, const struct mig_node_gpu *g,
	struct mig_desired *ret, struct error *err)
{
	const struct mig_entry *e = mig_config_entry(c->config, g);
	CLEANUP(strv_fini) struct strv notes = STRV_INIT;
	char text[64];
	int r;

	if (!e)
		return skip_mig_gpu(err, "the config is not about it");
	if (g->fault.code) {
		error_copy(err, &g->fault);
		return error_prefix(err, "it cannot be read");
	}
	if (is_mig_layout_unknown(g, e->enabled, ret))
		return 0;
	r = mig_entry_want(e, g, ret, &notes, err);
	if (r < 0)
		without_gpu(g, err);
	if (r > 0 && e->enabled) { /* the config wants MIG on all GPUs, but this one has none */
		(void)snprintf(text, sizeof(text), "GPU %u has no MIG and is left alone",
			g->index);
		(void)!strv_add(&notes, text, NULL);
	}
	if (r >= 0)
		print_new_mig_notes(c, &notes);
	return r > 0 ? skip_mig_gpu(err, "it has no MIG") : r;
}

static int want_saved(struct mig_change *c, const struct mig_node_gpu *g,
	struct mig_desired *ret, struct error *err)
{
	const struct mig_saved_gpu *s = mig_checkpoint_find(c->checkpoint, g->uuid);

	if (!s)
		return skip_mig_gpu(err, "the checkpoint does not have it");
	if (g->fault.code) {
		error_copy(err, &g->fault);
		return error_prefix(err, "it cannot be read");
	}
	if (is_mig_layout_unknown(g, s->enabled, ret))
		return 0;
	if (mig_checkpoint_want(s, g, ret, err) == 0)
		return 0;
	without_gpu(g, err);
	return -1;
}

static int get_desired_mig(void *arg, const struct mig_node_gpu *g, struct mig_desired *ret,
	struct error *err)
{
	struct mig_change *c = arg;

	return c->config ? want_config(c, g, ret, err) : want_saved(c, g, ret, err);
}

/* --- hooks and resets --- */

static bool has_mig_change_hook(void *arg, enum mig_hook_point p)
{
	struct mig_change *c = arg;

	return c->hooks && mig_hooks_find(c->hooks, mig_hook_point_name(p));
}

static int run_mig_change_hooks(void *arg, enum mig_hook_point p, struct error *err)
{
	struct mig_change *c = arg;
	const struct mig_hook_list *list = mig_hooks_find(c->hooks, mig_hook_point_name(p));

	for (size_t i = 0; i < list->n; i++)
		mig_progress_hook(&c->progress, list->name, list->hooks[i].command);
	return mig_hook_run(list, &c->env, c->debug, err);
}

static int reset_changed_gpus(void *arg, const char *const *bus_ids, uint32_t n,
	struct error *err)
{
	struct mig_change *c = arg;

	return mig_reset_gpus(option_str(c->o, "driver-root", NULL), bus_ids, n, c->debug, err);
}

/* Gives hooks the variables of mig-parted, with the values of this run; the debug flag is passed
 * separately. */
static int make_mig_hook_env(struct mig_change *c, struct error *err)
{
	static const char prefix[] = "MIG_PARTED_";

	for (size_t i = 0; i < c->o->n_defs; i++) {
		const struct option_def *d = &c->o->defs[i];
		const char *name = d->env[0], *value;
		char text[1024];

		if (!name || strncmp(name, prefix, strlen(prefix)) != 0 ||
			!strcmp(d->name, "debug"))
			continue;
		if (d->type == OPTION_BOOL)
			value = option_bool(c->o, d->name, false) ? "true" : "false";
		else
			value = option_str(c->o, d->name, "");
		if (snprintf(text, sizeof(text), "%s=%s", name, value) >= (int)sizeof(text))
			return error_set(err, ERR_LIMIT, "--%s is too long", d->name);
		if (strv_add(&c->env, text, err) < 0)
			return -1;
	}
	return 0;
}

/* --- progress --- */

static void on_mig_change_planned(void *arg, const struct mig_node_gpu *g,
	const struct mig_plan *plan)
{
	mig_progress_planned(&((struct mig_change *)arg)->progress, g, plan);
}

static void on_mig_change_step(void *arg, const struct mig_node_gpu *g,
	const struct mig_step *s, uint32_t n, uint32_t of, bool undo)
{
	mig_progress_step(&((struct mig_change *)arg)->progress, g, s, n, of, undo);
}

static void on_mig_change_reset(void *arg, const struct mig_node_gpu *g)
{
	mig_progress_resetting(&((struct mig_change *)arg)->progress, g);
}

static void gpu_done(void *arg, const struct mig_node_gpu *g, enum mig_result result,
	const struct error *why)
{
	mig_progress_gpu(&((struct mig_change *)arg)->progress, g, result, why);
}

/* --- the change --- */

static int lock_mig_changes(const struct mig_change *c, bool dry_run, struct error *err)
{
	if (dry_run)
		return -1;
	return mig_lock_acquire(option_str(c->o, "run-dir", DEFAULT_RUN_DIR), LOCK_WAIT_NS,
		&mig_stop_requested, err);
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = request_mig_stop, .sa_flags = SA_RESTART };

	(void)sigaction(SIGINT, &sa, NULL);
	(void)sigaction(SIGTERM, &sa, NULL);
}

static bool get_mig_flag(const struct options *o, const char *name)
{
	for (size_t i = 0; i < o->n_defs; i++) {
		if (!strcmp(o->defs[i].name, name))
			return option_bool(o, name, false);
	}
	return false;
}

/* Every GPU of the checkpoint must be on this node: after a GPU was swapped, nothing is restored in
 * part. */
static int check_saved(const struct mig_change *c, const struct mig_node *node,
	struct error *err)
{
	for (size_t i = 0; i < c->checkpoint->n; i++) {
		bool found = false;

		for (uint32_t k = 0; k < node->n && !found; k++)
			found = !strcmp(node->gpus[k].uuid, c->checkpoint->gpus[i].uuid);
		if (!found)
			return error_set(err, ERR_NOT_FOUND,
				"the checkpoint has GPU '%s', which is not on this node",
				c->checkpoint->gpus[i].uuid);
	}
	return 0;
}

static int check_node(struct mig_change *c, const struct mig_node *node, struct error *err)
{
	CLEANUP(strv_fini) struct strv notes = STRV_INIT;

	if (c->checkpoint)
		return check_saved(c, node, err);
	if (mig_config_notes(c->config, node, &notes, err) < 0)
		return -1;
	print_new_mig_notes(c, &notes);
	return 0;
}

/* Selects among the configs that are generated without a file. Their names depend on the node. */
static int choose_builtin(struct mig_configs **ret, struct mig_change *c,
	const struct mig_node *node, struct error *err)
{
	if (mig_builtin_configs(ret, node, err) < 0)
		return -1;
	if (mig_configs_select(*ret, option_str(c->o, "selected-config", NULL), &c->config,
		    err) < 0)
		return error_prefix(err, "error selecting MIG config");
	return 0;
}

static int ignore_processes(struct mig_change *c, struct error *err)
{
	CLEANUP(strv_fini) struct strv pids = STRV_INIT;
	const char *text = option_str(c->o, "ignore-process", "");

	if (*text && strv_split(&pids, text, ',', err) < 0)
		return -1;
	if (pids.n > IGNORED_MAX)
		return error_set(err, ERR_LIMIT, "--ignore-process: at most %d processes",
			IGNORED_MAX);
	for (size_t i = 0; i < pids.n; i++) {
		if (!parse_u32(pids.v[i], &c->ignored[i]) || c->ignored[i] == 0)
			return error_set(err, ERR_INVALID,
				"--ignore-process: expected process ids like 4711,4712; found '%.40s'",
				pids.v[i]);
	}
	mig_editor_ignore(c->editor, c->ignored, (uint32_t)pids.n);
	return 0;
}

static int apply_mig_change(struct mig_change *c, struct error *err)
{
	CLEANUP(mig_configs_freep) struct mig_configs *builtin = NULL;
	CLEANUP(closep) int lock = -1;
	struct mig_apply a = {
		.mode_only = get_mig_flag(c->o, "mode-only"),
		.skip_reset = get_mig_flag(c->o, "skip-reset"),
		.force = get_mig_flag(c->o, "force"),
		.dry_run = get_mig_flag(c->o, "dry-run"),
		.stop = &mig_stop_requested,
		.get_desired = get_desired_mig,
		.has_hook = has_mig_change_hook,
		.hook = run_mig_change_hooks,
		.reset = reset_changed_gpus,
		.planned = on_mig_change_planned,
		.step = on_mig_change_step,
		.resetting = on_mig_change_reset,
		.gpu = gpu_done,
		.arg = c,
	};
	const struct mig_node *node;
	int r;

	catch_signals();
	lock = lock_mig_changes(c, a.dry_run, err);
	if (lock < 0 && !a.dry_run)
		return -1;
	c->progress.dry_run = a.dry_run;
	if (make_mig_hook_env(c, err) < 0 || mig_tool_open(&c->editor, c->o, err) < 0 ||
		ignore_processes(c, err) < 0 ||
		mig_editor_read(c->editor, /* clients= */ false, &node, err) < 0 ||
		(!c->config && !c->checkpoint && choose_builtin(&builtin, c, node, err) < 0) ||
		check_node(c, node, err) < 0)
		return -1;
	r = mig_editor_apply(c->editor, &a, err);
	if (r == MIG_APPLY_PENDING && a.mode_only && a.skip_reset)
		return MIG_APPLY_PENDING; /* the options ask for that */
	if (r == MIG_APPLY_PENDING)
		return error_prefix(err, "reset required");
	return r;
}

static void change_fini(struct mig_change *c)
{
	c->editor = mig_editor_close(c->editor);
	strv_fini(&c->env);
	strv_fini(&c->notes);
}

/* Reports the end of the change in both output forms. Errors in text form are left to main.c. */
static int report_mig_change_end(struct mig_change *c, int r, const char *done,
	struct error *err)
{
	uint64_t calls = c->editor ? mig_editor_calls(c->editor) : 0;
	bool waits = r == MIG_APPLY_PENDING || !strncmp(err->msg, "reset required: ", 16);

	if (c->progress.json) {
		mig_progress_end(&c->progress, r >= 0,
			waits    ? "reset-required"
			: r >= 0 ? ""
				 : error_class(err->code)->name,
			r == 0 ? "" : err->msg, calls);
		return r < 0 ? EXIT_FAILURE : 0;
	}
	if (r < 0)
		return r;
	if (!c->progress.dry_run)
		(void)printf("%s\n", done);
	return 0;
}

static int load_hooks(struct mig_hooks **ret, struct mig_change *c, struct error *err)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	const char *path = option_str(c->o, "hooks-file", "");

	if (!*path)
		return 0;
	if (mig_hooks_load(ret, path, &warnings, err) < 0)
		return error_prefix(err, "error parsing hooks file");
	print_new_mig_notes(c, &warnings);
	c->hooks = *ret;
	return 0;
}

static int load_config(struct mig_configs **ret, struct mig_change *c, struct error *err)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;

	if (get_mig_flag(c->o, "builtin"))
		return 0;
	if (mig_configs_load(ret, option_str(c->o, "config-file", ""), &warnings, err) < 0)
		return error_prefix(err, "error parsing config file");
	print_new_mig_notes(c, &warnings);
	if (mig_configs_select(*ret, option_str(c->o, "selected-config", NULL), &c->config,
		    err) < 0)
		return error_prefix(err, "error selecting MIG config");
	return 0;
}

static int init_mig_change(struct mig_change *c, const struct options *o, struct error *err)
{
	*c = (struct mig_change){ .o = o, .debug = option_bool(o, "debug", false) };
	c->progress.to = stdout;
	return mig_tool_json(o, "text", &c->progress.json, err);
}

static int run_apply(const struct cmd *cmd, const struct options *o, struct error *err)
{
	static const char *const needed[] = { "config-file", NULL };
	CLEANUP(mig_configs_freep) struct mig_configs *configs = NULL;
	CLEANUP(mig_hooks_freep) struct mig_hooks *hooks = NULL;
	CLEANUP(change_fini) struct mig_change c = { .o = o };
	bool builtin = option_bool(o, "builtin", false);
	int r;

	if (init_mig_change(&c, o, err) < 0)
		return -1;
	if (builtin && option_get(o, "config-file")->source == OPTION_FROM_ARGS)
		return error_set(err, ERR_INVALID,
			"--builtin and --config-file exclude each other");
	if (!builtin && mig_tool_require(cmd, o, needed, err) < 0)
		return -1;
	r = load_config(&configs, &c, err);
	if (r == 0)
		r = load_hooks(&hooks, &c, err);
	if (r == 0) {
		r = apply_mig_change(&c, err);
		if (r < 0 && !c.progress.json && strncmp(err->msg, "error selecting", 15) != 0)
			(void)error_prefix(err, "error applying MIG configuration with hooks");
	}
	return report_mig_change_end(&c, r, "MIG configuration applied successfully", err);
}

static int run_restore(const struct cmd *cmd, const struct options *o, struct error *err)
{
	static const char *const needed[] = { "checkpoint-file", NULL };
	CLEANUP(mig_checkpoint_freep) struct mig_checkpoint *checkpoint = NULL;
	CLEANUP(mig_hooks_freep) struct mig_hooks *hooks = NULL;
	CLEANUP(change_fini) struct mig_change c = { .o = o };
	int r;

	if (init_mig_change(&c, o, err) < 0 || mig_tool_require(cmd, o, needed, err) < 0)
		return -1;
	r = mig_checkpoint_load(&checkpoint, option_str(o, "checkpoint-file", ""), err);
	if (r < 0)
		(void)error_prefix(err, "error parsing checkpoint file");
	c.checkpoint = checkpoint;
	if (r == 0)
		r = load_hooks(&hooks, &c, err);
	if (r == 0) {
		r = apply_mig_change(&c, err);
		if (r < 0 && !c.progress.json)
			(void)error_prefix(err, "error restoring MIG configuration");
	}
	return report_mig_change_end(&c, r, "MIG configuration restored successfully", err);
}

#define OPTION_CHANGE_HOOKS                                              \
	{                                                                \
		.name = "hooks-file", .letter = 'k', .type = OPTION_STR, \
		.env = { "MIG_PARTED_HOOKS_FILE" }, .arg = "FILE",       \
		.help = "commands to run before and after"               \
	}
#define OPTION_CHANGE_MODE_ONLY                                          \
	{                                                                \
		.name = "mode-only", .letter = 'm', .type = OPTION_BOOL, \
		.env = { "MIG_PARTED_MODE_CHANGE_ONLY" },                \
		.help = "switch MIG on or off, and make no instances"    \
	}
#define OPTION_CHANGE_DRY_RUN                               \
	{                                                   \
		.name = "dry-run", .type = OPTION_BOOL,     \
		.help = "show the steps and change nothing" \
	}
#define OPTION_CHANGE_FORCE                                              \
	{                                                                \
		.name = "force", .type = OPTION_BOOL,                    \
		.help = "also try what would destroy an instance in use" \
	}
#define OPTION_CHANGE_IGNORE                                                           \
	{                                                                              \
		.name = "ignore-process", .type = OPTION_STR, .arg = "PID,...",        \
		.help = "processes that do not count as use; end them before a change" \
	}
#define OPTION_CHANGE_FORMAT                                                                 \
	{                                                                                    \
		.name = "output-format", .letter = 'o', .type = OPTION_STR, .arg = "FORMAT", \
		.def = "text", .help = "text, or json: an object a line, as it happens"      \
	}
#define OPTION_CHANGE_RUN_DIR                                                         \
	{                                                                             \
		.name = "run-dir", .type = OPTION_STR, .env = { "GPUSLICE_RUN_DIR" }, \
		.arg = "DIR", .def = DEFAULT_RUN_DIR,                                 \
		.help = "where the lock of the editor is"                             \
	}
#define OPTION_CHANGE_SKIP_RESET                                          \
	{                                                                 \
		.name = "skip-reset", .letter = 's', .type = OPTION_BOOL, \
		.env = { "MIG_PARTED_SKIP_RESET" },                       \
		.help = "reset no GPU whose MIG mode waits for that"      \
	}

/* The agent passes them to every program that it runs. */
#define OPTION_CHANGE_PROCFS                                                           \
	{                                                                              \
		.name = "procfs", .type = OPTION_STR, .arg = "DIR", .help = MIG_UNUSED \
	}
#define OPTION_CHANGE_SYSFS                                                           \
	{                                                                             \
		.name = "sysfs", .type = OPTION_STR, .arg = "DIR", .help = MIG_UNUSED \
	}

/* The options of both commands, in the order of their names. */
#define OPTIONS_CHANGE                                                                    \
	MIG_OPTION_DEBUG(MIG_DEBUG_SHOWS),                                                \
		MIG_OPTION_DRIVER_ROOT(                                                   \
			"where the driver's files are: NVML, and nvidia-smi for resets"), \
		OPTION_CHANGE_DRY_RUN, OPTION_CHANGE_FORCE, OPTION_CHANGE_HOOKS,          \
		OPTION_CHANGE_IGNORE, OPTION_CHANGE_MODE_ONLY, MIG_OPTION_NVML,           \
		OPTION_CHANGE_FORMAT, OPTION_CHANGE_PROCFS, OPTION_CHANGE_RUN_DIR

static const struct option_def apply_options[] = {
	{ .name = "builtin",
		.type = OPTION_BOOL,
		.help = "choose from what this node's GPUs can be and NVIDIA's default names" },
	{ .name = "config-file",
		.letter = 'f',
		.type = OPTION_STR,
		.env = { "MIG_PARTED_CONFIG_FILE" },
		.arg = "FILE",
		.help = "configs by name; - is standard input" },
	OPTIONS_CHANGE,
	{ .name = "selected-config",
		.letter = 'c',
		.type = OPTION_STR,
		.env = { "MIG_PARTED_SELECTED_CONFIG" },
		.arg = "NAME",
		.help = "which of them; may be left out if there is one" },
	OPTION_CHANGE_SKIP_RESET,
	OPTION_CHANGE_SYSFS,
};

const struct cmd mig_cmd_apply = {
	.name = "mig apply",
	.usage = "-f FILE|--builtin [-c NAME] [OPTION]...",
	.summary = "make the GPUs what a config says",
	.description =
		"Only GPUs that differ are touched, and instances that may stay do. What cannot be\n"
		"placed, or would take an instance in use, is refused while nothing has changed. A step\n"
		"that fails takes its GPU back to what it was. Stopped or killed, it goes on when run\n"
		"again.\n",
	.options = apply_options,
	.n_options = ARRAY_LEN(apply_options),
	.exit_code = EXIT_FAILURE,
	.run = run_apply,
};

static const struct option_def restore_options[] = {
	{ .name = "checkpoint-file",
		.letter = 'f',
		.type = OPTION_STR,
		.env = { "MIG_PARTED_CHECKPOINT_FILE" },
		.arg = "FILE",
		.help = "what mig checkpoint wrote" },
	OPTIONS_CHANGE,
	OPTION_CHANGE_SYSFS,
};

const struct cmd mig_cmd_restore = {
	.name = "mig restore",
	.usage = "-f FILE [OPTION]...",
	.summary = "make the GPUs what a checkpoint says, each instance at its place",
	.options = restore_options,
	.n_options = ARRAY_LEN(restore_options),
	.exit_code = EXIT_FAILURE,
	.run = run_restore,
};
