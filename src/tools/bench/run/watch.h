/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Looks at a slice while a program runs in it: asks the arbiter again and again, and reads the log of launches. Thread:
 * loop. */
#include "tools/bench/environment/environment.h"
#include "tools/bench/profile/profile.h"

struct profile_watch;

int watch_new(struct profile_watch **ret, uv_loop_t *loop, struct error *err) MUST_USE;

/* From now on, at the only pod of @environment, and if asked to at what it launches last. What cannot be seen is not in the window. */
void watch_begin_window(struct profile_watch *w, const struct environment *environment,
	bool launches);

/* What was seen since then, into @ret, whose mode and share are the caller's; profile_window_fini() frees it. ERR_NOMEM,
 * and then *ret is empty. */
int watch_end_window(struct profile_watch *w, struct profile_window *ret,
	struct error *err) MUST_USE;

/* The handles close as the loop runs on. Returns NULL. */
struct profile_watch *watch_free(struct profile_watch *w);

/* An answer of the arbiter (abi/arbiter-control.h, status) about one slice. False: it says nothing of it. Pure. */
bool watch_parse_status(struct profile_sample *ret, const char *line, size_t len);
