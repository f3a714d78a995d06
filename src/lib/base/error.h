/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An error as a value: the caller owns it, and it needs no heap.
 *
 * A function that can fail returns int:
 *	 0    done
 *	> 0   an outcome that its header names, and that the caller must handle
 *	< 0   failed: *err is filled, and the caller returns the number unchanged
 *
 * The place that detects the error sets it. Callers may add one prefix each, and never replace the error. The
 * text says which action failed on which object ("open 'a.yaml': No such file or directory"): one line, no full
 * stop, no "failed", no function name. @err may be NULL everywhere.
 * Thread: any.
 */
#include "lib/base/cleanup.h"

#include <stdarg.h>

/* One set of codes for all programs. lib/base/error.c maps it to gRPC, HTTP and exit codes. */
enum error_code {
	ERR_NONE = 0,
	ERR_INVALID,     /* input is wrong: the text names file, line, key, expected, found */
	ERR_NOT_FOUND,   /* the named thing does not exist */
	ERR_EXISTS,      /* another process or object already has it */
	ERR_LIMIT,       /* a limit with a name was reached */
	ERR_UNSUPPORTED, /* this machine, driver or version cannot do it */
	ERR_NOT_YET,     /* a feature of a later version of gpuslice */
	ERR_PERMISSION,
	ERR_TIMEOUT,
	ERR_UNAVAILABLE, /* a peer is unavailable; a retry may help */
	ERR_IO,          /* a system call failed; .sys has errno */
	ERR_NOMEM,
	ERR_CANCELLED,
	ERR_INTERNAL, /* a bug in gpuslice */
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

/* A message may quote names and text of others, or be cut. It is valid UTF-8 all the same (utf8_make_valid()), since
 * JSON and the API server accept nothing else, and one line without control characters (escape_line()). */

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

/* Appends @text, and cuts the text before it if there is no room. Does nothing without an error, or if @text
 * alone is too long. */
void error_suffix(struct error *err, const char *text);

/* Copies @from to @to; either may be NULL. */
void error_copy(struct error *to, const struct error *from);

/* Sets ERR_NONE and an empty text. */
void error_clear(struct error *err);

struct error_class {
	const char *name;
	int grpc;      /* grpc_status_code */
	int http;      /* HTTP status */
	int exit_code; /* of a command-line program */
};

/* The row of @code; a code out of range gives the row of ERR_INTERNAL. Static, never NULL. */
const struct error_class *error_class(enum error_code code);
