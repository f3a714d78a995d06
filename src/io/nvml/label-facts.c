/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/label-facts.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/fd.h"
#include "model/gpu/vgpu.h"

#define PCI_VENDOR_NVIDIA "0x10de"
#define PATH_CAP          512

void label_facts_fini(struct label_facts_store *s)
{
	free(s->machine);
	*s = (struct label_facts_store){ 0 };
}

/* Removes blanks at both ends: sysfs and people end a file with a line feed. */
static char *copy_trimmed_text(const char *text)
{
	size_t len;

	text += strspn(text, " \t\r\n\v\f");
	len = strlen(text);
	while (len && strchr(" \t\r\n\v\f", text[len - 1]))
		len--;
	return strndup(text, len);
}

static int read_machine(char **ret, const char *path, struct strv *notes, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MACHINE_TYPE_MAX);
	struct error why = ERROR_INIT;

	*ret = NULL;
	if (!path || !path[0])
		return 0;
	if (file_read(path, &b, &why) < 0) {
		error_prefix(&why, "machine type");
		return notes ? strv_add(notes, why.msg, err) : 0;
	}
	*ret = copy_trimmed_text(buf_str(&b));
	return *ret ? 0 : error_nomem(err);
}

static int device_path(char *ret, const char *sysfs, const char *device, const char *file)
{
	int n = snprintf(ret, PATH_CAP, "%s/bus/pci/devices/%s%s%s", sysfs, device,
		file[0] ? "/" : "", file);

	return n > 0 && n < PATH_CAP ? 0 : -1;
}

static bool is_nvidia(const char *sysfs, const char *device)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64);
	char path[PATH_CAP];

	return device_path(path, sysfs, device, "vendor") == 0 &&
	       file_read(path, &b, NULL) >= 0 &&
	       strncmp(buf_str(&b), PCI_VENDOR_NVIDIA, strlen(PCI_VENDOR_NVIDIA)) == 0;
}

static int read_vgpu_device(struct vgpu *ret, const char *sysfs, const char *device,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(PCI_CONFIG_MAX);
	char path[PATH_CAP];

	if (device_path(path, sysfs, device, "config") < 0)
		return error_set(err, ERR_LIMIT, "path of PCI device '%s' is too long", device);
	if (file_read(path, &b, err) < 0)
		return -1;
	if (vgpu_parse(ret, b.data, b.len, err) < 0)
		return error_prefix(err, "read '%s'", path);
	return 0;
}

static int compare_dir_entries(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int select_device(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/*
 * Reads all NVIDIA devices or fails: a device that cannot be read may be the vGPU. The first vGPU by PCI address
 * represents the node, since the guests of one host have one host driver.
 */
static int read_vgpus(struct vgpu *ret, const char *sysfs, struct error *err)
{
	struct dirent **devices = NULL;
	char path[PATH_CAP];
	int n, r = 0;

	if (device_path(path, sysfs, "", "") < 0)
		return error_set(err, ERR_LIMIT, "path of sysfs is too long");
	n = scandir(path, &devices, select_device, compare_dir_entries);
	if (n < 0)
		return error_sys(err, errno, "read directory '%s'", path);
	*ret = (struct vgpu){ .state = VGPU_ABSENT };
	for (int i = 0; i < n; i++) {
		struct vgpu v;

		if (r >= 0 && is_nvidia(sysfs, devices[i]->d_name)) {
			r = read_vgpu_device(&v, sysfs, devices[i]->d_name, err);
			if (r >= 0 && v.state == VGPU_PRESENT && ret->state != VGPU_PRESENT)
				*ret = v;
		}
		free(devices[i]);
	}
	free(devices);
	return r;
}

int label_facts_read(struct label_facts_store *s, const char *machine_file, const char *sysfs,
	struct strv *notes, struct error *err)
{
	struct vgpu v = { .state = VGPU_UNKNOWN };
	struct error why = ERROR_INIT;
	CLEANUP(freep) char *machine = NULL;

	if (read_machine(&machine, machine_file, notes, err) < 0)
		return -1;
	if (read_vgpus(&v, sysfs && sysfs[0] ? sysfs : "/sys", &why) < 0) {
		v = (struct vgpu){ .state = VGPU_UNKNOWN };
		error_prefix(&why, "no vgpu labels");
		if (notes && strv_add(notes, why.msg, err) < 0)
			return -1;
	}
	free(s->machine);
	s->machine = STEAL_PTR(machine);
	s->facts.machine = s->machine;
	s->facts.vgpu = v.state;
	memcpy(s->facts.vgpu_host_version, v.host_version, sizeof(v.host_version));
	memcpy(s->facts.vgpu_host_branch, v.host_branch, sizeof(v.host_branch));
	return 0;
}
