/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The answer to "status" (abi/arbiter-control.h), with the figures of compute, which are the scheduler thread's. The
 * list of a slice's processes is written piece by piece: as one object it would take much memory.
 *
 * Memory. jansson's functions accept NULL for a value that could not be made, and fail. If json_pack(), set_json() or
 * append_json() fails, the object or list becomes NULL, and so does all that should contain it. So the answer fails
 * at the end: it never lacks a part.
 */
#include "node/arbiter/control/status.h"

#include "abi/arbiter-control.h"
#include "node/arbiter/clients/conn.h"
#include "node/arbiter/control/control.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/process/mps.h"
#include "node/arbiter/process/unhooked.h"
#include "node/arbiter/scheduler/scheduler.h"
#include "node/arbiter/slices/slice.h"
#include "lib/base/buf.h"
#include "lib/base/time.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* --- figures of compute --- */

/* Figures of one slice. */
struct compute_figures {
	struct scheduler_slice_figures slice; /* .n_gpus 0: it never had compute */
	/* One entry per process, sorted by .pid and .start: from its oldest registration, with the sum over all
	 * its registrations on each GPU. */
	struct scheduler_process_figures *processes;
	size_t n;
};

static const char *const counter_names[USAGE_COUNTERS] = {
	[USAGE_LAUNCHES] = "launches",
	[USAGE_COPIES] = "copies",
	[USAGE_BYTES] = "bytes",
	[USAGE_WAITS] = "waits",
	[USAGE_WAIT_NS] = "wait_ns",
	[USAGE_THROTTLE_NS] = "meter_ns",
};

/* Takes @value. Without memory *object becomes NULL. */
static void set_json(json_t **object, const char *key, json_t *value)
{
	if (json_object_set_new(*object, key, value) == 0)
		return;
	json_decref(*object);
	*object = NULL;
}

/* Takes @value. Without memory *list becomes NULL. */
static void append_json(json_t **list, json_t *value)
{
	if (json_array_append_new(*list, value) == 0)
		return;
	json_decref(*list);
	*list = NULL;
}

static void set_json_u64(json_t **object, const char *key, uint64_t v)
{
	set_json(object, key, json_integer((json_int_t)(v > INT64_MAX ? INT64_MAX : v)));
}

static void set_time(json_t **object, uint64_t charged_ns,
	const uint64_t counters[USAGE_COUNTERS])
{
	set_json_u64(object, "charged_ns", charged_ns);
	for (unsigned int k = 0; k < USAGE_COUNTERS; k++)
		set_json_u64(object, counter_names[k], counters[k]);
}

/* --- figures of compute: reading --- */

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

static int compute_figures_read(struct compute_figures *ret, const struct arbiter_slice *s)
{
	struct scheduler *scheduler = s->arbiter->sched;

	*ret = (struct compute_figures){ .processes = NULL };
	if (!s->compute.sched_slice)
		return 0;
	scheduler_figures_slice(scheduler, s->compute.sched_slice, &ret->slice);
	if (scheduler_figures_processes(scheduler, s->compute.sched_slice, &ret->processes,
		    &ret->n) < 0)
		return -1;
	if (ret->n)
		qsort(ret->processes, ret->n, sizeof(*ret->processes), compare_registration);
	merge_process_figures(ret);
	return 0;
}

static void compute_figures_fini(struct compute_figures *f)
{
	free(f->processes);
	f->processes = NULL;
	f->n = 0;
}

/* NULL: the process has no registration for quanta in this slice. */
static const struct scheduler_process_figures *compute_figures_find(
	const struct compute_figures *f, uint32_t pid, uint64_t start)
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

static bool compute_has_gpu(const struct compute_figures *f, const uint8_t *uuid)
{
	return find_figures_gpu(f, uuid) >= 0;
}

/* --- figures of compute: JSON --- */

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

static void compute_slice_json(const struct compute_figures *f, const struct arbiter_slice *s,
	json_t **slice)
{
	const struct arbiter_slice_compute *c = &s->compute;
	/* slice.json may no longer exist. */
	bool latency = c->on != SLICE_TURNS_NONE ? f->slice.gpus[0].latency : s->def.latency;
	const char *error = NULL;

	if (c->error.code != ERR_NONE)
		error = c->error.msg;
	else if (f->slice.crowded)
		error = "too many processes: one of them takes no turns";
	set_json(slice, "compute", compute_json(c->on));
	set_json(slice, "compute_error", error ? json_string(error) : json_null());
	set_json(slice, "class", json_string(latency ? "latency" : "batch"));
}

