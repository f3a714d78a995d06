/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/clients/packet.h"

#include "abi/turn-page.h"

#include <string.h>

static const struct {
	const char *name;
	size_t bytes;
} requests[] = {
	[SLICE_HELLO] = { "hello", sizeof(struct slice_hello) },
	[SLICE_WANT] = { "want", sizeof(struct slice_want) },
	[SLICE_VIEW] = { "view", sizeof(struct slice_view) },
	[SLICE_COMPARE] = { "compare", sizeof(struct slice_compare) },
	[SLICE_STATE] = { "state", sizeof(struct slice_state) },
};

static int check_packet_gpu(uint32_t gpu, unsigned int n_gpus, struct error *err)
{
	if (gpu >= n_gpus)
		return error_set(err, ERR_INVALID, "packet: expected a GPU below %u, found %u",
			n_gpus, gpu);
	return 0;
}

/* A hello of another version is valid, as the arbiter answers it. Its flags are unknown here. */
static int check_hello(const struct slice_hello *h, struct error *err)
{
	if (!memchr(h->name, '\0', sizeof(h->name)))
		return error_set(err, ERR_INVALID, "packet 'hello': the name has no end");
	if (h->version != SLICE_WIRE_VERSION)
		return 0;
	if (h->flags & ~(SLICE_HELLO_MEMORY | SLICE_HELLO_AGAIN | SLICE_HELLO_TURNS))
		return error_set(err, ERR_INVALID, "packet 'hello': unknown flags %#x",
			h->flags);
	if ((h->flags & SLICE_HELLO_MEMORY) && (h->flags & SLICE_HELLO_TURNS))
		return error_set(err, ERR_INVALID,
			"packet 'hello': a connection is for memory or for turns");
	return 0;
}

static int check_state(const struct slice_state *s, unsigned int n_gpus, struct error *err)
{
	if (s->busy > 1 || s->wants > 1)
		return error_set(err, ERR_INVALID,
			"packet 'state': expected 0 or 1, found busy %u, wants %u", s->busy,
			s->wants);
	if (s->generation > UINT32_MAX / TURN_GENERATION)
		return error_set(err, ERR_INVALID,
			"packet 'state': expected a generation of 24 bits, found %#x",
			s->generation);
	return check_packet_gpu(s->gpu, n_gpus, err);
}

int packet_read(union packet *ret, const void *data, size_t len, unsigned int n_gpus,
	struct error *err)
{
	uint32_t op;

	if (len < sizeof(ret->head) || len > sizeof(*ret))
		return error_set(err, ERR_INVALID, "packet: a length of %zu bytes", len);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, data, len);
	op = ret->head.op;
	if (op >= ARRAY_LEN(requests) || !requests[op].name)
		return error_set(err, ERR_INVALID, "packet: no request has the number %u", op);
	if (len != requests[op].bytes)
		return error_set(err, ERR_INVALID, "packet '%s': expected %zu bytes, found %zu",
			requests[op].name, requests[op].bytes, len);
	if (op == SLICE_HELLO)
		return check_hello(&ret->hello, err);
	if (op == SLICE_STATE)
		return check_state(&ret->state, n_gpus, err);
	if (op == SLICE_WANT)
		return check_packet_gpu(ret->want.gpu, n_gpus, err);
	if (op == SLICE_COMPARE)
		return check_packet_gpu(ret->compare.gpu, n_gpus, err);
	return 0;
}
