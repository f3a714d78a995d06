/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The clients of one MPS daemon: which processes, and of which container. That is read as soon as one connects (identify.c),
 * since after a fault it may be gone before anybody asks. What says it is the variable MPS_DEVICES_VARIABLE in the
 * process's environment, which Allocate has set, and for the pod's UID its cgroup, or the kubelet's /etc/hosts. A program can change the former
 * and be taken for another pod of the same GPU: so it is used to tell people, and for nothing else.
 * A client that has gone is remembered for a while: one that is killed in the middle of its GPU work is gone just
 * before the fault that this is for all others (measured).
 * Thread: loop.
 */
#include "node/agent/base/report.h"
#include "node/agent/mps/client-text.h"
#include "lib/base/strv.h"
#include "model/pods/pods.h"

#include <stdbool.h>
#include <stdint.h>

#define MPS_CLIENTS_MAX 1024
#define MPS_DISCONNECTED_RETAIN_NS \
	(UINT64_C(5) * 1000000000) /* for so long one that is gone is remembered */
#define MPS_NAME_MAX 17

enum mps_identity {
	MPS_IDENTITY_NEEDED, /* nobody has been asked yet */
	MPS_IDENTITY_REQUESTED,
	MPS_IDENTITY_KNOWN,   /* as far as /proc says */
	MPS_IDENTITY_UNKNOWN, /* /proc did not say within its bounds */
};

struct mps_client {
	uint32_t pid;
	char name[MPS_NAME_MAX];
	enum mps_identity identity;    /* of: */
	char devices[MPS_DEVICES_MAX]; /* "": not known */
	char pod_uid[MPS_POD_UID_MAX]; /* "": not known */
	bool connected;                /* connected, as far as known */
	uint64_t disconnected_ns;      /* not .connected: since when, monotonic */
	bool faulted;                  /* by the last fault */
};

struct mps_clients {
	struct mps_client *v;
	uint32_t n;
};

void mps_clients_fini(struct mps_clients *c);

/* Adds one and reads its name. NULL: no memory, or too many. */
struct mps_client *mps_clients_add(struct mps_clients *c, uint32_t pid);
struct mps_client *mps_clients_find(const struct mps_clients *c, uint32_t pid);
void mps_clients_remove(struct mps_clients *c, uint32_t pid);
/* Those that the daemon's servers have: others are gone, new ones are added. */
void mps_clients_set(struct mps_clients *c, const uint32_t *pids, uint32_t n);
uint32_t mps_clients_count(const struct mps_clients *c);
uint32_t mps_clients_count_faulted(const struct mps_clients *c);

/* Of those that have gone at @since_ns or later, and that no fault has hit, the last; NULL: none. */
const struct mps_client *mps_clients_last_disconnected(const struct mps_clients *c,
	uint64_t since_ns);

/* Who the client is, for an Event and for people; false: not known. @ret may be half filled then. */
bool mps_client_pod(const struct mps_client *c, const struct pod_devices *pod_devices,
	struct event_about *ret);

/*
 * How many questions about clients may stay without an answer: MPS_UNANSWERED_MAX at once, as many as one daemon's clients
 * may cause, and then one more every MPS_UNANSWERED_RETRY_NS. {0}: none did. Pure.
 */
#define MPS_UNANSWERED_MAX      8
#define MPS_UNANSWERED_RETRY_NS (UINT64_C(60) * 1000000000)

struct mps_unanswered {
	uint64_t until_ns; /* when all of them are forgotten, monotonic */
};

bool mps_unanswered_may_query(const struct mps_unanswered *s, uint64_t now_ns);
void mps_unanswered_count(struct mps_unanswered *s, uint64_t now_ns);

/* The next that is here and that nobody has been asked about; NULL: none. */
struct mps_client *mps_clients_next_unidentified(const struct mps_clients *c);
/*
 * Takes the answer of `gpuslice-mps clients` about a client, "PID POD-UID DEVICES", with "-" for what is not known.
 * ERR_INVALID: it is none. An answer about a process that is no client any more is let go.
 */
int mps_clients_answer(struct mps_clients *c, const char *line, size_t len,
	struct error *err) MUST_USE;
