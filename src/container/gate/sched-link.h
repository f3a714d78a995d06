/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The second connection of this process to its slice's arbiter (SLICE_HELLO_TURNS), for the fair-share
 * scheduler. It gives the page of the gates and carries struct slice_state. Its end shows that the arbiter
 * is gone. The page is not mapped in a child of fork.
 *
 * Threads. gate_link_register() is for one thread at a time, and may wait. The caller guards .socket and
 * the rest by a lock. No other function waits.
 */
#include "container/client/socket.h"
#include "abi/turn-page.h"

#include <stdbool.h>
#include <stdint.h>

struct gate_link {
	struct turn_page *page; /* set by the first registration; for the life of the process */
	struct own_fd page_fd;
	struct own_fd socket;  /* not in use, or as gate_link_register() gave it last */
	struct own_fd pending; /* not in use, or a connection without an answer to its hello */
	uint32_t pending_tag;  /* of its hello */
	int64_t pending_until; /* for the caller */
	/* Of .socket. */
	uint64_t sent;    /* packets */
	int packet_bytes; /* the least that was ever unread: one packet; 0: none was */
	int unread;       /* at the last gate_link_is_being_read(), and .sent then */
	uint64_t sent_at_read;
	/* For the caller to write. They begin at 0 with each connection. */
	uint64_t hung_since, progress_at, progress_sent;
	bool opened;
	uint32_t tag;
	char dir[SOCKET_DIR_MAX];
};

enum gate_link_answer {
	GATE_LINK_UP,
	GATE_LINK_PENDING, /* connected, and no answer yet */
	GATE_LINK_DOWN,    /* no answer: try again */
	GATE_LINK_REFUSED, /* no gates for this slice now, or for this process */
	GATE_LINK_PAGE_LOST, /* the page cannot be passed again: the program has closed its descriptor */
};

/*
 * Connects and registers, with the page if there is one, until @deadline on sys_now()'s clock. *ret: the
 * new connection, which the caller puts in .socket. An earlier request is given up.
 */
enum gate_link_answer gate_link_register(struct gate_link *l, int64_t deadline,
	struct own_fd *ret);

/* Registers in two steps that never wait. gate_link_request() connects and sends the hello. PENDING: the
 * answer is awaited; gate_link_close() gives up. */
enum gate_link_answer gate_link_request(struct gate_link *l);
/* Checks for the answer to gate_link_request(). PENDING: there is none yet. UP: *ret is the new connection,
 * which the caller puts in .socket. */
enum gate_link_answer gate_link_poll_answer(struct gate_link *l, struct own_fd *ret);

/* Closes .socket and .pending, and zeroes the figures of the connection. The page stays. */
void gate_link_close(struct gate_link *l);

/* Whether the arbiter has read any packet since the last such call, or has none to read. So true also for
 * an arbiter that always has some left. True where the system cannot tell. */
bool gate_link_is_being_read(struct gate_link *l);

/* Whether the connection has ended. Two system calls. */
bool gate_link_hung_up(const struct gate_link *l);

enum gate_link_sent {
	GATE_LINK_SENT,
	GATE_LINK_FULL, /* not sent: report it again later */
	GATE_LINK_GONE, /* there is no connection */
};

/* Fills in .head of @state and sends it. */
enum gate_link_sent gate_link_send_state(struct gate_link *l, struct slice_state *state);
/* Whether the arbiter has read all packets. True where the system cannot tell. */
bool gate_link_was_read(const struct gate_link *l);
