/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "lib/base/paths.h"
#include "io/cdi/cdi.h"
#include "io/cdi/elf.h"
#include "testbed/sim/fake-root/fake-root.h"

#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define VERSION "580.159.04"
#if defined(__aarch64__)
#	define LIBS "/usr/lib/aarch64-linux-gnu"
#else
#	define LIBS "/usr/lib/x86_64-linux-gnu"
#endif

/* A driver root with the driver's files in it, and a config and two GPUs that go with it. */
struct fixture {
	char *root;
	char sysfs[PATH_MAX];
	struct config *config;
	struct inventory *inv;
	struct error err;
};

static char *path_of(const struct fixture *f, const char *path)
{
	static char text[PATH_MAX];

	assert_true(snprintf(text, sizeof(text), "%s%s", f->root, path) < (int)sizeof(text));
	return text;
}

static void write_root_text(const struct fixture *f, const char *path, const char *text,
	mode_t mode)
{
	test_write(f->root, path, text, strlen(text), mode);
}

static void make_root_dir(const struct fixture *f, const char *path)
{
	struct error err = ERROR_INIT;

	assert_ok(dir_make(path_of(f, path), 0755, &err), &err);
}

static void set_text(char **at, const char *text)
{
	free(*at);
	*at = strdup(text);
	assert_non_null(*at);
}

static void setup(struct fixture *f)
{
	*f = (struct fixture){ .root = test_tmpdir() };
	assert_ok(sim_fake_driver_write(f->root, VERSION, &f->err), &f->err);
	write_root_text(f, "/dev/nvidiactl", "", 0666);
	write_root_text(f, "/dev/nvidia-uvm", "", 0666);
	write_root_text(f, "/dev/nvidia0", "", 0666);
	write_root_text(f, "/dev/nvidia1", "", 0666);
	assert_ok(config_new(&f->config, &f->err), &f->err);
	set_text(&f->config->container_driver_root, f->root);
	assert_ok(inventory_new(&f->inv, 2, &f->err), &f->err);
	(void)snprintf(f->inv->driver_version, sizeof(f->inv->driver_version), VERSION);
	for (uint32_t i = 0; i < 2; i++) {
		struct gpu *g = &f->inv->gpus[i];

		g->index = g->minor = i;
		g->has_minor = true;
		(void)snprintf(g->uuid, sizeof(g->uuid), "GPU-%u", i);
		(void)snprintf(g->bus_id, sizeof(g->bus_id), "00000000:0%u:1E.0", i + 1);
	}
	(void)snprintf(f->sysfs, sizeof(f->sysfs), "%s", path_of(f, "/sys"));
}

static void teardown(struct fixture *f)
{
	(void)inventory_free(f->inv);
	(void)config_free(f->config);
	test_rmdir(f->root);
}

static struct cdi_found *search(struct fixture *f)
{
	struct cdi_found *found = NULL;

	assert_ok(cdi_search(&found, f->config, f->inv, f->sysfs, &f->err), &f->err);
	return found;
}

static const struct cdi_library *find_found_library(const struct cdi_found *found,
	const char *name)
{
	for (size_t i = 0; i < found->n_libraries; i++)
		if (!strcmp(found->libraries[i].name, name))
			return &found->libraries[i];
	return NULL;
}

static bool has_file(const struct cdi_edits *e, const char *path, const char *real)
{
	for (size_t i = 0; i < e->n_files; i++)
		if (!strcmp(e->files[i].path, path) && !strcmp(e->files[i].real, real))
			return true;
	return false;
}

static bool has_node(const struct cdi_edits *e, const char *path)
{
	for (size_t i = 0; i < e->n_nodes; i++)
		if (!strcmp(e->nodes[i].path, path))
			return true;
	return false;
}

static void expect_names(const struct cdi_library *l, const char *names)
{
	char text[512] = "";

	assert_non_null(l);
	for (size_t i = 0; i < l->names.n; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
			i ? " " : "", l->names.v[i]);
	assert_string_equal(text, names);
}

