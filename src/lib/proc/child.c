/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/child.h"

#include "lib/base/buf.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KILL_AFTER_MS 5000 /* from SIGTERM to SIGKILL, and from SIGKILL to giving up */
#define DRAIN_MS      1000 /* for output that is still in the pipes at the exit */
#define READ_BYTES    16384
#define ERROR_LINES   50 /* lines of standard error that are logged */

/* Prefix of the variables of NVIDIA's MIG tool that gpuslice's tool reads too. The child does not get them:
 * the arguments alone decide. */
#define FOREIGN_ENV "MIG_PARTED_"

extern char **environ;

enum { IN, OUT, ERR, N_PIPES };

struct child {
	uv_process_t process;
	uv_pipe_t pipes[N_PIPES];
	uv_timer_t timer;
	uv_write_t write;
	bool keep_stdin_open;
	const struct child_ops *ops; /* NULL: no callback runs any more */
	void *arg;
	char *input;
	const char *name;
	uint64_t silence_ns;
	unsigned handles; /* open or closing */
	enum { RUNS, TERMED, KILLED, EXITED } stage;
	bool closing;
	bool open[N_PIPES];
	struct buf line;
	unsigned error_lines;
	char words[CHILD_WORDS_MAX];
	size_t n_words;
	struct child_end end;
	char chunk[READ_BYTES];
};

/* --- the end --- */

static void on_child_handle_closed(uv_handle_t *h)
{
	struct child *c = h->data;

	if (--c->handles > 0)
		return;
	buf_fini(&c->line);
	free(c->input);
	free(c);
}

static void close_handle(struct child *c, void *handle)
{
	(void)c;
	if (!uv_is_closing(handle))
		uv_close(handle, on_child_handle_closed);
}

static void close_child_handles(struct child *c)
{
	if (c->closing)
		return;
	c->closing = true;
	close_handle(c, &c->timer);
	for (size_t i = 0; i < N_PIPES; i++)
		close_handle(c, &c->pipes[i]);
	close_handle(c, &c->process);
}

static void report_child_end(struct child *c)
{
	const struct child_ops *ops = STEAL_PTR(c->ops);

	c->end.words = c->words;
	if (ops)
		ops->ended(c->arg, &c->end);
	close_child_handles(c);
}

static void signal_group(const struct child *c, int number)
{
	if (c->process.pid > 0 && c->stage != EXITED)
		(void)kill(-c->process.pid, number);
}

static void on_child_timer(uv_timer_t *t)
{
	struct child *c = t->data;

	switch (c->stage) {
	case RUNS:
		c->end.was_silent = c->end.error.code == ERR_NONE;
		c->stage = TERMED;
		signal_group(c, SIGTERM);
		(void)uv_timer_start(t, on_child_timer, KILL_AFTER_MS, 0);
		break;
	case TERMED:
		c->stage = KILLED;
		signal_group(c, SIGKILL);
		(void)uv_timer_start(t, on_child_timer, KILL_AFTER_MS, 0);
		break;
	case KILLED: /* the process hangs in the kernel */
		c->end.status = -1;
		report_child_end(c);
		break;
	case EXITED: /* another process holds its output open */
		report_child_end(c);
		break;
	}
}

/* Output counts while the program runs, and after an exit by itself: the loop may see the exit before the
 * last output. */
static bool accepts_child_output(const struct child *c)
{
	return c->stage == RUNS ||
	       (c->stage == EXITED && !c->end.was_silent && c->end.error.code == ERR_NONE);
}

static void stop_child_with_error(struct child *c, const struct error *err)
{
	if (!accepts_child_output(c))
		return;
	c->end.error = *err;
	if (c->stage == RUNS)
		(void)uv_timer_start(&c->timer, on_child_timer, 0, 0);
}

static void check_child_end(struct child *c)
{
	if (c->stage != EXITED || c->closing)
		return;
	if (!c->open[OUT] && !c->open[ERR])
		report_child_end(c);
	else
		(void)uv_timer_start(&c->timer, on_child_timer, DRAIN_MS, 0);
}

