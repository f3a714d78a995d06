/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the device nodes of the driver, and makes the links in /dev/char (internal.h). */
#include "tools/validate/driver/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#define NODE_MODE        0666
#define PROC_DEVICES_MAX (64 * 1024)

struct validate_dev_node {
	const char *name;
	const char *majors[2]; /* names in /proc/devices, newest first */
	unsigned minor;
	bool cuda_only;
};

static const struct validate_dev_node control_nodes[] = {
	{ "nvidiactl", { "nvidia-frontend", "nvidia" }, 255, false },
	{ "nvidia-uvm", { "nvidia-uvm" }, 0, true },
	{ "nvidia-uvm-tools", { "nvidia-uvm" }, 1, true },
};

/* The major number of "195 nvidia-frontend" in the list of character devices; 0: not listed. */
static unsigned find_major(const char *devices, const char *name)
{
	for (const char *p = devices; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		uint32_t number;
		char digits[16], found[64];

		if (strncmp(p, "Block", 5) == 0)
			break;
		if (sscanf(p, "%15s %63s", digits, found) == 2 && strcmp(found, name) == 0 &&
			parse_u32(digits, &number))
			return number;
	}
	return 0;
}

static int require_dev_node(const char *dev_dir, const char *devices,
	const struct validate_dev_node *n, bool make, struct error *err)
{
	char path[PATH_MAX];
	unsigned major = 0;
	struct stat st;

	if (path_join(path, sizeof(path), dev_dir, n->name, err) < 0)
		return -1;
	if (stat(path, &st) == 0) {
		if (S_ISCHR(st.st_mode))
			return 0;
		return error_set(err, ERR_NOT_FOUND, "'%s' is not a character device", path);
	}
	for (size_t i = 0; i < ARRAY_LEN(n->majors) && n->majors[i] && major == 0; i++)
		major = find_major(devices, n->majors[i]);
	if (!make)
		return error_set(err, ERR_NOT_FOUND, "there is no device node '%s'", path);
	if (major == 0)
		return error_set(err, ERR_NOT_FOUND,
			"there is no device node '%s', and no loaded kernel module has the device '%s'",
			path, n->majors[0]);
	if (mknod(path, S_IFCHR | NODE_MODE, makedev(major, n->minor)) < 0 && errno != EEXIST)
		return error_sys(err, errno, "make the device node '%s'", path);
	/* The umask reduces the mode of mknod(). */
	if (chmod(path, NODE_MODE) < 0)
		return error_sys(err, errno, "open up '%s'", path);
	return 0;
}

int dev_nodes_check(const char *dev_dir, const char *proc_devices, const struct inventory *inv,
	bool make, bool all, struct error *err)
{
	CLEANUP(buf_fini) struct buf devices = BUF_INIT(PROC_DEVICES_MAX);

	if (make && file_read(proc_devices, &devices, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(control_nodes); i++) {
		if (control_nodes[i].cuda_only && !all)
			continue;
		if (require_dev_node(dev_dir, buf_str(&devices), &control_nodes[i], make, err) <
			0)
			return -1;
	}
	for (uint32_t i = 0; inv && i < inv->n; i++) {
		char name[32];
		const struct validate_dev_node gpu = { name, { "nvidia-frontend", "nvidia" },
			inv->gpus[i].minor, false };

		(void)snprintf(name, sizeof(name), "nvidia%u", (unsigned)inv->gpus[i].minor);
		if (inv->gpus[i].has_minor &&
			require_dev_node(dev_dir, buf_str(&devices), &gpu, make, err) < 0)
			return -1;
	}
	return 0;
}

/* --- /dev/char --- */

struct links {
	const char *char_dir, *target_dir;
	unsigned made;
};

/* udev's links are relative to /dev/char. */
static bool is_correct_link(const char *found, const char *target, const char *name)
{
	return strcmp(found, target) == 0 ||
	       (strncmp(found, "../", 3) == 0 && strcmp(found + 3, name) == 0);
}

static int link_one(struct links *l, const char *name, dev_t rdev, struct error *err)
{
	char number[32], path[PATH_MAX], temporary[PATH_MAX + 8], target[PATH_MAX];
	char found[PATH_MAX];
	struct stat st;
	ssize_t len;

	(void)snprintf(number, sizeof(number), "%u:%u", major(rdev), minor(rdev));
	if (path_join(path, sizeof(path), l->char_dir, number, err) < 0 ||
		path_join(target, sizeof(target), l->target_dir, name, err) < 0)
		return -1;
	if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
		return 0;
	len = readlink(path, found, sizeof(found) - 1);
	found[len < 0 ? 0 : len] = '\0';
	if (len > 0 && is_correct_link(found, target, name))
		return 0;
	(void)snprintf(temporary, sizeof(temporary), "%s.new", path);
	if (unlink(temporary) < 0 && errno != ENOENT)
		return error_sys(err, errno, "remove '%s'", temporary);
	if (symlink(target, temporary) < 0)
		return error_sys(err, errno, "link '%s' to '%s'", path, target);
	if (rename(temporary, path) < 0) {
		(void)error_sys(err, errno, "rename '%s' to '%s'", temporary, path);
		(void)unlink(temporary);
		return -1;
	}
	l->made++;
	return 0;
}

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

/* Links the nodes of @dir; @prefix is the path of @dir below the device directory. */
static int link_dir(struct links *l, const char *dir, const char *prefix, struct error *err)
{
	CLEANUP(closedirp) DIR *d = opendir(dir);
	struct dirent *e;

	if (!d)
		return error_sys(err, errno, "read '%s'", dir);
	while ((e = readdir(d)) != NULL) {
		char name[300], sub[PATH_MAX];
		struct stat st;

		if (e->d_name[0] == '.' || (!*prefix && strncmp(e->d_name, "nvidia", 6) != 0))
			continue;
		(void)snprintf(name, sizeof(name), "%s%s", prefix, e->d_name);
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue; /* the file was removed meanwhile */
		if (S_ISCHR(st.st_mode) && link_one(l, name, st.st_rdev, err) < 0)
			return -1;
		if (!*prefix && S_ISDIR(st.st_mode) &&
			strncmp(e->d_name, "nvidia-caps", 11) == 0) {
			size_t len = strlen(name);

			name[len] = '/';
			name[len + 1] = '\0';
			if (path_join(sub, sizeof(sub), dir, e->d_name, err) < 0 ||
				link_dir(l, sub, name, err) < 0)
				return -1;
		}
	}
	return 0;
}

int dev_char_link(const char *dev_dir, const char *char_dir, const char *target_dir,
	unsigned *ret_made, struct error *err)
{
	struct links l = { .char_dir = char_dir, .target_dir = target_dir };

	if (dir_make(char_dir, 0755, err) < 0 || link_dir(&l, dev_dir, "", err) < 0)
		return -1;
	*ret_made = l.made;
	return 0;
}
