/* SPDX-License-Identifier: Apache-2.0 */
#include "container/nvml/slice.h"

#include "container/client/link.h"
#include "container/nvml/hooks.h"

#include <stdlib.h>
#include <string.h>

#define HANDLES_MAX 64 /* size of the handle cache, a power of two */

/* The arbiter's last figures. Single words: several threads may write the same values at the same time. */
static struct {
	_Atomic uint32_t gpu_count;
	struct {
		_Atomic uint64_t uuid[SLICE_UUID_BYTES / 8];
		_Atomic uint64_t limit, used;
		_Atomic bool known;
	} gpus[SLICE_GPUS_MAX];
} last;

/* The handle cache. .gpu has HANDLE_BIAS added, so 0 means "not known yet". */
static struct {
	_Atomic(nvmlDevice_t) device;
	_Atomic int gpu;
} handles[HANDLES_MAX];
#define HANDLE_BIAS 3

bool nvml_slice_is_active(void)
{
	return link_open(false) != LINK_NO_SLICE;
}

static void learn_gpus(void)
{
	const struct slice_welcome *w = link_welcome();
	uint32_t n = w->gpu_count < SLICE_GPUS_MAX ? w->gpu_count : SLICE_GPUS_MAX;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t half[2];

		memcpy(half, w->gpus[i].uuid, sizeof(half));
		atomic_store_explicit(&last.gpus[i].uuid[0], half[0], memory_order_relaxed);
		atomic_store_explicit(&last.gpus[i].uuid[1], half[1], memory_order_relaxed);
	}
	atomic_store_explicit(&last.gpu_count, n, memory_order_release);
}

/* Number of GPUs that the slice names; 0: not known. */
static uint32_t gpu_count(void)
{
	uint32_t n = atomic_load_explicit(&last.gpu_count, memory_order_acquire);

	if (n == 0 && link_open(false) == LINK_UP) {
		learn_gpus();
		n = atomic_load_explicit(&last.gpu_count, memory_order_relaxed);
	}
	return n;
}

static int find_gpu(nvmlDevice_t device)
{
	char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
	uint8_t uuid[SLICE_UUID_BYTES];
	uint64_t half[2];
	uint32_t n = gpu_count();

	if (n == 0 || REAL(nvmlDeviceGetUUID)(device, text, sizeof(text)) != NVML_SUCCESS)
		return NVML_SLICE_GPU_UNKNOWN;
	if (!figures_uuid(text, uuid))
		return NVML_SLICE_GPU_NOT_OURS;
	memcpy(half, uuid, sizeof(half));
	for (uint32_t i = 0; i < n; i++)
		if (atomic_load_explicit(&last.gpus[i].uuid[0], memory_order_relaxed) ==
				half[0] &&
			atomic_load_explicit(&last.gpus[i].uuid[1], memory_order_relaxed) ==
				half[1])
			return (int)i;
	return NVML_SLICE_GPU_NOT_OURS;
}

static unsigned int first_place(nvmlDevice_t device)
{
	uintptr_t x = (uintptr_t)device;

	return (unsigned int)((x >> 4 ^ x >> 12 ^ x >> 20) % HANDLES_MAX);
}

int nvml_slice_gpu(nvmlDevice_t device)
{
	unsigned int at = first_place(device);
	int gpu;

	for (unsigned int i = 0; i < HANDLES_MAX; i++, at = (at + 1) % HANDLES_MAX) {
		nvmlDevice_t there =
			atomic_load_explicit(&handles[at].device, memory_order_acquire);

		if (there == device) {
			gpu = atomic_load_explicit(&handles[at].gpu, memory_order_acquire);
			return gpu ? gpu - HANDLE_BIAS : find_gpu(device);
		}
		if (there)
			continue;
		gpu = find_gpu(device);
		/* An unknown GPU is not cached: it may be known at the next call. */
		if (gpu != NVML_SLICE_GPU_UNKNOWN &&
			atomic_compare_exchange_strong(&handles[at].device, &there, device))
			atomic_store_explicit(&handles[at].gpu, gpu + HANDLE_BIAS,
				memory_order_release);
		return gpu;
	}
	return find_gpu(device);
}

/* Forgets all handles, as they may mean other GPUs from now on. */
static void nvml_slice_forget_handles(void)
{
	for (unsigned int i = 0; i < HANDLES_MAX; i++) {
		atomic_store_explicit(&handles[i].gpu, 0, memory_order_relaxed);
		atomic_store_explicit(&handles[i].device, NULL, memory_order_release);
	}
}

/* After nvmlShutdown() the driver may use the same handles for other GPUs. */
HOOK nvmlReturn_t nvmlShutdown(void)
{
	nvml_slice_forget_handles();
	return REAL(nvmlShutdown)();
}

/* Reads the slice's figures, with processes from @first on, and stores those of the GPUs in .last. */
static bool request_slice_view(unsigned int first, struct slice_viewed *ret)
{
	if (link_view(first, ret) != 0)
		return false;
	for (uint32_t i = 0; i < ret->gpu_count && i < SLICE_GPUS_MAX; i++) {
		atomic_store_explicit(&last.gpus[i].limit, ret->gpus[i].limit,
			memory_order_relaxed);
		atomic_store_explicit(&last.gpus[i].used, ret->gpus[i].used,
			memory_order_relaxed);
		atomic_store_explicit(&last.gpus[i].known, true, memory_order_release);
	}
	return true;
}

bool nvml_slice_memory(int gpu, uint64_t *limit, uint64_t *used)
{
	struct slice_viewed v;

	(void)request_slice_view(0, &v);
	if (!atomic_load_explicit(&last.gpus[gpu].known, memory_order_acquire))
		return false;
	*limit = atomic_load_explicit(&last.gpus[gpu].limit, memory_order_relaxed);
	*used = atomic_load_explicit(&last.gpus[gpu].used, memory_order_relaxed);
	return true;
}

int nvml_slice_processes(int gpu, struct own_process **ret)
{
	struct own_process *own = NULL;
	struct slice_viewed v;
	unsigned int first = 0, n = 0;

	*ret = NULL;
	do {
		struct own_process *more;

		if (!request_slice_view(first, &v) || v.here > SLICE_VIEW_PROCESSES)
			goto failed;
		more = realloc(own, (n + v.here + 1) * sizeof(*own));
		if (!more)
			goto failed;
		own = more;
		for (uint32_t i = 0; i < v.here; i++)
			if (v.processes[i].gpu == (uint32_t)gpu)
				own[n++] = (struct own_process){ .pid = v.processes[i].pid,
					.host_pid = v.processes[i].host_pid,
					.used = v.processes[i].used };
		first += v.here;
	} while (v.here > 0 && first < v.process_count);
	*ret = own;
	return (int)n;
failed:
	free(own);
	return -1;
}
