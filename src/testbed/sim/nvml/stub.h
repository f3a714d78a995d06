/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the generated stubs need: they must not see the prototypes, which have parameters. */
#define EXPORT __attribute__((visibility("default")))

/* NVML's answer of a function that is not simulated: 1 before init, else 3. */
int nvml_lib_stub(void);
