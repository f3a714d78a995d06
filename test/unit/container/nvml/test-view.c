/* SPDX-License-Identifier: Apache-2.0 */

/*
 * NVML as a slice sees it: the hooks of libgpuslice-nvml.so, between a driver and an arbiter of this
 * file's own.
 */
#include "support/test.h"

#include "container/client/link.h"
#include "container/nvml/hooks.h"
#include "container/nvml/slice.h"

#define GIB      (UINT64_C(1) << 30)
#define RESERVED (GIB / 2)
#define UUID     "GPU-00112233-4455-6677-8899-aabbccddeeff"

void *forward_slots[2048];

/* The answers of the driver and the arbiter. */
static struct {
	enum link_state state;
	bool viewed;
	struct slice_welcome welcome;
	struct slice_viewed view[2]; /* two packets of processes */
	nvmlReturn_t result;
	const char *uuid;
	unsigned int uuid_calls, host_pids;
	nvmlMemory_v2_t memory;
	unsigned int settings;
} fake;

static nvmlDevice_t device = (nvmlDevice_t)0x1000, other = (nvmlDevice_t)0x2000;

enum link_state link_open(bool memory)
{
	assert_false(memory); /* a process that only reads needs no page */
	return fake.state;
}

const struct slice_welcome *link_welcome(void)
{
	assert_int_equal(fake.state, LINK_UP);
	return &fake.welcome;
}

int link_view(unsigned int first, struct slice_viewed *ret)
{
	if (fake.state != LINK_UP || !fake.viewed)
		return -1;
	*ret = fake.view[first > 0];
	return 0;
}

static nvmlReturn_t real_uuid(nvmlDevice_t d, char *text, unsigned int len)
{
	fake.uuid_calls++;
	(void)snprintf(text, len, "%s",
		d == device ? fake.uuid : "GPU-99999999-9999-9999-9999-999999999999");
	return NVML_SUCCESS;
}

static nvmlReturn_t real_memory(nvmlDevice_t d, nvmlMemory_t *m)
{
	(void)d;
	if (!m)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (fake.result == NVML_SUCCESS)
		*m = (nvmlMemory_t){ fake.memory.total, fake.memory.free,
			fake.memory.used + fake.memory.reserved };
	return fake.result;
}

static nvmlReturn_t real_memory_v2(nvmlDevice_t d, nvmlMemory_v2_t *m)
{
	(void)d;
	if (fake.result == NVML_SUCCESS)
		*m = fake.memory;
	return fake.result;
}

/* Two processes of the node: 4711 of another container, and 5000 of this one. */
static nvmlReturn_t real_list(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos)
{
	unsigned int room = *n;

	(void)d;
	if (fake.result)
		return fake.result;
	*n = 2;
	if (room < 2)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	infos[0] = (nvmlProcessInfo_t){ .pid = 4711 };
	infos[1] = (nvmlProcessInfo_t){ .pid = 5000 };
	return NVML_SUCCESS;
}

static nvmlReturn_t real_samples(nvmlDevice_t d, nvmlProcessUtilizationSample_t *s,
	unsigned int *n, unsigned long long since)
{
	(void)d;
	(void)since;
	if (fake.result)
		return fake.result;
	*n = 3;
	s[0] = (nvmlProcessUtilizationSample_t){ .pid = 4711, .smUtil = 90 };
	s[1] = (nvmlProcessUtilizationSample_t){ .pid = fake.host_pids ? 5000 : 7,
		.smUtil = 10 };
	s[2] = (nvmlProcessUtilizationSample_t){ .pid = 7, .smUtil = 66 }; /* the node's 7 */
	return NVML_SUCCESS;
}

static nvmlReturn_t real_stats(nvmlDevice_t d, unsigned int pid, void *stats)
{
	(void)d;
	*(unsigned int *)stats = pid;
	return NVML_SUCCESS;
}

static nvmlReturn_t real_setting(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
	uintptr_t e, uintptr_t f)
{
	(void)f;
	fake.settings++;
	assert_int_equal(a + b + c + d + e, 15);
	return NVML_SUCCESS;
}

