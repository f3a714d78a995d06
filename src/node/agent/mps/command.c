/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/command.h"

#include "node/agent/mps/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_mps_control(char ret[PATH_MAX], const char *dir, size_t len, const char *below)
{
	int n = snprintf(ret, PATH_MAX, "%.*s%s/%s", (int)len, dir, below, MPS_CONTROL);

	return n > 0 && n < PATH_MAX && access(ret, X_OK) == 0;
}

static bool find_in_path(char ret[PATH_MAX])
{
	const char *path = getenv("PATH");

	for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
		size_t len = strcspn(at, ":");

		if (len > 0 && has_mps_control(ret, at, len, ""))
			return true;
		at += len + (at[len] == ':');
	}
	return false;
}

int mps_control_find(char ret[PATH_MAX], const char *given, const char *driver_root,
	struct error *err)
{
	static const char *const below[] = { "/usr/bin", "/bin", "/usr/sbin", "/sbin" };

	if (given && *given) {
		(void)snprintf(ret, PATH_MAX, "%s", given);
		return access(ret, X_OK) == 0
			       ? 0
			       : error_set(err, ERR_NOT_FOUND,
					 "'%s' (--mps-control) is not a program", ret);
	}
	if (find_in_path(ret))
		return 0;
	for (size_t i = 0; driver_root && *driver_root && i < ARRAY_LEN(below); i++)
		if (has_mps_control(ret, driver_root, strlen(driver_root), below[i]))
			return 0;
	return error_set(err, ERR_NOT_FOUND,
		"no program " MPS_CONTROL
		" in PATH or below the driver root: it belongs to the "
		"driver; in a container NVIDIA_DRIVER_CAPABILITIES needs 'compute'");
}

static int on_mps_command_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct mps_command *c = arg;

	buf_add(&c->answer, line, len);
	buf_putc(&c->answer, '\n');
	return buf_ok(&c->answer) ? 0
				  : error_set(err, ERR_LIMIT, "an answer of more than %d bytes",
					    MPS_ANSWER_MAX);
}

static void set_mps_command_error(const struct mps_command *c, const struct child_end *e,
	struct error *err)
{
	const char *answer = *e->words ? e->words : buf_str(&c->answer);

	if (!*answer)
		answer = "the MPS control daemon cannot be asked";
	if (e->was_silent)
		(void)error_set(err, ERR_TIMEOUT, "the MPS control daemon does not answer");
	else if (e->error.code != ERR_NONE)
		error_copy(err, &e->error);
	else
		(void)error_set(err, ERR_UNAVAILABLE, "%.*s", (int)strcspn(answer, "\n"),
			answer);
}

static void on_mps_command_ended(void *arg, const struct child_end *e)
{
	struct mps_command *c = arg;
	CLEANUP(buf_fini) struct buf answer = c->answer;
	struct error err = ERROR_INIT;

	c->child = NULL;
	c->answer = (struct buf)BUF_INIT(MPS_ANSWER_MAX);
	if (e->was_silent || e->error.code != ERR_NONE || e->status != 0 || e->signal != 0) {
		struct mps_command ended = { .answer = answer };

		set_mps_command_error(&ended, e, &err);
		c->done(c->arg, NULL, &err);
	} else {
		c->done(c->arg, buf_str(&answer), NULL);
	}
}

static const struct child_ops ops = { .line = on_mps_command_line,
	.ended = on_mps_command_ended };

int mps_command_run(struct mps_command *c, uv_loop_t *loop, const char *program,
	const char *const *env, const char *text,
	void (*done)(void *arg, const char *answer, const struct error *err), void *arg,
	struct error *err)
{
	const char *const argv[] = { program, NULL };
	const struct child_spec what = { .argv = argv,
		.env = env,
		.input = text,
		.input_len = strlen(text),
		.silence_ns = MPS_COMMAND_NS };

	c->answer = (struct buf)BUF_INIT(MPS_ANSWER_MAX);
	c->done = done;
	c->arg = arg;
	return proc_start(&c->child, loop, &what, &ops, c, err);
}

void mps_command_stop(struct mps_command *c)
{
	c->child = proc_stop(c->child);
	buf_fini(&c->answer);
}

uint32_t mps_pids_read(uint32_t *ret, uint32_t max, const char *answer)
{
	uint32_t n = 0;

	while (*answer && n < max) {
		size_t len = strcspn(answer, "\n");
		uint32_t pid = mps_pid(answer, len);

		if (pid)
			ret[n++] = pid;
		answer += len + (answer[len] == '\n');
	}
	return n;
}
