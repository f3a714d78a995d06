/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "io/web/packet/packet.h"

/* The magic and version of the head are of this build, so that the fuzzer gets past them. */
#define HEAD_MADE 8

/* All text must be readable, and end. */
static void check_request(const struct web_request *r)
{
	size_t n = strlen(r->path) + strlen(r->accept) + strlen(r->rest);

	if (r->n_query > WEB_QUERY_MAX)
		abort();
	for (size_t i = 0; i < r->n_query; i++)
		n += strlen(r->query[i].name) + strlen(r->query[i].value);
	if (n > WEB_PACKET_MAX)
		abort();
}

static void check_unpacked_reply(const struct web_packed_reply *reply)
{
	size_t n = strlen(reply->type) + strlen(reply->etag);

	if (reply->status < 100 || reply->status > 599 || reply->n_extra > WEB_EXTRA_MAX ||
		reply->len > WEB_BODY_MAX)
		abort();
	for (size_t i = 0; i < reply->n_extra; i++)
		n += strlen(reply->extra[i].name) + strlen(reply->extra[i].value);
	for (size_t i = 0; !reply->shared && i < reply->len; i++)
		n += ((const unsigned char *)reply->body)[i];
	if (n > (size_t)256 * WEB_PACKET_MAX)
		abort();
}

/* A packet without magic and version, as the process sends it to the agent or the agent to it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_fini) struct buf head = BUF_INIT(WEB_PACKET_MAX);
	char *packet = malloc(HEAD_MADE + size);
	struct web_request q;
	struct web_packed_reply reply;
	struct web_setup s;
	struct web_message w;
	bool local;

	if (!packet)
		return 0;
	web_pack_listen(&head, true);
	memcpy(packet, head.data, HEAD_MADE);
	if (size)
		memcpy(packet + HEAD_MADE, data, size);
	size += HEAD_MADE;
	if (web_unpack_request(packet, size, &q, NULL) == 0)
		check_request(&q);
	if (web_unpack_reply(packet, size, &reply, NULL) == 0)
		check_unpacked_reply(&reply);
	if (web_unpack_start(packet, size, &s, NULL) == 0 && s.n_routes > WEB_ROUTES_MAX)
		abort();
	if (web_unpack_message(packet, size, &w, NULL) == 0 && w.error.code >= ERR_COUNT_)
		abort();
	(void)!web_unpack_listen(packet, size, &local, NULL);
	free(packet);
	return 0;
}
