/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libnvidia-ml.so.1, opened at run time.
 *
 * Every function of NVML_FUNCTIONS can be called through the table. A function that the library lacks, in its
 * newest and in its older version, is a stub of this module that returns NOT_SUPPORTED. So no caller checks for a
 * symbol, and an old driver never prevents a start.
 *
 * The functions also have numbers. With them the worker reports to the agent which call it makes
 * (io/nvml/proto.h). The numbers are valid within one build only.
 *
 * The agent does not use this module itself but through a worker process (io/nvml/monitor/monitor.h), for two
 * reasons. From its init on, NVML keeps device files open, even those of GPUs that no caller asks about (measured
 * with driver 580). A process cannot replace a loaded library by the library of an upgraded driver.
 *
 * Thread: nvml_open() and nvml_close() one thread; the table any, as far as NVML is thread-safe.
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
	char path[PATH_MAX]; /* argument of dlopen() */
	bool has[NVML_CALL_COUNT_];
#define X(name, params) nvmlReturn_t(*name) params;
	NVML_FUNCTIONS(X)
#undef X
	const char *(*nvmlErrorString)(nvmlReturn_t);
};

/*
 * Finds the library: @explicit_path if given; else below @driver_root, in the order of NVIDIA's plugin; else the
 * plain SONAME, which the dynamic linker searches. Each may be NULL or ""; "/" as @driver_root counts as none.
 */
int nvml_find(char ret[PATH_MAX], const char *explicit_path, const char *driver_root,
	struct error *err) MUST_USE;

/*
 * Opens @path and fills the table; does not initialize NVML. ERR_NOT_FOUND: the file does not exist (no driver on
 * this node, or its libraries are not mounted). ERR_UNSUPPORTED: the file is not a usable library.
 */
int nvml_open(struct nvml *n, const char *path, struct error *err) MUST_USE;
/* Closes the library; the table must not be used afterwards. Does not shut NVML down. Twice is fine. */
void nvml_close(struct nvml *n);

/*
 * Calls nvmlInit_v2(). For the usual causes the error text says what the operator can do. < 0: NVML's code,
 * negated.
 */
int nvml_init(const struct nvml *n, struct error *err) MUST_USE;

/* The meaning of @code: the library's text; before a library is open (NULL), the text of this module. Static. */
const char *nvml_strerror(const struct nvml *n, nvmlReturn_t code);

/* "nvmlDeviceGetUUID"; "?" for a number that is not an enum nvml_call. Static. */
const char *nvml_call_name(unsigned call);

/* Fills @err for a call that returned @code: "nvmlDeviceGetCount_v2: Unknown Error (999)". */
int nvml_error(struct error *err, const struct nvml *n, enum nvml_call call, nvmlReturn_t code);
