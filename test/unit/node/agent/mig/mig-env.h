/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A MIG manager for its tests: fake operations of the agent, and shell scripts in place of `gpuslice mig apply`
 * and of `chroot HOST systemctl`. They append their requests to one file, so that tests can compare the order.
 */
#include "unit/node/agent/agent-fixture.h"

#include "node/agent/mig/attempt.h"
#include "support/patience.h"

#define MIG_TEXT_CAP 8192

struct mig_env {
	struct agent_fixture *f;
	uv_loop_t *loop; /* of the manager: the fixture's, or that of an API server */
	struct patience *patience;
	struct wake reconcile, look;
	unsigned reconciles;
	struct api_link link;
	struct mig_options options; /* until mig_env_start() */
	char tool[PATH_MAX], host[PATH_MAX], clients[PATH_MAX];
	char *old_path; /* of the environment */

	struct mig mig;
	struct mig_phase_row phases[MIG_PHASES]; /* its table, with short ticks */
	bool inited, stopped;
	unsigned n_rests; /* how often the manager came to rest */

	/* The GPUs: one that is whole and has MIG, and one that has a MIG device "MIG-1-0" (gi 7, ci 0). */
	struct inventory *gpus;
	struct inventory *after; /* .gpus once something was applied; NULL: the same */
	bool slow_nvml;          /* only mig_env_probe() probes the GPUs */
	unsigned probes;

	/* How the fakes answer. */
	bool mps_silent, locked, no_kubelet, kubelet_fails, kubelet_silent, not_ready;
	int mps_check_withdrawn;
	unsigned mps_queries, polls; /* .polls: whether a wait is over */
	uint32_t idle_servers;
	const char *holder
		[2]; /* the device that a pod has, at the first and at later calls; NULL: none */
	unsigned n_pod_device_requests;
	void (*pod_devices_done)(void *arg, const struct pod_devices *list,
		const struct error *err);
	void *pod_devices_arg;
	char leaving[256]; /* " UUID" that the caller of mps_check_withdrawn() wanted left */

	char text[MIG_TEXT_CAP]; /* of mig_env_read() */
};

/* cmocka's: *state is a struct mig_env. Options: enabled, a default "all", a host root. */
int mig_env_setup(void **state);
int mig_env_teardown(void **state);
struct mig_env *mig_env_another(void **state); /* in its place: for the next row of a table */
/* The same on another loop. The loop's owner calls mig_env_stop() before the loop runs for the last time. */
struct mig_env *mig_env_new(uv_loop_t *loop, struct patience *patience);
void mig_env_stop(struct mig_env *e);
void mig_env_free(struct mig_env *e);

/* A file of the environment: "plan" and "apply" define what the tool does, "systemd" what systemctl does. */
void mig_env_write(struct mig_env *e, const char *name, const char *text);
/* "" where there is none. Valid until the next. */
const char *mig_env_read(struct mig_env *e, const char *name);
/* The path of such a file; yours. */
char *mig_env_path(const struct mig_env *e, const char *name);
/* The requests so far, a line each: "plan NAME", "apply NAME", "holders", "release", "stop SERVICE". */
#define assert_calls(e, expected) assert_string_equal(mig_env_read(e, "calls"), expected)
unsigned mig_env_count(struct mig_env *e, const char *call);

void mig_env_start(struct mig_env *e); /* the GPUs are not known yet */
void mig_env_probe(struct mig_env *e); /* what the agent does with a probe of NVML */
void mig_env_begin(struct mig_env *e); /* both */
void mig_env_run(struct mig_env *e);   /* and until the attempt has ended */
/* Whether an attempt has ended. */
bool mig_env_attempted(const struct mig_env *e);
/* Runs until another attempt has ended. */
void mig_env_retry(struct mig_env *e);
/* Answers the request to the kubelet. */
void mig_env_holders(struct mig_env *e);
/* Runs until the phase has polled again, and then once more, whether its wait is over. */
void mig_env_ticks(struct mig_env *e);
/* The next tick of @phase is late. */
void mig_env_late(struct mig_env *e, enum mig_phase phase);
/* MIG devices that can be offered now, and whether the GPU at position 0 is changing. */
uint32_t mig_env_offered(struct mig_env *e, bool *ret_changing);
void mig_env_services(struct mig_env *e); /* a.service and b.service have to stop */

/* The attempt has ended so; the state's message contains @reason. */
void assert_ended(const struct mig_env *e, const char *state, const char *reason);

#define mig_env_until(e, condition)                                                         \
	do {                                                                                \
		bool in_time_ = true;                                                       \
		patience_start((e)->patience, FIXTURE_WAIT_MS);                             \
		while (!(condition) && in_time_)                                            \
			in_time_ = patience_run_once((e)->patience);                        \
		patience_stop((e)->patience);                                               \
		if (!(condition))                                                           \
			fail_msg("waited in vain for %s; phase %s, calls:\n%s", #condition, \
				(e)->mig.phases[(e)->mig.phase].text,                       \
				mig_env_read(e, "calls"));                                  \
	} while (0)

#define MIG_TEST(f) cmocka_unit_test_setup_teardown(f, mig_env_setup, mig_env_teardown)
