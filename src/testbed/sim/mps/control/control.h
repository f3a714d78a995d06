/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * nvidia-cuda-mps-control, as daemon: what its parts share.
 *
 *	control.c         the program: options, the files of the pipe directory, the loop
 *	conn.c    who connects: commands, clients, servers
 *	server.c  servers: start, stop, what they may let clients have
 *	ui.c      commands
 *	client.c              the same program as the one that sends them
 *
 * Without -multiuser-server there is one server, of one user; others wait until it has no clients.
 */
#include "lib/base/cleanup.h"
#include "testbed/sim/mps/command.h"
#include "testbed/sim/mps/limits.h"

#include <sys/types.h>

#define CONTROL_BINARY     13000
#define CONTROL_CONNS_MAX  1024
#define CONTROL_BACKOFF_MS 200 /* the first one, then twice as much each time */

enum conn_kind {
	CONN_NEW,     /* has not said what it is */
	CONN_UI,      /* sends commands */
	CONN_WAITING, /* a client, until there is a server for it */
};

struct mps_control_conn {
	struct mps_control_conn *next;
	enum conn_kind kind;
	int fd;
	pid_t pid;
	uid_t uid;
	bool waiting;            /* a command of it has no answer yet */
	struct mps_packet hello; /* of a client */
};

struct mps_server {
	struct mps_server *next;
	pid_t pid;
	uid_t uid;
	int fd; /* -1: it has not connected yet, or is about to end */
	enum sim_mps_state state;
	struct mps_settings settings;
	bool stopping;
	bool behind;         /* its socket is full */
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
	struct mps_control_conn *conns; /* the first to come first */
	struct mps_control_conn **conns_end;
	uint32_t conn_count;
	struct mps_server *servers;
	bool quitting, wedged, done;
	uint64_t force_at_ns; /* quit -t */
};

void control_log(const struct mps_control_daemon *c, const char *fmt, ...) PRINTF(2, 3);

/* conn.c */
void conn_accept(struct mps_control_daemon *c, int listen_fd);
void conn_read(struct mps_control_daemon *c, struct mps_control_conn *x);
struct mps_control_conn *conn_drop(struct mps_control_daemon *c,
	struct mps_control_conn *x); /* returns the next */
void conn_serve_waiting(struct mps_control_daemon
		*c); /* those whose server is ready; starts one for who has none */
void conn_refuse_waiting(struct mps_control_daemon *c,
	uid_t uid); /* of that user, or of all if there is one server */
void conn_finish(struct mps_control_daemon *c); /* quit is over */

/* server.c */
struct mps_server *servers_find(const struct mps_control_daemon *c, pid_t pid);
struct mps_server *servers_of(const struct mps_control_daemon *c,
	uid_t uid); /* that @uid is served by */
struct mps_server *servers_start(struct mps_control_daemon *c,
	uid_t uid); /* NULL: it could not be */
void servers_stop(struct mps_control_daemon *c, struct mps_server *s);
void servers_stop_now(struct mps_control_daemon *c, struct mps_server *s);
void servers_reap(struct mps_control_daemon *c);
void servers_read(struct mps_control_daemon *c, struct mps_server *s);
void servers_retry_waiting(struct mps_control_daemon *c,
	struct mps_server *s); /* its socket is not full any more */
void servers_tick(struct mps_control_daemon *c, uint64_t now_ns);
uint64_t servers_next_ns(const struct mps_control_daemon *c);
void servers_send_settings(struct mps_server *s);
/*
 * Asks, and waits for the answer as long as the server lives; false: there is none. Meanwhile nobody is answered, as
 * with NVIDIA's when a server is stopped (measured with driver 580).
 */
bool servers_query(struct mps_control_daemon *c, struct mps_server *s, struct mps_packet *p);

/* ui.c: one command of @x. */
void ui_serve(struct mps_control_daemon *c, struct mps_control_conn *x, const char *line);

/* client.c: sends the command, or the lines of the standard input. Returns the exit status. */
int ui_main(const char *dir, int argc, char **argv);
