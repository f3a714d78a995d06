/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/make/make.h"

#include <string.h>

/* The changes of a workload: its request, and its placement. A strategic merge patch. */

/* Lists the pools in which the workload requests @resource. */
static size_t pools_with(struct buf *b, const struct pools *p, uint32_t workload,
	const char *resource, uint32_t *each)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		for (size_t k = 0; k < p->v[i].n_tenants; k++) {
			const struct pool_tenant *t = &p->v[i].tenants[k];

			if (t->workload != workload ||
				strcmp(p->v[i].resources[t->resource].name, resource) != 0)
				continue;
			buf_printf(b, "%s%s", n++ ? ", " : "", p->v[i].name);
			*each = t->each;
		}
	}
	return n;
}

static bool needs_anti_affinity(const struct plan_workload *w)
{
	return w->anti_affinity && !w->object_apart;
}

static void render_node_affinity(struct buf *b, const struct plan_workload *w,
	const struct buf *names, size_t n)
{
	if (n == 1)
		buf_printf(b, "  nodeSelector:\n    nvidia.com/device-plugin.config: %s\n",
			buf_str(names));
	if (n > 1 || needs_anti_affinity(w))
		buf_puts(b, "  affinity:\n");
	if (n > 1)
		buf_printf(b,
			"    nodeAffinity:\n"
			"      requiredDuringSchedulingIgnoredDuringExecution:\n"
			"        nodeSelectorTerms:\n        - matchExpressions:\n"
			"          - key: nvidia.com/device-plugin.config\n            operator: In\n"
			"            values: [%s]\n",
			buf_str(names));
	if (needs_anti_affinity(w))
		buf_puts(b,
			"    podAntiAffinity:\n"
			"      requiredDuringSchedulingIgnoredDuringExecution:\n"
			"      - topologyKey: kubernetes.io/hostname\n        labelSelector:\n"
			"          matchLabels:\n            LABEL: VALUE\n");
}

static bool is_uninterruptible(const struct plan_workload *w)
{
	return !w->checkpointable && (w->kind == PLAN_BATCH || w->kind == PLAN_TRAIN);
}

/* The changes in metadata and spec of the pods. */
static void render_pod_patch(struct buf *b, const struct pools *p, uint32_t workload,
	const char *resource)
{
	const struct plan_workload *w = &p->a->in->workloads[workload];
	const char *was = w->object_resource ? w->object_resource : POOL_RESOURCE_WHOLE;
	CLEANUP(buf_fini) struct buf names = BUF_INIT(1U << 16);
	uint32_t each = 1;
	size_t n = pools_with(&names, p, workload, resource, &each);

	if (is_uninterruptible(w))
		buf_puts(b, "metadata:\n  annotations:\n"
			    "    karpenter.sh/do-not-disrupt: \"true\"\n");
	buf_puts(b, "spec:\n");
	render_node_affinity(b, w, &names, n);
	buf_puts(b, "  tolerations:\n  - key: nvidia.com/gpu\n    operator: Exists\n"
		    "    effect: NoSchedule\n  containers:\n  - name: ");
	make_quoted(b, w->object_container ? w->object_container : "CONTAINER");
	buf_printf(b, "\n    resources:\n      limits:\n        %s: \"%u\"\n", resource, each);
	if (strcmp(was, resource) != 0)
		buf_printf(b, "        %s: null\n      requests:\n        %s: null\n", was,
			was);
}

/* The path of the pod template in an object, and whether the template can be changed. */
struct patch_template {
	const char *kind, *head;
	int indent;
	bool fixed, replicas;
};

static const struct patch_template *find_pod_template(const char *kind)
{
	static const struct patch_template places[] = {
		{ "pod", "", 0, true, false },
		{ "job", "spec:\n  template:\n", 4, true, false },
		{ "cronjob", "spec:\n  jobTemplate:\n    spec:\n      template:\n", 8, false,
			false },
		{ NULL, "  template:\n", 4, false, true }, /* the other kinds, below spec */
	};
	size_t i = 0;

	while (places[i].kind && strcmp(places[i].kind, kind) != 0)
		i++;
	return &places[i];
}

