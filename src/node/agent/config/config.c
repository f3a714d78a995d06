/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/config/config.h"

#include "node/agent/config/saved.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"
#include "model/offer/offer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAIT_CHECK_MS 500

/*
 * Below the state directory. The config has a directory of its own, so that a pod can mount it from the host
 * without the directory of slices.
 */
#define SAVED_CONFIG_DIR "config"
#define KEPT_NAME        "last.json"

/* Why the agent checks the source. */
enum config_check_kind {
	CONFIG_CHECK_CHANGE, /* the source, or what chooses among its entries, may have changed */
	CONFIG_CHECK_RELOAD, /* the operator requested it: everything is reported again */
	/* a config that did not fit the GPUs may fit now; the same refusal is not reported twice */
	CONFIG_CHECK_GPUS,
};

static bool is_config_named(const struct agent_config *config)
{
	return config->c.options.dir || *config->map;
}

/* --- from text to a config in force --- */

static void log_config_warnings(const struct strv *warnings)
{
	for (size_t i = 0; i < warnings->n; i++)
		log_warn("config", LOG_STR("warning", warnings->v[i]));
}

static int parse_config_text(struct agent_config *config, const char *where, const char *text,
	size_t len, struct config **ret, struct strv *warnings, struct error *err)
{
	CLEANUP(config_freep) struct config *c = NULL;

	if (config_parse(&c, where, 0, text, len, &config->c.sources, warnings, err) < 0 ||
		config_unsupported(c, *where ? where : "options", err) < 0)
		return -1;
	*ret = STEAL_PTR(c);
	return 0;
}

/*
 * A config that parses may still be impossible on this node (too many devices), so the agent tries it first.
 * With other GPUs it may be possible.
 */
static int try_config(struct agent_config *config, const struct config *c, struct error *err)
{
	CLEANUP(offer_freep) struct offer *offer = NULL;
	bool fits = !config->c.facts->node.inv ||
		    offer_new(&offer, config->c.facts->node.inv, c, err) == 0;

	if (config->fit != FIT_UNKNOWN)
		config->fit = fits ? FIT_GOOD : FIT_REFUSED;
	return fits ? 0 : -1;
}

/*
 * The first config may be empty: an empty text means all defaults. In place of another config, an empty file is
 * one that is about to be written, or that a full disk or a crash has emptied. The defaults would then take
 * replicas from running pods. The exception is /dev/null: NVIDIA's config-manager links it when no label chooses
 * a config, and no process is about to write it.
 */
static int refuse_empty(const struct agent_config *config, const char *where,
	const struct buf *text, struct error *err)
{
	struct stat st;

	if (!config->c.facts->decided || !config_is_empty(buf_str(text), text->len) ||
		(stat(where, &st) == 0 && S_ISCHR(st.st_mode)))
		return 0;
	return error_set(err, ERR_INVALID,
		"'%s' is empty: expected a config in place of the last one, found no key; 'version: v1' alone "
		"stands for the defaults",
		where);
}

static void report_config_refused(struct agent_config *config, enum config_check_kind why,
	const char *reason, const struct error *err)
{
	if (why == CONFIG_CHECK_GPUS && !strcmp(config->last_error.msg, err->msg))
		return;
	log_error(config->c.facts->decided ? "config refused, keeping the one in force"
					   : "config refused, nothing is offered yet",
		LOG_STR("reason", err->msg));
	report_event(config->c.reporter, EVENT_WARNING, reason, "%s%s", err->msg,
		config->c.facts->decided ? "; the config in force stays"
					 : "; nothing is offered yet");
	config->last_error = *err;
	config->last_error_wall_ns = time_wall_ns();
}

static void apply_config(struct agent_config *config, struct config *c, struct strv *warnings)
{
	bool moved = strcmp(config->c.facts->config->container_driver_root,
			     c->container_driver_root) != 0;

	(void)config_free(config->c.facts->config);
	config->c.facts->config = c;
	config->c.facts->decided = true;
	strv_fini(&config->warnings);
	config->warnings = *warnings;
	*warnings = (struct strv)STRV_INIT;
	config->since_wall_ns = time_wall_ns();
	config->c.facts->config_generation++;
	log_config_warnings(&config->warnings);
	config->c.ops->changed(config->c.arg, moved);
}

