/* SPDX-License-Identifier: Apache-2.0 */

/* The wait for the Node's label, as stories: what happens when, the right action, and the state after the action. */
#include "support/test.h"

#include "lib/base/time.h"
#include "node/agent/config/label-wait.h"

#include <string.h>

#define STEPS_MAX 12
#define START_S   1000 /* monotonic, at the start */

enum event {
	END,
	TICK,    /* .answer */
	DECIDED, /* likewise, and a config is in force */
	NODE,    /* .uid, .value */
	KEPT,    /* likewise */
	NO_API,
};

struct step {
	unsigned at_ms; /* since the start */
	enum event event;
	enum label_answer answer;
	const char *uid, *value;
	/* The expected action and state. */
	enum label_act act;
	enum label_state state;
};

/* A tick at @ms, with this answer. */
#define AT(ms, event_, answer_, act_, state_)                                           \
	{                                                                               \
		.at_ms = (ms), .event = event_, .answer = answer_, .act = LABEL_##act_, \
		.state = LABEL_##state_                                                 \
	}
/* A Node at @ms, with this UID and label. */
#define SAYS(ms, event_, uid_, value_, act_, state_)                              \
	{                                                                         \
		.at_ms = (ms), .event = event_, .uid = (uid_), .value = (value_), \
		.act = LABEL_##act_, .state = LABEL_##state_                      \
	}

struct story {
	const char *title;
	bool unwanted, map;
	struct step steps[STEPS_MAX];
};

static enum label_act play_step(struct label_wait *w, const struct step *s)
{
	uint64_t now_ns = START_S * NS_PER_SEC + s->at_ms * NS_PER_MS;

	switch (s->event) {
	case TICK:
	case DECIDED:
		return label_wait_tick(w, s->answer, s->event == DECIDED, now_ns);
	case NODE:
		return label_wait_node(w, s->uid, s->value, now_ns);
	case KEPT:
		label_wait_restore(w, s->value, s->uid);
		return LABEL_NOTHING;
	case NO_API:
		label_wait_set_no_api(w);
		return LABEL_NOTHING;
	case END:
		break;
	}
	fail_msg("no event");
	return LABEL_NOTHING;
}

/* Whether the agent knows the label in each state; with a directory and with a ConfigMap. */
static const bool knows[2][LABEL_NEW_NODE + 1] = {
	{ [LABEL_UNWANTED] = true,
		[LABEL_GIVEN_UP] = true,
		[LABEL_NO_NODE] = true,
		[LABEL_KNOWN] = true,
		[LABEL_NEW_NODE] = true },
	{ [LABEL_NO_NODE] = true, [LABEL_KNOWN] = true, [LABEL_NEW_NODE] = true },
};

static void play_story(const struct story *t)
{
	struct label_wait w;

	assert_int_equal(label_wait_start(&w, !t->unwanted, t->map, START_S * NS_PER_SEC),
		t->unwanted ? LABEL_NOTHING : LABEL_TICK);
	for (size_t i = 0; i < STEPS_MAX && t->steps[i].event != END; i++) {
		const struct step *s = &t->steps[i];
		enum label_act act = play_step(&w, s);

		if (act != s->act || w.state != s->state)
			fail_msg("%s, step %zu: act %d in state %d, expected %d in %d",
				t->title, i, (int)act, (int)w.state, (int)s->act,
				(int)s->state);
		assert_int_equal(label_wait_known(&w), knows[t->map][w.state]);
	}
}

#define PLAY(stories)                                              \
	do {                                                       \
		for (size_t i_ = 0; i_ < ARRAY_LEN(stories); i_++) \
			play_story(&(stories)[i_]);                \
	} while (0)

/* --- the time that the API server has --- */

static void label_wait__continues_without_a_label_after_30_s_without_an_answer(void **state)
{
	static const struct story stories[] = {
		{ "a directory", .steps = { AT(500, TICK, LABEL_SILENT, NOTHING, WAITING),
					 AT(29999, TICK, LABEL_SILENT, NOTHING, WAITING),
					 AT(30000, TICK, LABEL_SILENT, DO_WITHOUT, GIVEN_UP),
					 /* Time alone changes nothing any more. */
					 AT(30500, TICK, LABEL_SILENT, NOTHING, GIVEN_UP),
					 AT(31000, DECIDED, LABEL_SILENT, STOP, GIVEN_UP) } },
		{ "a ConfigMap, which comes from the same server", .map = true,
			.steps = { AT(30000, TICK, LABEL_SILENT, CHOOSE, GIVEN_UP),
				AT(60000, TICK, LABEL_SILENT, NOTHING, GIVEN_UP) } },
		{ "a Node that is seen, and whose label comes by another way",
			.steps = { AT(29999, TICK, LABEL_SEEN, NOTHING, WAITING),
				AT(30000, TICK, LABEL_SEEN, DO_WITHOUT, GIVEN_UP) } },
	};

	(void)state;
	PLAY(stories);
}

