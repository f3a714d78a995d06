/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "node/agent/monitoring/checkpoint.h"
#include "node/agent/monitoring/devices.h"
#include "node/agent/monitoring/history.h"
#include "node/agent/monitoring/persist/persist.h"
#include "node/agent/monitoring/usage.h"
#include "lib/base/fd.h"

#include <limits.h>
#include <unistd.h>

#define SEC UINT64_C(1000000000)

/* --- the kubelet's checkpoint --- */

static void monitoring_checkpoint__finds_the_pod_of_a_device(void **state)
{
	static const char text[] =
		"{\"Data\":{\"PodDeviceEntries\":["
		"{\"PodUID\":\"u1\",\"ContainerName\":\"c\",\"ResourceName\":\"r\","
		"\"DeviceIDs\":{\"-1\":[\"a\"],\"0\":[\"b\",7]},\"AllocResp\":\"x\"},"
		"{\"PodUID\":\"u2\",\"ContainerName\":\"c\",\"ResourceName\":\"r\","
		"\"DeviceIDs\":[\"d\",\"e\"],\"AllocResp\":\"\"},"
		"{\"PodUID\":\"u3\",\"ContainerName\":\"c\",\"ResourceName\":\"r\",\"DeviceIDs\":[\"e\"]},"
		"{\"PodUID\":9}],\"RegisteredDevices\":{}},\"Checksum\":1}";
	static const struct {
		const char *container, *resource, *id, *want;
	} rows[] = {
		{ "c", "r", "a", "u1" },
		{ "c", "r", "b", "u1" },
		{ "c", "r", "d", "u2" },
		{ "c", "r", "e", "" }, /* two pods report it */
		{ "x", "r", "a", "" },
		{ "c", "x", "a", "" },
		{ "c", "r", "", "" },
	};
	struct monitoring_checkpoint c;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(monitoring_checkpoint_parse(&c, text, sizeof(text) - 1, &err), &err);
	assert_int_equal(c.n, 5);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_string_equal(monitoring_checkpoint_find_uid(&c, rows[i].container,
					    rows[i].resource, rows[i].id),
			rows[i].want);
	monitoring_checkpoint_fini(&c);
	assert_ok(monitoring_checkpoint_parse(&c, "{\"Data\":{\"PodDeviceEntries\":null}}", 34,
			  &err),
		&err);
	monitoring_checkpoint_fini(&c);
	assert_error(monitoring_checkpoint_parse(&c, "{}", 2, &err), &err, "PodDeviceEntries");
	assert_string_equal(monitoring_checkpoint_find_uid(&c, "c", "r", "a"), "");
}

/* --- what a device id means --- */

static void make_node(struct inventory **inv, struct monitoring_devices *devices)
{
	struct gpu_mig mig[3] = {
		{ .index = 0,
			.gi = 1,
			.ci = 0,
			.uuid = "MIG-aaaa",
			.gi_slices = 3,
			.ci_slices = 3,
			.placed = true,
			.start = 0,
			.size = 4 },
		{ .index = 1,
			.gi = 7,
			.ci = 0,
			.uuid = "MIG-bbbb",
			.gi_slices = 1,
			.ci_slices = 1,
			.placed = true,
			.start = 4,
			.size = 1 },
		{ .index = 2, .gi = 8, .ci = 0, .uuid = "", .gi_slices = 1, .ci_slices = 1 },
	};
	struct error err = ERROR_INIT;

	assert_ok(inventory_new(inv, 3, &err), &err);
	for (uint32_t i = 0; i < 3; i++) {
		struct gpu *g = &(*inv)->gpus[i];

		g->index = i;
		g->has_minor = true;
		g->minor = 4 - i; /* they need not be equal */
		(void)snprintf(g->uuid, sizeof(g->uuid), "GPU-%u", i);
		(void)snprintf(g->name, sizeof(g->name), "NVIDIA H100 80GB HBM3");
		g->mig_capable = true;
	}
	(*inv)->gpus[1].mig_enabled = true;
	assert_ok(inventory_add_mig(*inv, 1, mig, 3, &err), &err);
	assert_ok(monitoring_devices_make(devices, *inv, NULL, NULL, &err), &err);
}

