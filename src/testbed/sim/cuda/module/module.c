/* SPDX-License-Identifier: Apache-2.0 */

/* Modules and libraries from PTX texts and cubins. Only names matter. */
#include "testbed/sim/cuda/module/module.h"

#include "testbed/sim/cuda/module/cubin.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX_BYTES (UINT64_C(256) << 20)
#define PTX_NEWEST     90 /* of CUDA 13.0 */

static struct module *modules;

static enum kernel kernel_named(const char *name)
{
	static const struct {
		const char *name;
		enum kernel kernel;
	} rows[] = {
		{ "spin", KERNEL_SPIN },
		{ "fill32", KERNEL_FILL32 },
		{ "add32", KERNEL_ADD32 },
		{ "step32", KERNEL_STEP32 },
		{ "burn", KERNEL_BURN },
		{ "stream", KERNEL_STREAM },
		{ "nop", KERNEL_NOP },
		{ "bad_address", KERNEL_BAD },
		{ "trap_now", KERNEL_TRAP },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!strcmp(name, rows[i].name))
			return rows[i].kernel;
	return KERNEL_OTHER;
}

static bool add_function(struct module *m, const struct ptx_entry *e)
{
	struct function *f = obj_new(OBJ_FUNCTION, sizeof(struct function));

	if (!f)
		return false;
	f->module = m;
	memcpy(f->name, e->name, sizeof(f->name));
	f->kernel = kernel_named(f->name);
	f->param_count = e->param_count;
	memcpy(f->offsets, e->offsets, sizeof(f->offsets));
	memcpy(f->sizes, e->sizes, sizeof(f->sizes));
	f->bytes = e->bytes;
	f->attributes[0] = 1024; /* threads of a block */
	f->attributes[4] = 16;   /* registers */
	f->attributes[5] = f->attributes[6] =
		(int)(m->ctx->device->keys.cc_major * 10 + m->ctx->device->keys.cc_minor);
	f->attributes[8] = 49152; /* dynamic shared memory */
	f->attributes[9] = -1;
	*m->functions_end = f;
	m->functions_end = &f->next;
	return true;
}

static bool add_variable(struct module *m, const struct ptx_entry *e)
{
	struct variable *v = calloc(1, sizeof(*v));

	if (!v || plain_new(m->ctx, e->bytes ? e->bytes : 1, RANGE_MODULE, &v->range)) {
		free(v);
		return false;
	}
	memcpy(v->name, e->name, sizeof(v->name));
	v->next = m->variables;
	m->variables = v;
	return true;
}

static void module_drop(struct module *m)
{
	struct module **link = &modules;
	struct function *f;
	struct variable *v;

	while (*link && *link != m)
		link = &(*link)->next;
	if (*link)
		*link = m->next;
	while ((f = m->functions)) {
		m->functions = f->next;
		obj_drop(f, OBJ_FUNCTION);
	}
	while ((v = m->variables)) {
		m->variables = v->next;
		plain_drop(v->range);
		free(v);
	}
	obj_drop(m, OBJ_MODULE);
}

void modules_drop_all(struct sim_cuda_ctx *c)
{
	struct module *next;

	for (struct module *m = modules; m; m = next) {
		next = m->next;
		if (m->ctx == c)
			module_drop(m);
	}
	while (c->code_count)
		phys_drop(c->code[--c->code_count]);
	c->code_used = 0;
}

/* Code takes memory of the context. The context frees it at its end. */
static CUresult reserve_code_memory(struct sim_cuda_ctx *c, size_t bytes)
{
	size_t used = c->code_used + ((bytes + 4095) & ~(size_t)4095);

	while (used > c->code_count * GRANULE && c->code_count < CODE_MAX) {
		CUresult r = phys_new(c->device, GRANULE, SIM_DEVICE_MEM_NO_FD,
			&c->code[c->code_count]);

		if (r)
			return r;
		c->code_count++;
	}
	c->code_used = used;
	return CUDA_SUCCESS;
}

/* The image of a module: PTX or a cubin. */
struct module_image {
	const char *ptx; /* position of the next declaration; NULL: a cubin */
	struct cubin cubin;
	size_t bytes;
};

