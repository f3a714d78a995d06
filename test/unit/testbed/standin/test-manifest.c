/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "testbed/standin/manifest/manifest.h"

static int parse_manifest_text(struct manifest **ret, const char *text, struct error *err)
{
	return manifest_parse(ret, "a.yaml", text, strlen(text), err);
}

#define DEPLOYMENT_HEAD "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n"
#define CONTAINER       "containers: [{name: c, image: i}]"
#define POD(spec)       "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: " spec "\n"
#define POD_LIMITS(res) POD("{containers: [{name: c, image: i, resources: " res "}]}")

static void manifest_parse__reads_the_users_deployment(void **state)
{
	static const char text[] = "apiVersion: apps/v1\n"
				   "kind: Deployment\n"
				   "metadata:\n"
				   "  name: tensorflow-cifar10-deployment\n"
				   "  namespace: gpu-demo\n"
				   "  labels:\n"
				   "    app: tensorflow-cifar10\n"
				   "spec:\n"
				   "  replicas: 5\n"
				   "  selector:\n"
				   "    matchLabels:\n"
				   "      app: tensorflow-cifar10\n"
				   "  template:\n"
				   "    metadata:\n"
				   "      labels:\n"
				   "        app: tensorflow-cifar10\n"
				   "    spec:\n"
				   "      containers:\n"
				   "      - name: tensorflow-cifar10\n"
				   "        image: public.ecr.aws/r5m2h0c9/cifar10_cnn:v2\n"
				   "        resources:\n"
				   "          limits:\n"
				   "            nvidia.com/gpu: 1\n";
	CLEANUP(manifest_freep) struct manifest *m = NULL;
	struct error err = ERROR_INIT;
	const struct object *o;

	(void)state;
	assert_ok(parse_manifest_text(&m, text, &err), &err);
	assert_int_equal(m->n, 1);
	o = &m->objects[0];
	assert_int_equal(o->kind, OBJECT_DEPLOYMENT);
	assert_string_equal(o->name, "tensorflow-cifar10-deployment");
	assert_string_equal(o->namespace_, "gpu-demo");
	assert_int_equal(o->replicas, 5);
	assert_string_equal(str_map_get(&o->selector, "app"), "tensorflow-cifar10");
	assert_int_equal(o->spec->n_containers, 1);
	assert_int_equal(pod_spec_request(o->spec, "nvidia.com/gpu"), 1);
}

static void manifest_parse__reads_several_documents_and_lists(void **state)
{
	CLEANUP(manifest_freep) struct manifest *m = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(
		parse_manifest_text(&m,
			"---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
			"data:\n  any: |-\n    version: v1\n    x: 1\n"
			"---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n"
			"  metadata: {name: ns}\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: p}\n"
			"  spec: {" CONTAINER "}\n",
			&err),
		&err);
	assert_int_equal(m->n, 3);
	assert_int_equal(m->objects[0].kind, OBJECT_CONFIG_MAP);
	assert_string_equal(str_map_get(&m->objects[0].data, "any"), "version: v1\nx: 1");
	assert_int_equal(m->objects[1].kind, OBJECT_NAMESPACE);
	assert_int_equal(m->objects[2].kind, OBJECT_POD);
}

static void manifest_parse__reads_json_and_anchors(void **state)
{
	CLEANUP(manifest_freep) struct manifest *m = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(
		parse_manifest_text(&m,
			"{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"p\"},"
			" \"spec\": {\"containers\": [{\"name\": \"c\", \"image\": \"i\","
			" \"resources\": {\"limits\": {\"nvidia.com/gpu\": \"2\", \"cpu\": \"500m\"}}}]}}",
			&err),
		&err);
	assert_int_equal(pod_spec_request(m->objects[0].spec, "nvidia.com/gpu"), 2);
	m = manifest_free(m);
	assert_ok(
		parse_manifest_text(&m,
			POD("{containers: [&c {name: c, image: i, resources: {limits: &l "
			    "{nvidia.com/gpu: 1}}}, {name: d, image: i, resources: {limits: *l}}]}"),
			&err),
		&err);
	assert_int_equal(pod_spec_request(m->objects[0].spec, "nvidia.com/gpu"), 2);
}

