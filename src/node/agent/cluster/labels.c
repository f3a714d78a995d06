/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include "lib/base/time.h"

#include <string.h>

/* Facts cost a file for each GPU, and change with the GPUs or the config only. */
static int read_facts(struct agent *a, struct strv *notes, struct error *err)
{
	struct agent_label_state *s = &a->labels;
	const char *file = a->facts.config->gfd.machine_type_file;
	char *copy;

	if (s->machine_file && !strcmp(s->machine_file, file) &&
		s->n_gpus == a->facts.node.inv->n)
		return strv_copy(notes, &s->fact_notes, err);
	strv_clear(&s->fact_notes);
	copy = strdup(file);
	if (!copy ||
		label_facts_read(&s->facts, file, a->sysfs_root, &s->fact_notes, err) < 0) {
		free(copy);
		return error_nomem(err);
	}
	free(s->machine_file);
	s->machine_file = copy;
	s->n_gpus = a->facts.node.inv->n;
	return strv_copy(notes, &s->fact_notes, err);
}

static int make(struct agent *a, struct labels **ret, struct strv *notes, struct error *err)
{
	struct agent_label_state *s = &a->labels;

	if (read_facts(a, notes, err) < 0)
		return -1;
	s->facts.facts.timestamp_s =
		a->facts.config->gfd.no_timestamp ? 0 : a->started_wall_ns / NS_PER_SEC;
	return labels_new(ret, a->facts.node.inv, a->facts.config, &s->facts.facts, notes, err);
}

static void log_notes(struct agent_label_state *s, struct strv *notes)
{
	struct strv old = s->notes;

	for (size_t i = 0; i < notes->n; i++) {
		if (!strv_has(&old, notes->v[i]))
			log_warn("labels", LOG_STR("note", notes->v[i]));
	}
	s->notes = *notes;
	*notes = old;
}

static void remake(struct agent *a)
{
	struct agent_label_state *s = &a->labels;
	CLEANUP(strv_fini) struct strv notes = STRV_INIT;
	struct labels *labels = NULL;
	struct error err = ERROR_INIT;

	/* Without the driver, or a config, the last labels stay: pods that run were placed by them. */
	if (!a->facts.decided || !a->facts.nvml_answered ||
		a->facts.nvml_down.code != ERR_NONE || a->facts.offer_error.code != ERR_NONE)
		return;
	if (make(a, &labels, &notes, &err) < 0) {
		if (strcmp(s->error.msg, err.msg) != 0)
			log_error("no labels", LOG_STR("reason", err.msg));
		s->error = err;
		return;
	}
	error_clear(&s->error);
	log_notes(s, &notes);
	label_writer_set(&a->cluster.labels, labels, a->facts.config->gfd.output_file);
}

static void look(uv_timer_t *t)
{
	struct agent *a = t->data;

	remake(a);
	task_poke(&a->cluster.labels.task); /* the Node may be another one */
}

void agent_labels_init(struct agent *a)
{
	(void)uv_timer_init(a->loop, &a->labels.timer);
	a->labels.timer.data = a;
}

void agent_labels_look(struct agent *a)
{
	/* A moment later: registering with the kubelet comes first, and several changes in a row
	 * make one patch. */
	if (a->cluster.labels.kind && !uv_is_active((uv_handle_t *)&a->labels.timer))
		(void)uv_timer_start(&a->labels.timer, look, AGENT_LABELS_MS, 0);
}

const struct error *agent_labels_down(const struct agent *a)
{
	const struct task *t = &a->cluster.labels.task;

	return a->labels.error.code == ERR_NONE && task_is_fault(t) ? &t->trouble
								    : &a->labels.error;
}

void agent_labels_stop(struct agent *a)
{
	uv_close((uv_handle_t *)&a->labels.timer, NULL);
}

void agent_labels_fini(struct agent *a)
{
	struct agent_label_state *s = &a->labels;

	label_facts_fini(&s->facts);
	strv_fini(&s->fact_notes);
	strv_fini(&s->notes);
	free(s->machine_file);
}
