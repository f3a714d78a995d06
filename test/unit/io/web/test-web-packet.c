/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "io/web/packet/packet.h"

/* Packets between the agent and its web server: written packets are read, and no others. */

static void pack_test_request(struct buf *b)
{
	const struct web_request req = { .path = "/a b",
		.accept = "text/plain",
		.head = true,
		.n_query = 2,
		.query = { { "x", "1" }, { "y", "" } } };

	web_pack_request(b, &req);
	assert_true(buf_ok(b));
}

static void pack_test_reply(struct buf *b)
{
	const struct web_packed_reply reply = { .status = 404,
		.cpu_ns = 5,
		.len = 4,
		.body = "a\0b",
		.type = "text/html",
		.etag = "v1",
		.n_extra = 1,
		.extra = { { "X-Item", "yes" } } };

	web_pack_reply(b, &reply);
	assert_true(buf_ok(b));
}

static void pack_test_start(struct buf *b)
{
	const struct web_setup s = {
		.limits = { .connections = 1, .hang_ns = 2, .restart_ns = 3 },
		.host = "h",
		.key_file = "/k",
		.n_routes = 2,
		.routes = { { "/a", false }, { "/b/*", true } }
	};

	web_pack_start(b, &s);
	assert_true(buf_ok(b));
}

static void web_packet__is_read_as_it_was_written(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);
	struct error err = ERROR_INIT;
	struct web_request q;
	struct web_packed_reply reply;
	struct web_setup s;

	(void)state;
	pack_test_request(&b);
	assert_ok(web_unpack_request(b.data, b.len, &q, &err), &err);
	assert_string_equal(q.path, "/a b");
	assert_string_equal(q.accept, "text/plain");
	assert_true(q.head);
	assert_int_equal(q.n_query, 2);
	assert_string_equal(q.query[0].name, "x");
	assert_string_equal(q.query[0].value, "1");
	assert_string_equal(q.query[1].name, "y");
	assert_string_equal(q.query[1].value, "");
	buf_clear(&b);
	pack_test_reply(&b);
	assert_ok(web_unpack_reply(b.data, b.len, &reply, &err), &err);
	assert_int_equal(reply.status, 404);
	assert_int_equal(reply.len, 4);
	assert_memory_equal(reply.body, "a\0b", 4);
	assert_string_equal(reply.type, "text/html");
	assert_string_equal(reply.etag, "v1");
	assert_string_equal(reply.extra[0].value, "yes");
	buf_clear(&b);
	pack_test_start(&b);
	assert_ok(web_unpack_start(b.data, b.len, &s, &err), &err);
	assert_int_equal(s.limits.hang_ns, 2);
	assert_null(s.token_file);
	assert_string_equal(s.key_file, "/k");
	assert_string_equal(s.routes[1].path, "/b/*");
	assert_true(s.routes[1].open && !s.routes[0].open);
}

/* Reads a copy of exactly that length, for a sanitizer to see what is read behind it. */
static bool is_any(const struct buf *b, size_t len)
{
	CLEANUP(freep) char *copy = malloc(len ? len : 1);
	struct web_request q;
	struct web_packed_reply reply;
	struct web_setup s;

	assert_non_null(copy);
	if (len)
		memcpy(copy, b->data, len);
	return web_unpack_request(copy, len, &q, NULL) == 0 ||
	       web_unpack_reply(copy, len, &reply, NULL) == 0 ||
	       web_unpack_start(copy, len, &s, NULL) == 0;
}

static void web_packet__that_is_truncated_is_refused(void **state)
{
	static void (*const puts[])(
		struct buf *) = { pack_test_request, pack_test_reply, pack_test_start };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(puts); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);

		puts[i](&b);
		assert_true(is_any(&b, b.len));
		for (size_t len = 0; len < b.len; len++)
			assert_false(is_any(&b, len));
		/* The length in the head is right, so a text has no end, or the body is short. */
		for (uint32_t len = 17; len < b.len; len++) {
			memcpy(b.data + 12, &len, sizeof(len));
			assert_false(is_any(&b, len));
		}
	}
}

