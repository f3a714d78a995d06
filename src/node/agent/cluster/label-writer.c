/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/cluster/label-writer.h"

#include "node/agent/api/patch.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <string.h>
#include <unistd.h>

static const struct label_writer_kind *const kinds[] = {
	[LABELS_OFF] = NULL,
	[LABELS_NODE] = &label_writer_node,
	[LABELS_NFD] = &label_writer_nfd,
	[LABELS_FILE] = &label_writer_file,
};

static void sync_written_labels(struct api_task *t)
{
	struct label_writer *w = (struct label_writer *)t;

	if (w->desired_labels)
		w->kind->sync(w);
}

static void on_label_writer_reply(struct api_task *t, const struct api_reply *reply,
	const struct error *err)
{
	struct label_writer *w = (struct label_writer *)t;

	w->kind->done(w, reply, err);
}

void label_writer_init(struct label_writer *w, uv_loop_t *loop, enum labels_where where)
{
	*w = (struct label_writer){ .where = where,
		.kind = kinds[where],
		.excluded_label = "" };
	w->drift = (struct backoff){ .min_ns = NS_PER_SEC, .max_ns = 300 * NS_PER_SEC };
	task_init(&w->task, loop, "labels not written yet", sync_written_labels,
		on_label_writer_reply);
	w->task.local = where == LABELS_FILE;
}

/* Removes only the agent's own file: another program may have written what is there before the agent writes. */
static void remove_label_file(struct label_writer *w)
{
	if (w->path && w->written_wall_ns != 0)
		(void)unlink(w->path);
	w->written_wall_ns = 0;
}

void label_writer_set(struct label_writer *w, struct labels *desired, const char *file)
{
	bool same = w->desired_labels && labels_equal(w->desired_labels, desired) &&
		    (w->where != LABELS_FILE || (w->path && !strcmp(w->path, file)));

	if (!w->kind || same) {
		(void)labels_free(desired);
		return;
	}
	(void)labels_free(w->desired_labels);
	w->desired_labels = desired;
	w->generation++;
	w->written = false;
	if (w->where == LABELS_FILE && (!w->path || strcmp(w->path, file) != 0)) {
		remove_label_file(w);
		free(w->path);
		w->path = strdup(file);
	}
	/* Ends a rest after the last write. A wait after a failure goes on. */
	if (w->task.last_error.code == ERR_NONE && !w->task.call)
		(void)uv_timer_stop(&w->task.timer);
	task_poke(&w->task);
}

bool label_writer_wrote(struct label_writer *w)
{
	w->written = w->sent == w->generation;
	w->written_ns = time_mono_ns();
	w->written_wall_ns = time_wall_ns();
	w->writes++;
	log_info("labels written", LOG_STR("to", labels_where_text(w->where)),
		LOG_UINT("labels", w->desired_labels->n));
	return w->written;
}

void label_writer_close(struct label_writer *w)
{
	remove_label_file(w);
	task_close(&w->task);
}

void label_writer_fini(struct label_writer *w)
{
	w->desired_labels = labels_free(w->desired_labels);
	json_decref(w->owners);
	free(w->path);
}

/* --- where --- */

static const char *const where_names[] = {
	[LABELS_OFF] = "off",
	[LABELS_NODE] = "node",
	[LABELS_NFD] = "nfd",
	[LABELS_FILE] = "file",
};

bool labels_where_parse(const char *text, enum labels_where *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(where_names); i++) {
		if (!strcmp(text, where_names[i])) {
			*ret = (enum labels_where)i;
			return true;
		}
	}
	return false;
}

const char *labels_where_text(enum labels_where where)
{
	return where_names[where];
}
