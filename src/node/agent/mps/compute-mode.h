/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compute modes of the GPUs of one MPS daemon, read and set by the helper `gpuslice-mps mode` (compute-mode.c has
 * the steps). A call that returns 0 ends with .modes_done() of the supervisor, a call that fails without it.
 *
 * For the files of this folder only. Thread: loop.
 */
#include "lib/base/error.h"

struct mps_supervisor;

int mps_modes_read(struct mps_supervisor *sup, struct error *err) MUST_USE;
int mps_modes_set(struct mps_supervisor *sup, struct error *err) MUST_USE;
/* Restores the saved modes of one group: the GPUs with the same saved mode as the first. */
int mps_modes_restore(struct mps_supervisor *sup, struct error *err) MUST_USE;
/* Drops the saved modes of that group. */
void mps_modes_forget(struct mps_supervisor *sup);
