/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Short ways to read a config in the tests of config. */
#include "support/test.h"

#include "io/config/config.h"

/* One resource that is time-sliced. */
#define TS(rest) "sharing: {timeSlicing: {resources: [{" rest "}]}}"

/* A text, and what the message about it contains. */
struct row {
	const char *text, *want;
};

static inline const char *no_env(const char *name)
{
	(void)name;
	return NULL;
}

/* Accepts also what this version cannot do, so that tests can check it. The caller owns the result. */
static inline struct config *read_good(const char *text, struct strv *warnings)
{
	struct config_sources sources = { .env = no_env };
	struct config *c = NULL;
	struct error err = ERROR_INIT;

	if (config_parse_any(&c, "c.yaml", 0, text, strlen(text), &sources, warnings, &err) < 0)
		fail_msg("%s\n-- %s", text, err.msg);
	assert_int_equal(err.code, ERR_NONE);
	return c;
}

/* The text is refused, and the message begins with "c.yaml:line:column:" and contains @want. */
static inline void read_expect_error(const char *text, const char *want)
{
	struct config_sources sources = { .env = no_env };
	struct config *c = NULL;
	struct error err = ERROR_INIT;
	unsigned line, column;

	if (config_parse_any(&c, "c.yaml", 0, text, strlen(text), &sources, NULL, &err) >= 0) {
		(void)config_free(c);
		fail_msg("%s\n-- accepted, expected: %s", text, want);
	}
	assert_null(c);
	if (!strstr(err.msg, want))
		fail_msg("%s\n-- says:    %s\n-- expected: %s", text, err.msg, want);
	if (sscanf(err.msg, "c.yaml:%u:%u: ", &line, &column) != 2 || !line || !column)
		fail_msg("%s\n-- no place in: %s", text, err.msg);
}
