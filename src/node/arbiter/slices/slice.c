/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One slice: puts its file in force and serves its socket. A sync compares the directory with what is served. A
 * malformed file changes only the slice's .refused. The compute settings of the file go to the scheduler thread
 * (scheduler/scheduler.h) and to processes.
 */
#include "node/arbiter/slices/slice.h"

#include "abi/slice-dir.h"
#include "node/arbiter/clients/pages.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/process/mps.h"
#include "node/arbiter/scheduler/scheduler.h"
#include "node/arbiter/slices/slices.h"
#include "node/arbiter/watch.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* --- compute: in the pages of processes --- */

void arbiter_slice_publish_compute(const struct grants_member *m)
{
	const struct arbiter_slice *s = m->slice->user;

	if (m->page && s)
		atomic_store(&m->page->turns, s->compute.on);
}

static void publish_slice_compute(struct arbiter_slice *s, uint32_t on)
{
	s->compute.on = on;
	for (const struct grants_member *m = s->grants ? s->grants->members : NULL; m;
		m = m->next)
		arbiter_slice_publish_compute(m);
}

/* --- compute: what is in force --- */

static bool has_same_compute_gpus(const struct arbiter_slice_compute *c,
	const struct slice_def *d)
{
	if (c->n_gpus != d->n_gpus)
		return false;
	for (unsigned int i = 0; i < d->n_gpus; i++) {
		if (memcmp(c->uuids[i], d->gpus[i].uuid, SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}

static void record_compute_gpus(struct arbiter_slice_compute *c, const struct slice_def *d)
{
	c->n_gpus = d->n_gpus;
	for (unsigned int i = 0; i < d->n_gpus; i++)
		memcpy(c->uuids[i], d->gpus[i].uuid, SLICE_UUID_BYTES);
}

static void stop_slice_sched(struct arbiter_slice *s)
{
	struct scheduler *scheduler = s->arbiter->sched;

	log_info("slice takes no turns any more", LOG_STR("slice", s->id));
	/*
	 * In this order:
	 *
	 * 1. The arbiter publishes in the pages that there is no compute. A process that sees its connection end
	 *    in step 3 reads there why.
	 * 2. The scheduler thread opens the gates for good. A thread that waits at a gate goes on, even if its
	 *    process does not watch its connection.
	 * 3. The arbiter closes the connections.
	 * 4. The scheduler thread ends the share.
	 */
	publish_slice_compute(s, SLICE_TURNS_NONE);
	scheduler_slice_release(scheduler, s->compute.sched_slice);
	s->arbiter->slices_ops->stop_sched(s);
	scheduler_slice_stop(scheduler, s->compute.sched_slice);
}

/* Puts the compute settings of .def in force. If this fails, sets .compute.error and logs the reason. */
static void compute_apply(struct arbiter_slice *s)
{
	struct arbiter_slice_compute *c = &s->compute;
	uint32_t on = SLICE_TURNS_NONE;
	char last_reason[sizeof(c->error.msg)];

	memcpy(last_reason, c->error.msg, sizeof(last_reason));
	error_clear(&c->error);
	if (c->on != SLICE_TURNS_NONE &&
		(!s->def.has_compute || !has_same_compute_gpus(c, &s->def)))
		stop_slice_sched(s);
	if (s->def.has_compute)
		on = scheduler_slice_set_share(s->arbiter->sched, &c->sched_slice, &s->def,
			&c->error);
	if (on != SLICE_TURNS_NONE)
		record_compute_gpus(c, &s->def);
	/* Logs each reason once. */
	if (c->error.code != ERR_NONE && strcmp(last_reason, c->error.msg) != 0)
		log_error("slice goes without turns", LOG_STR("slice", s->id),
			LOG_STR("reason", c->error.msg));
	publish_slice_compute(s, on);
}

void arbiter_slice_retry_compute(struct arbiter_slice *s)
{
	if (s->def.has_compute && s->compute.error.code != ERR_NONE)
		compute_apply(s);
}

/* --- one slice --- */

/* Stores in .refused why the present file is not in force. Logs each reason once. */
static void slice_refuse(struct arbiter_slice *s, const struct error *err)
{
	if (strcmp(s->refused.msg, err->msg) != 0)
		log_warn(s->def.n_gpus ? "slice refused, keeping what was in force"
				       : "slice refused",
			LOG_STR("slice", s->id), LOG_STR("reason", err->msg));
	s->refused = *err;
}

/* Gives the slice its grants. The refusal counts continue from the usage accounts. */
static void slice_attach_grants(struct arbiter_slice *s, struct grants_slice *slice)
{
	s->grants = slice;
	slice->user = s;
	for (unsigned int i = 0; i < slice->n_gpus; i++) {
		s->refusals[i] =
			scheduler_read_refusals(s->arbiter->sched, s->id, slice->gpus[i].uuid);
		slice->gpus[i].refused += s->refusals[i];
	}
}

void arbiter_slice_save_refusals(struct arbiter_slice *s)
{
	for (unsigned int i = 0; s->grants && i < s->grants->n_gpus; i++) {
		uint64_t refused = grants_slice_refused(s->grants, i);

		/* Without space for an account, the count lasts only as long as this arbiter. */
		if (refused != s->refusals[i] &&
			scheduler_store_refusals(s->arbiter->sched, s->id,
				s->grants->gpus[i].uuid, refused))
			s->refusals[i] = refused;
	}
}

static bool has_same_grants_gpus(const struct grants_slice *slice, const struct slice_def *d)
{
	if (slice->n_gpus != d->n_gpus)
		return false;
	for (unsigned int i = 0; i < d->n_gpus; i++) {
		if (memcmp(slice->gpus[i].uuid, d->gpus[i].uuid, SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}

static int new_grants_slice(struct arbiter_slice *s, const struct slice_def *d,
	struct error *err)
{
	uint8_t uuids[SLICE_GPUS_MAX][SLICE_UUID_BYTES];
	uint64_t limits[SLICE_GPUS_MAX];
	struct grants_slice *slice;

	for (unsigned int i = 0; i < d->n_gpus; i++) {
		memcpy(uuids[i], d->gpus[i].uuid, SLICE_UUID_BYTES);
		limits[i] = d->gpus[i].limit;
	}
	slice = grants_slice_new(&s->arbiter->grants, s->id, d->n_gpus,
		(const uint8_t(*)[SLICE_UUID_BYTES])uuids, limits);
	if (!slice)
		return error_nomem(err);
	slice_attach_grants(s, slice);
	log_info("slice served", LOG_STR("slice", s->id), LOG_STR("resource", d->resource),
		LOG_UINT("gpus", d->n_gpus), LOG_UINT("memory", d->gpus[0].limit));
	return 0;
}

/* Puts @d in force. */
static int apply_slice_def(struct arbiter_slice *s, const struct slice_def *d,
	struct error *err)
{
	struct arbiter *a = s->arbiter;

	if (!s->grants) {
		struct grants_slice *slice = grants_slice_find(&a->grants, s->id);

		if (slice) /* an earlier arbiter's members */
			slice_attach_grants(s, slice);
	}
	if (s->grants && !has_same_grants_gpus(s->grants, d)) {
		if (s->grants->n_members)
			return error_set(err, ERR_INVALID,
				"gpus: expected those that its %u processes have, found others",
				s->grants->n_members);
		grants_slice_remove(&a->grants, s->grants);
	}
	if (!s->grants)
		return new_grants_slice(s, d, err);
	s->grants->removed = false;
	for (unsigned int i = 0; i < d->n_gpus; i++) {
		if (s->grants->gpus[i].limit == d->gpus[i].limit)
			continue;
		grants_slice_set_limit(s->grants, i, d->gpus[i].limit);
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

static bool has_slice_file_changed(const struct stat *a, const struct stat *b)
{
	return a->st_ino != b->st_ino || a->st_dev != b->st_dev || a->st_size != b->st_size ||
	       a->st_mtim.tv_sec != b->st_mtim.tv_sec ||
	       a->st_mtim.tv_nsec != b->st_mtim.tv_nsec ||
	       a->st_ctim.tv_sec != b->st_ctim.tv_sec ||
	       a->st_ctim.tv_nsec != b->st_ctim.tv_nsec;
}

static int read_def(struct arbiter_slice *s, const char *path, struct slice_def *ret,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(SLICE_FILE_MAX);

	if (file_read(path, &b, err) < 0)
		return -1;
	return slice_def_read(ret, path, s->id, buf_str(&b), b.len, err);
}

/* Reads the file if it has changed. */
static void sync_slice_file(struct arbiter_slice *s, const char *path, const struct stat *st)
{
	struct error err = ERROR_INIT;
	struct slice_def d;

	if (!has_slice_file_changed(st, &s->file_stat))
		return;
	s->file_stat = *st;
	if (read_def(s, path, &d, &err) < 0) {
		slice_refuse(s, &err);
		return;
	}
	if (apply_slice_def(s, &d, &err) < 0) {
		(void)error_prefix(&err, "%s", path);
		slice_refuse(s, &err);
		slice_def_fini(&d);
		memset(&s->file_stat, 0,
			sizeof(s->file_stat)); /* may succeed later: read it again */
		return;
	}
	error_clear(&s->refused);
	slice_def_fini(&s->def);
	s->def = d;
	compute_apply(s);
	for (struct grants_member *m = s->grants->members; m; m = m->next)
		arbiter_mps_check_member(s, m);
}

static void sync_slice_socket(struct arbiter_slice *s, const char *dir)
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (path_join(path, sizeof(path), dir, SLICE_SOCKET, NULL) < 0 ||
		(s->listener && lstat(path, &st) == 0 && st.st_ino == s->socket_ino))
		return;
	s->arbiter->slices_ops->stop_listening(s);
	s->paused = false;
	fd = socket_listen(dir, SLICE_SOCKET, SOCK_SEQPACKET, 0666, &err);
	if (fd < 0 || fd_watch_start(&s->listener, s->arbiter->loop, fd,
			      s->arbiter->slices_ops->accept, s, &err) < 0) {
		closep(&fd);
		slice_refuse(s, &err);
		s->no_socket = true;
		return;
	}
	if (s->no_socket)
		error_clear(&s->refused);
	s->no_socket = false;
	s->socket_ino = lstat(path, &st) == 0 ? st.st_ino : 0;
}

void arbiter_slice_stop_serving(struct arbiter_slice *s)
{
	if (!s->listener && (!s->grants || s->grants->removed))
		return;
	log_info("slice is gone", LOG_STR("slice", s->id),
		LOG_UINT("processes", s->grants ? s->grants->n_members : 0));
	s->arbiter->slices_ops->stop_listening(s);
	s->events = arbiter_slices_events_stop(s->events);
	memset(&s->file_stat, 0, sizeof(s->file_stat));
	s->arbiter->slices_ops->stop_slice(s);
	if (s->grants && s->grants->n_members == 0)
		slice_def_fini(&s->def);
	if (s->grants)
		grants_slice_remove(&s->arbiter->grants, s->grants);
}

/* Another directory may have the name now. If it cannot be opened, .dir stays. */
static void sync_slice_dir(struct arbiter_slice *s, const char *path)
{
	CLEANUP(closep) int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		(void)proc_file_id(fd, &s->dir);
}

void arbiter_slice_sync_dir(struct arbiter_slice *s)
{
	char dir[PATH_MAX], path[PATH_MAX];
	struct stat st;

	s->dirty = false;
	if (path_join(dir, sizeof(dir), s->arbiter->slices_dir, s->id, NULL) < 0 ||
		path_join(path, sizeof(path), dir, SLICE_FILE, NULL) < 0)
		return;
	if (lstat(path, &st) < 0) {
		if (errno == ENOENT || errno == ENOTDIR)
			arbiter_slice_stop_serving(s);
		return;
	}
	sync_slice_dir(s, dir);
	if (!s->events)
		s->events = arbiter_slices_events_start(s->arbiter, dir, s);
	sync_slice_file(s, path, &st);
	if (s->grants && !s->grants->removed)
		sync_slice_socket(s, dir);
}

struct arbiter_slice *arbiter_slice_free(struct arbiter_slice *s)
{
	/* Only when the program ends is a listener left. Its descriptor stays open for the exit to close, since
	 * closing it would also close the connections in its queue. */
	if (s->listener)
		(void)fd_watch_release(s->listener);
	s->events = arbiter_slices_events_stop(s->events);
	s->compute.sched_slice =
		scheduler_slice_free(s->arbiter->sched, s->compute.sched_slice);
	pages_detach_slice(s);
	slice_def_fini(&s->def);
	free(s);
	return NULL;
}

void arbiter_slice_on_removed(void *arg, struct grants_slice *slice)
{
	struct arbiter_slice *s = slice->user;

	(void)arg;
	if (!s)
		return;
	arbiter_slice_save_refusals(s);
	s->grants = NULL;
}

void arbiter_slice_gpu_text(const struct grants_slice *slice, unsigned int gpu,
	char ret[SLICE_UUID_TEXT])
{
	const uint8_t *u = slice->gpus[gpu].uuid;
	const struct arbiter_slice *s = slice->user;

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

/* --- slices of an earlier arbiter --- */

static bool has_gpus_of(const struct grants_slice *slice, const struct grants_record *rec)
{
	if (slice->n_gpus != rec->gpu_count)
		return false;
	for (unsigned int i = 0; i < slice->n_gpus; i++) {
		if (memcmp(slice->gpus[i].uuid, rec->uuids[i], SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}

/* Copies the file's limits of those GPUs that the record also has. */
static void limits_for(const struct grants_slice *slice, const struct grants_record *rec,
	uint64_t *limits)
{
	for (unsigned int i = 0; i < rec->gpu_count; i++) {
		for (unsigned int k = 0; k < slice->n_gpus; k++) {
			if (!memcmp(slice->gpus[k].uuid, rec->uuids[i], SLICE_UUID_BYTES))
				limits[i] = slice->gpus[k].limit;
		}
	}
}

struct grants_slice *arbiter_slice_restore(struct arbiter *a, const struct grants_record *rec)
{
	uint64_t limits[SLICE_GPUS_MAX] = { SLICE_LIMIT_NOT_KNOWN };
	struct grants_slice *slice = grants_slice_find(&a->grants, rec->slice);
	struct arbiter_slice *s = slice ? slice->user : NULL;

	if (slice && has_gpus_of(slice, rec))
		return slice;
	if (slice && slice->n_members)
		return NULL;
	if (slice) {
		limits_for(slice, rec, limits);
		grants_slice_remove(&a->grants, slice);
	}
	slice = grants_slice_new(&a->grants, rec->slice, rec->gpu_count, rec->uuids, limits);
	if (!slice)
		return NULL;
	slice->removed = !s;
	if (s) {
		/* As if the file had come after the processes. */
		struct error err = ERROR_INIT;

		slice_attach_grants(s, slice);
		(void)error_set(&err, ERR_INVALID,
			"gpus: expected those that its processes have, found others");
		slice_refuse(s, &err);
		memset(&s->file_stat, 0, sizeof(s->file_stat));
	}
	return slice;
}
