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

static bool is_config_named(const struct agent_config *s)
{
	return s->c.options.dir || *s->map;
}

/* --- from text to a config in force --- */

static void log_config_warnings(const struct strv *warnings)
{
	for (size_t i = 0; i < warnings->n; i++)
		log_warn("config", LOG_STR("warning", warnings->v[i]));
}

static int parse_config_text(struct agent_config *s, const char *where, const char *text,
	size_t len, struct config **ret, struct strv *warnings, struct error *err)
{
	CLEANUP(config_freep) struct config *c = NULL;

	if (config_parse(&c, where, 0, text, len, &s->c.sources, warnings, err) < 0 ||
		config_unsupported(c, *where ? where : "options", err) < 0)
		return -1;
	*ret = STEAL_PTR(c);
	return 0;
}

/*
 * A config that parses may still be impossible on this node (too many devices), so the agent tries it first.
 * With other GPUs it may be possible.
 */
static int try_config(struct agent_config *s, const struct config *c, struct error *err)
{
	CLEANUP(offer_freep) struct offer *offer = NULL;
	bool fits =
		!s->c.facts->node.inv || offer_new(&offer, s->c.facts->node.inv, c, err) == 0;

	if (s->fit != FIT_UNKNOWN)
		s->fit = fits ? FIT_GOOD : FIT_REFUSED;
	return fits ? 0 : -1;
}

/*
 * The first config may be empty: an empty text means all defaults. In place of another config, an empty file is
 * one that is about to be written, or that a full disk or a crash has emptied. The defaults would then take
 * replicas from running pods. The exception is /dev/null: NVIDIA's config-manager links it when no label chooses
 * a config, and no process is about to write it.
 */
static int refuse_empty(const struct agent_config *s, const char *where, const struct buf *text,
	struct error *err)
{
	struct stat st;

	if (!s->c.facts->decided || !config_is_empty(buf_str(text), text->len) ||
		(stat(where, &st) == 0 && S_ISCHR(st.st_mode)))
		return 0;
	return error_set(err, ERR_INVALID,
		"'%s' is empty: expected a config in place of the last one, found no key; 'version: v1' alone "
		"stands for the defaults",
		where);
}

static void report_config_refused(struct agent_config *s, enum config_check_kind why,
	const char *reason, const struct error *err)
{
	if (why == CONFIG_CHECK_GPUS && !strcmp(s->last_error.msg, err->msg))
		return;
	log_error(s->c.facts->decided ? "config refused, keeping the one in force"
				      : "config refused, nothing is offered yet",
		LOG_STR("reason", err->msg));
	report_event(s->c.reporter, EVENT_WARNING, reason, "%s%s", err->msg,
		s->c.facts->decided ? "; the config in force stays"
				    : "; nothing is offered yet");
	s->last_error = *err;
	s->last_error_wall_ns = time_wall_ns();
}

static void apply_config(struct agent_config *s, struct config *c, struct strv *warnings)
{
	bool moved = strcmp(s->c.facts->config->container_driver_root,
			     c->container_driver_root) != 0;

	(void)config_free(s->c.facts->config);
	s->c.facts->config = c;
	s->c.facts->decided = true;
	strv_fini(&s->warnings);
	s->warnings = *warnings;
	*warnings = (struct strv)STRV_INIT;
	s->since_wall_ns = time_wall_ns();
	s->c.facts->config_generation++;
	log_config_warnings(&s->warnings);
	s->c.ops->changed(s->c.arg, moved);
}

static void log_config_valid_again(struct agent_config *s, const char *where)
{
	if (s->last_error.code == ERR_NONE)
		return;
	log_info("config is good again");
	report_event(s->c.reporter, EVENT_NORMAL, "ConfigApplied", "config %s is good again",
		where);
	error_clear(&s->last_error);
}

/* Puts the text of @where in force, if it is valid and differs from the config in force. */
static int apply_config_text(struct agent_config *s, const char *where, const struct buf *text,
	struct error *err)
{
	CLEANUP(config_freep) struct config *c = NULL;
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	CLEANUP(freep) char *name = strdup(where);
	bool first = !s->c.facts->decided;

