/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/control/request.h"

#include "abi/arbiter-control.h"
#include "node/arbiter/slices/file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SEQ_MAX (INT64_C(1) << 53)

static int set_request_error(struct error *err, const char *what)
{
	return error_set(err, ERR_INVALID, "control: expected %s", what);
}

static int compare_reading_pids(const void *a, const void *b)
{
	const struct reading_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* A process that is listed twice gets the larger figure. */
static void sort_processes(struct reading_gpu *g)
{
	size_t n = 0;

	if (g->n > 1)
		qsort(g->processes, g->n, sizeof(g->processes[0]), compare_reading_pids);
	for (size_t i = 0; i < g->n; i++) {
		struct reading_process *last = n ? &g->processes[n - 1] : NULL;

		if (!last || last->pid != g->processes[i].pid) {
			g->processes[n++] = g->processes[i];
			continue;
		}
		last->known = last->known && g->processes[i].known;
		if (last->bytes < g->processes[i].bytes)
			last->bytes = g->processes[i].bytes;
	}
	g->n = n;
}

static int parse_reading_processes(struct reading_gpu *g, const json_t *list, struct error *err)
{
	const json_t *one;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > CONTROL_PROCESSES_MAX)
		return set_request_error(err, "a list of processes");
	g->processes = calloc(json_array_size(list) + 1, sizeof(g->processes[0]));
	if (!g->processes)
		return error_nomem(err);
	json_array_foreach(list, i, one)
	{
		const json_t *pid = json_object_get(one, "pid"),
			     *bytes = json_object_get(one, "bytes");
		struct reading_process *p = &g->processes[i];

		if (!json_is_integer(pid) || json_integer_value(pid) < 1 ||
			json_integer_value(pid) > INT32_MAX)
			return set_request_error(err, "a PID");
		if (bytes && (!json_is_integer(bytes) || json_integer_value(bytes) < 0))
			return set_request_error(err, "bytes");
		p->pid = (uint32_t)json_integer_value(pid);
		p->known = bytes != NULL;
		p->bytes = bytes ? (uint64_t)json_integer_value(bytes) : 0;
		g->n++;
	}
	sort_processes(g);
	return 0;
}

static int read_reading(struct reading *r, const json_t *top, struct error *err)
{
	const json_t *seq = json_object_get(top, "seq"), *list = json_object_get(top, "gpus"),
		     *one;
	size_t i;

	if (!json_is_integer(seq) || json_integer_value(seq) < 1 ||
		json_integer_value(seq) > SEQ_MAX)
		return set_request_error(err, "a number of the reading from 1 to 2^53");
	r->seq = (uint64_t)json_integer_value(seq);
	if (!json_is_array(list) || json_array_size(list) > CONTROL_GPUS_MAX)
		return set_request_error(err, "a list of GPUs");
	r->gpus = calloc(json_array_size(list) + 1, sizeof(r->gpus[0]));
	if (!r->gpus)
		return error_nomem(err);
	json_array_foreach(list, i, one)
	{
		const char *uuid = json_string_value(json_object_get(one, "uuid"));
		const json_t *processes = json_object_get(one, "processes");
		struct reading_gpu *g = &r->gpus[r->n];

		if (!uuid || !slice_uuid_parse(uuid, g->uuid))
			return set_request_error(err, "the UUID of a GPU");
		for (size_t k = 0; k < r->n; k++) {
			if (!memcmp(r->gpus[k].uuid, g->uuid, sizeof(g->uuid)))
				return set_request_error(err, "each GPU once");
		}
		if (json_object_get(one, "error"))
			continue;
		r->n++;
		if (parse_reading_processes(g, processes, err) < 0)
			return -1;
	}
	return 0;
}

static int parse_request_object(struct control_request *r, const json_t *top, struct error *err)
{
	const char *op = json_string_value(json_object_get(top, "op"));
	const json_t *slice = json_object_get(top, "slice");

	if (!op)
		return set_request_error(err, "an object with 'op'");
	if (!strcmp(op, "status")) {
		r->op = REQUEST_STATUS;
		r->has_slice = slice != NULL;
		if (slice && !json_is_string(slice))
			return set_request_error(err, "the ID of a slice");
		if (slice && slice_id_valid(json_string_value(slice)))
			memcpy(r->slice, json_string_value(slice),
				json_string_length(slice) + 1);
		return 0;
	}
	if (!strcmp(op, "readings")) {
		r->op = REQUEST_READINGS;
		return 0;
	}
	if (!strcmp(op, "reading")) {
		r->op = REQUEST_READING;
		return read_reading(&r->reading, top, err);
	}
	return error_set(err, ERR_INVALID, "control: no 'op' is called '%.32s'", op);
}

int request_read(struct control_request *ret, const char *line, size_t len, struct error *err)
{
	json_error_t where;
	json_t *top = json_loadb(line, len, JSON_REJECT_DUPLICATES, &where);
	int result;

	memset(ret, 0, sizeof(*ret));
	if (!top)
		return error_set(err, ERR_INVALID, "control: column %d: %s", where.column,
			where.text);
	result = parse_request_object(ret, top, err);
	json_decref(top);
	if (result < 0)
		request_fini(ret);
	return result;
}

void request_fini(struct control_request *r)
{
	for (size_t i = 0; r->reading.gpus && i < r->reading.n; i++)
		free(r->reading.gpus[i].processes);
	free(r->reading.gpus);
	memset(r, 0, sizeof(*r));
}

const struct reading_process *reading_find(const struct reading_gpu *g, uint32_t pid)
{
	const struct reading_process key = { .pid = pid };

	return g->n ? bsearch(&key, g->processes, g->n, sizeof(key), compare_reading_pids)
		    : NULL;
}
