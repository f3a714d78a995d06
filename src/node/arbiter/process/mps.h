/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Processes that should run under MPS and do not (mps.c says what that means). Thread: loop. */
#include "node/arbiter/grants/grants.h"

#include <stdint.h>

struct arbiter_conn;
struct arbiter_slice;

/*
 * What all registrations of the member's process in the slice report of MPS together (SLICE_MPS_... of
 * abi/slice-page.h). SLICE_MPS_OUTSIDE if one reports that for any GPU. The process writes these values: they
 * are for the log and for status only.
 */
uint32_t arbiter_mps_get_member_state(const struct grants_member *m);

/* Logs, once per process, that the process of @m, a member of @s, should run under MPS and does not. */
void arbiter_mps_check_member(struct arbiter_slice *s, struct grants_member *m);

/* arbiter_mps_check_member() for all registrations of the connection's process in its slice. */
void arbiter_mps_check_process(const struct arbiter_conn *c);
