/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/hooks.h"

#include <string.h>

struct mig_hooks *mig_hooks_free(struct mig_hooks *h)
{
	for (size_t i = 0; h && i < h->n; i++) {
		struct mig_hook_list *l = &h->lists[i];

		for (size_t k = 0; k < l->n; k++) {
			free(l->hooks[k].command);
			free(l->hooks[k].workdir);
			strv_fini(&l->hooks[k].args);
			strv_fini(&l->hooks[k].envs);
		}
		free(l->hooks);
		free(l->name);
	}
	if (h)
		free(h->lists);
	free(h);
	return NULL;
}

const struct mig_hook_list *mig_hooks_find(const struct mig_hooks *h, const char *name)
{
	for (size_t i = 0; i < h->n; i++) {
		if (!strcmp(h->lists[i].name, name))
			return &h->lists[i];
	}
	return NULL;
}
