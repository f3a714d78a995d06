/* SPDX-License-Identifier: Apache-2.0 */

/* The simulated GPUs' daemon, as processes of a node meet it: memory, streams, death. */
#include "unit/testbed/sim/sim-fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "testbed/sim/device/client/client.h"

#define MIB               (UINT64_C(1) << 20)
#define CONTEXT           (518 * MIB) /* of a process's first, as measured on an H100 */
#define DAEMON_TIMEOUT_NS (20 * NS_PER_SEC)
#define SLOT_MISS         200

#define BELOW_BASE 11 /* NVML_PERF_POLICY_TOTAL_BASE_CLOCKS */

static struct sim_fixture f;
static struct sim_device d = SIM_DEVICE_INIT;

static int begin(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(setenv(SIM_ENV_GPU, TEST_SIM_GPU, 1), 0);
	sim_fixture_begin(&f, "p5.48xlarge");
	assert_ok(sim_device_connect(&d, f.dir, NULL, &err), &err);
	return 0;
}

/* A node whose GPUs no program has used yet. */
static int begin_unused_node(void **state)
{
	(void)state;
	assert_int_equal(setenv(SIM_ENV_GPU, TEST_SIM_GPU, 1), 0);
	sim_fixture_begin(&f, "p5.48xlarge");
	return 0;
}

static int end(void **state)
{
	(void)state;
	sim_device_close(&d);
	sim_fixture_end(&f);
	return 0;
}

/* Requests. */

static uint32_t call_test_daemon(struct sim_device *to, struct sim_device_request q,
	struct sim_device_reply *r)
{
	return sim_device_call(to, &q, r, -1, NULL);
}

static uint32_t new_context(struct sim_device *to, uint32_t slot)
{
	struct sim_device_reply r;

	assert_int_equal(call_test_daemon(to,
				 (struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_CREATE,
					 .slot = slot },
				 &r),
		0);
	return r.object;
}

static uint32_t new_stream(struct sim_device *to, uint32_t context)
{
	struct sim_device_reply r;

	assert_int_equal(call_test_daemon(to,
				 (struct sim_device_request){ .op = SIM_DEVICE_STREAM_CREATE,
					 .object = context },
				 &r),
		0);
	return r.object;
}

static uint32_t allocate(struct sim_device *to, uint32_t slot, uint64_t bytes,
	struct sim_device_reply *r, int *fd)
{
	struct sim_device_request q = { .op = SIM_DEVICE_MEM_ALLOC,
		.slot = slot,
		.bytes = bytes };

	return sim_device_call(to, &q, r, -1, fd);
}

static uint32_t release(struct sim_device *to, uint64_t id)
{
	struct sim_device_reply r;

	return call_test_daemon(to,
		(struct sim_device_request){ .op = SIM_DEVICE_MEM_RELEASE, .id = id }, &r);
}

static bool wait_stream(struct sim_device *to, uint32_t stream, uint64_t seq)
{
	struct sim_device_stream_cell *cell = &to->page->streams[stream];

	return sim_device_wait(to, &cell->completed, &cell->waiters, seq,
		time_mono_ns() + DAEMON_TIMEOUT_NS);
}

/* What NVML says that @pid holds; UINT64_MAX: it is not listed. */
static uint64_t nvml_bytes(unsigned int gpu, pid_t pid)
{
	nvmlProcessInfo_t rows[SIM_MAX_PROCESSES];
	unsigned int n = SIM_MAX_PROCESSES;

	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(f.gpus[gpu], &n, rows),
		NVML_SUCCESS);
	for (unsigned int i = 0; i < n; i++)
		if (rows[i].pid == (unsigned int)pid)
			return rows[i].usedGpuMemory;
	return UINT64_MAX;
}

static uint64_t nvml_used(unsigned int gpu)
{
	nvmlMemory_v2_t m = { .version = NVML_STRUCT_VERSION(m, 2) };

	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(f.gpus[gpu], &m), NVML_SUCCESS);
	return m.used;
}

static uint64_t cuda_free(struct sim_device *to, uint32_t slot, uint64_t *total)
{
	struct sim_device_reply r;

	assert_int_equal(
		call_test_daemon(to,
			(struct sim_device_request){ .op = SIM_DEVICE_MEM_INFO, .slot = slot },
			&r),
		0);
	*total = r.total;
	return r.bytes;
}

/* Memory. */

