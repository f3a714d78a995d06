/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests of fences share besides gate-test.h; all of GPU 0. */
#include "gate-test.h"

/* No work is in flight, and the arbiter has the report. */
bool is_gate_idle(void);

bool is_stuck(void);

/* Returns after several further polls of the gate thread. */
void wait_fence_polls(void);

/* Submits once to @stream. Returns whether the submission was counted. */
bool submit_to(CUstream stream, unsigned int flags);

void capture_begins(void);
void capture_ends(void); /* and nothing has spoiled it */
