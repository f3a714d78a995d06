/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "io/kubelet/messages/messages.h"

/*
 * The messages of the device plugin API, both directions; the first byte chooses. What is decoded
 * must encode, and decode again to bytes that are the same from then on.
 */
static struct buf again = BUF_INIT(64U << 20);

static void check_decode_result(int result, const struct error *err)
{
	if ((result < 0) != (err->code != ERR_NONE) || (result < 0 && !*err->msg))
		abort();
}

static void must(int result)
{
	if (result < 0)
		abort();
}

static void fuzz_register(const uint8_t *data, size_t size)
{
	struct register_request r;
	struct error err = ERROR_INIT;
	int result = register_request_decode(&r, data, size, &err);

	check_decode_result(result, &err);
	if (result < 0)
		return;
	must(register_request_encode(&again, &r, &err));
	register_request_fini(&r);
	must(register_request_decode(&r, (const uint8_t *)buf_str(&again), again.len, &err));
	register_request_fini(&r);
}

static void fuzz_options(const uint8_t *data, size_t size)
{
	struct plugin_options o;
	struct error err = ERROR_INIT;

	check_decode_result(plugin_options_decode(&o, data, size, &err), &err);
}

static void fuzz_devices(const uint8_t *data, size_t size)
{
	struct plugin_devices d;
	struct error err = ERROR_INIT;
	int result = plugin_devices_decode(&d, data, size, &err);
	size_t n;

	check_decode_result(result, &err);
	if (result < 0)
		return;
	n = d.n;
	must(plugin_devices_encode(&again, d.v, d.n, &err));
	plugin_devices_fini(&d);
	must(plugin_devices_decode(&d, (const uint8_t *)buf_str(&again), again.len, &err));
	if (d.n != n)
		abort();
	plugin_devices_fini(&d);
}

/* Three messages have this form. */
static void fuzz_ids(const uint8_t *data, size_t size,
	int (*decode)(struct id_lists *, const uint8_t *, size_t, struct error *),
	int (*encode)(struct buf *, const struct id_list *, size_t, struct error *))
{
	struct id_lists l;
	struct error err = ERROR_INIT;
	int result = decode(&l, data, size, &err);
	size_t i, j, n;

	check_decode_result(result, &err);
	if (result < 0)
		return;
	for (i = 0; i < l.n; i++)
		for (j = 0; j < l.v[i].n; j++)
			if (strlen(l.v[i].v[j]) > size)
				abort();
	n = l.n;
	must(encode(&again, l.v, l.n, &err));
	id_lists_fini(&l);
	must(decode(&l, (const uint8_t *)buf_str(&again), again.len, &err));
	if (l.n != n)
		abort();
	id_lists_fini(&l);
}

static void fuzz_prefer(const uint8_t *data, size_t size)
{
	struct prefer_requests r;
	struct error err = ERROR_INIT;
	int result = prefer_request_decode(&r, data, size, &err);

	check_decode_result(result, &err);
	if (result < 0)
		return;
	must(prefer_request_encode(&again, r.v, r.n, &err));
	prefer_requests_fini(&r);
	must(prefer_request_decode(&r, (const uint8_t *)buf_str(&again), again.len, &err));
	prefer_requests_fini(&r);
}

static void fuzz_allocation(const uint8_t *data, size_t size)
{
	const struct allocation **all;
	struct allocate_response r;
	struct error err = ERROR_INIT;
	int result = allocate_response_decode(&r, data, size, &err);
	size_t i;

	check_decode_result(result, &err);
	if (result < 0)
		return;
	all = calloc(r.n + 1, sizeof(struct allocation *));
	for (i = 0; i < r.n; i++)
		all[i] = &r.v[i];
	must(allocate_response_encode(&again, all, r.n, &err));
	free(all);
	allocate_response_fini(&r);
	must(allocate_response_decode(&r, (const uint8_t *)buf_str(&again), again.len, &err));
	allocate_response_fini(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t kind = size ? data[0] : 0;

	data += size > 0;
	size -= size > 0;
	switch (kind % 8) {
	case 0:
		fuzz_register(data, size);
		break;
	case 1:
		fuzz_options(data, size);
		break;
	case 2:
		fuzz_devices(data, size);
		break;
	case 3:
		fuzz_ids(data, size, allocate_request_decode, allocate_request_encode);
		break;
	case 4:
		fuzz_ids(data, size, prefer_response_decode, prefer_response_encode);
		break;
	case 6:
		fuzz_prefer(data, size);
		break;
	default:
		fuzz_allocation(data, size);
		break;
	}
	buf_fini(&again);
	return 0;
}
