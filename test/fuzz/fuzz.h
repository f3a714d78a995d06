/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a fuzz target defines, and all it may do: take one input, return 0, leave nothing behind.
 * libFuzzer calls it (meson -Dfuzzing=true), or replay.c with the corpus (an ordinary test).
 */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
