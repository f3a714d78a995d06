/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/time.h"
#include "testbed/standin/cluster.h"

#define GPU "nvidia.com/gpu"

struct fixture {
	struct simulated_cluster c;
	struct str_map labels;
	struct node_resource gpu;
	struct node_view node;
	uint64_t now, next;
	unsigned gone;
	struct error err;
};

static struct fixture *fixture_new(uint32_t gpus)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->gpu = (struct node_resource){ .name = GPU, .capacity = gpus, .allocatable = gpus };
	f->node = (struct node_view){ .name = "node-1",
		.labels = &f->labels,
		.max_pods = SCHEDULER_MAX_PODS,
		.resources = &f->gpu,
		.n_resources = 1 };
	f->now = 1000 * NS_PER_SEC;
	return f;
}

static void fixture_free(struct fixture *f)
{
	cluster_free_objects(&f->c);
	str_map_fini(&f->labels);
	free(f);
}

static int apply(struct fixture *f, const char *text, enum cluster_verb *verb)
{
	CLEANUP(manifest_freep) struct manifest *m = NULL;

	assert_ok(manifest_parse(&m, "a.yaml", text, strlen(text), &f->err), &f->err);
	return cluster_apply(&f->c, &m->objects[0], f->now, verb, &f->err);
}

static void apply_deployment(struct fixture *f, const char *name, unsigned replicas,
	const char *image)
{
	CLEANUP(freep) char *text = NULL;
	enum cluster_verb verb;

	if (asprintf(&text,
		    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\n"
		    "spec: {replicas: %u, selector: {matchLabels: {a: b}}, template: {metadata: "
		    "{labels: {a: b}}, spec: {containers: [{name: c, image: %s, resources: {limits: "
		    "{nvidia.com/gpu: 1}}}]}}}\n",
		    name, replicas, image) < 0)
		abort();
	assert_ok(apply(f, text, &verb), &f->err);
}

static void on_gone(void *arg, const struct pod *p)
{
	struct fixture *f = arg;

	(void)p;
	f->gone++;
}

static bool step_cluster(struct fixture *f)
{
	return cluster_step(&f->c, &f->node, f->now, on_gone, f, &f->next);
}

/* Steps until nothing moves, with a kubelet that admits at once. */
static void settle(struct fixture *f)
{
	struct pod *p;
	bool again = true;

	while (again) {
		again = step_cluster(f);
		while ((p = cluster_next_bound(&f->c)))
			again |= pod_set_status(p, POD_RUNNING, NULL, NULL);
	}
}

static void expect_pods(const struct fixture *f, unsigned running, unsigned pending)
{
	struct pod_counts t = cluster_count_pods(&f->c, NULL);

	assert_int_equal(t.running, running);
	assert_int_equal(t.pending, pending);
}

static void cluster_step__leaves_the_pod_that_does_not_fit_pending(void **state)
{
	struct fixture *f = fixture_new(4);
	const struct pod *last;

	(void)state;
	apply_deployment(f, "d", 5, "i");
	settle(f);
	expect_pods(f, 4, 1);
	last = f->c.pods[4];
	assert_string_equal(last->reason, "Unschedulable");
	assert_string_equal(last->message,
		"0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
		"preemption: 0/1 nodes are available: 1 No preemption victims found "
		"for incoming pod.");
	f->gpu.allocatable = f->gpu.capacity = 40;
	settle(f);
	expect_pods(f, 5, 0);
	assert_false(step_cluster(f)); /* nothing to do is seen as such */
	fixture_free(f);
}

static void cluster_step__names_pods_like_kubernetes(void **state)
{
	struct fixture *f = fixture_new(2), *g = fixture_new(2);

	(void)state;
	apply_deployment(f, "web", 2, "i");
	apply_deployment(g, "web", 2, "i");
	settle(f);
	settle(g);
	for (size_t i = 0; i < 2; i++) {
		const char *name = f->c.pods[i]->name, *letters = "bcdfghjklmnpqrstvwxz2456789";
		const char *dash = strrchr(name, '-');

		assert_string_equal(name, g->c.pods[i]->name); /* the same on every run */
		assert_int_equal(strncmp(name, "web-", 4), 0);
		assert_int_equal(strspn(dash + 1, letters), 5);
		assert_true(strspn(name + 4, letters) >= 6);
		assert_int_equal(strlen(f->c.pods[i]->uid), 36);
	}
	assert_string_not_equal(f->c.pods[0]->name, f->c.pods[1]->name);
	assert_string_not_equal(f->c.pods[0]->uid, f->c.pods[1]->uid);
	fixture_free(f);
	fixture_free(g);
}

