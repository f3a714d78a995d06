/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/standin.h"

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/log.h"
#include "lib/base/time.h"
#include "testbed/standin/config-volume.h"
#include "testbed/standin/once-timer.h"

#include <stdlib.h>
#include <string.h>

struct mount {
	char *namespace_, *name, *dir;
	uint64_t version; /* version of the ConfigMap last written; 0: none */
};

struct standin {
	uv_loop_t *loop;
	const struct standin_ops *ops;
	void *arg;
	struct rpc *rpc;
	struct simulated_cluster cluster;
	struct kubelet *kubelet;
	char *node_name;
	struct str_map labels;
	struct taint *taints;
	size_t n_taints;
	struct mount *mounts;
	size_t n_mounts;
	struct node_resource *resources;
	struct node_view view;
	struct once_timer *step, *next, *revive;
};

static void on_standin_step(void *arg);

static void request_standin_step(struct standin *s)
{
	if (!s->step)
		s->step = once_timer_start(s->loop, 0, on_standin_step, s);
}

static void on_kubelet_changed(void *arg)
{
	request_standin_step(arg);
}

static const struct kubelet_ops kubelet_ops = { .changed = on_kubelet_changed };

struct simulated_cluster *standin_cluster(struct standin *s)
{
	return &s->cluster;
}

struct kubelet *standin_kubelet(struct standin *s)
{
	return s->kubelet;
}

const struct node_view *standin_node(struct standin *s)
{
	const struct device_manager *devices = kubelet_devices(s->kubelet);
	size_t n = device_manager_n_resources(devices);

	if (!kubelet_runs(s->kubelet))
		return &s->view; /* the last status: only the kubelet writes the node's status */
	if (!ARRAY_EXTEND(&s->resources, 0, n, DEVICE_MANAGER_RESOURCES_MAX))
		n = 0;
	for (size_t i = 0; i < n; i++) {
		struct resource_count count;
		const char *name = device_manager_resource(devices, i);

		(void)device_manager_count(devices, name, &count);
		s->resources[i] = (struct node_resource){ .name = name,
			.capacity = count.capacity,
			.allocatable = count.allocatable };
	}
	s->view.resources = s->resources;
	s->view.n_resources = n;
	s->view.labels = &s->labels;
	s->view.taints = s->taints;
	s->view.n_taints = s->n_taints;
	s->view.name = s->node_name;
	return &s->view;
}

static void on_pod_gone(void *arg, const struct pod *p)
{
	struct standin *s = arg;

	kubelet_pod_gone(s->kubelet, p);
}

static void write_mounts(struct standin *s)
{
	for (size_t i = 0; i < s->n_mounts; i++) {
		struct mount *m = &s->mounts[i];
		const struct config_map *c =
			cluster_config_map(&s->cluster, m->namespace_, m->name);
		struct error err = ERROR_INIT;

		/* A deleted ConfigMap stays in the volume, as with the kubelet. */
		if (!c || c->version == m->version)
			continue;
		m->version = c->version;
		if (config_volume_write(m->dir, &c->data, &err) < 0)
			log_error("cannot write a ConfigMap volume", LOG_STR("dir", m->dir),
				LOG_STR("reason", err.msg));
	}
}

static void on_pod_timer(void *arg)
{
	struct standin *s = arg;

	s->next = NULL;
	request_standin_step(s);
}

static void on_standin_step(void *arg)
{
	struct standin *s = arg;
	uint64_t now = time_mono_ns(), next;

	s->step = NULL;
	write_mounts(s);
	/* One pass may make room for the next (a scale-down frees devices): repeat until nothing changes, 8
	 * times at most. */
	for (int i = 0; i < 8; i++) {
		if (!cluster_step(&s->cluster, standin_node(s), now, on_pod_gone, s, &next))
			break;
	}
	kubelet_step(s->kubelet);
	s->next = once_timer_cancel(s->next);
	if (next != UINT64_MAX)
		s->next =
			once_timer_start(s->loop, next > now ? next - now : 0, on_pod_timer, s);
	if (s->ops && s->ops->changed)
		s->ops->changed(s->arg);
}

static int copy_options(struct standin *s, const struct standin_options *o, struct error *err)
{
	s->node_name = strdup(o->node_name ? o->node_name : "node-1");
	s->taints = calloc(o->n_taints ? o->n_taints : 1, sizeof(*s->taints));
	s->mounts = calloc(o->n_mounts ? o->n_mounts : 1, sizeof(*s->mounts));
	if (!s->node_name || !s->taints || !s->mounts)
		return error_nomem(err);
	s->view.max_pods = o->max_pods ? o->max_pods : SCHEDULER_MAX_PODS;
	for (size_t i = 0; i < o->n_taints; i++) {
		struct taint *t = &s->taints[s->n_taints++];

		t->key = strdup(o->taints[i].key);
		t->value = strdup(o->taints[i].value);
		t->effect = strdup(o->taints[i].effect);
		if (!t->key || !t->value || !t->effect)
			return error_nomem(err);
	}
	for (size_t i = 0; i < o->n_mounts; i++) {
		struct mount *m = &s->mounts[s->n_mounts++];

		m->namespace_ = strdup(o->mounts[i].namespace_);
		m->name = strdup(o->mounts[i].name);
		m->dir = strdup(o->mounts[i].dir);
		if (!m->namespace_ || !m->name || !m->dir)
			return error_nomem(err);
	}
	if (str_map_set(&s->labels, "kubernetes.io/hostname", s->node_name, err) < 0)
		return -1;
	for (size_t i = 0; o->labels && i < o->labels->n; i++) {
		if (str_map_set(&s->labels, o->labels->v[i].key, o->labels->v[i].value, err) <
			0)
			return -1;
	}
	return 0;
}

