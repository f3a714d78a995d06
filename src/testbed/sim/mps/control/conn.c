/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of the control daemon: commands, clients that it hands to a server, and servers (control.h).
 */
#include "testbed/sim/mps/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "testbed/sim/mps/link.h"
#include "testbed/sim/mps/log.h"

#define CONNECTION_FAILED 805

/* Returns the next. */
static struct mps_control_conn *conn_drop(struct mps_control_daemon *c,
	struct mps_control_conn *x)
{
	struct mps_control_conn **at = &c->conns, *next = x->next;

	if (x->kind == CONN_UI && !c->quitting)
		control_log(c, "UI closed");
	while (*at != x)
		at = &(*at)->next;
	*at = next;
	if (!next)
		c->conns_end = at;
	c->conn_count--;
	(void)close(x->fd);
	free(x);
	return next;
}

void conn_accept(struct mps_control_daemon *c, int listen_fd)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct mps_control_conn *x;

	if (fd < 0)
		return;
	control_log(c, "Accepting connection...");
	x = (c->quitting && !c->wedged) || c->conn_count >= CONTROL_CONNS_MAX
		    ? NULL
		    : calloc(1, sizeof(*x));
	if (!x) {
		(void)close(fd);
		return;
	}
	x->fd = fd;
	mps_peer(fd, &x->pid, &x->uid);
	*c->conns_end = x;
	c->conns_end = &x->next;
	c->conn_count++;
}

static void refuse_mps_conn(struct mps_control_daemon *c, struct mps_control_conn *x)
{
	struct mps_packet p = { .op = MPS_ANSWER, .status = CONNECTION_FAILED };

	(void)mps_send(x->fd, &p, -1, MSG_DONTWAIT);
	(void)conn_drop(c, x);
}

/*
 * Hands a client's connection to its server and drops it here. If the server's socket is full, as after many
 * waiting clients, this client waits until the server has read some packets.
 */
static void hand_over_client(struct mps_control_daemon *c, struct mps_control_conn *x,
	struct mps_server *s)
{
	errno = 0;
	if (mps_send(s->fd, &x->hello, x->fd, MSG_DONTWAIT)) {
		(void)conn_drop(c, x);
		return;
	}
	s->behind = errno == EAGAIN;
	if (s->behind)
		x->kind = CONN_WAITING;
	else
		refuse_mps_conn(c, x);
}

static bool has_begun(const struct mps_server *s)
{
	return s && s->fd >= 0 && s->state != MPS_INITIALIZING;
}

/* A stopping server takes no further processes. Its processes may still create contexts. */
static bool can_server_accept(const struct mps_server *s, const struct mps_control_conn *x)
{
	return has_begun(s) && !s->behind && (!s->stopping || x->hello.op == MPS_CONTEXT);
}

static void on_mps_client_connected(struct mps_control_daemon *c, struct mps_control_conn *x)
{
	struct mps_server *s = servers_of(c, x->uid);

	if (c->quitting) {
		refuse_mps_conn(c, x);
		return;
	}
	if (can_server_accept(s, x)) {
		control_log(c, "NEW CLIENT %d from user %u: Server already exists", (int)x->pid,
			x->uid);
		hand_over_client(c, x, s);
		return;
	}
	control_log(c,
		"NEW CLIENT %d from user %u: Server is not ready, push client to pending list",
		(int)x->pid, x->uid);
	x->kind = CONN_WAITING;
	conn_serve_waiting(c);
}

void conn_serve_waiting(struct mps_control_daemon *c)
{
	for (struct mps_control_conn *x = c->conns, *next; x; x = next) {
		struct mps_server *s;

		next = x->next;
		if (x->kind != CONN_WAITING)
			continue;
		s = servers_of(c, x->uid);
		if (can_server_accept(s, x)) {
			hand_over_client(c, x, s);
		} else if (!s && c->servers) {
			/* The server is another user's: it ends when it has no clients. */
			if (has_begun(c->servers))
				servers_stop(c, c->servers);
		} else if (!s && !servers_start(c, x->uid)) {
			refuse_mps_conn(c, x);
		}
	}
}

void conn_refuse_waiting(struct mps_control_daemon *c, uid_t uid)
{
	for (struct mps_control_conn *x = c->conns, *next; x; x = next) {
		next = x->next;
		if (x->kind == CONN_WAITING && (c->quitting || c->multiuser || x->uid == uid))
			refuse_mps_conn(c, x);
	}
}

void conn_finish(struct mps_control_daemon *c)
{
	struct mps_packet p = { .op = MPS_DONE };

	for (const struct mps_control_conn *x = c->conns; x; x = x->next)
		if (x->waiting)
			(void)mps_send(x->fd, &p, -1, MSG_DONTWAIT);
}

/* A server that this daemon started has connected: the connection is not a client's. */
static void on_mps_server_connected(struct mps_control_daemon *c, struct mps_control_conn *x)
{
	struct mps_server *s = servers_find(c, x->pid);

	if (!s || s->fd >= 0) {
		control_log(c, "NEW SERVER %d: Ignoring connection from user", (int)x->pid);
		(void)conn_drop(c, x);
		return;
	}
	s->fd = fcntl(x->fd, F_DUPFD_CLOEXEC, 3);
	(void)conn_drop(c, x);
}

static void first_packet(struct mps_control_daemon *c, struct mps_control_conn *x,
	struct mps_packet *p)
{
	switch (p->op) {
	case MPS_UI:
		control_log(c, "NEW UI");
		x->kind = CONN_UI;
		ui_serve(c, x, p->text);
		break;
	case MPS_PROCESS:
	case MPS_CONTEXT:
		x->hello = *p;
		on_mps_client_connected(c, x);
		break;
	case MPS_SERVER:
		on_mps_server_connected(c, x);
		break;
	default:
		(void)conn_drop(c, x);
		break;
	}
}

void conn_read(struct mps_control_daemon *c, struct mps_control_conn *x)
{
	struct mps_packet p;

	switch (mps_receive(x->fd, &p, NULL, MSG_DONTWAIT)) {
	case MPS_RETRY:
		return;
	case MPS_GONE:
		if (x->kind == CONN_NEW && !c->quitting)
			control_log(c, "User did not send valid credentials");
		(void)conn_drop(c, x);
		return;
	case MPS_RECEIVED:
		break;
	}
	if (x->kind == CONN_NEW)
		first_packet(c, x, &p);
	else if (x->kind == CONN_UI && p.op == MPS_UI && !x->waiting)
		ui_serve(c, x, p.text);
	else
		(void)conn_drop(c, x);
}
