/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "io/nvml/monitor/probe-round.h"

#include <stdio.h>
#include <string.h>

/* Three GPUs. The round has read all links. */
static void make_round(struct probe_round *round)
{
	struct error err = ERROR_INIT;

	memset(round, 0, sizeof(*round));
	assert_ok(inventory_new(&round->last, 3, &err), &err);
	for (uint32_t a = 0; a < 3; a++) {
		(void)snprintf(round->last->gpus[a].uuid, sizeof(round->last->gpus[a].uuid),
			"GPU-%u", a);
		for (uint32_t b = 0; b < 3; b++)
			round->last->links[a * 3 + b] =
				(struct gpu_link){ .level = GPU_LEVEL_SAME_CPU, .p2p = 1 };
	}
}

static void probe_round_start__has_links_read_until_all_are_known(void **state)
{
	static const struct {
		bool p2p;
		struct gpu_link link; /* between GPUs 0 and 2 */
		uint32_t known;
	} rows[] = {
		{ false, { .level = GPU_LEVEL_SAME_CPU, .p2p = 1 }, 3 },
		{ true, { .level = GPU_LEVEL_SAME_CPU, .p2p = 1 }, 3 },
		{ false, { .level = GPU_LEVEL_SAME_CPU }, 3 }, /* not wanted */
		{ true, { .level = GPU_LEVEL_SAME_CPU }, 1 },
		{ false, { .level = GPU_LEVEL_UNKNOWN }, 1 },
	};
	struct worker_probe probe;
	struct probe_round round;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		make_round(&round);
		round.p2p = rows[i].p2p;
		round.last->links[2] = round.last->links[6] = rows[i].link;
		probe_round_start(&round, 0, &probe);
		if (probe.n_known != rows[i].known)
			fail_msg("row %zu: the links of %u GPUs are known, expected %u", i,
				probe.n_known, rows[i].known);
		probe_round_fini(&round);
	}
}

/* The round reads the GPU's links when it is back. */
static void probe_round_start__does_not_wait_for_a_gpu_without_a_uuid(void **state)
{
	struct worker_probe probe;
	struct probe_round round;

	(void)state;
	make_round(&round);
	round.last->gpus[2].uuid[0] = '\0';
	for (uint32_t a = 0; a < 3; a++)
		round.last->links[a * 3 + 2].level = round.last->links[6 + a].level =
			GPU_LEVEL_UNKNOWN;
	probe_round_start(&round, 0, &probe);
	assert_int_equal(probe.n_known, 2);
	probe_round_fini(&round);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probe_round_start__has_links_read_until_all_are_known),
		cmocka_unit_test(probe_round_start__does_not_wait_for_a_gpu_without_a_uuid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
