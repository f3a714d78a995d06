/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests of gate and gate thread share: each test in a process of its own, with an arbiter on a
 * thread. */
#include "support/test.h"
#include "unit/container/slice-arbiter.h"
#include "gate-driver.h"

#include "container/gate/gate-thread.h"

#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_S 50

#define CHECK(condition)                                                                   \
	do {                                                                               \
		if (!(condition)) {                                                        \
			(void)fprintf(stderr, "# %s:%d: not so: %s\n", __FILE__, __LINE__, \
				#condition);                                               \
			_exit(1);                                                          \
		}                                                                          \
	} while (0)

/* Has no time limit, for slow machines: the alarm ends a wait that hangs. */
#define WAIT_FOR(condition)                                 \
	do {                                                \
		gate_test_waits = __FILE__ ": " #condition; \
		while (!(condition))                        \
			(void)usleep(200);                  \
	} while (0)

extern const char *gate_test_waits;
extern struct slice_arbiter gate_arbiter;

#define A (&gate_arbiter)

/* Runs @fn in a child, with an arbiter of @gpus GPUs. */
void gate_test(void (*fn)(void), uint32_t gpus);

/* The gate's doorbell: set, the next submission has to report. */
uint32_t doorbell(uint32_t gpu);
uint64_t in_flight(uint32_t gpu);

/* What the library knows of this process; NULL: nothing yet. */
struct gate_process *process(void);

/* A thread that submits once and then ends. */
struct submitter {
	CUstream stream;
	unsigned int flags;
	_Atomic bool passed, counted;
};
void submit_on_thread(struct submitter *s);

/* A submission by the calling thread to context 0. Whether it was counted. */
bool submit(unsigned int flags);

int gate_test_setup(void **state);
int gate_test_teardown(void **state);
