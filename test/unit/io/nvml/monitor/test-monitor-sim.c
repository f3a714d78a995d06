/* SPDX-License-Identifier: Apache-2.0 */

/* The monitor on simulated nodes: the real worker, the simulated libnvidia-ml.so.1. */
#include "support/test.h"

#include "lib/base/time.h"
#include "io/nvml/monitor/monitor.h"
#include "io/nvml/nvml.h"
#include "testbed/sim/control/control.h"
#include "monitor-env.h"

#include <limits.h>
#include <signal.h>
#include <unistd.h>

static char lib[PATH_MAX], sysfs[PATH_MAX], procfs[PATH_MAX];
static char *dir;
static struct sim_control node;

static int set_up(void **state)
{
	(void)state;
	(void)test_built(lib, "../../src/testbed/sim/nvml/libnvidia-ml.so.1");
	return 0;
}

/* Each test has a node of its own. The environment names the node to the worker. */
static void make_node(const char *model)
{
	struct error err = ERROR_INIT;

	dir = test_tmpdir();
	assert_int_equal(setenv("GPUSLICE_SIM_NODE", model, 1), 0);
	assert_int_equal(setenv("GPUSLICE_SIM_DIR", dir, 1), 0);
	(void)snprintf(sysfs, sizeof sysfs, "%s/sys", dir);
	(void)snprintf(procfs, sizeof procfs, "%s/proc", dir);
	assert_ok(sim_control_open(&node, NULL, NULL, &err), &err);
}

static void drop_node(void)
{
	sim_control_close(&node);
	test_rmdir(dir);
	dir = NULL;
}

static struct gpu_monitor_options make_sim_options(void)
{
	return (struct gpu_monitor_options){ .nvml_path = lib,
		.sysfs_root = sysfs,
		.procfs_root = procfs,
		.worker_path = built_worker(),
		.call_timeout_ns = CALL_TIMEOUT_NS,
		.stuck_retry_ns = NS_PER_SEC };
}

static void start_sim_monitor(struct monitor_watcher *s)
{
	struct gpu_monitor_options o = make_sim_options();

	monitor_watcher_start(s, &o);
}

static void stop(struct monitor_watcher *s)
{
	monitor_watcher_stop(s);
	drop_node();
}

static void sim__shows_a_p3_8xlarge(void **state)
{
	struct monitor_watcher s = { .m = NULL };

	(void)state;
	make_node("p3.8xlarge");
	start_sim_monitor(&s);
	run_until(&s, s.inventories == 1);
	assert_int_equal(s.inv->n, 4);
	assert_true(s.inv->driver_version[0] != '\0');
	assert_true(s.inv->cuda_version >= 11000);
	for (uint32_t i = 0; i < 4; i++) {
		const struct gpu *g = &s.inv->gpus[i];

		assert_int_equal(g->fault, GPU_OK);
		assert_int_equal(g->index, i);
		assert_string_equal(g->name, "Tesla V100-SXM2-16GB");
		assert_int_equal(strncmp(g->uuid, "GPU-", 4), 0);
		assert_int_equal(g->cc_major, 7);
		assert_int_equal(g->cc_minor, 0);
		assert_true(g->memory_total_bytes > UINT64_C(15) << 30);
		assert_true(g->memory_used_bytes < g->memory_total_bytes);
		assert_true(g->has_minor);
		assert_true(g->numa_node >= 0);
		assert_true(g->xid_events);
		assert_false(g->mig_capable);
		for (uint32_t k = 0; k < 4; k++) {
			struct gpu_link link = inventory_link(s.inv, i, k);

			if (k == i)
				continue;
			assert_int_not_equal(link.level, GPU_LEVEL_UNKNOWN);
			assert_in_range(link.nvlinks, 1, 2); /* the cube mesh of NVLink 2 */
			assert_int_equal(link.nvlinks, inventory_link(s.inv, k, i).nvlinks);
		}
	}
	assert_int_equal(s.downs, 0);
	stop(&s);
}

