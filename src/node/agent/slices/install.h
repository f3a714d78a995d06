/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The runtime libraries as containers mount them: STATE/lib/VERSION-HASH/ with both libraries and the
 * file that is mounted as /etc/ld.so.preload. They come from our own installation, since the host's
 * file system is where a mount must come from, and this program may run in a container.
 *
 * A directory is made whole under another name, flushed and renamed. Its files are never written to after, since
 * processes have them mapped; one that is missing is put in its place. It stays as long as a slice names it.
 * Thread: loop. Blocks: on files.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stdbool.h>

/*
 * Installs what is in @runtime_dir; NULL or "": what belongs to this program (../lib/gpuslice beside it, or
 * its build tree). *ret_name (SLICE_LIB_NAME_MAX) is the directory's name; if it is there already nothing is
 * done. ERR_NOT_FOUND: a library is not there.
 */
int slice_libs_install(char *ret_name, const char *state_dir, const char *runtime_dir,
	struct error *err) MUST_USE;

/*
 * Whether all of it is still there. Container runtimes make a directory of a source of a mount that is not,
 * and with a directory as /etc/ld.so.preload a container would run without a limit. Three looks at files.
 */
bool slice_libs_there(const char *state_dir, const char *name);

/* Removes the directories that are not in @keep. */
void slice_libs_sweep(const char *state_dir, const struct strv *keep);

/* STATE/lib/NAME[/FILE] into @ret of PATH_MAX; @file may be NULL. */
int slice_libs_path(char *ret, const char *state_dir, const char *name, const char *file,
	struct error *err) MUST_USE;

#define SLICE_LIBS_PRELOAD "ld.so.preload" /* in the directory */
