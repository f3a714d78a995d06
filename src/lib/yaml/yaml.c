/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/yaml/yaml.h"

#include <assert.h>
#include <libfyaml.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/yaml/position.h"

#define ANCHORS_MAX 1000

struct yaml_frame {
	struct yaml_node *node;
	struct yaml_node *key;      /* waits for its value */
	struct yaml_node *anchored; /* name for the node once it is complete */
	size_t room;
};

struct anchor {
	const char *name; /* borrowed from a node */
	struct yaml_node *node;
};

struct builder {
	const struct yaml_source *src;
	const char *text; /* the parser's text: src->text after a byte order mark */
	size_t len;
	struct error *err;
	struct yaml *y;
	struct yaml_frame stack[YAML_DEPTH_MAX];
	size_t depth, n_nodes, room_docs;
	struct anchor anchors[ANCHORS_MAX];
	size_t n_anchors;
	uint32_t line, column; /* last known position, for values without their own */
};

struct yaml *yaml_free(struct yaml *y)
{
	while (y && y->nodes) {
		struct yaml_node *n = y->nodes;

		y->nodes = n->next;
		free(n->text);
		free(n->items);
		free(n->pairs);
		free(n);
	}
	if (y)
		free(y->docs);
	free(y);
	return NULL;
}

int yaml_fail(const struct yaml_source *src, uint32_t line, uint32_t column,
	enum error_code code, struct error *err, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!line)
		return error_set(err, code, "%s: %s", src->name, text);
	if (src->inside)
		return error_set(err, code, "%s:%u:%u (inside the text of line %u): %s",
			src->name, line, column, src->inside, text);
	return error_set(err, code, "%s:%u:%u: %s", src->name, line, column, text);
}

static int fail_here(struct builder *b, enum error_code code, const char *text)
{
	return yaml_fail(b->src, b->line, b->column, code, b->err, "%s", text);
}

static size_t values_max(const struct builder *b)
{
	return b->src->values_max ? b->src->values_max : YAML_NODES_MAX;
}

static struct yaml_node *new_node(struct builder *b, enum yaml_type type)
{
	struct yaml_node *n = NULL;

	if (++b->n_nodes > values_max(b)) {
		(void)yaml_fail(b->src, b->line, b->column, ERR_LIMIT, b->err,
			"more than %zu values", values_max(b));
		return NULL;
	}
	n = calloc(1, sizeof(*n));
	if (!n) {
		(void)error_nomem(b->err);
		return NULL;
	}
	n->type = type;
	n->line = b->line;
	n->column = b->column;
	n->weight = 1;
	n->next = b->y->nodes;
	b->y->nodes = n;
	return n;
}

/*
 * libfyaml 0.7.12 leaks memory over a quoted text that is longer than libfyaml counted. It counts too little in
 * two cases:
 *  1. Where two escaped single quotes meet: it reads 'a''''b' as a'''. This function decodes such a text of one
 *     line, and refuses one of several lines.
 *  2. In some texts of several lines that end with a carriage return. This function refuses them.
 * Returns 1 with *ret (the caller's), 0 if libfyaml may decode the text.
 */
static int decode_quotes(struct builder *b, struct fy_token *token, char **ret)
{
	const struct fy_mark *from = fy_token_start_mark(token), *to = fy_token_end_mark(token);
	enum fy_scalar_style style = fy_token_scalar_style(token);
	const char *raw;
	size_t len, n = 0;

	if (!from || !to || from->input_pos > to->input_pos || to->input_pos > b->len)
		return 0;
	raw = b->text + from->input_pos;
	len = to->input_pos - from->input_pos;
	if ((style == FYSS_DOUBLE_QUOTED || style == FYSS_SINGLE_QUOTED) &&
		memchr(raw, '\r', len))
		return fail_here(b, ERR_INVALID,
			"expected a text of one line or with plain line feeds in quotes, "
			"found a carriage return in it");
	if (style != FYSS_SINGLE_QUOTED || !memmem(raw, len, "''''", 4))
		return 0;
	if (memchr(raw, '\n', len) || memchr(raw, '\r', len))
		return fail_here(b, ERR_INVALID,
			"expected a text in double quotes, found one of several lines in single quotes "
			"with adjacent quotes in it");
	*ret = malloc(len + 1);
	if (!*ret)
		return error_nomem(b->err);
	for (size_t i = 0; i < len; i++) {
		(*ret)[n++] = raw[i];
		i += raw[i] == '\'' && i + 1 < len && raw[i + 1] == '\'';
	}
	(*ret)[n] = '\0';
	return 1;
}

