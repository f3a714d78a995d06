/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log-option.h"

int log_option_setup(const struct options *o, struct error *err)
{
	const char *level = option_str(o, "log-level", "info");
	const char *format = option_str(o, "log-format", "text");
	enum log_level l;
	enum log_format f;

	if (!log_level_parse(level, &l))
		return error_set(err, ERR_INVALID,
			"--log-level: expected error, warn, info or debug, found '%s'", level);
	if (!log_format_parse(format, &f))
		return error_set(err, ERR_INVALID,
			"--log-format: expected text or json, found '%s'", format);
	log_setup(l, f);
	return 0;
}
