/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The reports of a process to its slice's arbiter: whether the process is busy on a GPU, and whether its
 * threads wait at the gate. internal.h says when a report is due. Thread: any; no call blocks for long.
 */
#include <stdbool.h>

struct gate_process;

/* Reports the state of the GPU at place @gpu of the page to the arbiter, unless the last report says just
 * that. False: the report could not be sent now. Keeps errno. */
bool gate_report_state(struct gate_process *process, unsigned int gpu);

/* Whether the arbiter has read the last report, and that report has the present state and the gate's
 * generation. True also without an arbiter. */
bool gate_state_is_reported(struct gate_process *process, unsigned int gpu);
