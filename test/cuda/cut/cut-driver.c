/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A libcuda.so.1 between the slice library and the driver. It ends the process, or fails, at the nth call that
 * changes anything. So a process dies at each place where a hook is half done.
 *
 *	GPUSLICE_CUT_DRIVER  the real library
 *	GPUSLICE_CUT_AT      at which call, from 1; absent or 0: never
 *	GPUSLICE_CUT_WHEN    before, after: SIGKILL there; fail: error 2 in place of the call
 *	GPUSLICE_CUT_COUNT   a file that takes the number of calls when the process ends
 *
 * Every function has one shape: the sixteen words in which the ABI passes arguments. Only the real function reads
 * them. No function here has a floating point argument.
 */
#include "abi/cuda-functions.h"
#include "lib/base/parse.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS(X) \
	X(w0)    \
	X(w1) X(w2) X(w3) X(w4) X(w5) X(w6) X(w7) X(w8) X(w9) X(w10) X(w11) X(w12) X(w13) X(w14)
#define PARAMETER(x) uintptr_t x,
#define ARGUMENT(x)  x,

typedef CUresult any_fn(WORDS(PARAMETER) uintptr_t w15);

enum cut_when { CUT_BEFORE, CUT_AFTER, CUT_FAIL };

static struct {
	atomic_int state; /* 0 not read, 1 being read, 2 read */
	uint32_t at;
	enum cut_when when;
	atomic_uint calls;
	int count_file;
	void *driver;
} cut = { .count_file = -1 };

/* No constructor: this library does nothing that the slice library may not do. */
static void prepare_cut(void)
{
	int none = 0;
	const char *text;

	if (atomic_load(&cut.state) == 2)
		return;
	if (!atomic_compare_exchange_strong(&cut.state, &none, 1)) {
		while (atomic_load(&cut.state) != 2)
			(void)usleep(100);
		return;
	}
	text = getenv("GPUSLICE_CUT_AT");
	if (!text || !parse_u32(text, &cut.at))
		cut.at = 0;
	text = getenv("GPUSLICE_CUT_WHEN");
	cut.when = text && strcmp(text, "after") == 0  ? CUT_AFTER
		   : text && strcmp(text, "fail") == 0 ? CUT_FAIL
						       : CUT_BEFORE;
	text = getenv("GPUSLICE_CUT_COUNT");
	if (text)
		cut.count_file = open(text, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	text = getenv("GPUSLICE_CUT_DRIVER");
	cut.driver = dlopen(text ? text : "", RTLD_NOW | RTLD_LOCAL);
	if (!cut.driver) {
		(void)fprintf(stderr, "cut-driver: %s\n", dlerror());
		_exit(99);
	}
	atomic_store(&cut.state, 2);
}

/* The number of this call. Its file is always up to date, as the process may end at any call. */
static unsigned int count_cut_call(void)
{
	unsigned int n = atomic_fetch_add(&cut.calls, 1) + 1;
	char text[16];
	int len;

	if (cut.count_file >= 0) {
		len = snprintf(text, sizeof(text), "%10u\n", n);
		(void)!pwrite(cut.count_file, text, (size_t)len, 0);
	}
	return n;
}

static CUresult pass_call(any_fn *real, WORDS(PARAMETER) uintptr_t w15)
{
	unsigned int n;
	CUresult r;

	if (!real)
		return CUDA_ERROR_NOT_SUPPORTED;
	n = count_cut_call();
	if (n == cut.at && cut.when == CUT_BEFORE)
		(void)kill(getpid(), SIGKILL);
	if (n == cut.at && cut.when == CUT_FAIL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = real(WORDS(ARGUMENT) w15);
	if (n == cut.at && cut.when == CUT_AFTER)
		(void)kill(getpid(), SIGKILL);
	return r;
}

/* Functions that only read are passed on, and not counted. */
static int only_reads(const char *name)
{
	return strstr(name, "Get") || strstr(name, "Query") || strstr(name, "IsCapturing") ||
	       strcmp(name, "cuInit") == 0 || strcmp(name, "cuDeviceTotalMem_v2") == 0;
}

#define FUNCTION(name, parameters)                                                           \
	CUresult name(WORDS(PARAMETER) uintptr_t w15);                                       \
	__attribute__((visibility("default"))) CUresult name(WORDS(PARAMETER) uintptr_t w15) \
	{                                                                                    \
		static _Atomic(any_fn *) real;                                               \
		any_fn *fn = real;                                                           \
                                                                                             \
		if (!fn) {                                                                   \
			prepare_cut();                                                       \
			*(void **)&fn = dlsym(cut.driver, #name);                            \
			real = fn;                                                           \
		}                                                                            \
		if (fn && only_reads(#name))                                                 \
			return fn(WORDS(ARGUMENT) w15);                                      \
		return pass_call(fn, WORDS(ARGUMENT) w15);                                   \
	}

CUDA_FUNCTIONS(FUNCTION)