static void memory__shows_in_nvml_at_once(void **state)
{
	uint64_t total, nothing = cuda_free(&d, 0, &total);
	nvmlMemory_v2_t m = { .version = NVML_STRUCT_VERSION(m, 2) };
	struct sim_device_reply r;
	uint32_t context;

	(void)state;
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(f.gpus[0], &m), NVML_SUCCESS);
	assert_int_equal(total, m.total - m.reserved);
	assert_int_equal(nothing, total);
	assert_int_equal(nvml_bytes(0, getpid()), UINT64_MAX);
	context = new_context(&d, 0);
	assert_int_equal(nvml_bytes(0, getpid()), CONTEXT);
	assert_int_equal(allocate(&d, 0, 3 * MIB, &r, NULL), 0);
	assert_int_equal(r.bytes, 4 * MIB);
	assert_int_equal(nvml_bytes(0, getpid()), CONTEXT + 4 * MIB);
	assert_int_equal(nvml_used(0), CONTEXT + 4 * MIB);
	assert_int_equal(cuda_free(&d, 0, &total), total - CONTEXT - 4 * MIB);
	assert_int_equal(nvml_bytes(1, getpid()), UINT64_MAX);
	assert_int_equal(release(&d, r.id), 0);
	assert_int_equal(nvml_bytes(0, getpid()), CONTEXT);
	assert_int_equal(release(&d, r.id), 400);
	assert_int_equal(call_test_daemon(&d,
				 (struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_DESTROY,
					 .object = context },
				 &r),
		0);
	assert_int_equal(nvml_bytes(0, getpid()), UINT64_MAX);
	assert_int_equal(nvml_used(0), 0);
}

static void memory__ends(void **state)
{
	uint64_t total, left = cuda_free(&d, 0, &total);
	struct sim_device_reply r;

	(void)state;
	assert_int_equal(allocate(&d, 0, left + 1, &r, NULL), 2);
	assert_int_equal(allocate(&d, 0, left - 2 * MIB, &r, NULL), 0);
	assert_int_equal(allocate(&d, 0, 4 * MIB, &r, NULL), 2);
	assert_int_equal(allocate(&d, 0, 0, &r, NULL), 1);
	assert_int_equal(allocate(&d, 0, UINT64_MAX, &r, NULL), 2);
	assert_int_equal(allocate(&d, SLOT_MISS, 1, &r, NULL), 101);
	assert_int_equal(allocate(&d, 1, 1, &r, NULL), 0); /* another GPU */
}

static void stack__takes_memory(void **state)
{
	uint32_t context = new_context(&d, 0);
	struct sim_device_request q = { .op = SIM_DEVICE_CONTEXT_STACK,
		.object = context,
		.bytes = 16384 };
	struct sim_device_reply r;

	(void)state;
	assert_int_equal(sim_device_call(&d, &q, &r, -1, NULL), 0);
	/* 15 KiB more for each of 132 x 2048 threads. */
	assert_int_equal(nvml_bytes(0, getpid()), CONTEXT + 15360ULL * 132 * 2048);
	q.bytes = 512 << 10;
	assert_int_equal(sim_device_call(&d, &q, &r, -1, NULL), 2);
	q.bytes = 1024;
	assert_int_equal(sim_device_call(&d, &q, &r, -1, NULL), 0);
	assert_int_equal(nvml_bytes(0, getpid()), CONTEXT);
	/* A second context of the process takes less than the first. */
	(void)new_context(&d, 0);
	assert_int_equal(nvml_bytes(0, getpid()), CONTEXT + (264 + 32) * MIB);
}

static void managed_memory__is_not_shown(void **state)
{
	struct sim_device_request q = { .op = SIM_DEVICE_MEM_ALLOC,
		.bytes = 10 * MIB,
		.flags = SIM_DEVICE_MEM_MANAGED };
	struct sim_device_reply r;

	(void)state;
	(void)new_context(&d, 0);
	assert_int_equal(sim_device_call(&d, &q, &r, -1, NULL), 0);
	assert_int_equal(nvml_bytes(0, getpid()), CONTEXT);
	assert_int_equal(release(&d, r.id), 0);
	assert_int_equal(nvml_bytes(0, getpid()), CONTEXT);
}

