/* SPDX-License-Identifier: Apache-2.0 */
#include "model/pods/pods.h"

#include <stdlib.h>

struct pod_devices *pod_devices_free(struct pod_devices *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].namespace_);
		free(p->v[i].pod);
		free(p->v[i].container);
		free(p->v[i].resource);
		free(p->v[i].id);
	}
	free(p->v);
	free(p);
	return NULL;
}
