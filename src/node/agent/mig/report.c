/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/report.h"

#include "lib/base/array.h"
#include "lib/base/text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- values --- */

static int set_mig_report_error(struct error *err, const char *event, const char *key)
{
	return error_set(err, ERR_INVALID,
		"gpuslice mig: the line of event '%.20s' has no usable '%s'", event, key);
}

/* Cut to @cap bytes. A value that is no text becomes "". */
static void copy_mig_report_text(char *to, size_t cap, const json_t *text)
{
	const char *s = json_string_value(text);

	(void)snprintf(to, cap, "%s", s ? s : "");
	utf8_make_valid(to);
}

static bool parse_mig_report_number(const json_t *o, const char *key, uint32_t *ret)
{
	const json_t *v = json_object_get(o, key);
	json_int_t i = json_integer_value(v);

	if (!json_is_integer(v) || i < 0 || i > UINT32_MAX)
		return false;
	*ret = (uint32_t)i;
	return true;
}

static struct mig_report_gpu *find_mig_report_gpu(const struct mig_report *r, const char *uuid)
{
	for (uint32_t i = 0; i < r->n; i++) {
		if (!strcmp(r->gpus[i].uuid, uuid))
			return &r->gpus[i];
	}
	return NULL;
}

static struct mig_report_gpu *add_mig_report_gpu(struct mig_report *r, struct error *err)
{
	if (r->n == GPU_NODE_MAX) {
		(void)error_set(err, ERR_LIMIT, "gpuslice mig: more than %d GPUs",
			GPU_NODE_MAX);
		return NULL;
	}
	if (!ARRAY_EXTEND(&r->gpus, r->n, 1, GPU_NODE_MAX)) {
		(void)error_nomem(err);
		return NULL;
	}
	r->gpus[r->n] = (struct mig_report_gpu){ .mode = MIG_MODE_UNCHANGED };
	return &r->gpus[r->n++];
}

/* --- events --- */

static int read_stay(struct mig_report_gpu *g, const json_t *list, struct error *err)
{
	if (list && !json_is_array(list))
		return set_mig_report_error(err, "planned", "stay");
	if (json_array_size(list) > MIG_REMAINING_MAX)
		return error_set(err, ERR_LIMIT,
			"gpuslice mig: more than %d MIG devices on one GPU", MIG_REMAINING_MAX);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);

		if (!parse_mig_report_number(o, "gi", &g->remaining[g->n_remaining].gi) ||
			!parse_mig_report_number(o, "ci", &g->remaining[g->n_remaining].ci))
			return set_mig_report_error(err, "planned", "stay");
		g->n_remaining++;
	}
	return 0;
}

/* A GPU that reports its profiles only with MIG on is planned once more, after that step. */
static struct mig_report_gpu *planned_gpu(struct mig_report *r, const char *uuid,
	struct error *err)
{
	struct mig_report_gpu *g = find_mig_report_gpu(r, uuid);

	if (!g) {
		g = add_mig_report_gpu(r, err);
		if (g)
			memcpy(g->uuid, uuid, strlen(uuid) + 1);
		return g;
	}
	if (!r->stepped) {
		(void)error_set(err, ERR_INVALID, "gpuslice mig: GPU %s is planned twice",
			uuid);
		return NULL;
	}
	g->n_remaining = 0;
	return g;
}

static int on_planned(struct mig_report *r, const json_t *o, struct error *err)
{
	const char *mode = json_string_value(json_object_get(o, "mode"));
	const char *uuid = json_string_value(json_object_get(o, "uuid"));
	struct mig_report_gpu *g;

	if (!uuid || !*uuid || strlen(uuid) >= GPU_UUID_MAX)
		return set_mig_report_error(err, "planned", "uuid");
	g = planned_gpu(r, uuid, err);
	if (!g)
		return -1;
	if (!parse_mig_report_number(o, "gpu", &g->index))
		return set_mig_report_error(err, "planned", "gpu");
	if (!parse_mig_report_number(o, "steps", &g->steps))
		return set_mig_report_error(err, "planned", "steps");
	if (mode && strcmp(mode, "enable") != 0 && strcmp(mode, "disable") != 0)
		return set_mig_report_error(err, "planned", "mode");
	g->mode = !mode ? MIG_MODE_UNCHANGED : *mode == 'e' ? MIG_MODE_ON : MIG_MODE_OFF;
	return read_stay(g, json_object_get(o, "stay"), err);
}

static int on_mig_report_step(struct mig_report *r, const json_t *o, struct error *err)
{
	const char *text = json_string_value(json_object_get(o, "text"));
	uint32_t gpu;

	if (!text || !parse_mig_report_number(o, "gpu", &gpu))
		return set_mig_report_error(err, "step", text ? "gpu" : "text");
	r->stepped = true;
	(void)snprintf(r->current_step, sizeof(r->current_step), "GPU %u: %s", gpu, text);
	utf8_make_valid(r->current_step);
	return 0;
}