static void label_wait__ends_with_a_verdict_that_lasts_10_s(void **state)
{
	static const struct story stories[] = {
		{ "connections are refused",
			.steps = { AT(2000, TICK, LABEL_DOWN, NOTHING, WAITING),
				AT(11999, TICK, LABEL_DOWN, NOTHING, WAITING),
				AT(12000, TICK, LABEL_DOWN, DO_WITHOUT, GIVEN_UP) } },
		{ "one verdict goes on where another ended",
			.steps = { AT(1000, TICK, LABEL_DOWN, NOTHING, WAITING),
				AT(11000, TICK, LABEL_ABSENT, DO_WITHOUT, NO_NODE) } },
		{ "silence in between begins it again",
			.steps = { AT(1000, TICK, LABEL_DOWN, NOTHING, WAITING),
				AT(10500, TICK, LABEL_SILENT, NOTHING, WAITING),
				AT(11000, TICK, LABEL_DOWN, NOTHING, WAITING),
				AT(20999, TICK, LABEL_DOWN, NOTHING, WAITING),
				AT(21000, TICK, LABEL_DOWN, DO_WITHOUT, GIVEN_UP) } },
		{ "no verdict makes the wait longer",
			.steps = { AT(25000, TICK, LABEL_DOWN, NOTHING, WAITING),
				AT(30000, TICK, LABEL_DOWN, DO_WITHOUT, GIVEN_UP) } },
	};

	(void)state;
	PLAY(stories);
}

static void label_wait__uses_a_config_map_without_label_only_where_there_is_no_node(
	void **state)
{
	static const struct story stories[] = {
		{ "there is none, then the server is down, and says it again", .map = true,
			.steps = { AT(0, TICK, LABEL_ABSENT, NOTHING, WAITING),
				AT(10000, TICK, LABEL_ABSENT, DO_WITHOUT, NO_NODE),
				AT(10500, TICK, LABEL_ABSENT, NOTHING, NO_NODE),
				AT(11000, TICK, LABEL_DOWN, CHOOSE, GIVEN_UP),
				AT(11500, TICK, LABEL_ABSENT, DO_WITHOUT, NO_NODE),
				/* Silence ends the verdict, but not that the wait is over. */
				AT(12000, TICK, LABEL_SILENT, CHOOSE, GIVEN_UP),
				AT(12500, TICK, LABEL_SILENT, NOTHING, GIVEN_UP),
				AT(13000, TICK, LABEL_ABSENT, DO_WITHOUT, NO_NODE) } },
		{ "a directory needs no second choice for that",
			.steps = { AT(0, TICK, LABEL_ABSENT, NOTHING, WAITING),
				AT(10000, TICK, LABEL_ABSENT, DO_WITHOUT, NO_NODE),
				AT(11000, TICK, LABEL_DOWN, NOTHING, GIVEN_UP) } },
	};

	(void)state;
	PLAY(stories);
}

static void label_wait__continues_for_the_config_map_when_the_label_is_known(void **state)
{
	static const struct story stories[] = {
		{ "until its time is over", .map = true,
			.steps = { SAYS(100, NODE, "u1", "a", CHOOSE, KNOWN),
				AT(29500, TICK, LABEL_SEEN, NOTHING, KNOWN),
				AT(30000, TICK, LABEL_SEEN, CHOOSE, KNOWN),
				AT(30500, TICK, LABEL_SEEN, STOP, KNOWN) } },
		{ "or a config is in force", .map = true,
			.steps = { SAYS(100, NODE, "u1", "a", CHOOSE, KNOWN),
				AT(500, DECIDED, LABEL_SEEN, STOP, KNOWN) } },
		{ "or the server is gone", .map = true,
			.steps = { SAYS(100, KEPT, "u1", "a", NOTHING, KNOWN),
				AT(500, TICK, LABEL_DOWN, NOTHING, KNOWN),
				AT(10500, TICK, LABEL_DOWN, CHOOSE, KNOWN) } },
	};

	(void)state;
	PLAY(stories);
}

/* --- without an API server --- */

