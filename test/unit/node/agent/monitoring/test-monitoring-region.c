/* SPDX-License-Identifier: Apache-2.0 */

/* The price of the node by the labels of its Node object: instance type and region. */
#include "unit/io/kube-api/api-env.h"

#include "lib/base/fd.h"
#include "node/agent/monitoring/internal.h"

#define HEAD "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define NODE(labels)                                                                \
	HEAD "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[{\"metadata\":{" \
	     "\"name\":\"node-1\",\"resourceVersion\":\"7\",\"labels\":{" labels "}}}]}"
#define NO_NODE HEAD "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[]}"
#define TYPE    "\"node.kubernetes.io/instance-type\":\"gpu.big\""
#define REGION  "\"topology.kubernetes.io/region\":\"eu-west-1\""

static const char prices[] = "version: gpuslice/prices/v1\n"
			     "types:\n"
			     "  gpu.big:\n"
			     "    pricePerHour: {us-east-1: 4, eu-west-1: 9}\n"
			     "  gpu.huge:\n"
			     "    pricePerHour: {us-east-1: 40, eu-west-1: 90}\n";

struct scene {
	struct env *e;
	struct api_link link;
	struct monitoring mon;
	char path[PATH_MAX];
	unsigned changes;
};

static void on_changed(void *arg)
{
	((struct scene *)arg)->changes++;
}

static const struct node_object_ops node_ops = { .changed = on_changed,
	.condition_changed = on_changed };

static void scene_init(struct scene *s, struct env *e)
{
	struct error err = ERROR_INIT;

	*s = (struct scene){ .e = e, .link = { .node_name = "node-1", .possible = true } };
	test_write(e->dir, "prices.yaml", prices, sizeof(prices) - 1, 0644);
	assert_ok(path_join(s->path, sizeof(s->path), e->dir, "prices.yaml", &err), &err);
	s->mon.c.link = &s->link;
	s->mon.c.options.enabled = true;
	s->mon.c.options.price_file = s->path;
}

/* The server answers so, then watches in silence. */
static void start_node_with_answer(struct scene *s, const char *answer)
{
	struct error err = ERROR_INIT;

	api_open(s->e, "secret", NULL);
	SCRIPT(s->e, { .answer = answer, .hang_up = true }, { .silent = true });
	assert_ok(
		node_object_start(&s->link.node, s->e->api, "node-1", NULL, &node_ops, s, &err),
		&err);
	monitoring_price_update(&s->mon);
	assert_true(s->mon.price.region_awaited || s->mon.c.options.region);
	run(s->e, &s->changes, 1);
	monitoring_price_update(&s->mon);
}

static void scene_fini(struct scene *s)
{
	s->link.node = node_object_stop(s->link.node);
	s->e->api = api_free(s->e->api);
	monitoring_price_fini(&s->mon.price);
}

static void price__uses_the_region_labels_of_the_node(void **state)
{
	static const struct {
		const char *what, *answer;
		const char *type, *region; /* options; NULL: not set */
		int64_t price;             /* whole; 0: not known */
		const char *source;
	} rows[] = {
		{ "both labels", NODE(TYPE "," REGION), NULL, NULL, 9, "catalogue" },
		{ "no region: it will not come", NODE(TYPE), NULL, NULL, 4,
			"catalogue, us-east-1 (region unknown)" },
		{ "no type", NODE(REGION), NULL, NULL, 0, "" },
		{ "no such Node", NO_NODE, "gpu.big", NULL, 4,
			"catalogue, us-east-1 (region unknown)" },
		{ "another type by an option", NODE(TYPE "," REGION), "gpu.huge", NULL, 90,
			"catalogue" },
		{ "another region by an option", NODE(TYPE "," REGION), NULL, "us-east-1", 4,
			"catalogue" },
	};
	struct env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct scene s;

		scene_init(&s, e);
		s.mon.c.options.instance_type = rows[i].type;
		s.mon.c.options.region = rows[i].region;
		monitoring_price_update(&s.mon); /* nothing is known of the Node yet */
		if (!rows[i].region)
			assert_int_equal(s.mon.price.nano_per_hour, 0);
		start_node_with_answer(&s, rows[i].answer);
		if (s.mon.price.nano_per_hour != rows[i].price * PRICE_NANO ||
			strcmp(s.mon.price.source, rows[i].source) != 0)
			fail_msg("%s: %lld of '%s'", rows[i].what,
				(long long)s.mon.price.nano_per_hour, s.mon.price.source);
		assert_false(s.mon.price.region_awaited);
		scene_fini(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(price__uses_the_region_labels_of_the_node,
			api_env_setup, api_env_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
