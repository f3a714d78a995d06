/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/control/figures.h"

#include <stdlib.h>
#include <string.h>

static const char *const counter_names[USAGE_COUNTERS] = {
	[USAGE_LAUNCHES] = "launches",
	[USAGE_COPIES] = "copies",
	[USAGE_BYTES] = "bytes",
	[USAGE_WAITS] = "waits",
	[USAGE_WAIT_NS] = "wait_ns",
	[USAGE_THROTTLE_NS] = "meter_ns",
};

static void set_json_u64(json_t *object, const char *key, uint64_t v)
{
	(void)json_object_set_new(object, key,
		json_integer((json_int_t)(v > INT64_MAX ? INT64_MAX : v)));
}

static void set_time(json_t *object, uint64_t charged_ns,
	const uint64_t counters[USAGE_COUNTERS])
{
	set_json_u64(object, "charged_ns", charged_ns);
	for (unsigned int k = 0; k < USAGE_COUNTERS; k++)
		set_json_u64(object, counter_names[k], counters[k]);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static int compare_process(const void *a, const void *b)
{
	const struct scheduler_process_figures *p = a, *q = b;

	if (p->pid != q->pid)
		return p->pid < q->pid ? -1 : 1;
	return p->start < q->start ? -1 : p->start > q->start;
}

static int compare_registration(const void *a, const void *b)
{
	const struct scheduler_process_figures *p = a, *q = b;
	int r = compare_process(p, q);

	if (r != 0)
		return r;
	return p->number < q->number ? -1 : p->number > q->number;
}

static bool is_same_process(const struct scheduler_process_figures *p, uint32_t pid,
	uint64_t start)
{
	return p->pid == pid && p->start == start;
}

static void add_process_figures(struct scheduler_process_figures *to,
	const struct scheduler_process_figures *p, unsigned int n_gpus)
{
	for (unsigned int i = 0; i < n_gpus; i++) {
		to->gpus[i].charged_ns += p->gpus[i].charged_ns;
		to->gpus[i].stuck |= p->gpus[i].stuck;
		for (unsigned int k = 0; k < USAGE_COUNTERS; k++)
			to->gpus[i].counters[k] += p->gpus[i].counters[k];
	}
}

/* In this order the oldest registration of each process comes first. */
static void merge_process_figures(struct compute_figures *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		const struct scheduler_process_figures *p = &f->processes[i];

		if (n && is_same_process(&f->processes[n - 1], p->pid, p->start))
			add_process_figures(&f->processes[n - 1], p, f->slice.n_gpus);
		else
			f->processes[n++] = *p;
	}
	f->n = n;
}

int compute_figures_read(struct compute_figures *ret, const struct arbiter_slice *s)
{
	struct scheduler *t = s->arbiter->sched;

	*ret = (struct compute_figures){ .processes = NULL };
	if (!s->compute.sched_slice)
		return 0;
	scheduler_figures_slice(t, s->compute.sched_slice, &ret->slice);
	if (scheduler_figures_processes(t, s->compute.sched_slice, &ret->processes, &ret->n) <
		0)
		return -1;
	if (ret->n)
		qsort(ret->processes, ret->n, sizeof(*ret->processes), compare_registration);
	merge_process_figures(ret);
	return 0;
}

void compute_figures_fini(struct compute_figures *f)
{
	free(f->processes);
	f->processes = NULL;
	f->n = 0;
}

const struct scheduler_process_figures *compute_figures_find(const struct compute_figures *f,
	uint32_t pid, uint64_t start)
{
	const struct scheduler_process_figures key = { .pid = pid, .start = start };

	return f->n ? bsearch(&key, f->processes, f->n, sizeof(key), compare_process) : NULL;
}

/* < 0: no such GPU. */
static int find_figures_gpu(const struct compute_figures *f, const uint8_t *uuid)
{
	for (unsigned int i = 0; i < f->slice.n_gpus; i++) {
		if (!memcmp(f->slice.gpus[i].uuid, uuid, SLICE_UUID_BYTES))
			return (int)i;
	}
	return -1;
}

bool compute_has_gpu(const struct compute_figures *f, const uint8_t *uuid)
{
	return find_figures_gpu(f, uuid) >= 0;
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static json_t *compute_json(uint32_t on)
{
	switch (on) {
	case SLICE_TURNS_ON:
		return json_string("turns");
	case SLICE_TURNS_MPS:
		return json_string("mps");
	default:
		return json_null();
	}
}

void compute_slice_json(const struct compute_figures *f, const struct arbiter_slice *s,
	json_t *slice)
{
	const struct arbiter_slice_compute *c = &s->compute;
	/* slice.json may no longer exist. */
	bool latency = c->on != SLICE_TURNS_NONE ? f->slice.gpus[0].latency : s->def.latency;
	const char *error = NULL;

	if (c->error.code != ERR_NONE)
		error = c->error.msg;
	else if (f->slice.crowded)
		error = "too many processes: one of them takes no turns";
	(void)json_object_set_new(slice, "compute", compute_json(c->on));
	(void)json_object_set_new(slice, "compute_error",
		error ? json_string(error) : json_null());
	(void)json_object_set_new(slice, "class", json_string(latency ? "latency" : "batch"));
}

static json_t *quantum_ends_json(const uint64_t ends[SCHED_ENDS])
{
	json_t *o = json_object();

	for (unsigned int i = 0; i < SCHED_ENDS; i++)
		set_json_u64(o, sched_quantum_end_names[i], ends[i]);
	return o;
}

void compute_gpu_json(const struct compute_figures *f, const uint8_t *uuid, json_t *gpu)
{
	int at = find_figures_gpu(f, uuid);
	const struct scheduler_share_figures *g = at < 0 ? NULL : &f->slice.gpus[at];

	if (!g)
		return;
	set_time(gpu, g->charged_ns, g->counters);
	set_json_u64(gpu, "weight", g->weight);
	(void)json_object_set_new(gpu, "cap", g->cap ? json_integer(g->cap) : json_null());
	(void)json_object_set_new(gpu, "turn", json_boolean(g->has_quantum));
	(void)json_object_set_new(gpu, "demoted", json_boolean(g->demoted));
	(void)json_object_set_new(gpu, "stuck", json_boolean(g->stuck));
	set_json_u64(gpu, "turns", g->quanta);
	(void)json_object_set_new(gpu, "quantum_ends", quantum_ends_json(g->quantum_ends));
	set_json_u64(gpu, "revocations", g->revocations);
	set_json_u64(gpu, "queue_ns", g->queue_ns);
}

void compute_process_json(const struct compute_figures *f,
	const struct scheduler_process_figures *p, const uint8_t *uuid, json_t *gpu)
{
	int at = find_figures_gpu(f, uuid);

	if (!p || at < 0)
		return;
	set_time(gpu, p->gpus[at].charged_ns, p->gpus[at].counters);
	(void)json_object_set_new(gpu, "stuck", json_boolean(p->gpus[at].stuck));
}

json_t *compute_gpus_json(struct arbiter *a)
{
	struct scheduler_gpu_figures gpus[SCHEDULER_GPUS_MAX];
	unsigned int n = scheduler_figures_gpus(a->sched, gpus);
	json_t *list = json_array();

	for (unsigned int i = 0; i < n; i++) {
		json_t *one = json_object();

		(void)json_object_set_new(one, "uuid", json_string(gpus[i].uuid));
		set_json_u64(one, "busy_ns", gpus[i].busy_ns);
		(void)json_object_set_new(one, "together", json_boolean(gpus[i].concurrent));
		(void)json_array_append_new(list, one);
	}
	return list;
}
