/* SPDX-License-Identifier: Apache-2.0 */

/* Properties of devices. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "testbed/sim/cuda/node.h"
#include "testbed/sim/cuda/mps.h"

/* An H100 SXM5 (driver 580.159.04, measured), by CUdevice_attribute. */
static const int h100[] = {
	/* clang-format off */
	[1] = 1024, [2] = 1024, [3] = 1024, [4] = 64, [5] = 2147483647, [6] = 65535,
	[7] = 65535, [8] = 49152, [9] = 65536, [10] = 32, [11] = 2147483647, [12] = 65536,
	[13] = 1980000, [14] = 512, [15] = 1, [16] = 132, [17] = 0, [18] = 0,
	[19] = 1, [20] = 0, [21] = 131072, [22] = 131072, [23] = 65536, [24] = 16384,
	[25] = 16384, [26] = 16384, [27] = 32768, [28] = 32768, [29] = 2048, [30] = 512,
	[31] = 1, [32] = 1, [33] = 0, [34] = 6, [35] = 0, [36] = 2619000,
	[37] = 5120, [38] = 52428800, [39] = 2048, [40] = 3, [41] = 1, [42] = 32768,
	[43] = 2048, [44] = 1, [45] = 32768, [46] = 32768, [47] = 8192, [48] = 8192,
	[49] = 32768, [50] = 0, [51] = 32, [52] = 32768, [53] = 32768, [54] = 2046,
	[55] = 32768, [56] = 131072, [57] = 65536, [58] = 16384, [59] = 16384, [60] = 16384,
	[61] = 32768, [62] = 2048, [63] = 32768, [64] = 32768, [65] = 2048, [66] = 32768,
	[67] = 32768, [68] = 2046, [69] = 268435456, [70] = 131072, [71] = 65000, [72] = 2097120,
	[73] = 32768, [74] = 32768, [75] = 9, [76] = 0, [77] = 32768, [78] = 1,
	[79] = 1, [80] = 1, [81] = 233472, [82] = 65536, [83] = 1, [84] = 0,
	[85] = 0, [86] = 0, [87] = 2, [88] = 0, [89] = 1, [90] = 1,
	[91] = 1, [92] = 0, [93] = 0, [94] = 0, [95] = 1, [96] = 1,
	[97] = 232448, [98] = 0, [99] = 1, [100] = 0, [101] = 0, [102] = 1,
	[103] = 1, [104] = 0, [105] = 0, [106] = 32, [107] = 1, [108] = 32768000,
	[109] = 134217728, [110] = 1, [111] = 1024, [112] = 1, [113] = 1, [114] = 1,
	[115] = 1, [116] = 1, [117] = 1, [118] = 100, [119] = 9, [120] = 1,
	[121] = 1, [122] = 1, [123] = 1, [124] = 1, [125] = 1, [126] = 4,
	[127] = 1, [128] = 1, [129] = 1, [130] = 0, [131] = -1, [132] = 0,
	[133] = 0, [134] = 0, [135] = 0, [136] = 0, [137] = 0, [138] = 0,
	[139] = 590352606, [140] = 381751518, [141] = 1, [142] = 1, [143] = 0, [144] = 1,
	[145] = 1, [146] = 0, [147] = 0
	/* clang-format on */
};

#define MPS_ENABLED 133

/* Differences by compute capability, from NVIDIA's table of technical specifications. */
static const struct {
	unsigned cc; /* major * 10 + minor; the last row not above the device's counts */
	int threads_sm, blocks_sm, shared_sm, shared_block, l2, double_ratio;
	bool clusters, compression;
} generations[] = {
	{ 70, 2048, 32, 98304, 98304, 6291456, 2, false, false },
	{ 75, 1024, 16, 65536, 65536, 4194304, 32, false, false },
	{ 80, 2048, 32, 167936, 166912, 41943040, 2, false, true },
	{ 86, 1536, 16, 102400, 101376, 6291456, 32, false, true },
	{ 89, 1536, 24, 102400, 101376, 50331648, 64, false, true },
	{ 90, 2048, 32, 233472, 232448, 52428800, 2, true, true },
	{ 100, 2048, 32, 233472, 232448, 132644864, 2, true, true },
	{ 120, 1536, 24, 102400, 101376, 134217728, 64, true, true },
};

static size_t find_cc_generation(const struct sim_keys *k)
{
	size_t at = 0;

	for (size_t i = 0; i < ARRAY_LEN(generations); i++)
		if (generations[i].cc <= k->cc_major * 10 + k->cc_minor)
			at = i;
	return at;
}

/* An attribute that differs by product. False: as on the H100. */
static bool of_product(const struct sim_keys *k, unsigned attribute, int *ret)
{
	size_t g = find_cc_generation(k);
	const struct {
		unsigned attribute; /* of CUdevice_attribute */
		int value;
	} rows[] = {
		{ 13, (int)k->clock_sm_max_mhz * 1000 },
		{ CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, (int)k->sm_count },
		{ 20, (int)k->compute_mode },
		{ 32, (int)k->ecc },
		{ 33, (int)k->pci_bus },
		{ 34, (int)k->pci_device },
		{ 36, (int)k->clock_mem_max_mhz * 1000 },
		{ 37, (int)k->memory_bus_bits },
		{ 38, generations[g].l2 },
		{ 39, generations[g].threads_sm },
		{ 50, (int)k->pci_domain },
		{ 75, (int)k->cc_major },
		{ 76, (int)k->cc_minor },
		{ 81, generations[g].shared_sm },
		{ 87, generations[g].double_ratio },
		{ 97, generations[g].shared_block },
		{ 106, generations[g].blocks_sm },
		{ 107, generations[g].compression },
		{ 120, generations[g].clusters },
		{ 127, generations[g].clusters }, /* tensor maps, which came with clusters */
		{ 139, (int)(k->pci_device_id << 16 | SIM_PCI_VENDOR) },
		{ 140, (int)k->pci_subsystem_id },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].attribute == attribute) {
			*ret = rows[i].value;
			return true;
		}
	return false;
}

