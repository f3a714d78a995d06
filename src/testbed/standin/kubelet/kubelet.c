/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/kubelet/internal.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct delayed_reply {
	LIST_ENTRY(delayed_reply) link;
	struct kubelet *k;
	struct rpc_call *call;
	struct once_timer *timer;
	void (*fn)(struct kubelet *k, struct rpc_call *call, const uint8_t *data, size_t len);
	size_t len;
	uint8_t data[];
};

static void on_delay_over(void *arg)
{
	CLEANUP(freep) struct delayed_reply *d = arg;

	LIST_REMOVE(d, link);
	d->fn(d->k, d->call, d->data, d->len);
}

void kubelet_delay_reply(struct kubelet *k, struct rpc_call *call,
	void (*fn)(struct kubelet *k, struct rpc_call *call, const uint8_t *data, size_t len),
	const uint8_t *data, size_t len)
{
	struct delayed_reply *d;

	if (k->faults.delay_ns == 0) {
		fn(k, call, data, len);
		return;
	}
	d = calloc(1, sizeof(*d) + len);
	if (d) {
		d->k = k;
		d->call = call;
		d->fn = fn;
		d->len = len;
		if (len > 0)
			memcpy(d->data, data, len);
		d->timer = once_timer_start(k->loop, k->faults.delay_ns, on_delay_over, d);
	}
	if (!d || !d->timer) {
		free(d);
		fn(k, call, data, len);
		return;
	}
	LIST_INSERT_HEAD(&k->delayed, d, link);
}

static void kubelet_drop_delayed(struct kubelet *k)
{
	struct delayed_reply *d;

	while ((d = LIST_FIRST(&k->delayed))) {
		LIST_REMOVE(d, link);
		d->timer = once_timer_cancel(d->timer);
		rpc_reply_error(d->call, RPC_UNAVAILABLE, "the kubelet stops");
		free(d);
	}
}

static void on_notify(void *arg)
{
	struct kubelet *k = arg;

	k->notify = NULL;
	if (k->ops->changed)
		k->ops->changed(k->arg);
}

static void on_expiry(void *arg);

static void plan_expiry(struct kubelet *k)
{
	uint64_t at = device_manager_next_expiry(k->devices), now = time_mono_ns();

	k->expiry = once_timer_cancel(k->expiry);
	if (at != UINT64_MAX)
		k->expiry = once_timer_start(k->loop, at > now ? at - now : 0, on_expiry, k);
}

static void on_expiry(void *arg)
{
	struct kubelet *k = arg;

	k->expiry = NULL;
	if (device_manager_expire(k->devices, time_mono_ns()))
		kubelet_changed(k);
	else
		plan_expiry(k);
}

void kubelet_changed(struct kubelet *k)
{
	plan_expiry(k);
	if (!k->notify)
		k->notify = once_timer_start(k->loop, 0, on_notify, k);
}

void kubelet_status_text(char *ret, size_t cap, enum rpc_status status, const char *text)
{
	static const char *const names[] = { "OK", "Canceled", "Unknown", "InvalidArgument",
		"DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied",
		"ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange",
		"Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated" };
	size_t code = (size_t)status;

	(void)snprintf(ret, cap, "rpc error: code = %s desc = %s",
		code < ARRAY_LEN(names) ? names[code] : "Unknown", text);
}

int kubelet_new(struct kubelet **ret, struct rpc *rpc, uv_loop_t *loop,
	const struct kubelet_options *options, struct simulated_cluster *cluster,
	const struct kubelet_ops *ops, void *arg, struct error *err)
{
	struct kubelet *k = calloc(1, sizeof(*k));

	if (!k)
		return error_nomem(err);
	k->rpc = rpc;
	k->loop = loop;
	k->cluster = cluster;
	k->ops = ops;
	k->arg = arg;
	TAILQ_INIT(&k->conns);
	LIST_INIT(&k->delayed);
	k->dir = strdup(options->dir);
	if (!k->dir) {
		(void)error_nomem(err);
		goto fail;
	}
	if (path_join(k->plugin_dir, sizeof(k->plugin_dir), k->dir, "device-plugins", err) <
			0 ||
		path_join(k->register_path, sizeof(k->register_path), k->plugin_dir,
			"kubelet.sock", err) < 0 ||
		path_join(k->pods_dir, sizeof(k->pods_dir), k->dir, "pod-resources", err) < 0 ||
		path_join(k->pods_path, sizeof(k->pods_path), k->pods_dir, "kubelet.sock",
			err) < 0 ||
		device_manager_new(&k->devices, options->align_numa, err) < 0)
		goto fail;
	*ret = k;
	return 0;
fail:
	k = kubelet_free(k);
	return -1;
}

