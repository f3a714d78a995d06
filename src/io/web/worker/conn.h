/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The book of open connections: who may come in, and who has had time enough. It knows no sockets
 * but as numbers, and no clock: both come in as arguments.
 *
 * A connection is in one of the states below; each state but the last lasts for a fixed time, so a
 * list for each, in the order of entry, is also in the order of the deadlines.
 * Thread: the one of the process.
 */
#include "io/web/web.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum web_conn_state {
	WEB_CONN_REQUEST, /* its first request is not here yet */
	WEB_CONN_REPLY,   /* an answer is going out */
	WEB_CONN_IDLE,    /* between requests */
	WEB_CONN_ENDING,  /* it will send no more; what it has sent may be a request yet */
	WEB_CONN_CUT,     /* its time was over; it is about to be closed */
	WEB_CONN_STATES_,
};

struct web_conn {
	int fd; /* libmicrohttpd's, once that has begun with it */
	bool has_request; /* libmicrohttpd has said that it begins with it; only then is @fd ours to use */
	struct in6_addr addr;
	uint64_t serial; /* in the order of arrival, from 1 */
	uint64_t deadline_ns;
	enum web_conn_state state;
	bool heard;                   /* a request of it was understood */
	bool ended;                   /* the peer will send no more */
	bool late;                    /* its time was over while something was expected of it */
	struct web_conn *prev, *next; /* in its state's list */
};

struct web_conn_list {
	unsigned connections, per_address; /* limits */
	uint64_t lasts_ns[WEB_CONN_STATES_];
	struct web_conn *first[WEB_CONN_STATES_], *last[WEB_CONN_STATES_];
	unsigned open,
		cut; /* how many, and of those in WEB_CONN_CUT, which do not count as full */
	uint64_t last_serial;
};

/* Full: one that is waiting for a request has to make room, or none can. */
enum web_verdict { WEB_ADMITTED, WEB_FULL, WEB_ADDRESS_FULL };

/* IPv4 becomes its IPv6 form; what is neither is "::". */
struct in6_addr web_address(const struct sockaddr_storage *from);

enum web_verdict web_conn_list_admit(const struct web_conn_list *b,
	const struct in6_addr *addr);

/* Takes in @c, with @fd and @addr set, which the caller owns. */
void web_conn_list_add(struct web_conn_list *b, struct web_conn *c, uint64_t now_ns);
/*
 * The connection with this descriptor that has not begun; NULL: there is none. A number that
 * accept() has just returned is no other open connection's, so one record at most fits.
 */
struct web_conn *web_conn_list_find_new(const struct web_conn_list *b, int fd);
void web_conn_list_set_state(struct web_conn_list *b, struct web_conn *c,
	enum web_conn_state state, uint64_t now_ns);
void web_conn_list_remove(struct web_conn_list *b, struct web_conn *c);

/* One whose time is over, NULL: none. The caller moves it on to WEB_CONN_CUT. */
struct web_conn *web_conn_list_find_due(const struct web_conn_list *b, uint64_t now_ns);
/*
 * Who makes room where all is full: the connection that has been idle the longest, or else whose
 * request has been awaited the longest; NULL: all are being answered. So a crowd that comes and says
 * nothing keeps nobody out who does. The caller moves it on to WEB_CONN_CUT.
 */
struct web_conn *web_conn_list_find_victim(const struct web_conn_list *b);
/* The next deadline; UINT64_MAX: none. */
uint64_t web_conn_list_deadline(const struct web_conn_list *b);
/* The serial of the oldest that is open; UINT64_MAX: none is. */
uint64_t web_conn_list_oldest_serial(const struct web_conn_list *b);
