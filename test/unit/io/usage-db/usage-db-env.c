/* SPDX-License-Identifier: Apache-2.0 */
#include "usage-db-env.h"

#include "support/test.h"

static char *dir, path[4096];

void usage_db_env_setup(void)
{
	dir = test_tmpdir();
	(void)snprintf(path, sizeof(path), "%s/" USAGE_DB_FILE, dir);
}

void usage_db_env_teardown(void)
{
	test_rmdir(dir);
	dir = NULL;
}

const char *usage_db_env_path(void)
{
	return path;
}

const char *usage_db_env_dir(void)
{
	return dir;
}

int usage_db_env_add(struct usage_db *db, uint64_t start_s, unsigned n, uint64_t now_s,
	struct error *err)
{
	struct usage_db_row *rows = calloc(n, sizeof(*rows));
	char(*names)[32] = calloc(n, sizeof(*names));
	struct usage_db_period p = { .start_s = start_s,
		.node = "node-1",
		.instance_type = "p3.2xlarge",
		.region = "us-east-1",
		.currency = "USD",
		.price_source = "test",
		.price_nano_per_hour = 3060000000,
		.gpus = 1,
		.covered_ns = INT64_C(300000000000),
		.cost_nano = 255000000 };
	const struct usage_db_batch b = { .period = &p, .deltas = rows, .n_deltas = n };
	int64_t left = p.cost_nano;
	int r;

	assert_non_null(rows);
	assert_non_null(names);
	for (unsigned i = 0; i < n; i++) {
		bool idle = i + 1 == n;

		(void)snprintf(names[i], sizeof(names[i]), "pod-%u", i);
		rows[i] = idle ? (struct usage_db_row){ .kind = USAGE_DB_UNALLOCATED,
			.gpu = "GPU-0" }
			       : (struct usage_db_row){ .namespace_ = "team",
					 .pod = names[i],
					 .pod_uid = names[i],
					 .container = "main",
					 .gpu = "GPU-0",
					 .device = "GPU-0",
					 .resource = "nvidia.com/gpu.shared",
					 .mode = "time-slicing",
					 .allocated_ns = INT64_C(300000000000),
					 .busy_ns = 1000 + i,
					 .busy_unknown = i == 3,
					 .memory_byte_seconds = 1 << 20,
					 .memory_peak_bytes = 4096 + i };
		rows[i].gpu_ns = INT64_C(300000000000) / n;
		rows[i].cost_nano = idle ? left : p.cost_nano / (n + 1);
		left -= rows[i].cost_nano;
	}
	r = usage_db_add(db, &b, now_s, err);
	free(rows);
	free(names);
	return r;
}

static int add_up(void *arg, const struct usage_db_period *p, const struct usage_db_row *row,
	struct error *err)
{
	struct usage_db_sums *s = arg;

	(void)err;
	if (!row) {
		s->first_s = s->periods++ ? s->first_s : p->start_s;
		s->last_s = p->end_s;
		s->covered_ns += p->covered_ns;
		s->period_cost += p->cost_nano;
		return 0;
	}
	s->rows++;
	s->held_ns += row->allocated_ns;
	s->gpu_ns += row->gpu_ns;
	s->busy_ns += row->busy_ns;
	s->busy_unknown |= row->busy_unknown;
	s->memory_unknown |= row->memory_unknown;
	s->byte_seconds += row->memory_byte_seconds;
	s->peak = row->memory_peak_bytes > s->peak ? row->memory_peak_bytes : s->peak;
	s->cost += row->cost_nano;
	s->idle_cost += row->kind == USAGE_DB_UNALLOCATED ? row->cost_nano : 0;
	return 0;
}

void usage_db_env_sum(uint64_t from_s, uint64_t to_s, struct usage_db_sums *s)
{
	struct error err = ERROR_INIT;

	*s = (struct usage_db_sums){ 0 };
	assert_ok(usage_db_read(path, from_s, to_s, add_up, s, &err), &err);
	assert_int_equal(s->cost, s->period_cost);
}
