/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that calls CUDA: a vector add on each device, with a note to the parent before each call
 * (internal.h).
 */
#include "tools/validate/validate.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/time.h"
#include "tools/validate/cuda/internal.h"
#include "tools/validate/cuda/vector-add.h"

#define BYTES (VECTOR_LEN * sizeof(float))

struct cuda {
#define X(name, params) CUresult(*name) params;
	CUDA_CALLS(X)
#undef X
};

struct cuda_session {
	struct cuda api;
	uint32_t device;
	enum cuda_step step; /* the present call, or the last one */
};

/* The resources on one device; zero: none. */
struct vector_add {
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUdeviceptr v[3]; /* a, b, c */
	float *host;
};

static void send_cuda_note(struct cuda_note *n)
{
	n->magic = CUDA_NOTE_MAGIC;
	n->size = sizeof(*n);
	/* The watching process is gone: nothing is left to do. */
	if (send(CUDA_NOTE_FD, n, sizeof(*n), MSG_NOSIGNAL) < 0)
		_exit(1);
}

static void send_cuda_step(struct cuda_session *s, enum cuda_step step)
{
	struct cuda_note n = { .type = CUDA_NOTE_STEP, .device = s->device, .step = step };

	s->step = step;
	send_cuda_note(&n);
}

#define CALL(s, name, ...) (send_cuda_step((s), CUDA_STEP_##name), (s)->api.name(__VA_ARGS__))

/* Adds the driver's text for an error. */
static void describe_cuda_error(struct cuda_session *s, CUresult value, struct cuda_note *n)
{
	const char *name = NULL, *text = NULL;

	if (s->api.cuGetErrorName(value, &name) != CUDA_SUCCESS)
		name = NULL;
	if (s->api.cuGetErrorString(value, &text) != CUDA_SUCCESS)
		text = NULL;
	(void)snprintf(n->text, sizeof(n->text), "%s%s%s", name ? name : "",
		name && text ? ", " : "", text ? text : "");
}

static int send_end_note(struct cuda_session *s, int value, const char *text)
{
	struct cuda_note n = { .type = CUDA_NOTE_END, .step = s->step, .value = value };

	if (value > 0)
		describe_cuda_error(s, (CUresult)value, &n);
	else if (text)
		(void)snprintf(n.text, sizeof(n.text), "%s", text);
	send_cuda_note(&n);
	return 0;
}

static void *find_cuda_symbol(void *lib, const char *name)
{
	static const struct {
		const char *name, *older;
	} fallbacks[] = {
#define X(name, older) { #name, #older },
		CUDA_CALLS_BEFORE_R470(X)
#undef X
	};
	void *sym = dlsym(lib, name);

	for (size_t i = 0; i < ARRAY_LEN(fallbacks) && !sym; i++) {
		if (strcmp(fallbacks[i].name, name) == 0)
			sym = dlsym(lib, fallbacks[i].older);
	}
	return sym;
}

