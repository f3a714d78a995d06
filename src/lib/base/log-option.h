/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The two log options of programs that log. Thread: main, at start. */
#include "lib/base/log.h"
#include "lib/base/option.h"

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