static void cdi_search__finds_the_drivers_files(void **state)
{
	struct fixture f;
	struct cdi_found *found;

	(void)state;
	setup(&f);
	found = search(&f);
	assert_string_equal(found->driver_root, "/");
	assert_int_equal(found->n_libraries, 13);
	expect_names(find_found_library(found, "libcuda.so." VERSION),
		"libcuda.so.1 libcuda.so");
	/* the host has no such link, and programs want it */
	expect_names(find_found_library(found, "libnvidia-opticalflow.so." VERSION),
		"libnvidia-opticalflow.so.1 libnvidia-opticalflow.so");
	expect_names(find_found_library(found, "libnvidia-cfg.so." VERSION),
		"libnvidia-cfg.so.1");
	expect_names(find_found_library(found, "libnvidia-gpucomp.so." VERSION), "");
	assert_string_equal(find_found_library(found, "libvdpau_nvidia.so." VERSION)->sub,
		"vdpau");
	assert_string_equal(find_found_library(found, "libcuda.so." VERSION)->real,
		LIBS "/libcuda.so." VERSION);
	assert_true(has_file(&found->common, "/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi"));
	assert_true(has_file(&found->common, "/lib/firmware/nvidia/" VERSION "/gsp_ga10x.bin",
		"/lib/firmware/nvidia/" VERSION "/gsp_ga10x.bin"));
	assert_true(has_node(&found->common, "/dev/nvidiactl"));
	assert_true(has_node(&found->common, "/dev/nvidia-uvm"));
	assert_false(has_node(&found->common, "/dev/nvidia-modeset"));
	assert_int_equal(found->n_devices[CDI_GPU], 2);
	assert_string_equal(found->devices[CDI_GPU][1].name, "GPU-1");
	assert_int_equal(found->devices[CDI_GPU][1].edits.n_nodes, 1);
	assert_string_equal(found->devices[CDI_GPU][1].edits.nodes[0].path, "/dev/nvidia1");
	(void)cdi_found_free(found);
	teardown(&f);
}

/* Links of a driver root lead inside of it, wherever it is mounted. */
static void cdi_search__follows_links_inside_the_root(void **state)
{
	struct fixture f;
	struct cdi_found *found;

	(void)state;
	setup(&f);
	set_text(&f.config->driver_root, "/run/nvidia/driver");
	write_root_text(&f, "/usr/lib/nvidia/current/nvidia-smi", "x", 0755);
	make_root_dir(&f, "/etc/alternatives");
	assert_int_equal(unlink(path_of(&f, "/usr/bin/nvidia-smi")), 0);
	assert_int_equal(symlink("/etc/alternatives/smi", path_of(&f, "/usr/bin/nvidia-smi")),
		0);
	assert_int_equal(symlink("../../usr/lib/nvidia/./current//nvidia-smi",
				 path_of(&f, "/etc/alternatives/smi")),
		0);
	/* one that leads to itself, and one that leads nowhere */
	assert_int_equal(unlink(path_of(&f, "/usr/bin/nvidia-debugdump")), 0);
	assert_int_equal(symlink("nvidia-debugdump", path_of(&f, "/usr/bin/nvidia-debugdump")),
		0);
	assert_int_equal(symlink("/nowhere", path_of(&f, "/usr/bin/nvidia-imex")), 0);
	found = search(&f);
	assert_string_equal(found->driver_root, "/run/nvidia/driver");
	assert_true(has_file(&found->common, "/usr/bin/nvidia-smi",
		"/usr/lib/nvidia/current/nvidia-smi"));
	assert_int_equal(found->common.n_files, 4); /* smi, two of MPS, firmware */
	(void)cdi_found_free(found);
	teardown(&f);
}

static void cdi_search__ignores_files_that_are_no_libraries(void **state)
{
	struct fixture f;
	struct cdi_found *found;

	(void)state;
	setup(&f);
	write_root_text(&f, LIBS "/libtext.so." VERSION, "not ELF", 0644);
	write_root_text(&f, LIBS "/libempty.so." VERSION, "", 0644);
	write_root_text(&f, LIBS "/lib\xff.so." VERSION, "", 0644);
	make_root_dir(&f, LIBS "/libdir.so." VERSION);
	write_root_text(&f, LIBS "/libother.so.1", "", 0644);
	/* the same library in a later directory */
	make_root_dir(&f, "/usr/lib64");
	assert_int_equal(symlink(LIBS "/libcuda.so." VERSION,
				 path_of(&f, "/usr/lib64/libcuda.so." VERSION)),
		0);
	found = search(&f);
	assert_int_equal(found->n_libraries, 13);
	assert_string_equal(find_found_library(found, "libcuda.so." VERSION)->dir, LIBS);
	(void)cdi_found_free(found);
	/* without the right libcuda there is no driver to give */
	found = NULL;
	(void)snprintf(f.inv->driver_version, sizeof(f.inv->driver_version), "581.1");
	assert_error(cdi_search(&found, f.config, f.inv, f.sysfs, &f.err), &f.err,
		"no libcuda.so.581.1 for this machine below");
	assert_int_equal(f.err.code, ERR_NOT_FOUND);
	(void)snprintf(f.inv->driver_version, sizeof(f.inv->driver_version), "*/..");
	assert_error(cdi_search(&found, f.config, f.inv, f.sysfs, &f.err), &f.err,
		"the driver's version is '*/..'");
	assert_null(found);
	teardown(&f);
}

