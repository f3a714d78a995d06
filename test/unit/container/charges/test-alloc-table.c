/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "container/charges/alloc-table.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static struct alloc_row make_alloc_row(uint64_t bytes)
{
	return (struct alloc_row){ .bytes = bytes, .count = 1, .gpu = 1, .context = bytes % 3 };
}

static void alloc_table__finds_rows_by_kind_and_key(void **state)
{
	struct alloc_row a = make_alloc_row(5), b = make_alloc_row(7), got;

	(void)state;
	assert_true(alloc_table_put(ALLOC_POINTER, 1000, &a));
	assert_true(alloc_table_put(ALLOC_HANDLE, 1000, &b));
	assert_false(alloc_table_get(ALLOC_ARRAY, 1000, &got));
	assert_true(alloc_table_get(ALLOC_POINTER, 1000, &got));
	assert_int_equal(got.bytes, 5);
	assert_true(alloc_table_put(ALLOC_POINTER, 1000, &b)); /* replaces */
	assert_true(alloc_table_remove(ALLOC_POINTER, 1000, &got));
	assert_int_equal(got.bytes, 7);
	assert_false(alloc_table_remove(ALLOC_POINTER, 1000, &got));
	assert_true(alloc_table_remove(ALLOC_HANDLE, 1000, &got));
}

static void alloc_table__removes_a_row_without_references(void **state)
{
	struct alloc_row a = make_alloc_row(5), got;

	(void)state;
	assert_int_equal(alloc_table_count(ALLOC_CHUNK, 8, -1, NULL), -1);
	assert_int_equal(alloc_table_join(ALLOC_CHUNK, 8, &a), 1);
	assert_int_equal(alloc_table_join(ALLOC_CHUNK, 8, &a), 2);
	assert_int_equal(alloc_table_count_of(ALLOC_CHUNK, 8, a.context + 1, -1, &got), -1);
	assert_int_equal(alloc_table_count_of(ALLOC_CHUNK, 8, a.context, -1, &got), 1);
	assert_true(alloc_table_set_bits(ALLOC_CHUNK, 8, 4));
	assert_int_equal(alloc_table_count(ALLOC_CHUNK, 8, -1, &got), 0);
	assert_int_equal(got.bytes, 5);
	assert_int_equal(got.other, 4);
	assert_false(alloc_table_get(ALLOC_CHUNK, 8, &got));
	assert_false(alloc_table_set_bits(ALLOC_CHUNK, 8, 4));
}

/* Beside a plain array, with keys that collide and tables that grow and empty. */
static void alloc_table__agrees_with_a_plain_array(void **state)
{
	enum { KEYS = 4000 };
	static struct alloc_row model[KEYS];
	static bool there[KEYS];
	unsigned int seed = 1;
	struct alloc_row got;

	(void)state;
	for (int n = 0; n < 400000; n++) {
		size_t k = (size_t)rand_r(&seed) % KEYS;
		uint64_t key = (uint64_t)k << 21;
		bool filling = n / 50000 % 2 == 0;

		if (rand_r(&seed) % 3 == 0) {
			assert_int_equal(alloc_table_get(ALLOC_POINTER, key, &got), there[k]);
		} else if ((rand_r(&seed) % 4 != 0) == filling) {
			model[k] = make_alloc_row((uint64_t)n + 1);
			there[k] = true;
			assert_true(alloc_table_put(ALLOC_POINTER, key, &model[k]));
			continue;
		} else {
			assert_int_equal(alloc_table_remove(ALLOC_POINTER, key, &got),
				there[k]);
			if (there[k])
				assert_memory_equal(&got, &model[k], sizeof(got));
			there[k] = false;
		}
		if (there[k])
			assert_memory_equal(&got, &model[k], sizeof(got));
	}
	for (size_t k = 0; k < KEYS; k++)
		if (there[k])
			assert_true(alloc_table_remove(ALLOC_POINTER, (uint64_t)k << 21, &got));
}

struct sum {
	uint64_t n, bytes;
};

static void add_row_to_sum(enum alloc_kind kind, uint64_t key, const struct alloc_row *row,
	void *arg)
{
	struct sum *s = arg;

	assert_true(kind == ALLOC_ARRAY || kind == ALLOC_POINTER);
	assert_int_equal(key, row->bytes * 512);
	s->n++;
	s->bytes += row->bytes;
}

static void alloc_table__removes_rows_with_their_context(void **state)
{
	struct sum dropped = { 0 }, after = { 0 };
	struct alloc_row got;

	(void)state;
	for (uint64_t i = 1; i <= 30000; i++) {
		struct alloc_row r = make_alloc_row(i);

		assert_true(alloc_table_put(i % 2 ? ALLOC_ARRAY : ALLOC_POINTER, i * 512, &r));
	}
	alloc_table_drop_context(0, add_row_to_sum, &dropped); /* of none: stays */
	assert_int_equal(dropped.n, 0);
	alloc_table_drop_context(2, add_row_to_sum, &dropped);
	assert_int_equal(dropped.n, 10000);
	alloc_table_drop_context(2, add_row_to_sum, &dropped);
	assert_int_equal(dropped.n, 10000);
	for (uint64_t i = 1; i <= 30000; i++) {
		enum alloc_kind kind = i % 2 ? ALLOC_ARRAY : ALLOC_POINTER;
		bool stayed = alloc_table_remove(kind, i * 512, &got);

		assert_int_equal(stayed, i % 3 != 2);
		if (stayed)
			add_row_to_sum(kind, i * 512, &got, &after);
	}
	assert_int_equal(after.n, 20000);
	assert_int_equal(after.bytes + dropped.bytes, UINT64_C(30000) * 30001 / 2);
}

static _Atomic int makers;

static void *join_and_leave(void *arg)
{
	struct alloc_row r = make_alloc_row(9);

	(void)arg;
	for (uint64_t n = 0; n < 20000; n++) {
		int64_t count = alloc_table_join(ALLOC_CHUNK, n % 5, &r);

		if (count == 1)
			atomic_fetch_add(&makers, 1);
		if (!alloc_table_count(ALLOC_CHUNK, n % 5, -1, NULL))
			atomic_fetch_sub(&makers, 1);
	}
	return NULL;
}

static void alloc_table__lets_one_of_many_threads_create_and_end_a_row(void **state)
{
	pthread_t threads[6];

	(void)state;
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, join_and_leave, NULL), 0);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&makers), 0);
}

static void alloc_table__is_empty_in_a_child(void **state)
{
	struct alloc_row a = make_alloc_row(5), got;
	int status = -1;
	pid_t pid;

	(void)state;
	assert_true(alloc_table_put(ALLOC_POINTER, 77, &a));
	pid = fork();
	if (!pid) {
		if (alloc_table_get(ALLOC_POINTER, 77, &got) ||
			!alloc_table_put(ALLOC_POINTER, 78, &a))
			_exit(1);
		_exit(!alloc_table_get(ALLOC_POINTER, 78, &got));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(alloc_table_get(ALLOC_POINTER, 77, &got));
	assert_false(alloc_table_get(ALLOC_POINTER, 78, &got));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alloc_table__finds_rows_by_kind_and_key),
		cmocka_unit_test(alloc_table__removes_a_row_without_references),
		cmocka_unit_test(alloc_table__agrees_with_a_plain_array),
		cmocka_unit_test(alloc_table__removes_rows_with_their_context),
		cmocka_unit_test(alloc_table__lets_one_of_many_threads_create_and_end_a_row),
		cmocka_unit_test(alloc_table__is_empty_in_a_child),
	};

	return cmocka_run_group_tests_name("alloc-table", tests, NULL, NULL);
}
