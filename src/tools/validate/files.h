/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files by which other pods learn of a validation, in one directory of the node.
 *
 * COMPONENT-ready exists while the component is valid: names, place and content are those of the
 * GPU operator's validator, whose waiters look for nothing else. driver-ready is sourced by shell
 * scripts. Beside it, COMPONENT.json says more, and is there after a failure too; its bootId and
 * driverVersion tell a reader whether it is of this boot and this driver.
 * Every write is whole: a temporary file and a rename. Thread: any.
 */
#include "tools/validate/validate.h"

#include <jansson.h>

/*
 * Makes the directory if need be, and removes both files: nothing is known yet, or any more. What
 * ends in the middle of a look then leaves no verdict of an older one.
 */
int files_begin(const char *dir, enum validate_component c, struct error *err) MUST_USE;

/*
 * Writes what the report says: the ready file on a pass, none after a failure; the JSON always. Also
 * where that cannot be written, no ready file outlives a failure.
 */
int files_write(const char *dir, const struct validate_report *r, struct error *err) MUST_USE;

/* Removes *-ready of all components, also those of the operator's, our JSON files, and what a write
 * of ours that was killed left over. What the driver container left (.driver-ctr-ready) stays: it
 * is not ours. */
int files_cleanup(const char *dir, struct error *err) MUST_USE;

/* The JSON of a report; yours: json_decref(). NULL: out of memory. */
json_t *files_json(const struct validate_report *r);

/* NAME='value' and a line feed, quoted so that any shell reads back the same bytes. */
void files_assign(struct buf *b, const char *name, const char *value);
