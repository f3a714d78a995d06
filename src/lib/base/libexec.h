/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Our helper programs, which nobody calls by hand. Thread: any. Blocks: on the file system. */
#include "lib/base/error.h"

#include <limits.h>
#include <stdbool.h>

/*
 * The path of @name into @ret: in the directory of GPUSLICE_LIBEXEC, if that is set; in ../libexec/gpuslice or
 * ../../@build_dir beside this program (the build tree comes before the installed place, for two ends of a protocol
 * must be of one build); where it was to be installed. ERR_NOT_FOUND: nowhere.
 */
int libexec_find(char ret[PATH_MAX], const char *name, const char *build_dir,
	struct error *err) MUST_USE;
