/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "io/nvml/monitor/monitor.h"
#include "unit/io/nvml/fake-nvml-env.h"
#include "monitor-env.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

static int set_up(void **state)
{
	(void)state;
	fake_nvml_begin();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake_nvml_end();
	return 0;
}

static struct gpu_monitor_options make_monitor_options(void)
{
	return (struct gpu_monitor_options){ .nvml_path = fake_nvml_lib,
		.sysfs_root = fake_nvml_dir,
		.worker_path = built_worker(),
		.call_timeout_ns = CALL_TIMEOUT_NS,
		.stuck_retry_ns = NS_PER_SEC };
}

/* --- a monitor on a loop --- */

static void run_for(struct monitor_watcher *s, uint64_t ns)
{
	uint64_t until = time_mono_ns() + ns;

	while (time_mono_ns() < until)
		(void)uv_run(&s->loop, UV_RUN_ONCE);
}

/* The state letter of the process /proc/NAME if it is a worker of this test; 0: it is not. */
static char worker_state(const char *name)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	char path[300], *end;
	uint64_t ppid = 0;
	char *state;

	(void)snprintf(path, sizeof path, "/proc/%s/stat", name);
	if (file_read(path, &b, NULL) < 0 || !strstr(buf_str(&b), " (gpuslice-nvml) "))
		return 0;
	state = strstr(b.data, ") ") + 2;
	end = strchr(state + 2, ' ');
	if (!end)
		return 0;
	*end = '\0';
	return parse_u64(state + 2, &ppid) && ppid == (uint64_t)getpid() ? *state : 0;
}

static bool is_worker(const char *name)
{
	char state = worker_state(name);

	return state != 0 && state != 'Z';
}

/* The worker's process id, by its parent and name; 0: none. */
static pid_t find_worker(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	uint64_t pid = 0;

	while (proc && pid == 0 && (e = readdir(proc))) {
		if (is_worker(e->d_name) && !parse_u64(e->d_name, &pid))
			pid = 0;
	}
	if (proc)
		(void)closedir(proc);
	return (pid_t)pid;
}

