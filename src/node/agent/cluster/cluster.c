/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include "node/agent/cluster/patch.h"
#include "node/agent/options.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

/* Opening libcurl takes longer than all that stands between a start and the registration with the
 * kubelet. Unless the config waits for the API server, that comes first. */
#define OPEN_LATER_NS (250 * NS_PER_MS)

static void on_fight(void *arg, uint32_t rounds)
{
	report_event(&((struct agent *)arg)->reporter, EVENT_WARNING, "LabelConflict",
		"somebody else keeps changing the labels that gpusliced writes (%u times); they "
		"are put right ever more slowly",
		rounds);
}

/* --- the startup taint --- */

static void look_at_taint(struct task *t)
{
	const struct agent *a = t->owner;
	const struct agent_cluster *c = &a->cluster;
	CLEANUP(buf_fini) struct buf path = BUF_INIT(1024);
	CLEANUP(freep) char *body = NULL;
	struct error err = ERROR_INIT;
	json_t *patch = NULL;

	if (!c->node || node_object_state(c->node) != NODE_PRESENT ||
		!c->ops->node_ready(c->arg))
		return;
	if (taint_patch(&patch, node_object_taints(c->node), c->options.startup_taint, &err) <
		0) {
		t->trouble = err;
		task_complain(t);
		return;
	}
	if (!patch) {
		task_reached(t);
		return;
	}
	body = json_dumps(patch, JSON_COMPACT);
	json_decref(patch);
	buf_puts(&path, "/api/v1/nodes/");
	api_escape(&path, c->options.node_name);
	buf_puts(&path, "?fieldManager=gpusliced");
	if (body && buf_ok(&path))
		task_send(t, &(struct api_request){ .method = "PATCH",
				     .path = buf_str(&path),
				     .content_type = API_JSON_PATCH,
				     .body = body });
}

static void taint_done(struct task *t, const struct api_reply *reply, const struct error *err)
{
	struct agent_cluster *c = &((struct agent *)t->owner)->cluster;

	if (!err) {
		c->taint_removed_wall_ns = time_wall_ns();
		log_info("startup taint removed", LOG_STR("key", c->options.startup_taint));
		return;
	}
	/* Taints of others change at any moment: the watch tells, and we look again. */
	if ((reply->status != 409 && reply->status != 422) || task_fails_often(t))
		task_complain(t);
}

const struct error *agent_taint_down(const struct agent *a)
{
	const struct task *t = &a->cluster.taint;

	return task_is_fault(t) && *t->told ? &t->trouble : NULL;
}

/* --- the node condition --- */

static void on_condition_done(void *arg, const struct error *err)
{
	report_component(&((struct agent *)arg)->reporter, COMPONENT_NODE_CONDITION, err);
}

static void look_at_condition(struct agent *a)
{
	struct node_repair want;

	if (!*a->cluster.options.node_condition)
		return;
	node_repair(&a->facts.node, &a->facts.config->health, &want);
	condition_writer_set(&a->cluster.condition, &want);
}

/* --- our Node --- */

void agent_cluster_look(struct agent *a)
{
	agent_labels_look(a);
	look_at_condition(a);
	if (*a->cluster.options.startup_taint && a->cluster.ops->node_ready(a->cluster.arg))
		task_poke(&a->cluster.taint);
}

static void on_node(void *arg)
{
	struct agent *a = arg;
	struct agent_cluster *c = &a->cluster;

	c->ops->node_changed(c->arg);
	agent_cluster_look(a);
	condition_writer_look(&c->condition);
}

static void on_node_condition(void *arg)
{
	condition_writer_look(&((struct agent *)arg)->cluster.condition);
}

static const struct node_object_ops node_ops = { .changed = on_node,
	.condition_changed = on_node_condition };

const char *agent_cluster_trouble(const struct agent *a)
{
	const struct agent_cluster *c = &a->cluster;

	if (!c->node)
		return c->why.code ? c->why.msg : "the API server is not asked yet";
	if (node_object_trouble(c->node)->code != ERR_NONE)
		return node_object_trouble(c->node)->msg;
	return node_object_state(c->node) == NODE_ABSENT ? "there is no Node of our name" : "";
}

