/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the driver: its root, nvidia-smi and NVML, on the host or in a driver container (internal.h). */
#include "tools/validate/driver/internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/paths.h"
#include "tools/validate/child.h"
#include "tools/validate/internal.h"

#define WSL_SMI    "usr/lib/wsl/lib/nvidia-smi"
#define OUTPUT_MAX (256 * 1024)

/* The GPU operator's order. */
static const char *const smi_paths[] = {
	"usr/bin/nvidia-smi",
	"usr/sbin/nvidia-smi",
	"bin/nvidia-smi",
	"sbin/nvidia-smi",
	WSL_SMI,
	"opt/bin/nvidia-smi",
};

static const char *const library_paths[] = {
	"/usr/lib64/libnvidia-ml.so.1",
	"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
	"/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
	"/lib64/libnvidia-ml.so.1",
	"/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
	"/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
};

/* Status of @path, with all symlinks resolved below @root. False: there is none. */
static bool stat_in_root(const char *root, const char *path, struct stat *ret)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	CLEANUP(closep) int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(closep) int fd = -1;

	if (dir < 0)
		return false;
	fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	/* Kernels before 5.6, and sandboxes without the call: absolute symlinks then leave @root. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = openat(dir, path, O_PATH | O_CLOEXEC);
	return fd >= 0 && fstat(fd, ret) == 0;
}

/* Whether @path is a program. Notes the reason if a file is there and is none. */
static bool is_runnable_program(struct driver_root *r, const char *path)
{
	const char *why = NULL;
	struct stat st;

	if (!stat_in_root(r->here, path, &st))
		return false;
	if (!S_ISREG(st.st_mode))
		why = "is no regular file";
	else if (st.st_size == 0)
		why = "is empty";
	else if (!(st.st_mode & 0111))
		why = "is not executable";
	if (why)
		(void)snprintf(r->note, sizeof(r->note), "%.100s/%s %s",
			strcmp(r->here, "/") ? r->here : "", path, why);
	return !why;
}

static bool find_smi(struct driver_root *r)
{
	for (size_t i = 0; i < ARRAY_LEN(smi_paths); i++) {
		if (is_runnable_program(r, smi_paths[i])) {
			(void)snprintf(r->smi, sizeof(r->smi), "/%s", smi_paths[i]);
			return true;
		}
	}
	return false;
}

static bool find_nvml_library(struct driver_root *r)
{
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(library_paths); i++) {
		char real[PATH_MAX];

		if (root_resolve(real, sizeof(real), r->here, library_paths[i], &st, NULL) ==
				0 &&
			S_ISREG(st.st_mode) &&
			root_join(r->library, sizeof(r->library), r->here, real, NULL) == 0)
			return true;
	}
	r->library[0] = '\0';
	return false;
}

void driver_root_find(const struct validate_settings *s, struct driver_root *ret)
{
	struct stat st;

	*ret = (struct driver_root){ .kind = DRIVER_ROOT_HOST,
		.node = or_default(s->host_root, "/"),
		.here = or_default(s->host_ctr, "/") };
	ret->wsl = stat_in_root(ret->here, WSL_SMI, &st) && st.st_size > 0;
	if (find_smi(ret))
		return;
	if (s->driver_ctr && s->driver_ctr[0]) {
		const char *host = ret->here;

		ret->here = s->driver_ctr;
		if (find_nvml_library(ret)) {
			ret->kind = DRIVER_ROOT_CONTAINER;
			ret->node = or_default(s->driver_dir, s->driver_ctr);
			(void)find_smi(ret);
			return;
		}
		ret->here = host;
	}
	ret->kind = DRIVER_ROOT_NONE;
}

void driver_root_dev(const struct validate_settings *s, const struct driver_root *root,
	const char **ret_node, const char **ret_here)
{
	struct stat st;
	bool own = root->kind == DRIVER_ROOT_CONTAINER &&
		   stat_in_root(root->here, "dev", &st) && S_ISDIR(st.st_mode);

	*ret_node = own ? root->node : or_default(s->host_root, "/");
	*ret_here = own ? root->here : or_default(s->host_ctr, "/");
}

int driver_root_smi(const struct driver_root *root, bool version, uint64_t timeout_ns,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf output = BUF_INIT(OUTPUT_MAX);
	char path[PATH_MAX], real[PATH_MAX], preload[PATH_MAX + 16];
	const char *argv[] = { root->smi, version ? "--version" : NULL, NULL };
	const char *env[] = { preload, NULL };
	struct child_options o = { .argv = argv, .root = root->here };

	if (root->kind == DRIVER_ROOT_CONTAINER) {
		/* Without chroot: the container's root has neither /proc nor all of /dev. */
		if (root_resolve(real, sizeof(real), root->here, root->smi, NULL, err) < 0 ||
			root_join(path, sizeof(path), root->here, real, err) < 0)
			return -1;
		(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", root->library);
		argv[0] = path;
		o.root = NULL;
		o.env = env;
	}
	return child_run(&o, timeout_ns, &output, err);
}

bool driver_flag(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; *line;
		line += strcspn(line, "\n"), line += *line == '\n') {
		const char *p = line + strspn(line, " \t");

		if (strncmp(p, name, len) != 0)
			continue;
		p += len;
		p += strspn(p, " \t");
		if (*p != ':' && *p != '=')
			continue;
		p++;
		p += strspn(p, " \t\"'");
		if (strncasecmp(p, "true", 4) == 0 && !isalnum((unsigned char)p[4]))
			return true;
	}
	return false;
}