static json_t *quantum_ends_json(const uint64_t ends[SCHED_ENDS])
{
	json_t *o = json_object();

	for (unsigned int i = 0; i < SCHED_ENDS; i++)
		set_json_u64(&o, sched_end_reason_names[i], ends[i]);
	return o;
}

static void compute_gpu_json(const struct compute_figures *f, const uint8_t *uuid, json_t **gpu)
{
	int at = find_figures_gpu(f, uuid);
	const struct scheduler_share_figures *g = at < 0 ? NULL : &f->slice.gpus[at];

	if (!g)
		return;
	set_time(gpu, g->charged_ns, g->counters);
	set_json_u64(gpu, "weight", g->weight);
	set_json(gpu, "cap", g->cap ? json_integer(g->cap) : json_null());
	set_json(gpu, "turn", json_boolean(g->has_quantum));
	set_json(gpu, "demoted", json_boolean(g->demoted));
	set_json(gpu, "stuck", json_boolean(g->stuck));
	set_json_u64(gpu, "turns", g->quanta);
	set_json(gpu, "quantum_ends", quantum_ends_json(g->quantum_ends));
	set_json_u64(gpu, "revocations", g->revocations);
	set_json_u64(gpu, "queue_ns", g->queue_ns);
}

static void compute_process_json(const struct compute_figures *f,
	const struct scheduler_process_figures *p, const uint8_t *uuid, json_t **gpu)
{
	int at = find_figures_gpu(f, uuid);

	if (!p || at < 0)
		return;
	set_time(gpu, p->gpus[at].charged_ns, p->gpus[at].counters);
	set_json(gpu, "stuck", json_boolean(p->gpus[at].stuck));
}

static json_t *compute_gpus_json(struct arbiter *a)
{
	struct scheduler_gpu_figures gpus[SCHEDULER_GPUS_MAX];
	unsigned int n = scheduler_figures_gpus(a->sched, gpus);
	json_t *list = json_array();

	for (unsigned int i = 0; i < n; i++) {
		json_t *one = json_object();

		set_json(&one, "uuid", json_string(gpus[i].uuid));
		set_json_u64(&one, "busy_ns", gpus[i].busy_ns);
		set_json(&one, "together", json_boolean(gpus[i].concurrent));
		append_json(&list, one);
	}
	return list;
}

/* --- status --- */

static json_t *build_json_number(uint64_t v)
{
	return json_integer((json_int_t)(v > INT64_MAX ? INT64_MAX : v));
}

static json_t *number_or_null(uint64_t v, uint64_t null)
{
	return v == null ? json_null() : build_json_number(v);
}

static json_t *uuid_json(const struct arbiter_slice *s, unsigned int gpu)
{
	char text[SLICE_UUID_TEXT];

	arbiter_slice_gpu_text(s->grants, gpu, text);
	return json_string(text);
}

static json_t *slice_gpus(struct arbiter_slice *s, const struct compute_figures *f)
{
	json_t *list = json_array();

	/* First, so that status never shows more than the next arbiter will know. */
	arbiter_slice_save_refusals(s);
	for (unsigned int i = 0; s->grants && i < s->grants->n_gpus; i++) {
		const struct grants_gpu *g = &s->grants->gpus[i];
		uint64_t used = grants_slice_used(s->grants, i);
		json_t *one;

		one = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "uuid",
			uuid_json(s, i), "limit", number_or_null(g->limit, SLICE_NO_LIMIT),
			"used", build_json_number(used), "peak", build_json_number(g->peak),
			"granted", build_json_number(g->granted), "unhooked_used",
			g->reading_known ? build_json_number(g->unhooked) : json_null(),
			"refusals", build_json_number(s->refusals[i]), "over",
			(int)grants_slice_is_over_limit(s->grants, i));

		compute_gpu_json(f, g->uuid, &one);
		append_json(&list, one);
	}
	return list;
}

/* Sums over the registrations of one process in one slice. */
struct status_sums {
	uint64_t used, granted, peak, overhead, physical;
};

static void sum_member_memory(const struct grants_member *first, unsigned int gpu,
	struct status_sums *ret)
{
	*ret = (struct status_sums){ .physical = GRANTS_UNKNOWN };
	for (struct grants_member *m = first->task->members; m; m = m->next_of_task) {
		if (m->slice != first->slice)
			continue;
		ret->used += grants_get_used(m, gpu);
		ret->granted += grants_get_granted(m, gpu);
		ret->peak += grants_get_peak(m, gpu);
		ret->overhead += grants_get_overhead(m, gpu);
		/* Each registration has the figure of the whole process. */
		if (m->gpus[gpu].physical != GRANTS_UNKNOWN)
			ret->physical = m->gpus[gpu].physical;
	}
}

