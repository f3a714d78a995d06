/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits what remote clients can do with the process when they have taken it over.
 *
 * The process keeps the agent's user. The kernel would therefore let it signal, trace and limit the agent,
 * write that user's files, start programs, and connect to the kubelet. Each of these needs a system call. The
 * calls that serving needs are in a table in confine.c, and no others work.
 * Thread: the only one.
 */
#include "lib/base/error.h"

/*
 * Gives up all capabilities but CAP_DAC_READ_SEARCH, and new privileges by exec. ERR_IO: some would remain, so
 * the process must not serve.
 */
int web_drop_privileges(struct error *err) MUST_USE;

/*
 * From here on the process can read files, wait, and send and receive on the sockets that it has or accepts.
 * Any other system call fails with ENOSYS. The process cannot send a descriptor to the agent (WEB_FD_SOCKET).
 * Its memory has a limit, and it cannot get memory that the limit does not count (shared, or growing downwards
 * like a stack). Builds with a sanitizer have neither filter nor limit, as sanitizers need more. Cannot be
 * undone.
 */
int web_confine(struct error *err) MUST_USE;
