/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/see/processes.h"

#include "base/buf.h"
#include "base/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (1U << 20) /* of one file; a mountinfo may be long */

#define STAT_START 20 /* fields from the state, which is behind the name, on */

void see_processes_init(struct see_processes *p, const char *procfs)
{
	*p = (struct see_processes){ .v = NULL };
	(void)snprintf(p->procfs, sizeof(p->procfs), "%s",
		procfs && *procfs ? procfs : "/proc");
}

void see_processes_fini(struct see_processes *p)
{
	free(p->v);
	p->v = NULL;
	p->n = 0;
}

void see_processes_begin(struct see_processes *p)
{
	for (size_t i = 0; i < p->n; i++)
		p->v[i].looked = false;
}

void see_processes_end(struct see_processes *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].looked)
			p->v[kept++] = p->v[i];
	p->n = kept;
}

static bool read_file(const struct see_processes *p, uint32_t pid, const char *name,
	struct buf *b)
{
	char path[sizeof(p->procfs) + 48];

	(void)snprintf(path, sizeof(path), "%s/%u/%s", p->procfs, pid, name);
	buf_clear(b);
	return file_read(path, b, NULL) == 0;
}

/* The name of the program may hold anything, also what looks like the fields behind it. */
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

static void read_owner(const struct see_processes *p, struct see_process *e, struct buf *b)
{
	e->uid[0] = e->container[0] = '\0';
	if (!read_file(p, e->pid, "cgroup", b) || !see_cgroup_pod(buf_str(b), b->len, e->uid)) {
		e->uid[0] = '\0';
		return;
	}
	if (!read_file(p, e->pid, "mountinfo", b) ||
		!see_mounts_container(buf_str(b), b->len, e->uid, e->container))
		e->container[0] = '\0';
}

static struct see_process *entry_of(struct see_processes *p, uint32_t pid, bool *is_new)
{
	size_t low = 0, high = p->n;
	struct see_process *more;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (p->v[mid].pid < pid)
			low = mid + 1;
		else
			high = mid;
	}
	*is_new = low == p->n || p->v[low].pid != pid;
	if (!*is_new)
		return &p->v[low];
	more = reallocarray(p->v, p->n + 1, sizeof(*more));
	if (!more)
		return NULL;
	p->v = more;
	memmove(&p->v[low + 1], &p->v[low], (p->n - low) * sizeof(*more));
	p->n++;
	p->v[low] = (struct see_process){ .pid = pid };
	return &p->v[low];
}

const struct see_process *see_processes_look(struct see_processes *p, uint32_t pid)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(TEXT_MAX);
	struct see_process *e;
	uint64_t start = 0;
	bool is_new;

	if (!read_file(p, pid, "stat", &b) || !start_of(buf_str(&b), &start))
		return NULL;
	e = entry_of(p, pid, &is_new);
	if (!e)
		return NULL;
	if (is_new || e->start != start || (!*e->uid && !e->looked))
		read_owner(p, e, &b);
	e->start = start;
	e->looked = true;
	return e;
}