static char *map(int fd, size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* Two processes: the second one is a second connection, which the daemon cannot tell. */
static void memory__is_shared_by_descriptor(void **state)
{
	struct sim_device other = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	struct sim_device_request q = { .op = SIM_DEVICE_MEM_EXPORT };
	struct sim_device_reply r;
	int fd, shared, fd_of_other;
	char *a, *b;
	uint64_t id;

	(void)state;
	assert_ok(sim_device_connect(&other, f.dir, NULL, &err), &err);
	assert_int_equal(allocate(&d, 0, 2 * MIB, &r, &fd), 0);
	id = q.id = r.id;
	assert_int_equal(sim_device_call(&d, &q, &r, -1, &shared), 0);
	q = (struct sim_device_request){ .op = SIM_DEVICE_MEM_IMPORT };
	assert_int_equal(sim_device_call(&other, &q, &r, shared, &fd_of_other), 0);
	assert_int_equal(r.id, id);
	assert_int_equal(r.bytes, 2 * MIB);
	a = map(fd, 2 * MIB);
	b = map(fd_of_other, 2 * MIB);
	memcpy(a + MIB, "hello", 6);
	assert_string_equal(b + MIB, "hello");
	assert_int_equal(nvml_used(0), 2 * MIB);
	/* The memory lives as long as any process has it, or a descriptor of it. */
	assert_int_equal(release(&d, id), 0);
	assert_int_equal(nvml_used(0), 2 * MIB);
	assert_int_equal(release(&other, id), 0);
	assert_int_equal(nvml_used(0), 2 * MIB);
	assert_int_equal(nvml_bytes(0, getpid()), 0);
	(void)close(shared);
	for (int i = 0; i < 2000 && nvml_used(0); i++)
		(void)usleep(1000);
	assert_int_equal(nvml_used(0), 0);
	/* Something else than what was exported is refused. */
	assert_int_equal(sim_device_call(&other, &q, &r, fd, NULL), 400);
	assert_int_equal(sim_device_call(&other, &q, &r, -1, NULL), 400);
	(void)munmap(a, 2 * MIB);
	(void)munmap(b, 2 * MIB);
	(void)close(fd);
	(void)close(fd_of_other);
	sim_device_close(&other);
}

static void memory__is_opened_by_id_and_cookie(void **state)
{
	struct sim_device other = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	struct sim_device_request q = { .op = SIM_DEVICE_MEM_OPEN };
	struct sim_device_reply r;

	(void)state;
	assert_ok(sim_device_connect(&other, f.dir, NULL, &err), &err);
	assert_int_equal(allocate(&d, 0, 2 * MIB, &r, NULL), 0);
	q.id = r.id;
	q.cookie = r.cookie + 1;
	assert_int_equal(sim_device_call(&other, &q, &r, -1, NULL), 400);
	q.cookie--;
	assert_int_equal(sim_device_call(&other, &q, &r, -1, NULL), 0);
	assert_int_equal(release(&d, q.id), 0);
	assert_int_equal(nvml_used(0), 2 * MIB);
	sim_device_close(&other);
	for (int i = 0; i < 2000 && nvml_used(0); i++)
		(void)usleep(1000);
	assert_int_equal(nvml_used(0), 0);
}

/* Streams. */

static void stream__tells_through_the_page(void **state)
{
	uint32_t stream = new_stream(&d, new_context(&d, 0));
	const struct sim_device_command work[] = {
		{ .kind = SIM_DEVICE_KERNEL, .stream = stream, .seq = 1, .amount = NS_PER_MS },
		{ .kind = SIM_DEVICE_HOST, .stream = stream, .seq = 2 },
		{ .kind = SIM_DEVICE_COPY, .stream = stream, .seq = 3, .amount = MIB },
	};
	uint64_t start = time_mono_ns();
	uint32_t word = atomic_load(&d.page->host_word);

	(void)state;
	assert_true(sim_device_submit(&d, work, ARRAY_LEN(work)));
	assert_true(wait_stream(&d, stream, 1));
	assert_true(time_mono_ns() - start >= NS_PER_MS);
	sim_device_wait_host(&d, word, time_mono_ns() + DAEMON_TIMEOUT_NS);
	assert_int_equal(atomic_load(&d.page->streams[stream].host_seq), 2);
	assert_int_equal(atomic_load(&d.page->streams[stream].completed), 1);
	assert_true(sim_device_host_done(&d, stream, 2));
	assert_true(wait_stream(&d, stream, 3));
	assert_int_equal(atomic_load(&d.page->contexts[0].busy_ns), NS_PER_MS);
}

static void event__has_the_time(void **state)
{
	struct sim_device other = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	uint32_t stream = new_stream(&d, new_context(&d, 0)), theirs;
	struct sim_device_reply first, second, r;
	struct sim_device_event_cell *cell;

	(void)state;
	assert_ok(sim_device_connect(&other, f.dir, NULL, &err), &err);
	assert_int_equal(call_test_daemon(&d,
				 (struct sim_device_request){ .op = SIM_DEVICE_EVENT_CREATE },
				 &first),
		0);
	assert_int_equal(call_test_daemon(&d,
				 (struct sim_device_request){ .op = SIM_DEVICE_EVENT_CREATE },
				 &second),
		0);
	assert_int_equal(call_test_daemon(&other,
				 (struct sim_device_request){ .op = SIM_DEVICE_EVENT_OPEN,
					 .id = second.id,
					 .cookie = second.cookie },
				 &r),
		0);
	theirs = r.object;
	assert_true(sim_device_submit(&d,
		(const struct sim_device_command[]){
			{ .kind = SIM_DEVICE_RECORD,
				.stream = stream,
				.seq = 1,
				.object = first.object },
			{ .kind = SIM_DEVICE_KERNEL,
				.stream = stream,
				.seq = 2,
				.amount = 3 * NS_PER_MS },
			{ .kind = SIM_DEVICE_RECORD,
				.stream = stream,
				.seq = 3,
				.object = second.object },
		},
		3));
	/* The other process waits for it too, by its own place. */
	cell = &other.page->events[theirs];
	assert_true(sim_device_wait(&other, &cell->completed, &cell->waiters, 1,
		time_mono_ns() + DAEMON_TIMEOUT_NS));
	assert_int_equal(cell->recorded, 1);
	assert_int_equal(cell->time_ns - d.page->events[first.object].time_ns, 3 * NS_PER_MS);
	sim_device_close(&other);
}

static void a_busy_process__shows_in_nvml(void **state)
{
	uint32_t stream = new_stream(&d, new_context(&d, 0));
	struct sim_device_command c = { .kind = SIM_DEVICE_KERNEL,
		.stream = stream,
		.seq = 1,
		.amount = 3 * NS_PER_SEC };
	nvmlUtilization_t u = { .gpu = 0 };

	(void)state;
	assert_true(sim_device_submit(&d, &c, 1));
	for (int i = 0; i < 2500 && u.gpu < 90; i++) {
		(void)usleep(1000);
		assert_int_equal(nvmlDeviceGetUtilizationRates(f.gpus[0], &u), NVML_SUCCESS);
	}
	assert_in_range(u.gpu, 90, 100);
	assert_true(wait_stream(&d, stream, 1));
	for (int i = 0; i < 10000 && u.gpu; i++) {
		(void)usleep(1000);
		assert_int_equal(nvmlDeviceGetUtilizationRates(f.gpus[0], &u), NVML_SUCCESS);
	}
	assert_int_equal(u.gpu, 0);
}

static uint64_t below_base_ns(void)
{
	nvmlViolationTime_t t = { 0 };

	assert_int_equal(nvmlDeviceGetViolationStatus(f.gpus[0], BELOW_BASE, &t), NVML_SUCCESS);
	return t.violationTime;
}

/* A host that does not let the GPU run in time makes it slow, and NVML says so. */
static void lateness__shows_as_time_below_base_clocks(void **state)
{
	uint32_t stream = new_stream(&d, new_context(&d, 0));
	struct sim_device_command c = { .kind = SIM_DEVICE_KERNEL,
		.stream = stream,
		.seq = 1,
		.amount = NS_PER_SEC };
	struct sim_device_reply r;
	struct ucred peer;
	socklen_t len = sizeof(peer);
	uint64_t before = below_base_ns(), due, until;

	(void)state;
	assert_int_equal(getsockopt(d.fd, SOL_SOCKET, SO_PEERCRED, &peer, &len), 0);
	assert_true(sim_device_submit(&d, &c, 1));
	/* An answer comes after what was submitted before has begun. */
	assert_int_equal(allocate(&d, 0, 1, &r, NULL), 0);
	due = time_mono_ns() + c.amount;
	assert_int_equal(kill(peer.pid, SIGSTOP), 0);
	while (time_mono_ns() < due + 100 * NS_PER_MS)
		(void)usleep(1000);
	assert_int_equal(kill(peer.pid, SIGCONT), 0);
	assert_true(wait_stream(&d, stream, 1));
	until = time_mono_ns() + DAEMON_TIMEOUT_NS;
	while (below_base_ns() - before < 90 * NS_PER_MS && time_mono_ns() < until)
		(void)usleep(1000);
	assert_true(below_base_ns() - before >= 90 * NS_PER_MS);
}

static void a_wrong_number__ends_the_connection(void **state)
{
	uint32_t stream = new_stream(&d, new_context(&d, 0));
	struct sim_device_command c = { .kind = SIM_DEVICE_KERNEL, .stream = stream, .seq = 2 };
	struct sim_device_reply r;

	(void)state;
	assert_true(sim_device_submit(&d, &c, 1));
	assert_int_equal(call_test_daemon(&d,
				 (struct sim_device_request){ .op = SIM_DEVICE_MEM_INFO }, &r),
		999);
	assert_false(wait_stream(&d, stream, 1));
	assert_int_equal(nvml_bytes(0, getpid()), UINT64_MAX);
}

/* Faults. */

static void fault__out_of_memory_at_the_third(void **state)
{
	struct sim_device_reply r;

	(void)state;
	sim_cuda_fault_set(f.control.state, 0, SIM_CUDA_OOM, 3, 1, 0);
	assert_int_equal(allocate(&d, 0, 1, &r, NULL), 0);
	assert_int_equal(allocate(&d, 1, 1, &r, NULL), 0); /* another GPU's do not count */
	assert_int_equal(allocate(&d, 0, 1, &r, NULL), 0);
	assert_int_equal(allocate(&d, 0, 1, &r, NULL), 2);
	assert_int_equal(allocate(&d, 0, 1, &r, NULL), 0);
}

static void fault__kills_the_context_and_posts_an_xid(void **state)
{
	uint32_t context = new_context(&d, 0), stream = new_stream(&d, context);
	struct sim_device_command c = { .kind = SIM_DEVICE_KERNEL,
		.stream = stream,
		.seq = 1,
		.amount = 1000 };
	nvmlEventData_t e;
	nvmlEventSet_t set;

	(void)state;
	assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceRegisterEvents(f.gpus[0], NVML_EVENT_XID_CRITICAL, set),
		NVML_SUCCESS);
	sim_cuda_fault_set(f.control.state, 0, SIM_CUDA_ERROR, 2, 1, 700);
	assert_true(sim_device_submit(&d, &c, 1));
	assert_true(wait_stream(&d, stream, 1));
	assert_int_equal(atomic_load(&d.page->contexts[context].error), 0);
	c.seq = 2;
	assert_true(sim_device_submit(&d, &c, 1));
	assert_true(wait_stream(&d, stream, 2));
	assert_int_equal(atomic_load(&d.page->contexts[context].error), 700);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 5000), NVML_SUCCESS);
	assert_int_equal(e.eventData, 31);
	c.seq = 3;
	assert_true(sim_device_submit(&d, &c, 1));
	assert_true(wait_stream(&d, stream, 3));
	assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

