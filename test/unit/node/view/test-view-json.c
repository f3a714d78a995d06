/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/buf.h"
#include "support/view-sample.h"
#include "node/view/json/json.h"

#include <jansson.h>

#define MAX_BYTES (4U << 20)

static char *make_view_answer(enum view_sample_kind kind, enum view_part part)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	struct error err = ERROR_INIT;
	size_t len = 0;
	char *text;

	assert_ok(view_sample(&v, kind, &err), &err);
	text = view_json(v, part, &len);
	assert_non_null(text);
	assert_int_equal(strlen(text), len);
	assert_int_equal(text[len - 1], '\n');
	return text;
}

static json_t *parse_view_answer(enum view_sample_kind kind, enum view_part part)
{
	CLEANUP(freep) char *text = make_view_answer(kind, part);
	json_error_t e;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &e);

	if (!root)
		fail_msg("%s", e.text);
	return root;
}

static json_t *get_view_item(json_t *array, size_t i)
{
	json_t *o = json_array_get(array, i);

	assert_non_null(o);
	return o;
}

static void read_file(struct buf *b, const char *path)
{
	char part[4096];
	size_t n;
	FILE *f = fopen(path, "re");

	if (!f)
		return;
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_add(b, part, n);
	(void)fclose(f);
}

/* --- the whole of it --- */

/* VIEW_GOLDEN_UPDATE=1 writes the files again. Read the difference before the commit. */
static void view_json__matches_the_golden_file(void **state)
{
	static const struct {
		enum view_sample_kind kind;
		enum view_part part;
		const char *file;
	} rows[] = {
		{ VIEW_SAMPLE_EMPTY, VIEW_PART_NODE, "empty-node.json" },
		{ VIEW_SAMPLE_MIXED, VIEW_PART_NODE, "mixed-node.json" },
		{ VIEW_SAMPLE_UNPRICED, VIEW_PART_GPUS, "unpriced-gpus.json" },
		{ VIEW_SAMPLE_MIXED, VIEW_PART_PODS, "mixed-pods.json" },
		{ VIEW_SAMPLE_MIXED, VIEW_PART_RESOURCES, "mixed-resources.json" },
		{ VIEW_SAMPLE_ONE, VIEW_PART_HISTORY, "one-history.json" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf golden = BUF_INIT(MAX_BYTES);
		json_t *root = parse_view_answer(rows[i].kind, rows[i].part);
		CLEANUP(freep)
		char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
		char path[512];

		json_decref(root);
		(void)snprintf(path, sizeof(path), "%s/test/data/view/%s", TEST_SOURCE,
			rows[i].file);
		if (getenv("VIEW_GOLDEN_UPDATE")) {
			FILE *f = fopen(path, "we");

			assert_non_null(f);
			(void)fprintf(f, "%s\n", text);
			(void)fclose(f);
		}
		read_file(&golden, path);
		if (golden.len != strlen(text) + 1 ||
			strncmp(buf_str(&golden), text, strlen(text)) != 0)
			fail_msg(
				"%s is not what is made now; VIEW_GOLDEN_UPDATE=1 writes it, for git diff",
				rows[i].file);
	}
}

static void view_json__is_the_same_in_small_chunks(void **state)
{
	json_t *node, *gpus, *resources;

	(void)state;
	node = parse_view_answer(VIEW_SAMPLE_MIXED, VIEW_PART_NODE);
	gpus = parse_view_answer(VIEW_SAMPLE_MIXED, VIEW_PART_GPUS);
	resources = parse_view_answer(VIEW_SAMPLE_MIXED, VIEW_PART_RESOURCES);
	assert_true(json_equal(json_object_get(node, "gpus"), json_object_get(gpus, "gpus")));
	assert_true(json_equal(json_object_get(node, "resources"),
		json_object_get(resources, "resources")));
	assert_true(json_equal(json_object_get(node, "seq"), json_object_get(gpus, "seq")));
	json_decref(node);
	json_decref(gpus);
	json_decref(resources);
}

/* --- unknown figures --- */

static void view_json__unknown_is_null(void **state)
{
	static const char *const money[] = { "priceNanoPerHour", "currency", "costNano" };
	json_t *root, *gpu, *unit;

	(void)state;
	root = parse_view_answer(VIEW_SAMPLE_UNPRICED, VIEW_PART_NODE);
	for (size_t i = 0; i < ARRAY_LEN(money); i++)
		assert_true(json_is_null(json_object_get(root, money[i])));
	gpu = get_view_item(json_object_get(root, "gpus"), 6);
	assert_true(json_is_null(json_object_get(gpu, "sample")));
	assert_true(json_is_null(json_object_get(gpu, "sampleAgeNs")));
	assert_true(json_is_null(json_object_get(gpu, "minor")));
	assert_true(json_is_null(json_object_get(gpu, "numaNode")));
	unit = get_view_item(json_object_get(gpu, "units"), 0);
	assert_true(json_is_null(json_object_get(unit, "memoryUsed")));
	assert_true(json_is_null(json_object_get(unit, "busyNs")));
	assert_true(json_is_null(json_object_get(unit, "busy")));
	assert_true(json_is_null(json_object_get(unit, "costNano")));
	assert_true(json_is_null(
		json_object_get(get_view_item(json_object_get(unit, "uses"), 0), "busyExact")));
	assert_true(json_is_null(
		json_object_get(get_view_item(json_object_get(gpu, "xids"), 0), "last")));
	json_decref(root);
	root = parse_view_answer(VIEW_SAMPLE_MIXED, VIEW_PART_HISTORY);
	gpu = get_view_item(json_object_get(root, "gpus"), 0);
	assert_true(json_is_null(json_array_get(json_object_get(gpu, "busy"), 31)));
	assert_true(json_is_null(json_array_get(json_object_get(gpu, "memoryUsed"), 31)));
	json_decref(root);
}

static void view_json__uncounted_figure_is_null(void **state)
{
	static const char *const of_unit[] = { "presentNs", "idleGpuNs", "costNano",
		"idleCostNano", "start", "size", "memoryStart", "memorySize" };
	static const char *const of_gpu[] = { "xidCount", "xids" };
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;
	json_t *root, *gpu, *unit, *use;
	size_t len = 0;

	(void)state;
	assert_ok(view_sample(&v, VIEW_SAMPLE_ONE, &err), &err);
	assert_true(v->n_gpus && v->n_devices && v->devices[0].n_uses);
	v->gpus[0].xids_known = v->devices[0].counted = v->devices[0].placed = false;
	v->uses[v->devices[0].first_use].peak_known = false;
	text = view_json(v, VIEW_PART_GPUS, &len);
	root = json_loads(text, 0, NULL);
	gpu = get_view_item(json_object_get(root, "gpus"), 0);
	unit = get_view_item(json_object_get(gpu, "units"), 0);
	use = get_view_item(json_object_get(unit, "uses"), 0);
	for (size_t i = 0; i < ARRAY_LEN(of_gpu); i++)
		assert_true(json_is_null(json_object_get(gpu, of_gpu[i])));
	for (size_t i = 0; i < ARRAY_LEN(of_unit); i++)
		assert_true(json_is_null(json_object_get(unit, of_unit[i])));
	assert_true(json_is_null(json_object_get(use, "memoryPeak")));
	json_decref(root);
}

static void view_json__figure_beyond_int64_is_not_negative(void **state)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;
	size_t len = 0;

	(void)state;
	assert_ok(view_sample(&v, VIEW_SAMPLE_ONE, &err), &err);
	v->agent.rounds = UINT64_MAX;
	text = view_json(v, VIEW_PART_NODE, &len);
	assert_non_null(strstr(text, "\"rounds\":9223372036854775807,"));
}

