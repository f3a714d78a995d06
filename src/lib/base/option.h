/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Command-line options and their environment variables as one table. The parser, --help and the check of the
 * man pages read it.
 *
 * Syntax. Long options take two dashes or one, and "=value" or the next word; a bool takes "=value" only.
 * Letters can follow one dash together: "-ms" is "-m -s", and "-kf x" is "-k -f x". Lists are split at commas,
 * and a list option may repeat.
 *
 * Environment. The command line replaces the environment. A variable that is set but empty counts as set for
 * strings, lists and bools ("", one empty element, false). For other types it counts as absent. NVIDIA's
 * programs do the same (urfave/cli).
 *
 * Thread: main, at start.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "lib/base/log.h"

#include <stdbool.h>
#include <stdint.h>

enum option_type {
	OPTION_STR,
	OPTION_BOOL,
	OPTION_UINT,     /* uint64_t */
	OPTION_LIST,     /* of strings */
	OPTION_DURATION, /* Go syntax, not negative; "infinite" is INT64_MAX */
};

struct option_def {
	const char *name;  /* without dashes */
	const char *alias; /* second long name or NULL */
	char letter;       /* one-letter form or 0 */
	enum option_type type;
	const char *env[2]; /* the first that is set wins; NULL: none */
	const char *arg;    /* the value's name in --help; NULL for a bool */
	const char *def;    /* default as --help shows it; NULL: nothing to show */
	const char *help;   /* one sentence, no full stop */
	bool secondary;     /* an invalid value is ignored and listed in options.invalid */
};

enum option_source { OPTION_UNSET, OPTION_FROM_ENV, OPTION_FROM_ARGS };

struct option_value {
	enum option_source source;
	bool b;
	uint64_t u;
	int64_t ns;
	const char *str; /* borrowed from argv or the environment; NULL while unset */
	struct strv list;
};

struct options {
	const struct option_def *defs;
	size_t n_defs;
	struct option_value *values; /* one for each def */
	struct strv args;            /* words that are not options, in order */
	struct strv invalid;         /* errors about ignored values, as from options_parse() */
};

enum options_flags {
	/* the first word that is no option ends the options: `bench -- cmd -x` */
	OPTIONS_STOP_AT_ARG = 1 << 0,
};

#define OPTIONS_HELP    1 /* -h or --help: the caller prints the help and exits with 0 */
#define OPTIONS_VERSION 2 /* --version */

/*
 * Reads the environment through @env (NULL: getenv) and argv[1..]. Returns 0, OPTIONS_HELP or OPTIONS_VERSION.
 * < 0: the error names the option or variable, what was expected and what was found. Call options_fini() after
 * any return.
 */
int options_parse(struct options *o, const struct option_def *defs, size_t n_defs, int argc,
	char *const *argv, unsigned flags, const char *(*env)(const char *name),
	struct error *err) MUST_USE;

/* Frees what options_parse() allocated. Strings of values are borrowed from argv and the environment, and
 * stay. */
void options_fini(struct options *o);

/* The value of the option @name; never NULL for a name in the table (assert). Borrowed. */
const struct option_value *option_get(const struct options *o, const char *name);

/* The value of an option of that type, or @def if the option is unset. The string is borrowed as in
 * option_get(). */
const char *option_str(const struct options *o, const char *name, const char *def);
bool option_bool(const struct options *o, const char *name, bool def);
uint64_t option_uint(const struct options *o, const char *name, uint64_t def);

/* The position of a string's value among the @n words; that of an unset option is 0. ERR_INVALID: it is none of them;
 * the error lists them. */
int option_choice(const struct options *o, const char *name, const char *const *words, size_t n,
	struct error *err) MUST_USE;

/* The "Options:" block of --help. */
void options_help(struct buf *b, const struct option_def *defs, size_t n_defs);

/* --- log options --- */

/* The two log options of programs that log. */

/* Rows of an option table. */
#define LOG_OPTIONS                                                                         \
	{ .name = "log-level",                                                              \
		.type = OPTION_STR,                                                         \
		.env = { "GPUSLICE_LOG_LEVEL" },                                            \
		.arg = "LEVEL",                                                             \
		.def = "info",                                                              \
		.help = "error, warn, info or debug" },                                     \
	{                                                                                   \
		.name = "log-format", .type = OPTION_STR, .env = { "GPUSLICE_LOG_FORMAT" }, \
		.arg = "FORMAT", .def = "text", .help = "text or json"                      \
	}

/* Calls log_setup() with the values of the options. ERR_INVALID: an option has an unknown word; its default
 * is in use. */
int log_option_setup(const struct options *o, struct error *err) MUST_USE;
