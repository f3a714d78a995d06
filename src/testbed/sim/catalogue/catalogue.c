/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/catalogue/catalogue.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/time.h"
#include "abi/nvml-api.h"

const struct sim_product *sim_product_find(const char *key)
{
	for (size_t i = 0; i < sim_product_count; i++)
		if (!strcmp(sim_products[i].keys.product, key))
			return &sim_products[i];
	return NULL;
}

const struct sim_node_model *sim_node_model_find(const char *name)
{
	for (size_t i = 0; i < sim_node_model_count; i++)
		if (!strcmp(sim_node_models[i].name, name))
			return &sim_node_models[i];
	return NULL;
}

/* splitmix64: a well-mixed word for each (state, step). */
static uint64_t next_splitmix64(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

static uint64_t hash_catalogue_text(const char *text)
{
	uint64_t h = UINT64_C(0xCBF29CE484222325);

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
	return h;
}

void sim_node_init(struct sim_node *node, const char *name, const char *spec, uint64_t seed)
{
	struct sim_node_head *h = &node->head;

	memset(node, 0, sizeof(*node));
	(void)snprintf(h->name, sizeof(h->name), "%s", name);
	(void)snprintf(h->spec, sizeof(h->spec), "%s", spec);
	(void)snprintf(h->driver_version, sizeof(h->driver_version), "%s", sim_default_driver);
	h->seed = seed;
	h->info.nvml_major = sim_default_nvml_major;
	h->info.cuda_version = sim_default_cuda;
	h->info.level_switch = NVML_TOPOLOGY_SINGLE;
	h->info.level_numa = NVML_TOPOLOGY_NODE;
	h->info.level_far = NVML_TOPOLOGY_SYSTEM;
	h->info.p2p = NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED;
}

/* Fills the UUID and the serial, derived from node, seed and slot, where they are empty. */
static void sim_node_name_gpu(struct sim_node *node, uint32_t slot)
{
	struct sim_node_head *h = &node->head;
	struct sim_keys *k = &node->gpus[slot].keys;
	uint64_t state = hash_catalogue_text(h->name) ^
			 (h->seed * UINT64_C(0xD1342543DE82EF95)) ^ ((uint64_t)slot << 32) ^
			 h->slots[slot].epoch;
	uint64_t a = next_splitmix64(&state), b = next_splitmix64(&state);

	if (!k->uuid[0])
		(void)snprintf(k->uuid, sizeof(k->uuid),
			"GPU-%08" PRIx32 "-%04x-%04x-%04x-%012" PRIx64, (uint32_t)(a >> 32),
			(unsigned)(a >> 16) & 0xFFFF, (unsigned)a & 0xFFFF, (unsigned)(b >> 48),
			b & UINT64_C(0xFFFFFFFFFFFF));
	if (!k->serial[0])
		(void)snprintf(k->serial, sizeof(k->serial), "1%012" PRIu64,
			next_splitmix64(&state) % UINT64_C(1000000000000));
}

static void set_layout_address(struct sim_keys *k, const struct sim_layout *layout, uint32_t i)
{
	if (i < layout->count) {
		k->pci_domain = layout->addresses[i].domain;
		k->pci_bus = layout->addresses[i].bus;
		k->pci_device = layout->addresses[i].device;
		k->pcie_switch = layout->addresses[i].pcie_switch;
		k->numa_node = layout->addresses[i].numa;
		return;
	}
	/* GPUs beyond the layout: 16 in a domain, on domains that no layout uses. */
	k->pci_domain = 0x100 + i / 16;
	k->pci_bus = 0x10 + i % 16;
	k->pci_device = 0;
	k->pcie_switch = i % 256;
	k->numa_node = layout->addresses[layout->count - 1].numa;
}

/* The address of a GPU added later: no other GPU has it. */
static void set_unused_address(struct sim_node *node, uint32_t slot)
{
	struct sim_keys *k = &node->gpus[slot].keys;

	k->pci_domain = 0x100 + slot / 16;
	k->pci_bus = 0x10 + slot % 16;
	k->pci_device = 0;
	k->pcie_switch = slot % 256;
	k->numa_node = slot ? node->gpus[0].keys.numa_node : 0;
}

static bool is_minor_used(const struct sim_node *node, uint32_t minor, uint32_t except)
{
	for (uint32_t i = 0; i < node->head.info.slot_count; i++)
		if (i != except && node->head.slots[i].present &&
			node->gpus[i].keys.minor == minor)
			return true;
	return false;
}

int sim_node_add(struct sim_node *node, const struct sim_product *product, uint32_t *ret,
	struct error *err)
{
	struct sim_node_head *h = &node->head;
	uint32_t slot = 0;
	struct sim_gpu *g;

	while (slot < h->info.slot_count && h->slots[slot].present)
		slot++;
	if (slot == SIM_MAX_GPUS)
		return error_set(err, ERR_LIMIT, "a node holds at most %d GPUs", SIM_MAX_GPUS);
	if (slot == h->info.slot_count)
		h->info.slot_count++;
	g = &node->gpus[slot];
	memset(g, 0, sizeof(*g));
	g->keys = product->keys;
	memcpy(g->fail, product->fail, sizeof(g->fail));
	g->energy_at_ns = time_wall_ns();
	h->slots[slot].present = 1;
	h->slots[slot].lost = 0;
	h->slots[slot].epoch++;
	set_unused_address(node, slot);
	while (is_minor_used(node, g->keys.minor, slot))
		g->keys.minor++;
	g->keys.module_id = slot % 8;
	sim_node_name_gpu(node, slot);
	g->born = g->keys;
	memcpy(g->born_fail, g->fail, sizeof(g->fail));
	*ret = slot;
	return 0;
}

void sim_node_seal(struct sim_node *node)
{
	for (uint32_t i = 0; i < node->head.info.slot_count; i++) {
		struct sim_gpu *g = &node->gpus[i];

		g->born = g->keys;
		memcpy(g->born_fail, g->fail, sizeof(g->fail));
	}
}

static void add_nvlink(struct sim_node *node, uint32_t from, uint32_t to)
{
	struct sim_gpu *g = &node->gpus[from];

	for (uint32_t i = 0; i < SIM_MAX_LINKS && i < g->keys.nvlink_links; i++)
		if (!g->links[i].active) {
			g->links[i] = (struct sim_link){ .active = 1,
				.remote_type = NVML_NVLINK_DEVICE_TYPE_GPU,
				.remote_slot = to };
			return;
		}
}

static void connect_gpus(struct sim_node *node, const struct sim_nvlinks *nv, uint32_t count)
{
	for (uint32_t i = 0; i < nv->pair_count; i++)
		for (uint32_t n = 0; n < nv->pairs[i].links; n++)
			if (nv->pairs[i].a < count && nv->pairs[i].b < count) {
				add_nvlink(node, nv->pairs[i].a, nv->pairs[i].b);
				add_nvlink(node, nv->pairs[i].b, nv->pairs[i].a);
			}
	/* The links are spread over the switches of the baseboard: six with 12 links, four with 18. */
	for (uint32_t g = 0; g < count && nv->switch_links; g++)
		for (uint32_t i = 0; i < nv->switch_links && i < SIM_MAX_LINKS; i++)
			node->gpus[g].links[i] = (struct sim_link){ .active = 1,
				.remote_type = NVML_NVLINK_DEVICE_TYPE_SWITCH,
				.remote_bus =
					nv->hidden
						? SIM_BUS_HIDDEN
						: 0xC0 + i % (nv->switch_links == 12 ? 6 : 4) };
}

int sim_node_fill(struct sim_node *node, const struct sim_node_model *model, uint32_t count,
	struct error *err)
{
	const struct sim_layout *layout = &sim_layouts[model->layout];
	uint32_t slot;

	if (count == 0)
		count = layout->count;
	node->head.info.level_switch = layout->level_switch;
	node->head.info.level_numa = layout->level_numa;
	node->head.info.level_far = layout->level_far;
	if (sim_nvlinks[model->nvlinks].switch_links || sim_nvlinks[model->nvlinks].pair_count)
		node->head.info.p2p = NVML_P2P_STATUS_OK;
	for (uint32_t i = 0; i < count; i++) {
		if (sim_node_add(node, &sim_products[model->product], &slot, err) < 0)
			return -1;
		set_layout_address(&node->gpus[slot].keys, layout, i);
		for (size_t g = 0; g < SIM_GROUP_COUNT; g++)
			if (model->fail[g])
				node->gpus[slot].fail[g] = model->fail[g];
		for (size_t s = 0; s < SIM_MODEL_SET_MAX && model->set[s].key; s++) {
			const struct sim_key *key = sim_key_find(model->set[s].key);

			if (!key)
				return error_set(err, ERR_INTERNAL, "model '%s': no key '%s'",
					model->name, model->set[s].key);
			if (sim_key_set(&node->gpus[slot].keys, key, model->set[s].value, err) <
				0)
				return error_prefix(err, "model '%s': %s", model->name,
					key->name);
		}
	}
	connect_gpus(node, &sim_nvlinks[model->nvlinks],
		count < layout->count ? count : layout->count);
	return 0;
}
