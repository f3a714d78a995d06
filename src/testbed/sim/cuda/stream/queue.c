/* SPDX-License-Identifier: Apache-2.0 */

/* Queues in the daemon, and the library's threads. */
#include <signal.h>
#include <stdlib.h>

#include "lib/base/time.h"
#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/stream/stream.h"

#define ROOM (SIM_DEVICE_QUEUE_MAX - SIM_DEVICE_BATCH_MAX)

#define POLL_NS UINT64_C(50000) /* interval of reads of an awaited value in memory */

static struct sim_cuda_queue *queues;

struct sim_cuda_queue *queues_all(void)
{
	return queues;
}

static struct sim_device_stream_cell *get_stream_cell(const struct sim_cuda_queue *q)
{
	return &gpu_daemon_page()->streams[q->id];
}

bool queue_done(const struct sim_cuda_queue *q, uint64_t seq)
{
	return q->gone || seq == 0 || atomic_load(&get_stream_cell(q)->completed) >= seq;
}

CUresult sim_cuda_queue_new(struct sim_cuda_ctx *c, int priority, struct sim_cuda_queue **ret)
{
	struct sim_cuda_queue *q = malloc(sizeof(*q));
	struct sim_device_reply r;
	CUresult err;

	if (!q)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = gpu_call((struct sim_device_request){ .op = SIM_DEVICE_STREAM_CREATE,
			       .object = (uint32_t)c->daemon_id,
			       .percent = (uint32_t)-priority },
		&r, -1, NULL);
	if (err) {
		free(q);
		return err == CUDA_ERROR_OPERATING_SYSTEM ? CUDA_ERROR_OUT_OF_MEMORY : err;
	}
	*q = (struct sim_cuda_queue){ .ctx = c, .id = r.object, .refs = 1, .next = queues };
	q->items_end = &q->items;
	queues = q;
	*ret = q;
	return CUDA_SUCCESS;
}

struct sim_cuda_queue *queue_ref(struct sim_cuda_queue *q)
{
	q->refs++;
	return q;
}

static void drop_items(struct sim_cuda_queue *q)
{
	struct host_work_item *i;

	while ((i = q->items)) {
		q->items = i->next;
		work_clear(&i->work);
		free(i);
	}
	q->items_end = &q->items;
}

/* Frees queues without references when they are empty. */
static void free_unused_queues(void)
{
	struct sim_cuda_queue **link = &queues, *q;

	while ((q = *link)) {
		if (q->refs || !queue_done(q, q->last)) {
			link = &q->next;
			continue;
		}
		*link = q->next;
		drop_items(q);
		if (!q->gone)
			(void)gpu_call(
				(struct sim_device_request){ .op = SIM_DEVICE_STREAM_DESTROY,
					.object = q->id },
				NULL, -1, NULL);
		free(q->launches);
		free(q);
	}
}

void queue_drop(struct sim_cuda_queue *q)
{
	if (!--q->refs)
		free_unused_queues();
}

void queue_forget(struct sim_cuda_ctx *c)
{
	for (struct sim_cuda_queue *q = queues; q; q = q->next)
		if (q->ctx == c && !q->gone) {
			q->gone = true;
			drop_items(q);
		}
	free_unused_queues();
}

CUresult queue_wait(struct sim_cuda_queue *q, uint64_t seq)
{
	struct sim_cuda_ctx *c = q->ctx;

	if (!queue_done(q, seq)) {
		queue_ref(q);
		(void)pthread_mutex_unlock(&sim_cuda.lock);
		if (!sim_device_wait(gpu_client(), &get_stream_cell(q)->completed,
			    &get_stream_cell(q)->waiters, seq, UINT64_MAX)) {
			(void)pthread_mutex_lock(&sim_cuda.lock);
			queue_drop(q);
			return CUDA_ERROR_UNKNOWN;
		}
		(void)pthread_mutex_lock(&sim_cuda.lock);
		queue_drop(q);
	}
	return ctx_check(c);
}

CUresult queue_reserve(struct sim_cuda_queue *q, uint64_t n)
{
	CUresult err = CUDA_SUCCESS;

	queue_ref(q);
	while (!err && !queue_done(q, q->last + n <= ROOM ? 0 : q->last + n - ROOM))
		err = queue_wait(q, q->last + n - ROOM);
	queue_drop(q);
	return err;
}

CUresult queue_push_many(struct sim_cuda_queue *q, struct sim_device_command *c, size_t n)
{
	if (q->gone)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	for (size_t i = 0; i < n; i++) {
		c[i].stream = q->id;
		c[i].seq = q->last + 1 + i;
	}
	if (!sim_device_submit(gpu_client(), c, n))
		return CUDA_ERROR_UNKNOWN;
	q->last += n;
	return CUDA_SUCCESS;
}

CUresult queue_push(struct sim_cuda_queue *q, struct sim_device_command c)
{
	CUresult err;

	queue_ref(q);
	err = queue_reserve(q, 1);
	if (err == CUDA_SUCCESS)
		err = queue_push_many(q, &c, 1);
	queue_drop(q);
	return err;
}