static void log_config_valid_again(struct agent_config *config, const char *where)
{
	if (config->last_error.code == ERR_NONE)
		return;
	log_info("config is good again");
	report_event(config->c.reporter, EVENT_NORMAL, "ConfigApplied",
		"config %s is good again", where);
	error_clear(&config->last_error);
}

/* Puts the text of @where in force, if it is valid and differs from the config in force. */
static int apply_config_text(struct agent_config *config, const char *where,
	const struct buf *text, struct error *err)
{
	CLEANUP(config_freep) struct config *c = NULL;
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	CLEANUP(freep) char *name = strdup(where);
	bool first = !config->c.facts->decided;

	if (config->fit == FIT_REFUSED)
		config->fit = FIT_GOOD;
	if (!name)
		return error_nomem(err);
	if (parse_config_text(config, where, buf_str(text), text->len, &c, &warnings, err) <
			0 ||
		refuse_empty(config, where, text, err) < 0 || try_config(config, c, err) < 0)
		return -1;
	log_config_valid_again(config, where);
	free(config->where);
	config->where = STEAL_PTR(name);
	if (!first && config_equal(c, config->c.facts->config)) {
		log_info("config read again: no change");
		return 0;
	}
	apply_config(config, STEAL_PTR(c), &warnings);
	if (first && !is_config_named(config))
		return 0;
	log_info("config applied", LOG_STR("file", where),
		LOG_UINT("generation", config->c.facts->config_generation));
	if (!first)
		report_event(config->c.reporter, EVENT_NORMAL, "ConfigApplied",
			"config %s is in force", where);
	return 0;
}

/* --- named configs --- */

/*
 * The name of an entry in messages: "/configs/a", "configmap gpu/configs#a". Without an entry this is /dev/null,
 * which config-manager links in that case and which refuse_empty() knows.
 */
static void where_is(const struct agent_config *config, const char *name, struct buf *b)
{
	if (name)
		buf_printf(b, "%s%c%s", config->source_text, config->c.options.dir ? '/' : '#',
			name);
	else
		buf_puts(b, "/dev/null");
}

/* The source that the saved config must have. */
static const char *format_saved_source(const struct agent_config *config)
{
	return is_config_named(config) ? config->source_text : config->c.options.file;
}

static int format_saved_config_path(const struct agent_config *config, char path[PATH_MAX],
	struct error *err)
{
	return path_join(path, PATH_MAX, config->c.state_dir, SAVED_CONFIG_DIR "/" KEPT_NAME,
		err);
}

static int read_saved_config(const struct agent_config *config, struct saved_config *saved)
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX];

	if (format_saved_config_path(config, path, &err) == 0 &&
		saved_config_read(saved, path, format_saved_source(config), &err) == 0)
		return 0;
	if (err.code != ERR_NOT_FOUND)
		log_warn("kept config not used", LOG_STR("reason", err.msg));
	return -1;
}

static bool has_saved_config(const struct agent_config *config)
{
	struct saved_config saved = { .text = BUF_INIT(0) };
	bool has = read_saved_config(config, &saved) == 0;

	buf_fini(&saved.text);
	return has;
}

/*
 * Saves the config for the next start. A full disk does not prevent the config from being in force. But a config
 * saved earlier must not return, so its file is removed, and saving is retried. A config that was never offered
 * with a GPU may be impossible here, so it replaces no saved one.
 */
static void save_config_in_force(struct agent_config *config, enum config_choice_by by,
	const struct buf *text)
{
	struct saved_config saved = { .by = by, .text = *text };
	struct error err = ERROR_INIT;
	char path[PATH_MAX], dir[PATH_MAX];

	config->unsaved = true;
	if (config->fit == FIT_UNKNOWN && has_saved_config(config))
		return;
	memcpy(saved.label, config->label.value, sizeof(saved.label));
	memcpy(saved.entry, config->entry, sizeof(saved.entry));
	memcpy(saved.node_uid, config->label.node_uid, sizeof(saved.node_uid));
	if (path_join(dir, sizeof(dir), config->c.state_dir, SAVED_CONFIG_DIR, &err) == 0 &&
		format_saved_config_path(config, path, &err) == 0 &&
		(dir_make(dir, 0755, &err) < 0 ||
			saved_config_write(&saved, path, format_saved_source(config), &err) <
				0))
		(void)unlink(path);
	config->unsaved = err.code != ERR_NONE;
	if (config->unsaved) {
		(void)error_prefix(&err, "the config is not kept for the next start");
		error_suffix(&err, "; a restart finds no config to fall back on");
	}
	report_component(config->c.reporter, COMPONENT_SAVED_CONFIG, &err);
}