static void monitoring_devices_find_id__accepts_all_forms(void **state)
{
	static const struct {
		const char *id, *want; /* NULL: not offered */
		bool dynamic;
	} rows[] = {
		{ "GPU-0", "GPU-0", false },
		{ "GPU-0::3", "GPU-0", false },
		{ "GPU-2::gpu.small::0", "GPU-2", false },
		{ "MIG-aaaa", "MIG-aaaa", false },
		{ "MIG-AAAA::1", "MIG-aaaa", false },
		{ "MIG-GPU-1/7/0", "MIG-bbbb", false },
		{ "MIG-GPU-1/7/1", NULL, false },
		{ "nvidia4", "GPU-0", false },
		{ "nvidia4/vgpu2", "GPU-0", false },
		{ "nvidia3/gi7", "MIG-bbbb", false },
		{ "nvidia3/gi1/vgpu0", "MIG-aaaa", false },
		{ "nvidia3/gi2", NULL, false },
		{ "nvidia3", NULL, false }, /* in MIG mode */
		{ "nvidia3/", NULL, false },
		{ "nvidia4x", NULL, false },
		{ "nvidia99999999999999999999", NULL, false },
		{ "GPU-1", NULL, false }, /* of before it was cut */
		{ "GPU-9", NULL, false },
		{ "MIG-cccc", NULL, false },
		{ "", NULL, false },
		{ "gpu-4", "GPU-0", true },
		{ "gpu-4", NULL, false },
		{ "gpu-3", NULL, true },
		{ "gpu-3-mig-1g10gb-19-4", "MIG-bbbb", true },
		{ "gpu-3-mig-3-9-0", "MIG-aaaa", true },
		{ "GPU-2", "GPU-2", true },
		{ "nvidia4", NULL, true },
	};
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct monitoring_devices devices;

	(void)state;
	make_node(&inv, &devices);
	assert_int_equal(devices.n, 4);
	assert_int_equal(devices.v[1].part, 3 * ACCOUNT_MILLION / 7);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint32_t at = monitoring_devices_find_id(&devices, rows[i].id, rows[i].dynamic);
		const char *got = at == MONITORING_NONE ? NULL : devices.v[at].uuid;

		if (!got != !rows[i].want || (got && strcmp(got, rows[i].want) != 0))
			fail_msg("'%s': %s", rows[i].id, got ? got : "none");
	}
	monitoring_devices_fini(&devices);
}

/* --- usage of pods --- */

struct scene {
	struct inventory *inv;
	struct monitoring_devices devices;
	struct monitoring_replicas replicas;
	struct monitoring_pending pending;
	struct monitoring_allocations allocations, before;
	struct monitoring_usage usage;
	struct monitoring_checkpoint checkpoint;
	struct pod_device listed[4];
	struct pod_devices list;
	uint64_t now_ns;
};

static void scene_init(struct scene *s)
{
	*s = (struct scene){ .now_ns = 100 * SEC };
	make_node(&s->inv, &s->devices);
	s->list.v = s->listed;
}

static void scene_fini(struct scene *s)
{
	monitoring_usage_fini(&s->usage);
	monitoring_allocations_fini(&s->allocations);
	monitoring_allocations_fini(&s->before);
	monitoring_pending_fini(&s->pending);
	monitoring_checkpoint_fini(&s->checkpoint);
	monitoring_devices_fini(&s->devices);
	s->inv = inventory_free(s->inv);
}

static void list_pod(struct scene *s, const char *pod, const char *id)
{
	static char ns[] = "ns", container[] = "main", resource[] = "nvidia.com/gpu";

	s->listed[s->list.n++] = (struct pod_device){ ns, (char *)(uintptr_t)pod, container,
		resource, (char *)(uintptr_t)id, false };
}

static void add_test_pending(struct scene *s, const char *id, uint64_t at_ns)
{
	struct error err = ERROR_INIT;

	assert_ok(monitoring_pending_add(&s->pending, "nvidia.com/gpu", id, at_ns, &err), &err);
}

static void add_test_checkpoint_entry(struct scene *s, const char *uid, const char *id)
{
	char text[256];
	struct error err = ERROR_INIT;

	(void)snprintf(text, sizeof(text),
		"{\"Data\":{\"PodDeviceEntries\":[{\"PodUID\":\"%s\",\"ContainerName\":\"main\","
		"\"ResourceName\":\"nvidia.com/gpu\",\"DeviceIDs\":[\"%s\"]}]}}",
		uid, id);
	monitoring_checkpoint_fini(&s->checkpoint);
	assert_ok(monitoring_checkpoint_parse(&s->checkpoint, text, strlen(text), &err), &err);
}

