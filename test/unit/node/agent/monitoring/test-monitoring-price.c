/* SPDX-License-Identifier: Apache-2.0 */

/* What the node costs: options, the price file, the region, and what stays when the file becomes invalid. */
#include "unit/node/agent/monitoring/monitoring-env.h"

#include <unistd.h>

#define HOUR_NS (UINT64_C(3600) * NS_PER_SEC)

/* A file of one type in two regions; @price is that of us-east-1. */
static void write_prices(struct monitoring_env *e, const char *price)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		"version: gpuslice/prices/v1\n"
		"stamp: 2026-11-01\n"
		"currency: EUR\n"
		"types:\n"
		"  gpu.big:\n"
		"    pricePerHour: {us-east-1: %s, eu-west-1: 9.5}\n",
		price);
	test_write(e->f->dir, "prices.yaml", text, strlen(text), 0644);
}

static char *prices_path(const struct monitoring_env *e, char ret[PATH_MAX])
{
	(void)snprintf(ret, PATH_MAX, "%s/prices.yaml", e->f->dir);
	return ret;
}

/* The price that a new agent finds. */
static const struct monitoring_price *update_test_price(struct monitoring_env *e)
{
	env_stop(e);
	monitoring_init(&e->mon, &e->context);
	monitoring_price_update(&e->mon);
	return &e->mon.price;
}

static void price__of_the_option_has_precedence(void **state)
{
	static const struct {
		const char *currency, *want;
	} rows[] = { { NULL, "USD" }, { "", "USD" }, { "EUR", "EUR" },
		{ "TOOLONGFORIT", "TOOLONG" } };
	struct monitoring_env *e = *state;
	char path[PATH_MAX];

	write_prices(e, "4.25");
	e->context.options.price_file = prices_path(e, path);
	e->context.options.instance_type = "gpu.big";
	e->context.options.region = "us-east-1";
	e->context.options.price_given = true;
	e->context.options.price_nano = 7 * PRICE_NANO;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct monitoring_price *p;

		e->context.options.currency = rows[i].currency;
		p = update_test_price(e);
		assert_int_equal(p->nano_per_hour, 7 * PRICE_NANO);
		assert_string_equal(p->currency, rows[i].want);
		assert_string_equal(p->source, "option");
		assert_null(p->catalogue);
		monitoring_retry(&e->mon);
		assert_null(e->mon.price.catalogue);
	}
}

static void price__is_found_by_type_and_region(void **state)
{
	static const struct {
		const char *type, *region;
		int64_t milli; /* 0: not known */
		const char *source;
	} rows[] = {
		{ "gpu.big", "us-east-1", 4250, "catalogue 2026-11-01" },
		{ "gpu.big", "eu-west-1", 9500, "catalogue 2026-11-01" },
		/* The region is unknown and stays so: the usual region. */
		{ "gpu.big", NULL, 4250, "catalogue 2026-11-01, us-east-1 (region unknown)" },
		{ "gpu.big", "mars-1", 0, "" },
		{ "gpu.none", "us-east-1", 0, "" },
		{ NULL, "us-east-1", 0, "" },
		{ "", "", 0, "" },
	};
	struct monitoring_env *e = *state;
	char path[PATH_MAX];

	write_prices(e, "4.25");
	e->context.options.price_file = prices_path(e, path);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct monitoring_price *p;

		e->context.options.instance_type = rows[i].type;
		e->context.options.region = rows[i].region;
		p = update_test_price(e);
		if (p->nano_per_hour != rows[i].milli * (PRICE_NANO / 1000) ||
			strcmp(p->source, rows[i].source) != 0)
			fail_msg("row %zu: %lld of '%s'", i, (long long)p->nano_per_hour,
				p->source);
		assert_string_equal(p->currency, rows[i].milli ? "EUR" : "");
	}
}

