/* SPDX-License-Identifier: Apache-2.0 */

/* Start, restore, stop: in the order in which the parts need each other. */
#include "node/arbiter/internal.h"

#include "node/arbiter/clients/conn.h"
#include "node/arbiter/clients/pages.h"
#include "node/arbiter/clients/requests.h"
#include "node/arbiter/control/control.h"
#include "node/arbiter/control/readings.h"
#include "node/arbiter/process/restore.h"
#include "node/arbiter/process/death.h"
#include "node/arbiter/process/unhooked.h"
#include "node/arbiter/scheduler/scheduler.h"
#include "node/arbiter/slices/slices.h"
#include "lib/base/fd.h"
#include "lib/base/procfs.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

#define DESCRIPTORS_FIRST 4096

/* A connection has two descriptors, and the system's default limit is for interactive programs. A quarter of the
 * descriptors is kept for other uses, so that connections cannot use up all of them. */
static void raise_descriptors(struct arbiter *a)
{
	struct rlimit r;

	a->conn_quota.capacity = CONNS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return;
	if (r.rlim_cur < r.rlim_max) {
		rlim_t was = r.rlim_cur;

		r.rlim_cur = r.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &r) < 0)
			r.rlim_cur = was;
	}
	if (r.rlim_cur / 8 * 3 < CONNS_MAX)
		a->conn_quota.capacity = (unsigned int)(r.rlim_cur / 8 * 3);
}

/*
 * Called before there are threads. When the table of descriptors grows, the kernel makes a process with threads
 * wait for an RCU grace period, some milliseconds each time. So the table gets space for the needs of most nodes
 * at the start.
 */
static void grow_descriptors(void)
{
	CLEANUP(closep) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CLEANUP(closep) int last = -1;

	if (fd >= 0)
		last = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTORS_FIRST - 1);
}

static int open_journal(struct arbiter *a, struct error *err)
{
	char path[PATH_MAX], boot[40];

	if (path_join(path, sizeof(path), a->o.run_dir, JOURNAL_FILE, err) < 0)
		return -1;
	procfs_boot_id(a->o.procfs, boot, sizeof(boot));
	return journal_open(&a->journal, path, boot, time_wall_ns(), err);
}

static const struct arbiter_slices_ops slices_ops = { .accept = conns_accept,
	.stop_listening = conns_stop_listening,
	.stop_slice = conns_stop_slice,
	.stop_sched = conns_stop_sched,
	.expire = conns_expire };

static const struct readings_ops readings_ops = { .possible = control_subscribed,
	.request_reading = control_request_reading,
	.detect_exec = restore_detect_exec,
	.on_applied = unhooked_apply_reading,
	.retry_waiting = conns_retry_waiting };

/* The process or its connection has ended, or its packet is malformed. */
static void on_sched_ended(void *conn)
{
	conn_close(conn);
}

int arbiter_start(struct arbiter **ret, uv_loop_t *loop, const struct arbiter_options *o,
	struct error *err)
{
	struct arbiter *a = calloc(1, sizeof(*a));

	if (!a)
		return error_nomem(err);
	a->loop = loop;
	a->o = *o;
	raise_descriptors(a);
	grow_descriptors();
	if (dir_make(a->o.run_dir, 0755, err) < 0 || open_journal(a, err) < 0) {
		free(a);
		return -1;
	}
	if (scheduler_start(&a->sched,
		    &(struct scheduler_options){ .loop = loop,
			    .run_dir = a->o.run_dir,
			    .procfs = a->o.procfs,
			    .ended = on_sched_ended },
		    err) < 0) {
		journal_close(&a->journal);
		free(a);
		return -1;
	}
	a->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	grants_init(&a->grants);
	a->grants.arg = a;
	a->grants.dropped = conns_on_dropped;
	a->grants.ended = arbiter_death_unwatch;
	a->grants.removed = arbiter_slice_on_removed;
	readings_start(a, &readings_ops);
	pages_start(a);
	/* The loop has not run yet, so no process is answered before restore_grants() has counted what processes
	 * hold. The slices come first, since the restore needs their limits. */
	*ret = a;
	if (arbiter_slices_start(a, &slices_ops, err) < 0 || conns_start(a, err) < 0) {
		arbiter_stop(a);
		return -1;
	}
	restore_grants(a);
	if (arbiter_control_start(a, err) < 0) {
		arbiter_stop(a);
		return -1;
	}
	log_info("arbiter serves", LOG_STR("slices", a->slices_dir),
		LOG_UINT("count", a->n_slices), LOG_STR("run", a->o.run_dir));
	return 0;
}

void arbiter_reload(struct arbiter *a)
{
	(void)arbiter_slices_scan(a);
}

void arbiter_stop(struct arbiter *a)
{
	/* First, so that no gate changes while registrations end: the next arbiter gets all of them back. */
	scheduler_freeze(a->sched);
	arbiter_control_stop(a);
	readings_stop(a);
	arbiter_slices_save_refusals(a); /* while the pages are there */
	conns_stop(a);
	arbiter_slices_stop(a);
	a->sched = scheduler_stop(a->sched);
	pages_stop(a);
	unhooked_stop(a);
	grants_fini(&a->grants);
	journal_close(&a->journal);
}

void arbiter_free(struct arbiter *a)
{
	free(a);
}
