/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the programs that load a GPU share: options, the kernel of fixed work and its calibration, the start time,
 * samples and their percentiles.
 *
 * A kernel that spins for a time does not notice other work on the GPU, as its clock runs on while the kernel is
 * off the multiprocessors. So the programs run fixed amounts of work (rounds of "burn"). The amounts are
 * calibrated on a GPU without other work and passed to all programs (--work).
 */
#include "cuda/driver.h"

#include <stdatomic.h>

/* One option: a number goes to .number, other text to .text; without either: .flag. */
struct load_option {
	const char *name;
	uint64_t *number;
	const char **text;
	bool *flag;
};
/* Ends the program at an unknown one. The list ends with a NULL name. */
void load_options(char **argv, const struct load_option *options);

/* A device, its primary context current, and the kernels. */
struct load {
	CUdevice device;
	CUcontext context;
	CUfunction burn, nop, spin;
	unsigned int sms; /* multiprocessors that the driver shows: under MPS perhaps some */
	bool mps;         /* it runs under MPS, as the driver reports */
	unsigned int blocks, threads; /* of a launch of burn */
	uint64_t rounds;              /* of burn; 0: nop instead */
	uint64_t kernel_ns;           /* alone, as it was calibrated; 0: was not */
};

/* @blocks 0: fills the GPU, 8 blocks of 256 threads on each multiprocessor. */
void load_open(struct load *l, int ordinal, unsigned int blocks);
/* Makes the context current in another thread. */
void load_enter(const struct load *l);
/* Finds .rounds that take @ns alone, to about a percent. */
void load_calibrate(struct load *l, uint64_t ns);
void load_launch(const struct load *l, CUstream stream);
CUstream load_stream(void); /* does not wait for the default stream */

/* SIGTERM and SIGINT end the run, not the program. */
extern atomic_bool load_stop;
void load_catch_signals(void);

/* Sleeps until @at_ns of the monotonic clock; 0: does not. */
void load_sleep_until(uint64_t at_ns);

/* Samples; beyond .room they are dropped and counted. */
struct load_samples {
	uint64_t *ns;
	size_t count, room;
	uint64_t lost;
};
void load_samples_open(struct load_samples *s, size_t room);
void load_sample(struct load_samples *s, uint64_t ns);
void load_samples_sort(struct load_samples *s);
/* The smallest value that @permille of the sorted samples do not exceed; 0 without samples. */
uint64_t load_percentile(const struct load_samples *s, unsigned int permille);