static void sim__counts_no_links_into_switches(void **state)
{
	struct monitor_watcher s = { .m = NULL };

	(void)state;
	make_node("p4d.24xlarge");
	start_sim_monitor(&s);
	run_until(&s, s.inventories == 1);
	assert_int_equal(s.inv->n, 8);
	assert_true(s.inv->gpus[0].mig_capable);
	assert_false(s.inv->gpus[0].mig_enabled);
	assert_int_equal(inventory_link(s.inv, 0, 1).nvlinks, 0);
	assert_int_not_equal(inventory_link(s.inv, 0, 1).level, GPU_LEVEL_UNKNOWN);
	/* The monitor reports peer-to-peer only after a request, which starts a probe. Over the links each
	 * GPU reaches each other GPU. */
	assert_int_equal(inventory_link(s.inv, 0, 1).p2p, 0);
	gpu_monitor_want_p2p(s.m, true);
	run_until(&s, s.inventories == 2);
	assert_int_equal(inventory_link(s.inv, 0, 1).p2p, 1 + GPU_P2P_OK);
	assert_int_equal(inventory_link(s.inv, 7, 0).p2p, 1 + GPU_P2P_OK);
	assert_int_equal(inventory_link(s.inv, 7, 7).p2p, 0);
	stop(&s);
}

static void sim__contains_a_hanging_gpu(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	uint64_t t0;

	(void)state;
	make_node("p3.8xlarge");
	sim_hang_set(node.state, 2, SIM_HANG_FOREVER, SIM_HANG_CALLS, SIM_HANG_FOREVER);
	t0 = time_mono_ns();
	start_sim_monitor(&s);
	run_until(&s, s.inventories == 1);
	assert_in_range(time_mono_ns() - t0, CALL_TIMEOUT_NS, 10 * CALL_TIMEOUT_NS);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(s.inv->gpus[i].fault, i == 2 ? GPU_FAULT_STUCK : GPU_OK);
	assert_non_null(strstr(s.inv->gpus[2].reason, "did not come back in time"));
	sim_hang_set(node.state, 2, 0, 0, 0);
	run_until(&s, s.inv->gpus[2].fault == GPU_OK);
	assert_true(s.inv->gpus[2].uuid[0] != '\0');
	assert_int_equal(s.downs, 0);
	stop(&s);
}

static void sim__follows_the_driver(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct error err = ERROR_INIT;

	(void)state;
	make_node("p3.2xlarge");
	assert_ok(sim_control_driver(&node, SIM_DRIVER_UNLOADED, &err), &err);
	start_sim_monitor(&s);
	run_until(&s, s.downs == 1);
	assert_non_null(strstr(s.down.msg, "Driver Not Loaded (9)"));
	assert_ok(sim_control_driver(&node, SIM_DRIVER_LOADED, &err), &err);
	run_until(&s, s.inventories == 1); /* by itself */
	assert_ok(sim_control_driver(&node, SIM_DRIVER_UNLOADED, &err), &err);
	gpu_monitor_probe(s.m);
	run_until(&s, s.downs == 2);
	assert_ok(sim_control_driver(&node, SIM_DRIVER_MISMATCH, &err), &err);
	gpu_monitor_probe(s.m);
	run_until(&s, s.downs == 3);
	assert_non_null(strstr(s.down.msg, "Driver/library version mismatch (18)"));
	assert_ok(sim_control_driver(&node, SIM_DRIVER_LOADED, &err), &err);
	gpu_monitor_probe(s.m);
	run_until(&s, s.inventories == 2);
	stop(&s);
}

static void sim__delivers_an_xid(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct error err = ERROR_INIT;

	(void)state;
	make_node("p3.8xlarge");
	start_sim_monitor(&s);
	run_until(&s, s.inventories == 1);
	/* The worker registers right after its first probe. It does not deliver an XID from before that. */
	for (uint64_t until = time_mono_ns() + MONITOR_TIMEOUT_NS;
		s.xids == 0 && time_mono_ns() < until;) {
		uint64_t pause = time_mono_ns() + 50 * NS_PER_MS;

		assert_ok(sim_control_xid(&node, 3, SIM_NO_INSTANCE, SIM_NO_INSTANCE, 48, &err),
			&err);
		while (s.xids == 0 && time_mono_ns() < pause)
			(void)uv_run(&s.loop, UV_RUN_ONCE);
	}
	assert_true(s.xids >= 1);
	assert_int_equal(s.xid, 48);
	assert_int_equal(s.gi, UINT32_MAX);
	assert_string_equal(s.uuid, s.inv->gpus[3].uuid);
	stop(&s);
}