static bool is_choice(const struct agent_config *config, const struct config_choice *c)
{
	return config->chosen && config->by == c->by &&
	       !strcmp(config->entry, c->name ? c->name : "");
}

static void remember_choice(struct agent_config *config, const struct config_choice *c)
{
	const char *name = c->name ? c->name : "";

	if (is_choice(config, c))
		return;
	config->chosen = true;
	config->by = c->by;
	memcpy(config->entry, name, strlen(name) + 1);
	log_info("config chosen", LOG_STR("entry", config->entry),
		LOG_STR("by", config_choice_by_text(config->by)));
}

/* The same entry with the same text as at the last check, valid or not, needs no other check. */
static bool is_config_unchanged(struct agent_config *config, const char *where,
	const struct buf *text)
{
	struct buf *seen = &config->seen;
	size_t len = strlen(where) + 1;
	bool same = buf_ok(seen) && seen->len == len + text->len &&
		    !memcmp(seen->data, where, len) &&
		    !memcmp(seen->data + len, buf_str(text), text->len);

	if (same)
		return true;
	buf_clear(seen);
	buf_add(seen, where, len);
	buf_add(seen, buf_str(text), text->len);
	return false;
}

static void set_config_wait_reason(struct agent_config *config, const char *why)
{
	if (config->c.facts->decided || !strcmp(config->waiting, why))
		return;
	log_info("config is not decided yet", LOG_STR("reason", why));
	(void)snprintf(config->waiting, sizeof(config->waiting), "%s", why);
}

/* Finds the entry that should be in force now, and its text. > 0: not known yet, @err has the reason. */
static int choose_config_entry(struct agent_config *config, struct strv *names,
	struct config_choice *ret, struct buf *text, const char **ret_reason, struct error *err)
{
	const struct config_choice_input in = { .label = config->label.value,
		.default_name = config->c.options.default_name,
		.fallbacks = &config->fallbacks,
		.names = names,
		.undecided = !config->c.facts->decided ||
			     (config->chosen && config->by == CHOICE_EMPTY) };
	int r;

	*ret_reason = "ConfigNotFound";
	if (!config->source) {
		(void)error_set(err, ERR_UNAVAILABLE, "%s: %s", config->source_text,
			api_link_error(config->c.link));
		return CONFIG_SOURCE_WAIT;
	}
	r = config_source_names(config->source, names, err);
	/* A missing ConfigMap has no entries. For the fallback "empty" that is enough. */
	if (r < 0 && err->code == ERR_NOT_FOUND && label_wait_known(&config->label) &&
		config_choose(ret, &in, NULL) == 0) {
		error_clear(err);
		return 0;
	}
	if (r != 0)
		return r;
	if (!label_wait_known(&config->label)) {
		(void)error_set(err, ERR_UNAVAILABLE, "waiting for the label of this node: %s",
			api_link_error(config->c.link));
		return CONFIG_SOURCE_WAIT;
	}
	if (config_choose(ret, &in, err) < 0)
		return -1;
	*ret_reason = "ConfigInvalid";
	return ret->name ? config_source_read(config->source, ret->name, text, err) : 0;
}

/* The list of existing names follows a semicolon. A change of this list alone is not reported. */
static bool is_same_config_error(const char *a, const char *b)
{
	size_t len = strcspn(a, ";");

	return len > 0 && len == strcspn(b, ";") && !strncmp(a, b, len);
}

