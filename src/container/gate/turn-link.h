/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The second connection of this process to its slice's arbiter (SLICE_HELLO_TURNS): it gives the page of
 * turns, carries struct slice_state, and its end is how one learns that the arbiter is gone. All of it
 * lies in memory that a child of fork sees as zero; the page is not mapped there.
 *
 * turn_link_register() is for one thread at a time and may wait; .socket and the rest are the caller's to
 * guard by a lock. None of those waits.
 */
#include "abi/turn-page.h"
#include "container/client/socket.h"

struct turn_link {
	struct turn_page *page; /* set by the first registration; for the life of the process */
	struct own_fd page_fd;
	struct own_fd socket; /* no use, or that which turn_link_register() gave last */
	struct own_fd asking; /* no use, or one whose hello is not answered yet */
	uint32_t asked;       /* its tag */
	int64_t ask_until;    /* for who has it */
	/* Of .socket. */
	uint64_t sent; /* packets */
	int least;     /* that the system ever called unread: one packet; 0: none was */
	int unread;    /* at the last turn_link_reads(), and .sent then */
	uint64_t sent_then;
	/* For who has it to write down; they begin at 0 with each connection. */
	uint64_t deaf_since, said_at, said_sent;
	bool looked;
	uint32_t tag;
	char dir[SOCKET_DIR_MAX];
};

enum turn_link_answer {
	TURN_LINK_UP,
	TURN_LINK_ASKED,   /* a connection is there, and no answer yet */
	TURN_LINK_AWAY,    /* nobody answers: try again */
	TURN_LINK_REFUSED, /* this slice has no turns now, or not for this process */
	TURN_LINK_LOST, /* the page cannot be shown again: the program has closed its descriptor */
};

/*
 * Connects and registers, with the page if there is one, until @deadline on sys_now()'s clock. *ret:
 * the new connection, which the caller puts in .socket. One that was asked for before is given up.
 */
enum turn_link_answer turn_link_register(struct turn_link *l, int64_t deadline,
	struct own_fd *ret);

/* The same in steps that never wait: ask() connects and sends the hello, answer() looks whether there is an
 * answer. ASKED: not yet; turn_link_close() gives up. */
enum turn_link_answer turn_link_ask(struct turn_link *l);
enum turn_link_answer turn_link_answered(struct turn_link *l, struct own_fd *ret);

void turn_link_close(struct turn_link *l);

enum turn_link_sent { TURN_SENT, TURN_FULL, TURN_GONE };

/* .head is filled in. FULL: it was not sent, say it again later. GONE: there is no connection. */
enum turn_link_sent turn_state(struct turn_link *l, struct slice_state *state);

/* Whether the arbiter has read all that was sent. True where the system cannot say. */
bool turn_link_was_read(const struct turn_link *l);

/* Whether the arbiter has read any of what was sent since the last such call, or there is nothing to read. So
 * also of one that always has something left. True where the system cannot say. */
bool turn_link_reads(struct turn_link *l);

/* Whether the connection has ended. Two system calls. */
bool turn_link_hung_up(const struct turn_link *l);
