/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connections of processes of slices: how they start, how they end, packets. requests.h handles the packets,
 * register.h the first one. Thread: loop. Blocks: never.
 */
#include "node/arbiter/grants/grants.h"
#include "abi/slice-wire.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONNS_MAX 8192 /* per node; fewer if RLIMIT_NOFILE is too low */

struct arbiter;
struct arbiter_slice;

/* The arbiter's state of a member, in its .user. */
struct member_state {
	struct arbiter_conn *conn; /* NULL: it ended */
	struct slice_page *page;
	ino_t page_ino;          /* of the memfd */
	bool mps_outside_logged; /* the log reported it as outside MPS */
};

struct arbiter_conn {
	struct arbiter_conn *prev, *next; /* of the arbiter */
	struct arbiter *arbiter;
	struct arbiter_slice *slice;
	struct fd_watch *watch;
	int pidfd; /* until a task owns it */
	uint32_t pid;
	uid_t uid; /* in the arbiter's user namespace */
	uint64_t start, image, since_ns;
	bool hello_received;
	bool ended;                   /* the peer had ended when the connection was accepted */
	int passed_fd;                /* a descriptor that the loop must not close, or -1 */
	struct grants_member *member; /* NULL: without memory */
	struct slice_want request;    /* while .waiting: answered after the next reading */
	uint64_t request_ns;          /* when it was received */
	bool waiting;
	/* For quanta: the scheduler thread reads the connection, and .member is NULL. */
	struct scheduler_registration *sched_conn;
};

/* Starts what clients/passed-fds.h needs. Call conns_stop() after a failure too. Errors: ERR_NOMEM; libuv's. */
int conns_start(struct arbiter *a, struct error *err) MUST_USE;

/*
 * Closes all connections and ends the watches of all processes. Grants stay in the journal for the next
 * arbiter.
 */
void conns_stop(struct arbiter *a);

/* For struct arbiter_slices_ops (slices/slices.h), which has their contracts. */
void conns_accept(void *slice);
void conns_stop_listening(struct arbiter_slice *s);
void conns_stop_slice(struct arbiter_slice *s);
void conns_stop_sched(struct arbiter_slice *s);
void conns_expire(struct arbiter *a, uint64_t now_ns);

/* The .dropped of struct grants_table: unmaps the page of @m and closes its connection. */
void conns_on_dropped(void *arbiter, struct grants_member *m);

/*
 * Closes the connection and frees @c. What was granted stays granted, since only the end of the process frees
 * it; a member without memory is dropped.
 */
void conn_close(struct arbiter_conn *c);

/*
 * Sends a packet of @len bytes with a copy of @page_fd (< 0: without a descriptor), which stays the caller's.
 * False: the peer does not read, so the connection is closed and @c is freed.
 */
bool conn_answer(struct arbiter_conn *c, const void *data, size_t len, int page_fd);
