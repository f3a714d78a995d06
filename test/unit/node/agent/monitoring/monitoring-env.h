/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Monitoring with a virtual clock and a /proc of its own. The test plays NVML, the kubelet and the
 * arbiter. The test begins, answers and ends a round:
 *
 *	env_start(e);              the usage records are open, the first round has sent its requests
 *	env_answer(e);             the requests are answered, as .sample, .list and .slices_refresh define
 *	env_end(e);                the view is shown
 *	env_round(e, NS_PER_SEC);  the same for a round that begins a second later
 */
#include "unit/node/agent/agent-fixture.h"

#include "node/agent/monitoring/internal.h"

#define ENV_PODS      24
#define ENV_DEVICES   8
#define ENV_PROCESSES 8
#define ENV_UID       "1b9c0d3e-0f4a-4b5c-8d6e-7f809100000" /* and a digit */

/* The sources of a round, and how each answers. */
enum env_how {
	ENV_LATER,   /* env_answer() has it answer */
	ENV_AT_ONCE, /* before the question returns */
	ENV_FAILS,   /* env_answer() makes it fail, with the reason */
	ENV_REFUSES, /* it refuses the request */
	ENV_NEVER,
};

struct env_source {
	enum env_how how;
	unsigned n;   /* number of requests */
	bool pending; /* it has not answered */
};

struct env_process {
	uint32_t pid;
	int64_t mib, busy_ms; /* < 0: not known */
};

/* The next samples of a GPU or MIG device; over an interval of a second. */
struct env_device {
	const char *uuid;          /* NULL: none */
	int64_t used_mib, busy_ms; /* < 0: not known */
	bool first;                /* the first sample of it: busy times have no interval */
	bool no_processes;         /* they are not known */
	const char *reason;        /* why it could not be read; NULL */
	struct env_process processes[ENV_PROCESSES]; /* to the first without a PID */
};

struct monitoring_env {
	struct agent_fixture *f;
	struct monitoring mon;
	struct monitoring_context context;
	struct api_link link;
	struct components components;
	struct slices slices;
	struct stored_slice slice_rows[4];
	struct stored_slice *slice_at[4];
	char state_dir[PATH_MAX], plugin_dir[PATH_MAX], proc_dir[PATH_MAX];

	struct env_source sample, list, slices_refresh;
	struct env_device units[ENV_DEVICES];
	struct pod_device pods[ENV_PODS];
	struct pod_devices pod_list; /* .pods */
	enum kubelet_pids pids;
	bool released, p2p, not_ready;
	bool wanted[FIELDS_MAX], wants_p2p;
	const char *refused, *unhealthy; /* a UUID, the id of a device; NULL */
	gpu_sample_done *sample_done;
	void (*list_done)(void *arg, const struct pod_devices *list, const struct error *err);
	void (*slices_done)(void *arg);
	void *sample_arg, *list_arg, *slices_arg;
	struct gpu_sample_request request; /* the last */

	struct view *view;       /* the last one shown; NULL */
	unsigned shown, n_wrong; /* views; views that view_check() refuses */
	struct error wrong;      /* why it refuses the last of them */
};

int env_setup(void **state);
int env_teardown(void **state);

/* The clocks of the program: the monotonic one, and the wall clock, which follows it. */
#define ENV_BOOT_S UINT64_C(1795000000) /* 2026-11-18 */
void env_pass(uint64_t ns);
uint64_t env_now_ns(void);

void env_start(struct monitoring_env *e);
/* Stops it and starts it again, as another agent. The files of the state directory stay. */
void env_restart(struct monitoring_env *e);
void env_stop(struct monitoring_env *e);
/* The timer of rounds is due; it never is by itself. */
void env_tick(struct monitoring_env *e);
void env_answer(struct monitoring_env *e);
/* The view, which may be the one before. */
const struct view *env_end(struct monitoring_env *e);
const struct view *env_round(struct monitoring_env *e, uint64_t ns);
/* The milliseconds with which the timer was started. */
uint64_t env_due_ms(const struct monitoring_env *e);

/* A container has a device from the next list on. */
void env_allocate_device(struct monitoring_env *e, const char *pod, const char *resource,
	const char *id);
void env_release_all(struct monitoring_env *e);
void env_add_pending(struct monitoring_env *e, const char *resource, const char *id);
/* The kubelet's checkpoint has the allocated devices: of pods in the order of @pods, with UIDs 1, 2 ... */
void env_write_checkpoint(struct monitoring_env *e, const char *const *pods, size_t n);
/* /proc/PID: of the pod with UID @digit (0: of none), in @container (NULL: without its name). */
void env_process(struct monitoring_env *e, uint32_t pid, unsigned digit, const char *container);
/* The slice of a device, as the arbiter has it: @seen is JSON of an array. */
struct stored_slice *env_slice(struct monitoring_env *e, const char *id, const char *resource,
	const char *device, const char *uuid, enum slice_compute compute);
void env_set_arbiter_status(struct monitoring_env *e, const char *seen);

/* The usage of that pod; the test fails without one. */
const struct view_use *env_find_usage(const struct monitoring_env *e, const char *pod);
const struct view_device *env_find_device(const struct monitoring_env *e, const char *uuid);
const struct view_replica *env_find_replica(const struct monitoring_env *e, const char *id);
/* NULL: none. */
const struct view_use *env_find_use_or_null(const struct monitoring_env *e, const char *pod);

#define ENV_TEST(f) cmocka_unit_test_setup_teardown(f, env_setup, env_teardown)
