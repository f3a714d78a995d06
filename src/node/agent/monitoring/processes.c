/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/processes.h"

#include "lib/base/array.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (1U << 20) /* of one file; a mountinfo may be long */

/* An ordinary mountinfo takes 0.1 ms, a mountinfo of 1 MiB takes 10 ms. */
static const struct procfs_budget whole_budget = {
	.file_bytes = TEXT_MAX,
	.file_cpu_ns = 20 * NS_PER_MS,
	.cpu_ns = 500 * NS_PER_MS,
	.end_ns = 2 * NS_PER_SEC, /* from the start of the round */
};

#define STAT_START 20 /* fields from the state on, which follows the name */

void monitoring_processes_init(struct monitoring_processes *p, const char *procfs)
{
	*p = (struct monitoring_processes){ .v = NULL };
	(void)snprintf(p->procfs, sizeof(p->procfs), "%s",
		procfs && *procfs ? procfs : "/proc");
	monitoring_processes_begin(p);
}

void monitoring_processes_fini(struct monitoring_processes *p)
{
	free(p->v);
	p->v = NULL;
	p->n = 0;
}

void monitoring_processes_begin(struct monitoring_processes *p)
{
	p->budget = whole_budget;
	p->budget.end_ns += time_mono_ns();
	for (size_t i = 0; i < p->n; i++) {
		p->v[i].read_this_round = false;
		if (p->v[i].oversize_rounds > 0)
			p->v[i].oversize_rounds--;
	}
}

void monitoring_processes_end(struct monitoring_processes *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct monitoring_process *process = &p->v[i];

		process->missed_rounds =
			process->read_this_round ? 0 : process->missed_rounds + 1;
		if (process->missed_rounds < MONITORING_ENDED_ROUNDS)
			p->v[kept++] = *process;
	}
	p->n = kept;
}

/* True: @b has the whole file. */
static bool read_process_file(struct monitoring_processes *p,
	struct monitoring_process *process, const char *name, struct buf *b)
{
	enum procfs_outcome o = procfs_read(b, p->procfs, process->pid, name, &p->budget);

	if (o == PROCFS_TRUNCATED) {
		process->oversize_rounds = MONITORING_OVERSIZE_ROUNDS;
		process->truncated = true;
	}
	process->over_budget = process->over_budget || o == PROCFS_SPENT;
	return o == PROCFS_WHOLE;
}

/* The program's name may contain anything, even text that looks like the fields behind it. */
static bool start_of(const char *text, uint64_t *ret)
{
	const char *at = strrchr(text, ')');

	for (int i = 0; at && i < STAT_START; i++)
		at = strchr(at + 1, ' ');
	if (!at || at[1] < '0' || at[1] > '9')
		return false;
	*ret = 0;
	while (*++at >= '0' && *at <= '9')
		*ret = *ret * 10 + (uint64_t)(*at - '0');
	return true;
}

/* In no cgroup of its own: the kubelet may make none, and the mounts say more. */
static bool in_root(const char *cgroup)
{
	return !strcmp(cgroup, "0::/\n");
}

static void read_owner(struct monitoring_processes *p, struct monitoring_process *process,
	struct buf *b)
{
	bool has_group, known;

	process->uid[0] = process->container[0] = '\0';
	process->oversize_rounds = 0;
	process->truncated = process->over_budget = false;
	has_group = read_process_file(p, process, "cgroup", b);
	process->readable = has_group && !in_root(buf_str(b));
	known = has_group && pod_uid_from_cgroup(buf_str(b), b->len, process->uid);
	if (!read_process_file(p, process, "mountinfo", b))
		return;
	process->readable = true;
	if (known || pod_uid_from_mounts(buf_str(b), b->len, process->uid))
		(void)pod_container_from_mounts(buf_str(b), b->len, process->uid,
			process->container);
}

/* Its position in the list, or where it belongs. */
static size_t find_process_index(const struct monitoring_processes *p, uint32_t pid)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (p->v[mid].pid < pid)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct monitoring_process *find_known_process(const struct monitoring_processes *p,
	uint32_t pid)
{
	size_t i = find_process_index(p, pid);

	return i < p->n && p->v[i].pid == pid ? &p->v[i] : NULL;
}

static struct monitoring_process *add_known_process(struct monitoring_processes *p,
	uint32_t pid)
{
	size_t i = find_process_index(p, pid);

	if (!ARRAY_GROW(&p->v, p->n, &p->room, ARRAY_NO_LIMIT))
		return NULL;
	memmove(&p->v[i + 1], &p->v[i], (p->n - i) * sizeof(*p->v));
	p->n++;
	p->v[i] = (struct monitoring_process){ .pid = pid };
	return &p->v[i];
}

const struct monitoring_process *monitoring_processes_find(const struct monitoring_processes *p,
	uint32_t pid)
{
	return find_known_process(p, pid);
}

/* A new process; a reused PID; a process that may be on its way into a container; a process that is known only in
 * part. */
static bool must_read(const struct monitoring_process *process, bool is_new, uint64_t start)
{
	if (is_new || process->start != start)
		return true;
	return process->oversize_rounds == 0 && !process->read_this_round &&
	       (!*process->uid || process->truncated || process->over_budget);
}

const struct monitoring_process *monitoring_processes_read(struct monitoring_processes *p,
	uint32_t pid)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(TEXT_MAX);
	enum procfs_outcome o = procfs_read(&b, p->procfs, pid, "stat", &p->budget);
	struct monitoring_process *process = find_known_process(p, pid);
	bool is_new = !process;
	uint64_t start = 0;

	if (o == PROCFS_SPENT && process) { /* whether it runs is not known: unchanged */
		process->read_this_round = process->over_budget = true;
		return process;
	}
	if (o != PROCFS_SPENT && (o != PROCFS_WHOLE || !start_of(buf_str(&b), &start)))
		return process;
	process = is_new ? add_known_process(p, pid) : process;
	if (!process)
		return NULL;
	if (o == PROCFS_SPENT)
		process->over_budget = true;
	else if (must_read(process, is_new, start))
		read_owner(p, process, &b);
	process->start = start;
	process->read_this_round = true;
	return process;
}
