/* SPDX-License-Identifier: Apache-2.0 */

/*
 * make-ledger FILE: writes the records of standard input to an agent's usage-db. A line is a period, or a row of
 * the period before it. Bars separate its fields:
 *
 *	period|START|NODE|TYPE|REGION|CURRENCY|SOURCE|PRICE_NANO|GPUS|COVERED_NS
 *	held|NAMESPACE|POD|UID|CONTAINER|GPU|DEVICE|RESOURCE|MODE|HELD_NS|GPU_NS|BUSY_NS or -|COST_NANO
 *	idle|GPU|GPU_NS|COST_NANO
 */
#include "lib/base/parse.h"
#include "lib/base/strv.h"
#include "io/usage-db/usage-db.h"

#include <stdio.h>
#include <string.h>

#define ROWS_MAX 256

static struct usage_db_period period;
static struct usage_db_row rows[ROWS_MAX];
static struct strv texts[ROWS_MAX + 1];
static size_t n;

static int64_t parse_number_or_exit(const char *text)
{
	int64_t v = 0;

	if (!parse_i64(text, &v)) {
		(void)fprintf(stderr, "not a number: '%s'\n", text);
		exit(2);
	}
	return v;
}

static void flush_rows(struct usage_db *db)
{
	const struct usage_db_batch b = { .period = &period, .deltas = rows, .n_deltas = n };
	struct error err = ERROR_INIT;

	period.cost_nano = 0;
	for (size_t i = 0; i < n; i++)
		period.cost_nano += rows[i].cost_nano;
	if (period.node && usage_db_add(db, &b, period.start_s, &err) != 0) {
		(void)fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	n = 0;
	period.node = NULL;
}

static void read_period(char *const *f)
{
	period = (struct usage_db_period){ .start_s = (uint64_t)parse_number_or_exit(f[1]),
		.node = f[2],
		.instance_type = f[3],
		.region = f[4],
		.currency = f[5],
		.price_source = f[6],
		.price_nano_per_hour = parse_number_or_exit(f[7]),
		.gpus = (uint32_t)parse_number_or_exit(f[8]),
		.covered_ns = parse_number_or_exit(f[9]) };
}

static void read_row(char *const *f)
{
	if (!strcmp(f[0], "idle"))
		rows[n] = (struct usage_db_row){ .kind = USAGE_DB_UNALLOCATED,
			.gpu = f[1],
			.gpu_ns = parse_number_or_exit(f[2]),
			.cost_nano = parse_number_or_exit(f[3]) };
	else
		rows[n] = (struct usage_db_row){ .namespace_ = f[1],
			.pod = f[2],
			.pod_uid = f[3],
			.container = f[4],
			.gpu = f[5],
			.device = f[6],
			.resource = f[7],
			.mode = f[8],
			.allocated_ns = parse_number_or_exit(f[9]),
			.gpu_ns = parse_number_or_exit(f[10]),
			.busy_ns = strcmp(f[11], "-") ? parse_number_or_exit(f[11]) : 0,
			.busy_unknown = !strcmp(f[11], "-"),
			.cost_nano = parse_number_or_exit(f[12]) };
	n++;
}

static void read_line(struct usage_db *db, char *line)
{
	struct error err = ERROR_INIT;
	struct strv f = STRV_INIT;
	bool begins;

	line[strcspn(line, "\n")] = '\0';
	if (!*line)
		return;
	if (strv_split(&f, line, '|', &err) < 0)
		exit(1);
	begins = !strcmp(f.v[0], "period");
	if (f.n != (begins ? 10U : !strcmp(f.v[0], "idle") ? 4U : 13U)) {
		(void)fprintf(stderr, "%zu fields: %s\n", f.n, line);
		exit(2);
	}
	if (begins)
		flush_rows(db);
	/* The texts of what is not flushed are kept. */
	strv_fini(&texts[begins ? ROWS_MAX : n]);
	texts[begins ? ROWS_MAX : n] = f;
	if (begins)
		read_period(f.v);
	else
		read_row(f.v);
}

int main(int argc, char **argv)
{
	struct error err = ERROR_INIT;
	struct usage_db *db = NULL;
	char line[4096];

	if (argc != 2 || usage_db_open(&db, argv[1], USAGE_DB_BYTES, &err) != 0) {
		(void)fprintf(stderr, "usage: make-ledger FILE: %s\n", err.msg);
		return 1;
	}
	while (n < ROWS_MAX && fgets(line, sizeof(line), stdin))
		read_line(db, line);
	flush_rows(db);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		strv_fini(&texts[i]);
	(void)usage_db_close(db);
	return 0;
}
