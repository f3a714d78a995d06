/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The driver, on the node or in a driver container. NVML is the proof. nvidia-smi runs as well if
 * present, as people will use it. Then the check covers what containers need: device nodes, /dev/char.
 */
#include "tools/validate/internal.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "tools/validate/driver/internal.h"
#include "tools/validate/files.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define SMI_TIMEOUT_NS (60 * NS_PER_SEC)
#define FLAGS_MAX      (64 * 1024)

/* Features that the driver container reports, and the kernel module of each. */
static const struct {
	const char *flag, *module;
} features[] = {
	{ "GPU_DIRECT_RDMA_ENABLED", "nvidia_peermem" },
	{ "GDS_ENABLED", "nvidia_fs" },
	{ "GDRCOPY_ENABLED", "gdrdrv" },
};

/* sysfs lists modules and built-in parts of the kernel; /proc/modules lists only modules. */
static bool is_loaded(const struct validate_settings *s, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/module/%s", or_default(s->sys_dir, "/sys"),
		       name) < (int)sizeof(path) &&
	       access(path, F_OK) == 0;
}

static bool check_features(const struct validate_settings *s, struct validate_report *r)
{
	CLEANUP(buf_fini) struct buf flags = BUF_INIT(FLAGS_MAX);
	char path[PATH_MAX];

	if (!s->status_dir || !s->status_dir[0] ||
		path_join(path, sizeof(path), s->status_dir, ".driver-ctr-ready", NULL) < 0 ||
		file_read(path, &flags, NULL) < 0)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(features); i++) {
		if (!driver_flag(buf_str(&flags), features[i].flag) ||
			is_loaded(s, features[i].module))
			continue;
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_MODULE_MISSING,
			"the driver container says %s, and the kernel module %s is not loaded",
			features[i].flag, features[i].module);
		return false;
	}
	return true;
}

static bool check_smi(const struct validate_settings *s, const struct driver_root *root,
	struct validate_report *r)
{
	struct error err = ERROR_INIT;

	if (!root->smi[0]) {
		if (s->skip_gpu_init) {
			report_set(r, VALIDATE_FAIL, VALIDATE_CODE_LIBRARY_MISSING,
				"no nvidia-smi on the node nor in the driver container's root%s%s",
				root->note[0] ? ": " : "", root->note);
			return false;
		}
		return true;
	}
	if (driver_root_smi(root, s->skip_gpu_init,
		    s->timeout_ns ? 2 * s->timeout_ns : SMI_TIMEOUT_NS, &err) == 0)
		return true;
	report_set(r, VALIDATE_FAIL,
		err.code == ERR_PERMISSION ? VALIDATE_CODE_NO_CHROOT
		: err.code == ERR_TIMEOUT  ? VALIDATE_CODE_HANGS
					   : VALIDATE_CODE_SMI_FAILS,
		"%s", err.msg);
	return false;
}

static bool check_dev(const struct validate_settings *s, const struct inventory *inv,
	const char *dev_node, const char *dev_here, struct validate_report *r)
{
	char dir[PATH_MAX], links[PATH_MAX], target[PATH_MAX], devices[PATH_MAX];
	struct error err = ERROR_INIT;
	unsigned made;

	if (path_join(dir, sizeof(dir), dev_here, "dev", &err) < 0 ||
		path_join(links, sizeof(links), dir, "char", &err) < 0 ||
		path_join(target, sizeof(target), dev_node, "dev", &err) < 0 ||
		path_join(devices, sizeof(devices), or_default(s->proc_dir, "/proc"), "devices",
			&err) < 0) {
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_INTERNAL, "%s", err.msg);
		return false;
	}
	if (dev_nodes_check(dir, devices, inv, /* make= */ true, /* all= */ true, &err) < 0) {
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_NO_DEVICE_NODE, "%s", err.msg);
		return false;
	}
	if (dev_char_link(dir, or_default(s->dev_char_dir, links), target, &made, &err) < 0) {
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_DEV_CHAR, "%s", err.msg);
		return false;
	}
	return true;
}

static void conclude_driver_report(const struct validate_settings *s,
	const struct driver_root *root, const struct inventory *inv, struct validate_report *r)
{
	const char *where =
		root->kind == DRIVER_ROOT_CONTAINER ? "in a driver container" : "on the node";

	if (s->skip_gpu_init)
		report_set(r, VALIDATE_PASS, VALIDATE_CODE_OK,
			"%s --version runs; GPUs were not touched", root->smi);
	else if (!root->smi[0])
		report_set(r, VALIDATE_CONDITION, VALIDATE_CODE_NO_SMI,
			"driver %s, %u GPU%s; no usable nvidia-smi %s%s%s", r->driver_version,
			(unsigned)inv->n, inv->n == 1 ? "" : "s", where,
			root->note[0] ? ": " : "", root->note);
	else
		report_set(r, VALIDATE_PASS, VALIDATE_CODE_OK, "driver %s %s, %u GPU%s",
			r->driver_version, where, (unsigned)inv->n, inv->n == 1 ? "" : "s");
}

void validate_driver(const struct validate_settings *s, struct validate_report *r)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct driver_root root;
	const char *dev_node, *dev_here;

	driver_root_find(s, &root);
	driver_root_dev(s, &root, &dev_node, &dev_here);
	if (!s->skip_gpu_init && report_gpus(r, s, root.here, &inv) < 0)
		return;
	if (!check_smi(s, &root, r))
		return;
	if (root.kind == DRIVER_ROOT_CONTAINER && !check_features(s, r))
		return;
	if (!s->keep_dev && !root.wsl && !s->skip_gpu_init &&
		!check_dev(s, inv, dev_node, dev_here, r))
		return;
	conclude_driver_report(s, &root, inv, r);
	files_assign(&r->ready, "IS_HOST_DRIVER",
		root.kind == DRIVER_ROOT_CONTAINER ? "false" : "true");
	files_assign(&r->ready, "NVIDIA_DRIVER_ROOT", root.node);
	files_assign(&r->ready, "DRIVER_ROOT_CTR_PATH", root.here);
	files_assign(&r->ready, "NVIDIA_DEV_ROOT", dev_node);
	files_assign(&r->ready, "DEV_ROOT_CTR_PATH", dev_here);
}

/* --- the toolkit --- */

/*
 * The container toolkit, which brings the driver into containers. So the proof is what this container
 * got: NVML in its own library path, and the device nodes. The roots of the node and of the driver
 * container do not count here.
 */
void validate_toolkit(const struct validate_settings *s, struct validate_report *r)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct error err = ERROR_INIT;
	char dir[PATH_MAX];

	if (report_gpus(r, s, /* driver_root= */ NULL, &inv) < 0) {
		if (r->code == VALIDATE_CODE_LIBRARY_MISSING)
			report_set(r, VALIDATE_FAIL, VALIDATE_CODE_NOT_INJECTED,
				"no libnvidia-ml.so.1 in this container's library path");
		return;
	}
	if (path_join(dir, sizeof(dir), or_default(s->own_root, "/"), "dev", &err) < 0 ||
		dev_nodes_check(dir, NULL, inv, /* make= */ false, /* all= */ false, &err) <
			0) {
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_NODE_NOT_INJECTED, "%s", err.msg);
		return;
	}
	report_set(r, VALIDATE_PASS, VALIDATE_CODE_OK,
		"the runtime brought in driver %s and %u GPU%s", r->driver_version,
		(unsigned)inv->n, inv->n == 1 ? "" : "s");
}