static nvmlReturn_t real_instance(nvmlDevice_t d, unsigned int *id)
{
	(void)d;
	(void)id;
	return NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t real_nothing(void)
{
	return NVML_ERROR_FUNCTION_NOT_FOUND;
}

void *forward_resolve(unsigned int slot)
{
	(void)slot;
	return (void *)real_nothing;
}

static int setup(void **state)
{
	static const uint8_t uuid[] = { 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99,
		0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF };

	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.state = LINK_UP;
	fake.viewed = true;
	fake.uuid = UUID;
	fake.host_pids = 1;
	fake.memory = (nvmlMemory_v2_t){ .version = NVML_STRUCT_VERSION(fake.memory, 2),
		.total = 80 * GIB,
		.reserved = RESERVED,
		.used = 9 * GIB,
		.free = 71 * GIB - RESERVED };
	fake.welcome.gpu_count = 2;
	memset(fake.welcome.gpus[0].uuid, 0xEE, 16);
	memcpy(fake.welcome.gpus[1].uuid, uuid, 16);
	fake.view[0].gpu_count = 2;
	fake.view[0].gpus[0].limit = GIB;
	fake.view[0].gpus[1].limit = 4 * GIB;
	fake.view[0].gpus[1].used = 3 * GIB + 512;
	fake.view[0].process_count = 4;
	fake.view[0].here = 2;
	fake.view[0].processes[0].pid = 7;
	fake.view[0].processes[0].host_pid = 5000;
	fake.view[0].processes[0].gpu = 1;
	fake.view[0].processes[0].used = 2 * GIB;
	fake.view[0].processes[1].pid = 8;
	fake.view[0].processes[1].host_pid = 5001;
	fake.view[0].processes[1].gpu = 0;
	fake.view[0].processes[1].used = GIB;
	fake.view[1] = fake.view[0];
	fake.view[1].here = 2;
	fake.view[1].processes[0].pid = 9;
	fake.view[1].processes[0].host_pid = 5002;
	fake.view[1].processes[0].used = GIB + 512;
	fake.view[1].processes[1].pid = 10; /* has no context yet: NVML would not list it */
	fake.view[1].processes[1].gpu = 1;
	fake.view[1].processes[1].used = 0;
	memset(forward_slots, 0, sizeof(forward_slots));
	forward_slots[SLOT_nvmlDeviceGetUUID] = (void *)real_uuid;
	forward_slots[SLOT_nvmlDeviceGetMemoryInfo] = (void *)real_memory;
	forward_slots[SLOT_nvmlDeviceGetMemoryInfo_v2] = (void *)real_memory_v2;
	forward_slots[SLOT_nvmlDeviceGetComputeRunningProcesses] = (void *)real_list;
	forward_slots[SLOT_nvmlDeviceGetComputeRunningProcesses_v3] = (void *)real_list;
	forward_slots[SLOT_nvmlDeviceGetMPSComputeRunningProcesses_v3] = (void *)real_list;
	forward_slots[SLOT_nvmlDeviceGetProcessUtilization] = (void *)real_samples;
	forward_slots[SLOT_nvmlDeviceGetAccountingStats] = (void *)real_stats;
	forward_slots[SLOT_nvmlDeviceGetGpuInstanceId] = (void *)real_instance;
	forward_slots[SLOT_nvmlDeviceSetNvLinkUtilizationControl] = (void *)real_setting;
	(void)nvmlShutdown();
	return 0;
}

static void figures_uuid__accepts_the_spelling_of_nvml(void **state)
{
	uint8_t uuid[SLICE_UUID_BYTES];

	(void)state;
	assert_true(figures_uuid(UUID, uuid));
	assert_memory_equal(uuid, fake.welcome.gpus[1].uuid, 16);
	assert_true(figures_uuid("MIG-00112233-4455-6677-8899-AABBCCDDEEFF", uuid));
	assert_memory_equal(uuid, fake.welcome.gpus[1].uuid, 16);
	assert_false(figures_uuid("", uuid));
	assert_false(figures_uuid("GPU-", uuid));
	assert_false(figures_uuid("TPU-00112233-4455-6677-8899-aabbccddeeff", uuid));
	assert_false(figures_uuid("GPU-00112233-4455-6677-8899-aabbccddeef", uuid));
	assert_false(figures_uuid("GPU-00112233-4455-6677-8899-aabbccddeefff", uuid));
	assert_false(figures_uuid("GPU-00112233-4455-6677-8899-aabbccddeefg", uuid));
	assert_false(figures_uuid("MIG-GPU-00112233-4455-6677-8899-aabbccddeeff/1/0", uuid));
}

static void figures_memory__never_exceeds_the_total(void **state)
{
	static const struct {
		uint64_t limit, used, usable, free, total_is, free_is;
	} rows[] = {
		{ 4, 1, 80, 79, 4, 3 },
		{ 4, 4, 80, 76, 4, 0 },
		{ 4, 6, 80, 74, 4, 0 },     /* the limit was lowered */
		{ 100, 1, 80, 79, 80, 79 }, /* more than the GPU */
		{ 40, 1, 80, 2, 40, 2 },    /* others have taken the rest of the GPU */
		{ 0, 0, 80, 80, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct memory_figures f = figures_memory(rows[i].limit, rows[i].used,
			rows[i].usable, rows[i].free);

		assert_int_equal(f.total, rows[i].total_is);
		assert_int_equal(f.free, rows[i].free_is);
		assert_int_equal(f.used, rows[i].used);
	}
}

static void memory__is_that_of_the_slice(void **state)
{
	nvmlMemory_v2_t v2 = { .version = NVML_STRUCT_VERSION(v2, 2) };
	nvmlMemory_t v1;

	(void)state;
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, &v1), NVML_SUCCESS);
	assert_int_equal(v1.total, 4 * GIB);
	assert_int_equal(v1.used, 3 * GIB + 512);
	assert_int_equal(v1.free, GIB - 512);
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(device, &v2), NVML_SUCCESS);
	assert_int_equal(v2.total, v1.total);
	assert_int_equal(v2.used, v1.used);
	assert_int_equal(v2.free, v1.free);
	assert_int_equal(v2.reserved, 0);
	assert_int_equal(v2.version, NVML_STRUCT_VERSION(v2, 2));
	/* The handle's UUID is asked for once; after a shutdown again. */
	assert_int_equal(fake.uuid_calls, 1);
	(void)nvmlShutdown();
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, &v1), NVML_SUCCESS);
	assert_int_equal(fake.uuid_calls, 2);
}

