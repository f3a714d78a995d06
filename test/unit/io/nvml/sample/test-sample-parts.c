/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of sampling that make no calls: the table, the shares of processes, what is plausible, packets. */
#include "support/test.h"

#include "io/nvml/monitor/plausible.h"
#include "io/nvml/monitor/sampling.h"
#include "io/nvml/sample/share.h"
#include "io/nvml/sample/source.h"

#include <math.h>

#define SEC UINT64_C(1000000)         /* us */
#define NS  UINT64_C(1000000000)      /* a second */
#define T0  (UINT64_C(1000000) * SEC) /* some wall clock */

/* --- the table --- */

static void sources__has_a_row_for_each_field(void **state)
{
	(void)state;
	assert_int_equal(n_sources, n_fields);
	for (size_t i = 0; i < n_fields; i++) {
		const struct sample_source *s = &sources[i];

		assert_int_equal(s->id, fields[i].id);
		assert_int_equal(s->how == SOURCE_CALL, s->call != NULL);
		assert_int_equal(s->how == SOURCE_GPM,
			s->id >= FIELD_PROFILING_FIRST && s->id <= FIELD_PROFILING_LAST);
		if (fields[i].kind == FIELD_TEXT)
			assert_int_equal(s->how, SOURCE_CALL);
		if (s->how == SOURCE_RATE)
			assert_int_equal(fields[i].kind, FIELD_INT);
		/* Field values are of boards, metrics of traffic are integers. */
		if (s->how == SOURCE_FIELD || s->how == SOURCE_RATE)
			assert_int_equal(fields[i].of, FIELD_OF_GPU);
	}
}

static void sources__marks_energy_and_ecc_as_costly(void **state)
{
	static const uint16_t costly[] = { 156, 200, 201, 310, 313, 314, 345, 390, 391, 392 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(costly); i++) {
		size_t at = 0;

		while (at < n_sources && sources[at].id != costly[i])
			at++;
		assert_true(at < n_sources);
		assert_int_equal(sources[at].every, SOURCE_COSTLY);
	}
}

/* --- shares --- */

struct shares {
	struct share_state state;
	struct sample_process list[8];
	uint32_t n;
	nvmlProcessUtilizationSample_t v[8];
	uint32_t n_v;
};

static void add_user(struct shares *s, uint32_t pid)
{
	s->list[s->n++] = (struct sample_process){ .pid = pid, .bytes = 7 };
}

static void sampled(struct shares *s, uint32_t pid, uint64_t at, unsigned int percent)
{
	s->v[s->n_v++] = (nvmlProcessUtilizationSample_t){ .pid = pid,
		.timeStamp = at,
		.smUtil = percent };
}

static void count_shares(struct shares *s, uint64_t from, uint64_t to)
{
	share_count(s->v, s->n_v, from, to, s->list, &s->n, ARRAY_LEN(s->list));
	s->n_v = 0;
}

static void share_count__percentages_are_of_the_interval(void **state)
{
	struct shares s = { .n = 0 };

	(void)state;
	add_user(&s, 11);
	add_user(&s, 12);
	sampled(&s, 11, T0 + 2 * SEC, 30); /* whenever it was seen last */
	count_shares(&s, T0, T0 + 5 * SEC);
	assert_true(s.list[0].busy_known);
	assert_int_equal(s.list[0].busy_ns, NS + NS / 2);
	assert_true(s.list[1].busy_known);
	assert_int_equal(s.list[1].busy_ns, 0);

	/* Several of one process: each since the one before, the last until now. */
	sampled(&s, 11, T0 + 8 * SEC, 50);
	sampled(&s, 11, T0 + 6 * SEC, 100); /* not in order */
	sampled(&s, 12, T0 + 6 * SEC, 10);
	count_shares(&s, T0 + 5 * SEC, T0 + 10 * SEC);
	assert_int_equal(s.list[0].busy_ns, NS + 2 * NS);
	assert_int_equal(s.list[1].busy_ns, NS / 2);
}

static void share_count__has_no_figures_for_the_first_interval(void **state)
{
	struct shares s = { .n = 0 };

	(void)state;
	add_user(&s, 11);
	sampled(&s, 11, T0 - SEC, 100);
	count_shares(&s, 0, T0);
	assert_false(s.list[0].busy_known);
	assert_int_equal(s.list[0].busy_ns, 0);
}

