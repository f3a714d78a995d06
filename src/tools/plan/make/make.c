/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/make/make.h"

#include "io/price/price.h"
#include "lib/base/array.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- texts --- */

/* Bytes of the control character or line end at @text, also those in UTF-8 that YAML and terminals know; 0:
 * neither. */
static size_t control_len(const unsigned char *text, unsigned *ret)
{
	*ret = text[0];
	if (text[0] < ' ' || text[0] == 0x7f)
		return 1;
	if (text[0] == 0xc2 && text[1] >= 0x80 && text[1] <= 0x9f) {
		*ret = text[1];
		return 2;
	}
	if (text[0] == 0xe2 && text[1] == 0x80 && (text[2] == 0xa8 || text[2] == 0xa9)) {
		*ret = 0x2000U | (text[2] - 0x80U);
		return 3;
	}
	return 0;
}

void make_quoted(struct buf *b, const char *text)
{
	buf_putc(b, '"');
	while (*text) {
		unsigned code;
		size_t len = control_len((const unsigned char *)text, &code);

		if (len) {
			buf_printf(b, code > 0xff ? "\\u%04x" : "\\x%02x", code);
			text += len;
			continue;
		}
		if (*text == '"' || *text == '\\')
			buf_putc(b, '\\');
		buf_putc(b, *text++);
	}
	buf_putc(b, '"');
}

/* "3 nodes for 2 workloads with 9 replicas: 2.41 USD an hour in us-east-1, prices of ...". */
static void make_sum(struct buf *b, const struct pools *p)
{
	const struct plan_answer *a = p->a;
	const struct plan_offer *o = p->n ? p->v[0].offer : NULL;
	char money[PRICE_TEXT_MAX];

	buf_printf(b, "%zu node%s for %zu workload%s with %llu replica%s: %s %s an hour",
		a->plan.n_nodes, plan_plural(a->plan.n_nodes), a->in->n_workloads,
		plan_plural(a->in->n_workloads), (unsigned long long)a->replicas,
		plan_plural(a->replicas), price_text(a->plan.nano_per_hour, 2, money),
		a->currency ? a->currency : "");
	if (o)
		buf_printf(b, " in %s, prices of %s%s%s", o->region, o->source,
			*o->stamp ? ", " : "", o->stamp);
}

void make_head(struct buf *b, const struct pools *p, const char *what)
{
	buf_printf(b, "# %s\n# Of a plan of gpuslice: ", what);
	make_sum(b, p);
	buf_puts(b, ".\n");
}

bool make_differs(const struct plan_pool *p)
{
	return p->n_resources != 1 || strcmp(p->resources[0].name, POOL_RESOURCE_WHOLE) != 0 ||
	       p->resources[0].count != p->offer->gpus || p->offer->gpu_milli < 1000;
}

uint32_t make_alike(const struct plan_pool *p, uint32_t g)
{
	uint32_t to = g + 1;

	while (to < p->offer->gpus && p->partitions[to].n == p->partitions[g].n &&
		!memcmp(p->partitions[to].v, p->partitions[g].v,
			p->partitions[g].n * sizeof(*p->partitions[g].v)))
		to++;
	return to;
}

/* --- the instructions --- */

static bool has_pool_where(const struct pools *p, bool (*is)(const struct plan_pool *p))
{
	for (size_t i = 0; i < p->n; i++)
		if (is(&p->v[i]))
			return true;
	return false;
}

static bool is_mig_pool(const struct plan_pool *p)
{
	return p->mode == PLAN_MIG;
}

/* Ampere needs a reset of the GPU for MIG; later GPUs turn MIG on without one. */
static bool needs_pool_reboot(const struct plan_pool *p)
{
	return is_mig_pool(p) && p->offer->gpu->cc_major == 8;
}

static bool is_slices_pool(const struct plan_pool *p)
{
	return p->mode == PLAN_SLICES;
}

static bool has_mps(const struct plan_pool *p)
{
	return p->mode == PLAN_MPS;
}

static bool is_bought_pool(const struct plan_pool *p)
{
	return !p->have;
}

static bool is_existing_pool(const struct plan_pool *p)
{
	return p->have;
}

static bool needs_overlay(const struct plan_pool *p)
{
	return !p->have && make_differs(p);
}

static void render_pool_table(struct buf *b, const struct pools *p)
{
	buf_puts(b, "| pool | nodes | of | each offers |\n|---|---|---|---|\n");
	for (size_t i = 0; i < p->n; i++) {
		const struct plan_pool *q = &p->v[i];

		assert(q->offer); /* each pool has an offer */
		buf_printf(b, "| %s | %u | %s, %s | ", q->name, q->nodes, q->offer->type,
			q->have                           ? "there already"
			: q->offer->capacity == PLAN_SPOT ? "spot"
							  : "on demand");
		for (size_t k = 0; k < q->n_resources; k++)
			buf_printf(b, "%s%s: %u", k ? ", " : "", q->resources[k].name,
				q->resources[k].count);
		buf_puts(b, " |\n");
	}
}

