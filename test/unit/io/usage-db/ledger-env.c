/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger-env.h"

#include "support/test.h"

static char *dir, path[4096];

void ledger_env_setup(void)
{
	dir = test_tmpdir();
	(void)snprintf(path, sizeof(path), "%s/" LEDGER_FILE, dir);
}

void ledger_env_teardown(void)
{
	test_rmdir(dir);
	dir = NULL;
}

const char *ledger_env_path(void)
{
	return path;
}

const char *ledger_env_dir(void)
{
	return dir;
}

int ledger_env_add(struct ledger *l, uint64_t start_s, unsigned n, uint64_t now_s,
	struct error *err)
{
	struct ledger_row *rows = calloc(n, sizeof(*rows));
	char(*names)[32] = calloc(n, sizeof(*names));
	struct ledger_period p = { .start_s = start_s,
		.node = "node-1",
		.instance_type = "p3.2xlarge",
		.region = "us-east-1",
		.currency = "USD",
		.price_source = "test",
		.price_nano_per_hour = 3060000000,
		.gpus = 1,
		.covered_ns = INT64_C(300000000000),
		.cost_nano = 255000000 };
	const struct ledger_batch b = { .period = &p, .deltas = rows, .n_deltas = n };
	int64_t left = p.cost_nano;
	int r;

	assert_non_null(rows);
	assert_non_null(names);
	for (unsigned i = 0; i < n; i++) {
		bool idle = i + 1 == n;

		(void)snprintf(names[i], sizeof(names[i]), "pod-%u", i);
		rows[i] = idle ? (struct ledger_row){ .kind = LEDGER_IDLE, .gpu = "GPU-0" }
			       : (struct ledger_row){ .namespace_ = "team",
					 .pod = names[i],
					 .pod_uid = names[i],
					 .container = "main",
					 .gpu = "GPU-0",
					 .device = "GPU-0",
					 .resource = "nvidia.com/gpu.shared",
					 .mode = "time-slicing",
					 .held_ns = INT64_C(300000000000),
					 .busy_ns = 1000 + i,
					 .busy_unknown = i == 3,
					 .memory_byte_seconds = 1 << 20,
					 .memory_peak_bytes = 4096 + i };
		rows[i].gpu_ns = INT64_C(300000000000) / n;
		rows[i].cost_nano = idle ? left : p.cost_nano / (n + 1);
		left -= rows[i].cost_nano;
	}
	r = ledger_add(l, &b, now_s, err);
	free(rows);
	free(names);
	return r;
}

static int add_up(void *arg, const struct ledger_period *p, const struct ledger_row *row,
	struct error *err)
{
	struct sums *s = arg;

	(void)err;
	if (!row) {
		s->first_s = s->periods++ ? s->first_s : p->start_s;
		s->last_s = p->end_s;
		s->covered_ns += p->covered_ns;
		s->period_cost += p->cost_nano;
		return 0;
	}
	s->rows++;
	s->held_ns += row->held_ns;
	s->gpu_ns += row->gpu_ns;
	s->busy_ns += row->busy_ns;
	s->busy_unknown |= row->busy_unknown;
	s->memory_unknown |= row->memory_unknown;
	s->byte_seconds += row->memory_byte_seconds;
	s->peak = row->memory_peak_bytes > s->peak ? row->memory_peak_bytes : s->peak;
	s->cost += row->cost_nano;
	s->idle_cost += row->kind == LEDGER_IDLE ? row->cost_nano : 0;
	return 0;
}

void ledger_env_sum(uint64_t from_s, uint64_t to_s, struct sums *s)
{
	struct error err = ERROR_INIT;

	*s = (struct sums){ 0 };
	assert_ok(ledger_read(path, from_s, to_s, add_up, s, &err), &err);
	assert_int_equal(s->cost, s->period_cost);
}
