/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/daemon-dir.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/unix-socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SELINUX_DIR    "/sys/fs/selinux"
#define SELINUX_LABEL  "system_u:object_r:container_file_t:s0" /* usable by containers */
#define SOCKET_LONGEST "control_privileged"
#define ROOTS_FILE     "mps-roots"
#define STATE_MAX      65536

int mps_daemon_dir_init(struct mps_daemon_dir *dir, const char *root, const char *key,
	struct error *err)
{
	char longest[PATH_MAX];

	*dir = (struct mps_daemon_dir){ .n_modes = 0 };
	if (path_join(dir->dir, sizeof(dir->dir), root, key, err) < 0 ||
		path_join(dir->pipe, sizeof(dir->pipe), dir->dir, "pipe", err) < 0 ||
		path_join(dir->log_dir, sizeof(dir->log_dir), dir->dir, "log", err) < 0 ||
		path_join(dir->log, sizeof(dir->log), dir->log_dir, MPS_LOG_FILE, err) < 0 ||
		path_join(dir->shm, sizeof(dir->shm), dir->dir, "shm", err) < 0 ||
		path_join(longest, sizeof(longest), dir->pipe, SOCKET_LONGEST, err) < 0)
		return -1;
	return unix_path_check(longest, err) < 0
		       ? error_prefix(err, "--mps-root: the sockets of MPS")
		       : 0;
}

void mps_daemon_dir_fini(struct mps_daemon_dir *dir)
{
	strv_fini(&dir->devices);
	free(dir->modes);
	dir->modes = NULL;
	dir->n_modes = 0;
}

/* --- directories --- */

/* Fails unless @path is a directory of this user. Everyone may write to it only if it has the sticky bit. */
static int check_mps_dir_owner(const char *path, struct error *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return error_sys(err, errno, "'%s'", path);
	if (!S_ISDIR(st.st_mode))
		return error_set(err, ERR_INVALID, "'%s': expected a directory", path);
	if (st.st_uid != geteuid())
		return error_set(err, ERR_PERMISSION,
			"'%s' belongs to user %u, and gpusliced runs as %u: remove it, or choose "
			"another --mps-root",
			path, (unsigned)st.st_uid, (unsigned)geteuid());
	if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
		return error_set(err, ERR_PERMISSION,
			"'%s': anybody may write there (mode %04o); expected 0755", path,
			(unsigned)st.st_mode & 07777);
	return 0;
}

/* Clients run as other users, so @mode holds whatever the umask is. */
static int make_mps_dir(const char *path, mode_t mode, struct error *err)
{
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return error_sys(err, errno, "make directory '%s'", path);
	if (check_mps_dir_owner(path, err) < 0)
		return -1;
	if (chmod(path, mode) < 0)
		return error_sys(err, errno, "change the mode of '%s'", path);
	return 0;
}

/* For a directory that containers mount: root in a container may have changed its owner. */
static int retake_dir(const char *path, mode_t mode, struct error *err)
{
	CLEANUP(closep) int fd = -1;

	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return error_sys(err, errno, "make directory '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	if (fchown(fd, geteuid(), getegid()) < 0 || fchmod(fd, mode) < 0)
		return error_sys(err, errno, "take '%s'", path);
	return 0;
}

static void set_mps_selinux_label(const char *path)
{
	if (access(SELINUX_DIR, F_OK) == 0 &&
		setxattr(path, "security.selinux", SELINUX_LABEL, sizeof(SELINUX_LABEL), 0) < 0)
		log_warn(
			"containers may not be able to reach MPS, a label of SELinux was not set",
			LOG_STR("path", path), LOG_STR("reason", strerror(errno)));
}

int mps_daemon_dir_make(struct mps_daemon_dir *dir, struct error *err)
{
	char root[PATH_MAX], *slash;

	memcpy(root, dir->dir, sizeof(root));
	slash = strrchr(root, '/');
	*slash = '\0';
	if (dir_make(root, 0755, err) < 0 || make_mps_dir(dir->dir, 0755, err) < 0 ||
		retake_dir(dir->pipe, 0755, err) < 0 ||
		make_mps_dir(dir->log_dir, 0755, err) < 0 ||
		retake_dir(dir->shm, 01777, err) < 0)
		return -1;
	set_mps_selinux_label(dir->pipe);
	set_mps_selinux_label(dir->shm);
	return 0;
}

/* Removes the files that a killed write left: their names begin with a dot. */
static void drop_temporary(const char *dir)
{
	DIR *d = opendir(dir);
	const struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] == '.' && e->d_type == DT_REG)
			(void)unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		(void)closedir(d);
}

int mps_daemon_dir_clear(struct mps_daemon_dir *dir, struct error *err)
{
	if (dir->n_modes > 0)
		return error_set(err, ERR_UNAVAILABLE, "compute modes are not restored");
	if (access(dir->dir, F_OK) < 0 && errno == ENOENT)
		return 0;
	if (mps_lock_drop(dir->dir, err) < 0)
		return -1;
	dir_empty(dir->pipe, DIR_EMPTY_LOOP_NS);
	dir_empty(dir->shm, DIR_EMPTY_LOOP_NS);
	dir_empty(dir->log_dir, DIR_EMPTY_LOOP_NS);
	drop_temporary(dir->dir);
	(void)rmdir(dir->shm);
	(void)rmdir(dir->log_dir);
	return 0;
}

/* --- daemon.json --- */

