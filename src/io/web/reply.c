/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers a request of the process gpuslice-web: calls the route, packs the reply, and shares large bodies as
 * sealed files (internal.h).
 */
#include "io/web/internal.h"

#include "lib/base/fd.h"
#include "io/web/packet/parse.h"
#include "io/web/packet/yield.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static void release_reply_owner(struct web_reply *r)
{
	if (r->release)
		r->release(r->owner);
	r->release = NULL;
}

/* The process checks the routes too. A request without a route gets 404. */
static unsigned call_route(const struct web *w, struct web_request *req, struct web_reply *r)
{
	static const char none[] = "there is no such page\n";

	for (size_t i = 0; i < w->ops.n_routes; i++) {
		const struct web_route *route = &w->ops.routes[i];
		const char *rest = web_route_rest(route->path, req->path);

		if (rest) {
			req->rest = rest;
			return route->get(w->arg, req, r);
		}
	}
	r->body = none;
	r->len = sizeof(none) - 1;
	return WEB_NOT_FOUND;
}

/* --- bodies that are shared --- */

static void shared_fini(struct web_shared *s)
{
	if (s->map)
		(void)munmap(s->map, s->len);
	s->map = NULL;
	closep(&s->fd);
}

/* Copies the body into a file that the process can map and no process can change. */
static int shared_init(struct web_shared *s, const struct web_reply *r)
{
	CLEANUP(closep)
	int fd = memfd_create("gpuslice-web-body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *map;

	if (fd < 0 || fd_write_all(fd, r->body, r->len, NULL) < 0 ||
		fcntl(fd, F_ADD_SEALS,
			F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -1;
	map = mmap(NULL, r->len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -1;
	*s = (struct web_shared){ .map = map, .len = r->len, .fd = steal_fd(&fd) };
	return 0;
}

/*
 * The file with this body. < 0: no file can be made. An unchanged body keeps its file, so hundreds of clients
 * that read slowly share one copy.
 */
static int share_body(struct web *w, const struct web_reply *r)
{
	struct web_shared *s;

	for (size_t i = 0; i < WEB_SHARED_MAX; i++) {
		s = &w->shared[i];
		if (s->map && s->len == r->len && !memcmp(s->map, r->body, r->len))
			return s->fd;
	}
	s = &w->shared[w->next_shared++ % WEB_SHARED_MAX];
	shared_fini(s);
	return shared_init(s, r) < 0 ? -1 : s->fd;
}

void web_reply_fini(struct web *w)
{
	for (size_t i = 0; i < WEB_SHARED_MAX; i++)
		shared_fini(&w->shared[i]);
}

/* --- the packet --- */

static void add_reply_packet(struct buf *b, const struct web_reply *r, unsigned status,
	uint64_t began_ns, bool shared)
{
	struct web_packed_reply reply = { .status = status,
		.shared = shared,
		.len = r->len,
		.body = r->body,
		.type = r->type };

	memcpy(reply.etag, r->etag, sizeof(reply.etag));
	reply.etag[sizeof(reply.etag) - 1] = '\0';
	for (; reply.n_extra < r->n_extra && reply.n_extra < WEB_EXTRA_MAX; reply.n_extra++) {
		reply.extra[reply.n_extra].name = r->extra[reply.n_extra].name;
		reply.extra[reply.n_extra].value = r->extra[reply.n_extra].value;
	}
	reply.cpu_ns = web_thread_cpu_ns() - began_ns;
	web_pack_reply(b, &reply);
}

/* False: the reply is invalid or does not fit a packet, or memory is short. *ret_fd: borrowed. */
static bool pack_web_reply(struct web *w, struct buf *b, const struct web_reply *r,
	unsigned status, uint64_t began_ns, int *ret_fd)
{
	bool shared = r->len > WEB_INLINE_MAX;

	if (status < 100 || status > 599 || r->len > WEB_BODY_MAX)
		return false;
	if (shared)
		*ret_fd = share_body(w, r);
	if (shared && *ret_fd < 0)
		return false;
	add_reply_packet(b, r, status, began_ns, shared);
	return buf_ok(b);
}

/* Whether the process has read the last reply. At most one reply is under way, so that replies take bounded
 * memory. */
static bool is_reply_read(int sock)
{
	int bytes = 0;

	return ioctl(sock, SIOCOUTQ, &bytes) == 0 && bytes == 0;
}

int web_reply(struct web *w, const void *packet, size_t len, struct error *err)
{
	const struct web_reply none = { .type = NULL };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);
	struct web_reply r = { .type = NULL };
	uint64_t began_ns = web_thread_cpu_ns();
	struct web_request req;
	unsigned status;
	int fd = -1;

	if (web_unpack_request(packet, len, &req, err) < 0)
		return -1;
	if (!is_reply_read(w->process.sock))
		return error_set(err, ERR_INVALID,
			"the web server's process sends a request before it has read a reply");
	status = call_route(w, &req, &r);
	if (!pack_web_reply(w, &b, &r, status, began_ns, &fd)) {
		fd = -1;
		buf_clear(&b);
		add_reply_packet(&b, &none, WEB_INTERNAL, began_ns, false);
	}
	release_reply_owner(&r);
	if (!buf_ok(&b))
		return error_nomem(err);
	return web_packet_send(w->process.sock, &b, fd, err);
}

/* --- for routes --- */

static void free_copy(void *owner)
{
	free(owner);
}

enum web_status web_reply_copy(struct web_reply *reply, enum web_status status,
	const char *type, const void *body, size_t len)
{
	char *copy = malloc(len ? len : 1);

	if (!copy) {
		*reply = (struct web_reply){ .type = NULL };
		return WEB_INTERNAL;
	}
	if (len)
		memcpy(copy, body, len);
	reply->type = type;
	reply->body = reply->owner = copy;
	reply->len = len;
	reply->release = free_copy;
	return status;
}
