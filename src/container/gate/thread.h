/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * Starts a thread of ours, detached, with a small stack and no signals, by whatever pthread_create() the
 * program's own calls would find: it may be a checker's. Old C libraries have it in another library than
 * the one we need, so it is not imported. False: it cannot be done.
 */
bool thread_start(void *(*fn)(void *), void *arg);

/* For the thread itself: a name, and timers that are not rounded by 50 us. */
void thread_prepare(const char *name);