static struct yaml_node *new_text(struct builder *b, struct fy_token *token)
{
	struct yaml_node *n = new_node(b, YAML_STR);
	const char *text = "";
	size_t len = 0;
	int decoded;

	if (!n)
		return NULL;
	decoded = token ? decode_quotes(b, token, &n->text) : 0;
	if (decoded < 0)
		return NULL;
	if (decoded) {
		n->len = strlen(n->text);
		return n;
	}
	if (token)
		text = fy_token_get_text(token, &len);
	n->text = malloc(len + 1);
	if (!n->text || !text) {
		(void)error_nomem(b->err);
		return NULL;
	}
	if (len)
		memcpy(n->text, text, len);
	n->text[len] = '\0';
	n->len = len;
	if (strlen(n->text) != len) { /* "\0" written as an escape */
		(void)fail_here(b, ERR_INVALID, "expected text, found a NUL character in it");
		return NULL;
	}
	return n;
}

static void set_node_position(struct builder *b, struct fy_token *token, bool quoted)
{
	const struct fy_mark *m = token ? fy_token_start_mark(token) : NULL;

	if (!m || m->line < 0 || m->column < 0)
		return;
	b->line = (uint32_t)m->line + 1 + b->src->line_offset;
	b->column = (uint32_t)m->column + 1 + b->src->column_offset;
	if (quoted && b->column > 1) /* libfyaml points behind the quote */
		b->column--;
}

/* Applies a tag such as !!str; plain resolution for a value without one. */
static int apply_tag(struct builder *b, struct yaml_node *n, struct fy_token *tag)
{
	static const char core[] = "tag:yaml.org,2002:";
	size_t len = 0;
	const char *text = tag ? fy_token_get_text(tag, &len) : NULL;
	char name[64];

	if (!text) {
		if (n->style == YAML_PLAIN)
			yaml_resolve(n);
		return 0;
	}
	(void)snprintf(name, sizeof(name), "%.*s", (int)(len < 63 ? len : 63), text);
	if (!strcmp(name, "!") || !strcmp(name, "tag:yaml.org,2002:str"))
		return 0;
	if (!strncmp(name, core, sizeof(core) - 1)) {
		yaml_resolve(n);
		return 0;
	}
	return yaml_fail(b->src, n->line, n->column, ERR_INVALID, b->err,
		"expected a value without a tag of its own, found '%s'", name);
}

static int compare_pairs(const void *a, const void *b)
{
	const struct yaml_pair *const *pa = a, *const *pb = b;
	int r = strcmp((*pa)->key->text, (*pb)->key->text);

	if (r)
		return r;
	return *pa < *pb ? -1 : *pa > *pb; /* the array is in the order of the text */
}

static int refuse_duplicates(struct builder *b, const struct yaml_node *object)
{
	CLEANUP(freep) const struct yaml_pair **sorted = NULL;

	if (object->n < 2)
		return 0;
	sorted = calloc(object->n, sizeof(struct yaml_pair *));
	if (!sorted)
		return error_nomem(b->err);
	for (size_t i = 0; i < object->n; i++)
		sorted[i] = &object->pairs[i];
	qsort(sorted, object->n, sizeof(struct yaml_pair *), compare_pairs);
	for (size_t i = 1; i < object->n; i++) {
		const struct yaml_node *first = sorted[i - 1]->key, *again = sorted[i]->key;

		if (!strcmp(first->text, again->text))
			return yaml_fail(b->src, again->line, again->column, ERR_INVALID,
				b->err, "duplicate key '%.80s': already given in line %u",
				again->text, first->line);
	}
	return 0;
}

static int add_pair(struct builder *b, struct yaml_node *object, size_t *room,
	struct yaml_node *key, struct yaml_node *value)
{
	if (!ARRAY_GROW(&object->pairs, object->n, room, ARRAY_NO_LIMIT))
		return error_nomem(b->err);
	object->pairs[object->n++] = (struct yaml_pair){ key, value };
	object->weight += 1 + value->weight;
	if (object->weight > values_max(b))
		return yaml_fail(b->src, key->line, key->column, ERR_LIMIT, b->err,
			"more than %zu values once the aliases are written out", values_max(b));
	return 0;
}

static bool is_merge(const struct yaml_pair *p)
{
	return p->key->style == YAML_PLAIN && !strcmp(p->key->text, "<<");
}