static void on_child_exit(uv_process_t *p, int64_t status, int number)
{
	struct child *c = p->data;

	c->end.status = (int)status;
	c->end.signal = number;
	if (c->stage != RUNS) /* ends its children too */
		signal_group(c, SIGKILL);
	c->stage = EXITED;
	check_child_end(c);
}

/* --- output --- */

static void report_output_line(struct child *c)
{
	struct error err = ERROR_INIT;
	int r = 0;

	if (!buf_ok(&c->line))
		r = error_set(&err, ERR_LIMIT, "a line of more than %d bytes", CHILD_LINE_MAX);
	else if (c->ops && c->ops->line && accepts_child_output(c) && c->line.len > 0)
		r = c->ops->line(c->arg, buf_str(&c->line), c->line.len, &err);
	buf_clear(&c->line);
	if (r < 0)
		stop_child_with_error(c, &err);
}

static void split_child_output(struct child *c, const char *data, size_t len)
{
	while (len > 0) {
		const char *end = memchr(data, '\n', len);
		size_t part = end ? (size_t)(end - data) : len;

		buf_add(&c->line, data, part);
		/* An overlong line is reported without its end. */
		if (end || !buf_ok(&c->line))
			report_output_line(c);
		part += end != NULL;
		data += part;
		len -= part;
	}
}

static void end_words(struct child *c)
{
	if (c->n_words == 0)
		return;
	c->words[c->n_words] = '\0';
	c->n_words = 0;
	if (c->name && c->error_lines++ < ERROR_LINES)
		log_info(c->name, LOG_STR("program", c->words));
}

static void collect_error_lines(struct child *c, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] == '\n')
			end_words(c);
		else if (c->n_words < sizeof(c->words) - 1)
			c->words[c->n_words++] = data[i];
	}
}

static void on_child_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
	struct child *c = h->data;

	(void)suggested;
	*buf = uv_buf_init(c->chunk, sizeof(c->chunk));
}

static void on_child_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct child *c = s->data;
	bool out = s == (uv_stream_t *)&c->pipes[OUT];

	if (n > 0) {
		if (c->stage == RUNS)
			(void)uv_timer_start(&c->timer, on_child_timer,
				c->silence_ns / NS_PER_MS, 0);
		if (out)
			split_child_output(c, buf->base, (size_t)n);
		else
			collect_error_lines(c, buf->base, (size_t)n);
		return;
	}
	if (n == 0)
		return;
	c->open[out ? OUT : ERR] = false;
	close_handle(c, s);
	if (!out)
		end_words(c);
	else if (c->line.len > 0)
		report_output_line(c);
	check_child_end(c);
}

static void on_child_input_written(uv_write_t *w, int status)
{
	struct child *c = w->data;

	(void)status; /* the program may exit without reading all; its own output says why */
	if (!c->keep_stdin_open)
		close_handle(c, &c->pipes[IN]);
}

/* --- the start --- */

static char **build_child_env(void)
{
	size_t n = 0, kept = 0;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + 1, sizeof(*env));
	for (size_t i = 0; env && i < n; i++) {
		if (strncmp(environ[i], FOREIGN_ENV, sizeof(FOREIGN_ENV) - 1) != 0)
			env[kept++] = environ[i];
	}
	return env;
}

static int spawn_child(struct child *c, uv_loop_t *loop, const struct child_spec *what)
{
	char **own = what->env ? NULL : build_child_env();
	char **env = what->env ? (char **)(uintptr_t)what->env : own;
	uv_stdio_container_t stdio[N_PIPES] = {
		[IN] = { .flags = c->input || c->keep_stdin_open
					  ? UV_CREATE_PIPE | UV_READABLE_PIPE
					  : UV_IGNORE },
		[OUT] = { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE },
		[ERR] = { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE },
	};
	const uv_process_options_t o = {
		.exit_cb = on_child_exit,
		.file = what->argv[0],
		.args = (char **)(uintptr_t)what->argv,
		.env = env,
		.flags = UV_PROCESS_DETACHED,
		.stdio_count = N_PIPES,
		.stdio = stdio,
	};
	int r;

	for (size_t i = 0; i < N_PIPES; i++)
		stdio[i].data.stream = (uv_stream_t *)&c->pipes[i];
	r = env ? uv_spawn(loop, &c->process, &o) : UV_ENOMEM;
	free(own);
	return r;
}

