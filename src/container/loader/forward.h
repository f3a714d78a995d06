/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stands in for a driver library: this library defines every name of the real one, and each jumps to the real
 * function.
 *
 * gen-forward.py makes two things from a list of names (cuda.txt, nvml.txt): an entry point in assembly for each
 * name without a hook, and a word for each name that holds the real address. The words are 0 until the first
 * call. That call loads the real library, fills all words, and jumps on. So a process that never calls the
 * driver never loads it, and its start has nothing to relocate. From the second call on a name costs one
 * indirect jump.
 *
 * A hook is a C function of the library with the name's own type, marked "hook" in the list. It calls the real
 * function by REAL(). Thread: any. Fork: a child keeps the addresses.
 */
#include "container/loader/slots.h"

#include <stdbool.h>

#define HOOK __attribute__((visibility("default")))

/* The words of all names, by slot: real addresses, 0 until the first call. */
extern void *forward_slots[] __attribute__((visibility("hidden")));

/* The address for a slot whose word is still 0. Loads the real library. Never NULL. */
void *forward_resolve(unsigned int slot);

static inline void *forward_real(unsigned int slot)
{
	/* Pairs with the release in load.c: a thread that sees the address sees the loaded library. */
	void *real = __atomic_load_n(&forward_slots[slot], __ATOMIC_ACQUIRE);

	return __builtin_expect(real != 0, 1) ? real : forward_resolve(slot);
}

/* The real function of a name of the list. Always callable: without a real library it returns an error of the
 * driver's own (CUDA 100, NVML 12). So does a function that an older driver lacks (CUDA 500, NVML 13). */
#define REAL(name) ((__typeof__(&name))forward_real(SLOT_##name))

/* Loads the real library, unless that was tried before. False: it is absent, and a warning was printed once. */
bool forward_load(void);

/* The hook of the real library's function at @real; @real itself if it has none. */
void *forward_ours(void *real);

/* dlopen(), the dynamic loader's own, without the wrappers of any library. NULL also if it cannot be found. */
__attribute__((visibility("hidden"))) void *dl_open(const char *path, int mode);
