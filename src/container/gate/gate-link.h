/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The second connection of this process to its slice's arbiter (SLICE_HELLO_TURNS): it gives the page of
 * turns, carries struct slice_state, and its end is how one learns that the arbiter is gone. All of it
 * lies in memory that a child of fork sees as zero; the page is not mapped there.
 *
 * gate_link_register() is for one thread at a time and may wait; .socket and the rest are the caller's to
 * guard by a lock. None of those waits.
 */
#include "abi/turn-page.h"
#include "container/client/socket.h"

struct gate_link {
	struct turn_page *page; /* set by the first registration; for the life of the process */
	struct own_fd page_fd;
	struct own_fd socket;  /* no use, or that which gate_link_register() gave last */
	struct own_fd pending; /* no use, or one whose hello is not answered yet */
	uint32_t pending_tag;  /* its tag */
	int64_t pending_until; /* for who has it */
	/* Of .socket. */
	uint64_t sent;    /* packets */
	int packet_bytes; /* that the system ever called unread: one packet; 0: none was */
	int unread;       /* at the last gate_link_is_being_read(), and .sent then */
	uint64_t sent_at_read;
	/* For who has it to write down; they begin at 0 with each connection. */
	uint64_t hung_since, progress_at, progress_sent;
	bool opened;
	uint32_t tag;
	char dir[SOCKET_DIR_MAX];
};

enum gate_link_answer {
	GATE_LINK_UP,
	GATE_LINK_PENDING, /* a connection is there, and no answer yet */
	GATE_LINK_DOWN,    /* nobody answers: try again */
	GATE_LINK_REFUSED, /* this slice has no turns now, or not for this process */
	GATE_LINK_PAGE_LOST, /* the page cannot be shown again: the program has closed its descriptor */
};

/*
 * Connects and registers, with the page if there is one, until @deadline on sys_now()'s clock. *ret:
 * the new connection, which the caller puts in .socket. One that was asked for before is given up.
 */
enum gate_link_answer gate_link_register(struct gate_link *l, int64_t deadline,
	struct own_fd *ret);

/* The same in steps that never wait: ask() connects and sends the hello, answer() looks whether there is an
 * answer. ASKED: not yet; gate_link_close() gives up. */
enum gate_link_answer gate_link_request(struct gate_link *l);
enum gate_link_answer gate_link_poll_answer(struct gate_link *l, struct own_fd *ret);

void gate_link_close(struct gate_link *l);

enum gate_link_sent { GATE_LINK_SENT, GATE_LINK_FULL, GATE_LINK_GONE };

/* .head is filled in. FULL: it was not sent, say it again later. GONE: there is no connection. */
enum gate_link_sent gate_link_send_state(struct gate_link *l, struct slice_state *state);

/* Whether the arbiter has read all that was sent. True where the system cannot say. */
bool gate_link_was_read(const struct gate_link *l);

/* Whether the arbiter has read any of what was sent since the last such call, or there is nothing to read. So
 * also of one that always has something left. True where the system cannot say. */
bool gate_link_is_being_read(struct gate_link *l);

/* Whether the connection has ended. Two system calls. */
bool gate_link_hung_up(const struct gate_link *l);
