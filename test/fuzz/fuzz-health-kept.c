/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/health/saved.h"

#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define NOW UINT64_C(1000000000000)

/* The file of the state directory. Whatever it has, the health that goes on from it ends by itself. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct health_policy p;
	struct error err = ERROR_INIT;
	struct node n;
	int r;

	node_init(&n);
	health_policy_default(&p);
	r = saved_health_parse(&n, (const char *)data, size, "b", NOW, &err);
	if ((r < 0) != (err.code != ERR_NONE) || (r < 0 && (n.persisted || n.n_missing)) ||
		n.n_persisted > SAVED_HEALTH_MAX || n.n_missing > GPU_NODE_MAX)
		abort();
	for (uint32_t i = 0; i < n.n_persisted; i++) {
		struct health h;

		health_init(&h, NOW);
		health_restore(&h, &p, &n.persisted[i].health, NOW);
		if (!health_ok(&h) && h.retry_at_ns > NOW + p.max_cooldown_ns)
			abort();
	}
	node_fini(&n);
	return 0;
}
