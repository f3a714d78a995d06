/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the readers of MIG's files share: the top of a file, and values by type with the texts of
 * mig-parted's decoder. They use the messages of io/config/read.h with a struct config_reader of which only
 * .src, .warnings and .err are set. Inside src/io/config/mig only.
 * Thread: any.
 */
#include "io/config/mig/mig.h"
#include "io/config/read.h"

/*
 * The document of @src as an object of `version: v1` and other keys. Returns 1 with *ret, borrowed
 * from *tree; 0 if there is nothing in it.
 */
int mig_top(struct config_reader *r, struct yaml **tree, const struct yaml_node **ret) MUST_USE;

/* A type error in the words of Go's decoder, for the value @n of the key path @w. Returns -1. */
int mig_type_error(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, const char *expected, const char *go_type);

/* The decoder's text alone: "json: cannot unmarshal ... into Go value of type ...". */
void mig_go_text(const struct yaml_node *n, const char *go_type, char *ret, size_t cap);
#define MIG_GO_TEXT_MAX 160

/* "unexpected field: K" with the fields there are. Returns -1. */
int mig_unexpected(struct config_reader *r, const struct yaml_node *key,
	const struct config_value_path *w, const char *expected);

/* Puts the place before an error that a function without one has set. Returns -1. */
int mig_at(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w);

/* A file of at most MIG_FILE_MAX bytes, or with "-" standard input. *name is for messages. */
int mig_file_read(const char *path, struct buf *b, struct yaml_source *ret,
	struct error *err) MUST_USE;

/* A new array of @n zeroed elements of @size bytes in *p; nothing for none. */
int mig_array(void *p, size_t n, size_t size, struct error *err) MUST_USE;