/* The host itself has no mount at /driver-root. */
static void cdi_search__probes_the_driver_root_itself(void **state)
{
	struct fixture f;
	struct cdi_found *found;

	(void)state;
	setup(&f);
	set_text(&f.config->container_driver_root, "/nonexistent");
	set_text(&f.config->driver_root, f.root);
	found = search(&f);
	assert_string_equal(found->driver_root, f.root);
	(void)cdi_found_free(found);
	teardown(&f);
}

/* The search watches missing files as well: they may be created. */
static void cdi_search__returns_the_files_that_show_a_change(void **state)
{
	static const char *const rows[] = { LIBS, (LIBS "/libcuda.so." VERSION), "/usr/lib64",
		"/usr/bin/nvidia-smi", "/etc/vulkan/icd.d/nvidia_icd.json",
		"/run/nvidia-persistenced/socket", "/dev/nvidia-modeset" };
	struct cdi_found *found;
	struct fixture f;

	(void)state;
	setup(&f);
	found = search(&f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!strv_has(&found->watched, path_of(&f, rows[i])))
			fail_msg("'%s' is not watched", rows[i]);
	(void)cdi_found_free(found);
	teardown(&f);
}

static void cdi_search__adds_nodes_for_graphics(void **state)
{
	struct fixture f;
	struct cdi_found *found;
	const struct cdi_edits *e;

	(void)state;
	setup(&f);
	make_root_dir(&f, "/sys/devices/pci/0000:02:1e.0/drm/card1");
	make_root_dir(&f, "/sys/devices/pci/0000:02:1e.0/drm/renderD128");
	make_root_dir(&f, "/sys/devices/pci/0000:02:1e.0/drm/renderD129"); /* has no node */
	make_root_dir(&f, "/sys/bus/pci/devices");
	/* as sysfs has it */
	assert_int_equal(symlink("../../../devices/pci/0000:02:1e.0",
				 path_of(&f, "/sys/bus/pci/devices/0000:02:1e.0")),
		0);
	write_root_text(&f, "/dev/dri/card1", "", 0660);
	write_root_text(&f, "/dev/dri/renderD128", "", 0666);
	assert_int_equal(chown(path_of(&f, "/dev/dri/card1"), (uid_t)-1, getegid()), 0);
	make_root_dir(&f, "/dev/dri/by-path");
	assert_int_equal(
		symlink("../card1", path_of(&f, "/dev/dri/by-path/pci-0000:02:1e.0-card")), 0);
	assert_int_equal(symlink("../renderD129",
				 path_of(&f, "/dev/dri/by-path/pci-0000:02:1e.0-render")),
		0);
	found = search(&f);
	assert_int_equal(found->devices[CDI_GPU][0].edits.n_nodes, 1);
	e = &found->devices[CDI_GPU][1].edits;
	assert_int_equal(e->n_nodes, 3);
	assert_true(has_node(e, "/dev/dri/card1"));
	assert_true(has_node(e, "/dev/dri/renderD128"));
	assert_int_equal(e->nodes[1].gid, getegid());
	assert_int_equal(e->nodes[2].gid, 0);
	assert_int_equal(e->links.n, 1); /* not to a node that is not given */
	assert_string_equal(e->links.v[0], "../card1::/dev/dri/by-path/pci-0000:02:1e.0-card");
	(void)cdi_found_free(found);
	teardown(&f);
}

