/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/health/saver.h"

#include "node/agent/health/saved.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/paths.h"
#include "lib/base/procfs.h"
#include "lib/base/time.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* In the state directory. */
#define KEPT_NAME "health.json"

/*
 * A program can cause any number of XIDs, and the loop blocks on the disk. So the agent writes the file at most
 * this often.
 */
#define WRITE_MS 1000

static int format_health_path(const struct health_saver *s, char path[PATH_MAX],
	struct error *err)
{
	return path_join(path, PATH_MAX, s->state_dir, KEPT_NAME, err);
}

/*
 * The agent ignores a file that it cannot read or parse: no GPU is unhealthy for that reason. The file stays
 * until there is something to save.
 */
void health_saver_start(struct health_saver *s)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(SAVED_HEALTH_FILE_MAX);
	struct error err = ERROR_INIT;
	char path[PATH_MAX];

	procfs_boot_id(s->procfs_root, s->boot, sizeof(s->boot));
	if (format_health_path(s, path, &err) < 0 || file_read(path, &b, &err) < 0 ||
		saved_health_parse(&s->facts->node, buf_str(&b), b.len, s->boot, time_mono_ns(),
			&err) < 0) {
		if (err.code == ERR_NOT_FOUND)
			return;
		(void)error_prefix(&err, "'%s' is ignored", path);
		report_component(s->reporter, COMPONENT_SAVED_HEALTH, &err);
		return;
	}
	s->written = strdup(buf_str(&b));
	log_info("the health of the GPUs goes on from the last run",
		LOG_UINT("devices", s->facts->node.n_persisted),
		LOG_UINT("missing", s->facts->node.n_missing));
}

static int write_saved_health(const char *path, const char *dir, const char *text,
	struct error *err)
{
	if (!*text)
		return unlink(path) < 0 && errno != ENOENT
			       ? error_sys(err, errno, "remove '%s'", path)
			       : 0;
	if (dir_make(dir, 0755, err) < 0)
		return -1;
	return file_write_atomic(path, text, strlen(text), 0600, err);
}

static void write_now(struct health_saver *s)
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX], *text;

	/*
	 * Until the first inventory, the file has what was saved. Without a boot ID no later agent could trust
	 * the file.
	 */
	if (!s->facts->node.inv || s->facts->node.persisted || !s->boot[0])
		return;
	text = saved_health_format(&s->facts->node, &s->facts->config->health, s->boot);
	if (!text || (!s->unsaved && !strcmp(text, s->written ? s->written : ""))) {
		free(text);
		return;
	}
	if (format_health_path(s, path, &err) == 0)
		(void)write_saved_health(path, s->state_dir, text, &err);
	report_component(s->reporter, COMPONENT_SAVED_HEALTH, &err);
	s->unsaved = err.code != ERR_NONE;
	free(s->written);
	s->written = text;
}

static void on_health_write_timer(uv_timer_t *t)
{
	write_now(t->data);
}

void health_saver_save(struct health_saver *s)
{
	if (uv_is_active((uv_handle_t *)&s->timer))
		return;
	write_now(s);
	(void)uv_timer_start(&s->timer, on_health_write_timer, WRITE_MS, 0);
}

void health_saver_init(struct health_saver *s, uv_loop_t *loop, struct facts *facts,
	const struct reporter *reporter, const char *state_dir, const char *procfs_root)
{
	*s = (struct health_saver){ .facts = facts,
		.reporter = reporter,
		.state_dir = state_dir,
		.procfs_root = procfs_root ? procfs_root : "/proc" };
	(void)uv_timer_init(loop, &s->timer);
	s->timer.data = s;
}

void health_saver_stop(struct health_saver *s)
{
	if (s->facts->config)
		write_now(s);
	uv_close((uv_handle_t *)&s->timer, NULL);
}

void health_saver_fini(struct health_saver *s)
{
	free(s->written);
}
