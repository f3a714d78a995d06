/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * gpuslice-mps clients: finds the pod and the devices of processes.
 * Thread: any. Blocks: on standard input, and on /proc (lib/base/procfs.h), for ever if a process's environment
 * never comes.
 */
#include "lib/base/error.h"

/*
 * Reads PIDs from standard input, one a line, until its end. Answers each with a line "PID POD-UID DEVICES", "-"
 * for what is not known. ERR_INVALID: a line is no PID.
 */
int clients_serve(struct error *err) MUST_USE;
