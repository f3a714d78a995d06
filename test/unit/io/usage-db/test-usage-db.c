/* SPDX-License-Identifier: Apache-2.0 */
#include "usage-db-env.h"
#include "support/test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static int setup(void **state)
{
	(void)state;
	usage_db_env_setup();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	usage_db_env_teardown();
	return 0;
}

static struct usage_db *open_it(uint64_t bytes)
{
	struct error err = ERROR_INIT;
	struct usage_db *db = NULL;

	assert_ok(usage_db_open(&db, usage_db_env_path(), bytes, &err), &err);
	return db;
}

static void add_test_rows(struct usage_db *db, uint64_t start_s, unsigned n, uint64_t now_s)
{
	struct error err = ERROR_INIT;

	assert_ok(usage_db_env_add(db, start_s, n, now_s, &err), &err);
}

/* "Busy time unknown" and "memory unknown" both stay when rows are merged. */
static void usage_db_add__keeps_unknown_figures(void **state)
{
	CLEANUP(usage_db_closep) struct usage_db *db = open_it(USAGE_DB_BYTES);
	const struct usage_db_period p = { .start_s = T0,
		.node = "n",
		.instance_type = "",
		.region = "",
		.currency = "",
		.price_source = "" };
	struct usage_db_row row = { .namespace_ = "team",
		.pod = "pod",
		.pod_uid = "",
		.container = "main",
		.gpu = "GPU-0",
		.device = "GPU-0",
		.resource = "r",
		.mode = "time-slicing",
		.allocated_ns = 1 };
	const struct usage_db_batch b = { .period = &p, .deltas = &row, .n_deltas = 1 };
	struct error err = ERROR_INIT;
	struct usage_db_sums got;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		row.busy_unknown = i == 0;
		row.memory_unknown = i == 1;
		assert_ok(usage_db_add(db, &b, T0, &err), &err);
		usage_db_env_sum(0, UINT64_MAX, &got);
		assert_int_equal(got.rows, 1);
		assert_true(got.busy_unknown);
		assert_int_equal(got.memory_unknown, i > 0);
	}
}

