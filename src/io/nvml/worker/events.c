/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/worker/events.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/time.h"
#include "lib/base/backoff.h"

#define BACKOFF_MIN_NS (100 * NS_PER_MS)
#define BACKOFF_MAX_NS (5 * NS_PER_SEC)
#define DRAIN_MAX      1024 /* limit of events from one old set */

/* Requested besides the XID where the GPU has them: they report that something about a GPU changed. */
#define HINT_EVENTS \
	(NVML_EVENT_MIG_CONFIG | NVML_EVENT_GPU_UNAVAILABLE | NVML_EVENT_RECOVERY_ACTION)

struct event_source {
	nvmlDevice_t device;
	uint32_t index;
	bool mig;
	bool failed;
	char uuid[GPU_UUID_MAX];
};

struct worker_events {
	struct probe probe; /* event thread only */
	worker_send_fn *send;
	nvmlEventSet_t set;        /* event thread only */
	struct event_source *mine; /* event thread only: the sources in .set */
	uint32_t n_mine;
	pthread_mutex_t lock; /* guards all members below */
	struct event_source sources[GPU_NODE_MAX];
	uint32_t n;
	uint64_t generation;
	bool started;
};

int worker_events_new(struct worker_events **ret, const struct nvml *nvml,
	_Atomic uint64_t *crumb, worker_send_fn *send, struct error *err)
{
	struct worker_events *e = calloc(1, sizeof *e);

	if (!e)
		return error_nomem(err);
	e->mine = calloc(GPU_NODE_MAX, sizeof *e->mine);
	if (!e->mine) {
		free(e);
		return error_nomem(err);
	}
	e->probe = (struct probe){ .nvml = nvml, .sysfs = "", .procfs = "", .crumb = crumb };
	e->send = send;
	(void)pthread_mutex_init(&e->lock, NULL);
	*ret = e;
	return 0;
}

static void pause_ns(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_SEC),
		.tv_nsec = (long)(ns % NS_PER_SEC) };

	(void)nanosleep(&ts, NULL);
}

static void send_event_probe_hint(struct worker_events *e)
{
	union worker_msg m = { .head = { .magic = 0 } };

	worker_head(&m.head, WORKER_PROBE_HINT);
	e->send(&m);
}

/* Notes whether NVML refuses events of @mine. True: that changed. */
static bool set_source_failed(struct worker_events *e, struct event_source *mine, bool failed)
{
	if (mine->failed == failed)
		return false;
	mine->failed = failed;
	(void)pthread_mutex_lock(&e->lock);
	for (uint32_t i = 0; i < e->n; i++) {
		if (strcmp(e->sources[i].uuid, mine->uuid) == 0)
			e->sources[i].failed = failed;
	}
	(void)pthread_mutex_unlock(&e->lock);
	return true;
}

/* Requests all desired events that the GPU supports. If the driver refuses these, the XIDs alone. */
static nvmlReturn_t register_one(struct worker_events *e, const struct event_source *s)
{
	struct probe *p = &e->probe;
	unsigned long long have = 0;
	nvmlReturn_t r =
		PROBE_CALL(p, s->index, nvmlDeviceGetSupportedEventTypes, s->device, &have);

	if (r == NVML_SUCCESS && (have & HINT_EVENTS)) {
		r = PROBE_CALL(p, s->index, nvmlDeviceRegisterEvents, s->device,
			NVML_EVENT_XID_CRITICAL | (have & HINT_EVENTS), e->set);
		if (r == NVML_SUCCESS)
			return r;
	}
	return PROBE_CALL(p, s->index, nvmlDeviceRegisterEvents, s->device,
		NVML_EVENT_XID_CRITICAL, e->set);
}

static void drop_set(struct worker_events *e)
{
	if (e->set)
		(void)PROBE_CALL(&e->probe, WORKER_GPU_NONE, nvmlEventSetFree, e->set);
	e->set = NULL;
}