/* Applies the map in the agent's namespace, whatever the file has. */
static void apply_map(struct buf *b, const char *path)
{
	buf_printf(b,
		"   sed \"1,/^data:/s/^  namespace: .*/  namespace: $NAMESPACE/\" %s | kubectl apply -f -\n",
		path);
}

static void render_agent_steps(struct buf *b, const struct pools *p)
{
	buf_puts(b,
		"1. The sharing configs, and the agent that reads them. If it is installed already, `helm list "
		"--all-namespaces` has its\n   release and namespace:\n\n   ```sh\n"
		"   RELEASE=gpuslice NAMESPACE=" MAKE_NAMESPACE "\n"
		"   kubectl create namespace \"$NAMESPACE\" --dry-run=client -o yaml | kubectl apply -f -\n");
	apply_map(b, MAKE_CONFIG_PATH);
	if (has_pool_where(p, is_mig_pool))
		apply_map(b, MAKE_MIG_PATH);
	/* Values of an earlier install stay, except its own config, which the chart refuses beside this one. */
	buf_puts(b,
		"   helm upgrade --install \"$RELEASE\" deploy/helm/gpuslice --namespace \"$NAMESPACE\" "
		"\\\n     --reset-then-reuse-values --set config.name=" MAKE_CONFIG_MAP
		",config.map=null,config.default=");
	if (has_pool_where(p, is_slices_pool))
		buf_puts(b, " --set slices.enabled=true");
	if (has_pool_where(p, has_mps))
		buf_puts(b, " --set mps.enabled=true");
	if (has_pool_where(p, is_mig_pool))
		buf_puts(b,
			" \\\n     --set migManager.enabled=true --set migManager.config.name=" MAKE_MIG_MAP
			",migManager.config.default=");
	if (has_pool_where(p, needs_pool_reboot))
		buf_puts(b, " --set migManager.withReboot=true");
	buf_puts(b,
		"\n   ```\n\n   `deploy/helm/gpuslice` is the chart in gpuslice's repository. `--reset-then-reuse-values` needs Helm "
		"3.14: what an earlier\n   install was given stays, but its own configs.\n\n");
	if (has_pool_where(p, needs_pool_reboot))
		buf_puts(b,
			"   **A100 and A30 turn MIG on with a reset, which virtual machines often cannot do**: the agent reboots such a "
			"node once, before pods come.\n\n");
}

static void render_node_steps(struct buf *b, const struct pools *p)
{
	if (has_pool_where(p, is_bought_pool)) {
		buf_puts(b,
			"2. The nodes. With Karpenter put your cluster's name for `CLUSTER_NAME` in `20-nodeclass.yaml`, "
			"then:\n\n   ```sh\n   kubectl apply -f 20-nodeclass.yaml -f 30-nodepools.yaml");
		if (has_pool_where(p, needs_overlay))
			buf_puts(b, " -f 40-nodeoverlays.yaml");
		buf_puts(b,
			"\n   ```\n\n   With cluster-autoscaler see `60-cluster-autoscaler-tags.txt` instead.\n\n");
	}
	if (has_pool_where(p, needs_overlay))
		buf_puts(b,
			"   **The overlays need Karpenter's feature gate `NodeOverlay=true`**, which is off by default. Without it "
			"Karpenter knows of no\n   such resource, and starts no node for pods that ask for it. "
			"`kubectl get nodeoverlays` shows READY `True` where it works.\n\n");
	if (!has_pool_where(p, is_existing_pool))
		return;
	buf_puts(b,
		"   Nodes that are there already get their label, so many of the type each:\n\n   ```sh\n");
	for (size_t i = 0; i < p->n; i++) {
		const struct plan_pool *q = &p->v[i];

		if (!q->have)
			continue;
		buf_printf(b,
			"   kubectl label node NODE nvidia.com/gpu.present=true nvidia.com/device-plugin.config=%s%s%s   # %u x %s\n",
			q->name, is_mig_pool(q) ? " nvidia.com/mig.config=" : "",
			is_mig_pool(q) ? q->name : "", q->nodes, q->offer->type);
	}
	buf_puts(b, "   ```\n\n");
}

static void make_readme(struct buf *b, const struct pools *p)
{
	buf_puts(b, "# A plan to apply\n\n");
	make_sum(b, p);
	buf_puts(b, ". Made by `gpuslice plan --write`.\n\n");
	render_pool_table(b, p);
	buf_puts(b, "\n## Order\n\n");
	render_agent_steps(b, p);
	render_node_steps(b, p);
	buf_puts(b,
		"3. The workloads: `patches/` has a patch for each, with its command. Nodes of the pools carry the taint "
		"`nvidia.com/gpu:NoSchedule`,\n   and until their GPUs are offered `gpuslice.io/not-ready:NoSchedule`, which the "
		"agent takes away.\n");
	if (p->n_notes)
		buf_puts(b, "\n## To know before\n\n");
	for (size_t i = 0; i < p->n_notes; i++)
		buf_printf(b, "- %s (%s)\n", p->notes[i].text, p->notes[i].code);
}

