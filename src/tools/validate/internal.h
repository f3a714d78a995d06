/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the components share. Nothing outside src/tools/validate includes this. Thread: main. */
#include "model/gpu/gpu.h"
#include "tools/validate/validate.h"

void validate_driver(const struct validate_settings *s, struct validate_report *r);
void validate_toolkit(const struct validate_settings *s, struct validate_report *r);
void validate_cdi(const struct validate_settings *s, struct validate_report *r);
void validate_cuda(const struct validate_settings *s, struct validate_report *r);
void validate_plugin(const struct validate_settings *s, struct validate_report *r);

/* CUDA on the GPUs of @inv, which are the first rows of @r in the same order. */
void validate_cuda_gpus(const struct validate_settings *s, const struct inventory *inv,
	struct validate_report *r);

bool validate_cdi_has_spec(const struct validate_settings *s);

/* Sets the verdict; the text is cut to its room, with control characters replaced. */
void report_set(struct validate_report *r, enum validate_result result, enum validate_code code,
	const char *fmt, ...) PRINTF(4, 5);

/* A new zeroed row, borrowed; NULL if there is no room or memory (then the report says so). */
struct validate_item *report_item(struct validate_report *r, const char *name);

/* Copies foreign text: control characters become '?', what is too long is cut. */
void report_text(char *to, size_t cap, const char *from);

/*
 * The node's GPUs through NVML, below @driver_root if there is one. < 0: the report says why. One
 * row for each GPU is added; rows of GPUs that are not well make the report fail.
 */
int report_gpus(struct validate_report *r, const struct validate_settings *s,
	const char *driver_root, struct inventory **ret) MUST_USE;

/* The code of an error of gpu_inventory_once(). */
enum validate_code nvml_failure_code(const struct error *err);

static inline const char *or_default(const char *text, const char *def)
{
	return text && text[0] ? text : def;
}
