/* SPDX-License-Identifier: Apache-2.0 */

/* The view of given facts: GPUs, MIG devices, replicas, resources, and the agent itself. */
#include "unit/node/agent/monitoring/monitoring-env.h"

#include <unistd.h>

#define GPU_RESOURCE    "nvidia.com/gpu"
#define SHARED_RESOURCE "nvidia.com/gpu.shared"

/* The start, with its round. */
static const struct view *run_first_round(struct monitoring_env *e)
{
	env_start(e);
	env_answer(e);
	return env_end(e);
}

static void view__of_an_agent_that_knows_nothing_is_empty(void **state)
{
	struct monitoring_env *e = *state;
	const struct view *v;

	e->not_ready = true;
	v = run_first_round(e);
	assert_int_equal(v->n_gpus + v->n_devices + v->n_replicas + v->n_uses + v->n_resources,
		0);
	assert_false(v->nvml_up || v->ready || v->priced);
	assert_string_equal(v->driver_version, "");
	assert_string_equal(v->cuda_version, "");
	assert_int_equal(v->config_generation, 4);
}

static void view__has_the_versions_of_the_driver(void **state)
{
	static const struct {
		int32_t cuda;
		const char *want;
	} rows[] = { { 0, "" }, { 13000, "13.0" }, { 12040, "12.4" }, { 11080, "11.8" } };
	struct monitoring_env *e = *state;
	struct inventory *inv = fixture_inventory(1);

	(void)snprintf(inv->driver_version, sizeof(inv->driver_version), "580.159.04");
	agent_fixture_know(e->f, inv, NULL);
	(void)run_first_round(e);
	assert_string_equal(e->view->driver_version, "580.159.04");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		e->f->facts.node.inv->cuda_version = rows[i].cuda;
		(void)env_round(e, NS_PER_SEC);
		assert_string_equal(e->view->cuda_version, rows[i].want);
	}
}

/* --- health --- */

static void view__shows_the_health_of_gpus_and_devices(void **state)
{
	static const struct {
		enum health_state is;
		enum view_health want;
	} rows[] = { { HEALTH_HEALTHY, VIEW_HEALTHY }, { HEALTH_PROBATION, VIEW_PROBATION },
		{ HEALTH_UNHEALTHY, VIEW_UNHEALTHY } };
	struct monitoring_env *e = *state;

	agent_fixture_know(e->f, fixture_inventory(2), NULL);
	(void)run_first_round(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct health *h = &e->f->facts.node.gpus[1].health;

		h->state = rows[i].is;
		h->since_ns = env_now_ns() - 30 * NS_PER_SEC;
		(void)snprintf(h->reason, sizeof(h->reason), "XID 79");
		(void)env_round(e, NS_PER_SEC);
		assert_int_equal(e->view->gpus[1].health, rows[i].want);
		assert_int_equal(env_find_device(e, "GPU-1")->health, rows[i].want);
		assert_string_equal(env_find_device(e, "GPU-1")->reason, "XID 79");
		assert_int_equal(env_find_device(e, "GPU-0")->health, VIEW_HEALTHY);
		assert_int_equal(e->view->gpus[1].health_since_wall_ns,
			e->view->wall_ns - 31 * NS_PER_SEC);
	}
}

/* A MIG device is never better than its GPU, and may be worse. */
static void view__shows_the_worse_health_of_a_mig_device_and_its_gpu(void **state)
{
	static const struct {
		enum health_state gpu, mig;
		enum view_health want;
		const char *reason;
	} rows[] = {
		{ HEALTH_HEALTHY, HEALTH_HEALTHY, VIEW_HEALTHY, "" },
		{ HEALTH_HEALTHY, HEALTH_UNHEALTHY, VIEW_UNHEALTHY, "of MIG" },
		{ HEALTH_UNHEALTHY, HEALTH_HEALTHY, VIEW_UNHEALTHY, "of GPU" },
		{ HEALTH_PROBATION, HEALTH_UNHEALTHY, VIEW_PROBATION, "of GPU" },
	};
	struct monitoring_env *e = *state;
	struct inventory *inv = fixture_inventory(1);
	struct node *node = &e->f->facts.node;

	(void)fixture_mig(inv, 0, 1, 1, 5);
	e->f->facts.config->mig_strategy = MIG_STRATEGY_MIXED;
	agent_fixture_know(e->f, inv, NULL);
	(void)run_first_round(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct view_device *device;

		node->gpus[0].health.state = rows[i].gpu;
		node->migs[0].state = rows[i].mig;
		(void)snprintf(node->gpus[0].health.reason, GPU_REASON_MAX, "%s",
			rows[i].gpu == HEALTH_HEALTHY ? "" : "of GPU");
		(void)snprintf(node->migs[0].reason, GPU_REASON_MAX, "%s",
			rows[i].mig == HEALTH_HEALTHY ? "" : "of MIG");
		(void)env_round(e, NS_PER_SEC);
		device = env_find_device(e, "MIG-0-0");
		if (device->health != rows[i].want ||
			strcmp(device->reason, rows[i].reason) != 0)
			fail_msg("row %zu: %d '%s'", i, device->health, device->reason);
	}
}

