/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * YAML 1.1 or JSON text as a tree. Every value has its line and column.
 *
 * Limits. The tree is built from libfyaml's events, not from its documents. Everything that hostile text can
 * make large thus has a named limit: nesting, the number of values, and the size of aliases when written out.
 *
 * Semantics. Scalars are resolved as NVIDIA's loader does (YAML 1.1 booleans, octal and hexadecimal numbers).
 * Merge keys ("<<") are applied. A duplicate key is an error. An alias is the same node again, so a tree can
 * share parts.
 * Thread: any.
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YAML_DEPTH_MAX 32     /* levels of lists and objects */
#define YAML_NODES_MAX 100000 /* values, with aliases written out */

enum yaml_type {
	YAML_NULL,
	YAML_BOOL,
	YAML_INT,
	YAML_FLOAT,
	YAML_STR,
	YAML_LIST,
	YAML_OBJECT,
};

/* How a text was written, which decides whether its lines are lines of the file. */
enum yaml_style { YAML_PLAIN, YAML_QUOTED, YAML_LITERAL, YAML_FOLDED };

struct yaml_pair {
	struct yaml_node *key, *value;
};

struct yaml_node {
	enum yaml_type type;
	enum yaml_style style;
	/* From 1. A block text has the position of its first line, an empty value that of the key or value
	 * before it. */
	uint32_t line, column;
	char *text; /* of a scalar, as written; never NULL there */
	size_t len;
	bool b;                   /* YAML_BOOL */
	int64_t i;                /* YAML_INT */
	double f;                 /* YAML_INT and YAML_FLOAT */
	struct yaml_node **items; /* YAML_LIST */
	struct yaml_pair *pairs;  /* YAML_OBJECT, in the order of the text */
	size_t n;
	size_t weight;          /* values in it, aliases written out */
	struct yaml_node *next; /* all nodes of the tree, for freeing */
};

struct yaml {
	struct yaml_node **docs; /* one for each document that is not empty */
	size_t n;
	struct yaml_node *nodes;
};

/*
 * The text to read, and its position in the file that the user sees. The text of a ConfigMap entry begins
 * @line_offset lines below and @column_offset columns right of the file's start. If @inside is set, its lines
 * are not lines of the file, and messages say so.
 */
struct yaml_source {
	const char *name; /* "file.yaml" or "file.yaml#entry" */
	const char *text;
	size_t len;
	uint32_t line_offset, column_offset;
	uint32_t inside;   /* 0, or the line of the text that contains these lines */
	size_t values_max; /* for a file of the caller's own; 0: YAML_NODES_MAX */
};

/* Errors are ERR_INVALID or ERR_LIMIT and begin with "name:line:column: ". */
int yaml_parse(struct yaml **ret, const struct yaml_source *src, struct error *err) MUST_USE;
struct yaml *yaml_free(struct yaml *y); /* returns NULL */
DEFINE_CLEANUP(struct yaml *, yaml_free)

/* Formats "name:line:column: text", the form of every message about a position. Returns -1. */
int yaml_fail(const struct yaml_source *src, uint32_t line, uint32_t column,
	enum error_code code, struct error *err, const char *fmt, ...) PRINTF(6, 7);

/* The value of the key @key, with exact letter case or any; NULL: no such key. Borrowed. */
const struct yaml_node *yaml_get(const struct yaml_node *object, const char *key,
	bool fold_case);

/* True, with the number, for an integer or a float with an integral value. */
bool yaml_integer(const struct yaml_node *n, int64_t *ret);

/* The scalar's text for a text field ("true" for yes). Borrowed; not for lists. */
const char *yaml_as_text(const struct yaml_node *n);

/* The value as compact JSON, cut at @cap - 1 bytes, for messages. Returns @buf. */
const char *yaml_show(const struct yaml_node *n, char *buf, size_t cap);
#define YAML_SHOW_MAX 72

/*
 * The type in the word of Go's JSON decoder, for messages: "number" of an integer and of a float, "array" of a
 * list. The API server and NVIDIA's MIG tool have these words in their messages. Borrowed.
 */
const char *yaml_type_name(enum yaml_type t);

/* --- scalars --- */

/* Sets .type and the value fields of @n from its .text. */
void yaml_resolve(struct yaml_node *n);
