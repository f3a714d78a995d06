/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/slices/arbiter-link.h"

#include "abi/arbiter-control.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/paths.h"
#include "lib/base/log.h"
#include "lib/base/time.h"
#include "lib/base/unix-socket.h"
#include "lib/base/backoff.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROGRAM         "gpuslice-arbiter"
#define TICK_FAST_MS    20 /* while the arbiter starts */
#define TICK_MS         500
#define START_NS        (2 * NS_PER_SEC) /* duration of the fast ticks */
#define BACKOFF_NS      (200 * NS_PER_MS)
#define BACKOFF_MAX_NS  (30 * NS_PER_SEC)
#define LONG_LIFE_NS    (10 * NS_PER_SEC) /* an end after this is no repeated failure */
#define WATCH_MS        1000
#define WATCH_MISSED    5 /* ticks without a line while an answer is due: the arbiter hangs */
#define REPLACE_NS      (100 * NS_PER_MS) /* an arbiter needs so long to end after SIGTERM */
#define PROGRAM_MAX     (256 << 20)
#define READ_BYTES      65536
#define STATUS_QUESTION "{\"op\":\"status\"}\n"
/* Asks for the status of no slice: the shortest answer. */
#define WATCH_QUESTION "{\"op\":\"status\",\"slice\":\"\"}\n"
#define SUBSCRIBE      "{\"op\":\"readings\"}\n"

struct status_waiter {
	arbiter_status_done *done; /* NULL: no caller waits any more, but the answer is due */
	void *arg;
	uint64_t until_ns;
	struct status_waiter *next;
};

/* One connection. Freed when the loop has closed its handle. */
struct wire {
	uv_pipe_t pipe;
	struct arbiter_link *l; /* NULL: dropped */
	struct buf in;
	char chunk[READ_BYTES];
};

struct arbiter_child {
	uv_process_t process;
	struct arbiter_link *l; /* NULL: dropped */
};

struct message {
	uv_write_t req;
	char *text;
};

struct arbiter_link {
	uv_loop_t *loop;
	uv_timer_t timer, watch;
	unsigned int n_timers; /* timers that libuv is still closing */
	struct arbiter_ops ops;
	void *arg;
	char run_dir[PATH_MAX], state_dir[PATH_MAX], socket[PATH_MAX];
	char *program;
	bool wanted, stopped, replaced;
	struct wire *wire;             /* NULL: not connected */
	struct arbiter_child *child;   /* NULL: no child of this agent runs */
	int peer_pid, peer_fd;         /* a pidfd; -1: none */
	uint32_t missed;               /* ticks of .watch since the last line */
	struct status_waiter *waiters; /* in the order of the answers */
	uint64_t started_ns, start_at_ns;
	uint64_t down_ns; /* since when it is wanted but down */
	uint32_t failures;
	char why[ERROR_MSG_MAX], logged_reason[ERROR_MSG_MAX];
};

static void sync_arbiter_link(struct arbiter_link *l);

static void on_arbiter_link_timer(uv_timer_t *t)
{
	sync_arbiter_link(t->data);
}

/* --- waiters for a status --- */

static void notify_arbiter_waiter(struct arbiter_link *l, const json_t *status,
	const struct error *err)
{
	struct status_waiter *w = l->waiters;

	if (!w)
		return;
	l->waiters = w->next;
	if (w->done)
		w->done(w->arg, status, err);
	free(w);
}

static void notify_arbiter_waiters(struct arbiter_link *l, const struct error *err)
{
	while (l->waiters)
		notify_arbiter_waiter(l, NULL, err);
}

static void answer_late(struct arbiter_link *l, uint64_t now)
{
	struct error err = ERROR_INIT;

	(void)error_set(&err, ERR_TIMEOUT, "the arbiter did not answer in time");
	for (struct status_waiter *w = l->waiters; w; w = w->next) {
		arbiter_status_done *done = w->done;

		if (!done || now < w->until_ns)
			continue;
		w->done = NULL;
		done(w->arg, NULL, &err);
	}
}

