/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Processes that NVML shows, that never registered, and that see a slice's directory: they use the
 * GPU past the libraries (a static program, a library opened by another path). Their memory counts
 * against the slice, they stand in its status, and, where the slice says so, they are stopped.
 *
 * Which slice one belongs to is read once for each process; those of no slice are remembered as well.
 *
 * Only a registration makes a process one of ours. So one whose registration the book lost is registered again by its
 * page first. The look for that page has an end (UNHOOKED_LOOKS_MAX), and neither the number of a process's descriptors
 * nor the name of one keeps it from being stopped: a process chooses both.
 */
#include "node/arbiter/internal.h"

#include "node/arbiter/process/proc.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct unhooked *find(struct arbiter *a, uint32_t pid, uint64_t start)
{
	struct unhooked *u = a->unhooked;

	while (u && (u->pid != pid || u->start != start))
		u = u->next;
	return u;
}

static struct unhooked *add(struct arbiter *a, uint32_t pid, uint64_t start, const char *slice)
{
	struct unhooked *u;

	if (a->n_unhooked >= UNHOOKED_MAX)
		return NULL;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->pid = pid;
	u->start = start;
	(void)snprintf(u->slice, sizeof(u->slice), "%s", slice);
	proc_name(a->o.procfs, pid, u->name);
	u->next = a->unhooked;
	a->unhooked = u;
	a->n_unhooked++;
	return u;
}

/* Registered, by the program that it runs now. */
static bool is_member(const struct arbiter *a, uint32_t pid, uint64_t start)
{
	const struct book_task *t = book_task_find(&a->book, pid, start);

	/* A zombie: what its child keeps is counted in the book. */
	if (t && t->dead)
		return true;
	for (const struct book_member *m = t ? t->members : NULL; m; m = m->next_of_task) {
		if (!m->abandoned)
			return true;
	}
	return false;
}

static int gpu_of(const struct slice *s, const uint8_t *uuid)
{
	for (unsigned int i = 0; s->book && i < s->book->n_gpus; i++) {
		if (!memcmp(s->book->gpus[i].uuid, uuid, SLICE_UUID_BYTES))
			return (int)i;
	}
	return -1;
}

/* NULL: it is of none, or of one that is no more. */
static struct slice *slice_of(struct arbiter *a, const struct unhooked *u)
{
	return *u->slice ? slices_find(a, u->slice) : NULL;
}

/* Reads the next part of its descriptors for a page that the book lost. True: it is registered again. */
static bool find_lost(struct arbiter *a, struct unhooked *u)
{
	const struct slice *s = slice_of(a, u);
	enum restore_lost r;

	if (!s || !s->book || s->book->gone || u->looked || u->generation == a->readings.seq)
		return false;
	r = restore_lost(a, u->pid, u->start, u->slice, &u->fds_at);
	u->looked = ++u->looks >= UNHOOKED_LOOKS_MAX || r == RESTORE_NO_PAGE;
	return r == RESTORE_TAKEN;
}

static void take_process(struct arbiter *a, const struct reading_gpu *g,
	const struct reading_process *p)
{
	struct proc_stat st;
	struct unhooked *u;
	const struct slice *s;
	int gpu;

	if (!proc_stat(a->o.procfs, p->pid, &st) || is_member(a, p->pid, st.start))
		return;
	u = find(a, p->pid, st.start);
	if (!u) {
		const struct slice *of = slices_of_process(a, p->pid);

		u = add(a, p->pid, st.start, of ? of->id : "");
	}
	if (!u || find_lost(a, u))
		return;
	s = slice_of(a, u);
	if (u->generation != a->readings.seq) {
		u->generation = a->readings.seq;
		u->times++;
	}
	gpu = s ? gpu_of(s, g->uuid) : -1;
	if (gpu >= 0 && p->known)
		u->bytes[gpu] = p->bytes;
}

