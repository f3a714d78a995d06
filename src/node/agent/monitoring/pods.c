/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/pods.h"

#include "lib/base/log.h"
#include "lib/base/time.h"

#include <stdlib.h>
#include <string.h>

#define EVERY_NS  (60 * NS_PER_SEC)
#define VALUE_MAX 256 /* bytes; Kubernetes allows 63 */
/* The kubelet knows a static pod by this annotation. The API server has a UID of its own for that pod. */
#define STATIC_UID "kubernetes.io/config.hash"

/* --- a list --- */

static int compare_pod_labels(const void *a, const void *b)
{
	const struct view_label *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : strcmp(x->value, y->value);
}

static void free_label(struct view_label *l)
{
	free((char *)(uintptr_t)l->name);
	free((char *)(uintptr_t)l->value);
}

static int add_label(struct monitoring_pod *p, const char *key, const char *value,
	struct error *err)
{
	struct view_label *l = &p->labels[p->n_labels++];
	char name[VALUE_MAX];

	metrics_label_name(name, sizeof(name), key);
	*l = (struct view_label){ .name = strdup(name), .value = strdup(value) };
	return l->name && l->value ? 0 : error_nomem(err);
}

/* Sorts by name. If two keys have one name, the lesser value stays, so that lists do not differ. */
static void sort_labels(struct monitoring_pod *p)
{
	size_t bytes = 0;
	uint32_t n = 0;

	if (p->n_labels)
		qsort(p->labels, p->n_labels, sizeof(*p->labels), compare_pod_labels);
	for (uint32_t i = 0; i < p->n_labels; i++) {
		bytes += strlen(p->labels[i].name) + strlen(p->labels[i].value);
		if (n == MONITORING_POD_LABELS_MAX || bytes > MONITORING_POD_LABELS_BYTES ||
			(n && !strcmp(p->labels[n - 1].name, p->labels[i].name)))
			free_label(&p->labels[i]);
		else
			p->labels[n++] = p->labels[i];
	}
	p->n_labels = n;
}

static int parse_pod_labels(struct monitoring_pod *p, json_t *labels,
	const struct metrics_label_filter *filter, struct error *err)
{
	const char *key;
	json_t *value;

	p->labels = calloc(json_object_size(labels) + 1, sizeof(*p->labels));
	if (!p->labels)
		return error_nomem(err);
	json_object_foreach(labels, key, value)
	{
		const char *text = json_string_value(value);

		if (text && *key && strlen(text) < VALUE_MAX &&
			metrics_label_filter_has(filter, key) &&
			add_label(p, key, text, err) < 0)
			return -1;
	}
	sort_labels(p);
	return 0;
}

static const char *get_pod_string(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static int parse_listed_pod(struct monitoring_pod_list *l, const json_t *pod,
	const struct metrics_label_filter *filter, struct error *err)
{
	const json_t *meta = json_object_get(pod, "metadata");
	const char *namespace_ = get_pod_string(meta, "namespace"),
		   *name = get_pod_string(meta, "name");
	const char *uid = get_pod_string(json_object_get(meta, "annotations"), STATIC_UID);
	struct monitoring_pod *p = &l->v[l->n];

	uid = uid ? uid : get_pod_string(meta, "uid");
	if (!namespace_ || !name || !uid)
		return 0;
	l->n++;
	*p = (struct monitoring_pod){ .namespace_ = strdup(namespace_),
		.name = strdup(name),
		.uid = strdup(uid) };
	if (!p->namespace_ || !p->name || !p->uid)
		return error_nomem(err);
	return parse_pod_labels(p, json_object_get(meta, "labels"), filter, err);
}

static int compare_listed_pods(const void *a, const void *b)
{
	const struct monitoring_pod *x = a, *y = b;
	int r = strcmp(x->namespace_, y->namespace_);

	return r ? r : strcmp(x->name, y->name);
}

int monitoring_pod_list_make(struct monitoring_pod_list *ret, const json_t *list,
	const struct metrics_label_filter *filter, struct error *err)
{
	const json_t *items = json_object_get(list, "items");
	size_t n = json_array_size(items);
	struct monitoring_pod_list l = { .v = NULL };
	int r = 0;

	if (n > MONITORING_PODS_MAX)
		return error_set(err, ERR_LIMIT, "%zu pods, more than %d", n,
			MONITORING_PODS_MAX);
	l.v = calloc(n + 1, sizeof(*l.v));
	if (!l.v)
		return error_nomem(err);
	for (size_t i = 0; i < n && r == 0; i++)
		r = parse_listed_pod(&l, json_array_get(items, i), filter, err);
	if (r < 0) {
		monitoring_pod_list_fini(&l);
		return -1;
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), compare_listed_pods);
	*ret = l;
	return 0;
}

