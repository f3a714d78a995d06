/* SPDX-License-Identifier: Apache-2.0 */
#include "container/cuda/green.h"

#include "container/charges/alloc-table.h"

/* The green context's handle as a CUcontext: the handle that cuCtxGetCurrent() returns. */
static CUcontext get_green_context(CUgreenCtx green)
{
	CUcontext context = NULL;

	return REAL(cuCtxFromGreenCtx)(&context, green) ? NULL : context;
}

void green_made(CUgreenCtx green, CUcontext primary)
{
	struct alloc_row row = { .count = 1, .other = (uintptr_t)primary };
	CUcontext context = get_green_context(green);

	if (context && primary)
		(void)alloc_table_put(ALLOC_GREEN, (uintptr_t)context, &row);
}

void green_leaves(CUgreenCtx green)
{
	CUcontext context = get_green_context(green);
	struct alloc_row row;

	if (context)
		(void)alloc_table_remove(ALLOC_GREEN, (uintptr_t)context, &row);
}

CUcontext green_primary(CUcontext context)
{
	struct alloc_row row;

	if (!context || !alloc_table_get(ALLOC_GREEN, (uintptr_t)context, &row))
		return context;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it came as one */
	return (CUcontext)(uintptr_t)row.other;
}
