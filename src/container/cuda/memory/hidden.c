/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory whose size no call states, so that only the arbiter's comparison with NVML finds it.
 *
 * Modules and libraries: code, constants and variables of a program, in memory that no address shows. A hook
 * charges a bound as hidden, and the arbiter finds the real size with NVML. Small modules often take nothing,
 * because the context has space left. With lazy loading the memory comes at a function's first use, where only the
 * comparison finds it. The linker (cuLink*) works on the host; the program loads its output as a module.
 *
 * Foreign memory, which this process did not allocate: memory of another API (external memory), and memory that
 * several GPUs share (multicast). The owner pays, so the hooks charge nothing. But the driver may keep data of its
 * own on the GPU, so the hooks request a comparison.
 *
 * Without hooks. Some calls take nothing of this process. A process that opens an IPC handle maps the owner's
 * memory. NVML counts that memory for the owner while the owner has it. Exported pointers of pools need no hook
 * either. Graphics (GL, EGL, VDPAU) map memory for each frame; the regular comparison finds it.
 */
#include "container/cuda/device.h"
#include "container/cuda/driver.h"
#include "container/cuda/memory/code-size.h"
#include "container/cuda/memory/memory.h"
#include "container/charges/charges.h"
#include "container/client/link.h"
#include "container/sys.h"

/* Passes the result @r of the driver on. */
static CUresult request_compare(CUresult r, int gpu)
{
	if (!r && gpu >= 0)
		link_compare((unsigned int)gpu);
	return r;
}

/* --- modules and libraries --- */

static uint64_t file_bytes(const char *path)
{
	struct stat st = { 0 };
	int e = errno, fd = path ? sys_open(path, O_RDONLY) : -1;

	if (fd >= 0) {
		(void)sys_fstat(fd, &st);
		(void)sys_close(fd);
	}
	errno = e;
	return st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

/* @bytes: size of the image; 0: not known. */
static CUresult load_begin(struct charge *c, uint64_t bytes)
{
	return charge_begin(c, device_current_gpu(), round_up_to_granule(bytes ? bytes : 1),
		CHARGE_HIDDEN);
}

static void end_module_load(struct charge *c, CUresult r)
{
	charge_end(c, r ? 0 : c->bytes);
}

/* Memory may have come or gone. */
static CUresult request_module_compare(CUresult r)
{
	return r ? r : request_compare(r, device_current_gpu());
}

HOOK CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	struct charge c;
	CUresult r;

	if (!charges_active())
		return REAL(cuModuleLoad)(module, path);
	r = load_begin(&c, file_bytes(path));
	if (r)
		return r;
	r = REAL(cuModuleLoad)(module, path);
	end_module_load(&c, r);
	return r;
}

#define MODULE_LOAD(name)                                                \
	HOOK CUresult name(CUmodule *module, const void *image)          \
	{                                                                \
		struct charge c;                                         \
		CUresult r;                                              \
                                                                         \
		if (!charges_active())                                   \
			return REAL(name)(module, image);                \
		r = load_begin(&c, code_bytes(image, CODE_LEN_UNKNOWN)); \
		if (r)                                                   \
			return r;                                        \
		r = REAL(name)(module, image);                           \
		end_module_load(&c, r);                                  \
		return r;                                                \
	}

MODULE_LOAD(cuModuleLoadData)
MODULE_LOAD(cuModuleLoadFatBinary)

HOOK CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n,
	unsigned int *options, void **values)
{
	struct charge c;
	CUresult r;

	if (!charges_active())
		return REAL(cuModuleLoadDataEx)(module, image, n, options, values);
	r = load_begin(&c, code_bytes(image, CODE_LEN_UNKNOWN));
	if (r)
		return r;
	r = REAL(cuModuleLoadDataEx)(module, image, n, options, values);
	end_module_load(&c, r);
	return r;
}

