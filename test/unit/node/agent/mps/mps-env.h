/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * MPS without NVIDIA: the control program and gpuslice-mps are two shell scripts in the fixture's directory. Small
 * files beside them set their behavior. A test changes a file and checks what the MPS part does:
 *
 *	no-start       text: the daemon writes it to its log and ends with status 3
 *	say-WORD       text: the answer to a command that begins with WORD; without: none, of get_server_status "ACTIVE"
 *	fail-WORD      text: the command ends with status 1 and that on its standard error
 *	hang-WORD      the command does not end
 *	mode-UUID      the compute mode of that GPU
 *	fail-mode      text: `gpuslice-mps mode` fails if it only reads; fail-mode3: if it sets mode 3
 *	say-mode       text: its output, malformed perhaps
 *	who-PID        text: the answer of `gpuslice-mps clients`; without: "PID - -"
 *	who-ends       text: `gpuslice-mps clients` ends at a request
 *	who-hangs      it does not answer
 *
 * The scripts write their requests to started, asked, helped and `who-asked`, a line for each.
 */
#include "unit/node/agent/agent-fixture.h"

#include "node/agent/mps/mps.h"
#include "node/agent/mps/process.h"
#include "node/agent/mps/supervisor.h"

struct mps_env {
	struct agent_fixture *f;
	struct mps mps;
	struct wake wake; /* of the part: as the agent, it calls mps_sync() */
	unsigned wakes;
	char root[PATH_MAX], control[PATH_MAX];
	struct pod_devices
		pod_devices; /* as the kubelet reports; the test owns the pointed objects */
	bool holders_unknown, pod_devices_late; /* late: kept until mps_env_report_holders() */
	unsigned n_pod_device_requests;
	void (*pod_devices_done)(void *arg, const struct pod_devices *list,
		const struct error *err);
	void *pod_devices_arg;
};

int mps_env_setup(void **state);
/* Daemons end; all that the part has open is closed. */
int mps_env_teardown(void **state);

#define MPS_TEST(f) cmocka_unit_test_setup_teardown(f, mps_env_setup, mps_env_teardown)

/* GPUs of 16 GiB, of which CUDA has 15. Yours. */
struct inventory *mps_env_inventory(uint32_t n);
/* All GPUs shared by MPS, so many replicas each; 0: nothing is shared. Yours. */
struct config *mps_env_config(const struct mps_env *e, uint32_t replicas);
/* NVML has reported that, the config is this (NULL: that of before), and the part has followed. Takes both. */
void mps_env_know(struct mps_env *e, struct inventory *inv, struct config *c);
/* @n GPUs with 4 replicas each; waits until all daemons are ready. */
void mps_env_up(struct mps_env *e, uint32_t n);

/* Restarts the agent as after a kill: drops all state, and finds the daemons again. */
void mps_env_restart(struct mps_env *e);

/* The daemon with that key, not closed; NULL: none. */
struct mps_supervisor *mps_env_find_daemon(const struct mps_env *e, const char *key);
bool mps_env_is(const struct mps_env *e, const char *key, enum mps_state state);
/* Like mps_env_is(), and no command of the daemon is pending. */
bool mps_env_rests(const struct mps_env *e, const char *key, enum mps_state state);
#define mps_env_until_state(e, key, state) \
	agent_fixture_until((e)->f, mps_env_rests(e, key, state))

/*
 * Time passes by mps_env_skip() alone, until the test ends: for what must happen before something is due, on a machine
 * that may be busy. Timers of the loop go on.
 */
void mps_env_stop_clock(void);
/* Lets @ns pass, and runs the timers that are due. */
void mps_env_skip(struct mps_env *e, uint64_t ns);
/* The loop has run until nothing is asked of daemons. */
void mps_env_settle(struct mps_env *e);

/* A file of the list above; @text NULL removes it. */
void mps_env_write(const struct mps_env *e, const char *name, const char *text);
/* How many lines of the file have @text in them; "" counts all. No file: 0. */
unsigned mps_env_lines(const struct mps_env *e, const char *name, const char *text);

/* The daemon's log gets a line, as one of its server's. */
void mps_env_log(struct mps_env *e, const char *key, const char *fmt, ...) PRINTF(3, 4);
/* A client connects, by the log and by what the daemon answers from now on. */
void mps_env_client(struct mps_env *e, const char *key, uint32_t pid);
/* All clients and any fault end, by the log and by what the daemon answers from now on. */
void mps_env_no_client(struct mps_env *e, const char *key);

/* A file below the directory of that daemon: "pid", "pipe/control". */
bool mps_env_has_file(const struct mps_env *e, const char *key, const char *name);

/* The kubelet answers now, where .pod_devices_late. */
void mps_env_report_holders(struct mps_env *e);
/* A pod has that device. */
void mps_env_pod(struct mps_env *e, struct pod_device *room, char *id);

/* Whether a device can be used; *ret_why, unless NULL: why not. */
bool mps_env_ok(const struct mps_env *e, const char *id, const char **ret_why);

/* --- servers and faults of the daemon of GPU-0; its server has PID 609 --- */

/* Lines of the log: a fault, and what comes before the PIDs of the clients that it hit. */
#define MPS_ENV_FAULT "Server is handling a fatal GPU error."
#define MPS_ENV_HIT   "The following client process have a sticky error set:"

/* A process that is there, with a name: this one. */
uint32_t mps_env_self(void);
/* The daemon has found these processes to be its clients. */
void mps_env_add_clients(struct mps_env *e, const uint32_t *pids, uint32_t n);
/* The daemon answers that server 609 has that status and all clients that the agent knows. */
void mps_env_answer_status(struct mps_env *e, const char *status);
/* The lines of a fault of which all @pids are hit; @named 0: none is named. */
void mps_env_log_fault(struct mps_env *e, uint32_t named, const uint32_t *pids, uint32_t n);
/* A fault that the daemon confirms. */
void mps_env_confirm_fault(struct mps_env *e, uint32_t named, const uint32_t *pids, uint32_t n);
/* The agent knows server 609 from the daemon. */
void mps_env_learn_server(struct mps_env *e);
/* The daemon reports the end of server 609, and does not list it any more. */
void mps_env_kill_server(struct mps_env *e);
/* The daemon is ready, its server has died, and another one is asked for. */
struct mps_supervisor *mps_env_lose_server(struct mps_env *e);
