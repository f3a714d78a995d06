/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

/*
 * A process in a mount namespace of its own that has @slice_dir mounted at @at, as a container has; it waits until
 * mounted_slice_end(). 0: no mount namespace can be made here.
 */
pid_t mounted_slice_begin(const char *slice_dir, const char *at);
void mounted_slice_end(pid_t pid);