static void share_count__adds_processes_that_are_not_listed(void **state)
{
	struct shares s = { .n = 0 };

	(void)state;
	add_user(&s, 11);
	sampled(&s, 99, T0 + SEC, 40);
	count_shares(&s, T0, T0 + 5 * SEC);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.list[1].pid, 99);
	assert_int_equal(s.list[1].bytes, 0);
	assert_int_equal(s.list[1].busy_ns, 2 * NS);
}

static void share_count__ignores_impossible_figures(void **state)
{
	struct shares s = { .n = 0 };

	(void)state;
	add_user(&s, 11);
	sampled(&s, 11, T0 + SEC, 101);
	sampled(&s, 11, T0 + 1000 * SEC, 50); /* of the future */
	sampled(&s, 11, 0, 50);
	sampled(&s, 0, T0 + SEC, 50);
	sampled(&s, 11, T0 - 500 * SEC, 50); /* of long ago */
	count_shares(&s, T0, T0 + 5 * SEC);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.list[0].busy_ns, 0);
}

#define MS (NS / 1000)

/* All figures in ms: the samples of two processes, the busy time of the GPU, and the share of each process. */
static void share_settle__is_exact_over_time(void **state)
{
	const struct {
		uint64_t says[2], busy, want[2], told;
	} rows[] = {
		/* time without samples yet is pending, of the last half second */
		{ { 0, 0 }, 700, { 0, 0 }, 200 },
		{ { 600, 200 }, 350, { 600, 200 }, 800 },
		/* a process whose share exceeds the busy time gets the rest later */
		{ { 600, 400 }, 800, { 510, 340 }, 850 },
		{ { 0, 0 }, 100, { 60, 40 }, 100 },
		{ { 150, 0 }, 200, { 180, 20 }, 200 },
		/* missing samples: the time belongs to the processes that computed */
		{ { 300, 100 }, 500, { 300, 100 }, 400 },
		{ { 300, 100 }, 900, { 375, 125 }, 500 },
	};
	struct shares s = { .n = 0 };

	(void)state;
	add_user(&s, 11);
	add_user(&s, 12);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct share_time t = { .interval_ns = NS,
			.busy_ns = rows[i].busy * MS,
			.reserve_ns = SHARE_RESERVE_NS };
		uint64_t to = T0 + (i + 1) * SEC, told;

		for (uint32_t k = 0; k < 2; k++)
			if (rows[i].says[k])
				sampled(&s, 11 + k, to, (unsigned int)(rows[i].says[k] / 10));
		count_shares(&s, to - SEC, to);
		told = share_settle(&s.state, s.list, &s.n, ARRAY_LEN(s.list), &t);
		for (uint32_t k = 0; k < 2; k++)
			if (s.list[k].busy_ns != rows[i].want[k] * MS)
				fail_msg("row %zu: %u has %llu us", i, k,
					(unsigned long long)s.list[k].busy_ns / 1000);
		if (told != rows[i].told * MS)
			fail_msg("row %zu: %llu us", i, (unsigned long long)told / 1000);
	}
}

/* The driver reports nothing of an ended process. */
static void share_settle__gives_the_rest_to_ended_processes(void **state)
{
	struct share_time t = { NS, 800 * MS, SHARE_RESERVE_NS };
	struct shares s = { .n = 0 };

	(void)state;
	add_user(&s, 11);
	add_user(&s, 12);
	sampled(&s, 11, T0 + SEC, 50);
	sampled(&s, 12, T0 + SEC, 30);
	count_shares(&s, T0, T0 + SEC);
	(void)share_settle(&s.state, s.list, &s.n, ARRAY_LEN(s.list), &t);
	s.n = 1;
	sampled(&s, 11, T0 + 2 * SEC, 50);
	count_shares(&s, T0 + SEC, T0 + 2 * SEC);
	t.busy_ns = 700 * MS;
	assert_int_equal(share_settle(&s.state, s.list, &s.n, ARRAY_LEN(s.list), &t), 700 * MS);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.list[0].busy_ns, 500 * MS);
	assert_int_equal(s.list[1].pid, 12);
	assert_int_equal(s.list[1].busy_ns, 200 * MS);
	/* The time of an ended process is reported once. */
	s.n = 1;
	sampled(&s, 11, T0 + 3 * SEC, 50);
	count_shares(&s, T0 + 2 * SEC, T0 + 3 * SEC);
	(void)share_settle(&s.state, s.list, &s.n, ARRAY_LEN(s.list), &t);
	assert_int_equal(s.n, 1);
}

