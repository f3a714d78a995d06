/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests of the keeper share besides turn-test.h: when it rests, and streams that wait for others. */
#include "turn-test.h"

/* Nothing is left, the arbiter knows, and the next submission is to say so. */
bool rests(uint32_t gpu);

/* In the stream TD_ASIDE: a submission; a wait for what another thread does; the same with work behind it. */
void submit_aside(void);
void park_nothing(void);
void park(void);
/* All that is in it is done. */
void aside_ends(void);

/* It is known that the stream waits. */
bool is_parked(void);
