/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/slices/file.h"

#include "abi/slice-dir.h"
#include "node/arbiter/grants/grants.h"
#include "model/sched/sched.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* The file that is read, for messages. */
struct slice_file_reader {
	const char *path;
	struct error *err;
};

static const char *get_json_type_name(const json_t *j)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "a list",
		[JSON_STRING] = "a text",
		[JSON_INTEGER] = "a number",
		[JSON_REAL] = "a number with a fraction",
		[JSON_TRUE] = "true",
		[JSON_FALSE] = "false",
		[JSON_NULL] = "null",
	};

	return j ? names[json_typeof(j)] : "nothing";
}

static int set_slice_def_error(const struct slice_file_reader *r, const char *key,
	const char *what, const json_t *found)
{
	if (json_is_integer(found))
		return error_set(r->err, ERR_INVALID, "%s: %s: expected %s, found %lld",
			r->path, key, what, (long long)json_integer_value(found));
	if (json_is_string(found))
		return error_set(r->err, ERR_INVALID, "%s: %s: expected %s, found '%.64s'",
			r->path, key, what, json_string_value(found));
	return error_set(r->err, ERR_INVALID, "%s: %s: expected %s, found %s", r->path, key,
		what, get_json_type_name(found));
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool slice_id_valid(const char *id)
{
	size_t n = strspn(id, "0123456789abcdef");

	return n == 32 && !id[n];
}

bool slice_uuid_parse(const char *text, uint8_t *ret)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	uint8_t uuid[SLICE_UUID_BYTES] = { 0 };
	unsigned int n = 0;

	if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0)
		return false;
	text += 4;
	if (strlen(text) != sizeof(form) - 1)
		return false;
	for (size_t i = 0; i < sizeof(form) - 1; i++) {
		int digit = hex_digit(text[i]);

		if (form[i] == '-') {
			if (text[i] != '-')
				return false;
			continue;
		}
		if (digit < 0)
			return false;
		uuid[n / 2] = (uint8_t)(uuid[n / 2] << 4 | digit);
		n++;
	}
	memcpy(ret, uuid, sizeof(uuid));
	return true;
}

static int parse_slice_def_text(const struct slice_file_reader *r, const json_t *top,
	const char *key, char *ret, size_t cap)
{
	const json_t *j = json_object_get(top, key);
	char what[64];

	(void)snprintf(what, sizeof(what), "a text of at most %zu bytes", cap - 1);
	if (!json_is_string(j) || json_string_length(j) >= cap)
		return set_slice_def_error(r, key, what, json_is_string(j) ? NULL : j);
	memcpy(ret, json_string_value(j), json_string_length(j) + 1);
	return 0;
}

static int parse_slice_def_devices(const struct slice_file_reader *r, struct slice_def *d,
	const json_t *top)
{
	const json_t *list = json_object_get(top, "devices"), *one;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list) || json_array_size(list) > SLICE_DEF_DEVICES_MAX)
		return set_slice_def_error(r, "devices", "a list of at most 1024 device IDs",
			list);
	json_array_foreach(list, i, one)
	{
		char key[48];

		(void)snprintf(key, sizeof(key), "devices[%zu]", i);
		if (!json_is_string(one) || json_string_length(one) >= SLICE_DEF_RESOURCE_MAX)
			return set_slice_def_error(r, key, "a device ID", one);
		if (strv_add(&d->devices, json_string_value(one), r->err) < 0)
			return -1;
	}
	return 0;
}

/* A number from 1 to @max in a GPU's object; @def if absent. */
static int read_share(const struct slice_file_reader *r, size_t i, const json_t *gpu,
	const char *name, uint32_t max, uint32_t def, uint32_t *ret)
{
	const json_t *j = json_object_get(gpu, name);
	char key[48], what[48];

	*ret = def;
	if (!j)
		return 0;
	(void)snprintf(key, sizeof(key), "gpus[%zu].%s", i, name);
	(void)snprintf(what, sizeof(what), "a number from 1 to %u", max);
	if (!json_is_integer(j) || json_integer_value(j) < 1 || json_integer_value(j) > max)
		return set_slice_def_error(r, key, what, j);
	*ret = (uint32_t)json_integer_value(j);
	return 0;
}

