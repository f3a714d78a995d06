/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The helper programs, which users do not call. Thread: any. Blocks: on the file system. */
#include "lib/base/error.h"

#include <limits.h>
#include <stdbool.h>

/*
 * Finds the program @name and writes its path to @ret. Searches in this order:
 *  1. the directory GPUSLICE_LIBEXEC, if that is set;
 *  2. ../libexec/gpuslice beside this program;
 *  3. ../../@build_dir beside this program: the build tree;
 *  4. the directory of the installation.
 * The build tree comes before the installation, since both ends of a protocol must be of one build.
 * ERR_NOT_FOUND: in none.
 */
int libexec_find(char ret[PATH_MAX], const char *name, const char *build_dir,
	struct error *err) MUST_USE;