static void add_mig(struct fixture *f, uint32_t gpu, uint32_t index, const char *profile)
{
	struct gpu_mig m = { .index = index,
		.has_minors = true,
		.gi_minor = 66 + 9 * index,
		.ci_minor = 67 + 9 * index };

	(void)snprintf(m.uuid, sizeof(m.uuid), "MIG-%u-%u", gpu, index);
	(void)snprintf(m.profile, sizeof(m.profile), "%s", profile);
	f->inv->gpus[gpu].mig_enabled = true;
	assert_ok(inventory_add_mig(f->inv, gpu, &m, 1, &f->err), &f->err);
}

static void expect_nodes(const struct cdi_device *d, const char *name, const char *nodes)
{
	char text[256] = "";

	assert_string_equal(d->name, name);
	for (size_t i = 0; i < d->edits.n_nodes; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
			i ? " " : "", d->edits.nodes[i].path);
	assert_string_equal(text, nodes);
}

static void cdi_search__has_mig_devices_with_their_capabilities(void **state)
{
	const struct cdi_device *d;
	struct cdi_found *found;
	struct fixture f;

	(void)state;
	setup(&f);
	make_root_dir(&f, "/sys/bus/pci/devices/0000:01:1e.0/drm/card1");
	make_root_dir(&f, "/sys/bus/pci/devices/0000:02:1e.0/drm/card2");
	write_root_text(&f, "/dev/dri/card1", "", 0666);
	write_root_text(&f, "/dev/dri/card2", "", 0666);
	f.inv->gpus[1].minor = 5;
	add_mig(&f, 1, 0, "1g.5gb");
	add_mig(&f, 1, 1, "1c.2g.48gb+gfx,me"); /* graphics */
	add_mig(&f, 1, 2, "1g.24gb-gfx");       /* none */
	add_mig(&f, 1, 3, "1g.24gb+gfxx");      /* another word */
	found = search(&f);
	d = found->devices[CDI_GPU];
	assert_int_equal(found->n_devices[CDI_GPU], 5);
	expect_nodes(&d[0], "GPU-0", "/dev/nvidia0 /dev/dri/card1");
	expect_nodes(&d[1], "MIG-1-0",
		"/dev/nvidia5 /dev/nvidia-caps/nvidia-cap66 /dev/nvidia-caps/nvidia-cap67");
	expect_nodes(&d[2], "MIG-1-1",
		"/dev/nvidia5 /dev/nvidia-caps/nvidia-cap75 /dev/nvidia-caps/nvidia-cap76 "
		"/dev/dri/card2");
	assert_int_equal(d[3].edits.n_nodes, 3);
	assert_int_equal(d[4].edits.n_nodes, 3);
	(void)cdi_found_free(found);
	f.config->device_id = DEVICE_ID_INDEX;
	found = search(&f);
	d = found->devices[CDI_GPU];
	assert_string_equal(d[0].name, "0");
	assert_string_equal(d[1].name, "1:0");
	assert_string_equal(d[4].name, "1:3");
	(void)cdi_found_free(found);
	/* faulty devices, and devices without capabilities */
	(void)snprintf(f.inv->mig[0].reason, sizeof(f.inv->mig[0].reason), "unreadable");
	f.inv->mig[1].has_minors = false;
	f.config->device_id = DEVICE_ID_UUID;
	found = search(&f);
	assert_int_equal(found->n_devices[CDI_GPU], 3);
	assert_string_equal(found->devices[CDI_GPU][1].name, "MIG-1-2");
	(void)cdi_found_free(found);
	f.inv->gpus[1].fault = GPU_FAULT_STUCK; /* its pods keep it */
	found = search(&f);
	assert_int_equal(found->n_devices[CDI_GPU], 3);
	(void)cdi_found_free(found);
	f.inv->gpus[1].fault = GPU_FAULT_GONE;
	found = search(&f);
	assert_int_equal(found->n_devices[CDI_GPU], 1);
	(void)cdi_found_free(found);
	f.inv->gpus[1].fault = GPU_OK;
	f.inv->gpus[1].mig_enabled = false; /* MIG devices of a GPU that has none any more */
	found = search(&f);
	assert_int_equal(found->n_devices[CDI_GPU], 2);
	(void)cdi_found_free(found);
	teardown(&f);
}

