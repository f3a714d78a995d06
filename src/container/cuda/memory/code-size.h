/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much device memory a code image may take, as far as that can be seen cheaply: its size, and of
 * ELF files the variables that have no bytes in it. Compressed parts of a fat binary keep theirs to
 * themselves. Pure. Thread: any.
 */
#include <stddef.h>
#include <stdint.h>

#define CODE_LEN_UNKNOWN SIZE_MAX

/* @len: bytes that may be read; CODE_LEN_UNKNOWN: as many as the image says, or to its ending 0. The
 * driver's own functions take images like that. 0: it is none that we know. */
uint64_t code_bytes(const void *image, size_t len);
