/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/load.h"

#include <assert.h>
#include <string.h>

#include "base/time.h"

#define TRIES    100000 /* a writer that was killed in the middle must not stop readers */
#define FRESH_NS (2 * NS_PER_SEC) /* of a daemon that lives */
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

void sim_load_add(struct sim_load *load, uint32_t pid, uint32_t percent, uint64_t at_us)
{
	struct sim_load_sample *to;

	for (uint32_t i = 0; i < load->count && i < SIM_LOAD_SAMPLES; i++) {
		to = &load->samples[i];
		if (to->pid != pid || to->at_us != at_us)
			continue;
		to->percent = to->percent + percent > 100 ? 100 : to->percent + percent;
		return;
	}
	to = &load->samples[load->count++ % SIM_LOAD_SAMPLES];
	*to = (struct sim_load_sample){ .pid = pid, .percent = percent, .at_us = at_us };
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
