/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The stand-in's view of YAML: documents, typed look-ups as sigs.k8s.io/yaml reads them, and the
 * line and column of everything for error messages. A thin layer on libfyaml; nodes are borrowed
 * from the reader until the next document.
 * Thread: one at a time.
 */
#include "base/error.h"

#include <libfyaml.h>
#include <stddef.h>
#include <stdint.h>

struct doc_reader;

/* @text is borrowed until doc_close(); @name is what messages call it. */
int doc_open(struct doc_reader **ret, const char *name, const char *text, size_t len,
	struct error *err) MUST_USE;

/* The next document that is not empty: 1 and its root, 0 at the end, < 0 no YAML. */
int doc_next(struct doc_reader *y, struct fy_node **ret, struct error *err) MUST_USE;
struct doc_reader *doc_close(struct doc_reader *y); /* returns NULL */
DEFINE_CLEANUP(struct doc_reader *, doc_close)

/* How sigs.k8s.io/yaml (YAML 1.1 rules for plain scalars) sees a node. */
enum doc_type {
	DOC_NULL, /* also for a NULL node: an absent key */
	DOC_BOOL,
	DOC_INT,
	DOC_FLOAT,
	DOC_STRING,
	DOC_MAP,
	DOC_SEQ,
};

enum doc_type doc_type(struct fy_node *n);
const char *doc_type_name(enum doc_type t); /* "number", as the API server says it */

/* Key of a mapping: the value with aliases followed, or NULL. @map may be NULL or no mapping. */
struct fy_node *doc_get(struct fy_node *map, const char *key);

/* The text of any scalar, "" if it is none; borrowed from the document. */
const char *doc_text(struct fy_node *n);

struct fy_node *doc_item(struct fy_node *seq, int index); /* aliases followed */
int doc_count(struct fy_node *seq);                       /* 0 for what is no sequence */

/* Iterates a mapping: *@iter is NULL at first; returns false at the end. */
bool doc_pair(struct fy_node *map, void **iter, struct fy_node **ret_key,
	struct fy_node **ret_value);

/* 1-based; where the node starts, or of @fallback if it has no text of its own. */
void doc_pos(struct fy_node *n, struct fy_node *fallback, uint32_t *ret_line,
	uint32_t *ret_column);

/* The key node of @key in @map, to point at it; NULL if absent. */
struct fy_node *doc_key(struct fy_node *map, const char *key);