/* A round of one second; the list is taken at its end, and is empty for the next. */
static void update_test_usage(struct scene *s)
{
	struct monitoring_span span = { .from_ns = s->now_ns, .to_ns = s->now_ns + SEC };
	struct error err = ERROR_INIT;

	monitoring_usage_fini(&s->usage);
	monitoring_allocations_fini(&s->before);
	s->before = s->allocations;
	assert_ok(monitoring_allocations_make(&s->allocations, &s->before, &s->list,
			  &s->checkpoint, &s->devices, &s->replicas, &s->pending, span, &err),
		&err);
	assert_ok(monitoring_usage_make(&s->usage, &s->allocations, &s->before, &s->devices,
			  span, true, &err),
		&err);
	s->now_ns += SEC;
	s->list.n = 0;
}

static const struct account_use *find_test_usage(const struct scene *s, const char *pod,
	bool live)
{
	const struct account_use *found = NULL;

	for (uint32_t i = 0; i < s->usage.n; i++) {
		const struct account_use *in = &s->usage.v[i].in;

		if (strcmp(in->pod, pod) != 0 || in->live != live)
			continue;
		assert_null(found);
		found = in;
	}
	assert_non_null(found);
	return found;
}

static void monitoring_usage__counts_from_the_allocation(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	add_test_pending(&s, "GPU-0", s.now_ns + SEC / 4);
	list_pod(&s, "one", "GPU-0");
	update_test_usage(&s);
	assert_int_equal(s.usage.n, 1);
	assert_true(find_test_usage(&s, "one", true)->fresh);
	assert_int_equal(find_test_usage(&s, "one", true)->allocated_ns, SEC - SEC / 4);
	assert_int_equal(s.pending.n, 0);
	list_pod(&s, "one", "GPU-0");
	update_test_usage(&s);
	assert_false(find_test_usage(&s, "one", true)->fresh);
	assert_int_equal(find_test_usage(&s, "one", true)->allocated_ns, SEC);
	assert_int_equal(find_test_usage(&s, "one", true)->share_ns, SEC * ACCOUNT_MILLION);
	update_test_usage(&s);
	assert_int_equal(s.usage.n, 1);
	assert_int_equal(find_test_usage(&s, "one", false)->allocated_ns, SEC / 2);
	assert_int_equal(find_test_usage(&s, "one", false)->share, 0);
	update_test_usage(&s);
	assert_int_equal(s.usage.n, 0);
	scene_fini(&s);
}

/* The pod is allocated in one round and ends in the next one. In that next round its entry is not fresh. */
static void monitoring_usage__ended_pod_is_not_reported_as_new(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	add_test_pending(&s, "GPU-0", s.now_ns + SEC / 4);
	list_pod(&s, "one", "GPU-0");
	update_test_usage(&s);
	update_test_usage(&s);
	assert_false(find_test_usage(&s, "one", false)->fresh);
	scene_fini(&s);
}

static void monitoring_usage__pending_allocation_waits_until_it_is_listed(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	add_test_pending(&s, "GPU-0", s.now_ns + SEC / 4);
	update_test_usage(&s);
	assert_int_equal(s.usage.n, 0);
	list_pod(&s, "one", "GPU-0");
	update_test_usage(&s);
	assert_true(find_test_usage(&s, "one", true)->fresh);
	assert_int_equal(find_test_usage(&s, "one", true)->allocated_ns, SEC);
	scene_fini(&s);
}

static void monitoring_usage__replica_passes_to_the_next_pod(void **state)
{
	/* The same name, and another one. */
	static const char *const next[] = { "web-0", "two" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(next); i++) {
		struct scene s;

		scene_init(&s);
		add_test_checkpoint_entry(&s, "uid-1", "GPU-0");
		list_pod(&s, "web-0", "GPU-0");
		update_test_usage(&s);
		list_pod(&s, "web-0", "GPU-0");
		update_test_usage(&s);
		assert_string_equal(find_test_usage(&s, "web-0", true)->uid, "uid-1");
		/* The kubelet's notes still are those of before. */
		add_test_pending(&s, "GPU-0", s.now_ns + SEC / 4);
		list_pod(&s, next[i], "GPU-0");
		update_test_usage(&s);
		assert_int_equal(s.usage.n, 2);
		assert_int_equal(find_test_usage(&s, "web-0", false)->allocated_ns, SEC / 4);
		assert_string_equal(find_test_usage(&s, "web-0", false)->uid, "uid-1");
		assert_int_equal(find_test_usage(&s, next[i], true)->allocated_ns,
			SEC - SEC / 4);
		assert_string_equal(find_test_usage(&s, next[i], true)->uid, "");
		assert_true(find_test_usage(&s, next[i], true)->fresh);
		add_test_checkpoint_entry(&s, "uid-2", "GPU-0");
		list_pod(&s, next[i], "GPU-0");
		update_test_usage(&s);
		assert_string_equal(find_test_usage(&s, next[i], true)->uid, "uid-2");
		/* Notes that cannot be read for a while do not make it another pod. */
		add_test_checkpoint_entry(&s, "uid-3", "GPU-2");
		list_pod(&s, next[i], "GPU-0");
		update_test_usage(&s);
		assert_string_equal(find_test_usage(&s, next[i], true)->uid, "uid-2");
		scene_fini(&s);
	}
}

