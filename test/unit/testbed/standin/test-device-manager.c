/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/time.h"
#include "testbed/standin/kubelet/device-manager.h"

#define GPU "nvidia.com/gpu"

struct fixture {
	struct device_manager *m;
	struct error err;
};

static struct fixture *fixture_new(bool align)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_ok(device_manager_new(&f->m, align, &f->err), &f->err);
	return f;
}

static void fixture_free(struct fixture *f)
{
	f->m = device_manager_free(f->m);
	free(f);
}

/* "a b !c d@1": c is unhealthy, d is on NUMA node 1. */
static void update(struct fixture *f, const char *resource, const char *text)
{
	struct managed_device v[64];
	char ids[64][16];
	size_t n = 0;

	while (*text) {
		size_t len = strcspn(text, " "), id_len;
		bool healthy = *text != '!';
		const char *at = memchr(text, '@', len);

		text += !healthy;
		len -= !healthy;
		id_len = at ? (size_t)(at - text) : len;
		memcpy(ids[n], text, id_len);
		ids[n][id_len] = '\0';
		v[n] = (struct managed_device){ .id = ids[n],
			.healthy = healthy,
			.numa_node = at ? at[1] - '0' : -1 };
		n++;
		text += len + (text[len] == ' ');
	}
	assert_ok(device_manager_update(f->m, resource, v, n, &f->err), &f->err);
}

static void connect_plugin(struct fixture *f, const char *resource, bool prefer,
	const char *devices)
{
	assert_ok(device_manager_connect(f->m, resource, "a.sock", prefer, false, &f->err),
		&f->err);
	update(f, resource, devices);
}

static void expect_count(const struct fixture *f, uint32_t capacity, uint32_t allocatable)
{
	struct resource_count c;

	assert_true(device_manager_count(f->m, GPU, &c));
	assert_int_equal(c.capacity, capacity);
	assert_int_equal(c.allocatable, allocatable);
}

static int begin_choice(struct fixture *f, const char *pod, uint32_t n, struct device_choice *c)
{
	return device_manager_begin(f->m, pod, "c", GPU, n, false, c, &f->err);
}

/* Takes n devices without asking the plugin. */
static void allocate_devices(struct fixture *f, const char *pod, const char *container,
	uint32_t n, bool init)
{
	struct device_choice c;

	assert_ok(device_manager_begin(f->m, pod, container, GPU, n, init, &c, &f->err),
		&f->err);
	assert_ok(device_manager_commit(f->m, &c, (const uint8_t *)"x", 1, &f->err), &f->err);
	device_choice_fini(&c);
}

static void device_manager_count__follows_the_kubelets_arithmetic(void **state)
{
	struct fixture *f = fixture_new(false);
	struct resource_count c;

	(void)state;
	assert_false(device_manager_count(f->m, GPU, &c));
	assert_ok(device_manager_connect(f->m, GPU, "a.sock", false, false, &f->err), &f->err);
	expect_count(f, 0, 0); /* registered, no list yet */
	update(f, GPU, "a b !c");
	expect_count(f, 3, 2); /* unhealthy counts in capacity only */
	update(f, GPU, "a b c d d");
	expect_count(f, 4, 4); /* a list replaces the last one; an id counts once */
	update(f, GPU, "");
	expect_count(f, 0, 0);
	fixture_free(f);
}

static void device_manager_disconnect__keeps_capacity_for_five_minutes(void **state)
{
	const uint64_t t = 1000 * NS_PER_SEC;
	struct fixture *f = fixture_new(false);
	struct resource_count c;

	(void)state;
	connect_plugin(f, GPU, false, "a b c");
	device_manager_disconnect(f->m, GPU, t);
	expect_count(f, 3, 0);
	assert_true(device_manager_next_expiry(f->m) == t + 300 * NS_PER_SEC);
	assert_false(device_manager_expire(f->m, t + 299 * NS_PER_SEC));
	expect_count(f, 3, 0);
	assert_true(device_manager_expire(f->m, t + 300 * NS_PER_SEC));
	expect_count(f, 0, 0); /* shown as 0, not removed */
	assert_true(device_manager_count(f->m, GPU, &c) && c.gone);
	assert_true(device_manager_next_expiry(f->m) == UINT64_MAX);

	/* Back within the grace: counts from the first list on. */
	connect_plugin(f, GPU, false, "a b c");
	device_manager_disconnect(f->m, GPU, t);
	assert_ok(device_manager_connect(f->m, GPU, "a.sock", false, false, &f->err), &f->err);
	expect_count(f, 3, 0);
	update(f, GPU, "a b c");
	expect_count(f, 3, 3);
	assert_false(device_manager_expire(f->m, t + 999 * NS_PER_SEC));
	fixture_free(f);
}