	if (s->fit == FIT_REFUSED)
		s->fit = FIT_GOOD;
	if (!name)
		return error_nomem(err);
	if (parse_config_text(s, where, buf_str(text), text->len, &c, &warnings, err) < 0 ||
		refuse_empty(s, where, text, err) < 0 || try_config(s, c, err) < 0)
		return -1;
	log_config_valid_again(s, where);
	free(s->where);
	s->where = STEAL_PTR(name);
	if (!first && config_equal(c, s->c.facts->config)) {
		log_info("config read again: no change");
		return 0;
	}
	apply_config(s, STEAL_PTR(c), &warnings);
	if (first && !is_config_named(s))
		return 0;
	log_info("config applied", LOG_STR("file", where),
		LOG_UINT("generation", s->c.facts->config_generation));
	if (!first)
		report_event(s->c.reporter, EVENT_NORMAL, "ConfigApplied",
			"config %s is in force", where);
	return 0;
}

/* --- named configs --- */

/*
 * The name of an entry in messages: "/configs/a", "configmap gpu/configs#a". Without an entry this is /dev/null,
 * which config-manager links in that case and which refuse_empty() knows.
 */
static void where_is(const struct agent_config *s, const char *name, struct buf *b)
{
	if (name)
		buf_printf(b, "%s%c%s", s->source_text, s->c.options.dir ? '/' : '#', name);
	else
		buf_puts(b, "/dev/null");
}

/* The source that the saved config must have. */
static const char *format_saved_source(const struct agent_config *s)
{
	return is_config_named(s) ? s->source_text : s->c.options.file;
}

static int format_saved_config_path(const struct agent_config *s, char path[PATH_MAX],
	struct error *err)
{
	return path_join(path, PATH_MAX, s->c.state_dir, SAVED_CONFIG_DIR "/" KEPT_NAME, err);
}

static int read_saved_config(const struct agent_config *s, struct saved_config *k)
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX];

	if (format_saved_config_path(s, path, &err) == 0 &&
		saved_config_read(k, path, format_saved_source(s), &err) == 0)
		return 0;
	if (err.code != ERR_NOT_FOUND)
		log_warn("kept config not used", LOG_STR("reason", err.msg));
	return -1;
}

static bool has_saved_config(const struct agent_config *s)
{
	struct saved_config k = { .text = BUF_INIT(0) };
	bool has = read_saved_config(s, &k) == 0;

	buf_fini(&k.text);
	return has;
}

/*
 * Saves the config for the next start. A full disk does not prevent the config from being in force. But a config
 * saved earlier must not return, so its file is removed, and saving is retried. A config that was never offered
 * with a GPU may be impossible here, so it replaces no saved one.
 */
static void save_config_in_force(struct agent_config *s, enum config_choice_by by,
	const struct buf *text)
{
	struct saved_config k = { .by = by, .text = *text };
	struct error err = ERROR_INIT;
	char path[PATH_MAX], dir[PATH_MAX];

	s->unsaved = true;
	if (s->fit == FIT_UNKNOWN && has_saved_config(s))
		return;
	memcpy(k.label, s->label.value, sizeof(k.label));
	memcpy(k.entry, s->entry, sizeof(k.entry));
	memcpy(k.node_uid, s->label.node_uid, sizeof(k.node_uid));
	if (path_join(dir, sizeof(dir), s->c.state_dir, SAVED_CONFIG_DIR, &err) == 0 &&
		format_saved_config_path(s, path, &err) == 0 &&
		(dir_make(dir, 0755, &err) < 0 ||
			saved_config_write(&k, path, format_saved_source(s), &err) < 0))
		(void)unlink(path);
	s->unsaved = err.code != ERR_NONE;
	if (s->unsaved) {
		(void)error_prefix(&err, "the config is not kept for the next start");
		error_suffix(&err, "; a restart finds no config to fall back on");
	}
	report_component(s->c.reporter, COMPONENT_SAVED_CONFIG, &err);
}

