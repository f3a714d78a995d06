/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The shared parts of nvidia-cuda-mps-server.
 *
 *	server.c  start, packets from the control program and the answers, the loop
 *	gpu.c     the served GPUs: server contexts, tickets, faults
 *	client.c  processes and their contexts
 *
 * One thread, one loop. The server ends on command of the control program, with the simulated GPU, or with the
 * last client if the control program is gone.
 * Thread: main.
 */
#include "testbed/sim/device/client/client.h"
#include "testbed/sim/model.h"
#include "testbed/sim/mps/limits.h"

#include <sys/types.h>

#define SERVER_BINARY  13000
#define SERVER_POLL_MS 10 /* between checks for faults, while there are clients */

enum { /* CUDA's numbers */
	MPS_CONNECTION_FAILED = 805,
	MPS_NOT_READY = 807,
	MPS_MAX_CLIENTS = 808,
	MPS_MAX_CONNECTIONS = 809,
	MPS_CLIENT_TERMINATED = 810,
};

struct server_device {
	uint32_t slot; /* GPU of the simulated node */
	uint32_t sm_count;
	char name[96], uuid[SIM_NAME_MAX];
	bool is_mig; /* CUDA is not simulated on it: no contexts */
	bool serves; /* the server has a context on it, .object */
	uint32_t object, fault;
	uint32_t contexts; /* of clients */
};

struct process {
	struct process *next; /* newest first */
	struct mps_settings settings;
	uint64_t id; /* secret of the process and the server */
	uint32_t number, last_context, sticky;
	pid_t pid;
	uid_t uid;
	int fd;
	uint64_t pid_namespace;
	char name[32];
};

struct server_context {
	struct server_context *next; /* newest first */
	struct process *process;
	uint32_t number, device;
	uint64_t ticket;
	int fd;
};

struct mps_server_state {
	int log, control;
	struct sim_device gpu;
	struct mps_settings settings;
	struct server_device devices[MPS_DEVICES_MAX];
	uint32_t device_count;
	struct process *processes;
	struct server_context *contexts;
	uint32_t process_count, context_count, last_number;
	pid_t seen_pid; /* the newest client, for the log */
	uint32_t seen_context;
	bool began, faulted;
	int exit_code;
	bool stop;
};

/* gpu.c: fills .devices, and connects to the simulated GPU. False: failed; the log has the reason. */
bool gpu_find_all(struct mps_server_state *s);
/* Makes missing server contexts. False: failed. */
bool gpu_serve_all(struct mps_server_state *s);
/* Whether the connection to the simulated GPU is open. */
bool gpu_lives(const struct mps_server_state *s);
/* Makes a ticket for a context of @p. Returns a CUresult. */
uint32_t gpu_ticket(struct mps_server_state *s, const struct process *p, uint32_t device,
	struct mps_packet *answer);
/* Fails a client's context with @code, a CUresult. */
void gpu_end_context(struct mps_server_state *s, const struct server_context *c, uint32_t code);
void gpu_check_faults(struct mps_server_state *s); /* handles new and ended faults */

/* client.c */
void client_new(struct mps_server_state *s, int fd, const struct mps_packet *p); /* takes @fd */
/* Called after the end of the connection. Free the context, or the process with its contexts. */
void client_context_end(struct mps_server_state *s, struct server_context *c);
void client_process_end(struct mps_server_state *s, struct process *p);
/* Fails all contexts of a process, as terminate_client. False: it has none. */
bool client_terminate(struct mps_server_state *s, pid_t pid);

/* server.c: sends MPS_ACTIVE, or MPS_FAULT if .faulted, to the control program. */
void server_send_state(struct mps_server_state *s);
