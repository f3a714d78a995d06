/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/counters/counters.h"

#include "lib/base/array.h"
#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "node/metrics/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COLUMNS      3
#define ID_XID       230
#define WARNINGS_MAX 100 /* of one file; the others are only counted */

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* editors on Windows write it */

struct counters_reader {
	const char *name; /* of the file, for messages */
	uint32_t line;
	struct metrics_counters *c;
	size_t room; /* of .c->rows */
	struct strv *warnings;
	uint32_t n_warnings;
	char malformed[200]; /* the first such row, and why; "" */
	struct error *err;
};

/* "f.csv:3: 'DCGM_FI_DEV_X' is left out: ...". */
static int warn_counter_row(struct counters_reader *r, const char *what, const char *why)
{
	char text[512];

	if (!r->warnings || r->n_warnings++ >= WARNINGS_MAX)
		return 0;
	(void)snprintf(text, sizeof(text), "%.150s:%u: '%.80s' %s", r->name, r->line, what,
		why);
	return strv_add(r->warnings, text, r->err);
}

/* A row that no version of DCGM has. A file with no valid row but such rows is invalid. */
static int refuse_counter_row(struct counters_reader *r, const char *what, const char *why)
{
	if (!*r->malformed)
		(void)snprintf(r->malformed, sizeof(r->malformed), "line %u: '%.60s' %.100s",
			r->line, what, why);
	return warn_counter_row(r, what, why);
}

static int warn_of_the_rest(struct counters_reader *r)
{
	char text[200];

	if (!r->warnings || r->n_warnings <= WARNINGS_MAX)
		return 0;
	(void)snprintf(text, sizeof(text), "%.150s: %u more rows like these", r->name,
		r->n_warnings - WARNINGS_MAX);
	return strv_add(r->warnings, text, r->err);
}

/* --- the field of a row --- */

/* The names that dcgm-exporter itself adds. */
static const struct {
	const char *name;
	uint16_t id; /* its own numbers, above all of DCGM's */
	enum metrics_source source;
} exporter_made[] = {
	{ "DCGM_EXP_CLOCK_EVENTS_COUNT", 9001, METRICS_FROM_CLOCKS },
	{ "DCGM_EXP_CLOCK_EVENTS_TOTAL", 9005, METRICS_FROM_CLOCKS_TOTAL },
	{ "DCGM_EXP_GPU_HEALTH_STATUS", 9003, METRICS_FROM_HEALTH },
	{ "DCGM_EXP_P2P_STATUS", 9004, METRICS_FROM_P2P },
	{ "DCGM_EXP_XID_ERRORS_COUNT", 9002, METRICS_FROM_XIDS },
	{ "DCGM_EXP_XID_ERRORS_TOTAL", 9006, METRICS_FROM_XIDS_TOTAL },
};

/* False: *ret_why says why the row is left out. */
static bool find_counter_field(const char *name, struct metrics_counter *ret,
	const char **ret_why)
{
	int position = field_position(name);

	if (position >= 0) {
		ret->field = (uint16_t)position;
		ret->id = fields[position].id;
		ret->source = ret->id == ID_XID ? METRICS_FROM_XID : METRICS_FROM_FIELD;
		return true;
	}
	for (size_t i = 0; i < ARRAY_LEN(exporter_made); i++) {
		if (strcmp(exporter_made[i].name, name) != 0)
			continue;
		ret->id = exporter_made[i].id;
		ret->source = (uint8_t)exporter_made[i].source;
		return true;
	}
	*ret_why = field_is_dcgm_only(name) ? "is left out: NVML cannot give it, only DCGM can"
					    : "is left out: unknown DCGM field";
	return false;
}

/* Sets type and label; false: unknown type. */
static bool read_type(struct metrics_counter *c, const char *type, bool *ret_odd)
{
	static const struct {
		const char *name;
		enum metrics_type type;
		bool label, odd;
	} types[] = {
		{ "counter", METRICS_COUNTER, false, false },
		{ "gauge", METRICS_GAUGE, false, false },
		{ "histogram", METRICS_UNKNOWN, false, true },
		{ "label", METRICS_UNKNOWN, true, false },
		{ "summary", METRICS_UNKNOWN, false, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (strcmp(types[i].name, type) != 0)
			continue;
		c->type = (uint8_t)types[i].type;
		c->label = types[i].label;
		*ret_odd = types[i].odd;
		return true;
	}
	return false;
}

static bool has_counter_name(const struct metrics_counters *c, const char *name)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (!strcmp(c->rows[i].name, name))
			return true;
	return false;
}

