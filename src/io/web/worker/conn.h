/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The list of open connections. It decides which may come in, and finds those with no time left. It knows
 * sockets only as numbers, and no clock: both are arguments.
 *
 * A connection is in one of the states below. Each state but WEB_CONN_CUT lasts for a fixed time. The list of a
 * state is in the order of entry, so it is also in the order of the deadlines.
 * Thread: the only one of the process.
 */
#include "io/web/web.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum web_conn_state {
	WEB_CONN_REQUEST, /* its first request is not complete */
	WEB_CONN_REPLY,   /* a reply is being sent */
	WEB_CONN_IDLE,    /* between requests */
	WEB_CONN_ENDING,  /* the peer sends no more; its last bytes may be a request */
	WEB_CONN_CUT,     /* its time is up; about to be closed */
	WEB_CONN_STATES_,
};

struct web_conn {
	int fd; /* libmicrohttpd's, from MHD_add_connection() on */
	/* libmicrohttpd has begun the connection. The process may use @fd only then. */
	bool has_request;
	struct in6_addr addr;
	uint64_t serial; /* order of arrival, from 1 */
	uint64_t deadline_ns;
	enum web_conn_state state;
	bool heard;                   /* one of its requests was understood */
	bool ended;                   /* the peer sends no more */
	bool late;                    /* cut for a timeout, or displaced */
	struct web_conn *prev, *next; /* in the list of its state */
};

struct web_conn_list {
	unsigned connections, per_address; /* limits */
	uint64_t lasts_ns[WEB_CONN_STATES_];
	struct web_conn *first[WEB_CONN_STATES_], *last[WEB_CONN_STATES_];
	unsigned open, cut; /* all; those in WEB_CONN_CUT, which do not count as full */
	uint64_t last_serial;
};

/* WEB_FULL: a connection that waits for a request must make room. If there is none, the new connection is
 * refused. */
enum web_verdict { WEB_ADMITTED, WEB_FULL, WEB_ADDRESS_FULL };

/* IPv4 becomes its IPv6 form; any other family is "::". */
struct in6_addr web_address(const struct sockaddr_storage *from);

/* Whether a new connection from @addr may come in, by the limits. Does not add it. */
enum web_verdict web_conn_list_admit(const struct web_conn_list *list,
	const struct in6_addr *addr);

/* Adds @c, with @fd and @addr set. The caller owns it. */
void web_conn_list_add(struct web_conn_list *list, struct web_conn *c, uint64_t now_ns);
/*
 * The connection with this descriptor that libmicrohttpd has not begun; NULL: none. accept() never returns the
 * number of an open connection, so at most one record fits.
 */
struct web_conn *web_conn_list_find_new(const struct web_conn_list *list, int fd);
/* Moves @c to a state from @now_ns on, also to its own, and sets the deadline. */
void web_conn_list_set_state(struct web_conn_list *list, struct web_conn *c,
	enum web_conn_state state, uint64_t now_ns);
/* Does not free @c. */
void web_conn_list_remove(struct web_conn_list *list, struct web_conn *c);

/* A connection whose time is up; NULL: none. The caller moves it to WEB_CONN_CUT. */
struct web_conn *web_conn_list_find_due(const struct web_conn_list *list, uint64_t now_ns);
/*
 * The connection that makes room when the server is full:
 *  1. the connection that has been in WEB_CONN_ENDING the longest;
 *  2. else the connection that has been idle the longest;
 *  3. else the connection whose first request has been awaited the longest.
 * NULL: all connections are being answered. So silent connections, however many, keep out no client that sends a
 * request. The caller moves the connection to WEB_CONN_CUT.
 */
struct web_conn *web_conn_list_find_victim(const struct web_conn_list *list);
/* The next deadline; UINT64_MAX: none. */
uint64_t web_conn_list_deadline(const struct web_conn_list *list);
/* The serial of the oldest open connection; UINT64_MAX: none. */
uint64_t web_conn_list_oldest_serial(const struct web_conn_list *list);
