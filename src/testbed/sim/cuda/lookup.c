/* SPDX-License-Identifier: Apache-2.0 */

/* Functions by name and version, names of errors, export tables. */
#include "testbed/sim/cuda/stub.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "testbed/sim/cuda/lib.h"

enum { FLAG_MAX = 3 }; /* both flags together mean the per-thread default stream (measured) */

/* The first row of @name; lookup_count: none. */
static size_t find_name(const char *name)
{
	size_t low = 0, high = lookup_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(lookups[mid].name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < lookup_count && !strcmp(lookups[low].name, name) ? low : lookup_count;
}

static unsigned int (*choose_symbol_version(size_t first, int version, bool per_thread))(void)
{
	unsigned int (*plain)(void) = NULL, (*own)(void) = NULL;
	bool has_own = false;

	for (size_t i = first;
		i < lookup_count && !strcmp(lookups[i].name, lookups[first].name); i++) {
		has_own = has_own || lookups[i].per_thread;
		if (lookups[i].version <= version)
			plain = lookups[i].function;
		if (lookups[i].per_thread && lookups[i].per_thread_version <= version)
			own = lookups[i].per_thread;
	}
	return per_thread && has_own ? own : plain;
}

static CUresult find_proc_address(const char *name, void **function, int version,
	uint64_t flags, unsigned int *status)
{
	unsigned int (*found)(void);
	size_t first;

	if (lib_is_orphan())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!name || !function || flags > FLAG_MAX || version > sim_cuda.driver_version)
		return CUDA_ERROR_INVALID_VALUE;
	*function = NULL;
	first = find_name(name);
	if (first == lookup_count) {
		*status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
		return CUDA_SUCCESS;
	}
	found = choose_symbol_version(first, version,
		flags >= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	*status = found ? CU_GET_PROC_ADDRESS_SUCCESS
			: CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	memcpy(function, &found, sizeof(found));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version,
	uint64_t flags, unsigned int *status)
{
	unsigned int own = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult r = find_proc_address(name, function, version, flags, &own);

	if (r == CUDA_SUCCESS && status)
		*status = own;
	return r;
}

/* The first version has no status. If it finds nothing, it returns an error and does not change *function. */
EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
	unsigned status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *found;
	CUresult r = find_proc_address(name, function ? &found : NULL, version, flags, &status);

	if (r != CUDA_SUCCESS)
		return r;
	if (status != CU_GET_PROC_ADDRESS_SUCCESS)
		return CUDA_ERROR_NOT_FOUND;
	*function = found;
	return CUDA_SUCCESS;
}

/*
 * The undocumented tables of NVIDIA's own libraries are not simulated. One of them serves to tell NVIDIA's driver
 * from others. So the CUDA runtime fails with error 500 or 801, which does not explain the cause.
 */
EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	static const char why[] =
		"gpuslice: a simulated GPU has the CUDA driver API only: programs on the CUDA runtime "
		"(libcudart: PyTorch, CuPy) need a real one\n";
	/* The first table that the runtime requests and cannot do without. */
	static const CUuuid runtime = { { 0x6b, (char)0xd5, (char)0xfb, 0x6c, 0x5b, (char)0xf4,
		(char)0xe7, 0x4a, (char)0x89, (char)0x87, (char)0xd9, 0x39, 0x12, (char)0xfd,
		(char)0x9d, (char)0xf9 } };
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	if (!memcmp(id, &runtime, sizeof(runtime)) && !atomic_flag_test_and_set(&warned))
		(void)!write(STDERR_FILENO, why, sizeof(why) - 1);
	*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

/* --- errors --- */

static const struct {
	CUresult number;
	const char *name, *text;
} results[] = {
#define ROW(name, number, text) { number, #name, text },
	CUDA_RESULTS(ROW)
#undef ROW
};

EXPORT CUresult cuGetErrorName(CUresult error, const char **ret)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = NULL;
	for (size_t i = 0; i < ARRAY_LEN(results); i++)
		if (results[i].number == error)
			*ret = results[i].name;
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **ret)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = NULL;
	for (size_t i = 0; i < ARRAY_LEN(results); i++)
		if (results[i].number == error)
			*ret = results[i].text;
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
