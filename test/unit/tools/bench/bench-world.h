/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Invented measurements: times with noise within a repetition, and from one repetition to the next. */
#include "tools/bench/result/result.h"

struct noise {
	uint64_t state; /* the seed */
	double mean_ns;
	double within, between;           /* relative standard deviations */
	unsigned int runs, blocks, units; /* units of a block */
};

/* A row of one kind of pods: "burn" in the scenario "4 burn". The caller frees it with the result. */
void noise_row(struct bench_row *ret, struct noise *n, enum bench_mode mode, uint32_t pods);
/* The result has a row for each mode in @modes. */
void noise_result(struct bench_result *ret, struct noise *n, const enum bench_mode *modes,
	size_t n_modes);
/* Standard normal. */
double noise_normal(uint64_t *state);
