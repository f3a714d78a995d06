/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watches the slice of a running program: polls the arbiter's status and reads the log of launches. Thread: loop.
 */
#include "tools/bench/environment/environment.h"
#include "tools/bench/profile/profile.h"

struct profile_watch;

/* Makes a watch without a window. The caller frees it by watch_free(). ERR_NOMEM. */
int watch_new(struct profile_watch **ret, uv_loop_t *loop, struct error *err) MUST_USE;

/*
 * Watches the only pod of @environment from now on. @launches: also reads the pod's last launches. Facts that
 * cannot be read are missing in the window.
 */
void watch_begin_window(struct profile_watch *w, const struct environment *environment,
	bool launches);

/*
 * Ends the window and returns its facts. The caller sets the mode and share of *@ret, and frees it by
 * profile_window_fini(). ERR_NOMEM: *@ret is empty.
 */
int watch_end_window(struct profile_watch *w, struct profile_window *ret,
	struct error *err) MUST_USE;

/* Handles close as the loop runs on. Returns NULL. */
struct profile_watch *watch_free(struct profile_watch *w);

/*
 * Parses the arbiter's status answer (abi/arbiter-control.h) about one slice. False: the answer has no such slice.
 * Pure.
 */
bool watch_parse_status(struct profile_sample *ret, const char *line, size_t len);
