/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the kinds of sources share. Each kind embeds a struct config_source as its first member. Thread: loop.
 */
#include "node/agent/config/source/source.h"

struct config_source_kind {
	int (*names)(struct config_source *s, struct strv *names, struct error *err);
	int (*read)(struct config_source *s, const char *name, struct buf *text,
		struct error *err);
	void (*check)(struct config_source *s);
	const struct error *(*get_error)(const struct config_source *s); /* may be NULL */
	void (*stop)(struct config_source *s); /* frees all but .text, at once or by the loop */
};

struct config_source {
	const struct config_source_kind *kind;
	const struct config_source_ops *ops;
	void *arg;
	char *text; /* name for messages */
};

/* Fills @s. After an error there is nothing to undo. */
int config_source_init(struct config_source *s, const struct config_source_kind *kind,
	const struct config_source_ops *ops, void *arg, const char *text,
	struct error *err) MUST_USE;
/* Calls .changed() of the source's owner. */
void config_source_changed(struct config_source *s);
