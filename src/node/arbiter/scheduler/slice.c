/* SPDX-License-Identifier: Apache-2.0 */

/* Applies a slice's share of its GPUs, also when the slice changes between time-sharing and MPS. */
#include "node/arbiter/scheduler/internal.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* --- GPUs by number --- */

/* A GPU has a number while slices use it. */

struct scheduler_gpu *scheduler_gpu_find(struct scheduler *scheduler, const uint8_t *uuid)
{
	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++) {
		if (scheduler->gpus[i].users &&
			!memcmp(scheduler->gpus[i].uuid, uuid, SLICE_UUID_BYTES))
			return &scheduler->gpus[i];
	}
	return NULL;
}

static bool is_in_use(void *arg, const uint8_t *uuid)
{
	return scheduler_gpu_find(arg, uuid) != NULL;
}

static struct scheduler_gpu *find_unused(struct scheduler *scheduler)
{
	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++) {
		if (!scheduler->gpus[i].users)
			return &scheduler->gpus[i];
	}
	return NULL;
}

/* Takes, or releases, the number of a GPU for one slice. < 0: all numbers are in use. */
static int scheduler_gpu_ref(struct scheduler *scheduler, const uint8_t *uuid, const char *text,
	struct error *err)
{
	struct scheduler_gpu *g = scheduler_gpu_find(scheduler, uuid);

	if (g) {
		g->users++;
		return (int)(g - scheduler->gpus);
	}
	g = find_unused(scheduler);
	if (!g)
		return error_set(err, ERR_LIMIT,
			"compute: expected at most %d GPUs of the node whose slices take turns, "
			"'%s' is one more",
			SCHED_GPUS_MAX, text);
	g->record = usage_gpu(&scheduler->accounts, uuid, is_in_use, scheduler);
	if (!g->record)
		return error_set(err, ERR_LIMIT, "compute: no room for the account of '%s'",
			text);
	memcpy(g->uuid, uuid, SLICE_UUID_BYTES);
	memcpy(g->text, text, SLICE_UUID_TEXT);
	g->users = 1;
	return (int)(g - scheduler->gpus);
}

static void scheduler_gpu_unref(struct scheduler *scheduler, unsigned int number)
{
	scheduler->gpus[number].users--;
}

/* --- begin --- */

static struct sched_share_config get_desired_share(const struct slice_def *d, unsigned int gpu)
{
	return (struct sched_share_config){ .weight = d->gpus[gpu].weight,
		.cap = d->gpus[gpu].cap,
		.latency = d->latency,
		.mps = d->mps };
}

static struct scheduler_slice *new_sched_slice(struct scheduler *scheduler, const char *id)
{
	struct scheduler_slice *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	memcpy(s->id, id, strlen(id) + 1);
	s->epoll = -1;
	s->source = (struct scheduler_source){ .kind = SCHEDULER_SOURCE_SLICE, .of = s };
	s->next = scheduler->slices;
	if (scheduler->slices)
		scheduler->slices->prev = s;
	scheduler->slices = s;
	return s;
}

/* One GPU of a slice that gets a share. */
static int start_gpu(struct scheduler *scheduler, struct scheduler_slice *s,
	const struct slice_def *d, unsigned int gpu, uint64_t now, struct error *err)
{
	struct scheduler_share *share = &s->gpus[gpu];
	int number;

	*share = (struct scheduler_share){ .config = get_desired_share(d, gpu) };
	memcpy(share->uuid, d->gpus[gpu].uuid, SLICE_UUID_BYTES);
	memcpy(share->text, d->gpus[gpu].text, SLICE_UUID_TEXT);
	share->account = usage_account(&scheduler->accounts, s->id, share->uuid);
	if (!share->account)
		return error_set(err, ERR_LIMIT, "compute: no room for the slice's account");
	share->charged_ns = usage_load(&share->account->charged_ns);
	share->queue_ns = usage_load(&share->account->queue_ns);
	share->quanta = usage_load(&share->account->quanta);
	share->revocations = usage_load(&share->account->revocations);
	for (unsigned int i = 0; i < SCHED_ENDS; i++)
		share->quantum_ends[i] = usage_load(&share->account->quantum_ends[i]);
	number = scheduler_gpu_ref(scheduler, share->uuid, share->text, err);
	if (number < 0)
		return -1;
	share->number = (unsigned int)number;
	if (sched_slice_set_share(scheduler->sched, s->sched, share->number, &share->config,
		    now) < 0) {
		scheduler_gpu_unref(scheduler, share->number);
		return error_nomem(err);
	}
	return 0;
}

static int open_slice_events(struct scheduler *scheduler, struct scheduler_slice *s,
	struct error *err)
{
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0 || scheduler_watch_fd(scheduler->epoll, s->epoll, &s->source) < 0) {
		closep(&s->epoll);
		return error_set(err, ERR_UNAVAILABLE,
			"compute: no descriptor or no memory for the slice's events");
	}
	return 0;
}

static void fini_sched_slice(struct scheduler *scheduler, struct scheduler_slice *s)
{
	if (s->sched)
		sched_slice_free(scheduler->sched, s->sched);
	s->sched = NULL;
	closep(&s->epoll);
}