static void sync_named_config(struct agent_config *config, enum config_check_kind why)
{
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
	CLEANUP(buf_fini) struct buf where = BUF_INIT(PATH_MAX + CONFIG_ENTRY_NAME_MAX);
	struct config_choice choice;
	struct error err = ERROR_INIT;
	const char *reason;
	int r = choose_config_entry(config, &names, &choice, &text, &reason, &err);
	bool force = why == CONFIG_CHECK_RELOAD || config->forced;

	config->forced = force && r > 0;
	/*
	 * After the wait, the agent treats a server that has never answered like a missing ConfigMap. A
	 * directory that is being written is complete in a moment.
	 */
	if (r > 0 && !(config->label.over && !config->c.facts->decided && *config->map)) {
		set_config_wait_reason(config, err.msg);
		return;
	}
	config->waiting[0] = '\0';
	if (r != 0) {
		buf_clear(&config->seen);
		/* The source is checked every few seconds, so only a changed error is reported. */
		if (force || !is_same_config_error(config->last_error.msg, err.msg))
			report_config_refused(config, why, reason, &err);
		else
			config->last_error = err;
		return;
	}
	where_is(config, choice.name, &where);
	if (!buf_ok(&where))
		return;
	/* The same config may be chosen for another reason now. */
	if (is_config_unchanged(config, buf_str(&where), &text) && !force) {
		if (config->last_error.code != ERR_NONE ||
			(is_choice(config, &choice) && !config->unsaved))
			return;
	} else if (apply_config_text(config, buf_str(&where), &text, &err) < 0) {
		report_config_refused(config, why, reason, &err);
		return;
	}
	remember_choice(config, &choice);
	save_config_in_force(config, choice.by, &text);
}

static void sync_config_file(struct agent_config *config, enum config_check_kind why)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
	struct error err = ERROR_INIT;

	if (config_source_read(config->source, "", &text, &err) < 0 ||
		apply_config_text(config, config_source_text(config->source), &text, &err) < 0)
		report_config_refused(config, why, "ConfigInvalid", &err);
	else
		save_config_in_force(config, CHOICE_EMPTY, &text);
}

static void sync_config(struct agent_config *config, enum config_check_kind why)
{
	if (is_config_named(config))
		sync_named_config(config, why);
	else
		sync_config_file(config, why);
}

static void on_config_source_changed(void *arg)
{
	sync_config(arg, CONFIG_CHECK_CHANGE);
}

static const struct config_source_ops source_ops = { .changed = on_config_source_changed };

/* --- the label --- */

static void on_wait(uv_timer_t *t);

static void follow_label(struct agent_config *config, enum label_act what)
{
	switch (what) {
	case LABEL_NOTHING:
		return;
	case LABEL_TICK:
		(void)uv_timer_start(&config->wait, on_wait, WAIT_CHECK_MS, WAIT_CHECK_MS);
		return;
	case LABEL_STOP:
		(void)uv_timer_stop(&config->wait);
		return;
	case LABEL_DO_WITHOUT:
		log_warn("the label of this node is not known, going on without it",
			LOG_STR("reason", api_link_error(config->c.link)));
		break;
	case LABEL_CHOOSE:
		break;
	}
	sync_config(config, CONFIG_CHECK_CHANGE);
}

void agent_config_label(struct agent_config *config, const char *uid, const char *label)
{
	enum label_act what;

	if (!is_config_named(config))
		return;
	config->unsaved |= strcmp(config->label.node_uid, uid) != 0;
	what = label_wait_node(&config->label, uid, label, time_mono_ns());
	if (what == LABEL_TICK)
		log_info("the Node is a new one, waiting for its label",
			LOG_STR("label", config->label.value));
	follow_label(config, what);
}

static void on_wait(uv_timer_t *t)
{
	struct agent_config *config = t->data;
	struct label_wait *w = &config->label;
	const struct node_object *n = config->c.link->node;
	enum label_answer answer =
		n ? label_wait_answer(w, node_object_state(n), node_object_error(n))
		  : LABEL_SILENT;

	follow_label(config,
		label_wait_tick(w, answer, config->c.facts->decided, time_mono_ns()));
}

/* Puts the saved config of an earlier run in force. @where: its name in messages. */
static int apply_saved_config(struct agent_config *config, const struct saved_config *saved,
	const char *where)
{
	struct error err = ERROR_INIT;

	log_info("using the config of the last run", LOG_STR("entry", saved->entry));
	if (apply_config_text(config, where, &saved->text, &err) == 0)
		return 0;
	log_warn("kept config not used", LOG_STR("reason", err.msg));
	return -1;
}

