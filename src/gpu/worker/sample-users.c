/* SPDX-License-Identifier: Apache-2.0 */

/* Who uses the unit, and for how long each of them computed. Under MIG NVML says no times. */
#include "gpu/worker/sample-unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"

#define STAT_START \
	20 /* words behind the name's bracket: the start is field 22 of /proc/PID/stat */

static int by_pid(const void *a, const void *b)
{
	const struct sample_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Of a GPU in MIG mode the list has the processes of all instances. */
static void list_users(struct sample_reading *r, const struct probe_processes *list)
{
	const struct sample_state *s = r->state;

	for (uint32_t i = 0; i < list->n; i++) {
		const struct gpu_process *p = &list->v[i];
		bool other = s->gi != GPU_NO_INSTANCE &&
			     (p->gi != s->gi || (p->ci != GPU_NO_INSTANCE && p->ci != s->ci));

		if (!other)
			r->users[r->n_users++] =
				(struct sample_process){ .pid = p->pid, .bytes = p->bytes };
	}
}

/* Field 22 of the text of /proc/PID/stat, in ticks since the boot. The name may have blanks and brackets. */
static bool start_ticks(char *text, uint64_t *ret)
{
	char *word = strrchr(text, ')'), *end;

	for (int i = 0; word && i < STAT_START; i++) {
		word = strchr(word + 1, ' ');
	}
	if (!word)
		return false;
	end = strchr(++word, ' ');
	if (end)
		*end = '\0';
	return parse_u64(word, ret);
}

static uint64_t began_us(void *arg, uint32_t pid)
{
	const struct sample_reading *r = arg;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	long per_second = sysconf(_SC_CLK_TCK);
	uint64_t ticks, up_us, now_us = time_wall_ns() / 1000, age_us;
	struct timespec up;
	char path[512];

	probe_crumb(r->ask.p, WORKER_GPU_NONE, WORKER_STEP_PROCFS);
	(void)snprintf(path, sizeof path, "%s/%" PRIu32 "/stat", r->ask.p->procfs, pid);
	if (per_second <= 0 || clock_gettime(CLOCK_BOOTTIME, &up) < 0 ||
		file_read(path, &b, NULL) < 0 || b.len == 0 || !start_ticks(b.data, &ticks))
		return 0;
	up_us = (uint64_t)up.tv_sec * 1000000 + (uint64_t)up.tv_nsec / 1000;
	if (ticks / (uint64_t)per_second > up_us / 1000000)
		return 0;
	age_us = up_us - ticks * 1000000 / (uint64_t)per_second;
	return age_us < now_us ? now_us - age_us : 0;
}

static void count_times(struct sample_reading *r, nvmlProcessUtilizationSample_t *room,
	uint32_t n_room)
{
	struct sample_state *s = r->state;
	uint64_t from_us = s->asked_wall_us, now_us = time_wall_ns() / 1000;
	unsigned int n = n_room;
	nvmlReturn_t code;

	s->asked_wall_us = 0;
	if (!sample_may_ask(r, SAMPLE_ASK_SHARES))
		return;
	code = PROBE_CALL(r->ask.p, r->ask.gpu, nvmlDeviceGetProcessUtilization, r->ask.device,
		room, &n, s->shares.last_seen_us);
	if (code == NVML_ERROR_NOT_FOUND) { /* no sample since the last time: nobody computed */
		n = 0;
		code = NVML_SUCCESS;
	}
	if (!sample_answered(r, SAMPLE_ASK_SHARES, code))
		return;
	s->asked_wall_us = now_us;
	share_count(&s->shares, room, n < n_room ? n : n_room, from_us, now_us, r->users,
		&r->n_users, ARRAY_LEN(r->users), began_us, r);
}

/*
 * Without GPM the GPU's own time is a guess from one moment (sample.c), and the processes' times, which are of
 * the whole interval, say that it cannot have been less.
 */
static void fit_times(struct sample_reading *r)
{
	struct worker_unit *u = r->unit;
	uint64_t sum = share_sum(r->users, r->n_users);

	if ((u->known & WORKER_UNIT_BUSY) && r->gpm_busy < 0 && sum > u->busy_ns)
		u->busy_ns = sum < u->interval_ns ? sum : u->interval_ns;
	if (u->known & WORKER_UNIT_BUSY)
		share_fit(r->users, r->n_users, u->busy_ns,
			r->gpm_busy < 0 ? 0 : SHARE_RAISE_NS);
	else
		share_fit(r->users, r->n_users, u->interval_ns, 0);
}

void sample_users(struct sample_reading *r, const struct probe_processes *list,
	nvmlProcessUtilizationSample_t *room, uint32_t n_room)
{
	if (!sample_answered(r, SAMPLE_ASK_PROCESSES, (nvmlReturn_t)list->code))
		return;
	r->unit->known |= WORKER_UNIT_PROCESSES;
	list_users(r, list);
	if (r->of == FIELD_OF_GPU)
		count_times(r, room, n_room);
	fit_times(r);
	qsort(r->users, r->n_users, sizeof r->users[0], by_pid);
}
