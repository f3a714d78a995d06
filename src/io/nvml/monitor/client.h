/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's end of the NVML worker: starts and ends the process, watches its breadcrumbs, and
 * turns its packets into inventories. Nothing here blocks, and nothing waits: io/nvml/monitor/monitor.c drives
 * it from the loop, io/nvml/monitor/once.c with poll(2).
 *
 * A worker that cannot be killed (a system call that does not come back) is given up: its process
 * id stays on a short list until the kernel lets go of it. When that list is full, no new worker
 * is started. Thread: owner's.
 */
#include "io/nvml/monitor/probe-round.h"
#include "io/nvml/monitor/monitor.h"

#include <sys/types.h>

#define CLIENT_ENDED_MAX 16

struct client_ended {
	pid_t pid;
	bool hung_on[GPU_NODE_MAX]; /* the GPU that it hung on */
};

struct client_watch {
	uint64_t crumb;
	uint64_t still_ns; /* for how long it has been the same */
	uint64_t gpu_ns;   /* for how long it has been about the same GPU */
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
	bool reading;  /* a READ has not been answered to its end */
	bool sampling; /* likewise a SAMPLE */
	bool hung_gpu; /* what client_check() found last was about one GPU */
	uint64_t last_crumbs[WORKER_SLOT_COUNT_]; /* of the worker that ended last */

	struct client_ended *ended[CLIENT_ENDED_MAX];
	size_t n_ended;

	struct probe_round round;
};

enum client_news {
	CLIENT_NONE,      /* nothing more to read now */
	CLIENT_MORE,      /* a part of a look; read on */
	CLIENT_INVENTORY, /* client.look.last is new */
	CLIENT_XID,       /* in the message */
	CLIENT_PROBE_HINT,
	CLIENT_PROCESSES, /* in the message */
	CLIENT_READ_END,  /* in the message */
	CLIENT_SAMPLE,    /* a part of one, in the message */
	CLIENT_SAMPLE_END,
	CLIENT_REINIT, /* the worker ends; start another */
	CLIENT_ERROR,  /* NVML cannot be used: the text is in the message; the worker ends */
	CLIENT_CLOSED, /* the worker's end of the socket is closed */
};

int client_init(struct nvml_client *c, const struct gpu_monitor_options *options, bool events,
	struct error *err) MUST_USE;
void client_fini(struct nvml_client *c); /* kills */

/* Starts the worker and asks it for a look. */
int client_start(struct nvml_client *c, uint64_t now_ns, struct error *err) MUST_USE;
int client_probe(struct nvml_client *c, uint64_t now_ns, struct error *err) MUST_USE;

/* Asks who uses the @n GPUs (NVML indexes); the answers have @seq. There is a worker. */
int client_read(struct nvml_client *c, uint32_t seq, const uint16_t *gpus, uint32_t n,
	uint64_t now_ns, struct error *err) MUST_USE;

/* Asks for the fields whose bits are in @wanted[WORKER_FIELD_WORDS]; the answers have @seq. There is a worker. */
int client_sample(struct nvml_client *c, uint32_t seq, const uint64_t *wanted,
	uint64_t interval_ns, uint64_t now_ns, struct error *err) MUST_USE;

/* Reads one packet. < 0: the worker does not keep to the protocol and is to be killed. */
int client_receive(struct nvml_client *c, enum client_news *ret_news, union worker_msg *ret,
	struct error *err) MUST_USE;

/* How often to call client_check(): rarely while nothing is under way. */
uint64_t client_period_ns(const struct nvml_client *c);

/*
 * Compares the breadcrumbs with those of the last call. True: a call takes too long and *err says
 * which; the GPU it is on, if any, has been marked as stuck. The worker is to be killed.
 */
bool client_check(struct nvml_client *c, uint64_t now_ns, struct error *err);

/* Kills the worker, closes everything and lets the look under way go. Does not wait. */
void client_kill(struct nvml_client *c);

/* Collects killed workers that have ended by now. True: none is left. */
bool client_reap(struct nvml_client *c);

/* Collects the worker that has ended by itself: true, its wait status, and client.pid is 0. */
bool client_collect(struct nvml_client *c, int *ret_status);

/*
 * Notes that the last worker crashed, with @how for people, and fills @err with the reason. With
 * @blame, the second time in a row that it had the same GPU in hand, this GPU is marked as stuck;
 * whether it was is the result.
 */
bool client_crashed(struct nvml_client *c, const char *how, bool blame, uint64_t now_ns,
	struct error *err);

/* "ended by signal 11 (Segmentation fault)", "exited with status 127". True: an end of its own
 * making, not somebody's kill. */
bool client_status_text(int status, char *ret, size_t cap);
