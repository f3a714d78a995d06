/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/monitor/sampling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io/nvml/monitor/plausible.h"
#include "lib/base/array.h"

void sampling_fini(struct sampling *s)
{
	sample_free(s->sample);
	*s = (struct sampling){ .seq = s->seq };
}

int sampling_begin(struct sampling *s, struct error *err)
{
	sampling_fini(s);
	if (sample_new(&s->sample, 0, err) < 0)
		return -1;
	if (++s->seq == 0)
		s->seq = 1;
	s->active = true;
	return 0;
}

static int set_sample_error(struct error *err, const char *what)
{
	return error_set(err, ERR_INVALID, "sample of the NVML worker: %s", what);
}

/* Appends a device, all zero but .gi and .ci. NULL: no memory. */
static struct sample_device *add_sample_device(struct sampling *s)
{
	struct sample *to = s->sample;

	if (!ARRAY_GROW(&to->devices, to->n, &s->room, UINT32_MAX))
		return NULL;
	to->devices[to->n] =
		(struct sample_device){ .gi = GPU_NO_INSTANCE, .ci = GPU_NO_INSTANCE };
	return &to->devices[to->n++];
}

static struct sample_device *get_last_device(struct sampling *s)
{
	return s->sample->n > 0 ? &s->sample->devices[s->sample->n - 1] : NULL;
}

/* --- packets --- */

static int add_worker_device(struct sampling *s, const struct worker_device *m,
	struct error *err)
{
	const struct sample_device *before = get_last_device(s);
	bool mig = m->gi != GPU_NO_INSTANCE;
	struct sample_device *device;

	if (mig ? !before || before->gpu != m->gpu || s->n_mig >= GPU_MIG_MAX
		: before && before->gpu >= m->gpu)
		return set_sample_error(err, "units out of order");
	if (sample_find(s->sample, m->uuid))
		return set_sample_error(err, "a unit comes twice");
	s->n_mig = mig ? s->n_mig + 1 : 0;
	device = add_sample_device(s);
	if (!device)
		return error_nomem(err);
	memcpy(device->uuid, m->uuid, sizeof device->uuid);
	memcpy(device->reason, m->reason, sizeof device->reason);
	device->gpu = m->gpu;
	device->gi = m->gi;
	device->ci = m->ci;
	device->at_ns = m->at_ns;
	device->interval_ns = m->interval_ns;
	device->busy_ns = m->busy_ns;
	device->memory_total = m->memory_total;
	device->memory_used = m->memory_used;
	device->memory_free = m->memory_free;
	device->memory_reserved = m->memory_reserved;
	device->memory_known = (m->known & WORKER_DEVICE_MEMORY) != 0;
	device->reserved_known = (m->known & WORKER_DEVICE_RESERVED) != 0;
	device->busy_known = (m->known & WORKER_DEVICE_BUSY) != 0;
	device->processes_known = (m->known & WORKER_DEVICE_PROCESSES) != 0;
	return 0;
}

static int add_device_values(struct sample_device *device, const struct worker_values *m,
	struct error *err)
{
	if (device->values)
		return set_sample_error(err, "values come twice");
	device->values = calloc(m->n + 1, sizeof *device->values);
	if (!device->values)
		return error_nomem(err);
	memcpy(device->values, m->v, m->n * sizeof *device->values);
	device->n_values = m->n;
	return 0;
}

static int add_device_texts(struct sample_device *device, const struct worker_texts *m,
	struct error *err)
{
	if (device->texts)
		return set_sample_error(err, "texts come twice");
	device->texts = calloc(m->n + 1, sizeof *device->texts);
	if (!device->texts)
		return error_nomem(err);
	memcpy(device->texts, m->v, m->n * sizeof *device->texts);
	device->n_texts = m->n;
	return 0;
}

static int add_device_users(struct sampling *s, struct sample_device *device,
	const struct worker_users *m, struct error *err)
{
	if (m->n == 0 || m->n > SAMPLING_PROCESSES_MAX - s->n_processes)
		return 0;
	if (!ARRAY_EXTEND(&device->processes, device->n_processes, m->n,
		    SAMPLING_PROCESSES_MAX))
		return error_nomem(err);
	memcpy(&device->processes[device->n_processes], m->v, m->n * sizeof *m->v);
	device->n_processes += m->n;
	s->n_processes += m->n;
	return 0;
}