static bool is_choice(const struct agent_config *s, const struct config_choice *c)
{
	return s->chosen && s->by == c->by && !strcmp(s->entry, c->name ? c->name : "");
}

static void remember_choice(struct agent_config *s, const struct config_choice *c)
{
	const char *name = c->name ? c->name : "";

	if (is_choice(s, c))
		return;
	s->chosen = true;
	s->by = c->by;
	memcpy(s->entry, name, strlen(name) + 1);
	log_info("config chosen", LOG_STR("entry", s->entry),
		LOG_STR("by", config_choice_by_text(s->by)));
}

/* The same entry with the same text as at the last check, valid or not, needs no other check. */
static bool is_config_unchanged(struct agent_config *s, const char *where,
	const struct buf *text)
{
	struct buf *seen = &s->seen;
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

static void set_config_wait_reason(struct agent_config *s, const char *why)
{
	if (s->c.facts->decided || !strcmp(s->waiting, why))
		return;
	log_info("config is not decided yet", LOG_STR("reason", why));
	(void)snprintf(s->waiting, sizeof(s->waiting), "%s", why);
}

/* Finds the entry that should be in force now, and its text. > 0: not known yet, @err has the reason. */
static int choose_config_entry(struct agent_config *s, struct strv *names,
	struct config_choice *ret, struct buf *text, const char **ret_reason, struct error *err)
{
	const struct config_choice_input in = { .label = s->label.value,
		.default_name = s->c.options.default_name,
		.fallbacks = &s->fallbacks,
		.names = names,
		.undecided = !s->c.facts->decided || (s->chosen && s->by == CHOICE_EMPTY) };
	int r;

	*ret_reason = "ConfigNotFound";
	if (!s->source) {
		(void)error_set(err, ERR_UNAVAILABLE, "%s: %s", s->source_text,
			api_link_error(s->c.link));
		return CONFIG_SOURCE_WAIT;
	}
	r = config_source_names(s->source, names, err);
	/* A missing ConfigMap has no entries. For the fallback "empty" that is enough. */
	if (r < 0 && err->code == ERR_NOT_FOUND && label_wait_known(&s->label) &&
		config_choose(ret, &in, NULL) == 0) {
		error_clear(err);
		return 0;
	}
	if (r != 0)
		return r;
	if (!label_wait_known(&s->label)) {
		(void)error_set(err, ERR_UNAVAILABLE, "waiting for the label of this node: %s",
			api_link_error(s->c.link));
		return CONFIG_SOURCE_WAIT;
	}
	if (config_choose(ret, &in, err) < 0)
		return -1;
	*ret_reason = "ConfigInvalid";
	return ret->name ? config_source_read(s->source, ret->name, text, err) : 0;
}

/* The list of existing names follows a semicolon. A change of this list alone is not reported. */
static bool is_same_config_error(const char *a, const char *b)
{
	size_t len = strcspn(a, ";");

	return len > 0 && len == strcspn(b, ";") && !strncmp(a, b, len);
}

static void sync_named_config(struct agent_config *s, enum config_check_kind why)
{
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
	CLEANUP(buf_fini) struct buf where = BUF_INIT(PATH_MAX + CONFIG_ENTRY_NAME_MAX);
	struct config_choice choice;
	struct error err = ERROR_INIT;
	const char *reason;
	int r = choose_config_entry(s, &names, &choice, &text, &reason, &err);
	bool force = why == CONFIG_CHECK_RELOAD || s->forced;

	s->forced = force && r > 0;
	/*
	 * After the wait, the agent treats a server that has never answered like a missing ConfigMap. A
	 * directory that is being written is complete in a moment.
	 */
	if (r > 0 && !(s->label.over && !s->c.facts->decided && *s->map)) {
		set_config_wait_reason(s, err.msg);
		return;
	}
	s->waiting[0] = '\0';
	if (r != 0) {
		buf_clear(&s->seen);
		/* The source is checked every few seconds, so only a changed error is reported. */
		if (force || !is_same_config_error(s->last_error.msg, err.msg))
			report_config_refused(s, why, reason, &err);
		else
			s->last_error = err;
		return;
	}
	where_is(s, choice.name, &where);
	if (!buf_ok(&where))
		return;
	/* The same config may be chosen for another reason now. */
	if (is_config_unchanged(s, buf_str(&where), &text) && !force) {
		if (s->last_error.code != ERR_NONE || (is_choice(s, &choice) && !s->unsaved))
			return;
	} else if (apply_config_text(s, buf_str(&where), &text, &err) < 0) {
		report_config_refused(s, why, reason, &err);
		return;
	}
	remember_choice(s, &choice);
	save_config_in_force(s, choice.by, &text);
}

static void sync_config_file(struct agent_config *s, enum config_check_kind why)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
	struct error err = ERROR_INIT;

	if (config_source_read(s->source, "", &text, &err) < 0 ||
		apply_config_text(s, config_source_text(s->source), &text, &err) < 0)
		report_config_refused(s, why, "ConfigInvalid", &err);
	else
		save_config_in_force(s, CHOICE_EMPTY, &text);
}

