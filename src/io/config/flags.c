/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/read.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/parse.h"
#include "lib/base/time.h"

/* NVIDIA's flags: from file, environment and command line, in their order of precedence. */

#define CHANNELS_MAX 2048 /* number of IMEX channels of one node */

static bool is_flag(const struct config_field *f)
{
	return (f->flags & FIELD_STORED) && !(f->flags & FIELD_OURS);
}

static const struct flag_value *flags_value(const struct config_reader *r, const char *path)
{
	return &r->values[field_by_path(path) - config_fields];
}

static int set_str(struct config_reader *r, struct flag_value *v, const char *text)
{
	free(v->str);
	v->str = strdup(text);
	return v->str ? 0 : error_nomem(r->err);
}

/* A number without a unit means nanoseconds, which is rarely intended. */
static int any_duration(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct flag_value *v)
{
	char found[YAML_SHOW_MAX], text[DURATION_TEXT_MAX];

	yaml_show(n, found, sizeof(found));
	if ((n->type == YAML_INT || n->type == YAML_FLOAT) && n->f > -9.2e18 && n->f < 9.2e18) {
		v->i = n->type == YAML_INT ? n->i : (int64_t)n->f;
		duration_text(v->i, text);
		if (v->i > 0 && v->i < (int64_t)NS_PER_SEC)
			return read_warn(r, n, path,
				"%s is a number of nanoseconds (%s); write a unit, as in \"60s\"",
				found, text);
		return 0;
	}
	if (n->type != YAML_STR)
		return read_fail(r, n, path, ERR_INVALID,
			"invalid duration: expected a text such as \"60s\" or \"infinite\", found "
			"%s",
			found);
	if (!strcmp(n->text, "infinite")) {
		v->i = INT64_MAX;
		return 0;
	}
	if (parse_duration(n->text, &v->i))
		return 0;
	return read_fail(r, n, path, ERR_INVALID,
		"expected a duration such as \"60s\", \"1m30s\" or \"infinite\", found %s: time: %s "
		"duration %s",
		found,
		n->len && strspn(n->text, "+-.0123456789") == n->len ? "missing unit in"
								     : "invalid",
		found);
}

static int duration_value(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct flag_value *v)
{
	char found[YAML_SHOW_MAX];

	if (any_duration(r, n, path, v) < 0)
		return -1;
	if (v->i >= 0)
		return 0;
	return read_fail(r, n, path, ERR_INVALID,
		"expected a duration such as \"60s\", \"1m30s\" or \"infinite\" that is not negative, found %s",
		yaml_show(n, found, sizeof(found)));
}

static int strategies_value(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct flag_value *v)
{
	char found[YAML_SHOW_MAX];
	bool good = n->type == YAML_STR || n->type == YAML_LIST;

	for (size_t i = 0; n->type == YAML_LIST && i < n->n; i++)
		good = good && n->items[i]->type == YAML_STR;
	if (!good)
		return read_fail(r, n, path, ERR_INVALID,
			"invalid deviceListStrategy: %s; expected a text or a list of texts",
			yaml_show(n, found, sizeof(found)));
	if (n->type == YAML_STR) /* one strategy; commas do not split it here */
		return strv_add(&v->list, n->text, r->err);
	if (n->n > CONFIG_ENTRIES_MAX)
		return read_fail(r, n, path, ERR_LIMIT,
			"expected at most %d elements, found %zu", CONFIG_ENTRIES_MAX, n->n);
	for (size_t i = 0; i < n->n; i++) {
		if (strv_add(&v->list, n->items[i]->text, r->err) < 0)
			return -1;
	}
	return 0;
}

static int channels_value(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct flag_value *v)
{
	if (n->type != YAML_LIST)
		return read_type_error(r, n, path, "a list of whole numbers", "[]int");
	if (n->n > CHANNELS_MAX)
		return read_fail(r, n, path, ERR_LIMIT,
			"expected at most %d elements, found %zu", CHANNELS_MAX, n->n);
	for (size_t i = 0; i < n->n; i++) {
		struct config_value_path item = { path, NULL, i };
		char text[24];
		int64_t id = 0;

		if (n->items[i]->type == YAML_NULL)
			return read_type_error(r, n->items[i], &item, "a whole number", "int");
		if (read_int(r, n->items[i], &item, &id) < 0)
			return -1;
		(void)snprintf(text, sizeof(text), "%" PRId64, id);
		if (strv_add(&v->list, text, r->err) < 0)
			return -1;
	}
	return 0;
}

