/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Unhooked processes: NVML lists them, never registered, and see a slice's directory. Such a process uses the GPU
 * without the interception libraries (a static program, or a library opened by another path). Its memory counts
 * against the slice, and status lists it. If slice.json says so, the arbiter kills it.
 *
 * The arbiter reads once per process which slice it belongs to. The arbiter remembers processes of no slice too.
 *
 * Only a registration makes a process a member. If the registration of a process was lost, the arbiter first
 * registers the process again from its page. The search for this page has a limit (UNHOOKED_FD_SCANS_MAX). A
 * process chooses the number and the names of its descriptors, and neither keeps it from being killed.
 */
#include "node/arbiter/process/unhooked.h"

#include "node/arbiter/internal.h"
#include "node/arbiter/process/proc.h"
#include "node/arbiter/process/restore.h"
#include "node/arbiter/slices/slices.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNHOOKED_MAX           4096
#define UNHOOKED_STOP_READINGS 2 /* successive readings before a process is killed */
/* Limit of readings in which a process's descriptors are searched for a lost page, PROC_FDS_MAX in each. */
#define UNHOOKED_FD_SCANS_MAX 16

static struct unhooked *find_unhooked(struct arbiter *a, uint32_t pid, uint64_t start)
{
	struct unhooked *u = a->unhooked;

	while (u && (u->pid != pid || u->start != start))
		u = u->next;
	return u;
}

static struct unhooked *add_unhooked(struct arbiter *a, uint32_t pid, uint64_t start,
	const char *slice)
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

/* Whether the program that the process runs now is registered. */
static bool is_member(const struct arbiter *a, uint32_t pid, uint64_t start)
{
	const struct grants_task *t = grants_task_find(&a->grants, pid, start);

	/* A zombie: the grants count what its child keeps. */
	if (t && t->dead)
		return true;
	for (const struct grants_member *m = t ? t->members : NULL; m; m = m->next_of_task) {
		if (!m->abandoned)
			return true;
	}
	return false;
}

static int find_slice_gpu(const struct arbiter_slice *s, const uint8_t *uuid)
{
	for (unsigned int i = 0; s->grants && i < s->grants->n_gpus; i++) {
		if (!memcmp(s->grants->gpus[i].uuid, uuid, SLICE_UUID_BYTES))
			return (int)i;
	}
	return -1;
}

/* NULL: it belongs to no slice, or to a slice that no longer exists. */
static struct arbiter_slice *slice_of(struct arbiter *a, const struct unhooked *u)
{
	return *u->slice ? arbiter_slices_find(a, u->slice) : NULL;
}

/* Searches the next part of the process's descriptors for a page whose record was lost. True: the process is
 * registered again. */
static bool find_lost_page(struct arbiter *a, struct unhooked *u)
{
	const struct arbiter_slice *s = slice_of(a, u);
	enum restore_result r;

	if (!s || !s->grants || s->grants->removed || u->fds_scanned ||
		u->generation == a->readings.seq)
		return false;
	r = restore_lost_process(a, u->pid, u->start, u->slice, &u->fds_offset);
	u->fds_scanned = ++u->n_fd_scans >= UNHOOKED_FD_SCANS_MAX || r == RESTORE_NO_PAGE;
	return r == RESTORE_ADOPTED;
}

static void record_unhooked_process(struct arbiter *a, const struct reading_gpu *g,
	const struct reading_process *p)
{
	struct proc_stat st;
	struct unhooked *u;
	const struct arbiter_slice *s;
	int gpu;

	if (!proc_stat(a->o.procfs, p->pid, &st) || is_member(a, p->pid, st.start))
		return;
	u = find_unhooked(a, p->pid, st.start);
	if (!u) {
		const struct arbiter_slice *of = arbiter_slices_find_by_pid(a, p->pid);

		u = add_unhooked(a, p->pid, st.start, of ? of->id : "");
	}
	if (!u || find_lost_page(a, u))
		return;
	s = slice_of(a, u);
	if (u->generation != a->readings.seq) {
		u->generation = a->readings.seq;
		u->n_readings++;
	}
	gpu = s ? find_slice_gpu(s, g->uuid) : -1;
	if (gpu >= 0 && p->known)
		u->bytes[gpu] = p->bytes;
}

