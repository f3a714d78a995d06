/* SPDX-License-Identifier: Apache-2.0 */

/* Measures how busy programs keep a GPU, for sim/load.h. */
#include "sim/device/internal.h"

#include "base/time.h"

#define TICK_NS \
	(1 * NS_PER_SEC - 10 * NS_PER_MS) /* a sample a second; the daemon looks 4 times */

/* One sample of @c, whose time since the last one is @window_ns of the simulated clock. */
static void sample(struct slot *s, struct device_client *c, uint32_t slot, uint64_t window_ns,
	uint64_t at_us)
{
	struct share *own = &c->shares[slot];
	uint64_t busy = usage_busy_ns(c, slot), percent;

	/* A first one is of the whole period, of which the process had only a part. */
	if (!own->sampled && window_ns < NS_PER_SEC)
		window_ns = NS_PER_SEC;
	own->sampled = true;
	/* In hundredths of a percent, with what the last one left. */
	own->rest += window_ns ? (busy - own->sampled_busy_ns) * 10000 / window_ns : 0;
	own->sampled_busy_ns = busy;
	percent = (own->rest + 50) / 100;
	percent = percent > 100 ? 100 : percent;
	own->rest = own->rest > percent * 100 ? own->rest - percent * 100 : 0;
	own->rest = own->rest > 10000 ? 10000 : own->rest;
	sim_load_add(&s->load, c->pid, (uint32_t)percent, at_us);
}

void load_measure(struct device *d, uint64_t sim_ns, uint64_t real_ns, uint64_t mono_ns)
{
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++) {
		struct slot *s = &d->slots[slot];
		uint64_t busy, part;

		if (!s->usable)
			continue;
		busy = engine_gpu_counters(d->engine, slot).busy_ns;
		part = (busy - s->seen_busy_ns) * 1000000 / sim_ns;
		part = part > 1000000 ? 1000000 : part;
		s->seen_busy_ns = busy;
		s->load.busy_ns += real_ns * part / 1000000;
		s->load.rate = (uint32_t)part;
		s->load.at_ns = mono_ns;
		s->since_tick_ns += sim_ns;
		if (mono_ns - s->tick_ns >= TICK_NS) {
			for (struct device_client *c = d->clients; c; c = c->next)
				if (c->shares[slot].listed)
					sample(s, c, slot, s->since_tick_ns,
						time_wall_ns() / 1000);
			s->tick_ns = mono_ns;
			s->since_tick_ns = 0;
		}
		sim_load_write(d->state, slot, &s->load);
	}
}

void load_end(struct device_client *c, uint32_t slot)
{
	struct slot *s = &c->device->slots[slot];
	uint64_t now_ns = time_mono_ns();

	/* By the real clock: here nobody knows how far the simulated one has come. */
	sample(s, c, slot, now_ns > s->tick_ns ? now_ns - s->tick_ns : 0,
		time_wall_ns() / 1000);
	sim_load_write(c->device->state, slot, &s->load);
}