static void sim__detects_a_lost_gpu_and_its_return(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct error err = ERROR_INIT;
	char uuid[GPU_UUID_MAX];

	(void)state;
	make_node("p3.8xlarge");
	start_sim_monitor(&s);
	run_until(&s, s.inventories == 1);
	(void)snprintf(uuid, sizeof uuid, "%s", s.inv->gpus[1].uuid);
	assert_ok(sim_control_lose(&node, 1, &err), &err);
	gpu_monitor_probe(s.m);
	run_until(&s, s.inv->gpus[1].fault == GPU_FAULT_LOST);
	assert_int_equal(s.inv->n, 4);
	assert_string_equal(s.inv->gpus[1].uuid, uuid);
	assert_non_null(strstr(s.inv->gpus[1].reason, "GPU is lost"));
	assert_int_equal(s.inv->gpus[1].nvml_code, 15);
	assert_int_equal(s.inv->gpus[0].fault, GPU_OK);
	assert_int_not_equal(inventory_link(s.inv, 0, 1).level, GPU_LEVEL_UNKNOWN);
	assert_ok(sim_control_restore(&node, 1, &err), &err);
	gpu_monitor_probe(s.m);
	run_until(&s, s.inv->gpus[1].fault == GPU_OK);
	assert_string_equal(s.inv->gpus[1].uuid, uuid);
	assert_int_equal(s.downs, 0);
	stop(&s);
}

/* The XID comes once, at the worst moment: while the worker finds out that another GPU is lost. */
static void sim__receives_events_of_others_while_a_gpu_is_lost(void **state)
{
	static const unsigned pauses_ms[] = { 0, 5, 50, 150, 400 };
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pauses_ms); i++) {
		struct monitor_watcher s = { .m = NULL };
		uint64_t until;

		make_node("p3.8xlarge");
		start_sim_monitor(&s);
		gpu_monitor_set_interval(s.m, 500 * NS_PER_MS);
		run_until(&s, s.inventories >= 2); /* events are registered after the first */
		assert_ok(sim_control_lose(&node, 1, &err), &err);
		until = time_mono_ns() + pauses_ms[i] * NS_PER_MS;
		while (time_mono_ns() < until)
			(void)uv_run(&s.loop, UV_RUN_ONCE);
		assert_ok(sim_control_xid(&node, 3, SIM_NO_INSTANCE, SIM_NO_INSTANCE, 48, &err),
			&err);
		run_until(&s, s.xid == 48);
		assert_string_equal(s.uuid, s.inv->gpus[3].uuid);
		stop(&s);
	}
}

static void sim__detects_added_and_removed_gpus(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct error err = ERROR_INIT;
	uint32_t slot = 0;

	(void)state;
	make_node("p3.2xlarge");
	start_sim_monitor(&s);
	run_until(&s, s.inventories == 1);
	assert_int_equal(s.inv->n, 1);
	assert_ok(sim_control_add(&node, NULL, &slot, &err), &err);
	gpu_monitor_probe(s.m);
	run_until(&s, s.inv->n == 2);
	assert_string_not_equal(s.inv->gpus[0].uuid, s.inv->gpus[1].uuid);
	assert_int_not_equal(inventory_link(s.inv, 0, 1).level, GPU_LEVEL_UNKNOWN);
	assert_ok(sim_control_remove(&node, slot, &err), &err);
	gpu_monitor_probe(s.m);
	run_until(&s, s.inv->n == 1);
	assert_int_equal(s.downs, 0);
	stop(&s);
}

/* --- MIG --- */