/* A text that every shell and YAML reader takes as a plain name. */
static bool is_plain_name(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!(text[i] >= 'a' && text[i] <= 'z') &&
			!(text[i] >= 'A' && text[i] <= 'Z') &&
			!(text[i] >= '0' && text[i] <= '9') && text[i] != '.' &&
			(text[i] != '-' || !i))
			return false;
	return len > 0;
}

/* "NAMESPACE/NAME" is the workload's name if another object has the same name. */
static void render_patch_command(struct buf *b, const struct plan_workload *w,
	const struct patch_template *at, uint32_t part)
{
	const char *slash = strchr(w->name, '/'), *name = slash ? slash + 1 : w->name;
	const char *space = w->object_space ? w->object_space : slash ? w->name : "";
	size_t len = w->object_space || !slash ? strlen(space) : (size_t)(slash - w->name);

	if (at->fixed) {
		buf_printf(b,
			"# A %s that is there cannot be changed so: put it in place of the old one, with its MANIFEST.\n"
			"# kubectl patch --local -f MANIFEST --patch-file THIS_FILE -o yaml | kubectl replace --force -f -\n",
			at->kind);
		return;
	}
	buf_printf(b, "# kubectl patch %s ", w->object_kind ? w->object_kind : "deployment");
	if (!is_plain_name(name, strlen(name)) || (len && !is_plain_name(space, len)))
		buf_puts(b, "NAME");
	else if (len)
		buf_printf(b, "--namespace %.*s %s", (int)len, space, name);
	else
		buf_puts(b, name);
	if (part)
		buf_printf(b, "-%u", part + 1);
	buf_puts(b, " --patch-file THIS_FILE\n");
}

/* Number of its replicas that request @resource. */
static uint32_t replicas_with(const struct pools *p, uint32_t workload, const char *resource)
{
	uint32_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		for (size_t k = 0; k < p->v[i].n_tenants; k++) {
			const struct pool_tenant *t = &p->v[i].tenants[k];

			if (t->workload == workload &&
				!strcmp(p->v[i].resources[t->resource].name, resource))
				n += t->replicas;
		}
	return n;
}

/* All pods of one object request the same resource. */
static void render_part_comment(struct buf *b, uint32_t n, uint32_t part, uint32_t parts)
{
	if (parts < 2)
		return;
	buf_printf(b, "# Part %u of %u: %u replica%s ask for another resource than the others.",
		part + 1, parts, n, n == 1 ? "" : "s");
	buf_puts(b,
		part ? " Make a copy of the object first,\n# with this name and with labels and a selector of its own.\n"
		     : " The others are in copies, see there.\n");
}

void make_patch(struct buf *b, const struct pools *p, uint32_t workload, const char *resource,
	uint32_t part, uint32_t parts)
{
	const struct plan_workload *w = &p->a->in->workloads[workload];
	const struct patch_template *at =
		find_pod_template(w->object_kind ? w->object_kind : "");
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1U << 17);
	uint32_t n = replicas_with(p, workload, resource);

	make_head(b, p, "What changes in a workload.");
	render_part_comment(b, n, part, parts);
	render_patch_command(b, w, at, part);
	buf_puts(b, "# Tolerations are a list that this replaces: add yours.\n");
	if (!w->object_container)
		buf_puts(b,
			"# Put the name of the container that uses the GPU for CONTAINER.\n");
	if (needs_anti_affinity(w))
		buf_puts(b, "# Put a label that only its pods have for LABEL: VALUE.\n");
	if (at->replicas)
		buf_puts(b, "spec:\n");
	if (at->replicas && parts > 1)
		buf_printf(b, "  replicas: %u\n", n);
	buf_puts(b, at->head);
	render_pod_patch(&text, p, workload, resource);
	if (!buf_ok(&text))
		b->failed = true;
	for (const char *line = buf_str(&text), *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		if (!end)
			break;
		buf_printf(b, "%*s%.*s\n", at->indent, "", (int)(end - line), line);
	}
}