static void device_manager_begin__refuses_with_the_texts_of_the_kubelet(void **state)
{
	struct fixture *f = fixture_new(false);
	struct device_choice c;

	(void)state;
	assert_error(begin_choice(f, "p", 1, &c), &f->err,
		"cannot allocate unregistered device nvidia.com/gpu");
	connect_plugin(f, GPU, false, "!a");
	assert_error(begin_choice(f, "p", 1, &c), &f->err,
		"no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu");
	update(f, GPU, "a !b c");
	assert_error(begin_choice(f, "p", 3, &c), &f->err,
		"requested number of devices unavailable for nvidia.com/gpu. Requested: 3, Available: 2");
	allocate_devices(f, "p", "c", 2, false);
	assert_error(begin_choice(f, "p", 1, &c), &f->err, "changed request");
	update(f, GPU, "!a b c");
	assert_error(begin_choice(f, "p", 2, &c), &f->err,
		"previously allocated devices are no longer healthy");
	fixture_free(f);
}

static void device_manager_begin__does_nothing_for_a_container_that_has_its_devices(
	void **state)
{
	struct fixture *f = fixture_new(true);
	struct device_choice c;

	(void)state;
	connect_plugin(f, GPU, true, "a b");
	assert_int_equal(begin_choice(f, "p", 1, &c), DEVICE_CHOICE_QUERY_PLUGIN);
	assert_ok(device_manager_choose(f->m, &c, NULL, 0, &f->err), &f->err);
	assert_ok(device_manager_commit(f->m, &c, NULL, 0, &f->err), &f->err);
	device_choice_fini(&c);
	assert_int_equal(begin_choice(f, "p", 1, &c), 0);
	assert_int_equal(c.chosen.n, 0);
	device_choice_fini(&c);
	fixture_free(f);
}

static void device_manager_choose__treats_a_preference_as_a_hint(void **state)
{
	static const struct {
		const char *preference[4];
		size_t n;
		const char *first;
	} rows[] = {
		{ { "c", "a" }, 2, "c" },
		{ { "nonsense", "a" }, 2, "a" }, /* outside the available set: dropped */
		{ { "b", "b" }, 2, "b" },
		{ { NULL }, 0, NULL },         /* no preference: filled arbitrarily */
		{ { "d", "c", "b" }, 3, "d" }, /* more than requested */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture *f = fixture_new(false);
		struct device_choice c;

		connect_plugin(f, GPU, true, "a b c d !e");
		assert_int_equal(begin_choice(f, "p", 2, &c), DEVICE_CHOICE_QUERY_PLUGIN);
		assert_int_equal(c.queried.n, 4); /* healthy and free */
		assert_ok(
			device_manager_choose(f->m, &c, rows[i].preference, rows[i].n, &f->err),
			&f->err);
		assert_int_equal(c.chosen.n, 2);
		if (rows[i].first)
			assert_string_equal(c.chosen.v[0], rows[i].first);
		assert_string_not_equal(c.chosen.v[0], c.chosen.v[1]);
		device_choice_fini(&c);
		fixture_free(f);
	}
}

static void device_manager_begin__reuses_devices_of_init_containers(void **state)
{
	struct fixture *f = fixture_new(false);
	const struct device_grant *g;
	struct device_choice c;

	(void)state;
	connect_plugin(f, GPU, false, "a b c d");
	allocate_devices(f, "p", "init", 2, true);
	allocate_devices(f, "q", "c", 2, false); /* all are in use now */
	allocate_devices(f, "p", "one", 1, false);
	allocate_devices(f, "p", "two", 1, false);
	g = device_manager_find(f->m, "p", "init", GPU);
	assert_true(strv_has(&g->ids, device_manager_find(f->m, "p", "one", GPU)->ids.v[0]));
	assert_true(strv_has(&g->ids, device_manager_find(f->m, "p", "two", GPU)->ids.v[0]));
	assert_string_not_equal(device_manager_find(f->m, "p", "one", GPU)->ids.v[0],
		device_manager_find(f->m, "p", "two", GPU)->ids.v[0]);
	assert_error(begin_choice(f, "p", 1, &c), &f->err, "Available: 0");
	device_manager_release(f->m, "q");
	allocate_devices(f, "p", "c", 1, false);
	fixture_free(f);
}