static void cluster_step__scales_down_pending_and_newest_first(void **state)
{
	struct fixture *f = fixture_new(3);
	char oldest[64];

	(void)state;
	apply_deployment(f, "d", 5, "i");
	settle(f);
	expect_pods(f, 3, 2);
	(void)snprintf(oldest, sizeof(oldest), "%s", f->c.pods[0]->name);
	assert_ok(cluster_scale(&f->c, "default", "d", 3, &f->err), &f->err);
	settle(f);
	expect_pods(f, 3, 0);
	assert_ok(cluster_scale(&f->c, NULL, "d", 1, &f->err), &f->err);
	settle(f);
	expect_pods(f, 1, 0);
	assert_string_equal(f->c.pods[0]->name, oldest);
	assert_int_equal(f->gone, 4);
	assert_error(cluster_scale(&f->c, "other", "d", 1, &f->err), &f->err,
		"deployments.apps \"d\" not found");
	fixture_free(f);
}

static void cluster_step__replaces_failed_pods_with_growing_pauses(void **state)
{
	static const unsigned pauses_s[] = { 1, 2, 4, 8, 16, 16, 16 };
	struct fixture *f = fixture_new(1);

	(void)state;
	apply_deployment(f, "d", 1, "i");
	(void)step_cluster(f);
	for (size_t i = 0; i < ARRAY_LEN(pauses_s); i++) {
		struct pod *p = cluster_next_bound(&f->c);

		assert_non_null(p);
		(void)pod_set_status(p, POD_FAILED, "UnexpectedAdmissionError", "x");
		assert_string_equal(pod_status(p), "UnexpectedAdmissionError");
		(void)step_cluster(f);
		assert_null(cluster_next_bound(&f->c));
		assert_true(f->next == f->now + pauses_s[i] * NS_PER_SEC);
		f->now = f->next;
		assert_true(step_cluster(f));
	}
	assert_true(cluster_count_pods(&f->c, NULL).failed <= CLUSTER_FAILED_KEPT + 1);
	fixture_free(f);
}

static void cluster_step__rolls_out_a_new_template(void **state)
{
	struct fixture *f = fixture_new(4);

	(void)state;
	apply_deployment(f, "d", 4, "one");
	settle(f);
	expect_pods(f, 4, 0);
	apply_deployment(f, "d", 4, "two");
	for (int i = 0; i < 10; i++) {
		struct pod_counts t;

		settle(f);
		t = cluster_count_pods(&f->c, NULL);
		assert_true(t.running >= 3); /* 25 % may be unavailable */
		assert_true(t.total <= 5);   /* 25 % may be too many */
	}
	expect_pods(f, 4, 0);
	for (size_t i = 0; i < f->c.n_pods; i++)
		assert_string_equal(f->c.pods[i]->spec->containers[0].image, "two");
	fixture_free(f);
}

static void cluster_apply__reports_created_configured_unchanged(void **state)
{
	static const struct {
		const char *text;
		enum cluster_verb verb;
	} rows[] = {
		{ "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n",
			CLUSTER_CREATED },
		{ "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n",
			CLUSTER_UNCHANGED },
		{ "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: c}\n",
			CLUSTER_CONFIGURED },
		{ "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, "
		  "image: i}]}\n",
			CLUSTER_CREATED },
		{ "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, "
		  "image: i}]}\n",
			CLUSTER_UNCHANGED },
	};
	struct fixture *f = fixture_new(1);
	enum cluster_verb verb;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_ok(apply(f, rows[i].text, &verb), &f->err);
		assert_int_equal(verb, rows[i].verb);
	}
	assert_error(
		apply(f,
			"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: "
			"[{name: other, image: i}]}\n",
			&verb),
		&f->err, "pod updates may not change fields");
	fixture_free(f);
}

