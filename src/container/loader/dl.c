/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader's functions, found without importing them, and this library's dlopen and dlmopen in front of them.
 *
 * If a program opens the driver's library, by its name or by any path, dlopen returns this library, which is
 * already loaded under that name. All other names go to the next dlopen after this library, with the caller's
 * return address. Other preloaded libraries may have a dlopen; the second interception library looks for its own
 * names there.
 *
 * glibc has these functions in libdl.so.2 up to 2.33, in libc.so.6 from 2.34 on. A program on an old glibc may
 * not have loaded libdl.so.2. Then this library loads it by the function that name service switches use there
 * (__libc_dlopen_mode).
 */
#include "container/loader/parse/file.h"
#include "container/loader/internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

#define LIBC_DLOPEN 0x80000000 /* __RTLD_DLOPEN, which __libc_dlopen_mode also needs */

struct dl_symbol_lookup {
	const char *symbol;
	const char *const *sonames; /* the objects to search; NULL: any after this library */
	bool passed_us;
	void *ret;
};

static const char *const libc_only[] = { "libc.so.6", NULL };
static const char *const libc_or_libdl[] = { "libc.so.6", "libdl.so.2", NULL };

static int find_next_in_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct dl_symbol_lookup *f = arg;
	struct loader_image im;

	(void)size;
	if (image_is_self(info)) {
		f->passed_us = true;
		return 0;
	}
	if ((!f->sonames && !f->passed_us) || !image_of_phdr(info, &im))
		return 0;
	if (f->sonames) {
		const char *const *s = f->sonames;

		while (*s && (!im.soname || strcmp(*s, im.soname) != 0))
			s++;
		if (!*s)
			return 0;
	}
	f->ret = image_address(&im, f->symbol);
	return f->ret != NULL;
}

static void *find_next_symbol(const char *symbol, const char *const *sonames)
{
	struct dl_symbol_lookup f = { .symbol = symbol, .sonames = sonames };

	dl_iterate_phdr(find_next_in_object, &f);
	return f.ret;
}

/* The address in *known; finds it at the first call. */
static void *true_function(_Atomic(void *) *known, const char *symbol)
{
	void *fn = atomic_load_explicit(known, memory_order_relaxed);

	if (fn)
		return fn;
	fn = find_next_symbol(symbol, libc_or_libdl);
	if (!fn) {
		void *(*load)(const char *, int) =
			find_next_symbol("__libc_dlopen_mode", libc_only);

		if (load && load("libdl.so.2", (int)(RTLD_LAZY | LIBC_DLOPEN)))
			fn = find_next_symbol(symbol, libc_or_libdl);
	}
	atomic_store_explicit(known, fn, memory_order_relaxed);
	return fn;
}

static _Atomic(void *) true_dlopen, true_dlinfo, next_dlopen, next_dlmopen;

void *dl_open(const char *path, int mode)
{
	void *(*fn)(const char *, int) = true_function(&true_dlopen, "dlopen");

	return fn ? fn(path, mode) : NULL;
}

/* The name of this library in the loader's list: absolute if it was preloaded by a path. */
static int find_self(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	if (!image_is_self(info))
		return 0;
	*(const char **)arg = info->dlpi_name;
	return 1;
}

static const char *own_path(void)
{
	const char *ret = NULL;

	dl_iterate_phdr(find_self, &ret);
	return ret;
}

/* How many of the last directories are the system's own. The loader's list does not mark them, but ends with one
 * of these sequences. */
static size_t count_defaults(const Dl_serinfo *list)
{
#if defined(__x86_64__)
#	define TRIPLET "x86_64-linux-gnu"
#else
#	define TRIPLET "aarch64-linux-gnu"
#endif
	static const char tails[][4][32] = {
		{ "/usr/lib", "/lib", "/usr/lib/" TRIPLET, "/lib/" TRIPLET },
		{ "/usr/lib64", "/lib64" },
		{ "/usr/lib", "/lib" },
		{ "/usr/lib64" },
		{ "/usr/lib" },
	};

	for (size_t t = 0; t < sizeof(tails) / sizeof(tails[0]); t++) {
		size_t n = 0;

		while (n < 4 && tails[t][n][0] && n < list->dls_cnt &&
			strcmp(list->dls_serpath[list->dls_cnt - 1 - n].dls_name,
				tails[t][n]) == 0)
			n++;
		if (n == 4 || !tails[t][n][0])
			return n;
	}
	return 0;
}

