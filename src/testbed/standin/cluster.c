/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/cluster.h"

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The letters of generated names in Kubernetes: no vowels, no similar letters. */
static const char name_letters[] = "bcdfghjklmnpqrstvwxz2456789";

const char *cluster_verb_name(enum cluster_verb v)
{
	static const char *const names[] = { "created", "configured", "unchanged" };

	return names[v];
}

static void deployment_fini(struct deployment *d)
{
	free(d->name);
	free(d->namespace_);
	free(d->hash);
	str_map_fini(&d->labels);
	str_map_fini(&d->selector);
	d->template_ = pod_spec_unref(d->template_);
}

static void config_map_fini(struct config_map *m)
{
	free(m->name);
	free(m->namespace_);
	str_map_fini(&m->data);
}

void cluster_free_objects(struct simulated_cluster *c)
{
	for (size_t i = 0; i < c->n_pods; i++)
		c->pods[i] = pod_free(c->pods[i]);
	free(c->pods);
	for (size_t i = 0; i < c->n_deployments; i++)
		deployment_fini(&c->deployments[i]);
	free(c->deployments);
	for (size_t i = 0; i < c->n_config_maps; i++)
		config_map_fini(&c->config_maps[i]);
	free(c->config_maps);
	*c = (struct simulated_cluster){ 0 };
}

static bool has_object_name(const char *namespace_, const char *name,
	const char *want_namespace, const char *want)
{
	return strcmp(name, want) == 0 &&
	       (!want_namespace || strcmp(namespace_, want_namespace) == 0);
}

/* @namespace_ NULL: any. */
static struct pod *cluster_pod(const struct simulated_cluster *c, const char *namespace_,
	const char *name)
{
	for (size_t i = 0; i < c->n_pods; i++) {
		if (has_object_name(c->pods[i]->namespace_, c->pods[i]->name, namespace_, name))
			return c->pods[i];
	}
	return NULL;
}

struct pod *cluster_pod_by_uid(const struct simulated_cluster *c, const char *uid)
{
	for (size_t i = 0; i < c->n_pods; i++) {
		if (strcmp(c->pods[i]->uid, uid) == 0)
			return c->pods[i];
	}
	return NULL;
}

static struct deployment *cluster_deployment(const struct simulated_cluster *c,
	const char *namespace_, const char *name)
{
	for (size_t i = 0; i < c->n_deployments; i++) {
		if (has_object_name(c->deployments[i].namespace_, c->deployments[i].name,
			    namespace_, name))
			return &c->deployments[i];
	}
	return NULL;
}

static struct config_map *find_config_map(const struct simulated_cluster *c,
	const char *namespace_, const char *name)
{
	for (size_t i = 0; i < c->n_config_maps; i++) {
		if (has_object_name(c->config_maps[i].namespace_, c->config_maps[i].name,
			    namespace_, name))
			return &c->config_maps[i];
	}
	return NULL;
}

const struct config_map *cluster_config_map(const struct simulated_cluster *c,
	const char *namespace_, const char *name)
{
	return find_config_map(c, namespace_, name);
}

struct pod *cluster_next_bound(const struct simulated_cluster *c)
{
	for (size_t i = 0; i < c->n_pods; i++) {
		if (c->pods[i]->phase == POD_BOUND)
			return c->pods[i];
	}
	return NULL;
}

static bool owned_by(const struct pod *p, const struct deployment *d)
{
	return p->owner && strcmp(p->owner, d->name) == 0 &&
	       strcmp(p->namespace_, d->namespace_) == 0;
}

struct pod_counts cluster_count_pods(const struct simulated_cluster *c,
	const struct deployment *d)
{
	struct pod_counts t = { 0 };

	for (size_t i = 0; i < c->n_pods; i++) {
		const struct pod *p = c->pods[i];

		if (d && !owned_by(p, d))
			continue;
		t.total++;
		t.pending += p->phase == POD_PENDING;
		t.starting += p->phase == POD_BOUND || p->phase == POD_ADMITTING;
		t.running += p->phase == POD_RUNNING;
		t.failed += p->phase == POD_FAILED;
	}
	return t;
}

/* --- names --- */