/* --- the files --- */

#define NAME_MAX_LEN 80 /* bytes of a workload's name in its file name */

static const struct {
	const char *path;
	void (*make)(struct buf *b, const struct pools *p);
} kinds[] = {
	{ "00-README.md", make_readme },
	{ MAKE_CONFIG_PATH, make_sharing_config },
	{ MAKE_MIG_PATH, make_mig },
	{ "20-nodeclass.yaml", make_node_class },
	{ "30-nodepools.yaml", make_node_pools },
	{ "40-nodeoverlays.yaml", make_overlays },
	{ "60-cluster-autoscaler-tags.txt", make_tags },
};

void make_files_fini(struct make_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		buf_fini(&f->v[i].text);
	free(f->v);
	*f = (struct make_files){ 0 };
}

/* Appends an empty file; NULL: no memory. */
static struct make_file *add_make_file(struct make_files *f, struct error *err)
{
	if (!ARRAY_GROW(&f->v, f->n, &f->room, ARRAY_NO_LIMIT)) {
		(void)error_nomem(err);
		return NULL;
	}
	f->v[f->n] = (struct make_file){ .text = BUF_INIT(MAKE_FILE_MAX) };
	return &f->v[f->n++];
}

/* A file name without special characters; @n distinguishes several patches of one workload. */
static void patch_path(char path[static MAKE_PATH_MAX], const char *name, uint32_t n)
{
	char safe[NAME_MAX_LEN + 1];
	size_t len = 0;

	for (; *name && len < NAME_MAX_LEN; name++) {
		char c = *name;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || c == '-' || c == '_' ||
			     (c == '.' && len);

		safe[len++] = '_';
		if (plain)
			safe[len - 1] = c;
	}
	safe[len] = '\0';
	if (n)
		(void)snprintf(path, MAKE_PATH_MAX, "patches/%s-%u.yaml", safe, n + 1);
	else
		(void)snprintf(path, MAKE_PATH_MAX, "patches/%s.yaml", safe);
}

/* All resources that the workload requests. */
static uint32_t resources_of(const struct pools *p, uint32_t workload,
	const char *seen[POOLS_MAX])
{
	uint32_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		for (size_t k = 0; k < p->v[i].n_tenants && n < POOLS_MAX; k++) {
			const struct pool_tenant *t = &p->v[i].tenants[k];
			const char *resource = p->v[i].resources[t->resource].name;
			uint32_t s = 0;

			while (s < n && strcmp(seen[s], resource) != 0)
				s++;
			if (t->workload == workload && s == n)
				seen[n++] = resource;
		}
	}
	return n;
}

static int patches_of(struct make_files *f, const struct pools *p, uint32_t workload,
	struct error *err)
{
	const char *resources[POOLS_MAX];
	uint32_t n = resources_of(p, workload, resources);

	for (uint32_t i = 0; i < n; i++) {
		struct make_file *file = add_make_file(f, err);

		if (!file)
			return -1;
		patch_path(file->path, p->a->in->workloads[workload].name, i);
		make_patch(&file->text, p, workload, resources[i], i, n);
	}
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct make_file *)a)->path, ((const struct make_file *)b)->path);
}

/* Adds a number to names that became equal; the list is sorted. */
static void make_paths_unique(struct make_files *f)
{
	for (size_t i = 0, to; i < f->n; i = to) {
		for (to = i + 1; to < f->n && !strcmp(f->v[to].path, f->v[i].path);)
			to++;
		for (size_t k = i + 1; k < to; k++) {
			char *dot = strrchr(f->v[k].path, '.');

			(void)snprintf(dot, MAKE_PATH_MAX - (size_t)(dot - f->v[k].path),
				"~%zu.yaml", k - i + 1);
		}
	}
}

int make_plan_files(struct make_files *ret, const struct pools *p, struct error *err)
{
	*ret = (struct make_files){ 0 };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct make_file *file = add_make_file(ret, err);

		if (!file)
			return -1;
		(void)snprintf(file->path, sizeof(file->path), "%s", kinds[i].path);
		kinds[i].make(&file->text, p);
		if (!file->text.len)
			ret->n--, buf_fini(&file->text);
	}
	for (uint32_t w = 0; w < p->a->in->n_workloads; w++)
		if (patches_of(ret, p, w, err) < 0)
			return -1;
	qsort(ret->v, ret->n, sizeof(*ret->v), by_path);
	make_paths_unique(ret);
	for (size_t i = 0; i < ret->n; i++)
		if (!buf_ok(&ret->v[i].text))
			return error_nomem(err);
	return 0;
}