/* MPS. */

static uint32_t start_mps_on_gpu(struct sim_device *to)
{
	struct sim_device_reply r;

	assert_int_equal(call_test_daemon(to,
				 (struct sim_device_request){ .op = SIM_DEVICE_MPS_SERVE }, &r),
		0);
	return r.object;
}

static uint32_t mps_ticket(struct sim_device *to, uint32_t object, uint64_t limit,
	struct sim_device_reply *r)
{
	return call_test_daemon(to,
		(struct sim_device_request){ .op = SIM_DEVICE_MPS_TICKET,
			.object = object,
			.bytes = limit,
			.percent = 32 },
		r);
}

static uint32_t join(struct sim_device *to, const struct sim_device_reply *ticket,
	struct sim_device_reply *r)
{
	return call_test_daemon(to,
		(struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_CREATE,
			.id = ticket->id,
			.cookie = ticket->cookie },
		r);
}

static void mps__a_ticket_is_one_context_with_its_limit(void **state)
{
	struct sim_device server = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	struct sim_device_reply t, r;
	uint64_t total, free;
	uint32_t object;

	(void)state;
	assert_ok(sim_device_connect(&server, f.dir, NULL, &err), &err);
	object = start_mps_on_gpu(&server);
	assert_int_equal(mps_ticket(&server, object, 1024 * MIB, &t), 0);
	/* A ticket is not guessed, and is good once. */
	t.cookie++;
	assert_int_equal(join(&d, &t, &r), 806);
	t.cookie--;
	assert_int_equal(join(&d, &t, &r), 0);
	assert_in_range(r.bytes, 144 * MIB, 150 * MIB); /* of 32 multiprocessors: measured */
	assert_int_equal(join(&d, &t, &(struct sim_device_reply){ .op = 0 }), 806);
	free = cuda_free(&d, 0, &total);
	assert_int_equal(free, 1024 * MIB - r.bytes);
	assert_int_equal(allocate(&d, 0, free + 1, &t, NULL), 2);
	assert_int_equal(allocate(&d, 0, free, &t, NULL), 0);
	assert_int_equal(allocate(&d, 0, 1, &t, NULL), 2);
	assert_true(cuda_free(&server, 0, &total) > 1024 * MIB);
	/* The server ends, and its clients with it. */
	sim_device_close(&server);
	for (int i = 0; i < 5000 && !atomic_load(&d.page->contexts[r.object].error); i++)
		(void)usleep(1000);
	assert_int_equal(atomic_load(&d.page->contexts[r.object].error), 806);
	/* Who is no server has no tickets to give; numbers are checked. */
	assert_int_equal(mps_ticket(&d, r.object, 0, &t), 201);
	assert_int_equal(mps_ticket(&d, UINT32_MAX, 0, &t), 201);
}

