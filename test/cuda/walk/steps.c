/* SPDX-License-Identifier: Apache-2.0 */

/* Every way to device memory once: allocate, check, free. */
#include "lib/base/cleanup.h"
#include "cuda/walk/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY_FLOAT32 0x20

static void allocate_plain(struct walk *w)
{
	static const size_t sizes[] = { 1, 100, MIB, MIB + 1, 2 * MIB, 5 * MIB, 40 * MIB };
	CUdeviceptr p[sizeof(sizes) / sizeof(*sizes)] = { 0 };
	unsigned char byte = 0;

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		if (!expect(w, "cuMemAlloc_v2", cu.cuMemAlloc_v2(&p[i], sizes[i]),
			    CUDA_SUCCESS))
			return;
		(void)expect(w, "cuMemsetD8_v2",
			cu.cuMemsetD8_v2(p[i], (unsigned char)(i + 1), sizes[i]), CUDA_SUCCESS);
	}
	agree(w, "held");
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		(void)expect(w, "cuMemcpyDtoH_v2",
			cu.cuMemcpyDtoH_v2(&byte, p[i] + sizes[i] - 1, 1), CUDA_SUCCESS);
		if (byte != i + 1)
			(void)expect(w, "contents", CUDA_ERROR_UNKNOWN, CUDA_SUCCESS);
		(void)expect(w, "cuMemFree_v2", cu.cuMemFree_v2(p[i]), CUDA_SUCCESS);
	}
	(void)expect(w, "cuMemFree_v2(0)", cu.cuMemFree_v2(0), CUDA_SUCCESS);
	(void)expect(w, "cuMemAlloc_v2 of 0", cu.cuMemAlloc_v2(p, 0), CUDA_ERROR_INVALID_VALUE);
}

/* Pointers of less than a chunk, freed out of order. */
static void allocate_small(struct walk *w)
{
	CUdeviceptr p[64];
	unsigned int n = 0;

	for (; n < 64; n++)
		if (!expect(w, "cuMemAlloc_v2", cu.cuMemAlloc_v2(&p[n], 1000 * (n + 1)),
			    CUDA_SUCCESS))
			break;
	agree(w, "held");
	for (unsigned int i = 0; i < n; i++)
		(void)expect(w, "cuMemFree_v2", cu.cuMemFree_v2(p[(i * 37 + 5) % 64]),
			CUDA_SUCCESS);
}

static void allocate_pitch(struct walk *w)
{
	CUdeviceptr p;
	size_t row;

	if (!expect(w, "cuMemAllocPitch_v2", cu.cuMemAllocPitch_v2(&p, &row, 1000 * 4, 777, 4),
		    CUDA_SUCCESS))
		return;
	agree(w, "held");
	(void)expect(w, "cuMemFree_v2", cu.cuMemFree_v2(p), CUDA_SUCCESS);
}

static void allocate_managed(struct walk *w)
{
	CUdeviceptr p;
	CUresult r = cu.cuMemAllocManaged(&p, 8 * MIB, CU_MEM_ATTACH_GLOBAL);

	if (lacks(w, "managed", r) || !expect(w, "cuMemAllocManaged", r, CUDA_SUCCESS))
		return;
	(void)expect(w, "cuMemsetD8_v2", cu.cuMemsetD8_v2(p, 7, 8 * MIB), CUDA_SUCCESS);
	(void)expect(w, "cuCtxSynchronize", cu.cuCtxSynchronize(), CUDA_SUCCESS);
	agree(w, "held");
	(void)expect(w, "cuMemFree_v2", cu.cuMemFree_v2(p), CUDA_SUCCESS);
}

static void create_arrays(struct walk *w)
{
	CUDA_ARRAY_DESCRIPTOR flat = { 1024, 1000, ARRAY_FLOAT32, 1 };
	CUDA_ARRAY3D_DESCRIPTOR deep = { 256, 256, 16, ARRAY_FLOAT32, 2, 0 };
	CUDA_ARRAY3D_DESCRIPTOR levels = { 1024, 1024, 0, ARRAY_FLOAT32, 1, 0 };
	CUmipmappedArray mip;
	CUarray a, b;

	if (!expect(w, "cuArrayCreate_v2", cu.cuArrayCreate_v2(&a, &flat), CUDA_SUCCESS))
		return;
	if (expect(w, "cuArray3DCreate_v2", cu.cuArray3DCreate_v2(&b, &deep), CUDA_SUCCESS)) {
		agree(w, "held");
		(void)expect(w, "cuArrayDestroy", cu.cuArrayDestroy(b), CUDA_SUCCESS);
	}
	(void)expect(w, "cuArrayDestroy", cu.cuArrayDestroy(a), CUDA_SUCCESS);
	if (expect(w, "cuMipmappedArrayCreate", cu.cuMipmappedArrayCreate(&mip, &levels, 5),
		    CUDA_SUCCESS)) {
		agree(w, "mipmap held");
		(void)expect(w, "cuMipmappedArrayDestroy", cu.cuMipmappedArrayDestroy(mip),
			CUDA_SUCCESS);
	}
}

