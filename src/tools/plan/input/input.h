/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The input of a plan: files of the form `version: gpuslice/plan/v1` (docs/plan.md has every key), and Kubernetes
 * manifests (docs/plan-manifests.md). Several files add up: the workloads of all of them, and each setting from
 * one of them. A workload of a manifest and one of a plan file with the same name are one workload.
 *
 * Thread: any. Texts live as long as the input.
 */
#include "lib/base/buf.h"
#include "lib/base/cleanup.h"
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "tools/plan/plan.h"

#define PLAN_FILE_MAX    (16U << 20) /* bytes */
#define PLAN_REGIONS_MAX 32
#define PLAN_NAME_MAX    128

/* The user's own layout; the report compares it with the plan. */
struct plan_layout {
	const char *instance; /* NULL: none */
	enum plan_capacity capacity;
	enum plan_mode mode;
	uint32_t slices; /* of each GPU */
};

/* Existing nodes. */
struct plan_have {
	const char *instance;
	uint32_t count;
};

/* A warning about the files, which could be read nevertheless. */
#define PLAN_NOTES_MAX 200
struct plan_note {
	const char *file;
	uint32_t line;
	const char *code; /* docs/plan-manifests.md lists them */
	const char *text;
};

/* A sharing config found in manifests, by the name with which nodes select it. */
struct plan_sharing {
	const char *key, *file;
	uint32_t line;
	enum plan_mode mode;
	uint32_t slices;
};

/* An instance type of nodes in manifests, and the sharing config that the nodes select. */
struct plan_machine {
	const char *instance, *sharing; /* .sharing NULL: none */
	const char *file;
	uint32_t line;
	enum plan_capacity capacity;
};

#define PLAN_FOUND_MAX 1024 /* limit of each kind */

/* Costs of nodes beside their instances: nano-units per hour, and a share of the price on demand. */
struct plan_extras {
	int64_t cluster_nano, node_nano;
	double on_demand_share;
};

struct plan_input {
	struct strv pool;
	struct plan_workload *workloads;
	size_t n_workloads, room_workloads;
	struct plan_policy policy;
	struct plan_calibration *calibrations; /* memory of .policy's */
	struct strv regions;                   /* at least one after plan_input_end() */
	struct strv instances;                 /* allowed types; empty: any */
	uint32_t gpus_per_instance;            /* limit; 0: any */
	struct plan_extras extras;
	struct plan_layout layout;
	/* Instance type. NULL: that of the layout, else the cheapest without slicing. */
	const char *baseline;
	struct plan_have *have;
	size_t n_have, room_have;
	bool only_have; /* buy nothing */
	/* .layout and .baseline are from manifests: ignored if their price is unknown. */
	bool layout_found, baseline_found;
	struct plan_note *notes;
	size_t n_notes;
	/* From manifests, until plan_input_end() makes workloads and a layout from them. */
	struct plan_workload *objects;
	size_t n_objects, room_objects;
	struct plan_sharing *sharings;
	size_t n_sharings, room_sharings;
	struct plan_machine *machines;
	size_t n_machines, room_machines;
};

/* An empty input with the default policy. The caller frees it. ERR_NOMEM. */
int plan_input_new(struct plan_input **ret, struct error *err) MUST_USE;
struct plan_input *plan_input_free(struct plan_input *in); /* returns NULL */
DEFINE_CLEANUP(struct plan_input *, plan_input_free)

/* Reads the text of a file into @b; "-": standard input, also in messages. */
int plan_input_text(const char *path, struct buf *b, const char **name,
	struct error *err) MUST_USE;

/*
 * Adds the file @path to the input; "-" is standard input. Errors in a file begin with "file:line:column: ". After an
 * error the input can only be freed.
 */
int plan_input_read(struct plan_input *in, const char *path, struct error *err) MUST_USE;

/* As plan_input_read(), with @text as the file @name. */
int plan_input_parse(struct plan_input *in, const char *name, const char *text, size_t len,
	struct error *err) MUST_USE;

/* After all files: sets defaults, and makes the checks over all files. */
int plan_input_end(struct plan_input *in, struct error *err) MUST_USE;
