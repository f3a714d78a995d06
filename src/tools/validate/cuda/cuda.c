/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA: a vector add on every GPU, in a process that may hang or crash.
 *
 * GPUs without MIG. One process tests them all, as most of the time goes into its start. A GPU may
 * hang, crash the process or hide the GPUs after it. Each GPU that is then untested gets a process of
 * its own. UUIDs name the GPUs, so the orders of NVML and CUDA do not matter.
 *
 * MIG. A CUDA process sees one MIG device, so each MIG device gets a process of its own. A GPU in MIG
 * mode without instances is no CUDA device, which is no failure.
 */
#include "tools/validate/internal.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/time.h"
#include "tools/validate/cuda/internal.h"

/* The limit of a pass: programs on libcudart call more of the driver, which a simulated driver
 * lacks. */
#define DRIVER_ONLY " (CUDA driver API only: the CUDA runtime was not tried)"

#define LIST_MAX (CUDA_DEVICES_MAX * (GPU_UUID_MAX + 1))

struct cuda_check {
	const struct validate_settings *s;
	struct validate_report *r;
};

static enum validate_code get_cuda_code(int value)
{
	static const struct {
		int value;
		enum validate_code code;
	} rows[] = {
		{ CUDA_NOTE_NO_LIBRARY, VALIDATE_CODE_CUDA_MISSING },
		{ CUDA_NOTE_BAD_LIBRARY, VALIDATE_CODE_CUDA_MISSING },
		{ CUDA_NOTE_WRONG_SUM, VALIDATE_CODE_CUDA_WRONG },
		{ CUDA_SUCCESS, VALIDATE_CODE_OK },
		{ CUDA_ERROR_OUT_OF_MEMORY, VALIDATE_CODE_CUDA_MEMORY },
		{ CUDA_ERROR_STUB_LIBRARY, VALIDATE_CODE_CUDA_MISSING },
		{ CUDA_ERROR_DEVICE_UNAVAILABLE, VALIDATE_CODE_CUDA_BUSY },
		{ CUDA_ERROR_NO_DEVICE, VALIDATE_CODE_CUDA_NO_DEVICE },
		{ CUDA_ERROR_INVALID_DEVICE, VALIDATE_CODE_CUDA_NO_DEVICE },
		{ CUDA_ERROR_NO_BINARY_FOR_GPU, VALIDATE_CODE_CUDA_JIT },
		{ CUDA_ERROR_INVALID_PTX, VALIDATE_CODE_CUDA_JIT },
		{ CUDA_ERROR_JIT_COMPILER_NOT_FOUND, VALIDATE_CODE_CUDA_JIT },
		{ CUDA_ERROR_UNSUPPORTED_PTX_VERSION, VALIDATE_CODE_CUDA_JIT },
		{ CUDA_ERROR_JIT_COMPILATION_DISABLED, VALIDATE_CODE_CUDA_JIT },
		{ CUDA_ERROR_SYSTEM_NOT_READY, VALIDATE_CODE_CUDA_NOT_READY },
		{ CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, VALIDATE_CODE_CUDA_MISMATCH },
		{ CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, VALIDATE_CODE_CUDA_MISMATCH },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].value == value)
			return rows[i].code;
	}
	return VALIDATE_CODE_CUDA_ERROR;
}

/* "cuInit: CUDA_ERROR_NO_DEVICE, no CUDA-capable device is detected (100)". */
static void format_cuda_note(const struct cuda_note *n, char *ret, size_t cap)
{
	char text[256];

	if (n->value > 0)
		(void)snprintf(text, sizeof(text), "%s: %s (%d)", cuda_step_name(n->step),
			n->text[0] ? n->text : "unknown result", (int)n->value);
	else
		(void)snprintf(text, sizeof(text), "%s", n->text);
	report_text(ret, cap, text);
}

static void fail_item(struct validate_item *item, enum validate_code code, const char *text)
{
	item->result = VALIDATE_FAIL;
	item->code = code;
	report_text(item->text, sizeof(item->text), text);
}

