/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/sample/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/nvml/sample/reading.h"
#include "lib/base/array.h"

#define UTILIZATION_ROOM 4096 /* samples of process utilization; driver 580 has 72 */

struct nvml_sampler {
	struct probe *p;
	worker_send_fn *send;
	struct sample_state **states;
	uint32_t n_states;
	size_t room; /* of .states */
	struct sample_reading reading;
	struct probe_processes processes; /* of the GPU being read */
	nvmlProcessUtilizationSample_t utilization[UTILIZATION_ROOM];
	bool gone; /* a GPU was lost in this sample */
};

struct nvml_sampler *nvml_sampler_new(struct probe *p, worker_send_fn *send)
{
	struct nvml_sampler *s = calloc(1, sizeof *s);

	if (s) {
		s->p = p;
		s->send = send;
	}
	return s;
}

/* --- state --- */

static void remove_sample_state(struct nvml_sampler *s, uint32_t i)
{
	sample_gpm_free(s->p->nvml, s->states[i]);
	free(s->states[i]);
	s->states[i] = s->states[--s->n_states];
}

/* NULL: no memory, and the sample lacks the device. */
static struct sample_state *get_sample_state(struct nvml_sampler *s, const struct gpu *g,
	const char *uuid, uint32_t gi, uint32_t ci)
{
	struct sample_state *state;

	for (uint32_t i = 0; i < s->n_states; i++) {
		state = s->states[i];
		if (strcmp(state->uuid, uuid) != 0 || state->gi != gi || state->ci != ci)
			continue;
		if (state->gpu == g->index && state->mig_enabled == g->mig_enabled)
			return state;
		remove_sample_state(s, i);
		break;
	}
	if (!ARRAY_GROW(&s->states, s->n_states, &s->room, UINT32_MAX))
		return NULL;
	state = calloc(1, sizeof *state);
	if (!state)
		return NULL;
	(void)snprintf(state->uuid, sizeof state->uuid, "%s", uuid);
	state->gpu = g->index;
	state->gi = gi;
	state->ci = ci;
	state->mig_enabled = g->mig_enabled;
	s->states[s->n_states++] = state;
	return state;
}

static void forget_unseen(struct nvml_sampler *s)
{
	for (uint32_t i = 0; i < s->n_states;) {
		if (s->states[i]->present) {
			s->states[i++]->present = false;
			continue;
		}
		remove_sample_state(s, i);
	}
}

/* --- one device --- */

static void read_device_memory(struct sample_reading *r)
{
	const struct source_memo *m = &r->query.memo;
	struct worker_device *device = r->device;

	if (!sample_may_query(r, SAMPLE_QUERY_MEMORY) ||
		!sample_answered(r, SAMPLE_QUERY_MEMORY, source_memory(&r->query)))
		return;
	device->known |=
		WORKER_DEVICE_MEMORY | (m->reserved_known ? WORKER_DEVICE_RESERVED : 0);
	device->memory_total = m->memory.total;
	device->memory_used = m->memory.used;
	device->memory_free = m->memory.free;
	device->memory_reserved = m->memory.reserved;
}

/* A call returns NVML's unit; DCGM's unit may be a multiple of it. */
static void scale_source_value(size_t position, union source_value *v)
{
	double by = sources[position].scale, scaled;

	if (by == 1.0)
		return;
	scaled = (double)v->i * by;
	if (fields[position].kind == FIELD_REAL)
		v->real = scaled;
	else
		v->i = (int64_t)scaled;
}

static void read_calls(struct sample_reading *r)
{
	for (size_t i = 0; i < n_fields && !r->gone; i++) {
		union source_value v = { .text = "" };
		nvmlReturn_t code;

		if (sources[i].how != SOURCE_CALL || !sample_needs_query(r, i))
			continue;
		code = sources[i].call(&r->query, sources[i].arg, &v);
		scale_source_value(i, &v);
		sample_set_result(r, i, code, &v);
	}
}

/*
 * GPM gives the exact part of the interval in which the GPU had work. Without GPM there is NVML's percentage of
 * its last sampling period (up to a second). That is right on average, but a guess for one interval.
 */