static CUmemAllocationProp on_device(const struct walk *w)
{
	return (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, w->device } };
}

static void virtual(struct walk *w)
{
	CUmemAllocationProp prop = on_device(w);
	CUmemAccessDesc access = { prop.location, 3 };
	CUmemGenericAllocationHandle handle, again;
	size_t size = 0;
	CUdeviceptr at;
	int fd = -1;
	CUresult r = cu.cuMemGetAllocationGranularity(&size, &prop, 0);

	if (lacks(w, "vmm", r) || !expect(w, "cuMemGetAllocationGranularity", r, CUDA_SUCCESS))
		return;
	size *= 12;
	if (!expect(w, "cuMemCreate", cu.cuMemCreate(&handle, size, &prop, 0), CUDA_SUCCESS))
		return;
	agree(w, "created");
	(void)expect(w, "cuMemAddressReserve", cu.cuMemAddressReserve(&at, size, 0, 0, 0),
		CUDA_SUCCESS);
	(void)expect(w, "cuMemMap", cu.cuMemMap(at, size, 0, handle, 0), CUDA_SUCCESS);
	(void)expect(w, "cuMemSetAccess", cu.cuMemSetAccess(at, size, &access, 1),
		CUDA_SUCCESS);
	(void)expect(w, "cuMemsetD8_v2", cu.cuMemsetD8_v2(at, 9, size), CUDA_SUCCESS);
	r = cu.cuMemExportToShareableHandle(&fd, handle,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (expect(w, "cuMemExportToShareableHandle", r, CUDA_SUCCESS)) {
		r = cu.cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
		if (expect(w, "cuMemImportFromShareableHandle", r, CUDA_SUCCESS)) {
			agree(w, "imported");
			(void)expect(w, "cuMemRelease", cu.cuMemRelease(again), CUDA_SUCCESS);
		}
		(void)close(fd);
	}
	if (expect(w, "cuMemRetainAllocationHandle",
		    cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at),
		    CUDA_SUCCESS))
		(void)expect(w, "cuMemRelease", cu.cuMemRelease(again), CUDA_SUCCESS);
	(void)expect(w, "cuMemRelease", cu.cuMemRelease(handle), CUDA_SUCCESS);
	agree(w, "released, still mapped");
	(void)expect(w, "cuMemUnmap", cu.cuMemUnmap(at, size), CUDA_SUCCESS);
	agree(w, "unmapped");
	(void)expect(w, "cuMemAddressFree", cu.cuMemAddressFree(at, size), CUDA_SUCCESS);
}

static void allocate_from_pool(struct walk *w)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, w->device } };
	CUmemoryPool p;
	CUdeviceptr a, b;
	CUresult r = cu.cuMemPoolCreate(&p, &props);
	uint64_t keep = UINT64_MAX;

	if (lacks(w, "pools", r) || !expect(w, "cuMemPoolCreate", r, CUDA_SUCCESS))
		return;
	(void)expect(w, "cuMemPoolSetAttribute",
		cu.cuMemPoolSetAttribute(p, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
		CUDA_SUCCESS);
	if (expect(w, "cuMemAllocFromPoolAsync",
		    cu.cuMemAllocFromPoolAsync(&a, 10 * MIB, p, w->stream), CUDA_SUCCESS) &&
		expect(w, "cuMemAllocFromPoolAsync",
			cu.cuMemAllocFromPoolAsync(&b, 70 * MIB, p, w->stream), CUDA_SUCCESS)) {
		agree(w, "held");
		(void)expect(w, "cuMemFreeAsync", cu.cuMemFreeAsync(a, w->stream),
			CUDA_SUCCESS);
		(void)expect(w, "cuMemFreeAsync", cu.cuMemFreeAsync(b, w->stream),
			CUDA_SUCCESS);
		(void)expect(w, "cuStreamSynchronize", cu.cuStreamSynchronize(w->stream),
			CUDA_SUCCESS);
		agree(w, "freed, kept by the pool");
		(void)expect(w, "cuMemPoolTrimTo", cu.cuMemPoolTrimTo(p, 0), CUDA_SUCCESS);
		agree(w, "trimmed");
		(void)expect(w, "cuMemAllocFromPoolAsync",
			cu.cuMemAllocFromPoolAsync(&a, 5 * MIB, p, w->stream), CUDA_SUCCESS);
		(void)expect(w, "cuMemFree_v2", cu.cuMemFree_v2(a), CUDA_SUCCESS);
	}
	(void)expect(w, "cuMemPoolDestroy", cu.cuMemPoolDestroy(p), CUDA_SUCCESS);
}