/* Whether a GPU runs code for @arch: the same generation, and at least that minor version. */
static bool can_run(const struct sim_keys *gpu, unsigned arch)
{
	return arch / 10 == gpu->cc_major && arch % 10 <= gpu->cc_minor;
}

static CUresult open_image(struct module_image *ret, const void *image,
	const struct sim_keys *gpu)
{
	*ret = (struct module_image){ .ptx = NULL };
	if (cubin_is(image)) {
		if (!cubin_open(&ret->cubin, image, CUBIN_MAX_BYTES))
			return CUDA_ERROR_INVALID_IMAGE;
		ret->bytes = ret->cubin.bytes;
		return can_run(gpu, ret->cubin.arch) ? CUDA_SUCCESS
						     : CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	if (!ptx_is(image))
		return CUDA_ERROR_INVALID_IMAGE;
	if (ptx_is_too_new(image, PTX_NEWEST))
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	ret->ptx = image;
	ret->bytes = strlen(image);
	return CUDA_SUCCESS;
}

static int next_entry(struct module_image *from, struct ptx_entry *ret)
{
	return from->ptx ? ptx_next(&from->ptx, ret) : cubin_next(&from->cubin, ret);
}

static CUresult load_cuda_module(struct sim_cuda_ctx *c, const void *image, bool library,
	struct module **ret)
{
	struct module *m;
	struct module_image from;
	struct ptx_entry e;
	CUresult r = open_image(&from, image, &c->device->keys);
	int found;

	if (r == CUDA_SUCCESS)
		r = reserve_code_memory(c, from.bytes);
	m = r ? NULL : obj_new(OBJ_MODULE, sizeof(struct module));
	if (!m)
		return r ? r : CUDA_ERROR_OUT_OF_MEMORY;
	m->ctx = c;
	m->is_library = library;
	m->functions_end = &m->functions;
	m->next = modules;
	modules = m;
	while (r == CUDA_SUCCESS && (found = next_entry(&from, &e)) != 0) {
		if (found < 0)
			r = from.ptx ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_INVALID_IMAGE;
		else if (!(e.kind == PTX_KERNEL ? add_function(m, &e) : add_variable(m, &e)))
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r)
		module_drop(m);
	else
		*ret = m;
	return r;
}

/* Reads a whole file as text. NULL: it cannot be read. */
static char *read_image_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *text = NULL;
	size_t have = 0;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size < FILE_MAX_BYTES)
		text = malloc((size_t)st.st_size + 1);
	while (text && have < (size_t)st.st_size) {
		ssize_t n = read(fd, text + have, (size_t)st.st_size - have);

		if (n <= 0)
			break;
		have += (size_t)n;
	}
	if (text)
		text[have] = '\0';
	(void)close(fd);
	return text;
}

EXPORT CUresult cuModuleLoadData(CUmodule *ret, const void *image)
{
	struct sim_cuda_ctx *c;
	struct module *m;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (!ret || !image)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = load_cuda_module(c, image, false, &m);
	if (r == CUDA_SUCCESS)
		*ret = (CUmodule)m;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *ret, const void *image, unsigned int n,
	unsigned int *options, void **values)
{
	(void)n;
	(void)options;
	(void)values;
	return cuModuleLoadData(ret, image);
}

EXPORT CUresult cuModuleLoadFatBinary(CUmodule *ret, const void *image)
{
	return cuModuleLoadData(ret, image);
}

EXPORT CUresult cuModuleLoad(CUmodule *ret, const char *path)
{
	char *text;
	CUresult r;

	if (!ret || !path)
		return CUDA_ERROR_INVALID_VALUE;
	text = read_image_file(path);
	r = text ? cuModuleLoadData(ret, text) : CUDA_ERROR_FILE_NOT_FOUND;
	free(text);
	return r;
}

/* The module of a handle; the lock is taken on success. */
static CUresult enter_module(const void *h, bool args_ok, struct module **ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!args_ok)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (!obj_is(h, OBJ_MODULE))
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	memcpy(ret, &h, sizeof(h));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule h)
{
	struct module *m = NULL;
	CUresult r = enter_module(h, true, &m);

	if (r)
		return r;
	module_drop(m);
	return sim_cuda_leave(CUDA_SUCCESS);
}

