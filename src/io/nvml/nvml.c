/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/nvml.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/paths.h"

/*
 * Replaces a missing symbol. Each function has a stub of its own type: a call through a pointer of another type is
 * undefined, and the sanitizers report it.
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define X(name, params)                           \
	static nvmlReturn_t missing_##name params \
	{                                         \
		return NVML_ERROR_NOT_SUPPORTED;  \
	}
NVML_FUNCTIONS(X)
#undef X
#pragma GCC diagnostic pop

static const char *const call_names[NVML_CALL_COUNT_] = {
#define X(name, params) [NVML_CALL_##name] = #name,
	NVML_FUNCTIONS(X)
#undef X
};

static const struct {
	const char *name, *older;
} fallbacks[] = {
#define X(name, older) { #name, #older },
	NVML_FALLBACKS(X)
#undef X
};

/* The GPUs cannot be listed without these functions. */
static const enum nvml_call needed[] = {
	NVML_CALL_nvmlInit_v2,
	NVML_CALL_nvmlDeviceGetCount_v2,
	NVML_CALL_nvmlDeviceGetHandleByIndex_v2,
	NVML_CALL_nvmlDeviceGetName,
	NVML_CALL_nvmlDeviceGetUUID,
};

const char *nvml_call_name(unsigned call)
{
	return call < NVML_CALL_COUNT_ ? call_names[call] : "?";
}

static const char *own_text(nvmlReturn_t code)
{
	static const struct {
		nvmlReturn_t code;
		const char *text;
	} texts[] = {
#define X(name, number, text) { name, text },
		NVML_RESULTS(X)
#undef X
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (texts[i].code == code)
			return texts[i].text;
	}
	return "Unknown Error";
}

static const char *own_error_string(nvmlReturn_t code)
{
	return own_text(code);
}

const char *nvml_strerror(const struct nvml *n, nvmlReturn_t code)
{
	const char *text = n && n->lib ? n->nvmlErrorString(code) : NULL;

	return text && text[0] ? text : own_text(code);
}

/*
 * Searches in the order of NVIDIA's device plugin, and returns the resolved name as the plugin does. Symbolic
 * links are followed as a process in that root would follow them: an absolute link in a driver container does not
 * lead out of that root.
 */
static bool find_nvml_in_root(char ret[PATH_MAX], const char *root)
{
	static const char *const paths[] = {
		"/usr/lib64/" NVML_SONAME,
		"/usr/lib/x86_64-linux-gnu/" NVML_SONAME,
		"/usr/lib/aarch64-linux-gnu/" NVML_SONAME,
		"/lib64/" NVML_SONAME,
		"/lib/x86_64-linux-gnu/" NVML_SONAME,
		"/lib/aarch64-linux-gnu/" NVML_SONAME,
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		char real[PATH_MAX];

		if (root_resolve(real, sizeof real, root, paths[i], NULL, NULL) == 0 &&
			root_join(ret, PATH_MAX, root, real, NULL) == 0)
			return true;
	}
	return false;
}

int nvml_find(char ret[PATH_MAX], const char *explicit_path, const char *driver_root,
	struct error *err)
{
	const char *path = NVML_SONAME;

	if (explicit_path && explicit_path[0])
		path = explicit_path;
	else if (driver_root && driver_root[0] && strcmp(driver_root, "/") != 0 &&
		 find_nvml_in_root(ret, driver_root))
		return 0;
	if (strlen(path) >= PATH_MAX)
		return error_set(err, ERR_LIMIT, "the path of the NVML library is too long");
	memcpy(ret, path, strlen(path) + 1);
	return 0;
}

/* dlopen() returns no codes, so this function checks the usual causes itself and gives a plain sentence. */
static int open_error(const char *path, struct error *err)
{
	const char *why = dlerror();

	if (!strchr(path, '/')) {
		if (why && strstr(why, "No such file"))
			return error_set(err, ERR_NOT_FOUND,
				"no %s in the library search path: there is no NVIDIA driver here, or its libraries are not mounted (--nvml says where they are, or the option for the root of the driver)",
				path);
		return error_set(err, ERR_UNSUPPORTED, "open %s: %s", path, why ? why : "?");
	}
	if (access(path, F_OK) < 0)
		return error_sys(err, errno, "open NVML library '%s'", path);
	if (access(path, R_OK) < 0)
		return error_sys(err, errno, "read NVML library '%s'", path);
	return error_set(err, ERR_UNSUPPORTED, "'%s' is not a library for this machine: %s",
		path, why ? why : "?");
}

static void *find_nvml_symbol(struct nvml *n, enum nvml_call call)
{
	const char *name = call_names[call];
	void *sym = dlsym(n->lib, name);

	for (size_t i = 0; i < ARRAY_LEN(fallbacks) && !sym; i++) {
		if (strcmp(fallbacks[i].name, name) == 0)
			sym = dlsym(n->lib, fallbacks[i].older);
	}
	n->has[call] = sym != NULL;
	return sym;
}

