/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/agent/config/config-env.h"

#include "lib/base/fd.h"

#include <string.h>

static void on_changed(void *arg, bool moved)
{
	struct config_env *e = arg;

	e->changes++;
	e->moves += moved;
}

static const struct agent_config_ops ops = { .changed = on_changed };

static void make_path_below(const struct config_env *e, char path[PATH_MAX], const char *name)
{
	struct error err = ERROR_INIT;

	assert_ok(path_join(path, PATH_MAX, e->f->dir, name, &err), &err);
}

int config_env_setup(void **state)
{
	struct config_env *e = calloc(1, sizeof(*e));
	void *f = NULL;

	assert_non_null(e);
	assert_int_equal(agent_fixture_setup(&f), 0);
	e->f = f;
	e->f->facts.config = config_free(e->f->facts.config); /* it is made by the start */
	e->loop = &e->f->loop;
	make_path_below(e, e->state_dir, "state");
	make_path_below(e, e->kept, "state/config/last.json");
	make_path_below(e, e->file, "config.yaml");
	make_path_below(e, e->dir, "configs");
	e->options.fallbacks = &e->fallbacks;
	*state = e;
	return 0;
}

int config_env_teardown(void **state)
{
	struct config_env *e = *state;
	void *f = e->f;

	config_env_stop(e);
	strv_fini(&e->fallbacks);
	free(e);
	return agent_fixture_teardown(&f);
}

int config_env_try(struct config_env *e, struct error *err)
{
	const struct agent_config_context context = {
		.loop = e->loop,
		.facts = &e->f->facts,
		.link = &e->link,
		.reporter = &e->f->reporter,
		.state_dir = e->state_dir,
		.options = e->options,
		.ops = &ops,
		.arg = e,
	};

	config_env_stop(e);
	e->changes = e->moves = 0;
	e->f->n_events = 0;
	agent_config_init(&e->config, &context);
	e->running = true;
	return agent_config_start(&e->config, err);
}

void config_env_start(struct config_env *e)
{
	struct error err = ERROR_INIT;

	assert_ok(config_env_try(e, &err), &err);
}

static void forget_gpus(struct config_env *e)
{
	node_fini(&e->f->facts.node);
	node_init(&e->f->facts.node);
}

void config_env_stop(struct config_env *e)
{
	if (!e->running)
		return;
	agent_config_stop(&e->config);
	(void)uv_run(e->loop, UV_RUN_NOWAIT); /* closes all of it; others may be on that loop */
	agent_config_fini(&e->config);
	e->f->facts.decided = false;
	forget_gpus(e);
	e->running = false;
}

void config_env_probe(struct config_env *e, uint32_t n_gpus)
{
	CLEANUP(inventory_freep) struct inventory *inv = fixture_inventory(n_gpus);
	struct facts *facts = &e->f->facts;
	struct error err = ERROR_INIT;

	forget_gpus(e);
	assert_true(node_observe(&facts->node, &facts->config->health, inv, NULL,
			    time_mono_ns(), &err) >= 0);
	agent_config_gpus_changed(&e->config);
}

void config_env_file(struct config_env *e, const char *text)
{
	test_write(e->f->dir, "config.yaml", text, strlen(text), 0644);
}

void config_env_entry(struct config_env *e, const char *name, const char *text)
{
	test_write(e->dir, name, text, strlen(text), 0644);
}

uint32_t config_env_replicas(const struct config_env *e)
{
	const struct sharing *s = &e->f->facts.config->sharing;

	return s->n_entries ? s->entries[0].replicas : 0;
}

void assert_undecided(const struct config_env *e)
{
	assert_false(e->f->facts.decided);
	assert_int_equal(e->changes, 0);
	assert_int_equal(e->f->facts.config_generation, 0);
}

void assert_good(const struct config_env *e, uint32_t replicas)
{
	assert_true(e->f->facts.decided);
	assert_string_equal(e->config.last_error.msg, "");
	assert_int_equal(config_env_replicas(e), replicas);
}

void assert_refused(const struct config_env *e, uint32_t replicas, const char *why)
{
	assert_true(e->f->facts.decided);
	if (e->config.last_error.code == ERR_NONE || !strstr(e->config.last_error.msg, why))
		fail_msg("refused with '%s', expected '%s'", e->config.last_error.msg, why);
	assert_int_equal(config_env_replicas(e), replicas);
}

void assert_chosen(const struct config_env *e, enum config_choice_by by, const char *entry)
{
	assert_true(e->config.chosen);
	assert_string_equal(e->config.entry, entry);
	assert_int_equal(e->config.by, by);
}
