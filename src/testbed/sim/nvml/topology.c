/* SPDX-License-Identifier: Apache-2.0 */

/* The distance of GPUs from each other and from the CPUs: PCIe, NUMA, NVLink. */
#include <string.h>

#include "testbed/sim/nvml/lib.h"

/* A real driver reads these from the kernel; the simulator has 16 CPUs on each NUMA node. */
#define CPUS_PER_NODE 16
#define WORD_BITS     64

/* Coherent platforms only; others read the PCI device's numa_node in sysfs. */
EXPORT nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t d, unsigned int *node)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_NUMA_NODE, node != NULL, &g);

	return r ? r : NVML_ERROR_NOT_SUPPORTED;
}

static uint32_t numa_of(const struct sim_gpu *g)
{
	return g->keys.numa_node > 0 ? (uint32_t)g->keys.numa_node : 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t d, unsigned int words,
	unsigned long *cpus)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_AFFINITY, cpus && words, &g);
	uint32_t first;

	if (r)
		return r;
	memset(cpus, 0, words * sizeof(*cpus));
	first = numa_of(&g) * CPUS_PER_NODE;
	for (uint32_t i = first; i < first + CPUS_PER_NODE && i / WORD_BITS < words; i++)
		cpus[i / WORD_BITS] |= 1UL << (i % WORD_BITS);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t d, unsigned int words,
	unsigned long *cpus, unsigned int scope)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_AFFINITY, scope <= 1, &g);

	return r ? r : nvmlDeviceGetCpuAffinity(d, words, cpus);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t d, unsigned int words,
	unsigned long *nodes, unsigned int scope)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_AFFINITY, nodes && words && scope <= 1, &g);

	if (r)
		return r;
	memset(nodes, 0, words * sizeof(*nodes));
	nodes[0] = 1UL << (numa_of(&g) % WORD_BITS);
	return NVML_SUCCESS;
}

/* --- between two GPUs --- */

struct gpu_pair {
	struct sim_gpu a, b;
	struct sim_node_head head;
};

static nvmlReturn_t enter_two(nvmlDevice_t a, nvmlDevice_t b, bool args_ok, struct gpu_pair *t)
{
	nvmlReturn_t r = gpu_enter(a, SIM_GROUP_TOPOLOGY, args_ok, &t->a);

	if (r == NVML_SUCCESS)
		r = gpu_again(b, SIM_GROUP_TOPOLOGY, &t->b);
	return r ? r : lib_read_visible_head(&t->head);
}

static unsigned int level_between(const struct sim_node_head *head, const struct sim_keys *a,
	const struct sim_keys *b)
{
	if (a->numa_node != b->numa_node)
		return head->info.level_far;
	return a->pcie_switch == b->pcie_switch ? head->info.level_switch
						: head->info.level_numa;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
	unsigned int *level)
{
	struct gpu_pair t;
	nvmlReturn_t r = enter_two(a, b, level != NULL, &t);

	if (r)
		return r;
	if (a == b)
		return NVML_ERROR_NOT_SUPPORTED; /* measured */
	*level = level_between(&t.head, &t.a.keys, &t.b.keys);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t d, unsigned int level,
	unsigned int *n, nvmlDevice_t *devices)
{
	const struct sim_state *s;
	struct sim_node_head head;
	struct sim_gpu g, other;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_TOPOLOGY, n != NULL, &g);
	unsigned int room, have = 0;

	if (r == NVML_SUCCESS)
		r = lib_read_visible_head(&head);
	if (r == NVML_SUCCESS)
		r = lib_again(&s);
	if (r)
		return r;
	room = *n;
	for (uint32_t slot = 0; slot < head.info.slot_count; slot++) {
		if (!head.slots[slot].present || slot == gpu_slot(d))
			continue;
		sim_state_read(s, &SIM_PART_GPU(slot, &other), 1);
		if (level_between(&head, &g.keys, &other.keys) != level)
			continue;
		if (devices && have < room)
			devices[have] = handle_encode((struct handle){ .slot = slot,
				.epoch = head.slots[slot].epoch });
		have++;
	}
	*n = have;
	return devices && room < have ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t a, nvmlDevice_t b, int *same)
{
	struct gpu_pair t;
	nvmlReturn_t r = enter_two(a, b, same != NULL, &t);

	if (r == NVML_SUCCESS)
		*same = a == b;
	return r;
}

static bool has_nvlink_to(const struct sim_gpu *g, uint32_t other_slot)
{
	for (uint32_t i = 0; i < SIM_MAX_LINKS; i++)
		if (g->links[i].active &&
			(g->links[i].remote_type == NVML_NVLINK_DEVICE_TYPE_SWITCH ||
				g->links[i].remote_slot == other_slot))
			return true;
	return false;
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, unsigned int index,
	unsigned int *status)
{
	struct gpu_pair t;
	nvmlReturn_t r = enter_two(a, b, status && index <= 5, &t);
	bool link;

	if (r)
		return r;
	link = a != b && has_nvlink_to(&t.a, gpu_slot(b));
	if (index == 5) /* not documented; OK even for a GPU and itself (measured) */
		*status = NVML_P2P_STATUS_OK;
	else if (a == b || index == 4) /* over PCIe alone: not on any known board */
		*status = NVML_P2P_STATUS_NOT_SUPPORTED;
	else if (index == NVML_P2P_CAPS_INDEX_NVLINK || index == NVML_P2P_CAPS_INDEX_ATOMICS)
		*status = link ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
	else
		*status = link ? (unsigned int)NVML_P2P_STATUS_OK : t.head.info.p2p;
	return NVML_SUCCESS;
}

