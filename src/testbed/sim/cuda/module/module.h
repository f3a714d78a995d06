/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Modules, their kernels and their variables. The lock of lib.h guards all of them. Thread: any that holds it. The
 * calls of the driver API are in module.c and launch.c.
 */
#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/module/ptx.h"
#include "testbed/sim/cuda/stream/stream.h"

/* Kernels whose names say what they do. All others take a while and do nothing. */
enum kernel {
	KERNEL_OTHER,
	KERNEL_SPIN,
	KERNEL_FILL32,
	KERNEL_ADD32,
	KERNEL_STEP32,
	KERNEL_BURN,
	KERNEL_STREAM,
	KERNEL_NOP,
	KERNEL_BAD,
	KERNEL_TRAP
};

#define FUNC_ATTRIBUTES 16

struct function {
	struct sim_cuda_object obj;
	struct module *module;
	struct function *next; /* of the module */
	char name[PTX_NAME_MAX];
	enum kernel kernel;
	size_t param_count, offsets[PTX_PARAMS_MAX], sizes[PTX_PARAMS_MAX], bytes;
	int attributes[FUNC_ATTRIBUTES];
	/* What the first launch interface sets before the launch. */
	unsigned block[3], shared;
	unsigned char legacy_args[4096];
};

struct variable {
	struct variable *next;
	char name[PTX_NAME_MAX];
	struct address_range *range;
};

struct module {
	struct sim_cuda_object obj;
	struct module *next; /* of all modules */
	struct sim_cuda_ctx *ctx;
	bool is_library;
	struct function *functions, **functions_end;
	struct variable *variables;
};
