/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Capability files of MIG instances. The device node is created first and removed last. So the existing nodes show
 * which other files may exist, and one listing finds all leftovers.
 */
#include "testbed/sim/fake-root/fake-root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "testbed/sim/mig.h"
#include "testbed/sim/location.h"

#define CAPS_OF_GI      9 /* the GPU instance and its eight compute instances */
#define CAPS_OF_GPU     (SIM_MIG_GI_IDS * CAPS_OF_GI)
#define CAPS_FIRST      3
#define GPUS_LISTED     32 /* by the driver, whether they exist or not */
#define ACCESS_TEXT_MAX 96
#define NODE_NAME_MAX   32
#define MODE_CONFIG     0400
#define MODE_MONITOR    0444
#define MODE_INSTANCE   0444

#define PROC "proc/driver/nvidia/capabilities"
#define DEV  "dev/nvidia-caps"

static_assert(SIM_MAX_CIS == CAPS_OF_GI - 1, "one capability for each compute instance");

uint32_t sim_cap_minor(uint32_t gpu_minor, uint32_t gi, uint32_t ci)
{
	return CAPS_FIRST + gpu_minor * CAPS_OF_GPU + gi * CAPS_OF_GI +
	       (ci == SIM_NO_INSTANCE ? 0 : 1 + ci);
}

/* The numbers in the file names of one instance. */
struct cap {
	uint32_t gpu_minor, gi, ci;
};

static struct cap cap_of_minor(uint32_t minor)
{
	uint32_t n = minor - CAPS_FIRST, in_gi = n % CAPS_OF_GI;

	return (struct cap){ n / CAPS_OF_GPU, n % CAPS_OF_GPU / CAPS_OF_GI,
		in_gi ? in_gi - 1 : SIM_NO_INSTANCE };
}

/* The directory of the instance's access file, below DIR/proc. */
static int access_dir(const char *dir, const struct cap *c, char *ret, struct error *err)
{
	char rel[128];
	int n = snprintf(rel, sizeof(rel), PROC "/gpu%u/mig/gi%u", c->gpu_minor, c->gi);

	if (c->ci != SIM_NO_INSTANCE)
		(void)snprintf(rel + n, sizeof(rel) - (size_t)n, "/ci%u", c->ci);
	return path_join(ret, SIM_PATH_MAX, dir, rel, err);
}

/* No program reads the file before the instance is visible, so the write needs no temporary name. */
static int write_cap_file(const char *dir, const char *name, const char *text, mode_t mode,
	struct error *err)
{
	CLEANUP(closep) int fd = -1;
	char path[SIM_PATH_MAX];

	if (path_join(path, sizeof(path), dir, name, err) < 0)
		return -1;
	(void)unlink(path); /* the existing file may be read-only */
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || fchmod(fd, mode) < 0)
		return error_sys(err, errno, "write '%s'", path);
	return fd_write_all(fd, text, strlen(text), err);
}

/* The driver's text for a capability; the mode is in decimal. */
static void access_text(uint32_t minor, mode_t mode, char ret[ACCESS_TEXT_MAX])
{
	(void)snprintf(ret, ACCESS_TEXT_MAX,
		"DeviceFileMinor: %u\nDeviceFileMode: %u\nDeviceFileModify: 1\n", minor,
		(unsigned)mode);
}

static void node_name(uint32_t minor, char ret[NODE_NAME_MAX])
{
	(void)snprintf(ret, NODE_NAME_MAX, "nvidia-cap%u", minor);
}

/* --- static files --- */

static int write_minors(const char *dir, uint32_t gpus, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4 * 1024 * 1024);
	char at[SIM_PATH_MAX];

	buf_printf(&b, "config %d\nmonitor %d\n", SIM_CAP_CONFIG, SIM_CAP_MONITOR);
	for (uint32_t minor = CAPS_FIRST; minor < CAPS_FIRST + gpus * CAPS_OF_GPU; minor++) {
		struct cap c = cap_of_minor(minor);

		buf_printf(&b, "gpu%u/gi%u/", c.gpu_minor, c.gi);
		if (c.ci != SIM_NO_INSTANCE)
			buf_printf(&b, "ci%u/", c.ci);
		buf_printf(&b, "access %u\n", minor);
	}
	if (!buf_ok(&b))
		return error_nomem(err);
	if (path_join(at, sizeof(at), dir, "proc/driver/nvidia-caps", err) < 0 ||
		dir_make(at, 0755, err) < 0)
		return -1;
	return sim_fake_file(at, "mig-minors", buf_str(&b), b.len, 0444, err);
}