static uint32_t hash_name_fnv32(uint32_t h, const char *text)
{
	for (; text && *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619U;
	return (h ^ 0xffU) * 16777619U;
}

static uint32_t hash_template(const struct pod_spec *s)
{
	uint32_t h = 2166136261U;
	char number[16];

	for (size_t i = 0; i < s->labels.n; i++)
		h = hash_name_fnv32(hash_name_fnv32(h, s->labels.v[i].key),
			s->labels.v[i].value);
	for (size_t i = 0; i < s->node_selector.n; i++)
		h = hash_name_fnv32(hash_name_fnv32(h, s->node_selector.v[i].key),
			s->node_selector.v[i].value);
	for (size_t i = 0; i < s->n_tolerations; i++)
		h = hash_name_fnv32(hash_name_fnv32(h, s->tolerations[i].key),
			s->tolerations[i].value);
	for (size_t i = 0; i < s->n_containers; i++) {
		const struct container *c = &s->containers[i];

		h = hash_name_fnv32(hash_name_fnv32(h, c->name), c->image);
		for (size_t k = 0; k < c->n_requests; k++) {
			(void)snprintf(number, sizeof(number), "%u", c->requests[k].n);
			h = hash_name_fnv32(hash_name_fnv32(h, c->requests[k].resource),
				number);
		}
		for (size_t k = 0; k < c->env.n; k++)
			h = hash_name_fnv32(hash_name_fnv32(h, c->env.v[k].key),
				c->env.v[k].value);
	}
	return h;
}

/* The pod-template-hash as ComputeHash() and SafeEncodeString() of Kubernetes write it. */
static char *template_hash(const struct pod_spec *s)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", hash_template(s));
	for (char *p = text; *p; p++)
		*p = name_letters[(unsigned char)*p % (sizeof(name_letters) - 1)];
	return strdup(text);
}