/* --- pods --- */

static void view_json__replica_names_its_usage_in_the_device(void **state)
{
	json_t *root, *unit, *replica, *use;

	(void)state;
	root = parse_view_answer(VIEW_SAMPLE_MIXED, VIEW_PART_GPUS);
	unit = get_view_item(
		json_object_get(get_view_item(json_object_get(root, "gpus"), 2), "units"), 0);
	replica = get_view_item(json_object_get(unit, "seats"), 2);
	use = get_view_item(json_object_get(unit, "uses"),
		(size_t)json_integer_value(json_object_get(replica, "use")));
	assert_string_equal(json_string_value(json_object_get(use, "pod")), "pretrain-1");
	assert_string_equal(json_string_value(json_object_get(use, "seat")),
		json_string_value(json_object_get(replica, "id")));
	assert_true(json_is_null(
		json_object_get(get_view_item(json_object_get(unit, "seats"), 1), "use")));
	json_decref(root);
}

static json_t *pod_named(json_t *root, const char *name)
{
	json_t *pod, *list = json_object_get(root, "pods");
	size_t i;

	json_array_foreach(list, i, pod)
	{
		if (!strcmp(json_string_value(json_object_get(pod, "pod")), name))
			return pod;
	}
	fail_msg("no pod '%s'", name);
	return NULL;
}

static void view_json__sums_a_pod_over_devices(void **state)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;
	json_t *root, *pod;
	size_t len = 0;

	(void)state;
	assert_ok(view_sample(&v, VIEW_SAMPLE_MIXED, &err), &err);
	/* The trainer on GPU 2 and the learner of the MIG device are of one pod now. */
	for (uint32_t i = 0; i < v->n_uses; i++) {
		if (!strcmp(v->uses[i].pod, "pretrain-1") ||
			!strcmp(v->uses[i].pod, "rl-agent-2")) {
			v->uses[i].pod = "both";
			v->uses[i].uid = "u";
		}
	}
	text = view_json(v, VIEW_PART_PODS, &len);
	root = json_loads(text, 0, NULL);
	pod = pod_named(root, "both");
	assert_int_equal(json_array_size(json_object_get(pod, "uses")), 2);
	assert_int_equal(json_integer_value(json_object_get(pod, "received")), 702000 + 311000);
	assert_int_equal(json_integer_value(json_object_get(pod, "memoryUsed")),
		(38912LL + 30720) << 20);
	assert_int_equal(json_integer_value(json_object_get(pod, "nSeats")), 2);
	pod = pod_named(root, "protein-fold-9");
	assert_true(json_is_null(json_object_get(pod, "received")));
	assert_true(json_is_null(json_object_get(pod, "memoryUsed")));
	pod = pod_named(root, "sweep-17"); /* ended: counters only */
	assert_true(json_is_false(json_object_get(pod, "live")));
	assert_int_equal(json_integer_value(json_object_get(pod, "share")), 0);
	assert_true(json_integer_value(json_object_get(pod, "costNano")) > 0);
	json_decref(root);
}