static void read_busy(struct sample_reading *r, bool whole)
{
	struct worker_device *device = r->device;
	double busy = r->gpm_busy;

	if (device->interval_ns == 0 || !whole)
		return;
	if (busy < 0) {
		if (r->of != FIELD_OF_GPU || !sample_may_query(r, SAMPLE_QUERY_RATES) ||
			!sample_answered(r, SAMPLE_QUERY_RATES, source_rates(&r->query)))
			return;
		busy = r->query.memo.rates.gpu / 100.0;
	}
	busy = busy > 1 ? 1 : busy;
	device->busy_ns = (uint64_t)(busy * (double)device->interval_ns);
	if (device->busy_ns > device->interval_ns)
		device->busy_ns = device->interval_ns;
	device->known |= WORKER_DEVICE_BUSY;
}

/* @whole: the device is a GPU, or a MIG device with its whole GPU instance. */
static void read_sample_device(struct nvml_sampler *s, bool whole)
{
	struct sample_reading *r = &s->reading;
	struct worker_device *device = r->device;
	uint64_t before_ns = r->state->at_ns;

	read_device_memory(r);
	sample_gpm_collect(r);
	device->at_ns = r->now_ns;
	device->interval_ns =
		before_ns && device->at_ns > before_ns ? device->at_ns - before_ns : 0;
	r->state->at_ns = device->at_ns;
	sample_gpm_read(r);
	read_calls(r);
	if (r->of & FIELD_OF_GPU)
		sample_fields(r);
	read_busy(r, whole);
	if (device->gi != GPU_NO_INSTANCE || !r->state->mig_enabled)
		sample_users(r, &s->processes, s->utilization, UTILIZATION_ROOM);
	if (r->gone) {
		s->gone = true;
		probe_text(device->reason, sizeof device->reason,
			nvml_strerror(s->p->nvml, r->gone));
	}
}

/* --- sending --- */

static void send_values(struct nvml_sampler *s, uint32_t seq)
{
	const struct sample_reading *r = &s->reading;
	union worker_msg m = { .values = { .seq = seq } };

	for (size_t i = 0; i < n_fields; i++) {
		struct sample_value *v = &m.values.v[m.values.n];

		if (!r->has[i] || fields[i].kind == FIELD_TEXT)
			continue;
		m.values.n++;
		v->field = (uint16_t)i;
		if (fields[i].kind == FIELD_REAL)
			v->real = r->values[i].real;
		else
			v->i = r->values[i].i;
	}
	worker_head(&m.head, WORKER_VALUES);
	if (m.values.n > 0)
		s->send(&m);
}

static void send_texts(struct nvml_sampler *s, uint32_t seq)
{
	const struct sample_reading *r = &s->reading;
	union worker_msg m = { .texts = { .seq = seq } };

	for (size_t i = 0; i < n_fields && m.texts.n < WORKER_TEXTS_MAX; i++) {
		struct sample_text *t = &m.texts.v[m.texts.n];

		if (!r->has[i] || fields[i].kind != FIELD_TEXT)
			continue;
		m.texts.n++;
		t->field = (uint16_t)i;
		(void)snprintf(t->text, sizeof t->text, "%s", r->values[i].text);
	}
	worker_head(&m.head, WORKER_TEXTS);
	if (m.texts.n > 0)
		s->send(&m);
}

static void send_users(struct nvml_sampler *s, uint32_t seq)
{
	const struct sample_reading *r = &s->reading;

	for (uint32_t sent = 0; sent < r->n_users; sent += WORKER_USERS_MAX) {
		union worker_msg m = { .users = { .seq = seq } };
		uint32_t n = r->n_users - sent;

		m.users.n = n < WORKER_USERS_MAX ? n : WORKER_USERS_MAX;
		memcpy(m.users.v, &r->users[sent], m.users.n * sizeof m.users.v[0]);
		worker_head(&m.head, WORKER_USERS);
		s->send(&m);
	}
}

/* --- all devices --- */

struct sample_round {
	struct nvml_sampler *s;
	const struct worker_sample *q;
	const struct gpu *g;
	nvmlDevice_t parent;
};

