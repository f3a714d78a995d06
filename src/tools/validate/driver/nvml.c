/* SPDX-License-Identifier: Apache-2.0 */

/* The proof by NVML: runs the worker process of io/nvml/monitor/monitor.h with its deadlines, and
 * makes rows of its report. */
#include "tools/validate/internal.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/parse.h"
#include "io/nvml/monitor/monitor.h"
#include "abi/nvml-api.h"

/*
 * The worker's socket carries an error as class and text. The text has NVML's own number in brackets,
 * always in the same place: "nvmlInit_v2: Driver Not Loaded (9): what to do".
 */
static bool nvml_number(const char *text, uint32_t *ret)
{
	const char *open, *close;
	char digits[12];
	size_t len;

	if (strncmp(text, "nvml", 4) != 0)
		return false;
	open = strstr(text, " (");
	close = open ? strchr(open, ')') : NULL;
	if (!close)
		return false;
	len = (size_t)(close - open) - 2;
	if (len == 0 || len >= sizeof(digits))
		return false;
	memcpy(digits, open + 2, len);
	digits[len] = '\0';
	return parse_u32(digits, ret);
}

enum validate_code nvml_failure_code(const struct error *err)
{
	static const struct {
		nvmlReturn_t number;
		enum validate_code code;
	} rows[] = {
		{ NVML_ERROR_NO_PERMISSION, VALIDATE_CODE_NO_PERMISSION },
		{ NVML_ERROR_DRIVER_NOT_LOADED, VALIDATE_CODE_NOT_LOADED },
		{ NVML_ERROR_LIBRARY_NOT_FOUND, VALIDATE_CODE_LIBRARY_BAD },
		{ NVML_ERROR_GPU_IS_LOST, VALIDATE_CODE_GPU_FAULT },
		{ NVML_ERROR_LIB_RM_VERSION_MISMATCH, VALIDATE_CODE_MISMATCH },
		{ NVML_ERROR_GPU_NOT_FOUND, VALIDATE_CODE_NO_GPU },
	};
	uint32_t number;

	if (nvml_number(err->msg, &number)) {
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			if (rows[i].number == number)
				return rows[i].code;
		}
		return VALIDATE_CODE_NVML_ERROR;
	}
	if (err->code == ERR_TIMEOUT)
		return VALIDATE_CODE_HANGS;
	if (strstr(err->msg, "the NVML worker"))
		return VALIDATE_CODE_CRASHED;
	if (err->code == ERR_NOT_FOUND)
		return VALIDATE_CODE_LIBRARY_MISSING;
	return err->code == ERR_UNSUPPORTED ? VALIDATE_CODE_LIBRARY_BAD
					    : VALIDATE_CODE_NVML_ERROR;
}

static enum validate_code fault_code(const struct gpu *g)
{
	return g->fault == GPU_FAULT_STUCK ? VALIDATE_CODE_HANGS : VALIDATE_CODE_GPU_FAULT;
}

static void add_gpu_item(struct validate_report *r, const struct gpu *g)
{
	char name[32];
	struct validate_item *item;

	(void)snprintf(name, sizeof(name), "GPU %u", (unsigned)g->index);
	item = report_item(r, g->uuid[0] ? g->uuid : name);
	if (!item)
		return;
	(void)snprintf(item->detail, sizeof(item->detail), "%s %.90s",
		g->bus_id[0] ? g->bus_id : "?", g->name);
	if (g->fault == GPU_OK)
		return;
	item->result = VALIDATE_FAIL;
	item->code = fault_code(g);
	report_text(item->text, sizeof(item->text), g->reason);
	if (r->result != VALIDATE_FAIL)
		report_set(r, VALIDATE_FAIL, item->code, "GPU %u (%s): %s", (unsigned)g->index,
			g->bus_id[0] ? g->bus_id : "bus id unknown", g->reason);
}

int report_gpus(struct validate_report *r, const struct validate_settings *s,
	const char *driver_root, struct inventory **ret)
{
	const struct gpu_monitor_options options = {
		.nvml_path = s->nvml_path,
		.driver_root = driver_root,
		.procfs_root = s->proc_dir,
		.call_timeout_ns = s->timeout_ns,
	};
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct error err = ERROR_INIT;

	if (gpu_inventory_once(&inv, &options, &err) < 0) {
		report_set(r, VALIDATE_FAIL, nvml_failure_code(&err), "%s", err.msg);
		return -1;
	}
	report_text(r->driver_version, sizeof(r->driver_version), inv->driver_version);
	for (uint32_t i = 0; i < inv->n; i++)
		add_gpu_item(r, &inv->gpus[i]);
	if (inv->n == 0)
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_NO_GPU,
			"driver %s works and has no GPU", r->driver_version);
	if (r->result == VALIDATE_FAIL)
		return -1;
	*ret = STEAL_PTR(inv);
	return 0;
}