static void view__shows_whether_a_reset_is_required(void **state)
{
	static const struct {
		const char *what;
		enum gpu_fault fault;
		enum gpu_signal signal;
		int64_t value; /* < 0: not known */
		bool known, required;
	} rows[] = {
		{ "nothing is known", GPU_OK, GPU_SIGNAL_REMAP_FAILED, -1, false, false },
		{ "the fault says it", GPU_FAULT_RESET, GPU_SIGNAL_REMAP_FAILED, -1, true,
			true },
		{ "a row waits", GPU_OK, GPU_SIGNAL_REMAP_PENDING, 1, true, true },
		{ "no row waits", GPU_OK, GPU_SIGNAL_REMAP_PENDING, 0, true, false },
		{ "a page waits", GPU_OK, GPU_SIGNAL_PAGES_PENDING, 1, true, true },
		{ "a row failed", GPU_OK, GPU_SIGNAL_REMAP_FAILED, 1, false, false },
		{ "errors of memory", GPU_OK, GPU_SIGNAL_ECC_VOLATILE, 9, false, false },
	};
	struct monitoring_env *e = *state;

	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	(void)run_first_round(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct gpu *g = &e->f->facts.node.gpus[0].gpu;
		const struct view_gpu *v;

		g->fault = rows[i].fault;
		g->signals_known = 0;
		if (rows[i].value >= 0)
			gpu_signal_set(g, rows[i].signal, (uint64_t)rows[i].value);
		(void)env_round(e, NS_PER_SEC);
		v = &e->view->gpus[0];
		if (v->reset_known != rows[i].known || v->reset_required != rows[i].required)
			fail_msg("%s: known %d, required %d", rows[i].what, v->reset_known,
				v->reset_required);
		assert_int_equal(v->n_signals, rows[i].value >= 0);
		if (v->n_signals) {
			assert_string_equal(v->signals[0].name,
				health_signals[rows[i].signal].name);
			assert_int_equal(v->signals[0].value, rows[i].value);
		}
	}
}

static void view__shows_a_missing_gpu(void **state)
{
	struct monitoring_env *e = *state;
	struct node_gpu *g;

	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	g = &e->f->facts.node.gpus[0];
	g->present = false;
	g->gpu.has_minor = false;
	g->gpu.recovery = GPU_RECOVERY_DRAIN_RESET;
	e->refused = "GPU-0";
	(void)run_first_round(e);
	assert_false(e->view->gpus[0].present);
	assert_string_equal(e->view->gpus[0].fault, gpu_fault_name(GPU_FAULT_GONE));
	assert_string_equal(e->view->gpus[0].recovery, "drain-and-reset");
	assert_string_equal(e->view->gpus[0].refused, "of another type");
	assert_string_equal(env_find_device(e, "GPU-0")->refused, "of another type");
	assert_int_equal(e->view->gpus[0].minor, VIEW_NONE);
}

/* --- XIDs --- */