/* --- the connection --- */

static void on_pipe_closed(uv_handle_t *h)
{
	struct wire *w = h->data;

	buf_fini(&w->in);
	free(w);
}

static void drop_wire(struct arbiter_link *l, const char *why)
{
	struct wire *w = STEAL_PTR(l->wire);
	struct error err = ERROR_INIT;

	if (!w)
		return;
	w->l = NULL;
	uv_close((uv_handle_t *)&w->pipe, on_pipe_closed);
	(void)uv_timer_stop(&l->watch);
	l->down_ns = time_mono_ns();
	l->peer_pid = 0;
	closep(&l->peer_fd);
	(void)snprintf(l->why, sizeof(l->why), "%s", why);
	(void)error_set(&err, ERR_UNAVAILABLE, "%s", why);
	notify_arbiter_waiters(l, &err);
	/* Not at once: the arbiter may send the same again. */
	if (l->wanted && !l->stopped)
		(void)uv_timer_start(&l->timer, on_arbiter_link_timer, TICK_MS, 0);
}

static void on_arbiter_text_written(uv_write_t *req, int status)
{
	struct message *m = (struct message *)req;

	(void)status; /* the next read shows a broken connection */
	free(m->text);
	free(m);
}

/* Takes @text, which came from malloc(). False: no memory, or no connection. */
static bool send_arbiter_text(struct arbiter_link *l, char *text)
{
	struct message *m = text && l->wire ? calloc(1, sizeof(*m)) : NULL;
	uv_buf_t b;

	if (!m) {
		free(text);
		return false;
	}
	m->text = text;
	b = uv_buf_init(text, (unsigned)strlen(text));
	if (uv_write(&m->req, (uv_stream_t *)&l->wire->pipe, &b, 1, on_arbiter_text_written) <
		0)
		on_arbiter_text_written(&m->req, -1);
	return true;
}

static void handle_arbiter_read(struct arbiter_link *l, const json_t *o)
{
	const json_t *gpus = json_object_get(o, "gpus");
	const char *uuids[CONTROL_GPUS_MAX];
	uint32_t n = 0;

	for (size_t i = 0; i < json_array_size(gpus) && n < CONTROL_GPUS_MAX; i++) {
		const char *uuid = json_string_value(json_array_get(gpus, i));

		if (uuid)
			uuids[n++] = uuid;
	}
	l->ops.read(l->arg, json_integer_value(json_object_get(o, "seq")), uuids, n);
}

static void parse_arbiter_line(struct arbiter_link *l, const char *line, size_t len)
{
	json_error_t where;
	json_t *o = json_loadb(line, len, 0, &where);
	const char *op = json_string_value(json_object_get(o, "op"));

	l->missed = 0;
	if (!op)
		drop_wire(l, "the arbiter said something that is not understood");
	else if (!strcmp(op, "status"))
		notify_arbiter_waiter(l, o, NULL);
	else if (!strcmp(op, "read"))
		handle_arbiter_read(l, o);
	else if (!strcmp(op, "error"))
		log_warn("the arbiter did not understand",
			LOG_STR("reason", json_string_value(json_object_get(o, "reason"))));
	json_decref(o);
}

/* The first @seen bytes contain no end of a line. An answer of megabytes comes in pieces. */
static void parse_arbiter_lines(struct wire *w, size_t seen)
{
	size_t at = 0;

	while (w->l) {
		char *from = w->in.data + at;
		char *end = w->in.len > seen ? memchr(w->in.data + seen, '\n', w->in.len - seen)
					     : NULL;

		if (!end)
			break;
		seen = at = (size_t)(end - w->in.data) + 1;
		parse_arbiter_line(w->l, from, (size_t)(end - from));
	}
	if (at > 0) {
		memmove(w->in.data, w->in.data + at, w->in.len - at);
		w->in.len -= at;
	}
}

