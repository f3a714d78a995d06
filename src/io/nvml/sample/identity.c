/* SPDX-License-Identifier: Apache-2.0 */

/* The calls for the identity of a GPU: names, numbers, versions, modes. */
#include "io/nvml/sample/source.h"

#include <stdio.h>
#include <string.h>

#define CALL(name, ...) PROBE_CALL(a->p, a->gpu, name, __VA_ARGS__)

/* Copies NVML's text, '?' for what is not printable ASCII. An empty text is not a value. */
static nvmlReturn_t copy_identity_text(union source_value *ret, char *from, size_t cap,
	nvmlReturn_t r)
{
	if (r != NVML_SUCCESS)
		return r;
	from[cap - 1] = '\0';
	probe_text(ret->text, sizeof ret->text, from);
	return ret->text[0] ? NVML_SUCCESS : NVML_ERROR_NO_DATA;
}

#define TEXT(function, name)                                                                 \
	nvmlReturn_t function(struct source_query *a, uint32_t arg, union source_value *ret) \
	{                                                                                    \
		char own[SAMPLE_TEXT_MAX] = "";                                              \
                                                                                             \
		(void)arg;                                                                   \
		return copy_identity_text(ret, own, sizeof own,                              \
			CALL(name, a->device, own, sizeof own));                             \
	}

TEXT(source_name, nvmlDeviceGetName)
TEXT(source_serial, nvmlDeviceGetSerial)
TEXT(source_uuid, nvmlDeviceGetUUID)
TEXT(source_image, nvmlDeviceGetInforomImageVersion)
TEXT(source_vbios, nvmlDeviceGetVbiosVersion)

nvmlReturn_t source_driver(struct source_query *a, uint32_t arg, union source_value *ret)
{
	char own[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";

	(void)arg;
	return copy_identity_text(ret, own, sizeof own,
		CALL(nvmlSystemGetDriverVersion, own, sizeof own));
}

nvmlReturn_t source_nvml(struct source_query *a, uint32_t arg, union source_value *ret)
{
	char own[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE] = "";

	(void)arg;
	return copy_identity_text(ret, own, sizeof own,
		CALL(nvmlSystemGetNVMLVersion, own, sizeof own));
}

nvmlReturn_t source_cuda(struct source_query *a, uint32_t arg, union source_value *ret)
{
	int version = 0;
	nvmlReturn_t r = CALL(nvmlSystemGetCudaDriverVersion_v2, &version);

	(void)arg;
	ret->i = version;
	return r;
}

/* @arg: 0 OEM, 1 ECC, 2 power. */
nvmlReturn_t source_inforom(struct source_query *a, uint32_t arg, union source_value *ret)
{
	char own[SAMPLE_TEXT_MAX] = "";

	return copy_identity_text(ret, own, sizeof own,
		CALL(nvmlDeviceGetInforomVersion, a->device, arg, own, sizeof own));
}

/* The names are those of nvidia-smi and DCGM. */
nvmlReturn_t source_brand(struct source_query *a, uint32_t arg, union source_value *ret)
{
	static const struct {
		unsigned int brand;
		const char *name;
	} names[] = { { NVML_BRAND_UNKNOWN, "Unknown" }, { NVML_BRAND_QUADRO, "Quadro" },
		{ NVML_BRAND_TESLA, "Tesla" }, { NVML_BRAND_GEFORCE, "GeForce" },
		{ NVML_BRAND_TITAN, "Titan" }, { NVML_BRAND_QUADRO_RTX, "QuadroRTX" },
		{ NVML_BRAND_NVIDIA_RTX, "NvidiaRTX" }, { NVML_BRAND_NVIDIA, "Nvidia" } };
	unsigned int brand = 0;
	nvmlReturn_t r = CALL(nvmlDeviceGetBrand, a->device, &brand);

	(void)arg;
	if (r != NVML_SUCCESS)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (names[i].brand != brand)
			continue;
		(void)snprintf(ret->text, sizeof ret->text, "%s", names[i].name);
		return NVML_SUCCESS;
	}
	return NVML_ERROR_NO_DATA;
}

