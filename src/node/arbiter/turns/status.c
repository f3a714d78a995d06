/* SPDX-License-Identifier: Apache-2.0 */

/* Turns and their accounts in the answer to "status" (abi/arbiter-control.h). */
#include "node/arbiter/turns/turn.h"

#include "lib/base/time.h"

#include <jansson.h>
#include <string.h>

static const char *const counter_names[TALLY_COUNTERS] = {
	[TALLY_LAUNCHES] = "launches",
	[TALLY_COPIES] = "copies",
	[TALLY_BYTES] = "bytes",
	[TALLY_WAITS] = "waits",
	[TALLY_WAIT_NS] = "wait_ns",
	[TALLY_METER_NS] = "meter_ns",
};

/* What could not be made is missing, and shows as no memory at the end. */
static void set(json_t *object, const char *key, uint64_t v)
{
	(void)json_object_set_new(object, key,
		json_integer((json_int_t)(v > INT64_MAX ? INT64_MAX : v)));
}

static void set_time(json_t *object, uint64_t charged_ns,
	const uint64_t counters[TALLY_COUNTERS])
{
	set(object, "charged_ns", charged_ns);
	for (unsigned int k = 0; k < TALLY_COUNTERS; k++)
		set(object, counter_names[k], counters[k]);
}

static const struct turn_share *find(const struct slice *s, const uint8_t *uuid)
{
	for (unsigned int i = 0; s->turn && i < s->turn->n_gpus; i++) {
		if (!memcmp(s->turn->gpus[i].uuid, uuid, SLICE_UUID_BYTES))
			return &s->turn->gpus[i];
	}
	return NULL;
}

void turn_status_begin(struct arbiter *a)
{
	struct turn *t = a->turn;

	for (struct slice *s = a->slices; s; s = s->next) {
		for (unsigned int i = 0; s->turn && i < s->turn->n_gpus; i++)
			s->turn->gpus[i].told_ns =
				tally_get(&s->turn->gpus[i].account->charged_ns);
	}
	for (unsigned int i = 0; i < TURNS_GPUS_MAX; i++) {
		if (t->gpus[i].users)
			t->gpus[i].told_ns = tally_busy_ns(&t->tally, t->gpus[i].record);
	}
}

static json_t *compute_json(const struct slice *s)
{
	switch (turn_slice_compute(s)) {
	case SLICE_TURNS_ON:
		return json_string("turns");
	case SLICE_TURNS_MPS:
		return json_string("mps");
	default:
		return json_null();
	}
}

void turn_status_slice(struct slice *s, json_t *slice)
{
	const struct turn_slice *on = turn_slice_on(s) ? s->turn : NULL;
	bool latency = s->def.latency;
	const char *error = NULL;

	if (s->turn && s->turn->error.code != ERR_NONE)
		error = s->turn->error.msg;
	else if (on && on->crowded_ns && time_mono_ns() - on->crowded_ns < TURN_CROWDED_NS)
		error = "too many processes: one of them takes no turns";
	/* Its file may be gone. */
	if (on)
		latency = on->gpus[0].share.latency;
	(void)json_object_set_new(slice, "compute", compute_json(s));
	(void)json_object_set_new(slice, "compute_error",
		error ? json_string(error) : json_null());
	(void)json_object_set_new(slice, "class", json_string(latency ? "latency" : "batch"));
}

void turn_status_gpu(struct slice *s, const uint8_t *uuid, json_t *gpu)
{
	const struct turn *t = s->arbiter->turn;
	const struct turn_share *g = find(s, uuid);
	struct turns_account now = { .turn = false };
	uint64_t counters[TALLY_COUNTERS];

	if (!g)
		return;
	if (s->turn->turns)
		turns_account(t->turns, s->turn->turns, g->number,
			t->served_ns > t->counted_ns ? t->served_ns : t->counted_ns, &now);
	tally_total(&t->tally, g->account, counters);
	set_time(gpu, g->told_ns, counters);
	set(gpu, "weight", g->share.weight);
	(void)json_object_set_new(gpu, "cap",
		g->share.cap ? json_integer(g->share.cap) : json_null());
	(void)json_object_set_new(gpu, "turn", json_boolean(now.turn));
	(void)json_object_set_new(gpu, "demoted", json_boolean(now.demoted));
	(void)json_object_set_new(gpu, "stuck",
		json_boolean(now.stuck_ns >= TURN_STUCK_NS || g->n_stuck));
	set(gpu, "turns", tally_get(&g->account->turns));
	set(gpu, "revocations", tally_get(&g->account->revocations));
	set(gpu, "queue_ns", tally_get(&g->account->queue_ns));
}

/* All registrations of a process on a GPU. */
struct sums {
	uint64_t charged_ns, counters[TALLY_COUNTERS];
	bool stuck;
};

/* Of the process there, added up. False: it has none. */
static bool add_up(const struct slice *s, uint32_t pid, uint64_t start, const uint8_t *uuid,
	struct sums *ret)
{
	const struct turn_share *g = find(s, uuid);
	bool some = false;

	*ret = (struct sums){ .charged_ns = 0 };
	for (const struct turn_conn *tc = g ? turn_conns_of(s->turn, pid) : NULL; tc;
		tc = tc->next_of_pid) {
		const struct turn_seat *seat = &tc->seats[g - s->turn->gpus];
		const struct tally_seat *r = seat->record;

		if (!turn_conn_is_of(tc, pid, start) || !r)
			continue;
		some = true;
		ret->stuck |= seat->stuck;
		ret->charged_ns += tally_get(&r->charged_ns);
		for (unsigned int k = 0; k < TALLY_COUNTERS; k++)
			ret->counters[k] += tally_get(&r->counted[k]);
	}
	return some;
}

bool turn_status_has(const struct slice *s, uint32_t pid, uint64_t start, const uint8_t *uuid)
{
	struct sums sums;

	return add_up(s, pid, start, uuid, &sums);
}

void turn_status_process(const struct slice *s, uint32_t pid, uint64_t start,
	const uint8_t *uuid, json_t *gpu)
{
	struct sums sums;

	if (!add_up(s, pid, start, uuid, &sums))
		return;
	set_time(gpu, sums.charged_ns, sums.counters);
	(void)json_object_set_new(gpu, "stuck", json_boolean(sums.stuck));
}

json_t *turn_status_gpus(struct arbiter *a)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < TURNS_GPUS_MAX; i++) {
		const struct turn_gpu *g = &a->turn->gpus[i];
		json_t *one = g->users ? json_object() : NULL;

		turn_breathe(a);
		if (!one)
			continue;
		(void)json_object_set_new(one, "uuid", json_string(g->text));
		set(one, "busy_ns", g->told_ns);
		(void)json_object_set_new(one, "together",
			json_boolean(turns_are_together(a->turn->turns, i)));
		(void)json_array_append_new(list, one);
	}
	return list;
}
