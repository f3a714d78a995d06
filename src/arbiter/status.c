/* SPDX-License-Identifier: Apache-2.0 */
#include "arbiter/internal.h"

#include "arbiter/control.h"
#include "base/time.h"

#include <jansson.h>
#include <string.h>

/* jansson's functions take NULL for a value that could not be made, and fail; what is missing then
 * shows as no memory at the end. */

static json_t *number(uint64_t v)
{
	return json_integer((json_int_t)(v > INT64_MAX ? INT64_MAX : v));
}

static json_t *number_or_null(uint64_t v, uint64_t null)
{
	return v == null ? json_null() : number(v);
}

static json_t *uuid_json(const struct slice *s, unsigned int gpu)
{
	char text[SLICE_UUID_TEXT];

	slice_gpu_text(s->book, gpu, text);
	return json_string(text);
}

static json_t *slice_gpus(struct slice *s)
{
	json_t *list = json_array();

	for (unsigned int i = 0; s->book && i < s->book->n_gpus; i++) {
		const struct book_gpu *g = &s->book->gpus[i];
		uint64_t used = book_slice_used(s->book, i);

		(void)json_array_append_new(list,
			json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "uuid",
				uuid_json(s, i), "limit",
				number_or_null(g->limit, SLICE_NO_LIMIT), "used", number(used),
				"peak", number(g->peak), "granted", number(g->granted),
				"unhooked_used", number(g->unhooked), "over",
				(int)book_slice_over(s->book, i)));
	}
	return list;
}

/* One process's registrations in one slice, added up. */
struct sums {
	uint64_t used, granted, peak, overhead, physical;
};

static void add_up(const struct book_member *first, unsigned int gpu, struct sums *ret)
{
	*ret = (struct sums){ .physical = BOOK_NOTHING };
	for (struct book_member *m = first->task->members; m; m = m->next_of_task) {
		if (m->slice != first->slice)
			continue;
		ret->used += book_used(m, gpu);
		ret->granted += book_granted(m, gpu);
		ret->peak += book_peak(m, gpu);
		ret->overhead += book_overhead(m, gpu);
		/* Of the whole process, in each of them. */
		if (m->gpus[gpu].physical != BOOK_NOTHING)
			ret->physical = m->gpus[gpu].physical;
	}
}

static bool is_first(const struct book_member *m)
{
	for (const struct book_member *o = m->task->members; o; o = o->next_of_task) {
		if (o != m && o->slice == m->slice && o->rec->serial < m->rec->serial)
			return false;
	}
	return true;
}

static bool connected(const struct book_member *first)
{
	for (const struct book_member *m = first->task->members; m; m = m->next_of_task) {
		const struct side *side = m->user;

		if (m->slice == first->slice && side && side->conn)
			return true;
	}
	return false;
}

static json_t *process(const struct slice *s, const struct book_member *m)
{
	json_t *gpus = json_array();
	uint64_t used = 0, peak = 0;
	struct sums sums;

	for (unsigned int i = 0; i < s->book->n_gpus; i++) {
		add_up(m, i, &sums);
		used += sums.used;
		peak += sums.peak;
		if (!sums.granted && !sums.peak)
			continue;
		(void)json_array_append_new(gpus,
			json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "uuid", uuid_json(s, i),
				"used", number(sums.used), "granted", number(sums.granted),
				"peak", number(sums.peak), "overhead", number(sums.overhead),
				"physical", number_or_null(sums.physical, BOOK_NOTHING)));
	}
	return json_pack("{s:I, s:I, s:s, s:b, s:b, s:o, s:o, s:o}", "pid",
		(json_int_t)m->rec->ns_pid, "host_pid", (json_int_t)m->rec->pid, "name",
		m->rec->name, "connected", (int)connected(m), "ended",
		(int)(m->task->dead && book_is_kept(m)), "used", number(used), "peak",
		number(peak), "gpus", gpus);
}

static json_t *processes(const struct slice *s)
{
	json_t *list = json_array();

	for (const struct book_member *m = s->book ? s->book->members : NULL; m; m = m->next) {
		if (is_first(m))
			(void)json_array_append_new(list, process(s, m));
	}
	return list;
}

static json_t *unhooked(const struct arbiter *a, const struct slice *s)
{
	json_t *list = json_array();

	for (const struct unhooked *u = a->unhooked; u; u = u->next) {
		json_t *gpus;

		if (strcmp(u->slice, s->id) != 0)
			continue;
		gpus = json_array();
		for (unsigned int i = 0; s->book && i < s->book->n_gpus; i++) {
			if (u->bytes[i])
				(void)json_array_append_new(gpus,
					json_pack("{s:o, s:o}", "uuid", uuid_json(s, i), "used",
						number(u->bytes[i])));
		}
		(void)json_array_append_new(list,
			json_pack("{s:I, s:s, s:o}", "host_pid", (json_int_t)u->pid, "name",
				u->name, "gpus", gpus));
	}
	return list;
}

static json_t *one_slice(const struct arbiter *a, struct slice *s)
{
	json_t *devices = json_array();

	for (size_t i = 0; i < s->def.devices.n; i++)
		(void)json_array_append_new(devices, json_string(s->def.devices.v[i]));
	return json_pack("{s:s, s:s, s:o, s:s, s:b, s:s?, s:I, s:o, s:o, s:o}", "id", s->id,
		"resource", s->def.resource, "devices", devices, "unhooked",
		s->def.stop_unhooked ? "stop" : "report", "gone",
		(int)(s->book && s->book->gone), "error",
		s->refused.code == ERR_NONE ? NULL : s->refused.msg, "stopped",
		(json_int_t)s->n_stopped, "gpus", slice_gpus(s), "processes", processes(s),
		"unhooked_processes", unhooked(a, s));
}

char *status_text(struct arbiter *a, const char *id)
{
	json_t *slices = json_array(), *age = json_null(), *top;
	char *text = NULL;

	for (struct slice *s = a->slices; s; s = s->next) {
		if (!id || !strcmp(s->id, id))
			(void)json_array_append_new(slices, one_slice(a, s));
	}
	if (a->readings.taken_ns)
		age = number((time_mono_ns() - a->readings.taken_ns) / NS_PER_MS);
	top = json_pack("{s:s, s:i, s:{s:b, s:o}, s:o}", "op", "status", "version",
		CONTROL_VERSION, "readings", "subscribed", (int)control_subscribed(a), "age_ms",
		age, "slices", slices);
	if (top)
		text = json_dumps(top, JSON_COMPACT);
	json_decref(top);
	return text;
}
