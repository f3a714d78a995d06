/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/result/result.h"

#include "lib/base/array.h"
#include "lib/base/text.h"

#include <stdlib.h>
#include <string.h>

const char *const bench_mode_names[BENCH_MODES] = {
	[BENCH_EXCLUSIVE] = "exclusive",
	[BENCH_TIME_SLICING] = "time-slicing",
	[BENCH_FAIR_SHARE] = "turns",
	[BENCH_FAIR_SHARE_WEIGHTED] = "turns-weighted",
	[BENCH_FAIR_SHARE_LATENCY] = "turns-latency",
	[BENCH_MPS] = "mps",
	[BENCH_MPS_LIMITED] = "mps-limited",
	[BENCH_MIG] = "mig",
};

bool bench_mode_mps(enum bench_mode m)
{
	return m == BENCH_MPS || m == BENCH_MPS_LIMITED;
}

bool bench_mode_slices(enum bench_mode m)
{
	return m == BENCH_FAIR_SHARE || m == BENCH_FAIR_SHARE_WEIGHTED ||
	       m == BENCH_FAIR_SHARE_LATENCY;
}

enum bench_mode bench_mode_of(const char *name)
{
	unsigned int i = 0;

	while (i < BENCH_MODES && strcmp(bench_mode_names[i], name) != 0)
		i++;
	return (enum bench_mode)i;
}

static void bench_run_fini(struct bench_run *r)
{
	for (size_t i = 0; i < r->n_blocks; i++)
		hist_packed_fini(&r->blocks[i].times);
	free(r->blocks);
	free(r->units);
}

void bench_result_fini(struct bench_result *r)
{
	for (size_t i = 0; i < r->n_rows; i++) {
		for (size_t k = 0; k < r->rows[i].n; k++)
			bench_run_fini(&r->rows[i].runs[k]);
		free(r->rows[i].runs);
	}
	free(r->rows);
	free(r->checks);
	free(r->notes);
	free(r->sizes);
	json_decref(r->document);
	*r = (struct bench_result){ 0 };
}

const char *bench_store_text(struct strv *texts, const char *text)
{
	struct error err = ERROR_INIT;
	char *kept;

	if (strv_add(texts, text, &err) < 0)
		return "out of memory";
	kept = texts->v[texts->n - 1];
	utf8_make_valid(kept);
	for (char *c = kept; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return kept;
}

void bench_add_note(struct bench_result *r, const char *text)
{
	for (size_t i = 0; i < r->n_notes; i++)
		if (!strcmp(r->notes[i], text))
			return;
	if (ARRAY_EXTEND(&r->notes, r->n_notes, 1, BENCH_NOTES_MAX))
		r->notes[r->n_notes++] = text;
}

const struct bench_size *bench_size_of(const struct bench_result *r, const char *workload)
{
	for (size_t i = 0; i < r->n_sizes; i++)
		if (!strcmp(r->sizes[i].workload, workload))
			return &r->sizes[i];
	return NULL;
}

const struct bench_row *bench_row_find_exclusive(const struct bench_result *r,
	const char *workload)
{
	for (size_t i = 0; i < r->n_rows; i++)
		if (r->rows[i].n && r->rows[i].mode == BENCH_EXCLUSIVE &&
			r->rows[i].pods == 1 && !strcmp(r->rows[i].workload, workload))
			return &r->rows[i];
	return NULL;
}

/* The error of the first run of @row with errors. NULL: a unit was done, or nothing failed. */
static const char *failure_of(const struct bench_row *row)
{
	const char *error = NULL;

	for (size_t i = 0; i < row->n; i++) {
		const struct bench_run *run = &row->runs[i];

		if (run->errors && !error)
			error = run->error;
		for (size_t b = 0; b < run->n_blocks; b++)
			if (run->blocks[b].times.n)
				return NULL;
	}
	return error;
}

bool bench_row_failed(const struct bench_row *row)
{
	return failure_of(row) != NULL;
}

const char *bench_all_failed(const struct bench_result *r)
{
	const char *first = NULL;

	for (size_t i = 0; i < r->n_rows; i++) {
		const char *error = failure_of(&r->rows[i]);

		if (!error && r->rows[i].n)
			return NULL;
		first = first ? first : error;
	}
	return first;
}

size_t bench_row_doubts(const struct bench_row *row, const char **first)
{
	size_t n = 0;

	*first = "";
	for (size_t i = 0; i < row->n; i++) {
		const char *doubt = row->runs[i].doubt;

		if (doubt && *doubt && n++ == 0)
			*first = doubt;
	}
	return n;
}

const char *bench_first_doubt(const struct bench_result *r)
{
	const char *first = "";

	for (size_t i = 0; i < r->n_rows && !*first; i++)
		(void)bench_row_doubts(&r->rows[i], &first);
	return first;
}

double bench_pod_rate(const struct bench_run *r, size_t pod)
{
	uint64_t sum = 0;

	for (size_t b = 0; b < r->n_blocks; b++)
		sum += r->units[pod * r->n_blocks + b];
	return (double)sum / r->seconds;
}

int bench_row_estimate(struct estimate *ret, const struct bench_row *row, enum estimate_of what,
	struct error *err)
{
	CLEANUP(freep) struct estimate_run *runs = calloc(row->n, sizeof(*runs));

	if (!runs)
		return error_nomem(err);
	for (size_t i = 0; i < row->n; i++)
		runs[i] = (struct estimate_run){ row->runs[i].n_blocks, row->runs[i].blocks };
	return estimate_make(ret, what, runs, row->n, err);
}