static int parse_slice_def_gpu(const struct slice_file_reader *r, struct slice_def *d, size_t i,
	const json_t *one)
{
	const json_t *uuid = json_object_get(one, "uuid"),
		     *memory = json_object_get(one, "memory");
	char key[48];

	(void)snprintf(key, sizeof(key), "gpus[%zu]", i);
	if (!json_is_object(one))
		return set_slice_def_error(r, key, "an object", one);
	(void)snprintf(key, sizeof(key), "gpus[%zu].uuid", i);
	if (!json_is_string(uuid) ||
		!slice_uuid_parse(json_string_value(uuid), d->gpus[i].uuid))
		return set_slice_def_error(r, key, "GPU- or MIG- and a UUID", uuid);
	memcpy(d->gpus[i].text, json_string_value(uuid), SLICE_UUID_TEXT);
	for (size_t k = 0; k < i; k++) {
		if (!memcmp(d->gpus[k].uuid, d->gpus[i].uuid, SLICE_UUID_BYTES))
			return set_slice_def_error(r, key, "each GPU once", uuid);
	}
	if (read_share(r, i, one, "weight", SLICE_WEIGHT_MAX, 1, &d->gpus[i].weight) < 0 ||
		read_share(r, i, one, "cap", SLICE_CAP_ALL, 0, &d->gpus[i].cap) < 0)
		return -1;
	d->gpus[i].limit = SLICE_NO_LIMIT;
	if (!memory)
		return 0;
	(void)snprintf(key, sizeof(key), "gpus[%zu].memory", i);
	if (!json_is_integer(memory) || json_integer_value(memory) < 1 ||
		(uint64_t)json_integer_value(memory) > GRANTS_BYTES_MAX)
		return set_slice_def_error(r, key, "bytes, from 1 to 2^48", memory);
	d->gpus[i].limit = (uint64_t)json_integer_value(memory);
	return 0;
}

static int parse_slice_def_gpus(const struct slice_file_reader *r, struct slice_def *d,
	const json_t *top)
{
	const json_t *list = json_object_get(top, "gpus"), *one;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) < 1 ||
		json_array_size(list) > SLICE_GPUS_MAX)
		return set_slice_def_error(r, "gpus", "a list of 1 to 16 GPUs", list);
	json_array_foreach(list, i, one)
	{
		if (parse_slice_def_gpu(r, d, i, one) < 0)
			return -1;
	}
	d->n_gpus = (unsigned int)json_array_size(list);
	return 0;
}

/* *ret: whether the value is @second. An absent key means @first. */
static int read_choice(const struct slice_file_reader *r, const json_t *top, const char *key,
	const char *first, const char *second, bool *ret)
{
	const json_t *j = json_object_get(top, key);
	const char *word = j ? json_string_value(j) : first;
	char what[64];

	(void)snprintf(what, sizeof(what), "%s or %s", first, second);
	if (!word || (strcmp(word, first) != 0 && strcmp(word, second) != 0))
		return set_slice_def_error(r, key, what, j);
	*ret = !strcmp(word, second);
	return 0;
}

static int read_compute(const struct slice_file_reader *r, struct slice_def *d,
	const json_t *top)
{
	const json_t *j = json_object_get(top, "compute");
	const char *word = json_string_value(j);

	d->has_compute = j != NULL;
	d->mps = word && !strcmp(word, "mps");
	if (j && !d->mps && (!word || strcmp(word, "turns") != 0))
		return set_slice_def_error(r, "compute", "turns or mps, or no such key", j);
	return read_choice(r, top, "class", "batch", "latency", &d->latency);
}

static int parse_slice_def_object(const struct slice_file_reader *r, struct slice_def *d,
	const char *id, const json_t *top)
{
	const json_t *version = json_object_get(top, "version");

	if (!json_is_object(top))
		return set_slice_def_error(r, "the file", "an object", top);
	if (!json_is_integer(version) || json_integer_value(version) != 1)
		return set_slice_def_error(r, "version", "1", version);
	if (parse_slice_def_text(r, top, "id", d->id, sizeof(d->id)) < 0)
		return -1;
	if (strcmp(d->id, id) != 0)
		return set_slice_def_error(r, "id", "the name of its directory",
			json_object_get(top, "id"));
	if (parse_slice_def_text(r, top, "resource", d->resource, sizeof(d->resource)) < 0 ||
		parse_slice_def_devices(r, d, top) < 0 || parse_slice_def_gpus(r, d, top) < 0 ||
		read_compute(r, d, top) < 0)
		return -1;
	return read_choice(r, top, "unhooked", "report", "stop", &d->stop_unhooked);
}

int slice_def_read(struct slice_def *ret, const char *path, const char *id, const char *text,
	size_t len, struct error *err)
{
	const struct slice_file_reader r = { .path = path, .err = err };
	json_error_t where;
	json_t *top;
	int result;

	memset(ret, 0, sizeof(*ret));
	if (len > SLICE_FILE_MAX)
		return error_set(err, ERR_LIMIT, "%s: more than %d bytes", path,
			SLICE_FILE_MAX);
	top = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
	if (!top)
		return error_set(err, ERR_INVALID, "%s:%d:%d: %s", path, where.line,
			where.column, where.text);
	result = parse_slice_def_object(&r, ret, id, top);
	json_decref(top);
	if (result < 0)
		slice_def_fini(ret);
	return result;
}

void slice_def_fini(struct slice_def *d)
{
	strv_fini(&d->devices);
	memset(d, 0, sizeof(*d));
}
