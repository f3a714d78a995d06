/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/load/cuda.h"

#include "lib/base/buf.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct cuda_table cu;

static void print_load_error(const char *text)
{
	json_t *o = json_pack("{s:s}", "error", text);
	char *line = o ? json_dumps(o, JSON_COMPACT) : NULL;

	(void)printf("%s\n", line ? line : "{\"error\":\"out of memory\"}");
	(void)fflush(stdout);
}

void load_exit_with_error(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	print_load_error(text);
	_exit(1);
}

void cuda_check_result(CUresult r, const char *what)
{
	const char *name = NULL;

	if (r == CUDA_SUCCESS)
		return;
	if (!cu.cuGetErrorName || cu.cuGetErrorName(r, &name) != CUDA_SUCCESS)
		name = NULL;
	load_exit_with_error("%s: %s (%u)", what, name ? name : "CUDA error", r);
}

void cuda_open(void)
{
	void *lib = dlopen(CUDA_SONAME, RTLD_NOW);

	if (!lib) {
		print_load_error(dlerror());
		_exit(LOAD_EXIT_NO_DRIVER);
	}
#define X(name, params) *(void **)&cu.name = dlsym(lib, #name);
	CUDA_FUNCTIONS(X)
#undef X
	if (!cu.cuInit)
		load_exit_with_error("%s has no cuInit", CUDA_SONAME);
	cuda_check_result(cu.cuInit(0), "cuInit");
}