static CUresult find_function(const void *h, const char *name, void *ret)
{
	struct module *m = NULL;
	CUresult r = enter_module(h, ret && name, &m);

	if (r)
		return r;
	for (struct function *f = m->functions; f; f = f->next)
		if (!strcmp(f->name, name)) {
			memcpy(ret, &f, sizeof(f));
			return sim_cuda_leave(CUDA_SUCCESS);
		}
	return sim_cuda_leave(CUDA_ERROR_NOT_FOUND);
}

static CUresult find_variable(const void *h, const char *name, CUdeviceptr *ret, size_t *bytes)
{
	struct module *m = NULL;
	CUresult r = enter_module(h, name && (ret || bytes), &m);

	if (r)
		return r;
	for (struct variable *v = m->variables; v; v = v->next)
		if (!strcmp(v->name, name)) {
			if (ret)
				*ret = v->range->start;
			if (bytes)
				*bytes = v->range->bytes;
			return sim_cuda_leave(CUDA_SUCCESS);
		}
	return sim_cuda_leave(CUDA_ERROR_NOT_FOUND);
}

static CUresult count_module_functions(const void *h, unsigned *ret)
{
	struct module *m = NULL;
	CUresult r = enter_module(h, ret != NULL, &m);

	if (r)
		return r;
	*ret = 0;
	for (struct function *f = m->functions; f; f = f->next)
		(*ret)++;
	return sim_cuda_leave(CUDA_SUCCESS);
}

static CUresult list_module_functions(const void *h, void **ret, unsigned n)
{
	struct module *m = NULL;
	CUresult r = enter_module(h, ret != NULL, &m);

	if (r)
		return r;
	for (struct function *f = m->functions; f && n; f = f->next, n--)
		*ret++ = f;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuModuleGetFunction(CUfunction *ret, CUmodule h, const char *name)
{
	return find_function(h, name, ret);
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *ret, size_t *bytes, CUmodule h,
	const char *name)
{
	return find_variable(h, name, ret, bytes);
}

EXPORT CUresult cuModuleGetFunctionCount(unsigned int *ret, CUmodule h)
{
	return count_module_functions(h, ret);
}

EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *ret, unsigned int n, CUmodule h)
{
	return list_module_functions(h, (void **)ret, n);
}

EXPORT CUresult cuModuleGetLoadingMode(unsigned int *ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*ret = 2; /* lazy */
	return sim_cuda_leave(CUDA_SUCCESS);
}

/*
 * Libraries belong to no context. In the simulator a library uses the current context, or else the first active
 * one.
 */

static CUresult library_context(struct sim_cuda_ctx **ret)
{
	CUresult r;

	*ret = ctx_current(&r);
	if (*ret)
		return r;
	for (struct sim_cuda_ctx *c = sim_cuda.contexts; c; c = c->next)
		if (c->active) {
			*ret = c;
			return CUDA_SUCCESS;
		}
	return r;
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *ret, const void *code, unsigned int *jit,
	void **jit_values, unsigned int jit_n, unsigned int *options, void **values,
	unsigned int n)
{
	struct sim_cuda_ctx *c;
	struct module *m;
	CUresult r = sim_cuda_enter();

	(void)jit;
	(void)jit_values;
	(void)jit_n;
	(void)options;
	(void)values;
	(void)n;
	if (r)
		return r;
	if (!ret || !code)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = library_context(&c);
	if (r == CUDA_SUCCESS)
		r = load_cuda_module(c, code, true, &m);
	if (r == CUDA_SUCCESS)
		*ret = (CUlibrary)m;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *ret, const char *path, unsigned int *jit,
	void **jit_values, unsigned int jit_n, unsigned int *options, void **values,
	unsigned int n)
{
	char *text;
	CUresult r;

	if (!ret || !path)
		return CUDA_ERROR_INVALID_VALUE;
	text = read_image_file(path);
	r = text ? cuLibraryLoadData(ret, text, jit, jit_values, jit_n, options, values, n)
		 : CUDA_ERROR_FILE_NOT_FOUND;
	free(text);
	return r;
}