HOOK CUresult cuLibraryLoadData(CUlibrary *library, const void *image, unsigned int *jit,
	void **jit_values, unsigned int jit_n, unsigned int *options, void **values,
	unsigned int n)
{
	struct charge c;
	CUresult r;

	if (!charges_active())
		return REAL(cuLibraryLoadData)(library, image, jit, jit_values, jit_n, options,
			values, n);
	r = load_begin(&c, code_bytes(image, CODE_LEN_UNKNOWN));
	if (r)
		return r;
	r = REAL(cuLibraryLoadData)(library, image, jit, jit_values, jit_n, options, values, n);
	end_module_load(&c, r);
	return r;
}

HOOK CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, unsigned int *jit,
	void **jit_values, unsigned int jit_n, unsigned int *options, void **values,
	unsigned int n)
{
	struct charge c;
	CUresult r;

	if (!charges_active())
		return REAL(cuLibraryLoadFromFile)(library, path, jit, jit_values, jit_n,
			options, values, n);
	r = load_begin(&c, file_bytes(path));
	if (r)
		return r;
	r = REAL(cuLibraryLoadFromFile)(library, path, jit, jit_values, jit_n, options, values,
		n);
	end_module_load(&c, r);
	return r;
}

HOOK CUresult cuModuleUnload(CUmodule module)
{
	CUresult r = REAL(cuModuleUnload)(module);

	return charges_active() ? request_module_compare(r) : r;
}

HOOK CUresult cuLibraryUnload(CUlibrary library)
{
	CUresult r = REAL(cuLibraryUnload)(library);

	return charges_active() ? request_module_compare(r) : r;
}

/* These functions load what lazy loading left for later. */

HOOK CUresult cuFuncLoad(CUfunction function)
{
	CUresult r = REAL(cuFuncLoad)(function);

	return charges_active() ? request_module_compare(r) : r;
}

HOOK CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	CUresult r = REAL(cuLibraryGetModule)(module, library);

	return charges_active() ? request_module_compare(r) : r;
}

/* --- foreign memory --- */

static CUresult compared_here(CUresult r)
{
	return r || !charges_active() ? r : request_compare(r, device_current_gpu());
}

HOOK CUresult cuImportExternalMemory(CUexternalMemory *memory,
	const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle)
{
	return compared_here(REAL(cuImportExternalMemory)(memory, handle));
}

HOOK CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
	return compared_here(REAL(cuDestroyExternalMemory)(memory));
}

/* NVML counts the memory for this process if its owner freed it meanwhile. */
HOOK CUresult cuIpcCloseMemHandle(CUdeviceptr memory)
{
	return compared_here(REAL(cuIpcCloseMemHandle)(memory));
}

HOOK CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle multicast, CUdevice device)
{
	CUresult r = REAL(cuMulticastAddDevice)(multicast, device);

	return r || !charges_active() ? r : request_compare(r, device_find_gpu(device));
}

/* Bound memory may stay after its last handle and mapping in this process are gone. */
HOOK CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t at,
	CUmemGenericAllocationHandle memory, size_t offset, size_t bytes,
	unsigned long long flags)
{
	if (charges_active())
		(void)alloc_table_set_bits(ALLOC_HANDLE, memory, HANDLE_LENT);
	return compared_here(
		REAL(cuMulticastBindMem)(multicast, at, memory, offset, bytes, flags));
}

HOOK CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t at,
	CUdeviceptr memory, size_t bytes, unsigned long long flags)
{
	struct alloc_row row;

	if (charges_active() && alloc_table_get(ALLOC_MAPPING, memory, &row))
		(void)alloc_table_set_bits(ALLOC_HANDLE, row.other, HANDLE_LENT);
	return compared_here(REAL(cuMulticastBindAddr)(multicast, at, memory, bytes, flags));
}

HOOK CUresult cuMulticastUnbind(CUmemGenericAllocationHandle multicast, CUdevice device,
	size_t at, size_t bytes)
{
	CUresult r = REAL(cuMulticastUnbind)(multicast, device, at, bytes);

	return r || !charges_active() ? r : request_compare(r, device_find_gpu(device));
}