static void on_arbiter_wire_alloc(uv_handle_t *h, size_t size, uv_buf_t *ret)
{
	struct wire *w = h->data;

	(void)size;
	*ret = uv_buf_init(w->chunk, sizeof(w->chunk));
}

static void on_arbiter_wire_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct wire *w = s->data;
	struct arbiter_link *l = w->l;
	size_t seen;

	if (!l || n == 0)
		return;
	if (n < 0) {
		drop_wire(l, "the arbiter closed its control connection");
		sync_arbiter_link(l);
		return;
	}
	seen = w->in.len;
	buf_add(&w->in, b->base, (size_t)n);
	if (buf_ok(&w->in))
		parse_arbiter_lines(w, seen);
	else
		drop_wire(l, "the arbiter's answer is too long");
}

static int peer_pid(int fd)
{
	struct ucred c = { .pid = 0 };
	socklen_t len = sizeof(c);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) == 0 ? (int)c.pid : 0;
}

static int find_arbiter_program(const struct arbiter_link *l, char ret[PATH_MAX],
	struct error *err);

static bool same_content(const char *one, const char *other)
{
	CLEANUP(buf_fini) struct buf a = BUF_INIT(PROGRAM_MAX);
	CLEANUP(buf_fini) struct buf b = BUF_INIT(PROGRAM_MAX);

	return file_read(one, &a, NULL) == 0 && file_read(other, &b, NULL) == 0 &&
	       a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* Whether the process runs another program than the agent would start. A program that cannot be read counts as the
 * agent's own. */
static bool is_other_build(const struct arbiter_link *l, int pid)
{
	char own[PATH_MAX], exe[64], name[PATH_MAX];
	const char *base;
	struct stat a, b;
	ssize_t len;

	(void)snprintf(exe, sizeof(exe), "/proc/%d/exe", pid);
	len = pid > 0 ? readlink(exe, name, sizeof(name) - 1) : -1;
	if (len < 0 || find_arbiter_program(l, own, NULL) < 0)
		return false;
	name[len] = '\0';
	base = strrchr(name, '/');
	if (!base || strncmp(base + 1, PROGRAM, strlen(PROGRAM)) != 0)
		return false;
	if (stat(own, &a) < 0 || stat(exe, &b) < 0 || a.st_size > PROGRAM_MAX ||
		(a.st_dev == b.st_dev && a.st_ino == b.st_ino))
		return false;
	return a.st_size != b.st_size || !same_content(own, exe);
}

/* True: the arbiter behind the socket is ending. */
static bool replace_other_arbiter(struct arbiter_link *l, int pid)
{
	if (l->replaced || (l->child && l->child->process.pid == pid) ||
		!is_other_build(l, pid))
		return false;
	l->replaced = true;
	if (kill(pid, SIGTERM) < 0)
		return false;
	log_info("an arbiter of another build is there, ours takes its place",
		LOG_INT("pid", pid));
	l->start_at_ns = time_mono_ns() + REPLACE_NS;
	return true;
}

/* Asks the question. Calls @done with the answer; NULL: nothing. False: no memory. */
static bool request_arbiter_status(struct arbiter_link *l, const char *question,
	arbiter_status_done *done, void *arg)
{
	struct status_waiter *w = calloc(1, sizeof(*w)), **end = &l->waiters;

	/* The arbiter answers in sequence: a waiter without a question would get the answer of the next one. */
	if (!w || !send_arbiter_text(l, strdup(question))) {
		free(w);
		return false;
	}
	*w = (struct status_waiter){ .done = done,
		.arg = arg,
		.until_ns = time_mono_ns() + ARBITER_STATUS_TIMEOUT_MS * NS_PER_MS };
	while (*end)
		end = &(*end)->next;
	*end = w;
	return true;
}

/* The grants file outlives the arbiter, and the next arbiter finds the pages of processes. So only time is lost. */
static void end_hung(struct arbiter_link *l)
{
	char why[ERROR_MSG_MAX];

	(void)snprintf(why, sizeof(why), "the arbiter (PID %d) did not answer for %d s",
		l->peer_pid, WATCH_MISSED * WATCH_MS / 1000);
	log_error("the arbiter does not answer, restarting it", LOG_STR("reason", why));
	if (l->peer_fd >= 0)
		(void)syscall(SYS_pidfd_send_signal, l->peer_fd, SIGKILL, NULL, 0);
	if (l->ops.hung)
		l->ops.hung(l->arg, why);
	drop_wire(l, why);
	sync_arbiter_link(l);
}

/* Counts its own calls, not seconds: an agent that was delayed itself has not read the answers yet. */
static void on_watch(uv_timer_t *t)
{
	struct arbiter_link *l = t->data;

	if (l->waiters && ++l->missed >= WATCH_MISSED) {
		end_hung(l);
		return;
	}
	if (!l->waiters) {
		l->missed = 0;
		(void)request_arbiter_status(l, WATCH_QUESTION, NULL, NULL);
	}
}

static int connect_arbiter(struct arbiter_link *l, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	struct wire *w;
	int pid;

	if (unix_connect(l->socket, &fd, err) < 0)
		return -1;
	pid = peer_pid(fd);
	if (replace_other_arbiter(l, pid))
		return error_set(err, ERR_UNAVAILABLE, "an arbiter of another build is ending");
	w = calloc(1, sizeof(*w));
	if (!w)
		return error_nomem(err);
	w->in = (struct buf)BUF_INIT(CONTROL_ANSWER_MAX + 1);
	(void)uv_pipe_init(l->loop, &w->pipe, 0);
	w->pipe.data = w;
	w->l = l;
	if (uv_pipe_open(&w->pipe, fd) < 0) {
		uv_close((uv_handle_t *)&w->pipe, on_pipe_closed);
		return error_set(err, ERR_INTERNAL, "'%s': cannot be watched", l->socket);
	}
	(void)steal_fd(&fd);
	l->wire = w;
	l->peer_pid = pid;
	l->peer_fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	l->missed = 0;
	(void)uv_timer_start(&l->watch, on_watch, WATCH_MS, WATCH_MS);
	(void)uv_read_start((uv_stream_t *)&w->pipe, on_arbiter_wire_alloc,
		on_arbiter_wire_read);
	(void)send_arbiter_text(l, strdup(SUBSCRIBE));
	l->why[0] = l->logged_reason[0] = '\0';
	log_info(l->child && l->child->process.pid == pid ? "the arbiter serves the slices"
							  : "an arbiter is there already",
		LOG_INT("pid", pid));
	return 0;
}

/* --- the process --- */

static void on_child_closed(uv_handle_t *h)
{
	free(h->data);
}

static void on_exit_of_child(uv_process_t *p, int64_t status, int number)
{
	struct arbiter_child *c = p->data;
	struct arbiter_link *l = c->l;
	uint64_t now = time_mono_ns();

	uv_close((uv_handle_t *)p, on_child_closed);
	if (!l)
		return;
	l->child = NULL;
	if (now - l->started_ns >= LONG_LIFE_NS)
		l->failures = 0;
	l->start_at_ns = now + backoff_doubled(BACKOFF_NS, BACKOFF_MAX_NS, l->failures++);
	if (!l->wanted)
		return;
	if (number)
		(void)snprintf(l->why, sizeof(l->why), "the arbiter ended by signal %d (%s)",
			number, strsignal(number));
	else
		(void)snprintf(l->why, sizeof(l->why), "the arbiter exited with status %d",
			(int)status);
	log_warn("the arbiter ended", LOG_STR("reason", l->why));
	sync_arbiter_link(l);
}

static int find_arbiter_program(const struct arbiter_link *l, char ret[PATH_MAX],
	struct error *err)
{
	if (!l->program)
		return libexec_find(ret, PROGRAM, "node/arbiter", err);
	(void)snprintf(ret, PATH_MAX, "%s", l->program);
	return 0;
}

static int start_arbiter_process(struct arbiter_link *l, struct error *err)
{
	char path[PATH_MAX], name[] = PROGRAM, state[] = "--state-dir", run[] = "--run-dir";
	char *argv[] = { name, state, l->state_dir, run, l->run_dir, NULL };
	uv_stdio_container_t io[] = { { .flags = UV_IGNORE },
		{ .flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO },
		{ .flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO } };
	const uv_process_options_t options = { .exit_cb = on_exit_of_child,
		.file = path,
		.args = argv,
		.flags = UV_PROCESS_DETACHED, /* the arbiter outlives the agent's session */
		.stdio_count = ARRAY_LEN(io),
		.stdio = io };
	struct arbiter_child *c;
	int r;

	if (find_arbiter_program(l, path, err) < 0)
		return -1;
	c = calloc(1, sizeof(*c));
	if (!c)
		return error_nomem(err);
	c->l = l;
	r = uv_spawn(l->loop, &c->process, &options);
	c->process.data = c;
	if (r < 0) {
		uv_close((uv_handle_t *)&c->process, on_child_closed);
		return error_sys(err, -r, "start '%s'", path);
	}
	l->child = c;
	return 0;
}

/* --- the timer --- */

static void log_arbiter_away(struct arbiter_link *l)
{
	if (!strcmp(l->why, l->logged_reason))
		return;
	memcpy(l->logged_reason, l->why, sizeof(l->logged_reason));
	log_warn("the arbiter does not answer, slices have no room to grow meanwhile",
		LOG_STR("reason", l->why));
}

static void probe_arbiter_socket(struct arbiter_link *l, uint64_t now)
{
	struct error err = ERROR_INIT;

	if (connect_arbiter(l, &err) == 0)
		return;
	if (l->child) { /* is starting */
		if (now - l->started_ns >= START_NS) {
			(void)snprintf(l->why, sizeof(l->why), "%s", err.msg);
			log_arbiter_away(l);
		}
		return;
	}
	if (now < l->start_at_ns)
		return;
	l->started_ns = now;
	error_clear(&err);
	if (start_arbiter_process(l, &err) < 0) {
		l->start_at_ns = now + BACKOFF_MAX_NS / 3;
		(void)snprintf(l->why, sizeof(l->why), "%s", err.msg);
		log_arbiter_away(l);
	}
}

/* Whether an arbiter is starting, or will be started within BACKOFF_NS. */
static bool is_near(const struct arbiter_link *l, uint64_t now)
{
	if (l->wire)
		return false;
	return l->child ? now - l->started_ns < START_NS : now + BACKOFF_NS >= l->start_at_ns;
}

static void sync_arbiter_link(struct arbiter_link *l)
{
	uint64_t now = time_mono_ns();

	if (l->stopped)
		return;
	answer_late(l, now);
	if (l->wanted && !l->wire)
		probe_arbiter_socket(l, now);
	if ((l->wanted && !l->wire) || l->waiters)
		(void)uv_timer_start(&l->timer, on_arbiter_link_timer,
			is_near(l, now) ? TICK_FAST_MS : TICK_MS, 0);
	else
		(void)uv_timer_stop(&l->timer);
}

/* --- the interface --- */

int arbiter_link_new(struct arbiter_link **ret, uv_loop_t *loop,
	const struct arbiter_link_options *options, const struct arbiter_ops *ops, void *arg,
	struct error *err)
{
	struct arbiter_link *l = calloc(1, sizeof(*l));

	if (!l)
		return error_nomem(err);
	(void)snprintf(l->run_dir, sizeof(l->run_dir), "%s", options->run_dir);
	(void)snprintf(l->state_dir, sizeof(l->state_dir), "%s", options->state_dir);
	if (path_join(l->socket, sizeof(l->socket), l->run_dir, CONTROL_SOCKET, err) < 0 ||
		unix_path_check(l->socket, err) < 0) {
		free(l);
		return -1;
	}
	if (options->program) {
		l->program = strdup(options->program);
		if (!l->program) {
			free(l);
			return error_nomem(err);
		}
	}
	l->loop = loop;
	l->ops = *ops;
	l->arg = arg;
	(void)uv_timer_init(loop, &l->timer);
	(void)uv_timer_init(loop, &l->watch);
	l->timer.data = l->watch.data = l;
	l->peer_fd = -1;
	*ret = l;
	return 0;
}

void arbiter_link_set_wanted(struct arbiter_link *l, bool wanted)
{
	if (l->wanted == wanted)
		return;
	l->wanted = wanted;
	l->down_ns = time_mono_ns();
	if (!wanted) {
		int pid = l->peer_pid || !l->child ? l->peer_pid : l->child->process.pid;

		if (pid > 0) {
			log_info("no slice is left, the arbiter may end", LOG_INT("pid", pid));
			(void)kill(pid, SIGTERM);
		}
		drop_wire(l, "there are no slices");
		l->why[0] = '\0';
	}
	sync_arbiter_link(l);
}

void arbiter_link_status(struct arbiter_link *l, arbiter_status_done *done, void *arg)
{
	struct error err = ERROR_INIT;

	if (!l->wire) {
		(void)error_set(&err, ERR_UNAVAILABLE, "%s",
			*l->why ? l->why : "the arbiter is starting");
		done(arg, NULL, &err);
		return;
	}
	if (!request_arbiter_status(l, STATUS_QUESTION, done, arg)) {
		(void)error_nomem(&err);
		done(arg, NULL, &err);
		return;
	}
	sync_arbiter_link(l);
}

void arbiter_link_reading(struct arbiter_link *l, json_t *line)
{
	char *text = json_dumps(line, JSON_COMPACT);
	size_t len = text ? strlen(text) : 0;
	char *whole = text ? realloc(text, len + 2) : NULL;

	json_decref(line);
	if (!whole || len >= CONTROL_LINE_MAX) {
		free(whole ? whole : text);
		return;
	}
	memcpy(whole + len, "\n", 2);
	(void)send_arbiter_text(l, whole);
}

bool arbiter_link_is_down(const struct arbiter_link *l, const char **ret_why)
{
	*ret_why = *l->why ? l->why : "it does not answer";
	return l->wanted && !l->wire && time_mono_ns() - l->down_ns >= ARBITER_DOWN_NS;
}

enum arbiter_state arbiter_link_state(const struct arbiter_link *l, int *ret_pid,
	const char **ret_why)
{
	*ret_pid = l->peer_pid;
	*ret_why = "";
	if (l->wire)
		return ARBITER_UP;
	if (!l->wanted)
		return ARBITER_OFF;
	*ret_why = *l->why ? l->why : "the arbiter is starting";
	return ARBITER_DOWN;
}

static void on_arbiter_timer_closed(uv_handle_t *h)
{
	struct arbiter_link *l = h->data;

	if (--l->n_timers > 0)
		return;
	free(l->program);
	free(l);
}

struct arbiter_link *arbiter_link_stop(struct arbiter_link *l)
{
	if (!l)
		return NULL;
	l->stopped = true;
	drop_wire(l, "the agent is stopping");
	if (l->child) {
		l->child->l = NULL;
		uv_close((uv_handle_t *)&l->child->process, on_child_closed);
	}
	l->n_timers = 2;
	uv_close((uv_handle_t *)&l->timer, on_arbiter_timer_closed);
	uv_close((uv_handle_t *)&l->watch, on_arbiter_timer_closed);
	return NULL;
}