static void label_wait__is_over_at_once_without_an_api_server(void **state)
{
	static const struct story stories[] = {
		{ "what an earlier run had would count for ever", .unwanted = true,
			.steps = { SAYS(0, KEPT, "u1", "a", NOTHING, UNWANTED),
				AT(0, NO_API, LABEL_SILENT, NOTHING, UNWANTED),
				AT(500, TICK, LABEL_SILENT, STOP, UNWANTED) } },
		{ "but a ConfigMap has nothing but that", .unwanted = true, .map = true,
			.steps = { SAYS(0, KEPT, "u1", "a", NOTHING, KNOWN) } },
		{ "a server that can never be used is as good as none",
			.steps = { AT(500, TICK, LABEL_SILENT, NOTHING, WAITING),
				AT(600, NO_API, LABEL_SILENT, NOTHING, GIVEN_UP),
				AT(1000, TICK, LABEL_SILENT, NOTHING, GIVEN_UP),
				AT(31000, TICK, LABEL_SILENT, NOTHING, GIVEN_UP) } },
		{ "which keeps the label of an earlier run",
			.steps = { SAYS(0, KEPT, "u1", "a", NOTHING, KNOWN),
				AT(600, NO_API, LABEL_SILENT, NOTHING, KNOWN),
				AT(1000, TICK, LABEL_SILENT, STOP, KNOWN) } },
	};

	(void)state;
	PLAY(stories);
}

/* --- the Node --- */

static void label_wait_node__chooses_again_only_by_another_label(void **state)
{
	static const struct story stories[] = {
		{ "from waiting",
			.steps = { SAYS(100, NODE, "u1", NULL, CHOOSE, KNOWN),
				SAYS(200, NODE, "u1", NULL, NOTHING, KNOWN),
				SAYS(300, NODE, "u1", "a", CHOOSE, KNOWN),
				SAYS(400, NODE, "u1", "a", NOTHING, KNOWN),
				/* The same Node loses its label: the operator wants that. */
				SAYS(500, NODE, "u1", NULL, CHOOSE, KNOWN) } },
		{ "after the wait was given up", .map = true,
			.steps = { AT(30000, TICK, LABEL_SILENT, CHOOSE, GIVEN_UP),
				SAYS(40000, NODE, "u1", NULL, CHOOSE, KNOWN) } },
		{ "the Node confirms what an earlier run had",
			.steps = { SAYS(0, KEPT, "u1", "a", NOTHING, KNOWN),
				SAYS(100, NODE, "u1", "a", NOTHING, KNOWN) } },
		{ "what is kept never replaces what is known",
			.steps = { SAYS(100, NODE, "u1", "a", CHOOSE, KNOWN),
				SAYS(200, KEPT, "u0", "b", NOTHING, KNOWN),
				SAYS(300, NODE, "u1", "a", NOTHING, KNOWN) } },
	};

	(void)state;
	PLAY(stories);
}

static void label_wait_node__waits_30_s_for_the_label_of_a_new_node(void **state)
{
	static const struct story stories[] = {
		{ "it gets another one",
			.steps = { SAYS(100, NODE, "u1", "a", CHOOSE, KNOWN),
				SAYS(5000, NODE, "u2", NULL, TICK, NEW_NODE),
				/* Other labels of it change. */
				SAYS(6000, NODE, "u2", NULL, NOTHING, NEW_NODE),
				SAYS(7000, NODE, "u2", "b", CHOOSE, KNOWN) } },
		{ "it gets the same, which is no news",
			.steps = { SAYS(0, KEPT, "u1", "a", NOTHING, KNOWN),
				SAYS(5000, NODE, "u2", NULL, TICK, NEW_NODE),
				SAYS(7000, NODE, "u2", "a", NOTHING, KNOWN) } },
		{ "it gets none",
			.steps = { SAYS(100, NODE, "u1", "a", CHOOSE, KNOWN),
				SAYS(5000, NODE, "u2", NULL, TICK, NEW_NODE),
				/* A config is in force: that is no reason to end this wait. */
				AT(34999, DECIDED, LABEL_SEEN, NOTHING, NEW_NODE),
				AT(35000, DECIDED, LABEL_SEEN, CHOOSE, KNOWN),
				AT(35500, DECIDED, LABEL_SEEN, STOP, KNOWN) } },
		{ "one after the other is new",
			.steps = { SAYS(100, NODE, "u1", "a", CHOOSE, KNOWN),
				SAYS(5000, NODE, "u2", NULL, TICK, NEW_NODE),
				SAYS(20000, NODE, "u3", NULL, TICK, NEW_NODE),
				AT(49999, TICK, LABEL_SEEN, NOTHING, NEW_NODE),
				AT(50000, TICK, LABEL_SEEN, CHOOSE, KNOWN) } },
		{ "the Node before had no label either",
			.steps = { SAYS(100, NODE, "u1", NULL, CHOOSE, KNOWN),
				SAYS(5000, NODE, "u2", NULL, NOTHING, KNOWN) } },
		{ "an earlier run did not know its Node",
			.steps = { SAYS(0, KEPT, "", "a", NOTHING, KNOWN),
				SAYS(5000, NODE, "u2", NULL, CHOOSE, KNOWN) } },
	};

	(void)state;
	PLAY(stories);
}