static int merge_yaml_object(struct builder *b, struct yaml_node *object, size_t *room,
	const struct yaml_node *key, const struct yaml_node *from)
{
	if (from->type != YAML_OBJECT)
		return yaml_fail(b->src, key->line, key->column, ERR_INVALID, b->err,
			"<<: expected an object or a list of objects to merge");
	for (size_t i = 0; i < from->n; i++) {
		if (!yaml_get(object, from->pairs[i].key->text, false) &&
			add_pair(b, object, room, from->pairs[i].key, from->pairs[i].value) < 0)
			return -1;
	}
	return 0;
}

/* Appends the pairs of "<<" values to the object's own pairs, which win. */
static int apply_merges(struct builder *b, struct yaml_node *object, size_t *room)
{
	size_t kept = 0, n = object->n;
	struct yaml_pair merge = { NULL, NULL };

	for (size_t i = 0; i < n; i++) {
		if (is_merge(&object->pairs[i]))
			merge = object->pairs[i];
		else
			object->pairs[kept++] = object->pairs[i];
	}
	object->n = kept;
	if (!merge.key)
		return 0;
	if (merge.value->type != YAML_LIST)
		return merge_yaml_object(b, object, room, merge.key, merge.value);
	for (size_t i = 0; i < merge.value->n; i++) {
		if (merge_yaml_object(b, object, room, merge.key, merge.value->items[i]) < 0)
			return -1;
	}
	return 0;
}

/* Adds a complete value to its container. */
static int add_yaml_value(struct builder *b, struct yaml_node *n)
{
	struct yaml_frame *f = b->depth ? &b->stack[b->depth - 1] : NULL;

	if (!f) {
		if (!ARRAY_GROW(&b->y->docs, b->y->n, &b->room_docs, ARRAY_NO_LIMIT))
			return error_nomem(b->err);
		b->y->docs[b->y->n++] = n;
		return 0;
	}
	assert(f->node); /* otherwise the frame would not exist */
	if (f->node->type == YAML_OBJECT) {
		struct yaml_node *key = f->key;

		if (key) {
			f->key = NULL;
			return add_pair(b, f->node, &f->room, key, n);
		}
		if (n->type == YAML_LIST || n->type == YAML_OBJECT)
			return yaml_fail(b->src, n->line, n->column, ERR_INVALID, b->err,
				"expected a text as key, found %s",
				n->type == YAML_LIST ? "a list" : "an object");
		f->key = n;
		return 0;
	}
	if (!ARRAY_GROW(&f->node->items, f->node->n, &f->room, ARRAY_NO_LIMIT))
		return error_nomem(b->err);
	f->node->items[f->node->n++] = n;
	f->node->weight += n->weight;
	if (f->node->weight > values_max(b))
		return yaml_fail(b->src, n->line, n->column, ERR_LIMIT, b->err,
			"more than %zu values once the aliases are written out", values_max(b));
	return 0;
}

static int set_anchor(struct builder *b, const struct yaml_node *name, struct yaml_node *node)
{
	if (!name)
		return 0;
	for (size_t i = 0; i < b->n_anchors; i++) {
		if (!strcmp(b->anchors[i].name, name->text)) {
			b->anchors[i].node = node;
			return 0;
		}
	}
	if (b->n_anchors == ANCHORS_MAX)
		return yaml_fail(b->src, node->line, node->column, ERR_LIMIT, b->err,
			"more than %d anchors", ANCHORS_MAX);
	b->anchors[b->n_anchors++] = (struct anchor){ name->text, node };
	return 0;
}

static int open_yaml_collection(struct builder *b, struct fy_event *e, enum yaml_type type)
{
	struct fy_token *anchor = fy_event_get_anchor_token(e);
	struct yaml_frame *f;

	set_node_position(b, fy_event_get_token(e), false);
	if (b->depth == YAML_DEPTH_MAX)
		return yaml_fail(b->src, b->line, b->column, ERR_LIMIT, b->err,
			"nested deeper than %d levels", YAML_DEPTH_MAX);
	f = &b->stack[b->depth];
	*f = (struct yaml_frame){ .node = new_node(b, type) };
	if (!f->node)
		return -1;
	if (anchor) {
		f->anchored = new_text(b, anchor);
		if (!f->anchored)
			return -1;
	}
	b->depth++;
	return 0;
}

