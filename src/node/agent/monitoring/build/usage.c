/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the usage of a view: a container on a device, with its account and its slice (build.h). */
#include "node/agent/monitoring/build/build.h"

#include "node/agent/monitoring/internal.h"

#include <stdlib.h>
#include <string.h>

/* An account, and its usage entry in the round. */
struct usage_entry {
	const struct account *account;
	uint32_t use; /* MONITORING_NONE: ended */
	uint32_t device;
};

static int compare_usage_entries(const void *a, const void *b)
{
	const struct usage_entry *x = a, *y = b;
	int r;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->account->live != y->account->live)
		return x->account->live ? -1 : 1;
	r = strcmp(x->account->namespace_, y->account->namespace_);
	if (!r)
		r = strcmp(x->account->pod, y->account->pod);
	if (!r)
		r = strcmp(x->account->container, y->account->container);
	if (!r)
		r = strcmp(x->account->resource, y->account->resource);
	if (!r && x->account->began_wall_ns != y->account->began_wall_ns)
		r = x->account->began_wall_ns > y->account->began_wall_ns ? -1 : 1;
	return r ? r : strcmp(x->account->uid, y->account->uid);
}

static uint32_t find_account_usage(const struct monitoring_round *r,
	const struct account *account)
{
	for (uint32_t i = 0; i < r->usage.n; i++)
		if (r->usage.v[i].in.account == account)
			return i;
	return MONITORING_NONE;
}

static uint32_t collect_usage_entries(const struct monitoring *mon,
	const struct monitoring_round *r, struct usage_entry *to)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->devices.n; i++) {
		const struct account_device *device =
			accounts_find_device(&mon->accounts, r->devices.v[i].uuid);

		for (size_t k = 0; device && k < device->n_uses; k++) {
			if (to)
				to[n] = (struct usage_entry){ .account = device->uses[k],
					.use = find_account_usage(r, device->uses[k]),
					.device = i };
			n++;
		}
	}
	return n;
}

/* --- the arbiter's status --- */