/* The GPU's time is an estimate without GPM: it bounds the samples, and adds nothing. */
static void share_settle__assigns_no_estimated_rest(void **state)
{
	const struct share_time t = { NS, 900 * MS, 0 };
	struct shares s = { .n = 0 };

	(void)state;
	add_user(&s, 11);
	add_user(&s, 12);
	sampled(&s, 11, T0 + SEC, 30);
	sampled(&s, 12, T0 + SEC, 20);
	count_shares(&s, T0, T0 + SEC);
	assert_int_equal(share_settle(&s.state, s.list, &s.n, ARRAY_LEN(s.list), &t), 900 * MS);
	assert_int_equal(s.list[0].busy_ns, 300 * MS);
	assert_int_equal(s.list[1].busy_ns, 200 * MS);
	s.n = 1;
	sampled(&s, 11, T0 + 2 * SEC, 30);
	count_shares(&s, T0 + SEC, T0 + 2 * SEC);
	(void)share_settle(&s.state, s.list, &s.n, ARRAY_LEN(s.list), &t);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.list[0].busy_ns, 300 * MS);
}

static void share_settle__stays_within_the_interval(void **state)
{
	const struct share_time t = { NS, NS, SHARE_RESERVE_NS };
	struct shares s = { .n = 0 };
	uint64_t told = 0;

	(void)state;
	add_user(&s, 11);
	for (uint64_t i = 1; i <= 20; i++) {
		if (i % 2 == 0)
			sampled(&s, 11, T0 + i * SEC, 100);
		count_shares(&s, T0 + (i - 1) * SEC, T0 + i * SEC);
		told += share_settle(&s.state, s.list, &s.n, ARRAY_LEN(s.list), &t);
		assert_true(s.list[0].busy_ns <= NS);
		assert_true(s.state.reserved_ns <= SHARE_RESERVE_NS);
	}
	assert_int_equal(told + s.state.reserved_ns, 20 * NS);
}

/* --- what is plausible --- */

static uint16_t find_field(const char *name)
{
	int at = field_position(name);

	assert_true(at >= 0);
	return (uint16_t)at;
}

static bool int_passes(const char *name, int64_t v)
{
	return plausible_value(&(struct sample_value){ .field = find_field(name), .i = v });
}

static bool real_passes(const char *name, double v)
{
	return plausible_value(&(struct sample_value){ .field = find_field(name), .real = v });
}

