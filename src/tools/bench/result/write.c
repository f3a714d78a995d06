/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/result/fields.h"

#include <stdlib.h>

/* Takes @value's reference, also on failure. */
static bool set_result_member(json_t *o, const char *key, json_t *value)
{
	return json_object_set_new(o, key, value) == 0;
}

static bool append_result_item(json_t *list, json_t *value)
{
	return json_array_append_new(list, value) == 0;
}

static json_t *write_result_fields(const void *from, const struct bench_fields *f)
{
	return record_write(from, f->fields, f->n);
}

/* Class and count alternate. */
static json_t *write_times(const struct hist_packed *p)
{
	json_t *list = json_array();
	bool ok = list != NULL;

	for (uint32_t i = 0; ok && i < p->classes; i++)
		ok = append_result_item(list, json_integer(p->class[i].class)) &&
		     append_result_item(list, json_integer(p->class[i].count));
	if (ok)
		return list;
	json_decref(list);
	return NULL;
}

static json_t *write_block(const struct estimate_block *b)
{
	return json_pack("{s:f, s:I, s:f, s:o}", "seconds", b->seconds, "units",
		(json_int_t)b->times.n, "sum_ns", b->times.sum_ns, "times",
		write_times(&b->times));
}

/* Finished units of a pod in each block. */
static json_t *write_pod_units(const struct bench_run *r, size_t pod)
{
	json_t *list = json_array();
	bool ok = list != NULL;

	for (size_t b = 0; ok && b < r->n_blocks; b++)
		ok = append_result_item(list,
			json_integer((json_int_t)r->units[pod * r->n_blocks + b]));
	if (ok)
		return list;
	json_decref(list);
	return NULL;
}

static json_t *write_run(const struct bench_run *r)
{
	json_t *o = write_result_fields(r, &bench_run_fields), *blocks = json_array(),
	       *pods = json_array();
	bool ok =
		o &&
		set_result_member(o, "gpu", write_result_fields(&r->gpu, &bench_gpu_fields)) &&
		blocks && pods;

	for (size_t i = 0; ok && i < r->n_blocks; i++)
		ok = append_result_item(blocks, write_block(&r->blocks[i]));
	for (size_t i = 0; ok && i < r->n_pods; i++)
		ok = append_result_item(pods, write_pod_units(r, i));
	ok = ok && set_result_member(o, "pods", json_incref(pods)) &&
	     set_result_member(o, "blocks", json_incref(blocks));
	json_decref(pods);
	json_decref(blocks);
	if (ok)
		return o;
	json_decref(o);
	return NULL;
}

static json_t *write_result_row(const struct bench_row *row)
{
	json_t *o = write_result_fields(row, &bench_row_fields), *runs = json_array();
	bool ok = o && runs;

	for (size_t i = 0; ok && i < row->n; i++)
		ok = append_result_item(runs, write_run(&row->runs[i]));
	ok = ok && set_result_member(o, "runs", json_incref(runs));
	json_decref(runs);
	if (ok)
		return o;
	json_decref(o);
	return NULL;
}

static bool write_lists(json_t *o, const struct bench_result *r)
{
	json_t *rows = json_array(), *checks = json_array(), *notes = json_array(),
	       *sizes = json_array();
	bool ok = rows && checks && notes && sizes;

	for (size_t i = 0; ok && i < r->n_rows; i++)
		ok = append_result_item(rows, write_result_row(&r->rows[i]));
	for (size_t i = 0; ok && i < r->n_checks; i++)
		ok = append_result_item(checks,
			write_result_fields(&r->checks[i], &bench_check_fields));
	for (size_t i = 0; ok && i < r->n_sizes; i++)
		ok = append_result_item(sizes,
			write_result_fields(&r->sizes[i], &bench_size_fields));
	for (size_t i = 0; ok && i < r->n_notes; i++)
		ok = append_result_item(notes, json_string(r->notes[i]));
	ok = ok && set_result_member(o, "sizes", json_incref(sizes)) &&
	     set_result_member(o, "notes", json_incref(notes)) &&
	     set_result_member(o, "checks", json_incref(checks)) &&
	     set_result_member(o, "rows", json_incref(rows));
	json_decref(rows);
	json_decref(checks);
	json_decref(notes);
	json_decref(sizes);
	return ok;
}

int bench_result_write(json_t **ret, const struct bench_result *r, struct error *err)
{
	json_t *o = json_object(), *head = write_result_fields(&r->head, &bench_head_fields);
	bool ok = o && head && set_result_member(o, "format", json_string(BENCH_FORMAT)) &&
		  json_object_update(o, head) == 0 && write_lists(o, r);

	json_decref(head);
	*ret = ok ? o : NULL;
	if (ok)
		return 0;
	json_decref(o);
	return error_nomem(err);
}
