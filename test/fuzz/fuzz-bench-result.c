/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "tools/bench/compare/compare.h"
#include "tools/bench/stats/arrivals.h"
#include "tools/bench/run/observe.h"
#include "tools/bench/run/slice-watch.h"
#include "tools/bench/report/report.h"
#include "tools/bench/run/load-io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * What a benchmark reads: a result's file, what a pod prints, scenarios and limits in words, arrivals. The first byte
 * says which.
 */

#define ROWS_MAX 4 /* of which intervals are worked out: that takes its time */

/* A text that could be read can be written and read again. */
static void write_again(const struct bench_result *r)
{
	struct bench_result again;
	struct error err = ERROR_INIT;
	json_t *o;
	char *text;

	if (bench_result_write(&o, r, &err) < 0)
		abort();
	text = json_dumps(o, JSON_COMPACT);
	if (!text || bench_result_read(&again, text, strlen(text), "again", &err) < 0)
		abort();
	if (again.n_rows != r->n_rows || again.n_checks != r->n_checks)
		abort();
	bench_result_fini(&again);
	free(text);
	json_decref(o);
}

/* No text of the file is markup, and no figure of it reaches a plot as none. */
static void render_checked_report(const struct bench_result *r)
{
	static const char *const never[] = { "=\"nan", "=\"-nan", "=\"inf", "=\"-inf",
		"<script", "(null)" };
	struct buf b = BUF_INIT(BENCH_REPORT_MAX);
	struct error err = ERROR_INIT;

	if (bench_report(&b, r, NULL, &err) < 0)
		abort();
	/* Beside itself: not where nothing was measured, as there is nothing in common. */
	if (bench_report(&b, r, r, &err) < 0 && err.code != ERR_INVALID)
		abort();
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (strstr(buf_str(&b), never[i]))
			abort();
	buf_fini(&b);
}

static void fuzz_result(const char *text, size_t len)
{
	const struct compare_options o = { .mode_a = BENCH_MODES, .mode_b = BENCH_MODES };
	struct error err = ERROR_INIT;
	struct bench_result r;
	struct compare c;

	if (bench_result_read(&r, text, len, "file", &err) < 0) {
		if (err.code == ERR_NONE || r.document)
			abort();
		return;
	}
	write_again(&r);
	if (r.n_rows <= ROWS_MAX)
		render_checked_report(&r);
	if (r.n_rows <= ROWS_MAX && compare_make(&c, &r, &r, &o, &err) == 0)
		compare_fini(&c);
	bench_result_fini(&r);
}

static void fuzz_pod(const char *text, size_t len)
{
	struct hist *blocks = calloc(2, sizeof(*blocks));
	struct error err = ERROR_INIT;

	if (blocks && collect_read(blocks, 2, text, len, &err) < 0 && err.code == ERR_NONE)
		abort();
	free(blocks);
}

static void fuzz_words(const char *text)
{
	struct suite *s = calloc(1, sizeof(*s));
	struct error err = ERROR_INIT;
	struct compare_limit l;

	if (!s)
		return;
	suite_defaults(s);
	if (suite_add(s, text, &err) < 0 && err.code == ERR_NONE)
		abort();
	if (compare_limit_parse(&l, text, &err) == 0 && !(l.value >= 0))
		abort();
	free(s);
}

static void fuzz_arrivals(const char *text, size_t len)
{
	struct flow_arrival *list;
	struct error err = ERROR_INIT;
	char path[64];
	size_t n;
	int fd = memfd_create("arrivals", MFD_CLOEXEC);

	if (fd < 0)
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write(fd, text, len) == (ssize_t)len && arrivals_read(&list, &n, path, &err) == 0) {
		for (size_t i = 1; i < n; i++)
			if (list[i].at_ns < list[i - 1].at_ns)
				abort();
		free(list);
	}
	(void)close(fd);
}

/* Status of the arbiter, and steps in the launches of a program: any bytes are kinds. */
static void fuzz_status(const char *text, size_t len)
{
	struct profile_launch *l = calloc(len + 1, sizeof(*l));
	struct profile_sample sample;
	struct profile_steps s;

	(void)watch_parse_status(&sample, text, len);
	if (!l)
		return;
	for (size_t i = 0; i < len; i++)
		l[i] = (struct profile_launch){ i * 1000 + (uint8_t)text[i] % 7,
			(uint8_t)text[i] };
	s = profile_steps_find(l, len);
	if (s.launches * s.n > len || (s.n && !(s.mean_s >= 0)))
		abort();
	free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text;

	if (!len)
		return 0;
	text = strndup((const char *)data + 1, len - 1);
	if (!text)
		return 0;
	switch (data[0] % 8) { /* what was there first keeps its number */
	case 0:
		fuzz_result((const char *)data + 1, len - 1);
		break;
	case 1:
		fuzz_pod((const char *)data + 1, len - 1);
		break;
	case 2:
		fuzz_words(text);
		break;
	case 4:
		fuzz_status((const char *)data + 1, len - 1);
		break;
	case 5:
		(void)observation_is_pod(text, "0bf4ee08-9f4b-4a1c-a0b1-3e0d6c6a2f11");
		break;
	default:
		fuzz_arrivals((const char *)data + 1, len - 1);
	}
	free(text);
	return 0;
}
