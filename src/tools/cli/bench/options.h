/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Options that `bench` and `profile` share. Thread: main. */
#include "lib/base/option.h"

/* The seconds of an option, @min to 3600; *ret stays as it is if it was not given. ERR_INVALID. */
int bench_read_seconds(double *ret, const struct options *o, const char *name, double min,
	struct error *err) MUST_USE;

/* What cannot be kept is said before anything is measured: @path, of --@option, is in a directory that can be written.
 * NULL will do. */
int bench_check_save(const char *option, const char *path, struct error *err) MUST_USE;
