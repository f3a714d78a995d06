/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "node/view/view.h"

#include <pthread.h>
#include <string.h>

static struct view *make_view(void)
{
	struct view *v = NULL;

	assert_int_equal(view_new(&v, NULL), 0);
	return v;
}

static void view__keeps_texts_and_makes_them_valid(void **state)
{
	CLEANUP(view_unrefp) struct view *v = make_view();
	char text[] = "gr\xc3\xbcn";

	(void)state;
	const char *kept = view_text(v, text);

	text[0] = 'x';
	assert_string_equal(kept, "gr\xc3\xbcn");
	assert_string_equal(view_text(v, "a\xff"), "a?");
	assert_string_equal(view_text(v, NULL), "");
	assert_string_equal(view_printf(v, "%u:%u", 3U, 1U), "3:1");
	assert_false(view_failed(v));
}

static void view__has_a_ceiling(void **state)
{
	CLEANUP(view_unrefp) struct view *v = make_view();

	(void)state;
	assert_null(view_array(v, VIEW_BYTES_MAX + 1U, 1));
	assert_true(view_failed(v));
}

static void view__refuses_a_product_that_overflows(void **state)
{
	CLEANUP(view_unrefp) struct view *v = make_view();

	(void)state;
	assert_null(view_array(v, SIZE_MAX / 2, 4));
	assert_true(view_failed(v));
}

static void view__returns_zeroed_aligned_arrays(void **state)
{
	CLEANUP(view_unrefp) struct view *v = make_view();

	(void)state;
	for (size_t i = 1; i < 3000; i += 7) {
		unsigned char *a = view_array(v, i, 3);

		assert_non_null(a);
		assert_int_equal((uintptr_t)a % _Alignof(max_align_t), 0);
		for (size_t k = 0; k < i * 3; k++)
			assert_int_equal(a[k], 0);
		memset(a, 0xff, i * 3);
		assert_non_null(view_text(v, "x"));
	}
}

static void *release_view(void *v)
{
	return view_unref(v);
}

static void view__exists_until_the_last_reference_ends(void **state)
{
	struct view *v = make_view();
	pthread_t threads[8];

	(void)state;
	v->node = view_text(v, "node");
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, release_view, view_ref(v)),
			0);
	assert_string_equal(v->node, "node");
	assert_null(view_unref(v));
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* One GPU with one replica and one usage, with consistent sums. */
static struct view *with_a_use(void)
{
	struct view *v = make_view();

	v->n_gpus = v->n_devices = v->n_uses = v->n_replicas = 1;
	v->gpus = view_array(v, 1, sizeof(*v->gpus));
	v->devices = view_array(v, 1, sizeof(*v->devices));
	v->uses = view_array(v, 1, sizeof(*v->uses));
	v->replicas = view_array(v, 1, sizeof(*v->replicas));
	v->devices[0] = (struct view_device){ .uuid = "GPU-1",
		.n_uses = 1,
		.n_replicas = 1,
		.memory_known = true,
		.memory_used = 70,
		.other_memory = 20,
		.busy_ns = 10,
		.other_busy_ns = 3,
		.past = { .busy_ns = 2, .gpu_ns = 8, .cost_nano = 1 },
		.present_ns = 100,
		.idle_gpu_ns = 52,
		.cost_nano = 9,
		.idle_cost_nano = 4 };
	v->uses[0] = (struct view_use){ .live = true,
		.memory_known = true,
		.memory_used = 50,
		.busy_ns = 5,
		.gpu_ns = 40,
		.cost_nano = 4 };
	v->replicas[0].id = "GPU-1::0";
	v->cost_nano = 12;
	v->other_cost_nano = 3;
	return v;
}

static void view_check__accepts_correct_sums(void **state)
{
	CLEANUP(view_unrefp) struct view *v = with_a_use();
	struct error err = ERROR_INIT;

	(void)state;
	if (view_check(v, &err) < 0)
		fail_msg("%s", err.msg);
}

static void view_check__names_the_wrong_sum(void **state)
{
	CLEANUP(view_unrefp) struct view *v = with_a_use();
	const struct {
		uint64_t *figure;
		const char *name;
	} rows[] = {
		{ &v->devices[0].busy_ns, "busy time" },
		{ &v->devices[0].other_busy_ns, "busy time" },
		{ &v->devices[0].past.busy_ns, "busy time" },
		{ &v->uses[0].busy_ns, "busy time" },
		{ &v->devices[0].memory_used, "memory" },
		{ &v->uses[0].memory_used, "memory" },
		{ &v->devices[0].other_memory, "memory" },
		{ &v->uses[0].gpu_ns, "time" },
		{ &v->devices[0].idle_gpu_ns, "time" },
		{ &v->devices[0].past.gpu_ns, "time" },
		{ &v->uses[0].cost_nano, "cost" },
		{ &v->devices[0].past.cost_nano, "cost" },
		{ &v->cost_nano, "cost" },
		{ &v->other_cost_nano, "cost" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;

		++*rows[i].figure;
		assert_int_equal(view_check(v, &err), -1);
		assert_int_equal(err.code, ERR_INTERNAL);
		assert_non_null(strstr(err.msg, rows[i].name));
		--*rows[i].figure;
	}
	assert_int_equal(view_check(v, NULL), 0);
}

static void view_check__finds_indexes_out_of_range(void **state)
{
	CLEANUP(view_unrefp) struct view *v = with_a_use();

	(void)state;
	v->devices[0].n_uses = 2;
	assert_int_equal(view_check(v, NULL), -1);
	v->devices[0].n_uses = 1;
	v->devices[0].first_replica = 2;
	assert_int_equal(view_check(v, NULL), -1);
	v->devices[0].first_replica = 0;
	v->replicas[0].use = 1;
	assert_int_equal(view_check(v, NULL), -1);
	v->replicas[0].use = VIEW_NONE;
	v->devices[0].gpu = 1;
	assert_int_equal(view_check(v, NULL), -1);
	v->devices[0].gpu = 0;
	assert_int_equal(view_check(v, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(view__keeps_texts_and_makes_them_valid),
		cmocka_unit_test(view__has_a_ceiling),
		cmocka_unit_test(view__refuses_a_product_that_overflows),
		cmocka_unit_test(view__returns_zeroed_aligned_arrays),
		cmocka_unit_test(view__exists_until_the_last_reference_ends),
		cmocka_unit_test(view_check__accepts_correct_sums),
		cmocka_unit_test(view_check__names_the_wrong_sum),
		cmocka_unit_test(view_check__finds_indexes_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