nvmlReturn_t source_index(struct source_query *a, uint32_t arg, union source_value *ret)
{
	(void)arg;
	ret->i = a->gpu;
	return NVML_SUCCESS;
}

nvmlReturn_t source_minor(struct source_query *a, uint32_t arg, union source_value *ret)
{
	unsigned int v = 0;
	nvmlReturn_t r = CALL(nvmlDeviceGetMinorNumber, a->device, &v);

	(void)arg;
	ret->i = v;
	return r;
}

/* @arg: 0 the address, 1 device and vendor, 2 subsystem. */
nvmlReturn_t source_pci(struct source_query *a, uint32_t arg, union source_value *ret)
{
	struct source_memo *m = &a->memo;

	if (!m->has_pci)
		m->pci_r = CALL(nvmlDeviceGetPciInfo_v3, a->device, &m->pci);
	m->has_pci = true;
	if (m->pci_r == NVML_SUCCESS && arg == 0)
		return copy_identity_text(ret, m->pci.busId, sizeof m->pci.busId, NVML_SUCCESS);
	ret->i = arg == 1 ? m->pci.pciDeviceId : m->pci.pciSubSystemId;
	return m->pci_r;
}

nvmlReturn_t source_compute_capability(struct source_query *a, uint32_t arg,
	union source_value *ret)
{
	int major = 0, minor = 0;
	nvmlReturn_t r = CALL(nvmlDeviceGetCudaComputeCapability, a->device, &major, &minor);

	(void)arg;
	ret->i = (int64_t)major * 65536 + minor;
	return r;
}

nvmlReturn_t source_compute_mode(struct source_query *a, uint32_t arg, union source_value *ret)
{
	unsigned int v = 0;
	nvmlReturn_t r = CALL(nvmlDeviceGetComputeMode, a->device, &v);

	(void)arg;
	ret->i = v;
	return r;
}

nvmlReturn_t source_persistence(struct source_query *a, uint32_t arg, union source_value *ret)
{
	unsigned int v = 0;
	nvmlReturn_t r = CALL(nvmlDeviceGetPersistenceMode, a->device, &v);

	(void)arg;
	ret->i = v;
	return r;
}

nvmlReturn_t source_mig_mode(struct source_query *a, uint32_t arg, union source_value *ret)
{
	unsigned int now = 0, pending = 0;
	nvmlReturn_t r = CALL(nvmlDeviceGetMigMode, a->device, &now, &pending);

	(void)arg;
	ret->i = now;
	return r;
}

/* 0 while the GPU is not in MIG mode. */
nvmlReturn_t source_mig_max(struct source_query *a, uint32_t arg, union source_value *ret)
{
	unsigned int v = 0;
	nvmlReturn_t r = source_mig_mode(a, arg, ret);

	if (r != NVML_SUCCESS || ret->i == 0)
		return r;
	r = CALL(nvmlDeviceGetMaxMigDeviceCount, a->device, &v);
	ret->i = v;
	return r;
}

nvmlReturn_t source_virtual_mode(struct source_query *a, uint32_t arg, union source_value *ret)
{
	unsigned int v = 0;
	nvmlReturn_t r = CALL(nvmlDeviceGetVirtualizationMode, a->device, &v);

	(void)arg;
	ret->i = v;
	return r;
}

/*
 * Only a guest's vGPU can have a license. For such a GPU the license is unknown, since NVML is not asked for it.
 */
nvmlReturn_t source_vgpu_license(struct source_query *a, uint32_t arg, union source_value *ret)
{
	nvmlReturn_t r = source_virtual_mode(a, arg, ret);

	if (r == NVML_SUCCESS && ret->i == NVML_GPU_VIRTUALIZATION_MODE_VGPU)
		return NVML_ERROR_NOT_SUPPORTED;
	ret->i = 0;
	return r;
}