static void default_pool(struct walk *w)
{
	CUmemoryPool p;
	CUdeviceptr a;
	CUresult r = cu.cuDeviceGetDefaultMemPool(&p, w->device);

	if (lacks(w, "default-pool", r) ||
		!expect(w, "cuDeviceGetDefaultMemPool", r, CUDA_SUCCESS))
		return;
	if (!expect(w, "cuMemAllocAsync", cu.cuMemAllocAsync(&a, 64 * MIB, w->stream),
		    CUDA_SUCCESS))
		return;
	(void)expect(w, "cuMemsetD8Async", cu.cuMemsetD8Async(a, 3, 64 * MIB, w->stream),
		CUDA_SUCCESS);
	agree(w, "held");
	(void)expect(w, "cuMemFreeAsync", cu.cuMemFreeAsync(a, w->stream), CUDA_SUCCESS);
	(void)expect(w, "cuStreamSynchronize", cu.cuStreamSynchronize(w->stream), CUDA_SUCCESS);
	(void)expect(w, "cuMemPoolTrimTo", cu.cuMemPoolTrimTo(p, 0), CUDA_SUCCESS);
}

static void run_graph(struct walk *w, CUgraph graph)
{
	CUgraphExec exec;

	if (!expect(w, "cuGraphInstantiateWithFlags",
		    cu.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS))
		return;
	(void)expect(w, "cuGraphUpload", cu.cuGraphUpload(exec, w->stream), CUDA_SUCCESS);
	agree(w, "uploaded");
	for (int i = 0; i < 3; i++)
		(void)expect(w, "cuGraphLaunch", cu.cuGraphLaunch(exec, w->stream),
			CUDA_SUCCESS);
	(void)expect(w, "cuStreamSynchronize", cu.cuStreamSynchronize(w->stream), CUDA_SUCCESS);
	agree(w, "launched");
	(void)expect(w, "cuGraphExecDestroy", cu.cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

static void allocate_in_graph(struct walk *w)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { CU_MEM_LOCATION_TYPE_DEVICE, w->device } },
		.bytesize = 40 * MIB,
	};
	CUgraphNode alloc, release;
	CUgraph g;
	CUresult r;

	if (!expect(w, "cuGraphCreate", cu.cuGraphCreate(&g, 0), CUDA_SUCCESS))
		return;
	r = cu.cuGraphAddMemAllocNode(&alloc, g, NULL, 0, &params);
	if (!lacks(w, "graph-memory", r) &&
		expect(w, "cuGraphAddMemAllocNode", r, CUDA_SUCCESS) &&
		expect(w, "cuGraphAddMemFreeNode",
			cu.cuGraphAddMemFreeNode(&release, g, &alloc, 1, params.dptr),
			CUDA_SUCCESS))
		run_graph(w, g);
	(void)expect(w, "cuGraphDestroy", cu.cuGraphDestroy(g), CUDA_SUCCESS);
	(void)expect(w, "cuDeviceGraphMemTrim", cu.cuDeviceGraphMemTrim(w->device),
		CUDA_SUCCESS);
}

static void allocate_in_capture(struct walk *w)
{
	CUdeviceptr a = 0;
	CUgraph g = NULL;
	CUresult r = cu.cuStreamBeginCapture_v2(w->stream, 0);

	if (lacks(w, "capture", r) || !expect(w, "cuStreamBeginCapture_v2", r, CUDA_SUCCESS))
		return;
	(void)expect(w, "captured cuMemAllocAsync", cu.cuMemAllocAsync(&a, 20 * MIB, w->stream),
		CUDA_SUCCESS);
	(void)expect(w, "captured cuMemsetD8Async",
		cu.cuMemsetD8Async(a, 1, 20 * MIB, w->stream), CUDA_SUCCESS);
	(void)expect(w, "captured cuMemFreeAsync", cu.cuMemFreeAsync(a, w->stream),
		CUDA_SUCCESS);
	if (!expect(w, "cuStreamEndCapture", cu.cuStreamEndCapture(w->stream, &g),
		    CUDA_SUCCESS))
		return;
	agree(w, "captured");
	run_graph(w, g);
	(void)expect(w, "cuGraphDestroy", cu.cuGraphDestroy(g), CUDA_SUCCESS);
	(void)expect(w, "cuDeviceGraphMemTrim", cu.cuDeviceGraphMemTrim(w->device),
		CUDA_SUCCESS);
}

