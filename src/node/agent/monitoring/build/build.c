/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include "lib/base/time.h"

#include <stdlib.h>
#include <string.h>

static void put_warnings(const struct monitoring *mon, struct view *v)
{
	const struct offer *o = mon->c.facts->offered.offer;

	v->n_warnings = o ? (uint32_t)o->warnings.n : 0;
	v->warnings = view_array(v, v->n_warnings, sizeof(*v->warnings));
	for (uint32_t i = 0; o && v->warnings && i < v->n_warnings; i++)
		v->warnings[i] = view_text(v, o->warnings.v[i]);
}

static void put_node(const struct monitoring *mon, const struct see_round *r, struct view *v)
{
	const struct inventory *inv = mon->c.facts->node.inv;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);
	uint64_t listed = mon->accounts.other_cost_nano;

	v->wall_ns = r->wall_ns;
	v->mono_ns = r->now_ns;
	v->interval_ns = mon->c.options.interval_ns;
	v->since_wall_ns = mon->since_wall_ns;
	v->node = view_text(v, mon->c.link->node_name);
	v->hostname = view_text(v, see_hostname());
	v->driver_version = view_text(v, inv ? inv->driver_version : "");
	v->nvml_version = view_text(v, inv ? inv->nvml_version : "");
	v->cuda_version = inv && inv->cuda_version
				  ? view_printf(v, "%d.%d", inv->cuda_version / 1000,
					    inv->cuda_version % 1000 / 10)
				  : view_text(v, "");
	v->instance_type = view_text(v, see_instance_type(mon));
	v->region = view_text(v, see_region(mon));
	v->nvml_up = mon->c.facts->nvml_answered && mon->c.facts->nvml_down.code == ERR_NONE;
	v->nvml_error = view_text(v, mon->c.facts->nvml_down.code ? mon->c.facts->nvml_down.msg
								  : mon->sample_error.msg);
	v->holders_known = see_holders_known(mon);
	v->holders_error = view_text(v, mon->list_error.msg);
	/* Before the GPUs are known their counters cannot be shown, and the node's would go back later. */
	v->priced = mon->price.nano_per_hour > 0 && inv;
	v->price_nano_per_hour = (uint64_t)mon->price.nano_per_hour;
	v->currency = view_text(v, mon->price.currency);
	v->price_source = view_text(v, mon->price.source);
	for (uint32_t i = 0; i < v->n_units; i++)
		listed += v->units[i].cost_nano;
	v->cost_nano = mon->accounts.cost_nano;
	v->other_cost_nano = mon->accounts.other_cost_nano + (mon->accounts.cost_nano - listed);
	v->ready = mon->c.ops->is_ready(mon->c.arg, &why);
}

struct view *see_build(struct monitoring *mon, struct see_round *r, struct error *err)
{
	struct view *v;

	if (view_new(&v, err) < 0)
		return NULL;
	v->seq = ++mon->seq;
	v->sample = STEAL_PTR(mon->sample);
	see_build_units(mon, r, v);
	see_build_gpus(mon, r, v);
	if (!view_failed(v))
		see_build_uses(mon, r, v);
	if (!view_failed(v))
		see_build_seats(mon, r, v);
	if (!view_failed(v)) {
		see_build_resources(mon, r, v);
		see_build_agent(mon, v);
		mon->c.ops->put_config(mon->c.arg, v);
		put_warnings(mon, v);
		put_node(mon, r, v);
	}
	if (view_failed(v)) {
		(void)error_set(err, ERR_LIMIT, "the view of this node needs more than %u MiB",
			VIEW_BYTES_MAX >> 20);
		return view_unref(v);
	}
	return v;
}
