/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Standing in for a driver library: every name of the real one is ours, and jumps to it.
 *
 * Made from a list of names (cuda.txt, nvml.txt; gen-forward.py): an entry point in assembly for each
 * name that no hook defines, and one word for each name that holds the real address. At first the
 * words lead to code that loads the real library, fills them all and jumps on; so a process that
 * never calls the driver never loads it, and from the second call on a name costs one indirect jump.
 *
 * A hook is a C function of the library with the name's own type; it calls the real one by REAL().
 * Thread: any. Fork: a child keeps the addresses.
 */
#include <stdbool.h>

#define HOOK __attribute__((visibility("default")))

extern void *forward_slots[];

/* The real function behind a name of the list. Always callable: with no real library it answers
 * an error of the driver's own (CUDA 100, NVML 12). */
#define REAL(name) ((__typeof__(&name))forward_slots[SLOT_##name])

/* Loads the real library if that was not tried yet. False: there is none; a warning said so once. */
bool forward_load(void);

/* Ours for an address in the real library that a hook stands in front of; else @real itself. */
void *forward_ours(void *real);
