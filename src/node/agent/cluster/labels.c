/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/cluster/cluster.h"

#include "lib/base/log.h"
#include "lib/base/time.h"

#include <string.h>

/* The facts cost a file read for each GPU, and change only with the GPUs or the config. */
static int read_label_facts(struct cluster_client *c, struct strv *notes, struct error *err)
{
	struct cluster_labels *s = &c->label_state;
	const char *file = c->c.facts->config->gfd.machine_type_file;
	char *copy;

	if (s->machine_file && !strcmp(s->machine_file, file) &&
		s->n_gpus == c->c.facts->node.inv->n)
		return strv_copy(notes, &s->fact_notes, err);
	strv_clear(&s->fact_notes);
	copy = strdup(file);
	if (!copy ||
		label_facts_read(&s->facts, file, c->c.sysfs_root, &s->fact_notes, err) < 0) {
		free(copy);
		return error_nomem(err);
	}
	free(s->machine_file);
	s->machine_file = copy;
	s->n_gpus = c->c.facts->node.inv->n;
	return strv_copy(notes, &s->fact_notes, err);
}

static int new_node_labels(struct cluster_client *c, struct labels **ret, struct strv *notes,
	struct error *err)
{
	struct cluster_labels *s = &c->label_state;

	if (read_label_facts(c, notes, err) < 0)
		return -1;
	s->facts.facts.timestamp_s =
		c->c.facts->config->gfd.no_timestamp ? 0 : c->c.started_wall_ns / NS_PER_SEC;
	return labels_new(ret, c->c.facts->node.inv, c->c.facts->config, &s->facts.facts, notes,
		err);
}

static void log_notes(struct cluster_labels *s, struct strv *notes)
{
	struct strv old = s->notes;

	for (size_t i = 0; i < notes->n; i++) {
		if (!strv_has(&old, notes->v[i]))
			log_warn("labels", LOG_STR("note", notes->v[i]));
	}
	s->notes = *notes;
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

void cluster_labels_init(struct cluster_client *c)
{
	(void)uv_timer_init(c->c.loop, &c->label_state.timer);
	c->label_state.timer.data = c;
}

void cluster_labels_sync(struct cluster_client *c)
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

void cluster_labels_stop(struct cluster_client *c)
{
	uv_close((uv_handle_t *)&c->label_state.timer, NULL);
}

void cluster_labels_fini(struct cluster_client *c)
{
	struct cluster_labels *s = &c->label_state;

	label_facts_fini(&s->facts);
	strv_fini(&s->fact_notes);
	strv_fini(&s->notes);
	free(s->machine_file);
}