static void sample_one(const struct sample_round *o, nvmlDevice_t device,
	const struct gpu_mig *mig)
{
	struct nvml_sampler *s = o->s;
	struct sample_reading *r = &s->reading;
	const char *uuid = mig ? mig->uuid : o->g->uuid;
	uint32_t gi = mig ? mig->gi : GPU_NO_INSTANCE, ci = mig ? mig->ci : GPU_NO_INSTANCE;
	struct sample_state *state = get_sample_state(s, o->g, uuid, gi, ci);
	union worker_msg m = {
		.device = { .seq = o->q->seq, .gpu = o->g->index, .gi = gi, .ci = ci }
	};

	if (!state)
		return;
	state->present = true;
	memset(r->has, 0, sizeof r->has);
	r->query = (struct source_query){ .p = s->p, .gpu = o->g->index, .device = device };
	r->state = state;
	r->of = mig ? FIELD_OF_MIG | FIELD_OF_GI : FIELD_OF_GPU;
	r->parent = o->parent;
	r->wanted = o->q->wanted;
	r->now_ns = time_mono_ns();
	r->period_ns =
		o->q->interval_ns < SAMPLE_COSTLY_NS ? o->q->interval_ns : SAMPLE_COSTLY_NS;
	r->gone = NVML_SUCCESS;
	r->gpm_busy = -1;
	r->n_users = 0;
	r->device = &m.device;
	(void)snprintf(m.device.uuid, sizeof m.device.uuid, "%s", uuid);
	read_sample_device(s, !mig || mig->ci_slices == mig->gi_slices);
	worker_head(&m.head, WORKER_DEVICE);
	s->send(&m);
	send_values(s, o->q->seq);
	send_texts(s, o->q->seq);
	send_users(s, o->q->seq);
}

/*
 * Samples the MIG devices of the last probe. A device that is another one meanwhile is left to the next sample.
 */
static void sample_migs(const struct sample_round *o, const struct probe_mig *migs)
{
	struct probe *p = o->s->p;

	for (uint32_t i = 0; i < migs->n && !o->s->reading.gone; i++) {
		const struct gpu_mig *mig = &migs->mig[i];
		char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "", text[GPU_UUID_MAX];
		nvmlDevice_t device = NULL;

		if (mig->reason[0] || !mig->uuid[0] ||
			PROBE_CALL(p, o->g->index, nvmlDeviceGetMigDeviceHandleByIndex,
				o->parent, mig->index, &device) != NVML_SUCCESS ||
			PROBE_CALL(p, o->g->index, nvmlDeviceGetUUID, device, uuid,
				sizeof uuid) != NVML_SUCCESS)
			continue;
		uuid[sizeof uuid - 1] = '\0';
		probe_text(text, sizeof text, uuid);
		if (strcmp(text, mig->uuid) == 0)
			sample_one(o, device, mig);
	}
}

static void send_sampler_probe_hint(struct nvml_sampler *s)
{
	union worker_msg m = { .head = { .magic = 0 } };

	worker_head(&m.head, WORKER_PROBE_HINT);
	s->send(&m);
}

void nvml_sampler_run(struct nvml_sampler *s, const struct worker_sample *q, uint32_t n,
	const struct gpu *gpus, const nvmlDevice_t *devices, const struct probe_mig *migs)
{
	uint64_t began_ns = time_mono_ns();
	uint32_t began = s->p->count;
	union worker_msg m = { .sample_end = { .seq = q->seq } };

	s->gone = false;
	for (uint32_t i = 0; i < n; i++) {
		struct sample_round o = { s, q, &gpus[i], devices[i] };

		if (!devices[i] || !gpus[i].uuid[0])
			continue;
		probe_processes(s->p, i, devices[i], &s->processes);
		sample_one(&o, devices[i], NULL);
		if (gpus[i].mig_enabled)
			sample_migs(&o, &migs[i]);
	}
	forget_unseen(s);
	m.sample_end.calls = s->p->count - began;
	m.sample_end.ns = time_mono_ns() - began_ns;
	worker_head(&m.head, WORKER_SAMPLE_END);
	s->send(&m);
	if (s->gone)
		send_sampler_probe_hint(s);
}