static void sync_config(struct agent_config *s, enum config_check_kind why)
{
	if (is_config_named(s))
		sync_named_config(s, why);
	else
		sync_config_file(s, why);
}

static void on_config_source_changed(void *arg)
{
	sync_config(arg, CONFIG_CHECK_CHANGE);
}

static const struct config_source_ops source_ops = { .changed = on_config_source_changed };

/* --- the label --- */

static void on_wait(uv_timer_t *t);

static void follow_label(struct agent_config *s, enum label_act what)
{
	switch (what) {
	case LABEL_NOTHING:
		return;
	case LABEL_TICK:
		(void)uv_timer_start(&s->wait, on_wait, WAIT_CHECK_MS, WAIT_CHECK_MS);
		return;
	case LABEL_STOP:
		(void)uv_timer_stop(&s->wait);
		return;
	case LABEL_DO_WITHOUT:
		log_warn("the label of this node is not known, going on without it",
			LOG_STR("reason", api_link_error(s->c.link)));
		break;
	case LABEL_CHOOSE:
		break;
	}
	sync_config(s, CONFIG_CHECK_CHANGE);
}

void agent_config_label(struct agent_config *s, const char *uid, const char *label)
{
	enum label_act what;

	if (!is_config_named(s))
		return;
	s->unsaved |= strcmp(s->label.node_uid, uid) != 0;
	what = label_wait_node(&s->label, uid, label, time_mono_ns());
	if (what == LABEL_TICK)
		log_info("the Node is a new one, waiting for its label",
			LOG_STR("label", s->label.value));
	follow_label(s, what);
}

static void on_wait(uv_timer_t *t)
{
	struct agent_config *s = t->data;
	struct label_wait *w = &s->label;
	const struct node_object *n = s->c.link->node;
	enum label_answer answer =
		n ? label_wait_answer(w, node_object_state(n), node_object_error(n))
		  : LABEL_SILENT;

	follow_label(s, label_wait_tick(w, answer, s->c.facts->decided, time_mono_ns()));
}

/* Puts the saved config of an earlier run in force. @where: its name in messages. */
static int apply_saved_config(struct agent_config *s, const struct saved_config *k,
	const char *where)
{
	struct error err = ERROR_INIT;

	log_info("using the config of the last run", LOG_STR("entry", k->entry));
	if (apply_config_text(s, where, &k->text, &err) == 0)
		return 0;
	log_warn("kept config not used", LOG_STR("reason", err.msg));
	return -1;
}

/* Puts the saved choice in force. The label and the source may change it later. */
static int apply_saved_choice(struct agent_config *s)
{
	struct saved_config k = { .text = BUF_INIT(0) };
	struct config_choice choice;
	CLEANUP(buf_fini) struct buf where = BUF_INIT(PATH_MAX + CONFIG_ENTRY_NAME_MAX);
	int r = read_saved_config(s, &k);

	if (r < 0)
		goto out;
	choice = (struct config_choice){ .by = k.by, .name = *k.entry ? k.entry : NULL };
	where_is(s, choice.name, &where);
	r = apply_saved_config(s, &k, buf_str(&where));
	if (r < 0)
		goto out;
	remember_choice(s, &choice);
	/* If the source still has this text, the next check does not apply it again. */
	(void)is_config_unchanged(s, buf_str(&where), &k.text);
	label_wait_restore(&s->label, k.label, k.node_uid);
out:
	buf_fini(&k.text);
	return r;
}

