/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the real library, once.
 *
 * Locks. A thread holds no lock of this library while the loader works. The loader has its own lock and runs
 * constructors under it, which may call the driver.
 *
 * Protocol:
 *	1. Any number of threads may open the file at the same time; the loader returns the same library to all
 *	   of them.
 *	2. The first thread that sets .claim to BUSY fills the tables; the others yield until it is done.
 *	3. That thread stores READY or ABSENT (release). A thread that loads this value (acquire) sees the filled
 *	   tables.
 *
 * Forks. BUSY carries the PID. A child that was forked while its parent filled the tables finds another PID
 * there, and fills them from the start. The second fill writes what the first has written already.
 */
#include "container/loader/internal.h"
#include "container/sys.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

enum load_phase { PHASE_NEVER, PHASE_BUSY, PHASE_ABSENT, PHASE_READY };

static _Atomic(uint64_t) claim; /* the phase, and for BUSY also the PID << 8 */

/* Addresses of real functions with a hook: open addressing, written under the claim. */
#define HOOKED 1024
static struct hooked {
	uintptr_t real, ours;
} hooked[HOOKED];

static enum load_phase phase_now(void)
{
	/* Pairs with the release in publish_load_phase(). */
	return (enum load_phase)(atomic_load_explicit(&claim, memory_order_acquire) & 0xff);
}

static void publish_load_phase(enum load_phase phase)
{
	atomic_store_explicit(&claim, phase, memory_order_release);
}

/* Waits while another thread of this process has the claim. False: that thread has reached the phase @enough. */
static bool take_claim(enum load_phase enough)
{
	uint64_t mine = PHASE_BUSY | (uint64_t)getpid() << 8;
	uint64_t now = atomic_load_explicit(&claim, memory_order_acquire);

	for (;;) {
		if (now == mine) {
			sched_yield();
			now = atomic_load_explicit(&claim, memory_order_acquire);
		} else if ((now & 0xff) != PHASE_BUSY && (now & 0xff) >= (uint64_t)enough) {
			return false;
		} else if (atomic_compare_exchange_weak_explicit(&claim, &now, mine,
				   memory_order_acquire, memory_order_acquire)) {
			return true;
		}
	}
}

static uint32_t hooked_home(uintptr_t real)
{
	return (uint32_t)((real >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54) % HOOKED;
}

static void hooked_put(uintptr_t real, uintptr_t ours)
{
	uint32_t i = hooked_home(real);

	for (uint32_t n = 0; n < HOOKED; n++, i = (i + 1) % HOOKED) {
		if (hooked[i].real == real)
			return;
		if (!hooked[i].real) {
			hooked[i] = (struct hooked){ real, ours };
			return;
		}
	}
}

void *forward_ours(void *real)
{
	uint32_t i = hooked_home((uintptr_t)real);

	if (!real || phase_now() != PHASE_READY)
		return real;
	for (uint32_t n = 0; n < HOOKED && hooked[i].real; n++, i = (i + 1) % HOOKED)
		if (hooked[i].real == (uintptr_t)real)
			return (void *)hooked[i].ours;
	return real;
}

/* @real NULL: the library is absent. */
static void fill_forward_slots(const struct loader_image *real)
{
	for (uint32_t i = 0; i < forward_count; i++) {
		const char *name = forward_names + forward_name_at[i];
		void *fn = real ? image_address(real, name) : NULL;

		if (!fn)
			fn = forward_answer(name, !real);
		/* Pairs with the acquire of a caller through the slot. */
		__atomic_store_n(&forward_slots[i], fn, __ATOMIC_RELEASE);
	}
	if (!real)
		return;
	for (uint32_t i = 0; i < forward_hook_count; i++) {
		const struct forward_hook *row = &forward_hook_table[i];
		const char *name = forward_names + forward_name_at[row->slot];

		if (image_find(real, name))
			hooked_put((uintptr_t)forward_slots[row->slot],
				(uintptr_t)&row->ours + (uintptr_t)(intptr_t)row->ours);
	}
	complete_names(real);
}

static bool use_file(const char *path, void *arg)
{
	const struct link_map *map = dl_open(path, RTLD_LAZY | RTLD_LOCAL);

	return map && image_of(map->l_addr, map->l_ld, arg);
}

bool forward_load_from(const char *path)
{
	struct loader_image real = { 0 };
	int saved = errno;
	bool found;

	if (phase_now() == PHASE_READY)
		return true;
	found = find_real(path, use_file, &real);
	if (take_claim(found ? PHASE_READY : PHASE_ABSENT)) {
		fill_forward_slots(found ? &real : NULL);
		publish_load_phase(found ? PHASE_READY : PHASE_ABSENT);
	}
	errno = saved;
	return phase_now() == PHASE_READY;
}

bool forward_loaded(void)
{
	return phase_now() == PHASE_READY;
}

bool forward_load(void)
{
	enum load_phase phase = phase_now();

	if (phase != PHASE_ABSENT && phase != PHASE_READY)
		forward_load_from(NULL);
	if (phase_now() == PHASE_READY)
		return true;
	warn_once(WARN_NO_DRIVER,
		"%s of the driver is not found: it answers that there is none", forward_soname);
	return false;
}

void *forward_resolve(unsigned int slot)
{
	forward_load();
	return __atomic_load_n(&forward_slots[slot], __ATOMIC_ACQUIRE);
}