static void web_packet__with_a_field_out_of_range_is_refused(void **state)
{
	static const struct {
		void (*put)(struct buf *);
		size_t at;
		uint32_t value;
	} rows[] = {
		{ pack_test_request, 0, 1 },                  /* magic */
		{ pack_test_request, 4, 1 },                  /* version */
		{ pack_test_request, 8, 99 },                 /* type */
		{ pack_test_request, 8, WEB_PACKET_LISTEN },  /* of another */
		{ pack_test_request, 12, 1 },                 /* length */
		{ pack_test_request, 16, WEB_QUERY_MAX + 1 }, /* arguments */
		{ pack_test_request, 16, 1 },                 /* fewer than there are */
		{ pack_test_request, 16, 3 },                 /* more */
		{ pack_test_request, 20, 2 },                 /* HEAD? */
		{ pack_test_reply, 16, 99 },                  /* status */
		{ pack_test_reply, 16, 600 },                 /* status */
		{ pack_test_reply, 20, 1 },                   /* the body is shared, and here */
		{ pack_test_reply, 24, WEB_EXTRA_MAX + 1 },   /* headers */
		{ pack_test_reply, 24, 2 },                   /* a header that is the body */
		{ pack_test_reply, 40, 3 },                   /* a body of another length */
		{ pack_test_reply, 44, 1 },                   /* a body of 4 GiB */
		{ pack_test_start, 28, WEB_ROUTES_MAX + 1 },  /* routes */
		{ pack_test_start, 28, 3 },                   /* one more */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);

		rows[i].put(&b);
		memcpy(b.data + rows[i].at, &rows[i].value, sizeof(rows[i].value));
		if (is_any(&b, b.len))
			fail_msg("row %zu is taken", i);
	}
}

/* The packet has all of the arguments. */
static void web_packet__with_too_many_arguments_is_refused(void **state)
{
	struct web_request req = { .path = "/", .accept = "", .n_query = WEB_QUERY_MAX };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);
	uint32_t n = WEB_QUERY_MAX + 1, len;

	(void)state;
	for (size_t i = 0; i < WEB_QUERY_MAX; i++)
		req.query[i] = (struct web_argument){ .name = "a", .value = "" };
	web_pack_request(&b, &req);
	assert_true(is_any(&b, b.len));
	buf_add(&b, "a\0", 3);
	len = (uint32_t)b.len;
	memcpy(b.data + 12, &len, sizeof(len));
	memcpy(b.data + 16, &n, sizeof(n));
	assert_false(is_any(&b, b.len));
}

static void web_put__refuses_too_many_bytes(void **state)
{
	static char text[WEB_TEXTS_MAX], body[WEB_INLINE_MAX];
	CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);
	struct web_packed_reply reply = { .status = 200,
		.type = text,
		.body = body,
		.len = sizeof(body) };
	struct web_packed_reply ret;

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	web_pack_reply(&b, &reply);
	assert_true(buf_ok(&b));
	assert_int_equal(web_unpack_reply(b.data, b.len, &ret, NULL), 0);
	assert_int_equal(ret.len, sizeof(body));
	buf_clear(&b);
	reply.n_extra = 1;
	reply.extra[0].name = reply.extra[0].value = "";
	web_pack_reply(&b, &reply);
	assert_false(buf_ok(&b));
}

static void web_message__is_bounded(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);
	struct web_message w = { .type = WEB_PACKET_NOTICE,
		.error = { .code = ERR_IO, .sys = 5, .msg = "no" } };
	uint32_t code = ERR_COUNT_;
	struct web_message ret;

	(void)state;
	web_pack_message(&b, &w);
	assert_int_equal(web_unpack_message(b.data, b.len, &ret, NULL), 0);
	assert_int_equal(ret.error.sys, 5);
	assert_string_equal(ret.error.msg, "no");
	memcpy(b.data + 16, &code, sizeof(code));
	assert_int_equal(web_unpack_message(b.data, b.len, &ret, NULL), -1);
}

static void web_packet__has_one_descriptor_at_most(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);
	static unsigned char packet[WEB_PACKET_MAX];
	struct error err = ERROR_INIT;
	int pair[2], fd = -1, dup_of_0 = dup(0);
	size_t len = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pack_test_request(&b);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(web_packet_receive(pair[1], packet, &len, &fd, &err), 1);
		assert_ok(web_packet_send(pair[0], &b, pair[0], &err), &err);
		assert_int_equal(
			web_packet_receive(pair[1], packet, &len, i ? &fd : NULL, &err), 0);
		assert_int_equal(len, b.len);
		assert_int_equal(fd >= 0, i);
	}
	closep(&fd);
	/* A descriptor in a packet is not installed where the caller does not ask for it. */
	fd = dup(0);
	assert_in_range(fd, 0, pair[1] + 1);
	closep(&fd);
	closep(&pair[0]);
	assert_int_equal(web_packet_receive(pair[1], packet, &len, NULL, &err), 0);
	assert_int_equal(len, 0);
	closep(&pair[1]);
	closep(&dup_of_0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(web_packet__is_read_as_it_was_written),
		cmocka_unit_test(web_packet__that_is_truncated_is_refused),
		cmocka_unit_test(web_packet__with_a_field_out_of_range_is_refused),
		cmocka_unit_test(web_packet__with_too_many_arguments_is_refused),
		cmocka_unit_test(web_put__refuses_too_many_bytes),
		cmocka_unit_test(web_message__is_bounded),
		cmocka_unit_test(web_packet__has_one_descriptor_at_most),
	};

	return cmocka_run_group_tests_name("web-packet", tests, NULL, NULL);
}
