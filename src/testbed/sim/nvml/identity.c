/* SPDX-License-Identifier: Apache-2.0 */

/* What a GPU is: names, addresses, constant properties. */
#include <stdio.h>
#include <string.h>

#include "testbed/sim/mig.h"
#include "testbed/sim/nvml/lib.h"

/* A MIG device has the name of its GPU and its profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *text, unsigned int len)
{
	char name[sizeof(((struct sim_keys *)0)->name) + SIM_NAME_MAX + 8],
		profile[SIM_NAME_MAX];
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_NAME, text != NULL, &g, &t);

	if (r)
		return r;
	if (t.kind == HANDLE_GPU)
		return text_out(g.keys.name, sizeof(g.keys.name), text, len);
	sim_mig_name(sim_gi_profile(&g, t.gi), t.ci->size, profile);
	(void)snprintf(name, sizeof(name), "%.*s MIG %s", (int)sizeof(g.keys.name), g.keys.name,
		profile);
	return text_out(name, sizeof(name), text, len);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *text, unsigned int len)
{
	char uuid[SIM_MIG_UUID_MAX];
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_UUID, text != NULL, &g, &t);

	if (r)
		return r;
	if (t.kind == HANDLE_GPU)
		return text_out(g.keys.uuid, sizeof(g.keys.uuid), text, len);
	sim_mig_uuid(&g.keys, t.gi->id, t.ci->id, uuid);
	return text_out(uuid, sizeof(uuid), text, len);
}

GETTER_TEXT(nvmlDeviceGetSerial, SERIAL, serial)
GETTER_TEXT(nvmlDeviceGetVbiosVersion, VBIOS, vbios)
GETTER_TEXT(nvmlDeviceGetBoardPartNumber, BOARD, part_number)
GETTER_TEXT(nvmlDeviceGetInforomImageVersion, INFOROM, inforom)

GETTER_U32(nvmlDeviceGetMinorNumber, MINOR, g.keys.minor)
GETTER_U32(nvmlDeviceGetBrand, BRAND, g.keys.brand)
GETTER_U32(nvmlDeviceGetArchitecture, ARCHITECTURE, g.keys.architecture)
GETTER_U32(nvmlDeviceGetBoardId, BOARD, g.keys.pci_bus << 8 | g.keys.pci_device)
GETTER_U32(nvmlDeviceGetMultiGpuBoard, BOARD, 0)
GETTER_U32(nvmlDeviceGetModuleId, MODULE_ID, g.keys.module_id)
GETTER_U32(nvmlDeviceGetNumGpuCores, CORES, g.keys.cores)
GETTER_U32(nvmlDeviceGetMemoryBusWidth, BUS_WIDTH, g.keys.memory_bus_bits)
GETTER_U32(nvmlDeviceGetVirtualizationMode, VIRTUALIZATION, g.keys.virtualization)
GETTER_U32(nvmlDeviceGetDisplayMode, BOARD, NVML_FEATURE_DISABLED)
GETTER_U32(nvmlDeviceGetDisplayActive, BOARD, NVML_FEATURE_DISABLED)

/* The index of a MIG device counts the MIG devices of its GPU that the process sees. */
static nvmlReturn_t mig_index(const struct sim_gpu *g, const struct target *t,
	unsigned int *index)
{
	uint32_t gi, ci;

	for (*index = 0; mig_device_by_index(g, *index, &gi, &ci); ++*index)
		if (g->mig.gis[gi].id == t->gi->id && g->mig.gis[gi].cis[ci].id == t->ci->id)
			return NVML_SUCCESS;
	return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned int *index)
{
	struct sim_node_head head;
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_INDEX, index != NULL, &g, &t);

	if (r == NVML_SUCCESS && t.kind == HANDLE_MIG)
		return mig_index(&g, &t, index);
	if (r == NVML_SUCCESS)
		r = lib_read_visible_head(&head);
	if (r == NVML_SUCCESS)
		*index = sim_node_index_of_slot(&head, gpu_slot(d));
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t d, unsigned int object, char *text,
	unsigned int len)
{
	/* OEM, ECC, power management. */
	static const char *const versions[] = { "2.1", "7.16", "3.0" };
	struct sim_gpu g;
	nvmlReturn_t r =
		gpu_enter(d, SIM_GROUP_INFOROM, text && object < ARRAY_LEN(versions), &g);

	return r ? r : text_out(versions[object], 16, text, len);
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_COMPUTE_CAPABILITY, major && minor, &g);

	if (r == NVML_SUCCESS) {
		*major = (int)g.keys.cc_major;
		*minor = (int)g.keys.cc_minor;
	}
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_PCI, pci != NULL, &g);

	if (r)
		return r;
	*pci = (nvmlPciInfo_t){ .domain = g.keys.pci_domain,
		.bus = g.keys.pci_bus,
		.device = g.keys.pci_device,
		.pciDeviceId = g.keys.pci_device_id << 16 | SIM_PCI_VENDOR,
		.pciSubSystemId = g.keys.pci_subsystem_id };
	sim_bus_id(&g.keys, pci->busId);
	/* The legacy form has four digits of domain and 16 bytes. */
	(void)snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%.12s", pci->busId + 4);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetPciInfo_v3(d, pci);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetPciInfo_v3(d, pci);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t d, nvmlPciInfoExt_v1_t *pci)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_PCI, pci != NULL, &g);

	if (r)
		return r;
	if (pci->version != NVML_STRUCT_VERSION(*pci, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	pci->domain = g.keys.pci_domain;
	pci->bus = g.keys.pci_bus;
	pci->device = g.keys.pci_device;
	pci->pciDeviceId = g.keys.pci_device_id << 16 | SIM_PCI_VENDOR;
	pci->pciSubSystemId = g.keys.pci_subsystem_id;
	pci->baseClass = 3; /* display controller, 3D */
	pci->subClass = 2;
	sim_bus_id(&g.keys, pci->busId);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t d,
	nvmlDeviceAddressingMode_v1_t *mode)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_ADDRESSING_MODE, mode != NULL, &g);

	if (r)
		return r;
	if (mode->version != NVML_STRUCT_VERSION(*mode, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	mode->value = NVML_DEVICE_ADDRESSING_MODE_NONE;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t d, nvmlPlatformInfo_v2_t *info)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_PLATFORM, info != NULL, &g);
	unsigned int version;

	if (r)
		return r;
	version = info->version;
	if (version != NVML_STRUCT_VERSION(*info, 1) &&
		version != NVML_STRUCT_VERSION(*info, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	*info = (nvmlPlatformInfo_v2_t){ .version = version,
		.hostId = 1,
		.moduleId = (unsigned char)g.keys.module_id };
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t d, nvmlGpuFabricInfo_t *info)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_FABRIC, info != NULL, &g);

	if (r == NVML_SUCCESS)
		*info = (nvmlGpuFabricInfo_t){ .status = NVML_SUCCESS,
			.state = (unsigned char)g.keys.fabric_state };
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfo_v2_t *info)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_FABRIC, info != NULL, &g);
	bool v3;

	if (r)
		return r;
	v3 = info->version == NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v3_t, 3);
	if (!v3 && info->version != NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	/* Version 3 is version 2 with one more byte at the end. */
	memset(info->clusterUuid, 0, sizeof(info->clusterUuid));
	info->status = NVML_SUCCESS;
	info->cliqueId = 0;
	info->state = (unsigned char)g.keys.fabric_state;
	info->healthMask = 0;
	if (v3)
		((nvmlGpuFabricInfo_v3_t *)(void *)info)->healthSummary = 0;
	return NVML_SUCCESS;
}
