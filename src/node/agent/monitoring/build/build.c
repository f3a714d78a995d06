/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include "lib/base/time.h"

#include <stdlib.h>
#include <string.h>

static void put_config(const struct agent *a, struct view *v)
{
	const struct agent_config_state *c = &a->config;
	CLEANUP(buf_fini) struct buf sharing = BUF_INIT(128);

	config_sharing_text(a->facts.config, &sharing);
	v->config_generation = c->generation;
	v->config_since_wall_ns = c->since_wall_ns;
	v->config_source = view_text(v, c->where);
	v->config_sharing = view_text(v, buf_str(&sharing));
	v->config_error = view_text(v, c->last_error.msg);
	v->config_decided = a->facts.decided;
}

static void put_warnings(const struct agent *a, struct view *v)
{
	const struct offer *o = a->facts.offered.offer;

	v->n_warnings = o ? (uint32_t)o->warnings.n : 0;
	v->warnings = view_array(v, v->n_warnings, sizeof(*v->warnings));
	for (uint32_t i = 0; o && v->warnings && i < v->n_warnings; i++)
		v->warnings[i] = view_text(v, o->warnings.v[i]);
}

static void put_node(const struct agent *a, const struct see_round *r, struct view *v)
{
	const struct agent_see *s = &a->see;
	const struct inventory *inv = a->facts.node.inv;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);
	uint64_t listed = s->accounts.other_cost_nano;

	v->wall_ns = r->wall_ns;
	v->mono_ns = r->now_ns;
	v->interval_ns = s->options.interval_ns;
	v->since_wall_ns = s->since_wall_ns;
	v->node = view_text(v, a->cluster.link.node_name);
	v->hostname = view_text(v, see_hostname());
	v->driver_version = view_text(v, inv ? inv->driver_version : "");
	v->nvml_version = view_text(v, inv ? inv->nvml_version : "");
	v->cuda_version = inv && inv->cuda_version
				  ? view_printf(v, "%d.%d", inv->cuda_version / 1000,
					    inv->cuda_version % 1000 / 10)
				  : view_text(v, "");
	v->instance_type = view_text(v, see_instance_type(a));
	v->region = view_text(v, see_region(a));
	v->nvml_up = a->facts.nvml_answered && a->facts.nvml_down.code == ERR_NONE;
	v->nvml_error = view_text(v,
		a->facts.nvml_down.code ? a->facts.nvml_down.msg : s->sample_error.msg);
	v->holders_known = see_holders_known(s);
	v->holders_error = view_text(v, s->list_error.msg);
	/* Before the GPUs are known their counters cannot be shown, and the node's would go back later. */
	v->priced = s->price.nano_per_hour > 0 && inv;
	v->price_nano_per_hour = (uint64_t)s->price.nano_per_hour;
	v->currency = view_text(v, s->price.currency);
	v->price_source = view_text(v, s->price.source);
	for (uint32_t i = 0; i < v->n_units; i++)
		listed += v->units[i].cost_nano;
	v->cost_nano = s->accounts.cost_nano;
	v->other_cost_nano = s->accounts.other_cost_nano + (s->accounts.cost_nano - listed);
	v->ready = agent_ready(a, &why);
}

struct view *see_build(struct agent *a, struct see_round *r, struct error *err)
{
	struct view *v;

	if (view_new(&v, err) < 0)
		return NULL;
	v->seq = ++a->see.seq;
	v->sample = STEAL_PTR(a->see.sample);
	see_build_units(a, r, v);
	see_build_gpus(a, r, v);
	if (!view_failed(v))
		see_build_uses(a, r, v);
	if (!view_failed(v))
		see_build_seats(a, r, v);
	if (!view_failed(v)) {
		see_build_resources(a, r, v);
		see_build_agent(a, v);
		put_config(a, v);
		put_warnings(a, v);
		put_node(a, r, v);
	}
	if (view_failed(v)) {
		(void)error_set(err, ERR_LIMIT, "the view of this node needs more than %u MiB",
			VIEW_BYTES_MAX >> 20);
		return view_unref(v);
	}
	return v;
}