static void usage_db_add__adds_to_the_row_of_the_same_key(void **state)
{
	CLEANUP(usage_db_closep) struct usage_db *db = open_it(USAGE_DB_BYTES);
	struct usage_db_sums once, twice;
	struct stat st;

	(void)state;
	add_test_rows(db, T0, 5, T0);
	usage_db_env_sum(0, UINT64_MAX, &once);
	assert_int_equal(once.rows, 5);
	assert_int_equal(once.cost, 255000000);
	assert_int_equal(once.held_ns, INT64_C(1200000000000));
	assert_true(once.busy_unknown);
	add_test_rows(db, T0, 5, T0);
	usage_db_env_sum(0, UINT64_MAX, &twice);
	assert_int_equal(twice.periods, 1);
	assert_int_equal(twice.rows, 5);
	assert_int_equal(twice.cost, 2 * once.cost);
	assert_int_equal(twice.gpu_ns, 2 * once.gpu_ns);
	assert_int_equal(twice.busy_ns, 2 * once.busy_ns);
	assert_int_equal(twice.byte_seconds, 2 * once.byte_seconds);
	assert_int_equal(twice.peak, once.peak);
	assert_int_equal(twice.covered_ns, 2 * once.covered_ns);
	assert_int_equal(stat(usage_db_env_path(), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void usage_db_read__returns_records_that_overlap_the_range(void **state)
{
	CLEANUP(usage_db_closep) struct usage_db *db = open_it(USAGE_DB_BYTES);
	struct usage_db_sums s;

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		add_test_rows(db, T0 + i * USAGE_DB_BUCKET_S, 2, T0);
	usage_db_env_sum(T0 + 301, T0 + 601, &s);
	assert_int_equal(s.periods, 2);
	assert_int_equal(s.first_s, T0 + 300);
	usage_db_env_sum(T0 + 300, T0 + 600, &s);
	assert_int_equal(s.periods, 1);
	usage_db_env_sum(T0 + 3000, UINT64_MAX, &s);
	assert_int_equal(s.periods, 0);
	usage_db_env_sum(0, T0, &s);
	assert_int_equal(s.periods, 0);
}

static int collect_total(void *arg, const struct usage_db_total *t, struct error *err)
{
	struct usage_db_total *all = arg;
	size_t i = 0;

	(void)err;
	while (all[i].key)
		i++;
	all[i] = *t;
	all[i].key = strdup(t->key);
	return i == 7 ? -1 : 0;
}

static void usage_db_totals__are_replaced_as_a_whole(void **state)
{
	struct usage_db *db = open_it(USAGE_DB_BYTES);
	const struct usage_db_total first[] = { { "a", { 1, -2, INT64_MAX, INT64_MIN } },
		{ "b", { 5 } } };
	const struct usage_db_total second[] = { { "c\xc3\xa4", { 0, 0, 0, 0, 0, 0, 0, 8 } } };
	struct usage_db_total got[8] = { { NULL, { 0 } } };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(usage_db_add(db,
			  &(struct usage_db_batch){ .set_totals = true,
				  .totals = first,
				  .n_totals = 2 },
			  T0, &err),
		&err);
	assert_ok(usage_db_add(db, &(struct usage_db_batch){ .period = NULL }, T0, &err), &err);
	db = usage_db_close(db);
	db = open_it(USAGE_DB_BYTES);
	assert_ok(usage_db_totals_load(db, collect_total, got, &err), &err);
	assert_string_equal(got[0].key, "a");
	assert_memory_equal(got[0].v, first[0].v, sizeof(got[0].v));
	assert_string_equal(got[1].key, "b");
	assert_null(got[2].key);
	assert_ok(usage_db_add(db,
			  &(struct usage_db_batch){ .set_totals = true,
				  .totals = second,
				  .n_totals = 1 },
			  T0, &err),
		&err);
	assert_ok(usage_db_totals_load(db, collect_total, got + 2, &err), &err);
	assert_string_equal(got[2].key, "c\xc3\xa4");
	assert_int_equal(got[2].v[7], 8);
	assert_null(got[3].key);
	for (size_t i = 0; i < 3; i++)
		free((void *)(uintptr_t)got[i].key);
	(void)usage_db_close(db);
}

static void usage_db_add__refuses_values_out_of_bounds(void **state)
{
	CLEANUP(usage_db_closep) struct usage_db *db = open_it(USAGE_DB_BYTES);
	struct usage_db_period p = { .start_s = T0, .cost_nano = 5 };
	struct usage_db_row row = { .cost_nano = 5 };
	struct usage_db_batch b = { .period = &p, .deltas = &row, .n_deltas = 1 };
	struct error err = ERROR_INIT;
	char long_name[USAGE_DB_NAME_MAX + 2];
	struct usage_db_sums s;

	(void)state;
	memset(long_name, 'x', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	row.cost_nano = 4;
	assert_error(usage_db_add(db, &b, T0, &err), &err, "the rows cost 4, the period 5");
	row.cost_nano = 5;
	row.pod = long_name;
	assert_error(usage_db_add(db, &b, T0, &err), &err,
		"row 0: pod: expected at most 253 bytes");
	row.pod = "\xff";
	assert_error(usage_db_add(db, &b, T0, &err), &err, "row 0: pod: expected UTF-8");
	row.pod = "";
	row.allocated_ns = -1;
	assert_error(usage_db_add(db, &b, T0, &err), &err, "row 0: held_ns: expected 0 to");
	row.allocated_ns = 0;
	p.start_s++;
	assert_error(usage_db_add(db, &b, T0, &err), &err, "a multiple of 300");
	p.start_s--;
	p.node = long_name;
	assert_error(usage_db_add(db, &b, T0, &err), &err, "period 0: node");
	p.node = NULL;
	b.n_deltas = USAGE_DB_DELTAS_MAX + 1;
	assert_error(usage_db_add(db, &b, T0, &err), &err, "at most 16384 rows");
	b.n_deltas = 1;
	b.period = NULL;
	assert_error(usage_db_add(db, &b, T0, &err), &err, "without a period");
	b = (struct usage_db_batch){ .set_totals = true,
		.totals = &(struct usage_db_total){ "", { 0 } },
		.n_totals = 1 };
	assert_error(usage_db_add(db, &b, T0, &err), &err, "total 0: expected a key");
	usage_db_env_sum(0, UINT64_MAX, &s);
	assert_int_equal(s.periods, 0);
}

static void usage_db_add__refuses_a_batch_that_would_overflow(void **state)
{
	CLEANUP(usage_db_closep) struct usage_db *db = open_it(USAGE_DB_BYTES);
	struct usage_db_period p = { .start_s = T0 };
	struct usage_db_row row = { .memory_byte_seconds = USAGE_DB_VALUE_MAX };
	const struct usage_db_batch b = { .period = &p, .deltas = &row, .n_deltas = 1 };
	struct error err = ERROR_INIT;
	struct usage_db_sums s;

	(void)state;
	for (unsigned i = 0; i < 1023; i++)
		assert_ok(usage_db_add(db, &b, T0, &err), &err);
	assert_error(usage_db_add(db, &b, T0, &err), &err, "larger than the ledger can hold");
	usage_db_env_sum(0, UINT64_MAX, &s);
	assert_int_equal(s.byte_seconds, 1023 * USAGE_DB_VALUE_MAX);
}

static void usage_db_age__merges_without_changing_a_sum(void **state)
{
	CLEANUP(usage_db_closep) struct usage_db *db = open_it(USAGE_DB_BYTES);
	const unsigned buckets = 2 * 288 + 5;
	struct usage_db_sums before, after;
	const uint64_t later[] = { USAGE_DB_HOURS_AFTER_S, USAGE_DB_DAYS_AFTER_S };
	const uint64_t spans[] = { 3600, 86400 };

	(void)state;
	for (unsigned i = 0; i < buckets; i++)
		add_test_rows(db, T0 + i * USAGE_DB_BUCKET_S, 4 + i % 7, T0);
	usage_db_env_sum(0, UINT64_MAX, &before);
	assert_int_equal(before.periods, buckets);
	for (unsigned step = 0; step < 2; step++) {
		uint64_t now = T0 + later[step] + 2 * 86400;

		for (unsigned i = 0; i < 40; i++)
			add_test_rows(db, now - now % 300, 1, now);
		usage_db_env_sum(0, T0 + 3 * 86400, &after);
		assert_int_equal(after.periods, 2 * 86400 / spans[step] + (step ? 1 : 5));
		assert_int_equal(after.first_s, T0);
		assert_int_equal(after.last_s,
			T0 + 2 * 86400 + (step ? 3600 : 5 * USAGE_DB_BUCKET_S));
		before.periods = after.periods;
		before.rows = after.rows;
		before.last_s = after.last_s;
		assert_memory_equal(&before, &after, sizeof(before));
	}
	/* A bucket of a time that was merged already joins it. */
	add_test_rows(db, T0, 3, T0);
	add_test_rows(db, T0 + USAGE_DB_DAYS_AFTER_S + 86400, 1,
		T0 + USAGE_DB_DAYS_AFTER_S + 3 * 86400);
	usage_db_env_sum(0, T0 + 86400, &after);
	assert_int_equal(after.periods, 1);
	assert_int_equal(after.covered_ns, INT64_C(289) * 300000000000);
}

static uint64_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void usage_db_age__keeps_to_the_ceiling_and_keeps_the_newest(void **state)
{
	CLEANUP(usage_db_closep) struct usage_db *db = open_it(USAGE_DB_BYTES_MIN);
	struct usage_db_sums s;

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		add_test_rows(db, T0 + i * USAGE_DB_BUCKET_S, 50, T0);
		assert_true(size_of(usage_db_env_path()) <= USAGE_DB_BYTES_MIN);
	}
	usage_db_env_sum(0, UINT64_MAX, &s);
	assert_int_equal(s.last_s, T0 + 300 * USAGE_DB_BUCKET_S);
	assert_in_range(s.periods, 20, 299);
	assert_int_equal(s.rows, s.periods * 50);
}

static void usage_db_add__makes_room_for_a_large_batch(void **state)
{
	CLEANUP(usage_db_closep) struct usage_db *db = open_it(USAGE_DB_BYTES_MIN);
	struct error err = ERROR_INIT;
	struct usage_db_sums s;

	(void)state;
	for (unsigned i = 0; i < 40; i++)
		add_test_rows(db, T0 + i * USAGE_DB_BUCKET_S, 20, T0);
	add_test_rows(db, T0 + 90 * USAGE_DB_BUCKET_S, 700, T0);
	usage_db_env_sum(T0 + 90 * USAGE_DB_BUCKET_S, UINT64_MAX, &s);
	assert_int_equal(s.rows, 700);
	assert_error(usage_db_env_add(db, T0 + 91 * USAGE_DB_BUCKET_S, 16000, T0, &err), &err,
		"does not fit into 262144 bytes");
	assert_int_equal(err.code, ERR_LIMIT);
	assert_true(size_of(usage_db_env_path()) <= USAGE_DB_BYTES_MIN);
	add_test_rows(db, T0 + 92 * USAGE_DB_BUCKET_S, 5, T0);
}

static void usage_db_age__keeps_the_newest_however_large_it_is(void **state)
{
	CLEANUP(usage_db_closep) struct usage_db *db = open_it(USAGE_DB_BYTES_MIN);
	struct error err = ERROR_INIT;
	struct usage_db_sums s;
	unsigned n = 100;

	(void)state;
	/* Adds rows until the next hundred do not fit. That is far above the size at which old rows are
	 * removed. */
	while (usage_db_env_add(db, T0, n, T0, &err) == 0)
		n += 20;
	assert_int_equal(err.code, ERR_LIMIT);
	usage_db_env_sum(0, UINT64_MAX, &s);
	assert_int_equal(s.rows, n - 20);
}

static void usage_db_open__refuses_other_than_regular_files(void **state)
{
	struct error err = ERROR_INIT;
	struct usage_db *db = NULL;
	char other[4096];

	(void)state;
	(void)snprintf(other, sizeof(other), "%s/other", usage_db_env_dir());
	test_write(usage_db_env_dir(), "other", "", 0, 0644);
	assert_int_equal(symlink(other, usage_db_env_path()), 0);
	assert_error(usage_db_open(&db, usage_db_env_path(), USAGE_DB_BYTES, &err), &err,
		"expected a regular file");
	assert_int_equal(unlink(usage_db_env_path()), 0);
	assert_int_equal(mkfifo(usage_db_env_path(), 0600), 0);
	assert_error(usage_db_open(&db, usage_db_env_path(), USAGE_DB_BYTES, &err), &err,
		"expected a regular file");
	assert_int_equal(unlink(usage_db_env_path()), 0);
	assert_int_equal(link(other, usage_db_env_path()), 0);
	assert_error(usage_db_open(&db, usage_db_env_path(), USAGE_DB_BYTES, &err), &err,
		"one name");
	assert_int_equal(unlink(usage_db_env_path()), 0);
	assert_int_equal(mkdir(usage_db_env_path(), 0700), 0);
	assert_error(usage_db_open(&db, usage_db_env_path(), USAGE_DB_BYTES, &err), &err,
		"expected a regular file");
	assert_error(usage_db_open(&db, "/no/such/place/ledger.db", USAGE_DB_BYTES, &err), &err,
		"make ledger '/no/such/place/ledger.db': No such file");
	assert_null(db);
	assert_int_equal(size_of(other), 0);
}

static void usage_db_read__creates_no_file(void **state)
{
	struct error err = ERROR_INIT;
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	(void)state;
	assert_error(usage_db_read(usage_db_env_path(), 0, 1, NULL, NULL, &err), &err,
		"there is no ledger");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	test_write(usage_db_env_dir(), USAGE_DB_FILE, "", 0, 0600);
	assert_ok(usage_db_read(usage_db_env_path(), 0, 1, NULL, NULL, &err), &err);
	test_write(usage_db_env_dir(), USAGE_DB_FILE, "no database, but long enough to be read",
		39, 0600);
	assert_error(usage_db_read(usage_db_env_path(), 0, 1, NULL, NULL, &err), &err,
		"': expected the usage records of gpusliced (ledger.db in its state directory), "
		"found a file of another kind");
	assert_null(strstr(err.msg, "write"));
	d = opendir(usage_db_env_dir());
	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
		n += e->d_name[0] != '.';
	(void)closedir(d);
	assert_int_equal(n, 1);
}

static int stop_at_row(void *arg, const struct usage_db_period *p,
	const struct usage_db_row *row, struct error *err)
{
	(void)p;
	++*(unsigned *)arg;
	return row ? error_set(err, ERR_CANCELLED, "enough") : 0;
}

static void usage_db_read__ends_when_the_callback_stops_it(void **state)
{
	CLEANUP(usage_db_closep) struct usage_db *db = open_it(USAGE_DB_BYTES);
	struct error err = ERROR_INIT;
	unsigned n = 0;

	(void)state;
	add_test_rows(db, T0, 3, T0);
	assert_error(usage_db_read(usage_db_env_path(), 0, UINT64_MAX, stop_at_row, &n, &err),
		&err, "enough");
	assert_int_equal(n, 2);
	add_test_rows(db, T0, 3, T0); /* and keeps no lock */
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		ROW(usage_db_add__adds_to_the_row_of_the_same_key),
		ROW(usage_db_add__keeps_unknown_figures),
		ROW(usage_db_read__returns_records_that_overlap_the_range),
		ROW(usage_db_totals__are_replaced_as_a_whole),
		ROW(usage_db_add__refuses_values_out_of_bounds),
		ROW(usage_db_add__refuses_a_batch_that_would_overflow),
		ROW(usage_db_age__merges_without_changing_a_sum),
		ROW(usage_db_age__keeps_to_the_ceiling_and_keeps_the_newest),
		ROW(usage_db_add__makes_room_for_a_large_batch),
		ROW(usage_db_age__keeps_the_newest_however_large_it_is),
		ROW(usage_db_open__refuses_other_than_regular_files),
		ROW(usage_db_read__creates_no_file),
		ROW(usage_db_read__ends_when_the_callback_stops_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
