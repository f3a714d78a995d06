/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libnvidia-ml.so.1, opened at run time.
 *
 * Every function of NVML_FUNCTIONS can be called through the table: what the library lacks, in its
 * newest and in its older generations, is a stub of ours that answers NOT_SUPPORTED. So no caller
 * asks whether a symbol is there, and an old driver never stops a start.
 *
 * The functions have numbers as well, by which one process can tell another where it is
 * (io/nvml/proto.h). The numbers are only valid within one build.
 *
 * NVML keeps device files open from its init on, even of GPUs that nobody asks about (measured
 * with driver 580), and a library that was loaded cannot be replaced by that of an upgraded driver.
 * That is why the agent does not use this itself but has a process for it: io/nvml/monitor/monitor.h.
 * Thread: nvml_open() and nvml_close() one thread; the table any, as far as NVML is.
 */
#include "lib/base/error.h"
#include "abi/nvml-api.h"

#include <limits.h>
#include <stdbool.h>

enum nvml_call {
#define X(name, params) NVML_CALL_##name,
	NVML_FUNCTIONS(X)
#undef X
		NVML_CALL_COUNT_,
};

struct nvml {
	void *lib;
	char path[PATH_MAX]; /* what was given to dlopen() */
	bool has[NVML_CALL_COUNT_];
#define X(name, params) nvmlReturn_t(*name) params;
	NVML_FUNCTIONS(X)
#undef X
	const char *(*nvmlErrorString)(nvmlReturn_t);
};

/*
 * Where the library is: @explicit_path if there is one; else below @driver_root, in the order of
 * NVIDIA's plugin; else the plain SONAME, for the dynamic linker to find. Each may be NULL or "".
 */
int nvml_find(char ret[PATH_MAX], const char *explicit_path, const char *driver_root,
	struct error *err) MUST_USE;

/*
 * Opens @path and fills the table. Does not initialise NVML. ERR_NOT_FOUND: there is no such file
 * (no driver here, or not mounted); ERR_UNSUPPORTED: it is not a library that we can use.
 */
int nvml_open(struct nvml *n, const char *path, struct error *err) MUST_USE;
void nvml_close(struct nvml *n);

/* Calls nvmlInit_v2(); the text says what a person can do about the usual causes. < 0: NVML's code, negated. */
int nvml_init(const struct nvml *n, struct error *err) MUST_USE;

/* What @code means, as the library says it or, before one is open (NULL), as we do. Static. */
const char *nvml_strerror(const struct nvml *n, nvmlReturn_t code);

/* "nvmlDeviceGetUUID"; "?" for what is not an enum nvml_call. Static. */
const char *nvml_call_name(unsigned call);

/* Fills @err for a call that said @code: "nvmlInit_v2: Driver Not Loaded (9): <what to do>". */
int nvml_error(struct error *err, const struct nvml *n, enum nvml_call call, nvmlReturn_t code);