/* Returns the name of a missing function; NULL: none is missing. */
static const char *load_cuda_functions(struct cuda *api, void *lib)
{
	/* POSIX promises that an object pointer can hold a function's address. */
#define X(name, params)                                                                   \
	do {                                                                              \
		void *sym_ = find_cuda_symbol(lib, #name);                                \
		static_assert(sizeof(api->name) == sizeof(sym_), "pointers of one size"); \
		if (!sym_)                                                                \
			return #name;                                                     \
		memcpy(&api->name, &sym_, sizeof(sym_));                                  \
	} while (0);
	CUDA_CALLS(X)
#undef X
	return NULL;
}

static void uuid_text(const CUuuid *u, char *ret, size_t cap)
{
	int n = snprintf(ret, cap, "GPU-");

	for (size_t i = 0; i < sizeof(u->bytes); i++)
		n += snprintf(ret + n, cap - (size_t)n, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			(unsigned char)u->bytes[i]);
}

static CUresult describe_cuda_device(struct cuda_session *s, CUdevice device,
	struct cuda_note *n)
{
	CUuuid uuid = { { 0 } };
	CUresult r = CALL(s, cuDeviceGetName, n->name, (int)sizeof(n->name), device);

	if (r == CUDA_SUCCESS)
		r = CALL(s, cuDeviceGetUuid_v2, &uuid, device);
	if (r == CUDA_SUCCESS)
		uuid_text(&uuid, n->uuid, sizeof(n->uuid));
	if (r == CUDA_SUCCESS)
		r = CALL(s, cuDeviceGetPCIBusId, n->bus_id, (int)sizeof(n->bus_id), device);
	n->name[sizeof(n->name) - 1] = '\0';
	n->bus_id[sizeof(n->bus_id) - 1] = '\0';
	return r;
}

/* Makes the context, the memory and the operands. */
static CUresult prepare_vector_add(struct cuda_session *s, struct vector_add *w)
{
	CUresult r = CALL(s, cuDevicePrimaryCtxRetain, &w->context, w->device);

	if (r == CUDA_SUCCESS)
		r = CALL(s, cuCtxSetCurrent, w->context);
	for (size_t k = 0; k < ARRAY_LEN(w->v) && r == CUDA_SUCCESS; k++) {
		r = CALL(s, cuMemAlloc_v2, &w->v[k], BYTES);
		for (unsigned i = 0; i < VECTOR_LEN; i++)
			w->host[i] = k == 0 ? vector_a(i) : k == 1 ? vector_b(i) : VECTOR_UNSET;
		if (r == CUDA_SUCCESS)
			r = CALL(s, cuMemcpyHtoD_v2, w->v[k], w->host, BYTES);
	}
	return r;
}

static CUresult run_vector_add(struct cuda_session *s, struct vector_add *w)
{
	unsigned n = VECTOR_LEN;
	void *params[] = { &w->v[0], &w->v[1], &w->v[2], &n };
	CUfunction function = NULL;
	CUresult r = CALL(s, cuModuleLoadData, &w->module, vector_ptx);

	if (r == CUDA_SUCCESS)
		r = CALL(s, cuModuleGetFunction, &function, w->module, VECTOR_KERNEL);
	if (r == CUDA_SUCCESS)
		r = CALL(s, cuLaunchKernel, function,
			(VECTOR_LEN + VECTOR_BLOCK - 1) / VECTOR_BLOCK, 1, 1, VECTOR_BLOCK, 1,
			1, 0, NULL, params, NULL);
	if (r == CUDA_SUCCESS)
		r = CALL(s, cuCtxSynchronize);
	memset(w->host, 0, BYTES);
	if (r == CUDA_SUCCESS)
		r = CALL(s, cuMemcpyDtoH_v2, w->host, w->v[2], BYTES);
	return r;
}

/* Returns 0, or CUDA_NOTE_WRONG_SUM with a description in .text. The sums are exact, so the
 * comparison is exact. */
static int check_vector_sums(const struct vector_add *w, struct cuda_note *n)
{
	unsigned wrong = 0, first = 0, unset = 0;

	for (unsigned i = VECTOR_LEN; i-- > 0;) {
		float want = vector_a(i) + vector_b(i);

		if (w->host[i] == want)
			continue;
		unset += w->host[i] == VECTOR_UNSET;
		wrong++;
		first = i;
	}
	if (wrong == 0)
		return 0;
	if (unset == VECTOR_LEN) {
		(void)snprintf(n->text, sizeof(n->text),
			"%u of %u sums are wrong, as the kernel wrote none: the GPU is broken, or its driver computes no kernels",
			wrong, (unsigned)VECTOR_LEN);
		return CUDA_NOTE_WRONG_SUM;
	}
	(void)snprintf(n->text, sizeof(n->text),
		"%u of %u sums are wrong; number %u is %.9g, not %.9g", wrong,
		(unsigned)VECTOR_LEN, first, (double)w->host[first],
		(double)(vector_a(first) + vector_b(first)));
	return CUDA_NOTE_WRONG_SUM;
}

/* After an error of the device every call returns the same error: ignore the results. */
static void release_vector_add(struct cuda_session *s, struct vector_add *w)
{
	if (w->module)
		(void)CALL(s, cuModuleUnload, w->module);
	for (size_t k = 0; k < ARRAY_LEN(w->v); k++) {
		if (w->v[k])
			(void)CALL(s, cuMemFree_v2, w->v[k]);
	}
	if (w->context)
		(void)CALL(s, cuDevicePrimaryCtxRelease_v2, w->device);
}

static void test_cuda_device(struct cuda_session *s, int ordinal, float *host)
{
	struct cuda_note n = { .type = CUDA_NOTE_RESULT, .device = (uint32_t)ordinal };
	struct vector_add w = { .host = host };
	uint64_t start = time_mono_ns();
	CUresult r;

	s->device = (uint32_t)ordinal;
	r = CALL(s, cuDeviceGet, &w.device, ordinal);
	if (r == CUDA_SUCCESS)
		r = describe_cuda_device(s, w.device, &n);
	if (r == CUDA_SUCCESS)
		r = prepare_vector_add(s, &w);
	if (r == CUDA_SUCCESS)
		r = run_vector_add(s, &w);
	n.step = s->step;
	n.value = r == CUDA_SUCCESS ? check_vector_sums(&w, &n) : (int32_t)r;
	if (r != CUDA_SUCCESS)
		describe_cuda_error(s, r, &n);
	n.took_ns = time_mono_ns() - start;
	release_vector_add(s, &w);
	send_cuda_note(&n);
}

static int test_cuda_devices(struct cuda_session *s)
{
	CLEANUP(freep) float *host = malloc(BYTES);
	struct cuda_note n = { .type = CUDA_NOTE_COUNT };
	int count = 0;
	CUresult r = CALL(s, cuInit, 0);

	if (r == CUDA_SUCCESS)
		r = CALL(s, cuDeviceGetCount, &count);
	if (r != CUDA_SUCCESS || !host)
		return send_end_note(s, host ? r : CUDA_ERROR_OUT_OF_MEMORY, NULL);
	n.value = count < 0 ? 0 : count > CUDA_DEVICES_MAX ? CUDA_DEVICES_MAX : count;
	send_cuda_note(&n);
	for (int i = 0; i < n.value; i++)
		test_cuda_device(s, i, host);
	return send_end_note(s, CUDA_SUCCESS, NULL);
}

int cuda_child(const char *library)
{
	struct cuda_session s = { .device = 0 };
	const char *path = library && library[0] ? library : CUDA_SONAME;
	const char *missing;
	void *lib;

	send_cuda_step(&s, CUDA_STEP_OPEN);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		const char *why = dlerror();

		return send_end_note(&s, CUDA_NOTE_NO_LIBRARY, why ? why : path);
	}
	missing = load_cuda_functions(&s.api, lib);
	if (missing) {
		char text[96];

		(void)snprintf(text, sizeof(text), "it has no %s", missing);
		return send_end_note(&s, CUDA_NOTE_BAD_LIBRARY, text);
	}
	return test_cuda_devices(&s);
}
