/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include <string.h>

/* The present offer: which devices are usable, and whether the kubelet has the resources. */

struct agent_plugin *agent_plugin_of(const struct agent *a, const char *name)
{
	for (size_t i = 0; i < a->n_plugins; i++)
		if (!strcmp(a->plugins[i]->name, name))
			return a->plugins[i];
	return NULL;
}

/* Why the last trial refused the device; NULL: it did not. Borrowed. */
static const char *agent_trial_refusal(const struct agent_trial *t,
	const struct offer_device *d)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].gpu == d->gpu && t->v[i].mig == d->mig && t->v[i].share == d->share)
			return t->v[i].why;
	return NULL;
}

/* Why Allocate would refuse the device, whatever its health; "": it would not. Borrowed. */
static const char *agent_refusal(const struct agent *a, const struct resource *r,
	const struct offer_device *d)
{
	const struct agent_plugin *p;
	const char *why;

	if (d->why)
		return a->facts.offered.offer->notes.v[d->why - 1];
	p = agent_plugin_of(a, r->name);
	why = p ? agent_trial_refusal(&p->trial, d) : NULL;
	return why ? why : "";
}

/*
 * GPUs have the same positions in the offer, which was made from a copy of the node's inventory. MIG devices may
 * not: a change of the layout removes some from the copy.
 */
bool agent_device_ok(const struct agent *a, const struct resource *r,
	const struct offer_device *d, const char **ret_why)
{
	const char *mig = d->mig == OFFER_WHOLE ? NULL : a->facts.offered.inv->mig[d->mig].uuid;
	const char *refusal = agent_refusal(a, r, d);

	if (!*refusal)
		return node_device_ok(&a->facts.node, d->gpu, mig, ret_why) &&
		       mps_device_ok(&a->mps, r, d, ret_why);
	if (ret_why)
		*ret_why = refusal;
	return false;
}

const char *agent_device_refusal(const struct agent *a, const char *uuid)
{
	const struct offer *offer = a->facts.offered.offer;
	char id[DEVICE_ID_MAX], cut[DEVICE_ID_MAX];

	if (!uuid[0] || !device_id_make(id, sizeof(id), uuid, 0))
		return "";
	for (uint32_t i = 0; offer && i < offer->n; i++) {
		const struct offer_device *d = resource_find(&offer->resources[i], uuid);

		if (!d)
			d = resource_find(&offer->resources[i], id);
		if (!d && device_id_make_slice(cut, sizeof(cut), uuid, offer->resources[i].name,
				  0))
			d = resource_find(&offer->resources[i], cut);
		if (d && *agent_refusal(a, &offer->resources[i], d))
			return agent_refusal(a, &offer->resources[i], d);
	}
	return "";
}

static enum plugin_state get_plugin_state(const struct agent_plugin *p, const char **ret_why)
{
	*ret_why = p ? p->why : "not started";
	return p && p->plugin ? plugin_state(p->plugin, ret_why) : PLUGIN_WAITING;
}

static const char *const plugin_states[] = {
	[PLUGIN_WAITING] = "waiting",
	[PLUGIN_REGISTERING] = "registering",
	[PLUGIN_REGISTERED] = "registered",
};

const char *agent_resource_state(const struct agent *a, const char *name, const char **ret_why)
{
	enum plugin_state state = get_plugin_state(agent_plugin_of(a, name), ret_why);

	if (!*ret_why)
		*ret_why = "";
	return plugin_states[state];
}

bool agent_ready(const struct agent *a, struct buf *why)
{
	bool ready = true;

	if (!a->facts.decided) {
		buf_printf(why, "config: %s\n",
			*a->config.waiting ? a->config.waiting : a->config.last_error.msg);
		ready = false;
	}
	if (!a->facts.nvml_answered || a->facts.nvml_down.code != ERR_NONE) {
		buf_printf(why, "nvml: %s\n",
			a->facts.nvml_down.code ? a->facts.nvml_down.msg : "starting");
		ready = false;
	}
	if (a->facts.offer_error.code != ERR_NONE) {
		buf_printf(why, "offer: %s\n", a->facts.offer_error.msg);
		ready = false;
	}
	if (a->cdi.error.code != ERR_NONE) {
		buf_printf(why, "cdi: %s\n", a->cdi.error.msg);
		ready = false;
	}
	if (*slices_get_error(&a->slices)) {
		buf_printf(why, "slices: %s\n", slices_get_error(&a->slices));
		ready = false;
	}
	/* With an empty --kubelet-socket the agent never registers. */
	for (size_t i = 0; i < a->n_plugins && !(a->kubelet_socket && !*a->kubelet_socket);
		i++) {
		const char *text;

		if (a->plugins[i]->offered &&
			get_plugin_state(a->plugins[i], &text) != PLUGIN_REGISTERED) {
			buf_printf(why, "%s: not registered: %s\n", a->plugins[i]->name,
				text ? text : "");
			ready = false;
		}
	}
	return ready;
}
