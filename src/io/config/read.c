/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NEAR_MAX 48 /* limit of the words to compare */

static void where_text(const struct config_value_path *path, char *buf, size_t cap)
{
	size_t len;

	if (!path) {
		buf[0] = '\0';
		return;
	}
	where_text(path->parent, buf, cap);
	len = strlen(buf);
	if (path->key)
		(void)snprintf(buf + len, cap - len, "%s%s", len ? "." : "", path->key);
	else
		(void)snprintf(buf + len, cap - len, "[%zu]", path->index);
}

int read_fail(struct config_reader *r, const struct yaml_node *at,
	const struct config_value_path *path, enum error_code code, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX], where[WHERE_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	where_text(path, where, sizeof(where));
	return yaml_fail(r->src, at ? at->line : 1, at ? at->column : 1, code, r->err, "%s%s%s",
		where, *where ? ": " : "", text);
}

int read_on(struct config_reader *r, int ret)
{
	if (ret >= 0 || !r->mistakes ||
		(r->err->code != ERR_INVALID && r->err->code != ERR_LIMIT))
		return ret;
	if (r->n_mistakes++ == 0)
		r->first = *r->err;
	else if (strv_add(r->mistakes, r->err->msg, r->err) < 0)
		return -1;
	error_clear(r->err);
	return r->n_mistakes < CONFIG_MISTAKES_MAX ? 0 : -1;
}

int read_warn(struct config_reader *r, const struct yaml_node *at,
	const struct config_value_path *path, const char *fmt, ...)
{
	struct error message = ERROR_INIT;
	char text[ERROR_MSG_MAX], where[WHERE_TEXT_MAX];
	va_list ap;

	if (!r->warnings || r->warnings->n >= CONFIG_WARNINGS_MAX)
		return 0;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	where_text(path, where, sizeof(where));
	(void)yaml_fail(r->src, at->line, at->column, ERR_INVALID, &message, "%s: %s", where,
		text);
	return strv_add(r->warnings, message.msg, r->err);
}

int read_type_error(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *expected, const char *go_type)
{
	char found[YAML_SHOW_MAX];
	const char *json = "", *number = "";

	yaml_show(n, found, sizeof(found));
	switch (n->type) {
	case YAML_NULL:
		json = "null";
		break;
	case YAML_BOOL:
		json = "bool";
		break;
	case YAML_INT:
	case YAML_FLOAT:
		json = "number ";
		number = found;
		break;
	case YAML_STR:
		json = "string";
		break;
	case YAML_LIST:
		json = "array";
		break;
	case YAML_OBJECT:
		json = "object";
		break;
	}
	return read_fail(r, n, path, ERR_INVALID,
		"expected %s, found %s: cannot unmarshal %s%s into Go value of type %s",
		expected, found, json, number, go_type);
}

size_t read_distance(const char *a, const char *b, size_t max)
{
	size_t row[NEAR_MAX + 1], la = strlen(a), lb = strlen(b);

	if (la > NEAR_MAX || lb > NEAR_MAX)
		return max + 1;
	for (size_t j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t cost = diagonal + (strncasecmp(&a[i - 1], &b[j - 1], 1) != 0);

			diagonal = row[j];
			if (row[j - 1] + 1 < cost)
				cost = row[j - 1] + 1;
			if (row[j] + 1 < cost)
				cost = row[j] + 1;
			row[j] = cost;
		}
	}
	return row[lb] < max ? row[lb] : max + (row[lb] > max);
}