static int file_value(struct config_reader *r, const struct config_field *f,
	const struct yaml_node *n, const struct config_value_path *path)
{
	struct flag_value *v = &r->values[f - config_fields];
	const char *text = NULL;
	int set = 0;

	if (n->type == YAML_NULL)
		return 0;
	switch (f->type) {
	case FIELD_STR:
	case FIELD_WORD:
		set = read_text_value(r, n, path, /* strict= */ false, &text);
		if (set > 0)
			set = set_str(r, v, text);
		break;
	case FIELD_BOOL:
		set = read_bool(r, n, path, &v->b);
		break;
	case FIELD_DURATION:
		set = duration_value(r, n, path, v);
		break;
	case FIELD_STRATEGIES:
		set = strategies_value(r, n, path, v);
		break;
	case FIELD_IMEX:
		set = channels_value(r, n, path, v);
		break;
	case FIELD_OBJECT:
	case FIELD_LIST:
	case FIELD_INT:
	case FIELD_NAME:
	case FIELD_MEMORY:
	case FIELD_DEVICES:
	case FIELD_XIDS:
		break;
	}
	if (set < 0)
		return -1;
	v->source = VALUE_FROM_FILE;
	v->pos = (struct config_pos){ n->line, n->column };
	if ((f->flags & FIELD_NO_EFFECT) && !(f->type == FIELD_STR && !*v->str))
		return read_warn(r, n, path, "has no effect: %s", f->note);
	return 0;
}

/* Reads the flags directly in the object @pattern. */
static int read_level(struct config_reader *r, const struct yaml_node *object,
	const struct config_value_path *path, const char *pattern)
{
	for (size_t i = 0; i < config_n_fields; i++) {
		const struct config_field *f = &config_fields[i];
		struct config_value_path inner = { path, field_key(f), 0 };
		const struct yaml_node *n;

		if (!is_flag(f) || !field_is_in(f, pattern))
			continue;
		n = read_find_key(object, pattern, field_key(f));
		if (n && read_on(r, file_value(r, f, n, &inner)) < 0)
			return -1;
	}
	return 0;
}

static int read_group(struct config_reader *r, const struct yaml_node *parent,
	const struct config_value_path *up, const char *pattern, const struct yaml_node **ret)
{
	const struct config_field *f = field_by_path(pattern);
	struct config_value_path path = { up, field_key(f), 0 };
	const struct yaml_node *n = parent ? yaml_get(parent, field_key(f), true) : NULL;
	int there = read_object(r, n, &path, pattern);

	*ret = NULL;
	if (there < 0 && n && n->type == YAML_OBJECT && read_on(r, there) == 0)
		there = 1; /* its known keys are still read */
	if (there > 0)
		*ret = n;
	if (there <= 0)
		return there;
	assert(n); /* read_object() returned 1 */
	if ((f->flags & FIELD_NO_EFFECT) && n->n &&
		read_warn(r, n, &path, "has no effect: %s", f->note) < 0)
		return -1;
	return read_level(r, n, &path, pattern);
}

int read_flags(struct config_reader *r, const struct yaml_node *top)
{
	const struct config_value_path path = { NULL, "flags", 0 };
	const struct yaml_node *flags, *unused;

	if (read_on(r, read_group(r, top, NULL, "flags", &flags)) < 0 ||
		read_on(r, read_group(r, flags, &path, "flags.plugin", &unused)) < 0 ||
		read_on(r, read_group(r, flags, &path, "flags.gfd", &unused)) < 0)
		return -1;
	return read_group(r, top, NULL, "imex", &unused);
}

