/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Builds a struct mig_configs; used by the reader, export and generate. Lists have the limits of
 * model/mig/config/config.h. ERR_LIMIT names the limit. A partly built object can be freed. New elements
 * are zero except for the given members.
 * Thread: any.
 */
#include "model/mig/config/config.h"

int mig_configs_new(struct mig_configs **ret, struct error *err) MUST_USE;

/* Borrowed until the next element of the same list is added. ERR_LIMIT also for a name that is too long. */
int mig_configs_add(struct mig_configs *c, const char *name, struct mig_config **ret,
	struct error *err) MUST_USE;
int mig_config_add_entry(struct mig_config *c, struct mig_entry **ret,
	struct error *err) MUST_USE;

int mig_entry_add_device(struct mig_entry *e, uint32_t index, struct error *err) MUST_USE;
int mig_entry_add_filter(struct mig_entry *e, const struct mig_filter *f,
	struct error *err) MUST_USE;
int mig_entry_add_row(struct mig_entry *e, const struct mig_device_row *row,
	struct error *err) MUST_USE;