static void fill_item_from_note(struct validate_item *item, const struct cuda_note *n)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "%s %.90s", n->bus_id, n->name);
	report_text(item->detail, sizeof(item->detail), text);
	item->took_ns = n->took_ns ? n->took_ns : 1;
	if (n->value == CUDA_SUCCESS) {
		item->result = VALIDATE_PASS;
		item->code = VALIDATE_CODE_OK;
		return;
	}
	format_cuda_note(n, text, sizeof(text));
	fail_item(item, get_cuda_code(n->value), text);
}

/* Describes the end of a run: "cuLaunchKernel did not come back in time", or the CUDA process's last
 * note. */
static enum validate_code describe_run_end(const struct cuda_run *run, char *ret, size_t cap)
{
	if (run->end == CUDA_END_HUNG) {
		(void)snprintf(ret, cap, "%s did not come back in time",
			cuda_step_name(run->last.step));
		return VALIDATE_CODE_HANGS;
	}
	if (run->end == CUDA_END_CRASHED) {
		(void)snprintf(ret, cap, "the CUDA process %s in %s", run->how,
			cuda_step_name(run->last.step));
		return VALIDATE_CODE_CRASHED;
	}
	format_cuda_note(&run->last, ret, cap);
	return get_cuda_code(run->last.value);
}

/* --- GPUs that NVML has named --- */

/* Runs CUDA on the GPUs of the rows @items. A row keeps took_ns 0 until there is a result for it. */
static int run_rows(const struct cuda_check *c, struct validate_item *const *items, size_t n,
	struct cuda_run *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf list = BUF_INIT(LIST_MAX);

	for (size_t i = 0; i < n; i++)
		buf_printf(&list, "%s%s", i ? "," : "", items[i]->name);
	if (!buf_ok(&list))
		return error_nomem(err);
	if (cuda_run(ret, c->s->cuda_path, buf_str(&list), c->s->timeout_ns, err) < 0)
		return -1;
	for (size_t k = 0; k < ret->n_results; k++) {
		for (size_t i = 0; i < n; i++) {
			/* With one row the result is of that row: a MIG device may have another form
			 * of UUID. */
			if (n == 1 || strcmp(items[i]->name, ret->results[k].uuid) == 0)
				fill_item_from_note(items[i], &ret->results[k]);
		}
	}
	/* CUDA numbers its devices in the order of the list. */
	if (ret->end != CUDA_END_REPORTED && ret->count > 0 && ret->last.device < n &&
		ret->last.type != CUDA_NOTE_COUNT && !items[ret->last.device]->took_ns) {
		char text[256];
		enum validate_code code = describe_run_end(ret, text, sizeof(text));

		fail_item(items[ret->last.device], code, text);
		items[ret->last.device]->took_ns = 1;
	}
	return 0;
}

static bool has_no_devices(const struct cuda_run *run)
{
	return run->end == CUDA_END_REPORTED &&
	       (run->count == 0 || run->last.value == CUDA_ERROR_NO_DEVICE);
}

/* Whether the end of the run concerns all GPUs and not single ones. */
static bool is_general(const struct cuda_run *run)
{
	return run->count < 0 && !has_no_devices(run);
}

static void retest_single_gpu(const struct cuda_check *c, struct validate_item *item)
{
	CLEANUP(cuda_run_fini) struct cuda_run run = { .count = -1 };
	struct error err = ERROR_INIT;
	char text[256];

	if (run_rows(c, &item, 1, &run, &err) < 0)
		fail_item(item, VALIDATE_CODE_INTERNAL, err.msg);
	else if (!item->took_ns && has_no_devices(&run))
		fail_item(item, VALIDATE_CODE_CUDA_HIDDEN, "CUDA does not see it");
	else if (!item->took_ns) {
		enum validate_code code = describe_run_end(&run, text, sizeof(text));

		fail_item(item, code, text);
	}
}

/* Tests all GPUs in one process, then each untested GPU alone. < 0: the report has an error that
 * concerns all. */
