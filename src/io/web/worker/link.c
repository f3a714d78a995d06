/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the agent for the reply to one request over the socket, and maps a body that the agent sent as a file
 * (internal.h).
 */
#include "io/web/worker/internal.h"

#include "lib/base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static unsigned set_text_reply(struct web_reply *r, unsigned status, const char *text)
{
	*r = (struct web_reply){ .body = text, .len = strlen(text) };
	return status;
}

/* --- the reply --- */

/* The memory that a reply borrows from until it is sent. */
struct reply_memory {
	void *map; /* of .len bytes; NULL: the body is in .packet */
	size_t len;
	char packet[];
};

static void owned_free(void *owner)
{
	struct reply_memory *o = owner;

	if (o->map)
		(void)munmap(o->map, o->len);
	free(o);
}

/* The seal keeps every process from shrinking the file under the map, which would be a fatal signal
 * (SIGBUS). */
static int map_body(int fd, size_t len, struct reply_memory *o)
{
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *map;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 || len == 0 ||
		(uint64_t)st.st_size != len)
		return -1;
	map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -1;
	o->map = map;
	o->len = len;
	return 0;
}

static int fill_reply(const struct web_packed_reply *reply, int fd, struct reply_memory *o,
	struct web_reply *r)
{
	if (reply->shared && map_body(fd, reply->len, o) < 0)
		return -1;
	*r = (struct web_reply){ .type = *reply->type ? reply->type : NULL,
		.body = o->map ? o->map : reply->body,
		.len = reply->len,
		.release = owned_free,
		.owner = o,
		.n_extra = reply->n_extra };
	memcpy(r->etag, reply->etag, sizeof(r->etag));
	for (size_t i = 0; i < reply->n_extra; i++) {
		r->extra[i].name = reply->extra[i].name;
		r->extra[i].value = reply->extra[i].value;
	}
	return 0;
}

/* The reply in w->link.packet. Its texts, and a body in the packet, are copied. */
static unsigned unpack_agent_reply(struct web_server *w, size_t len, int fd,
	struct web_reply *reply)
{
	struct reply_memory *o = calloc(1, sizeof(*o) + len);
	struct web_packed_reply a = { .status = 0 };

	if (!o)
		return set_text_reply(reply, WEB_INTERNAL, "no memory for this text\n");
	memcpy(o->packet, w->link.packet, len);
	if (web_unpack_reply(o->packet, len, &a, NULL) < 0 ||
		fill_reply(&a, fd, o, reply) < 0) {
		free(o);
		return set_text_reply(reply, WEB_INTERNAL, "the agent's answer is malformed\n");
	}
	w->agent_cpu_ns += a.cpu_ns;
	return a.status;
}

/* --- the socket --- */

void web_link_end(struct web_server *w)
{
	w->link.ended = true;
}

static int send_request(const struct web_request *req)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);

	web_pack_request(&b, req);
	return buf_ok(&b) ? web_packet_send(WEB_FD_SOCKET, &b, -1, NULL) : -1;
}

/* Waits for the next packet and returns its length. 0: none comes, or the agent has gone. */
static size_t wait_agent_reply(struct web_server *w, int *ret_fd)
{
	uint64_t now_ns = time_mono_ns(), until_ns = now_ns + WEB_REPLY_NS;
	struct pollfd agent = { .fd = WEB_FD_SOCKET, .events = POLLIN };
	size_t len = 0;
	int r = 1;

	for (; r > 0 && now_ns < until_ns; now_ns = time_mono_ns()) {
		(void)poll(&agent, 1, (int)((until_ns - now_ns) / NS_PER_MS + 1));
		r = web_packet_receive(WEB_FD_SOCKET, w->link.packet, &len, ret_fd, NULL);
	}
	return r == 0 ? len : 0;
}

unsigned web_link_request(struct web_server *w, const struct web_request *req,
	struct web_reply *reply)
{
	static const char none[] = "the agent does not answer; try again in a second\n";
	CLEANUP(closep) int fd = -1;
	size_t len = 0;

	if (!w->link.ended && send_request(req) == 0)
		len = wait_agent_reply(w, &fd);
	/* Progress for the agent: one round of the loop may send a request for each open connection. */
	web_count(&w->shm->loop_count);
	if (len > 0)
		return unpack_agent_reply(w, len, fd, reply);
	/* A late answer would be taken for the answer to the next request. */
	w->link.ended = true;
	return set_text_reply(reply, WEB_UNAVAILABLE, none);
}