/* Number of equal leading bytes. */
static size_t count_common_prefix(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

/* The row that @key in the object @parent most likely means, or NULL. */
static const struct config_field *find_nearest_field(const char *key, const char *parent)
{
	size_t best = strlen(key) / 3 + 2;
	const struct config_field *found = NULL;

	for (size_t i = 0; i < config_n_fields; i++) {
		const struct config_field *f = &config_fields[i];
		size_t d;

		if (!field_is_in(f, parent))
			continue;
		d = read_distance(key, field_key(f), best);
		if (d < best) {
			best = d;
			found = f;
		}
	}
	if (found)
		return found;
	/* The same key in another object: the one with the longest common path. */
	for (size_t i = 0; i < config_n_fields; i++) {
		const struct config_field *f = &config_fields[i];

		if (!strcasecmp(key, field_key(f)) &&
			(!found || count_common_prefix(f->path, parent) >
					   count_common_prefix(found->path, parent)))
			found = f;
	}
	return found;
}

static const struct {
	const char *key, *text;
} foreign_keys[] = {
	{ "apiVersion",
		"this is a Kubernetes manifest; expected the config itself, which is the "
		"text of an entry under a ConfigMap's data" },
	{ "kind",
		"this is a Kubernetes manifest; expected the config itself, which is the text of "
		"an entry under a ConfigMap's data" },
	{ "config",
		"this is a values file of a Helm chart; expected the config itself, which is the "
		"text of an entry under config.map" },
	{ "mig-configs",
		"this is a mig-parted config, which lays out MIG partitions; expected a "
		"sharing config" },
};

static int unknown_key(struct config_reader *r, const struct yaml_node *key,
	const struct config_value_path *path, const char *pattern)
{
	const struct config_field *near = find_nearest_field(key->text, pattern);
	char known[240];
	size_t len = 0;

	for (size_t i = 0; !*pattern && i < ARRAY_LEN(foreign_keys); i++) {
		if (!strcmp(key->text, foreign_keys[i].key))
			return read_fail(r, key, path, ERR_INVALID, "unknown key '%s': %s",
				key->text, foreign_keys[i].text);
	}
	known[0] = '\0';
	for (size_t i = 0; i < config_n_fields && len < sizeof(known); i++) {
		if (field_is_in(&config_fields[i], pattern))
			len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s",
				len ? ", " : "", field_key(&config_fields[i]));
	}
	if (near && field_is_in(near, pattern))
		return read_fail(r, key, path, ERR_INVALID,
			"unknown key '%.80s'; did you mean '%s'%s? Expected one of %s",
			key->text, field_key(near),
			strcasecmp(key->text, field_key(near)) ? "" : " (the case counts here)",
			known);
	if (near)
		return read_fail(r, key, path, ERR_INVALID,
			"unknown key '%.80s'; did you mean '%s'? Expected one of %s", key->text,
			near->path, known);
	return read_fail(r, key, path, ERR_INVALID, "unknown key '%.80s': expected one of %s",
		key->text, known);
}

static bool is_exact(const char *pattern)
{
	const struct config_field *f = field_by_path(pattern);

	return f && (f->flags & FIELD_EXACT);
}

int read_object(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *pattern)
{
	bool exact = is_exact(pattern);
	const struct yaml_node *seen[CONFIG_FIELDS_MAX] = { NULL };
	int bad = 0;

	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type != YAML_OBJECT)
		return read_type_error(r, n, path, "an object", "struct");
	for (size_t k = 0; k < n->n; k++) {
		const struct yaml_node *key = n->pairs[k].key;
		size_t i = 0;

		while (i < config_n_fields &&
			(!field_is_in(&config_fields[i], pattern) ||
				(exact ? strcmp(key->text, field_key(&config_fields[i])) != 0
				       : strcasecmp(key->text, field_key(&config_fields[i])) !=
							0)))
			i++;
		if (i < config_n_fields && !seen[i]) {
			seen[i] = key;
			continue;
		}
		if (read_on(r, bad) < 0) /* the last of several mistakes is the error */
			return -1;
		bad = i == config_n_fields
			      ? unknown_key(r, key, path, pattern)
			      : read_fail(r, key, path, ERR_INVALID,
					"duplicate key '%s': already given as '%s' in line %u",
					key->text, seen[i]->text, seen[i]->line);
		if (!r->mistakes)
			return -1;
	}
	return bad < 0 ? -1 : 1;
}

const struct yaml_node *read_find_key(const struct yaml_node *object, const char *pattern,
	const char *key)
{
	return object ? yaml_get(object, key, !is_exact(pattern)) : NULL;
}

int read_text_value(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, bool strict, const char **ret)
{
	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type == YAML_LIST || n->type == YAML_OBJECT || (strict && n->type != YAML_STR))
		return read_type_error(r, n, path, "a text", "string");
	*ret = yaml_as_text(n);
	return 1;
}

int read_bool(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, bool *ret)
{
	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type != YAML_BOOL)
		return read_type_error(r, n, path, "true or false", "bool");
	*ret = n->b;
	return 1;
}

int read_int(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, int64_t *ret)
{
	if (!n || n->type == YAML_NULL)
		return 0;
	if (!yaml_integer(n, ret))
		return read_type_error(r, n, path, "a whole number", "int");
	return 1;
}

int read_range(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const struct field_range *range, uint32_t *ret)
{
	int64_t v;
	int set = read_int(r, n, path, &v);

	if (set <= 0)
		return set;
	if (v < range->min || v > range->max)
		return read_fail(r, n, path, ERR_INVALID,
			"expected a whole number from %lld to %lld, found %lld",
			(long long)range->min, (long long)range->max, (long long)v);
	*ret = (uint32_t)v;
	return 1;
}

int read_word_value(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const struct field_words *words, int *ret)
{
	const char *text = NULL;
	char list[120];
	int found, set = read_text_value(r, n, path, /* strict= */ false, &text);

	if (set <= 0)
		return set;
	found = words_find(words, text);
	if (found < 0)
		return read_fail(r, n, path, ERR_INVALID, "expected %s, found '%.60s'",
			words_list(words, list, sizeof(list)), text);
	*ret = found;
	return 1;
}