/* Checks start time and slice again through a pidfd, so that no other process with this PID is killed. */
static bool kill_unhooked_process(struct arbiter *a, const struct unhooked *u)
{
	CLEANUP(closep) int pidfd = (int)syscall(SYS_pidfd_open, u->pid, 0);
	const struct arbiter_slice *of;
	struct proc_stat st;

	if (pidfd < 0 || !proc_stat(a->o.procfs, u->pid, &st) || st.start != u->start)
		return false;
	of = arbiter_slices_find_by_pid(a, u->pid);
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

static void apply_unhooked_policy(struct arbiter *a, struct unhooked *u)
{
	struct arbiter_slice *s = slice_of(a, u);

	if (!s || !u->fds_scanned || u->n_readings < UNHOOKED_STOP_READINGS)
		return;
	if (!u->reported)
		log_warn("process uses the GPU past the libraries", LOG_STR("slice", u->slice),
			LOG_UINT("pid", u->pid), LOG_STR("name", u->name));
	u->reported = true;
	if (s->def.stop_unhooked && !u->stopped && kill_unhooked_process(a, u)) {
		u->stopped = true;
		s->n_stopped++;
	}
}

/* Applies the policy to processes that the reading lists, and removes the others. */
static void remove_stale_unhooked(struct arbiter *a)
{
	struct unhooked **at = &a->unhooked;

	while (*at) {
		struct unhooked *u = *at;

		if (u->generation == a->readings.seq) {
			apply_unhooked_policy(a, u);
			at = &u->next;
			continue;
		}
		*at = u->next;
		a->n_unhooked--;
		free(u);
	}
}

static void charge_unhooked_bytes(struct arbiter *a)
{
	for (struct arbiter_slice *s = a->slices; s; s = s->next) {
		for (unsigned int i = 0; s->grants && i < s->grants->n_gpus; i++) {
			uint64_t sum = 0;

			for (const struct unhooked *u = a->unhooked; u; u = u->next) {
				if (!strcmp(u->slice, s->id) && u->bytes[i] < GRANTS_BYTES_MAX)
					sum += u->bytes[i];
			}
			if (sum != s->grants->gpus[i].unhooked)
				grants_slice_set_unhooked(s->grants, i, sum);
		}
	}
}

/* GPUs that could not be read keep their figures. */
static void forget_read_gpus(struct arbiter *a, const struct reading *r)
{
	for (struct unhooked *u = a->unhooked; u; u = u->next) {
		const struct arbiter_slice *s = slice_of(a, u);

		for (size_t k = 0; s && k < r->n; k++) {
			int gpu = find_slice_gpu(s, r->gpus[k].uuid);

			if (gpu >= 0)
				u->bytes[gpu] = 0;
		}
	}
}

/* A process with memory on a GPU that could not be read stays in the list. */
static void retain_unread_gpus(struct arbiter *a)
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

/* From now on the memory of unhooked processes is known on these GPUs. */
static void record_read_gpus(struct arbiter *a, const struct reading *r)
{
	for (struct arbiter_slice *s = a->slices; s; s = s->next) {
		for (size_t k = 0; s->grants && k < r->n; k++) {
			int gpu = find_slice_gpu(s, r->gpus[k].uuid);

			if (gpu >= 0)
				s->grants->gpus[gpu].reading_known = true;
		}
	}
}

void unhooked_apply_reading(struct arbiter *a, const struct reading *r)
{
	record_read_gpus(a, r);
	forget_read_gpus(a, r);
	for (size_t k = 0; k < r->n; k++) {
		for (size_t i = 0; i < r->gpus[k].n; i++)
			record_unhooked_process(a, &r->gpus[k], &r->gpus[k].processes[i]);
	}
	retain_unread_gpus(a);
	remove_stale_unhooked(a);
	charge_unhooked_bytes(a);
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
