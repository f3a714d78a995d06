/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For the generated stubs. They must not see the prototypes, which have parameters. */
#define EXPORT __attribute__((visibility("default")))
#define WEAK   __attribute__((visibility("default"), weak))

/* The result of a function that is not simulated: 3 before cuInit(), else 801. */
unsigned int cuda_lib_stub(void);
