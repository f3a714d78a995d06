/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Does this node's GPU stack work? One component at a time: driver, toolkit, cdi, cuda, plugin.
 *
 * A validation never fails to give a report: what goes wrong is in it, as a code with a text and an
 * advice. What may hang or crash (NVML, CUDA, nvidia-smi) runs in processes of its own with a
 * deadline, so a report comes whatever the driver does. No pod is created and no GPU resource is
 * used up. Files that other pods wait for are tools/validate/files.h; the loop that waits and watches is
 * tools/validate/run.h.
 * Thread: main; blocks.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "tools/validate/codes.h"

#include <stdbool.h>
#include <stdint.h>

/* In the order in which they build on each other. */
enum validate_component {
	VALIDATE_DRIVER,
	VALIDATE_TOOLKIT,
	VALIDATE_CDI,
	VALIDATE_CUDA,
	VALIDATE_PLUGIN,
	VALIDATE_COUNT_,
};

/* Paths are borrowed for the length of a call; "" and NULL are the same. */
struct validate_settings {
	const char *host_root; /* of the node, as the node has it: "/" */
	const char *host_ctr; /* where this process sees it: "/host"; "/" without a container */
	const char *driver_dir,
		*driver_ctr;    /* the driver container's root: on the node, here */
	const char *own_root;   /* "/"; its dev/ has the nodes that this container was given */
	const char *status_dir; /* where .driver-ctr-ready would be; NULL: nowhere */
	const char *dev_char_dir;          /* NULL: dev/char of the device root */
	const char *proc_dir, *sys_dir;    /* "/proc", "/sys" */
	const char *nvml_path, *cuda_path; /* libraries; NULL: where the component looks */
	const char *run_dir;               /* of the agent */
	const char *kubelet_dir;
	struct strv cdi_dirs;
	struct strv require; /* "RESOURCE" or "RESOURCE=COUNT" */
	bool keep_dev;       /* leave device nodes and /dev/char alone */
	bool skip_gpu_init;  /* only nvidia-smi --version: GPUs may be bound to vfio */
	bool no_workload;    /* cuda: say yes without work */
	uint64_t timeout_ns; /* one call into the driver; 0: 30 s for CUDA, 5 s for NVML */
};

enum validate_result {
	VALIDATE_PASS,
	VALIDATE_CONDITION, /* a pass with something that one should know */
	VALIDATE_SKIP,      /* not looked at: .text says why */
	VALIDATE_FAIL,
};

#define VALIDATE_ITEMS_MAX 512
#define VALIDATE_NAME_MAX  128
#define VALIDATE_READY_MAX 8192 /* bytes of driver-ready */

/* One GPU, resource or device of a report. */
struct validate_item {
	char name[VALIDATE_NAME_MAX];   /* UUID or resource name */
	char detail[VALIDATE_NAME_MAX]; /* bus id and model, or counts */
	enum validate_result result;
	enum validate_code code;
	char text[256];
	uint64_t took_ns; /* 0: not measured */
};

struct validate_report {
	enum validate_component component;
	enum validate_result result;
	enum validate_code code;
	char text[ERROR_MSG_MAX]; /* one line: what was found */
	char driver_version[80];  /* "" if not known */
	uint64_t took_ns, at_wall_ns;
	struct validate_item *items; /* yours through the report */
	size_t n_items;
	struct buf ready; /* content of the status file */
};

const char *validate_component_name(enum validate_component c); /* "driver"; static */
const char *validate_result_name(enum validate_result r);       /* "pass"; static */

/*
 * False: no such component; then *ret_advice is what to do instead if it is one of the GPU
 * operator's that is not done here, else NULL. Static.
 */
bool validate_component_find(const char *name, enum validate_component *ret,
	const char **ret_advice);

/* "RESOURCE" or "RESOURCE=COUNT"; without a count it is 1. False: it is neither. */
bool validate_require_parse(const char *text, char *ret_name, size_t cap, uint64_t *ret_count);

/* Whether the component makes sense on this machine; if not, @why (of @cap bytes) says why. */
bool validate_applies(enum validate_component c, const struct validate_settings *s, char *why,
	size_t cap);

/* Validates one component. Writes no status file. *ret is yours: validate_report_fini(). */
void validate_component(enum validate_component c, const struct validate_settings *s,
	struct validate_report *ret);

void validate_report_init(struct validate_report *r, enum validate_component c);
void validate_report_fini(struct validate_report *r);