/* Looked at a second time, through a descriptor that no other process can take over. */
static bool stop_process(struct arbiter *a, const struct unhooked *u)
{
	CLEANUP(closep) int pidfd = (int)syscall(SYS_pidfd_open, u->pid, 0);
	const struct slice *of;
	struct proc_stat st;

	if (pidfd < 0 || !proc_stat(a->o.procfs, u->pid, &st) || st.start != u->start)
		return false;
	of = slices_of_process(a, u->pid);
	if (!of || of != slice_of(a, u))
		return false;
	if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0) {
		log_warn("process past the libraries cannot be stopped",
			LOG_UINT("pid", u->pid), LOG_STR("name", u->name),
			LOG_STR("reason", strerror(errno)));
		return false;
	}
	log_warn("process stopped: it used the GPU past the libraries",
		LOG_STR("slice", u->slice), LOG_UINT("pid", u->pid), LOG_STR("name", u->name));
	return true;
}

static void judge(struct arbiter *a, struct unhooked *u)
{
	struct slice *s = slice_of(a, u);

	if (!s || !u->looked || u->times < UNHOOKED_STOP_SEEN)
		return;
	if (!u->reported)
		log_warn("process uses the GPU past the libraries", LOG_STR("slice", u->slice),
			LOG_UINT("pid", u->pid), LOG_STR("name", u->name));
	u->reported = true;
	if (s->def.stop_unhooked && !u->stopped && stop_process(a, u)) {
		u->stopped = true;
		s->n_stopped++;
	}
}

/* Those that the reading does not have any more, and what they used. */
static void sweep(struct arbiter *a)
{
	struct unhooked **at = &a->unhooked;

	while (*at) {
		struct unhooked *u = *at;

		if (u->generation == a->readings.seq) {
			judge(a, u);
			at = &u->next;
			continue;
		}
		*at = u->next;
		a->n_unhooked--;
		free(u);
	}
}

static void charge(struct arbiter *a)
{
	for (struct slice *s = a->slices; s; s = s->next) {
		for (unsigned int i = 0; s->book && i < s->book->n_gpus; i++) {
			uint64_t sum = 0;

			for (const struct unhooked *u = a->unhooked; u; u = u->next) {
				if (!strcmp(u->slice, s->id) && u->bytes[i] < BOOK_GRANT_MAX)
					sum += u->bytes[i];
			}
			if (sum != s->book->gpus[i].unhooked)
				book_slice_unhooked(s->book, i, sum);
		}
	}
}

/* GPUs that could not be read keep what they had. */
static void forget_read_gpus(struct arbiter *a, const struct reading *r)
{
	for (struct unhooked *u = a->unhooked; u; u = u->next) {
		const struct slice *s = slice_of(a, u);

		for (size_t k = 0; s && k < r->n; k++) {
			int gpu = gpu_of(s, r->gpus[k].uuid);

			if (gpu >= 0)
				u->bytes[gpu] = 0;
		}
	}
}

/* What is left of a GPU that could not be read keeps its process in the list. */
static void keep_unread(struct arbiter *a)
{
	for (struct unhooked *u = a->unhooked; u; u = u->next) {
		struct proc_stat st;
		uint64_t left = 0;

		for (unsigned int i = 0; i < SLICE_GPUS_MAX; i++)
			left |= u->bytes[i];
		if (left && u->generation != a->readings.seq &&
			proc_stat(a->o.procfs, u->pid, &st) && st.start == u->start &&
			!is_member(a, u->pid, u->start))
			u->generation = a->readings.seq;
	}
}

/* From now on it is known what processes past the libraries use there. */
static void note_read_gpus(struct arbiter *a, const struct reading *r)
{
	for (struct slice *s = a->slices; s; s = s->next) {
		for (size_t k = 0; s->book && k < r->n; k++) {
			int gpu = gpu_of(s, r->gpus[k].uuid);

			if (gpu >= 0)
				s->book->gpus[gpu].read = true;
		}
	}
}

void unhooked_take(struct arbiter *a, const struct reading *r)
{
	note_read_gpus(a, r);
	forget_read_gpus(a, r);
	for (size_t k = 0; k < r->n; k++) {
		for (size_t i = 0; i < r->gpus[k].n; i++)
			take_process(a, &r->gpus[k], &r->gpus[k].processes[i]);
	}
	keep_unread(a);
	sweep(a);
	charge(a);
}

void unhooked_stop(struct arbiter *a)
{
	while (a->unhooked) {
		struct unhooked *u = a->unhooked;

		a->unhooked = u->next;
		free(u);
	}
	a->n_unhooked = 0;
}