int sampling_apply(struct sampling *s, const union worker_msg *m, uint64_t now_ns,
	struct error *err)
{
	struct sample_device *device;

	/* All of these messages have .seq at the same place. */
	if (!s->active || s->broken || m->device.seq != s->seq)
		return 0;
	device = get_last_device(s);
	if (m->head.type == WORKER_DEVICE) {
		if (device)
			plausible_check_device(device, now_ns);
		return add_worker_device(s, &m->device, err);
	}
	if (!device)
		return set_sample_error(err, "figures of no unit");
	if (m->head.type == WORKER_VALUES)
		return add_device_values(device, &m->values, err);
	if (m->head.type == WORKER_TEXTS)
		return add_device_texts(device, &m->texts, err);
	return add_device_users(s, device, &m->users, err);
}

/* --- the end --- */

static int compare_sample_devices(const void *a, const void *b)
{
	const struct sample_device *x = a, *y = b;

	if (x->gpu != y->gpu)
		return (x->gpu > y->gpu) - (x->gpu < y->gpu);
	if ((x->gi == GPU_NO_INSTANCE) != (y->gi == GPU_NO_INSTANCE))
		return x->gi == GPU_NO_INSTANCE ? -1 : 1;
	if (x->gi != y->gi)
		return (x->gi > y->gi) - (x->gi < y->gi);
	return (x->ci > y->ci) - (x->ci < y->ci);
}

static int add_missing_device(struct sampling *s, const char *uuid, uint32_t gpu, uint32_t gi,
	uint32_t ci, const char *why, struct error *err)
{
	struct sample_device *device;

	if (!uuid[0] || sample_find(s->sample, uuid))
		return 0;
	device = add_sample_device(s);
	if (!device)
		return error_nomem(err);
	(void)snprintf(device->uuid, sizeof device->uuid, "%s", uuid);
	(void)snprintf(device->reason, sizeof device->reason, "%s",
		why[0] ? why : "it was not read");
	device->gpu = gpu;
	device->gi = gi;
	device->ci = ci;
	return 0;
}

static int add_all_missing(struct sampling *s, const struct inventory *inv, struct error *err)
{
	for (uint32_t i = 0; i < inv->n; i++) {
		const struct gpu *g = &inv->gpus[i];

		if (g->fault != GPU_FAULT_GONE &&
			add_missing_device(s, g->uuid, g->index, GPU_NO_INSTANCE,
				GPU_NO_INSTANCE, g->reason, err) < 0)
			return -1;
	}
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		const struct gpu_mig *m = &inv->mig[i];
		const struct gpu *g = &inv->gpus[m->gpu];

		if (g->fault != GPU_FAULT_GONE &&
			add_missing_device(s, m->uuid, g->index, m->gi, m->ci,
				m->reason[0] ? m->reason : g->reason, err) < 0)
			return -1;
	}
	return 0;
}

void sampling_end(struct sampling *s, const struct worker_sample_end *m, uint64_t now_ns,
	const struct inventory *inv)
{
	struct error err = ERROR_INIT;
	struct sampling own = *s;

	if (!s->active || s->broken || m->seq != s->seq)
		return;
	/* The callback may start a request at once. */
	*s = (struct sampling){ .seq = own.seq };
	if (get_last_device(&own))
		plausible_check_device(get_last_device(&own), now_ns);
	if (inv && add_all_missing(&own, inv, &err) < 0) {
		own.done(own.arg, NULL, &err);
		sampling_fini(&own);
		return;
	}
	if (own.sample->n > 0)
		qsort(own.sample->devices, own.sample->n, sizeof own.sample->devices[0],
			compare_sample_devices);
	own.sample->nvml_calls = m->calls;
	own.sample->nvml_ns = m->ns <= PLAUSIBLE_INTERVAL_MAX ? m->ns : 0;
	own.done(own.arg, STEAL_PTR(own.sample), NULL);
	sampling_fini(&own);
}

void sampling_fail(struct sampling *s, const struct error *err)
{
	struct sampling own = *s;

	*s = (struct sampling){ .seq = own.seq };
	if (own.active)
		own.done(own.arg, NULL, err);
	sampling_fini(&own);
}
