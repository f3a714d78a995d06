/* SPDX-License-Identifier: Apache-2.0 */
#include "container/cuda/green.h"

#include "container/charges/rows.h"

/* Its handle as a context, which is what is current. */
static CUcontext context_of(CUgreenCtx green)
{
	CUcontext context = NULL;

	return REAL(cuCtxFromGreenCtx)(&context, green) ? NULL : context;
}

void green_made(CUgreenCtx green, CUcontext primary)
{
	struct row row = { .count = 1, .other = (uintptr_t)primary };
	CUcontext context = context_of(green);

	if (context && primary)
		(void)row_put(ROW_GREEN, (uintptr_t)context, &row);
}

void green_leaves(CUgreenCtx green)
{
	CUcontext context = context_of(green);
	struct row row;

	if (context)
		(void)row_take(ROW_GREEN, (uintptr_t)context, &row);
}

CUcontext green_primary(CUcontext context)
{
	struct row row;

	if (!context || !row_get(ROW_GREEN, (uintptr_t)context, &row))
		return context;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it came as one */
	return (CUcontext)(uintptr_t)row.other;
}
