/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/cluster/label-writer.h"

#include "node/agent/api/patch.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/*
 * The feature file of node feature discovery: "key=value" lines. Node feature discovery reads every file of the
 * directory that does not begin with a dot. The temporary file of an atomic write begins with one.
 */

#define FILE_MAX (64U << 10) /* what node feature discovery reads; bytes */
#define AGAIN_NS (30 * NS_PER_SEC)

/* The labels in the file now. Lines that are no labels are ignored. NULL: no memory. */
static json_t *read_label_file(const char *path)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(FILE_MAX);
	json_t *o = json_object();
	char key[LABEL_KEY_MAX + 1];
	size_t len, eq;

	if (file_read(path, &b, NULL) < 0)
		return o;
	for (const char *line = buf_str(&b); *line; line += len + (line[len] == '\n')) {
		len = strcspn(line, "\n");
		eq = strcspn(line, "=\n");
		if (eq == len || eq >= sizeof(key))
			continue;
		memcpy(key, line, eq);
		key[eq] = '\0';
		(void)json_object_set_new(o, key, json_stringn(line + eq + 1, len - eq - 1));
	}
	return o;
}

static int make_parent(const char *path, struct error *err)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX];

	if (!slash || slash == path)
		return 0;
	(void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
	return dir_make(parent, 0755, err);
}

static int write_labels(struct label_writer *w, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(FILE_MAX);
	json_t *have = read_label_file(w->path);
	bool same = labels_same(w->desired_labels, have);

	json_decref(have);
	w->sent = w->generation;
	if (same) {
		w->written = true;
		if (w->written_wall_ns == 0)
			w->written_wall_ns = time_wall_ns();
		return 0;
	}
	for (size_t i = 0; i < w->desired_labels->n; i++)
		buf_printf(&text, "%s=%s\n", w->desired_labels->v[i].key,
			w->desired_labels->v[i].value);
	if (!buf_ok(&text))
		return error_set(err, ERR_LIMIT, "write '%s': more than %u bytes of labels",
			w->path, FILE_MAX);
	if (make_parent(w->path, err) < 0 ||
		file_write_atomic(w->path, buf_str(&text), text.len, 0644, err) < 0)
		return -1;
	(void)label_writer_wrote(w);
	return 0;
}

static void sync_label_file(struct label_writer *w)
{
	struct error err = ERROR_INIT;

	if (!w->path || !*w->path)
		(void)error_set(&err, ERR_INVALID,
			"no file for the labels: flags.gfd.outputFile is empty");
	else
		(void)write_labels(w, &err);
	if (err.code == ERR_NONE) {
		task_reached(&w->task);
		return;
	}
	w->task.last_error = err;
	task_complain(&w->task);
	task_wait(&w->task, AGAIN_NS);
}

static void on_label_file_reply(struct label_writer *w, const struct api_reply *reply,
	const struct error *err)
{
	(void)w;
	(void)reply;
	(void)err;
}

const struct label_writer_kind label_writer_file = { .sync = sync_label_file,
	.done = on_label_file_reply };
