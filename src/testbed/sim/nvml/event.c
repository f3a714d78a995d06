/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Event sets. Events are in the state's ring, where every process finds them. A set is a cursor into the ring,
 * with the types registered for each GPU. So each set of each process gets each event once, and a set without a
 * waiter costs nothing.
 *
 * A set is a row of a table. Its handle is the row's number and the row's use count, so the handle of a freed set
 * is refused. `lock` guards the table; no thread waits for an event under it.
 */
#include <pthread.h>
#include <string.h>

#include "lib/base/time.h"
#include "testbed/sim/nvml/lib.h"

#define SETS_MAX 64

/* Types that no GPU has, but that driver 580 accepts (measured for 0x40). */
#define TYPES_TOLERATED UINT64_C(0xFFFF)

struct registration {
	uint64_t types;
	uint64_t from; /* number of the first event that counts */
	uint32_t epoch;
	bool lost_reported;
};

struct event_set {
	bool used;
	uint32_t use; /* how many sets have used this row */
	uint64_t cursor;
	struct registration gpus[SIM_MAX_GPUS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct event_set sets[SETS_MAX];

#define SET_TAG UINT64_C(0x6E65)

static nvmlEventSet_t set_handle(uint32_t row)
{
	return (nvmlEventSet_t)(uintptr_t)(SET_TAG << 48 |
					   (uint64_t)(sets[row].use & 0xFFFFFF) << 16 | row);
}

/* With the lock held. NULL: not a handle of this library, or freed. */
static struct event_set *set_find(nvmlEventSet_t handle)
{
	uint32_t row = (uint32_t)((uintptr_t)handle & 0xFFFF);

	return row < SETS_MAX && sets[row].used && set_handle(row) == handle ? &sets[row]
									     : NULL;
}

static void lock_events_before_fork(void)
{
	(void)pthread_mutex_lock(&lock);
}

static void unlock_events_after_fork(void)
{
	(void)pthread_mutex_unlock(&lock);
}

static void register_events_atfork(void)
{
	(void)pthread_atfork(lock_events_before_fork, unlock_events_after_fork,
		unlock_events_after_fork);
}

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const struct sim_state *s;
	nvmlReturn_t r = nvml_lib_enter(&s);

	if (r)
		return r;
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	(void)pthread_once(&once, register_events_atfork);
	r = NVML_ERROR_MEMORY;
	(void)pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < SETS_MAX; i++) {
		uint32_t use = sets[i].use + 1;

		if (sets[i].used)
			continue;
		memset(&sets[i], 0, sizeof(sets[i]));
		sets[i].used = true;
		sets[i].use = use;
		sets[i].cursor = sim_ring_head(s);
		*set = set_handle(i);
		r = NVML_SUCCESS;
		break;
	}
	(void)pthread_mutex_unlock(&lock);
	return r;
}

EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t handle)
{
	const struct sim_state *s;
	struct event_set *set;
	nvmlReturn_t r = nvml_lib_enter(&s);

	if (r)
		return r;
	(void)pthread_mutex_lock(&lock);
	set = set_find(handle);
	if (set)
		set->used = false;
	(void)pthread_mutex_unlock(&lock);
	return set ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long *types)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_EVENTS, types != NULL, &g);

	if (r == NVML_SUCCESS)
		*types = g.keys.event_types;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types,
	nvmlEventSet_t handle)
{
	const struct sim_state *s;
	struct event_set *set;
	struct sim_gpu g;
	struct handle h;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_EVENTS, true, &g);

	if (r == NVML_SUCCESS)
		r = lib_again(&s);
	if (r)
		return r;
	(void)handle_read(d, &h);
	(void)pthread_mutex_lock(&lock);
	set = set_find(handle);
	if (!set)
		r = NVML_ERROR_INVALID_ARGUMENT;
	else if (types & ~(g.keys.event_types | TYPES_TOLERATED))
		r = NVML_ERROR_NOT_SUPPORTED;
	else if (types) {
		struct registration *reg = &set->gpus[h.slot];

		if (reg->epoch != h.epoch)
			*reg = (struct registration){ .epoch = h.epoch };
		if (!reg->types || reg->lost_reported)
			reg->from = sim_ring_head(s);
		reg->types |= types;
		reg->lost_reported = false;
	}
	(void)pthread_mutex_unlock(&lock);
	return r;
}

