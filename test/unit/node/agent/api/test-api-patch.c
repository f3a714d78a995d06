/* SPDX-License-Identifier: Apache-2.0 */

/* Request bodies for the API server about our Node: patches and Events, without a server. */
#include "unit/node/agent/api/node-env.h"

#include "node/agent/api/event.h"
#include "node/agent/api/patch.h"

#define KEEP "nvidia.com/device-plugin.config"

static void label_patch__writes_changes_and_removes_our_former_labels(void **state)
{
	static const struct {
		const char *want, *labels, *record, *patch;
	} rows[] = {
		/* A new Node, with labels of others. */
		{ "nvidia.com/a=1,nvidia.com/b=2", "{\"x\":\"y\"}", NULL,
			"{\"metadata\":{\"labels\":{\"nvidia.com/a\":\"1\",\"nvidia.com/b\":\"2\"},"
			"\"annotations\":{\"gpuslice.io/labels\":\"nvidia.com/a,nvidia.com/b\"}}}" },
		{ "nvidia.com/a=1", NULL, NULL,
			"{\"metadata\":{\"labels\":{\"nvidia.com/a\":\"1\"},"
			"\"annotations\":{\"gpuslice.io/labels\":\"nvidia.com/a\"}}}" },
		/* The Node is as desired. */
		{ "nvidia.com/a=1,nvidia.com/b=2",
			"{\"nvidia.com/a\":\"1\",\"nvidia.com/b\":\"2\",\"x\":\"y\"}",
			"nvidia.com/a,nvidia.com/b", NULL },
		{ "", "{\"x\":\"y\"}", "", NULL },
		/* NVIDIA's own labels, taken over. */
		{ "nvidia.com/a=1", "{\"nvidia.com/a\":\"1\",\"nvidia.com/c\":\"3\"}", NULL,
			"{\"metadata\":{\"labels\":{},"
			"\"annotations\":{\"gpuslice.io/labels\":\"nvidia.com/a\"}}}" },
		/* One label changed, one that is not true any more, one that another client removed already. */
		{ "nvidia.com/a=2",
			"{\"nvidia.com/a\":\"1\",\"nvidia.com/b\":\"2\",\"nvidia.com/gpu.present\":"
			"\"true\"}",
			"nvidia.com/a,nvidia.com/b,nvidia.com/c",
			"{\"metadata\":{\"labels\":{\"nvidia.com/a\":\"2\",\"nvidia.com/b\":null},"
			"\"annotations\":{\"gpuslice.io/labels\":\"nvidia.com/a\"}}}" },
		/* Another client deleted one of our labels. */
		{ "nvidia.com/a=1,nvidia.com/b=2", "{\"nvidia.com/a\":\"1\"}",
			"nvidia.com/a,nvidia.com/b",
			"{\"metadata\":{\"labels\":{\"nvidia.com/b\":\"2\"},"
			"\"annotations\":{\"gpuslice.io/labels\":\"nvidia.com/a,nvidia.com/b\"}}}" },
		/* Another client changed the record: the agent removes no label that it would never write. */
		{ "nvidia.com/a=1",
			"{\"nvidia.com/a\":\"1\",\"kubernetes.io/hostname\":\"n\",\"" KEEP
			"\":\"x\"}",
			"kubernetes.io/hostname,,nvidia.com/a," KEEP,
			"{\"metadata\":{\"labels\":{},"
			"\"annotations\":{\"gpuslice.io/labels\":\"nvidia.com/a\"}}}" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct labels *desired = labels_of(rows[i].want);
		json_t *labels = json_of(rows[i].labels), *patch = NULL;
		struct error err = ERROR_INIT;

		assert_ok(label_patch(&patch, desired, KEEP, labels, rows[i].record, &err),
			&err);
		assert_json(patch, rows[i].patch);
		json_decref(labels);
		(void)labels_free(desired);
	}
}

static void label_patch__keeps_the_timestamp_while_nothing_else_changes(void **state)
{
	static const char record[] = "nvidia.com/a," LABEL_TIMESTAMP;
	static const struct {
		const char *want, *labels, *patch;
	} rows[] = {
		{ "nvidia.com/a=1," LABEL_TIMESTAMP "=200",
			"{\"nvidia.com/a\":\"1\",\"" LABEL_TIMESTAMP "\":\"100\"}", NULL },
		{ "nvidia.com/a=2," LABEL_TIMESTAMP "=200",
			"{\"nvidia.com/a\":\"1\",\"" LABEL_TIMESTAMP "\":\"100\"}",
			"{\"metadata\":{\"labels\":{\"nvidia.com/a\":\"2\",\"" LABEL_TIMESTAMP
			"\":\"200\"},\"annotations\":{\"gpuslice.io/labels\":\"nvidia.com/"
			"a," LABEL_TIMESTAMP "\"}}}" },
		{ "nvidia.com/a=1," LABEL_TIMESTAMP "=200", "{\"nvidia.com/a\":\"1\"}",
			"{\"metadata\":{\"labels\":{\"" LABEL_TIMESTAMP
			"\":\"200\"},\"annotations\":{\"gpuslice.io/labels\":\"nvidia.com/"
			"a," LABEL_TIMESTAMP "\"}}}" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct labels *desired = labels_of(rows[i].want);
		json_t *labels = json_of(rows[i].labels), *patch = NULL;
		struct error err = ERROR_INIT;

		assert_ok(label_patch(&patch, desired, KEEP, labels, record, &err), &err);
		assert_json(patch, rows[i].patch);
		json_decref(labels);
		(void)labels_free(desired);
	}
}

static void labels_json__keeps_the_former_timestamp(void **state)
{
	struct labels *desired = labels_of("nvidia.com/a=1," LABEL_TIMESTAMP "=200");
	json_t *same = json_of("{\"nvidia.com/a\":\"1\",\"" LABEL_TIMESTAMP "\":\"100\"}");
	json_t *other = json_of("{\"nvidia.com/a\":\"0\",\"" LABEL_TIMESTAMP "\":\"100\"}");
	json_t *more =
		json_of("{\"nvidia.com/a\":\"1\",\"b\":\"2\",\"" LABEL_TIMESTAMP "\":\"100\"}");

	(void)state;
	assert_true(labels_same(desired, same));
	assert_false(labels_same(desired, other));
	assert_false(labels_same(desired, more));
	assert_false(labels_same(desired, NULL));
	assert_json(labels_json(desired, same),
		"{\"nvidia.com/a\":\"1\",\"" LABEL_TIMESTAMP "\":\"100\"}");
	assert_json(labels_json(desired, other),
		"{\"nvidia.com/a\":\"1\",\"" LABEL_TIMESTAMP "\":\"200\"}");
	assert_json(labels_json(desired, NULL),
		"{\"nvidia.com/a\":\"1\",\"" LABEL_TIMESTAMP "\":\"200\"}");
	json_decref(same);
	json_decref(other);
	json_decref(more);
	(void)labels_free(desired);
}

static void taint_patch__removes_our_key_alone_and_tests_the_known_taints(void **state)
{
	static const struct {
		const char *taints, *patch; /* no patch: it has none with our key */
	} rows[] = {
		{ NULL, NULL },
		{ "[]", NULL },
		{ "[{\"key\":\"a\",\"effect\":\"NoSchedule\"}]", NULL },
		{ "[{\"key\":\"t\",\"effect\":\"NoSchedule\"}]",
			"[{\"op\":\"test\",\"path\":\"/spec/taints\",\"value\":[{\"key\":\"t\","
			"\"effect\":\"NoSchedule\"}]},{\"op\":\"replace\",\"path\":\"/spec/"
			"taints\",\"value\":[]}]" },
		{ "[{\"key\":\"t\",\"effect\":\"NoSchedule\"},{\"key\":\"a\"},{\"key\":\"t\","
		  "\"value\":\"x\",\"effect\":\"NoExecute\",\"timeAdded\":\"2026\"}]",
			"[{\"op\":\"test\",\"path\":\"/spec/taints\",\"value\":[{\"key\":\"t\","
			"\"effect\":\"NoSchedule\"},{\"key\":\"a\"},{\"key\":\"t\",\"value\":\"x\","
			"\"effect\":\"NoExecute\",\"timeAdded\":\"2026\"}]},{\"op\":\"replace\","
			"\"path\":\"/spec/taints\",\"value\":[{\"key\":\"a\"}]}]" },
		{ "[1,{},{\"key\":2}]", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *taints = json_of(rows[i].taints), *patch = NULL;
		struct error err = ERROR_INIT;

		assert_ok(taint_patch(&patch, taints, "t", &err), &err);
		assert_int_equal(taint_is(taints, "t"), rows[i].patch != NULL);
		assert_json(patch, rows[i].patch);
		json_decref(taints);
	}
}

/* --- events --- */

static void event_list__counts_the_same_event_and_drops_the_oldest_sent_one(void **state)
{
	struct event_list l = { 0 };
	struct kube_event *e;
	char text[16];

	(void)state;
	assert_null(event_list_next(&l));
	assert_true(event_list_add(&l, NULL, EVENT_WARNING, "R", "m", 10));
	assert_true(event_list_add(&l, NULL, EVENT_WARNING, "R", "m", 30));
	assert_true(event_list_add(&l, NULL, EVENT_NORMAL, "R", "m", 20));
	e = event_list_next(&l); /* the one that has not happened for longest */
	assert_int_equal(e->type, EVENT_NORMAL);
	assert_int_equal(e->count, 1);
	e->reported_count = 1;
	e = event_list_next(&l);
	assert_int_equal(e->count, 2);
	assert_int_equal(e->first_ns, 10);
	assert_int_equal(e->last_ns, 30);
	/* The list is full of what waits, but for one. */
	for (int i = 0; i < EVENTS_MAX - 2; i++) {
		(void)snprintf(text, sizeof(text), "%d", i);
		assert_true(event_list_add(&l, NULL, EVENT_NORMAL, "R", text, 40));
	}
	assert_true(event_list_add(&l, NULL, EVENT_NORMAL, "R", "new", 50));
	assert_false(event_list_add(&l, NULL, EVENT_NORMAL, "R", "newer", 60));
	assert_true(event_list_add(&l, NULL, EVENT_NORMAL, "R", "new", 60));
}

static void event_bodies__have_the_form_of_events_of_the_kubelet(void **state)
{
	struct event_list l = { 0 };
	struct kube_event *e;
	char *text;
	json_t *o;

	(void)state;
	assert_true(event_list_add(&l, NULL, EVENT_WARNING, "GPUUnhealthy", "GPU 0: \"lost\"",
		UINT64_C(1700000000) * 1000000000));
	e = event_list_next(&l);
	(void)snprintf(e->name, sizeof(e->name), "n.1");
	text = event_create_body(e, "node-1");
	o = json_of(text);
	assert_json(json_incref(json_object_get(o, "involvedObject")),
		"{\"kind\":\"Node\",\"name\":\"node-1\",\"uid\":\"node-1\"}");
	assert_json(json_incref(json_object_get(o, "metadata")),
		"{\"name\":\"n.1\",\"namespace\":\"default\"}");
	assert_string_equal(json_string_value(json_object_get(o, "type")), "Warning");
	assert_string_equal(json_string_value(json_object_get(o, "message")),
		"GPU 0: \"lost\"");
	assert_string_equal(json_string_value(json_object_get(o, "lastTimestamp")),
		"2023-11-14T22:13:20.000Z");
	json_decref(o);
	free(text);
	e->count = 7;
	text = event_patch_body(e);
	assert_json(json_of(text),
		"{\"count\":7,\"lastTimestamp\":\"2023-11-14T22:13:20.000Z\"}");
	free(text);
}

static void event_bodies__name_the_affected_pod(void **state)
{
	const struct event_about a = { "shop", "web-1", "0f-1" }, b = { "shop", "web-2", "" };
	struct event_list l = { 0 };
	struct kube_event *e;
	char *text;
	json_t *o;

	(void)state;
	assert_true(event_list_add(&l, &a, EVENT_WARNING, "R", "m", 10));
	assert_true(event_list_add(&l, &a, EVENT_WARNING, "R", "m", 20));
	assert_true(event_list_add(&l, &b, EVENT_WARNING, "R", "m", 30));
	e = event_list_next(&l);
	assert_int_equal(e->count, 2);
	text = event_create_body(e, "node-1");
	o = json_of(text);
	assert_json(json_incref(json_object_get(o, "involvedObject")),
		"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"namespace\":\"shop\","
		"\"name\":\"web-1\",\"uid\":\"0f-1\"}");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(o, "metadata"), "namespace")),
		"shop");
	json_decref(o);
	free(text);
	e->reported_count = e->count;
	text = event_create_body(event_list_next(&l), "node-1");
	o = json_of(text);
	assert_null(json_object_get(json_object_get(o, "involvedObject"), "uid"));
	json_decref(o);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(label_patch__writes_changes_and_removes_our_former_labels),
		cmocka_unit_test(label_patch__keeps_the_timestamp_while_nothing_else_changes),
		cmocka_unit_test(labels_json__keeps_the_former_timestamp),
		cmocka_unit_test(taint_patch__removes_our_key_alone_and_tests_the_known_taints),
		cmocka_unit_test(
			event_list__counts_the_same_event_and_drops_the_oldest_sent_one),
		cmocka_unit_test(event_bodies__have_the_form_of_events_of_the_kubelet),
		cmocka_unit_test(event_bodies__name_the_affected_pod),
	};

	return cmocka_run_group_tests_name("api-patch", tests, NULL, NULL);
}
