/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/bench/options.h"

#include "lib/base/parse.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int bench_read_seconds(double *ret, const struct options *o, const char *name, double min,
	struct error *err)
{
	const char *text = option_str(o, name, NULL);

	if (text && (!parse_double(text, ret) || !(*ret >= min) || *ret > 3600))
		return error_set(err, ERR_INVALID,
			"--%s: expected %g to 3600 seconds, found '%.40s'", name, min, text);
	return 0;
}

int bench_check_save(const char *option, const char *path, struct error *err)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	char dir[PATH_MAX] = ".";

	if (!path)
		return 0;
	if (slash)
		(void)snprintf(dir, sizeof(dir), "%.*s",
			slash == path ? 1 : (int)(slash - path), path);
	if (access(dir, W_OK | X_OK) < 0)
		return error_sys(err, errno, "--%s: write in '%s'", option, dir);
	return 0;
}