/* Puts the saved choice in force. The label and the source may change it later. */
static int apply_saved_choice(struct agent_config *config)
{
	struct saved_config saved = { .text = BUF_INIT(0) };
	struct config_choice choice;
	CLEANUP(buf_fini) struct buf where = BUF_INIT(PATH_MAX + CONFIG_ENTRY_NAME_MAX);
	int r = read_saved_config(config, &saved);

	if (r < 0)
		goto out;
	choice = (struct config_choice){ .by = saved.by,
		.name = *saved.entry ? saved.entry : NULL };
	where_is(config, choice.name, &where);
	r = apply_saved_config(config, &saved, buf_str(&where));
	if (r < 0)
		goto out;
	remember_choice(config, &choice);
	/* If the source still has this text, the next check does not apply it again. */
	(void)is_config_unchanged(config, buf_str(&where), &saved.text);
	label_wait_restore(&config->label, saved.label, saved.node_uid);
out:
	buf_fini(&saved.text);
	return r;
}

static int apply_saved_config_file(struct agent_config *config, bool empty_too)
{
	struct saved_config saved = { .text = BUF_INIT(0) };
	int r = read_saved_config(config, &saved);

	if (r == 0 && !empty_too && config_is_empty(buf_str(&saved.text), saved.text.len))
		r = -1;
	if (r == 0)
		r = apply_saved_config(config, &saved, config->c.options.file);
	buf_fini(&saved.text);
	return r;
}

/* --- the GPUs --- */

/*
 * After a newer text was refused, the text in force is not available. The agent saves after the next valid text.
 */
void agent_config_retry(struct agent_config *config)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(CONFIG_FILE_MAX);

	if (!config->unsaved || config->fit == FIT_UNKNOWN ||
		config->last_error.code != ERR_NONE)
		return;
	if (is_config_named(config))
		sync_config(config, CONFIG_CHECK_CHANGE);
	else if (config_source_read(config->source, "", &text, NULL) == 0)
		save_config_in_force(config, CHOICE_EMPTY, &text);
}

/*
 * The first inventory with GPUs. The agent refuses a config that is impossible here, as at a reload, and puts
 * the last valid one in force. Without a saved config it can offer nothing.
 */
static void check_config_on_gpus(struct agent_config *config)
{
	struct error err = ERROR_INIT;

	config->fit = FIT_GOOD;
	if (!config->c.facts->decided || !config->source)
		return;
	if (try_config(config, config->c.facts->config, &err) == 0) {
		agent_config_retry(config);
		return;
	}
	if ((is_config_named(config)
			    ? apply_saved_choice(config)
			    : apply_saved_config_file(config, /* empty_too= */ true)) == 0)
		sync_config(config, CONFIG_CHECK_CHANGE); /* refuses the source's text */
}

void agent_config_gpus_changed(struct agent_config *config)
{
	if (config->fit == FIT_UNKNOWN && config->c.facts->node.inv &&
		config->c.facts->node.inv->n > 0) {
		check_config_on_gpus(config);
		return;
	}
	if (config->fit != FIT_REFUSED || !config->source)
		return;
	buf_clear(&config->seen);
	sync_config(config, CONFIG_CHECK_GPUS);
}

/* --- life --- */

static int start_config_file(struct agent_config *config, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
	struct error why = ERROR_INIT;

	/* NVIDIA's wording first, because operators search for it. */
	if (file_read(config->c.options.file, &text, &why) < 0) {
		(void)error_prefix(&why, "unable to load config: error opening config file");
		buf_clear(&text);
	} else {
		/* An empty file may replace nothing but an empty config, so the saved one comes first. */
		if (config_is_empty(buf_str(&text), text.len))
			(void)apply_saved_config_file(config, /* empty_too= */ false);
		if (apply_config_text(config, config->c.options.file, &text, &why) == 0)
			save_config_in_force(config, CHOICE_EMPTY, &text);
	}
	if (why.code != ERR_NONE && !config->c.facts->decided &&
		apply_saved_config_file(config, /* empty_too= */ true) < 0) {
		error_copy(err, &why);
		return -1;
	}
	if (why.code != ERR_NONE)
		report_config_refused(config, CONFIG_CHECK_CHANGE, "ConfigInvalid", &why);
	return config_source_file(&config->source, config->c.loop, config->c.options.file,
		&text, &source_ops, config, err);
}

