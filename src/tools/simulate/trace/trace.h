/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cluster and its pods as two tables, in the columns of Alibaba's cluster-trace-gpu-v2023 ("openb"):
 *
 *	nodes	sn, cpu_milli, memory_mib, gpu, model
 *	pods	name, cpu_milli, memory_mib, num_gpu, gpu_milli [, gpu_spec, ...]
 *
 * The first line names the columns, in any order; the reader ignores others. gpu_spec is "A|B", and empty for any
 * model. Thread: any.
 */
#include "lib/base/strv.h"
#include "tools/simulate/place/place.h"

#define TRACE_FILE_MAX (256U << 20) /* bytes of a table */
#define TRACE_PODS_MAX 5000000

struct place_trace {
	struct strv models; /* position: struct place_node's .model */
	struct place_node *nodes;
	size_t n_nodes;
	struct place_pod *pods;
	size_t n_pods;
	uint64_t gpus; /* of all nodes */
};

/*
 * Add the rows of a file to @t, which begins zeroed. Nodes come before pods, since pods name the models of nodes. Errors
 * begin with "file:line: ". The caller frees @t, also after an error.
 */
int place_trace_nodes(struct place_trace *t, const char *path, struct error *err) MUST_USE;
int place_trace_pods(struct place_trace *t, const char *path, struct error *err) MUST_USE;

/* As the functions above, with @text as the file @name, for tests and fuzzing. */
int place_trace_parse_nodes(struct place_trace *t, const char *name, const char *text,
	size_t len, struct error *err) MUST_USE;
int place_trace_parse_pods(struct place_trace *t, const char *name, const char *text,
	size_t len, struct error *err) MUST_USE;

void place_trace_fini(struct place_trace *t);