/* NVML in this process, for a program other than the worker that partitions GPUs. */
static nvmlDevice_t other_nvml(struct nvml *n, uint32_t gpu)
{
	struct error err = ERROR_INIT;
	nvmlDevice_t d = NULL;

	assert_ok(nvml_open(n, lib, &err), &err);
	assert_ok(nvml_init(n, &err), &err);
	assert_int_equal(n->nvmlDeviceGetHandleByIndex_v2(gpu, &d), NVML_SUCCESS);
	return d;
}

/* The library stays loaded: the simulator's mappings belong to it until the process ends. */
static void other_nvml_end(struct nvml *n)
{
	assert_int_equal(n->nvmlShutdown(), NVML_SUCCESS);
}

static nvmlDevice_t mig_on(struct nvml *n, uint32_t gpu)
{
	nvmlReturn_t status = NVML_ERROR_UNKNOWN;
	nvmlDevice_t d = NULL;

	assert_int_equal(n->nvmlDeviceGetHandleByIndex_v2(gpu, &d), NVML_SUCCESS);
	assert_int_equal(n->nvmlDeviceSetMigMode(d, NVML_DEVICE_MIG_ENABLE, &status),
		NVML_SUCCESS);
	assert_int_equal(status, NVML_SUCCESS);
	assert_int_equal(n->nvmlDeviceGetHandleByIndex_v2(gpu, &d), NVML_SUCCESS);
	return d;
}

/* A GPU instance of the profile with this id, and a compute instance of all of it. */
static nvmlComputeInstance_t create_sim_instance(struct nvml *n, nvmlDevice_t d, unsigned id,
	unsigned ci_number, nvmlGpuInstance_t *gi)
{
	nvmlComputeInstanceProfileInfo_t info = { .id = 0 };
	nvmlComputeInstance_t ci = NULL;

	assert_int_equal(n->nvmlDeviceCreateGpuInstance(d, id, gi), NVML_SUCCESS);
	assert_int_equal(
		n->nvmlGpuInstanceGetComputeInstanceProfileInfo(*gi, ci_number, 0, &info),
		NVML_SUCCESS);
	assert_int_equal(n->nvmlGpuInstanceCreateComputeInstance(*gi, info.id, &ci),
		NVML_SUCCESS);
	return ci;
}

/* The node's count of calls, once there are none for a while: no probe is due, and the worker waits for
 * events. */
static uint64_t count_calls_when_idle(struct monitor_watcher *s)
{
	uint64_t n = sim_count_read(node.state, SIM_COUNT_CALLS), since = time_mono_ns();

	while (time_mono_ns() - since < 400 * NS_PER_MS) {
		uint64_t now = sim_count_read(node.state, SIM_COUNT_CALLS);

		if (now != n)
			since = time_mono_ns();
		n = now;
		(void)uv_run(&s->loop, UV_RUN_ONCE);
	}
	return n;
}

static uint64_t count_calls_of_probe(struct monitor_watcher *s)
{
	uint64_t before = count_calls_when_idle(s);

	gpu_monitor_probe(s->m);
	return count_calls_when_idle(s) - before;
}

static void sim__shows_mig_devices_and_their_changes(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct nvml n;
	nvmlDevice_t d;
	nvmlGpuInstance_t gi;
	nvmlComputeInstance_t ci;
	const struct gpu_mig *m;

	(void)state;
	SKIP_UNLESS(geteuid() == 0, "only root may change MIG");
	make_node("p4d.24xlarge");
	(void)other_nvml(&n, 0);
	d = mig_on(&n, 3);
	(void)create_sim_instance(&n, d, 19, 0, &gi);
	ci = create_sim_instance(&n, d, 9, 1, &gi); /* two of its three slices */
	start_sim_monitor(&s);
	run_until(&s, s.inventories == 1);
	assert_true(s.inv->gpus[3].mig_enabled);
	assert_false(s.inv->gpus[3].mig_pending);
	assert_false(s.inv->gpus[2].mig_enabled);
	assert_int_equal(s.inv->n_mig, 2);
	for (uint32_t i = 0; i < 2; i++) {
		m = &s.inv->mig[i];
		assert_string_equal(m->reason, "");
		assert_int_equal(m->gpu, 3);
		assert_int_equal(m->index, i);
		assert_int_equal(strncmp(m->uuid, "MIG-", 4), 0);
		assert_true(m->has_minors);
		assert_int_equal(m->ci_minor, m->gi_minor + 1);
	}
	m = strcmp(s.inv->mig[0].profile, "1g.5gb") == 0 ? &s.inv->mig[1] : &s.inv->mig[0];
	assert_string_equal(m->profile, "2c.3g.20gb");
	assert_int_equal(m->memory_mib, 20096);
	assert_int_equal(m->gi_slices, 3);
	assert_int_equal(m->ci_slices, 2);
	assert_int_equal(m->multiprocessors, 28);

	/* The events come once the worker has registered them, right after the first probe. Without an
	 * interval nothing else starts another probe. */
	(void)count_calls_when_idle(&s);
	assert_int_equal(n.nvmlComputeInstanceDestroy(ci), NVML_SUCCESS);
	run_until(&s, s.inv->n_mig == 1);
	assert_string_equal(s.inv->mig[0].profile, "1g.5gb");
	(void)create_sim_instance(&n, d, 20, 0, &gi);
	run_until(&s, s.inv->n_mig == 2);
	assert_int_equal(s.downs, 0);
	other_nvml_end(&n);
	stop(&s);
}

