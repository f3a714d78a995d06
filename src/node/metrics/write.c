/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/write.h"

#include <stdio.h>
#include <string.h>

/* --- numbers --- */

static size_t format_digits(char *buf, uint64_t value)
{
	char reversed[20];
	size_t n = 0;

	do {
		reversed[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	for (size_t i = 0; i < n; i++)
		buf[i] = reversed[n - 1 - i];
	return n;
}

size_t metrics_number(char *buf, enum metrics_kind kind, uint64_t value)
{
	static const uint64_t units[] = {
		[METRICS_COUNT] = 1,
		[METRICS_NANO] = 1000000000,
		[METRICS_MICRO] = 1000000,
	};
	uint64_t unit = units[kind], rest = value % unit;
	size_t n = format_digits(buf, value / unit);

	if (rest) {
		buf[n++] = '.';
		for (; rest; rest = rest % unit) {
			unit /= 10;
			buf[n++] = (char)('0' + rest / unit);
		}
	}
	buf[n] = '\0';
	return n;
}

/* --- label blocks --- */

uint32_t metrics_labels(struct metrics_writer *w)
{
	return (uint32_t)w->labels.len;
}

uint32_t metrics_labels_from(struct metrics_writer *w, struct metrics_text other)
{
	uint32_t start = (uint32_t)w->labels.len, done = 0;
	char part[512]; /* adding may move the memory of the source */

	while (done < other.len && buf_ok(&w->labels)) {
		uint32_t n = other.len - done;

		n = n < sizeof(part) ? n : (uint32_t)sizeof(part);
		memcpy(part, w->labels.data + other.at + done, n);
		buf_add(&w->labels, part, n);
		done += n;
	}
	return start;
}

/* Backslash, quote and line feed are all that both formats escape in a label. */
static void append_escaped_text(struct buf *b, const char *text, const char *what)
{
	for (size_t n; *text; text += n) {
		n = strcspn(text, what);
		buf_add(b, text, n);
		if (!text[n])
			return;
		buf_putc(b, '\\');
		buf_putc(b, text[n] == '\n' ? 'n' : text[n]);
		n++;
	}
}

static void label_begin(struct metrics_writer *w, uint32_t start, const char *name)
{
	if (w->labels.len > start)
		buf_putc(&w->labels, ',');
	buf_puts(&w->labels, name);
	buf_add(&w->labels, "=\"", 2);
}

void metrics_label(struct metrics_writer *w, uint32_t start, const char *name,
	const char *value)
{
	label_begin(w, start, name);
	append_escaped_text(&w->labels, metrics_str(value), "\\\"\n");
	buf_putc(&w->labels, '"');
}

void metrics_label_u64(struct metrics_writer *w, uint32_t start, const char *name,
	uint64_t value)
{
	char text[METRICS_NUMBER_MAX];

	label_begin(w, start, name);
	buf_add(&w->labels, text, metrics_number(text, METRICS_COUNT, value));
	buf_putc(&w->labels, '"');
}

struct metrics_text metrics_labels_end(const struct metrics_writer *w, uint32_t start)
{
	return (struct metrics_text){ .at = start, .len = (uint32_t)w->labels.len - start };
}

void metrics_labels_drop(struct metrics_writer *w, uint32_t start)
{
	if (buf_ok(&w->labels))
		w->labels.len = start;
}

/* --- families --- */

static bool open_metrics(const struct metrics_writer *w)
{
	return w->rq->format == METRICS_OPENMETRICS;
}

static void begin_metric_line(struct metrics_writer *w, const char *suffix)
{
	int n = snprintf(w->line, sizeof(w->line), "%s%s{", w->name, suffix);

	w->line_len =
		(uint32_t)n < sizeof(w->line) ? (uint32_t)n : (uint32_t)sizeof(w->line) - 1;
	w->head = false;
}

void metrics_begin(struct metrics_writer *w, const struct metrics_family *f)
{
	static const char *const suffixes[] = {
		[METRICS_GAUGE] = "",
		[METRICS_COUNTER] = "_total",
		[METRICS_INFO] = "_info",
		[METRICS_UNKNOWN] = "",
	};

	w->name = f->name;
	w->help = f->help;
	w->unit = f->unit;
	w->type = (enum metrics_type)f->type;
	begin_metric_line(w, suffixes[f->type]);
}

void metrics_begin_dcgm(struct metrics_writer *w, const struct metrics_counter *c)
{
	w->name = c->name;
	w->help = c->help;
	w->unit = NULL;
	w->type = (enum metrics_type)c->type;
	/* An OpenMetrics counter ends in _total, but dashboards ask for DCGM's names without it. */
	if (open_metrics(w) && w->type == METRICS_COUNTER)
		w->type = METRICS_UNKNOWN;
	begin_metric_line(w, "");
}

/* OpenMetrics names a family without the suffix; the text format names it like its lines. */
static void head_line(struct metrics_writer *w, const char *what)
{
	buf_add(w->out, "# ", 2);
	buf_puts(w->out, what);
	buf_putc(w->out, ' ');
	if (open_metrics(w))
		buf_puts(w->out, w->name);
	else
		buf_add(w->out, w->line, w->line_len - 1);
	buf_putc(w->out, ' ');
}

static void write_family_head(struct metrics_writer *w)
{
	static const char *const types[][2] = {
		[METRICS_GAUGE] = { "gauge", "gauge" },
		[METRICS_COUNTER] = { "counter", "counter" },
		[METRICS_INFO] = { "gauge", "info" },
		[METRICS_UNKNOWN] = { "untyped", "unknown" },
	};

	head_line(w, "HELP");
	append_escaped_text(w->out, w->help, open_metrics(w) ? "\\\"\n" : "\\\n");
	buf_putc(w->out, '\n');
	head_line(w, "TYPE");
	buf_puts(w->out, types[w->type][open_metrics(w)]);
	buf_putc(w->out, '\n');
	if (w->unit && open_metrics(w)) {
		head_line(w, "UNIT");
		buf_puts(w->out, w->unit);
		buf_putc(w->out, '\n');
	}
	w->head = true;
}

static void write_metric_line(struct metrics_writer *w, struct metrics_text labels,
	const char *value, size_t len)
{
	if (!buf_ok(&w->labels) || !labels.len)
		return;
	if (!w->head)
		write_family_head(w);
	buf_add(w->out, w->line, w->line_len);
	buf_add(w->out, w->labels.data + labels.at, labels.len);
	buf_add(w->out, "} ", 2);
	buf_add(w->out, value, len);
	buf_putc(w->out, '\n');
}

void metrics_line(struct metrics_writer *w, struct metrics_text labels, enum metrics_kind kind,
	uint64_t value)
{
	char text[METRICS_NUMBER_MAX];

	write_metric_line(w, labels, text, metrics_number(text, kind, value));
}

void metrics_line_text(struct metrics_writer *w, struct metrics_text labels, const char *value)
{
	write_metric_line(w, labels, value, strlen(value));
}

/* --- rows --- */

static bool read_bool_member(const void *object, size_t at)
{
	bool flag;

	memcpy(&flag, (const char *)object + at, sizeof(flag));
	return flag;
}

/* Reads the member into *ret; false: not known. */
static bool read_member(const struct metrics_row *row, const void *object, uint64_t *ret)
{
	const char *at = (const char *)object + row->at;
	uint32_t narrow;

	if (row->size == sizeof(bool)) {
		*ret = read_bool_member(object, row->at);
	} else if (row->size == sizeof(narrow)) {
		memcpy(&narrow, at, sizeof(narrow));
		*ret = narrow == UINT32_MAX ? UINT64_MAX : narrow;
	} else {
		memcpy(ret, at, sizeof(*ret));
	}
	if (*ret == UINT64_MAX)
		return false;
	if (row->current && !read_bool_member(object, row->current - 1U))
		return false;
	return !row->known || read_bool_member(object, row->known - 1U) ||
	       (row->family.type == METRICS_COUNTER && *ret);
}

void metrics_rows(struct metrics_writer *w, const struct metrics_row *rows, size_t n_rows,
	const struct metrics_objects *objects)
{
	uint64_t value;

	for (size_t r = 0; r < n_rows; r++) {
		metrics_begin(w, &rows[r].family);
		for (uint32_t i = 0; i < objects->n; i++)
			if (objects->labels[i].len && objects->object[i] &&
				read_member(&rows[r], objects->object[i], &value))
				metrics_line(w, objects->labels[i],
					(enum metrics_kind)rows[r].kind, value);
	}
}
