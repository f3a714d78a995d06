/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the process can still do when remote clients have taken it over. It stays the agent's user, so the kernel would
 * let it signal, trace and limit the agent, write that user's files, start programs, and connect to the kubelet.
 * Each of these needs a system call; those that serving needs are in a table in confine.c, and no others work.
 * Thread: the only one.
 */
#include "lib/base/error.h"

/*
 * Gives up all capabilities but CAP_DAC_READ_SEARCH, and new privileges by exec. ERR_IO: some would be left,
 * and nothing has to be served.
 */
int web_drop_privileges(struct error *err) MUST_USE;

/*
 * From here on the process can read files, wait, and send and receive on the sockets that it has or accepts; any
 * other system call fails with ENOSYS. It cannot send a descriptor to the agent (WEB_FD_SOCKET). Its memory has a
 * limit, and it has no way to memory that the limit does not count (shared, or of the stack's kind). Builds with a sanitizer have neither, as sanitizers need more. Not to be undone.
 */
int web_confine(struct error *err) MUST_USE;
