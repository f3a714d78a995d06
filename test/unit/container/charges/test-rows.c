/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "container/charges/rows.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static struct row row_of(uint64_t bytes)
{
	return (struct row){ .bytes = bytes, .count = 1, .gpu = 1, .context = bytes % 3 };
}

static void rows__are_found_by_kind_and_key(void **state)
{
	struct row a = row_of(5), b = row_of(7), got;

	(void)state;
	assert_true(row_put(ROW_POINTER, 1000, &a));
	assert_true(row_put(ROW_HANDLE, 1000, &b));
	assert_false(row_get(ROW_ARRAY, 1000, &got));
	assert_true(row_get(ROW_POINTER, 1000, &got));
	assert_int_equal(got.bytes, 5);
	assert_true(row_put(ROW_POINTER, 1000, &b)); /* replaces */
	assert_true(row_take(ROW_POINTER, 1000, &got));
	assert_int_equal(got.bytes, 7);
	assert_false(row_take(ROW_POINTER, 1000, &got));
	assert_true(row_take(ROW_HANDLE, 1000, &got));
}

static void rows__count_and_go_at_zero(void **state)
{
	struct row a = row_of(5), got;

	(void)state;
	assert_int_equal(row_count(ROW_CHUNK, 8, -1, NULL), -1);
	assert_int_equal(row_join(ROW_CHUNK, 8, &a), 1);
	assert_int_equal(row_join(ROW_CHUNK, 8, &a), 2);
	assert_int_equal(row_count_of(ROW_CHUNK, 8, a.context + 1, -1, &got), -1);
	assert_int_equal(row_count_of(ROW_CHUNK, 8, a.context, -1, &got), 1);
	assert_true(row_mark(ROW_CHUNK, 8, 4));
	assert_int_equal(row_count(ROW_CHUNK, 8, -1, &got), 0);
	assert_int_equal(got.bytes, 5);
	assert_int_equal(got.other, 4);
	assert_false(row_get(ROW_CHUNK, 8, &got));
	assert_false(row_mark(ROW_CHUNK, 8, 4));
}

/* Beside a plain array, with keys that collide and tables that grow and empty. */
static void rows__agree_with_a_plain_array(void **state)
{
	enum { KEYS = 4000 };
	static struct row model[KEYS];
	static bool there[KEYS];
	unsigned int seed = 1;
	struct row got;

	(void)state;
	for (int n = 0; n < 400000; n++) {
		size_t k = (size_t)rand_r(&seed) % KEYS;
		uint64_t key = (uint64_t)k << 21;
		bool filling = n / 50000 % 2 == 0;

		if (rand_r(&seed) % 3 == 0) {
			assert_int_equal(row_get(ROW_POINTER, key, &got), there[k]);
		} else if ((rand_r(&seed) % 4 != 0) == filling) {
			model[k] = row_of((uint64_t)n + 1);
			there[k] = true;
			assert_true(row_put(ROW_POINTER, key, &model[k]));
			continue;
		} else {
			assert_int_equal(row_take(ROW_POINTER, key, &got), there[k]);
			if (there[k])
				assert_memory_equal(&got, &model[k], sizeof(got));
			there[k] = false;
		}
		if (there[k])
			assert_memory_equal(&got, &model[k], sizeof(got));
	}
	for (size_t k = 0; k < KEYS; k++)
		if (there[k])
			assert_true(row_take(ROW_POINTER, (uint64_t)k << 21, &got));
}

struct sum {
	uint64_t n, bytes;
};

static void add(enum row_kind kind, uint64_t key, const struct row *row, void *arg)
{
	struct sum *s = arg;

	assert_true(kind == ROW_ARRAY || kind == ROW_POINTER);
	assert_int_equal(key, row->bytes * 512);
	s->n++;
	s->bytes += row->bytes;
}

static void rows__go_with_their_context(void **state)
{
	struct sum before = { 0 }, dropped = { 0 }, after = { 0 };
	struct row got;

	(void)state;
	for (uint64_t i = 1; i <= 30000; i++) {
		struct row r = row_of(i);

		assert_true(row_put(i % 2 ? ROW_ARRAY : ROW_POINTER, i * 512, &r));
	}
	rows_each(ROW_ARRAY, add, &before);
	assert_int_equal(before.n, 15000);
	rows_drop_context(0, add, &dropped); /* of none: stays */
	assert_int_equal(dropped.n, 0);
	rows_drop_context(2, add, &dropped);
	assert_int_equal(dropped.n, 10000);
	rows_drop_context(2, add, &dropped);
	assert_int_equal(dropped.n, 10000);
	rows_each(ROW_ARRAY, add, &after);
	rows_each(ROW_POINTER, add, &after);
	assert_int_equal(after.n, 20000);
	assert_int_equal(after.bytes + dropped.bytes, UINT64_C(30000) * 30001 / 2);
	for (uint64_t i = 1; i <= 30000; i++)
		assert_int_equal(row_take(i % 2 ? ROW_ARRAY : ROW_POINTER, i * 512, &got),
			i % 3 != 2);
}

static _Atomic int makers;

static void *join_and_leave(void *arg)
{
	struct row r = row_of(9);

	(void)arg;
	for (uint64_t n = 0; n < 20000; n++) {
		int64_t count = row_join(ROW_CHUNK, n % 5, &r);

		if (count == 1)
			atomic_fetch_add(&makers, 1);
		if (!row_count(ROW_CHUNK, n % 5, -1, NULL))
			atomic_fetch_sub(&makers, 1);
	}
	return NULL;
}

static void rows__are_made_and_ended_by_one_of_many_threads(void **state)
{
	pthread_t threads[6];

	(void)state;
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, join_and_leave, NULL), 0);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&makers), 0);
}

static void rows__are_gone_in_a_child(void **state)
{
	struct row a = row_of(5), got;
	int status = -1;
	pid_t pid;

	(void)state;
	assert_true(row_put(ROW_POINTER, 77, &a));
	pid = fork();
	if (!pid) {
		if (row_get(ROW_POINTER, 77, &got) || !row_put(ROW_POINTER, 78, &a))
			_exit(1);
		_exit(!row_get(ROW_POINTER, 78, &got));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(row_get(ROW_POINTER, 77, &got));
	assert_false(row_get(ROW_POINTER, 78, &got));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows__are_found_by_kind_and_key),
		cmocka_unit_test(rows__count_and_go_at_zero),
		cmocka_unit_test(rows__agree_with_a_plain_array),
		cmocka_unit_test(rows__go_with_their_context),
		cmocka_unit_test(rows__are_made_and_ended_by_one_of_many_threads),
		cmocka_unit_test(rows__are_gone_in_a_child),
	};

	return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
