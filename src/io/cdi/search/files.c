/* SPDX-License-Identifier: Apache-2.0 */
#include "io/cdi/search/search.h"

#include <limits.h>
#include <stdio.h>

#include "lib/base/root.h"

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

int search_files(struct cdi_search_context *s)
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
