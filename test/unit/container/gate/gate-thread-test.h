/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests of the keeper share besides gate-test.h: when it rests, and streams that wait for others. */
#include "gate-test.h"

/* Nothing is left, the arbiter knows, and the next submission is to say so. */
bool rests(uint32_t gpu);

/* In the stream TD_ASIDE: a submission; a wait for what another thread does; the same with work behind it. */
void submit_beside_stream(void);
void block_no_work(void);
void block_stream(void);
/* All that is in it is done. */
void aside_ends(void);

/* It is known that the stream waits. */
bool is_stream_blocked(void);
