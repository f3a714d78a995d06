/* SPDX-License-Identifier: Apache-2.0 */
/* A result as JSON: the keys of its members, reading and writing. */
#include "tools/bench/result/result.h"

#include "lib/json/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- keys --- */

struct bench_fields {
	const struct record_field *fields;
	size_t n;
};

#define HEAD(member)  RECORD(struct bench_head, member, #member)
#define ROW(member)   RECORD(struct bench_row, member, #member)
#define RUN(member)   RECORD(struct bench_run, member, #member)
#define GPU(member)   RECORD(struct bench_gpu, member, #member)
#define CHECK(member) RECORD(struct bench_isolation, member, #member)
#define SIZE(member)  RECORD(struct bench_size, member, #member)

#define FIELDS(name)                                                              \
	static const struct bench_fields bench_##name##_fields = { name##_fields, \
		ARRAY_LEN(name##_fields) }

static const struct record_field head_fields[] = {
	HEAD(made),
	HEAD(version),
	HEAD(command),
	HEAD(simulated),
	HEAD(interrupted),
	HEAD(inconclusive),
	HEAD(gpu),
	HEAD(uuid),
	HEAD(driver),
	HEAD(cuda),
	HEAD(compute_mode),
	HEAD(mig),
	HEAD(multiprocessors),
	HEAD(memory_mib),
	HEAD(power_limit_w),
	HEAD(cpu),
	HEAD(kernel),
	HEAD(repetitions),
	HEAD(seconds),
	HEAD(warmup_s),
	HEAD(seed),
	HEAD(usd_per_hour),
	HEAD(price_source),
};
FIELDS(head);

static const struct record_field row_fields[] = {
	ROW(scenario),
	ROW(workload),
	RECORD(struct bench_row, mode_name, "mode"),
	ROW(pods),
	ROW(replicas),
	ROW(sm_share),
	ROW(weight),
	ROW(mem_limit_mib),
	ROW(offered),
	ROW(planned_s),
	ROW(planned_rate),
};
FIELDS(row);

static const struct record_field run_fields[] = {
	RUN(repetition),
	RUN(seconds),
	RUN(errors),
	RUN(error),
	RUN(doubt),
};
FIELDS(run);

static const struct record_field gpu_fields[] = {
	GPU(busy),
	GPU(sm_active),
	GPU(dram_active),
	GPU(mem_used_mib),
	GPU(power_w),
	GPU(sm_clock_mhz),
};
FIELDS(gpu);

static const struct record_field check_fields[] = {
	CHECK(name),
	RECORD(struct bench_isolation, mode_name, "mode"),
	CHECK(passed),
	CHECK(known),
	CHECK(value),
	CHECK(unit),
	CHECK(what),
};
FIELDS(check);

static const struct record_field size_fields[] = {
	SIZE(workload),
	SIZE(rounds),
	SIZE(multiprocessors),
};
FIELDS(size);

/* --- reading --- */

#define WHERE_MAX 128 /* "rows[4095].runs[999].blocks[999].times" is shorter */

#define UNKNOWN UINT64_MAX

static int read_record(void *to, const json_t *object, const struct bench_fields *f,
	const char *where, struct error *err)
{
	return record_read(to, object, f->fields, f->n, where, err);
}

static int set_expected_error(const char *where, const char *expected, struct error *err)
{
	return error_set(err, ERR_INVALID, "%s: expected %s", where, expected);
}

/* An array with @size bytes for each element of @list. One element more, so that calloc() never gets zero
 * elements. */
static void *make_array(const json_t *list, size_t size, size_t *n, struct error *err)
{
	void *p = calloc(json_array_size(list) + 1, size);

	*n = p ? json_array_size(list) : 0;
	if (!p)
		(void)error_nomem(err);
	return p;
}

static int read_class(struct hist_class_count *ret, const json_t *class, const json_t *count,
	uint32_t min, const char *where, struct error *err)
{
	json_int_t c = json_integer_value(class), n = json_integer_value(count);

	if (!json_is_integer(class) || c < min || c >= HIST_CLASSES)
		return error_set(err, ERR_INVALID,
			"%s: expected classes in order, %" PRIu32 " to %d next", where, min,
			HIST_CLASSES - 1);
	if (!json_is_integer(count) || n < 1 || n > UINT32_MAX)
		return set_expected_error(where, "a count of at least 1 behind each class",
			err);
	*ret = (struct hist_class_count){ (uint32_t)c, (uint32_t)n };
	return 0;
}

static int read_block_times(struct hist_packed *ret, const json_t *block, const char *where,
	struct error *err)
{
	const json_t *list;
	size_t n;

	if (record_list(&list, block, "times", (size_t)2 * HIST_CLASSES, where, err) < 0)
		return -1;
	n = json_array_size(list);
	if (n % 2)
		return set_expected_error(where, "times: a count behind each class", err);
	ret->class = calloc(n / 2 + 1, sizeof(*ret->class));
	if (!ret->class)
		return error_nomem(err);
	for (size_t i = 0; i < n; i += 2) {
		uint32_t min = i ? ret->class[i / 2 - 1].class + 1 : 0;

		if (read_class(&ret->class[i / 2], json_array_get(list, i),
			    json_array_get(list, i + 1), min, where, err) < 0)
			return -1;
		ret->classes++;
		ret->n += ret->class[i / 2].count;
	}
	return 0;
}

/* Reads a number of at least 0. */
static int read_result_number(double *ret, const json_t *o, const char *key, const char *where,
	struct error *err)
{
	const json_t *j = json_object_get(o, key);

	*ret = json_number_value(j);
	if (!json_is_number(j) || !(*ret >= 0))
		return error_set(err, ERR_INVALID, "%s.%s: expected a number of at least 0",
			where, key);
	return 0;
}

static int read_blocks(struct bench_run *run, const json_t *o, const char *where,
	struct error *err)
{
	const json_t *list;

	if (record_list(&list, o, "blocks", BENCH_BLOCKS_MAX, where, err) < 0)
		return -1;
	run->blocks = make_array(list, sizeof(*run->blocks), &run->n_blocks, err);
	if (!run->blocks)
		return -1;
	for (size_t i = 0; i < run->n_blocks; i++) {
		const json_t *block = json_array_get(list, i);
		struct estimate_block *b = &run->blocks[i];
		char here[WHERE_MAX];

		(void)snprintf(here, sizeof(here), "%.80s.blocks[%zu]", where, i);
		if (read_result_number(&b->seconds, block, "seconds", here, err) < 0 ||
			read_result_number(&b->times.sum_ns, block, "sum_ns", here, err) < 0 ||
			read_block_times(&b->times, block, here, err) < 0)
			return -1;
	}
	return 0;
}

static int read_pod_units(uint64_t *units, size_t n, const json_t *list, const char *where,
	struct error *err)
{
	if (!json_is_array(list) || json_array_size(list) != n)
		return error_set(err, ERR_INVALID,
			"%s: expected a list of units for each of %zu blocks", where, n);
	for (size_t i = 0; i < n; i++) {
		const json_t *j = json_array_get(list, i);

		if (!json_is_integer(j) || json_integer_value(j) < 0)
			return error_set(err, ERR_INVALID,
				"%s[%zu]: expected an integer of at least 0", where, i);
		units[i] = (uint64_t)json_integer_value(j);
	}
	return 0;
}

static int read_pods(struct bench_run *run, const json_t *o, const char *where,
	struct error *err)
{
	const json_t *list;

	if (record_list(&list, o, "pods", BENCH_PODS_MAX, where, err) < 0)
		return -1;
	run->n_pods = json_array_size(list);
	run->units = calloc(run->n_pods * run->n_blocks + 1, sizeof(*run->units));
	if (!run->units)
		return error_nomem(err);
	for (size_t i = 0; i < run->n_pods; i++) {
		char here[WHERE_MAX];

		(void)snprintf(here, sizeof(here), "%.80s.pods[%zu]", where, i);
		if (read_pod_units(run->units + i * run->n_blocks, run->n_blocks,
			    json_array_get(list, i), here, err) < 0)
			return -1;
	}
	return 0;
}

static int read_run(struct bench_run *run, const json_t *o, const char *where,
	struct error *err)
{
	if (read_record(run, o, &bench_run_fields, where, err) < 0 ||
		read_record(&run->gpu, json_object_get(o, "gpu"), &bench_gpu_fields, where,
			err) < 0 ||
		read_blocks(run, o, where, err) < 0 || read_pods(run, o, where, err) < 0)
		return -1;
	if (!(run->seconds > 0))
		return error_set(err, ERR_INVALID, "%s.seconds: expected a number above 0",
			where);
	run->errors = run->errors == UNKNOWN ? 0 : run->errors;
	return 0;
}

static int read_runs(struct bench_row *row, const json_t *o, const char *where,
	struct error *err)
{
	const json_t *list;

	if (record_list(&list, o, "runs", BENCH_RUNS_MAX, where, err) < 0)
		return -1;
	row->runs = make_array(list, sizeof(*row->runs), &row->n, err);
	if (!row->runs)
		return -1;
	for (size_t i = 0; i < row->n; i++) {
		char here[WHERE_MAX];

		(void)snprintf(here, sizeof(here), "%.80s.runs[%zu]", where, i);
		if (read_run(&row->runs[i], json_array_get(list, i), here, err) < 0)
			return -1;
	}
	return 0;
}

static int read_row(struct bench_row *row, const json_t *o, const char *where,
	struct error *err)
{
	if (read_record(row, o, &bench_row_fields, where, err) < 0)
		return -1;
	row->mode = bench_mode_of(row->mode_name);
	if (row->mode == BENCH_MODES)
		return error_set(err, ERR_INVALID,
			"%s.mode: expected exclusive, time-slicing, turns, ..., found '%.40s'",
			where, row->mode_name);
	if (!*row->scenario || !*row->workload)
		return set_expected_error(where, "the keys scenario and workload", err);
	if (row->pods > BENCH_PODS_MAX || row->replicas > row->pods || !row->replicas)
		return error_set(err, ERR_INVALID,
			"%s: expected pods and replicas, 1 to %d, and no more replicas than pods",
			where, BENCH_PODS_MAX);
	return read_runs(row, o, where, err);
}

static int read_result_rows(struct bench_result *r, struct error *err)
{
	const json_t *list;

	if (record_list(&list, r->document, "rows", BENCH_ROWS_MAX, "", err) < 0)
		return -1;
	r->rows = make_array(list, sizeof(*r->rows), &r->n_rows, err);
	if (!r->rows)
		return -1;
	for (size_t i = 0; i < r->n_rows; i++) {
		char here[WHERE_MAX];

		(void)snprintf(here, sizeof(here), "rows[%zu]", i);
		if (read_row(&r->rows[i], json_array_get(list, i), here, err) < 0)
			return -1;
	}
	return 0;
}

static int read_result_checks(struct bench_result *r, struct error *err)
{
	const json_t *list;

	if (record_list(&list, r->document, "checks", BENCH_CHECKS_MAX, "", err) < 0)
		return -1;
	r->checks = make_array(list, sizeof(*r->checks), &r->n_checks, err);
	if (!r->checks)
		return -1;
	for (size_t i = 0; i < r->n_checks; i++) {
		char here[WHERE_MAX];

		(void)snprintf(here, sizeof(here), "checks[%zu]", i);
		if (read_record(&r->checks[i], json_array_get(list, i), &bench_check_fields,
			    here, err) < 0)
			return -1;
	}
	return 0;
}

static int read_sizes(struct bench_result *r, struct error *err)
{
	const json_t *list;

	if (record_list(&list, r->document, "sizes", BENCH_SIZES_MAX, "", err) < 0)
		return -1;
	r->sizes = make_array(list, sizeof(*r->sizes), &r->n_sizes, err);
	if (!r->sizes)
		return -1;
	for (size_t i = 0; i < r->n_sizes; i++) {
		struct bench_size *s = &r->sizes[i];
		char here[WHERE_MAX];

		(void)snprintf(here, sizeof(here), "sizes[%zu]", i);
		if (read_record(s, json_array_get(list, i), &bench_size_fields, here, err) < 0)
			return -1;
		if (!*s->workload || !s->rounds || s->rounds > INT64_MAX ||
			!s->multiprocessors || s->multiprocessors > UINT16_MAX)
			return set_expected_error(here,
				"workload, rounds and multiprocessors, all above 0", err);
	}
	return 0;
}

static int read_notes(struct bench_result *r, struct error *err)
{
	const json_t *list;

	if (record_list(&list, r->document, "notes", BENCH_NOTES_MAX, "", err) < 0)
		return -1;
	r->notes = make_array(list, sizeof(*r->notes), &r->n_notes, err);
	if (!r->notes)
		return -1;
	for (size_t i = 0; i < r->n_notes; i++) {
		r->notes[i] = json_string_value(json_array_get(list, i));
		if (!r->notes[i])
			return error_set(err, ERR_INVALID, "notes[%zu]: expected a text", i);
	}
	return 0;
}

static int read_result_document(struct bench_result *r, struct error *err)
{
	const char *format = json_string_value(json_object_get(r->document, "format"));

	if (!format || strcmp(format, BENCH_FORMAT) != 0)
		return error_set(err, ERR_INVALID,
			"format: expected '" BENCH_FORMAT "', found '%.40s'",
			format ? format : "nothing");
	if (read_record(&r->head, r->document, &bench_head_fields, "", err) < 0 ||
		read_sizes(r, err) < 0 || read_result_rows(r, err) < 0 ||
		read_result_checks(r, err) < 0)
		return -1;
	return read_notes(r, err);
}

int bench_result_read(struct bench_result *ret, const char *json, size_t len, const char *path,
	struct error *err)
{
	json_error_t at;

	*ret = (struct bench_result){ 0 };
	if (len > BENCH_FILE_MAX)
		return error_set(err, ERR_LIMIT, "%s: expected at most %u MiB, found %zu", path,
			BENCH_FILE_MAX >> 20, len >> 20);
	ret->document = json_loadb(json, len, JSON_REJECT_DUPLICATES, &at);
	if (!ret->document)
		return error_set(err, ERR_INVALID, "%s:%d:%d: %s", path, at.line, at.column,
			at.text);
	if (read_result_document(ret, err) < 0) {
		bench_result_fini(ret);
		return error_prefix(err, "%s", path);
	}
	return 0;
}

/* --- writing --- */

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
