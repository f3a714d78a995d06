/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/cluster/cluster.h"

#include "node/agent/api/patch.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

/*
 * Opening libcurl takes longer than everything else between the start and the registration with the kubelet. So
 * the registration comes first, unless the config waits for the API server.
 */
#define OPEN_LATER_NS (250 * NS_PER_MS)

/* --- labels --- */

static void on_label_conflict(void *arg, uint32_t rounds)
{
	report_event(((struct cluster_client *)arg)->c.reporter, EVENT_WARNING, "LabelConflict",
		"somebody else keeps changing the labels that gpusliced writes (%u times); they "
		"are put right ever more slowly",
		rounds);
}

/* The facts cost a file read for each GPU, and change only with the GPUs or the config. */
static int read_label_facts(struct cluster_client *c, struct strv *notes, struct error *err)
{
	struct cluster_labels *labels = &c->label_state;
	const char *file = c->c.facts->config->gfd.machine_type_file;
	char *copy;

	if (labels->machine_file && !strcmp(labels->machine_file, file) &&
		labels->n_gpus == c->c.facts->node.inv->n)
		return strv_copy(notes, &labels->fact_notes, err);
	strv_clear(&labels->fact_notes);
	copy = strdup(file);
	if (!copy || label_facts_read(&labels->facts, file, c->c.sysfs_root,
			     &labels->fact_notes, err) < 0) {
		free(copy);
		return error_nomem(err);
	}
	free(labels->machine_file);
	labels->machine_file = copy;
	labels->n_gpus = c->c.facts->node.inv->n;
	return strv_copy(notes, &labels->fact_notes, err);
}

static int new_node_labels(struct cluster_client *c, struct labels **ret, struct strv *notes,
	struct error *err)
{
	struct cluster_labels *labels = &c->label_state;

	if (read_label_facts(c, notes, err) < 0)
		return -1;
	labels->facts.facts.timestamp_s =
		c->c.facts->config->gfd.no_timestamp ? 0 : c->c.started_wall_ns / NS_PER_SEC;
	return labels_new(ret, c->c.facts->node.inv, c->c.facts->config, &labels->facts.facts,
		notes, err);
}

static void log_notes(struct cluster_labels *labels, struct strv *notes)
{
	struct strv old = labels->notes;

	for (size_t i = 0; i < notes->n; i++) {
		if (!strv_has(&old, notes->v[i]))
			log_warn("labels", LOG_STR("note", notes->v[i]));
	}
	labels->notes = *notes;
	*notes = old;
}

static void update_node_labels(struct cluster_client *c)
{
	struct cluster_labels *s = &c->label_state;
	CLEANUP(strv_fini) struct strv notes = STRV_INIT;
	struct labels *labels = NULL;
	struct error err = ERROR_INIT;

	/* Without the driver, or a config, the last labels stay: they placed the pods that run. */
	if (!c->c.facts->decided || !c->c.facts->nvml_answered ||
		c->c.facts->nvml_down.code != ERR_NONE ||
		c->c.facts->offer_error.code != ERR_NONE)
		return;
	if (new_node_labels(c, &labels, &notes, &err) < 0) {
		if (strcmp(s->error.msg, err.msg) != 0)
			log_error("no labels", LOG_STR("reason", err.msg));
		s->error = err;
		return;
	}
	error_clear(&s->error);
	log_notes(s, &notes);
	label_writer_set(&c->labels, labels, c->c.facts->config->gfd.output_file);
}

static void on_labels_timer(uv_timer_t *t)
{
	struct cluster_client *c = t->data;

	update_node_labels(c);
	task_poke(&c->labels.task); /* the Node may be another one */
}

static void cluster_labels_init(struct cluster_client *c)
{
	(void)uv_timer_init(c->c.loop, &c->label_state.timer);
	c->label_state.timer.data = c;
}

