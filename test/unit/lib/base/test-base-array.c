/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/array.h"

/* Appends 0, 1, 2 ... up to @n elements. Returns how often the array moved or grew. */
static unsigned int append_numbers(uint64_t **v, size_t *room, size_t n)
{
	unsigned int growths = 0;

	for (size_t i = 0; i < n; i++) {
		size_t before = *room;

		assert_true(ARRAY_GROW(v, i, room, ARRAY_NO_LIMIT));
		assert_true(*room > i);
		growths += *room != before;
		(*v)[i] = i;
	}
	for (size_t i = 0; i < n; i++)
		assert_int_equal((*v)[i], i);
	return growths;
}

static void array_grow__doubles(void **state)
{
	CLEANUP(freep) uint64_t *v = NULL;
	size_t room = 0;

	(void)state;
	assert_in_range(append_numbers(&v, &room, 10000), 1, 12);
	assert_in_range(room, 10000, 20000);
}

/* The room of an array that was freed, and of one that came from elsewhere, is not believed. */
static void array_grow__begins_without_an_array(void **state)
{
	uint64_t *v = NULL;
	size_t room = 1000;

	(void)state;
	assert_true(ARRAY_GROW(&v, 0, &room, 10));
	assert_int_equal(room, 10);
	free(v);
	v = calloc(3, sizeof(*v));
	assert_non_null(v);
	room = 0;
	assert_true(ARRAY_GROW(&v, 3, &room, ARRAY_NO_LIMIT));
	assert_true(room > 3);
	assert_int_equal(v[0] + v[1] + v[2], 0);
	free(v);
}

static void array_grow__keeps_to_the_limit(void **state)
{
	CLEANUP(freep) uint64_t *v = NULL;
	uint64_t *before;
	size_t room = 0;

	(void)state;
	for (size_t i = 0; i < 20; i++)
		assert_true(ARRAY_GROW(&v, i, &room, 20));
	assert_int_equal(room, 20);
	before = v;
	assert_false(ARRAY_GROW(&v, 20, &room, 20));
	assert_false(ARRAY_GROW(&v, SIZE_MAX, &room, ARRAY_NO_LIMIT));
	assert_false(ARRAY_GROW(&v, 0, &room, 0));
	assert_ptr_equal(v, before);
	assert_int_equal(room, 20);
}

static void array_extend__makes_room_for_several(void **state)
{
	CLEANUP(freep) uint32_t *v = NULL;
	uint32_t *before;

	(void)state;
	assert_true(ARRAY_EXTEND(&v, 0, 0, 0));
	assert_null(v);
	assert_true(ARRAY_EXTEND(&v, 0, 3, 8));
	memset(v, 1, 3 * sizeof(*v));
	assert_true(ARRAY_EXTEND(&v, 3, 5, 8));
	memset(&v[3], 1, 5 * sizeof(*v));
	assert_int_equal(v[0], v[7]);
	before = v;
	assert_true(ARRAY_EXTEND(&v, 0, 0, 8));
	assert_false(ARRAY_EXTEND(&v, 8, 1, 8));
	assert_false(ARRAY_EXTEND(&v, 1, SIZE_MAX, 8));
	assert_ptr_equal(v, before);
	assert_int_equal(v[0], v[7]);
}

/* The array is unchanged without memory, or with more bytes than a size_t can count. */
static void array_grow__leaves_the_array_without_memory(void **state)
{
	CLEANUP(freep) uint64_t *v = NULL;
	uint64_t *before;
	size_t room = 0;

	(void)state;
	(void)append_numbers(&v, &room, 16);
	before = v;
	assert_int_equal(room, 16);
	assert_false(ARRAY_EXTEND(&v, 16, SIZE_MAX / 4, ARRAY_NO_LIMIT));
	room = SIZE_MAX / 4;
	assert_false(ARRAY_GROW(&v, room, &room, ARRAY_NO_LIMIT));
	assert_int_equal(room, SIZE_MAX / 4);
	assert_ptr_equal(v, before);
	assert_int_equal(v[15], 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(array_grow__doubles),
		cmocka_unit_test(array_grow__begins_without_an_array),
		cmocka_unit_test(array_grow__keeps_to_the_limit),
		cmocka_unit_test(array_extend__makes_room_for_several),
		cmocka_unit_test(array_grow__leaves_the_array_without_memory),
	};

	return cmocka_run_group_tests_name("base-array", tests, NULL, NULL);
}
