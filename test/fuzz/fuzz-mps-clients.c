/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/clients.h"

#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* The answer of gpuslice-mps about a client. It may be about another client than requested. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mps_client v[] = {
		{ .pid = 1, .identity = MPS_IDENTITY_REQUESTED, .connected = true },
		{ .pid = 4711, .identity = MPS_IDENTITY_REQUESTED, .connected = true },
		{ .pid = 77, .identity = MPS_IDENTITY_NEEDED, .connected = true },
	};
	struct mps_clients c = { .v = v, .n = 3 };
	struct error err = ERROR_INIT;
	unsigned int known = 0;
	int r = mps_clients_answer(&c, (const char *)data, size, &err);

	for (unsigned int i = 0; i < c.n; i++) {
		known += v[i].identity == MPS_IDENTITY_KNOWN;
		if (!memchr(v[i].devices, '\0', sizeof(v[i].devices)) ||
			!memchr(v[i].pod_uid, '\0', sizeof(v[i].pod_uid)))
			abort();
	}
	/* The answer makes at most one client known, and only one that was asked about. */
	if (known > (r == 0 ? 1U : 0U) || v[2].identity != MPS_IDENTITY_NEEDED ||
		(r < 0) != (err.code != ERR_NONE))
		abort();
	return 0;
}