int standin_start(struct standin **ret, uv_loop_t *loop, const struct standin_options *options,
	const struct standin_ops *ops, void *arg, struct error *err)
{
	struct kubelet_options kubelet = { .dir = options->dir,
		.align_numa = options->align_numa };
	struct standin *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	s->loop = loop;
	s->ops = ops;
	s->arg = arg;
	if (copy_options(s, options, err) < 0 || rpc_new(&s->rpc, loop, err) < 0 ||
		kubelet_new(&s->kubelet, s->rpc, loop, &kubelet, &s->cluster, &kubelet_ops, s,
			err) < 0 ||
		kubelet_start(s->kubelet, err) < 0) {
		s = standin_stop(s);
		return -1;
	}
	*ret = s;
	return 0;
}

struct standin *standin_stop(struct standin *s)
{
	if (!s)
		return NULL;
	s->kubelet = kubelet_free(s->kubelet);
	s->step = once_timer_cancel(s->step);
	s->next = once_timer_cancel(s->next);
	s->revive = once_timer_cancel(s->revive);
	s->rpc = rpc_free(s->rpc);
	cluster_free_objects(&s->cluster);
	free(s->node_name);
	str_map_fini(&s->labels);
	for (size_t i = 0; i < s->n_taints; i++) {
		free(s->taints[i].key);
		free(s->taints[i].value);
		free(s->taints[i].effect);
	}
	free(s->taints);
	for (size_t i = 0; i < s->n_mounts; i++) {
		free(s->mounts[i].namespace_);
		free(s->mounts[i].name);
		free(s->mounts[i].dir);
	}
	free(s->mounts);
	free(s->resources);
	free(s);
	return NULL;
}

static int add_result_line(struct strv *lines, const struct object *o, const char *what,
	struct error *err)
{
	CLEANUP(freep) char *text = NULL;

	if (!lines)
		return 0;
	if (asprintf(&text, "%s/%s %s", object_kind_arg(o->kind), o->name, what) < 0) {
		text = NULL;
		return error_nomem(err);
	}
	return strv_add(lines, text, err);
}

int standin_apply(struct standin *s, const struct manifest *m, struct strv *lines,
	struct error *err)
{
	enum cluster_verb verb = CLUSTER_UNCHANGED;

	request_standin_step(s);
	for (size_t i = 0; i < m->n; i++) {
		if (cluster_apply(&s->cluster, &m->objects[i], time_mono_ns(), &verb, err) <
				0 ||
			add_result_line(lines, &m->objects[i], cluster_verb_name(verb), err) <
				0)
			return -1;
	}
	return 0;
}

int standin_delete(struct standin *s, enum object_kind kind, const char *namespace_,
	const char *name, struct error *err)
{
	request_standin_step(s);
	return cluster_delete(&s->cluster, kind, namespace_, name, on_pod_gone, s, err);
}

int standin_delete_all(struct standin *s, const struct manifest *m, struct strv *lines,
	struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct object *o = &m->objects[i];

		if (standin_delete(s, o->kind, o->namespace_, o->name, err) < 0)
			rc = -1; /* continues with the rest, as kubectl does */
		else if (add_result_line(lines, o, "deleted", err) < 0)
			return -1;
	}
	return rc;
}

int standin_scale(struct standin *s, const char *namespace_, const char *name,
	uint32_t replicas, struct error *err)
{
	request_standin_step(s);
	return cluster_scale(&s->cluster, namespace_, name, replicas, err);
}

int standin_label(struct standin *s, const char *key, const char *value, struct error *err)
{
	if (!label_key_valid(key))
		return error_set(err, ERR_INVALID, "metadata.labels: Invalid value: \"%.120s\"",
			key);
	if (value && !label_value_valid(value))
		return error_set(err, ERR_INVALID, "metadata.labels: Invalid value: \"%.120s\"",
			value);
	request_standin_step(s);
	if (value)
		return str_map_set(&s->labels, key, value, err);
	str_map_remove(&s->labels, key);
	return 0;
}

static void on_revive(void *arg)
{
	struct standin *s = arg;
	struct error err = ERROR_INIT;

	s->revive = NULL;
	if (kubelet_start(s->kubelet, &err) < 0)
		log_error("the kubelet cannot start again", LOG_STR("reason", err.msg));
}

void standin_kill(struct standin *s, bool killed)
{
	s->revive = once_timer_cancel(s->revive);
	kubelet_stop(s->kubelet, killed);
	request_standin_step(s);
}

int standin_revive(struct standin *s, struct error *err)
{
	s->revive = once_timer_cancel(s->revive);
	return kubelet_start(s->kubelet, err);
}

int standin_restart(struct standin *s, uint64_t down_ns, bool killed, struct error *err)
{
	standin_kill(s, killed);
	if (down_ns == 0)
		return standin_revive(s, err);
	s->revive = once_timer_start(s->loop, down_ns, on_revive, s);
	return s->revive ? 0 : error_nomem(err);
}