static void monitor__reports_the_inventory(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("gpus 3\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	assert_int_equal(s.inv->n, 3);
	assert_string_equal(s.inv->driver_version, "1.2.3");
	assert_string_equal(s.inv->gpus[2].uuid, "GPU-fake-2");
	assert_int_equal(inventory_link(s.inv, 0, 1).nvlinks, 2);
	assert_int_equal(inventory_link(s.inv, 0, 1).level, GPU_LEVEL_SAME_CPU);

	/* The links stay after the next probe, although the worker does not read them any more. */
	fake_nvml("gpus 3\nerror nvmlDeviceGetTopologyCommonAncestor -1 3\n");
	gpu_monitor_probe(s.m);
	run_until(&s, s.inventories == 2);
	assert_int_equal(inventory_link(s.inv, 0, 1).level, GPU_LEVEL_SAME_CPU);

	/* The monitor probes by its own clock. */
	gpu_monitor_set_interval(s.m, 20 * NS_PER_MS);
	run_until(&s, s.inventories >= 5);
	assert_int_equal(s.downs, 0);
	monitor_watcher_stop(&s);
	assert_int_equal(find_worker(), 0);
}

/* The loop continues while a probe takes longer than the interval between two probes. */
static void monitor__finishes_slow_probes_with_a_short_interval(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("gpus 1\nslow nvmlDeviceGetName 0 50\n");
	monitor_watcher_start(&s, &o);
	gpu_monitor_set_interval(s.m, NS_PER_MS);
	run_until(&s, s.inventories == 3);
	assert_int_equal(s.downs, 0);
	monitor_watcher_stop(&s);
}

static void monitor__contains_a_gpu_that_hangs(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();
	uint64_t t0;

	(void)state;
	fake_nvml("gpus 3\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);

	fake_nvml("gpus 3\nhang nvmlDeviceGetMemoryInfo_v2 1\n");
	t0 = time_mono_ns();
	gpu_monitor_probe(s.m);
	/* Reported at once with the last state of the other GPUs, then with their present state. */
	run_until(&s, s.inventories == 2);
	assert_in_range(time_mono_ns() - t0, CALL_TIMEOUT_NS, 10 * CALL_TIMEOUT_NS);
	assert_int_equal(s.inv->gpus[1].fault, GPU_FAULT_STUCK);
	assert_string_equal(s.inv->gpus[1].reason,
		"nvmlDeviceGetMemoryInfo_v2 did not come back in time");
	run_until(&s, s.inventories == 3);
	assert_int_equal(s.inv->n, 3);
	assert_int_equal(s.inv->gpus[0].fault, GPU_OK);
	assert_int_equal(s.inv->gpus[1].fault, GPU_FAULT_STUCK);
	assert_string_equal(s.inv->gpus[1].uuid, "GPU-fake-1");
	assert_int_equal(s.inv->gpus[2].fault, GPU_OK);

	/* Healthy again: the monitor notices at its next retry, without a request. */
	fake_nvml("gpus 3\n");
	run_until(&s, s.inv->gpus[1].fault == GPU_OK);
	assert_int_equal(s.downs, 0);
	monitor_watcher_stop(&s);
}

/* The monitor leaves a GPU that hung alone for an hour. A caller that knows the GPU answers again can end
 * that. */
static void monitor__probes_a_hanging_gpu_on_request(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	o.stuck_retry_ns = 3600 * NS_PER_SEC;
	fake_nvml("gpus 3\nhang nvmlDeviceGetMemoryInfo_v2 1\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	assert_int_equal(s.inv->gpus[1].fault, GPU_FAULT_STUCK);
	gpu_monitor_probe(s.m);
	run_until(&s, s.inventories == 2);
	assert_int_equal(s.inv->gpus[1].fault, GPU_FAULT_STUCK);

	fake_nvml("gpus 3\n");
	gpu_monitor_probe(s.m);
	run_until(&s, s.inventories == 3);
	assert_int_equal(s.inv->gpus[1].fault, GPU_FAULT_STUCK);
	gpu_monitor_probe_all(s.m);
	run_until(&s, s.inventories == 4);
	assert_int_equal(s.inv->gpus[1].fault, GPU_OK);
	assert_int_equal(s.downs, 0);
	monitor_watcher_stop(&s);
}

static void monitor__starts_with_a_gpu_that_hangs(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml(
		"gpus 3\nhang nvmlDeviceGetUUID 0\nhang nvmlDeviceGetTopologyCommonAncestor 1\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	assert_int_equal(s.inv->n, 3);
	assert_int_equal(s.inv->gpus[0].fault, GPU_FAULT_STUCK);
	assert_string_equal(s.inv->gpus[0].uuid, "");
	assert_int_equal(s.inv->gpus[1].fault, GPU_FAULT_STUCK);
	assert_int_equal(s.inv->gpus[2].fault, GPU_OK);
	monitor_watcher_stop(&s);
}

static void monitor__contains_a_gpu_with_slow_calls(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("gpus 2\nslow * 1 250\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	assert_int_equal(s.inv->gpus[0].fault, GPU_OK);
	assert_int_equal(s.inv->gpus[1].fault, GPU_FAULT_STUCK);
	assert_non_null(strstr(s.inv->gpus[1].reason, "its calls take more than 1"));
	monitor_watcher_stop(&s);
}

static void monitor__contains_a_gpu_whose_events_hang(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("gpus 2\nhang nvmlDeviceRegisterEvents 1\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories >= 1 && s.inv->gpus[1].fault == GPU_FAULT_STUCK);
	assert_string_equal(s.inv->gpus[1].reason,
		"nvmlDeviceRegisterEvents did not come back in time");
	assert_int_equal(s.inv->gpus[0].fault, GPU_OK);
	assert_int_equal(s.downs, 0);
	monitor_watcher_stop(&s);
}

static void monitor__contains_a_gpu_that_crashes_nvml(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("gpus 3\ncrash nvmlDeviceGetName 2\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	assert_int_equal(s.inv->gpus[0].fault, GPU_OK);
	assert_int_equal(s.inv->gpus[2].fault, GPU_FAULT_STUCK);
	assert_non_null(
		strstr(s.inv->gpus[2].reason, "signal 6 (Aborted) in nvmlDeviceGetName"));
	assert_int_equal(s.downs, 0);
	monitor_watcher_stop(&s);
}

static void monitor__is_down_with_nvml(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("crash nvmlInit_v2 -1\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.downs == 1);
	assert_non_null(strstr(s.down.msg, "signal 6 (Aborted) in nvmlInit_v2"));
	fake_nvml("hang nvmlInit_v2 -1\n");
	run_until(&s, s.downs == 2);
	run_until(&s, strstr(s.down.msg, "nvmlInit_v2 did not come back in time"));
	assert_int_equal(s.inventories, 0);
	fake_nvml("gpus 1\n");
	run_until(&s, s.inventories == 1);
	monitor_watcher_stop(&s);
}

static void monitor__waits_for_a_driver_to_come_and_go(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("error nvmlInit_v2 -1 9\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.downs == 1);
	assert_non_null(strstr(s.down.msg, "the NVIDIA kernel module is not loaded"));
	assert_int_equal(s.down.code, ERR_UNAVAILABLE);
	run_until(&s, s.downs == 2); /* the monitor reports each time */
	assert_false(s.mismatch);
	fake_nvml("error nvmlInit_v2 -1 18\n");
	run_until(&s, s.mismatch);
	s.downs = 2;
	fake_nvml("gpus 1\n");
	run_until(&s, s.inventories == 1);

	fake_nvml("error nvmlDeviceGetCount_v2 -1 1\n");
	gpu_monitor_probe(s.m);
	run_until(&s, s.downs == 3);
	fake_nvml("gpus 2\n");
	gpu_monitor_probe(s.m); /* does not wait for the back-off */
	run_until(&s, s.inventories == 2);
	assert_int_equal(s.inv->n, 2);
	monitor_watcher_stop(&s);
}

static void monitor__is_down_without_library_or_worker(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	o.nvml_path = "/nonexistent/libnvidia-ml.so.1";
	monitor_watcher_start(&s, &o);
	run_until(&s, s.downs == 1);
	assert_int_equal(s.down.code, ERR_NOT_FOUND);
	assert_non_null(strstr(s.down.msg, "open NVML library '/nonexistent/"));
	monitor_watcher_stop(&s);

	s = (struct monitor_watcher){ .m = NULL };
	o = make_monitor_options();
	o.worker_path = "/nonexistent/worker";
	monitor_watcher_start(&s, &o);
	run_until(&s, s.downs == 1);
	assert_non_null(strstr(s.down.msg, "start '/nonexistent/worker': No such file"));
	monitor_watcher_stop(&s);
}

static void monitor__survives_the_killing_of_its_worker(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("gpus 2\n");
	monitor_watcher_start(&s, &o);
	for (int i = 1; i <= 5; i++) {
		pid_t pid;

		run_until(&s, s.inventories == i);
		pid = find_worker();
		assert_true(pid > 0);
		assert_int_equal(kill(pid, SIGKILL), 0);
	}
	run_until(&s, s.inventories == 6);
	assert_int_equal(s.downs, 0);
	monitor_watcher_stop(&s);
}

static void monitor__notices_a_stopped_worker(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();
	char name[16];
	pid_t pid;

	(void)state;
	fake_nvml("gpus 2\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	pid = find_worker();
	assert_true(pid > 0);
	(void)snprintf(name, sizeof name, "%d", (int)pid);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	run_until(&s, worker_state(name) == 'T');
	gpu_monitor_probe(s.m);
	run_until(&s, s.inventories == 2);
	/* The old worker may still be about to exit. */
	run_until(&s, find_worker() != pid);
	monitor_watcher_stop(&s);
}

static void monitor__delivers_xids(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("gpus 2\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	fake_nvml("gpus 2\nxid 1 1 79 0 0\n");
	run_until(&s, s.xids == 1);
	assert_string_equal(s.uuid, "GPU-fake-1");
	assert_int_equal(s.xid, 79);
	assert_int_equal(s.gi, UINT32_MAX); /* not a MIG GPU, whatever the driver writes */
	assert_int_equal(s.ci, UINT32_MAX);
	fake_nvml("gpus 2\nxid 2 7 48 3 4\n"); /* of an unknown GPU */
	run_until(&s, s.xids == 2);
	assert_string_equal(s.uuid, "");
	assert_int_equal(s.gi, 3);
	run_until(&s, s.inventories == 2); /* a probe may report which GPU it was */
	monitor_watcher_stop(&s);
}

static void monitor__probes_when_the_event_thread_finds_a_lost_gpu(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("gpus 2\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	/* No caller requests a probe. */
	fake_nvml("gpus 2\nerror nvmlEventSetWait_v2 -1 15\nerror nvmlDeviceGetUUID 1 15\n");
	run_until(&s, s.inventories >= 2);
	assert_int_equal(s.inv->gpus[1].fault, GPU_FAULT_LOST);
	assert_string_equal(s.inv->gpus[1].uuid, "GPU-fake-1");
	assert_string_equal(s.inv->gpus[1].reason, "nvmlDeviceGetUUID: GPU is lost");
	assert_int_equal(s.inv->gpus[0].fault, GPU_OK);

	/* The GPU is back: the next probe runs in a new session. */
	fake_nvml("gpus 2\nfixed\n");
	s.inventories = 0;
	gpu_monitor_probe(s.m);
	run_until(&s, s.inventories >= 1 && s.inv->gpus[1].fault == GPU_OK);
	assert_int_equal(s.downs, 0);
	monitor_watcher_stop(&s);
}

static void monitor__reports_refused_events(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("gpus 2\nerror nvmlDeviceRegisterEvents 1 3\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories >= 1 && !s.inv->gpus[1].xid_events);
	assert_true(s.inv->gpus[0].xid_events);
	assert_int_equal(s.inv->gpus[1].fault, GPU_OK);
	/* The state stays with each probe, until the driver does not refuse the GPUs any more. */
	for (uint32_t i = 0; i < 4; i++) {
		int before = s.inventories;

		gpu_monitor_probe(s.m);
		run_until(&s, s.inventories > before);
		assert_false(s.inv->gpus[1].xid_events);
		assert_true(s.inv->gpus[0].xid_events);
	}
	fake_nvml("gpus 2\n");
	gpu_monitor_probe(s.m);
	run_until(&s, s.inv->gpus[1].xid_events);
	monitor_watcher_stop(&s);
}

static void monitor__detects_added_and_removed_gpus(void **state)
{
	struct error err = ERROR_INIT;
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();
	char path[PATH_MAX];

	(void)state;
	/* The library has the list of its init, as the real one; sysfs shows the change. */
	(void)snprintf(path, sizeof path, "%s/bus/pci/drivers/nvidia", fake_nvml_dir);
	assert_ok(dir_make(path, 0755, &err), &err);
	fake_nvml("gpus 1\nfixed\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	assert_int_equal(s.inv->n, 1);
	fake_nvml("gpus 2\nfixed\n");
	gpu_monitor_probe(s.m);
	run_until(&s, s.inventories == 2);
	assert_int_equal(s.inv->n, 1);
	(void)snprintf(path, sizeof path, "%s/bus/pci/drivers/nvidia/0000:00:1e.0",
		fake_nvml_dir);
	assert_ok(file_write_atomic(path, "", 0, 0644, &err), &err);
	gpu_monitor_probe(s.m);
	run_until(&s, s.inventories == 3);
	assert_int_equal(s.inv->n, 2);
	assert_int_equal(unlink(path), 0);
	fake_nvml("gpus 0\nfixed\n");
	gpu_monitor_probe(s.m);
	run_until(&s, s.inventories == 4);
	assert_int_equal(s.inv->n, 0);
	assert_int_equal(s.downs, 0);
	monitor_watcher_stop(&s);
}

static void monitor__has_no_device_open_when_released(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();

	(void)state;
	fake_nvml("gpus 2\n");
	monitor_watcher_start(&s, &o);
	gpu_monitor_set_interval(s.m, 10 * NS_PER_MS);
	s.release_in_callback = true;
	run_until(&s, s.inventories == 1);
	s.release_in_callback = false;
	run_until(&s, gpu_monitor_released(s.m));
	assert_int_equal(find_worker(), 0);
	run_for(&s, 100 * NS_PER_MS); /* the interval does not start it */
	assert_int_equal(find_worker(), 0);
	assert_int_equal(s.inventories, 1);
	gpu_monitor_probe(s.m);
	run_until(&s, s.inventories >= 3);
	s.stop_in_callback = true;
	run_until(&s, !s.m);
	monitor_watcher_stop(&s);
}

/* --- once --- */

static void probe_once__contains_hangs_and_crashes(void **state)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct gpu_monitor_options o = make_monitor_options();
	struct error err = ERROR_INIT;

	(void)state;
	fake_nvml("gpus 4\nhang nvmlDeviceGetName 1\ncrash nvmlDeviceGetName 2\n");
	assert_ok(gpu_inventory_once(&inv, &o, &err), &err);
	assert_int_equal(inv->n, 4);
	assert_int_equal(inv->gpus[0].fault, GPU_OK);
	assert_int_equal(inv->gpus[1].fault, GPU_FAULT_STUCK);
	assert_int_equal(inv->gpus[2].fault, GPU_FAULT_STUCK);
	assert_int_equal(inv->gpus[3].fault, GPU_OK);
	assert_int_equal(find_worker(), 0);
}

static void probe_once__reports_errors(void **state)
{
	struct gpu_monitor_options o = make_monitor_options();
	struct error err = ERROR_INIT;
	struct inventory *inv = NULL;

	(void)state;
	fake_nvml("error nvmlInit_v2 -1 18\n");
	assert_error(gpu_inventory_once(&inv, &o, &err), &err, "reload the module or reboot");
	fake_nvml("crash nvmlInit_v2 -1\n");
	assert_error(gpu_inventory_once(&inv, &o, &err), &err, "Aborted) in nvmlInit_v2");
	o.call_timeout_ns = 20 * NS_PER_MS;
	fake_nvml("hang nvmlInit_v2 -1\n");
	assert_error(gpu_inventory_once(&inv, &o, &err), &err, "nvmlInit_v2 did not come back");
	o.worker_path = "/nonexistent/worker";
	assert_error(gpu_inventory_once(&inv, &o, &err), &err, "start '/nonexistent/worker'");
	assert_null(inv);
}

/* --- processes on the GPUs --- */

struct processes_reply {
	int times;
	bool failed;
	uint32_t n;
	bool known[4];
	char reason[4][GPU_REASON_MAX];
	uint32_t n_processes[4];
	struct gpu_process v[4][8];
};

static void on_processes(void *arg, const struct gpu_processes *list, uint32_t n,
	const struct error *err)
{
	struct processes_reply *t = arg;

	t->times++;
	t->failed = err != NULL;
	t->n = n;
	for (uint32_t i = 0; list && i < n && i < 4; i++) {
		t->known[i] = list[i].known;
		memcpy(t->reason[i], list[i].reason, sizeof t->reason[i]);
		t->n_processes[i] = list[i].n;
		for (uint32_t k = 0; k < list[i].n && k < 8; k++)
			t->v[i][k] = list[i].v[k];
	}
}

static void request_processes(struct monitor_watcher *s, const char *const *uuids, uint32_t n,
	struct processes_reply *t)
{
	struct error err = ERROR_INIT;

	*t = (struct processes_reply){ .times = 0 };
	assert_ok(gpu_monitor_processes(s->m, uuids, n, on_processes, t, &err), &err);
	run_until(s, t->times == 1);
}

static void monitor__reports_the_processes_of_a_gpu(void **state)
{
	static const char *const uuids[] = { "gpu-fake-1", "GPU-fake-0", "GPU-nobody" };
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();
	struct processes_reply t;

	(void)state;
	fake_nvml("gpus 2\nprocess compute 0 11 100 -1 -1\nprocess graphics 0 11 300 -1 -1\n"
		  "process compute 0 12 -1 -1 -1\nprocess graphics 0 13 5 -1 -1\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	request_processes(&s, uuids, 3, &t);
	assert_int_equal(t.n, 3);
	/* No process is an answer, too; an unknown GPU is another one. */
	assert_true(t.known[0] && t.n_processes[0] == 0);
	assert_false(t.known[2]);
	assert_string_equal(t.reason[2], "there is no such GPU");
	/* A process in both lists is listed once, with the larger figure. */
	assert_true(t.known[1]);
	assert_int_equal(t.n_processes[1], 3);
	assert_int_equal(t.v[1][0].pid, 11);
	assert_true(t.v[1][0].bytes == UINT64_C(300) << 20);
	assert_int_equal(t.v[1][1].pid, 12);
	assert_true(t.v[1][1].bytes == GPU_BYTES_UNKNOWN);
	assert_int_equal(t.v[1][2].pid, 13);

	/* The monitor asks the driver for each answer. */
	fake_nvml("gpus 2\nprocess compute 1 14 1 -1 -1\n"
		  "error nvmlDeviceGetComputeRunningProcesses_v3 0 999\n");
	request_processes(&s, uuids, 2, &t);
	assert_int_equal(t.n_processes[0], 1);
	assert_false(t.known[1]);
	assert_string_equal(t.reason[1], "nvmlDeviceGetComputeRunningProcesses_v3: error 999");
	monitor_watcher_stop(&s);
}

static void monitor__reports_the_processes_of_a_mig_device(void **state)
{
	static const char *const uuids[] = { "MIG-fake-0-7-0", "MIG-fake-0-8-0", "GPU-fake-0" };
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();
	struct processes_reply t;

	(void)state;
	fake_nvml("gpus 1\nmemory 40960\nmigmode 0 1\nmig 0 0 7 0 19 1\nmig 0 1 8 0 19 1\n"
		  "process compute 0 11 100 7 0\nprocess compute 0 11 200 8 0\n"
		  "process compute 0 12 300 8 0\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	request_processes(&s, uuids, 3, &t);
	assert_int_equal(t.n_processes[0], 1);
	assert_true(t.v[0][0].pid == 11 && t.v[0][0].bytes == UINT64_C(100) << 20);
	assert_int_equal(t.n_processes[1], 2);
	assert_true(t.v[1][0].pid == 11 && t.v[1][0].bytes == UINT64_C(200) << 20);
	assert_int_equal(t.n_processes[2], 3);
	monitor_watcher_stop(&s);
}

/* A GPU that hangs in this call is treated as in a probe, and the caller gets the error. */
static void monitor__reports_a_gpu_that_hangs_while_it_lists_processes(void **state)
{
	static const char *const uuids[] = { "GPU-fake-0", "GPU-fake-1" };
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();
	struct processes_reply t;

	(void)state;
	fake_nvml("gpus 2\n");
	monitor_watcher_start(&s, &o);
	run_until(&s, s.inventories == 1);
	fake_nvml("gpus 2\nhang nvmlDeviceGetComputeRunningProcesses_v3 1\n");
	request_processes(&s, uuids, 2, &t);
	assert_true(t.failed);
	run_until(&s, s.inventories >= 2 && s.inv->gpus[1].fault == GPU_FAULT_STUCK);
	/* The other GPU still answers. */
	run_until(&s, s.inventories >= 3);
	request_processes(&s, uuids, 2, &t);
	assert_true(!t.failed && t.known[0] && !t.known[1]);
	assert_string_equal(t.reason[1], "it cannot be asked now");
	monitor_watcher_stop(&s);
}

/* The caller gets an error at once before the first probe or without the worker, and no callback later. */
static void monitor__refuses_requests_without_a_worker(void **state)
{
	static const char *const uuids[] = { "GPU-fake-0" };
	struct monitor_watcher s = { .m = NULL };
	struct gpu_monitor_options o = make_monitor_options();
	struct error err = ERROR_INIT;
	struct processes_reply t = { .times = 0 };

	(void)state;
	fake_nvml("gpus 1\n");
	monitor_watcher_start(&s, &o);
	assert_error(gpu_monitor_processes(s.m, uuids, 1, on_processes, &t, &err), &err,
		"NVML cannot be asked now");
	run_until(&s, s.inventories == 1);
	error_clear(&err);
	assert_ok(gpu_monitor_processes(s.m, uuids, 1, on_processes, &t, &err), &err);
	monitor_watcher_stop(&s); /* with the request under way */
	assert_int_equal(t.times, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(monitor__reports_the_inventory),
		cmocka_unit_test(monitor__finishes_slow_probes_with_a_short_interval),
		cmocka_unit_test(monitor__contains_a_gpu_that_hangs),
		cmocka_unit_test(monitor__probes_a_hanging_gpu_on_request),
		cmocka_unit_test(monitor__reports_the_processes_of_a_gpu),
		cmocka_unit_test(monitor__reports_the_processes_of_a_mig_device),
		cmocka_unit_test(monitor__reports_a_gpu_that_hangs_while_it_lists_processes),
		cmocka_unit_test(monitor__refuses_requests_without_a_worker),
		cmocka_unit_test(monitor__starts_with_a_gpu_that_hangs),
		cmocka_unit_test(monitor__contains_a_gpu_with_slow_calls),
		cmocka_unit_test(monitor__contains_a_gpu_whose_events_hang),
		cmocka_unit_test(monitor__contains_a_gpu_that_crashes_nvml),
		cmocka_unit_test(monitor__is_down_with_nvml),
		cmocka_unit_test(monitor__waits_for_a_driver_to_come_and_go),
		cmocka_unit_test(monitor__is_down_without_library_or_worker),
		cmocka_unit_test(monitor__survives_the_killing_of_its_worker),
		cmocka_unit_test(monitor__notices_a_stopped_worker),
		cmocka_unit_test(monitor__delivers_xids),
		cmocka_unit_test(monitor__probes_when_the_event_thread_finds_a_lost_gpu),
		cmocka_unit_test(monitor__reports_refused_events),
		cmocka_unit_test(monitor__detects_added_and_removed_gpus),
		cmocka_unit_test(monitor__has_no_device_open_when_released),
		cmocka_unit_test(probe_once__contains_hangs_and_crashes),
		cmocka_unit_test(probe_once__reports_errors),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
