/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Device memory that a code image may take, as far as a cheap check shows: its size, plus the variables of ELF
 * files that have no bytes in the file. The check does not see the variables of compressed parts of a fat binary.
 * Pure. Thread: any.
 */
#include <stddef.h>
#include <stdint.h>

#define CODE_LEN_UNKNOWN SIZE_MAX

/* @len: readable bytes. CODE_LEN_UNKNOWN: as many as the image states, or up to its terminating 0, as for
 * the driver's own functions. Returns 0 for an unknown format. */
uint64_t code_bytes(const void *image, size_t len);