static void device_manager_begin__prefers_one_numa_node(void **state)
{
	struct fixture *f = fixture_new(true);
	struct device_choice c;

	(void)state;
	connect_plugin(f, GPU, true, "a@0 b@1 c@1 d@0 e@1");
	/* Three fit on node 1 only, and all of them are taken: the plugin is not asked. */
	assert_int_equal(begin_choice(f, "p", 3, &c), 0);
	assert_true(strv_has(&c.chosen, "b") && strv_has(&c.chosen, "c") &&
		    strv_has(&c.chosen, "e"));
	device_choice_fini(&c);
	/* Node 0 has two devices for a request of one: the kubelet asks the plugin, and only about those. */
	assert_int_equal(begin_choice(f, "p", 1, &c), DEVICE_CHOICE_QUERY_PLUGIN);
	assert_int_equal(c.queried.n, 2);
	assert_true(strv_has(&c.queried, "a") && strv_has(&c.queried, "d"));
	device_choice_fini(&c);
	/* Four need both nodes. */
	assert_int_equal(begin_choice(f, "p", 4, &c), DEVICE_CHOICE_QUERY_PLUGIN);
	device_choice_fini(&c);
	fixture_free(f);

	/* The hint of the devices means nothing without alignment. */
	f = fixture_new(false);
	connect_plugin(f, GPU, true, "a@0 b@1 c@1 d@0 e@1");
	assert_int_equal(begin_choice(f, "p", 3, &c), DEVICE_CHOICE_QUERY_PLUGIN);
	assert_int_equal(c.queried.n, 5);
	device_choice_fini(&c);
	fixture_free(f);
}

static void device_manager_update__leaves_vanished_devices_with_their_pod(void **state)
{
	struct fixture *f = fixture_new(false);
	struct resource_count c;

	(void)state;
	connect_plugin(f, GPU, false, "a b");
	allocate_devices(f, "p", "c", 2, false);
	update(f, GPU, "c d");
	assert_true(device_manager_count(f->m, GPU, &c));
	assert_int_equal(c.capacity, 2);
	assert_int_equal(c.granted, 2);
	assert_int_equal(device_manager_find(f->m, "p", "c", GPU)->ids.n, 2);
	allocate_devices(f, "q", "c", 2, false); /* c and d are free all the same */
	fixture_free(f);
}

static void device_manager_restart__keeps_grants_and_drops_devices(void **state)
{
	struct fixture *f = fixture_new(false);
	struct device_choice c;

	(void)state;
	connect_plugin(f, GPU, false, "a b");
	allocate_devices(f, "p", "c", 1, false);
	device_manager_restart(f->m);
	expect_count(f, 0, 0);
	assert_non_null(device_manager_find(f->m, "p", "c", GPU));
	assert_error(begin_choice(f, "q", 1, &c), &f->err, "no healthy devices present");
	assert_true(device_manager_next_expiry(f->m) == UINT64_MAX);
	connect_plugin(f, GPU, false, "a b");
	assert_int_equal(begin_choice(f, "q", 1, &c), 0);
	assert_false(strv_has(&c.chosen, device_manager_find(f->m, "p", "c", GPU)->ids.v[0]));
	device_choice_fini(&c);
	fixture_free(f);
}

static void device_manager_begin__selects_devices_in_arbitrary_order(void **state)
{
	struct fixture *f = fixture_new(false);
	struct device_choice a, b;
	bool sorted = true;

	(void)state;
	connect_plugin(f, GPU, false, "g0::0 g0::1 g0::2 g0::3 g1::0 g1::1 g1::2 g1::3");
	assert_int_equal(begin_choice(f, "p", 8, &a), 0);
	assert_int_equal(begin_choice(f, "p", 8, &b), 0);
	for (size_t i = 0; i < 8; i++) {
		assert_string_equal(a.chosen.v[i], b.chosen.v[i]);
		sorted &= i == 0 || strcmp(a.chosen.v[i - 1], a.chosen.v[i]) < 0;
	}
	assert_false(sorted);
	device_choice_fini(&a);
	device_choice_fini(&b);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_manager_count__follows_the_kubelets_arithmetic),
		cmocka_unit_test(device_manager_disconnect__keeps_capacity_for_five_minutes),
		cmocka_unit_test(device_manager_begin__refuses_with_the_texts_of_the_kubelet),
		cmocka_unit_test(
			device_manager_begin__does_nothing_for_a_container_that_has_its_devices),
		cmocka_unit_test(device_manager_choose__treats_a_preference_as_a_hint),
		cmocka_unit_test(device_manager_begin__reuses_devices_of_init_containers),
		cmocka_unit_test(device_manager_begin__prefers_one_numa_node),
		cmocka_unit_test(device_manager_update__leaves_vanished_devices_with_their_pod),
		cmocka_unit_test(device_manager_restart__keeps_grants_and_drops_devices),
		cmocka_unit_test(device_manager_begin__selects_devices_in_arbitrary_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