/* The variable of the option that the environment has. */
static const char *env_name(const struct config_reader *r, const struct option_def *d)
{
	const char *(*env)(const char *) = r->sources->env;

	for (size_t i = 0; i < ARRAY_LEN(d->env); i++) {
		if (d->env[i] && (env ? env(d->env[i]) : getenv(d->env[i])))
			return d->env[i];
	}
	return d->env[0];
}

static bool is_option_different(const struct config_field *f, const struct flag_value *file,
	const struct option_value *o)
{
	if (f->type == FIELD_BOOL)
		return file->b != o->b;
	if (f->type == FIELD_STRATEGIES || f->type == FIELD_IMEX)
		return !strv_equal(&file->list, &o->list);
	return strcmp(file->str ? file->str : "", o->str ? o->str : "") != 0;
}

static int overlay_one(struct config_reader *r, const struct config_field *f,
	const struct option_value *o, const struct option_def *d)
{
	struct flag_value *v = &r->values[f - config_fields];
	bool args = o->source == OPTION_FROM_ARGS;
	struct yaml_node at = { .line = v->pos.line, .column = v->pos.column };
	struct config_value_path path = { NULL, f->path, 0 };

	/* An empty variable is not a list of numbers. NVIDIA's programs ignore it, too. */
	if (f->type == FIELD_IMEX && !args && o->list.n == 1 && !*o->list.v[0])
		return 0;
	if (v->source == VALUE_FROM_FILE && is_option_different(f, v, o) &&
		read_warn(r, &at, &path, "has no effect: %s%s overrides it", args ? "--" : "$",
			args ? d->name : env_name(r, d)) < 0)
		return -1;
	v->source = args ? VALUE_FROM_ARGS : VALUE_FROM_ENV;
	v->env = args ? NULL : env_name(r, d);
	v->pos = (struct config_pos){ 0, 0 };
	v->b = o->b;
	strv_clear(&v->list);
	if (strv_copy(&v->list, &o->list, r->err) < 0)
		return -1;
	return set_str(r, v, o->str ? o->str : "");
}

/* NVIDIA's words for CDI (--device-list-strategy). .note: why a word has no effect here. */
struct cdi_word {
	const char *word, *note;
};

static const struct cdi_word cdi_feature_words[] = {
	{ "disable-ipc-discoverer", NULL },
	{ "disable-multiple-csv-devices", "it is for Tegra, which is not supported" },
	{ "disable-nvsandboxutils", NULL }, /* never used here */
	{ "enable-coherent-annotations", "device annotations are not written" },
	{ "enable-explicit-driver-libraries", NULL },
	{ "no-additional-gids-for-device-nodes", NULL },
};

static const struct cdi_word cdi_hook_words[] = {
	{ "all", NULL },
	{ "chmod", NULL }, /* never written here */
	{ "create-symlinks", NULL },
	{ "disable-device-node-modification", NULL },
	{ "enable-cuda-compat", NULL },
	{ "update-ldcache", NULL },
};

static const char *get_word_note(const char *word, const struct cdi_word *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(words[i].word, word))
			return words[i].note;
	}
	return "it is not known";
}

/* Lists that only flags and variables have. An empty variable is an empty list. */
static int read_word_list_option(struct config_reader *r, const char *name,
	const struct cdi_word *words, size_t n, struct strv *ret)
{
	const struct option_value *v = option_get(r->sources->options, name);
	char text[200];

	if (v->list.n > CONFIG_ENTRIES_MAX)
		return error_set(r->err, ERR_LIMIT,
			"--%s: expected at most %d words, found %zu", name, CONFIG_ENTRIES_MAX,
			v->list.n);
	for (size_t i = 0; v->source != OPTION_UNSET && i < v->list.n; i++) {
		const char *word = v->list.v[i], *note = get_word_note(word, words, n);

		if (!*word || strv_has(ret, word))
			continue;
		(void)snprintf(text, sizeof(text), "--%s: '%.60s' has no effect: %s", name,
			word, note ? note : "");
		if (note && r->warnings && strv_add(r->warnings, text, r->err) < 0)
			return -1;
		if (strv_add(ret, word, r->err) < 0)
			return -1;
	}
	return 0;
}

