/* SPDX-License-Identifier: Apache-2.0 */

/* The requests of processes after their hello (register.c), and the answers. A request for memory may have to
 * wait for NVML. Until then the loop reads nothing more from that process. */
#include "node/arbiter/clients/requests.h"

#include "abi/arbiter-control.h"
#include "node/arbiter/clients/conn.h"
#include "node/arbiter/clients/register.h"
#include "node/arbiter/control/readings.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/process/mps.h"
#include "node/arbiter/slices/slice.h"
#include "node/arbiter/watch.h"
#include "lib/base/time.h"

/* The memory of a process that ended is free only when NVML says so, a few milliseconds later. A process that
 * requests it meanwhile waits, and the loop does not read its next packet. */
static bool may_wait(struct arbiter_conn *c, const struct slice_want *w)
{
	struct arbiter *a = c->arbiter;

	return grants_slice_needs_reading(c->slice->grants, w->gpu) && readings_possible(a) &&
	       time_mono_ns() - c->request_ns < CONTROL_READ_WAIT_MS * NS_PER_MS;
}

static void on_want_packet(struct arbiter_conn *c, const struct slice_want *w, bool wait)
{
	bool waited = c->waiting;
	struct slice_grant g = { .head = { .op = SLICE_GRANT, .tag = w->head.tag } };

	if (!c->member) {
		conn_close(c);
		return;
	}
	g.status = grants_request(c->member, w->gpu, w->bytes, w->head.tag, &g.free_bytes);
	c->waiting = wait && g.status == SLICE_NO_ROOM && may_wait(c, w);
	if (c->waiting != waited)
		fd_watch_pause(c->watch, c->waiting);
	if (!c->waiting) {
		(void)conn_answer(c, &g, sizeof(g), -1);
		return;
	}
	c->request = *w;
	readings_request_soon(c->arbiter);
}

void conns_retry_waiting(struct arbiter *a, bool wait)
{
	struct arbiter_conn *next;

	for (struct arbiter_conn *c = a->conns; c; c = next) {
		const struct slice_want w = c->request;

		next = c->next;
		if (c->waiting)
			on_want_packet(c, &w, wait);
	}
}

static void add_to_view(struct slice_viewed *v, uint32_t first, const struct grants_member *m,
	unsigned int gpu)
{
	uint64_t used = 0, granted = 0;

	for (const struct grants_member *o = m->task->members; o; o = o->next_of_task) {
		if (o->slice == m->slice) {
			used += grants_get_used(o, gpu);
			granted += grants_get_granted(o, gpu);
		}
	}
	if (!granted)
		return;
	if (v->process_count++ < first || v->here >= SLICE_VIEW_PROCESSES)
		return;
	v->processes[v->here].pid = m->rec->ns_pid;
	v->processes[v->here].host_pid = m->rec->pid;
	v->processes[v->here].gpu = gpu;
	v->processes[v->here].used = used;
	v->here++;
}

static void on_view(struct arbiter_conn *c, const struct slice_view *w)
{
	struct slice_viewed v = { .head = { .op = SLICE_VIEWED, .tag = w->head.tag } };
	struct grants_slice *slice = c->slice->grants;

	for (unsigned int i = 0; slice && i < slice->n_gpus; i++) {
		v.gpus[i].limit = slice->gpus[i].limit;
		v.gpus[i].used = grants_slice_used(slice, i);
		v.gpus[i].peak = slice->gpus[i].peak;
		v.gpu_count = i + 1;
	}
	for (const struct grants_member *m = slice ? slice->members : NULL; m; m = m->next) {
		bool first = grants_member_is_oldest(m);

		for (unsigned int i = 0; i < slice->n_gpus && first; i++)
			add_to_view(&v, w->first, m, i);
	}
	(void)conn_answer(c, &v, sizeof(v), -1);
}

static void on_compare(struct arbiter_conn *c, const struct slice_compare *w)
{
	const struct slice_compared r = { .head = { .op = SLICE_COMPARED,
						  .tag = w->head.tag } };

	/* The process may have made its first context. */
	if (c->member)
		arbiter_mps_check_member(c->slice, c->member);
	readings_request_soon(c->arbiter);
	(void)conn_answer(c, &r, sizeof(r), -1);
}

void conn_request(struct arbiter_conn *c, const union packet *p, int fd)
{
	if (p->head.op != SLICE_HELLO && !c->hello_received) {
		conn_close(c);
		return;
	}
	switch (p->head.op) {
	case SLICE_HELLO:
		conn_hello(c, &p->hello, fd);
		break;
	case SLICE_WANT:
		c->request_ns = time_mono_ns();
		on_want_packet(c, &p->want, true);
		break;
	case SLICE_VIEW:
		on_view(c, &p->view);
		break;
	case SLICE_COMPARE:
		on_compare(c, &p->compare);
		break;
	default:
		/* A state, on a connection without a registration with the scheduler. */
		conn_close(c);
		break;
	}
}
