/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/result/fields.h"

#define HEAD(member)  RECORD(struct bench_head, member, #member)
#define ROW(member)   RECORD(struct bench_row, member, #member)
#define RUN(member)   RECORD(struct bench_run, member, #member)
#define GPU(member)   RECORD(struct bench_gpu, member, #member)
#define CHECK(member) RECORD(struct bench_isolation, member, #member)
#define SIZE(member)  RECORD(struct bench_size, member, #member)

#define FIELDS(name)                                                       \
	const struct bench_fields bench_##name##_fields = { name##_fields, \
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