CUresult queue_wait_launch_slot(struct sim_cuda_queue *q, bool *waited)
{
	CUresult err = CUDA_SUCCESS;

	queue_ref(q);
	while (!err && q->launches && !queue_done(q, q->launches[q->launch_at])) {
		*waited = true;
		err = queue_wait(q, q->launches[q->launch_at]);
	}
	queue_drop(q);
	return err;
}

/* Without memory for the ring, only the daemon's limit holds. */
void queue_launched(struct sim_cuda_queue *q)
{
	if (!q->launches)
		q->launches = calloc(LAUNCHES_MAX, sizeof(*q->launches));
	if (!q->launches)
		return;
	q->launches[q->launch_at] = q->last;
	q->launch_at = (q->launch_at + 1) % LAUNCHES_MAX;
}

/* --- the threads --- */

static bool is_callback(const struct cuda_work *w)
{
	return w->kind == WORK_HOST || w->kind == WORK_CALLBACK;
}

static bool value_reached(const struct cuda_work *w)
{
	uint64_t now = 0, want = w->value.value;

	if (mem_peek(w->value.at, &now, w->value.wide ? 8 : 4))
		return true;
	switch (w->value.flags & 3) {
	case 0:
		return w->value.wide ? (int64_t)(now - want) >= 0
				     : (int32_t)((uint32_t)now - (uint32_t)want) >= 0;
	case 1:
		return now == want;
	case 2:
		return now & want;
	default:
		return w->value.wide ? ~(now | want) : (uint32_t) ~(now | want);
	}
}

/* The next item that the daemon has reached. *poll: an item waits for a value. */
static struct host_work_item *next_item(bool callbacks, struct sim_cuda_queue **from,
	bool *poll)
{
	for (struct sim_cuda_queue *q = queues; q; q = q->next) {
		struct host_work_item *i = q->items;

		while (i && queue_done(q, i->seq)) { /* a broken context drops all */
			q->items = i->next;
			if (!q->items)
				q->items_end = &q->items;
			work_clear(&i->work);
			free(i);
			i = q->items;
		}
		if (!i || is_callback(&i->work) != callbacks ||
			atomic_load(&get_stream_cell(q)->host_seq) != i->seq)
			continue;
		if (i->work.kind == WORK_WAIT_VALUE && !value_reached(&i->work)) {
			*poll = true;
			continue;
		}
		q->items = i->next;
		if (!q->items)
			q->items_end = &q->items;
		*from = queue_ref(q);
		return i;
	}
	return NULL;
}

static void run_item(struct sim_cuda_queue *q, struct host_work_item *i)
{
	struct cuda_work *w = &i->work;

	switch ((int)w->kind) {
	case WORK_KERNEL:
		kernel_effect(w);
		break;
	case WORK_COPY:
		(void)copy_run(&w->copy);
		break;
	case WORK_SET:
		(void)set_run(&w->set);
		break;
	case WORK_HOST:
		w->host.fn(w->host.userData);
		break;
	case WORK_CALLBACK:
		w->callback.fn(w->callback.stream, CUDA_SUCCESS, w->callback.data);
		break;
	case WORK_WRITE_VALUE:
		(void)mem_write(w->value.at, &w->value.value, w->value.wide ? 8 : 4);
		break;
	default:
		break;
	}
	if (!sim_device_host_done(gpu_client(), q->id, i->seq))
		return; /* the daemon is gone */
}

static void *host_main(void *arg)
{
	bool callbacks = arg != NULL;

	(void)pthread_mutex_lock(&sim_cuda.lock);
	while (true) {
		uint32_t seen = atomic_load(&gpu_daemon_page()->host_word);
		struct sim_cuda_queue *q = NULL;
		bool poll = false;
		struct host_work_item *i = next_item(callbacks, &q, &poll);

		(void)pthread_mutex_unlock(&sim_cuda.lock);
		if (i)
			run_item(q, i);
		else
			sim_device_wait_host(gpu_client(), seen,
				poll ? time_mono_ns() + POLL_NS : UINT64_MAX);
		(void)pthread_mutex_lock(&sim_cuda.lock);
		if (i) {
			work_clear(&i->work);
			free(i);
			queue_drop(q);
		}
	}
	return NULL;
}

/* Starts the library's threads; once. */
static bool host_start(void)
{
	static bool started;
	static char yes;
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t t;
	int r;

	if (started)
		return true;
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&t, &attr, host_main, NULL);
	if (r == 0)
		r = pthread_create(&t, &attr, host_main, &yes);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	started = r == 0;
	return started;
}

CUresult queue_push_host(struct sim_cuda_queue *q, struct cuda_work *w)
{
	struct host_work_item *i;
	CUresult err = queue_reserve(q, 1);

	if (err)
		return err;
	if (!host_start())
		return CUDA_ERROR_OPERATING_SYSTEM;
	i = malloc(sizeof(*i));
	if (!i)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*i = (struct host_work_item){ .seq = q->last + 1, .work = *w };
	*w = (struct cuda_work){ .kind = WORK_EMPTY };
	*q->items_end = i;
	q->items_end = &i->next;
	/* An error means that the context or the daemon is gone. The item then ends with the queue. */
	return queue_push(q, (struct sim_device_command){ .kind = SIM_DEVICE_HOST });
}