/* --- memory --- */

static size_t fail_at, allocations;

static void *counting_malloc(size_t size)
{
	return ++allocations == fail_at ? NULL : malloc(size);
}

static void view_json__reports_missing_memory(void **state)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	struct error err = ERROR_INIT;
	size_t total, len = 0;

	(void)state;
	assert_ok(view_sample(&v, VIEW_SAMPLE_ONE, &err), &err);
	json_set_alloc_funcs(counting_malloc, free);
	for (int part = 0; part < VIEW_PART_COUNT_; part++) {
		allocations = fail_at = 0;
		free(view_json(v, (enum view_part)part, &len));
		total = allocations;
		assert_true(total > 10);
		for (size_t n = 1; n <= total; n += 1 + total / 200) {
			char *text;

			allocations = 0;
			fail_at = n;
			text = view_json(v, (enum view_part)part, &len);
			if (text)
				fail_msg("%s: nobody noticed that allocation %zu of %zu failed",
					view_part_path((enum view_part)part), n, total);
		}
	}
	json_set_alloc_funcs(malloc, free);
}

/* --- documentation --- */

/* Calls @fn with each key, but for names of fields. */
static void each_key(json_t *j, void (*fn)(const char *key, void *arg), void *arg)
{
	const char *key;
	json_t *value;
	size_t i;

	json_array_foreach(j, i, value) each_key(value, fn, arg);
	json_object_foreach(j, key, value)
	{
		fn(key, arg);
		if (strcmp(key, "sample") != 0)
			each_key(value, fn, arg);
	}
}

static void is_documented(const char *key, void *docs)
{
	char quoted[80];

	(void)snprintf(quoted, sizeof(quoted), "`%s`", key);
	if (!strstr(docs, quoted))
		fail_msg("docs/api.md does not explain %s", quoted);
}

static void remember_key(const char *key, void *arg)
{
	(void)json_object_set_new(arg, key, json_true());
}

/* The words in backticks of the first column of each table row. */
static void check_rows(char *docs, json_t *seen)
{
	size_t n = 0;

	for (char *save = NULL, *line = strtok_r(docs, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save)) {
		char *end = strncmp(line, "| `", 3) == 0 ? strchr(line + 1, '|') : NULL;
		char *in = NULL;

		if (!end)
			continue;
		*end = '\0';
		for (char *word = strtok_r(line + 2, "`", &in); word;
			word = strtok_r(NULL, "`", &in)) {
			if (*word == ',' || *word == ' ' || *word == '/')
				continue;
			n++;
			if (!json_object_get(seen, word))
				fail_msg("docs/api.md explains `%s`, which no answer has",
					word);
		}
	}
	assert_true(n > 100);
}

static void view_json__agrees_with_the_documentation(void **state)
{
	CLEANUP(buf_fini) struct buf docs = BUF_INIT(1 << 20);
	CLEANUP(freep) char *copy = NULL;
	json_t *seen = json_object();

	(void)state;
	read_file(&docs, TEST_SOURCE "/docs/api.md");
	for (int part = 0; part < VIEW_PART_COUNT_; part++) {
		json_t *root = parse_view_answer(VIEW_SAMPLE_MIXED, (enum view_part)part);

		is_documented(view_part_path((enum view_part)part), docs.data);
		each_key(root, is_documented, docs.data);
		each_key(root, remember_key, seen);
		json_decref(root);
	}
	copy = strdup(buf_str(&docs));
	assert_non_null(copy);
	check_rows(copy, seen);
	json_decref(seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(view_json__matches_the_golden_file),
		cmocka_unit_test(view_json__is_the_same_in_small_chunks),
		cmocka_unit_test(view_json__unknown_is_null),
		cmocka_unit_test(view_json__uncounted_figure_is_null),
		cmocka_unit_test(view_json__figure_beyond_int64_is_not_negative),
		cmocka_unit_test(view_json__replica_names_its_usage_in_the_device),
		cmocka_unit_test(view_json__sums_a_pod_over_devices),
		cmocka_unit_test(view_json__reports_missing_memory),
		cmocka_unit_test(view_json__agrees_with_the_documentation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
