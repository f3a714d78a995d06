/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Standing in for a driver library: every name of the real one is ours, and jumps to it.
 *
 * Made from a list of names (cuda.txt, nvml.txt; gen-forward.py): an entry point in assembly for each
 * name that no hook defines, and one word for each name that holds the real address. The words are
 * 0 until the first call, which loads the real library, fills them all and jumps on; so a process
 * that never calls the driver never loads it, its start has nothing to relocate, and from the second
 * call on a name costs one indirect jump.
 *
 * A hook is a C function of the library with the name's own type, marked "hook" in the list; it
 * calls the real one by REAL(). Thread: any. Fork: a child keeps the addresses.
 */
#include "container/loader/slots.h"

#include <stdbool.h>

#define HOOK __attribute__((visibility("default")))

extern void *forward_slots[] __attribute__((visibility("hidden")));

/* The address for a slot whose word is still 0: loads the real library. Never NULL. */
void *forward_resolve(unsigned int slot);

static inline void *forward_real(unsigned int slot)
{
	/* Pairs with the release in load.c: who sees the address sees the loaded library. */
	void *real = __atomic_load_n(&forward_slots[slot], __ATOMIC_ACQUIRE);

	return __builtin_expect(real != 0, 1) ? real : forward_resolve(slot);
}

/* The real function behind a name of the list. Always callable: with no real library it answers
 * an error of the driver's own (CUDA 100, NVML 12), as a function that an older driver lacks
 * (CUDA 500, NVML 13). */
#define REAL(name) ((__typeof__(&name))forward_real(SLOT_##name))

/* Loads the real library if that was not tried yet. False: there is none; a warning said so once. */
bool forward_load(void);

/* Ours for an address in the real library that a hook stands in front of; else @real itself. */
void *forward_ours(void *real);
