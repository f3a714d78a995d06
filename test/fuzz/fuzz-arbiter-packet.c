/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "node/arbiter/grants/grants.h"
#include "node/arbiter/clients/packet.h"

#include <stdlib.h>
#include <string.h>

#define LIMIT (UINT64_C(1) << 30)

/*
 * What a process may do: packets, and anything at all to its page. The input is a row of records: a
 * byte that says which, a byte of length, the body. Whatever it is, its slice grants no more than the
 * limit, and a second process of the slice gets what the sums say is free.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t uuid[1][SLICE_UUID_BYTES] = { "0123456789abcde" };
	static const uint64_t limits[1] = { LIMIT };
	static struct slice_page page, other_page;
	struct grants_client who = { .pid = 1, .start = 1, .serial = 1, .name = "fuzz" };
	struct grants_record rec = { .state = 0 }, other_rec = { .state = 0 };
	struct grants_member *m = NULL, *other = NULL;
	struct grants_slice *s;
	struct grants_table table;

	grants_init(&table);
	s = grants_slice_new(&table, "slice", 1, uuid, limits);
	if (!s || grants_register(&table, s, &who, &rec, &page, &m) != SLICE_OK)
		__builtin_trap();
	who.pid = 2;
	who.serial = 2;
	if (grants_register(&table, s, &who, &other_rec, &other_page, &other) != SLICE_OK)
		__builtin_trap();
	while (size >= 2) {
		size_t len = data[1], at = (size_t)data[0] * 16 % sizeof(page);
		bool is_page = data[0] & 1;
		union packet p;

		data += 2;
		size -= 2;
		len = len < size ? len : size;
		if (is_page) {
			memcpy((char *)&page + at, data,
				len < sizeof(page) - at ? len : sizeof(page) - at);
		} else if (packet_read(&p, data, len, 1, NULL) == 0) {
			if (p.head.op == SLICE_WANT)
				(void)grants_request(m, p.want.gpu, p.want.bytes, p.head.tag,
					NULL);
			else if (p.head.op == SLICE_STATE &&
				 (p.state.gpu >= 1 || p.state.busy > 1 || p.state.wants > 1 ||
					 p.state.generation > 0xffffff))
				__builtin_trap();
			else if (p.head.op == SLICE_HELLO)
				grants_return_unanswered(m, p.hello.unanswered);
		}
		data += len;
		size -= len;
		if (s->gpus[0].granted > LIMIT ||
			s->gpus[0].granted !=
				grants_get_granted(m, 0) + grants_get_granted(other, 0) ||
			grants_get_used(m, 0) > grants_get_granted(m, 0))
			__builtin_trap();
		if (grants_slice_free_bytes(s, 0) > 0 &&
			grants_request(other, 0, 1, 1, NULL) != SLICE_OK)
			__builtin_trap();
	}
	grants_fini(&table);
	return 0;
}
