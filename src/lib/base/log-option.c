/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/log-option.h"

int log_option_setup(const struct options *o, struct error *err)
{
	const char *level = option_str(o, "log-level", "info");
	const char *format = option_str(o, "log-format", "text");
	enum log_level l = LOG_INFO;
	enum log_format f = LOG_TEXT;
	int r = 0;

	if (!log_format_parse(format, &f))
		r = error_set(err, ERR_INVALID,
			"--log-format: expected text or json, found '%.60s'", format);
	if (!log_level_parse(level, &l))
		r = error_set(err, ERR_INVALID,
			"--log-level: expected error, warn, info or debug, found '%.60s'",
			level);
	log_setup(l, f);
	return r;
}