static void xid__counts_by_gpu_and_number(void **state)
{
	struct monitoring_env *e = *state;
	const struct view_gpu *g;

	agent_fixture_know(e->f, fixture_inventory(2), NULL);
	env_start(e);
	monitoring_add_xid(&e->mon, "GPU-0", 79);
	env_pass(NS_PER_SEC);
	monitoring_add_xid(&e->mon, "GPU-0", 31);
	monitoring_add_xid(&e->mon, "GPU-0", 31);
	monitoring_add_xid(&e->mon, "GPU-9", 31);
	monitoring_add_xid(&e->mon, "", 31); /* NVML did not report the GPU */
	env_answer(e);
	(void)env_end(e);
	g = &e->view->gpus[0];
	assert_int_equal(g->n_xids, 2);
	assert_int_equal(g->xid_count, 3);
	assert_int_equal(g->last_xid, 31);
	assert_true(g->xids_known);
	assert_int_equal(g->xids[0].xid, 79);
	assert_int_equal(g->xids[0].last_wall_ns + NS_PER_SEC, g->xids[1].last_wall_ns);
	/* A GPU that reports no XIDs has none in the view. */
	assert_int_equal(e->view->gpus[1].n_xids, 0);
	assert_false(e->view->gpus[1].xids_known);
	e->f->facts.node.gpus[1].gpu.xid_events = true;
	(void)env_round(e, NS_PER_SEC);
	assert_true(e->view->gpus[1].xids_known);
}

static void xid__of_too_many_kinds_is_left_out(void **state)
{
	struct monitoring_env *e = *state;

	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	monitoring_init(&e->mon, &e->context);
	for (uint32_t i = 0; i <= MONITORING_XIDS_MAX; i++)
		monitoring_add_xid(&e->mon, "GPU-0", i);
	assert_int_equal(e->mon.xids.n, MONITORING_XIDS_MAX);
	monitoring_add_xid(&e->mon, "GPU-0", 0);
	assert_int_equal(e->mon.xids.v[0].count, 2);
}

/* --- MIG --- */

struct place {
	const char *product;
	uint32_t gi, ci, start, size;
	bool placed;
	bool want_placed;
	uint32_t want_start, want_size, want_memory_start, want_memory_size, want_part;
};

/* A GPU with MIG mode on has one device; checks its place in the view. */
static void check_place(struct monitoring_env *e, const struct place *p)
{
	struct inventory *inv = fixture_inventory(1);
	const struct view_device *device;
	struct gpu_mig *m;

	(void)snprintf(inv->gpus[0].name, GPU_NAME_MAX, "%s", p->product);
	inv->gpus[0].mig_capable = true;
	m = fixture_mig(inv, 0, p->ci, p->gi, 10);
	m->placed = p->placed;
	m->start = p->start;
	m->size = p->size;
	e->f->facts.config->mig_strategy = MIG_STRATEGY_MIXED;
	agent_fixture_know(e->f, inv, NULL);
	(void)run_first_round(e);
	device = env_find_device(e, "MIG-0-0");
	if (device->placed != p->want_placed || device->size != p->want_size ||
		(device->placed && (device->start != p->want_start ||
					   device->memory_start != p->want_memory_start ||
					   device->memory_size != p->want_memory_size)))
		fail_msg("%s %ug at %u: placed %d, %u+%u, memory %u+%u", p->product, p->gi,
			p->start, device->placed, device->start, device->size,
			device->memory_start, device->memory_size);
	assert_int_equal(device->part, p->want_part);
	assert_true(device->mig);
	assert_string_equal(device->label, "0:0");
	env_stop(e);
	node_fini(&e->f->facts.node);
	node_init(&e->f->facts.node);
}

static void view__places_mig_devices_in_compute_slices(void **state)
{
	static const struct place rows[] = {
		{ "NVIDIA A100", 1, 1, 0, 1, true, true, 0, 1, 0, 1, 142857 },
		{ "NVIDIA A100", 3, 3, 4, 4, true, true, 4, 3, 4, 4, 428571 },
		{ "NVIDIA A100", 7, 7, 0, 8, true, true, 0, 7, 0, 8, 1000000 },
		/* The placement of the instance is unknown, or only the driver knows it. */
		{ "NVIDIA A100", 1, 1, 0, 1, false, false, 0, 1, 0, 0, 142857 },
		{ "NVIDIA A100", 3, 1, 0, 4, true, false, 0, 1, 0, 0, 142857 },
		/* Outside of the GPU. */
		{ "NVIDIA A100", 2, 2, 7, 2, true, false, 0, 2, 0, 0, 285714 },
		{ "NVIDIA A100", 3, 3, 7, 1, true, false, 0, 3, 0, 0, 428571 },
		/* Products with other slices. */
		{ "NVIDIA A30", 2, 2, 2, 2, true, true, 2, 2, 2, 2, 500000 },
		{ "NVIDIA RTX PRO 6000", 1, 1, 9, 3, true, true, 3, 1, 9, 3, 250000 },
	};
	struct monitoring_env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_place(e, &rows[i]);
}

