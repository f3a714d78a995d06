/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/text.h"

/* gRPC numbers: https://grpc.github.io/grpc/core/md_doc_statuscodes.html */
static const struct error_class classes[ERR_COUNT_] = {
	[ERR_NONE] = { "ok", 0, 200, 0 },
	[ERR_INVALID] = { "invalid", 3, 400, 2 },
	[ERR_NOT_FOUND] = { "not-found", 5, 404, 3 },
	[ERR_EXISTS] = { "exists", 6, 409, 4 },
	[ERR_LIMIT] = { "limit", 8, 429, 5 },
	[ERR_UNSUPPORTED] = { "unsupported", 12, 501, 6 },
	[ERR_NOT_YET] = { "not-yet", 12, 501, 6 },
	[ERR_PERMISSION] = { "permission", 7, 403, 7 },
	[ERR_TIMEOUT] = { "timeout", 4, 504, 8 },
	[ERR_UNAVAILABLE] = { "unavailable", 14, 503, 9 },
	[ERR_IO] = { "io", 13, 500, 10 },
	[ERR_NOMEM] = { "no-memory", 8, 500, 11 },
	[ERR_CANCELLED] = { "cancelled", 1, 499, 12 },
	[ERR_INTERNAL] = { "internal", 13, 500, 70 },
};

static void make_message_line(struct error *err)
{
	utf8_make_valid(err->msg);
	(void)escape_line(err->msg);
}

int error_vset(struct error *err, enum error_code code, const char *fmt, va_list ap)
{
	if (err) {
		err->code = code;
		err->sys = 0;
		(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
		make_message_line(err);
	}
	return -1;
}

int error_set(struct error *err, enum error_code code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)error_vset(err, code, fmt, ap);
	va_end(ap);
	return -1;
}

static enum error_code code_of_errno(int sys)
{
	switch (sys) {
	case ENOENT:
	case ENOTDIR:
		return ERR_NOT_FOUND;
	case EEXIST:
	case EADDRINUSE:
		return ERR_EXISTS;
	case EACCES:
	case EPERM:
		return ERR_PERMISSION;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	case ECONNREFUSED:
	case EPIPE:
	case ECONNRESET:
		return ERR_UNAVAILABLE;
	case ENOMEM:
		return ERR_NOMEM;
	default:
		return ERR_IO;
	}
}

int error_sys(struct error *err, int sys, const char *fmt, ...)
{
	va_list ap;
	size_t used;

	if (!err)
		return -1;
	va_start(ap, fmt);
	(void)error_vset(err, code_of_errno(sys), fmt, ap);
	va_end(ap);
	err->sys = sys;
	used = strlen(err->msg);
	(void)snprintf(err->msg + used, sizeof(err->msg) - used, ": %s", strerror(sys));
	make_message_line(err);
	return -1;
}

int error_nomem(struct error *err)
{
	return error_set(err, ERR_NOMEM, "out of memory");
}

int error_prefix(struct error *err, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	size_t used;
	va_list ap;

	if (!err)
		return -1;
	memcpy(text, err->msg, sizeof(text));
	va_start(ap, fmt);
	(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	used = strlen(err->msg);
	(void)snprintf(err->msg + used, sizeof(err->msg) - used, ": %.*s",
		(int)(sizeof(text) - 1), text);
	make_message_line(err);
	return -1;
}

void error_suffix(struct error *err, const char *text)
{
	size_t len = strlen(text), used;

	if (!err || err->code == ERR_NONE || len >= sizeof(err->msg))
		return;
	used = strlen(err->msg);
	if (used > sizeof(err->msg) - 1 - len)
		used = sizeof(err->msg) - 1 - len;
	memcpy(err->msg + used, text, len + 1);
	make_message_line(err);
}

void error_copy(struct error *to, const struct error *from)
{
	if (to && from && to != from)
		*to = *from;
}

void error_clear(struct error *err)
{
	if (err)
		*err = (struct error)ERROR_INIT;
}

const struct error_class *error_class(enum error_code code)
{
	if ((unsigned)code >= ERR_COUNT_)
		code = ERR_INTERNAL;
	return &classes[code];
}