static const struct event_source *source_of(struct worker_events *e, nvmlDevice_t d)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";

	for (uint32_t i = 0; i < e->n_mine; i++) {
		if (e->mine[i].device == d)
			return &e->mine[i];
	}
	if (!d || PROBE_CALL(&e->probe, WORKER_GPU_NONE, nvmlDeviceGetUUID, d, uuid,
			  sizeof uuid) != NVML_SUCCESS)
		return NULL;
	uuid[sizeof uuid - 1] = '\0';
	for (uint32_t i = 0; i < e->n_mine; i++) {
		if (strcmp(e->mine[i].uuid, uuid) == 0)
			return &e->mine[i];
	}
	return NULL;
}

static void send_gpu_event(struct worker_events *e, const nvmlEventData_t *data)
{
	union worker_msg m = { .head = { .magic = 0 } };
	const struct event_source *s;

	if (!(data->eventType & NVML_EVENT_XID_CRITICAL)) {
		send_event_probe_hint(e);
		return;
	}
	s = source_of(e, data->device);
	m.xid = (struct worker_xid){ .xid = (uint32_t)data->eventData,
		.gi = NVML_NO_INSTANCE,
		.ci = NVML_NO_INSTANCE };
	if (s)
		memcpy(m.xid.uuid, s->uuid, sizeof m.xid.uuid);
	/* Some drivers set both to zero while MIG is off. */
	if (!s || s->mig) {
		m.xid.gi = data->gpuInstanceId;
		m.xid.ci = data->computeInstanceId;
	}
	worker_head(&m.head, WORKER_XID);
	e->send(&m);
	/* NVIDIA's plugin marks every GPU as unhealthy here. A probe of all GPUs finds the one. */
	if (!s)
		send_event_probe_hint(e);
}

/* Registers all sources in .mine with the set, if there is one. Returns the number of GPUs in the set. */
static uint32_t register_all(struct worker_events *e)
{
	uint32_t registered = 0;
	bool news = false;

	for (uint32_t i = 0; i < e->n_mine; i++) {
		bool good = e->set && register_one(e, &e->mine[i]) == NVML_SUCCESS;

		registered += good;
		news |= set_source_failed(e, &e->mine[i], !good);
	}
	if (news)
		send_event_probe_hint(e);
	return registered;
}

/* Delivers the events that wait in @set, even after the report that one of its GPUs is lost. Frees @set. */
static void drain_event_set(struct worker_events *e, nvmlEventSet_t set)
{
	for (int i = 0; set && i < DRAIN_MAX; i++) {
		nvmlEventData_t data = { .gpuInstanceId = NVML_NO_INSTANCE,
			.computeInstanceId = NVML_NO_INSTANCE };
		nvmlReturn_t r = PROBE_CALL(&e->probe, WORKER_GPU_NONE, nvmlEventSetWait_v2,
			set, &data, 0);

		if (r == NVML_SUCCESS)
			send_gpu_event(e, &data);
		else if (r != NVML_ERROR_GPU_IS_LOST)
			break;
	}
	if (set)
		(void)PROBE_CALL(&e->probe, WORKER_GPU_NONE, nvmlEventSetFree, set);
}

/*
 * Replaces the set by one of all sources in .mine. The old set listens until the new one does, so no event is
 * lost. An event in that moment is reported twice, which does no harm. True: the set exists and has at least one
 * GPU.
 */
static bool make_set(struct worker_events *e)
{
	nvmlEventSet_t old = e->set;
	bool good;

	e->set = NULL;
	if (PROBE_CALL(&e->probe, WORKER_GPU_NONE, nvmlEventSetCreate, &e->set) != NVML_SUCCESS)
		e->set = NULL;
	good = register_all(e) > 0;
	drain_event_set(e, old);
	return good;
}

/* Makes the set fit the present GPUs. False: there is no set yet. */
static bool refresh_event_set(struct worker_events *e, uint64_t *have)
{
	uint64_t generation;

	(void)pthread_mutex_lock(&e->lock);
	generation = e->generation;
	if (generation != *have) {
		e->n_mine = e->n;
		memcpy(e->mine, e->sources, e->n * sizeof e->mine[0]);
	}
	(void)pthread_mutex_unlock(&e->lock);
	if (generation == *have && e->set)
		return true;
	if (!make_set(e)) {
		drop_set(e);
		return false;
	}
	*have = generation;
	return true;
}

