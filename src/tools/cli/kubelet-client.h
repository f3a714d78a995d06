/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The subcommands of `gpuslice kubelet` that talk to a running stand-in: apply, delete, scale, get,
 * describe, label, restart, fault. Output as kubectl has it.
 * Thread: main.
 */
#include "lib/base/option.h"

/* Returns 0 or < 0; ERR_NOT_FOUND with the usual text for a word that is no subcommand. */
int kubelet_client_run(const struct options *o, struct error *err) MUST_USE;