static bool has_open_connection(const struct grants_member *first)
{
	for (const struct grants_member *m = first->task->members; m; m = m->next_of_task) {
		const struct member_state *side = m->user;

		if (m->slice == first->slice && side && side->conn)
			return true;
	}
	return false;
}

static json_t *build_mps_json(const struct grants_member *m)
{
	uint32_t mps = arbiter_mps_get_member_state(m);

	return mps == SLICE_MPS_UNKNOWN ? json_null() : json_boolean(mps == SLICE_MPS_INSIDE);
}

static json_t *build_process_json(const struct arbiter_slice *s,
	const struct compute_figures *f, const struct grants_member *m)
{
	const struct scheduler_process_figures *p =
		compute_figures_find(f, m->task->pid, m->task->start);
	json_t *gpus = json_array();
	uint64_t used = 0, peak = 0;
	struct status_sums sums;

	for (unsigned int i = 0; i < s->grants->n_gpus; i++) {
		const uint8_t *uuid = s->grants->gpus[i].uuid;
		json_t *one;

		sum_member_memory(m, i, &sums);
		used += sums.used;
		peak += sums.peak;
		if (!sums.granted && !sums.peak && !(p && compute_has_gpu(f, uuid)))
			continue;
		one = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "uuid", uuid_json(s, i),
			"used", build_json_number(sums.used), "granted",
			build_json_number(sums.granted), "peak", build_json_number(sums.peak),
			"overhead", build_json_number(sums.overhead), "physical",
			number_or_null(sums.physical, GRANTS_UNKNOWN));
		compute_process_json(f, p, uuid, &one);
		append_json(&gpus, one);
	}
	return json_pack("{s:I, s:I, s:s, s:b, s:b, s:o, s:o, s:o, s:o}", "pid",
		(json_int_t)m->rec->ns_pid, "host_pid", (json_int_t)m->rec->pid, "name",
		m->rec->name, "connected", (int)has_open_connection(m), "ended",
		(int)(m->task->dead && grants_member_is_retained(m)), "mps", build_mps_json(m),
		"used", build_json_number(used), "peak", build_json_number(peak), "gpus", gpus);
}

/* A process that is registered for quanta, but not for memory. */
static json_t *process_without(const struct arbiter_slice *s, const struct compute_figures *f,
	const struct scheduler_process_figures *p)
{
	json_t *gpus = json_array();

	for (unsigned int i = 0; i < s->grants->n_gpus; i++) {
		const uint8_t *uuid = s->grants->gpus[i].uuid;
		json_t *one;

		if (!compute_has_gpu(f, uuid))
			continue;
		one = json_pack("{s:o, s:i, s:i, s:i, s:i, s:n}", "uuid", uuid_json(s, i),
			"used", 0, "granted", 0, "peak", 0, "overhead", 0, "physical");
		compute_process_json(f, p, uuid, &one);
		append_json(&gpus, one);
	}
	return json_pack("{s:I, s:I, s:s, s:b, s:b, s:n, s:i, s:i, s:o}", "pid",
		(json_int_t)p->ns_pid, "host_pid", (json_int_t)p->pid, "name", p->name,
		"connected", 1, "ended", 0, "mps", "used", 0, "peak", 0, "gpus", gpus);
}

static bool has_member(const struct arbiter_slice *s, const struct scheduler_process_figures *p)
{
	const struct grants_task *t = grants_task_find(&s->arbiter->grants, p->pid, p->start);

	for (const struct grants_member *m = t ? t->members : NULL; m; m = m->next_of_task) {
		if (m->slice == s->grants)
			return true;
	}
	return false;
}

static int add_json_bytes(const char *bytes, size_t len, void *buf)
{
	buf_add(buf, bytes, len);
	return 0;
}

/* Takes @j. Not json_dumps(): without memory that leaves out a key, and succeeds (jansson 2.14). */
static bool append_json_text(struct buf *b, json_t *j)
{
	bool good = j && json_dump_callback(j, add_json_bytes, b, JSON_COMPACT) == 0;

	json_decref(j);
	return good && buf_ok(b);
}