static void label_wait_tick__counts_only_time_in_which_the_new_node_is_known(void **state)
{
	static const enum label_answer unseen[] = { LABEL_SILENT, LABEL_ABSENT, LABEL_DOWN };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(unseen); i++) {
		const struct story story = { "a new Node that goes away",
			.steps = { SAYS(100, NODE, "u1", "a", CHOOSE, KNOWN),
				SAYS(1000, NODE, "u2", NULL, TICK, NEW_NODE),
				AT(30000, TICK, LABEL_SEEN, NOTHING, NEW_NODE),
				AT(31000, TICK, unseen[i], NOTHING, NEW_NODE),
				AT(600000, TICK, unseen[i], NOTHING, NEW_NODE),
				AT(629999, TICK, LABEL_SEEN, NOTHING, NEW_NODE),
				AT(630000, TICK, LABEL_SEEN, CHOOSE, KNOWN) } };

		play_story(&story);
	}
}

static void label_wait_node__truncates_an_invalid_label_value(void **state)
{
	struct label_wait w;
	char value[2 * CONFIG_ENTRY_NAME_MAX];

	(void)state;
	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	(void)label_wait_start(&w, true, false, 0);
	assert_int_equal(label_wait_node(&w, value, value, 0), LABEL_CHOOSE);
	assert_int_equal(strlen(w.value), CONFIG_ENTRY_NAME_MAX - 1);
	assert_int_equal(strlen(w.node_uid), sizeof(w.node_uid) - 1);
}

/* --- answers of the server --- */

static void label_wait_answer__tells_a_verdict_from_a_missing_answer(void **state)
{
	static const struct {
		enum node_object_state state;
		enum error_code code; /* ERR_NONE: in touch */
		const char *why;
		enum label_answer answer;
	} rows[] = {
		{ NODE_UNKNOWN, ERR_UNAVAILABLE, "not asked yet", LABEL_SILENT },
		{ NODE_UNKNOWN, ERR_UNAVAILABLE, "connection refused", LABEL_DOWN },
		{ NODE_UNKNOWN, ERR_TIMEOUT, "no answer in 10 s", LABEL_SILENT },
		{ NODE_UNKNOWN, ERR_PERMISSION, "403", LABEL_ABSENT },
		{ NODE_UNKNOWN, ERR_NONE, "", LABEL_SILENT },
		{ NODE_ABSENT, ERR_NONE, "", LABEL_ABSENT },
		{ NODE_ABSENT, ERR_UNAVAILABLE, "connection refused", LABEL_ABSENT },
		{ NODE_PRESENT, ERR_NONE, "", LABEL_SEEN },
		{ NODE_PRESENT, ERR_UNAVAILABLE, "connection refused", LABEL_DOWN },
		{ NODE_PRESENT, ERR_PERMISSION, "403", LABEL_ABSENT },
		{ NODE_PRESENT, ERR_TIMEOUT, "no answer in 10 s", LABEL_SILENT },
	};
	struct label_wait w;
	struct error why = ERROR_INIT;

	(void)state;
	(void)label_wait_start(&w, true, false, 0);
	(void)error_set(&why, ERR_UNAVAILABLE, "not asked yet");
	label_wait_asked(&w, &why);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		error_clear(&why);
		if (rows[i].code != ERR_NONE)
			(void)error_set(&why, rows[i].code, "%s", rows[i].why);
		assert_int_equal(label_wait_answer(&w, rows[i].state, &why), rows[i].answer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			label_wait__continues_without_a_label_after_30_s_without_an_answer),
		cmocka_unit_test(label_wait__ends_with_a_verdict_that_lasts_10_s),
		cmocka_unit_test(
			label_wait__uses_a_config_map_without_label_only_where_there_is_no_node),
		cmocka_unit_test(
			label_wait__continues_for_the_config_map_when_the_label_is_known),
		cmocka_unit_test(label_wait__is_over_at_once_without_an_api_server),
		cmocka_unit_test(label_wait_node__chooses_again_only_by_another_label),
		cmocka_unit_test(label_wait_node__waits_30_s_for_the_label_of_a_new_node),
		cmocka_unit_test(
			label_wait_tick__counts_only_time_in_which_the_new_node_is_known),
		cmocka_unit_test(label_wait_node__truncates_an_invalid_label_value),
		cmocka_unit_test(label_wait_answer__tells_a_verdict_from_a_missing_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