int flags_overlay(struct config_reader *r)
{
	const struct options *o = r->sources ? r->sources->options : NULL;

	if (!o)
		return 0;
	for (size_t i = 0; i < config_n_fields; i++) {
		const struct config_field *f = &config_fields[i];
		const struct option_value *v;

		if (!is_flag(f) || !f->option)
			continue;
		v = option_get(o, f->option);
		if (v->source != OPTION_UNSET &&
			overlay_one(r, f, v, &o->defs[v - o->values]) < 0)
			return -1;
	}
	if (read_word_list_option(r, "cdi-feature-flags", cdi_feature_words,
		    ARRAY_LEN(cdi_feature_words), &r->c->cdi_features) < 0)
		return -1;
	return read_word_list_option(r, "cdi-disable-hooks", cdi_hook_words,
		ARRAY_LEN(cdi_hook_words), &r->c->cdi_disabled_hooks);
}

void flags_format_source(const struct config_reader *r, const char *path, char *buf, size_t cap)
{
	const struct config_field *f = field_by_path(path);
	const struct flag_value *v = &r->values[f - config_fields];

	switch (v->source) {
	case VALUE_FROM_FILE:
		if (r->src->inside)
			(void)snprintf(buf, cap,
				"%.150s:%u:%u (inside the text of line %u): %s", r->src->name,
				v->pos.line, v->pos.column, r->src->inside, path);
		else
			(void)snprintf(buf, cap, "%.200s:%u:%u: %s", r->src->name, v->pos.line,
				v->pos.column, path);
		return;
	case VALUE_FROM_ENV:
		(void)snprintf(buf, cap, "$%s", v->env);
		return;
	case VALUE_FROM_ARGS:
		(void)snprintf(buf, cap, "--%s", f->option);
		return;
	case VALUE_UNSET:
		break;
	}
	(void)snprintf(buf, cap, "%s", path);
}

static int set_flag_error(struct config_reader *r, const char *path, const char *text,
	const char *value, const char *end, const char *expected)
{
	char place[FLAGS_SOURCE_MAX];

	flags_format_source(r, path, place, sizeof(place));
	return error_set(r->err, ERR_INVALID, "%s: %s%.80s%s%s%s", place, text, value, end,
		*expected ? "; expected " : "", expected);
}

static int check_words(struct config_reader *r, const char *path, const char *text)
{
	const struct config_field *f = field_by_path(path);
	const struct flag_value *v = &r->values[f - config_fields];
	char list[120];

	if (v->source == VALUE_UNSET)
		return 0;
	words_list(f->words, list, sizeof(list));
	if (f->type == FIELD_WORD)
		return words_find(f->words, v->str) < 0
			       ? set_flag_error(r, path, text, v->str, "", list)
			       : 0;
	for (size_t i = 0; i < v->list.n; i++) {
		if (words_find(f->words, v->list.v[i]) < 0)
			return set_flag_error(r, path, text, v->list.v[i], "", list);
	}
	return 0;
}

/* mpsRoot must be absolute if MPS is used. NVIDIA's plugin also refuses MPS with strategy mixed and an
 * empty root. */
static int check_mps(struct config_reader *r)
{
	const struct flag_value *root = flags_value(r, "flags.mpsRoot");

	if (!config_wants_mps(r->c) || !root->str || !*root->str || *root->str == '/')
		return 0;
	return set_flag_error(r, "flags.mpsRoot", "expected an absolute path, found '",
		root->str, "'", "");
}

static int check_channels(struct config_reader *r)
{
	const struct flag_value *v = flags_value(r, "imex.channelIDs");
	char found[64] = "";
	size_t len = 0;

	for (size_t i = 0; i < v->list.n; i++) {
		int64_t id;

		if (!parse_i64(v->list.v[i], &id))
			return set_flag_error(r, "imex.channelIDs", "invalid value '",
				v->list.v[i], "'", "whole numbers");
		if (len < sizeof(found))
			len += (size_t)snprintf(found + len, sizeof(found) - len, "%s%" PRId64,
				i ? " " : "", id);
	}
	if (v->list.n == 0 || (v->list.n == 1 && !strcmp(found, "0")))
		return 0;
	return set_flag_error(r, "imex.channelIDs",
		"invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found [",
		found, "]", "");
}