static void cluster_labels_sync(struct cluster_client *c)
{
	/*
	 * A moment later, so that registration with the kubelet comes first, and several changes in a row make
	 * one patch.
	 */
	if (c->labels.kind && !uv_is_active((uv_handle_t *)&c->label_state.timer))
		(void)uv_timer_start(&c->label_state.timer, on_labels_timer, CLUSTER_LABELS_MS,
			0);
}

const struct error *cluster_labels_down(const struct cluster_client *c)
{
	const struct api_task *t = &c->labels.task;

	return c->label_state.error.code == ERR_NONE && task_is_fault(t)
		       ? &t->last_error
		       : &c->label_state.error;
}

static void cluster_labels_stop(struct cluster_client *c)
{
	uv_close((uv_handle_t *)&c->label_state.timer, NULL);
}

static void cluster_labels_fini(struct cluster_client *c)
{
	struct cluster_labels *labels = &c->label_state;

	label_facts_fini(&labels->facts);
	strv_fini(&labels->fact_notes);
	strv_fini(&labels->notes);
	free(labels->machine_file);
}

/* --- the startup taint --- */

static void sync_startup_taint(struct api_task *t)
{
	const struct cluster_client *c = t->owner;
	CLEANUP(buf_fini) struct buf path = BUF_INIT(1024);
	CLEANUP(freep) char *body = NULL;
	struct error err = ERROR_INIT;
	json_t *patch = NULL;

	if (!c->link.node || node_object_state(c->link.node) != NODE_PRESENT ||
		!c->c.ops->node_ready(c->c.arg))
		return;
	if (taint_patch(&patch, node_object_taints(c->link.node), c->c.options.startup_taint,
		    &err) < 0) {
		t->last_error = err;
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
	api_escape(&path, c->link.node_name);
	buf_puts(&path, "?fieldManager=gpusliced");
	if (body && buf_ok(&path))
		task_send(t, &(struct api_request){ .method = "PATCH",
				     .path = buf_str(&path),
				     .content_type = API_JSON_PATCH,
				     .body = body });
}

static void taint_done(struct api_task *t, const struct api_reply *reply,
	const struct error *err)
{
	struct cluster_client *c = t->owner;

	if (!err) {
		c->taint_removed_wall_ns = time_wall_ns();
		log_info("startup taint removed", LOG_STR("key", c->c.options.startup_taint));
		return;
	}
	/* Other taints change at any moment. The watch reports them, and the agent tries again. */
	if ((reply->status != 409 && reply->status != 422) || task_fails_often(t))
		task_complain(t);
}

const struct error *cluster_taint_down(const struct cluster_client *c)
{
	const struct api_task *t = &c->taint;

	return task_is_fault(t) && *t->logged_error ? &t->last_error : NULL;
}

/* --- the node condition --- */

static void on_condition_done(void *arg, const struct error *err)
{
	report_component(((struct cluster_client *)arg)->c.reporter, COMPONENT_NODE_CONDITION,
		err);
}

static void sync_gpu_condition(struct cluster_client *c)
{
	struct node_repair desired;

	if (!*c->c.options.node_condition)
		return;
	node_repair(&c->c.facts->node, &c->c.facts->config->health, &desired);
	condition_writer_set(&c->condition, &desired);
}

/* --- the agent's Node --- */

void cluster_sync(struct cluster_client *c)
{
	cluster_labels_sync(c);
	sync_gpu_condition(c);
	if (*c->c.options.startup_taint && c->c.ops->node_ready(c->c.arg))
		task_poke(&c->taint);
}

static void on_cluster_node_changed(void *arg)
{
	struct cluster_client *c = arg;

	c->c.ops->node_changed(c->c.arg);
	cluster_sync(c);
	condition_writer_wake(&c->condition);
}

static void on_node_condition(void *arg)
{
	condition_writer_wake(&((struct cluster_client *)arg)->condition);
}

static const struct node_object_ops node_ops = { .changed = on_cluster_node_changed,
	.condition_changed = on_node_condition };

const struct error *cluster_down(const struct cluster_client *c)
{
	bool labels = c->c.options.labels == LABELS_NODE || c->c.options.labels == LABELS_NFD;

	if (c->link.api)
		return &c->link.why;
	/* The agent is no pod, and no option needs the API server. That is no fault. */
	return c->link.why.code == ERR_NOT_FOUND && !*c->c.options.kubeconfig && !labels
		       ? NULL
		       : &c->link.why;
}

/* --- opening --- */

static void cannot_use(struct cluster_client *c, const struct error *why)
{
	c->link.possible = false;
	c->link.why = *why;
	c->c.ops->api_unavailable(c->c.arg, why);
}

static const char *namespace_or_empty(const char *text)
{
	return text ? text : "";
}

static const char *get_env(const char *name)
{
	return getenv(name);
}

/* Caller's: api_config_fini(). @err is not NULL. */
static int read_credentials(const struct cluster_options *o, struct api_config *ret,
	struct error *err)
{
	int r = *o->kubeconfig ? api_config_kubeconfig(ret, o->kubeconfig, err)
			       : api_config_in_cluster(ret, NULL, get_env, err);

	if (r < 0 || api_config_probe(ret, err) == 0)
		return r;
	api_config_fini(ret);
	err->code = ERR_INVALID; /* a missing file does not mean that the agent is no pod */
	return -1;
}

/*
 * Finds the API server and the agent's namespace. On an error, *ret_lasts says whether the error is permanent.
 * On a node that is being set up the files may appear after the agent, or be half written.
 */
static int find_api_server(struct cluster_client *c, bool *ret_lasts, struct error *err)
{
	const struct cluster_options *o = &c->c.options;
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
	c->link.found = true;
	(void)snprintf(c->link.namespace_, sizeof(c->link.namespace_), "%s",
		*o->namespace_ ? o->namespace_ : namespace_or_empty(c->config.namespace_));
	return 0;
}

static bool find_api_server_again(struct cluster_client *c)
{
	struct error err = ERROR_INIT;
	bool lasts;

	if (c->link.found || find_api_server(c, &lasts, &err) == 0)
		return true;
	c->link.why = err;
	return false;
}

void cluster_retry(struct cluster_client *c)
{
	struct api_config now = { .server = NULL };

	/* Until the API is open, on_api_open_timer() reads the files again and again. */
	if (!c->link.api)
		return;
	error_clear(&c->link.why);
	if (read_credentials(&c->c.options, &now, &c->link.why) < 0)
		error_suffix(&c->link.why, LAST_VALID "not use the API server");
	api_config_fini(&now);
}

static void on_api_open_timer(uv_timer_t *t);

static void open_in(struct cluster_client *c, uint64_t ns)
{
	(void)uv_timer_start(&c->open, on_api_open_timer, (ns + NS_PER_MS - 1) / NS_PER_MS, 0);
}

static void on_api_open_timer(uv_timer_t *t)
{
	struct cluster_client *c = t->data;
	struct error err = ERROR_INIT;

	if (!find_api_server_again(c)) {
		open_in(c, backoff_next(&c->check_again, 0, backoff_random()));
		return;
	}
	if (api_new(&c->link.api, c->c.loop, &c->config, "gpusliced/" GPUSLICE_VERSION, &err) <
			0 ||
		node_object_start(&c->link.node, c->link.api, c->link.node_name,
			c->c.options.node_condition, &node_ops, c, &err) < 0) {
		log_error("the API server is not used", LOG_STR("reason", err.msg));
		cannot_use(c, &err);
		return;
	}
	error_clear(&c->link.why);
	log_info("using the API server", LOG_STR("server", api_server(c->link.api)),
		LOG_STR("node", c->link.node_name));
	c->events.task.api = c->link.api;
	c->taint.api = c->link.api;
	c->labels.task.api = c->link.api;
	c->labels.node = c->link.node;
	c->condition.task.api = c->link.api;
	c->condition.node = c->link.node;
	task_poke(&c->events.task);
	task_poke(&c->labels.task);
	c->c.ops->api_ready(c->c.arg, c->link.api);
}

/* Logs what the options request and what is not possible without the API server. */
static void report_missing_api(const struct cluster_context *o, const struct error *why,
	bool lasts)
{
	bool labels = o->options.labels == LABELS_NODE || o->options.labels == LABELS_NFD;
	bool map = o->config_map && *o->config_map;

	if (labels || map || *namespace_or_empty(o->options.kubeconfig) ||
		why->code != ERR_NOT_FOUND)
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

void cluster_init(struct cluster_client *c, const struct cluster_context *context)
{
	const struct cluster_options *o = &context->options;
	struct cluster_options *p = &c->c.options;
	struct error err = ERROR_INIT;
	bool lasts = false;

	*c = (struct cluster_client){ .c = *context };
	*p = (struct cluster_options){
		.kubeconfig = namespace_or_empty(o->kubeconfig),
		.node_name = namespace_or_empty(o->node_name),
		.namespace_ = namespace_or_empty(o->namespace_),
		.pod_name = namespace_or_empty(o->pod_name),
		.node_label = namespace_or_empty(o->node_label),
		.startup_taint = namespace_or_empty(o->startup_taint),
		.node_condition = namespace_or_empty(o->node_condition),
		.labels = o->labels,
	};
	c->link.node_name = p->node_name;
	c->link.pod_name = p->pod_name;
	cluster_labels_init(c);
	(void)uv_timer_init(c->c.loop, &c->open);
	c->open.data = c;
	event_sender_init(&c->events, c->c.loop);
	task_init(&c->taint, c->c.loop, "startup taint not removed yet", sync_startup_taint,
		taint_done);
	c->taint.owner = c;
	condition_writer_init(&c->condition, c->c.loop);
	c->condition.type = p->node_condition;
	c->condition.done = on_condition_done;
	c->condition.arg = c;
	label_writer_init(&c->labels, c->c.loop, p->labels);
	c->labels.on_conflict = on_label_conflict;
	c->labels.arg = c;
	c->labels.excluded_label = p->node_label;
	c->labels.node_name = p->node_name;
	c->labels.pod_name = p->pod_name;
	c->labels.namespace_ = c->link.namespace_;
	c->check_again = (struct backoff)BACKOFF_API;
	(void)snprintf(c->link.namespace_, sizeof(c->link.namespace_), "%s", p->namespace_);
	if (find_api_server(c, &lasts, &err) == 0 && !*p->node_name)
		(void)error_set(&err, ERR_INVALID,
			"the name of this Node is not known: give --node-name or NODE_NAME");
	lasts |= !*p->node_name;
	c->link.possible = err.code == ERR_NONE || !lasts;
	c->link.why = err;
	if (err.code != ERR_NONE)
		report_missing_api(&c->c, &err, lasts);
	if (c->link.possible)
		c->events.node = p->node_name;
}

void cluster_start(struct cluster_client *c)
{
	if (c->link.possible)
		open_in(c, c->c.facts->decided ? OPEN_LATER_NS : 0);
	else
		c->c.ops->api_unavailable(c->c.arg, &c->link.why);
}

void cluster_stop(struct cluster_client *c)
{
	cluster_labels_stop(c);
	task_close(&c->events.task);
	task_close(&c->taint);
	task_close(&c->condition.task);
	label_writer_close(&c->labels);
	c->link.node = node_object_stop(c->link.node);
	if (c->link.api)
		c->link.api = api_free(c->link.api);
	uv_close((uv_handle_t *)&c->open, NULL);
}

void cluster_fini(struct cluster_client *c)
{
	cluster_labels_fini(c);
	label_writer_fini(&c->labels);
	api_config_fini(&c->config);
}