/* "[namespace/]name". Without a namespace: that of the pod. */
static int name_map(struct agent_config *config, const char *text, struct error *err)
{
	if (config_map_name("config-map", text, config->c.link->namespace_,
		    config->map_namespace, config->map, err) < 0)
		return -1;
	if (!*config->map_namespace && config->c.link->possible)
		return error_set(err, ERR_INVALID,
			"--config-map %s: the namespace of this pod is not known%s%s; give "
			"NAMESPACE/NAME or --namespace",
			text, config->c.link->found ? "" : ": ",
			config->c.link->found ? "" : config->c.link->why.msg);
	if (asprintf(&config->source_text, "configmap %s/%s", config->map_namespace,
		    config->map) < 0) {
		config->source_text = NULL;
		return error_nomem(err);
	}
	return 0;
}

static int start_named(struct agent_config *config, struct error *err)
{
	if (config->c.options.dir) {
		if (config_source_dir(&config->source, config->c.loop, config->c.options.dir,
			    &source_ops, config, err) < 0)
			return -1;
		config->source_text = strdup(config_source_text(config->source));
		if (!config->source_text)
			return error_nomem(err);
	}
	follow_label(config, label_wait_start(&config->label, config->c.link->possible,
				     *config->map, time_mono_ns()));
	(void)apply_saved_choice(config);
	sync_config(config, CONFIG_CHECK_CHANGE);
	return 0;
}

void agent_config_with_api(struct agent_config *config, struct api *api)
{
	struct error err = ERROR_INIT;

	label_wait_asked(&config->label, node_object_error(config->c.link->node));
	if (*config->map && config_source_map(&config->source, api, config->map_namespace,
				    config->map, &source_ops, config, &err) < 0)
		report_config_refused(config, CONFIG_CHECK_CHANGE, "ConfigNotFound", &err);
}

void agent_config_without_api(struct agent_config *config)
{
	label_wait_set_no_api(&config->label);
	if (is_config_named(config))
		sync_config(config, CONFIG_CHECK_CHANGE);
}

int agent_config_start(struct agent_config *config, struct error *err)
{
	const struct agent_config_options *o = &config->c.options;
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;

	if (strv_copy(&config->fallbacks, o->fallbacks, err) < 0 ||
		config_fallbacks_check(&config->fallbacks, err) < 0 ||
		parse_config_text(config, "", "", 0, &config->c.facts->config, &warnings, err) <
			0)
		return -1;
	config->c.options.fallbacks = &config->fallbacks;
	if (o->file)
		return start_config_file(config, err);
	if (o->map && name_map(config, o->map, err) < 0)
		return -1;
	if (is_config_named(config))
		return start_named(config, err);
	/* Options and variables alone. */
	config->warnings = warnings;
	warnings = (struct strv)STRV_INIT;
	log_config_warnings(&config->warnings);
	config->c.facts->decided = true;
	config->since_wall_ns = time_wall_ns();
	config->c.facts->config_generation = 1;
	return 0;
}

/* An option that is not given is NULL. */
static const char *option_or_null(const char *text)
{
	return text && *text ? text : NULL;
}

void agent_config_init(struct agent_config *config, const struct agent_config_context *context)
{
	struct agent_config_options *o = &config->c.options;

	*config = (struct agent_config){ .c = *context };
	config->c.facts->config_generation = 0;
	o->file = option_or_null(o->file);
	o->dir = option_or_null(o->dir);
	o->map = option_or_null(o->map);
	config->seen = (struct buf)BUF_INIT(CONFIG_FILE_MAX + 2 * PATH_MAX);
	(void)uv_timer_init(config->c.loop, &config->wait);
	config->wait.data = config;
}

void agent_config_reload(struct agent_config *config)
{
	if (is_config_named(config))
		sync_config(config, CONFIG_CHECK_RELOAD);
	else if (config->source)
		config_source_check(config->source);
}

void agent_config_stop(struct agent_config *config)
{
	config->source = config_source_stop(config->source);
	uv_close((uv_handle_t *)&config->wait, NULL);
}

void agent_config_fini(struct agent_config *config)
{
	config->c.facts->config = config_free(config->c.facts->config);
	free(config->where);
	free(config->source_text);
	strv_fini(&config->warnings);
	strv_fini(&config->fallbacks);
	buf_fini(&config->seen);
}
