/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/option.h"

#include "lib/base/parse.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define HELP_COLUMN 34

static const char *type_text(enum option_type type)
{
	switch (type) {
	case OPTION_STR:
		return "text";
	case OPTION_BOOL:
		return "true or false";
	case OPTION_UINT:
		return "a whole number";
	case OPTION_LIST:
		return "a list";
	case OPTION_DURATION:
		return "a duration from 0s, such as 30s or 1m30s";
	}
	return "";
}

static int set_option_value_error(const struct option_def *d, const char *where,
	const char *text, struct error *err)
{
	return error_set(err, ERR_INVALID, "%s: expected %s, found '%s'", where,
		type_text(d->type), text);
}

/* Sets one value from text. Lists grow; the caller clears a list when a new source replaces it. */
static int set_option_value(const struct option_def *d, struct option_value *v,
	const char *where, const char *text, struct error *err)
{
	int64_t ns;

	switch (d->type) {
	case OPTION_STR:
		v->str = text;
		return 0;
	case OPTION_BOOL:
		return parse_bool(text, &v->b) ? 0
					       : set_option_value_error(d, where, text, err);
	case OPTION_UINT:
		return parse_u64(text, &v->u) ? 0 : set_option_value_error(d, where, text, err);
	case OPTION_LIST:
		v->str = text;
		return strv_split(&v->list, text, ',', err);
	case OPTION_DURATION:
		if (!strcmp(text, "infinite")) {
			v->ns = INT64_MAX;
			return 0;
		}
		if (!parse_duration(text, &ns) || ns < 0)
			return set_option_value_error(d, where, text, err);
		v->ns = ns;
		return 0;
	}
	return 0;
}

/* Parses the value @text of an option from @source. */
static int parse_option_value(struct options *o, const struct option_def *d, const char *where,
	const char *text, enum option_source source, struct error *err)
{
	struct option_value *v = &o->values[d - o->defs];
	struct error why = ERROR_INIT;

	if (v->source != source)
		strv_clear(&v->list);
	if (set_option_value(d, v, where, text, &why) == 0) {
		v->source = source;
		return 0;
	}
	if (why.code == ERR_INVALID && d->secondary)
		return strv_add(&o->invalid, why.msg, err);
	error_copy(err, &why);
	return -1;
}

static int read_options_from_env(struct options *o, const char *(*env)(const char *),
	struct error *err)
{
	for (size_t i = 0; i < o->n_defs; i++) {
		const struct option_def *d = &o->defs[i];

		for (size_t k = 0; k < ARRAY_LEN(d->env); k++) {
			const char *text = d->env[k] ? env(d->env[k]) : NULL;

			if (!text)
				continue;
			if (!*text && (d->type == OPTION_UINT || d->type == OPTION_DURATION))
				continue;
			if (!*text && d->type == OPTION_BOOL)
				text = "false";
			if (parse_option_value(o, d, d->env[k], text, OPTION_FROM_ENV, err) < 0)
				return -1;
			break;
		}
	}
	return 0;
}

static const struct option_def *find_long(const struct options *o, const char *name, size_t len)
{
	for (size_t i = 0; i < o->n_defs; i++) {
		const struct option_def *d = &o->defs[i];

		if (strlen(d->name) == len && !memcmp(d->name, name, len))
			return d;
		if (d->alias && strlen(d->alias) == len && !memcmp(d->alias, name, len))
			return d;
	}
	if (len == 1) {
		for (size_t i = 0; i < o->n_defs; i++) {
			if (o->defs[i].letter == name[0])
				return &o->defs[i];
		}
	}
	return NULL;
}

