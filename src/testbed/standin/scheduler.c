/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/scheduler.h"

#include "lib/base/buf.h"

#include <stdlib.h>
#include <string.h>

static bool is_pod_bound(const struct pod *p)
{
	return p->phase == POD_BOUND || p->phase == POD_ADMITTING || p->phase == POD_RUNNING;
}

uint64_t scheduler_requested(struct pod *const *pods, size_t n, const char *resource)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		if (is_pod_bound(pods[i]))
			sum += pod_spec_request(pods[i]->spec, resource);
	}
	return sum;
}

static uint64_t get_allocatable(const struct node_view *node, const char *resource)
{
	for (size_t i = 0; i < node->n_resources; i++) {
		if (strcmp(node->resources[i].name, resource) == 0)
			return node->resources[i].allocatable;
	}
	return 0;
}

/* NodeResourcesFit names all resources that are insufficient; true if there is one. *ret_hopeless: the pod
 * requests more than the node has, even without other pods. */
static bool short_of(const struct node_view *node, struct pod *const *pods, size_t n,
	const struct pod *p, struct buf *why, bool *ret_hopeless)
{
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	size_t n_bound = 0, n_short = 0;

	for (size_t i = 0; i < n; i++)
		n_bound += is_pod_bound(pods[i]);
	if (node->max_pods && n_bound + 1 > node->max_pods) {
		buf_puts(why, "1 Too many pods");
		n_short++;
	}
	if (pod_spec_resources(p->spec, &names, NULL) < 0)
		return true;
	for (size_t i = 0; i < names.n; i++) {
		uint64_t used = scheduler_requested(pods, n, names.v[i]);
		uint64_t have = get_allocatable(node, names.v[i]);
		uint64_t wanted = pod_spec_request(p->spec, names.v[i]);

		if (wanted + used <= have)
			continue;
		*ret_hopeless |= wanted > have;
		buf_printf(why, "%s1 Insufficient %s", n_short++ ? ", " : "", names.v[i]);
	}
	return n_short > 0;
}

/* The filters up to affinity: their failures remain if other pods are evicted. */
static bool is_pod_unresolvable(const struct node_view *node, const struct pod *p,
	struct buf *why)
{
	if (node->unschedulable) {
		buf_puts(why, "1 node(s) were unschedulable");
		return true;
	}
	if (p->spec->node_name && strcmp(p->spec->node_name, node->name) != 0) {
		buf_puts(why, "1 node(s) didn't match the requested node name");
		return true;
	}
	for (size_t i = 0; i < node->n_taints; i++) {
		const struct taint *t = &node->taints[i];

		if (strcmp(t->effect, "PreferNoSchedule") == 0 ||
			taint_tolerated(t, p->spec->tolerations, p->spec->n_tolerations))
			continue;
		buf_puts(why, "1 node(s) had untolerated taint(s)"); /* 1.37 does not name it */
		return true;
	}
	if (!str_map_covers(node->labels, &p->spec->node_selector)) {
		buf_puts(why, "1 node(s) didn't match Pod's node affinity/selector");
		return true;
	}
	return false;
}

bool scheduler_fits(const struct node_view *node, struct pod *const *pods, size_t n,
	const struct pod *p, char **ret_why)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);
	bool hopeless;

	*ret_why = NULL;
	buf_puts(&why, "0/1 nodes are available: ");
	hopeless = is_pod_unresolvable(node, p, &why);
	if (!hopeless && !short_of(node, pods, n, p, &why, &hopeless))
		return true;
	/* The plugin for resource claims adds no text for a pod without claims (1.37). */
	buf_printf(&why, ". " SCHEDULER_PREEMPTION "0/1 nodes are available: 1 %s.",
		hopeless ? "Preemption is not helpful for scheduling"
			 : "No preemption victims found for incoming pod");
	*ret_why = buf_steal(&why);
	return false;
}
