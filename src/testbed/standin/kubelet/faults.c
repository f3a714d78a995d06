/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the kubelet's streams: dropped, duplicated, or never read (internal.h). */
#include "testbed/standin/kubelet/internal.h"

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "io/kubelet/messages/messages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool is_live_resource_conn(const struct plugin_conn *c, const char *resource)
{
	return c->current && c->stream && (!resource || strcmp(c->resource, resource) == 0);
}

unsigned kubelet_drop_streams(struct kubelet *k, const char *resource)
{
	struct plugin_conn *c, *next;
	unsigned n = 0;

	for (c = TAILQ_FIRST(&k->conns); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (!is_live_resource_conn(c, resource))
			continue;
		kubelet_conn_lost(c);
		n++;
	}
	return n;
}

static void on_duplicate_end(void *arg, enum rpc_status status, const char *text)
{
	struct plugin_conn *c = arg;

	(void)status;
	(void)text;
	c->duplicate = NULL;
}

unsigned kubelet_duplicate_streams(struct kubelet *k, const char *resource)
{
	struct plugin_conn *c;
	unsigned n = 0;

	TAILQ_FOREACH(c, &k->conns, link)
	if (is_live_resource_conn(c, resource) && !c->duplicate &&
		rpc_stream_open(c->client, METHOD_LIST_AND_WATCH, "", 0, kubelet_on_devices,
			on_duplicate_end, c, &c->duplicate, NULL) == 0)
		n++;
	return n;
}

static void add_frame(struct buf *b, uint8_t type, uint8_t flags, uint8_t stream,
	const void *data, size_t len)
{
	const uint8_t head[9] = { (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type,
		flags, 0, 0, 0, stream };

	buf_add(b, head, sizeof(head));
	buf_add(b, data, len);
}

static void add_short_text(struct buf *b, const char *text)
{
	buf_putc(b, (char)strlen(text)); /* under 127: one byte */
	buf_puts(b, text);
}

/* The bytes of a ListAndWatch call with a flow-control window of 0 for the answer. */
static void slow_call(struct buf *b)
{
	static const uint8_t settings[] = { 0, 4, 0, 0, 0, 0 }; /* INITIAL_WINDOW_SIZE = 0 */
	static const uint8_t message[5] = { 0 };                /* an empty gRPC message */
	CLEANUP(buf_fini) struct buf head = BUF_INIT(512);

	buf_puts(&head,
		"\x83\x86\x04"); /* :method POST, :scheme http, :path (RFC 7541 app. A) */
	add_short_text(&head, METHOD_LIST_AND_WATCH);
	buf_putc(&head, 1); /* :authority */
	add_short_text(&head, "localhost");
	buf_puts(&head, "\x0f\x10"); /* content-type */
	add_short_text(&head, "application/grpc");
	buf_putc(&head, 0);
	add_short_text(&head, "te");
	add_short_text(&head, "trailers");

	buf_puts(b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	add_frame(b, /* SETTINGS */ 4, 0, 0, settings, sizeof(settings));
	add_frame(b, /* HEADERS */ 1, /* END_HEADERS */ 4, 1, head.data, head.len);
	add_frame(b, /* DATA */ 0, /* END_STREAM */ 1, 1, message, sizeof(message));
}

static bool open_slow(struct kubelet *k, const struct plugin_conn *c)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1024);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || path_join(addr.sun_path, sizeof(addr.sun_path), k->plugin_dir,
			      c->endpoint, NULL) < 0)
		return false;
	slow_call(&b);
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 || !buf_ok(&b) ||
		fd_write_all(fd, b.data, b.len, NULL) < 0)
		return false;
	if (!ARRAY_EXTEND(&k->slow_fds, k->n_slow_fds, 1, ARRAY_NO_LIMIT))
		return false;
	k->slow_fds[k->n_slow_fds++] = steal_fd(&fd);
	return true;
}

unsigned kubelet_slow_reader(struct kubelet *k, const char *resource)
{
	struct plugin_conn *c;
	unsigned n = 0;

	TAILQ_FOREACH(c, &k->conns, link)
	n += is_live_resource_conn(c, resource) && open_slow(k, c);
	return n;
}
