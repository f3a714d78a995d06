/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last config that was in force, in a file of the state directory. It survives a reboot of the node. The
 * agent uses it when it starts while the API server is unavailable, or when its config file or entry has become
 * invalid or empty.
 * Thread: loop.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "model/config/choice.h"

struct saved_config {
	char label[CONFIG_ENTRY_NAME_MAX]; /* of the node then; "": none */
	char entry[CONFIG_ENTRY_NAME_MAX]; /* "" for CHOICE_EMPTY */
	char node_uid[64];                 /* of the Node that had .label; "": unknown */
	enum config_choice_by by;          /* CHOICE_EMPTY for a single file */
	struct buf text;                   /* caller's: buf_fini() */
};

/* ERR_NOT_FOUND: no saved config, or one of another source than @source. */
int saved_config_read(struct saved_config *ret, const char *path, const char *source,
	struct error *err) MUST_USE;

/* Replaces the file at @path. @source: for saved_config_read(). ERR_INVALID: .text is not UTF-8. */
int saved_config_write(const struct saved_config *saved, const char *path, const char *source,
	struct error *err) MUST_USE;

/* The parser by itself, without a file. */
int saved_config_parse(struct saved_config *ret, const char *json, size_t len,
	const char *source, struct error *err) MUST_USE;
