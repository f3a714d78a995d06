/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/slices/file.h"
#include "node/agent/slices/checkpoint.h"

#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* The slices that a process's mounts, or the kubelet's checkpoint, name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(strv_fini) struct strv ids = STRV_INIT;

	if (slice_ids_in(&ids, (const char *)data, size, NULL) < 0)
		return 0;
	for (size_t i = 0; i < ids.n; i++)
		if (!slice_id_ok(ids.v[i]) || !memmem(data, size, ids.v[i], strlen(ids.v[i])))
			abort();
	return 0;
}