static bool is_true(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

static void fill_quantum_ends(struct view_slice *to, const json_t *gpu)
{
	const json_t *ends = json_object_get(gpu, "quantum_ends");

	to->quantum_ends_known = json_is_object(ends);
	for (size_t i = 0; i < SCHED_ENDS; i++)
		(void)monitoring_read_number(ends, sched_end_reason_names[i],
			&to->quantum_ends[i]);
}

static void fill_usage_counters(struct view_slice *to, const json_t *gpu)
{
	const struct {
		const char *key;
		uint64_t *to;
	} rows[] = {
		{ "charged_ns", &to->charged_ns },
		{ "queue_ns", &to->queue_ns },
		{ "wait_ns", &to->wait_ns },
		{ "meter_ns", &to->throttled_ns },
		{ "turns", &to->quanta },
		{ "waits", &to->waits },
		{ "launches", &to->launches },
		{ "copies", &to->copies },
		{ "bytes", &to->copied_bytes },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		(void)monitoring_read_number(gpu, rows[i].key, rows[i].to);
	to->time_known = json_is_integer(json_object_get(gpu, "charged_ns"));
	to->revocations_known = monitoring_read_number(gpu, "revocations", &to->revocations);
	fill_quantum_ends(to, gpu);
	to->refusals_known = monitoring_read_number(gpu, "refusals", &to->refusals);
	to->unhooked_known = monitoring_read_number(gpu, "unhooked_used", &to->unhooked);
	to->has_quantum = is_true(gpu, "turn");
	to->demoted = is_true(gpu, "demoted");
	to->stuck = is_true(gpu, "stuck");
	to->over_limit = is_true(gpu, "over");
	to->reported = gpu != NULL;
}

static const char *compute_name(const struct slice_plan *plan)
{
	if (plan->compute != SLICE_COMPUTE_FAIR_SHARE)
		return plan->compute == SLICE_COMPUTE_MPS ? "mps" : "none";
	for (uint32_t i = 0; i < plan->n; i++)
		if (plan->gpus[i].cap)
			return "capped";
	return "fair";
}

static void fill_usage_slice(const struct monitoring_slice *s, struct view *v,
	struct view_use *to)
{
	const struct slice_file *f = &s->slice->file;
	const struct slice_gpu *g = &f->plan.gpus[s->plan_gpu];
	bool compute = f->plan.compute != SLICE_COMPUTE_NONE;
	struct view_slice *slice = view_array(v, 1, sizeof(*slice));
	uint64_t stopped = 0;

	if (!slice)
		return;
	slice->id = view_text(v, f->id);
	slice->compute = compute_name(&f->plan);
	slice->class_ = f->plan.class_ == SLICE_CLASS_LATENCY ? "latency" : "batch";
	slice->weight = compute ? g->weight : 0;
	slice->cap = compute ? g->cap : 0;
	fill_usage_counters(slice, s->gpu_status);
	(void)monitoring_read_number(s->status, "stopped", &stopped);
	slice->stopped = (uint32_t)stopped;
	if (g->memory != SLICE_NO_LIMIT)
		to->memory_limit = g->memory;
	to->slice = slice;
}

/* --- usage --- */

/* The share of GPU time that the container had in the last round; VIEW_NONE: not known. */
static uint32_t compute_usage_share(const struct monitoring_round *r, const struct account *a)
{
	double part;

	if (!a->busy_from || !r->dt_ns)
		return VIEW_NONE;
	part = (double)a->delta.busy_ns / (double)r->dt_ns;
	return part >= 1 ? VIEW_MILLION : (uint32_t)(part * VIEW_MILLION);
}

static void fill_usage_labels(const struct monitoring_pods *pods, struct view *v,
	struct view_use *to)
{
	const struct monitoring_pod *p =
		monitoring_pod_list_find(&pods->list, to->namespace_, to->pod, to->uid);
	struct view_label *labels = p ? view_array(v, p->n_labels, sizeof(*labels)) : NULL;

	if (!labels)
		return;
	for (uint32_t i = 0; i < p->n_labels; i++)
		labels[i] = (struct view_label){ .name = view_text(v, p->labels[i].name),
			.value = view_text(v, p->labels[i].value) };
	to->labels = labels;
	to->n_labels = p->n_labels;
}

static void fill_usage_allocation(const struct monitoring_round *r, const struct usage_entry *e,
	struct view *v, struct view_use *to)
{
	const struct monitoring_usage_entry *u = &r->usage.v[e->use];
	const struct monitoring_slice *slice = monitoring_slices_find(&r->slices, e->use);

	to->n_replicas = u->n_replicas;
	to->offered_now = u->offered;
	to->replica_id = view_text(v, u->first_allocation->id);
	to->replica = u->first_allocation->replica == MONITORING_NONE
			      ? VIEW_NONE
			      : r->replicas.v[u->first_allocation->replica].device->replica;
	to->memory_limit = u->memory_limit;
	to->processes_known = u->processes_known;
	to->n_processes = u->n_processes;
	to->received = compute_usage_share(r, e->account);
	if (to->received != VIEW_NONE)
		to->received = (uint32_t)((uint64_t)to->received *
					  r->devices.v[e->device].part / VIEW_MILLION);
	if (slice)
		fill_usage_slice(slice, v, to);
}

static void add_use_counters(const struct monitoring_round *r, const struct usage_entry *e,
	bool held_known, struct view *v, struct view_use *to)
{
	const struct account *a = e->account;

	*to = (struct view_use){
		.device = e->device,
		.namespace_ = view_text(v, a->namespace_),
		.pod = view_text(v, a->pod),
		.container = view_text(v, a->container),
		.uid = view_text(v, a->uid),
		.resource = view_text(v, a->resource),
		.mode = (enum view_mode)a->mode,
		.live = a->live,
		.began_wall_ns = a->began_wall_ns,
		.ended_wall_ns = a->live ? 0 : a->ended_wall_ns,
		.replica = VIEW_NONE,
		.replica_id = "",
		.share = (uint32_t)((uint64_t)a->share * r->devices.v[e->device].part /
				    VIEW_MILLION),
		.received = VIEW_NONE,
		.memory_from =
			(enum view_source)(a->live ? a->memory_from : ACCOUNT_FROM_NOTHING),
		.memory_known = a->live && a->memory_from,
		.memory_counted = a->memory_ever,
		.peak_known = a->peak_known,
		.memory_current = a->memory_ever && (!a->live || a->memory_from),
		.memory_used = a->memory,
		.memory_peak = a->memory_peak,
		.memory_limit = UINT64_MAX,
		.busy_from = (enum view_source)(a->live ? a->busy_from : ACCOUNT_FROM_NOTHING),
		.busy_known = a->busy_ever,
		.busy_current =
			a->busy_ever && (a->busy_from || (!a->live && !a->busy_unknown)),
		.busy_exact = a->busy_from == ACCOUNT_FROM_SLICE,
		.allocation_current = !a->live || held_known,
		.allocated_ns = a->total.allocated_ns,
		.gpu_ns = a->total.gpu_ns,
		.busy_ns = a->total.busy_ns,
		.memory_byte_s = a->total.memory_byte_s,
		.cost_nano = a->total.cost_nano,
	};
	if (e->use != MONITORING_NONE && a->live)
		fill_usage_allocation(r, e, v, to);
}

/* NVML and the arbiter answer at different moments. If the containers' sum exceeds the device's figure, the sum
 * counts as used. */
static void fit_memory(struct view_device *device, const struct view_use *uses)
{
	uint64_t sum = 0;

	if (!device->memory_known)
		return;
	for (uint32_t i = 0; i < device->n_uses; i++)
		if (uses[i].live && uses[i].memory_known)
			sum += uses[i].memory_used;
	if (device->memory_used < sum) {
		device->memory_used = sum;
		device->memory_free =
			device->memory_total > sum ? device->memory_total - sum : 0;
	}
	device->other_memory = device->memory_used - sum;
}

void monitoring_build_usage(const struct monitoring *mon, const struct monitoring_round *r,
	struct view *v)
{
	uint32_t n = collect_usage_entries(mon, r, NULL);
	/* Memory of the view: a view without it has failed, as without any other. */
	struct usage_entry *entries = view_array(v, n, sizeof(*entries));

	v->uses = view_array(v, n, sizeof(*v->uses));
	if (!v->uses || !entries)
		return;
	(void)collect_usage_entries(mon, r, entries);
	if (n)
		qsort(entries, n, sizeof(*entries), compare_usage_entries);
	for (uint32_t i = 0; i < n; i++) {
		struct view_device *device = &v->devices[entries[i].device];

		add_use_counters(r, &entries[i], monitoring_allocations_known(mon), v,
			&v->uses[i]);
		if (v->uses[i].live && !view_failed(v))
			fill_usage_labels(&mon->pods, v, &v->uses[i]);
		if (!device->n_uses++)
			device->first_use = i;
	}
	v->n_uses = n;
	for (uint32_t i = 0; i < v->n_devices; i++)
		fit_memory(&v->devices[i], v->uses + v->devices[i].first_use);
}
