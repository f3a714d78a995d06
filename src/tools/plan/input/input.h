/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is to be planned: files of the form `version: gpuslice/plan/v1` (docs/plan.md has every key), and Kubernetes
 * manifests (docs/plan-manifests.md). Several files add up: workloads of all of them, and each setting from one of
 * them. A workload of a manifest and one of a plan file with the same name are one.
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

/* What the user has in mind, to be costed and checked before the plan. */
struct plan_layout {
	const char *instance; /* NULL: none */
	enum plan_capacity capacity;
	enum plan_mode mode;
	uint32_t slices; /* of each GPU */
};

/* Nodes that are there already. */
struct plan_have {
	const char *instance;
	uint32_t count;
};

/* What somebody should know of the files, though they could be read. */
#define PLAN_NOTES_MAX 200
struct plan_note {
	const char *file;
	uint32_t line;
	const char *code; /* docs/plan-manifests.md lists them */
	const char *text;
};

/* Ways to share that were found in manifests, by the name that nodes choose them by. */
struct plan_sharing {
	const char *key, *file;
	uint32_t line;
	enum plan_mode mode;
	uint32_t slices;
};

/* An instance type that manifests make nodes of, and the sharing that they choose. */
struct plan_machine {
	const char *instance, *sharing; /* .sharing NULL: none */
	const char *file;
	uint32_t line;
	enum plan_capacity capacity;
};

#define PLAN_FOUND_MAX 1024 /* of each */

/* What nodes cost beside their instances: nano-units an hour, and a share of their price on demand. */
struct plan_extras {
	int64_t cluster_nano, node_nano;
	double on_demand_share;
};

struct plan_input {
	struct strv pool;
	struct plan_workload *workloads;
	size_t n_workloads, cap;
	struct plan_policy policy;
	struct plan_calibration *calibrations; /* of .policy */
	struct strv regions;                   /* at least one once all is read */
	struct strv instances;                 /* only these types; empty: any */
	uint32_t gpus_per_instance;            /* at most; 0: any */
	struct plan_extras extras;
	struct plan_layout layout;
	const char *
		baseline; /* instance type; NULL: the layout's, else the cheapest without slicing */
	struct plan_have *have;
	size_t n_have;
	bool only_have; /* nothing may be bought */
	bool layout_found,
		baseline_found; /* in manifests: of no account where no price is known */
	struct plan_note *notes;
	size_t n_notes;
	/* From manifests, until plan_input_end() makes workloads and a layout of them. */
	struct plan_workload *objects;
	size_t n_objects;
	struct plan_sharing *sharings;
	size_t n_sharings;
	struct plan_machine *machines;
	size_t n_machines;
};

int plan_input_new(struct plan_input **ret, struct error *err) MUST_USE;
struct plan_input *plan_input_free(struct plan_input *in); /* returns NULL */
DEFINE_CLEANUP(struct plan_input *, plan_input_free)

/* Errors begin with "file:line:column: ". After one the input is good for nothing. */
/* The text of a file into @b; "-": of the standard input, which messages call "standard input". */
int plan_input_text(const char *path, struct buf *b, const char **name,
	struct error *err) MUST_USE;

int plan_input_read(struct plan_input *in, const char *path, struct error *err) MUST_USE;

/* The same with @text as the file @name. */
int plan_input_parse(struct plan_input *in, const char *name, const char *text, size_t len,
	struct error *err) MUST_USE;

/* After all files: defaults, and what can only be seen then. */
int plan_input_end(struct plan_input *in, struct error *err) MUST_USE;
