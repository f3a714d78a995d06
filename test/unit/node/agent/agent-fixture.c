/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/agent/agent-fixture.h"

#include <stdlib.h>
#include <string.h>

static void on_event(void *arg, const struct event_about *about, enum event_type type,
	const char *reason, const char *message)
{
	struct agent_fixture *f = arg;
	struct fixture_event *e;

	assert_true(f->n_events < FIXTURE_EVENTS);
	e = &f->events[f->n_events++];
	*e = (struct fixture_event){ .type = type };
	if (about)
		e->about = *about;
	(void)snprintf(e->reason, sizeof(e->reason), "%s", reason);
	(void)snprintf(e->message, sizeof(e->message), "%s", message);
}

static void on_component(void *arg, enum component c, const struct error *why)
{
	struct agent_fixture *f = arg;

	error_clear(&f->components[c]);
	if (why)
		f->components[c] = *why;
}

static void on_wake(void *arg)
{
	struct agent_fixture *f = arg;

	f->wakes++;
	f->facts.rounds++; /* as the reconcile does */
}

int agent_fixture_setup(void **state)
{
	struct agent_fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->dir = test_tmpdir();
	assert_int_equal(uv_loop_init(&f->loop), 0);
	patience_init(&f->patience, &f->loop);
	f->reporter =
		(struct reporter){ .event = on_event, .component = on_component, .arg = f };
	wake_init(&f->wake, &f->loop, on_wake, f);
	node_init(&f->facts.node);
	f->facts.config = fixture_config();
	*state = f;
	return 0;
}

int agent_fixture_teardown(void **state)
{
	struct agent_fixture *f = *state;

	patience_close(&f->patience);
	wake_close(&f->wake);
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	f->facts.offered.offer = offer_free(f->facts.offered.offer);
	f->facts.offered.inv = inventory_free(f->facts.offered.inv);
	f->facts.config = config_free(f->facts.config);
	node_fini(&f->facts.node);
	test_rmdir(f->dir);
	free(f);
	return 0;
}

void agent_fixture_know(struct agent_fixture *f, struct inventory *inv, struct config *c)
{
	struct facts *facts = &f->facts;
	struct error err = ERROR_INIT;

	if (c) {
		facts->config = config_free(facts->config);
		facts->config = c;
	}
	facts->decided = true;
	facts->nvml_answered = true;
	error_clear(&facts->nvml_down);
	assert_true(node_observe(&facts->node, &facts->config->health, inv, NULL,
			    time_mono_ns(), &err) >= 0);
	facts->offered.offer = offer_free(facts->offered.offer);
	facts->offered.inv = inventory_free(facts->offered.inv);
	facts->offered.inv = inv;
	facts->offered.offer = fixture_offer(inv, facts->config);
}

unsigned agent_fixture_count(const struct agent_fixture *f, const char *reason)
{
	unsigned n = 0;

	for (size_t i = 0; i < f->n_events; i++)
		n += !*reason || !strcmp(f->events[i].reason, reason);
	return n;
}

const struct fixture_event *agent_fixture_last(const struct agent_fixture *f,
	const char *reason)
{
	for (size_t i = f->n_events; i-- > 0;)
		if (!strcmp(f->events[i].reason, reason))
			return &f->events[i];
	fail_msg("there was no Event %s", reason);
	return NULL;
}

void agent_fixture_run_once(struct agent_fixture *f)
{
	while (uv_run(&f->loop, UV_RUN_NOWAIT) && uv_is_active((uv_handle_t *)&f->wake.idle))
		;
}
