/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the parts of the web server's process share. It has one thread. */
#include "lib/base/time.h"
#include "io/web/packet/packet.h"
#include "io/web/worker/conn.h"
#include "io/web/worker/file.h"

#include <microhttpd.h>
#include <stdatomic.h>

/* The agent's end of the socket. */
struct web_link {
	bool ended; /* the agent has gone, or does not keep to the protocol */
	unsigned char packet[WEB_PACKET_MAX];
};

struct web_server {
	struct web_setup setup; /* borrows from .start */
	struct web_limits limits;
	uint64_t loop_max_ns; /* the loop's longest */
	bool only_local;      /* requests must name a loopback host */
	struct web_shm *shm;
	struct web_link link;

	struct MHD_Daemon *daemon;
	int listen_fd, epoll_fd;
	/* In epoll's data: the address of what has an event, or of a struct web_conn. */

	struct web_conn_list conns;
	uint64_t accept_after_ns; /* no descriptors were left: not before this */
	struct web_token token;
	struct web_tls tls;
	uint64_t checked_ns;         /* when the files were last looked at */
	char noticed[ERROR_MSG_MAX]; /* what the agent knows of them; "": all are valid */
	uint64_t agent_cpu_ns;       /* that the agent has spent on our requests */

	unsigned char start[WEB_PACKET_MAX]; /* the packet START */
};

static inline void web_count(atomic_uint_fast64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* --- request.c: callbacks of libmicrohttpd, with the struct web_server --- */

enum MHD_Result web_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_len,
	void **state);
void web_on_completed(void *cls, struct MHD_Connection *mhd, void **state,
	enum MHD_RequestTerminationCode why);

/* --- loop.c --- */

/* Connections above the limit that may be there, on their way out. */
#define WEB_LEAVING_MAX 64U

#define WEB_ENDING_NS (NS_PER_SEC) /* to read what came before the end of what comes */

/* Until the agent's end of the socket is closed. */
void web_server_run(struct web_server *w);
void web_on_connection(void *cls, struct MHD_Connection *mhd, void **context,
	enum MHD_ConnectionNotificationCode what);
/* Looks at the files again, if it is time. The agent hears what is wrong with them, and that nothing is any more. */
void web_check_files(struct web_server *w, uint64_t now_ns);

/* --- link.c: what goes to the agent and comes back --- */

#define WEB_REPLY_NS (20 * NS_PER_SEC) /* for the agent to answer; routes never wait */

/*
 * Has the agent answer @req: fills *reply and returns its status. Where no answer comes, or one that
 * is malformed, it is WEB_UNAVAILABLE or WEB_INTERNAL with a text; where none comes, the process ends.
 */
unsigned web_link_request(struct web_server *w, const struct web_request *req,
	struct web_reply *reply);
/* Something has come that is no answer: the end of the agent, or what is none. */
void web_link_end(struct web_server *w);

/* --- server.c --- */

/* Reads the files and prepares the server of a START packet, w->start of @len bytes. */
int web_server_init(struct web_server *w, size_t len, struct web_shm *page,
	struct error *err) MUST_USE;
/* Accepts connections from @fd, which it owns from here, in web_server_run(). */
int web_server_listen(struct web_server *w, int fd, bool only_local,
	struct error *err) MUST_USE;
/* Ends all connections. A server that is all zero, or only half prepared, is fine. */
void web_server_fini(struct web_server *w);