static void mps__a_fault_is_told_to_the_server(void **state)
{
	struct sim_device server = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	struct sim_device_reply t[2], r[2], other;
	nvmlEventSet_t set;
	nvmlEventData_t e;
	uint32_t object;

	(void)state;
	assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceRegisterEvents(f.gpus[0], NVML_EVENT_XID_CRITICAL, set),
		NVML_SUCCESS);
	assert_ok(sim_device_connect(&server, f.dir, NULL, &err), &err);
	object = start_mps_on_gpu(&server);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mps_ticket(&server, object, 0, &t[i]), 0);
		assert_int_equal(join(&d, &t[i], &r[i]), 0);
	}
	assert_int_equal(call_test_daemon(&d,
				 (struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_FAULT,
					 .object = r[0].object,
					 .flags = 700 },
				 &other),
		0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(atomic_load(&d.page->contexts[r[i].object].error), 700);
	assert_int_equal(atomic_load(&server.page->contexts[object].error), 700);
	/* No client joins a failed context; one fault is one event. */
	assert_int_equal(mps_ticket(&server, object, 0, &other), 700);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 5000), NVML_SUCCESS);
	assert_int_equal(e.eventData, 31);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 50), NVML_ERROR_TIMEOUT);
	assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
	sim_device_close(&server);
}

