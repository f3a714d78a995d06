/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's files: libraries that a loader accepts, firmware, and the programs of MPS (fake-root.h). */
#include "testbed/sim/fake-root/fake-root.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "testbed/sim/location.h"

#if defined(__aarch64__)
#	define MACHINE EM_AARCH64
#	define LIB_DIR "usr/lib/aarch64-linux-gnu"
#else
#	define MACHINE EM_X86_64
#	define LIB_DIR "usr/lib/x86_64-linux-gnu"
#endif

/* The file name of each is the stem with the driver's version appended. */
static const struct library {
	const char *stem;
	const char *soname; /* NULL: the file's own name */
	bool devel;         /* has a link without a version */
} libraries[] = {
	{ "libcuda.so", "libcuda.so.1", true },
	{ "libcudadebugger.so", "libcudadebugger.so.1", false },
	{ "libnvcuvid.so", "libnvcuvid.so.1", true },
	{ "libnvidia-allocator.so", "libnvidia-allocator.so.1", false },
	{ "libnvidia-cfg.so", "libnvidia-cfg.so.1", false },
	{ "libnvidia-encode.so", "libnvidia-encode.so.1", true },
	{ "libnvidia-gpucomp.so", NULL, false },
	{ "libnvidia-ml.so", "libnvidia-ml.so.1", true },
	{ "libnvidia-nvvm.so", "libnvidia-nvvm.so.4", false },
	{ "libnvidia-opencl.so", "libnvidia-opencl.so.1", false },
	{ "libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1", false },
	{ "libnvidia-ptxjitcompiler.so", "libnvidia-ptxjitcompiler.so.1", false },
	{ "vdpau/libvdpau_nvidia.so", "libvdpau_nvidia.so.1", false },
};

static const char *const programs[] = { "nvidia-smi", "nvidia-debugdump" };
/* The simulator has these programs: the driver's name runs the program beside the one that makes the node. */
static const char *const mps_programs[] = { "nvidia-cuda-mps-control",
	"nvidia-cuda-mps-server" };
static const char program[] =
	"#!/bin/sh\necho \"${0##*/}: this driver is simulated\" >&2\nexit 1\n";

/* A shared library with a SONAME and nothing else, which a loader accepts. */
struct elf_file {
	Elf64_Ehdr header;
	Elf64_Phdr load, dynamic;
	Elf64_Dyn entries[7];
	uint32_t hash[4]; /* one bucket, one symbol: the empty one */
	Elf64_Sym symbol;
	char strings[132]; /* "", SONAME */
};

static void make_library(struct elf_file *f, const char *soname)
{
	uint64_t at = offsetof(struct elf_file, entries);

	*f = (struct elf_file){
		.header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
				    ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_DYN,
			.e_machine = MACHINE,
			.e_version = EV_CURRENT,
			.e_phoff = offsetof(struct elf_file, load),
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 2 },
		.load = { .p_type = PT_LOAD,
			.p_flags = PF_R,
			.p_filesz = sizeof(*f),
			.p_memsz = sizeof(*f),
			.p_align = 0x10000 },
		.dynamic = { .p_type = PT_DYNAMIC,
			.p_flags = PF_R,
			.p_offset = at,
			.p_vaddr = at,
			.p_paddr = at,
			.p_filesz = sizeof(f->entries),
			.p_memsz = sizeof(f->entries),
			.p_align = 8 },
		.entries = { { DT_HASH, { offsetof(struct elf_file, hash) } },
			{ DT_SYMTAB, { offsetof(struct elf_file, symbol) } },
			{ DT_SYMENT, { sizeof(Elf64_Sym) } },
			{ DT_STRTAB, { offsetof(struct elf_file, strings) } },
			{ DT_STRSZ, { sizeof(f->strings) } }, { DT_SONAME, { 1 } },
			{ DT_NULL, { 0 } } },
		.hash = { 1, 1, 0, 0 },
	};
	(void)snprintf(f->strings + 1, sizeof(f->strings) - 1, "%s", soname);
}

static int make_link(const char *dir, const char *name, const char *target, struct error *err)
{
	char path[SIM_PATH_MAX];

	if (path_join(path, sizeof(path), dir, name, err) < 0)
		return -1;
	if (symlink(target, path) == 0 || errno == EEXIST)
		return 0;
	return error_sys(err, errno, "make the link '%s'", path);
}

