/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Options that `bench` and `profile` share. Thread: main. */
#include "lib/base/option.h"

/* The seconds of option @name, from @min to 3600. If the option is not given, *ret stays.
 * ERR_INVALID. */
int bench_read_seconds(double *ret, const struct options *o, const char *name, double min,
	struct error *err) MUST_USE;

/* Checks, before any measurement, that the directory of @path can be written. @option: the option
 * that names @path, for the error. NULL @path is valid. */
int bench_check_save(const char *option, const char *path, struct error *err) MUST_USE;