static void cdi_search__omits_unavailable_devices(void **state)
{
	struct fixture f;
	struct cdi_found *found;

	(void)state;
	setup(&f);
	f.inv->gpus[0].mig_enabled = true;
	found = search(&f);
	assert_int_equal(found->n_devices[CDI_GPU], 1);
	(void)cdi_found_free(found);
	f.inv->gpus[0].mig_enabled = false;
	f.inv->gpus[0].fault = GPU_FAULT_GONE;
	f.inv->gpus[1].index = 0; /* has its place now */
	f.config->device_id = DEVICE_ID_INDEX;
	found = search(&f);
	assert_int_equal(found->n_devices[CDI_GPU], 1);
	assert_string_equal(found->devices[CDI_GPU][0].name, "0");
	assert_string_equal(found->devices[CDI_GPU][0].edits.nodes[0].path, "/dev/nvidia1");
	(void)cdi_found_free(found);
	f.inv->gpus[0].fault = GPU_FAULT_LOST; /* not gone: its pods keep it */
	f.inv->gpus[0].has_minor = false;
	f.config->device_id = DEVICE_ID_UUID;
	(void)snprintf(f.inv->gpus[1].uuid, sizeof(f.inv->gpus[1].uuid), "GPU,1");
	found = search(&f);
	assert_int_equal(found->n_devices[CDI_GPU], 0);
	(void)cdi_found_free(found);
	teardown(&f);
}

static void cdi_search__finds_the_other_classes(void **state)
{
	struct fixture f;
	struct cdi_found *found;

	(void)state;
	setup(&f);
	f.config->gds = f.config->mofed = f.config->gdrcopy = true;
	f.config->imex_channel0 = true;
	found = search(&f);
	for (size_t c = CDI_GPU + 1; c < CDI_CLASSES; c++)
		assert_int_equal(found->n_devices[c], 0);
	(void)cdi_found_free(found);
	write_root_text(&f, "/dev/nvidia-fs0", "", 0666);
	write_root_text(&f, "/dev/nvidia-fs1", "", 0666);
	write_root_text(&f, "/dev/infiniband/uverbs0", "", 0666);
	write_root_text(&f, "/dev/infiniband/rdma_cm", "", 0666);
	write_root_text(&f, "/dev/gdrdrv", "", 0666);
	write_root_text(&f, "/dev/nvidia-caps-imex-channels/channel0", "", 0666);
	write_root_text(&f, "/dev/nvidia-caps-imex-channels/channel1", "", 0666);
	make_root_dir(&f, "/run/udev");
	write_root_text(&f, "/etc/cufile.json", "{}", 0644);
	found = search(&f);
	for (size_t c = CDI_GPU + 1; c < CDI_CLASSES; c++)
		assert_int_equal(found->n_devices[c], 1);
	assert_string_equal(found->devices[CDI_IMEX_CHANNEL][0].name, "0");
	assert_int_equal(found->devices[CDI_IMEX_CHANNEL][0].edits.n_nodes, 1);
	assert_string_equal(found->devices[CDI_GDS][0].name, "all");
	assert_int_equal(found->devices[CDI_GDS][0].edits.n_nodes, 2);
	assert_int_equal(found->devices[CDI_GDS][0].edits.n_files, 2);
	assert_int_equal(found->devices[CDI_MOFED][0].edits.n_nodes, 2);
	(void)cdi_found_free(found);
	teardown(&f);
}

static void make_root_socket(const struct fixture *f, const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_true(strlen(path_of(f, path)) < sizeof(a.sun_path));
	memcpy(a.sun_path, path_of(f, path), strlen(path_of(f, path)));
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	(void)close(fd);
}