static void format_pod_suffix(char ret[6], const struct deployment *d, uint64_t serial)
{
	uint64_t h = hash_name_fnv32(hash_name_fnv32(2166136261U, d->name), d->hash);

	h = (h + serial * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
	h ^= h >> 29;
	for (int i = 0; i < 5; i++, h /= sizeof(name_letters) - 1)
		ret[i] = name_letters[h % (sizeof(name_letters) - 1)];
	ret[5] = '\0';
}

static char *pod_name(const struct deployment *d, uint64_t serial)
{
	char tail[6], *name = NULL;
	/* Kubernetes truncates the base of a generated name to 58 characters. */
	int base = (int)strlen(d->name), room = 57 - (int)strlen(d->hash);

	format_pod_suffix(tail, d, serial);
	if (base > room)
		base = room;
	if (asprintf(&name, "%.*s-%s-%s", base, d->name, d->hash, tail) < 0)
		return NULL;
	return name;
}

/* --- pods --- */

static int add_cluster_pod(struct simulated_cluster *c, struct pod *p, struct error *err)
{
	if (c->n_pods == CLUSTER_PODS_MAX)
		return error_set(err, ERR_LIMIT, "more than %d pods", CLUSTER_PODS_MAX);
	if (!ARRAY_GROW(&c->pods, c->n_pods, &c->room_pods, CLUSTER_PODS_MAX))
		return error_nomem(err);
	c->pods[c->n_pods++] = p;
	return 0;
}

static void remove_pod(struct simulated_cluster *c, size_t i, cluster_gone_fn gone, void *arg)
{
	if (gone)
		gone(arg, c->pods[i]);
	c->pods[i] = pod_free(c->pods[i]);
	memmove(&c->pods[i], &c->pods[i + 1], (c->n_pods - i - 1) * sizeof(struct pod *));
	c->n_pods--;
}

static int create_owned(struct simulated_cluster *c, struct deployment *d, uint64_t now_ns,
	struct error *err)
{
	CLEANUP(freep) char *name = NULL;
	struct pod *p;

	for (;;) {
		free(name);
		name = pod_name(d, d->serial++);
		if (!name)
			return error_nomem(err);
		if (!cluster_pod(c, d->namespace_, name))
			break;
	}
	if (pod_new(&p, d->namespace_, name, ++c->serial, d->template_, now_ns, err) < 0)
		return -1;
	p->owner = strdup(d->name);
	p->hash = strdup(d->hash);
	if (!p->owner || !p->hash || add_cluster_pod(c, p, err) < 0) {
		p = pod_free(p);
		return error_nomem(err);
	}
	return 0;
}

/* --- apply, delete, scale --- */

static int apply_pod(struct simulated_cluster *c, const struct object *o, uint64_t now_ns,
	enum cluster_verb *ret, struct error *err)
{
	struct pod *p = cluster_pod(c, o->namespace_, o->name);

	if (p) {
		if (!pod_spec_equal(p->spec, o->spec))
			return error_set(err, ERR_INVALID,
				"The Pod \"%s\" is invalid: spec: Forbidden: pod updates may not change "
				"fields other than `spec.containers[*].image`, "
				"`spec.activeDeadlineSeconds` and few others",
				o->name);
		*ret = CLUSTER_UNCHANGED;
		return 0;
	}
	if (pod_new(&p, o->namespace_, o->name, ++c->serial, o->spec, now_ns, err) < 0)
		return -1;
	if (add_cluster_pod(c, p, err) < 0) {
		p = pod_free(p);
		return -1;
	}
	*ret = CLUSTER_CREATED;
	return 0;
}

static int copy_map(struct str_map *to, const struct str_map *from, struct error *err)
{
	struct str_map m = { 0 };

	for (size_t i = 0; i < from->n; i++) {
		if (str_map_set(&m, from->v[i].key, from->v[i].value, err) < 0) {
			str_map_fini(&m);
			return -1;
		}
	}
	str_map_fini(to);
	*to = m;
	return 0;
}

static bool same_map(const struct str_map *a, const struct str_map *b)
{
	return a->n == b->n && str_map_covers(a, b);
}

static int change_deployment(struct deployment *d, const struct object *o,
	enum cluster_verb *ret, struct error *err)
{
	char *hash;

	if (!same_map(&d->selector, &o->selector))
		return error_set(err, ERR_INVALID,
			"The Deployment \"%s\" is invalid: spec.selector: field is immutable",
			o->name);
	*ret = CLUSTER_UNCHANGED;
	if (d->replicas != o->replicas || !same_map(&d->labels, &o->labels))
		*ret = CLUSTER_CONFIGURED;
	if (!pod_spec_equal(d->template_, o->spec)) {
		hash = template_hash(o->spec);
		if (!hash)
			return error_nomem(err);
		free(d->hash);
		d->hash = hash;
		d->template_ = pod_spec_unref(d->template_);
		d->template_ = pod_spec_ref(o->spec);
		d->not_before_ns = 0;
		*ret = CLUSTER_CONFIGURED;
	}
	d->replicas = o->replicas;
	return copy_map(&d->labels, &o->labels, err);
}

static int apply_deployment(struct simulated_cluster *c, const struct object *o,
	uint64_t now_ns, enum cluster_verb *ret, struct error *err)
{
	struct deployment *d = cluster_deployment(c, o->namespace_, o->name);
	struct deployment fresh = { .replicas = o->replicas, .created_ns = now_ns };

	if (d)
		return change_deployment(d, o, ret, err);
	if (!ARRAY_EXTEND(&c->deployments, c->n_deployments, 1, ARRAY_NO_LIMIT))
		return error_nomem(err);
	fresh.name = strdup(o->name);
	fresh.namespace_ = strdup(o->namespace_);
	fresh.template_ = pod_spec_ref(o->spec);
	fresh.hash = template_hash(o->spec);
	if (!fresh.name || !fresh.namespace_ || !fresh.hash ||
		copy_map(&fresh.labels, &o->labels, err) < 0 ||
		copy_map(&fresh.selector, &o->selector, err) < 0) {
		deployment_fini(&fresh);
		return error_nomem(err);
	}
	c->deployments[c->n_deployments++] = fresh;
	*ret = CLUSTER_CREATED;
	return 0;
}

static int apply_config_map(struct simulated_cluster *c, const struct object *o,
	uint64_t now_ns, enum cluster_verb *ret, struct error *err)
{
	struct config_map *m = find_config_map(c, o->namespace_, o->name);
	struct config_map fresh = { .created_ns = now_ns, .version = 1 };

	if (m) {
		*ret = CLUSTER_UNCHANGED;
		if (same_map(&m->data, &o->data))
			return 0;
		*ret = CLUSTER_CONFIGURED;
		m->version++;
		return copy_map(&m->data, &o->data, err);
	}
	if (!ARRAY_EXTEND(&c->config_maps, c->n_config_maps, 1, ARRAY_NO_LIMIT))
		return error_nomem(err);
	fresh.name = strdup(o->name);
	fresh.namespace_ = strdup(o->namespace_);
	if (!fresh.name || !fresh.namespace_ || copy_map(&fresh.data, &o->data, err) < 0) {
		config_map_fini(&fresh);
		return error_nomem(err);
	}
	c->config_maps[c->n_config_maps++] = fresh;
	*ret = CLUSTER_CREATED;
	return 0;
}

int cluster_apply(struct simulated_cluster *c, const struct object *o, uint64_t now_ns,
	enum cluster_verb *ret, struct error *err)
{
	switch (o->kind) {
	case OBJECT_POD:
		return apply_pod(c, o, now_ns, ret, err);
	case OBJECT_DEPLOYMENT:
		return apply_deployment(c, o, now_ns, ret, err);
	case OBJECT_CONFIG_MAP:
		return apply_config_map(c, o, now_ns, ret, err);
	case OBJECT_NAMESPACE: /* every namespace exists */
		*ret = CLUSTER_UNCHANGED;
		return 0;
	}
	return error_set(err, ERR_INTERNAL, "kind %d", (int)o->kind);
}

static int set_object_not_found(enum object_kind kind, const char *name, struct error *err)
{
	static const char *const plurals[] = {
		[OBJECT_POD] = "pods",
		[OBJECT_DEPLOYMENT] = "deployments.apps",
		[OBJECT_CONFIG_MAP] = "configmaps",
		[OBJECT_NAMESPACE] = "namespaces",
	};

	return error_set(err, ERR_NOT_FOUND, "%s \"%.260s\" not found", plurals[kind], name);
}

static int delete_deployment(struct simulated_cluster *c, struct deployment *d,
	cluster_gone_fn gone, void *arg)
{
	size_t at = (size_t)(d - c->deployments);

	for (size_t i = c->n_pods; i-- > 0;) {
		if (owned_by(c->pods[i], d))
			remove_pod(c, i, gone, arg);
	}
	deployment_fini(d);
	memmove(d, d + 1, (c->n_deployments - at - 1) * sizeof(*d));
	c->n_deployments--;
	return 0;
}

int cluster_delete(struct simulated_cluster *c, enum object_kind kind, const char *namespace_,
	const char *name, cluster_gone_fn gone, void *arg, struct error *err)
{
	struct deployment *d;
	struct config_map *m;

	switch (kind) {
	case OBJECT_POD:
		for (size_t i = 0; i < c->n_pods; i++) {
			if (!has_object_name(c->pods[i]->namespace_, c->pods[i]->name,
				    namespace_, name))
				continue;
			remove_pod(c, i, gone, arg);
			return 0;
		}
		break;
	case OBJECT_DEPLOYMENT:
		d = cluster_deployment(c, namespace_, name);
		if (d)
			return delete_deployment(c, d, gone, arg);
		break;
	case OBJECT_CONFIG_MAP:
		m = find_config_map(c, namespace_, name);
		if (!m)
			break;
		config_map_fini(m);
		memmove(m, m + 1,
			(c->n_config_maps - (size_t)(m - c->config_maps) - 1) * sizeof(*m));
		c->n_config_maps--;
		return 0;
	case OBJECT_NAMESPACE:
		return 0;
	}
	return set_object_not_found(kind, name, err);
}

int cluster_scale(struct simulated_cluster *c, const char *namespace_, const char *name,
	uint32_t replicas, struct error *err)
{
	struct deployment *d = cluster_deployment(c, namespace_, name);

	if (!d)
		return set_object_not_found(OBJECT_DEPLOYMENT, name, err);
	if (replicas > MANIFEST_REPLICAS_MAX)
		return error_set(err, ERR_LIMIT, "%u replicas, the stand-in's limit is %d",
			replicas, MANIFEST_REPLICAS_MAX);
	d->replicas = replicas;
	return 0;
}

/* --- controller --- */

struct rollout {
	uint32_t now;     /* active pods of the present template */
	uint32_t old;     /* active pods of earlier templates */
	uint32_t running; /* of both */
};

static struct rollout count_rollout(const struct simulated_cluster *c,
	const struct deployment *d)
{
	struct rollout r = { 0 };

	for (size_t i = 0; i < c->n_pods; i++) {
		const struct pod *p = c->pods[i];

		if (!owned_by(p, d) || !pod_active(p))
			continue;
		if (strcmp(p->hash, d->hash) == 0)
			r.now++;
		else
			r.old++;
		r.running += p->phase == POD_RUNNING;
	}
	return r;
}

/* The deployment's pod to remove first. As ReplicaSets do: pending before running, the newest first. A pod
 * that the kubelet is admitting counts as running. */
static size_t pick_victim(const struct simulated_cluster *c, const struct deployment *d,
	bool old)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < c->n_pods; i++) {
		const struct pod *p = c->pods[i], *b = best == SIZE_MAX ? NULL : c->pods[best];

		if (!owned_by(p, d) || !pod_active(p) || (strcmp(p->hash, d->hash) != 0) != old)
			continue;
		if (!b || (p->phase == POD_PENDING) >= (b->phase == POD_PENDING))
			best = i;
	}
	return best;
}