const struct error *agent_cluster_down(const struct agent *a)
{
	const struct agent_cluster *c = &a->cluster;
	bool labels = c->options.labels == LABELS_NODE || c->options.labels == LABELS_NFD;

	if (c->api)
		return &c->why;
	/* No pod, and nothing was asked for: that is no fault. */
	return c->why.code == ERR_NOT_FOUND && !*c->options.kubeconfig && !labels ? NULL
										  : &c->why;
}

/* --- opening --- */

static void cannot_use(struct agent *a, const struct error *why)
{
	a->cluster.possible = false;
	a->cluster.why = *why;
	a->cluster.ops->api_unavailable(a->cluster.arg, why);
}

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

static const char *get_env(const char *name)
{
	return getenv(name);
}

/* Yours: api_config_fini(). @err is not NULL. */
static int read_credentials(const struct agent_cluster_options *o, struct api_config *ret,
	struct error *err)
{
	int r = *o->kubeconfig ? api_config_kubeconfig(ret, o->kubeconfig, err)
			       : api_config_in_cluster(ret, NULL, get_env, err);

	if (r < 0 || api_config_probe(ret, err) == 0)
		return r;
	api_config_fini(ret);
	err->code = ERR_INVALID; /* a file that is missing does not mean that this is no pod */
	return -1;
}

/* Where the server is, and our namespace. On an error *ret_lasts says whether that will ever be
 * otherwise: the files of a node that is just set up come later than we, and may be half written. */
static int find_server(struct agent_cluster *c, bool *ret_lasts, struct error *err)
{
	const struct agent_cluster_options *o = &c->options;
	struct error why = ERROR_INIT;
	int r = read_credentials(o, &c->config, &why);

	*ret_lasts = false;
	if (r < 0 && !*o->kubeconfig && why.code == ERR_NOT_FOUND) {
		*ret_lasts = true;
		return error_set(err, ERR_NOT_FOUND,
			"no API server is known: this is no pod, and --kubeconfig is not given");
	}
	if (r < 0) {
		error_copy(err, &why);
		return -1;
	}
	c->found = true;
	(void)snprintf(c->namespace_, sizeof(c->namespace_), "%s",
		*o->namespace_ ? o->namespace_ : or_empty(c->config.namespace_));
	return 0;
}

static bool find_again(struct agent_cluster *c)
{
	struct error err = ERROR_INIT;
	bool lasts;

	if (c->found || find_server(c, &lasts, &err) == 0)
		return true;
	c->why = err;
	return false;
}

void agent_cluster_retry(struct agent *a)
{
	struct agent_cluster *c = &a->cluster;
	struct api_config now = { .server = NULL };

	/* Before that, on_open() reads them again and again. */
	if (!c->api)
		return;
	error_clear(&c->why);
	if (read_credentials(&c->options, &now, &c->why) < 0)
		error_suffix(&c->why, LAST_VALID "not use the API server");
	api_config_fini(&now);
}

static void on_open(uv_timer_t *t);

static void open_in(struct agent_cluster *c, uint64_t ns)
{
	(void)uv_timer_start(&c->open, on_open, (ns + NS_PER_MS - 1) / NS_PER_MS, 0);
}

static void on_open(uv_timer_t *t)
{
	struct agent *a = t->data;
	struct agent_cluster *c = &a->cluster;
	struct error err = ERROR_INIT;

	if (!find_again(c)) {
		open_in(c, backoff_next(&c->look_again, 0, backoff_random()));
		return;
	}
	if (api_new(&c->api, a->loop, &c->config, "gpusliced/" GPUSLICE_VERSION, &err) < 0 ||
		node_object_start(&c->node, c->api, c->options.node_name,
			c->options.node_condition, &node_ops, a, &err) < 0) {
		log_error("the API server is not used", LOG_STR("reason", err.msg));
		cannot_use(a, &err);
		return;
	}
	error_clear(&c->why);
	log_info("using the API server", LOG_STR("server", api_server(c->api)),
		LOG_STR("node", c->options.node_name));
	c->events.task.api = c->api;
	c->taint.api = c->api;
	c->labels.task.api = c->api;
	c->labels.node = c->node;
	c->condition.task.api = c->api;
	c->condition.node = c->node;
	task_poke(&c->events.task);
	task_poke(&c->labels.task);
	c->ops->api_ready(c->arg, c->api);
}