static void mps__a_server_ends_one_context(void **state)
{
	struct sim_device server = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	struct sim_device_reply t[2], r[2], other;
	struct sim_device_request end = { .op = SIM_DEVICE_MPS_END, .flags = 810 };
	uint32_t object;

	(void)state;
	assert_ok(sim_device_connect(&server, f.dir, NULL, &err), &err);
	object = start_mps_on_gpu(&server);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mps_ticket(&server, object, 0, &t[i]), 0);
		assert_int_equal(join(&d, &t[i], &r[i]), 0);
	}
	end.id = t[1].id;
	assert_int_equal(call_test_daemon(&d, end, &other), 400); /* not its server */
	assert_int_equal(call_test_daemon(&server, end, &other), 0);
	assert_int_equal(atomic_load(&d.page->contexts[r[0].object].error), 0);
	assert_int_equal(atomic_load(&d.page->contexts[r[1].object].error), 810);
	assert_int_equal(atomic_load(&server.page->contexts[object].error), 0);
	sim_device_close(&server);
}

static void fault__a_lost_gpu_kills_its_contexts(void **state)
{
	uint32_t context = new_context(&d, 2), stream = new_stream(&d, context);
	struct sim_device_command c = { .kind = SIM_DEVICE_KERNEL,
		.stream = stream,
		.seq = 1,
		.amount = UINT64_MAX };
	struct error err = ERROR_INIT;

	(void)state;
	assert_true(sim_device_submit(&d, &c, 1));
	assert_ok(sim_control_lose(&f.control, 2, &err), &err);
	assert_true(wait_stream(&d, stream, 1));
	assert_int_equal(atomic_load(&d.page->contexts[context].error), 719);
}

