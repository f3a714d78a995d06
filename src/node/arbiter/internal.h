/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The arbiter's state, for the files of node/arbiter and of its parts with input and output. All of them run on one
 * loop, except the scheduler thread:
 *
 *	slices/    the directory of slices: slices.h; one slice, its file, socket and compute: slice.h
 *	clients/   connections of processes: conn.h; passed descriptors: passed-fds.h; the first packet: register.h;
 *	           requests after that: requests.h; pages, and how many there are: pages.h
 *	process/   what the kernel reports of processes: proc.h; their end: task.h; processes that were there before
 *	           this arbiter: restore.h; unhooked processes: unhooked.h; processes outside MPS: mps.h
 *	control/   the agent's socket: control.h; status: status.h; questions for NVML's figures, and what the figures
 *	           change: readings.h
 *	scheduler/ the scheduler thread: quanta on the GPUs, and their cost; scheduler.h there is the map
 *	watch.h    descriptors on the loop, listening sockets
 *	arbiter.c  start, restore, stop
 *
 * These parts build on parts without input or output: the grants (node/arbiter/grants/) and the parsers of
 * external input (node/arbiter/clients/packet.h, node/arbiter/control/request.h, node/arbiter/slices/file.h).
 *
 * Thread: loop. Blocks: never, except on small files of local disks.
 */
#include "node/arbiter/arbiter.h"
#include "node/arbiter/clients/pages.h"
#include "node/arbiter/control/readings.h"
#include "node/arbiter/grants/fair-quota.h"
#include "node/arbiter/grants/grants.h"
#include "node/arbiter/grants/journal.h"
#include "node/arbiter/slices/slices.h"
#include "lib/base/log.h"

#include <limits.h>
#include <uv.h>

struct arbiter {
	uv_loop_t *loop;
	struct arbiter_options o;
	char slices_dir[PATH_MAX];
	struct grants_table grants;
	struct journal journal;
	const struct arbiter_slices_ops *slices_ops;
	struct arbiter_slice *slices, *buckets[SLICE_BUCKETS];
	bool scan_needed;
	ino_t slices_ino;
	dev_t slices_dev;
	uv_fs_event_t *slices_events;
	uv_timer_t rescan, settle;
	struct arbiter_conn *conns;
	struct fair_quota conn_quota; /* connections */
	uint64_t n_closed;            /* of them */
	struct pages pages;
	struct passed_fds *passed_fds;
	unsigned int n_slices;
	struct arbiter_control *control;
	struct readings readings;
	struct unhooked *unhooked;
	unsigned int n_unhooked;
	struct scheduler *sched;
	struct log_limit log_limit;
	int spare_fd; /* closed to accept and refuse a connection when descriptors run out */
};
