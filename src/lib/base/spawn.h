/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts a helper program that speaks over inherited descriptors. Its standard input and output are /dev/null, its
 * signals have their default actions, and none is blocked. Standard error is that of this process. Thread: any.
 */
#include "lib/base/error.h"

#include <stddef.h>
#include <sys/types.h>

/* The program's descriptor @to is a copy of @from. */
struct spawn_fd {
	int from, to;
};

/*
 * Starts @path with @argv, which ends with NULL, in this process's environment. The copies of @fds are made in order,
 * after standard input: .from 0 is /dev/null. A .from must not be the .to of an earlier one. Descriptors without
 * FD_CLOEXEC are inherited, too. The error names @path.
 */
int spawn_helper(pid_t *ret, const char *path, char *const *argv, const struct spawn_fd *fds,
	size_t n, struct error *err) MUST_USE;
