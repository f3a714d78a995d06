/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "tools/simulate/replay.h"

#include <stdlib.h>
#include <string.h>

/* Two tables, parted by a NUL byte: what is read can be replayed, by every policy, and nothing is given twice. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *cut = size ? memchr(data, 0, size) : NULL;
	size_t n = cut ? (size_t)(cut - data) : size, rest = cut ? size - n - 1 : 0;
	struct place_trace t = { 0 };
	struct error err = ERROR_INIT;

	if (place_trace_parse_nodes(&t, "nodes", (const char *)data, n, &err) == 0 && cut &&
		place_trace_parse_pods(&t, "pods", (const char *)cut + 1, rest, &err) == 0 &&
		t.n_nodes <= 16 && t.n_pods <= 64) {
		for (size_t i = 0; i < place_n_policies; i++) {
			struct replay_setting s = { .policy = place_policy_names[i],
				.seed = size,
				.mix = i % 2 ? REPLAY_KNOWN : REPLAY_LEARNED,
				.load = 50 };
			struct replay_result r;
			uint64_t asked = 0;

			/* A trace whose pods request a thousandth each takes long and shows nothing more. */
			for (size_t k = 0; k < t.n_pods; k++)
				asked += place_get_demand(&t.pods[k]);
			if (t.n_pods && asked / t.n_pods < 100)
				break;
			if (place_replay(&r, &t, &s, &err) == 0 &&
				!(r.allocated[0] >= 0 && r.allocated[0] <= 1))
				abort();
		}
	}
	place_trace_fini(&t);
	return 0;
}
