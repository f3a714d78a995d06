/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/run/host.h"

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/procfs.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROCESSES_MAX  256
#define PATH_BYTES     96
#define CHILDREN_BYTES 65536

/* Processes to visit, parents before their children. */
struct process_walk {
	size_t n;
	int32_t pids[PROCESSES_MAX];
};

/* Reads "PID PID ", the children of one thread. */
static void add_children(struct process_walk *w, int32_t pid, int32_t tid)
{
	CLEANUP(buf_fini) struct buf list = BUF_INIT(CHILDREN_BYTES);
	char path[PATH_BYTES], *rest = NULL;
	struct error ignored = ERROR_INIT;
	uint32_t child;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tid);
	if (file_read(path, &list, &ignored) < 0 || !list.len)
		return; /* the thread has ended, or the kernel does not report children */
	for (char *word = strtok_r(list.data, " ", &rest); word && w->n < PROCESSES_MAX;
		word = strtok_r(NULL, " ", &rest))
		if (parse_u32(word, &child) && child <= INT32_MAX)
			w->pids[w->n++] = (int32_t)child;
}

static bool read_waited(uint64_t *ret, int32_t pid, int32_t tid)
{
	char path[PATH_BYTES];

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	return schedstat_waited(path, ret);
}

/* Adds the children of @pid to @w. Adds its threads to @ret, unless @pid is this process. */
static void read_process_threads(struct process_walk *w, struct host_watch *ret, int32_t pid,
	bool is_self)
{
	char path[PATH_BYTES];
	const struct dirent *e;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	if (!d)
		return;
	while ((e = readdir(d))) {
		uint64_t waited;
		uint32_t tid;

		if (!parse_u32(e->d_name, &tid) || tid > INT32_MAX)
			continue; /* "." and ".." */
		add_children(w, pid, (int32_t)tid);
		if (!is_self && ret->n < HOST_THREADS_MAX &&
			read_waited(&waited, pid, (int32_t)tid))
			ret->threads[ret->n++] = (struct host_thread){ (int32_t)tid, waited };
	}
	(void)closedir(d);
}

void host_watch_begin(struct host_watch *w)
{
	struct process_walk walk = { 1, { (int32_t)getpid() } };

	w->since_ns = time_mono_ns();
	w->n = 0;
	for (size_t i = 0; i < walk.n; i++)
		read_process_threads(&walk, w, walk.pids[i], i == 0);
}

/* 0 for a thread that is new: all of its waiting is since then. */
static uint64_t waited_before(const struct host_watch *w, int32_t tid)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->threads[i].tid == tid)
			return w->threads[i].waited_ns;
	return 0;
}

double host_watch_waited(const struct host_watch *w)
{
	struct host_watch *now = malloc(sizeof(*now));
	uint64_t longest = 0, span;
	double share = NAN;

	if (!now || !w->since_ns) {
		free(now);
		return NAN;
	}
	host_watch_begin(now);
	for (size_t i = 0; i < now->n; i++) {
		uint64_t before = waited_before(w, now->threads[i].tid);
		uint64_t waited = now->threads[i].waited_ns;

		if (waited > before && waited - before > longest)
			longest = waited - before;
	}
	span = now->since_ns - w->since_ns;
	if (now->n && span)
		share = fmin(1, (double)longest / (double)span);
	free(now);
	return share;
}
