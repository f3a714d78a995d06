/* SPDX-License-Identifier: Apache-2.0 */
#include "model/labels/labels.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/labels/set.h"

#define NVIDIA        "nvidia.com/"
#define TIMESTAMP_KEY NVIDIA "gfd.timestamp"

#define PCI_CLASS_VGA UINT32_C(0x030000)
#define PCI_CLASS_3D  UINT32_C(0x030200)

/* The labels of the whole node. Where NVIDIA's program exits (driver version of an unknown form), this code
 * leaves out the label and adds a note. The node keeps all other labels. */

static void add_driver_labels(struct label_set *s, const char *version)
{
	char parts[3][sizeof(((struct inventory *)0)->driver_version)] = { "" };
	size_t n = 0;

	for (const char *p = version; p; n++) {
		size_t len = strcspn(p, ".");

		if (n < ARRAY_LEN(parts))
			(void)snprintf(parts[n], sizeof(parts[n]), "%.*s", (int)len, p);
		p = p[len] ? p + len + 1 : NULL;
	}
	if (n < 2 || n > 3) {
		label_set_add_note(s,
			"no labels of the driver's version: '%s' is not of the form X.Y or "
			"X.Y.Z",
			version);
		return;
	}
	label_set_add(s, NVIDIA "cuda", "driver.major", "%s", parts[0]);
	label_set_add(s, NVIDIA "cuda", "driver.minor", "%s", parts[1]);
	label_set_add(s, NVIDIA "cuda", "driver.rev", "%s", parts[2]);
	label_set_add(s, NVIDIA "cuda", "driver-version.major", "%s", parts[0]);
	label_set_add(s, NVIDIA "cuda", "driver-version.minor", "%s", parts[1]);
	label_set_add(s, NVIDIA "cuda", "driver-version.revision", "%s", parts[2]);
	label_set_add(s, NVIDIA "cuda", "driver-version.full", "%s", version);
}

static void add_cuda_labels(struct label_set *s, int32_t version)
{
	int32_t major = version / 1000, minor = version % 1000 / 10;

	if (version <= 0) {
		label_set_add_note(s,
			"no labels of the CUDA version: the driver does not tell it");
		return;
	}
	label_set_add(s, NVIDIA "cuda", "runtime.major", "%" PRId32, major);
	label_set_add(s, NVIDIA "cuda", "runtime.minor", "%" PRId32, minor);
	label_set_add(s, NVIDIA "cuda", "runtime-version.major", "%" PRId32, major);
	label_set_add(s, NVIDIA "cuda", "runtime-version.minor", "%" PRId32, minor);
	label_set_add(s, NVIDIA "cuda", "runtime-version.full", "%" PRId32 ".%" PRId32, major,
		minor);
}

/* Facts that need one GPU with them, or all GPUs. */
struct summary {
	uint32_t n; /* number of GPUs that can be offered */
	bool mig_capable, mig_unknown;
	uint32_t pci_class; /* 0: unknown, or the GPUs differ */
	const struct gpu *clique, *other_clique;
};

static struct summary summarise_node_gpus(const struct inventory *inv)
{
	struct summary s = { 0 };

	for (uint32_t i = 0; i < inv->n; i++) {
		const struct gpu *g = &inv->gpus[i];

		if (!offer_can_have(inv, i))
			continue;
		s.mig_capable = s.mig_capable || (g->mig_capable && !g->mig_unknown);
		s.mig_unknown = s.mig_unknown || g->mig_unknown;
		s.pci_class = s.n && s.pci_class != g->pci_class ? 0 : g->pci_class;
		s.n++;
		if (!g->fabric_attached)
			continue;
		if (!s.clique)
			s.clique = g;
		else if (strcmp(g->cluster_uuid, s.clique->cluster_uuid) != 0 ||
			 g->clique_id != s.clique->clique_id)
			s.other_clique = g;
	}
	return s;
}

static const char *get_gpu_mode_name(uint32_t pci_class)
{
	return pci_class == PCI_CLASS_VGA  ? "graphics"
	       : pci_class == PCI_CLASS_3D ? "compute"
					   : "unknown";
}

static void add_clique_label(struct label_set *s, const struct summary *sum)
{
	const struct gpu *g = sum->clique, *o = sum->other_clique;

	if (o)
		label_set_add_note(s,
			"no label " LABEL_RESOURCE ".clique: GPU %" PRIu32 " is of %s.%" PRIu32
			" and GPU %" PRIu32 " of %s.%" PRIu32,
			g->index, g->cluster_uuid, g->clique_id, o->index, o->cluster_uuid,
			o->clique_id);
	else if (g)
		label_set_add(s, LABEL_RESOURCE, "clique", "%s.%" PRIu32, g->cluster_uuid,
			g->clique_id);
}

