/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/libexec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool find_libexec_in(char ret[PATH_MAX], const char *dir, const char *below,
	const char *name)
{
	int len = snprintf(ret, PATH_MAX, "%s/%s%s%s", dir, below, *below ? "/" : "", name);

	return len > 0 && len < PATH_MAX && access(ret, X_OK) == 0;
}

int libexec_find(char ret[PATH_MAX], const char *name, const char *build_dir, struct error *err)
{
	const char *libexec = getenv("GPUSLICE_LIBEXEC");
	char exe[PATH_MAX], beside[PATH_MAX], *slash;
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (libexec && *libexec && find_libexec_in(ret, libexec, "", name))
		return 0;
	exe[len > 0 ? len : 0] = '\0';
	slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	(void)snprintf(beside, sizeof(beside), "../../%.200s", build_dir);
	if (slash && (find_libexec_in(ret, exe, "../libexec/gpuslice", name) ||
			     find_libexec_in(ret, exe, beside, name)))
		return 0;
	if (find_libexec_in(ret, GPUSLICE_LIBEXECDIR, "", name))
		return 0;
	return error_set(err, ERR_NOT_FOUND,
		"no program %s in ../libexec/gpuslice beside this one or in %s", name,
		GPUSLICE_LIBEXECDIR);
}