static bool drop_old_failures(struct simulated_cluster *c, const struct deployment *d,
	cluster_gone_fn gone, void *arg)
{
	size_t n = 0;
	bool changed = false;

	for (size_t i = c->n_pods; i-- > 0;) {
		if (!owned_by(c->pods[i], d) || c->pods[i]->phase != POD_FAILED ||
			++n <= CLUSTER_FAILED_KEPT)
			continue;
		remove_pod(c, i, gone, arg);
		changed = true;
	}
	return changed;
}

static bool step_deployment(struct simulated_cluster *c, struct deployment *d, uint64_t now_ns,
	cluster_gone_fn gone, void *arg, uint64_t *next_ns)
{
	struct rollout r = count_rollout(c, d);
	uint32_t surge = r.old ? (d->replicas + 3) / 4 : 0; /* 25 %, rounded up */
	uint32_t spare = r.old ? d->replicas / 4 : 0;       /* 25 %, rounded down */
	bool changed = drop_old_failures(c, d, gone, arg);

	for (; r.now > d->replicas; r.now--, changed = true)
		remove_pod(c, pick_victim(c, d, /* old= */ false), gone, arg);
	for (; r.old > 0 && (r.running + spare > d->replicas || d->replicas == 0 ||
				    c->pods[pick_victim(c, d, true)]->phase == POD_PENDING);
		r.old--, changed = true) {
		size_t victim = pick_victim(c, d, /* old= */ true);

		r.running -= c->pods[victim]->phase == POD_RUNNING;
		remove_pod(c, victim, gone, arg);
	}
	if (r.now >= d->replicas || r.now + r.old >= d->replicas + surge)
		return changed;
	if (now_ns < d->not_before_ns) {
		if (d->not_before_ns < *next_ns)
			*next_ns = d->not_before_ns;
		return changed;
	}
	for (; r.now < d->replicas && r.now + r.old < d->replicas + surge; r.now++) {
		if (create_owned(c, d, now_ns, NULL) < 0)
			break;
		changed = true;
	}
	return changed;
}

