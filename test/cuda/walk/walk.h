/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The steps of cuda-walk. */
#include "cuda/driver.h"

struct walk {
	const char *argv0;
	uint64_t limit; /* 0: none is expected, so free bytes are not compared */
	int ordinal;
	CUdevice device;
	CUcontext context;
	CUstream stream;
	nvmlDevice_t nvml;
	const char *step; /* under way */
	unsigned int checks, failures, skipped;
	char skipped_names[512];
};

/* The total of CUDA, twice, and of NVML, twice, are one, and so are the free bytes. Prints if not. */
void agree(struct walk *w, const char *when);
/* The bytes that the slice uses now. */
uint64_t used(const struct walk *w);
/* The call did what was expected; else the step has failed. */
bool expect(struct walk *w, const char *what, CUresult r, CUresult expected);
/* The driver has no such thing; notes it. */
bool lacks(struct walk *w, const char *what, CUresult r);

struct walk_step {
	const char *name;
	void (*run)(struct walk *w);
	bool hidden; /* takes memory that no call gives back: what is used may grow */
};

extern const struct walk_step walk_steps[];
extern const unsigned int walk_step_count;

/* The other end of the step "ipc": opens the memory of the handle, in hexadecimal. */
int ipc_child(const char *handle, int ordinal);
