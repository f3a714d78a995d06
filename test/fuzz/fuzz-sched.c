/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "model/sched/internal.h"

#include <stdlib.h>

/*
 * Any row of events: slices and clients come and go, report any state, and get other shares. Time passes, with or
 * without a deadline of the scheduler. Each event has two bytes: the kind (3 bits), the target (5 bits), and a
 * number. At the end each client that wants gets a quantum, if all others become idle and time passes as the
 * scheduler asks.
 */
#define SLICES        6
#define WORLD_CLIENTS 20
#define GPUS          4
#define DRAIN_MAX     100000 /* steps */
#define START         (UINT64_C(1) << 40)

struct world {
	struct sched *t;
	struct sched_slice *slices[SLICES];
	struct sched_client *clients[WORLD_CLIENTS];
	unsigned int of[WORLD_CLIENTS]; /* slice */
	uint64_t now, gone[GPUS], charged[SLICES][GPUS];
};

static void trap_sched_unless(bool ok)
{
	if (!ok)
		__builtin_trap();
}

/* The scheduler is not called from here. No client wants before an open gate. */
static void on_gate(void *arg, struct sched_client *client)
{
	(void)arg;
	trap_sched_unless(client->gate == SCHED_GATE_CLOSED || !client->wants);
	trap_sched_unless(client->gate == SCHED_GATE_THROTTLED || !client->throttle.window_ns);
}

/* Each client completes work at a rate of its own. The last client's count wraps, so the count sometimes
 * falls. */
static uint64_t done_of(void *arg, const struct sched_client *client)
{
	const struct world *w = arg;
	uint64_t k = (uint64_t)(uintptr_t)client->user;

	return k == WORLD_CLIENTS - 1 ? w->now * 977 : (w->now - START) >> (8 + 3 * k);
}

static void check_gpu(struct world *w, unsigned int gpu)
{
	uint64_t sum = w->gone[gpu];
	const struct sched_gpu *g = &w->t->gpus[gpu];

	for (unsigned int i = 0; i < SLICES; i++) {
		struct sched_account a;

		if (!w->slices[i])
			continue;
		sched_account(w->t, w->slices[i], gpu, w->now, &a);
		trap_sched_unless(a.charged_ns >= w->charged[i][gpu]);
		w->charged[i][gpu] = a.charged_ns;
		sum += a.charged_ns;
	}
	trap_sched_unless(sum == sched_gpu_busy_ns(w->t, gpu));
	for (unsigned int i = 0; i < WORLD_CLIENTS; i++) {
		const struct sched_client *s = w->clients[i];

		if (!s || s->share->gpu != g)
			continue;
		trap_sched_unless(!s->share->config.mps || s->gate == SCHED_GATE_OPEN);
		if (s->gate == SCHED_GATE_CLOSED)
			continue;
		trap_sched_unless(sched_has_priority(s->share) || s->share->config.mps ||
				  g->period.concurrent ||
				  (g->holder == s->share && !g->paused));
	}
	for (const struct sched_share *share = g->shares; share; share = share->next)
		trap_sched_unless(!share->config.mps || g->holder != share);
}

static void check_world(struct world *w)
{
	trap_sched_unless(!w->t->dirty && sched_next_deadline(w->t) > w->now);
	for (unsigned int g = 0; g < GPUS; g++)
		check_gpu(w, g);
}

static void drop_slice(struct world *w, unsigned int i)
{
	sched_update_charges(w->t, w->now);
	for (unsigned int k = 0; k < WORLD_CLIENTS; k++) {
		if (w->clients[k] && w->of[k] == i) {
			sched_client_free(w->t, w->clients[k], w->now);
			w->clients[k] = NULL;
		}
	}
	check_world(w);
	for (unsigned int g = 0; g < GPUS; g++) {
		w->gone[g] += w->charged[i][g];
		w->charged[i][g] = 0;
	}
	sched_slice_free(w->t, w->slices[i]);
	w->slices[i] = NULL;
}