/* The kubelet lists a pod that has ended, as kubelets before 1.34 do. */
static void monitoring_usage__replica_belongs_to_the_later_of_two_pods(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	list_pod(&s, "old", "GPU-0");
	update_test_usage(&s);
	for (int i = 0; i < 3; i++) {
		list_pod(&s, "new", "GPU-0");
		list_pod(&s, "old", "GPU-0");
		update_test_usage(&s);
		(void)find_test_usage(&s, "new", true);
		assert_int_equal(s.usage.n, i ? 1 : 2);
	}
	scene_fini(&s);
}

static void monitoring_usage__replicas_of_a_container_are_one_record(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	for (int i = 0; i < 2; i++) {
		list_pod(&s, "one", "GPU-0::1");
		list_pod(&s, "one", "GPU-0::0");
		list_pod(&s, "one", "MIG-aaaa");
		list_pod(&s, "other", "nonsense");
		update_test_usage(&s);
	}
	assert_int_equal(s.usage.n, 2);
	assert_int_equal(s.usage.v[0].n_replicas, 2);
	assert_int_equal(s.usage.v[0].in.mode, ACCOUNT_TIME_SLICING);
	assert_int_equal(s.usage.v[0].in.allocated_ns, SEC);
	assert_string_equal(s.usage.v[0].first_allocation->id, "GPU-0::0");
	assert_int_equal(s.usage.v[1].in.mode, ACCOUNT_EXCLUSIVE);
	assert_false(s.usage.v[1].offered);
	scene_fini(&s);
}

/* --- saved state --- */

static void ignore_xid(void *arg, const struct monitoring_persist_xid *x)
{
	*(struct monitoring_persist_xid *)arg = *x;
}

static void count(struct accounts *a, struct account_round *r, struct account_use *in)
{
	static struct account_device_round device_round;
	struct error err = ERROR_INIT;

	device_round = (struct account_device_round){ .uuid = "GPU-0",
		.part = ACCOUNT_MILLION,
		.priced = true,
		.n_uses = 1 };
	*in = (struct account_use){ .namespace_ = "ns",
		.pod = "web-0",
		.uid = "",
		.container = "main",
		.resource = "r",
		.live = true,
		.allocated_ns = SEC,
		.share = ACCOUNT_MILLION / 2,
		.share_ns = SEC * (ACCOUNT_MILLION / 2),
		.memory_from = ACCOUNT_FROM_PROCESSES,
		.memory = 100 };
	*r = (struct account_round){ .dt_ns = SEC,
		.wall_ns = 1000 * SEC,
		.price_nano_per_hour = 3600 * SEC,
		.n_gpus = 1,
		.complete = true,
		.devices = &device_round,
		.n_devices = 1,
		.uses = in,
		.n_uses = 1 };
	assert_ok(accounts_round(a, r, &err), &err);
}

static int add_row(void *arg, const struct usage_db_period *period,
	const struct usage_db_row *row, struct error *err)
{
	int64_t *cost = arg;

	(void)err;
	if (!row) {
		assert_int_equal(period->price_nano_per_hour, 3600 * SEC);
		cost[0] += period->cost_nano;
	} else {
		cost[row->kind == USAGE_DB_UNALLOCATED ? 2 : 1] += row->cost_nano;
		assert_string_equal(row->gpu, "GPU-0");
	}
	return 0;
}