static int check_whole_gpus(const struct cuda_check *c, struct validate_item *const *items,
	size_t n)
{
	CLEANUP(cuda_run_fini) struct cuda_run run = { .count = -1 };
	struct error err = ERROR_INIT;
	char text[256];

	if (n == 0)
		return 0;
	if (run_rows(c, items, n, &run, &err) < 0) {
		report_set(c->r, VALIDATE_FAIL, VALIDATE_CODE_INTERNAL, "%s", err.msg);
		return -1;
	}
	if (is_general(&run)) {
		enum validate_code code = describe_run_end(&run, text, sizeof(text));

		report_set(c->r, VALIDATE_FAIL, code, "%s", text);
		return -1;
	}
	for (size_t i = 0; i < n; i++) {
		if (!items[i]->took_ns)
			retest_single_gpu(c, items[i]);
	}
	return 0;
}

/* --- MIG --- */

/* Whether the GPU has compute instances: the driver lists their capabilities. */
static bool has_instances(const struct validate_settings *s, const struct gpu *g)
{
	char pattern[PATH_MAX];
	glob_t found = { .gl_pathc = 0 };
	bool any;

	(void)snprintf(pattern, sizeof(pattern),
		"%s/driver/nvidia/capabilities/gpu%u/mig/gi*/ci*",
		or_default(s->proc_dir, "/proc"), (unsigned)g->minor);
	any = glob(pattern, GLOB_NOSORT, NULL, &found) == 0 && found.gl_pathc > 0;
	globfree(&found);
	return any;
}

/* A field that NVML could not read matters to the plugin. Here only a missing UUID prevents the
 * test. */
static void check_cuda_mig_device(const struct cuda_check *c, const struct gpu *g,
	const struct gpu_mig *m)
{
	struct validate_item *item;
	char name[VALIDATE_NAME_MAX];

	(void)snprintf(name, sizeof(name), "MIG device %u:%u", (unsigned)g->index,
		(unsigned)m->index);
	item = report_item(c->r, m->uuid[0] ? m->uuid : name);
	if (!item)
		return;
	(void)snprintf(item->detail, sizeof(item->detail), "%s %s", g->bus_id, m->profile);
	if (m->uuid[0])
		retest_single_gpu(c, item);
	else
		fail_item(item, VALIDATE_CODE_NVML_ERROR, m->reason);
}

static void check_cuda_mig_gpu(const struct cuda_check *c, const struct inventory *inv,
	uint32_t position)
{
	const struct gpu *g = &inv->gpus[position];
	struct validate_item *item = &c->r->items[position];
	unsigned n = 0;

	for (uint32_t i = 0; i < inv->n_mig; i++) {
		if (inv->mig[i].gpu != position)
			continue;
		check_cuda_mig_device(c, g, &inv->mig[i]);
		n++;
	}
	if (n > 0) { /* their rows have the results */
		(void)snprintf(item->text, sizeof(item->text), "in MIG mode: %u MIG device%s",
			n, n == 1 ? "" : "s");
		return;
	}
	retest_single_gpu(c, item);
	if (item->code == VALIDATE_CODE_CUDA_HIDDEN && !has_instances(c->s, g)) {
		item->result = VALIDATE_CONDITION;
		item->code = VALIDATE_CODE_NO_COMPUTE;
		(void)snprintf(item->text, sizeof(item->text),
			"MIG is enabled and has no instance");
	}
}

/* --- the verdict --- */

static void conclude_cuda_report(struct validate_report *r)
{
	const struct validate_item *bad = NULL;
	size_t passed = 0, empty = 0;

	for (size_t i = 0; i < r->n_items; i++) {
		const struct validate_item *item = &r->items[i];

		if (item->result == VALIDATE_FAIL && !bad)
			bad = item;
		else if (item->result == VALIDATE_CONDITION)
			empty++;
		else if (item->result == VALIDATE_PASS)
			passed++;
	}
	if (bad)
		report_set(r, VALIDATE_FAIL, bad->code, "%s: %s", bad->name, bad->text);
	else if (passed == 0)
		report_set(r, VALIDATE_CONDITION, VALIDATE_CODE_NO_COMPUTE,
			"no compute device configured: %zu GPU%s in MIG mode without instances",
			empty, empty == 1 ? "" : "s");
	else if (empty > 0)
		report_set(r, VALIDATE_CONDITION, VALIDATE_CODE_NO_COMPUTE,
			"%zu device%s added vectors right; %zu GPU%s in MIG mode without "
			"instances" DRIVER_ONLY,
			passed, passed == 1 ? "" : "s", empty, empty == 1 ? "" : "s");
	else
		report_set(r, VALIDATE_PASS, VALIDATE_CODE_OK,
			"%zu device%s added vectors right" DRIVER_ONLY, passed,
			passed == 1 ? "" : "s");
}