static void manifest_parse__accepts_variables_and_thousandths(void **state)
{
	CLEANUP(manifest_freep) struct manifest *m = NULL;
	struct error err = ERROR_INIT;
	const struct container *c;

	(void)state;
	assert_ok(
		parse_manifest_text(&m,
			POD("{containers: [{name: c, image: i, resources: {limits: "
			    "{nvidia.com/gpu: 3000m}}, env: [{name: A, value: x}, {name: B}, "
			    "{name: A, value: z}, {name: Node, valueFrom: {fieldRef: {fieldPath: "
			    "spec.nodeName}}}]}]}"),
			&err),
		&err);
	c = &m->objects[0].spec->containers[0];
	assert_int_equal(c->requests[0].n, 3);
	assert_int_equal(c->env.n, 2);
	assert_string_equal(str_map_get(&c->env, "A"), "z"); /* the last one */
	assert_string_equal(str_map_get(&c->env, "B"), "");
}

static void manifest_parse__reports_the_errors_of_the_api_server(void **state)
{
	static const struct {
		const char *text, *where, *says;
	} rows[] = {
		/* the user's own two: gpu-app.yaml and dcgmproftester-pod.yaml */
		{ DEPLOYMENT_HEAD "spec:\n  replicas: 1\n  template:\n    spec: {" CONTAINER
				  "}\n",
			"a.yaml:4:1: ",
			"Deployment \"d\" is invalid: spec.selector: Required value" },
		{ "kind: Pod\nmetadata: {name: p}\nspec: {" CONTAINER "}\n", "a.yaml:1:1: ",
			"error validating data: apiVersion not set (a Pod is \"apiVersion: v1\")" },
		{ "version: v1\nmig-configs: {}\n",
			"a.yaml:1:1: ", "Object 'Kind' is missing" },
		{ "apiVersion: karpenter.sh/v1beta1\nkind: Provisioner\nmetadata: {name: g}\n",
			"a.yaml:2:7: ",
			"no matches for kind \"Provisioner\" in version \"karpenter.sh/v1beta1\"" },
		{ "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: g}\n",
			"a.yaml:2:7: ", "this is input of 'eksctl create cluster'" },
		{ "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\n",
			"a.yaml:2:7: ", "no matches for kind \"Job\"" },
		{ "apiVersion: v1\nkind: Deployment\nmetadata: {name: j}\n", "",
			"no matches for kind \"Deployment\" in version \"v1\"" },
		{ "apiVersion: v1\nkind: Pod\nspec: {" CONTAINER "}\n", "",
			"metadata.name: Required value: name or generateName is required" },
		{ "apiVersion: v1\nkind: Pod\nmetadata: {name: Big_One}\nspec: {" CONTAINER
		  "}\n",
			"a.yaml:3:18: ", "a lowercase RFC 1123 subdomain" },
		{ "apiVersion: v1\nkind: Pod\nmetadata: {name: 1}\nspec: {" CONTAINER "}\n",
			"a.yaml:3:18: ", "metadata.name: expected string, found number 1" },
		{ POD("{}"), "", "spec.containers: Required value" },
		{ POD("{containers: [{image: i}]}"), "",
			"spec.containers[0].name: Required value" },
		{ POD("{containers: [{name: c}]}"), "",
			"spec.containers[0].image: Required value" },
		{ POD("{containers: [{name: c, image: i}, {name: c, image: i}]}"), "",
			"spec.containers[1].name: Duplicate value: \"c\"" },
		{ POD("{restartPolicy: Sometimes, " CONTAINER "}"), "",
			"spec.restartPolicy: Unsupported value: \"Sometimes\"" },
		{ POD("{nodeSelector: {a: yes}, " CONTAINER "}"), "",
			"spec.nodeSelector[a]: expected string, found bool yes" },
		{ POD("{tolerations: [{operator: Maybe, key: a}], " CONTAINER "}"), "",
			"spec.tolerations[0].operator: Unsupported value: \"Maybe\"" },
		{ POD("{tolerations: [{value: a}], " CONTAINER "}"), "",
			"operator must be Exists when `key` is empty" },
		{ POD_LIMITS("{limits: {nvidia.com/gpu: 0.5}}"), "",
			"limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer" },
		{ POD_LIMITS("{limits: {nvidia.com/gpu: 1500m}}"), "",
			"limits[nvidia.com/gpu]: Invalid value: \"1500m\": must be an integer" },
		{ POD_LIMITS("{limits: {nvidia.com/gpu: 1e300}}"), "", "must be an integer" },
		{ POD_LIMITS("{limits: {nvidia.com/_gpu: 1}}"), "",
			"doesn't follow extended resource name standard" },
		{ POD("{containers: [{name: c, image: i, env: [{value: a}]}]}"), "",
			"spec.containers[0].env[0].name: Required value" },
		{ POD("{containers: [{name: c, image: i, env: [{name: A, value: 1}]}]}"), "",
			"spec.containers[0].env[0].value: expected string, found number 1" },
		{ POD_LIMITS("{limits: {nvidia.com/gpu: -1}}"), "",
			"must be greater than or equal to 0" },
		{ POD_LIMITS("{limits: {nvidia.com/gpu: many}}"), "", "quantities must match" },
		{ POD_LIMITS("{limits: {gpu: 1}}"), "",
			"must be a standard resource type or fully qualified" },
		{ POD_LIMITS("{requests: {nvidia.com/gpu: 1}}"), "",
			"Limit must be set for non overcommitable resources" },
		{ POD_LIMITS("{limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}"),
			"", "must be equal to nvidia.com/gpu limit of 2" },
		{ DEPLOYMENT_HEAD
			"spec: {selector: {matchLabels: {a: b}}, template: {metadata: "
			"{labels: {a: c}}, spec: {" CONTAINER "}}}\n",
			"", "`selector` does not match template `labels`" },
		{ DEPLOYMENT_HEAD "spec: {selector: {}, template: {spec: {" CONTAINER "}}}\n",
			"", "empty selector is invalid for deployment" },
		{ DEPLOYMENT_HEAD "spec: {selector: {matchLabels: {a: b}}}\n", "",
			"spec.template: Required value" },
		{ DEPLOYMENT_HEAD "spec: {replicas: -1, selector: {matchLabels: {a: b}}}\n", "",
			"spec.replicas: Invalid value: -1: must be greater than or equal to 0" },
		{ DEPLOYMENT_HEAD
			"spec: {selector: {matchLabels: {a: b}}, template: {metadata: "
			"{labels: {a: b}}, spec: {restartPolicy: Never, " CONTAINER "}}}\n",
			"", "supported values: \"Always\"" },
		{ "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {../x: z}\n", "",
			"a valid config key must consist of" },
		{ "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: 1}\n", "",
			"data[x]: expected string, found number 1; put it in quotes" },
		{ "- a\n", "", "expected a Kubernetes object, found array" },
		{ "a: [1\n", "a.yaml:", "expected YAML or JSON" },
		{ "a: 1\na: 2\n", "a.yaml:2:1: ", "duplicate" },
		{ "", "", "no objects in it" },
		{ "# only a comment\n", "", "no objects in it" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct manifest *m = NULL;
		struct error err = ERROR_INIT;

		assert_error(parse_manifest_text(&m, rows[i].text, &err), &err, rows[i].says);
		if (strncmp(err.msg, rows[i].where, strlen(rows[i].where)) != 0)
			fail_msg("'%s' is not at '%s'", err.msg, rows[i].where);
		assert_null(m);
	}
}

static void manifest_load__accepts_or_refuses_the_files_of_the_user(void **state)
{
	static const struct {
		const char *file, *says; /* NULL: it is taken */
	} rows[] = {
		{ "cifar10-train-deploy.yaml", NULL },
		{ "dcgmproftester-pod.yaml",
			"dcgmproftester-pod.yaml:1:1: error validating data: "
			"apiVersion not set" },
		{ "default-mig-parted-config.yaml", "Object 'Kind' is missing" },
		{ "eksctl-p4d-cluster.yaml", "no matches for kind \"ClusterConfig\"" },
		{ "gpu-app.yaml", "gpu-app.yaml:5:1: Deployment \"gpu-app\" is invalid: "
				  "spec.selector: Required value" },
		{ "gpu-deployment.yaml", NULL },
		{ "karpenter-node-template-p3-2xlarge.yaml",
			"no matches for kind \"Provisioner\"" },
		{ "karpenter-node-template-p3-8xlarge.yaml", "a Provisioner existed in "
							     "karpenter.sh/v1alpha5 only" },
		{ "karpenter-provisioner-gpu-shared.yaml", "gone from Karpenter since 0.33" },
		{ "mig-1g-5gb-deployment.yaml", NULL },
		{ "mig-2g-10gb-and-3g.20gb-deployments.yaml", NULL },
		{ "nvidia-device-plugin-config.yaml", NULL },
		{ "nvidia-device-plugin.yaml", NULL },
		{ "time-slicing-config.yaml", NULL },
		{ "time-slicing-verification.yaml", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(manifest_freep) struct manifest *m = NULL;
		struct error err = ERROR_INIT;
		char path[512];

		(void)snprintf(path, sizeof(path), "%s/%s", TEST_FIXTURES, rows[i].file);
		if (rows[i].says)
			assert_error(manifest_load(&m, path, &err), &err, rows[i].says);
		else
			assert_ok(manifest_load(&m, path, &err), &err);
	}
}

static void pod_spec_request__counts_init_containers_like_the_scheduler(void **state)
{
	static const struct {
		const char *spec;
		unsigned want;
	} rows[] = {
#define C(n) "{name: a" #n ", image: i, resources: {limits: {x.io/g: " #n "}}}"
#define SIDECAR(n)                                                                          \
	"{name: s" #n ", image: i, restartPolicy: Always, resources: {limits: {x.io/g: " #n \
	"}}}"
		{ "{containers: [" C(1) ", " C(2) "]}", 3 },
		{ "{initContainers: [" C(5) "], containers: [" C(1) ", " C(2) "]}", 5 },
		{ "{initContainers: [" C(5) ", " C(4) "], containers: [" C(6) "]}", 6 },
		{ "{initContainers: [" SIDECAR(2) ", " C(5) "], containers: [" C(1) "]}", 7 },
		{ "{initContainers: [" C(5) ", " SIDECAR(2) "], containers: [" C(4) "]}", 6 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(manifest_freep) struct manifest *m = NULL;
		CLEANUP(freep) char *text = NULL;
		struct error err = ERROR_INIT;

		if (asprintf(&text,
			    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: %s\n",
			    rows[i].spec) < 0)
			abort();
		assert_ok(parse_manifest_text(&m, text, &err), &err);
		assert_int_equal(pod_spec_request(m->objects[0].spec, "x.io/g"), rows[i].want);
	}
}

static void extended_resource_valid__agrees_with_the_kubelet(void **state)
{
	static const struct {
		const char *name;
		bool valid;
	} rows[] = {
		{ "nvidia.com/gpu", true },
		{ "nvidia.com/mig-1g.5gb", true },
		{ "nvidia.com/gpu.shared", true },
		{ "gpu", false },
		{ "kubernetes.io/gpu", false },
		{ "x.kubernetes.io/gpu", false },
		{ "requests.nvidia.com/gpu", false },
		{ "nvidia.com/", false },
		{ "nvidia.com/gpu+me", false },
		{ "Nvidia.com/gpu", false },
		{ "nvidia.com/-gpu", false },
		{ "a/b/c", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (extended_resource_valid(rows[i].name) != rows[i].valid)
			fail_msg("'%s'", rows[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(manifest_parse__reads_the_users_deployment),
		cmocka_unit_test(manifest_parse__reads_several_documents_and_lists),
		cmocka_unit_test(manifest_parse__reads_json_and_anchors),
		cmocka_unit_test(manifest_parse__accepts_variables_and_thousandths),
		cmocka_unit_test(manifest_parse__reports_the_errors_of_the_api_server),
		cmocka_unit_test(manifest_load__accepts_or_refuses_the_files_of_the_user),
		cmocka_unit_test(pod_spec_request__counts_init_containers_like_the_scheduler),
		cmocka_unit_test(extended_resource_valid__agrees_with_the_kubelet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
