/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How this library starts a thread in a process that it does not own. Thread: any. */
#include <stdbool.h>

/*
 * Starts a detached thread of this library, with a small stack and no signals. It calls the
 * pthread_create() that the program's own calls would find: it may be a checker's. Old C libraries have
 * it in another library than the one that this library needs, so it is not imported. False: no thread can
 * be started. Keeps errno.
 */
bool gate_spawn_thread(void *(*fn)(void *), void *arg);

/* For the thread itself: a name, and timers that are not rounded by 50 us. */
void gate_prepare_thread(const char *name);