/* In NVIDIA's order and with its texts. No check that CDI needs NVML: without NVML nothing is offered, and
 * the agent waits for it. */
int flags_validate(struct config_reader *r)
{
	if (read_on(r, check_words(r, "flags.plugin.deviceListStrategy",
			       "invalid --device-list-strategy option: invalid strategy: ")) <
			0 ||
		read_on(r, check_words(r, "flags.plugin.deviceIDStrategy",
				   "invalid --device-id-strategy option: ")) < 0 ||
		read_on(r, check_words(r, "flags.plugin.sharedDevicesAllocationPolicy",
				   "invalid --shared-devices-allocation-policy option: ")) <
			0 ||
		read_on(r, check_mps(r)) < 0 ||
		read_on(r, check_words(r, "flags.deviceDiscoveryStrategy",
				   "invalid --device-discovery-strategy option ")) < 0 ||
		read_on(r, check_words(r, "flags.migStrategy", "unknown MIG strategy: ")) < 0)
		return -1;
	return check_channels(r);
}

static int apply_one(struct config_reader *r, const struct config_field *f,
	struct flag_value *v)
{
	char *at = (char *)r->c + f->offset;
	unsigned set = 0;

	switch (f->type) {
	case FIELD_STR:
		free(*(char **)at);
		*(char **)at = STEAL_PTR(v->str);
		break;
	case FIELD_BOOL:
		*(bool *)at = v->b;
		break;
	case FIELD_DURATION:
		*(int64_t *)at = v->i;
		break;
	case FIELD_WORD: /* enums of struct config have the size of int, asserted below */
		*(int *)at = words_find(f->words, v->str);
		break;
	case FIELD_STRATEGIES:
		for (size_t i = 0; i < v->list.n; i++)
			set |= 1U << words_find(f->words, v->list.v[i]);
		*(unsigned *)at = set;
		break;
	case FIELD_IMEX:
		*(bool *)at = v->list.n > 0;
		break;
	case FIELD_OBJECT:
	case FIELD_LIST:
	case FIELD_INT:
	case FIELD_NAME:
	case FIELD_MEMORY:
	case FIELD_DEVICES:
	case FIELD_XIDS:
		break;
	}
	return 0;
}

static_assert(sizeof(enum mig_strategy) == sizeof(int), "FIELD_WORD writes an int");
static_assert(MIG_STRATEGY_MIXED == 2 && DISCOVERY_VFIO == 3 && DEVICE_ID_INDEX == 1 &&
		      ALLOCATION_PACKED == 1 && DEVICE_LIST_CDI_CRI == 1 << 3,
	"the words of field.c are in the order of these enums");

int flags_apply(struct config_reader *r)
{
	for (size_t i = 0; i < config_n_fields; i++) {
		if (is_flag(&config_fields[i]) && r->values[i].source != VALUE_UNSET &&
			apply_one(r, &config_fields[i], &r->values[i]) < 0)
			return -1;
	}
	r->c->fail_on_init_error_set =
		flags_value(r, "flags.failOnInitError")->source != VALUE_UNSET;
	r->c->cdi_hook_path_set =
		flags_value(r, "flags.plugin.nvidiaCTKPath")->source != VALUE_UNSET &&
		*r->c->cdi_hook_path;
	if (!*r->c->mps_root) {
		char *root = strdup(MPS_DEFAULT_ROOT);

		if (!root)
			return error_nomem(r->err);
		free(r->c->mps_root);
		r->c->mps_root = root;
	}
	if (!*r->c->dev_root || flags_value(r, "flags.nvidiaDevRoot")->source == VALUE_UNSET) {
		char *same = strdup(r->c->driver_root);

		if (!same)
			return error_nomem(r->err);
		free(r->c->dev_root);
		r->c->dev_root = same;
	}
	return 0;
}
