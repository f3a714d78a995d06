/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What went wrong, in a value that the caller owns and that needs no heap.
 *
 * A function that can fail returns int: 0 done; > 0 an outcome that its header names and that this
 * caller must answer; < 0 failed, and then *err is filled and the number is passed up unchanged.
 * The place that detects the error sets it; callers may add one prefix each, never replace it.
 * Text says what was tried on which object ("open 'a.yaml': No such file or directory"): one
 * line, no full stop, no "failed", no function name. @err may be NULL everywhere.
 * Thread: any.
 */
#include "lib/base/cleanup.h"

#include <stdarg.h>

/* One vocabulary for all programs; lib/base/error.c maps it to gRPC, HTTP and exit codes. */
enum error_code {
	ERR_NONE = 0,
	ERR_INVALID,     /* input is wrong: the text names file, line, key, expected, found */
	ERR_NOT_FOUND,   /* the named thing does not exist */
	ERR_EXISTS,      /* somebody else already has it */
	ERR_LIMIT,       /* a limit with a name was reached */
	ERR_UNSUPPORTED, /* this machine, driver or version cannot do it */
	ERR_NOT_YET,     /* a feature of a later version of gpuslice */
	ERR_PERMISSION,
	ERR_TIMEOUT,
	ERR_UNAVAILABLE, /* a peer is away; trying again may help */
	ERR_IO,          /* a system call said no; .sys has errno */
	ERR_NOMEM,
	ERR_CANCELLED,
	ERR_INTERNAL, /* a bug of ours */
	ERR_COUNT_,
};

#define ERROR_MSG_MAX 512

struct error {
	enum error_code code;
	int sys; /* errno of the failing call, or 0 */
	char msg[ERROR_MSG_MAX];
};

#define ERROR_INIT               \
	{                        \
		.code = ERR_NONE \
	}

/*
 * A message may name files and words of others, or be cut; it is valid UTF-8 whatever they are (utf8_make_valid()), as
 * JSON and the API server take nothing else.
 */

/* Fills @err and returns -1, so that a caller can `return error_set(...)`. */
int error_set(struct error *err, enum error_code code, const char *fmt, ...) PRINTF(3, 4);
int error_vset(struct error *err, enum error_code code, const char *fmt, va_list ap)
	PRINTF(3, 0);

/* Like error_set() with ERR_IO (or a closer code for @sys), and adds ": <strerror>". Returns -1. */
int error_sys(struct error *err, int sys, const char *fmt, ...) PRINTF(3, 4);

/* Sets ERR_NOMEM with a fixed text. Returns -1. */
int error_nomem(struct error *err);

/* Puts "<fmt>: " before the text. Returns -1. */
int error_prefix(struct error *err, const char *fmt, ...) PRINTF(2, 3);

/* Puts @text behind the text, of which it cuts what leaves no room for it. No error: nothing to do. */
void error_suffix(struct error *err, const char *text);

/* Copies @from to @to; either may be NULL. */
void error_copy(struct error *to, const struct error *from);

void error_clear(struct error *err);

struct error_class {
	const char *name;
	int grpc;      /* grpc_status_code */
	int http;      /* HTTP status */
	int exit_code; /* of a command-line program */
};

/* The row of @code; a code out of range gives the row of ERR_INTERNAL. Static, never NULL. */
const struct error_class *error_class(enum error_code code);
