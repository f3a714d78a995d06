/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The dynamic loader's own functions, without the wrappers of any library. Thread: any. */

/* dlopen(). NULL also if the loader's own function cannot be found. */
__attribute__((visibility("hidden"))) void *dl_open(const char *path, int mode);