int ipc_child(const char *text, int ordinal)
{
	CUipcMemHandle handle;
	CUcontext context;
	CUdeviceptr p;
	unsigned char byte = 0;

	for (unsigned int i = 0; i < sizeof(handle.reserved); i++) {
		unsigned char byte_i = 0;

		if (sscanf(text + 2 * i, "%2hhx", &byte_i) != 1)
			return 1;
		handle.reserved[i] = (char)byte_i;
	}
	cuda_open();
	(void)cuda_start(ordinal, &context);
	must(cu.cuIpcOpenMemHandle_v2(&p, handle, 1), "cuIpcOpenMemHandle_v2");
	must(cu.cuMemcpyDtoH_v2(&byte, p + 6 * MIB - 1, 1), "cuMemcpyDtoH_v2");
	must(cu.cuMemsetD8_v2(p, 0x66, 6 * MIB), "cuMemsetD8_v2");
	must(cu.cuIpcCloseMemHandle(p), "cuIpcCloseMemHandle");
	return byte == 0x55 ? 0 : 1;
}

static void share_by_ipc(struct walk *w)
{
	char text[2 * sizeof(CUipcMemHandle) + 1], ordinal[16];
	CUipcMemHandle handle;
	CUdeviceptr p;
	unsigned char byte = 0;
	int status = -1;
	pid_t pid;
	CUresult r;

	if (!expect(w, "cuMemAlloc_v2", cu.cuMemAlloc_v2(&p, 6 * MIB), CUDA_SUCCESS))
		return;
	(void)expect(w, "cuMemsetD8_v2", cu.cuMemsetD8_v2(p, 0x55, 6 * MIB), CUDA_SUCCESS);
	(void)expect(w, "cuCtxSynchronize", cu.cuCtxSynchronize(), CUDA_SUCCESS);
	r = cu.cuIpcGetMemHandle(&handle, p);
	if (!lacks(w, "ipc", r) && expect(w, "cuIpcGetMemHandle", r, CUDA_SUCCESS)) {
		for (unsigned int i = 0; i < sizeof(handle.reserved); i++)
			(void)snprintf(text + 2 * i, 3, "%02x",
				(unsigned char)handle.reserved[i]);
		(void)snprintf(ordinal, sizeof(ordinal), "%d", w->ordinal);
		pid = fork();
		if (pid == 0) {
			(void)execl("/proc/self/exe", w->argv0, "--ipc-child", text, ordinal,
				(char *)NULL);
			_exit(127);
		}
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		(void)expect(w, "the other process", status ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS,
			CUDA_SUCCESS);
		(void)expect(w, "cuMemcpyDtoH_v2", cu.cuMemcpyDtoH_v2(&byte, p, 1),
			CUDA_SUCCESS);
		if (byte != 0x66)
			(void)expect(w, "contents", CUDA_ERROR_UNKNOWN, CUDA_SUCCESS);
		agree(w, "after the other process");
	}
	(void)expect(w, "cuMemFree_v2", cu.cuMemFree_v2(p), CUDA_SUCCESS);
}

/* Memory of another API; one of our own by its descriptor is the nearest that every node has. */
static void import_external(struct walk *w)
{
	CUmemAllocationProp prop = on_device(w);
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = 1, .size = 4 * MIB };
	CUmemGenericAllocationHandle handle;
	CUexternalMemory memory;
	CUresult r = cu.cuMemCreate(&handle, 4 * MIB, &prop, 0);
	int fd = -1;

	if (lacks(w, "external", r) || !expect(w, "cuMemCreate", r, CUDA_SUCCESS))
		return;
	r = cu.cuMemExportToShareableHandle(&fd, handle,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	desc.handle.fd = fd;
	if (r == CUDA_SUCCESS)
		r = cu.cuImportExternalMemory(&memory, &desc);
	/* The driver decides its size; the test checks that the figures agree. */
	agree(w, r ? "refused" : "imported");
	if (r == CUDA_SUCCESS)
		(void)expect(w, "cuDestroyExternalMemory", cu.cuDestroyExternalMemory(memory),
			CUDA_SUCCESS);
	else if (fd >= 0)
		(void)close(fd);
	(void)expect(w, "cuMemRelease", cu.cuMemRelease(handle), CUDA_SUCCESS);
}

