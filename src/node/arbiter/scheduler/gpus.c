/* SPDX-License-Identifier: Apache-2.0 */

/* The scheduler's GPUs by number. A GPU has a number while slices use it. */
#include "node/arbiter/scheduler/internal.h"

#include <string.h>

struct scheduler_gpu *scheduler_gpu_find(struct scheduler *t, const uint8_t *uuid)
{
	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++) {
		if (t->gpus[i].users && !memcmp(t->gpus[i].uuid, uuid, SLICE_UUID_BYTES))
			return &t->gpus[i];
	}
	return NULL;
}

static bool is_in_use(void *arg, const uint8_t *uuid)
{
	return scheduler_gpu_find(arg, uuid) != NULL;
}

static struct scheduler_gpu *find_unused(struct scheduler *t)
{
	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++) {
		if (!t->gpus[i].users)
			return &t->gpus[i];
	}
	return NULL;
}

int scheduler_gpu_ref(struct scheduler *t, const uint8_t *uuid, const char *text,
	struct error *err)
{
	struct scheduler_gpu *g = scheduler_gpu_find(t, uuid);

	if (g) {
		g->users++;
		return (int)(g - t->gpus);
	}
	g = find_unused(t);
	if (!g)
		return error_set(err, ERR_LIMIT,
			"compute: expected at most %d GPUs of the node whose slices take turns, "
			"'%s' is one more",
			SCHED_GPUS_MAX, text);
	g->record = usage_gpu(&t->accounts, uuid, is_in_use, t);
	if (!g->record)
		return error_set(err, ERR_LIMIT, "compute: no room for the account of '%s'",
			text);
	memcpy(g->uuid, uuid, SLICE_UUID_BYTES);
	memcpy(g->text, text, SLICE_UUID_TEXT);
	g->users = 1;
	return (int)(g - t->gpus);
}

void scheduler_gpu_unref(struct scheduler *t, unsigned int number)
{
	t->gpus[number].users--;
}