/* Why a valid row cannot be written as requested; NULL: it can. */
static const char *check_counter_row(const struct counters_reader *r,
	const struct metrics_counter *c, const char *name)
{
	if (has_counter_name(r->c, name))
		return "is left out: it stands above already";
	if (c->source != METRICS_FROM_FIELD)
		return c->label ? "is left out: it cannot be a label" : NULL;
	if (!c->label && fields[c->field].kind == FIELD_TEXT)
		return "is left out: a text can only be a label";
	return NULL;
}

static int add_counter_row(struct counters_reader *r, struct metrics_counter *row,
	const char *name, const char *help)
{
	struct metrics_counters *c = r->c;

	if (!ARRAY_GROW(&c->rows, c->n, &r->room, UINT32_MAX))
		return error_nomem(r->err);
	row->name = strdup(name);
	row->help = strdup(help);
	c->rows[c->n++] = *row;
	return row->name && row->help ? 0 : error_nomem(r->err);
}

static int parse_counter_row(struct counters_reader *r, char *const *column)
{
	const char *name = column[0], *why = NULL;
	struct metrics_counter row = { .source = METRICS_FROM_FIELD };
	char text[200];
	bool odd = false;

	if (!find_counter_field(name, &row, &why))
		return field_is_dcgm_only(name) ? warn_counter_row(r, name, why)
						: refuse_counter_row(r, name, why);
	if (!read_type(&row, column[1], &odd)) {
		(void)snprintf(text, sizeof(text),
			"is left out: expected the type gauge, counter, histogram, summary or label, "
			"found '%.60s'",
			column[1]);
		return refuse_counter_row(r, name, text);
	}
	why = check_counter_row(r, &row, name);
	if (why)
		return warn_counter_row(r, name, why);
	if (odd && warn_counter_row(r, name, "is written as untyped: it is one number") < 0)
		return -1;
	return add_counter_row(r, &row, name, column[2]);
}

/* --- lines and columns --- */

static char *trim_counter_text(char *text)
{
	size_t len;

	text += strspn(text, " \t\r");
	len = strlen(text);
	while (len && strchr(" \t\r", text[len - 1]))
		text[--len] = '\0';
	return text;
}

/* Unquotes a column in place; "" stands for a quote. NULL: no closing quote, or text behind it. */
static char *unquote_csv_column(char *text, char **ret_rest)
{
	char *to = text, *from = text + 1;

	for (; *from; from++) {
		if (*from == '"' && *++from != '"') {
			*ret_rest = from + strspn(from, " \t\r");
			*to = '\0';
			return **ret_rest && **ret_rest != ',' ? NULL : text;
		}
		*to++ = *from;
	}
	return NULL;
}

/* Splits in place. Returns the number of columns; @column has at most COLUMNS of them. 0: malformed quotes. */
static size_t split_counter_columns(char *text, char **column)
{
	size_t n = 0;
	char *rest = text;

	for (;;) {
		char *start = rest + strspn(rest, " \t\r"), *end;

		if (*start == '"') {
			start = unquote_csv_column(start, &rest);
			if (!start)
				return 0;
			end = *rest ? rest : NULL;
		} else {
			end = strchr(start, ',');
		}
		if (end)
			*end = '\0';
		if (n < COLUMNS)
			column[n] = trim_counter_text(start);
		n++;
		if (!end)
			return n;
		rest = end + 1;
	}
}

static int parse_counter_line(struct counters_reader *r, char *text)
{
	char *column[COLUMNS], shown[100], why[100];
	size_t n;

	text = trim_counter_text(text);
	if (!*text || *text == '#')
		return 0;
	(void)snprintf(shown, sizeof(shown), "%s", text);
	utf8_make_valid(shown);
	n = split_counter_columns(text, column);
	if (n == COLUMNS)
		return parse_counter_row(r, column);
	if (n)
		(void)snprintf(why, sizeof(why),
			"is left out: expected %d fields with commas between them, found %zu",
			COLUMNS, n);
	else
		(void)snprintf(why, sizeof(why), "is left out: malformed quotes");
	return refuse_counter_row(r, shown, why);
}