/* Parses the option word @word with the name [name, name+len) and perhaps "=text". */
static int parse_option_word(struct options *o, const char *name, size_t len, const char *text,
	const char *next, bool *ret_used_next, const char **forms, struct error *err)
{
	const struct option_def *d = find_long(o, name, len);
	char where[80];

	*ret_used_next = false;
	if (!d)
		return error_set(err, ERR_INVALID,
			"unknown option '%s%.*s'; --help lists the options",
			len == 1 ? "-" : "--", (int)len, name);
	(void)snprintf(where, sizeof(where), "%s%.*s", len == 1 ? "-" : "--", (int)len, name);
	if (forms[d - o->defs] && strncmp(forms[d - o->defs], name, len) != 0)
		return error_set(err, ERR_INVALID,
			"Cannot use two forms of the same flag: %s %s", d->name,
			d->alias ? d->alias : "");
	forms[d - o->defs] = name;
	if (!text && d->type == OPTION_BOOL) {
		text = "true";
	} else if (!text) {
		if (!next)
			return error_set(err, ERR_INVALID, "%s: expected %s, found nothing",
				where, type_text(d->type));
		text = next;
		*ret_used_next = true;
	}
	return parse_option_value(o, d, where, text, OPTION_FROM_ARGS, err);
}

static bool is_option_letter(const struct options *o, char letter)
{
	for (size_t i = 0; i < o->n_defs; i++) {
		if (letter && o->defs[i].letter == letter)
			return true;
	}
	return false;
}

/* Whether a word behind one dash is no name but consists of known letters: "-msf". */
static bool is_bundle(const struct options *o, const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!is_option_letter(o, word[i]))
			return false;
	}
	return len > 1;
}

/* All letters but the last are bools; "=value" and the next word belong to the last. */
static int parse_option_bundle(struct options *o, const char *word, size_t len,
	const char *text, const char *next, bool *ret_used_next, const char **forms,
	struct error *err)
{
	for (size_t i = 0; i < len; i++) {
		bool last = i + 1 == len;

		if (parse_option_word(o, word + i, 1, last ? text : NULL, last ? next : NULL,
			    ret_used_next, forms, err) < 0)
			return -1;
	}
	return 0;
}

/* Reads the option word @word, without its dashes. *ret_used_next: its value was @next. */
static int read_option(struct options *o, const char *word, bool one_dash, const char *next,
	bool *ret_used_next, const char **forms, struct error *err)
{
	const char *eq = strchr(word, '='), *text = eq ? eq + 1 : NULL;
	size_t len = eq ? (size_t)(eq - word) : strlen(word);

	*ret_used_next = false;
	if (!find_long(o, word, len)) {
		if (!strcmp(word, "help") || !strcmp(word, "h"))
			return OPTIONS_HELP;
		if (!strcmp(word, "version") || !strcmp(word, "v"))
			return OPTIONS_VERSION;
		if (one_dash && is_bundle(o, word, len))
			return parse_option_bundle(o, word, len, text, next, ret_used_next,
				forms, err);
	}
	return parse_option_word(o, word, len, text, next, ret_used_next, forms, err);
}

static int read_options_from_args(struct options *o, int argc, char *const *argv,
	unsigned flags, const char **forms, struct error *err)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
		bool used_next, one_dash = word[0] == '-' && word[1] != '-';
		int r;

		if (word[0] != '-' || !word[1] || !strcmp(word, "--")) {
			bool rest = !strcmp(word, "--") || (flags & OPTIONS_STOP_AT_ARG);

			for (int k = i + !strcmp(word, "--"); k < argc; k++) {
				if (strv_add(&o->args, argv[k], err) < 0)
					return -1;
				if (!rest)
					break;
			}
			if (rest)
				return 0;
			continue;
		}
		r = read_option(o, word + (one_dash ? 1 : 2), one_dash, next, &used_next, forms,
			err);
		if (r)
			return r;
		i += used_next;
	}
	return 0;
}

static const char *get_process_env(const char *name)
{
	return getenv(name);
}

int options_parse(struct options *o, const struct option_def *defs, size_t n_defs, int argc,
	char *const *argv, unsigned flags, const char *(*env)(const char *name),
	struct error *err)
{
	CLEANUP(freep) const char **forms = NULL;