/* Delays the replacement of a failed pod, so that a deployment does not create pods as fast as they fail. */
static void delay_after_failures(const struct simulated_cluster *c, struct deployment *d,
	uint64_t now_ns)
{
	uint64_t newest = 0;
	uint32_t n = 0;

	for (size_t i = 0; i < c->n_pods; i++) {
		const struct pod *p = c->pods[i];

		if (!owned_by(p, d) || p->phase != POD_FAILED)
			continue;
		n++;
		if (p->serial > newest)
			newest = p->serial;
	}
	if (newest <= d->failed_serial)
		return;
	d->failed_serial = newest;
	d->not_before_ns = now_ns + (NS_PER_SEC << (n > 5 ? 4 : n - 1));
}

static bool schedule_pending_pods(struct simulated_cluster *c, const struct node_view *node,
	uint64_t now_ns)
{
	bool changed = false;

	for (size_t i = 0; i < c->n_pods; i++) {
		CLEANUP(freep) char *why = NULL;
		CLEANUP(freep) char *text = NULL;
		struct pod *p = c->pods[i];

		if (p->phase != POD_PENDING)
			continue;
		if (scheduler_fits(node, c->pods, c->n_pods, p, &why)) {
			changed |= pod_set_status(p, POD_BOUND, NULL, NULL);
			if (asprintf(&text, "Successfully assigned %s/%s to %s", p->namespace_,
				    p->name, node->name) < 0)
				text = NULL;
			pod_event(p, now_ns, false, "Scheduled", "default-scheduler",
				text ? text : "");
		} else if (pod_set_status(p, POD_PENDING, "Unschedulable", why)) {
			pod_event(p, now_ns, true, "FailedScheduling", "default-scheduler",
				why ? why : "");
			changed = true;
		}
	}
	return changed;
}

bool cluster_step(struct simulated_cluster *c, const struct node_view *node, uint64_t now_ns,
	cluster_gone_fn gone, void *arg, uint64_t *ret_next_ns)
{
	bool changed = false;

	*ret_next_ns = UINT64_MAX;
	for (size_t i = 0; i < c->n_deployments; i++) {
		delay_after_failures(c, &c->deployments[i], now_ns);
		changed |=
			step_deployment(c, &c->deployments[i], now_ns, gone, arg, ret_next_ns);
	}
	changed |= schedule_pending_pods(c, node, now_ns);
	return changed;
}
