/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The simulated node that the process runs on, as cuInit() finds it. */
#include "testbed/sim/cuda/lib.h"

/* Fills lib.devices and lib.driver_version. Needs the lock. */
CUresult node_open(void);

/* The directory of the node's state; only after node_open(). */
const char *node_dir(void);