static int write_common(const char *dir, struct error *err)
{
	static const struct {
		const char *name;
		uint32_t minor;
		mode_t mode;
	} rows[] = { { "config", SIM_CAP_CONFIG, MODE_CONFIG },
		{ "monitor", SIM_CAP_MONITOR, MODE_MONITOR } };
	char dev[SIM_PATH_MAX], proc[SIM_PATH_MAX];
	char name[NODE_NAME_MAX], text[ACCESS_TEXT_MAX];

	if (path_join(dev, sizeof(dev), dir, DEV, err) < 0 || dir_make(dev, 0755, err) < 0 ||
		path_join(proc, sizeof(proc), dir, PROC "/mig", err) < 0 ||
		dir_make(proc, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		node_name(rows[i].minor, name);
		access_text(rows[i].minor, rows[i].mode, text);
		if (sim_fake_file(dev, name, "", 0, rows[i].mode, err) < 0 ||
			sim_fake_file(proc, rows[i].name, text, strlen(text), 0444, err) < 0)
			return -1;
	}
	return 0;
}

int sim_caps_write_static(const char *dir, const struct sim_node *node, struct error *err)
{
	uint32_t gpus = GPUS_LISTED;
	bool capable = false;

	for (uint32_t i = 0; i < node->head.info.slot_count; i++) {
		const struct sim_keys *k = &node->gpus[i].keys;

		if (!node->head.slots[i].present)
			continue;
		capable = capable || sim_mig_table(k);
		if (k->minor >= gpus)
			gpus = k->minor + 1;
	}
	if (!capable)
		return 0;
	return write_common(dir, err) < 0 ? -1 : write_minors(dir, gpus, err);
}

/* --- instances --- */

static int add_cap_files(const char *dir, const struct cap *c, bool recreate, struct error *err)
{
	uint32_t minor = sim_cap_minor(c->gpu_minor, c->gi, c->ci);
	char dev[SIM_PATH_MAX], path[SIM_PATH_MAX], proc[SIM_PATH_MAX];
	char name[NODE_NAME_MAX], text[ACCESS_TEXT_MAX];

	node_name(minor, name);
	access_text(minor, MODE_INSTANCE, text);
	if (path_join(dev, sizeof(dev), dir, DEV, err) < 0 ||
		path_join(path, sizeof(path), dev, name, err) < 0)
		return -1;
	if (!recreate && access(path, F_OK) == 0)
		return 0;
	if (write_cap_file(dev, name, "", MODE_INSTANCE, err) < 0 ||
		access_dir(dir, c, proc, err) < 0 || dir_make(proc, 0755, err) < 0)
		return -1;
	return write_cap_file(proc, "access", text, 0444, err);
}

static int add_gpu_caps(const char *dir, const struct sim_gpu *g, bool recreate,
	struct error *err)
{
	for (uint32_t i = 0; i < g->mig.gi_count; i++) {
		const struct sim_gi *gi = &g->mig.gis[i];
		struct cap c = { g->keys.minor, gi->id, SIM_NO_INSTANCE };

		if (add_cap_files(dir, &c, recreate, err) < 0)
			return -1;
		for (uint32_t k = 0; k < gi->ci_count; k++) {
			c.ci = gi->cis[k].id;
			if (add_cap_files(dir, &c, recreate, err) < 0)
				return -1;
		}
	}
	return 0;
}

int sim_caps_add(const char *dir, const struct sim_node *node, uint32_t slot, bool recreate,
	struct error *err)
{
	for (uint32_t i = 0; i < node->head.info.slot_count; i++)
		if ((slot == SIM_ALL_SLOTS || i == slot) && node->head.slots[i].present &&
			add_gpu_caps(dir, &node->gpus[i], recreate, err) < 0)
			return -1;
	return 0;
}

static bool gpu_has(const struct sim_gpu *g, const struct cap *c)
{
	for (uint32_t i = 0; i < g->mig.gi_count; i++) {
		const struct sim_gi *gi = &g->mig.gis[i];

		if (gi->id != c->gi)
			continue;
		for (uint32_t k = 0; k < gi->ci_count; k++)
			if (gi->cis[k].id == c->ci)
				return true;
		return c->ci == SIM_NO_INSTANCE;
	}
	return false;
}

static bool has_node_cap(const struct sim_node *node, const struct cap *c)
{
	for (uint32_t i = 0; i < node->head.info.slot_count; i++)
		if (node->head.slots[i].present && node->gpus[i].keys.minor == c->gpu_minor)
			return gpu_has(&node->gpus[i], c);
	return false;
}

static void remove_cap_files(const char *dir, const struct cap *c, const char *node)
{
	char at[SIM_PATH_MAX], file[SIM_PATH_MAX + 16];

	if (access_dir(dir, c, at, NULL) == 0) {
		(void)snprintf(file, sizeof(file), "%s/access", at);
		(void)unlink(file);
		(void)rmdir(at);
	}
	/* The directory of a GPU instance that still had compute instances: it can go now. */
	if (c->ci != SIM_NO_INSTANCE) {
		struct cap gi = { c->gpu_minor, c->gi, SIM_NO_INSTANCE };

		if (access_dir(dir, &gi, at, NULL) == 0)
			(void)rmdir(at);
	}
	(void)unlink(node);
}

void sim_caps_remove(const char *dir, const struct sim_node *node)
{
	char at[SIM_PATH_MAX], path[SIM_PATH_MAX + 300];
	const struct dirent *e;
	DIR *d;

	if (path_join(at, sizeof(at), dir, DEV, NULL) < 0 || !(d = opendir(at)))
		return;
	while ((e = readdir(d)) != NULL) {
		static const char prefix[] = "nvidia-cap";
		struct cap c;
		uint32_t minor;

		if (strncmp(e->d_name, prefix, sizeof(prefix) - 1) != 0 ||
			!parse_u32(e->d_name + sizeof(prefix) - 1, &minor) ||
			minor < CAPS_FIRST)
			continue;
		c = cap_of_minor(minor);
		if (has_node_cap(node, &c))
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", at, e->d_name);
		remove_cap_files(dir, &c, path);
	}
	(void)closedir(d);
}
