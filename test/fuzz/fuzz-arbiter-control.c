/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "node/arbiter/control/request.h"

/* A line on the control socket: refused with a reason, or lists that are sorted and whole. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct control_request r;

	if (request_read(&r, (const char *)data, size, &err) < 0) {
		if (!err.msg[0])
			__builtin_trap();
		return 0;
	}
	for (size_t k = 0; k < r.reading.n; k++) {
		const struct reading_gpu *g = &r.reading.gpus[k];

		for (size_t i = 0; i < g->n; i++) {
			if (reading_find(g, g->processes[i].pid) != &g->processes[i])
				__builtin_trap();
		}
	}
	request_fini(&r);
	return 0;
}
