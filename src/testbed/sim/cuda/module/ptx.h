/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a PTX text declares: kernels with the offsets of their parameters, and variables. This module reads no
 * instruction. Pure. Thread: any.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_NAME_MAX   1024 /* names of templates and of Numba are long */
#define PTX_PARAMS_MAX 64

enum ptx_kind { PTX_KERNEL, PTX_GLOBAL, PTX_CONSTANT, PTX_MANAGED };

struct ptx_entry {
	enum ptx_kind kind;
	char name[PTX_NAME_MAX];
	size_t param_count;
	size_t offsets[PTX_PARAMS_MAX], sizes[PTX_PARAMS_MAX]; /* of a kernel's parameters */
	size_t bytes; /* of all parameters, or of a variable */
};

/*
 * Reads the next declaration from *at on (a text that ends in NUL) and moves *at behind it. 1: found; 0: no more;
 * -1: the text is no PTX from here on.
 */
int ptx_next(const char **at, struct ptx_entry *ret);

/* Tests for the beginning of each PTX text: comments, then .version. */
bool ptx_is(const char *text);

/* Whether the version of a PTX text is above @newest (major * 10 + minor). */
bool ptx_is_too_new(const char *text, unsigned newest);