static void monitoring_persist__continues_after_a_restart(void **state)
{
	static const char *const gpus[] = { "GPU-0" };
	const struct monitoring_persist_node node = { .node = "n",
		.instance_type = "",
		.region = "",
		.currency = "USD",
		.price_source = "option",
		.price_nano_per_hour = 3600 * SEC,
		.n_gpus = 1,
		.gpus = gpus,
		.wall_ns = 1000 * SEC,
		.dt_ns = SEC,
		.since_wall_ns = 5 };
	const struct monitoring_persist_xid xid = { .uuid = "GPU-0",
		.xid = 79,
		.count = 3,
		.last_wall_ns = 9 };
	struct monitoring_persist_xid found = { .xid = 0 };
	char *dir = test_tmpdir();
	uint64_t since = 77;
	struct account_round r;
	struct monitoring_charges charges;
	struct account_use in;
	struct error err = ERROR_INIT;
	int64_t cost[3] = { 0 };
	struct accounts a;
	struct monitoring_persist persist;

	(void)state;
	for (int start = 0; start < 3; start++) {
		accounts_init(&a);
		assert_ok(monitoring_persist_init(&persist, dir, &err), &err);
		monitoring_persist_open(&persist, 1);
		charges = (struct monitoring_charges){ .n = 0 };
		assert_ok(monitoring_persist_restore(&persist, &a, &charges, &since, ignore_xid,
				  &found, &err),
			&err);
		if (start) {
			assert_int_equal(since, 5);
			assert_int_equal(charges.n, 1);
			assert_string_equal(charges.v[0].id, "0a1b");
			assert_string_equal(charges.v[0].device_uuid, "GPU-0");
			assert_int_equal(charges.v[0].charged_ns, 7 * SEC);
			assert_int_equal(charges.v[0].at_wall_ns, 900 * SEC);
			assert_int_equal(charges.v[0].estimated_ns, 3);
			assert_true(charges.v[0].restored && !charges.v[0].at_ns);
		} else {
			assert_ok(monitoring_charges_restore(&charges, "0a1b", "GPU-0",
					  &(struct monitoring_charge){ .charged_ns = 7 * SEC,
						  .at_wall_ns = 900 * SEC,
						  .estimated_ns = 3 },
					  &err),
				&err);
		}
		if (start) {
			assert_int_equal(found.xid, 79);
			assert_int_equal(found.count, 3);
			assert_int_equal(a.cost_nano, start * SEC);
			assert_int_equal(a.devices[0]->uses[0]->total.cost_nano,
				start * SEC / 2);
			assert_int_equal(a.devices[0]->uses[0]->memory_peak, 100);
			assert_true(a.devices[0]->uses[0]->live);
		}
		count(&a, &r, &in);
		assert_int_equal(a.devices[0]->n_uses, 1);
		assert_ok(monitoring_persist_prepare(&persist, &a, &r, &node, &xid, 1, &charges,
				  &err),
			&err);
		monitoring_persist_write(&persist, 2);
		assert_ok(persist.error.code, &persist.error);
		monitoring_persist_written(&persist);
		assert_int_equal(persist.n_rows, 0);
		monitoring_persist_fini(&persist);
		monitoring_charges_fini(&charges);
		accounts_fini(&a);
	}
	assert_ok(monitoring_persist_init(&persist, dir, &err), &err);
	assert_ok(usage_db_read(persist.path, 0, 10000, add_row, cost, &err), &err);
	assert_int_equal(cost[0], 3 * SEC);
	assert_int_equal(cost[1], 3 * SEC / 2);
	assert_int_equal(cost[2], 3 * SEC / 2);
	monitoring_persist_fini(&persist);
	test_rmdir(dir);
}

