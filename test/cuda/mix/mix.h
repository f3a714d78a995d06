/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Steps of cuda-mix: each submits work in one of the driver's forms, and does to the shadows in host
 * memory what that work does to the buffers. All of a step is behind what was in .stream, or has waited
 * for that.
 */
#include "cuda/driver.h"

#include <stdatomic.h>

#define MIX_WORDS     4096
#define MIX_ROW       64 /* words of a row, where a buffer is rows */
#define MIX_ROWS      (MIX_WORDS / MIX_ROW)
#define MIX_BLOCK     256
#define NON_BLOCKING  1
#define EVENT_NO_TIME 2

enum mix_buffer { MIX_X, MIX_Y, MIX_BUFFERS };

struct mix {
	CUdevice device;
	CUcontext context, other; /* the other one is of another device, if there is one */
	CUstream stream, second;
	CUmodule module;
	CUfunction step, fill, add, nop, burn;
	CUfunction set; /* as .step, from a module of its own */
	CUdeviceptr at[MIX_BUFFERS];
	uint32_t *shadow[MIX_BUFFERS];
	CUdeviceptr far;             /* MIX_WORDS in the other context */
	uint32_t *pinned, *pageable; /* MIX_WORDS each */
	CUarray arrays[2];           /* of MIX_WORDS words, in one row */
	uint64_t random;
	atomic_uint host_calls; /* that host functions made */
	unsigned int host_expected;
	const char *name; /* of the step */
};

/* False: the driver has no such function. A wrong result ends the program. */
typedef bool mix_fn(struct mix *m);
struct mix_step {
	const char *name;
	mix_fn *run;
};
/* The last has no name. */
extern const struct mix_step mix_launch_steps[], mix_copy_steps[], mix_graph_steps[],
	mix_other_steps[];

/* A number from 0 to @n - 1, the same for the same seed. */
uint32_t mix_random(struct mix *m, uint32_t n);

/* Some words of a buffer. */
struct mix_span {
	unsigned int buffer, first, count;
};
struct mix_span mix_span(struct mix *m);
CUdeviceptr mix_at(const struct mix *m, struct mix_span s);
uint32_t *mix_shadow(const struct mix *m, struct mix_span s);
#define MIX_BYTES(s) ((size_t)(s).count * 4)

/* One launch of step32 over a span: its arguments, and what it does. */
struct mix_launch {
	CUdeviceptr p;
	uint64_t count;
	uint32_t c;
	void *params[3];
};
void mix_launch_init(struct mix *m, struct mix_launch *l, struct mix_span s);
void mix_stepped(const struct mix *m, struct mix_span s, uint32_t c);

/* 801, or no such function: the step is left out. All else but success ends the program. */
#define MIX_TRY(call) MIX_GIVEN((call), #call)
#define MIX_GIVEN(r, what)                  \
	do {                                \
		if (mix_lacks((r), (what))) \
			return false;       \
	} while (0)
bool mix_lacks(CUresult r, const char *what);
#define MIX_NEED(function)            \
	do {                          \
		if (!cu.function)     \
			return false; \
	} while (0)

/* Waits for all that is in .stream. */
void mix_settle(const struct mix *m);
void mix_fail(const struct mix *m, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
