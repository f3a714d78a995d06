/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/load.h"

#include <assert.h>
#include <string.h>

#include "lib/base/time.h"

#define TRIES    100000 /* a limit: a writer killed in the middle must not stop readers */
#define FRESH_NS (2 * NS_PER_SEC) /* maximum age of a live daemon's figures */
#define AHEAD_NS (500 * NS_PER_MS)

static_assert(sizeof(struct sim_load) % 8 == 0, "words");
static_assert(sizeof(struct sim_load) / 8 + 1 <= SIM_STATE_LOAD_WORDS, "the state has room");

void sim_load_write(struct sim_state *s, uint32_t slot, const struct sim_load *load)
{
	_Atomic uint64_t *cell = sim_state_load_cell(s, slot);
	uint64_t seq = atomic_load_explicit(&cell[0], memory_order_relaxed) | 1, word;

	atomic_store_explicit(&cell[0], seq, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < sizeof(*load) / 8; i++) {
		memcpy(&word, (const char *)load + 8 * i, 8);
		atomic_store_explicit(&cell[1 + i], word, memory_order_relaxed);
	}
	atomic_store_explicit(&cell[0], seq + 1, memory_order_release);
}

void sim_load_read(const struct sim_state *s, uint32_t slot, struct sim_load *load)
{
	_Atomic uint64_t *cell = sim_state_load_cell(s, slot);

	for (int i = 0; i < TRIES; i++) {
		uint64_t seq = atomic_load_explicit(&cell[0], memory_order_acquire), word;

		for (size_t k = 0; k < sizeof(*load) / 8; k++) {
			word = atomic_load_explicit(&cell[1 + k], memory_order_relaxed);
			memcpy((char *)load + 8 * k, &word, 8);
		}
		atomic_thread_fence(memory_order_acquire);
		if (!(seq & 1) && atomic_load_explicit(&cell[0], memory_order_relaxed) == seq)
			break;
	}
}

void sim_load_tick(struct sim_load *load, uint64_t at_us, uint64_t real_us)
{
	struct sim_load_tick *to = &load->ticks[load->n_ticks++ % SIM_LOAD_TICKS];

	if (load->n_ticks > SIM_LOAD_TICKS && to->at_us > load->gone_us)
		load->gone_us = to->at_us;
	*to = (struct sim_load_tick){ .at_us = at_us, .real_us = real_us };
}

void sim_load_add(struct sim_load *load, uint32_t pid, uint64_t busy_us, uint64_t at_us)
{
	struct sim_load_part *to;

	for (uint32_t i = 0; i < load->n_parts && i < SIM_LOAD_PARTS; i++) {
		to = &load->parts[i];
		if (to->pid != pid || to->at_us != at_us)
			continue;
		to->busy_us += (uint32_t)busy_us;
		return;
	}
	to = &load->parts[load->n_parts++ % SIM_LOAD_PARTS];
	if (to->pid && to->at_us > load->gone_us)
		load->gone_us = to->at_us;
	*to = (struct sim_load_part){ .pid = pid,
		.busy_us = (uint32_t)busy_us,
		.at_us = at_us };
}

void sim_load_forget(struct sim_load *load, uint32_t pid)
{
	for (uint32_t i = 0; i < SIM_LOAD_PARTS; i++)
		if (load->parts[i].pid == pid)
			load->parts[i].pid = 0;
}

static struct sim_load_share *find_or_add_share(struct sim_load_share *v, uint32_t *n,
	uint32_t pid)
{
	for (uint32_t i = 0; i < *n; i++)
		if (v[i].pid == pid)
			return &v[i];
	if (*n == SIM_LOAD_ROOM)
		return NULL;
	v[*n] = (struct sim_load_share){ .pid = pid };
	return &v[(*n)++];
}

uint32_t sim_load_shares(const struct sim_load *load, uint64_t since_us,
	struct sim_load_share ret[SIM_LOAD_ROOM])
{
	uint64_t from = since_us > load->gone_us ? since_us : load->gone_us, all_us = 0;
	uint64_t busy_us[SIM_LOAD_ROOM] = { 0 };
	uint32_t n = 0;

	for (uint32_t i = 0; i < load->n_ticks && i < SIM_LOAD_TICKS; i++)
		all_us += load->ticks[i].at_us > from ? load->ticks[i].real_us : 0;
	for (uint32_t i = 0; i < load->n_parts && i < SIM_LOAD_PARTS; i++) {
		const struct sim_load_part *p = &load->parts[i];
		struct sim_load_share *s;

		if (!p->pid || !p->busy_us || p->at_us <= from)
			continue;
		s = find_or_add_share(ret, &n, p->pid);
		if (!s)
			continue;
		busy_us[s - ret] += p->busy_us;
		s->at_us = p->at_us > s->at_us ? p->at_us : s->at_us;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint64_t percent = all_us ? (busy_us[i] * 100 + all_us / 2) / all_us : 0;

		ret[i].percent = percent > 100 ? 100 : (uint32_t)percent;
	}
	return n;
}

bool sim_load_busy_ns(const struct sim_load *load, uint64_t mono_ns, uint64_t *ret)
{
	uint64_t ns = mono_ns > load->at_ns ? mono_ns - load->at_ns : 0;

	*ret = load->busy_ns;
	if (!load->at_ns || ns > FRESH_NS)
		return false;
	ns = ns > AHEAD_NS ? AHEAD_NS : ns;
	*ret += ns * load->rate / 1000000;
	return true;
}
