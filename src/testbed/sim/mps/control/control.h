/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The shared parts of nvidia-cuda-mps-control as daemon.
 *
 *	control.c program: options, the files of the pipe directory, the loop; the same program when it sends
 *	          commands
 *	conn.c    connections: commands, clients, servers
 *	server.c  servers: start, stop, settings
 *	ui.c      commands
 *
 * Without -multiuser-server there is one server, of one user. Clients of other users wait until that server has no
 * clients.
 * Thread: main.
 */
#include "lib/base/cleanup.h"
#include "testbed/sim/mps/command.h"
#include "testbed/sim/mps/limits.h"

#include <sys/types.h>

#define CONTROL_BINARY     13000
#define CONTROL_CONNS_MAX  1024
#define CONTROL_BACKOFF_MS 200 /* first wait; each further one is twice as long */

enum conn_kind {
	CONN_NEW,     /* has sent nothing yet */
	CONN_UI,      /* sends commands */
	CONN_WAITING, /* a client without a ready server */
};

struct mps_control_conn {
	struct mps_control_conn *next;
	enum conn_kind kind;
	int fd;
	pid_t pid;
	uid_t uid;
	bool waiting;            /* for the answer to its command */
	struct mps_packet hello; /* a client's first packet */
};

struct mps_server {
	struct mps_server *next;
	pid_t pid;
	uid_t uid;
	int fd; /* -1: the server has not connected yet, or is about to end */
	enum sim_mps_state state;
	struct mps_settings settings;
	bool stopping;
	bool behind;         /* the server's socket is full */
	uint32_t backoff_ms; /* 0: the first try */
	uint64_t try_at_ns;
};

struct mps_control_daemon {
	const char *dir;
	bool multiuser, daemon;
	int lock, log_pipe, listen, privileged, signals;
	int log_fd, server_log_fd;
	uid_t uid;
	struct mps_settings defaults;
	struct mps_control_conn *conns; /* oldest first */
	struct mps_control_conn **conns_end;
	uint32_t conn_count;
	struct mps_server *servers;
	bool quitting, wedged, done;
	uint64_t force_at_ns; /* end of the time of quit -t */
};

/* Writes a line of the control log, after the lines that servers have written to the log pipe before. */
void control_log(const struct mps_control_daemon *c, const char *fmt, ...) PRINTF(2, 3);

/* conn.c: accepts a connection. Closes it at once if the daemon quits or has CONTROL_CONNS_MAX connections. */
void conn_accept(struct mps_control_daemon *c, int listen_fd);
/* Handles a packet of a readable connection, or its end. @x may be freed. */
void conn_read(struct mps_control_daemon *c, struct mps_control_conn *x);
/* Hands clients to ready servers; starts missing servers. */
void conn_serve_waiting(struct mps_control_daemon *c);
/* Refuses the clients of that user; all if quitting or with -multiuser-server. */
void conn_refuse_waiting(struct mps_control_daemon *c, uid_t uid);
void conn_finish(struct mps_control_daemon *c); /* sends the answer to quit */

/* server.c: the server with this PID; NULL: none. */
struct mps_server *servers_find(const struct mps_control_daemon *c, pid_t pid);
/* The server for @uid; NULL: none. */
struct mps_server *servers_of(const struct mps_control_daemon *c, uid_t uid);
struct mps_server *servers_start(struct mps_control_daemon *c, uid_t uid); /* NULL: failed */
/* Stops the server as soon as it has no clients. servers_tick() tries again while there are some. */
void servers_stop(struct mps_control_daemon *c, struct mps_server *s);
/* Stops the server with its clients, and waits for its answer. */
void servers_stop_now(struct mps_control_daemon *c, struct mps_server *s);
/* Removes servers whose processes have ended. */
void servers_reap(struct mps_control_daemon *c);
/* Handles a packet of a server whose .fd is readable, or the end of the connection. */
void servers_read(struct mps_control_daemon *c, struct mps_server *s);
/* The socket of the server has space again. */
void servers_retry_waiting(struct mps_control_daemon *c, struct mps_server *s);
/* Does what is due at @now_ns of the monotonic clock: tries of servers_stop(), and the end of quit -t. */
void servers_tick(struct mps_control_daemon *c, uint64_t now_ns);
/* The next time at which servers_tick() is due; UINT64_MAX: none. */
uint64_t servers_next_ns(const struct mps_control_daemon *c);
/* Sends s->settings, unless the server is not connected. */
void servers_send_settings(struct mps_server *s);
/*
 * Sends a command to a server and waits for the answer as long as the server lives; false: no answer. The daemon
 * answers no other command meanwhile, as NVIDIA's when it stops a server (measured with driver 580).
 */
bool servers_query(struct mps_control_daemon *c, struct mps_server *s, struct mps_packet *p);

/* ui.c: executes one command of @x. */
void ui_serve(struct mps_control_daemon *c, struct mps_control_conn *x, const char *line);
