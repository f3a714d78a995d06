/* SPDX-License-Identifier: Apache-2.0 */
#include "node/view/view.h"

/* Reports the first sum that does not hold. */

static int set_difference_error(struct error *err, const struct view_device *u,
	const char *what, uint64_t sum, uint64_t whole)
{
	return error_set(err, ERR_INTERNAL,
		"view: %s: %s: the parts are %llu, the whole is %llu", u->uuid, what,
		(unsigned long long)sum, (unsigned long long)whole);
}

struct view_sums {
	uint64_t busy, memory, gpu, cost;
};

static int check_uses(const struct view *v, uint32_t device, struct view_sums *ret,
	struct error *err)
{
	const struct view_device *u = &v->devices[device];

	if (u->first_use > v->n_uses || u->n_uses > v->n_uses - u->first_use)
		return error_set(err, ERR_INTERNAL, "view: %s: uses out of range", u->uuid);
	for (uint32_t i = 0; i < u->n_uses; i++) {
		const struct view_use *use = &v->uses[u->first_use + i];

		if (use->device != device)
			return error_set(err, ERR_INTERNAL, "view: %s: a use of another unit",
				u->uuid);
		if (use->memory_known && use->live)
			ret->memory += use->memory_used;
		ret->busy += use->busy_ns;
		ret->gpu += use->gpu_ns;
		ret->cost += use->cost_nano;
	}
	return 0;
}

static int check_view_replicas(const struct view *v, uint32_t device, struct error *err)
{
	const struct view_device *u = &v->devices[device];

	if (u->first_replica > v->n_replicas ||
		u->n_replicas > v->n_replicas - u->first_replica)
		return error_set(err, ERR_INTERNAL, "view: %s: seats out of range", u->uuid);
	for (uint32_t i = 0; i < u->n_replicas; i++) {
		const struct view_replica *s = &v->replicas[u->first_replica + i];

		if (s->device != device || (s->use != VIEW_NONE && s->use >= v->n_uses) ||
			(s->use != VIEW_NONE && v->uses[s->use].device != device))
			return error_set(err, ERR_INTERNAL, "view: %s: seat %s: use %u",
				u->uuid, s->id, s->use);
	}
	return 0;
}

static int check_view_device(const struct view *v, uint32_t device, struct error *err)
{
	const struct view_device *u = &v->devices[device];
	struct view_sums sum = { .busy = u->past.busy_ns,
		.gpu = u->past.gpu_ns,
		.cost = u->past.cost_nano };

	if (u->gpu >= v->n_gpus)
		return error_set(err, ERR_INTERNAL, "view: unit %u of GPU %u", device, u->gpu);
	if (check_uses(v, device, &sum, err) < 0 || check_view_replicas(v, device, err) < 0)
		return -1;
	if (sum.busy + u->other_busy_ns != u->busy_ns)
		return set_difference_error(err, u, "busy time", sum.busy + u->other_busy_ns,
			u->busy_ns);
	if (u->memory_known && sum.memory + u->other_memory != u->memory_used)
		return set_difference_error(err, u, "memory", sum.memory + u->other_memory,
			u->memory_used);
	if (sum.gpu + u->idle_gpu_ns != u->present_ns)
		return set_difference_error(err, u, "time", sum.gpu + u->idle_gpu_ns,
			u->present_ns);
	if (sum.cost + u->idle_cost_nano != u->cost_nano)
		return set_difference_error(err, u, "cost", sum.cost + u->idle_cost_nano,
			u->cost_nano);
	return 0;
}

int view_check(const struct view *v, struct error *err)
{
	uint64_t cost = v->other_cost_nano;

	for (uint32_t i = 0; i < v->n_devices; i++) {
		if (check_view_device(v, i, err) < 0)
			return -1;
		cost += v->devices[i].cost_nano;
	}
	if (cost != v->cost_nano)
		return error_set(err, ERR_INTERNAL,
			"view: the cost of all units is %llu, of the node %llu",
			(unsigned long long)cost, (unsigned long long)v->cost_nano);
	return 0;
}
