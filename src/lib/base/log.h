/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Log lines of the programs. Libraries do not log. The code that decides how to handle an error logs it, once.
 * A line is the start of a sentence and then fields:
 *
 *	log_warn("config refused, keeping the last one", LOG_STR("file", path),
 *		LOG_STR("reason", err.msg));
 *
 * Text format quotes and escapes each foreign value; JSON format gives the same fields. Each line is one
 * write(2), so lines of several processes do not mix.
 * Thread: any.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

struct log_field {
	const char *key;
	enum { LOG_FIELD_STR, LOG_FIELD_INT, LOG_FIELD_UINT } type;
	union {
		const char *str; /* borrowed; NULL is printed as "" */
		int64_t i;
		uint64_t u;
	};
};

#define LOG_STR(k, v)  ((struct log_field){ .key = (k), .type = LOG_FIELD_STR, .str = (v) })
#define LOG_INT(k, v)  ((struct log_field){ .key = (k), .type = LOG_FIELD_INT, .i = (v) })
#define LOG_UINT(k, v) ((struct log_field){ .key = (k), .type = LOG_FIELD_UINT, .u = (v) })

/* Sets the level and the format for the whole process. Call it before the first thread starts. */
void log_setup(enum log_level max, enum log_format format);

/* Reads "error|warn|info|debug" and "text|json". False: unknown word. */
bool log_level_parse(const char *text, enum log_level *ret);
bool log_format_parse(const char *text, enum log_format *ret);

/* Writes one line to standard error, unless @level is less urgent than the level of log_setup(). @text is the
 * start of the sentence. A write that fails is ignored. The macros below count the fields. */
void log_write(enum log_level level, const char *text, const struct log_field *fields,
	size_t n);

#define LOG_AT_(level, text, ...)                                         \
	log_write(level, text, (const struct log_field[]){ __VA_ARGS__ }, \
		sizeof((const struct log_field[]){ __VA_ARGS__ }) / sizeof(struct log_field))

#define log_error(text, ...) LOG_AT_(LOG_ERROR, text, ##__VA_ARGS__)
#define log_warn(text, ...)  LOG_AT_(LOG_WARN, text, ##__VA_ARGS__)
#define log_info(text, ...)  LOG_AT_(LOG_INFO, text, ##__VA_ARGS__)
#define log_debug(text, ...) LOG_AT_(LOG_DEBUG, text, ##__VA_ARGS__)

/* The counter of lines that a peer can trigger in a loop. Zeroed at first. It belongs to one thread. */
struct log_limit {
	uint64_t window_start_ns;
	uint32_t in_window;
	uint32_t suppressed; /* lines not logged; log_limit_pass() never resets it */
};

/* Whether a line may be logged at @now_ns, of the monotonic clock: at most @burst in each window of @per_ns.
 * False: counted in .suppressed. */
bool log_limit_pass(struct log_limit *l, uint64_t now_ns, uint64_t per_ns, uint32_t burst);