int device_attribute(const struct sim_cuda_device *d, unsigned attribute)
{
	int v;

	if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
		return (int)mps_width_of(d);
	if (attribute == MPS_ENABLED)
		return mps_on();
	return of_product(&d->keys, attribute, &v) ? v : h100[attribute];
}

EXPORT CUresult cuDeviceGetCount(int *ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*ret = (int)sim_cuda.device_count;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGet(CUdevice *ret, int ordinal)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (ordinal < 0 || (unsigned)ordinal >= sim_cuda.device_count)
		return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	*ret = ordinal;
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* Finds the device, for a function with a result argument. */
static CUresult enter_device_query(CUdevice dev, bool args_ok, struct sim_cuda_device **d)
{
	CUresult r = sim_cuda_enter_device(dev, d);

	if (r)
		return r;
	return args_ok ? CUDA_SUCCESS : sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuDeviceGetAttribute(int *ret, unsigned int attribute, CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = enter_device_query(dev,
		ret && attribute > 0 && attribute < ARRAY_LEN(h100), &d);

	if (r)
		return r;
	*ret = device_attribute(d, attribute);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = enter_device_query(dev, name && len > 0, &d);

	if (r)
		return r;
	(void)snprintf(name, (size_t)len, "%s", d->keys.name);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *ret, CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = enter_device_query(dev, ret != NULL, &d);

	if (r)
		return r;
	memcpy(ret->bytes, d->uuid, sizeof(ret->bytes));
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *ret, CUdevice dev)
{
	return cuDeviceGetUuid_v2(ret, dev);
}

EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice dev)
{
	(void)luid;
	(void)mask;
	(void)dev;
	return CUDA_ERROR_NOT_SUPPORTED; /* Windows only */
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *ret, CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = enter_device_query(dev, ret != NULL, &d);

	if (r)
		return r;
	*ret = d->keys.memory_total - d->keys.memory_reserved;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceTotalMem(unsigned int *ret, CUdevice dev)
{
	size_t bytes;
	CUresult r = ret ? cuDeviceTotalMem_v2(&bytes, dev) : CUDA_ERROR_INVALID_VALUE;

	if (r == CUDA_SUCCESS)
		*ret = bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
	return r;
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = enter_device_query(dev, major && minor, &d);

	if (r)
		return r;
	*major = (int)d->keys.cc_major;
	*minor = (int)d->keys.cc_minor;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int len, CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = enter_device_query(dev, text && len > 0, &d);

	if (r)
		return r;
	(void)snprintf(text, (size_t)len, "%04X:%02X:%02X.0", d->keys.pci_domain,
		d->keys.pci_bus, d->keys.pci_device);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *ret, const char *text)
{
	unsigned domain = 0, bus, device;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || !text)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	/* NOLINTNEXTLINE(cert-err34-c): hexadecimal of a fixed width, checked by the count */
	if (sscanf(text, "%8x:%2x:%2x", &domain, &bus, &device) != 3) {
		domain = 0;
		/* NOLINTNEXTLINE(cert-err34-c): the same */
		if (sscanf(text, "%2x:%2x", &bus, &device) != 2)
			return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	}
	for (unsigned i = 0; i < sim_cuda.device_count; i++) {
		const struct sim_keys *k = &sim_cuda.devices[i].keys;

		if (k->pci_domain == domain && k->pci_bus == bus && k->pci_device == device) {
			*ret = (CUdevice)i;
			return sim_cuda_leave(CUDA_SUCCESS);
		}
	}
	return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
}

struct CUdevprop {
	int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], sharedMemPerBlock,
		totalConstantMemory, SIMDWidth, memPitch, regsPerBlock, clockRate, textureAlign;
};

EXPORT CUresult cuDeviceGetProperties(CUdevprop *ret, CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = enter_device_query(dev, ret != NULL, &d);

	if (r)
		return r;
	*ret = (struct CUdevprop){ h100[1], { h100[2], h100[3], h100[4] },
		{ h100[5], h100[6], h100[7] }, h100[8], h100[9], h100[10], h100[11], h100[12],
		device_attribute(d, 13), h100[14] };
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* Any two devices of a node have peer access. */
EXPORT CUresult cuDeviceCanAccessPeer(int *ret, CUdevice a, CUdevice b)
{
	struct sim_cuda_device *d;
	CUresult r = enter_device_query(a, ret != NULL, &d);

	if (r)
		return r;
	if (b < 0 || (unsigned)b >= sim_cuda.device_count)
		return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	*ret = a != b;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetP2PAttribute(int *ret, unsigned int attribute, CUdevice a,
	CUdevice b)
{
	struct sim_cuda_device *d;
	CUresult r = enter_device_query(a, ret && attribute >= 1 && attribute <= 5, &d);

	if (r)
		return r;
	if (b < 0 || (unsigned)b >= sim_cuda.device_count)
		return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	if (a == b)
		return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	*ret = attribute == 1 ? 0 : 1;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetExecAffinitySupport(int *ret, unsigned int type, CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = enter_device_query(dev, ret && type == 0, &d);

	if (r)
		return r;
	*ret = 0; /* not simulated; real drivers: under MPS only */
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *ret, unsigned int format,
	unsigned channels, CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = enter_device_query(dev, ret && channels > 0, &d);

	(void)format;
	if (r)
		return r;
	*ret = (size_t)h100[69] / channels;
	return sim_cuda_leave(CUDA_SUCCESS);
}
