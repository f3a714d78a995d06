/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/buf.h"
#include "lib/base/parse.h"
#include "tools/plan/gpus/gpus.h"
#include "tools/plan/input/internal.h"

#include "lib/base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Readers of the forms of values. */

#define NS_PER_S     1e9
#define EXPECTED_MAX 256
#define TEXTS_MAX    1024

int input_fail(const struct input_reader *r, const struct yaml_node *n, const char *key,
	const char *expected)
{
	char found[YAML_SHOW_MAX];

	return yaml_fail(r->src, n->line, n->column, ERR_INVALID, r->err,
		"%s: expected %s, found %s", key, expected, yaml_show(n, found, sizeof(found)));
}

const char *input_store_text(const struct input_reader *r, const char *text)
{
	if (strv_add(&r->in->pool, text, r->err) < 0)
		return NULL;
	return r->in->pool.v[r->in->pool.n - 1];
}

static bool is_scalar_value(const struct yaml_node *n)
{
	return n->type != YAML_LIST && n->type != YAML_OBJECT && n->type != YAML_NULL;
}

#define NAME_EXPECTED "1 to 127 characters without control characters"

bool input_is_control(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	return iscntrl(c[0]) || (c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f);
}

/* Names are printed on terminals. */
static bool is_printable_name(const struct yaml_node *n)
{
	if (!is_scalar_value(n) || !n->len || n->len >= PLAN_NAME_MAX)
		return false;
	for (size_t i = 0; i < n->len; i++)
		if (input_is_control(&n->text[i]))
			return false;
	return true;
}

int input_object(const struct input_reader *r, const struct yaml_node *n, const char *what,
	const struct input_key *keys, size_t n_keys, void *to)
{
	CLEANUP(buf_fini) struct buf list = BUF_INIT(1024);

	if (n->type != YAML_OBJECT)
		return input_fail(r, n, what, "an object");
	for (size_t i = 0; i < n->n; i++) {
		const char *word = yaml_as_text(n->pairs[i].key);
		size_t k = 0;

		while (k < n_keys && strcmp(keys[k].key, word) != 0)
			k++;
		if (k == n_keys) {
			for (k = 0; k < n_keys; k++)
				buf_printf(&list, "%s%s", k ? ", " : "", keys[k].key);
			return yaml_fail(r->src, n->pairs[i].key->line, n->pairs[i].key->column,
				ERR_INVALID, r->err,
				"%s: unknown key '%.60s'; expected one of %s", what, word,
				buf_str(&list));
		}
		if (keys[k].read && keys[k].read(r, n->pairs[i].value, &keys[k],
					    to ? (char *)to + keys[k].offset : NULL) < 0)
			return -1;
	}
	return 0;
}

int input_text(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	if (!is_printable_name(n))
		return input_fail(r, n, key->key, NAME_EXPECTED);
	*(const char **)to = input_store_text(r, n->text);
	return *(const char **)to ? 0 : -1;
}

int input_texts(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	struct strv *list = to;

	if (n->type != YAML_LIST || n->n > TEXTS_MAX)
		return input_fail(r, n, key->key, "a list of texts");
	strv_clear(list);
	for (size_t i = 0; i < n->n; i++) {
		if (!is_scalar_value(n->items[i]) || !n->items[i]->len ||
			n->items[i]->len >= PLAN_NAME_MAX)
			return input_fail(r, n->items[i], key->key,
				"a text of 1 to 127 characters");
		if (strv_add(list, n->items[i]->text, r->err) < 0)
			return -1;
	}
	return 0;
}

int input_bool(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	if (n->type != YAML_BOOL)
		return input_fail(r, n, key->key, "true or false");
	*(bool *)to = n->b;
	return 0;
}

/* Position of the word; -1: an error that lists the words. */
static int find_word(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key)
{
	CLEANUP(buf_fini) struct buf list = BUF_INIT(EXPECTED_MAX);
	size_t count = 0;

	for (size_t i = 0; is_scalar_value(n) && key->words[i]; i++)
		if (!strcmp(key->words[i], n->text))
			return (int)i;
	while (key->words[count])
		count++;
	for (size_t i = 0; i < count; i++)
		buf_printf(&list, "%s%s",
			i == 0           ? ""
			: i + 1 == count ? " or "
					 : ", ",
			key->words[i]);
	return input_fail(r, n, key->key, buf_str(&list));
}

int input_word(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	int at = find_word(r, n, key);

	if (at < 0)
		return -1;
	*(unsigned *)to = (unsigned)at;
	return 0;
}

int input_words(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	unsigned set = 0;

	if (n->type != YAML_LIST || !n->n)
		return input_fail(r, n, key->key, "a list of words");
	for (size_t i = 0; i < n->n; i++) {
		int at = find_word(r, n->items[i], key);

		if (at < 0)
			return -1;
		set |= 1U << at;
	}
	*(unsigned *)to = set;
	return 0;
}

