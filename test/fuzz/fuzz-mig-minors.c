/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "io/nvml/probe/mig-minors.h"

/* The kernel driver's list of capability nodes, for devices at the ends of what ids can be. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gpu_mig mig[] = { { .gi = 0, .ci = 0 }, { .gi = 7, .ci = 0 },
		{ .gi = 7, .ci = 1 }, { .gi = UINT32_MAX, .ci = UINT32_MAX } };
	int r = mig_minors_fill((const char *)data, size, 0, mig, ARRAY_LEN(mig), NULL);

	for (size_t i = 0; i < ARRAY_LEN(mig); i++) {
		if (mig[i].gi_minor > MIG_MINOR_MAX || mig[i].ci_minor > MIG_MINOR_MAX ||
			(mig[i].has_minors && r < 0))
			__builtin_trap();
	}
	return 0;
}
