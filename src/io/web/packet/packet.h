/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between the agent and its web server process, gpuslice-web.
 *
 *	agent                        gpuslice-web
 *	  │ ── START ────────────────▶ │     limits, files, routes
 *	  │ ◀── READY or REFUSED ───── │     READY: the files are read. REFUSED: why not; the process exits
 *	  │ ── LISTEN (socket) ──────▶ │     from here on the process accepts connections
 *	  │ ◀── REQUEST ────────────── │     for a route; the next one only after the reply
 *	  │ ── REPLY (memfd?) ───────▶ │
 *	  │ ◀── NOTICE ─────────────── │     at any time: why a file is invalid; ERR_NONE: all are valid again
 *
 * Packets. Each message is one packet on a SOCK_SEQPACKET pair, which is descriptor WEB_FD_SOCKET of the
 * process. A packet begins with a fixed part, which begins with a head. Texts that end in NUL follow, and then
 * the body of a reply if that is short. A longer body comes as a sealed memfd.
 *
 * Trust. Both ends are of one build; the version in the head shows it. The agent still treats each packet as a
 * remote client's, since a remote client may have taken over the process.
 *
 * Shared page. Descriptor WEB_FD_SHM is a page that both ends map and that outlives the process. It has the
 * counters of the process and the number of rounds of its loop. A process whose loop makes no rounds hangs.
 *
 * Functions that read a packet borrow all text from it, and change *ret only when they succeed.
 * Thread: any (no state).
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "io/web/web.h"

#include <stdatomic.h>

#define WEB_FD_SOCKET 3
#define WEB_FD_SHM    4

#define WEB_PACKET_MAX (64U << 10) /* bytes of a packet */
#define WEB_INLINE_MAX (32U << 10) /* bytes of a body that goes in its packet */
#define WEB_ROUTES_MAX 32
#define WEB_TEXTS_MAX  (24U << 10) /* bytes of all texts of a packet, with their NULs */

enum web_packet {
	WEB_PACKET_START = 1,
	WEB_PACKET_READY,
	WEB_PACKET_REFUSED,
	WEB_PACKET_LISTEN,
	WEB_PACKET_REQUEST,
	WEB_PACKET_REPLY,
	WEB_PACKET_NOTICE,
	WEB_PACKET_COUNT_,
};

/* The process writes, the agent reads. Each word is independent of the others, so relaxed order is enough. */
struct web_shm {
	/* Of struct web_counts. */
	atomic_uint_fast64_t requests[5], refused_full, refused_address, displaced, timeouts,
		malformed, throttled;
	atomic_uint_fast64_t open;       /* the agent sets it to 0 when a process has ended */
	atomic_uint_fast64_t loop_count; /* rounds of the process's loop */
};

struct web_route_name {
	const char *path;
	bool open;
};

/* START */
struct web_setup {
	struct web_limits limits;
	const char *host;                              /* of the configured address; "": none */
	const char *token_file, *cert_file, *key_file; /* NULL: none */
	size_t n_routes;
	struct web_route_name routes[WEB_ROUTES_MAX];
};

/* REFUSED, NOTICE. READY uses the type alone. */
struct web_message {
	enum web_packet type;
	struct error error;
};

/* REQUEST has a struct web_request without .rest. */

/* REPLY */
struct web_packed_reply {
	unsigned status;  /* 100 to 599 */
	uint64_t cpu_ns;  /* CPU time that the agent spent on the request */
	bool shared;      /* .len bytes are in the memfd that comes with the packet */
	size_t len;       /* of the body, at most WEB_BODY_MAX */
	const void *body; /* NULL where the memfd has it */
	const char *type; /* "": text/plain */
	char etag[WEB_ETAG_MAX];
	size_t n_extra;
	struct {
		const char *name, *value;
	} extra[WEB_EXTRA_MAX];
};

/* --- writing --- */

/* Write a packet into an empty @b with the limit WEB_PACKET_MAX. buf_ok() reports whether all of it fits. */
void web_pack_start(struct buf *b, const struct web_setup *s);
void web_pack_message(struct buf *b, const struct web_message *w);
void web_pack_listen(struct buf *b, bool only_local);
void web_pack_request(struct buf *b, const struct web_request *req);
void web_pack_reply(struct buf *b, const struct web_packed_reply *reply);

/* --- reading --- */

/* Read a packet of @len bytes. ERR_INVALID: it is malformed or has another type. web_packet_type() checks the
 * head only. */
int web_packet_type(const void *packet, size_t len, enum web_packet *ret,
	struct error *err) MUST_USE;
int web_unpack_start(const void *packet, size_t len, struct web_setup *ret,
	struct error *err) MUST_USE;
int web_unpack_message(const void *packet, size_t len, struct web_message *ret,
	struct error *err) MUST_USE;
int web_unpack_listen(const void *packet, size_t len, bool *ret_only_local,
	struct error *err) MUST_USE;
int web_unpack_request(const void *packet, size_t len, struct web_request *ret,
	struct error *err) MUST_USE;
int web_unpack_reply(const void *packet, size_t len, struct web_packed_reply *ret,
	struct error *err) MUST_USE;

/* --- the socket --- */

/* Sends the packet with a copy of @fd (-1: none). Never waits. ERR_UNAVAILABLE: the socket is full. */
int web_packet_send(int sock, const struct buf *packet, int fd, struct error *err) MUST_USE;
/* Sends READY, REFUSED or NOTICE. False: the message is lost, since the socket is full or closed. */
bool web_message_send(int sock, enum web_packet type, const struct error *error);
/*
 * Receives a packet into @packet of WEB_PACKET_MAX bytes. Never waits. > 0: there is no packet. *ret_len 0: the
 * other end has closed. *ret_fd: the descriptor that came with the packet, owned by the caller, or -1. @ret_fd
 * NULL: no descriptor is accepted; the kernel drops those that come.
 */
int web_packet_receive(int sock, void *packet, size_t *ret_len, int *ret_fd,
	struct error *err) MUST_USE;
