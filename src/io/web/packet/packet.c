/* SPDX-License-Identifier: Apache-2.0 */
#include "io/web/packet/packet.h"

#include "lib/base/fd-pass.h"
#include "lib/base/fd.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC UINT32_C(0x57535047) /* "GPSW" */

struct head {
	uint32_t magic, version, type, len;
};

struct start {
	struct head head;
	uint32_t connections, per_address, cpu_permille, n_routes;
	uint32_t open_routes, padding; /* one bit for each route */
	uint64_t request_ns, idle_ns, reply_ns, check_ns, hang_ns, again_ns;
};

struct packet_word {
	struct head head;
	uint32_t code;
	int32_t sys;
};

struct listen {
	struct head head;
	uint32_t only_local, padding;
};

struct packet_request {
	struct head head;
	uint32_t n_query, is_head;
};

struct answer {
	struct head head;
	uint32_t status, shared, n_extra, padding;
	uint64_t cpu_ns, len;
	char etag[WEB_ETAG_MAX];
};

static_assert(WEB_ROUTES_MAX <= 32, "a bit for each in .open_routes");
static_assert(sizeof(struct answer) + WEB_TEXTS_MAX + WEB_INLINE_MAX <= WEB_PACKET_MAX,
	"a packet has room for all parts");

static const size_t fixed_sizes[WEB_PACKET_COUNT_] = {
	[WEB_PACKET_START] = sizeof(struct start),
	[WEB_PACKET_READY] = sizeof(struct packet_word),
	[WEB_PACKET_REFUSED] = sizeof(struct packet_word),
	[WEB_PACKET_LISTEN] = sizeof(struct listen),
	[WEB_PACKET_REQUEST] = sizeof(struct packet_request),
	[WEB_PACKET_REPLY] = sizeof(struct answer),
	[WEB_PACKET_NOTICE] = sizeof(struct packet_word),
};

static uint32_t hash_packet_bytes(uint32_t h, const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ ((const unsigned char *)data)[i]) * UINT32_C(16777619);
	return h;
}

/* Differs between builds: two ends of different builds refuse each other's packets. */
static uint32_t get_packet_version(void)
{
	uint32_t h = hash_packet_bytes(UINT32_C(2166136261), GPUSLICE_VERSION,
		sizeof(GPUSLICE_VERSION));

	h = hash_packet_bytes(h, fixed_sizes, sizeof(fixed_sizes));
	return hash_packet_bytes(h, &(size_t){ sizeof(struct web_shm) }, sizeof(size_t));
}

/* --- writing --- */

static void add_packet_head(struct buf *b, enum web_packet type, struct head *head)
{
	*head = (struct head){ .magic = MAGIC, .version = get_packet_version(), .type = type };
	buf_add(b, head, fixed_sizes[type]);
}

