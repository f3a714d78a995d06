/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where configs come from: one file, a directory of named entries, or a ConfigMap of the API server. The
 * directory is the kubelet's volume of a ConfigMap, or has files that a person wrote.
 *
 * The three kinds differ in how they notice a change. The caller (node/agent/config/config.c) decides which
 * entry is used and how an invalid entry is handled. The caller checks the source again whenever the source
 * reports a possible change.
 * Thread: loop.
 */
#include "lib/base/buf.h"
#include "lib/base/strv.h"
#include "model/config/choice.h"
#include "io/kube-api/api.h"

struct config_source;

struct config_source_ops {
	/* The entries, their content, or the reason why they cannot be read may have changed. */
	void (*changed)(void *arg);
};

/*
 * The text of the file @path is the only entry, without a name. @text: the text that the caller has read. The
 * source reports when the file has another text or cannot be read.
 */
int config_source_file(struct config_source **ret, uv_loop_t *loop, const char *path,
	const struct buf *text, const struct config_source_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* @path need not exist yet. Entries are its regular files, links followed. */
int config_source_dir(struct config_source **ret, uv_loop_t *loop, const char *path,
	const struct config_source_ops *ops, void *arg, struct error *err) MUST_USE;

/* The ConfigMap @namespace_/@name, which need not exist yet. Entries are its data. */
int config_source_map(struct config_source **ret, struct api *api, const char *namespace_,
	const char *name, const struct config_source_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* Splits "[NAMESPACE/]NAME". Without a namespace it is @own ("": stays empty). ERR_INVALID names @option. */
int config_map_name(const char *option, const char *text, const char *own, char namespace_[64],
	char name[CONFIG_ENTRY_NAME_MAX], struct error *err) MUST_USE;

struct config_source *config_source_stop(struct config_source *s); /* returns NULL */

/* Nothing is known yet, or a change is being written. The source reports when to check. */
#define CONFIG_SOURCE_WAIT 1

/*
 * Adds the names of the entries to @names, sorted. CONFIG_SOURCE_WAIT: the reason is in @err. < 0: the directory
 * or ConfigMap does not exist, cannot be read, or has more than CONFIG_ENTRIES_MAX entries. A single file adds
 * no name: use "".
 */
int config_source_names(struct config_source *s, struct strv *names,
	struct error *err) MUST_USE;

/* Appends the text of the entry @name, one of the names. */
int config_source_read(struct config_source *s, const char *name, struct buf *text,
	struct error *err) MUST_USE;

/* Checks now, without waiting for an event. */
void config_source_check(struct config_source *s);

/*
 * Why changes do not arrive at present, while the last known content stays. NULL or ERR_NONE: they arrive.
 * Borrowed.
 */
const struct error *config_source_error(const struct config_source *s);

const char *config_source_text(const struct config_source *s); /* name for messages; borrowed */
