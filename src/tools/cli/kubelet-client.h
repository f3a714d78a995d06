/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The subcommands of `gpuslice kubelet` that talk to a running stand-in: apply, delete, scale, get,
 * describe, label, restart, fault. The output has the form of kubectl's.
 * Thread: main.
 */
#include "lib/base/option.h"

/* Returns 0 or < 0. ERR_INVALID: among others, the word is no subcommand. */
int kubelet_client_run(const struct options *o, struct error *err) MUST_USE;
