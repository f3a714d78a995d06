/* SPDX-License-Identifier: Apache-2.0 */

/* When NVML is asked, by way of the agent, and what its figures change. */
#include "node/arbiter/internal.h"

#include "abi/arbiter-control.h"
#include "node/arbiter/process/proc.h"
#include "lib/base/time.h"

#include <jansson.h>
#include <string.h>

#define EXEC_LOOK_EVERY 4 /* looks for replaced programs: each so many readings */

static bool wanted(const json_t *list, const char *uuid)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		if (!strcasecmp(json_string_value(one), uuid))
			return false;
	}
	return true;
}

/* The GPUs of all slices, each once, as JSON text to be freed; NULL: none, or no memory. */
static char *gpus_to_read(const struct arbiter *a)
{
	json_t *list = json_array();
	char *text = NULL;

	/* Those of the book: also where only a process is left of a slice. */
	for (const struct book_slice *s = a->book.slices; list && s; s = s->next) {
		for (unsigned int i = 0; i < s->n_gpus; i++) {
			char uuid[SLICE_UUID_TEXT];

			slice_gpu_text(s, i, uuid);
			if (json_array_size(list) < CONTROL_GPUS_MAX && wanted(list, uuid))
				(void)json_array_append_new(list, json_string(uuid));
		}
	}
	if (json_array_size(list) > 0)
		text = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	return text;
}

static void ask(struct arbiter *a)
{
	struct readings *r = &a->readings;
	char *gpus;

	if (!readings_possible(a))
		return;
	if (++r->generation % EXEC_LOOK_EVERY == 0)
		r->ops->look_for_exec(a);
	gpus = gpus_to_read(a);
	r->soon = false;
	if (!gpus)
		return;
	book_snapshot(&a->book);
	r->asked_ns = time_mono_ns();
	r->waiting = r->ops->ask(a, ++r->seq, gpus);
	free(gpus);
}

static void on_timer(uv_timer_t *t);

/* Arms the timer for the next question. */
static void plan(struct arbiter *a)
{
	struct readings *r = &a->readings;
	uint64_t wait = a->book.members.n ? CONTROL_READ_EVERY_MS : CONTROL_READ_IDLE_MS;

	if (r->waiting)
		wait = CONTROL_READ_WAIT_MS;
	else if (r->soon)
		wait = CONTROL_READ_SOON_MS;
	(void)uv_timer_start(&r->timer, on_timer, wait, 0);
}

static void on_timer(uv_timer_t *t)
{
	struct arbiter *a = t->data;

	/* Not answered in time: the next answer with that number says nothing any more. */
	if (a->readings.waiting)
		readings_lost(a);
	book_shrink(&a->book);
	slices_keep_refused(a);
	ask(a);
	plan(a);
}

bool readings_possible(const struct arbiter *a)
{
	return a->readings.ops->possible(a);
}

void readings_soon(struct arbiter *a)
{
	struct readings *r = &a->readings;

	if (r->soon || !readings_possible(a))
		return;
	r->soon = true;
	if (!r->waiting)
		plan(a);
}

void readings_subscribed(struct arbiter *a)
{
	a->readings.waiting = false;
	a->readings.soon = true;
	plan(a);
}

void readings_lost(struct arbiter *a)
{
	a->readings.waiting = false;
	book_give_up(&a->book);
	a->readings.ops->go_on(a, false);
}

/* What NVML has of the task; another process's, where the PID of one that is gone came again, is not. */
static uint64_t bytes_of(const struct arbiter *a, const struct book_task *t,
	const struct reading_process *p)
{
	struct proc_stat st;

	if (!p || (t->dead && proc_stat(a->o.procfs, t->pid, &st) && st.start != t->start))
		return 0;
	return p->known ? p->bytes : BOOK_NOTHING;
}

/* Of the processes that are @dead, or of the others. */
static void compare(struct arbiter *a, const struct reading *reading, bool dead)
{
	for (unsigned int i = 0; i < BOOK_BUCKETS; i++) {
		for (struct book_task *t = a->book.buckets[i]; t; t = t->next) {
			for (size_t k = 0; t->dead == dead && k < reading->n; k++) {
				const struct reading_process *p =
					reading_find(&reading->gpus[k], t->pid);

				(void)book_compare(t, reading->gpus[k].uuid, bytes_of(a, t, p));
			}
		}
	}
}

void readings_take(struct arbiter *a, const struct reading *reading)
{
	struct readings *r = &a->readings;

	if (!r->waiting || reading->seq != r->seq)
		return;
	r->waiting = false;
	r->taken_ns = time_mono_ns();
	/* What those who are gone have left may be others' now: it is counted once only. */
	compare(a, reading, true);
	compare(a, reading, false);
	book_compared(&a->book);
	r->ops->taken(a, reading);
	r->ops->go_on(a, true);
	plan(a);
}

void readings_start(struct arbiter *a, const struct readings_ops *ops)
{
	a->readings.ops = ops;
	(void)uv_timer_init(a->loop, &a->readings.timer);
	a->readings.timer.data = a;
	plan(a);
}

void readings_stop(struct arbiter *a)
{
	uv_close((uv_handle_t *)&a->readings.timer, NULL);
}