static void memory__of_a_whole_gpu_is_the_usable_memory_of_cuda(void **state)
{
	nvmlMemory_v2_t v2 = { .version = NVML_STRUCT_VERSION(v2, 2) };
	nvmlMemory_t v1;

	(void)state;
	fake.view[0].gpus[1].limit = 80 * GIB;
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, &v1), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(device, &v2), NVML_SUCCESS);
	assert_int_equal(v1.total, 80 * GIB - RESERVED);
	assert_int_equal(v2.total - v2.reserved, 80 * GIB - RESERVED);
	assert_int_equal(v1.free, v2.free);
}

static void memory__is_passed_through_without_a_limit(void **state)
{
	nvmlMemory_v2_t v2 = { .version = NVML_STRUCT_VERSION(v2, 2) };
	nvmlMemory_t v1;

	(void)state;
	assert_int_equal(nvmlDeviceGetMemoryInfo(other, &v1), NVML_SUCCESS);
	assert_int_equal(v1.total, 80 * GIB);
	fake.view[0].gpus[1].limit = SLICE_NO_LIMIT;
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, &v1), NVML_SUCCESS);
	assert_int_equal(v1.total, 80 * GIB);
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(device, &v2), NVML_SUCCESS);
	assert_int_equal(v2.reserved, RESERVED);
	fake.state = LINK_NO_SLICE;
	fake.view[0].gpus[1].limit = GIB;
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, &v1), NVML_SUCCESS);
	assert_int_equal(v1.total, 80 * GIB);
}

static void memory__passes_errors_of_the_driver_on(void **state)
{
	nvmlMemory_v2_t v2 = { .version = 1 };
	nvmlMemory_t v1 = { .total = 5 };

	(void)state;
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(device, &v2),
		NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	fake.result = NVML_ERROR_GPU_IS_LOST;
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, &v1), NVML_ERROR_GPU_IS_LOST);
	assert_int_equal(v1.total, 5);
}

/* The arbiter's last answer counts while the arbiter is down. Without any answer the memory is unknown. The
 * library never reports the whole GPU. */
static void memory__without_an_arbiter_is_its_last_answer(void **state)
{
	nvmlMemory_t v1;

	(void)state;
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, &v1), NVML_SUCCESS);
	fake.view[0].gpus[1].used = 0;
	fake.state = LINK_DOWN;
	(void)nvmlShutdown();
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, &v1), NVML_SUCCESS);
	assert_int_equal(v1.total, 4 * GIB);
	assert_int_equal(v1.used, 3 * GIB + 512);
}

static void processes__are_those_of_the_slice(void **state)
{
	nvmlProcessInfo_v1_t v1[2];
	nvmlProcessInfo_t v3[4];
	unsigned int n = 0;

	(void)state;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, NULL),
		NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(n, 2);
	n = 1;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, v3),
		NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(n, 2);
	n = 4;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, v3), NVML_SUCCESS);
	assert_int_equal(n, 2);
	assert_int_equal(v3[0].pid, 7);
	assert_int_equal(v3[0].usedGpuMemory, 2 * GIB);
	assert_int_equal(v3[0].gpuInstanceId, NVML_NO_INSTANCE);
	assert_int_equal(v3[1].pid, 9);
	assert_int_equal(v3[1].usedGpuMemory, GIB + 512);
	n = 2;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses(device, &n, v1), NVML_SUCCESS);
	assert_int_equal(v1[1].pid, 9);
	n = 4;
	assert_int_equal(nvmlDeviceGetMPSComputeRunningProcesses_v3(device, &n, v3),
		NVML_SUCCESS);
	assert_int_equal(n, 0);
	n = 4;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(other, &n, v3), NVML_SUCCESS);
	assert_int_equal(n, 0);
	assert_int_equal(
		nvmlDeviceGetComputeRunningProcesses_v3(device, &(unsigned int){ 3 }, NULL),
		NVML_ERROR_INVALID_ARGUMENT);
	fake.result = NVML_ERROR_NO_PERMISSION;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, v3),
		NVML_ERROR_NO_PERMISSION);
	fake.result = NVML_SUCCESS;
	fake.viewed = false;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, v3),
		NVML_ERROR_UNKNOWN);
}