static void view__shows_a_mig_capable_gpu_as_a_whole(void **state)
{
	struct monitoring_env *e = *state;
	struct inventory *inv = fixture_inventory(2);

	inv->gpus[1].mig_capable = true;
	agent_fixture_know(e->f, inv, NULL);
	(void)run_first_round(e);
	assert_false(env_find_device(e, "GPU-0")->placed);
	assert_int_equal(e->view->gpus[0].mig_slices, 0);
	assert_true(env_find_device(e, "GPU-1")->placed);
	assert_int_equal(env_find_device(e, "GPU-1")->size, 7);
	assert_int_equal(env_find_device(e, "GPU-1")->memory_size, 8);
	assert_string_equal(env_find_device(e, "GPU-1")->label, "1");
	assert_int_equal(env_find_device(e, "GPU-1")->gi, GPU_NO_INSTANCE);
}

/* A board has figures and a last hour of its own. Its devices are parts of the board. */
static void view__of_a_gpu_in_mig_mode_has_devices_and_a_board(void **state)
{
	struct monitoring_env *e = *state;
	struct inventory *inv = fixture_inventory(2);
	const struct view_gpu *g;

	(void)snprintf(inv->gpus[0].name, GPU_NAME_MAX, "NVIDIA A100");
	(void)fixture_mig(inv, 0, 3, 3, 20);
	(void)fixture_mig(inv, 0, 2, 2, 10);
	e->f->facts.config->mig_strategy = MIG_STRATEGY_MIXED;
	agent_fixture_know(e->f, inv, NULL);
	e->units[0] = (struct env_device){ .uuid = "GPU-0", .used_mib = 3000, .busy_ms = 500 };
	e->units[1] =
		(struct env_device){ .uuid = "MIG-0-0", .used_mib = 2000, .busy_ms = 1000 };
	env_allocate_device(e, "train", "nvidia.com/mig-3g.20gb", "MIG-0-0");
	(void)run_first_round(e);
	(void)env_round(e, 30 * NS_PER_SEC);
	g = &e->view->gpus[0];
	assert_int_equal(g->first_device, 0);
	assert_int_equal(g->n_devices, 2);
	assert_int_equal(e->view->gpus[1].first_device, 2);
	assert_int_equal(e->view->gpus[1].n_devices, 1);
	assert_non_null(g->sample);
	assert_int_equal(g->n_points, 1);
	assert_int_equal(g->points[0].busy, 500000);
	assert_int_equal(g->points[0].allocated, 428571);
	assert_int_equal(g->points[0].memory_used >> 20, 3000);
	assert_int_equal(env_find_device(e, "MIG-0-0")->points[0].allocated, VIEW_MILLION);
	assert_int_equal(env_find_usage(e, "train")->share, 428571);
	assert_string_equal(env_find_device(e, "MIG-0-0")->profile, "3g.20gb");
	assert_string_equal(env_find_device(e, "MIG-0-1")->resource, "nvidia.com/mig-2g.10gb");
	/* The last two slices belong to no device: the devices are only a part of the board. */
	assert_int_equal(env_find_device(e, "MIG-0-1")->part, 285714);
}

/* --- replicas and resources --- */

static void view__names_the_pods_of_replicas(void **state)
{
	struct monitoring_env *e = *state;
	struct config *c = fixture_config();
	const struct view_resource *r;

	(void)fixture_share(c, GPU_RESOURCE, SHARED_RESOURCE, 4, (const char *[]){ "0", NULL });
	agent_fixture_know(e->f, fixture_inventory(2), c);
	env_allocate_device(e, "one", SHARED_RESOURCE, "GPU-0::0");
	env_allocate_device(e, "one", SHARED_RESOURCE, "GPU-0::2");
	env_allocate_device(e, "two", SHARED_RESOURCE, "GPU-0::3");
	e->unhealthy = "GPU-0::1";
	(void)run_first_round(e);
	assert_int_equal(e->view->n_replicas, 5);
	assert_string_equal(e->view->uses[env_find_replica(e, "GPU-0::0")->use].pod, "one");
	assert_int_equal(env_find_replica(e, "GPU-0::0")->use,
		env_find_replica(e, "GPU-0::2")->use);
	assert_string_equal(e->view->uses[env_find_replica(e, "GPU-0::3")->use].pod, "two");
	assert_int_equal(env_find_replica(e, "GPU-0::1")->use, VIEW_NONE);
	assert_false(env_find_replica(e, "GPU-0::1")->healthy);
	assert_int_equal(env_find_replica(e, "GPU-0::1")->share, 250000);
	assert_int_equal(env_find_device(e, "GPU-0")->replicas_used, 3);
	assert_int_equal(env_find_device(e, "GPU-0")->allocated, 750000);
	assert_int_equal(env_find_device(e, "GPU-0")->mode, VIEW_TIME_SLICING);
	assert_int_equal(env_find_usage(e, "one")->n_replicas, 2);
	assert_int_equal(env_find_usage(e, "one")->share, 500000);
	assert_string_equal(env_find_usage(e, "one")->replica_id, "GPU-0::0");
	assert_int_equal(e->view->n_resources, 2);
	r = &e->view->resources[1];
	assert_string_equal(r->name, SHARED_RESOURCE);
	assert_int_equal(r->capacity, 4);
	assert_int_equal(r->allocatable, 3);
	assert_int_equal(r->used, 3);
	assert_int_equal(r->idle, 0); /* the free one is not healthy */
	assert_string_equal(r->state, "waiting");
	assert_string_equal(r->reason, "the kubelet is restarting");
	assert_int_equal(e->view->resources[0].idle, 1);
}

