/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the components. Inside src/tools/validate only. Thread: main. */
#include "model/gpu/gpu.h"
#include "tools/validate/validate.h"

/* The components. Each sets the result of @r, which is initialized, and adds its rows. */
void validate_driver(const struct validate_settings *s, struct validate_report *r);
void validate_toolkit(const struct validate_settings *s, struct validate_report *r);
void validate_cdi(const struct validate_settings *s, struct validate_report *r);
void validate_cuda(const struct validate_settings *s, struct validate_report *r);
void validate_plugin(const struct validate_settings *s, struct validate_report *r);

/* Tests CUDA on the GPUs of @inv, which are the first rows of @r in the same order. */
void validate_cuda_gpus(const struct validate_settings *s, const struct inventory *inv,
	struct validate_report *r);

/* Whether a CDI specification of NVIDIA GPUs exists, or one that cannot be read. */
bool validate_cdi_has_spec(const struct validate_settings *s);

/* Sets the result. Cuts the text to its room and replaces control characters. */
void report_set(struct validate_report *r, enum validate_result result, enum validate_code code,
	const char *fmt, ...) PRINTF(4, 5);

/* Adds a zeroed row; borrowed. NULL: no room or memory; the report then has that error. */
struct validate_item *report_item(struct validate_report *r, const char *name);

/* Copies foreign text: unprintable and non-ASCII bytes become '?', text that is too long is cut. */
void report_text(char *to, size_t cap, const char *from);

/*
 * Reads the node's GPUs through NVML, below @driver_root (NULL: none). Adds one row for each GPU. An
 * unhealthy GPU fails the report. < 0: the report has the reason.
 */
int report_gpus(struct validate_report *r, const struct validate_settings *s,
	const char *driver_root, struct inventory **ret) MUST_USE;

/* The code for an error of gpu_inventory_once(). */
enum validate_code nvml_failure_code(const struct error *err);

static inline const char *or_default(const char *text, const char *def)
{
	return text && text[0] ? text : def;
}
