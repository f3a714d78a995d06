/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to bench/result: the JSON keys of the members, for reading and writing. */
#include "tools/bench/result/result.h"
#include "lib/json/record.h"

struct bench_fields {
	const struct record_field *fields;
	size_t n;
};

extern const struct bench_fields bench_head_fields, bench_row_fields, bench_run_fields,
	bench_gpu_fields, bench_check_fields, bench_size_fields;
