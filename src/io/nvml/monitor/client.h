/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's end of the NVML worker: starts and ends the process, watches its breadcrumbs, and turns its packets
 * into inventories. No function here blocks or waits. io/nvml/monitor/monitor.c drives this module from the loop,
 * io/nvml/monitor/once.c with poll(2).
 *
 * A worker in a system call that does not return cannot be killed. The client abandons it and keeps its process ID
 * in a short list until the kernel lets the process end. While that list is full, the client starts no new worker.
 *
 * Thread: owner's.
 */
#include "io/nvml/monitor/probe-round.h"
#include "io/nvml/monitor/monitor.h"

#include <sys/types.h>

#define CLIENT_ENDED_MAX 16

struct client_ended {
	pid_t pid;
	bool hung_on[GPU_NODE_MAX]; /* the GPU of its last call */
};

struct client_watch {
	uint64_t crumb;
	uint64_t still_ns; /* time without a change of the crumb */
	uint64_t gpu_ns;   /* time with crumbs of the same GPU */
};

struct nvml_client {
	char *nvml_path, *driver_root, *sysfs_root, *procfs_root, *worker_path;
	bool events;
	uint64_t call_timeout_ns, stuck_retry_ns;

	pid_t pid; /* 0: no worker */
	int sock;  /* non-blocking; -1: closed */
	struct worker_crumbs *crumbs;
	struct client_watch watch[WORKER_SLOT_COUNT_];
	uint64_t checked_at_ns;
	bool reading;                             /* a READ is not answered completely */
	bool sampling;                            /* a SAMPLE is not answered completely */
	bool hung_gpu;                            /* client_check() blamed one GPU */
	uint64_t last_crumbs[WORKER_SLOT_COUNT_]; /* of the worker that ended last */

	struct client_ended *ended[CLIENT_ENDED_MAX];
	size_t n_ended;

	struct probe_round round;
};

enum client_news {
	CLIENT_NONE,      /* no packet to read now */
	CLIENT_MORE,      /* a part of a probe; read on */
	CLIENT_INVENTORY, /* client.round.last is new */
	CLIENT_XID,       /* in the message */
	CLIENT_PROBE_HINT,
	CLIENT_PROCESSES, /* in the message */
	CLIENT_READ_END,  /* in the message */
	CLIENT_SAMPLE,    /* a part of a sample, in the message */
	CLIENT_SAMPLE_END,
	CLIENT_REINIT, /* the worker ends; start another */
	CLIENT_ERROR,  /* NVML is unusable, reason in the message; the worker ends */
	CLIENT_CLOSED, /* the worker closed its end of the socket */
};

/* Copies what it needs of @options, and sets defaults. @events: the workers wait for XIDs. Starts nothing.
 * ERR_NOMEM: there is nothing for client_fini() to do. */
int client_init(struct nvml_client *c, const struct gpu_monitor_options *options, bool events,
	struct error *err) MUST_USE;
void client_fini(struct nvml_client *c); /* kills the worker; frees everything but @c */

/* Starts the worker and requests a probe; requests a probe of the present worker. @now_ns: monotonic time. */
int client_start(struct nvml_client *c, uint64_t now_ns, struct error *err) MUST_USE;
int client_probe(struct nvml_client *c, uint64_t now_ns, struct error *err) MUST_USE;

/* Requests the processes on the @n GPUs (NVML indexes); the answers have @seq. The caller has a worker. */
int client_read(struct nvml_client *c, uint32_t seq, const uint16_t *gpus, uint32_t n,
	uint64_t now_ns, struct error *err) MUST_USE;

/*
 * Requests the fields whose bits are set in @wanted[WORKER_FIELD_WORDS]; the answers have @seq. The caller has a
 * worker.
 */
int client_sample(struct nvml_client *c, uint32_t seq, const uint64_t *wanted,
	uint64_t interval_ns, uint64_t now_ns, struct error *err) MUST_USE;

/* Reads one packet. < 0: the worker violates the protocol and the caller kills it. */
int client_receive(struct nvml_client *c, enum client_news *ret_news, union worker_msg *ret,
	struct error *err) MUST_USE;

/* The period for client_check(): long while no request is pending. */
uint64_t client_period_ns(const struct nvml_client *c);

/*
 * Compares the breadcrumbs with those of the last call. True: a call takes too long, and *err names it. If the
 * call is on a GPU, that GPU has been marked as stuck. The caller kills the worker.
 */
bool client_check(struct nvml_client *c, uint64_t now_ns, struct error *err);

/* Kills the worker, closes everything and drops the probe under way. Does not wait. */
void client_kill(struct nvml_client *c);

/* Collects killed workers that have ended by now. True: none is left. */
bool client_reap(struct nvml_client *c);

/* Collects a worker that ended by itself. True: *ret_status is its wait status, and client.pid is 0. */
bool client_collect(struct nvml_client *c, int *ret_status);

/*
 * Notes that the last worker crashed (@how: in words) and fills @err with the reason. With @blame, a GPU that two
 * workers in a row died on is marked as stuck. Returns whether a GPU was marked.
 */
bool client_crashed(struct nvml_client *c, const char *how, bool blame, uint64_t now_ns,
	struct error *err);

/*
 * "ended by signal 11 (Segmentation fault)", "exited with status 127". True: the worker ended of its own accord;
 * false: SIGKILL or SIGTERM, so another process may have killed it.
 */
bool client_status_text(int status, char *ret, size_t cap);