static int on_hook(struct mig_report *r, const json_t *o, struct error *err)
{
	const char *name = json_string_value(json_object_get(o, "name"));

	if (!name)
		return set_mig_report_error(err, "hook", "name");
	(void)snprintf(r->current_step, sizeof(r->current_step), "hook %s", name);
	utf8_make_valid(r->current_step);
	return 0;
}

static int on_note(struct mig_report *r, const json_t *o, struct error *err)
{
	(void)err;
	copy_mig_report_text(r->note, sizeof(r->note), json_object_get(o, "text"));
	return 0;
}

/* A GPU that could not be planned has only this event. A GPU that cannot even report its UUID has "" for it. */
static int on_mig_report_gpu(struct mig_report *r, const json_t *o, struct error *err)
{
	const char *uuid = json_string_value(json_object_get(o, "uuid"));
	struct mig_report_gpu *g = NULL;
	uint32_t index;

	if (!uuid || strlen(uuid) >= GPU_UUID_MAX)
		return set_mig_report_error(err, "gpu", "uuid");
	if (!parse_mig_report_number(o, "gpu", &index))
		return set_mig_report_error(err, "gpu", "gpu");
	if (*uuid)
		g = find_mig_report_gpu(r, uuid);
	if (!g) {
		g = add_mig_report_gpu(r, err);
		if (!g)
			return -1;
		memcpy(g->uuid, uuid, strlen(uuid) + 1);
		g->index = index;
	}
	copy_mig_report_text(g->result, sizeof(g->result), json_object_get(o, "result"));
	copy_mig_report_text(g->reason, sizeof(g->reason), json_object_get(o, "reason"));
	return 0;
}

static int on_mig_report_end(struct mig_report *r, const json_t *o, struct error *err)
{
	const json_t *ok = json_object_get(o, "ok");
	json_int_t calls = json_integer_value(json_object_get(o, "nvml_calls"));

	if (!json_is_boolean(ok))
		return set_mig_report_error(err, "end", "ok");
	r->ended = true;
	r->ok = json_is_true(ok);
	copy_mig_report_text(r->code, sizeof(r->code), json_object_get(o, "code"));
	copy_mig_report_text(r->reason, sizeof(r->reason), json_object_get(o, "reason"));
	r->nvml_calls = calls > 0 ? (uint64_t)calls : 0;
	return 0;
}

static const struct {
	const char *event;
	int (*take)(struct mig_report *r, const json_t *o, struct error *err);
} events[] = {
	{ "planned", on_planned },
	{ "step", on_mig_report_step },
	{ "hook", on_hook },
	{ "note", on_note },
	{ "gpu", on_mig_report_gpu },
	{ "end", on_mig_report_end },
};

static int parse_mig_report_line(struct mig_report *r, const json_t *o, struct error *err)
{
	const char *event = json_string_value(json_object_get(o, "event"));

	if (!event)
		return error_set(err, ERR_INVALID, "gpuslice mig: a line has no 'event'");
	if (r->ended)
		return error_set(err, ERR_INVALID, "gpuslice mig: a line comes after the end");
	for (size_t i = 0; i < ARRAY_LEN(events); i++) {
		if (!strcmp(events[i].event, event))
			return events[i].take(r, o, err);
	}
	return 0;
}

int mig_report_line(struct mig_report *r, const char *line, size_t len, struct error *err)
{
	json_error_t why;
	json_t *o;
	int ret;

	r->note[0] = '\0';
	if (len > MIG_LINE_MAX || ++r->lines > MIG_LINES_MAX)
		return error_set(err, ERR_LIMIT,
			"gpuslice mig: expected at most %d lines of %d bytes", MIG_LINES_MAX,
			MIG_LINE_MAX);
	o = json_loadb(line, len, JSON_REJECT_DUPLICATES, &why);
	if (!json_is_object(o)) {
		json_decref(o);
		return error_set(err, ERR_INVALID,
			"gpuslice mig: expected a JSON object, found '%.*s'",
			(int)(len < 80 ? len : 80), line);
	}
	ret = parse_mig_report_line(r, o, err);
	json_decref(o);
	return ret;
}

bool mig_report_has(const struct mig_report *r, const char *uuid)
{
	return *uuid && find_mig_report_gpu(r, uuid);
}

bool mig_report_changes(const struct mig_report *r)
{
	for (uint32_t i = 0; i < r->n; i++) {
		if (r->gpus[i].steps > 0)
			return true;
	}
	return false;
}

void mig_report_fini(struct mig_report *r)
{
	free(r->gpus);
	*r = (struct mig_report){ 0 };
}
