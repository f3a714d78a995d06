/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/kubelet/holders.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FRESH_NS   NS_PER_SEC
#define TIMEOUT_NS (2 * NS_PER_SEC)

struct waiter {
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err);
	void *arg;
	struct waiter *next;
};

struct holders {
	struct rpc *rpc;
	char path[PATH_MAX];
	struct rpc_client *client;
	ino_t inode;              /* of the socket that the client was dialled to */
	struct pod_devices *list; /* last good answer */
	uint64_t listed_ns;
	enum holders_pids pids;
	bool asking;
	bool stale; /* what is asked now began too early for somebody who waits */
	struct waiter *waiters;
};

int holders_new(struct holders **ret, struct rpc *rpc, const char *path, struct error *err)
{
	CLEANUP(freep) struct holders *h = calloc(1, sizeof(*h));

	if (!h)
		return error_nomem(err);
	if (strlen(path) >= sizeof(h->path))
		return error_set(err, ERR_LIMIT, "'%s': the path is too long", path);
	memcpy(h->path, path, strlen(path) + 1);
	h->rpc = rpc;
	*ret = STEAL_PTR(h);
	return 0;
}

static void answer_all(struct holders *h, const struct error *err)
{
	struct waiter *w = STEAL_PTR(h->waiters);

	while (w) {
		struct waiter *next = w->next;

		w->done(w->arg, h->list, err);
		free(w);
		w = next;
	}
}

struct holders *holders_free(struct holders *h)
{
	struct error err = ERROR_INIT;

	if (!h)
		return NULL;
	/* Cancelling calls listed() and so answers who still waits. */
	if (h->client)
		rpc_client_close(h->client);
	(void)error_set(&err, ERR_CANCELLED, "the agent is stopping");
	answer_all(h, &err);
	h->list = pod_devices_free(h->list);
	free(h);
	return NULL;
}

static void listed(void *arg, struct pod_devices *list, const struct error *err);

/* A kubelet that restarted has a new socket under the old name: dial again. */
static int dial(struct holders *h, struct error *err)
{
	struct stat st;

	if (stat(h->path, &st) < 0)
		return error_set(err, ERR_UNAVAILABLE,
			"'%s': the kubelet's socket is not there", h->path);
	if (h->client && st.st_ino == h->inode)
		return 0;
	if (h->client)
		rpc_client_close(STEAL_PTR(h->client));
	h->inode = st.st_ino;
	return rpc_dial(h->rpc, h->path, &h->client, err);
}

static void ask(struct holders *h)
{
	struct error err = ERROR_INIT;

	if (dial(h, &err) < 0 || pod_resources_list(h->client, TIMEOUT_NS, listed, h, &err) < 0)
		answer_all(h, &err);
	else
		h->asking = true;
}

/* A process stays in its PID namespace, so what was seen once holds. */
static void note_pids(struct holders *h)
{
	pid_t pid = h->client ? rpc_client_peer_pid(h->client) : -1;

	if (pid >= 0)
		h->pids = pid > 0 ? HOLDERS_PIDS_NODE : HOLDERS_PIDS_OWN;
}

enum holders_pids holders_pids(const struct holders *h)
{
	return h->pids;
}

static void listed(void *arg, struct pod_devices *list, const struct error *err)
{
	struct holders *h = arg;

	h->asking = false;
	if (list) {
		note_pids(h);
		(void)pod_devices_free(h->list);
		h->list = list;
		h->listed_ns = h->stale ? 0 : time_mono_ns();
	}
	if (h->stale && list) {
		h->stale = false;
		ask(h);
		return;
	}
	h->stale = false;
	answer_all(h, list ? NULL : err);
}

void holders_ask(struct holders *h,
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err),
	void *arg)
{
	struct error err = ERROR_INIT;
	struct waiter *w;

	if (h->list && time_mono_ns() - h->listed_ns < FRESH_NS) {
		done(arg, h->list, NULL);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		(void)error_nomem(&err);
		done(arg, h->list, &err);
		return;
	}
	*w = (struct waiter){ .done = done, .arg = arg, .next = h->waiters };
	h->waiters = w;
	if (!h->asking)
		ask(h);
}

void holders_ask_anew(struct holders *h,
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err),
	void *arg)
{
	h->listed_ns = 0;
	/* What is under way may have been answered already. */
	h->stale = h->asking;
	holders_ask(h, done, arg);
}

bool holders_absent(const struct holders *h)
{
	return access(h->path, F_OK) < 0 && errno == ENOENT;
}
