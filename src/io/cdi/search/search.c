/* SPDX-License-Identifier: Apache-2.0 */
#include "io/cdi/search/search.h"

#include "lib/base/array.h"
#include "lib/base/paths.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- files --- */

/* The driver's programs, and the directories to search. */
static const char *const programs[] = {
	"nvidia-smi",
	"nvidia-debugdump",
	"nvidia-persistenced",
	"nvidia-cuda-mps-control",
	"nvidia-cuda-mps-server",
	"nvidia-imex",
	"nvidia-imex-ctl",
};
static const char *const program_dirs[] = { "/usr/bin", "/usr/sbin", "/bin", "/sbin",
	"/usr/local/bin", "/opt/bin", "/usr/local/nvidia/bin" };

/* The loaders of OpenGL, EGL and Vulkan find the driver's libraries through these files. */
static const char *const configs[] = {
	"/etc/vulkan/icd.d/nvidia_icd.json",
	"/etc/vulkan/implicit_layer.d/nvidia_layers.json",
	"/usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json",
	"/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
	"/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
	"/usr/share/nvidia/nvoptix.bin",
	"/usr/share/vulkan/icd.d/nvidia_icd.json",
	"/usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
};

static const char *const sockets[] = {
	"/run/nvidia-persistenced/socket",
	"/run/nvidia-fabricmanager/socket",
	"/tmp/nvidia-mps",
};

/* The kernel's firmware directories; the driver's firmware is in nvidia/VERSION/ below. */
static const char *const firmware_dirs[] = { "/lib/firmware/updates", "/lib/firmware" };

static int search_program(struct cdi_search_context *s, const char *name)
{
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(program_dirs); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", program_dirs[i], name);
		r = search_add_file(s, &s->found->common, CDI_FILE, path);
	}
	return r;
}

static int search_firmware(struct cdi_search_context *s)
{
	for (size_t i = 0; i < ARRAY_LEN(firmware_dirs); i++) {
		CLEANUP(strv_fini) struct strv names = STRV_INIT;
		char dir[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];

		(void)snprintf(dir, sizeof(dir), "%s/nvidia/%s", firmware_dirs[i],
			s->found->driver_version);
		if (search_watch(s, s->seen, dir) < 0 ||
			root_list(&names, s->seen, dir, "gsp*.bin", s->err) < 0)
			return -1;
		for (size_t k = 0; k < names.n; k++) {
			(void)snprintf(path, sizeof(path), "%s/%s", dir, names.v[k]);
			if (search_name_plain(names.v[k]) &&
				search_add_file(s, &s->found->common, CDI_FILE, path) < 0)
				return -1;
		}
		if (names.n)
			break;
	}
	return 0;
}

static int search_each(struct cdi_search_context *s, enum cdi_file_kind kind,
	const char *const *paths, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (search_add_file(s, &s->found->common, kind, paths[i]) < 0)
			return -1;
	return 0;
}

static int search_files(struct cdi_search_context *s)
{
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		if (search_program(s, programs[i]) < 0)
			return -1;
	if (search_each(s, CDI_FILE, configs, ARRAY_LEN(configs)) < 0 || search_firmware(s) < 0)
		return -1;
	if (strv_has(&s->config->cdi_features, "disable-ipc-discoverer"))
		return 0;
	return search_each(s, CDI_SOCKET, sockets, ARRAY_LEN(sockets));
}

/* --- the search --- */

bool search_name_plain(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= NAME_MAX && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			    "0123456789._+-") == len;
}

int search_watch(struct cdi_search_context *s, const char *root, const char *path)
{
	char real[PATH_MAX], at[PATH_MAX];
	bool there = root_resolve(real, sizeof(real), root, path, NULL, NULL) == 0;

	if (root_join(at, sizeof(at), root, there ? real : path, NULL) < 0 ||
		strv_has(&s->found->watched, at))
		return 0;
	return strv_add(&s->found->watched, at, s->err);
}

int search_add_file(struct cdi_search_context *s, struct cdi_edits *to, enum cdi_file_kind kind,
	const char *path)
{
	char real[PATH_MAX];
	struct cdi_file *f;
	struct stat st;
	bool good;

	if (search_watch(s, s->seen, path) < 0)
		return -1;
	if (root_resolve(real, sizeof(real), s->seen, path, &st, NULL) < 0)
		return 0;
	good = kind == CDI_FILE ? S_ISREG(st.st_mode)
				: S_ISSOCK(st.st_mode) || S_ISDIR(st.st_mode);
	if (!good)
		return 0;
	if (!ARRAY_EXTEND(&to->files, to->n_files, 1, ARRAY_NO_LIMIT))
		return error_nomem(s->err);
	f = &to->files[to->n_files++];
	*f = (struct cdi_file){ .kind = kind, .path = strdup(path), .real = strdup(real) };
	return f->path && f->real ? 1 : error_nomem(s->err);
}

/* --- which root --- */

/* A root in this process's view, and the path of that root on the host. */
struct cdi_root_candidate {
	const char *seen, *host;
};

static const struct cdi_root_candidate *choose_root(const struct cdi_root_candidate *c,
	size_t n, const char *version)
{
	for (size_t i = 0; i < n; i++) {
		if (*c[i].seen == '/' && search_has_driver(c[i].seen, version))
			return &c[i];
	}
	return NULL;
}

/*
 * In a container, the root of the host or of a driver container is mounted at the container driver
 * root. On the host itself, the driver root is the path in the config. The last candidate is "/": a
 * runtime that gives this container the driver's files puts them at the host's paths.
 */
static int find_root(struct cdi_search_context *s)
{
	const struct config *c = s->config;
	const char *version = s->inv->driver_version;
	const struct cdi_root_candidate candidates[] = {
		{ c->container_driver_root, c->driver_root },
		{ c->driver_root, c->driver_root },
		{ "/", "/" },
	};
	const struct cdi_root_candidate *root =
		choose_root(candidates, ARRAY_LEN(candidates), version);

	if (!root)
		return error_set(s->err, ERR_NOT_FOUND,
			"no libcuda.so.%s for this machine below '%.100s', '%.100s' or '/': mount the "
			"driver root there, or name it with --driver-root-ctr-path",
			version, c->container_driver_root, c->driver_root);
	s->seen = root->seen;
	s->found->driver_root = strdup(root->host);
	return s->found->driver_root ? 0 : error_nomem(s->err);
}

int cdi_search(struct cdi_found **ret, const struct config *config, const struct inventory *inv,
	const char *sysfs_root, struct error *err)
{
	CLEANUP(cdi_found_freep) struct cdi_found *f = calloc(1, sizeof(*f));
	struct cdi_search_context s = { .config = config, .inv = inv, .found = f, .err = err };

	if (!f)
		return error_nomem(err);
	s.sysfs = sysfs_root && *sysfs_root ? sysfs_root : "/sys";
	if (!search_name_plain(inv->driver_version))
		return error_set(err, ERR_INVALID,
			"the driver's version is '%.60s'; expected letters, digits and dots",
			inv->driver_version);
	(void)snprintf(f->driver_version, sizeof(f->driver_version), "%s", inv->driver_version);
	if (find_root(&s) < 0 || search_libraries(&s) < 0 || search_files(&s) < 0 ||
		search_nodes(&s) < 0)
		return -1;
	*ret = STEAL_PTR(f);
	return 0;
}