void monitoring_pod_list_fini(struct monitoring_pod_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct monitoring_pod *p = &l->v[i];

		for (uint32_t k = 0; k < p->n_labels; k++)
			free_label(&p->labels[k]);
		free(p->labels);
		free(p->namespace_);
		free(p->name);
		free(p->uid);
	}
	free(l->v);
	*l = (struct monitoring_pod_list){ .v = NULL };
}

const struct monitoring_pod *monitoring_pod_list_find(const struct monitoring_pod_list *l,
	const char *namespace_, const char *name, const char *uid)
{
	const struct monitoring_pod key = { .namespace_ = (char *)(uintptr_t)namespace_,
		.name = (char *)(uintptr_t)name };
	const struct monitoring_pod *p =
		l->n ? bsearch(&key, l->v, l->n, sizeof(key), compare_listed_pods) : NULL;

	return p && (!*uid || !strcmp(p->uid, uid)) ? p : NULL;
}

/* --- request --- */

/* From the API server's cache: a pod that has just come is in the next list. */
static void request_pod_labels(struct api_task *t)
{
	struct monitoring_pods *p = t->owner;
	CLEANUP(buf_fini) struct buf path = BUF_INIT(2048);

	buf_puts(&path, "/api/v1/pods?fieldSelector=spec.nodeName%3D");
	api_escape(&path, p->node);
	buf_puts(&path, "&resourceVersion=0");
	if (buf_ok(&path))
		task_send(t, &(struct api_request){ .method = "GET", .path = buf_str(&path) });
}

static void on_pod_labels_reply(struct api_task *t, const struct api_reply *reply,
	const struct error *err)
{
	struct monitoring_pods *p = t->owner;
	struct monitoring_pod_list list;
	struct error why = ERROR_INIT;

	p->next_ns = time_mono_ns() + EVERY_NS;
	if (!err && monitoring_pod_list_make(&list, reply->body, p->filter, &why) == 0) {
		task_reached(t);
		monitoring_pod_list_fini(&p->list);
		p->list = list;
		return;
	}
	if (!err)
		t->last_error = why;
	task_complain(t);
}

static bool knows_all(const struct monitoring_pods *p,
	const struct monitoring_allocations *allocations)
{
	for (size_t i = 0; i < allocations->n; i++) {
		const struct monitoring_allocation *allocation = &allocations->v[i];

		if (!monitoring_pod_list_find(&p->list, allocation->namespace_, allocation->pod,
			    allocation->uid))
			return false;
	}
	return true;
}

/* Backs off, as a pod that is gone is in no list. */
static uint64_t get_pod_retry_ns(const struct monitoring_pods *p)
{
	uint64_t ns = p->interval_ns << (p->incomplete_lists < 8 ? p->incomplete_lists : 8);

	return ns < EVERY_NS ? ns : EVERY_NS;
}

void monitoring_pods_sync(struct monitoring_pods *p,
	const struct monitoring_allocations *allocations, uint64_t now_ns)
{
	bool knows = knows_all(p, allocations);

	if (!p->filter || !p->task.api || p->task.call || !allocations->n)
		return;
	if (knows)
		p->incomplete_lists = 0;
	if (now_ns < (knows ? p->next_ns : p->not_before_ns))
		return;
	p->not_before_ns = now_ns + get_pod_retry_ns(p);
	if (!knows)
		p->incomplete_lists++;
	task_poke(&p->task);
}

/* --- life --- */

void monitoring_pods_init(struct monitoring_pods *p, uv_loop_t *loop,
	const struct strv *patterns, const char *node, uint64_t interval_ns)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct error err = ERROR_INIT;

	*p = (struct monitoring_pods){ .node = node, .interval_ns = interval_ns };
	task_init(&p->task, loop, "labels of pods are not read", request_pod_labels,
		on_pod_labels_reply);
	p->task.owner = p;
	if (patterns && metrics_label_filter_new(&p->filter, patterns, &warnings, &err) < 0)
		log_error("labels of pods are left out", LOG_STR("reason", err.msg));
	for (size_t i = 0; i < warnings.n; i++)
		log_warn("metrics", LOG_STR("reason", warnings.v[i]));
}

void monitoring_pods_close(struct monitoring_pods *p)
{
	task_close(&p->task);
}

void monitoring_pods_fini(struct monitoring_pods *p)
{
	monitoring_pod_list_fini(&p->list);
	p->filter = metrics_label_filter_free(p->filter);
}