/* The Node's labels will have the region. The price of another region would have to be corrected. */
static void price__waits_for_the_region_of_the_node(void **state)
{
	struct monitoring_env *e = *state;
	char path[PATH_MAX];
	const struct monitoring_price *p;

	write_prices(e, "4.25");
	e->context.options.price_file = prices_path(e, path);
	e->context.options.instance_type = "gpu.big";
	e->link.possible = true;
	p = update_test_price(e);
	assert_true(p->region_awaited);
	assert_int_equal(p->nano_per_hour, 0);
	assert_string_equal(p->source, "");
	e->link.possible = false; /* there is no API server after all */
	monitoring_price_update(&e->mon);
	assert_false(p->region_awaited);
	assert_int_equal(p->nano_per_hour, 4250 * (PRICE_NANO / 1000));
	assert_non_null(strstr(p->source, "region unknown"));
}

static void price__of_a_configured_region_does_not_wait(void **state)
{
	struct monitoring_env *e = *state;
	char path[PATH_MAX];

	write_prices(e, "4.25");
	e->context.options.price_file = prices_path(e, path);
	e->context.options.instance_type = "gpu.big";
	e->context.options.region = "eu-west-1";
	e->link.possible = true;
	assert_int_equal(update_test_price(e)->nano_per_hour, 9500 * (PRICE_NANO / 1000));
	assert_false(e->mon.price.region_awaited);
}

static void retry__loads_a_new_or_changed_file(void **state)
{
	struct monitoring_env *e = *state;
	const struct monitoring_price *p;
	char path[PATH_MAX];

	e->context.options.price_file = prices_path(e, path);
	e->context.options.instance_type = "gpu.big";
	e->context.options.region = "us-east-1";
	p = update_test_price(e);
	assert_null(p->catalogue);
	assert_int_equal(p->nano_per_hour, 0);
	assert_non_null(strstr(p->error.msg, "prices.yaml"));
	monitoring_retry(&e->mon);
	assert_null(p->catalogue);
	write_prices(e, "4.25");
	monitoring_price_update(&e->mon); /* a round does not read it again */
	assert_int_equal(p->nano_per_hour, 0);
	monitoring_retry(&e->mon);
	assert_int_equal(p->error.code, ERR_NONE);
	assert_int_equal(p->nano_per_hour, 4250 * (PRICE_NANO / 1000));
	write_prices(e, "5.125");
	monitoring_retry(&e->mon);
	assert_int_equal(p->nano_per_hour, 5125 * (PRICE_NANO / 1000));
}

/* The file existed all the time; the agent had no memory or no descriptor for it. */
static void retry__loads_an_unchanged_file_that_could_not_be_read(void **state)
{
	struct monitoring_env *e = *state;
	char path[PATH_MAX];

	e->context.options.price_file = prices_path(e, path);
	e->context.options.instance_type = "gpu.big";
	e->context.options.region = "us-east-1";
	assert_null(update_test_price(e)->catalogue);
	write_prices(e, "4.25");
	e->mon.price.stamp = file_stamp_of(path);
	monitoring_retry(&e->mon);
	assert_int_equal(e->mon.price.nano_per_hour, 4250 * (PRICE_NANO / 1000));
}

static void retry__does_not_read_an_unchanged_file(void **state)
{
	struct monitoring_env *e = *state;
	const struct price_catalogue *before;
	char path[PATH_MAX];

	write_prices(e, "4.25");
	e->context.options.price_file = prices_path(e, path);
	e->context.options.instance_type = "gpu.big";
	e->context.options.region = "us-east-1";
	before = update_test_price(e)->catalogue;
	monitoring_retry(&e->mon);
	assert_ptr_equal(e->mon.price.catalogue, before);
}

