/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The directory of slices. Every event only marks "look again", at one slice or at all of them; a
 * look compares what is there with what is served. A file that is wrong changes nothing but the
 * slice's .refused.
 */
#include "arbiter/internal.h"

#include "abi/slice-dir.h"
#include "base/fd.h"
#include "base/time.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void on_event(uv_fs_event_t *h, const char *name, int events, int status);

static void free_handle(uv_handle_t *h)
{
	free(h);
}

static uv_fs_event_t *events_start(struct arbiter *a, const char *dir, void *data)
{
	uv_fs_event_t *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	(void)uv_fs_event_init(a->loop, h);
	h->data = data;
	if (uv_fs_event_start(h, on_event, dir, 0) < 0) {
		uv_close((uv_handle_t *)h, free_handle);
		return NULL;
	}
	return h;
}

static uv_fs_event_t *events_stop(uv_fs_event_t *h)
{
	if (h) {
		h->data = NULL;
		uv_close((uv_handle_t *)h, free_handle);
	}
	return NULL;
}

static struct slice **bucket_of(struct arbiter *a, const char *id)
{
	uint32_t hash = 0;

	for (const char *c = id + 24; *c; c++)
		hash = hash * 31 + (unsigned char)*c;
	return &a->buckets[hash % SLICE_BUCKETS];
}

static struct slice *find(struct arbiter *a, const char *id)
{
	struct slice *s = *bucket_of(a, id);

	while (s && strcmp(s->id, id) != 0)
		s = s->next_in_bucket;
	return s;
}

static void refuse(struct slice *s, const struct error *err)
{
	/* Said once for each reason. */
	if (strcmp(s->refused.msg, err->msg) != 0)
		log_warn(s->def.n_gpus ? "slice refused, keeping what was in force"
				       : "slice refused",
			LOG_STR("slice", s->id), LOG_STR("reason", err->msg));
	s->refused = *err;
}

