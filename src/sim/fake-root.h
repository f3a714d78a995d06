/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files that a node with a driver has besides its state, for programs that look for them: what
 * the kernel shows of each GPU, device nodes as plain files, and the driver's libraries, which have
 * names but no code. Inside src/sim only. Thread: any.
 */
#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>

/* Writes DIR/name if it is not there, whole or not at all: several processes may do it at once. */
int sim_fake_file(const char *dir, const char *name, const void *data, size_t len, mode_t mode,
	struct error *err) MUST_USE;

/* Libraries, programs and firmware of a driver of @version below @dir; what is there stays. */
int sim_fake_driver_write(const char *dir, const char *version, struct error *err) MUST_USE;
void sim_fake_driver_remove(const char *dir, const char *version);