void validate_cuda_gpus(const struct validate_settings *s, const struct inventory *inv,
	struct validate_report *r)
{
	const struct cuda_check c = { .s = s, .r = r };
	CLEANUP(freep) struct validate_item **whole = calloc(GPU_NODE_MAX, sizeof(*whole));
	size_t n = 0;

	if (!whole) {
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_INTERNAL, "out of memory");
		return;
	}
	for (uint32_t i = 0; i < inv->n; i++) {
		/* NVML's result for a GPU is not CUDA's. */
		r->items[i].result = VALIDATE_SKIP;
		if (!inv->gpus[i].mig_enabled)
			whole[n++] = &r->items[i];
	}
	if (check_whole_gpus(&c, whole, n) < 0)
		return;
	for (uint32_t i = 0; i < inv->n; i++) {
		if (inv->gpus[i].mig_enabled)
			check_cuda_mig_gpu(&c, inv, i);
	}
	conclude_cuda_report(r);
}

/* Tests the devices that CUDA shows: NVML's list is missing, or CUDA_VISIBLE_DEVICES has a
 * selection. */
static void check_unknown(const struct cuda_check *c)
{
	CLEANUP(cuda_run_fini) struct cuda_run run = { .count = -1 };
	struct error err = ERROR_INIT;
	struct validate_item *item;
	char text[256];

	if (cuda_run(&run, c->s->cuda_path, NULL, c->s->timeout_ns, &err) < 0) {
		report_set(c->r, VALIDATE_FAIL, VALIDATE_CODE_INTERNAL, "%s", err.msg);
		return;
	}
	for (size_t i = 0; i < run.n_results; i++) {
		item = report_item(c->r, run.results[i].uuid);
		if (item)
			fill_item_from_note(item, &run.results[i]);
	}
	if (run.end != CUDA_END_REPORTED || run.last.value != CUDA_SUCCESS) {
		enum validate_code code = describe_run_end(&run, text, sizeof(text));

		report_set(c->r, VALIDATE_FAIL, code, "%s", text);
	} else if (run.n_results == 0) {
		report_set(c->r, VALIDATE_FAIL, VALIDATE_CODE_CUDA_NO_DEVICE,
			"CUDA sees no device");
	} else {
		conclude_cuda_report(c->r);
	}
}

/* Whether the driver itself failed, so that a CUDA test adds nothing. */
static bool is_final(enum validate_code code)
{
	return code == VALIDATE_CODE_NOT_LOADED || code == VALIDATE_CODE_MISMATCH ||
	       code == VALIDATE_CODE_HANGS || code == VALIDATE_CODE_GPU_FAULT ||
	       code == VALIDATE_CODE_NO_GPU;
}

void validate_cuda(const struct validate_settings *s, struct validate_report *r)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	const struct cuda_check c = { .s = s, .r = r };

	if (s->no_workload) {
		report_set(r, VALIDATE_CONDITION, VALIDATE_CODE_NO_WORKLOAD,
			"no GPU was given work, as told");
		return;
	}
	if (getenv("CUDA_VISIBLE_DEVICES")) {
		check_unknown(&c);
		return;
	}
	if (report_gpus(r, s, or_default(s->host_ctr, "/"), &inv) == 0) {
		validate_cuda_gpus(s, inv, r);
		return;
	}
	if (is_final(r->code))
		return;
	r->n_items = 0;
	r->result = VALIDATE_PASS;
	check_unknown(&c);
}
