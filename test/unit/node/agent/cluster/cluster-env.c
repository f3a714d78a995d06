/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/agent/cluster/cluster-env.h"

#include "lib/base/fd.h"

#include <unistd.h>

static void note_cluster_call(struct cluster_env *x, char call)
{
	size_t len = strlen(x->order);

	if (len + 1 < sizeof(x->order))
		x->order[len] = call;
	x->n->calls++;
}

static void on_node_changed(void *arg)
{
	struct cluster_env *x = arg;

	x->changed++;
	note_cluster_call(x, 'c');
}

static void on_api_ready(void *arg, struct api *api)
{
	struct cluster_env *x = arg;

	assert_ptr_equal(api, x->c.link.api);
	api->intervals.jitter_ns = 0;
	api->intervals.backoff.min_ns = 10 * NS_PER_MS;
	api->intervals.backoff.max_ns = 40 * NS_PER_MS;
	x->api_ready++;
	note_cluster_call(x, 'r');
}

static void on_api_unavailable(void *arg, const struct error *why)
{
	struct cluster_env *x = arg;

	x->api_unavailable++;
	error_clear(&x->why);
	error_copy(&x->why, why);
	note_cluster_call(x, 'u');
}

static bool is_ready(void *arg)
{
	return ((struct cluster_env *)arg)->ready;
}

static const struct cluster_ops ops = { .node_changed = on_node_changed,
	.api_ready = on_api_ready,
	.api_unavailable = on_api_unavailable,
	.node_ready = is_ready };

int cluster_env_setup(void **state)
{
	struct cluster_env *x = calloc(1, sizeof(*x));
	struct error err = ERROR_INIT;
	void *n = NULL, *f = NULL;

	assert_non_null(x);
	if (node_env_setup(&n) != 0 || agent_fixture_setup(&f) != 0)
		return -1;
	x->n = n;
	x->f = f;
	(void)unsetenv("KUBERNETES_SERVICE_HOST"); /* this is no pod, wherever it runs */
	(void)unsetenv("KUBERNETES_SERVICE_PORT");
	assert_ok(
		path_join(x->kubeconfig, sizeof(x->kubeconfig), x->f->dir, "kubeconfig", &err),
		&err);
	x->context = (struct cluster_context){ .loop = &x->n->e->loop,
		.facts = &x->f->facts,
		.reporter = &x->f->reporter,
		.options = { .kubeconfig = x->kubeconfig, .node_name = NODE_NAME },
		.sysfs_root = x->f->dir,
		.started_wall_ns = UINT64_C(1700000000) * NS_PER_SEC,
		.ops = &ops,
		.arg = x };
	*state = x;
	return 0;
}

int cluster_env_teardown(void **state)
{
	struct cluster_env *x = *state;
	void *n = x->n, *f = x->f;
	int r;

	if (x->inited)
		cluster_stop(&x->c);
	r = node_env_teardown(&n); /* runs the loop to its end */
	if (x->inited)
		cluster_fini(&x->c);
	r |= agent_fixture_teardown(&f);
	free(x);
	return r;
}

void cluster_env_kubeconfig(struct cluster_env *x, const char *text)
{
	char ours[512];
	struct error err = ERROR_INIT;

	if (!text) {
		assert_int_equal(unlink(x->kubeconfig), 0);
		return;
	}
	(void)snprintf(ours, sizeof(ours),
		"apiVersion: v1\nkind: Config\ncurrent-context: a\n"
		"contexts: [{name: a, context: {cluster: a, user: a, namespace: gpu}}]\n"
		"clusters: [{name: a, cluster: {server: 'http://127.0.0.1:%u'}}]\n"
		"users: [{name: a, user: {token: secret}}]\n",
		x->n->e->port);
	if (!*text)
		text = ours;
	assert_ok(file_write_atomic(x->kubeconfig, text, strlen(text), 0600, &err), &err);
}

void cluster_env_init(struct cluster_env *x)
{
	cluster_init(&x->c, &x->context);
	x->inited = true;
	x->c.check_again.min_ns = x->c.check_again.max_ns = NS_PER_MS;
}

void cluster_env_open(struct cluster_env *x, const char *object)
{
	cluster_env_kubeconfig(x, "");
	cluster_env_init(x);
	node_env_script(x->n, object);
	cluster_start(&x->c);
	run(x->n->e, &x->n->e->requests, 2);
	assert_int_equal(x->api_ready, 1);
}

void cluster_env_know(struct cluster_env *x, uint32_t n, enum gpu_fault fault)
{
	struct inventory *inv = fixture_inventory(n);

	(void)snprintf(inv->driver_version, sizeof(inv->driver_version), "580.159.04");
	inv->cuda_version = 13000;
	if (n > 0)
		inv->gpus[0].fault = fault;
	agent_fixture_know(x->f, inv, NULL);
}
