/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/validate/validate.h"

#include "lib/base/paths.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "tools/validate/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- names and advice of the codes --- */

static const struct {
	const char *name, *advice;
} rows[VALIDATE_CODE_COUNT_] = {
#define X(id, name, advice) [VALIDATE_CODE_##id] = { name, advice },
	VALIDATE_CODES(X)
#undef X
};

const char *validate_code_name(enum validate_code code)
{
	return rows[code < VALIDATE_CODE_COUNT_ ? code : VALIDATE_CODE_INTERNAL].name;
}

const char *validate_code_advice(enum validate_code code)
{
	return rows[code < VALIDATE_CODE_COUNT_ ? code : VALIDATE_CODE_INTERNAL].advice;
}

/* --- components --- */

static const struct {
	const char *name;
	void (*run)(const struct validate_settings *s, struct validate_report *r);
} components[VALIDATE_COUNT_] = {
	[VALIDATE_DRIVER] = { "driver", validate_driver },
	[VALIDATE_TOOLKIT] = { "toolkit", validate_toolkit },
	[VALIDATE_CDI] = { "cdi", validate_cdi },
	[VALIDATE_CUDA] = { "cuda", validate_cuda },
	[VALIDATE_PLUGIN] = { "plugin", validate_plugin },
};

/* Components of the GPU operator's validator that gpuslice does not validate, sorted. */
static const struct {
	const char *name, *advice;
} others[] = {
	{ "cc-manager",
		"it belongs to confidential computing; keep the operator's validator for it" },
	{ "gdrcopy",
		"look for gdrdrv in /sys/module; 'driver' does so when the driver container has GDRCopy" },
	{ "metrics",
		"the JSON file of each component has result, code and time; a node exporter can read it" },
	{ "mofed", "the network operator validates its driver" },
	{ "nvidia-fs",
		"look for nvidia_fs in /sys/module; 'driver' does so when the driver container has GDS" },
	{ "nvidia-peermem",
		"look for nvidia_peermem in /sys/module; 'driver' does so when the driver container has GPUDirect RDMA" },
	{ "vfio-pci",
		"it belongs to GPUs for virtual machines; keep the operator's validator for it" },
	{ "vgpu-devices",
		"it belongs to GPUs for virtual machines; keep the operator's validator for it" },
	{ "vgpu-manager",
		"it belongs to GPUs for virtual machines; keep the operator's validator for it" },
};

const char *validate_component_name(enum validate_component c)
{
	return c < VALIDATE_COUNT_ ? components[c].name : "?";
}

const char *validate_result_name(enum validate_result r)
{
	static const char *const names[] = {
		[VALIDATE_PASS] = "pass",
		[VALIDATE_CONDITION] = "condition",
		[VALIDATE_SKIP] = "skipped",
		[VALIDATE_FAIL] = "fail",
	};

	return r < ARRAY_LEN(names) ? names[r] : "?";
}

bool validate_component_find(const char *name, enum validate_component *ret,
	const char **ret_advice)
{
	*ret_advice = NULL;
	for (int i = 0; i < VALIDATE_COUNT_; i++) {
		if (strcmp(components[i].name, name) == 0) {
			*ret = (enum validate_component)i;
			return true;
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		if (strcmp(others[i].name, name) == 0)
			*ret_advice = others[i].advice;
	}
	return false;
}

static bool has_file_in_dir(const char *dir, const char *name)
{
	char path[4096];

	return path_join(path, sizeof(path), dir, name, NULL) == 0 && access(path, F_OK) == 0;
}

bool validate_applies(enum validate_component c, const struct validate_settings *s, char *why,
	size_t cap)
{
	const char *text = NULL;

	if (c == VALIDATE_TOOLKIT && strcmp(or_default(s->host_ctr, "/"), "/") == 0)
		text = "this is no container with the node mounted, so no runtime is at work";
	else if (c == VALIDATE_CDI && !validate_cdi_has_spec(s))
		text = "no CDI spec of NVIDIA GPUs on this node";
	else if (c == VALIDATE_PLUGIN && s->require.n == 0 &&
		 !has_file_in_dir(or_default(s->run_dir, DEFAULT_RUN_DIR), AGENT_SOCKET) &&
		 !has_file_in_dir(or_default(s->kubelet_dir, DEFAULT_KUBELET_DIR),
			 "pod-resources/kubelet.sock"))
		text = "neither an agent nor a kubelet runs here";
	if (text)
		(void)snprintf(why, cap, "%s", text);
	return !text;
}

void validate_component(enum validate_component c, const struct validate_settings *s,
	struct validate_report *ret)
{
	uint64_t start = time_mono_ns();

	validate_report_init(ret, c);
	components[c].run(s, ret);
	ret->took_ns = time_mono_ns() - start;
}

/* --- reports --- */

void validate_report_init(struct validate_report *r, enum validate_component c)
{
	*r = (struct validate_report){ .component = c,
		.at_wall_ns = time_wall_ns(),
		.ready = BUF_INIT(VALIDATE_READY_MAX) };
}

void validate_report_fini(struct validate_report *r)
{
	free(r->items);
	buf_fini(&r->ready);
	*r = (struct validate_report){ .items = NULL };
}

void report_text(char *to, size_t cap, const char *from)
{
	size_t n = 0;

	for (; *from && n + 1 < cap; from++)
		to[n++] = (unsigned char)*from < 0x20 || (unsigned char)*from >= 0x7f ? '?'
										      : *from;
	to[n] = '\0';
}

void report_set(struct validate_report *r, enum validate_result result, enum validate_code code,
	const char *fmt, ...)
{
	char text[sizeof(r->text)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	report_text(r->text, sizeof(r->text), text);
	r->result = result;
	r->code = code;
}

struct validate_item *report_item(struct validate_report *r, const char *name)
{
	struct validate_item *item;

	if (!r->items)
		r->items = calloc(VALIDATE_ITEMS_MAX, sizeof(*r->items));
	if (!r->items || r->n_items == VALIDATE_ITEMS_MAX) {
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_INTERNAL,
			r->items ? "more than %d GPUs or resources"
				 : "out of memory for %d rows",
			VALIDATE_ITEMS_MAX);
		return NULL;
	}
	item = &r->items[r->n_items++];
	report_text(item->name, sizeof(item->name), name);
	return item;
}