/* Adds one element to a list. */
static bool add_one(struct buf *b, bool *some, json_t *j)
{
	if (*some)
		buf_puts(b, ",");
	*some = true;
	return append_json_text(b, j);
}

/* Reopens the object at the end of @b for a last key, with a list that is written piece by piece. */
static void open_list(struct buf *b, const char *key)
{
	if (b->len)
		b->data[--b->len] = '\0';
	buf_puts(b, key);
}

static bool add_processes(struct buf *b, const struct arbiter_slice *s,
	const struct compute_figures *f)
{
	bool some = false, good = true;

	for (const struct grants_member *m = s->grants ? s->grants->members : NULL; m && good;
		m = m->next) {
		if (grants_member_is_oldest(m))
			good = add_one(b, &some, build_process_json(s, f, m));
	}
	for (size_t i = 0; s->grants && i < f->n && good; i++) {
		if (!has_member(s, &f->processes[i]))
			good = add_one(b, &some, process_without(s, f, &f->processes[i]));
	}
	return good;
}

static bool has_slice_reading(const struct arbiter_slice *s)
{
	for (unsigned int i = 0; s->grants && i < s->grants->n_gpus; i++)
		if (s->grants->gpus[i].reading_known)
			return true;
	return false;
}

static json_t *build_unhooked_json(const struct arbiter *a, const struct arbiter_slice *s)
{
	json_t *list = json_array();

	if (!has_slice_reading(s)) {
		json_decref(list);
		return json_null();
	}
	for (const struct unhooked *u = a->unhooked; u; u = u->next) {
		json_t *gpus;

		if (strcmp(u->slice, s->id) != 0)
			continue;
		gpus = json_array();
		for (unsigned int i = 0; s->grants && i < s->grants->n_gpus; i++) {
			if (u->bytes[i])
				append_json(&gpus,
					json_pack("{s:o, s:o}", "uuid", uuid_json(s, i), "used",
						build_json_number(u->bytes[i])));
		}
		append_json(&list, json_pack("{s:I, s:s, s:o}", "host_pid", (json_int_t)u->pid,
					   "name", u->name, "gpus", gpus));
	}
	return list;
}

/* Without its processes. */
static json_t *build_slice_status_json(const struct arbiter *a, struct arbiter_slice *s,
	const struct compute_figures *f)
{
	json_t *devices = json_array(), *one;

	for (size_t i = 0; i < s->def.devices.n; i++)
		append_json(&devices, json_string(s->def.devices.v[i]));
	one = json_pack("{s:s, s:s, s:o, s:s, s:b, s:s?, s:I, s:o, s:o}", "id", s->id,
		"resource", s->def.resource, "devices", devices, "unhooked",
		s->def.stop_unhooked ? "stop" : "report", "gone",
		(int)(s->grants && s->grants->removed), "error",
		s->refused.code == ERR_NONE ? NULL : s->refused.msg, "stopped",
		(json_int_t)s->n_stopped, "gpus", slice_gpus(s, f), "unhooked_processes",
		build_unhooked_json(a, s));
	compute_slice_json(f, s, &one);
	return one;
}

static bool add_slice(struct arbiter *a, struct buf *b, bool *some, struct arbiter_slice *s)
{
	struct compute_figures f;
	bool good = compute_figures_read(&f, s) == 0 &&
		    add_one(b, some, build_slice_status_json(a, s, &f));

	open_list(b, ",\"processes\":[");
	good = good && add_processes(b, s, &f);
	buf_puts(b, "]}");
	compute_figures_fini(&f);
	return good;
}

char *status_render_json(struct arbiter *a, const char *id)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(CONTROL_ANSWER_MAX);
	json_t *age = json_null();
	bool good, some = false;

	scheduler_figures_begin(a->sched);
	if (a->readings.applied_ns)
		age = build_json_number((time_mono_ns() - a->readings.applied_ns) / NS_PER_MS);
	good = append_json_text(&b,
		json_pack("{s:s, s:i, s:{s:b, s:o}, s:o}", "op", "status", "version",
			CONTROL_VERSION, "readings", "subscribed", (int)control_subscribed(a),
			"age_ms", age, "gpus", compute_gpus_json(a)));
	open_list(&b, ",\"slices\":[");
	for (struct arbiter_slice *s = a->slices; s && good; s = s->next) {
		if (!id || !strcmp(s->id, id))
			good = add_slice(a, &b, &some, s);
	}
	scheduler_figures_end(a->sched);
	buf_puts(&b, "]}");
	return good && buf_ok(&b) ? buf_steal(&b) : NULL;
}
