/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The interception libraries as containers mount them: STATE/lib/VERSION-HASH/ has both libraries and the file
 * that is mounted as /etc/ld.so.preload. The agent copies them from its own installation: the source of a mount
 * must be on the host, and the agent may run in a container.
 *
 * The agent fills a directory under another name, flushes it and renames it. The agent never writes to the files
 * again, since processes have them mapped. It replaces a file that is missing or has another length. The directory
 * stays as long as a slice names it.
 *
 * Thread: loop. Blocks: on files.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stdbool.h>

/*
 * Installs the libraries of @runtime_dir. NULL or "": those of this program (../lib/gpuslice beside it, or its
 * build tree). *ret_name (SLICE_LIB_NAME_MAX) is the directory's name. If the directory exists, only missing files
 * and files of another length are replaced. ERR_NOT_FOUND: a library is missing.
 */
int slice_libs_install(char *ret_name, const char *state_dir, const char *runtime_dir,
	struct error *err) MUST_USE;

/*
 * Whether all files are still there. Container runtimes make a directory where a mount's source is missing. With a
 * directory as /etc/ld.so.preload a container would run without a limit. Costs three stat().
 */
bool slice_libs_there(const char *state_dir, const char *name);

/* Removes the directories that are not in @keep. */
void slice_libs_sweep(const char *state_dir, const struct strv *keep);

/* STATE/lib/NAME[/FILE] into @ret of PATH_MAX; @file may be NULL. */
int slice_libs_path(char *ret, const char *state_dir, const char *name, const char *file,
	struct error *err) MUST_USE;

#define SLICE_LIBS_PRELOAD "ld.so.preload" /* in the directory */