EXPORT CUresult cuLibraryUnload(CUlibrary h)
{
	struct module *m = NULL;
	CUresult r = enter_module(h, true, &m);

	if (r)
		return r;
	module_drop(m);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *ret, CUlibrary h, const char *name)
{
	return find_function(h, name, ret);
}

EXPORT CUresult cuLibraryGetKernelCount(unsigned int *ret, CUlibrary h)
{
	return count_module_functions(h, ret);
}

EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *ret, unsigned int n, CUlibrary h)
{
	return list_module_functions(h, (void **)ret, n);
}

EXPORT CUresult cuLibraryGetModule(CUmodule *ret, CUlibrary h)
{
	struct module *m = NULL;
	CUresult r = enter_module(h, ret != NULL, &m);

	if (r)
		return r;
	*ret = (CUmodule)m;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *ret, size_t *bytes, CUlibrary h,
	const char *name)
{
	return find_variable(h, name, ret, bytes);
}

/* Functions. A kernel of a library is the function of its only module. */

static CUresult enter_function(const void *h, bool args_ok, struct function **ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!args_ok)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (!obj_is(h, OBJ_FUNCTION))
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	memcpy(ret, &h, sizeof(h));
	return CUDA_SUCCESS;
}

static CUresult get_attribute(int *ret, unsigned attribute, const void *h)
{
	struct function *f = NULL;
	CUresult r = enter_function(h, ret && attribute < FUNC_ATTRIBUTES, &f);

	if (r)
		return r;
	*ret = f->attributes[attribute];
	return sim_cuda_leave(CUDA_SUCCESS);
}

static CUresult set_attribute(unsigned attribute, int v, const void *h)
{
	struct function *f = NULL;
	CUresult r = enter_function(h, attribute >= 8 && attribute < FUNC_ATTRIBUTES, &f);

	if (r)
		return r;
	if (attribute == 8 && (v < 0 || v > device_attribute(f->module->ctx->device, 97)))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	f->attributes[attribute] = v;
	return sim_cuda_leave(CUDA_SUCCESS);
}

static CUresult param_info(const void *h, size_t i, size_t *offset, size_t *size)
{
	struct function *f = NULL;
	CUresult r = enter_function(h, offset != NULL, &f);

	if (r)
		return r;
	if (i >= f->param_count)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*offset = f->offsets[i];
	if (size)
		*size = f->sizes[i];
	return sim_cuda_leave(CUDA_SUCCESS);
}

static CUresult get_function_name(const void *h, const char **ret)
{
	struct function *f = NULL;
	CUresult r = enter_function(h, ret != NULL, &f);

	if (r)
		return r;
	*ret = f->name;
	return sim_cuda_leave(CUDA_SUCCESS);
}

static CUresult module_of(const void *h, void *ret)
{
	struct function *f = NULL;
	CUresult r = enter_function(h, ret != NULL, &f);

	if (r)
		return r;
	memcpy(ret, &f->module, sizeof(f->module));
	return sim_cuda_leave(CUDA_SUCCESS);
}

