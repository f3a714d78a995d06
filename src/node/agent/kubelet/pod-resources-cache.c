/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/kubelet/pod-resources-cache.h"

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

struct pod_devices_waiter {
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err);
	void *arg;
	struct pod_devices_waiter *next;
};

struct pod_resources_cache {
	struct rpc *rpc;
	char path[PATH_MAX];
	struct rpc_client *client;
	ino_t inode;              /* of the socket that .client is connected to */
	struct pod_devices *list; /* last good answer */
	uint64_t listed_ns;
	enum kubelet_pids pids;
	bool request_pending;
	bool stale; /* the pending request began before a refresh */
	struct pod_devices_waiter *waiters;
};

int pod_resources_cache_new(struct pod_resources_cache **ret, struct rpc *rpc, const char *path,
	struct error *err)
{
	CLEANUP(freep) struct pod_resources_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return error_nomem(err);
	if (strlen(path) >= sizeof(cache->path))
		return error_set(err, ERR_LIMIT, "'%s': the path is too long", path);
	memcpy(cache->path, path, strlen(path) + 1);
	cache->rpc = rpc;
	*ret = STEAL_PTR(cache);
	return 0;
}

static void notify_pod_devices_waiters(struct pod_resources_cache *cache,
	const struct error *err)
{
	struct pod_devices_waiter *w = STEAL_PTR(cache->waiters);

	while (w) {
		struct pod_devices_waiter *next = w->next;

		w->done(w->arg, cache->list, err);
		free(w);
		w = next;
	}
}

struct pod_resources_cache *pod_resources_cache_free(struct pod_resources_cache *cache)
{
	struct error err = ERROR_INIT;

	if (!cache)
		return NULL;
	/* Closing the client calls on_pod_resources_list(), which answers all waiting callers. */
	if (cache->client)
		rpc_client_close(cache->client);
	(void)error_set(&err, ERR_CANCELLED, "the agent is stopping");
	notify_pod_devices_waiters(cache, &err);
	cache->list = pod_devices_free(cache->list);
	free(cache);
	return NULL;
}

static void on_pod_resources_list(void *arg, struct pod_devices *list, const struct error *err);

/* A kubelet that restarted has a new socket under the old name, so the agent dials again. */
static int dial_pod_resources(struct pod_resources_cache *cache, struct error *err)
{
	struct stat st;

	if (stat(cache->path, &st) < 0)
		return error_set(err, ERR_UNAVAILABLE,
			"'%s': the kubelet's socket is not there", cache->path);
	if (cache->client && st.st_ino == cache->inode)
		return 0;
	if (cache->client)
		rpc_client_close(STEAL_PTR(cache->client));
	cache->inode = st.st_ino;
	return rpc_dial(cache->rpc, cache->path, &cache->client, err);
}

static void request_pod_resources(struct pod_resources_cache *cache)
{
	struct error err = ERROR_INIT;

	if (dial_pod_resources(cache, &err) < 0 ||
		pod_resources_list(cache->client, TIMEOUT_NS, on_pod_resources_list, cache,
			&err) < 0)
		notify_pod_devices_waiters(cache, &err);
	else
		cache->request_pending = true;
}

/* A process stays in its PID namespace, so one answer of the kubelet is enough. */
static void update_kubelet_pids(struct pod_resources_cache *cache)
{
	pid_t pid = cache->client ? rpc_client_peer_pid(cache->client) : -1;

	if (pid >= 0)
		cache->pids = pid > 0 ? KUBELET_PIDS_NODE : KUBELET_PIDS_OWN;
}

enum kubelet_pids pod_resources_cache_pids(const struct pod_resources_cache *cache)
{
	return cache->pids;
}

static void on_pod_resources_list(void *arg, struct pod_devices *list, const struct error *err)
{
	struct pod_resources_cache *cache = arg;

	cache->request_pending = false;
	if (list) {
		update_kubelet_pids(cache);
		(void)pod_devices_free(cache->list);
		cache->list = list;
		cache->listed_ns = cache->stale ? 0 : time_mono_ns();
	}
	if (cache->stale && list) {
		cache->stale = false;
		request_pod_resources(cache);
		return;
	}
	cache->stale = false;
	notify_pod_devices_waiters(cache, list ? NULL : err);
}

void pod_resources_cache_request(struct pod_resources_cache *cache,
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err),
	void *arg)
{
	struct error err = ERROR_INIT;
	struct pod_devices_waiter *w;

	if (cache->list && time_mono_ns() - cache->listed_ns < FRESH_NS) {
		done(arg, cache->list, NULL);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		(void)error_nomem(&err);
		done(arg, cache->list, &err);
		return;
	}
	*w = (struct pod_devices_waiter){ .done = done, .arg = arg, .next = cache->waiters };
	cache->waiters = w;
	if (!cache->request_pending)
		request_pod_resources(cache);
}

void pod_resources_cache_refresh(struct pod_resources_cache *cache,
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err),
	void *arg)
{
	cache->listed_ns = 0;
	/* The kubelet may have answered the pending request already. */
	cache->stale = cache->request_pending;
	pod_resources_cache_request(cache, done, arg);
}

bool pod_resources_cache_is_absent(const struct pod_resources_cache *cache)
{
	return access(cache->path, F_OK) < 0 && errno == ENOENT;
}
