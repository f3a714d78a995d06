/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/simulate/trace/trace.h"

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "tools/simulate/trace/columns.h"

#include <stdlib.h>
#include <string.h>

#define CPU_MILLI_MAX  10000000 /* ten thousand processors */
#define MEMORY_MIB_MAX 1000000000

enum { NODE_CPU, NODE_MEMORY, NODE_GPUS, NODE_MODEL, NODE_COLUMNS };
static const struct csv_column node_columns[NODE_COLUMNS] = {
	[NODE_CPU] = { .name = "cpu_milli" },
	[NODE_MEMORY] = { .name = "memory_mib" },
	[NODE_GPUS] = { .name = "gpu" },
	[NODE_MODEL] = { .name = "model" },
};

enum { POD_CPU, POD_MEMORY, POD_GPUS, POD_MILLI, POD_SPEC, POD_COLUMNS };
static const struct csv_column pod_columns[POD_COLUMNS] = {
	[POD_CPU] = { .name = "cpu_milli" },
	[POD_MEMORY] = { .name = "memory_mib" },
	[POD_GPUS] = { .name = "num_gpu" },
	[POD_MILLI] = { .name = "gpu_milli" },
	[POD_SPEC] = { .name = "gpu_spec", .optional = true },
};

struct trace_reader {
	struct place_trace *t;
	size_t room;
};

/* --- nodes --- */

static int model_of(struct place_trace *t, const struct columns_row *row, uint16_t *ret)
{
	for (size_t i = 0; i < t->models.n; i++) {
		if (strcmp(t->models.v[i], row->cell[NODE_MODEL]) == 0) {
			*ret = (uint16_t)i;
			return 0;
		}
	}
	if (t->models.n == PLACE_MODELS_MAX)
		return columns_fail(row, NODE_MODEL, "one of at most 64 models");
	*ret = (uint16_t)t->models.n;
	return strv_add(&t->models, row->cell[NODE_MODEL], row->err);
}

static int add_trace_node(void *arg, const struct columns_row *row)
{
	struct trace_reader *r = arg;
	struct place_trace *t = r->t;
	struct place_node n = { 0 };
	uint64_t cpu, memory, gpus;

	if (t->n_nodes == PLACE_NODES_MAX)
		return error_set(row->err, ERR_LIMIT, "%s: more than %d nodes", row->name,
			PLACE_NODES_MAX);
	if (columns_uint(row, NODE_CPU, 0, CPU_MILLI_MAX, &cpu) < 0 ||
		columns_uint(row, NODE_MEMORY, 0, MEMORY_MIB_MAX, &memory) < 0 ||
		columns_uint(row, NODE_GPUS, 0, PLACE_GPUS_MAX, &gpus) < 0 ||
		(gpus && model_of(t, row, &n.model) < 0))
		return -1;
	if (!ARRAY_GROW(&t->nodes, t->n_nodes, &r->room, PLACE_NODES_MAX))
		return error_nomem(row->err);
	n.cpu_milli = (uint32_t)cpu;
	n.memory_mib = (uint32_t)memory;
	n.gpus = (uint16_t)gpus;
	for (uint32_t g = 0; g < n.gpus; g++)
		n.free_milli[g] = PLACE_WHOLE;
	t->gpus += n.gpus;
	t->nodes[t->n_nodes++] = n;
	return 0;
}

int place_trace_parse_nodes(struct place_trace *t, const char *name, const char *text,
	size_t len, struct error *err)
{
	struct trace_reader r = { .t = t, .room = t->n_nodes };

	return columns_read(name, text, len, node_columns, NODE_COLUMNS, add_trace_node, &r,
		err);
}

/* --- pods --- */

/* A model that no node has sets no bit: the pod then fits nowhere. */
static uint64_t models_of(const struct place_trace *t, const char *spec)
{
	uint64_t models = 0;

	if (!*spec)
		return PLACE_ANY_MODEL;
	while (true) {
		size_t len = strcspn(spec, "|");

		for (size_t i = 0; i < t->models.n; i++)
			if (strlen(t->models.v[i]) == len && !memcmp(t->models.v[i], spec, len))
				models |= UINT64_C(1) << i;
		if (!spec[len])
			return models;
		spec += len + 1;
	}
}

static int add_trace_pod(void *arg, const struct columns_row *row)
{
	struct trace_reader *r = arg;
	struct place_trace *t = r->t;
	uint64_t cpu, memory, gpus, milli = 0;

	if (t->n_pods == TRACE_PODS_MAX)
		return error_set(row->err, ERR_LIMIT, "%s: more than %d pods", row->name,
			TRACE_PODS_MAX);
	if (columns_uint(row, POD_CPU, 0, CPU_MILLI_MAX, &cpu) < 0 ||
		columns_uint(row, POD_MEMORY, 0, MEMORY_MIB_MAX, &memory) < 0 ||
		columns_uint(row, POD_GPUS, 0, PLACE_GPUS_MAX, &gpus) < 0)
		return -1;
	/* A fraction is of one GPU. */
	if (gpus && columns_uint(row, POD_MILLI, gpus == 1 ? 1 : PLACE_WHOLE, PLACE_WHOLE,
			    &milli) < 0)
		return -1;
	if (!ARRAY_GROW(&t->pods, t->n_pods, &r->room, TRACE_PODS_MAX))
		return error_nomem(row->err);
	t->pods[t->n_pods++] = (struct place_pod){ .models = models_of(t, row->cell[POD_SPEC]),
		.cpu_milli = (uint32_t)cpu,
		.memory_mib = (uint32_t)memory,
		.gpus = (uint32_t)gpus,
		.gpu_milli = (uint32_t)milli };
	return 0;
}

int place_trace_parse_pods(struct place_trace *t, const char *name, const char *text,
	size_t len, struct error *err)
{
	struct trace_reader r = { .t = t, .room = t->n_pods };

	return columns_read(name, text, len, pod_columns, POD_COLUMNS, add_trace_pod, &r, err);
}

/* --- files --- */

static int read_with(struct place_trace *t, const char *path,
	int (*parse)(struct place_trace *t, const char *name, const char *text, size_t len,
		struct error *err),
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(TRACE_FILE_MAX);

	if (file_read(path, &b, err) < 0)
		return -1;
	return parse(t, path, buf_str(&b), b.len, err);
}

int place_trace_nodes(struct place_trace *t, const char *path, struct error *err)
{
	return read_with(t, path, place_trace_parse_nodes, err);
}

int place_trace_pods(struct place_trace *t, const char *path, struct error *err)
{
	return read_with(t, path, place_trace_parse_pods, err);
}

void place_trace_fini(struct place_trace *t)
{
	strv_fini(&t->models);
	free(t->nodes);
	free(t->pods);
	*t = (struct place_trace){ 0 };
}
