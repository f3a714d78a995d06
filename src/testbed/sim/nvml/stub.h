/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For the generated stubs, which must not see the prototypes: those have parameters. Thread: any. */
#define EXPORT __attribute__((visibility("default")))

/* The answer of a function that is not simulated: 1 before init, else 3. */
int nvml_lib_stub(void);