static void cdi_search__obeys_the_feature_flags(void **state)
{
	struct fixture f;
	struct cdi_found *found;
	char from[PATH_MAX];
	size_t n;

	(void)state;
	setup(&f);
	make_root_dir(&f, "/run/nvidia-persistenced");
	make_root_socket(&f, "/run/nvidia-persistenced/socket");
	found = search(&f);
	n = found->n_libraries;
	assert_true(has_file(&found->common, "/run/nvidia-persistenced/socket",
		"/run/nvidia-persistenced/socket"));
	(void)cdi_found_free(found);
	assert_ok(strv_add(&f.config->cdi_features, "disable-ipc-discoverer", &f.err), &f.err);
	assert_ok(strv_add(&f.config->cdi_features, "enable-explicit-driver-libraries", &f.err),
		&f.err);
	assert_ok(sim_fake_driver_write(path_of(&f, "/other"), "1.1.0", &f.err), &f.err);
	(void)snprintf(from, sizeof(from), "%s",
		path_of(&f, "/other" LIBS "/libcuda.so.1.1.0"));
	assert_int_equal(rename(from, path_of(&f, LIBS "/libEGL.so.1.1.0")), 0);
	assert_int_equal(symlink("libEGL.so.1.1.0", path_of(&f, LIBS "/libEGL.so.1")), 0);
	found = search(&f);
	assert_int_equal(found->n_libraries, n + 1);
	assert_non_null(find_found_library(found, "libEGL.so.1.1.0"));
	assert_null(find_found_library(found, "libEGL.so.1")); /* a name of it, no library */
	assert_false(has_file(&found->common, "/run/nvidia-persistenced/socket",
		"/run/nvidia-persistenced/socket"));
	(void)cdi_found_free(found);
	teardown(&f);
}

static void elf_soname__reads_only_good_files(void **state)
{
	char soname[ELF_SONAME_MAX], path[PATH_MAX];
	struct fixture f;

	(void)state;
	setup(&f);
	(void)snprintf(path, sizeof(path), "%s", path_of(&f, LIBS "/libcuda.so." VERSION));
	assert_ok(elf_file_soname(soname, path, &f.err), &f.err);
	assert_string_equal(soname, "libcuda.so.1");
	assert_int_equal(truncate(path, 100), 0);
	assert_error(elf_file_soname(soname, path, &f.err), &f.err,
		"program headers are cut off");
	assert_error(elf_file_soname(soname, path_of(&f, "/dev/nvidia0"), &f.err), &f.err,
		"too short");
	write_root_text(&f, "/text",
		"as long as the header of an ELF file, which has sixty-four bytes in it", 0644);
	assert_error(elf_file_soname(soname, path_of(&f, "/text"), &f.err), &f.err,
		"expected 7f 'ELF'");
	assert_error(elf_file_soname(soname, path_of(&f, "/none"), &f.err), &f.err,
		"No such file");
	/* this program has none */
	assert_int_equal(elf_file_soname(soname, "/proc/self/exe", &f.err), ELF_E_NONE);
	teardown(&f);
}

static void root_resolve__never_leaves_the_root(void **state)
{
	static const struct {
		const char *path, *real;
	} rows[] = {
		{ "/", "/" },
		{ "/..", "/" },
		{ "/../../usr//bin/./", "/usr/bin" },
		{ "/usr/bin/../..", "/" },
		{ "/up/usr", "/usr" },
		{ "/abs/bin", "/usr/bin" },
		{ "/nothing", NULL },
		{ "/usr/bin/nvidia-smi/x", NULL },
		{ "/loop", NULL },
	};
	char real[PATH_MAX];
	struct fixture f;

	(void)state;
	setup(&f);
	assert_int_equal(symlink("../../../..", path_of(&f, "/up")), 0);
	assert_int_equal(symlink("/usr", path_of(&f, "/abs")), 0);
	assert_int_equal(symlink("/loop/loop", path_of(&f, "/loop")), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int r = root_resolve(real, sizeof(real), f.root, rows[i].path, NULL, &f.err);

		if ((r == 0) != (rows[i].real != NULL) ||
			(r == 0 && strcmp(real, rows[i].real) != 0))
			fail_msg("%s: %d %s", rows[i].path, r, r ? f.err.msg : real);
	}
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cdi_search__finds_the_drivers_files),
		cmocka_unit_test(cdi_search__follows_links_inside_the_root),
		cmocka_unit_test(cdi_search__ignores_files_that_are_no_libraries),
		cmocka_unit_test(cdi_search__probes_the_driver_root_itself),
		cmocka_unit_test(cdi_search__returns_the_files_that_show_a_change),
		cmocka_unit_test(cdi_search__adds_nodes_for_graphics),
		cmocka_unit_test(cdi_search__has_mig_devices_with_their_capabilities),
		cmocka_unit_test(cdi_search__omits_unavailable_devices),
		cmocka_unit_test(cdi_search__finds_the_other_classes),
		cmocka_unit_test(cdi_search__obeys_the_feature_flags),
		cmocka_unit_test(elf_soname__reads_only_good_files),
		cmocka_unit_test(root_resolve__never_leaves_the_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