static void write_child_input(struct child *c, size_t len)
{
	uv_buf_t b = uv_buf_init(c->input, (unsigned)len);

	c->write.data = c;
	if (!c->input) {
		if (!c->keep_stdin_open)
			close_handle(c, &c->pipes[IN]);
		return;
	}
	if (uv_write(&c->write, (uv_stream_t *)&c->pipes[IN], &b, 1, on_child_input_written) !=
		0)
		close_handle(c, &c->pipes[IN]);
}

struct child_write {
	uv_write_t write;
	char data[];
};

static void on_more_written(uv_write_t *w, int status)
{
	(void)status;
	free(w->data);
}

void proc_expect(struct child *c, uint64_t silence_ns)
{
	c->silence_ns = silence_ns;
	if (c->stage == RUNS && !c->closing)
		(void)uv_timer_start(&c->timer, on_child_timer, silence_ns / NS_PER_MS, 0);
}

int proc_send(struct child *c, const char *data, size_t len, struct error *err)
{
	struct child_write *m;
	uv_buf_t b;

	if (c->closing || uv_is_closing((uv_handle_t *)&c->pipes[IN]))
		return 0;
	m = malloc(sizeof(*m) + len);
	if (!m)
		return error_nomem(err);
	memcpy(m->data, data, len);
	m->write.data = m;
	b = uv_buf_init(m->data, (unsigned)len);
	if (uv_write(&m->write, (uv_stream_t *)&c->pipes[IN], &b, 1, on_more_written) != 0)
		free(m);
	return 0;
}

int proc_start(struct child **ret, uv_loop_t *loop, const struct child_spec *what,
	const struct child_ops *ops, void *arg, struct error *err)
{
	struct child *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_nomem(err);
	if (what->input) {
		c->input = malloc(what->input_len + 1);
		if (!c->input) {
			free(c);
			return error_nomem(err);
		}
		memcpy(c->input, what->input, what->input_len);
	}
	c->line = (struct buf)BUF_INIT(CHILD_LINE_MAX);
	c->name = what->name;
	c->silence_ns = what->silence_ns;
	c->keep_stdin_open = what->keep_stdin_open;
	for (size_t i = 0; i < N_PIPES; i++) {
		(void)uv_pipe_init(loop, &c->pipes[i], 0);
		c->pipes[i].data = c;
	}
	(void)uv_timer_init(loop, &c->timer);
	c->timer.data = c->process.data = c;
	c->handles = N_PIPES + 2; /* uv_spawn() initializes its handle even if it fails */
	r = spawn_child(c, loop, what);
	if (r != 0) {
		close_child_handles(c);
		return error_set(err, ERR_IO, "run '%s': %s", what->argv[0], uv_strerror(r));
	}
	c->ops = ops;
	c->arg = arg;
	c->open[OUT] = c->open[ERR] = true;
	(void)uv_read_start((uv_stream_t *)&c->pipes[OUT], on_child_alloc, on_child_read);
	(void)uv_read_start((uv_stream_t *)&c->pipes[ERR], on_child_alloc, on_child_read);
	(void)uv_timer_start(&c->timer, on_child_timer, c->silence_ns / NS_PER_MS, 0);
	write_child_input(c, what->input_len);
	*ret = c;
	return 0;
}

struct child *proc_stop(struct child *c)
{
	if (!c || c->closing)
		return NULL;
	c->ops = NULL;
	if (c->stage == EXITED)
		close_child_handles(c);
	else if (c->stage == RUNS)
		on_child_timer(&c->timer);
	return NULL;
}