/* From the environment, if the loader cannot answer. */
static bool each_of_environment(bool (*use)(const char *dir, void *arg), void *arg)
{
	const char *at = secure_getenv("LD_LIBRARY_PATH");
	char dir[4096];

	while (at && *at) {
		size_t n = strcspn(at, ":;");

		if (n > 0 && n < sizeof(dir)) {
			memcpy(dir, at, n);
			dir[n] = '\0';
			if (use(dir, arg))
				return true;
		}
		at += n + (at[n] != '\0');
	}
	return false;
}

static bool each_of_list(const Dl_serinfo *list, bool defaults,
	bool (*use)(const char *dir, void *arg), void *arg)
{
	size_t own = list->dls_cnt - count_defaults(list);
	size_t from = defaults ? own : 0, to = defaults ? list->dls_cnt : own;

	for (size_t i = from; i < to; i++)
		if (use(list->dls_serpath[i].dls_name, arg))
			return true;
	return false;
}

bool dl_directories(bool defaults, bool (*use)(const char *dir, void *arg), void *arg)
{
	static const char *const fallback[] = { "/lib/" TRIPLET, "/usr/lib/" TRIPLET, "/lib64",
		"/usr/lib64", "/lib", "/usr/lib" };
	int (*info)(void *, int, void *) = true_function(&true_dlinfo, "dlinfo");
	const char *self = own_path();
	void *handle = info && self ? dl_open(self, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	/* On the stack, so nothing to free. Enough for any sane LD_LIBRARY_PATH. */
	union {
		Dl_serinfo list;
		char room[16384];
	} u;

	if (handle && info(handle, RTLD_DI_SERINFOSIZE, &u.list) == 0 &&
		u.list.dls_size <= sizeof(u) && info(handle, RTLD_DI_SERINFO, &u.list) == 0)
		return each_of_list(&u.list, defaults, use, arg);
	if (!defaults)
		return each_of_environment(use, arg);
	for (size_t i = 0; i < sizeof(fallback) / sizeof(fallback[0]); i++)
		if (use(fallback[i], arg))
			return true;
	return false;
}

/* Stands in for a function that the loader lacks. No program can have meant to call it. */
static void *fail_missing_loader_call(void)
{
	errno = ENOSYS;
	return NULL;
}

static void *behind_us(_Atomic(void *) *known, const char *symbol)
{
	void *fn = atomic_load_explicit(known, memory_order_relaxed);

	if (!fn) {
		fn = find_next_symbol(symbol, NULL);
		if (!fn)
			fn = true_function(known, symbol);
		atomic_store_explicit(known, fn, memory_order_relaxed);
	}
	return fn ? fn : (void *)fail_missing_loader_call;
}

/* A name that does not exist. The loader then fails as it would without this library, and its message ends the
 * same. A path that does not exist fails by itself. */
static uintptr_t get_absent_path(const char *file)
{
	return (uintptr_t)(strchr(file, '/') ? file : forward_absent_name);
}

static uintptr_t ours_if(const char *file, bool there)
{
	return there ? (uintptr_t)forward_soname : get_absent_path(file);
}

/* The file that the loader opens instead of @file. A path that is no library stays as it is. */
static uintptr_t load_and_name(const char *file)
{
	bool path = strchr(file, '/') != NULL;

	if (path && !find_is_library(file))
		return (uintptr_t)file;
	return ours_if(file, forward_load_from(path ? file : NULL));
}

/* The entry of dlopen (dlmopen) calls this with its arguments, which the function may change. Returns the
 * address to jump to. */
void *forward_dlopen(uintptr_t args[3]);
void *forward_dlmopen(uintptr_t args[3]);

void *forward_dlopen(uintptr_t args[3])
{
	const char *file = (const char *)args[0];
	int saved = errno;
	void *next = behind_us(&next_dlopen, "dlopen");

	/* RTLD_NOLOAD asks whether the driver is loaded. It is, once this library has loaded it. */
	if (file && file_has_name(file, forward_soname))
		args[0] = args[1] & RTLD_NOLOAD ? ours_if(file, forward_loaded())
						: load_and_name(file);
	errno = saved;
	return next;
}

static bool accept_any_path(const char *path, void *arg)
{
	(void)path;
	(void)arg;
	return true;
}

/* In another namespace, a second copy of this library is in front of a second driver. */
void *forward_dlmopen(uintptr_t args[3])
{
	const char *file = (const char *)args[1];
	int saved = errno;
	void *next = behind_us(&next_dlmopen, "dlmopen");

	if (file && file_has_name(file, forward_soname) && (Lmid_t)args[0] == LM_ID_BASE) {
		args[1] = load_and_name(file);
	} else if (file && file_has_name(file, forward_soname)) {
		const char *self = own_path();

		if (!find_real(NULL, accept_any_path, NULL))
			args[1] = get_absent_path(file);
		else if (self && self[0] == '/')
			args[1] = (uintptr_t)self;
	}
	errno = saved;
	return next;
}
