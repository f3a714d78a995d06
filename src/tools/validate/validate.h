/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Does this node's GPU stack work? One component at a time: driver, toolkit, cdi, cuda, plugin.
 *
 * A validation always gives a report. A failure is in the report, as a code with text and advice. Code
 * that may hang or crash (NVML, CUDA, nvidia-smi) runs in processes of its own with a deadline, so the
 * driver cannot prevent a report. A validation creates no pod and allocates no GPU resource.
 *
 * tools/validate/files.h has the files that other pods wait for.
 * Thread: main; blocks.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "tools/validate/codes.h"

#include <stdbool.h>
#include <stdint.h>

/* In the order in which they depend on each other. */
enum validate_component {
	VALIDATE_DRIVER,
	VALIDATE_TOOLKIT,
	VALIDATE_CDI,
	VALIDATE_CUDA,
	VALIDATE_PLUGIN,
	VALIDATE_COUNT_,
};

/* A call borrows the paths; "" means the same as NULL. */
struct validate_settings {
	const char *host_root; /* the node's root, as a path on the node: "/" */
	const char *host_ctr;  /* that root in this process: "/host"; "/" without a container */
	/* The driver container's root: on the node, and in this process. */
	const char *driver_dir, *driver_ctr;
	const char *own_root;              /* "/"; its dev/ has the nodes of this container */
	const char *status_dir;            /* directory of .driver-ctr-ready; NULL: none */
	const char *dev_char_dir;          /* NULL: dev/char of the device root */
	const char *proc_dir, *sys_dir;    /* "/proc", "/sys" */
	const char *nvml_path, *cuda_path; /* libraries; NULL: the component's default */
	const char *run_dir;               /* of the agent */
	const char *kubelet_dir;
	struct strv cdi_dirs;
	struct strv require; /* "RESOURCE" or "RESOURCE=COUNT" */
	bool keep_dev;       /* driver: do not make or check device nodes and /dev/char */
	bool skip_gpu_init;  /* only nvidia-smi --version: GPUs may be bound to vfio */
	bool no_workload;    /* cuda: pass without a test */
	uint64_t timeout_ns; /* limit of one driver call; 0: 30 s for CUDA, 5 s for NVML */
};

enum validate_result {
	VALIDATE_PASS,
	VALIDATE_CONDITION, /* a pass with a condition that users should know */
	VALIDATE_SKIP,      /* not validated: .text has the reason */
	VALIDATE_FAIL,
};

#define VALIDATE_ITEMS_MAX 512
#define VALIDATE_NAME_MAX  128
#define VALIDATE_READY_MAX 8192 /* limit of the ready file, bytes */

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
	char text[ERROR_MSG_MAX]; /* one line: the finding */
	char driver_version[80];  /* "": unknown */
	uint64_t took_ns, at_wall_ns;
	struct validate_item *items; /* owned by the report */
	size_t n_items;
	struct buf ready; /* content of the status file */
};

const char *validate_component_name(enum validate_component c); /* "driver"; static */
const char *validate_result_name(enum validate_result r);       /* "pass"; static */

/*
 * False: no such component. Then *ret_advice is the alternative to a component of the GPU operator's
 * validator that gpuslice does not validate, else NULL. Static.
 */
bool validate_component_find(const char *name, enum validate_component *ret,
	const char **ret_advice);

/* "RESOURCE" or "RESOURCE=COUNT"; COUNT is 1 by default. False: malformed. */
bool validate_require_parse(const char *text, char *ret_name, size_t cap, uint64_t *ret_count);

/* Whether the component applies to this machine; if not, @why (of @cap bytes) has the reason. */
bool validate_applies(enum validate_component c, const struct validate_settings *s, char *why,
	size_t cap);

/* Validates one component. Writes no status file. The caller releases *ret: validate_report_fini(). */
void validate_component(enum validate_component c, const struct validate_settings *s,
	struct validate_report *ret);

/* An empty report with the present time. The caller releases it by validate_report_fini(). */
void validate_report_init(struct validate_report *r, enum validate_component c);
void validate_report_fini(struct validate_report *r);

/* --- rounds --- */

/*
 * Validates components one after the other, writes the status files, waits, watches.
 *
 * Round. A failure skips the components after it. With .wait a failed component runs again after
 * .interval_ns, or as soon as a relevant directory changes (inotify).
 *
 * Watch. After the first round the watcher validates the components every .watch_ns; a failure skips
 * none there. A component that fails .watch_failures times in a row loses its ready file, and gets it
 * back at the next pass. The next round repeats a failed write of files.
 *
 * Signals. SIGTERM and SIGINT end both waiting and watching; a watcher then removes the files of its
 * components. A signal while a component runs ends the process at once: a watcher with status 0,
 * otherwise with 1.
 */

struct run_options {
	enum validate_component list[VALIDATE_COUNT_];
	size_t n;
	bool skip;              /* skip components that do not apply to this machine */
	const char *output_dir; /* for the status files; NULL or "": none */
	bool cleanup;           /* remove all status files first */
	bool wait;
	uint64_t interval_ns; /* between tries */
	uint64_t watch_ns;    /* between rounds; 0: do not watch */
	uint64_t watch_failures;
	/* Receives progress lines without a line feed; NULL: none. */
	void (*progress)(const char *line);
};

#define RUN_ENDED 1 /* by a signal */

/*
 * One round. Fills @reports[options->n] with the results; the caller releases the reports whatever
 * this returns. RUN_ENDED: a signal came. < 0: the round could not start.
 */
int run_round(const struct run_options *options, const struct validate_settings *settings,
	struct validate_report *reports, struct error *err) MUST_USE;

/* Repeats rounds until a signal comes; returns RUN_ENDED. @reports are those of the last round. < 0:
 * the first round could not start. */
int run_watch(const struct run_options *options, const struct validate_settings *settings,
	struct validate_report *reports, struct error *err) MUST_USE;

/* --- the process that calls CUDA --- */

/*
 * The process that calls CUDA. `gpuslice validate` starts its own program again with the words
 * validate and CUDA_CHILD_WORD, and with a packet socket as descriptor 3 (tools/validate/cuda/internal.h).
 * The process may hang or crash at any time.
 */

#define CUDA_CHILD_WORD "cuda-child"

/* Opens @library (NULL or "": by its SONAME), adds vectors on each device, sends the results.
 * Returns the exit status. */
int cuda_child(const char *library);