/* The replicas' positions may belong to another offer. */
static void view__has_no_replicas_while_the_offer_is_in_doubt(void **state)
{
	struct monitoring_env *e = *state;

	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	env_allocate_device(e, "one", GPU_RESOURCE, "GPU-0");
	(void)run_first_round(e);
	assert_int_equal(e->view->n_replicas, 1);
	(void)error_set(&e->f->facts.offer_error, ERR_LIMIT, "too many devices");
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->view->n_replicas + e->view->n_resources, 0);
	assert_int_equal(e->view->n_devices, 1);
	assert_false(env_find_device(e, "GPU-0")->offered);
	assert_string_equal(env_find_device(e, "GPU-0")->resource, "");
	assert_int_equal(env_find_usage(e, "one")->allocated_ns, NS_PER_SEC);
}

static void view__has_the_warnings_of_the_offer(void **state)
{
	struct monitoring_env *e = *state;
	struct error err = ERROR_INIT;

	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	assert_ok(strv_add(&e->f->facts.offered.offer->warnings, "GPU 3 is in two sets", &err),
		&err);
	(void)run_first_round(e);
	assert_int_equal(e->view->n_warnings, 1);
	assert_string_equal(e->view->warnings[0], "GPU 3 is in two sets");
}

/* A device without replicas, as it has no resource: its cost is the node's other cost. */
static void view__counts_a_gpu_that_is_not_offered_as_unallocated(void **state)
{
	struct monitoring_env *e = *state;
	struct inventory *inv = fixture_inventory(2);
	struct offer *o;

	e->context.options.price_given = true;
	e->context.options.price_nano = 3600000;
	agent_fixture_know(e->f, inv, NULL);
	o = e->f->facts.offered.offer;
	o->resources[0].n_devices = 1;
	(void)run_first_round(e);
	(void)env_round(e, NS_PER_SEC);
	assert_false(env_find_device(e, "GPU-1")->offered);
	assert_int_equal(env_find_device(e, "GPU-0")->cost_nano, 500);
	assert_int_equal(env_find_device(e, "GPU-1")->cost_nano, 0);
	assert_int_equal(e->view->other_cost_nano, 500);
}

/* --- memory --- */

/* NVML and the arbiter answer at different times: the memory of containers counts as used. */
static void view__counts_memory_of_containers_as_used(void **state)
{
	static const char *const pods[] = { "one" };
	struct monitoring_env *e = *state;

	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	env_allocate_device(e, "one", GPU_RESOURCE, "GPU-0");
	env_write_checkpoint(e, pods, 1);
	env_process(e, 11, 1, "main");
	e->units[0] = (struct env_device){ .uuid = "GPU-0", .used_mib = 1000, .busy_ms = 0 };
	e->units[0].processes[0] = (struct env_process){ .pid = 11, .mib = 1500 };
	(void)run_first_round(e);
	assert_int_equal(env_find_device(e, "GPU-0")->memory_used >> 20, 1500);
	assert_int_equal(env_find_device(e, "GPU-0")->memory_free >> 20, 16384 - 1500);
	assert_int_equal(env_find_device(e, "GPU-0")->other_memory, 0);
	e->units[0].processes[0].mib = 20000; /* more than it has */
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(env_find_device(e, "GPU-0")->memory_used >> 20, 20000);
	assert_int_equal(env_find_device(e, "GPU-0")->memory_free, 0);
}

