/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the driver's libraries on the host, and the names under which programs open them (search.h). */
#include "io/cdi/search/search.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/paths.h"
#include "io/cdi/elf.h"

/*
 * Where distributions and installers put the driver's 64-bit libraries, in order. Of two libraries of
 * one name the first counts. 32-bit libraries belong to another machine and are left out.
 */
static const char *const library_dirs[] = {
#if defined(__aarch64__)
	"/usr/lib/aarch64-linux-gnu", /* Debian, Ubuntu, NVIDIA's driver container */
	"/usr/lib/aarch64-linux-gnu/nvidia/current", /* Debian's packages, behind alternatives */
	"/lib/aarch64-linux-gnu",
#else
	"/usr/lib/x86_64-linux-gnu",
	"/usr/lib/x86_64-linux-gnu/nvidia/current",
	"/lib/x86_64-linux-gnu",
#endif
	"/usr/lib64", /* RHEL, Amazon Linux, SUSE, Bottlerocket */
	"/usr/lib64/nvidia",
	"/lib64", /* GKE: a driver root of its own */
	"/usr/lib",
	"/usr/lib/nvidia",
	"/usr/local/nvidia/lib64",
	"/usr/local/glibc/usr/lib", /* Talos */
	"/opt/nvidia/lib64",
	"/run/opengl-driver/lib", /* NixOS */
	"/usr/lib/wsl/lib",
};
static const char *const library_subs[] = { "", "vdpau" };

/* Libraries without the driver's version in their name. They need --cdi-feature-flags
 * enable-explicit-driver-libraries. */
static const char *const explicit_libraries[] = {
	"libEGL.so.*",
	"libGL.so.*",
	"libGLESv1_CM.so.*",
	"libGLESv2.so.*",
	"libGLX.so.*",
	"libGLdispatch.so.*",
	"libOpenCL.so.*",
	"libOpenGL.so.*",
	"libnvidia-api.so.*",
	"libnvidia-egl-xcb.so.*",
	"libnvidia-egl-xlib.so.*",
};

/* Names that programs open although they are no SONAME, and that a host may lack. */
static const struct {
	const char *library, *name;
} extra_names[] = {
	{ "libcuda.so", "libcuda.so" },
	{ "libGLX_nvidia.so", "libGLX_indirect.so.0" },
	{ "libnvidia-opticalflow.so", "libnvidia-opticalflow.so" },
};

static int join_library_path(char *ret, const char *dir, const char *sub, const char *name)
{
	int n = snprintf(ret, PATH_MAX, "%s%s%s%s%s", dir, *sub ? "/" : "", sub,
		*name ? "/" : "", name);

	return n < 0 || n >= PATH_MAX ? -1 : 0;
}

bool search_has_driver(const char *root, const char *version)
{
	char name[NAME_MAX + 1], path[PATH_MAX], real[PATH_MAX], soname[ELF_SONAME_MAX];

	if (snprintf(name, sizeof(name), "libcuda.so.%s", version) >= (int)sizeof(name))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(library_dirs); i++)
		if (join_library_path(path, library_dirs[i], "", name) == 0 &&
			root_resolve(real, sizeof(real), root, path, NULL, NULL) == 0 &&
			root_join(path, sizeof(path), root, real, NULL) == 0 &&
			elf_file_soname(soname, path, NULL) >= 0)
			return true;
	return false;
}

/* The length of "libcuda.so" in "libcuda.so.580.159.04"; 0: there is no ".so". */
static size_t stem_len(const char *name)
{
	const char *so = strstr(name, ".so");

	return so && (so[3] == '.' || so[3] == '\0') ? (size_t)(so - name) + 3 : 0;
}

static int add_library_name(struct cdi_library *l, const char *name, struct error *err)
{
	if (!strcmp(name, l->name) || strv_has(&l->names, name) || !search_name_plain(name))
		return 0;
	return strv_add(&l->names, name, err);
}