static int apply_saved_config_file(struct agent_config *s, bool empty_too)
{
	struct saved_config k = { .text = BUF_INIT(0) };
	int r = read_saved_config(s, &k);

	if (r == 0 && !empty_too && config_is_empty(buf_str(&k.text), k.text.len))
		r = -1;
	if (r == 0)
		r = apply_saved_config(s, &k, s->c.options.file);
	buf_fini(&k.text);
	return r;
}

/* --- the GPUs --- */

/*
 * After a newer text was refused, the text in force is not available. The agent saves after the next valid text.
 */
void agent_config_retry(struct agent_config *s)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(CONFIG_FILE_MAX);

	if (!s->unsaved || s->fit == FIT_UNKNOWN || s->last_error.code != ERR_NONE)
		return;
	if (is_config_named(s))
		sync_config(s, CONFIG_CHECK_CHANGE);
	else if (config_source_read(s->source, "", &text, NULL) == 0)
		save_config_in_force(s, CHOICE_EMPTY, &text);
}

/*
 * The first inventory with GPUs. The agent refuses a config that is impossible here, as at a reload, and puts
 * the last valid one in force. Without a saved config it can offer nothing.
 */
static void check_config_on_gpus(struct agent_config *s)
{
	struct error err = ERROR_INIT;

	s->fit = FIT_GOOD;
	if (!s->c.facts->decided || !s->source)
		return;
	if (try_config(s, s->c.facts->config, &err) == 0) {
		agent_config_retry(s);
		return;
	}
	if ((is_config_named(s) ? apply_saved_choice(s)
				: apply_saved_config_file(s, /* empty_too= */ true)) == 0)
		sync_config(s, CONFIG_CHECK_CHANGE); /* refuses the source's text */
}

void agent_config_gpus_changed(struct agent_config *s)
{
	if (s->fit == FIT_UNKNOWN && s->c.facts->node.inv && s->c.facts->node.inv->n > 0) {
		check_config_on_gpus(s);
		return;
	}
	if (s->fit != FIT_REFUSED || !s->source)
		return;
	buf_clear(&s->seen);
	sync_config(s, CONFIG_CHECK_GPUS);
}

/* --- life --- */

static int start_config_file(struct agent_config *s, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
	struct error why = ERROR_INIT;

	/* NVIDIA's wording first, because operators search for it. */
	if (file_read(s->c.options.file, &text, &why) < 0) {
		(void)error_prefix(&why, "unable to load config: error opening config file");
		buf_clear(&text);
	} else {
		/* An empty file may replace nothing but an empty config, so the saved one comes first. */
		if (config_is_empty(buf_str(&text), text.len))
			(void)apply_saved_config_file(s, /* empty_too= */ false);
		if (apply_config_text(s, s->c.options.file, &text, &why) == 0)
			save_config_in_force(s, CHOICE_EMPTY, &text);
	}
	if (why.code != ERR_NONE && !s->c.facts->decided &&
		apply_saved_config_file(s, /* empty_too= */ true) < 0) {
		error_copy(err, &why);
		return -1;
	}
	if (why.code != ERR_NONE)
		report_config_refused(s, CONFIG_CHECK_CHANGE, "ConfigInvalid", &why);
	return config_source_file(&s->source, s->c.loop, s->c.options.file, &text, &source_ops,
		s, err);
}