static void cluster_delete__removes_the_pods_of_a_deployment(void **state)
{
	struct fixture *f = fixture_new(2);

	(void)state;
	apply_deployment(f, "d", 3, "i");
	settle(f);
	assert_ok(cluster_delete(&f->c, OBJECT_DEPLOYMENT, "default", "d", on_gone, f, &f->err),
		&f->err);
	assert_int_equal(f->gone, 3);
	assert_int_equal(f->c.n_pods, 0);
	assert_error(cluster_delete(&f->c, OBJECT_POD, "default", "p", NULL, NULL, &f->err),
		&f->err, "pods \"p\" not found");
	fixture_free(f);
}

static void scheduler_fits__returns_the_texts_of_the_scheduler(void **state)
{
	static const struct {
		const char *spec, *says; /* NULL: it fits */
		bool taint, unschedulable;
		uint32_t max_pods;
	} rows[] = {
		{ "resources: {limits: {nvidia.com/gpu: 1}}}]", NULL, false, false, 110 },
		{ "resources: {limits: {nvidia.com/gpu: 2}}}]",
			"0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
			"preemption: 0/1 nodes are available: 1 Preemption is not helpful "
			"for scheduling.", /* more than there is at all */
			false, false, 110 },
		{ "resources: {limits: {nvidia.com/gpu: 2, a.io/x: 1}}}]",
			"0/1 nodes are available: 1 Insufficient a.io/x, 1 Insufficient nvidia.com/gpu. "
			"preemption: ",
			false, false, 110 },
		{ "}], nodeSelector: {disk: ssd}",
			"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. "
			"preemption: 0/1 nodes are available: 1 Preemption is not helpful for "
			"scheduling.",
			false, false, 110 },
		{ "}], nodeSelector: {zone: a}", NULL, false, false, 110 },
		{ "}]", "1 node(s) had untolerated taint(s). preemption: ", true, false, 110 },
		{ "}], tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]",
			NULL, true, false, 110 },
		{ "}], tolerations: [{key: nvidia.com/gpu, value: present}]", NULL, true, false,
			110 },
		{ "}], tolerations: [{key: nvidia.com/gpu, value: other}]",
			"1 node(s) had untolerated taint(s)", true, false, 110 },
		{ "}]", "1 node(s) were unschedulable", false, true, 110 },
		{ "}]", "1 Too many pods", false, false, 1 },
		{ "}], nodeName: elsewhere", "didn't match the requested node name", false,
			false, 110 },
	};
	char key[] = "nvidia.com/gpu", value[] = "present", effect[] = "NoSchedule";
	struct taint taint = { key, value, effect };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture *f = fixture_new(1);
		CLEANUP(freep) char *text = NULL;
		CLEANUP(freep) char *why = NULL;
		enum cluster_verb verb;
		bool fits;

		if (asprintf(&text,
			    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: "
			    "c, image: i, %s}\n",
			    rows[i].spec) < 0)
			abort();
		assert_ok(str_map_set(&f->labels, "zone", "a", &f->err), &f->err);
		f->node.taints = &taint;
		f->node.n_taints = rows[i].taint;
		f->node.unschedulable = rows[i].unschedulable;
		f->node.max_pods = rows[i].max_pods;
		assert_ok(apply(f, text, &verb), &f->err);
		if (rows[i].max_pods == 1) { /* one is there already */
			settle(f);
			assert_ok(
				apply(f,
					"apiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec: "
					"{containers: [{name: c, image: i}]}\n",
					&verb),
				&f->err);
		}
		fits = scheduler_fits(&f->node, f->c.pods, f->c.n_pods,
			f->c.pods[f->c.n_pods - 1], &why);
		if (fits != !rows[i].says || (rows[i].says && !strstr(why, rows[i].says)))
			fail_msg("row %zu: %s", i, why ? why : "fits");
		fixture_free(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cluster_step__leaves_the_pod_that_does_not_fit_pending),
		cmocka_unit_test(cluster_step__names_pods_like_kubernetes),
		cmocka_unit_test(cluster_step__scales_down_pending_and_newest_first),
		cmocka_unit_test(cluster_step__replaces_failed_pods_with_growing_pauses),
		cmocka_unit_test(cluster_step__rolls_out_a_new_template),
		cmocka_unit_test(cluster_apply__reports_created_configured_unchanged),
		cmocka_unit_test(cluster_delete__removes_the_pods_of_a_deployment),
		cmocka_unit_test(scheduler_fits__returns_the_texts_of_the_scheduler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
