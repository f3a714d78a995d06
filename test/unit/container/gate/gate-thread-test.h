/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests of the gate thread share besides gate-test.h: whether it rests, and streams that wait for
 * other streams. */
#include "gate-test.h"

/* No work is left, the arbiter knows that, and the doorbell is set: the next submission has to report. */
bool rests(uint32_t gpu);

/* Submits to the stream TD_ASIDE: work; a wait for another thread's work; such a wait with work behind it. */
void submit_beside_stream(void);
void block_no_work(void);
void block_stream(void);
/* The driver completes all work in TD_ASIDE. */
void aside_ends(void);

/* The library knows that the stream waits. */
bool is_stream_blocked(void);
