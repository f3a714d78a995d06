/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/doc.h"

#include "base/parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct doc_reader {
	char *name;
	struct fy_diag *diag;
	struct fy_parser *parser;
	struct fy_document *doc;
};

/* Messages are collected, not printed. */
static void swallow(struct fy_diag *diag, void *user, const char *text, size_t len)
{
	(void)diag;
	(void)user;
	(void)text;
	(void)len;
}

struct doc_reader *doc_close(struct doc_reader *y)
{
	if (!y)
		return NULL;
	if (y->doc)
		fy_parse_document_destroy(y->parser, y->doc);
	if (y->parser)
		fy_parser_destroy(y->parser);
	if (y->diag)
		fy_diag_destroy(y->diag);
	free(y->name);
	free(y);
	return NULL;
}

int doc_open(struct doc_reader **ret, const char *name, const char *text, size_t len,
	struct error *err)
{
	CLEANUP(doc_closep) struct doc_reader *y = calloc(1, sizeof(*y));
	struct fy_diag_cfg diag_cfg;
	struct fy_parse_cfg cfg = { .search_path = "", .flags = FYPCF_COLLECT_DIAG };

	if (!y)
		return error_nomem(err);
	y->name = strdup(name);
	fy_diag_cfg_default(&diag_cfg);
	diag_cfg.fp = NULL;
	diag_cfg.output_fn = swallow;
	diag_cfg.colorize = false;
	y->diag = fy_diag_create(&diag_cfg);
	if (!y->name || !y->diag)
		return error_nomem(err);
	fy_diag_set_collect_errors(y->diag, true);
	cfg.diag = y->diag;
	y->parser = fy_parser_create(&cfg);
	if (!y->parser)
		return error_nomem(err);
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\0')
			return error_set(err, ERR_INVALID, "%s: a NUL byte at offset %zu", name,
				i);
	}
	if (len > 0 && fy_parser_set_string(y->parser, text, len) != 0)
		return error_nomem(err);
	if (len == 0 && fy_parser_set_string(y->parser, "\n", 1) != 0)
		return error_nomem(err);
	*ret = STEAL_PTR(y);
	return 0;
}

static int no_yaml(struct doc_reader *y, struct error *err)
{
	void *iter = NULL;
	const struct fy_diag_error *e = fy_diag_errors_iterate(y->diag, &iter);

	if (!e)
		return error_set(err, ERR_INVALID, "%s: not valid YAML", y->name);
	return error_set(err, ERR_INVALID, "%s:%d:%d: error parsing YAML: %s", y->name, e->line,
		e->column, e->msg);
}

int doc_next(struct doc_reader *y, struct fy_node **ret, struct error *err)
{
	for (;;) {
		struct fy_node *root;

		if (y->doc)
			fy_parse_document_destroy(y->parser, y->doc);
		y->doc = fy_parse_load_document(y->parser);
		if (!y->doc) {
			if (fy_diag_got_error(y->diag) || fy_parser_get_stream_error(y->parser))
				return no_yaml(y, err);
			return 0;
		}
		root = fy_document_root(y->doc);
		if (doc_type(root) == DOC_NULL)
			continue;
		*ret = root;
		return 1;
	}
}

static struct fy_node *follow(struct fy_node *n)
{
	if (n && fy_node_is_alias(n))
		return fy_node_resolve_alias(n);
	return n;
}

static bool one_of(const char *text, const char *const *words)
{
	for (; *words; words++) {
		if (strcmp(text, *words) == 0)
			return true;
	}
	return false;
}

static enum doc_type plain_type(const char *text)
{
	/* The YAML 1.1 words that go.yaml.in/yaml v2 resolves, which the API server reads with. */
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
	static const char *const bools[] = { "y", "Y", "yes", "Yes", "YES", "true", "True",
		"TRUE", "on", "On", "ON", "n", "N", "no", "No", "NO", "false", "False", "FALSE",
		"off", "Off", "OFF", NULL };
	int64_t i;
	double d;