/* docs/ states how many calls a probe makes on a full node. */
static void sim__probes_a_full_node_with_few_calls(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct nvml n;
	uint64_t whole, full;

	(void)state;
	SKIP_UNLESS(geteuid() == 0, "only root may change MIG");
	make_node("p4d.24xlarge");
	start_sim_monitor(&s);
	run_until(&s, s.inventories == 1);
	whole = count_calls_of_probe(&s);

	(void)other_nvml(&n, 0);
	for (uint32_t g = 0; g < 8; g++) {
		nvmlDevice_t d = mig_on(&n, g);
		nvmlGpuInstance_t gi;

		for (int i = 0; i < 7; i++)
			(void)create_sim_instance(&n, d, 19, 0, &gi);
	}
	other_nvml_end(&n);
	run_until(&s, s.inv->n_mig == 56);
	full = count_calls_of_probe(&s);
	print_message("# NVML calls of a look: %llu without MIG, %llu with 56 MIG devices\n",
		(unsigned long long)whole, (unsigned long long)full);
	/* handle, UUID and attributes of each device; some calls of the event thread may be among them */
	assert_in_range(full, whole + 3 * 56 - 4, whole + 3 * 56 + 4);
	assert_int_equal(s.inv->n_mig, 56);
	stop(&s);
}

/* The test prints a number and has no limit: the first probe has to fit into the start of the agent. */
static void sim__answers_fast(void **state)
{
	uint64_t best = UINT64_MAX;

	(void)state;
	make_node("p3.8xlarge");
	for (int i = 0; i < 20; i++) {
		CLEANUP(inventory_freep) struct inventory *inv = NULL;
		struct gpu_monitor_options o = make_sim_options();
		struct error err = ERROR_INIT;
		uint64_t t0 = time_mono_ns(), took;

		assert_ok(gpu_inventory_once(&inv, &o, &err), &err);
		took = time_mono_ns() - t0;
		best = took < best ? took : best;
		assert_int_equal(inv->n, 4);
	}
	print_message(
		"# one inventory of 4 GPUs, the start and end of the worker with it: %llu us\n",
		(unsigned long long)best / 1000);
	drop_node();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sim__shows_a_p3_8xlarge),
		cmocka_unit_test(sim__counts_no_links_into_switches),
		cmocka_unit_test(sim__contains_a_hanging_gpu),
		cmocka_unit_test(sim__follows_the_driver),
		cmocka_unit_test(sim__delivers_an_xid),
		cmocka_unit_test(sim__detects_a_lost_gpu_and_its_return),
		cmocka_unit_test(sim__receives_events_of_others_while_a_gpu_is_lost),
		cmocka_unit_test(sim__detects_added_and_removed_gpus),
		cmocka_unit_test(sim__shows_mig_devices_and_their_changes),
		cmocka_unit_test(sim__probes_a_full_node_with_few_calls),
		cmocka_unit_test(sim__answers_fast),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