static void load_module(struct walk *w)
{
	CUmodule m;

	if (!expect(w, "cuModuleLoadData", cu.cuModuleLoadData(&m, kernels()), CUDA_SUCCESS))
		return;
	agree(w, "loaded");
	(void)expect(w, "cuModuleUnload", cu.cuModuleUnload(m), CUDA_SUCCESS);
}

static void load_cuda_library(struct walk *w)
{
	CUlibrary l;
	CUresult r;

	if (!cu.cuLibraryLoadData) {
		(void)lacks(w, "library", CUDA_ERROR_NOT_SUPPORTED);
		return;
	}
	r = cu.cuLibraryLoadData(&l, kernels(), NULL, NULL, 0, NULL, NULL, 0);
	if (lacks(w, "library", r) || !expect(w, "cuLibraryLoadData", r, CUDA_SUCCESS))
		return;
	agree(w, "loaded");
	(void)expect(w, "cuLibraryUnload", cu.cuLibraryUnload(l), CUDA_SUCCESS);
}

/* A destroyed context takes its memory with it. */
static void second_context(struct walk *w)
{
	CUcontext c;
	CUdeviceptr p;

	if (!expect(w, "cuCtxCreate_v2", cu.cuCtxCreate_v2(&c, 0, w->device), CUDA_SUCCESS))
		return;
	(void)expect(w, "cuMemAlloc_v2", cu.cuMemAlloc_v2(&p, 30 * MIB), CUDA_SUCCESS);
	(void)expect(w, "cuMemAlloc_v2", cu.cuMemAlloc_v2(&p, 3000), CUDA_SUCCESS);
	agree(w, "held");
	(void)expect(w, "cuCtxDestroy_v2", cu.cuCtxDestroy_v2(c), CUDA_SUCCESS);
	(void)expect(w, "cuCtxSetCurrent", cu.cuCtxSetCurrent(w->context), CUDA_SUCCESS);
}

static void set_context_limits(struct walk *w)
{
	size_t stack = 0, heap = 0;

	(void)expect(w, "cuCtxGetLimit", cu.cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE),
		CUDA_SUCCESS);
	(void)expect(w, "cuCtxGetLimit", cu.cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE),
		CUDA_SUCCESS);
	(void)expect(w, "cuCtxSetLimit", cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048),
		CUDA_SUCCESS);
	agree(w, "larger stack");
	(void)expect(w, "cuCtxSetLimit", cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * MIB),
		CUDA_SUCCESS);
	agree(w, "larger heap");
	(void)expect(w, "cuCtxSetLimit", cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stack),
		CUDA_SUCCESS);
	(void)expect(w, "cuCtxSetLimit", cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, heap),
		CUDA_SUCCESS);
}

static void create_streams(struct walk *w)
{
	CUstream s[32];
	unsigned int n = 0;

	while (n < 32 && expect(w, "cuStreamCreate", cu.cuStreamCreate(&s[n], 1), CUDA_SUCCESS))
		n++;
	agree(w, "held");
	while (n > 0)
		(void)expect(w, "cuStreamDestroy_v2", cu.cuStreamDestroy_v2(s[--n]),
			CUDA_SUCCESS);
}