static int close_yaml_collection(struct builder *b)
{
	struct yaml_frame *f = &b->stack[b->depth - 1];

	if (f->node->type == YAML_OBJECT &&
		(refuse_duplicates(b, f->node) < 0 || apply_merges(b, f->node, &f->room) < 0))
		return -1;
	b->depth--;
	if (set_anchor(b, f->anchored, f->node) < 0)
		return -1;
	return add_yaml_value(b, f->node);
}

static int add_yaml_scalar(struct builder *b, struct fy_event *e)
{
	struct fy_token *token = yaml_event_token(e), *anchor = fy_event_get_anchor_token(e);
	enum fy_scalar_style style = token ? fy_token_scalar_style(token) : FYSS_PLAIN;
	struct yaml_node *n;

	set_node_position(b, token, style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED);
	n = new_text(b, token);
	if (!n)
		return -1;
	n->style = style == FYSS_LITERAL  ? YAML_LITERAL
		   : style == FYSS_FOLDED ? YAML_FOLDED
		   : style == FYSS_PLAIN  ? YAML_PLAIN
					  : YAML_QUOTED;
	if (apply_tag(b, n, fy_event_get_tag_token(e)) < 0)
		return -1;
	if (anchor) {
		struct yaml_node *name = new_text(b, anchor);

		if (!name || set_anchor(b, name, n) < 0)
			return -1;
	}
	return add_yaml_value(b, n);
}

static int add_yaml_alias(struct builder *b, struct fy_event *e)
{
	struct fy_token *token = fy_event_get_token(e);
	size_t len = 0;
	const char *name = token ? fy_token_get_text(token, &len) : NULL;

	set_node_position(b, token, false);
	for (size_t i = 0; name && i < b->n_anchors; i++) {
		if (strlen(b->anchors[i].name) == len && !memcmp(b->anchors[i].name, name, len))
			return add_yaml_value(b, b->anchors[i].node);
	}
	return yaml_fail(b->src, b->line, b->column, ERR_INVALID, b->err,
		"alias '*%.*s' names no anchor that stands before it",
		(int)(len < 80 ? len : 80), name ? name : "");
}

static int apply_yaml_event(struct builder *b, struct fy_event *e)
{
	switch (e->type) {
	case FYET_DOCUMENT_START:
		b->n_anchors = 0;
		set_node_position(b, yaml_event_token(e), false);
		return 0;
	case FYET_MAPPING_START:
		return open_yaml_collection(b, e, YAML_OBJECT);
	case FYET_SEQUENCE_START:
		return open_yaml_collection(b, e, YAML_LIST);
	case FYET_MAPPING_END:
	case FYET_SEQUENCE_END:
		return close_yaml_collection(b);
	case FYET_SCALAR:
		return add_yaml_scalar(b, e);
	case FYET_ALIAS:
		return add_yaml_alias(b, e);
	case FYET_NONE:
	case FYET_STREAM_START:
	case FYET_STREAM_END:
	case FYET_DOCUMENT_END:
		return 0;
	}
	return 0;
}

static int check_yaml_text(const struct yaml_source *src, struct error *err)
{
	char why[YAML_TEXT_WHY_MAX];
	struct utf8_position bad;

	if (yaml_text_is_safe(src->text, src->len, &bad, why))
		return 0;
	return yaml_fail(src, bad.line + src->line_offset, bad.column + src->column_offset,
		ERR_INVALID, err, "%s", why);
}

/* The parser's first error, as an error of this module. */
static int parser_error(const struct builder *b, struct fy_diag *diag)
{
	void *iter = NULL;
	const struct fy_diag_error *e = fy_diag_errors_iterate(diag, &iter);
	uint32_t line, column;

	if (!e || !e->msg)
		return yaml_fail(b->src, b->line, b->column, ERR_INVALID, b->err,
			"expected YAML or JSON, found something else");
	yaml_error_position(b->text, b->len, e, &line, &column);
	return yaml_fail(b->src, line + b->src->line_offset, column + b->src->column_offset,
		ERR_INVALID, b->err, "expected YAML or JSON, found: %.*s",
		(int)strcspn(e->msg, "\n"), e->msg);
}

