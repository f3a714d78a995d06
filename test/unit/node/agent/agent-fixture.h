/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a part of the agent lives in, for its tests: facts, a loop, and a reporter that records. No part is linked here.
 */
#include "unit/model/core-fixture.h"

#include "node/agent/base/facts.h"
#include "node/agent/base/report.h"
#include "node/agent/base/loop.h"
#include "support/patience.h"

#include <uv.h>

#define FIXTURE_EVENTS 64

struct fixture_event {
	struct event_about about; /* all "": our Node */
	enum event_type type;
	char reason[64], message[ERROR_MSG_MAX + 64];
};

struct agent_fixture {
	uv_loop_t loop;
	struct patience patience;
	char *dir; /* of its own, empty at first */
	struct facts facts;
	struct reporter reporter;
	struct wake wake;
	unsigned wakes; /* rounds of the loop in which a part asked for a reconcile */
	struct fixture_event events[FIXTURE_EVENTS];
	size_t n_events;
	struct error components
		[COMPONENT_COUNT_]; /* as reported last; ERR_NONE: it works, or nothing was reported */
};

/* cmocka's: *state is a struct agent_fixture with the config of no options, and neither GPUs nor an offer. */
int agent_fixture_setup(void **state);
/* The loop runs until all that is being closed is. */
int agent_fixture_teardown(void **state);

/*
 * NVML has reported @inv, and the active config is @c (NULL: the former one). Takes both; the offer follows
 * from them.
 */
void agent_fixture_know(struct agent_fixture *f, struct inventory *inv, struct config *c);

/* Events with that reason; "" counts all. */
unsigned agent_fixture_count(const struct agent_fixture *f, const char *reason);
/* The last one with that reason, which there is. */
const struct fixture_event *agent_fixture_last(const struct agent_fixture *f,
	const char *reason);

#define FIXTURE_WAIT_MS 20000

/* Runs the loop until @condition holds; after FIXTURE_WAIT_MS the test fails and names it. */
#define agent_fixture_until(f, condition)                              \
	do {                                                           \
		bool in_time_ = true;                                  \
		patience_start(&(f)->patience, FIXTURE_WAIT_MS);       \
		while (!(condition) && in_time_)                       \
			in_time_ = patience_run_once(&(f)->patience);  \
		patience_stop(&(f)->patience);                         \
		if (!(condition))                                      \
			fail_msg("waited in vain for %s", #condition); \
	} while (0)

/* Runs all callbacks that are due now, and those that follow without waiting. */
void agent_fixture_run_once(struct agent_fixture *f);

#define AGENT_TEST(f) \
	cmocka_unit_test_setup_teardown(f, agent_fixture_setup, agent_fixture_teardown)
