/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the readers and the printers of MIG's files: the top of a file, typed values with the texts of
 * mig-parted's decoder, and texts as printed by Go's libraries. The readers use the messages of
 * io/config/read.h, with a struct config_reader that has only .src, .warnings and .err. Inside
 * src/io/config/mig only.
 * Thread: any.
 */
#include "lib/base/buf.h"
#include "io/config/mig/mig.h"
#include "io/config/read.h"

/* --- parse.c --- */

/* The document of @src as an object with `version: v1` and other keys. Returns 1 with *ret, borrowed from
 * *tree; 0: empty. */
int mig_top(struct config_reader *r, struct yaml **tree, const struct yaml_node **ret) MUST_USE;

/* A type error in the words of Go's decoder for the value @n at the key path @path. Returns -1. */
int mig_type_error(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *expected, const char *go_type);

/* Only the decoder's text: "json: cannot unmarshal ... into Go value of type ...". */
void mig_go_text(const struct yaml_node *n, const char *go_type, char *ret, size_t cap);
#define MIG_GO_TEXT_MAX 160

/* "unexpected field: K" with the allowed fields. Returns -1. */
int mig_unexpected(struct config_reader *r, const struct yaml_node *key,
	const struct config_value_path *path, const char *expected);

/* Prefixes the position to an error of a function that knows no position. Returns -1. */
int mig_at(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path);

/* Reads a file of at most MIG_FILE_MAX bytes, or standard input for "-". ret->name is for messages. */
int mig_file_read(const char *path, struct buf *b, struct yaml_source *ret,
	struct error *err) MUST_USE;

/* A new array of @n zeroed elements of @size bytes in *p; NULL for 0. */
int mig_array(void *p, size_t n, size_t size, struct error *err) MUST_USE;

/* --- print-json.c --- */

#define MIG_PRINT_MAX (64U << 20) /* more than any valid file needs */

/* @text in quotes, as encoding/json prints it: <, > and & are escaped, too. */
void mig_json_text(struct buf *b, const char *text);
