/* SPDX-License-Identifier: Apache-2.0 */

/* The condition on our Node: which condition replaces which, without an API server. */
#include "support/test.h"

#include "node/agent/cluster/condition.h"

#include <stdio.h>
#include <string.h>

#define TYPE "AcceleratedHardwareReady"
#define OURS "gpuslice: "

static const struct node_repair none = { .state = REPAIR_NONE };
static const struct node_repair unknown = { .state = REPAIR_UNKNOWN };
static const struct node_repair needed = { .state = REPAIR_NEEDED,
	.reason = "GPULost",
	.message = "GPU 1 (GPU-1): GPU is lost" };
static const struct node_repair latin = { .state = REPAIR_NEEDED,
	.reason = "GPULost",
	.message = "GPU 1: r\xe9" };

static json_t *make_condition(const char *status, const char *reason, const char *message)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "type", TYPE, "status", status, "reason",
		reason, "message", message, "lastTransitionTime", "2026-01-01T00:00:00Z");
}

static void condition_decide__keeps_the_condition_of_others_while_it_can(void **state)
{
	static const struct {
		const char *status, *reason, *message; /* NULL: the Node has none */
		const struct node_repair *desired;
		enum condition_change change;
	} rows[] = {
		{ NULL, NULL, NULL, &none, CONDITION_WRITE },
		{ NULL, NULL, NULL, &needed, CONDITION_WRITE },
		{ NULL, NULL, NULL, &unknown, CONDITION_SAME },
		/* ours */
		{ "True", "GPUsReady", OURS "no GPU needs a repair", &none,
			CONDITION_HEARTBEAT },
		{ "False", "GPULost", OURS "GPU 1 (GPU-1): GPU is lost", &needed,
			CONDITION_HEARTBEAT },
		{ "False", "GPULost", OURS "GPU 2 (GPU-2): GPU is lost", &needed,
			CONDITION_WRITE },
		{ "False", "GPUGone", OURS "GPU 1 (GPU-1): GPU is lost", &needed,
			CONDITION_WRITE },
		{ "True", "GPUsReady", OURS "no GPU needs a repair", &needed, CONDITION_WRITE },
		{ "False", "GPULost", OURS "GPU 1 (GPU-1): GPU is lost", &none,
			CONDITION_WRITE },
		{ "False", "GPULost", OURS "GPU 1 (GPU-1): GPU is lost", &unknown,
			CONDITION_SAME },
		{ "Unknown", "GPULost", OURS "x", &none, CONDITION_WRITE },
		/* another agent's */
		{ "True", "NvidiaAcceleratedHardwareIsReady", "all is well", &none,
			CONDITION_SAME },
		{ "True", "NvidiaAcceleratedHardwareIsReady", "all is well", &needed,
			CONDITION_WRITE },
		{ "False", "NvidiaXID79Error", "XID 79", &none, CONDITION_SAME },
		{ "False", "NvidiaXID79Error", "XID 79", &needed, CONDITION_SAME },
		{ "Unknown", "x", "not gpuslice: ", &none, CONDITION_SAME },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *have = rows[i].status ? make_condition(rows[i].status, rows[i].reason,
							rows[i].message)
					      : NULL;

		if (condition_decide(have, rows[i].desired) != rows[i].change)
			fail_msg("row %zu", i);
		json_decref(have);
	}
}

static void condition_decide__accepts_any_answer_of_a_server(void **state)
{
	json_t *odd = json_pack("{s:i, s:n, s:[]}", "status", 1, "reason", "message");

	(void)state;
	assert_int_equal(condition_decide(odd, &none), CONDITION_SAME);
	assert_int_equal(condition_decide(odd, &needed), CONDITION_WRITE);
	json_decref(odd);
}

static void condition_patch__keeps_the_time_of_the_last_change(void **state)
{
	static const struct {
		const char *had; /* status */
		const struct node_repair *desired;
		const char *status, *reason, *message;
		bool kept;
	} rows[] = {
		{ NULL, &none, "True", "GPUsReady", OURS "no GPU needs a repair", false },
		{ "True", &none, "True", "GPUsReady", OURS "no GPU needs a repair", true },
		{ "True", &needed, "False", "GPULost", OURS "GPU 1 (GPU-1): GPU is lost",
			false },
		{ "False", &needed, "False", "GPULost", OURS "GPU 1 (GPU-1): GPU is lost",
			true },
		{ NULL, &latin, "False", "GPULost", OURS "GPU 1: r?", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *have = rows[i].had ? make_condition(rows[i].had, "x", OURS "x") : NULL;
		json_t *patch = condition_patch(TYPE, have, rows[i].desired,
			UINT64_C(1800000000000000000));
		const char *type, *status, *reason, *message, *beat, *since;

		assert_non_null(patch);
		assert_int_equal(
			json_unpack(patch, "{s:{s:[{s:s, s:s, s:s, s:s, s:s, s:s !} !] !} !}",
				"status", "conditions", "type", &type, "status", &status,
				"reason", &reason, "message", &message, "lastHeartbeatTime",
				&beat, "lastTransitionTime", &since),
			0);
		assert_string_equal(type, TYPE);
		assert_string_equal(status, rows[i].status);
		assert_string_equal(reason, rows[i].reason);
		assert_string_equal(message, rows[i].message);
		assert_non_null(strstr(beat, "2027-01-15T08:00:00"));
		assert_string_equal(since, rows[i].kept ? "2026-01-01T00:00:00Z" : beat);
		json_decref(patch);
		json_decref(have);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(condition_decide__keeps_the_condition_of_others_while_it_can),
		cmocka_unit_test(condition_decide__accepts_any_answer_of_a_server),
		cmocka_unit_test(condition_patch__keeps_the_time_of_the_last_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