/* The driver does not work in a child of fork(). The child's calls must not harm the parent. */
static void fork_child(struct walk *w)
{
	CUdeviceptr p;
	int status = -1;
	pid_t pid;

	if (!expect(w, "cuMemAlloc_v2", cu.cuMemAlloc_v2(&p, 3 * MIB), CUDA_SUCCESS))
		return;
	pid = fork();
	if (pid == 0) {
		size_t a, b;

		_exit(cu.cuMemGetInfo_v2(&a, &b) == CUDA_SUCCESS);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	(void)expect(w, "the driver in a child of fork",
		status ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS, CUDA_SUCCESS);
	agree(w, "after the child");
	(void)expect(w, "cuMemFree_v2", cu.cuMemFree_v2(p), CUDA_SUCCESS);
}

/* Allocates all free memory in pieces of @piece. The next allocation fails with error 2 and changes nothing. */
static void fill_device_memory(struct walk *w, uint64_t piece)
{
	uint64_t max = 4096, n = 0, before;
	CUdeviceptr *p = calloc(max, sizeof(*p));
	CUresult r = CUDA_SUCCESS;
	CUdeviceptr none;

	if (!p)
		die("no memory");
	while (n < max && (r = cu.cuMemAlloc_v2(&p[n], piece)) == CUDA_SUCCESS)
		n++;
	if (n < max)
		(void)expect(w, "cuMemAlloc_v2 at the limit", r, CUDA_ERROR_OUT_OF_MEMORY);
	agree(w, "full");
	before = used(w);
	(void)expect(w, "cuMemAlloc_v2 at the limit", cu.cuMemAlloc_v2(&none, piece),
		n < max ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
	if (n < max && used(w) != before)
		(void)expect(w, "a refused one leaves nothing", CUDA_ERROR_UNKNOWN,
			CUDA_SUCCESS);
	while (n > 0)
		(void)expect(w, "cuMemFree_v2", cu.cuMemFree_v2(p[--n]), CUDA_SUCCESS);
	free(p);
}

static void allocate_all_memory(struct walk *w)
{
	CUmemAllocationProp prop = on_device(w);
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;
	size_t row;

	if (!w->limit)
		return;
	(void)expect(w, "cuMemAlloc_v2 beyond the limit", cu.cuMemAlloc_v2(&p, w->limit + 1),
		CUDA_ERROR_OUT_OF_MEMORY);
	(void)expect(w, "cuMemAllocPitch_v2 beyond the limit",
		cu.cuMemAllocPitch_v2(&p, &row, MIB, w->limit / MIB + 1, 4),
		CUDA_ERROR_OUT_OF_MEMORY);
	(void)expect(w, "cuMemAllocManaged beyond the limit",
		cu.cuMemAllocManaged(&p, w->limit + 1, CU_MEM_ATTACH_GLOBAL),
		CUDA_ERROR_OUT_OF_MEMORY);
	(void)expect(w, "cuMemAllocAsync beyond the limit",
		cu.cuMemAllocAsync(&p, w->limit + 1, w->stream), CUDA_ERROR_OUT_OF_MEMORY);
	(void)expect(w, "cuMemCreate beyond the limit",
		cu.cuMemCreate(&handle, (w->limit / (2 * MIB) + 1) * 2 * MIB, &prop, 0),
		CUDA_ERROR_OUT_OF_MEMORY);
	fill_device_memory(w, (w->limit / 64 / (2 * MIB) + 1) * 2 * MIB);
}

static void reset_primary(struct walk *w)
{
	CUdeviceptr p;

	(void)expect(w, "cuMemAlloc_v2", cu.cuMemAlloc_v2(&p, 32 * MIB), CUDA_SUCCESS);
	(void)expect(w, "cuStreamDestroy_v2", cu.cuStreamDestroy_v2(w->stream), CUDA_SUCCESS);
	(void)expect(w, "cuDevicePrimaryCtxReset_v2", cu.cuDevicePrimaryCtxReset_v2(w->device),
		CUDA_SUCCESS);
	/* The step that follows retains it again. */
	(void)expect(w, "cuDevicePrimaryCtxRetain",
		cu.cuDevicePrimaryCtxRetain(&w->context, w->device), CUDA_SUCCESS);
	(void)expect(w, "cuCtxSetCurrent", cu.cuCtxSetCurrent(w->context), CUDA_SUCCESS);
	(void)expect(w, "cuStreamCreate", cu.cuStreamCreate(&w->stream, 1), CUDA_SUCCESS);
}

const struct walk_step walk_steps[] = {
	{ "streams", create_streams, true },
	{ "plain", allocate_plain, false },
	{ "small", allocate_small, false },
	{ "pitch", allocate_pitch, false },
	{ "managed", allocate_managed, true },
	{ "arrays", create_arrays, true },
	{ "virtual", virtual, false },
	{ "pool", allocate_from_pool, true },
	{ "default-pool", default_pool, true },
	{ "graph", allocate_in_graph, true },
	{ "capture", allocate_in_capture, true },
	{ "ipc", share_by_ipc, false },
	{ "external", import_external, false },
	{ "module", load_module, true },
	{ "library", load_cuda_library, true },
	{ "context", second_context, true },
	{ "limits", set_context_limits, true },
	{ "fork", fork_child, false },
	{ "full", allocate_all_memory, true },
	{ "reset", reset_primary, true },
};
const unsigned int walk_step_count = sizeof(walk_steps) / sizeof(*walk_steps);