static void plausible__values_have_limits(void **state)
{
	(void)state;
	assert_true(int_passes("DCGM_FI_DEV_GPU_TEMP", 37));
	assert_true(int_passes("DCGM_FI_DEV_GPU_TEMP", -5));
	assert_false(int_passes("DCGM_FI_DEV_GPU_TEMP", 1001));
	assert_true(int_passes("DCGM_FI_DEV_GPU_UTIL", 100));
	assert_false(int_passes("DCGM_FI_DEV_GPU_UTIL", 101));
	assert_false(int_passes("DCGM_FI_DEV_SM_CLOCK", -1));
	assert_true(int_passes("DCGM_FI_DEV_FB_USED", 1 << 30));
	assert_false(int_passes("DCGM_FI_DEV_FB_USED", (1 << 30) + 1));
	assert_true(int_passes("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", INT64_C(1) << 60));
	assert_false(int_passes("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", -1));
	assert_true(int_passes("DCGM_FI_PROF_PCIE_TX_BYTES", INT64_C(1) << 50));
	assert_false(int_passes("DCGM_FI_PROF_PCIE_TX_BYTES", (INT64_C(1) << 50) + 1));
	assert_true(int_passes("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1980000000));
	assert_false(int_passes("DCGM_FI_DEV_SM_CLOCK_HERTZ", INT64_C(1) << 40));
	assert_true(real_passes("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1e9));
	assert_true(real_passes("DCGM_FI_DEV_FAN_SPEED_RATIO", 1.2));
	assert_false(real_passes("DCGM_FI_DEV_FAN_SPEED_RATIO", 2.1));
	assert_true(real_passes("DCGM_FI_DEV_POWER_USAGE", 700.5));
	assert_false(real_passes("DCGM_FI_DEV_POWER_USAGE", 1e6));
	assert_false(real_passes("DCGM_FI_DEV_POWER_USAGE", (double)NAN));
	assert_false(real_passes("DCGM_FI_DEV_POWER_USAGE", -1));
	assert_true(real_passes("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1));
	assert_false(real_passes("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.03));
	assert_false(real_passes("DCGM_FI_DEV_FB_USED_PERCENT", (double)INFINITY));
}

static struct sample_device make_valid_device(struct sample_process *processes)
{
	return (struct sample_device){ .uuid = "GPU-1",
		.gi = GPU_NO_INSTANCE,
		.ci = GPU_NO_INSTANCE,
		.at_ns = 100 * NS,
		.interval_ns = 10 * NS,
		.memory_known = true,
		.reserved_known = true,
		.busy_known = true,
		.processes_known = true,
		.memory_total = 100,
		.memory_used = 50,
		.memory_free = 40,
		.memory_reserved = 10,
		.busy_ns = 5 * NS,
		.n_processes = 2,
		.processes = processes };
}

static void plausible__reports_impossible_values_as_unknown(void **state)
{
	struct sample_process p[2];
	struct sample_device device;

	(void)state;
#define WITH(change)                                       \
	do {                                               \
		p[0] = (struct sample_process){ .pid = 1,  \
			.busy_known = true,                \
			.bytes = 20,                       \
			.busy_ns = 2 * NS };               \
		p[1] = (struct sample_process){ .pid = 2,  \
			.busy_known = true,                \
			.bytes = 30,                       \
			.busy_ns = 3 * NS };               \
		device = make_valid_device(p);             \
		change;                                    \
		plausible_check_device(&device, 101 * NS); \
	} while (0)

	WITH((void)0);
	assert_true(device.memory_known && device.reserved_known && device.busy_known &&
		    device.processes_known);
	assert_true(p[0].busy_known && p[1].busy_known);
	assert_int_equal(p[0].busy_ns + p[1].busy_ns, device.busy_ns);

	WITH(device.memory_total = (UINT64_C(1) << 50) + 1);
	assert_false(device.memory_known);
	assert_int_equal(device.memory_used, 0);
	assert_true(device.busy_known);
	WITH(device.memory_used = 101);
	assert_false(device.memory_known);
	WITH(device.memory_reserved = 101);
	assert_true(device.memory_known);
	assert_false(device.reserved_known);
	WITH(device.busy_ns = device.interval_ns + 1);
	assert_false(device.busy_known);
	assert_int_equal(device.busy_ns, 0);
	WITH(device.interval_ns = 24 * 3600 * NS);
	assert_int_equal(device.interval_ns, 0);
	assert_false(device.busy_known);
	assert_false(p[0].busy_known);
	WITH(device.at_ns = UINT64_MAX);
	assert_int_equal(device.at_ns, 101 * NS);
	/* Together more than the GPU. */
	WITH(p[1].busy_ns += 1);
	assert_false(p[0].busy_known || p[1].busy_known);
	assert_int_equal(p[1].busy_ns, 0);
	assert_true(device.busy_known);
	/* A sum that wraps. */
	WITH(p[0].busy_ns = p[1].busy_ns = UINT64_MAX / 2 + 2);
	assert_false(p[0].busy_known || p[1].busy_known);
	WITH(p[0].bytes = (UINT64_C(1) << 50) + 1);
	assert_true(p[0].bytes == GPU_BYTES_UNKNOWN);
	WITH(device.processes_known = false);
	assert_int_equal(device.n_processes, 0);
#undef WITH
}

/* --- packets --- */

struct sample_reply {
	int times;
	struct sample *sample;
	struct error err;
};

static void on_done(void *arg, struct sample *sample, const struct error *err)
{
	struct sample_reply *t = arg;

	t->times++;
	sample_free(t->sample);
	t->sample = sample;
	if (err)
		t->err = *err;
}

static void begin_sampling(struct sampling *s, struct sample_reply *t)
{
	struct error err = ERROR_INIT;

	assert_ok(sampling_begin(s, &err), &err);
	s->done = on_done;
	s->arg = t;
}

static union worker_msg make_device_message(const struct sampling *s, uint32_t gpu, uint32_t gi,
	const char *uuid)
{
	union worker_msg m = { .device = { .seq = s->seq,
				       .gpu = gpu,
				       .gi = gi,
				       .ci = gi == GPU_NO_INSTANCE ? gi : 0,
				       .known = WORKER_DEVICE_ALL,
				       .at_ns = NS,
				       .memory_total = 10 } };

	(void)snprintf(m.device.uuid, sizeof m.device.uuid, "%s", uuid);
	worker_head(&m.head, WORKER_DEVICE);
	return m;
}

static int apply_checked_message(struct sampling *s, union worker_msg m)
{
	int r = worker_msg_check(&m, m.head.len, NULL);

	return r < 0 ? r : sampling_apply(s, &m, 2 * NS, NULL);
}

static void end(struct sampling *s, const struct inventory *inv)
{
	struct worker_sample_end m = { .seq = s->seq, .calls = 5, .ns = 6 };

	sampling_end(s, &m, 2 * NS, inv);
}

static union worker_msg make_values_msg(const struct sampling *s, uint32_t n)
{
	union worker_msg m = { .values = { .seq = s->seq, .n = n } };

	for (uint32_t i = 0; i < n && i < FIELDS_MAX; i++)
		m.values.v[i].field = (uint16_t)(find_field("DCGM_FI_DEV_SM_CLOCK") + i);
	worker_head(&m.head, WORKER_VALUES);
	return m;
}

static void sampling__puts_packets_together(void **state)
{
	struct sampling s = { .seq = 7 };
	struct sample_reply t = { .times = 0 };
	union worker_msg users = { .users = { .n = WORKER_USERS_MAX } };

	(void)state;
	begin_sampling(&s, &t);
	assert_int_equal(
		apply_checked_message(&s, make_device_message(&s, 0, GPU_NO_INSTANCE, "GPU-0")),
		0);
	assert_int_equal(apply_checked_message(&s, make_values_msg(&s, 2)), 0);
	worker_head(&users.head, WORKER_USERS);
	users.users.seq = s.seq;
	for (uint32_t i = 0; i < WORKER_USERS_MAX; i++)
		users.users.v[i].pid = i + 1;
	assert_int_equal(apply_checked_message(&s, users), 0);
	assert_int_equal(apply_checked_message(&s, users), 0);
	assert_int_equal(
		apply_checked_message(&s, make_device_message(&s, 3, GPU_NO_INSTANCE, "GPU-3")),
		0);
	assert_int_equal(apply_checked_message(&s, make_device_message(&s, 3, 9, "MIG-3")), 0);
	end(&s, NULL);
	assert_int_equal(t.times, 1);
	assert_int_equal(t.sample->n, 3);
	assert_int_equal(t.sample->nvml_calls, 5);
	assert_int_equal(t.sample->devices[0].n_values, 2);
	assert_int_equal(t.sample->devices[0].n_processes, 2 * WORKER_USERS_MAX);
	assert_non_null(
		sample_value(&t.sample->devices[0], find_field("DCGM_FI_DEV_SM_CLOCK")));
	assert_int_equal(t.sample->devices[2].gi, 9);
	assert_false(s.active);
	sample_free(t.sample);
	sampling_fini(&s);
}

static void sampling__ignores_answers_to_another_request(void **state)
{
	struct sampling s = { .seq = UINT32_MAX };
	struct sample_reply t = { .times = 0 };
	union worker_msg m;

	(void)state;
	begin_sampling(&s, &t);
	assert_int_equal(s.seq, 1);
	m = make_device_message(&s, 0, GPU_NO_INSTANCE, "GPU-0");
	m.device.seq = 9;
	assert_int_equal(apply_checked_message(&s, m), 0);
	sampling_end(&s, &(struct worker_sample_end){ .seq = 9 }, NS, NULL);
	assert_int_equal(t.times, 0);
	end(&s, NULL);
	assert_int_equal(t.times, 1);
	assert_int_equal(t.sample->n, 0);
	/* A device without a request. */
	assert_int_equal(
		apply_checked_message(&s, make_device_message(&s, 0, GPU_NO_INSTANCE, "GPU-0")),
		0);
	end(&s, NULL);
	assert_int_equal(t.times, 1);
	sample_free(t.sample);
	sampling_fini(&s);
}

static void sampling__refuses_packets_out_of_order(void **state)
{
	struct sampling s = { .seq = 0 };
	struct sample_reply t = { .times = 0 };
	struct error err = ERROR_INIT;

	(void)state;
	begin_sampling(&s, &t);
	assert_int_equal(apply_checked_message(&s, make_values_msg(&s, 1)),
		-1); /* of no device */
	assert_int_equal(apply_checked_message(&s, make_device_message(&s, 0, 1, "MIG-0")),
		-1); /* before its GPU */
	assert_int_equal(
		apply_checked_message(&s, make_device_message(&s, 4, GPU_NO_INSTANCE, "GPU-4")),
		0);
	assert_int_equal(
		apply_checked_message(&s, make_device_message(&s, 4, GPU_NO_INSTANCE, "GPU-5")),
		-1);
	assert_int_equal(
		apply_checked_message(&s, make_device_message(&s, 3, GPU_NO_INSTANCE, "GPU-3")),
		-1);
	assert_int_equal(apply_checked_message(&s, make_device_message(&s, 5, 1, "MIG-5")),
		-1); /* of another GPU */
	assert_int_equal(
		apply_checked_message(&s, make_device_message(&s, 5, GPU_NO_INSTANCE, "GPU-4")),
		-1); /* twice */
	assert_int_equal(apply_checked_message(&s, make_values_msg(&s, 1)), 0);
	assert_int_equal(apply_checked_message(&s, make_values_msg(&s, 1)), -1); /* twice */
	for (uint32_t i = 0; i <= GPU_MIG_MAX; i++) {
		char uuid[32];

		(void)snprintf(uuid, sizeof uuid, "MIG-%u", i);
		assert_int_equal(apply_checked_message(&s, make_device_message(&s, 4, i, uuid)),
			i < GPU_MIG_MAX ? 0 : -1);
	}
	(void)error_set(&err, ERR_UNAVAILABLE, "it ended");
	sampling_fail(&s, &err);
	assert_int_equal(t.times, 1);
	assert_null(t.sample);
	assert_string_equal(t.err.msg, "it ended");
	sampling_fini(&s);
}

static void sampling__adds_devices_that_were_not_read(void **state)
{
	struct sampling s = { .seq = 0 };
	struct sample_reply t = { .times = 0 };
	struct inventory *inv = NULL;
	struct gpu_mig mig = { .gi = 2, .ci = 0, .uuid = "MIG-1" };
	struct error err = ERROR_INIT;
	const struct sample_device *device;

	(void)state;
	assert_ok(inventory_new(&inv, 3, &err), &err);
	for (uint32_t i = 0; i < 3; i++) {
		inv->gpus[i].index = i;
		(void)snprintf(inv->gpus[i].uuid, sizeof inv->gpus[i].uuid, "GPU-%u", i);
	}
	inv->gpus[1].fault = GPU_FAULT_STUCK;
	(void)snprintf(inv->gpus[1].reason, sizeof inv->gpus[1].reason, "it hangs");
	inv->gpus[2].fault = GPU_FAULT_GONE;
	assert_ok(inventory_add_mig(inv, 1, &mig, 1, &err), &err);
	begin_sampling(&s, &t);
	assert_int_equal(
		apply_checked_message(&s, make_device_message(&s, 0, GPU_NO_INSTANCE, "GPU-0")),
		0);
	end(&s, inv);
	assert_int_equal(t.sample->n, 3);
	assert_string_equal(t.sample->devices[0].reason, "");
	device = sample_find(t.sample, "GPU-1");
	assert_ptr_equal(device, &t.sample->devices[1]);
	assert_string_equal(device->reason, "it hangs");
	assert_false(device->memory_known || device->busy_known || device->processes_known);
	device = sample_find(t.sample, "MIG-1");
	assert_int_equal(device->gi, 2);
	assert_string_equal(device->reason, "it hangs");
	sample_free(t.sample);
	sampling_fini(&s);
	inventory_free(inv);
}

static int check_msg(union worker_msg m)
{
	return worker_msg_check(&m, m.head.len, NULL);
}

static void packets__of_an_untrusted_worker_are_checked(void **state)
{
	struct sampling s = { .seq = 1 };
	union worker_msg m;

	(void)state;
#define REFUSED(make, change)                       \
	do {                                        \
		m = make;                           \
		assert_int_equal(check_msg(m), 0);  \
		change;                             \
		assert_int_equal(check_msg(m), -1); \
	} while (0)

	REFUSED(make_device_message(&s, 0, GPU_NO_INSTANCE, "GPU-0"),
		m.device.gpu = GPU_NODE_MAX);
	REFUSED(make_device_message(&s, 0, GPU_NO_INSTANCE, "GPU-0"), m.device.ci = 0);
	REFUSED(make_device_message(&s, 0, 1, "MIG-0"), m.device.ci = GPU_NO_INSTANCE);
	REFUSED(make_device_message(&s, 0, 1, "MIG-0"), m.device.uuid[0] = '\0');
	REFUSED(make_device_message(&s, 0, 1, "MIG-0"), m.device.uuid[1] = '\n');
	REFUSED(make_device_message(&s, 0, 1, "MIG-0"),
		memset(m.device.reason, 'x', sizeof m.device.reason));
	REFUSED(make_device_message(&s, 0, 1, "MIG-0"), m.device.known = 16);
	REFUSED(make_values_msg(&s, 2), m.values.n = FIELDS_MAX + 1);
	REFUSED(make_values_msg(&s, 2), m.values.v[1].field = m.values.v[0].field);
	REFUSED(make_values_msg(&s, 2), m.values.v[1].field = (uint16_t)n_fields);
	REFUSED(make_values_msg(&s, 1), m.values.v[0].field = find_field("DCGM_FI_DEV_NAME"));
	m = (union worker_msg){ .texts = { .n = 1 } };
	m.texts.v[0].field = find_field("DCGM_FI_DEV_NAME");
	memcpy(m.texts.v[0].text, "a name", 7);
	worker_head(&m.head, WORKER_TEXTS);
	REFUSED(m, m.texts.v[0].text[3] = '\t');
	m.texts.v[0].text[3] = 'a';
	REFUSED(m, m.texts.v[0].field = find_field("DCGM_FI_DEV_SM_CLOCK"));
	m.texts.v[0].field = find_field("DCGM_FI_DEV_NAME");
	REFUSED(m, m.texts.n = WORKER_TEXTS_MAX + 1);
	m = (union worker_msg){ .users = { .n = 1 } };
	worker_head(&m.head, WORKER_USERS);
	REFUSED(m, m.users.n = WORKER_USERS_MAX + 1);
	m.users.n = 1;
	REFUSED(m, memset(&m.users.v[0].busy_known, 2, 1));
#undef REFUSED
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sources__has_a_row_for_each_field),
		cmocka_unit_test(sources__marks_energy_and_ecc_as_costly),
		cmocka_unit_test(share_count__percentages_are_of_the_interval),
		cmocka_unit_test(share_count__has_no_figures_for_the_first_interval),
		cmocka_unit_test(share_count__adds_processes_that_are_not_listed),
		cmocka_unit_test(share_count__ignores_impossible_figures),
		cmocka_unit_test(share_settle__is_exact_over_time),
		cmocka_unit_test(share_settle__gives_the_rest_to_ended_processes),
		cmocka_unit_test(share_settle__assigns_no_estimated_rest),
		cmocka_unit_test(share_settle__stays_within_the_interval),
		cmocka_unit_test(plausible__values_have_limits),
		cmocka_unit_test(plausible__reports_impossible_values_as_unknown),
		cmocka_unit_test(sampling__puts_packets_together),
		cmocka_unit_test(sampling__ignores_answers_to_another_request),
		cmocka_unit_test(sampling__refuses_packets_out_of_order),
		cmocka_unit_test(sampling__adds_devices_that_were_not_read),
		cmocka_unit_test(packets__of_an_untrusted_worker_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