static int start_sched_slice(struct scheduler *scheduler, struct scheduler_slice *s,
	const struct slice_def *d, struct error *err)
{
	uint64_t now = time_mono_ns();

	s->n_gpus = 0;
	if (open_slice_events(scheduler, s, err) < 0)
		return -1;
	s->sched = sched_slice_new(scheduler->sched, s);
	if (!s->sched) {
		fini_sched_slice(scheduler, s);
		return error_nomem(err);
	}
	while (s->n_gpus < d->n_gpus && start_gpu(scheduler, s, d, s->n_gpus, now, err) == 0)
		s->n_gpus++;
	if (s->n_gpus < d->n_gpus) {
		fini_sched_slice(scheduler, s);
		while (s->n_gpus > 0)
			scheduler_gpu_unref(scheduler, s->gpus[--s->n_gpus].number);
		return -1;
	}
	scheduler_settle(scheduler, now);
	log_info(d->mps ? "slice runs under MPS" : "slice takes turns", LOG_STR("slice", s->id),
		LOG_STR("class", d->latency ? "latency" : "batch"),
		LOG_UINT("weight", d->gpus[0].weight), LOG_UINT("cap", d->gpus[0].cap));
	return 0;
}

/* --- change --- */

static bool is_same_sched_share(const struct sched_share_config *a,
	const struct sched_share_config *b)
{
	return a->weight == b->weight && a->cap == b->cap && a->latency == b->latency &&
	       a->mps == b->mps;
}

static void apply_share_changes(struct scheduler *scheduler, struct scheduler_slice *s,
	const struct slice_def *d, struct error *err)
{
	uint64_t now = time_mono_ns();

	for (unsigned int i = 0; i < s->n_gpus; i++) {
		struct scheduler_share *g = &s->gpus[i];
		struct sched_share_config share = get_desired_share(d, i);

		if (is_same_sched_share(&share, &g->config))
			continue;
		if (sched_slice_set_share(scheduler->sched, s->sched, g->number, &share, now) <
			0) {
			(void)error_nomem(err);
			continue;
		}
		g->config = share;
		scheduler_set_process_caps(s, i);
		log_info("share of a GPU changed", LOG_STR("slice", s->id),
			LOG_STR("gpu", g->text),
			LOG_STR("compute", share.mps ? "mps" : "turns"),
			LOG_STR("class", share.latency ? "latency" : "batch"),
			LOG_UINT("weight", share.weight), LOG_UINT("cap", share.cap));
	}
	scheduler_settle(scheduler, now);
}

struct share_call {
	struct scheduler_slice *slice;
	const struct slice_def *def;
	struct error *err;
	uint32_t on;
};

static bool share_step(struct scheduler *scheduler, void *arg)
{
	struct share_call *c = arg;

	if (!c->slice)
		c->slice = new_sched_slice(scheduler, c->def->id);
	if (!c->slice)
		(void)error_nomem(c->err);
	else if (c->slice->sched)
		apply_share_changes(scheduler, c->slice, c->def, c->err);
	else
		(void)start_sched_slice(scheduler, c->slice, c->def, c->err);
	if (!c->slice || !c->slice->sched)
		c->on = SLICE_TURNS_NONE;
	else
		c->on = c->slice->gpus[0].config.mps ? SLICE_TURNS_MPS : SLICE_TURNS_ON;
	return true;
}

uint32_t scheduler_slice_set_share(struct scheduler *scheduler, struct scheduler_slice **slice,
	const struct slice_def *d, struct error *err)
{
	struct share_call c = { .slice = *slice, .def = d, .err = err };

	scheduler_call(scheduler, share_step, &c);
	*slice = c.slice;
	return c.on;
}

/* --- end --- */

/* The registration ends first, or the scheduler would close its gates again. Then the gates open, and blocked
 * threads go on, whether or not the process reads its connection. */
static void release_registration(struct scheduler *scheduler,
	struct scheduler_registration *reg)
{
	static const struct sched_throttle none;

	scheduler_registration_end(reg, scheduler_now(scheduler));
	for (unsigned int i = 0; i < reg->n_gpus; i++)
		scheduler_set_gate(&reg->clients[i], SCHED_GATE_OPEN, &none);
}

static bool release_step(struct scheduler *scheduler, void *arg)
{
	struct scheduler_slice *s = arg;
	struct scheduler_registration *reg = s->registrations;

	for (int n = 0; reg && n < SCHEDULER_STEP; reg = reg->next) {
		if (reg->ended)
			continue;
		release_registration(scheduler, reg);
		n++;
	}
	return s->n_registrations == 0;
}

void scheduler_slice_release(struct scheduler *scheduler, struct scheduler_slice *s)
{
	scheduler_call(scheduler, release_step, s);
}

static bool stop_step(struct scheduler *scheduler, void *arg)
{
	struct scheduler_slice *s = arg;
	uint64_t now;

	if (!s->sched)
		return true;
	now = time_mono_ns();
	sched_update_charges(scheduler->sched, now);
	scheduler_count_slice(scheduler, s, now);
	fini_sched_slice(scheduler, s);
	for (unsigned int i = 0; i < s->n_gpus; i++)
		scheduler_gpu_unref(scheduler, s->gpus[i].number);
	scheduler_settle(scheduler, now);
	return true;
}

void scheduler_slice_stop(struct scheduler *scheduler, struct scheduler_slice *s)
{
	scheduler_call(scheduler, stop_step, s);
}

static bool free_step(struct scheduler *scheduler, void *arg)
{
	struct scheduler_slice *s = arg;

	(void)stop_step(scheduler, s);
	scheduler_count_skip_slice(scheduler, s);
	if (s->prev)
		s->prev->next = s->next;
	else
		scheduler->slices = s->next;
	if (s->next)
		s->next->prev = s->prev;
	return true;
}

struct scheduler_slice *scheduler_slice_free(struct scheduler *scheduler,
	struct scheduler_slice *s)
{
	if (s)
		scheduler_call(scheduler, free_step, s);
	free(s);
	return NULL;
}