static void retry__keeps_the_last_valid_prices(void **state)
{
	static const struct {
		const char *text; /* NULL: the file was removed */
		const char *why;
	} rows[] = {
		{ "version: gpuslice/prices/v1\ntypes: {gpu.big: {pricePerHour: {us-east-1: free}}}\n",
			"prices.yaml:2:" },
		{ "\t{", "prices.yaml" },
		{ "", "prices.yaml" },
		{ NULL, "prices.yaml" },
	};
	struct monitoring_env *e = *state;
	const struct monitoring_price *p;
	char path[PATH_MAX];

	write_prices(e, "4.25");
	e->context.options.price_file = prices_path(e, path);
	e->context.options.instance_type = "gpu.big";
	e->context.options.region = "us-east-1";
	p = update_test_price(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].text)
			test_write(e->f->dir, "prices.yaml", rows[i].text, strlen(rows[i].text),
				0644);
		else
			assert_int_equal(unlink(path), 0);
		monitoring_retry(&e->mon);
		if (!strstr(p->error.msg, rows[i].why) || !strstr(p->error.msg, LAST_VALID))
			fail_msg("row %zu: '%s'", i, p->error.msg);
		assert_int_equal(p->nano_per_hour, 4250 * (PRICE_NANO / 1000));
		assert_string_equal(p->currency, "EUR");
	}
	assert_string_equal(p->logged_error, p->error.msg);
	write_prices(e, "6");
	monitoring_retry(&e->mon);
	assert_int_equal(p->error.code, ERR_NONE);
	assert_int_equal(p->nano_per_hour, 6 * PRICE_NANO);
	assert_string_equal(p->logged_error, ""); /* the same error would be logged again */
}

/* --- in the view --- */

static void cost__follows_time_and_adds_up(void **state)
{
	struct monitoring_env *e = *state;

	agent_fixture_know(e->f, fixture_inventory(2), NULL);
	e->context.options.price_given = true;
	e->context.options.price_nano = 3 * PRICE_NANO + 1;
	env_allocate_device(e, "train", "nvidia.com/gpu", "GPU-0");
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	(void)env_round(e, HOUR_NS);
	assert_true(e->view->priced);
	assert_int_equal(e->view->cost_nano, 3 * PRICE_NANO + 1);
	assert_int_equal(e->view->other_cost_nano, 0);
	assert_int_equal(env_find_usage(e, "train")->cost_nano, 3 * PRICE_NANO / 2 + 1);
	assert_int_equal(env_find_device(e, "GPU-1")->idle_cost_nano, 3 * PRICE_NANO / 2);
	assert_int_equal(e->view->gpus[0].cost_nano_per_hour, 3 * PRICE_NANO / 2 + 1);
	assert_int_equal(e->view->gpus[1].cost_nano_per_hour, 3 * PRICE_NANO / 2);
}

/* While the allocations are unknown, no pod pays for the time. */
static void cost__of_unknown_pods_is_the_other_cost_of_the_node(void **state)
{
	struct monitoring_env *e = *state;

	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	e->context.options.price_given = true;
	e->context.options.price_nano = 2 * PRICE_NANO;
	e->list.how = ENV_FAILS;
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	(void)env_round(e, HOUR_NS);
	assert_int_equal(e->view->cost_nano, 2 * PRICE_NANO);
	assert_int_equal(e->view->other_cost_nano, 2 * PRICE_NANO);
	assert_int_equal(env_find_device(e, "GPU-0")->cost_nano, 0);
}

static void cost__is_not_shown_before_the_gpus_are_known(void **state)
{
	struct monitoring_env *e = *state;

	e->context.options.price_given = true;
	e->context.options.price_nano = 2 * PRICE_NANO;
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	assert_false(e->view->priced);
	assert_false(e->view->nvml_up);
	assert_int_equal(e->view->n_gpus, 0);
	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	(void)env_round(e, NS_PER_SEC);
	assert_true(e->view->priced);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENV_TEST(price__of_the_option_has_precedence),
		ENV_TEST(price__is_found_by_type_and_region),
		ENV_TEST(price__waits_for_the_region_of_the_node),
		ENV_TEST(price__of_a_configured_region_does_not_wait),
		ENV_TEST(retry__loads_a_new_or_changed_file),
		ENV_TEST(retry__loads_an_unchanged_file_that_could_not_be_read),
		ENV_TEST(retry__does_not_read_an_unchanged_file),
		ENV_TEST(retry__keeps_the_last_valid_prices),
		ENV_TEST(cost__follows_time_and_adds_up),
		ENV_TEST(cost__of_unknown_pods_is_the_other_cost_of_the_node),
		ENV_TEST(cost__is_not_shown_before_the_gpus_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
