/* SPDX-License-Identifier: Apache-2.0 */
/* What a test does with the quanta of the fake arbiter's slice, and what it reads of them. */
#include "slice-arbiter.h"

#include "container/sys.h"

void slice_arbiter_set_gate_only(struct slice_arbiter *a, uint32_t gpu, uint32_t state)
{
	_Atomic uint32_t *gate;
	struct slice_arbiter_client *client = &a->clients[gpu];
	uint32_t was, now;

	pthread_mutex_lock(&a->lock);
	gate = &a->turn_page->gpus[gpu].gate;
	was = atomic_load(gate);
	do
		now = ((was & ~TURN_STATE) | state) +
		      ((was & TURN_STATE) != state ? TURN_GENERATION : 0);
	while (!atomic_compare_exchange_weak(gate, &was, now));
	if (state != TURN_CLOSED && (was & TURN_STATE) == TURN_CLOSED && client->wants) {
		client->wants = false;
		client->busy = true;
	}
	pthread_mutex_unlock(&a->lock);
}

void slice_arbiter_set_gate(struct slice_arbiter *a, uint32_t gpu, uint32_t state)
{
	slice_arbiter_set_gate_only(a, gpu, state);
	if (state != TURN_CLOSED)
		sys_futex_wake(&slice_arbiter_page(a, gpu)->gate, true);
}

void slice_arbiter_set_throttle(struct slice_arbiter *a, uint32_t gpu, uint64_t window_ns,
	uint64_t overrun_ns, uint64_t quantum_ns)
{
	struct turn_gpu_page *p = slice_arbiter_page(a, gpu);

	atomic_store(&p->window_ns, window_ns);
	atomic_store(&p->overrun_ns, overrun_ns);
	atomic_store(&p->quantum_ns, quantum_ns);
}

void slice_arbiter_set_scheduled(struct slice_arbiter *a, bool on)
{
	pthread_mutex_lock(&a->lock);
	atomic_store(&a->slice_page->turns, on);
	pthread_mutex_unlock(&a->lock);
}

struct slice_arbiter_client slice_arbiter_client(struct slice_arbiter *a, uint32_t gpu)
{
	struct slice_arbiter_client c;

	pthread_mutex_lock(&a->lock);
	c = a->clients[gpu];
	pthread_mutex_unlock(&a->lock);
	return c;
}

struct turn_gpu_page *slice_arbiter_page(struct slice_arbiter *a, uint32_t gpu)
{
	struct turn_page *p;

	for (;;) {
		pthread_mutex_lock(&a->lock);
		p = a->turn_page;
		pthread_mutex_unlock(&a->lock);
		if (p)
			return &p->gpus[gpu];
		(void)usleep(1000);
	}
}

bool slice_arbiter_is_connected(struct slice_arbiter *a)
{
	bool r;

	pthread_mutex_lock(&a->lock);
	r = a->last;
	pthread_mutex_unlock(&a->lock);
	return r;
}
