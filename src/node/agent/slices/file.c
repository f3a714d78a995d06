/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/slices/file.h"

#include "abi/slice-dir.h"
#include "abi/slice-page.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define FILE_VERSION   1
#define FILE_DEVICES   4096
#define FILE_UUID_CHAR "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-/"

/* SLICE_COMPUTE_NONE has no key. */
static const char *const
	compute_names[] = { [SLICE_COMPUTE_FAIR_SHARE] = "turns", [SLICE_COMPUTE_MPS] = "mps" };
static const char *const
	class_names[] = { [SLICE_CLASS_BATCH] = "batch", [SLICE_CLASS_LATENCY] = "latency" };
static const char
	*const unhooked_names[] = { [UNHOOKED_REPORT] = "report", [UNHOOKED_STOP] = "stop" };

bool slice_id_ok(const char *id)
{
	return strlen(id) == SLICE_ID_DIGITS &&
	       strspn(id, "0123456789abcdef") == SLICE_ID_DIGITS;
}

bool slice_lib_name_ok(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len < SLICE_LIB_NAME_MAX && name[0] != '.' &&
	       strspn(name,
		       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-") ==
		       len;
}

void slice_file_fini(struct slice_file *f)
{
	strv_fini(&f->devices);
}

static int set_slice_file_error(struct error *err, const char *key, const char *expected)
{
	return error_set(err, ERR_INVALID, "%s: expected %s", key, expected);
}

static int parse_slice_text(char *to, size_t cap, const json_t *root, const char *key,
	struct error *err)
{
	const char *text = json_string_value(json_object_get(root, key));

	if (!text || strlen(text) >= cap)
		return set_slice_file_error(err, key, "a text that is not too long");
	memcpy(to, text, strlen(text) + 1);
	return 0;
}

/* A whole number from 1 to @max; absent: *ret stays. */
static int parse_slice_number(uint32_t *ret, const json_t *o, const char *key, const char *path,
	uint32_t max, const char *expected, struct error *err)
{
	const json_t *v = json_object_get(o, key);

	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > max)
		return set_slice_file_error(err, path, expected);
	*ret = (uint32_t)json_integer_value(v);
	return 0;
}

static int parse_slice_gpu(struct slice_gpu *g, const json_t *o, struct error *err)
{
	const json_t *memory = json_object_get(o, "memory");

	if (parse_slice_text(g->uuid, sizeof(g->uuid), o, "uuid", err) < 0)
		return -1;
	if (!*g->uuid || g->uuid[strspn(g->uuid, FILE_UUID_CHAR)])
		return set_slice_file_error(err, "gpus[].uuid", "a UUID");
	g->memory = SLICE_NO_LIMIT;
	g->weight = 1;
	g->cap = 0;
	if (parse_slice_number(&g->weight, o, "weight", "gpus[].weight", SLICE_WEIGHT_MAX,
		    "from 1 to 10000", err) < 0 ||
		parse_slice_number(&g->cap, o, "cap", "gpus[].cap", SLICE_CAP_ALL,
			"from 1 to 1000000", err) < 0)
		return -1;
	if (!memory)
		return 0;
	if (!json_is_integer(memory) || json_integer_value(memory) <= 0)
		return set_slice_file_error(err, "gpus[].memory", "a number of bytes");
	g->memory = (uint64_t)json_integer_value(memory);
	return 0;
}

static int parse_slice_plan(struct slice_plan *plan, const json_t *root, struct error *err)
{
	const json_t *gpus = json_object_get(root, "gpus");
	const char *unhooked = json_string_value(json_object_get(root, "unhooked"));
	const char *compute = json_string_value(json_object_get(root, "compute"));
	const char *class = json_string_value(json_object_get(root, "class"));
	size_t n = json_array_size(gpus);

	if (n == 0 || n > SLICE_GPUS_MAX)
		return set_slice_file_error(err, "gpus", "a list of 1 to 16 GPUs");
	for (; plan->n < n; plan->n++)
		if (parse_slice_gpu(&plan->gpus[plan->n], json_array_get(gpus, plan->n), err) <
			0)
			return -1;
	plan->wanted = true;
	for (size_t i = SLICE_COMPUTE_FAIR_SHARE; compute && i < ARRAY_LEN(compute_names); i++)
		if (!strcmp(compute, compute_names[i]))
			plan->compute = (enum slice_compute)i;
	plan->class_ = class && !strcmp(class, class_names[SLICE_CLASS_LATENCY])
			       ? SLICE_CLASS_LATENCY
			       : SLICE_CLASS_BATCH;
	plan->unhooked = unhooked && !strcmp(unhooked, unhooked_names[UNHOOKED_STOP])
				 ? UNHOOKED_STOP
				 : UNHOOKED_REPORT;
	return 0;
}

