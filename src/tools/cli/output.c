/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/output.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 0644

static int write_stdout(const char *text, size_t len, struct error *err)
{
	return fwrite(text, 1, len, stdout) == len
		       ? 0
		       : error_sys(err, errno, "write to standard output");
}

/* Whether the file is standard output (/dev/stdout): a file that the shell has opened must not be
 * replaced. */
static bool is_stdout(const struct stat *st)
{
	struct stat out;

	return fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == st->st_dev &&
	       out.st_ino == st->st_ino;
}

static int write_into(const char *path, const char *text, size_t len, struct error *err)
{
	CLEANUP(closep) int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	return fd_write_all(fd, text, len, err) < 0 ? error_prefix(err, "'%s'", path) : 0;
}

int output_write(const char *path, const char *text, size_t len, struct error *err)
{
	char real[PATH_MAX];
	struct stat st;

	if (!path || !*path || !strcmp(path, "-"))
		return write_stdout(text, len, err);
	if (stat(path, &st) < 0) {
		if (errno != ENOENT)
			return error_sys(err, errno, "write '%s'", path);
		if (lstat(path, &st) == 0)
			return error_set(err, ERR_NOT_FOUND,
				"write '%s': this link leads nowhere", path);
		return file_write_atomic(path, text, len, MODE, err);
	}
	if (is_stdout(&st))
		return write_stdout(text, len, err);
	/* A rename() would replace the device for all programs. */
	if (!S_ISREG(st.st_mode))
		return write_into(path, text, len, err);
	if (!realpath(path, real))
		return error_sys(err, errno, "write '%s'", path);
	return file_write_atomic(real, text, len, MODE, err);
}