/* What was asked for that cannot be had without the API server. */
static void say_what_is_missing(const struct agent_options *o, const struct error *why,
	bool lasts)
{
	bool labels = o->cluster.labels == LABELS_NODE || o->cluster.labels == LABELS_NFD;
	bool map = o->config_map && *o->config_map;

	if (labels || map || *or_empty(o->cluster.kubeconfig) || why->code != ERR_NOT_FOUND)
		log_warn(lasts ? "the API server is not used"
			       : "the API server is not used yet, looking for it again",
			LOG_STR("reason", why->msg),
			LOG_STR("without", labels && map ? "the ConfigMap, labels on the node"
					   : map         ? "the ConfigMap"
					   : labels      ? "labels on the node"
							 : "events, startup taint"));
	else if (o->config_dir && *o->config_dir)
		log_info("the node's label is not read", LOG_STR("reason", why->msg));
}

void agent_cluster_init(struct agent *a, const struct cluster_ops *ops, void *arg,
	const struct agent_options *o)
{
	struct agent_cluster *c = &a->cluster;
	struct agent_cluster_options *p = &c->options;
	struct error err = ERROR_INIT;
	bool lasts = false;

	*p = (struct agent_cluster_options){
		.kubeconfig = or_empty(o->cluster.kubeconfig),
		.node_name = or_empty(o->cluster.node_name),
		.namespace_ = or_empty(o->cluster.namespace_),
		.pod_name = or_empty(o->cluster.pod_name),
		.node_label = or_empty(o->cluster.node_label),
		.startup_taint = or_empty(o->cluster.startup_taint),
		.node_condition = or_empty(o->cluster.node_condition),
		.labels = o->cluster.labels,
	};
	c->ops = ops;
	c->arg = arg;
	agent_labels_init(a);
	(void)uv_timer_init(a->loop, &c->open);
	c->open.data = a;
	event_sender_init(&c->events, a->loop);
	task_init(&c->taint, a->loop, "startup taint not removed yet", look_at_taint,
		taint_done);
	c->taint.owner = a;
	condition_writer_init(&c->condition, a->loop);
	c->condition.type = p->node_condition;
	c->condition.done = on_condition_done;
	c->condition.arg = a;
	label_writer_init(&c->labels, a->loop, p->labels);
	c->labels.fight = on_fight;
	c->labels.arg = a;
	c->labels.keep = p->node_label;
	c->labels.node_name = p->node_name;
	c->labels.pod_name = p->pod_name;
	c->labels.namespace_ = c->namespace_;
	c->look_again = (struct backoff)BACKOFF_API;
	(void)snprintf(c->namespace_, sizeof(c->namespace_), "%s", p->namespace_);
	if (find_server(c, &lasts, &err) == 0 && !*p->node_name)
		(void)error_set(&err, ERR_INVALID,
			"the name of this Node is not known: give --node-name or NODE_NAME");
	lasts |= !*p->node_name;
	c->possible = err.code == ERR_NONE || !lasts;
	c->why = err;
	if (err.code != ERR_NONE)
		say_what_is_missing(o, &err, lasts);
	if (c->possible)
		c->events.node = p->node_name;
}

void agent_cluster_start(struct agent *a)
{
	if (a->cluster.possible)
		open_in(&a->cluster, a->facts.decided ? OPEN_LATER_NS : 0);
	else
		a->cluster.ops->api_unavailable(a->cluster.arg, &a->cluster.why);
}

void agent_cluster_stop(struct agent *a)
{
	struct agent_cluster *c = &a->cluster;

	agent_labels_stop(a);
	task_close(&c->events.task);
	task_close(&c->taint);
	task_close(&c->condition.task);
	label_writer_close(&c->labels);
	c->node = node_object_stop(c->node);
	if (c->api)
		c->api = api_free(c->api);
	uv_close((uv_handle_t *)&c->open, NULL);
}

void agent_cluster_fini(struct agent *a)
{
	agent_labels_fini(a);
	label_writer_fini(&a->cluster.labels);
	api_config_fini(&a->cluster.config);
}