/* Adds the SONAME, the development name if the host has it, and the names of the table. */
static int add_library_names(struct cdi_search_context *s, struct cdi_library *l,
	const char *soname)
{
	size_t stem = stem_len(l->name);
	char name[NAME_MAX + 1], path[PATH_MAX];

	if (add_library_name(l, soname, s->err) < 0)
		return -1;
	l->soname_first = l->names.n > 0;
	(void)snprintf(name, sizeof(name), "%.*s", (int)stem, l->name);
	if (stem && join_library_path(path, l->dir, "", name) == 0 &&
		root_resolve(path, sizeof(path), s->seen, path, NULL, NULL) == 0 &&
		add_library_name(l, name, s->err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(extra_names); i++)
		if (!strcmp(extra_names[i].library, name) &&
			add_library_name(l, extra_names[i].name, s->err) < 0)
			return -1;
	return 0;
}

static bool has_cdi_library(const struct cdi_found *f, const char *sub, const char *name)
{
	for (size_t i = 0; i < f->n_libraries; i++)
		if (!strcmp(f->libraries[i].name, name) && !strcmp(f->libraries[i].sub, sub))
			return true;
	return false;
}

static int add_found_library(struct cdi_search_context *s, const char *dir, const char *sub,
	const char *name, const char *real, const char *soname)
{
	struct cdi_found *f = s->found;
	struct cdi_library *l;
	char path[PATH_MAX];

	if (f->n_libraries >= CDI_LIBRARIES_MAX)
		return error_set(s->err, ERR_LIMIT, "more than %d driver libraries below '%s'",
			CDI_LIBRARIES_MAX, s->seen);
	if (!ARRAY_EXTEND(&f->libraries, f->n_libraries, 1, CDI_LIBRARIES_MAX))
		return error_nomem(s->err);
	l = &f->libraries[f->n_libraries++];
	*l = (struct cdi_library){ .dir = NULL };
	if (join_library_path(path, dir, sub, "") < 0)
		return error_set(s->err, ERR_LIMIT, "'%s': the path is too long", dir);
	l->dir = strdup(path);
	l->sub = strdup(sub);
	l->name = strdup(name);
	l->real = strdup(real);
	if (!l->dir || !l->sub || !l->name || !l->real)
		return error_nomem(s->err);
	return search_watch(s, s->seen, real) < 0 ? -1 : add_library_names(s, l, soname);
}

static const char *get_last_component(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* @exact: a link to a file of another name counts as a name of that library, and is left out. */
static int probe_library_file(struct cdi_search_context *s, const char *dir, const char *sub,
	const char *name, bool exact)
{
	char path[PATH_MAX], real[PATH_MAX], soname[ELF_SONAME_MAX] = "";
	struct stat st;

	if (!search_name_plain(name) || has_cdi_library(s->found, sub, name) ||
		join_library_path(path, dir, sub, name) < 0 ||
		root_resolve(real, sizeof(real), s->seen, path, &st, NULL) < 0 ||
		!S_ISREG(st.st_mode) ||
		(exact && strcmp(get_last_component(real), name) != 0) ||
		root_join(path, sizeof(path), s->seen, real, NULL) < 0)
		return 0;
	/* A file that is no library of this machine is useless in a container. */
	if (elf_file_soname(soname, path, NULL) < 0)
		return 0;
	return add_found_library(s, dir, sub, name, real, soname);
}

static int find_libraries_in(struct cdi_search_context *s, const char *dir, const char *sub,
	const char *pattern, bool exact)
{
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	char path[PATH_MAX];

	if (join_library_path(path, dir, sub, "") < 0)
		return 0;
	if (search_watch(s, s->seen, path) < 0 ||
		root_list(&names, s->seen, path, pattern, s->err) < 0)
		return -1;
	for (size_t i = 0; i < names.n; i++)
		if (probe_library_file(s, dir, sub, names.v[i], exact) < 0)
			return -1;
	return 0;
}

int search_libraries(struct cdi_search_context *s)
{
	bool all = strv_has(&s->config->cdi_features, "enable-explicit-driver-libraries");
	char pattern[NAME_MAX + 1];

	(void)snprintf(pattern, sizeof(pattern), "*.so.%s", s->found->driver_version);
	for (size_t i = 0; i < ARRAY_LEN(library_dirs); i++)
		for (size_t k = 0; k < ARRAY_LEN(library_subs); k++)
			if (find_libraries_in(s, library_dirs[i], library_subs[k], pattern,
				    false) < 0)
				return -1;
	for (size_t i = 0; all && i < ARRAY_LEN(library_dirs); i++)
		for (size_t k = 0; k < ARRAY_LEN(explicit_libraries); k++)
			if (find_libraries_in(s, library_dirs[i], "", explicit_libraries[k],
				    true) < 0)
				return -1;
	return 0;
}