static bool same_gpus(const struct book_slice *b, const struct slice_def *d)
{
	if (b->n_gpus != d->n_gpus)
		return false;
	for (unsigned int i = 0; i < d->n_gpus; i++) {
		if (memcmp(b->gpus[i].uuid, d->gpus[i].uuid, SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}

static int new_book_slice(struct slice *s, const struct slice_def *d, struct error *err)
{
	uint8_t uuids[SLICE_GPUS_MAX][SLICE_UUID_BYTES];
	uint64_t limits[SLICE_GPUS_MAX];

	for (unsigned int i = 0; i < d->n_gpus; i++) {
		memcpy(uuids[i], d->gpus[i].uuid, SLICE_UUID_BYTES);
		limits[i] = d->gpus[i].limit;
	}
	s->book = book_slice_new(&s->arbiter->book, s->id, d->n_gpus,
		(const uint8_t(*)[SLICE_UUID_BYTES])uuids, limits);
	if (!s->book)
		return error_nomem(err);
	s->book->user = s;
	log_info("slice served", LOG_STR("slice", s->id), LOG_STR("resource", d->resource),
		LOG_UINT("gpus", d->n_gpus), LOG_UINT("memory", d->gpus[0].limit));
	return 0;
}

/* Puts @d in force. */
static int apply(struct slice *s, const struct slice_def *d, struct error *err)
{
	struct arbiter *a = s->arbiter;

	if (!s->book) {
		s->book = book_slice_find(&a->book, s->id); /* an earlier arbiter's members */
		if (s->book)
			s->book->user = s;
	}
	if (s->book && !same_gpus(s->book, d)) {
		if (s->book->n_members)
			return error_set(err, ERR_INVALID,
				"gpus: expected those that its %u processes have, found others",
				s->book->n_members);
		book_slice_gone(&a->book, s->book);
	}
	if (!s->book)
		return new_book_slice(s, d, err);
	s->book->gone = false;
	for (unsigned int i = 0; i < d->n_gpus; i++) {
		if (s->book->gpus[i].limit == d->gpus[i].limit)
			continue;
		book_slice_limit(s->book, i, d->gpus[i].limit);
		if (d->gpus[i].limit == SLICE_NO_LIMIT)
			log_info("limit taken away", LOG_STR("slice", s->id),
				LOG_STR("gpu", d->gpus[i].text));
		else
			log_info("limit changed", LOG_STR("slice", s->id),
				LOG_STR("gpu", d->gpus[i].text),
				LOG_UINT("memory", d->gpus[i].limit));
	}
	return 0;
}

static bool file_changed(const struct stat *a, const struct stat *b)
{
	return a->st_ino != b->st_ino || a->st_dev != b->st_dev || a->st_size != b->st_size ||
	       a->st_mtim.tv_sec != b->st_mtim.tv_sec ||
	       a->st_mtim.tv_nsec != b->st_mtim.tv_nsec ||
	       a->st_ctim.tv_sec != b->st_ctim.tv_sec ||
	       a->st_ctim.tv_nsec != b->st_ctim.tv_nsec;
}

static int read_def(struct slice *s, const char *path, struct slice_def *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(SLICE_FILE_MAX);

	if (file_read(path, &b, err) < 0)
		return -1;
	return slice_def_read(ret, path, s->id, buf_str(&b), b.len, err);
}

/* Reads the file if it is another one than before. */
static void look_at_file(struct slice *s, const char *path, const struct stat *st)
{
	struct error err = ERROR_INIT;
	struct slice_def d;

	if (!file_changed(st, &s->seen))
		return;
	s->seen = *st;
	if (read_def(s, path, &d, &err) < 0) {
		refuse(s, &err);
		return;
	}
	if (apply(s, &d, &err) < 0) {
		(void)error_prefix(&err, "%s", path);
		refuse(s, &err);
		slice_def_fini(&d);
		memset(&s->seen, 0, sizeof(s->seen)); /* it may do later: look again */
		return;
	}
	error_clear(&s->refused);
	slice_def_fini(&s->def);
	s->def = d;
}

static void look_at_socket(struct slice *s, const char *dir)
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (path_join(path, sizeof(path), dir, SLICE_SOCKET, NULL) < 0 ||
		(s->listener && lstat(path, &st) == 0 && st.st_ino == s->socket_ino))
		return;
	s->listener = watch_stop(s->listener);
	s->paused = false;
	fd = socket_listen(dir, SLICE_SOCKET, SOCK_SEQPACKET, 0666, &err);
	if (fd < 0 ||
		watch_start(&s->listener, s->arbiter->loop, fd, conns_accept, s, &err) < 0) {
		refuse(s, &err);
		s->deaf = true;
		return;
	}
	if (s->deaf)
		error_clear(&s->refused);
	s->deaf = false;
	s->socket_ino = lstat(path, &st) == 0 ? st.st_ino : 0;
}

static void gone(struct slice *s)
{
	if (!s->listener && (!s->book || s->book->gone))
		return;
	log_info("slice is gone", LOG_STR("slice", s->id),
		LOG_UINT("processes", s->book ? s->book->n_members : 0));
	s->listener = watch_stop(s->listener);
	s->events = events_stop(s->events);
	memset(&s->seen, 0, sizeof(s->seen));
	conns_stop_slice(s);
	if (s->book && s->book->n_members == 0)
		slice_def_fini(&s->def);
	if (s->book)
		book_slice_gone(&s->arbiter->book, s->book);
}

static void look(struct slice *s)
{
	char dir[PATH_MAX], path[PATH_MAX];
	struct stat st;

	s->dirty = false;
	if (path_join(dir, sizeof(dir), s->arbiter->slices_dir, s->id, NULL) < 0 ||
		path_join(path, sizeof(path), dir, SLICE_FILE, NULL) < 0)
		return;
	if (lstat(path, &st) < 0) {
		if (errno == ENOENT || errno == ENOTDIR)
			gone(s);
		return;
	}
	if (!s->events)
		s->events = events_start(s->arbiter, dir, s);
	look_at_file(s, path, &st);
	if (s->book && !s->book->gone)
		look_at_socket(s, dir);
}

static void add(struct arbiter *a, const char *id)
{
	struct slice *s = find(a, id);

	if (!s) {
		if (a->n_slices >= SLICES_MAX) {
			if (log_limit_pass(&a->noise, time_mono_ns(), NS_PER_SEC * 60, 1))
				log_warn("too many slices", LOG_UINT("limit", SLICES_MAX));
			return;
		}
		s = calloc(1, sizeof(*s));
		if (!s)
			return;
		s->arbiter = a;
		memcpy(s->id, id, strlen(id) + 1);
		s->next = a->slices;
		a->slices = s;
		s->next_in_bucket = *bucket_of(a, id);
		*bucket_of(a, id) = s;
		a->n_slices++;
	}
	s->found = true;
	look(s);
}

static struct slice *slice_free(struct slice *s)
{
	s->listener = watch_stop(s->listener);
	s->events = events_stop(s->events);
	slice_def_fini(&s->def);
	free(s);
	return NULL;
}

static void take_out_of_bucket(struct arbiter *a, const struct slice *s)
{
	struct slice **at = bucket_of(a, s->id);

	while (*at && *at != s)
		at = &(*at)->next_in_bucket;
	*at = s->next_in_bucket;
}

/* Those whose directory is away, once nobody needs them. */
static void sweep(struct arbiter *a)
{
	struct slice **at = &a->slices;

	while (*at) {
		struct slice *s = *at;

		if (!s->found)
			gone(s);
		if (s->found || s->n_conns || s->book) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		take_out_of_bucket(a, s);
		a->n_slices--;
		(void)slice_free(s);
	}
}

static void watch_slices_dir(struct arbiter *a)
{
	struct stat st;

	if (stat(a->slices_dir, &st) < 0) {
		a->slices_events = events_stop(a->slices_events);
		return;
	}
	if (a->slices_events && st.st_ino == a->slices_ino && st.st_dev == a->slices_dev)
		return;
	(void)events_stop(a->slices_events);
	a->slices_events = events_start(a, a->slices_dir, NULL);
	a->slices_ino = st.st_ino;
	a->slices_dev = st.st_dev;
}

void slices_scan(struct arbiter *a)
{
	const struct dirent *e;
	bool all = true;
	DIR *dir;

	watch_slices_dir(a);
	dir = opendir(a->slices_dir);
	/* A directory that cannot be read says nothing of its slices. */
	if (!dir && errno != ENOENT)
		return;
	for (struct slice *s = a->slices; s; s = s->next)
		s->found = false;
	while (dir && (errno = 0, e = readdir(dir))) {
		if (slice_id_valid(e->d_name))
			add(a, e->d_name);
	}
	if (dir) {
		all = errno == 0;
		(void)closedir(dir);
	}
	if (all)
		sweep(a);
}

static void on_settled(uv_timer_t *t)
{
	struct arbiter *a = t->data;

	if (a->scan_wanted) {
		a->scan_wanted = false;
		slices_scan(a);
	}
	for (struct slice *s = a->slices; s; s = s->next) {
		if (s->paused && s->listener) {
			s->paused = false;
			watch_pause(s->listener, false);
		}
		if (s->dirty)
			look(s);
	}
}

void slices_pause(struct slice *s)
{
	struct arbiter *a = s->arbiter;

	if (log_limit_pass(&a->noise, time_mono_ns(), NS_PER_SEC * 10, 1))
		log_error("connections cannot be accepted, trying again",
			LOG_STR("slice", s->id), LOG_STR("reason", strerror(errno)));
	s->paused = true;
	watch_pause(s->listener, true);
	if (!uv_is_active((uv_handle_t *)&a->settle))
		(void)uv_timer_start(&a->settle, on_settled, PAUSE_MS, 0);
}

static void on_event(uv_fs_event_t *h, const char *name, int events, int status)
{
	struct slice *s = h->data;
	struct arbiter *a = h->loop->data;

	(void)name;
	(void)events;
	/* A watch that broke is made anew by the next scan. */
	if (s && status == 0)
		s->dirty = true;
	else
		a->scan_wanted = true;
	if (!uv_is_active((uv_handle_t *)&a->settle))
		(void)uv_timer_start(&a->settle, on_settled, SETTLE_MS, 0);
}

/* Whether a change could be missed until the next scan. */
static bool is_blind(const struct arbiter *a)
{
	bool blind = !a->slices_events;

	for (const struct slice *s = a->slices; s && !blind; s = s->next)
		blind = !s->events && s->listener;
	return blind;
}

static void on_rescan(uv_timer_t *t)
{
	struct arbiter *a = t->data;

	/* Whoever starts next begins another book, and the two would give out the memory twice. */
	if (journal_lost(&a->journal)) {
		log_error(
			"the run directory was taken away, ending for an arbiter with a new one",
			LOG_STR("run", a->o.run_dir));
		uv_stop(a->loop);
		return;
	}
	slices_scan(a);
	conns_expire(a, time_mono_ns());
	(void)uv_timer_start(t, on_rescan, is_blind(a) ? RESCAN_BLIND_MS : RESCAN_MS, 0);
}

int slices_start(struct arbiter *a, struct error *err)
{
	if (path_join(a->slices_dir, sizeof(a->slices_dir), a->o.state_dir, SLICES_DIR, err) <
			0 ||
		dir_make(a->slices_dir, 0755, err) < 0)
		return -1;
	a->loop->data = a;
	(void)uv_timer_init(a->loop, &a->rescan);
	(void)uv_timer_init(a->loop, &a->settle);
	a->rescan.data = a->settle.data = a;
	slices_scan(a);
	(void)uv_timer_start(&a->rescan, on_rescan, is_blind(a) ? RESCAN_BLIND_MS : RESCAN_MS,
		0);
	return 0;
}

static bool has_gpus_of(const struct book_slice *b, const struct book_record *rec)
{
	if (b->n_gpus != rec->gpu_count)
		return false;
	for (unsigned int i = 0; i < b->n_gpus; i++) {
		if (memcmp(b->gpus[i].uuid, rec->uuids[i], SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}

/* Limits of the file for those GPUs of the record that it has too. */
static void limits_for(const struct book_slice *b, const struct book_record *rec,
	uint64_t *limits)
{
	for (unsigned int i = 0; i < rec->gpu_count; i++) {
		for (unsigned int k = 0; k < b->n_gpus; k++) {
			if (!memcmp(b->gpus[k].uuid, rec->uuids[i], SLICE_UUID_BYTES))
				limits[i] = b->gpus[k].limit;
		}
	}
}

struct book_slice *slices_orphan(struct arbiter *a, const struct book_record *rec)
{
	uint64_t limits[SLICE_GPUS_MAX] = { SLICE_LIMIT_NOT_KNOWN };
	struct book_slice *b = book_slice_find(&a->book, rec->slice);
	struct slice *s = b ? b->user : NULL;

	if (b && has_gpus_of(b, rec))
		return b;
	if (b && b->n_members)
		return NULL;
	if (b) {
		limits_for(b, rec, limits);
		book_slice_gone(&a->book, b);
	}
	b = book_slice_new(&a->book, rec->slice, rec->gpu_count, rec->uuids, limits);
	if (!b)
		return NULL;
	b->gone = !s;
	if (s) {
		/* As if it had been told of the file after the processes. */
		struct error err = ERROR_INIT;

		s->book = b;
		b->user = s;
		(void)error_set(&err, ERR_INVALID,
			"gpus: expected those that its processes have, found others");
		refuse(s, &err);
		memset(&s->seen, 0, sizeof(s->seen));
	}
	return b;
}

void slice_gpu_text(const struct book_slice *b, unsigned int gpu, char ret[SLICE_UUID_TEXT])
{
	const uint8_t *u = b->gpus[gpu].uuid;
	const struct slice *s = b->user;

	for (unsigned int i = 0; s && i < s->def.n_gpus; i++) {
		if (!memcmp(s->def.gpus[i].uuid, u, SLICE_UUID_BYTES)) {
			memcpy(ret, s->def.gpus[i].text, SLICE_UUID_TEXT);
			return;
		}
	}
	(void)snprintf(ret, SLICE_UUID_TEXT,
		"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
		u[13], u[14], u[15]);
}

void slices_on_removed(void *arg, struct book_slice *b)
{
	struct slice *s = b->user;

	(void)arg;
	if (s)
		s->book = NULL;
}

void slices_stop(struct arbiter *a)
{
	a->slices_events = events_stop(a->slices_events);
	uv_close((uv_handle_t *)&a->rescan, NULL);
	uv_close((uv_handle_t *)&a->settle, NULL);
	while (a->slices) {
		struct slice *s = a->slices;

		a->slices = s->next;
		(void)slice_free(s);
	}
}