static void processes__of_the_node_are_hidden(void **state)
{
	nvmlProcessInfo_t v3[4];
	unsigned int n = 4;

	(void)state;
	fake.state = LINK_NO_SLICE;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, v3), NVML_SUCCESS);
	assert_int_equal(v3[0].pid, 4711);
}

static void usage__lists_own_processes_by_container_pids(void **state)
{
	nvmlProcessUtilizationSample_t s[8];
	unsigned int n = 8;

	(void)state;
	assert_int_equal(nvmlDeviceGetProcessUtilization(device, s, &n, 0), NVML_SUCCESS);
	assert_int_equal(n, 1);
	assert_int_equal(s[0].pid, 7);
	assert_int_equal(s[0].smUtil, 10);
	assert_int_equal(s[1].pid, 0); /* the neighbours' are wiped */
	assert_int_equal(s[2].smUtil, 0);
	n = 8;
	assert_int_equal(nvmlDeviceGetProcessUtilization(other, s, &n, 0),
		NVML_ERROR_NOT_FOUND);
	assert_int_equal(n, 0);
	/* A driver that reports PIDs of the container. */
	fake.host_pids = 0;
	n = 8;
	assert_int_equal(nvmlDeviceGetProcessUtilization(device, s, &n, 0), NVML_SUCCESS);
	assert_int_equal(n, 2);
	assert_int_equal(s[0].pid, 7);
}

static void usage__of_a_process_is_queried_by_its_node_pid(void **state)
{
	unsigned int stats = 0;

	(void)state;
	assert_int_equal(nvmlDeviceGetAccountingStats(device, 7, &stats), NVML_SUCCESS);
	assert_int_equal(stats, 5000);
	assert_int_equal(nvmlDeviceGetAccountingStats(device, 5000, &stats),
		NVML_ERROR_NOT_FOUND);
	assert_int_equal(nvmlDeviceGetAccountingStats(device, 4711, &stats),
		NVML_ERROR_NOT_FOUND);
}

static void settings__of_the_gpu_cannot_be_changed(void **state)
{
	(void)state;
	assert_int_equal(nvmlDeviceSetNvLinkUtilizationControl(1, 2, 3, 4, 5, 6),
		NVML_ERROR_NO_PERMISSION);
	fake.state = LINK_DOWN;
	assert_int_equal(nvmlDeviceSetNvLinkUtilizationControl(1, 2, 3, 4, 5, 6),
		NVML_ERROR_NO_PERMISSION);
	assert_int_equal(fake.settings, 0);
	fake.state = LINK_NO_SLICE;
	assert_int_equal(nvmlDeviceSetNvLinkUtilizationControl(1, 2, 3, 4, 5, 6), NVML_SUCCESS);
	assert_int_equal(fake.settings, 1);
}

/* The first of all tests, before anything was answered. */
static void memory__is_unknown_before_the_first_answer(void **state)
{
	nvmlMemory_t v1;

	(void)state;
	fake.state = LINK_DOWN;
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, &v1), NVML_ERROR_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {

		cmocka_unit_test_setup(memory__is_unknown_before_the_first_answer, setup),
		cmocka_unit_test_setup(figures_uuid__accepts_the_spelling_of_nvml, setup),
		cmocka_unit_test(figures_memory__never_exceeds_the_total),
		cmocka_unit_test_setup(memory__is_that_of_the_slice, setup),
		cmocka_unit_test_setup(memory__of_a_whole_gpu_is_the_usable_memory_of_cuda,
			setup),
		cmocka_unit_test_setup(memory__is_passed_through_without_a_limit, setup),
		cmocka_unit_test_setup(memory__passes_errors_of_the_driver_on, setup),
		cmocka_unit_test_setup(memory__without_an_arbiter_is_its_last_answer, setup),
		cmocka_unit_test_setup(processes__are_those_of_the_slice, setup),
		cmocka_unit_test_setup(processes__of_the_node_are_hidden, setup),
		cmocka_unit_test_setup(usage__lists_own_processes_by_container_pids, setup),
		cmocka_unit_test_setup(usage__of_a_process_is_queried_by_its_node_pid, setup),
		cmocka_unit_test_setup(settings__of_the_gpu_cannot_be_changed, setup),
	};

	return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
