/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/answer/extras.h"

bool extras_any(const struct plan_answer *a)
{
	const struct plan_extras *e = &a->in->extras;

	return e->cluster_nano > 0 || e->node_nano > 0 || e->on_demand_share > 0;
}

/* The share for one node of @o: of its price on demand, also if the node is spot. */
static int64_t compute_extras_share(const struct plan_answer *a, const struct plan_offer *o)
{
	struct error ignored = ERROR_INIT;
	int64_t nano = o->nano_per_hour;
	struct price p;

	if (a->in->extras.on_demand_share <= 0)
		return 0;
	if (price_find(a->prices, o->type, o->region, &p, &ignored) == 0)
		nano = p.nano_per_hour;
	error_clear(&ignored);
	return (int64_t)((double)nano * a->in->extras.on_demand_share + 0.5);
}

static void add_extras_nodes(const struct plan_answer *a, const struct plan_offer *o,
	uint64_t n, struct extras *e)
{
	e->nodes += n;
	e->each_node = price_plus(e->each_node, price_times(a->in->extras.node_nano, n));
	e->share = price_plus(e->share, price_times(compute_extras_share(a, o), n));
}

static void sum_extras(const struct plan_answer *a, int64_t instances, struct extras *e)
{
	e->cluster = a->in->extras.cluster_nano;
	e->all = price_plus(price_plus(instances, e->cluster),
		price_plus(e->each_node, e->share));
}

void extras_of_plan(const struct plan_answer *a, const struct pack_result *plan,
	struct extras *ret)
{
	*ret = (struct extras){ .nodes = 0 };
	for (size_t i = 0; i < plan->n_nodes; i++)
		add_extras_nodes(a, plan->nodes[i].offer, 1, ret);
	sum_extras(a, plan->nano_per_hour, ret);
}

void extras_of_line(const struct plan_answer *a, const struct answer_line *l,
	struct extras *ret)
{
	*ret = (struct extras){ .nodes = 0 };
	add_extras_nodes(a, l->offer, l->nodes, ret);
	sum_extras(a, l->nano_per_hour, ret);
}
