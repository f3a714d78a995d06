/* SPDX-License-Identifier: Apache-2.0 */
#include "arbiter/packet.h"

#include <string.h>

static const struct {
	const char *name;
	size_t bytes;
} requests[] = {
	[SLICE_HELLO] = { "hello", sizeof(struct slice_hello) },
	[SLICE_WANT] = { "want", sizeof(struct slice_want) },
	[SLICE_VIEW] = { "view", sizeof(struct slice_view) },
	[SLICE_COMPARE] = { "compare", sizeof(struct slice_compare) },
};

static int check_gpu(uint32_t gpu, unsigned int n_gpus, struct error *err)
{
	if (gpu >= n_gpus)
		return error_set(err, ERR_INVALID, "packet: expected a GPU below %u, found %u",
			n_gpus, gpu);
	return 0;
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
	if (op == SLICE_HELLO && !memchr(ret->hello.name, '\0', sizeof(ret->hello.name)))
		return error_set(err, ERR_INVALID, "packet 'hello': the name has no end");
	/* A hello of another version is answered; what its flags mean is not known. */
	if (op == SLICE_HELLO && ret->hello.version == SLICE_WIRE_VERSION &&
		(ret->hello.flags & ~(SLICE_HELLO_MEMORY | SLICE_HELLO_AGAIN)))
		return error_set(err, ERR_INVALID, "packet 'hello': unknown flags %#x",
			ret->hello.flags);
	if (op == SLICE_WANT)
		return check_gpu(ret->want.gpu, n_gpus, err);
	if (op == SLICE_COMPARE)
		return check_gpu(ret->compare.gpu, n_gpus, err);
	return 0;
}