static int parse_yaml_events(struct builder *b, const char *text, size_t len)
{
	struct fy_diag_cfg diag_cfg;
	struct fy_parse_cfg cfg = { .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG |
					     FYPCF_JSON_NONE };
	struct fy_parser *parser = NULL;
	struct fy_event *e;
	int r = 0;

	fy_diag_cfg_default(&diag_cfg);
	diag_cfg.fp = NULL;
	diag_cfg.level = FYET_ERROR;
	cfg.diag = fy_diag_create(&diag_cfg);
	if (!cfg.diag)
		return error_nomem(b->err);
	fy_diag_set_collect_errors(cfg.diag, true);
	parser = fy_parser_create(&cfg);
	if (!parser || fy_parser_set_string(parser, text, len) != 0)
		r = error_nomem(b->err);
	while (r == 0 && (e = fy_parser_parse(parser))) {
		r = apply_yaml_event(b, e);
		fy_parser_event_free(parser, e);
	}
	if (r == 0 && fy_parser_get_stream_error(parser))
		r = parser_error(b, cfg.diag);
	if (r == 0 && b->depth)
		r = fail_here(b, ERR_INVALID,
			"expected the end of a list or object, found nothing");
	if (parser)
		fy_parser_destroy(parser);
	fy_diag_destroy(cfg.diag);
	return r;
}

int yaml_parse(struct yaml **ret, const struct yaml_source *src, struct error *err)
{
	CLEANUP(yaml_freep) struct yaml *y = calloc(1, sizeof(*y));
	CLEANUP(freep) struct builder *b = calloc(1, sizeof(*b));
	const char *text = src->text;
	size_t len = src->len;

	if (!y || !b)
		return error_nomem(err);
	b->src = src;
	b->err = err;
	b->y = y;
	if (check_yaml_text(src, err) < 0)
		return -1;
	if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) { /* byte order mark */
		text += 3;
		len -= 3;
	}
	b->text = text;
	b->len = len;
	/* libfyaml reads nothing from an empty string, but requires one. */
	if (len && parse_yaml_events(b, text, len) < 0)
		return -1;
	*ret = STEAL_PTR(y);
	return 0;
}

const struct yaml_node *yaml_get(const struct yaml_node *object, const char *key,
	bool fold_case)
{
	for (size_t i = 0; object->type == YAML_OBJECT && i < object->n; i++) {
		const char *k = object->pairs[i].key->text;

		if (fold_case ? !strcasecmp(k, key) : !strcmp(k, key))
			return object->pairs[i].value;
	}
	return NULL;
}

const char *yaml_as_text(const struct yaml_node *n)
{
	if (n->type == YAML_BOOL)
		return n->b ? "true" : "false";
	return n->text ? n->text : "";
}

static void render_yaml_string(struct buf *b, const char *text)
{
	buf_putc(b, '"');
	for (; *text && buf_ok(b); text++) {
		if (*text == '"' || *text == '\\')
			buf_putc(b, '\\');
		buf_putc(b, (unsigned char)*text < 0x20 ? ' ' : *text);
	}
	buf_putc(b, '"');
}

static void render_yaml_value(struct buf *b, const struct yaml_node *n)
{
	switch (n->type) {
	case YAML_NULL:
		buf_puts(b, "null");
		return;
	case YAML_BOOL:
		buf_puts(b, n->b ? "true" : "false");
		return;
	case YAML_INT:
		buf_printf(b, "%lld", (long long)n->i);
		return;
	case YAML_FLOAT:
		buf_printf(b, "%.15g", n->f);
		return;
	case YAML_STR:
		render_yaml_string(b, n->text);
		return;
	case YAML_LIST:
	case YAML_OBJECT:
		break;
	}
	buf_putc(b, n->type == YAML_LIST ? '[' : '{');
	for (size_t i = 0; i < n->n && buf_ok(b); i++) {
		if (i)
			buf_putc(b, ',');
		if (n->type == YAML_OBJECT) {
			render_yaml_string(b, n->pairs[i].key->text);
			buf_putc(b, ':');
			render_yaml_value(b, n->pairs[i].value);
		} else {
			render_yaml_value(b, n->items[i]);
		}
	}
	buf_putc(b, n->type == YAML_LIST ? ']' : '}');
}

const char *yaml_show(const struct yaml_node *n, char *ret, size_t cap)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(cap);

	render_yaml_value(&b, n);
	if (buf_ok(&b)) {
		(void)snprintf(ret, cap, "%s", buf_str(&b));
	} else {
		size_t len = b.len > cap - 4 ? cap - 4 : b.len;

		while (len && ((unsigned char)b.data[len] & 0xc0) == 0x80)
			len--; /* not in the middle of a character */
		(void)snprintf(ret, cap, "%.*s...", (int)len, buf_str(&b));
	}
	return ret;
}