	if (one_of(text, nulls))
		return DOC_NULL;
	if (one_of(text, bools))
		return DOC_BOOL;
	if (parse_i64(text, &i))
		return DOC_INT;
	if ((isdigit((unsigned char)text[0]) || strchr("+-.", text[0])) &&
		parse_double(text, &d))
		return DOC_FLOAT;
	return DOC_STRING;
}

enum doc_type doc_type(struct fy_node *n)
{
	n = follow(n);
	if (!n)
		return DOC_NULL;
	switch (fy_node_get_type(n)) {
	case FYNT_MAPPING:
		return DOC_MAP;
	case FYNT_SEQUENCE:
		return DOC_SEQ;
	case FYNT_SCALAR:
		break;
	}
	return fy_node_get_style(n) == FYNS_PLAIN ? plain_type(doc_text(n)) : DOC_STRING;
}

const char *doc_type_name(enum doc_type t)
{
	static const char *const names[] = {
		[DOC_NULL] = "null",
		[DOC_BOOL] = "bool",
		[DOC_INT] = "number",
		[DOC_FLOAT] = "number",
		[DOC_STRING] = "string",
		[DOC_MAP] = "object",
		[DOC_SEQ] = "array",
	};

	return names[t];
}

const char *doc_text(struct fy_node *n)
{
	const char *text;

	n = follow(n);
	if (!n || fy_node_get_type(n) != FYNT_SCALAR)
		return "";
	text = fy_node_get_scalar0(n);
	return text ? text : "";
}

bool doc_pair(struct fy_node *map, void **iter, struct fy_node **ret_key,
	struct fy_node **ret_value)
{
	struct fy_node_pair *p;

	map = follow(map);
	if (!map || fy_node_get_type(map) != FYNT_MAPPING)
		return false;
	p = fy_node_mapping_iterate(map, iter);
	if (!p)
		return false;
	*ret_key = fy_node_pair_key(p);
	*ret_value = follow(fy_node_pair_value(p));
	return true;
}

static bool find_pair(struct fy_node *map, const char *key, struct fy_node **ret_key,
	struct fy_node **ret_value)
{
	void *iter = NULL;

	while (doc_pair(map, &iter, ret_key, ret_value)) {
		if (strcmp(doc_text(*ret_key), key) == 0)
			return true;
	}
	return false;
}

struct fy_node *doc_get(struct fy_node *map, const char *key)
{
	struct fy_node *k, *v;

	return find_pair(map, key, &k, &v) ? v : NULL;
}

struct fy_node *doc_key(struct fy_node *map, const char *key)
{
	struct fy_node *k, *v;

	return find_pair(map, key, &k, &v) ? k : NULL;
}

struct fy_node *doc_item(struct fy_node *seq, int index)
{
	seq = follow(seq);
	return follow(fy_node_sequence_get_by_index(seq, index));
}

int doc_count(struct fy_node *seq)
{
	seq = follow(seq);
	if (!seq || fy_node_get_type(seq) != FYNT_SEQUENCE)
		return 0;
	return fy_node_sequence_item_count(seq);
}

/* libfyaml keeps positions on scalar tokens: a collection starts where its first scalar does. */
static struct fy_token *first_token(struct fy_node *n)
{
	for (int depth = 0; n && depth < 64; depth++) {
		void *iter = NULL;
		struct fy_node_pair *p;

		switch (fy_node_get_type(n)) {
		case FYNT_SCALAR:
			return fy_node_get_scalar_token(n);
		case FYNT_SEQUENCE:
			n = fy_node_sequence_get_by_index(n, 0);
			break;
		case FYNT_MAPPING:
			p = fy_node_mapping_iterate(n, &iter);
			n = p ? fy_node_pair_key(p) : NULL;
			break;
		}
	}
	return NULL;
}

void doc_pos(struct fy_node *n, struct fy_node *fallback, uint32_t *ret_line,
	uint32_t *ret_column)
{
	struct fy_token *token = first_token(n);
	const struct fy_mark *mark;

	if (!token)
		token = first_token(fallback);
	mark = token ? fy_token_start_mark(token) : NULL;
	*ret_line = mark ? (uint32_t)mark->line + 1 : 1;
	*ret_column = mark ? (uint32_t)mark->column + 1 : 1;
}
