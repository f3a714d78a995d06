/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libfake-nvml.so for one test program: its path, and a directory with the file that defines what it
 * does (test/support/fake-nvml.c has the words). Both ends, this process and a worker, read that file.
 */
#include <limits.h>

extern char *fake_nvml_dir; /* for files of the test's own, too */
extern char fake_nvml_lib[PATH_MAX];

void fake_nvml_begin(void);
void fake_nvml_end(void);

/* Sets what it does from now on. */
void fake_nvml(const char *text);
