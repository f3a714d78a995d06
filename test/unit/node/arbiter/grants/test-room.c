/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "node/arbiter/grants/room.h"

/* All that it can have. */
static void take_all(struct room *r, unsigned int *own)
{
	while (room_for(r, *own))
		room_take(r, (*own)++);
}

static void part__is_there_whatever_others_took(void **state)
{
	static const unsigned int most[] = { 4096, 8192, 7500, 384, 100 };

	(void)state;
	for (unsigned int i = 0; i < ARRAY_LEN(most); i++) {
		struct room r = { .most = most[i] };
		unsigned int own[ROOM_SLICES] = { 0 }, sum = 0;

		for (unsigned int k = 0; k < ROOM_SLICES; k++) {
			take_all(&r, &own[k]);
			assert_true(own[k] >= room_part(&r));
			sum += own[k];
		}
		assert_int_equal(r.n, sum);
		assert_true(r.n <= r.most);
	}
}

static void common__is_never_all_taken_by_few(void **state)
{
	struct room r = { .most = 4096 };
	unsigned int own[5] = { 0 };
	bool more = true;

	(void)state;
	/* Each as often as the others, until none can have more. */
	while (more) {
		more = false;
		for (unsigned int k = 0; k < 4; k++) {
			if (room_for(&r, own[k])) {
				room_take(&r, own[k]++);
				more = true;
			}
		}
	}
	for (unsigned int k = 0; k < 4; k++)
		assert_in_range(own[k], room_part(&r) + 2048 / 5, room_part(&r) + 2048 / 5 + 1);
	take_all(&r, &own[4]);
	assert_true(own[4] > 2048 / 5 / 2);
}

static void slice__that_is_alone_has_half_and_its_part(void **state)
{
	struct room r = { .most = 4096 };
	unsigned int own = 0;

	(void)state;
	take_all(&r, &own);
	assert_int_equal(own, room_part(&r) + 1024);
}

static void room__that_is_given_back_is_there_again(void **state)
{
	struct room r = { .most = 4096 };
	unsigned int own[8] = { 0 }, seed = 1;

	(void)state;
	for (unsigned int i = 0; i < 100000; i++) {
		unsigned int *o = &own[(seed >> 16) % 8], common = 0, n = 0;

		seed = seed * 1103515245 + 12345;
		if ((seed >> 20) % 3 && room_for(&r, *o))
			room_take(&r, (*o)++);
		else if (*o)
			room_give(&r, (*o)--);
		for (unsigned int k = 0; k < 8; k++) {
			n += own[k];
			common += own[k] > room_part(&r) ? own[k] - room_part(&r) : 0;
		}
		assert_int_equal(r.n, n);
		assert_int_equal(r.common, common);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(part__is_there_whatever_others_took),
		cmocka_unit_test(common__is_never_all_taken_by_few),
		cmocka_unit_test(slice__that_is_alone_has_half_and_its_part),
		cmocka_unit_test(room__that_is_given_back_is_there_again),
	};

	return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