/* "[namespace/]name". Without a namespace: that of the pod. */
static int name_map(struct agent_config *s, const char *text, struct error *err)
{
	if (config_map_name("config-map", text, s->c.link->namespace_, s->map_namespace, s->map,
		    err) < 0)
		return -1;
	if (!*s->map_namespace && s->c.link->possible)
		return error_set(err, ERR_INVALID,
			"--config-map %s: the namespace of this pod is not known%s%s; give "
			"NAMESPACE/NAME or --namespace",
			text, s->c.link->found ? "" : ": ",
			s->c.link->found ? "" : s->c.link->why.msg);
	if (asprintf(&s->source_text, "configmap %s/%s", s->map_namespace, s->map) < 0) {
		s->source_text = NULL;
		return error_nomem(err);
	}
	return 0;
}

static int start_named(struct agent_config *s, struct error *err)
{
	if (s->c.options.dir) {
		if (config_source_dir(&s->source, s->c.loop, s->c.options.dir, &source_ops, s,
			    err) < 0)
			return -1;
		s->source_text = strdup(config_source_text(s->source));
		if (!s->source_text)
			return error_nomem(err);
	}
	follow_label(s,
		label_wait_start(&s->label, s->c.link->possible, *s->map, time_mono_ns()));
	(void)apply_saved_choice(s);
	sync_config(s, CONFIG_CHECK_CHANGE);
	return 0;
}

void agent_config_with_api(struct agent_config *s, struct api *api)
{
	struct error err = ERROR_INIT;

	label_wait_asked(&s->label, node_object_error(s->c.link->node));
	if (*s->map && config_source_map(&s->source, api, s->map_namespace, s->map, &source_ops,
			       s, &err) < 0)
		report_config_refused(s, CONFIG_CHECK_CHANGE, "ConfigNotFound", &err);
}

void agent_config_without_api(struct agent_config *s)
{
	label_wait_set_no_api(&s->label);
	if (is_config_named(s))
		sync_config(s, CONFIG_CHECK_CHANGE);
}

int agent_config_start(struct agent_config *s, struct error *err)
{
	const struct agent_config_options *o = &s->c.options;
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;

	if (strv_copy(&s->fallbacks, o->fallbacks, err) < 0 ||
		config_fallbacks_check(&s->fallbacks, err) < 0 ||
		parse_config_text(s, "", "", 0, &s->c.facts->config, &warnings, err) < 0)
		return -1;
	s->c.options.fallbacks = &s->fallbacks;
	if (o->file)
		return start_config_file(s, err);
	if (o->map && name_map(s, o->map, err) < 0)
		return -1;
	if (is_config_named(s))
		return start_named(s, err);
	/* Options and variables alone. */
	s->warnings = warnings;
	warnings = (struct strv)STRV_INIT;
	log_config_warnings(&s->warnings);
	s->c.facts->decided = true;
	s->since_wall_ns = time_wall_ns();
	s->c.facts->config_generation = 1;
	return 0;
}

/* An option that is not given is NULL. */
static const char *option_or_null(const char *text)
{
	return text && *text ? text : NULL;
}

void agent_config_init(struct agent_config *s, const struct agent_config_context *context)
{
	struct agent_config_options *o = &s->c.options;

	*s = (struct agent_config){ .c = *context };
	s->c.facts->config_generation = 0;
	o->file = option_or_null(o->file);
	o->dir = option_or_null(o->dir);
	o->map = option_or_null(o->map);
	s->seen = (struct buf)BUF_INIT(CONFIG_FILE_MAX + 2 * PATH_MAX);
	(void)uv_timer_init(s->c.loop, &s->wait);
	s->wait.data = s;
}

void agent_config_reload(struct agent_config *s)
{
	if (is_config_named(s))
		sync_config(s, CONFIG_CHECK_RELOAD);
	else if (s->source)
		config_source_check(s->source);
}

void agent_config_stop(struct agent_config *s)
{
	s->source = config_source_stop(s->source);
	uv_close((uv_handle_t *)&s->wait, NULL);
}

void agent_config_fini(struct agent_config *s)
{
	s->c.facts->config = config_free(s->c.facts->config);
	free(s->where);
	free(s->source_text);
	strv_fini(&s->warnings);
	strv_fini(&s->fallbacks);
	buf_fini(&s->seen);
}