static void add_packet_text(struct buf *b, const char *text)
{
	buf_add(b, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* Call it after the last text. The texts have a limit, so that a body always fits. */
static void end_texts(struct buf *b, enum web_packet type)
{
	if (b->len > fixed_sizes[type] + WEB_TEXTS_MAX)
		b->failed = true;
}

static void set_packet_len(struct buf *b)
{
	uint32_t len = (uint32_t)b->len;

	if (buf_ok(b))
		memcpy(b->data + offsetof(struct head, len), &len, sizeof(len));
}

void web_pack_start(struct buf *b, const struct web_setup *s)
{
	struct start p = { .connections = s->limits.connections,
		.per_address = s->limits.per_address,
		.cpu_permille = s->limits.cpu_permille,
		.n_routes = (uint32_t)s->n_routes,
		.request_ns = s->limits.request_ns,
		.idle_ns = s->limits.idle_ns,
		.reply_ns = s->limits.reply_ns,
		.check_ns = s->limits.check_ns,
		.hang_ns = s->limits.hang_ns,
		.again_ns = s->limits.restart_ns };

	for (size_t i = 0; i < s->n_routes; i++)
		p.open_routes |= s->routes[i].open ? UINT32_C(1) << i : 0;
	add_packet_head(b, WEB_PACKET_START, &p.head);
	add_packet_text(b, s->host);
	add_packet_text(b, s->token_file);
	add_packet_text(b, s->cert_file);
	add_packet_text(b, s->key_file);
	for (size_t i = 0; i < s->n_routes; i++)
		add_packet_text(b, s->routes[i].path);
	end_texts(b, WEB_PACKET_START);
	set_packet_len(b);
}

void web_pack_message(struct buf *b, const struct web_message *w)
{
	struct packet_word p = { .code = w->error.code, .sys = w->error.sys };

	add_packet_head(b, w->type, &p.head);
	add_packet_text(b, w->error.msg);
	set_packet_len(b);
}

void web_pack_listen(struct buf *b, bool only_local)
{
	struct listen p = { .only_local = only_local };

	add_packet_head(b, WEB_PACKET_LISTEN, &p.head);
	set_packet_len(b);
}

void web_pack_request(struct buf *b, const struct web_request *req)
{
	struct packet_request p = { .n_query = (uint32_t)req->n_query, .is_head = req->head };

	add_packet_head(b, WEB_PACKET_REQUEST, &p.head);
	add_packet_text(b, req->path);
	add_packet_text(b, req->accept);
	for (size_t i = 0; i < req->n_query; i++) {
		add_packet_text(b, req->query[i].name);
		add_packet_text(b, req->query[i].value);
	}
	end_texts(b, WEB_PACKET_REQUEST);
	set_packet_len(b);
}

void web_pack_reply(struct buf *b, const struct web_packed_reply *reply)
{
	struct answer p = { .status = reply->status,
		.shared = reply->shared,
		.n_extra = (uint32_t)reply->n_extra,
		.cpu_ns = reply->cpu_ns,
		.len = reply->len };

	memcpy(p.etag, reply->etag, sizeof(p.etag));
	add_packet_head(b, WEB_PACKET_REPLY, &p.head);
	add_packet_text(b, reply->type);
	for (size_t i = 0; i < reply->n_extra; i++) {
		add_packet_text(b, reply->extra[i].name);
		add_packet_text(b, reply->extra[i].value);
	}
	end_texts(b, WEB_PACKET_REPLY);
	if (!reply->shared && reply->len)
		buf_add(b, reply->body, reply->len);
	set_packet_len(b);
}

/* --- reading --- */

/* The texts of a packet, one after the other. */
struct texts {
	const char *at, *end;
	bool wrong; /* a text has no NUL */
};

static const char *next_text(struct texts *t)
{
	const char *text = t->at;
	const char *end = memchr(text, '\0', (size_t)(t->end - text));

	if (!end) {
		t->wrong = true;
		return "";
	}
	t->at = end + 1;
	return text;
}

/* NULL for "", which means none. */
static const char *next_or_none(struct texts *t)
{
	const char *text = next_text(t);

	return *text ? text : NULL;
}

static int set_packet_error(struct error *err, const char *what)
{
	return error_set(err, ERR_INVALID,
		"a packet between the agent and its web server has %s", what);
}

int web_packet_type(const void *packet, size_t len, enum web_packet *ret, struct error *err)
{
	struct head h;

	if (len < sizeof(h) || len > WEB_PACKET_MAX)
		return set_packet_error(err, "a wrong length");
	memcpy(&h, packet, sizeof(h));
	if (h.magic != MAGIC || h.version != get_packet_version())
		return set_packet_error(err, "another version");
	if (h.type < WEB_PACKET_START || h.type >= WEB_PACKET_COUNT_)
		return set_packet_error(err, "an unknown type");
	if (h.len != len || len < fixed_sizes[h.type])
		return set_packet_error(err, "a wrong length");
	*ret = (enum web_packet)h.type;
	return 0;
}

/* Copies the fixed part of a packet of this type to @fixed. *ret: what follows that part. */
static int get_fixed(const void *packet, size_t len, enum web_packet type, void *fixed,
	struct texts *ret, struct error *err)
{
	enum web_packet found;

	if (web_packet_type(packet, len, &found, err) < 0)
		return -1;
	if (found != type)
		return set_packet_error(err, "a type that is not expected now");
	memcpy(fixed, packet, fixed_sizes[type]);
	*ret = (struct texts){ .at = (const char *)packet + fixed_sizes[type],
		.end = (const char *)packet + len };
	return 0;
}

/* Checks that all texts are read and that nothing follows them. */
static int check_end(const struct texts *t, struct error *err)
{
	if (t->wrong)
		return set_packet_error(err, "a text without an end");
	return t->at == t->end ? 0 : set_packet_error(err, "something behind its end");
}

int web_unpack_start(const void *packet, size_t len, struct web_setup *ret, struct error *err)
{
	struct web_setup s = { .n_routes = 0 };
	struct start p;
	struct texts t = { .at = NULL };

	if (get_fixed(packet, len, WEB_PACKET_START, &p, &t, err) < 0)
		return -1;
	if (p.n_routes > WEB_ROUTES_MAX)
		return set_packet_error(err, "too many routes");
	s.limits = (struct web_limits){ .connections = p.connections,
		.per_address = p.per_address,
		.cpu_permille = p.cpu_permille,
		.request_ns = p.request_ns,
		.idle_ns = p.idle_ns,
		.reply_ns = p.reply_ns,
		.check_ns = p.check_ns,
		.hang_ns = p.hang_ns,
		.restart_ns = p.again_ns };
	s.host = next_text(&t);
	s.token_file = next_or_none(&t);
	s.cert_file = next_or_none(&t);
	s.key_file = next_or_none(&t);
	for (; s.n_routes < p.n_routes; s.n_routes++)
		s.routes[s.n_routes] = (struct web_route_name){ .path = next_text(&t),
			.open = p.open_routes >> s.n_routes & 1 };
	if (check_end(&t, err) < 0)
		return -1;
	*ret = s;
	return 0;
}

int web_unpack_message(const void *packet, size_t len, struct web_message *ret,
	struct error *err)
{
	struct web_message w;
	struct packet_word p;
	struct texts t = { .at = NULL };
	const char *msg;

	if (web_packet_type(packet, len, &w.type, err) < 0)
		return -1;
	if (w.type != WEB_PACKET_READY && w.type != WEB_PACKET_REFUSED &&
		w.type != WEB_PACKET_NOTICE)
		return set_packet_error(err, "a type that is not expected now");
	if (get_fixed(packet, len, w.type, &p, &t, err) < 0)
		return -1;
	msg = next_text(&t);
	if (check_end(&t, err) < 0)
		return -1;
	if (p.code >= ERR_COUNT_ || strlen(msg) >= sizeof(w.error.msg))
		return set_packet_error(err, "an error that is none");
	w.error = (struct error){ .code = (enum error_code)p.code, .sys = p.sys };
	memcpy(w.error.msg, msg, strlen(msg) + 1);
	*ret = w;
	return 0;
}

int web_unpack_listen(const void *packet, size_t len, bool *ret_only_local, struct error *err)
{
	struct listen p;
	struct texts t = { .at = NULL };

	if (get_fixed(packet, len, WEB_PACKET_LISTEN, &p, &t, err) < 0 ||
		check_end(&t, err) < 0)
		return -1;
	*ret_only_local = p.only_local != 0;
	return 0;
}

int web_unpack_request(const void *packet, size_t len, struct web_request *ret,
	struct error *err)
{
	struct web_request req = { .rest = "" };
	struct packet_request p;
	struct texts t = { .at = NULL };

	if (get_fixed(packet, len, WEB_PACKET_REQUEST, &p, &t, err) < 0)
		return -1;
	if (p.n_query > WEB_QUERY_MAX || p.is_head > 1)
		return set_packet_error(err, "a request that is none");
	req.head = p.is_head;
	req.path = next_text(&t);
	req.accept = next_text(&t);
	for (; req.n_query < p.n_query; req.n_query++) {
		req.query[req.n_query].name = next_text(&t);
		req.query[req.n_query].value = next_text(&t);
	}
	if (check_end(&t, err) < 0)
		return -1;
	*ret = req;
	return 0;
}

/* The bytes after the texts are the body, unless the body is in a memfd. */
static int get_body(const struct answer *p, const struct texts *t,
	struct web_packed_reply *reply, struct error *err)
{
	if (t->wrong)
		return set_packet_error(err, "a text without an end");
	if (p->len > WEB_BODY_MAX ||
		p->len != (p->shared ? p->len : (size_t)(t->end - t->at)) ||
		(p->shared && t->at != t->end))
		return set_packet_error(err, "a body of another length");
	reply->len = p->len;
	reply->shared = p->shared != 0;
	reply->body = reply->shared ? NULL : t->at;
	return 0;
}

int web_unpack_reply(const void *packet, size_t len, struct web_packed_reply *ret,
	struct error *err)
{
	struct web_packed_reply reply = { .status = 0 };
	struct answer p;
	struct texts t = { .at = NULL };

	if (get_fixed(packet, len, WEB_PACKET_REPLY, &p, &t, err) < 0)
		return -1;
	if (p.status < 100 || p.status > 599 || p.n_extra > WEB_EXTRA_MAX ||
		!memchr(p.etag, '\0', sizeof(p.etag)))
		return set_packet_error(err, "a reply that is none");
	reply.status = p.status;
	reply.cpu_ns = p.cpu_ns;
	memcpy(reply.etag, p.etag, sizeof(reply.etag));
	reply.type = next_text(&t);
	for (; reply.n_extra < p.n_extra; reply.n_extra++) {
		reply.extra[reply.n_extra].name = next_text(&t);
		reply.extra[reply.n_extra].value = next_text(&t);
	}
	if (get_body(&p, &t, &reply, err) < 0)
		return -1;
	*ret = reply;
	return 0;
}

/* --- the socket --- */

int web_packet_send(int sock, const struct buf *packet, int fd, struct error *err)
{
	/* The process may use send() to the agent, but not sendmsg() (io/web/worker/confine.c). */
	if (fd_pass_send(sock, packet->data, packet->len, &fd, fd >= 0, MSG_DONTWAIT) >= 0)
		return 0;
	if (errno == EAGAIN)
		return error_set(err, ERR_UNAVAILABLE,
			"the other end of the web server's socket does not read");
	return error_sys(err, errno, "send to the other end of the web server's socket");
}

bool web_message_send(int sock, enum web_packet type, const struct error *error)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);
	struct error lost = ERROR_INIT;

	web_pack_message(&b, &(struct web_message){ .type = type, .error = *error });
	return buf_ok(&b) && web_packet_send(sock, &b, -1, &lost) == 0;
}

/* Tells the end of the stream from a packet of no bytes: recvmsg() returns 0 for both. */
static bool has_stream_ended(int sock)
{
	struct pollfd other = { .fd = sock };

	return poll(&other, 1, 0) > 0 && other.revents & (POLLHUP | POLLERR);
}

int web_packet_receive(int sock, void *packet, size_t *ret_len, int *ret_fd, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	int flags;
	ssize_t n = fd_pass_receive(sock, packet, WEB_PACKET_MAX, &fd, ret_fd != NULL,
		MSG_DONTWAIT, &flags);

	if (n < 0 && errno == EAGAIN)
		return 1;
	if (n < 0 && errno != ECONNRESET)
		return error_sys(err, errno, "receive from the web server's socket");
	if (flags & MSG_TRUNC || (n == 0 && !has_stream_ended(sock)))
		return set_packet_error(err, "a wrong length");
	if (ret_fd && flags & MSG_CTRUNC)
		return set_packet_error(err, "more than one descriptor");
	*ret_len = n > 0 ? (size_t)n : 0;
	if (ret_fd)
		*ret_fd = steal_fd(&fd);
	return 0;
}