static void load_modes(struct mps_daemon_dir *dir, const json_t *modes)
{
	size_t n = json_object_size(modes);
	const char *uuid;
	json_t *before;

	dir->modes = n ? calloc(n, sizeof(*dir->modes)) : NULL;
	json_object_foreach((json_t *)(uintptr_t)modes, uuid, before)
	{
		struct mps_saved_mode *m = dir->modes ? &dir->modes[dir->n_modes] : NULL;

		if (!m || strlen(uuid) >= sizeof(m->uuid) || !json_is_integer(before))
			continue;
		(void)snprintf(m->uuid, sizeof(m->uuid), "%s", uuid);
		m->before = (uint32_t)json_integer_value(before);
		dir->n_modes++;
	}
}

static int load_devices(struct mps_daemon_dir *dir, const json_t *devices, struct error *err)
{
	for (size_t i = 0; i < json_array_size(devices); i++) {
		const char *uuid = json_string_value(json_array_get(devices, i));

		if (uuid && strv_add(&dir->devices, uuid, err) < 0)
			return -1;
	}
	return 0;
}

int mps_daemon_dir_load(struct mps_daemon_dir *dir, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(STATE_MAX);
	struct error why = ERROR_INIT;
	char path[PATH_MAX];
	json_error_t where;
	json_t *o;
	int r;

	mps_daemon_dir_fini(dir);
	if (path_join(path, sizeof(path), dir->dir, MPS_STATE, err) < 0)
		return -1;
	if (file_read(path, &b, &why) < 0) {
		if (why.code == ERR_NOT_FOUND)
			return 0;
		error_copy(err, &why);
		return -1;
	}
	o = json_loadb(buf_str(&b), b.len, 0, &where);
	if (!o)
		return error_set(err, ERR_INVALID, "'%s': line %d: %s", path, where.line,
			where.text);
	if (!json_is_object(o)) {
		json_decref(o);
		return error_set(err, ERR_INVALID, "'%s': expected an object", path);
	}
	load_modes(dir, json_object_get(o, "modes"));
	r = load_devices(dir, json_object_get(o, "devices"), err);
	json_decref(o);
	return r;
}

int mps_daemon_dir_save(const struct mps_daemon_dir *dir, struct error *err)
{
	json_t *modes = json_object(), *devices = json_array();
	json_t *o =
		json_pack("{s:i, s:o, s:o}", "version", 1, "devices", devices, "modes", modes);
	CLEANUP(freep) char *text = NULL;
	char path[PATH_MAX];

	for (size_t i = 0; i < dir->devices.n; i++)
		(void)json_array_append_new(devices, json_string(dir->devices.v[i]));
	for (uint32_t i = 0; i < dir->n_modes; i++)
		(void)json_object_set_new(modes, dir->modes[i].uuid,
			json_integer(dir->modes[i].before));
	text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	if (!text)
		return error_nomem(err);
	if (path_join(path, sizeof(path), dir->dir, MPS_STATE, err) < 0)
		return -1;
	return file_write_atomic(path, text, strlen(text), 0600, err);
}

int mps_daemon_dirs_find(struct strv *ret, const char *root, struct error *err)
{
	char dir[PATH_MAX], path[PATH_MAX];
	DIR *d = opendir(root);
	const struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : error_sys(err, errno, "read '%s'", root);
	while (r == 0 && (e = readdir(d))) {
		if (e->d_name[0] == '.' || strlen(e->d_name) >= MPS_KEY_MAX ||
			path_join(dir, sizeof(dir), root, e->d_name, NULL) < 0 ||
			path_join(path, sizeof(path), dir, MPS_STATE, NULL) < 0)
			continue;
		if (access(path, F_OK) == 0)
			r = strv_add(ret, e->d_name, err);
	}
	(void)closedir(d);
	return r;
}

/* --- roots --- */

int mps_roots_load(struct strv *ret, const char *run_dir, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(STATE_MAX);
	struct error why = ERROR_INIT;
	char path[PATH_MAX];
	const char *at;

	if (path_join(path, sizeof(path), run_dir, ROOTS_FILE, err) < 0)
		return -1;
	if (file_read(path, &b, &why) < 0) {
		if (why.code == ERR_NOT_FOUND)
			return 0;
		error_copy(err, &why);
		return -1;
	}
	for (at = buf_str(&b); *at;) {
		size_t n = strcspn(at, "\n");

		if (at[0] == '/' && strv_addn(ret, at, n, err) < 0)
			return -1;
		at += n + (at[n] == '\n');
	}
	return 0;
}

int mps_root_save(const char *run_dir, const char *root, struct error *err)
{
	CLEANUP(strv_fini) struct strv roots = STRV_INIT;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(STATE_MAX);
	char path[PATH_MAX];

	if (mps_roots_load(&roots, run_dir, err) < 0)
		return -1;
	if (strv_has(&roots, root))
		return 0;
	for (size_t i = 0; i < roots.n; i++)
		buf_printf(&b, "%s\n", roots.v[i]);
	buf_printf(&b, "%s\n", root);
	if (!buf_ok(&b))
		return error_set(err, ERR_LIMIT, "more MPS roots than fit into %d bytes",
			STATE_MAX);
	if (path_join(path, sizeof(path), run_dir, ROOTS_FILE, err) < 0)
		return -1;
	return file_write_atomic(path, buf_str(&b), b.len, 0644, err);
}