/* Processes. */

/* A process of its own that connects, takes 1 GiB, says so, and lives until it is killed. */
static pid_t spawn_holder(int *ready)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		struct sim_device mine = SIM_DEVICE_INIT;
		struct sim_device_reply r;

		sim_device_forget(&d);
		if (sim_device_connect(&mine, f.dir, NULL, NULL) < 0)
			_exit(1);
		(void)new_context(&mine, 0);
		if (allocate(&mine, 0, 1024 * MIB, &r, NULL) != 0)
			_exit(2);
		(void)!write(ends[1], "+", 1);
		for (;;)
			(void)pause();
	}
	assert_true(pid > 0);
	(void)close(ends[1]);
	*ready = ends[0];
	return pid;
}

static void wait_ready(int fd)
{
	char c;

	assert_int_equal(read(fd, &c, 1), 1);
	(void)close(fd);
}

static void death__frees_all(void **state)
{
	uint64_t total, left = cuda_free(&d, 0, &total);
	int ready;
	pid_t pid = spawn_holder(&ready);
	struct pollfd p;
	siginfo_t info;

	(void)state;
	wait_ready(ready);
	assert_int_equal(nvml_bytes(0, pid), CONTEXT + 1024 * MIB);
	p = (struct pollfd){ .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(poll(&p, 1, 10000), 1);
	/* Dead, not yet waited for: what others get and see is without it. */
	assert_int_equal(cuda_free(&d, 0, &total), left);
	assert_int_equal(nvml_used(0), 0);
	assert_int_equal(nvml_bytes(0, pid), UINT64_MAX);
	(void)close(p.fd);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED), 0);
}

static void death__frees_late_where_asked_to(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t total, left = cuda_free(&d, 0, &total), start;
	int ready;
	pid_t pid = spawn_holder(&ready);

	(void)state;
	wait_ready(ready);
	assert_ok(sim_control_set(&f.control, 0, "cuda_free_ms", "1500", &err), &err);
	start = time_mono_ns();
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(cuda_free(&d, 0, &total), left - CONTEXT - 1024 * MIB);
	assert_int_equal(nvml_bytes(0, pid), CONTEXT + 1024 * MIB);
	while (cuda_free(&d, 0, &total) != left && time_mono_ns() - start < DAEMON_TIMEOUT_NS)
		(void)usleep(1000);
	assert_true(time_mono_ns() - start >= 1500 * NS_PER_MS);
	assert_int_equal(cuda_free(&d, 0, &total), left);
	assert_int_equal(nvml_bytes(0, pid), UINT64_MAX);
}

/* As an H100's driver was seen to do it: a child that has the files open keeps its dead parent's memory. */
static void death__frees_nothing_while_a_child_has_the_connection(void **state)
{
	int ends[2];
	pid_t pid, child = 0;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		struct sim_device mine = SIM_DEVICE_INIT;

		sim_device_forget(&d);
		if (sim_device_connect(&mine, f.dir, NULL, NULL) < 0)
			_exit(1);
		(void)new_context(&mine, 0);
		child = fork();
		if (child == 0) {
			sim_device_forget(&mine);
			(void)sleep(30);
			_exit(0);
		}
		(void)!write(ends[1], &child, sizeof(child));
		(void)pause();
	}
	assert_int_equal(read(ends[0], &child, sizeof(child)), sizeof(child));
	assert_int_equal(nvml_used(0), CONTEXT);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)usleep(50000);
	assert_int_equal(nvml_used(0), CONTEXT);
	assert_int_equal(nvml_bytes(0, pid), CONTEXT);
	assert_int_equal(kill(child, SIGKILL), 0);
	for (int i = 0; i < 2000 && nvml_bytes(0, pid) != UINT64_MAX; i++)
		(void)usleep(1000);
	assert_int_equal(nvml_bytes(0, pid), UINT64_MAX);
	assert_int_equal(nvml_used(0), 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

/* Many come at once to a node that has no daemon yet. */
static void start__happens_once(void **state)
{
	enum { PROCESSES = 20 };
	pid_t pids[PROCESSES];
	int status;

	(void)state;
	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct sim_device mine = SIM_DEVICE_INIT;
			struct sim_device_reply r;

			if (sim_device_connect(&mine, f.dir, NULL, NULL) < 0)
				_exit(1);
			/* The library leaves no child process behind. */
			if (waitpid(-1, NULL, __WALL) != -1 || errno != ECHILD)
				_exit(3);
			_exit(allocate(&mine, 0, 2 * MIB, &r, NULL) == 0 ? 0 : 2);
		}
	}
	for (int i = 0; i < PROCESSES; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static pid_t daemon_pid(void)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	assert_int_equal(getsockopt(d.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len), 0);
	return cred.pid;
}