/* The name of the file, and its directory below @dir. */
static int format_library_path(const struct library *l, const char *dir, const char *version,
	char *ret_dir, char *ret_name, size_t cap, struct error *err)
{
	const char *slash = strrchr(l->stem, '/');
	char rel[128];

	(void)snprintf(rel, sizeof(rel), LIB_DIR "%s%.*s", slash ? "/" : "",
		slash ? (int)(slash - l->stem) : 0, l->stem);
	(void)snprintf(ret_name, cap, "%s.%s", slash ? slash + 1 : l->stem, version);
	return path_join(ret_dir, SIM_PATH_MAX, dir, rel, err);
}

static int write_library(const struct library *l, const char *dir, const char *version,
	struct error *err)
{
	char at[SIM_PATH_MAX], name[128], stem[64];
	struct elf_file f;

	if (format_library_path(l, dir, version, at, name, sizeof(name), err) < 0 ||
		dir_make(at, 0755, err) < 0)
		return -1;
	make_library(&f, l->soname ? l->soname : name);
	if (sim_fake_file(at, name, &f, sizeof(f), 0644, err) < 0 ||
		(l->soname && make_link(at, l->soname, name, err) < 0))
		return -1;
	(void)snprintf(stem, sizeof(stem), "%s", l->stem);
	return l->devel ? make_link(at, stem, l->soname, err) : 0;
}

/* A version with a slash would lead out of the node's directory. */
static bool good_version(const char *version)
{
	return *version && !strchr(version, '/');
}

static int firmware_dir(const char *dir, const char *version, char *ret, struct error *err)
{
	char rel[128];

	(void)snprintf(rel, sizeof(rel), "lib/firmware/nvidia/%s", version);
	return path_join(ret, SIM_PATH_MAX, dir, rel, err);
}

/* Installed: from a library, bin/ and libexec/X. In a build tree: from src/X and test/X. */
static bool find_mps(const char *name, char ret[PATH_MAX])
{
	static const char *const places[] = { ".", "../lib/gpuslice/sim",
		"../../lib/gpuslice/sim", "../mps", "../../testbed/sim/mps",
		"../../src/testbed/sim/mps" };
	char self[PATH_MAX], path[PATH_MAX + 128]; /* realpath() fills up to PATH_MAX */
	const char *slash;
	Dl_info info;

	if (!dladdr((const void *)sim_fake_driver_write, &info) ||
		!realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe",
			self))
		return false;
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < ARRAY_LEN(places); i++) {
		(void)snprintf(path, sizeof(path), "%.*s/%s/%s", (int)(slash - self), self,
			places[i], name);
		if (access(path, X_OK) == 0 && !strchr(path, '\'') && realpath(path, ret))
			return true;
	}
	return false;
}

static int write_mps(const char *at, struct error *err)
{
	char text[PATH_MAX + 64], path[PATH_MAX] = "";

	for (size_t i = 0; i < ARRAY_LEN(mps_programs); i++) {
		bool found = find_mps(mps_programs[i], path);

		(void)snprintf(text, sizeof(text), "#!/bin/sh\nexec '%s' \"$@\"\n", path);
		if (sim_fake_file(at, mps_programs[i], found ? text : program,
			    found ? strlen(text) : sizeof(program) - 1, 0755, err) < 0)
			return -1;
	}
	return 0;
}

int sim_fake_driver_write(const char *dir, const char *version, struct error *err)
{
	char at[SIM_PATH_MAX];

	if (!good_version(version))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
		if (write_library(&libraries[i], dir, version, err) < 0)
			return -1;
	if (path_join(at, sizeof(at), dir, "usr/bin", err) < 0 || dir_make(at, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		if (sim_fake_file(at, programs[i], program, sizeof(program) - 1, 0755, err) < 0)
			return -1;
	if (write_mps(at, err) < 0)
		return -1;
	if (firmware_dir(dir, version, at, err) < 0 || dir_make(at, 0755, err) < 0)
		return -1;
	return sim_fake_file(at, "gsp_ga10x.bin", "simulated\n", 10, 0644, err);
}

/* Removes libraries and firmware. Programs have no version and stay. */
void sim_fake_driver_remove(const char *dir, const char *version)
{
	char at[SIM_PATH_MAX], name[128], path[SIM_PATH_MAX + 128];

	if (!good_version(version))
		return;
	for (size_t i = 0; i < ARRAY_LEN(libraries); i++) {
		const struct library *l = &libraries[i];

		if (format_library_path(l, dir, version, at, name, sizeof(name), NULL) < 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", at, name);
		(void)unlink(path);
		(void)snprintf(path, sizeof(path), "%s/%s", at, l->soname ? l->soname : name);
		(void)unlink(path);
	}
	if (firmware_dir(dir, version, at, NULL) < 0)
		return;
	(void)snprintf(path, sizeof(path), "%s/gsp_ga10x.bin", at);
	(void)unlink(path);
	(void)rmdir(at);
}
