/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A libcuda.so.1 without a GPU: the driver API of validate/cuda/calls.h in software. It runs one
 * kernel, the vector add, when it finds its name in the PTX text, and refuses calls in a wrong
 * order as the real one does. It has one device for each UUID of CUDA_VISIBLE_DEVICES, as the
 * driver does, or FAKE_CUDA_COUNT of them (1), and misbehaves as FAKE_CUDA says, words apart by
 * blanks:
 *
 *	fail=CALL:CODE[:UUID]   that call answers CODE
 *	hang=CALL[:UUID]        that call does not come back
 *	crash=CALL[:UUID]
 *	wrong=UUID              one sum in the middle is wrong there
 *	lazy=UUID               the kernel does nothing there
 *	hide=UUID               not seen, nor what stands behind it in the list
 *
 * "*" is any device.
 */
#include "lib/base/parse.h"
#include "tools/validate/cuda/calls.h"
#include "tools/validate/cuda/vector-add.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES_MAX 64
#define BLOCKS_MAX  16

#define X(name, params) CUresult name params;
CUDA_CALLS(X)
#undef X

struct CUcontext_st {
	CUdevice device;
};

struct CUmodule_st {
	int loaded;
};

struct CUfunction_st {
	int found;
};

static bool initialized;
static int count;
static char uuids[DEVICES_MAX][64];
static struct CUcontext_st contexts[DEVICES_MAX];
static CUcontext current;
static struct CUmodule_st module;
static struct CUfunction_st function;
static void *blocks[BLOCKS_MAX];

/* Whether the words of FAKE_CUDA ask for @what on @call and @device. @ret_code: of a fail. */
static bool is_asked(const char *what, const char *call, const char *uuid, int *ret_code)
{
	const char *words = getenv("FAKE_CUDA");
	char copy[1024], *save = NULL;

	(void)snprintf(copy, sizeof(copy), "%s", words ? words : "");
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		char *part[4] = { w, NULL, NULL, NULL };
		int64_t code = 0;
		size_t n = 1;

		for (char *p = w; *p && n < 4; p++) {
			if (*p != '=' && *p != ':')
				continue;
			*p = '\0';
			part[n++] = p + 1;
		}
		if (strcmp(part[0], what) != 0)
			continue;
		if (call && (!part[1] || strcmp(part[1], call) != 0))
			continue;
		/* fail has the code before the device; wrong and the like have no call. */
		size_t at = !call ? 1 : strcmp(what, "fail") == 0 ? 3 : 2;
		if (part[at] && strcmp(part[at], "*") != 0 &&
			(!uuid || strcmp(part[at], uuid) != 0))
			continue;
		if (ret_code && part[2] && parse_i64(part[2], &code))
			*ret_code = (int)code;
		return true;
	}
	return false;
}

static const char *uuid_of(CUdevice d)
{
	return d >= 0 && d < count ? uuids[d] : NULL;
}

/* What every call does first: the device is that of the call, or of the current context. */
static CUresult enter(const char *call, const char *uuid)
{
	int code = CUDA_ERROR_UNKNOWN;

	if (!uuid && current)
		uuid = uuid_of(current->device);
	while (is_asked("hang", call, uuid, NULL))
		(void)sleep(1);
	if (is_asked("crash", call, uuid, NULL)) {
		(void)signal(SIGSEGV, SIG_DFL); /* a sanitizer would take it for a find */
		(void)raise(SIGSEGV);
	}
	if (is_asked("fail", call, uuid, &code))
		return code;
	if (!initialized && strcmp(call, "cuInit") != 0)
		return CUDA_ERROR_NOT_INITIALIZED;
	return CUDA_SUCCESS;
}

#define ENTER(uuid)                                  \
	do {                                         \
		CUresult r_ = enter(__func__, uuid); \
		if (r_ != CUDA_SUCCESS)              \
			return r_;                   \
	} while (0)

static void find_devices(void)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *n = getenv("FAKE_CUDA_COUNT");
	uint32_t want = 1;

	count = 0;
	for (const char *p = visible; p && *p && count < DEVICES_MAX; p += *p == ',') {
		size_t len = strcspn(p, ",");

		(void)snprintf(uuids[count], sizeof(uuids[0]), "%.*s", (int)len, p);
		p += len;
		if (is_asked("hide", NULL, uuids[count], NULL))
			return;
		count++;
	}
	if (visible)
		return;
	if (n && !parse_u32(n, &want))
		want = 0;
	for (; count < (int)want && count < DEVICES_MAX; count++)
		(void)snprintf(uuids[count], sizeof(uuids[0]),
			"GPU-00000000-0000-0000-0000-%012x", (unsigned)count);
}

