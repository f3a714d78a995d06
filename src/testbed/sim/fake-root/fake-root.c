/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/fake-root/fake-root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "testbed/sim/location.h"

/* The files of one PCI device that programs read, in the kernel's format. */
struct sys_file {
	const char *name;
	char text[64];
};

/*
 * Writes the whole file or nothing, since several processes may make the node at once. Without the fsync of
 * file_write_atomic(): no node survives a crash of the machine.
 */
int sim_fake_file(const char *dir, const char *name, const void *data, size_t len, mode_t mode,
	struct error *err)
{
	char path[SIM_PATH_MAX], temp[SIM_PATH_MAX + 16];
	CLEANUP(closep) int fd = -1;

	if (path_join(path, sizeof(path), dir, name, err) < 0)
		return -1;
	if (access(path, F_OK) == 0)
		return 0;
	(void)snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return error_sys(err, errno, "create '%s'", temp);
	if (fd_write_all(fd, data, len, err) == 0 && fchmod(fd, mode) == 0 &&
		rename(temp, path) == 0)
		return 0;
	(void)unlink(temp);
	return error_sys(err, errno, "write '%s'", path);
}

static int write_root_file(const char *dir, const char *name, const char *text,
	struct error *err)
{
	return sim_fake_file(dir, name, text, strlen(text), 0644, err);
}

/* DIR/sys/bus/pci/devices/0000:00:1e.0: four digits of domain, lower case. */
static int sys_dir(const char *dir, const struct sim_keys *k, char *ret, struct error *err)
{
	char rel[64];

	(void)snprintf(rel, sizeof(rel), "sys/bus/pci/devices/%04x:%02x:%02x.0", k->pci_domain,
		k->pci_bus, k->pci_device);
	return path_join(ret, SIM_PATH_MAX, dir, rel, err);
}

#define SYS_FILES 5

static void sys_files(const struct sim_keys *k, struct sys_file *f)
{
	static const char *const names[SYS_FILES] = { "numa_node", "class", "vendor", "device",
		"local_cpulist" };

	for (int i = 0; i < SYS_FILES; i++)
		f[i] = (struct sys_file){ .name = names[i] };
	(void)snprintf(f[0].text, sizeof(f[0].text), "%d\n", k->numa_node);
	(void)snprintf(f[1].text, sizeof(f[1].text), "0x030200\n");
	(void)snprintf(f[2].text, sizeof(f[2].text), "0x%04x\n", SIM_PCI_VENDOR);
	(void)snprintf(f[3].text, sizeof(f[3].text), "0x%04x\n", k->pci_device_id);
	(void)snprintf(f[4].text, sizeof(f[4].text), "0-15\n");
}

/* The GPU's graphics nodes: the names that the kernel links to, which are also the node names. */
static void drm_names(const struct sim_keys *k, char (*ret)[24])
{
	(void)snprintf(ret[0], sizeof(ret[0]), "card%u", k->minor + 1);
	(void)snprintf(ret[1], sizeof(ret[1]), "renderD%u", k->minor + 128);
}

static int write_drm(const char *sys, const char *dev, const struct sim_keys *k,
	struct error *err)
{
	char names[2][24], drm[SIM_PATH_MAX], dri[SIM_PATH_MAX], path[SIM_PATH_MAX];

	drm_names(k, names);
	if (path_join(drm, sizeof(drm), sys, "drm", err) < 0 ||
		path_join(dri, sizeof(dri), dev, "dri", err) < 0 ||
		dir_make(dri, 0755, err) < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		if (path_join(path, sizeof(path), drm, names[i], err) < 0 ||
			dir_make(path, 0755, err) < 0 ||
			sim_fake_file(dri, names[i], "", 0, 0666, err) < 0)
			return -1;
	return 0;
}

static int write_gpu(const char *dir, const char *dev, const struct sim_keys *k,
	struct error *err)
{
	struct sys_file files[SYS_FILES];
	char path[SIM_PATH_MAX], name[32];

	if (sys_dir(dir, k, path, err) < 0 || dir_make(path, 0755, err) < 0)
		return -1;
	sys_files(k, files);
	for (int i = 0; i < SYS_FILES; i++)
		if (write_root_file(path, files[i].name, files[i].text, err) < 0)
			return -1;
	(void)snprintf(name, sizeof(name), "nvidia%u", k->minor);
	return write_root_file(dev, name, "", err) < 0 ? -1 : write_drm(path, dev, k, err);
}

int sim_fake_root_write(const char *dir, const struct sim_node *node, struct error *err)
{
	static const char *const common[] = { "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools",
		"nvidia-modeset" };
	char dev[SIM_PATH_MAX];

	if (path_join(dev, sizeof(dev), dir, "dev", err) < 0 || dir_make(dev, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(common); i++)
		if (write_root_file(dev, common[i], "", err) < 0)
			return -1;
	for (uint32_t i = 0; i < node->head.info.slot_count; i++)
		if (node->head.slots[i].present &&
			write_gpu(dir, dev, &node->gpus[i].keys, err) < 0)
			return -1;
	if (sim_caps_write_static(dir, node, err) < 0 ||
		sim_caps_add(dir, node, SIM_ALL_SLOTS, false, err) < 0)
		return -1;
	return sim_fake_driver_write(dir, node->head.driver_version, err);
}

void sim_fake_root_remove(const char *dir, const struct sim_keys *keys)
{
	struct sys_file files[SYS_FILES];
	char path[SIM_PATH_MAX], file[SIM_PATH_MAX + 64], drm[2][24];

	if (sys_dir(dir, keys, path, NULL) < 0)
		return;
	drm_names(keys, drm);
	for (int i = 0; i < 2; i++) {
		(void)snprintf(file, sizeof(file), "%s/drm/%s", path, drm[i]);
		(void)rmdir(file);
		(void)snprintf(file, sizeof(file), "%s/dev/dri/%s", dir, drm[i]);
		(void)unlink(file);
	}
	(void)snprintf(file, sizeof(file), "%s/drm", path);
	(void)rmdir(file);
	sys_files(keys, files);
	for (int i = 0; i < SYS_FILES; i++) {
		(void)snprintf(file, sizeof(file), "%s/%s", path, files[i].name);
		(void)unlink(file);
	}
	(void)rmdir(path);
	(void)snprintf(file, sizeof(file), "%s/proc/driver/nvidia/capabilities/gpu%u/mig", dir,
		keys->minor);
	(void)rmdir(file);
	file[strlen(file) - strlen("/mig")] = '\0';
	(void)rmdir(file);
	(void)snprintf(file, sizeof(file), "%s/dev/nvidia%u", dir, keys->minor);
	(void)unlink(file);
}
