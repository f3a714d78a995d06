/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A node, and the labels that tests check. */
#include "unit/model/core-fixture.h"

#include "model/labels/labels.h"

#define MIB (UINT64_C(1) << 20)

/* One GPU for each letter: w whole, c MIG-capable with MIG off, m MIG on (it has no capability). */
static inline struct inventory *mock_inventory(const char *gpus)
{
	struct inventory *inv = fixture_inventory((uint32_t)strlen(gpus));

	(void)snprintf(inv->driver_version, sizeof(inv->driver_version), "400.300");
	inv->cuda_version = 8000;
	for (uint32_t i = 0; i < inv->n; i++) {
		struct gpu *g = &inv->gpus[i];

		(void)snprintf(g->name, sizeof(g->name), "MOCKMODEL");
		g->memory_total_bytes = 300 * MIB;
		g->pci_class = 0x030200;
		g->cc_major = gpus[i] == 'm' ? 0 : 8;
		g->mig_unknown = gpus[i] == 'u';
		g->mig_capable = gpus[i] != 'w' && gpus[i] != 'u';
		g->mig_enabled = gpus[i] == 'm';
	}
	return inv;
}

/* A MIG device of @gi and @ci slices and @mib of memory on GPU @gpu, all engines 0. Borrowed. */
static inline struct gpu_mig *mock_mig(struct inventory *inv, uint32_t gpu, uint32_t gi,
	uint32_t ci, uint32_t mib)
{
	struct gpu_mig *m;
	uint32_t index = 0;

	for (uint32_t i = 0; i < inv->n_mig; i++)
		index += inv->mig[i].gpu == gpu;
	inv->mig = realloc(inv->mig, (inv->n_mig + 1) * sizeof(*inv->mig));
	assert_non_null(inv->mig);
	m = &inv->mig[inv->n_mig++];
	*m = (struct gpu_mig){ .gpu = gpu,
		.index = index,
		.memory_mib = mib,
		.gi_slices = gi,
		.ci_slices = ci };
	(void)snprintf(m->uuid, sizeof(m->uuid), "MIG-%u-%u", gpu, index);
	(void)snprintf(m->profile, sizeof(m->profile), "%ug.%ugb", gi, mib);
	return m;
}

static inline struct labels *mock_labels(const struct inventory *inv, const struct config *c,
	struct strv *notes)
{
	const struct label_facts facts = { .machine = "p3.8xlarge",
		.timestamp_s = 1700000000,
		.vgpu = VGPU_ABSENT };
	struct error err = ERROR_INIT;
	struct labels *l = NULL;

	assert_ok(labels_new(&l, inv, c, &facts, notes, &err), &err);
	return l;
}

/* @key is without "nvidia.com/"; @value NULL: there is no such label. */
static inline void assert_label(const struct labels *l, const char *key, const char *value)
{
	char full[LABEL_KEY_MAX + 1];
	const char *found;

	(void)snprintf(full, sizeof(full), "nvidia.com/%s", key);
	found = labels_get(l, full);
	if (!value != !found || (value && strcmp(value, found) != 0))
		fail_msg("label %s is '%s', expected '%s'", full, found ? found : "(none)",
			value ? value : "(none)");
}