	*o = (struct options){ .defs = defs, .n_defs = n_defs };
	o->values = calloc(n_defs ? n_defs : 1, sizeof(*o->values));
	forms = calloc(n_defs ? n_defs : 1, sizeof(*forms));
	if (!o->values || !forms)
		return error_nomem(err);
	if (read_options_from_env(o, env ? env : get_process_env, err) < 0)
		return -1;
	return read_options_from_args(o, argc, argv, flags, forms, err);
}

void options_fini(struct options *o)
{
	for (size_t i = 0; o->values && i < o->n_defs; i++)
		strv_fini(&o->values[i].list);
	free(o->values);
	o->values = NULL;
	strv_fini(&o->args);
	strv_fini(&o->invalid);
}

const struct option_value *option_get(const struct options *o, const char *name)
{
	const struct option_def *d = find_long(o, name, strlen(name));

	assert(d);
	return &o->values[d - o->defs];
}

const char *option_str(const struct options *o, const char *name, const char *def)
{
	const struct option_value *v = option_get(o, name);

	return v->source == OPTION_UNSET ? def : v->str;
}

bool option_bool(const struct options *o, const char *name, bool def)
{
	const struct option_value *v = option_get(o, name);

	return v->source == OPTION_UNSET ? def : v->b;
}

uint64_t option_uint(const struct options *o, const char *name, uint64_t def)
{
	const struct option_value *v = option_get(o, name);

	return v->source == OPTION_UNSET ? def : v->u;
}

int option_choice(const struct options *o, const char *name, const char *const *words, size_t n,
	struct error *err)
{
	const char *word = option_str(o, name, words[0]);
	CLEANUP(buf_fini) struct buf list = BUF_INIT(256);

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(word, words[i]))
			return (int)i;
		buf_printf(&list, "%s%s", !i ? "" : i + 1 < n ? ", " : " or ", words[i]);
	}
	return error_set(err, ERR_INVALID, "--%s: expected %s, found '%.40s'", name,
		buf_str(&list), word);
}

void options_help(struct buf *b, const struct option_def *defs, size_t n_defs)
{
	buf_puts(b, "Options:\n");
	for (size_t i = 0; i < n_defs; i++) {
		const struct option_def *d = &defs[i];
		size_t start = b->len;

		buf_puts(b, "  ");
		if (d->letter)
			buf_printf(b, "-%c, ", d->letter);
		buf_printf(b, "--%s", d->name);
		if (d->arg)
			buf_printf(b, " %s", d->arg);
		if (d->alias)
			buf_printf(b, ", --%s", d->alias);
		if (b->len - start >= HELP_COLUMN - 1) {
			buf_putc(b, '\n');
			start = b->len;
		}
		while (buf_ok(b) && b->len - start < HELP_COLUMN)
			buf_putc(b, ' ');
		buf_puts(b, d->help);
		if (d->def)
			buf_printf(b, " (default: %s)", *d->def ? d->def : "none");
		if (d->env[0])
			buf_printf(b, " [$%s%s%s]", d->env[0], d->env[1] ? ", $" : "",
				d->env[1] ? d->env[1] : "");
		buf_putc(b, '\n');
	}
	buf_printf(b, "  %-*s%s\n", HELP_COLUMN - 2, "-h, --help", "show this text");
	buf_printf(b, "  %-*s%s\n", HELP_COLUMN - 2, "--version", "show the version");
}

/* --- log options --- */

int log_option_setup(const struct options *o, struct error *err)
{
	const char *level = option_str(o, "log-level", "info");
	const char *format = option_str(o, "log-format", "text");
	enum log_level l = LOG_INFO;
	enum log_format f = LOG_TEXT;
	int r = 0;

	if (!log_format_parse(format, &f))
		r = error_set(err, ERR_INVALID,
			"--log-format: expected text or json, found '%.60s'", format);
	if (!log_level_parse(level, &l))
		r = error_set(err, ERR_INVALID,
			"--log-level: expected error, warn, info or debug, found '%.60s'",
			level);
	log_setup(l, f);
	return r;
}
