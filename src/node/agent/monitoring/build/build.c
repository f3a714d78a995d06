/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include "lib/base/time.h"

#include <stdlib.h>
#include <string.h>

static void fill_view_warnings(const struct monitoring *mon, struct view *v)
{
	const struct offer *o = mon->c.facts->offered.offer;

	v->n_warnings = o ? (uint32_t)o->warnings.n : 0;
	v->warnings = view_array(v, v->n_warnings, sizeof(*v->warnings));
	for (uint32_t i = 0; o && v->warnings && i < v->n_warnings; i++)
		v->warnings[i] = view_text(v, o->warnings.v[i]);
}

static void fill_view_node(const struct monitoring *mon, const struct monitoring_round *r,
	struct view *v)
{
	const struct inventory *inv = mon->c.facts->node.inv;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);
	uint64_t listed = mon->accounts.other_cost_nano;

	v->wall_ns = r->wall_ns;
	v->mono_ns = r->now_ns;
	v->interval_ns = mon->c.options.interval_ns;
	v->since_wall_ns = mon->since_wall_ns;
	v->node = view_text(v, mon->c.link->node_name);
	v->hostname = view_text(v, monitoring_hostname());
	v->driver_version = view_text(v, inv ? inv->driver_version : "");
	v->nvml_version = view_text(v, inv ? inv->nvml_version : "");
	v->cuda_version = inv && inv->cuda_version
				  ? view_printf(v, "%d.%d", inv->cuda_version / 1000,
					    inv->cuda_version % 1000 / 10)
				  : view_text(v, "");
	v->instance_type = view_text(v, monitoring_instance_type(mon));
	v->region = view_text(v, monitoring_region(mon));
	v->nvml_up = mon->c.facts->nvml_answered && mon->c.facts->nvml_down.code == ERR_NONE;
	v->nvml_error = view_text(v, mon->c.facts->nvml_down.code ? mon->c.facts->nvml_down.msg
								  : mon->sample_error.msg);
	v->allocations_known = monitoring_allocations_known(mon);
	v->allocations_error = view_text(v, mon->list_error.msg);
	/* Before the GPUs are known the view has no counters of theirs. A cost shown now would make the node's
	 * counter go back later. */
	v->priced = mon->price.nano_per_hour > 0 && inv;
	v->price_nano_per_hour = (uint64_t)mon->price.nano_per_hour;
	v->currency = view_text(v, mon->price.currency);
	v->price_source = view_text(v, mon->price.source);
	for (uint32_t i = 0; i < v->n_devices; i++)
		listed += v->devices[i].cost_nano;
	v->cost_nano = mon->accounts.cost_nano;
	v->other_cost_nano = mon->accounts.other_cost_nano + (mon->accounts.cost_nano - listed);
	v->ready = mon->c.ops->is_ready(mon->c.arg, &why);
}

struct view *monitoring_build_view(struct monitoring *mon, struct monitoring_round *r,
	struct error *err)
{
	struct view *v;

	if (view_new(&v, err) < 0)
		return NULL;
	v->seq = ++mon->seq;
	v->sample = STEAL_PTR(mon->sample);
	monitoring_build_devices(mon, r, v);
	monitoring_build_gpus(mon, r, v);
	if (!view_failed(v))
		monitoring_build_usage(mon, r, v);
	if (!view_failed(v))
		monitoring_build_replicas(mon, r, v);
	if (!view_failed(v)) {
		monitoring_build_resources(mon, r, v);
		monitoring_build_agent(mon, v);
		mon->c.ops->fill_view_config(mon->c.arg, v);
		fill_view_warnings(mon, v);
		fill_view_node(mon, r, v);
	}
	if (view_failed(v)) {
		(void)error_set(err, ERR_LIMIT, "the view of this node needs more than %u MiB",
			VIEW_BYTES_MAX >> 20);
		return view_unref(v);
	}
	return v;
}
