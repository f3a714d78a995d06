/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "arbiter/turns/tally.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ID    "0123456789abcdef0123456789abcdef"
#define SEATS 4

static const uint8_t uuid[SLICE_UUID_BYTES] = { 1 };

static void open_tally(struct tally *t, const char *path)
{
	if (tally_open(t, path, "boot", NULL) < 0)
		__builtin_trap();
}

/* All that is there must add up, and go. */
static void use(struct tally *t)
{
	struct tally_account *a = tally_account(t, ID, uuid);
	uint64_t before[TALLY_COUNTERS], after[TALLY_COUNTERS];
	struct tally_seat *s = a ? tally_seat_new(t, a, 99, 0, 1, 1, NULL) : NULL;

	/* It may say that all are in use. */
	if (!s)
		return;
	tally_total(t, a, before);
	for (uint64_t i = 0; i < SEATS; i++) {
		struct tally_seat *one = tally_seat_find(t, a, i, 0);

		if (one)
			tally_seat_end(t, one);
	}
	tally_seat_end(t, s);
	tally_total(t, a, after);
	if (memcmp(before, after, sizeof(before)) != 0)
		__builtin_trap();
	tally_account_drop(t, a);
	if (tally_account_find(t, ID, uuid))
		__builtin_trap();
}

/*
 * A file that something else has written to. The input is a row of records: three bytes that say where (of the
 * head, the accounts, the seats), one of length, the body.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[] = "/tmp/fuzz-tally.XXXXXX";
	struct tally_account *a;
	struct tally t;
	int fd = mkstemp(path);

	if (fd < 0)
		return 0;
	open_tally(&t, path);
	a = tally_account(&t, ID, uuid);
	for (uint64_t i = 0; a && i < SEATS; i++)
		(void)tally_seat_new(&t, a, i, 0, 1, 1, NULL);
	while (size >= 4) {
		size_t at = data[1] | (size_t)data[2] << 8, len = data[3];
		char *base = data[0] % 3 == 0   ? (char *)t.head
			     : data[0] % 3 == 1 ? (char *)t.accounts
						: (char *)t.seats;

		at %= data[0] % 3 == 0   ? 8192
		      : data[0] % 3 == 1 ? sizeof(struct tally_account)
					 : SEATS * sizeof(struct tally_seat);
		data += 4;
		size -= 4;
		len = len < size ? len : size;
		memcpy(base + at, data, len);
		data += len;
		size -= len;
	}
	tally_close(&t);
	open_tally(&t, path);
	use(&t);
	tally_close(&t);
	(void)close(fd);
	(void)unlink(path);
	return 0;
}
