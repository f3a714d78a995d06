/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "node/agent/monitoring/pods.h"

static struct metrics_label_filter *all_but(const char *pattern)
{
	CLEANUP(strv_fini) struct strv list = STRV_INIT;
	struct metrics_label_filter *f = NULL;
	struct error err = ERROR_INIT;

	assert_ok(strv_add(&list, pattern, &err), &err);
	assert_ok(metrics_label_filter_new(&f, &list, NULL, &err), &err);
	return f;
}

static int make_pod_list(struct monitoring_pod_list *ret, const char *text, const char *pattern,
	struct error *err)
{
	CLEANUP(metrics_label_filter_freep) struct metrics_label_filter *f = all_but(pattern);
	json_t *list = json_loads(text, 0, NULL);
	int r = monitoring_pod_list_make(ret, list, f, err);

	json_decref(list);
	return r;
}

static void monitoring_pod_list__has_the_requested_labels(void **state)
{
	static const char text[] =
		"{\"items\": ["
		"{\"metadata\": {\"namespace\": \"b\", \"name\": \"x\", \"uid\": \"u1\","
		" \"labels\": {\"tier\": \"web\", \"app.kubernetes.io/name\": \"chat\","
		"  \"app-kubernetes-io/name\": \"beside\", \"build\": \"7\", \"odd\": 5}}},"
		"{\"metadata\": {\"namespace\": \"a\", \"name\": \"x\", \"uid\": \"u2\"}},"
		"{\"metadata\": {\"namespace\": \"a\", \"name\": \"y\", \"uid\": \"mirror\","
		" \"annotations\": {\"kubernetes.io/config.hash\": \"u3\"}, \"labels\": {\"tier\": \"\"}}},"
		"{\"metadata\": {\"name\": \"z\"}}, 7]}";
	struct monitoring_pod_list l;
	const struct monitoring_pod *p;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(make_pod_list(&l, text, "^(tier|app.*|odd)", &err), &err);
	assert_int_equal(l.n, 3);
	p = monitoring_pod_list_find(&l, "b", "x", "u1");
	assert_non_null(p);
	assert_int_equal(p->n_labels, 2);
	assert_string_equal(p->labels[0].name, "app_kubernetes_io_name");
	assert_string_equal(p->labels[0].value, "beside");
	assert_string_equal(p->labels[1].name, "tier");
	assert_ptr_equal(monitoring_pod_list_find(&l, "b", "x", ""), p);
	/* Made again under the same name: it is not known yet. */
	assert_null(monitoring_pod_list_find(&l, "b", "x", "u9"));
	assert_null(monitoring_pod_list_find(&l, "b", "y", ""));
	assert_int_equal(monitoring_pod_list_find(&l, "a", "x", "u2")->n_labels, 0);
	assert_string_equal(monitoring_pod_list_find(&l, "a", "y", "u3")->labels[0].value, "");
	monitoring_pod_list_fini(&l);
	assert_null(monitoring_pod_list_find(&l, "a", "x", ""));
}

static void monitoring_pod_list__has_limits(void **state)
{
	CLEANUP(buf_fini) struct buf many = BUF_INIT(1 << 20);
	CLEANUP(buf_fini) struct buf labels = BUF_INIT(1 << 20);
	struct monitoring_pod_list l = { .v = NULL };
	struct error err = ERROR_INIT;

	(void)state;
	buf_puts(&many, "{\"items\": [0");
	for (size_t i = 0; i < MONITORING_PODS_MAX; i++)
		buf_puts(&many, ",0");
	buf_puts(&many, "]}");
	assert_error(make_pod_list(&l, buf_str(&many), "", &err), &err, "more than 4096");
	assert_int_equal(err.code, ERR_LIMIT);

	buf_puts(&labels, "{\"items\": [{\"metadata\": {\"namespace\": \"a\", \"name\": \"x\", "
			  "\"uid\": \"u\", \"labels\": {");
	for (int i = 0; i < 100; i++)
		buf_printf(&labels, "\"l%02d\": \"v\",", 99 - i);
	buf_printf(&labels, "\"a\": \"%0300d\"}}}]}", 0);
	assert_ok(make_pod_list(&l, buf_str(&labels), "", &err), &err);
	assert_int_equal(l.v[0].n_labels, MONITORING_POD_LABELS_MAX);
	assert_string_equal(l.v[0].labels[0].name, "l00");
	assert_string_equal(l.v[0].labels[63].name, "l63");
	monitoring_pod_list_fini(&l);
	assert_ok(make_pod_list(&l, "{}", "", &err), &err);
	assert_int_equal(l.n, 0);
	monitoring_pod_list_fini(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(monitoring_pod_list__has_the_requested_labels),
		cmocka_unit_test(monitoring_pod_list__has_limits),
	};

	return cmocka_run_group_tests_name("monitoring-pod-list", tests, NULL, NULL);
}
