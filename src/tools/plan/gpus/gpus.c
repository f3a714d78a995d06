/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/gpus/gpus.h"

#include <string.h>

/* Whether the label @text is @product, or the label of a shared or partitioned @product. */
static bool is_product(const char *text, const char *product)
{
	size_t len = strlen(product);

	return !strncmp(text, product, len) && (!text[len] || !strcmp(text + len, "-SHARED") ||
						       !strncmp(text + len, "-MIG-", 5));
}

const struct plan_gpu *plan_gpu_find(const char *name)
{
	for (size_t i = 0; i < plan_n_gpus; i++)
		if (!strcmp(plan_gpus[i].name, name) || is_product(name, plan_gpus[i].product))
			return &plan_gpus[i];
	return NULL;
}
