/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "node/arbiter/slices/file.h"
#include "model/sched/sched.h"

#include <string.h>

/* slice.json: refused with a reason, or everything in range. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct slice_def d;

	if (slice_def_read(&d, "slice.json", "0123456789abcdef0123456789abcdef",
		    (const char *)data, size, &err) < 0) {
		if (!err.msg[0])
			__builtin_trap();
		return 0;
	}
	if (d.mps && !d.has_compute)
		__builtin_trap();
	if (d.n_gpus < 1 || d.n_gpus > SLICE_GPUS_MAX || !slice_id_valid(d.id))
		__builtin_trap();
	for (unsigned int i = 0; i < d.n_gpus; i++) {
		if (!d.gpus[i].limit || strlen(d.gpus[i].text) != SLICE_UUID_TEXT - 1 ||
			d.gpus[i].weight < 1 || d.gpus[i].weight > SLICE_WEIGHT_MAX ||
			d.gpus[i].cap > SLICE_CAP_ALL)
			__builtin_trap();
	}
	slice_def_fini(&d);
	return 0;
}