static void change_share(struct world *w, unsigned int i, uint8_t number)
{
	const struct sched_share_config share = { .weight = 1 + (uint32_t)(number & 15) * 666,
		.cap = number & 16 ? (uint32_t)(number | 1) * 4000 : 0,
		.latency = number & 32,
		.mps = (number & 15) == 7 };

	if (!w->slices[i])
		w->slices[i] = sched_slice_new(w->t, NULL);
	trap_sched_unless(w->slices[i] && sched_slice_set_share(w->t, w->slices[i], number >> 6,
						  &share, w->now) == 0);
}

static void change_client(struct world *w, unsigned int k, uint8_t number)
{
	unsigned int i = number % SLICES;

	if (w->clients[k]) {
		sched_client_free(w->t, w->clients[k], w->now);
		w->clients[k] = NULL;
	} else if (w->slices[i]) {
		w->of[k] = i;
		w->clients[k] = sched_client_new(w->t, w->slices[i], number / SLICES % GPUS,
			(void *)(uintptr_t)k, w->now);
		trap_sched_unless(w->clients[k]);
	}
}

static void apply_event(struct world *w, unsigned int what, unsigned int who, uint8_t number)
{
	struct sched_client *client = w->clients[who % WORLD_CLIENTS];

	switch (what) {
	case 0:
		change_share(w, who % SLICES, number);
		break;
	case 1:
		change_client(w, who % WORLD_CLIENTS, number);
		break;
	case 2:
		if (w->slices[who % SLICES] && number == 255)
			drop_slice(w, who % SLICES);
		break;
	case 3:
		w->now += UINT64_C(1) << number % 36;
		sched_update_charges(w->t, w->now);
		break;
	case 4:
		w->now += UINT64_C(1000) << number % 20;
		sched_advance_time(w->t, w->now);
		break;
	case 5:
		if (sched_next_deadline(w->t) != UINT64_MAX) {
			w->now = sched_next_deadline(w->t) > w->now ? sched_next_deadline(w->t)
								    : w->now;
			sched_advance_time(w->t, w->now);
		}
		break;
	default:
		if (client)
			sched_client_set_state(w->t, client, number & 1, number & 2,
				UINT64_C(1) << number / 4, w->now);
	}
}

static bool has_work(const struct world *w, bool wants)
{
	for (unsigned int i = 0; i < WORLD_CLIENTS; i++) {
		if (w->clients[i] && (wants ? w->clients[i]->wants : w->clients[i]->busy))
			return true;
	}
	return false;
}

static void drain_work(struct world *w)
{
	for (unsigned int n = 0; has_work(w, true) || has_work(w, false); n++) {
		trap_sched_unless(n < DRAIN_MAX);
		for (unsigned int i = 0; i < WORLD_CLIENTS; i++) {
			struct sched_client *s = w->clients[i];

			if (s && s->busy)
				sched_client_set_state(w->t, s, false, s->wants, 0, w->now);
		}
		if (!has_work(w, true))
			break;
		trap_sched_unless(
			has_work(w, false) || sched_next_deadline(w->t) != UINT64_MAX);
		w->now = has_work(w, false) ? w->now + 1000000 : sched_next_deadline(w->t);
		sched_advance_time(w->t, w->now);
		check_world(w);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world w = { .now = START };

	w.t = sched_new(on_gate, done_of, &w);
	trap_sched_unless(w.t);
	for (; size >= 2 && size <= 8192; data += 2, size -= 2) {
		apply_event(&w, data[0] & 7, data[0] >> 3, data[1]);
		/* Late calls are for the caller to make. */
		if (sched_next_deadline(w.t) <= w.now)
			sched_advance_time(w.t, w.now);
		check_world(&w);
	}
	drain_work(&w);
	(void)sched_free(w.t);
	return 0;
}
