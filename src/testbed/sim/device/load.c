/* SPDX-License-Identifier: Apache-2.0 */

/* Measures how busy programs keep a GPU, for testbed/sim/load.h. */
#include "testbed/sim/device/internal.h"

#include "lib/base/time.h"

/*
 * The driver has no samples of MPS clients. Their server has samples for all of them: the time in which any of
 * them ran (measured on an H100). The simulator takes the sum of their times, at most the interval.
 */
static uint64_t own_busy_ns(const struct device_client *c, uint32_t slot)
{
	const struct simulated_gpus *d = c->device;
	uint64_t ns = usage_busy_ns(c, slot) + c->shares[slot].served_ns;

	for (const struct device_client *o = d->clients; o; o = o->next)
		for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++) {
			const struct device_context *x = &o->contexts[i];

			if (x->engine && x->slot == slot && x->server && x->server->client == c)
				ns += engine_context_busy_ns(x->engine);
		}
	return ns;
}

/*
 * Adds the sample of @c since the last one: an interval of @real_us of the real and @sim_ns of the simulated
 * clock.
 */
static void add_part(struct device_slot *s, struct device_client *c, uint32_t slot,
	uint64_t sim_ns, uint64_t real_us, uint64_t at_us)
{
	struct share *own = &c->shares[slot];
	uint64_t busy, ns;

	if (own->mps || !sim_ns)
		return;
	busy = own_busy_ns(c, slot);
	ns = busy - own->sampled_busy_ns;
	own->sampled_busy_ns = busy;
	ns = ns < sim_ns ? ns : sim_ns;
	sim_load_add(&s->load, c->pid, (uint64_t)((unsigned __int128)ns * real_us / sim_ns),
		at_us);
}

void load_measure(struct simulated_gpus *d, uint64_t sim_ns, uint64_t real_ns, uint64_t mono_ns)
{
	uint64_t at_us = time_wall_ns() / 1000;

	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++) {
		struct device_slot *s = &d->slots[slot];
		uint64_t busy, part;

		if (!s->usable)
			continue;
		busy = engine_gpu_counters(d->engine, slot).busy_ns;
		part = (busy - s->seen_busy_ns + instance_measure(d, slot)) * 1000000 / sim_ns;
		part = part > 1000000 ? 1000000 : part;
		s->seen_busy_ns = busy;
		s->load.busy_ns += real_ns * part / 1000000;
		s->load.rate = (uint32_t)part;
		s->load.at_ns = mono_ns;
		sim_load_tick(&s->load, at_us, real_ns / 1000);
		for (struct device_client *c = d->clients; c; c = c->next)
			if (c->shares[slot].listed)
				add_part(s, c, slot, sim_ns, real_ns / 1000, at_us);
		sim_load_write(d->state, slot, &s->load);
	}
}

void load_remove_client(struct device_client *c, uint32_t slot)
{
	struct device_slot *s = &c->device->slots[slot];

	sim_load_forget(&s->load, c->pid);
	sim_load_write(c->device->state, slot, &s->load);
}