static int out_of_range(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, const char *what)
{
	char expected[EXPECTED_MAX];

	(void)snprintf(expected, sizeof(expected), "%s %s %.10g to %.10g", what,
		key->open ? "above" : "from", key->min, key->max);
	return input_fail(r, n, key->key, expected);
}

static bool is_key_in_range(const struct input_key *key, double v)
{
	return (key->open ? v > key->min : v >= key->min) && v <= key->max;
}

int input_count(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	int64_t v;

	if (!yaml_integer(n, &v) || !is_key_in_range(key, (double)v))
		return out_of_range(r, n, key, "a whole number");
	*(uint32_t *)to = (uint32_t)v;
	return 0;
}

static bool is_real(const struct yaml_node *n, double *ret)
{
	if (n->type != YAML_INT && n->type != YAML_FLOAT)
		return false;
	*ret = n->f;
	return isfinite(n->f);
}

int input_real(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	double v;

	if (!is_real(n, &v) || !is_key_in_range(key, v))
		return out_of_range(r, n, key, "a number");
	*(double *)to = v;
	return 0;
}

/* Seconds as a number, or a text with a unit: 0.05, 50ms. */
static bool is_seconds_value(const struct yaml_node *n, double *ret)
{
	int64_t ns;

	if (is_real(n, ret))
		return true;
	if (n->type != YAML_STR || !parse_duration(n->text, &ns))
		return false;
	*ret = (double)ns / NS_PER_S;
	return true;
}

int input_seconds(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	double v;

	if (!is_seconds_value(n, &v) || !is_key_in_range(key, v))
		return out_of_range(r, n, key, "seconds, or a time such as 50ms,");
	*(double *)to = v;
	return 0;
}

int input_milliseconds(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	double v;

	if (!is_real(n, &v) || !is_key_in_range(key, v))
		return out_of_range(r, n, key, "milliseconds");
	*(double *)to = v / 1000;
	return 0;
}

/* --- numbers with an origin --- */

static const char *const origins[] = { "measured", "derived", "default", NULL };

struct origin_value {
	const struct yaml_node *value;
	unsigned origin;
};

static int store_node(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	(void)r;
	(void)key;
	*(const struct yaml_node **)to = n;
	return 0;
}

/* 0.25, or {value: 0.25, origin: derived}. A bare value has the origin of its workload: see workload.c. */
static int with_origin(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, bool (*is)(const struct yaml_node *n, double *ret),
	const char *what, struct plan_number *to)
{
	static const struct input_key keys[] = {
		{ .key = "value",
			.read = store_node,
			.offset = offsetof(struct origin_value, value) },
		{ .key = "origin",
			.read = input_word,
			.offset = offsetof(struct origin_value, origin),
			.words = origins },
	};
	struct origin_value v = { n, to->origin };

	if (n->type == YAML_OBJECT) {
		v.value = NULL;
		if (input_object(r, n, key->key, keys, ARRAY_LEN(keys), &v) < 0)
			return -1;
		if (!v.value)
			return input_fail(r, n, key->key, "a value beside the origin");
	}
	if (!is(v.value, &to->v) || !is_key_in_range(key, to->v))
		return out_of_range(r, v.value, key, what);
	to->origin = (enum plan_origin)v.origin;
	to->known = true;
	return 0;
}

int input_number(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	return with_origin(r, n, key, is_real, "a number", to);
}

int input_time(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	return with_origin(r, n, key, is_seconds_value, "seconds, or a time such as 50ms,", to);
}

/* --- quantities of the host --- */

/* In Kubernetes' form, as a number or as a text: 2, "0.5", 500m. */
int input_cpu(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	double v;

	if (!is_scalar_value(n) || !parse_quantity(n->text, &v))
		return input_fail(r, n, key->key, "processors, such as 2, 0.5 or 500m");
	if (!is_key_in_range(key, v))
		return out_of_range(r, n, key, "processors");
	*(uint32_t *)to = (uint32_t)ceil(v * 1000 - 1e-6);
	return 0;
}

/* In Kubernetes' form, bytes: 4Gi, 512Mi. */
int input_mib(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	double bytes;

	if (!is_scalar_value(n) || !parse_quantity(n->text, &bytes) ||
		!is_key_in_range(key, bytes / MIB))
		return input_fail(r, n, key->key, "an amount of memory, such as 4Gi or 512Mi");
	*(uint32_t *)to = (uint32_t)ceil(bytes / MIB);
	return 0;
}

int input_gpu(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	const struct plan_gpu *g = NULL;

	if (n->type == YAML_STR)
		g = plan_gpu_find(n->text);
	if (!g)
		return input_fail(r, n, key->key,
			"a GPU of the catalogue, such as L4 or A100-SXM4-80GB");
	*(const struct plan_gpu **)to = g;
	return 0;
}