/* What an event means to a set: nothing (10), something to return (0), or a lost GPU (15). */
static nvmlReturn_t check_set_event(struct event_set *set, const struct sim_event *e,
	uint64_t number)
{
	struct registration *reg = &set->gpus[e->slot % SIM_MAX_GPUS];

	if (!reg->types || reg->epoch != (e->epoch & 0xFFFF) || number < reg->from)
		return NVML_ERROR_TIMEOUT;
	if (e->type == SIM_EVENT_LOST) {
		if (reg->lost_reported)
			return NVML_ERROR_TIMEOUT;
		reg->lost_reported = true;
		return NVML_ERROR_GPU_IS_LOST;
	}
	return reg->types & e->type ? NVML_SUCCESS : NVML_ERROR_TIMEOUT;
}

/*
 * The next event for the set; 10 with the ring's head in *head if there is none yet. *e is valid only on success.
 */
static nvmlReturn_t read_next_set_event(const struct sim_state *s, nvmlEventSet_t handle,
	struct sim_event *e, uint64_t *head)
{
	nvmlReturn_t r = NVML_ERROR_TIMEOUT;
	struct event_set *set;

	(void)pthread_mutex_lock(&lock);
	set = set_find(handle);
	if (!set)
		r = NVML_ERROR_INVALID_ARGUMENT;
	while (r == NVML_ERROR_TIMEOUT && sim_ring_next(s, &set->cursor, e))
		r = check_set_event(set, e, set->cursor - 1);
	if (set)
		*head = set->cursor;
	(void)pthread_mutex_unlock(&lock);
	return r;
}

static nvmlReturn_t wait_event(nvmlEventSet_t handle, struct sim_event *e,
	unsigned int timeout_ms)
{
	const struct sim_state *s;
	nvmlReturn_t r = nvml_lib_enter(&s);
	uint64_t deadline_ns, head = 0;

	if (r)
		return r;
	deadline_ns = time_mono_ns() + timeout_ms * NS_PER_MS;
	for (;;) {
		uint64_t now_ns = time_mono_ns();

		r = read_next_set_event(s, handle, e, &head);
		if (r != NVML_ERROR_TIMEOUT || now_ns >= deadline_ns)
			return r;
		sim_ring_wait(s, head, deadline_ns);
	}
}

EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t handle, nvmlEventData_t *data,
	unsigned int timeout_ms)
{
	struct sim_event e;
	nvmlReturn_t r;

	if (!data) {
		const struct sim_state *s;

		r = nvml_lib_enter(&s);
		return r ? r : NVML_ERROR_INVALID_ARGUMENT;
	}
	r = wait_event(handle, &e, timeout_ms);
	if (r == NVML_SUCCESS)
		*data = (nvmlEventData_t){ .device = handle_encode(
						   (struct handle){ .slot = e.slot,
							   .epoch = e.epoch }),
			.eventType = e.type,
			.eventData = e.data,
			.gpuInstanceId = e.gi,
			.computeInstanceId = e.ci };
	return r;
}

/* The struct of version 1 ends before the instance ids. */
EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t handle, nvmlEventData_t *data,
	unsigned int timeout_ms)
{
	nvmlEventData_t whole;
	nvmlReturn_t r = nvmlEventSetWait_v2(handle, data ? &whole : NULL, timeout_ms);

	if (r == NVML_SUCCESS)
		memcpy(data, &whole, offsetof(nvmlEventData_t, gpuInstanceId));
	return r;
}