static CUresult check_function_handle(const void *h)
{
	struct function *f;
	CUresult r = enter_function(h, true, &f);

	return r ? r : sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuFuncGetAttribute(int *ret, unsigned int attribute, CUfunction h)
{
	return get_attribute(ret, attribute, h);
}

EXPORT CUresult cuKernelGetAttribute(int *ret, unsigned int attribute, CUkernel h, CUdevice dev)
{
	(void)dev;
	return get_attribute(ret, attribute, h);
}

EXPORT CUresult cuFuncSetAttribute(CUfunction h, unsigned int attribute, int v)
{
	return set_attribute(attribute, v, h);
}

EXPORT CUresult cuKernelSetAttribute(unsigned int attribute, int v, CUkernel h, CUdevice dev)
{
	(void)dev;
	return set_attribute(attribute, v, h);
}

EXPORT CUresult cuFuncGetParamInfo(CUfunction h, size_t i, size_t *offset, size_t *size)
{
	return param_info(h, i, offset, size);
}

EXPORT CUresult cuKernelGetParamInfo(CUkernel h, size_t i, size_t *offset, size_t *size)
{
	return param_info(h, i, offset, size);
}

EXPORT CUresult cuFuncGetName(const char **ret, CUfunction h)
{
	return get_function_name(h, ret);
}

EXPORT CUresult cuKernelGetName(const char **ret, CUkernel h)
{
	return get_function_name(h, ret);
}

EXPORT CUresult cuFuncGetModule(CUmodule *ret, CUfunction h)
{
	return module_of(h, ret);
}

EXPORT CUresult cuKernelGetLibrary(CUlibrary *ret, CUkernel h)
{
	return module_of(h, ret);
}

EXPORT CUresult cuKernelGetFunction(CUfunction *ret, CUkernel h)
{
	CUresult r = ret ? check_function_handle(h) : CUDA_ERROR_INVALID_VALUE;

	if (r == CUDA_SUCCESS)
		*ret = (CUfunction)(void *)h;
	return r;
}

EXPORT CUresult cuFuncIsLoaded(unsigned int *ret, CUfunction h)
{
	CUresult r = ret ? check_function_handle(h) : CUDA_ERROR_INVALID_VALUE;

	if (r == CUDA_SUCCESS)
		*ret = 1;
	return r;
}

EXPORT CUresult cuFuncLoad(CUfunction h)
{
	return check_function_handle(h);
}

EXPORT CUresult cuFuncSetCacheConfig(CUfunction h, unsigned int config)
{
	return config <= 3 ? check_function_handle(h) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuKernelSetCacheConfig(CUkernel h, unsigned int config, CUdevice dev)
{
	(void)dev;
	return config <= 3 ? check_function_handle(h) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction h, unsigned int config)
{
	return config <= 2 ? check_function_handle(h) : CUDA_ERROR_INVALID_VALUE;
}

/* Occupancy, by threads and blocks alone. */

#define BLOCK_SHARED 1024 /* shared memory that each block takes by itself */

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *ret, CUfunction h,
	int block, size_t shared, unsigned int flags)
{
	struct function *f = NULL;
	CUresult r = enter_function(h, ret && block > 0 && block <= 1024 && flags <= 1, &f);
	int by_threads, by_shared, max;
	const struct sim_cuda_device *d;
	size_t per_sm;

	if (r)
		return r;
	d = f->module->ctx->device;
	per_sm = (size_t)device_attribute(d, 81);
	by_threads = device_attribute(d, 39) / ((block + 31) / 32 * 32);
	by_shared = shared < per_sm ? (int)(per_sm / (shared + BLOCK_SHARED)) : 0;
	max = device_attribute(d, 106);
	*ret = by_threads < max ? by_threads : max;
	*ret = by_shared < *ret ? by_shared : *ret;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, CUfunction h, int block,
	size_t shared)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(ret, h, block, shared, 0);
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction h,
	CUoccupancyB2DSize dynamic, size_t shared, int limit, unsigned int flags)
{
	struct function *f = NULL;
	CUresult r = enter_function(h, grid && block && flags <= 1, &f);
	int per_sm, size = limit > 0 && limit < 1024 ? limit / 32 * 32 : 1024;

	(void)dynamic;
	(void)shared;
	if (r)
		return r;
	size = size ? size : 32;
	per_sm = device_attribute(f->module->ctx->device, 39) / size;
	*block = size;
	*grid = (per_sm ? per_sm : 1) * (int)f->module->ctx->device->keys.sm_count;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction h,
	CUoccupancyB2DSize dynamic, size_t shared, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, h, dynamic, shared, limit,
		0);
}

EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *ret, CUfunction h, int blocks,
	int block)
{
	struct function *f = NULL;
	CUresult r = enter_function(h, ret && blocks > 0 && block > 0, &f);
	int each;

	if (r)
		return r;
	each = device_attribute(f->module->ctx->device, 81) / blocks;
	*ret = each > BLOCK_SHARED ? (size_t)(each - BLOCK_SHARED) : 0;
	return sim_cuda_leave(CUDA_SUCCESS);
}
