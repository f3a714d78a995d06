/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/run/slice-watch.h"

#include "abi/launch-log.h"
#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define STATUS_POLL_MS 100
#define LINE_MAX_      (1U << 20)

/* The connection. The object lives until its pipe is closed, which can be after the watch has ended. */
struct profile_watch_conn {
	struct profile_watch *w; /* NULL: the watch has ended */
	uv_pipe_t pipe;
	uv_connect_t connect;
	char room[16384];
	struct buf got;
	char question[96];
	size_t question_len, sent; /* bytes of the question that are on their way */
	bool up, asked;
};

struct profile_watch {
	uv_loop_t *loop;
	uv_timer_t timer;
	struct profile_watch_conn *line;
	struct launch_log *log;
	uint64_t from_ns;
	size_t n, room;
	struct profile_sample *samples;
	bool failed; /* out of memory */
};

void profile_window_fini(struct profile_window *w)
{
	free(w->samples);
	free(w->launches);
	*w = (struct profile_window){ .n_samples = 0 };
}

/* --- status of the arbiter --- */

static uint64_t get_status_number(const json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v > 0 ? (uint64_t)v : 0;
}

static void add_overheads(struct profile_sample *ret, const json_t *processes)
{
	const json_t *process, *gpu;
	size_t i, k;

	json_array_foreach(processes, i, process)
		json_array_foreach(json_object_get(process, "gpus"), k, gpu)
	{
		if (!json_is_integer(json_object_get(gpu, "overhead")))
			continue;
		ret->overhead += get_status_number(gpu, "overhead");
		ret->overhead_known = true;
	}
}

bool watch_parse_status(struct profile_sample *ret, const char *line, size_t len)
{
	json_auto_t *o = json_loadb(line, len, 0, NULL);
	const json_t *slice = json_array_get(json_object_get(o, "slices"), 0);
	const json_t *gpu = json_array_get(json_object_get(slice, "gpus"), 0);

	if (!json_is_object(gpu))
		return false;
	*ret = (struct profile_sample){ .charged_ns = get_status_number(gpu, "charged_ns"),
		.launches = get_status_number(gpu, "launches"),
		.copies = get_status_number(gpu, "copies"),
		.bytes = get_status_number(gpu, "bytes"),
		.used = get_status_number(gpu, "used"),
		.peak = get_status_number(gpu, "peak") };
	add_overheads(ret, json_object_get(slice, "processes"));
	return true;
}

static void add_status_sample(struct profile_watch *w, const struct profile_sample *sample)
{
	if (!ARRAY_GROW(&w->samples, w->n, &w->room, ARRAY_NO_LIMIT)) {
		w->failed = true;
		return;
	}
	w->samples[w->n++] = *sample;
}

static void add_status_line(struct profile_watch *w, const char *line, size_t len)
{
	struct profile_sample sample;

	if (!watch_parse_status(&sample, line, len))
		return;
	sample.at_ns = time_mono_ns();
	add_status_sample(w, &sample);
}

/* --- the connection --- */

static void on_line_closed(uv_handle_t *h)
{
	struct profile_watch_conn *conn = h->data;

	buf_fini(&conn->got);
	free(conn);
}

static struct profile_watch_conn *hang_up(struct profile_watch_conn *conn)
{
	if (conn) {
		conn->w = NULL;
		if (!uv_is_closing((uv_handle_t *)&conn->pipe))
			uv_close((uv_handle_t *)&conn->pipe, on_line_closed);
	}
	return NULL;
}

static void on_room(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
	struct profile_watch_conn *conn = h->data;

	(void)suggested;
	*ret = uv_buf_init(conn->room, sizeof(conn->room));
}

static void on_status_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct profile_watch_conn *conn = s->data;
	char *end;

	if (!conn->w)
		return;
	if (n > 0)
		buf_add(&conn->got, b->base, (size_t)n);
	if (n < 0 || !buf_ok(&conn->got)) {
		conn->w->line = hang_up(conn);
		return;
	}
	end = memchr(buf_str(&conn->got), '\n', conn->got.len);
	if (end) {
		add_status_line(conn->w, buf_str(&conn->got),
			(size_t)(end - buf_str(&conn->got)));
		buf_clear(
			&conn->got); /* the arbiter answers one question at a time, so nothing follows the line */
		conn->asked = false;
	}
}

static void on_connected(uv_connect_t *c, int status)
{
	struct profile_watch_conn *conn = c->data;

	if (!conn->w)
		return;
	conn->up = status == 0 &&
		   uv_read_start((uv_stream_t *)&conn->pipe, on_room, on_status_read) == 0;
	if (!conn->up)
		conn->w->line = hang_up(conn);
}

static int connect_arbiter_control(struct profile_watch *w,
	const struct environment *environment, const char *id, struct error *err)
{
	char path[PATH_MAX];
	struct profile_watch_conn *conn;

	if (environment_get_control(environment, path, err) < 0)
		return -1;
	conn = calloc(1, sizeof(*conn));
	if (!conn)
		return error_nomem(err);
	conn->w = w;
	conn->got = (struct buf)BUF_INIT(LINE_MAX_);
	conn->question_len = (size_t)snprintf(conn->question, sizeof(conn->question),
		"{\"op\": \"status\", \"slice\": \"%s\"}\n", id);
	(void)uv_pipe_init(w->loop, &conn->pipe, 0);
	conn->pipe.data = conn->connect.data = conn;
	w->line = conn;
	uv_pipe_connect(&conn->connect, &conn->pipe, path, on_connected);
	return 0;
}