CUresult cuInit(unsigned int flags)
{
	(void)flags;
	ENTER(NULL);
	find_devices();
	if (count == 0)
		return CUDA_ERROR_NO_DEVICE;
	initialized = true;
	return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
	*version = 13000;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *n)
{
	ENTER(NULL);
	*n = count;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	ENTER(uuid_of(ordinal));
	if (!uuid_of(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice device)
{
	ENTER(uuid_of(device));
	(void)snprintf(name, (size_t)len, "Fake GPU");
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	const char *text = uuid_of(device);
	size_t n = 0;

	ENTER(text);
	for (const char *p = text + 4; *p && n < sizeof(uuid->bytes); p++) {
		unsigned byte;

		if (*p != '-' && sscanf(p++, "%2x", &byte) == 1)
			uuid->bytes[n++] = (char)byte;
	}
	return n == sizeof(uuid->bytes) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice device)
{
	ENTER(uuid_of(device));
	(void)snprintf(id, (size_t)len, "0000:%02X:00.0", (unsigned)device + 1);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	ENTER(uuid_of(device));
	contexts[device].device = device;
	*context = &contexts[device];
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	ENTER(uuid_of(device));
	if (current == &contexts[device])
		current = NULL;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	ENTER(context ? uuid_of(context->device) : NULL);
	current = context;
	return CUDA_SUCCESS;
}

#define NEED_CONTEXT()                                     \
	do {                                               \
		ENTER(NULL);                               \
		if (!current)                              \
			return CUDA_ERROR_INVALID_CONTEXT; \
	} while (0)

CUresult cuCtxSynchronize(void)
{
	NEED_CONTEXT();
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *ret, const void *image)
{
	const char *ptx = image;

	NEED_CONTEXT();
	if (strncmp(ptx, ".version ", 9) != 0 || !strstr(ptx, ".address_size 64") ||
		!strstr(ptx, ".visible .entry " VECTOR_KERNEL "("))
		return CUDA_ERROR_INVALID_PTX;
	module.loaded = 1;
	*ret = &module;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule m)
{
	NEED_CONTEXT();
	m->loaded = 0;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *ret, CUmodule m, const char *name)
{
	NEED_CONTEXT();
	if (!m->loaded || strcmp(name, VECTOR_KERNEL) != 0)
		return CUDA_ERROR_NOT_FOUND;
	function.found = 1;
	*ret = &function;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	NEED_CONTEXT();
	for (size_t i = 0; i < BLOCKS_MAX; i++) {
		if (blocks[i])
			continue;
		blocks[i] = calloc(1, bytes);
		*ptr = (uintptr_t)blocks[i];
		return blocks[i] ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The block behind a device pointer; NULL: there is none. */
static void **block_of(CUdeviceptr ptr)
{
	for (size_t i = 0; i < BLOCKS_MAX; i++) {
		if (blocks[i] && (uintptr_t)blocks[i] == ptr)
			return &blocks[i];
	}
	return NULL;
}

CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	void **block = block_of(ptr);

	NEED_CONTEXT();
	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	free(*block);
	*block = NULL;
	return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	NEED_CONTEXT();
	if (!block_of(to))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(*block_of(to), from, bytes);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	NEED_CONTEXT();
	if (!block_of(from))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(to, *block_of(from), bytes);
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared_bytes, CUstream stream, void **params, void **extra)
{
	const char *uuid;
	float *v[3];
	unsigned n, threads;

	NEED_CONTEXT();
	if (!f->found || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 ||
		block_x == 0 || block_x > 1024 || shared_bytes || stream || extra || !params)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < 3; i++) {
		CUdeviceptr p;

		memcpy(&p, params[i], sizeof(p));
		if (!block_of(p))
			return CUDA_ERROR_INVALID_VALUE;
		v[i] = *block_of(p);
	}
	memcpy(&n, params[3], sizeof(n));
	threads = grid_x * block_x;
	uuid = uuid_of(current->device);
	if (is_asked("lazy", NULL, uuid, NULL))
		return CUDA_SUCCESS;
	for (unsigned i = 0; i < n && i < threads; i++)
		v[2][i] = v[0][i] + v[1][i];
	if (is_asked("wrong", NULL, uuid, NULL))
		v[2][n / 2] += 1.0F;
	return CUDA_SUCCESS;
}

static const struct {
	CUresult code;
	const char *name, *text;
} texts[] = {
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device is detected" },
	{ CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
		"display driver and CUDA driver do not match" },
};

CUresult cuGetErrorName(CUresult result, const char **name)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].code == result) {
			*name = texts[i].name;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].code == result) {
			*text = texts[i].text;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}
