/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/config/source/internal.h"

#include "node/agent/config/source/watch.h"
#include "lib/base/fd.h"
#include "io/config/config.h"

#include <string.h>

int config_source_init(struct config_source *s, const struct config_source_kind *kind,
	const struct config_source_ops *ops, void *arg, const char *text, struct error *err)
{
	char *copy = strdup(text);

	if (!copy)
		return error_nomem(err);
	*s = (struct config_source){ .kind = kind, .ops = ops, .arg = arg, .text = copy };
	return 0;
}

void config_source_changed(struct config_source *s)
{
	s->ops->changed(s->arg);
}

struct config_source *config_source_stop(struct config_source *s)
{
	if (!s)
		return NULL;
	free(s->text);
	s->text = NULL;
	s->kind->stop(s);
	return NULL;
}

int config_source_names(struct config_source *s, struct strv *names, struct error *err)
{
	return s->kind->names(s, names, err);
}

int config_source_read(struct config_source *s, const char *name, struct buf *text,
	struct error *err)
{
	return s->kind->read(s, name, text, err);
}

void config_source_check(struct config_source *s)
{
	s->kind->check(s);
}

bool config_source_is_file(const struct config_source *s)
{
	return s->kind->single;
}

const struct error *config_source_error(const struct config_source *s)
{
	return s->kind->get_error ? s->kind->get_error(s) : NULL;
}

const char *config_source_text(const struct config_source *s)
{
	return s->text;
}

/* --- one file --- */

struct file_source {
	struct config_source source;
	struct config_watch *watch;
};

static int file_names(struct config_source *s, struct strv *names, struct error *err)
{
	(void)s;
	(void)names;
	(void)err;
	return 0;
}

static int file_text(struct config_source *s, const char *name, struct buf *text,
	struct error *err)
{
	const struct file_source *f = (struct file_source *)s;
	const char *data;
	size_t len;

	(void)name;
	if (config_watch_text(f->watch, &data, &len, err) < 0)
		return -1;
	buf_add(text, data, len);
	return 0;
}

static void check_config_source_file(struct config_source *s)
{
	config_watch_check(((struct file_source *)s)->watch, /* force= */ true);
}

static void file_stop(struct config_source *s)
{
	struct file_source *f = (struct file_source *)s;

	f->watch = config_watch_stop(f->watch);
	free(f);
}

static void on_config_file_changed(void *arg)
{
	config_source_changed(arg);
}

static const struct config_source_kind file_kind = {
	.names = file_names,
	.read = file_text,
	.check = check_config_source_file,
	.stop = file_stop,
	.single = true,
};

static const struct config_watch_ops file_ops = { .changed = on_config_file_changed };

int config_source_file(struct config_source **ret, uv_loop_t *loop, const char *path,
	const struct buf *text, const struct config_source_ops *ops, void *arg,
	struct error *err)
{
	CLEANUP(freep) struct file_source *f = calloc(1, sizeof(*f));

	if (!f)
		return error_nomem(err);
	if (config_source_init(&f->source, &file_kind, ops, arg, path, err) < 0)
		return -1;
	if (config_watch_start(&f->watch, loop, path, buf_str(text), text->len, &file_ops, f,
		    err) < 0) {
		free(f->source.text);
		return -1;
	}
	*ret = &STEAL_PTR(f)->source;
	return 0;
}