static void add_capability_labels(struct label_set *s, const struct summary *sum,
	const struct config *config)
{
	static const char *const names[] = {
		[MIG_STRATEGY_SINGLE] = "single",
		[MIG_STRATEGY_MIXED] = "mixed",
	};

	/* NVIDIA's value is false where MIG is on: NVIDIA's plugin cannot share MIG devices by MPS. */
	label_set_add(s, NVIDIA "mps", "capable", "%s",
		config_wants_mps(config) ? "true" : "false");
	if (sum->mig_capable || !sum->mig_unknown)
		label_set_add(s, NVIDIA "mig", "capable", "%s",
			sum->mig_capable ? "true" : "false");
	if (config->mig_strategy != MIG_STRATEGY_NONE)
		label_set_add(s, NVIDIA "mig", "strategy", "%s", names[config->mig_strategy]);
}

static void add_vgpu_labels(struct label_set *s, const struct label_facts *facts)
{
	if (facts->vgpu == VGPU_UNKNOWN)
		return;
	label_set_add(s, NVIDIA "vgpu", "present", "%s",
		facts->vgpu == VGPU_PRESENT ? "true" : "false");
	if (facts->vgpu != VGPU_PRESENT)
		return;
	if (!facts->vgpu_host_version[0])
		label_set_add_note(s,
			"no labels of the vGPU host's driver: the vGPU does not tell it");
	if (facts->vgpu_host_version[0])
		label_set_add(s, NVIDIA "vgpu", "host-driver-version", "%s",
			facts->vgpu_host_version);
	if (facts->vgpu_host_branch[0])
		label_set_add(s, NVIDIA "vgpu", "host-driver-branch", "%s",
			facts->vgpu_host_branch);
}

static void add_node_labels(struct label_set *s, const struct inventory *inv,
	const struct config *config, const struct label_facts *facts)
{
	const struct summary sum = summarise_node_gpus(inv);

	if (!sum.n)
		return;
	add_driver_labels(s, inv->driver_version);
	add_cuda_labels(s, inv->cuda_version);
	label_set_add_text(s, LABEL_RESOURCE, "machine",
		facts->machine ? facts->machine : "unknown", "");
	add_capability_labels(s, &sum, config);
	label_set_add(s, LABEL_RESOURCE, "mode", "%s", get_gpu_mode_name(sum.pci_class));
	add_clique_label(s, &sum);
	labels_of_gpus(s, inv, config);
}

static int label_cmp(const void *a, const void *b)
{
	return strcmp(((const struct label *)a)->key, ((const struct label *)b)->key);
}

int labels_new(struct labels **ret, const struct inventory *inv, const struct config *config,
	const struct label_facts *facts, struct strv *notes, struct error *err)
{
	CLEANUP(labels_freep) struct labels *l = calloc(1, sizeof(*l));
	struct label_set s = { .labels = l, .notes = notes };

	if (!l)
		return error_nomem(err);
	if (facts->timestamp_s)
		label_set_add(&s, NVIDIA "gfd", "timestamp", "%" PRIu64, facts->timestamp_s);
	add_vgpu_labels(&s, facts);
	if (inv->driver_version[0])
		add_node_labels(&s, inv, config, facts);
	if (s.failed)
		return error_nomem(err);
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), label_cmp);
	*ret = STEAL_PTR(l);
	return 0;
}

struct labels *labels_free(struct labels *l)
{
	if (!l)
		return NULL;
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].key);
		free(l->v[i].value);
	}
	free(l->v);
	free(l);
	return NULL;
}

/* The first position from @i on that is not the timestamp. */
static size_t skip_timestamp(const struct labels *l, size_t i)
{
	return i < l->n && strcmp(l->v[i].key, TIMESTAMP_KEY) == 0 ? i + 1 : i;
}

bool labels_equal(const struct labels *a, const struct labels *b)
{
	size_t i = skip_timestamp(a, 0), k = skip_timestamp(b, 0);

	while (i < a->n && k < b->n) {
		if (strcmp(a->v[i].key, b->v[k].key) != 0 ||
			strcmp(a->v[i].value, b->v[k].value) != 0)
			return false;
		i = skip_timestamp(a, i + 1);
		k = skip_timestamp(b, k + 1);
	}
	return i == a->n && k == b->n;
}
