/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The answer to "status". The list of a slice's processes is written piece by piece: as one object it would take
 * much memory.
 *
 * jansson's functions accept NULL for a value that could not be made, and fail. If json_pack() fails, the answer
 * fails at the end for lack of memory. A key or list element that is set by itself is left out.
 */
#include "node/arbiter/internal.h"

#include "abi/arbiter-control.h"
#include "node/arbiter/control/figures.h"
#include "lib/base/buf.h"
#include "lib/base/time.h"

#include <jansson.h>
#include <string.h>

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

	slice_gpu_text(s->grants, gpu, text);
	return json_string(text);
}

static json_t *slice_gpus(struct arbiter_slice *s, const struct compute_figures *f)
{
	json_t *list = json_array();

	/* First, so that status never shows more than the next arbiter will know. */
	slice_save_refusals(s);
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

		compute_gpu_json(f, g->uuid, one);
		(void)json_array_append_new(list, one);
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
	uint32_t mps = mps_get_member_state(m);

	return mps == SLICE_MPS_NOT_SAID ? json_null() : json_boolean(mps == SLICE_MPS_INSIDE);
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
		compute_process_json(f, p, uuid, one);
		(void)json_array_append_new(gpus, one);
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
		compute_process_json(f, p, uuid, one);
		(void)json_array_append_new(gpus, one);
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

/* Takes @j. */
static bool append_json_text(struct buf *b, json_t *j)
{
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	if (text)
		buf_puts(b, text);
	free(text);
	return text != NULL;
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
				(void)json_array_append_new(gpus,
					json_pack("{s:o, s:o}", "uuid", uuid_json(s, i), "used",
						build_json_number(u->bytes[i])));
		}
		(void)json_array_append_new(list,
			json_pack("{s:I, s:s, s:o}", "host_pid", (json_int_t)u->pid, "name",
				u->name, "gpus", gpus));
	}
	return list;
}

/* Without its processes. */
static json_t *build_slice_status_json(const struct arbiter *a, struct arbiter_slice *s,
	const struct compute_figures *f)
{
	json_t *devices = json_array(), *one;

	for (size_t i = 0; i < s->def.devices.n; i++)
		(void)json_array_append_new(devices, json_string(s->def.devices.v[i]));
	one = json_pack("{s:s, s:s, s:o, s:s, s:b, s:s?, s:I, s:o, s:o}", "id", s->id,
		"resource", s->def.resource, "devices", devices, "unhooked",
		s->def.stop_unhooked ? "stop" : "report", "gone",
		(int)(s->grants && s->grants->removed), "error",
		s->refused.code == ERR_NONE ? NULL : s->refused.msg, "stopped",
		(json_int_t)s->n_stopped, "gpus", slice_gpus(s, f), "unhooked_processes",
		build_unhooked_json(a, s));
	compute_slice_json(f, s, one);
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
