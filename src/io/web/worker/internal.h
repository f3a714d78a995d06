/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the process gpuslice-web share. Thread: the only one of the process. */
#include "lib/base/time.h"
#include "io/web/packet/packet.h"
#include "io/web/worker/conn.h"
#include "io/web/worker/file.h"

#include <microhttpd.h>
#include <stdatomic.h>

/* The socket to the agent. */
struct web_link {
	bool ended; /* the agent has gone, or breaks the protocol */
	unsigned char packet[WEB_PACKET_MAX];
};

struct web_server {
	struct web_setup setup; /* borrows from .start */
	struct web_limits limits;
	uint64_t loop_max_ns; /* longest wait of the loop */
	bool only_local;      /* requests must name a loopback host */
	struct web_shm *shm;
	struct web_link link;

	struct MHD_Daemon *daemon;
	int listen_fd, epoll_fd;
	/* epoll's data is the address of the member that has an event, or of a struct web_conn. */

	struct web_conn_list conns;
	uint64_t accept_after_ns; /* no descriptors were left: no accept() before this */
	struct web_token token;
	struct web_tls tls;
	uint64_t checked_ns;         /* last check of the files */
	char noticed[ERROR_MSG_MAX]; /* last NOTICE to the agent; "": all files are valid */
	uint64_t agent_cpu_ns;       /* spent by the agent on requests of this process */

	unsigned char start[WEB_PACKET_MAX]; /* the packet START */
};

static inline void web_count(atomic_uint_fast64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* --- request.c: callbacks of libmicrohttpd, with the struct web_server --- */

/* For each request twice: with the headers, and for the answer. Refuses what is not GET or HEAD, has a body, or
 * has ambiguous headers. *state: the struct web_conn, from the first call on. */
enum MHD_Result web_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_len,
	void **state);
/* When a reply has been sent, or not: the connection is idle or ending from now on, unless it was cut. */
void web_on_completed(void *cls, struct MHD_Connection *mhd, void **state,
	enum MHD_RequestTerminationCode why);

/* --- loop.c --- */

/* Connections above the limit that may exist while they are being closed. */
#define WEB_LEAVING_MAX 64U

#define WEB_ENDING_NS (NS_PER_SEC) /* to read what the peer sent before it ended the stream */

/* Runs until the agent closes its end of the socket, or breaks the protocol. */
void web_server_run(struct web_server *w);
/* libmicrohttpd's callback when it begins or has closed a connection. *context: the struct web_conn. */
void web_on_connection(void *cls, struct MHD_Connection *mhd, void **context,
	enum MHD_ConnectionNotificationCode what);

/* --- link.c: what goes to the agent and comes back --- */

#define WEB_REPLY_NS (20 * NS_PER_SEC) /* for the agent to answer; routes never wait */

/*
 * Asks the agent for the answer to @req. Fills *reply and returns its status. No answer: WEB_UNAVAILABLE with a
 * text, and the process ends. A malformed answer, or no memory: WEB_INTERNAL with a text. Blocks for up to
 * WEB_REPLY_NS.
 */
unsigned web_link_request(struct web_server *w, const struct web_request *req,
	struct web_reply *reply);
/* Ends the loop: the agent has closed its end, or has sent a packet that is not an answer. */
void web_link_end(struct web_server *w);

/* --- server.c --- */

/* Reads the files and prepares the server from a START packet of @len bytes, w->start. */
int web_server_init(struct web_server *w, size_t len, struct web_shm *page,
	struct error *err) MUST_USE;
/* Takes @fd. web_server_run() accepts connections from it. */
int web_server_listen(struct web_server *w, int fd, bool only_local,
	struct error *err) MUST_USE;
/* Ends all connections. A server that is all zero, or only half prepared, is fine. */
void web_server_fini(struct web_server *w);
