/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * gpuslice-mps clients: who processes are.
 * Thread: any. Blocks: on standard input, and on /proc (lib/base/procfs.h): for ever where a process's environment never comes.
 */
#include "lib/base/error.h"

/*
 * Reads PIDs from standard input, one a line, and answers each with a line "PID POD-UID DEVICES", "-" for what is not
 * known, until the end of input. What is no PID is ERR_INVALID.
 */
int clients_serve(struct error *err) MUST_USE;
