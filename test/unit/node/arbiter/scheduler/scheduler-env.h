/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An arbiter (arbiter-env.h), slices with quanta, and the content of its status. Clients are connections of this
 * process, and of other children. Slices have the numbers 0 to 9 as the last digit of their IDs.
 */
#include "unit/node/arbiter/arbiter-env.h"

#define ID_HEAD "0123456789abcdef0123456789abcde" /* and a digit */
#define ONE_GPU "[{\"uuid\": \"" UUID "\"}]"

/* Two batch slices of the same weight, numbers 0 and 1, on one GPU. */
int scheduler_env_setup(void **state);
int scheduler_env_teardown(void **state);

/* The directory of the slice, in .slice. */
const char *slice_dir(struct env *e, unsigned int slice);
/* @more: keys after "gpus". */
void write_slice(struct env *e, unsigned int slice, const char *gpus, const char *more);
void write_share(struct env *e, unsigned int slice, unsigned int weight, unsigned int cap,
	const char *class);

json_t *status(struct env *e);
/* Borrowed from @top. NULL: no such slice. */
json_t *slice_of(const json_t *top, unsigned int slice);
/* The figure @key of the slice's first GPU. */
uint64_t figure_in(const json_t *top, unsigned int slice, const char *key);
uint64_t figure(struct env *e, unsigned int slice, const char *key);
/* False: it is not, for a long time. */
bool eventually(struct env *e, unsigned int slice, const char *key, uint64_t value);

void join(struct env *e, struct slice_client *c, unsigned int slice);
bool is_open(const struct slice_client *c);
bool is_closed(const struct slice_client *c);
/* The same, waited for. */
bool opens(const struct slice_client *c);
bool closes(const struct slice_client *c);
/* Repeats the report until @is_done: the arbiter ignores a report if the gate changes meanwhile. */
void report_until(struct slice_client *c, bool busy, bool wants,
	bool (*is_done)(const struct slice_client *c));
/* The connection ended: the client can report no more. */
bool hung_up(const struct slice_client *c);