/* --- the agent --- */

static void view__shows_the_cost_of_the_agent_and_degraded_components(void **state)
{
	struct monitoring_env *e = *state;
	const struct view_agent *a;

	(void)error_set(&e->components.v[COMPONENT_CDI].why, ERR_IO, "disk full");
	e->components.v[COMPONENT_CDI].since_wall_ns = 5;
	a = &run_first_round(e)->agent;
	assert_true(a->proc_known && a->rss_bytes > 0 && a->threads > 0 && a->fds > 0);
	assert_int_equal(a->pid, getpid());
	assert_true(a->cpu_ns > 0);
	assert_int_equal(a->rounds, 1);
	assert_int_equal(a->started_wall_ns, e->context.started_wall_ns);
	assert_true(a->web.known);
	assert_int_equal(a->n_components, COMPONENT_COUNT_);
	for (size_t i = 0; i < COMPONENT_COUNT_; i++) {
		assert_string_equal(a->components[i].name, component_name((enum component)i));
		assert_string_equal(a->components[i].reason,
			i == COMPONENT_CDI ? "disk full" : "");
	}
	assert_int_equal(a->components[COMPONENT_CDI].since_wall_ns, 5);
}

/* --- labels --- */

static void view__has_labels_of_known_pods(void **state)
{
	static const char text[] =
		"{\"items\": [{\"metadata\": {\"namespace\": \"ml\", \"name\": \"one\", "
		"\"uid\": \"" ENV_UID "1\", \"labels\": {\"team\": \"vision\"}}}]}";
	static const char *const pods[] = { "one", "two" };
	CLEANUP(strv_fini) struct strv patterns = STRV_INIT;
	struct monitoring_env *e = *state;
	struct error err = ERROR_INIT;
	json_t *list = json_loads(text, 0, NULL);

	assert_ok(strv_add(&patterns, "team", &err), &err);
	e->context.options.pod_labels = &patterns;
	agent_fixture_know(e->f, fixture_inventory(2), NULL);
	env_allocate_device(e, "one", GPU_RESOURCE, "GPU-0");
	env_allocate_device(e, "two", GPU_RESOURCE, "GPU-1");
	env_write_checkpoint(e, pods, ARRAY_LEN(pods));
	(void)run_first_round(e);
	assert_int_equal(env_find_usage(e, "one")->n_labels, 0);
	assert_ok(monitoring_pod_list_make(&e->mon.pods.list, list, e->mon.pods.filter, &err),
		&err);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(env_find_usage(e, "one")->n_labels, 1);
	assert_string_equal(env_find_usage(e, "one")->labels[0].name, "team");
	assert_string_equal(env_find_usage(e, "one")->labels[0].value, "vision");
	assert_int_equal(env_find_usage(e, "two")->n_labels, 0);
	env_release_all(e); /* one that has ended has none */
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(env_find_usage(e, "one")->n_labels, 0);
	json_decref(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENV_TEST(view__of_an_agent_that_knows_nothing_is_empty),
		ENV_TEST(view__has_the_versions_of_the_driver),
		ENV_TEST(view__shows_the_health_of_gpus_and_devices),
		ENV_TEST(view__shows_the_worse_health_of_a_mig_device_and_its_gpu),
		ENV_TEST(view__shows_whether_a_reset_is_required),
		ENV_TEST(view__shows_a_missing_gpu),
		ENV_TEST(xid__counts_by_gpu_and_number),
		ENV_TEST(xid__of_too_many_kinds_is_left_out),
		ENV_TEST(view__places_mig_devices_in_compute_slices),
		ENV_TEST(view__shows_a_mig_capable_gpu_as_a_whole),
		ENV_TEST(view__of_a_gpu_in_mig_mode_has_devices_and_a_board),
		ENV_TEST(view__names_the_pods_of_replicas),
		ENV_TEST(view__has_no_replicas_while_the_offer_is_in_doubt),
		ENV_TEST(view__has_the_warnings_of_the_offer),
		ENV_TEST(view__counts_a_gpu_that_is_not_offered_as_unallocated),
		ENV_TEST(view__counts_memory_of_containers_as_used),
		ENV_TEST(view__shows_the_cost_of_the_agent_and_degraded_components),
		ENV_TEST(view__has_labels_of_known_pods),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