/* Unwritten records are passed again, added up. */
static void monitoring_persist__loses_no_record_while_it_cannot_write(void **state)
{
	static const char *const gpus[] = { "GPU-0" };
	const struct monitoring_persist_node node = { .node = "n",
		.instance_type = "",
		.region = "",
		.currency = "USD",
		.price_source = "",
		.price_nano_per_hour = 3600 * SEC,
		.n_gpus = 1,
		.gpus = gpus,
		.wall_ns = 1000 * SEC,
		.dt_ns = SEC };
	char *dir = test_tmpdir(), path[PATH_MAX];
	struct account_round r;
	struct account_use in;
	struct error err = ERROR_INIT;
	int64_t cost[3] = { 0 };
	struct accounts a;
	struct monitoring_persist persist;

	(void)state;
	accounts_init(&a);
	test_write(dir, "ledger.db/in-the-way", "", 0, 0600);
	assert_ok(monitoring_persist_init(&persist, dir, &err), &err);
	monitoring_persist_open(&persist, 1);
	for (int i = 0; i < 5; i++) {
		count(&a, &r, &in);
		assert_ok(monitoring_persist_prepare(&persist, &a, &r, &node, NULL, 0,
				  &(struct monitoring_charges){ .n = 0 }, &err),
			&err);
		if (i == 4) {
			assert_ok(path_join(path, sizeof(path), dir, "ledger.db/in-the-way",
					  &err),
				&err);
			assert_int_equal(unlink(path), 0);
			assert_int_equal(rmdir(persist.path), 0);
		}
		monitoring_persist_write(&persist, i < 4 ? 2 : UINT64_MAX / 2);
		monitoring_persist_written(&persist);
		assert_int_equal(persist.n_rows, i < 4 ? 2 : 0);
	}
	assert_int_equal(persist.errors, 4);
	assert_ok(usage_db_read(persist.path, 0, 10000, add_row, cost, &err), &err);
	assert_int_equal(cost[0], 5 * SEC);
	monitoring_persist_fini(&persist);
	accounts_fini(&a);
	test_rmdir(dir);
}

/* --- the last hour --- */

static void monitoring_history__adds_a_point_every_30_s(void **state)
{
	struct monitoring_history_sample m = { .dt_ns = 5 * SEC,
		.wall_ns = 60 * SEC,
		.allocated_known = true,
		.allocated = 250000,
		.busy_known = true,
		.busy_ns = SEC,
		.busy_of_ns = 5 * SEC,
		.memory = 42,
		.sampled_ns = 7 };
	struct monitoring_history h = { .n = 0 };
	CLEANUP(view_unrefp) struct view *v = NULL;
	struct view_point *points;
	struct error err = ERROR_INIT;
	uint32_t n;

	(void)state;
	assert_ok(view_new(&v, &err), &err);
	assert_int_equal(monitoring_history_sampled(&h, "GPU-0"), 0);
	for (int i = 0; i < 6 * (VIEW_POINTS_MAX + 3); i++) {
		monitoring_history_begin(&h);
		monitoring_history_add(&h, "GPU-0", &m);
		monitoring_history_end(&h);
	}
	monitoring_history_copy(&h, v, "GPU-0", &n, &points);
	assert_int_equal(n, VIEW_POINTS_MAX);
	assert_int_equal(points[0].busy, 200000);
	assert_int_equal(points[0].allocated, 250000);
	assert_int_equal(points[0].memory_used, 42);
	/* An unknown figure is not zero. */
	m = (struct monitoring_history_sample){ .dt_ns = 30 * SEC, .memory = UINT64_MAX };
	monitoring_history_begin(&h);
	monitoring_history_add(&h, "GPU-0", &m);
	monitoring_history_copy(&h, v, "GPU-0", &n, &points);
	assert_int_equal(points[n - 1].busy, VIEW_NONE);
	assert_int_equal(points[n - 1].allocated, VIEW_NONE);
	assert_int_equal(points[n - 1].memory_used, UINT64_MAX);
	/* The last figures grow old. */
	assert_int_equal(monitoring_history_sampled(&h, "GPU-0"), 7);
	monitoring_history_begin(&h);
	monitoring_history_end(&h);
	monitoring_history_copy(&h, v, "GPU-0", &n, &points);
	assert_int_equal(n, 0);
	monitoring_history_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(monitoring_checkpoint__finds_the_pod_of_a_device),
		cmocka_unit_test(monitoring_devices_find_id__accepts_all_forms),
		cmocka_unit_test(monitoring_usage__counts_from_the_allocation),
		cmocka_unit_test(monitoring_usage__ended_pod_is_not_reported_as_new),
		cmocka_unit_test(monitoring_usage__pending_allocation_waits_until_it_is_listed),
		cmocka_unit_test(monitoring_usage__replica_passes_to_the_next_pod),
		cmocka_unit_test(monitoring_usage__replica_belongs_to_the_later_of_two_pods),
		cmocka_unit_test(monitoring_usage__replicas_of_a_container_are_one_record),
		cmocka_unit_test(monitoring_persist__continues_after_a_restart),
		cmocka_unit_test(monitoring_persist__loses_no_record_while_it_cannot_write),
		cmocka_unit_test(monitoring_history__adds_a_point_every_30_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