static void start__cleans_up_after_one_that_was_killed(void **state)
{
	uint32_t stream = new_stream(&d, new_context(&d, 0));
	struct error err = ERROR_INIT;
	struct sim_device_reply r;
	uint64_t total, left;
	pid_t pid = daemon_pid();

	(void)state;
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_false(wait_stream(&d, stream, 1));
	assert_int_equal(call_test_daemon(&d,
				 (struct sim_device_request){ .op = SIM_DEVICE_MEM_INFO }, &r),
		999);
	assert_false(sim_device_host_done(&d, stream, 1));
	assert_int_equal(nvml_bytes(0, getpid()), CONTEXT);
	sim_device_close(&d);
	assert_ok(sim_device_connect(&d, f.dir, NULL, &err), &err);
	assert_int_not_equal(daemon_pid(), pid);
	assert_int_equal(nvml_bytes(0, getpid()), UINT64_MAX);
	assert_int_equal(nvml_used(0), 0);
	left = cuda_free(&d, 0, &total);
	assert_int_equal(left, total);
}

/* The sum of all processes is never above what they may have together. */
struct racer {
	pthread_t thread;
	struct sim_device *device;
	_Atomic uint64_t *granted;
};

#define RACE_LIMIT (64 * 2 * MIB)

static void *race(void *arg)
{
	struct racer *x = arg;

	for (int i = 0; i < 300; i++) {
		struct sim_device_reply r;

		if (atomic_fetch_add(x->granted, 2 * MIB) + 2 * MIB > RACE_LIMIT) {
			atomic_fetch_sub(x->granted, 2 * MIB);
			continue;
		}
		if (allocate(x->device, 0, 2 * MIB, &r, NULL) == 0)
			(void)release(x->device, r.id);
		atomic_fetch_sub(x->granted, 2 * MIB);
	}
	return NULL;
}

static void nvml__never_shows_more_than_was_granted(void **state)
{
	enum { RACERS = 8 };
	struct sim_device others[RACERS];
	struct racer racers[RACERS];
	struct error err = ERROR_INIT;
	_Atomic uint64_t granted = 0;

	(void)state;
	for (int i = 0; i < RACERS; i++) {
		others[i] = (struct sim_device)SIM_DEVICE_INIT;
		assert_ok(sim_device_connect(&others[i], f.dir, NULL, &err), &err);
		racers[i] = (struct racer){ .device = &others[i], .granted = &granted };
		assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (int i = 0; i < 300; i++) {
		uint64_t used = nvml_used(0);

		assert_true(used <= RACE_LIMIT);
	}
	for (int i = 0; i < RACERS; i++) {
		assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
		sim_device_close(&others[i]);
	}
	assert_int_equal(nvml_used(0), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(memory__shows_in_nvml_at_once),
		TEST(memory__ends),
		TEST(stack__takes_memory),
		TEST(managed_memory__is_not_shown),
		TEST(memory__is_shared_by_descriptor),
		TEST(memory__is_opened_by_id_and_cookie),
		TEST(stream__tells_through_the_page),
		TEST(event__has_the_time),
		TEST(a_busy_process__shows_in_nvml),
		TEST(lateness__shows_as_time_below_base_clocks),
		TEST(a_wrong_number__ends_the_connection),
		TEST(fault__out_of_memory_at_the_third),
		TEST(fault__kills_the_context_and_posts_an_xid),
		TEST(mps__a_ticket_is_one_context_with_its_limit),
		TEST(mps__a_fault_is_told_to_the_server),
		TEST(mps__a_server_ends_one_context),
		TEST(fault__a_lost_gpu_kills_its_contexts),
		TEST(death__frees_all),
		TEST(death__frees_late_where_asked_to),
		TEST(death__frees_nothing_while_a_child_has_the_connection),
		cmocka_unit_test_setup_teardown(start__happens_once, begin_unused_node, end),
		TEST(start__cleans_up_after_one_that_was_killed),
		TEST(nvml__never_shows_more_than_was_granted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
