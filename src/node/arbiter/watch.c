/* SPDX-License-Identifier: Apache-2.0 */

/* Descriptors on the loop, each owned and with one callback; listening sockets. */
#include "node/arbiter/watch.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024

static void on_watch_poll(uv_poll_t *h, int status, int events)
{
	struct fd_watch *w = h->data;

	/* The next read of the descriptor returns its error. */
	(void)status;
	(void)events;
	if (w->fn)
		w->fn(w->arg);
}

static void on_watch_handle_closed(uv_handle_t *h)
{
	free(h->data);
}

int fd_watch_start(struct fd_watch **ret, uv_loop_t *loop, int fd, void (*fn)(void *arg),
	void *arg, struct error *err)
{
	struct fd_watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return error_nomem(err);
	r = uv_poll_init(loop, &w->poll, fd);
	if (r < 0) {
		free(w);
		return error_sys(err, -r, "watch a descriptor");
	}
	w->poll.data = w;
	w->fd = fd;
	w->fn = fn;
	w->arg = arg;
	r = uv_poll_start(&w->poll, UV_READABLE, on_watch_poll);
	if (r < 0) {
		(void)fd_watch_release(w);
		return error_sys(err, -r, "watch a descriptor");
	}
	*ret = w;
	return 0;
}

void fd_watch_pause(struct fd_watch *w, bool paused)
{
	if (paused)
		(void)uv_poll_stop(&w->poll);
	else
		(void)uv_poll_start(&w->poll, UV_READABLE, on_watch_poll);
}

int fd_watch_release(struct fd_watch *w)
{
	w->fn = NULL;
	uv_close((uv_handle_t *)&w->poll, on_watch_handle_closed);
	return steal_fd(&w->fd);
}

struct fd_watch *fd_watch_stop(struct fd_watch *w)
{
	int fd = w ? fd_watch_release(w) : -1;

	closep(&fd);
	return NULL;
}

/* Binds another name, then renames it. Paths go through the directory's descriptor, since a socket's path has at
 * most 107 bytes. */
static int bind_and_rename(int fd, int dir, const char *name, mode_t mode, struct error *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char temp[64];

	(void)snprintf(temp, sizeof(temp), ".%s.new", name);
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/%s", dir, temp);
	if (unlinkat(dir, temp, 0) < 0 && errno != ENOENT)
		return error_sys(err, errno, "remove '%s'", temp);
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return error_sys(err, errno, "bind '%s'", temp);
	if (fchmodat(dir, temp, mode, 0) < 0 || listen(fd, BACKLOG) < 0 ||
		renameat(dir, temp, dir, name) < 0) {
		(void)error_sys(err, errno, "listen on '%s'", name);
		(void)unlinkat(dir, temp, 0);
		return -1;
	}
	return 0;
}

int socket_listen(const char *dir, const char *name, int type, mode_t mode, struct error *err)
{
	CLEANUP(closep) int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(closep) int fd = -1;

	if (at < 0)
		return error_sys(err, errno, "open '%s'", dir);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_sys(err, errno, "make a socket");
	if (bind_and_rename(fd, at, name, mode, err) < 0)
		return error_prefix(err, "%s", dir);
	return steal_fd(&fd);
}