/* Whether a process listens on that socket. */
static bool has_socket_listener(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || strlen(path) >= sizeof(addr.sun_path))
		return false;
	memcpy(addr.sun_path, path, strlen(path) + 1);
	return connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0 ||
	       errno == EAGAIN;
}

/* Counts the socket files in @dir except @but, and deletes them if @remove_it. */
static unsigned each_socket(const char *dir, const char *but, bool remove_it)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d))) {
		struct stat st;

		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			!S_ISSOCK(st.st_mode) || (but && strcmp(e->d_name, but) == 0))
			continue;
		n++;
		if (remove_it && unlinkat(dirfd(d), e->d_name, 0) < 0)
			log_warn("cannot delete a socket file", LOG_STR("dir", dir),
				LOG_STR("file", e->d_name), LOG_STR("reason", strerror(errno)));
	}
	if (d)
		(void)closedir(d);
	return n;
}

unsigned kubelet_delete_sockets(struct kubelet *k)
{
	return each_socket(k->plugin_dir, "kubelet.sock", /* remove_it= */ true);
}

int kubelet_start(struct kubelet *k, struct error *err)
{
	if (kubelet_runs(k))
		return 0;
	/* After the first start, a socket in the way is an old one of this kubelet or of a plugin. */
	if (!k->started &&
		(has_socket_listener(k->register_path) || has_socket_listener(k->pods_path)))
		return error_set(err, ERR_EXISTS,
			"a kubelet answers in '%s'; give another --kubelet-dir", k->dir);
	if (dir_make(k->plugin_dir, 0750, err) < 0 || dir_make(k->pods_dir, 0750, err) < 0)
		return -1;
	(void)each_socket(k->plugin_dir, NULL, /* remove_it= */ true);
	(void)each_socket(k->pods_dir, NULL, /* remove_it= */ true);
	/* As the real kubelet: pod-resources first; last kubelet.sock, for which plugins wait. */
	if (rpc_serve(k->rpc, k->pods_path, kubelet_pod_methods, ARRAY_LEN(kubelet_pod_methods),
		    k, &k->pods, err) < 0)
		return -1;
	if (rpc_serve(k->rpc, k->register_path, kubelet_registration_methods,
		    ARRAY_LEN(kubelet_registration_methods), k, &k->registration, err) < 0) {
		rpc_server_close(k->pods);
		k->pods = NULL;
		return -1;
	}
	k->started = true;
	kubelet_changed(k);
	return 0;
}

/* Closes a server. With @keep its socket file stays, as after kill -9. */
static void close_server(struct rpc_server **s, const char *path, bool keep)
{
	char aside[KUBELET_PATH_MAX + 8];

	if (!*s)
		return;
	(void)snprintf(aside, sizeof(aside), "%s.kept", path);
	keep = keep && rename(path, aside) == 0;
	rpc_server_close(*s);
	*s = NULL;
	if (keep)
		(void)rename(aside, path);
}

void kubelet_stop(struct kubelet *k, bool killed)
{
	kubelet_drop_delayed(k);
	kubelet_abort_admission(k, POD_BOUND);
	kubelet_close_conns(k);
	close_server(&k->registration, k->register_path, killed);
	close_server(&k->pods, k->pods_path, killed);
	for (size_t i = 0; i < k->n_slow_fds; i++)
		(void)close(k->slow_fds[i]);
	free(k->slow_fds);
	k->slow_fds = NULL;
	k->n_slow_fds = 0;
	device_manager_restart(k->devices);
	kubelet_changed(k);
}

bool kubelet_runs(const struct kubelet *k)
{
	return k->registration != NULL;
}

struct kubelet *kubelet_free(struct kubelet *k)
{
	if (!k)
		return NULL;
	if (k->devices)
		kubelet_stop(k, /* killed= */ false);
	k->notify = once_timer_cancel(k->notify);
	k->expiry = once_timer_cancel(k->expiry);
	k->devices = device_manager_free(k->devices);
	free(k->dir);
	free(k);
	return NULL;
}

const struct device_manager *kubelet_devices(const struct kubelet *k)
{
	return k->devices;
}

const char *kubelet_dir(const struct kubelet *k)
{
	return k->dir;
}

struct kubelet_faults *kubelet_faults(struct kubelet *k)
{
	return &k->faults;
}

const struct kubelet_counts *kubelet_counts(const struct kubelet *k)
{
	return &k->counts;
}