static int parse_slice_devices(struct strv *to, const json_t *list, struct error *err)
{
	size_t n = json_array_size(list);

	if (n == 0 || n > FILE_DEVICES)
		return set_slice_file_error(err, "devices", "a list of device IDs");
	for (size_t i = 0; i < n; i++) {
		const char *id = json_string_value(json_array_get(list, i));

		if (!id || !*id || strlen(id) >= DEVICE_ID_MAX)
			return set_slice_file_error(err, "devices", "a list of device IDs");
		if (strv_add(to, id, err) < 0)
			return -1;
	}
	return 0;
}

static int parse_slice_fields(struct slice_file *f, const json_t *root, struct error *err)
{
	const json_t *created = json_object_get(root, "created");

	if (json_integer_value(json_object_get(root, "version")) != FILE_VERSION)
		return set_slice_file_error(err, "version", "1");
	if (parse_slice_text(f->id, sizeof(f->id), root, "id", err) < 0 ||
		parse_slice_text(f->resource, sizeof(f->resource), root, "resource", err) < 0)
		return -1;
	if (!slice_id_ok(f->id))
		return set_slice_file_error(err, "id", "32 hexadecimal digits");
	if (json_object_get(root, "lib") &&
		parse_slice_text(f->lib, sizeof(f->lib), root, "lib", err) < 0)
		return -1;
	if (*f->lib && !slice_lib_name_ok(f->lib))
		return set_slice_file_error(err, "lib", "the name of a directory");
	if (json_is_integer(created) && json_integer_value(created) > 0)
		f->created_s = (uint64_t)json_integer_value(created);
	if (parse_slice_devices(&f->devices, json_object_get(root, "devices"), err) < 0)
		return -1;
	return parse_slice_plan(&f->plan, root, err);
}

int slice_file_parse(struct slice_file *ret, const char *json, size_t len, struct error *err)
{
	json_error_t where;
	json_t *root;
	int r;

	*ret = (struct slice_file){ .devices = STRV_INIT };
	if (len > SLICE_FILE_MAX)
		return error_set(err, ERR_LIMIT, "longer than %d bytes", SLICE_FILE_MAX);
	root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &where);
	if (!root)
		return error_set(err, ERR_INVALID, "no JSON: line %d, column %d: %s",
			where.line, where.column, where.text);
	r = parse_slice_fields(ret, root, err);
	json_decref(root);
	if (r < 0)
		slice_file_fini(ret);
	return r;
}

static json_t *format_slice_gpu(const struct slice_plan *plan, const struct slice_gpu *g)
{
	json_t *o = json_pack("{s:s}", "uuid", g->uuid);
	size_t keys = 1;

	if (g->memory != SLICE_NO_LIMIT && ++keys)
		(void)json_object_set_new(o, "memory", json_integer((json_int_t)g->memory));
	if (plan->compute != SLICE_COMPUTE_NONE && ++keys)
		(void)json_object_set_new(o, "weight", json_integer(g->weight));
	if (plan->compute != SLICE_COMPUTE_NONE && g->cap && ++keys)
		(void)json_object_set_new(o, "cap", json_integer(g->cap));
	if (json_object_size(o) == keys)
		return o;
	json_decref(o);
	return NULL;
}

char *slice_file_text(const struct slice_file *f)
{
	const struct slice_plan *plan = &f->plan;
	const bool compute = plan->compute != SLICE_COMPUTE_NONE;
	json_t *root = json_object(), *devices = json_array(), *gpus = json_array();
	char *text = NULL;

	for (size_t i = 0; i < f->devices.n; i++)
		(void)json_array_append_new(devices, json_string(f->devices.v[i]));
	for (uint32_t i = 0; i < plan->n; i++)
		(void)json_array_append_new(gpus, format_slice_gpu(plan, &plan->gpus[i]));
	(void)json_object_set_new(root, "version", json_integer(FILE_VERSION));
	(void)json_object_set_new(root, "id", json_string(f->id));
	(void)json_object_set_new(root, "resource", json_string(f->resource));
	(void)json_object_set_new(root, "devices", devices);
	(void)json_object_set_new(root, "gpus", gpus);
	if (compute) {
		(void)json_object_set_new(root, "compute",
			json_string(compute_names[plan->compute]));
		(void)json_object_set_new(root, "class",
			json_string(class_names[plan->class_]));
	}
	(void)json_object_set_new(root, "unhooked",
		json_string(unhooked_names[plan->unhooked]));
	(void)json_object_set_new(root, "lib", json_string(f->lib));
	(void)json_object_set_new(root, "created", json_integer((json_int_t)f->created_s));
	/* The whole text or none: a part of it could be a slice without a limit. */
	if (json_object_size(root) == (compute ? 10 : 8) &&
		json_array_size(devices) == f->devices.n && json_array_size(gpus) == plan->n)
		text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}