/* --- the file --- */

/* Families first, by number, then by name: two names may have one number. Then labels, by name. */
static int compare_counter_rows(const void *a, const void *b)
{
	const struct metrics_counter *x = a, *y = b;

	if (x->label != y->label)
		return x->label - y->label;
	if (!x->label && x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* A line of the file; any bytes. */
static int read_counter_line(struct counters_reader *r, const char *text, size_t len)
{
	CLEANUP(freep) char *copy = NULL;
	struct utf8_position position;
	char what[40], why[100];

	r->line++;
	if (!utf8_is_text(text, len, &position)) {
		(void)snprintf(what, sizeof(what), "%.*s", (int)(len < 30 ? len : 30), text);
		utf8_make_valid(what);
		(void)snprintf(why, sizeof(why),
			"is left out: expected UTF-8 text, found the byte 0x%02x in column %u",
			position.byte, position.column);
		return refuse_counter_row(r, what, why);
	}
	copy = strndup(text, len);
	return copy ? parse_counter_line(r, copy) : error_nomem(r->err);
}

int metrics_counters_parse(struct metrics_counters **ret, const char *name, const char *text,
	size_t len, struct strv *warnings, struct error *err)
{
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = calloc(1, sizeof(*c));
	struct counters_reader r = { .name = name, .c = c, .warnings = warnings, .err = err };
	const char *start = text;

	if (!c)
		return error_nomem(err);
	atomic_init(&c->refs, 1);
	if (len > METRICS_COUNTERS_FILE_MAX)
		return error_set(err, ERR_LIMIT, "%s: more than %u bytes", name,
			METRICS_COUNTERS_FILE_MAX);
	if (len >= strlen(BYTE_ORDER_MARK) &&
		!memcmp(text, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)))
		start += strlen(BYTE_ORDER_MARK);
	for (const char *line = start, *end; line < text + len; line = end + 1) {
		end = memchr(line, '\n', (size_t)(text + len - line));
		if (!end)
			end = text + len;
		if (read_counter_line(&r, line, (size_t)(end - line)) < 0)
			return -1;
	}
	if (!c->n && *r.malformed)
		return error_set(err, ERR_INVALID, "%.150s: no row is valid; %s", name,
			r.malformed);
	if (warn_of_the_rest(&r) < 0)
		return -1;
	if (c->n)
		qsort(c->rows, c->n, sizeof(*c->rows), compare_counter_rows);
	while (c->n_families < c->n && !c->rows[c->n_families].label)
		c->n_families++;
	*ret = STEAL_PTR(c);
	return 0;
}

static bool stat_counters_file(struct metrics_counters *c, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	c->file_id.device = st.st_dev;
	c->file_id.inode = st.st_ino;
	c->file_id.size = (uint64_t)st.st_size;
	c->file_id.s = st.st_mtim.tv_sec;
	c->file_id.ns = st.st_mtim.tv_nsec;
	return true;
}

/* --- the built-in file --- */

/*
 * The rows that dcgm-exporter's default-counters.csv enables (4.8), with help texts of gpuslice. A help text must
 * not have a comma, here as in that file.
 */
static const char metrics_counters_builtin[] =
	"DCGM_FI_DEV_SM_CLOCK, gauge, Clock of the SMs (in MHz).\n"
	"DCGM_FI_DEV_MEM_CLOCK, gauge, Clock of the memory (in MHz).\n"
	"DCGM_FI_DEV_MEMORY_TEMP, gauge, Temperature of the memory (in C).\n"
	"DCGM_FI_DEV_GPU_TEMP, gauge, Temperature of the GPU (in C).\n"
	"DCGM_FI_DEV_POWER_USAGE, gauge, Power draw (in W).\n"
	"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter, Energy used since the driver was loaded (in mJ).\n"
	"DCGM_FI_DEV_PCIE_REPLAY_COUNTER, counter, Retries on PCIe.\n"
	"DCGM_FI_DEV_GPU_UTIL, gauge, Part of the time in which the GPU had work (in %).\n"
	"DCGM_FI_DEV_MEM_COPY_UTIL, gauge, Part of the time in which memory was read or written (in %).\n"
	"DCGM_FI_DEV_ENC_UTIL, gauge, Utilization of the video encoders (in %).\n"
	"DCGM_FI_DEV_DEC_UTIL, gauge, Utilization of the video decoders (in %).\n"
	"DCGM_FI_DEV_XID_ERRORS, gauge, Number of the last XID error.\n"
	"DCGM_FI_DEV_FB_FREE, gauge, GPU memory that is free (in MiB).\n"
	"DCGM_FI_DEV_FB_USED, gauge, GPU memory that is used (in MiB).\n"
	"DCGM_FI_DEV_FB_RESERVED, gauge, GPU memory that the driver keeps for itself (in MiB).\n"
	"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, counter, Rate over all NVLinks (in MB/s).\n"
	"DCGM_FI_DEV_VGPU_LICENSE_STATUS, gauge, vGPU licence: 1 if there is one.\n"
	"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS, counter, Rows of memory remapped after uncorrectable errors.\n"
	"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS, counter, Rows of memory remapped after correctable errors.\n"
	"DCGM_FI_DEV_ROW_REMAP_FAILURE, gauge, 1 if remapping of a row has failed.\n"
	"DCGM_FI_DRIVER_VERSION, label, Version of the driver.\n"
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Part of the time in which the graphics engine was active.\n"
	"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Part of the cycles in which the tensor cores were active.\n"
	"DCGM_FI_PROF_DRAM_ACTIVE, gauge, Part of the cycles in which the memory interface was active.\n"
	"DCGM_FI_PROF_PCIE_TX_BYTES, gauge, Rate of bytes sent over PCIe (in bytes per second).\n"
	"DCGM_FI_PROF_PCIE_RX_BYTES, gauge, Rate of bytes received over PCIe (in bytes per second).\n";

/* --- reading and checking --- */

int metrics_counters_read(struct metrics_counters **ret, const char *path,
	struct strv *warnings, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(METRICS_COUNTERS_FILE_MAX);
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
	struct metrics_counters before = { .n = 0 };

	if (!path || !*path)
		return metrics_counters_parse(ret, "the built-in counters",
			metrics_counters_builtin, sizeof(metrics_counters_builtin) - 1,
			warnings, err);
	/* Before the read, so that a change during the read is found as a change. */
	(void)stat_counters_file(&before, path);
	if (file_read(path, &text, err) < 0)
		return error_prefix(err, "counters file");
	if (metrics_counters_parse(&c, path, buf_str(&text), text.len, warnings, err) < 0)
		return -1;
	c->path = strdup(path);
	if (!c->path)
		return error_nomem(err);
	c->file_id = before.file_id;
	*ret = STEAL_PTR(c);
	return 0;
}

struct metrics_counters *metrics_counters_ref(struct metrics_counters *c)
{
	(void)atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

struct metrics_counters *metrics_counters_unref(struct metrics_counters *c)
{
	if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	for (uint32_t i = 0; i < c->n; i++) {
		free(c->rows[i].name);
		free(c->rows[i].help);
	}
	free(c->rows);
	free(c->path);
	free(c);
	return NULL;
}

bool metrics_counters_changed(const struct metrics_counters *c)
{
	struct metrics_counters now = { .n = 0 };

	if (!c->path)
		return false;
	return !stat_counters_file(&now, c->path) || now.file_id.device != c->file_id.device ||
	       now.file_id.inode != c->file_id.inode || now.file_id.size != c->file_id.size ||
	       now.file_id.s != c->file_id.s || now.file_id.ns != c->file_id.ns;
}

bool metrics_counters_have(const struct metrics_counters *c, enum metrics_source source)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->rows[i].source == source)
			return true;
	return false;
}

void metrics_counters_fields(const struct metrics_counters *c, bool *wanted)
{
	int reasons = field_position("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS");

	for (uint32_t i = 0; i < c->n; i++)
		if (c->rows[i].source == METRICS_FROM_FIELD)
			wanted[c->rows[i].field] = true;
	if (reasons >= 0 && (metrics_counters_have(c, METRICS_FROM_CLOCKS) ||
				    metrics_counters_have(c, METRICS_FROM_CLOCKS_TOTAL)))
		wanted[reasons] = true;
}