static void on_status_poll_timer(uv_timer_t *t)
{
	struct profile_watch *w = t->data;
	struct profile_watch_conn *conn = w->line;
	uv_buf_t b;
	int n;

	if (!conn || !conn->up || conn->asked)
		return;
	/* The write completes at once, unless the socket is full because the arbiter hangs. Then the rest follows later. */
	b = uv_buf_init(conn->question + conn->sent,
		(unsigned int)(conn->question_len - conn->sent));
	n = uv_try_write((uv_stream_t *)&conn->pipe, &b, 1);
	conn->sent += n > 0 ? (size_t)n : 0;
	if (conn->sent < conn->question_len)
		return;
	conn->sent = 0;
	conn->asked = true;
}

/* --- the log of launches --- */

static struct launch_log *map_launch_log(const char *dir)
{
	char path[PATH_MAX];
	struct error err = ERROR_INIT;
	struct launch_log *log;
	struct stat st;
	CLEANUP(closep) int fd = -1;

	if (path_join(path, sizeof(path), dir, LAUNCH_LOG_FILE, &err) < 0)
		return NULL;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size != (off_t)LAUNCH_LOG_BYTES)
		return NULL;
	log = mmap(NULL, LAUNCH_LOG_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	return log == MAP_FAILED ? NULL : log;
}

/*
 * Reads entry @n while the program can overwrite it:
 *
 *	1. The acquire load of .number comes before the loads of the entry.
 *	2. The acquire fence orders these loads before the second load of .number.
 *	3. If both loads give n + 1, the entry is whole.
 *
 * False: a thread is writing the entry, or it belongs to another round of the ring.
 */
static bool read_launch_entry(struct profile_launch *ret, struct launch_log *log, uint64_t n)
{
	struct launch_log_entry *e = &log->entries[n % LAUNCH_LOG_ENTRIES];
	uint64_t number = atomic_load_explicit(&e->number, memory_order_acquire);

	*ret = (struct profile_launch){ atomic_load_explicit(&e->at_ns, memory_order_relaxed),
		atomic_load_explicit(&e->kind, memory_order_relaxed) };
	atomic_thread_fence(memory_order_acquire);
	return number == n + 1 &&
	       atomic_load_explicit(&e->number, memory_order_relaxed) == number;
}

/* The program overwrites entries during the read. The result has only the entries after the last overwritten
 * entry. */
static int read_launch_log(struct profile_watch *w, struct profile_window *ret,
	struct error *err)
{
	uint64_t to = atomic_load(&w->log->next), from;

	from = to > PROFILE_LAUNCHES_MAX ? to - PROFILE_LAUNCHES_MAX : 0;
	ret->launches = calloc((size_t)(to - from) + 1, sizeof(*ret->launches));
	if (!ret->launches)
		return error_nomem(err);
	for (uint64_t n = from; n < to; n++) {
		struct profile_launch l;

		if (!read_launch_entry(&l, w->log, n))
			ret->n_launches = 0; /* repetitions show only without gaps */
		else if (l.at_ns >= w->from_ns)
			ret->launches[ret->n_launches++] = l;
	}
	return 0;
}

static void drop_log(struct profile_watch *w)
{
	if (w->log)
		(void)munmap(w->log, LAUNCH_LOG_BYTES);
	w->log = NULL;
}

/* --- life --- */

static void reset_slice_watch(struct profile_watch *w)
{
	(void)uv_timer_stop(&w->timer);
	w->line = hang_up(w->line);
	drop_log(w);
	free(w->samples);
	w->samples = NULL;
	w->n = w->room = 0;
	w->failed = false;
}

int watch_new(struct profile_watch **ret, uv_loop_t *loop, struct error *err)
{
	struct profile_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return error_nomem(err);
	w->loop = loop;
	(void)uv_timer_init(loop, &w->timer);
	w->timer.data = w;
	*ret = w;
	return 0;
}

void watch_begin_window(struct profile_watch *w, const struct environment *environment,
	bool launches)
{
	char dir[PATH_MAX], id[ENVIRONMENT_ID_MAX];
	struct error err = ERROR_INIT;

	reset_slice_watch(w);
	w->from_ns = time_mono_ns();
	if (environment_get_slice(environment, 0, dir, id, &err) < 0)
		return;
	w->log = launches ? map_launch_log(dir) : NULL;
	if (connect_arbiter_control(w, environment, id, &err) < 0)
		return;
	(void)uv_timer_start(&w->timer, on_status_poll_timer, 0, STATUS_POLL_MS);
}

int watch_end_window(struct profile_watch *w, struct profile_window *ret, struct error *err)
{
	int r = 0;

	*ret = (struct profile_window){ .n_samples = 0 };
	if (w->failed)
		r = error_nomem(err);
	if (r == 0 && w->log)
		r = read_launch_log(w, ret, err);
	ret->n_samples = w->n;
	ret->samples = STEAL_PTR(w->samples);
	reset_slice_watch(w);
	if (r < 0)
		profile_window_fini(ret);
	return r;
}

static void on_slice_watch_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

struct profile_watch *watch_free(struct profile_watch *w)
{
	if (!w)
		return NULL;
	reset_slice_watch(w);
	uv_close((uv_handle_t *)&w->timer, on_slice_watch_timer_closed);
	return NULL;
}
