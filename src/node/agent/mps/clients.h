/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The clients of one MPS daemon: the processes, and the container of each.
 *
 * Identity. The agent reads the container as soon as a client connects (identify.c), since a fault may end the
 * client before the kubelet can be asked. The devices come from MPS_DEVICES_VARIABLE in the process's environment,
 * which Allocate sets. The pod's UID comes from the cgroup, or from the kubelet's /etc/hosts mount. A program can
 * change its environment, and then appears as another pod of the same GPU. The agent therefore uses the identity
 * for reports only.
 *
 * Disconnected clients. They stay in the list for MPS_DISCONNECTED_RETAIN_NS: a client that is killed in the
 * middle of its GPU work disconnects just before the fault of all other clients (measured).
 *
 * Thread: loop.
 */
#include "node/agent/base/report.h"
#include "node/agent/base/pod-of-process.h"
#include "node/agent/mps/client-text.h"
#include "lib/base/strv.h"
#include "model/pods/pods.h"

#include <stdbool.h>
#include <stdint.h>

#define MPS_CLIENTS_MAX 1024
#define MPS_DISCONNECTED_RETAIN_NS \
	(UINT64_C(5) * 1000000000) /* how long a disconnected client stays */
#define MPS_NAME_MAX 17

enum mps_identity {
	MPS_IDENTITY_NEEDED, /* the helper has not been asked */
	MPS_IDENTITY_REQUESTED,
	MPS_IDENTITY_KNOWN,   /* as far as /proc has it */
	MPS_IDENTITY_UNKNOWN, /* the helper failed, or did not answer in time */
};

struct mps_client {
	uint32_t pid;
	char name[MPS_NAME_MAX];
	enum mps_identity identity;    /* state of the two members below */
	char devices[MPS_DEVICES_MAX]; /* "": not known */
	char pod_uid[POD_UID_MAX];     /* "": not known */
	bool connected;                /* as far as the agent knows */
	uint64_t disconnected_ns; /* since when not .connected; ns of the monotonic clock */
	bool faulted;             /* hit by the last fault */
};

struct mps_clients {
	struct mps_client *v;
	uint32_t n;
	size_t room;
};

void mps_clients_fini(struct mps_clients *c);

/* Adds a client and reads its name. NULL: no memory, or too many clients. */
struct mps_client *mps_clients_add(struct mps_clients *c, uint32_t pid);
struct mps_client *mps_clients_find(const struct mps_clients *c, uint32_t pid);
void mps_clients_remove(struct mps_clients *c, uint32_t pid);
/*
 * Makes the list equal @pids, the clients of the daemon's servers: others become disconnected, new ones are added.
 */
void mps_clients_set(struct mps_clients *c, const uint32_t *pids, uint32_t n);
uint32_t mps_clients_count(const struct mps_clients *c);
uint32_t mps_clients_count_faulted(const struct mps_clients *c);

/* The last client that disconnected at @since_ns or later without a fault; NULL: none. */
const struct mps_client *mps_clients_last_disconnected(const struct mps_clients *c,
	uint64_t since_ns);

/* The client's pod, for Events and log lines. False: not known, then @ret is empty. */
bool mps_client_pod(const struct mps_client *c, const struct pod_devices *pod_devices,
	struct event_about *ret);

/*
 * Limits questions about clients that stay without an answer: MPS_UNANSWERED_MAX at once, as many as the clients
 * of one daemon may cause, then one more per MPS_UNANSWERED_RETRY_NS. {0}: none yet. Pure.
 */
#define MPS_UNANSWERED_MAX      8
#define MPS_UNANSWERED_RETRY_NS (UINT64_C(60) * 1000000000)

struct mps_unanswered {
	uint64_t until_ns; /* when all of them are forgotten; ns of the monotonic clock */
};

bool mps_unanswered_may_query(const struct mps_unanswered *s, uint64_t now_ns);
void mps_unanswered_count(struct mps_unanswered *s, uint64_t now_ns);

/* The next connected client for which the helper was not asked; NULL: none. */
struct mps_client *mps_clients_next_unidentified(const struct mps_clients *c);
/*
 * Applies an answer of `gpuslice-mps clients`: "PID POD-UID DEVICES", "-" for what is not known. ERR_INVALID:
 * malformed. An answer about a process that is no client any more is ignored.
 */
int mps_clients_answer(struct mps_clients *c, const char *line, size_t len,
	struct error *err) MUST_USE;