/* ISO C cannot convert an object pointer to a function pointer; POSIX guarantees that the conversion works. */
#define SET_SYMBOL(field, value)                                    \
	do {                                                        \
		void *set_symbol_ = (value);                        \
		static_assert(sizeof(field) == sizeof set_symbol_,  \
			"pointers are of one size");                \
		memcpy(&(field), &set_symbol_, sizeof set_symbol_); \
	} while (0)

int nvml_open(struct nvml *n, const char *path, struct error *err)
{
	*n = (struct nvml){ .lib = NULL };
	if (strlen(path) >= sizeof n->path)
		return error_set(err, ERR_LIMIT, "the path of the NVML library is too long");
	memcpy(n->path, path, strlen(path) + 1);
	n->lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!n->lib)
		return open_error(path, err);
#define X(name, params)                                             \
	do {                                                        \
		void *sym_ = find_nvml_symbol(n, NVML_CALL_##name); \
		if (sym_)                                           \
			SET_SYMBOL(n->name, sym_);                  \
		else                                                \
			n->name = missing_##name;                   \
	} while (0);
	NVML_FUNCTIONS(X)
#undef X
	void *text = dlsym(n->lib, "nvmlErrorString");
	if (text)
		SET_SYMBOL(n->nvmlErrorString, text);
	else
		n->nvmlErrorString = own_error_string;

	for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
		if (n->has[needed[i]])
			continue;
		(void)error_set(err, ERR_UNSUPPORTED,
			"'%s' has no %s: it is not an NVML library", path,
			call_names[needed[i]]);
		nvml_close(n);
		return -1;
	}
	return 0;
}

void nvml_close(struct nvml *n)
{
	if (n->lib)
		(void)dlclose(n->lib);
	n->lib = NULL;
}

static enum error_code class_of(nvmlReturn_t code)
{
	static const struct {
		nvmlReturn_t code;
		enum error_code class;
	} rows[] = {
		{ NVML_ERROR_INVALID_ARGUMENT, ERR_INVALID },
		{ NVML_ERROR_NOT_SUPPORTED, ERR_UNSUPPORTED },
		{ NVML_ERROR_NO_PERMISSION, ERR_PERMISSION },
		{ NVML_ERROR_NOT_FOUND, ERR_NOT_FOUND },
		{ NVML_ERROR_TIMEOUT, ERR_TIMEOUT },
		{ NVML_ERROR_FUNCTION_NOT_FOUND, ERR_UNSUPPORTED },
		{ NVML_ERROR_MEMORY, ERR_NOMEM },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].code == code)
			return rows[i].class;
	}
	return ERR_UNAVAILABLE;
}

/* What the operator can do, where known. Appended to errors of the init only. */
static const char *find_init_advice(nvmlReturn_t code)
{
	static const struct {
		nvmlReturn_t code;
		const char *text;
	} rows[] = {
		{ NVML_ERROR_NO_PERMISSION,
			": the NVIDIA device files may not be opened; the agent must run privileged or be given /dev/nvidia*" },
		{ NVML_ERROR_DRIVER_NOT_LOADED,
			": the NVIDIA kernel module is not loaded; install the driver or load it with 'modprobe nvidia'" },
		{ NVML_ERROR_LIBRARY_NOT_FOUND,
			": a library that NVML itself needs is missing; reinstall the driver's user-space part" },
		{ NVML_ERROR_IRQ_ISSUE,
			": the GPU's interrupts do not arrive; see the kernel log (NVRM)" },
		{ NVML_ERROR_GPU_IS_LOST,
			": a GPU fell off the bus; see the kernel log (NVRM, Xid 79) and reboot" },
		{ NVML_ERROR_OPERATING_SYSTEM,
			": the operating system or the container's device rules block the GPU" },
		{ NVML_ERROR_LIB_RM_VERSION_MISMATCH,
			": the kernel module is of another driver version than this library; reload the module or reboot" },
		{ NVML_ERROR_GPU_NOT_FOUND, ": the driver sees no GPU that it supports" },
		{ NVML_ERROR_UNKNOWN, ": see the kernel log (NVRM)" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].code == code)
			return rows[i].text;
	}
	return "";
}

static int set_nvml_error(struct error *err, const struct nvml *n, enum nvml_call call,
	nvmlReturn_t code, const char *more)
{
	return error_set(err, class_of(code), "%s: %s (%d)%s", nvml_call_name(call),
		nvml_strerror(n, code), (int)code, more);
}

int nvml_error(struct error *err, const struct nvml *n, enum nvml_call call, nvmlReturn_t code)
{
	return set_nvml_error(err, n, call, code, "");
}

int nvml_init(const struct nvml *n, struct error *err)
{
	nvmlReturn_t r = n->nvmlInit_v2();

	if (r == NVML_SUCCESS)
		return 0;
	(void)set_nvml_error(err, n, NVML_CALL_nvmlInit_v2, r, find_init_advice(r));
	return -(int)r;
}
