/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files that report a validation to other pods, in one directory of the node.
 *
 * COMPONENT-ready exists while the component is valid. Name, place and content are those of the GPU
 * operator's validator, as pods that wait check for nothing else. Shell scripts source driver-ready.
 *
 * COMPONENT.json has the details, and exists after a failure too. A reader compares bootId and
 * driverVersion with the present boot and driver.
 *
 * Every write is atomic: a temporary file and a rename. Thread: any.
 */
#include "tools/validate/validate.h"

#include <jansson.h>

/*
 * Makes a missing directory, and removes both files of the component: from now on its state is
 * unknown. So a validation that is killed leaves no older result.
 */
int files_begin(const char *dir, enum validate_component c, struct error *err) MUST_USE;

/*
 * Writes the report: the ready file for a pass, none for a failure; the JSON always. After a failure
 * the ready file is gone even if the JSON cannot be written.
 */
int files_write(const char *dir, const struct validate_report *r, struct error *err) MUST_USE;

/* Removes *-ready of all components, also the operator's; the JSON files of gpuslice; and what its
 * killed writes left. The driver container's .driver-ctr-ready stays. */
int files_cleanup(const char *dir, struct error *err) MUST_USE;

/* The JSON of a report; the caller's: json_decref(). NULL: out of memory. */
json_t *files_json(const struct validate_report *r);

/* Appends NAME='value' and a line feed, quoted so that any shell reads the same bytes. */
void files_assign(struct buf *b, const char *name, const char *value);
