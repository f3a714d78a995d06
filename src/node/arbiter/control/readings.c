/* SPDX-License-Identifier: Apache-2.0 */

/* Asks for NVML's figures, through the agent, and applies them. */
#include "node/arbiter/control/readings.h"

#include "abi/arbiter-control.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/process/proc.h"
#include "node/arbiter/slices/slices.h"
#include "lib/base/time.h"

#include <jansson.h>
#include <string.h>

#define EXEC_CHECK_EVERY 4 /* checks for replaced programs, in readings */

static bool is_gpu_unlisted(const json_t *list, const char *uuid)
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
	bool failed = false;
	char *text = NULL;

	/* The slices of the grants, since they include slices of which only a process is left. */
	for (const struct grants_slice *s = a->grants.slices; list && s; s = s->next) {
		for (unsigned int i = 0; i < s->n_gpus && !failed; i++) {
			char uuid[SLICE_UUID_TEXT];

			arbiter_slice_gpu_text(s, i, uuid);
			if (json_array_size(list) < CONTROL_GPUS_MAX &&
				is_gpu_unlisted(list, uuid))
				failed = json_array_append_new(list, json_string(uuid)) < 0;
		}
	}
	if (json_array_size(list) > 0 && !failed)
		text = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	return text;
}

static void request_gpu_readings(struct arbiter *a)
{
	struct readings *r = &a->readings;
	char *gpus;

	if (!readings_possible(a))
		return;
	if (++r->generation % EXEC_CHECK_EVERY == 0)
		r->ops->detect_exec(a);
	gpus = gpus_to_read(a);
	r->repeat = false;
	if (!gpus)
		return;
	grants_snapshot(&a->grants);
	r->requested_ns = time_mono_ns();
	r->waiting = r->ops->request_reading(a, ++r->seq, gpus);
	free(gpus);
}

static void on_readings_timer(uv_timer_t *t);

/* Arms the timer for the next question. */
static void arm_readings_timer(struct arbiter *a)
{
	struct readings *r = &a->readings;
	uint64_t wait = a->grants.members.n ? CONTROL_READ_EVERY_MS : CONTROL_READ_IDLE_MS;

	if (r->waiting)
		wait = CONTROL_READ_WAIT_MS;
	else if (r->repeat)
		wait = CONTROL_READ_SOON_MS;
	(void)uv_timer_start(&r->timer, on_readings_timer, wait, 0);
}

static void on_readings_timer(uv_timer_t *t)
{
	struct arbiter *a = t->data;

	/* The question was not answered in time. A late answer is ignored. */
	if (a->readings.waiting)
		readings_unsubscribed(a);
	grants_reclaim_over_limit(&a->grants);
	arbiter_slices_save_refusals(a);
	request_gpu_readings(a);
	arm_readings_timer(a);
}

bool readings_possible(const struct arbiter *a)
{
	return a->readings.ops->possible(a);
}

void readings_request_soon(struct arbiter *a)
{
	struct readings *r = &a->readings;

	if (r->repeat || !readings_possible(a))
		return;
	r->repeat = true;
	if (!r->waiting)
		arm_readings_timer(a);
}

void readings_subscribed(struct arbiter *a)
{
	a->readings.waiting = false;
	a->readings.repeat = true;
	arm_readings_timer(a);
}

void readings_unsubscribed(struct arbiter *a)
{
	a->readings.waiting = false;
	grants_drop_dead_tasks(&a->grants);
	a->readings.ops->retry_waiting(a, false);
}

/* NVML's figure for the task. 0 if another process has the PID of an ended process. */
static uint64_t get_task_nvml_bytes(const struct arbiter *a, const struct grants_task *t,
	const struct reading_process *p)
{
	struct proc_stat st;

	if (!p || (t->dead && proc_stat(a->o.procfs, t->pid, &st) && st.start != t->start))
		return 0;
	return p->known ? p->bytes : GRANTS_UNKNOWN;
}

/* Compares the processes that are @dead, or the others. */
static void compare_grants_reading(struct arbiter *a, const struct reading *reading, bool dead)
{
	for (unsigned int i = 0; i < GRANTS_BUCKETS; i++) {
		for (struct grants_task *t = a->grants.buckets[i]; t; t = t->next) {
			for (size_t k = 0; t->dead == dead && k < reading->n; k++) {
				const struct reading_process *p =
					reading_find(&reading->gpus[k], t->pid);

				(void)grants_compare(t, reading->gpus[k].uuid,
					get_task_nvml_bytes(a, t, p));
			}
		}
	}
}

void readings_apply(struct arbiter *a, const struct reading *reading)
{
	struct readings *r = &a->readings;

	if (!r->waiting || reading->seq != r->seq)
		return;
	r->waiting = false;
	r->applied_ns = time_mono_ns();
	/* Other processes may have the memory that ended processes left. In this order it is counted only once. */
	compare_grants_reading(a, reading, true);
	compare_grants_reading(a, reading, false);
	grants_compare_end(&a->grants);
	r->ops->on_applied(a, reading);
	r->ops->retry_waiting(a, true);
	arm_readings_timer(a);
}

void readings_start(struct arbiter *a, const struct readings_ops *ops)
{
	a->readings.ops = ops;
	(void)uv_timer_init(a->loop, &a->readings.timer);
	a->readings.timer.data = a;
	arm_readings_timer(a);
}

void readings_stop(struct arbiter *a)
{
	uv_close((uv_handle_t *)&a->readings.timer, NULL);
}