/* --- NVLink --- */

static nvmlReturn_t enter_link(nvmlDevice_t d, unsigned int link, bool args_ok,
	struct sim_gpu *g)
{
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_NVLINK, args_ok, g);

	if (r)
		return r;
	if (!g->keys.nvlink_links)
		return NVML_ERROR_NOT_SUPPORTED;
	return link < g->keys.nvlink_links && link < SIM_MAX_LINKS
		       ? NVML_SUCCESS
		       : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned int link,
	unsigned int *active)
{
	struct sim_gpu g;
	nvmlReturn_t r = enter_link(d, link, active != NULL, &g);

	if (r == NVML_SUCCESS)
		*active = g.links[link].active;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t d, unsigned int link,
	unsigned int *version)
{
	struct sim_gpu g;
	nvmlReturn_t r = enter_link(d, link, version != NULL, &g);

	if (r == NVML_SUCCESS)
		*version = g.keys.nvlink_version;
	return r;
}

/* Capabilities: P2P, system memory access, P2P atomics, system memory atomics, SLI, valid. */
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t d, unsigned int link,
	unsigned int cap, unsigned int *value)
{
	/* V100 and A100: plausible; Hopper has all (measured). */
	static const unsigned int caps[] = { 1, 0, 1, 0, 0, 1 };
	struct sim_gpu g;
	/* The only function that refuses a high link before it checks for NVLink (measured). */
	nvmlReturn_t r = enter_link(d, link, value && link < SIM_MAX_LINKS, &g);

	if (r)
		return r;
	if (cap >= ARRAY_LEN(caps))
		return NVML_ERROR_INVALID_ARGUMENT;
	*value = g.links[link].active &&
		 (caps[cap] || g.keys.architecture >= NVML_DEVICE_ARCH_HOPPER);
	return NVML_SUCCESS;
}

/* An NVSwitch as a PCI device: NVIDIA's vendor id and the switch of the A100 baseboard. */
#define NVSWITCH_PCI_ID 0x1AF110DE

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned int link,
	nvmlPciInfo_t *pci)
{
	const struct sim_state *s;
	struct sim_gpu g, other;
	const struct sim_link *l;
	nvmlReturn_t r = enter_link(d, link, pci != NULL, &g);

	if (r == NVML_SUCCESS)
		r = lib_again(&s);
	if (r)
		return r;
	l = &g.links[link];
	if (!l->active)
		return NVML_ERROR_NOT_SUPPORTED;
	if (l->remote_bus == SIM_BUS_HIDDEN) {
		*pci = (nvmlPciInfo_t){ .domain = UINT32_MAX,
			.bus = 0xFF,
			.device = 0xFF,
			.pciDeviceId = UINT32_MAX,
			.pciSubSystemId = UINT32_MAX,
			.busId = "FFFFFFFF:FF:FF.0",
			.busIdLegacy = "FFFF:FF:FF.0" };
		return NVML_SUCCESS;
	}
	*pci = (nvmlPciInfo_t){ .bus = l->remote_bus,
		.device = l->remote_device,
		.pciDeviceId = NVSWITCH_PCI_ID };
	other.keys =
		(struct sim_keys){ .pci_bus = l->remote_bus, .pci_device = l->remote_device };
	if (l->remote_type == NVML_NVLINK_DEVICE_TYPE_GPU) {
		sim_state_read(s, &SIM_PART_GPU(l->remote_slot % SIM_MAX_GPUS, &other), 1);
		pci->domain = other.keys.pci_domain;
		pci->bus = other.keys.pci_bus;
		pci->device = other.keys.pci_device;
		pci->pciDeviceId = other.keys.pci_device_id << 16 | SIM_PCI_VENDOR;
		pci->pciSubSystemId = other.keys.pci_subsystem_id;
	}
	sim_bus_id(&other.keys, pci->busId);
	memcpy(pci->busIdLegacy, pci->busId + 4, 13);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t d, unsigned int link,
	nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetNvLinkRemotePciInfo_v2(d, link, pci);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned int link,
	unsigned int *type)
{
	struct sim_gpu g;
	nvmlReturn_t r = enter_link(d, link, type != NULL, &g);

	if (r)
		return r;
	if (!g.links[link].active)
		return NVML_ERROR_NOT_SUPPORTED;
	*type = g.links[link].remote_type;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t d, unsigned int link,
	unsigned int counter, unsigned long long *n)
{
	struct sim_gpu g;
	nvmlReturn_t r = enter_link(d, link, n && counter <= 4, &g);

	if (r == NVML_ERROR_INVALID_ARGUMENT && n && counter <= 4 &&
		link >= g.keys.nvlink_links)
		return NVML_ERROR_NOT_SUPPORTED; /* not 2, unlike its siblings (measured) */
	if (r == NVML_SUCCESS)
		*n = g.keys.nvlink_errors;
	return r;
}