static void *run_event_thread(void *arg)
{
	struct worker_events *e = arg;
	uint64_t have = 0;
	uint32_t failures = 0;

	for (;;) {
		/* the older wait call does not write the instances */
		nvmlEventData_t data = { .gpuInstanceId = NVML_NO_INSTANCE,
			.computeInstanceId = NVML_NO_INSTANCE };
		nvmlReturn_t r = NVML_ERROR_UNKNOWN;
		bool ready = refresh_event_set(e, &have);

		if (ready)
			r = PROBE_CALL(&e->probe, WORKER_GPU_NONE, nvmlEventSetWait_v2, e->set,
				&data, WORKER_EVENTS_WAIT_MS);
		if (r == NVML_SUCCESS)
			send_gpu_event(e, &data);
		if (r == NVML_SUCCESS || r == NVML_ERROR_TIMEOUT) {
			failures = 0;
			continue;
		}
		/*
		 * NVML does not say which GPU is lost. A probe of all GPUs finds it, and gives the thread the GPUs
		 * for a new set. Until then the old set serves the other GPUs. After other errors a new set may
		 * help; NVIDIA's plugin continues with the old one in a busy loop.
		 */
		if (ready && r == NVML_ERROR_GPU_IS_LOST)
			send_event_probe_hint(e);
		else
			drop_set(e);
		probe_crumb(&e->probe, WORKER_GPU_NONE, WORKER_STEP_NONE);
		pause_ns(backoff_doubled(BACKOFF_MIN_NS, BACKOFF_MAX_NS, failures++));
	}
	return NULL;
}

static bool same_sources(const struct worker_events *e, const struct event_source *s,
	uint32_t n)
{
	if (e->n != n)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		if (e->sources[i].device != s[i].device || e->sources[i].mig != s[i].mig ||
			strcmp(e->sources[i].uuid, s[i].uuid) != 0)
			return false;
	}
	return true;
}

static int start_event_thread(struct worker_events *e, struct error *err)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r = pthread_attr_init(&attr);

	if (r == 0) {
		(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		r = pthread_create(&thread, &attr, run_event_thread, e);
		(void)pthread_attr_destroy(&attr);
	}
	if (r != 0)
		return error_sys(err, r, "start the thread for GPU events");
	e->started = true;
	return 0;
}

int worker_events_update(struct worker_events *e, uint32_t n, const struct gpu *gpus,
	const nvmlDevice_t *devices, struct error *err)
{
	CLEANUP(freep) struct event_source *s = calloc(GPU_NODE_MAX, sizeof *s);
	uint32_t k = 0;
	bool changed, any_failed = false;

	if (!s)
		return error_nomem(err);
	for (uint32_t i = 0; i < n && k < GPU_NODE_MAX; i++) {
		bool failed = worker_events_failed(e, gpus[i].uuid);
		bool listens = (gpus[i].xid_events || failed) && gpus[i].uuid[0] &&
			       devices[i] && gpus[i].fault != GPU_FAULT_LOST &&
			       gpus[i].fault != GPU_FAULT_RESET;

		if (!listens)
			continue;
		any_failed |= failed;
		s[k] = (struct event_source){ .device = devices[i],
			.index = gpus[i].index,
			.mig = gpus[i].mig_enabled,
			.failed = failed };
		memcpy(s[k].uuid, gpus[i].uuid, sizeof s[k].uuid);
		k++;
	}
	(void)pthread_mutex_lock(&e->lock);
	/* A GPU with refused events is registered again with each probe. */
	changed = any_failed || !same_sources(e, s, k);
	if (changed) {
		memcpy(e->sources, s, k * sizeof *s);
		e->n = k;
		e->generation++;
	}
	(void)pthread_mutex_unlock(&e->lock);
	return k > 0 && !e->started ? start_event_thread(e, err) : 0;
}

bool worker_events_failed(struct worker_events *e, const char *uuid)
{
	bool failed = false;

	(void)pthread_mutex_lock(&e->lock);
	for (uint32_t i = 0; i < e->n; i++)
		failed |= e->sources[i].failed && strcmp(e->sources[i].uuid, uuid) == 0;
	(void)pthread_mutex_unlock(&e->lock);
	return failed;
}
