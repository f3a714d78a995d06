/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/device/internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES_MAX     (UINT64_C(1) << 50)
#define KERNEL_NS_MAX (UINT64_C(1) << 60)

void device_wake(const void *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void device_publish(_Atomic uint64_t *completed, _Atomic uint32_t *waiters, uint64_t value)
{
	atomic_store(completed, value);
	if (atomic_load(waiters))
		device_wake(completed);
}

/* Fills in what the engine needs. False: no library of this version sends such a command. */
static bool translate_command(struct device_client *c, const struct sim_device_command *in,
	const struct device_stream *s, struct engine_command *out)
{
	struct simulated_gpus *gpus = c->device;
	uint32_t slot = s->context->slot, value;
	const struct event_view *w;
	const struct device_stream *other;

	*out = (struct engine_command){ .kind = in->kind,
		.object = in->object,
		.amount = in->amount,
		.width = in->width };
	switch (in->kind) {
	case SIM_DEVICE_KERNEL:
		if (out->amount > KERNEL_NS_MAX)
			out->amount = ENGINE_NEVER;
		out->object = 0;
		if (device_is_fault(in->object))
			out->fail = in->object;
		if (sim_cuda_fault_hit(gpus->state, slot, SIM_CUDA_ERROR, &value))
			out->fail = value ? value : LAUNCH_FAILED;
		if (sim_cuda_fault_hit(gpus->state, slot, SIM_CUDA_HANG, &value))
			out->amount = ENGINE_NEVER;
		return true;
	case SIM_DEVICE_COPY:
		return in->object < SIM_DEVICE_COPIES && in->amount <= BYTES_MAX;
	case SIM_DEVICE_RECORD:
	case SIM_DEVICE_WAIT_EVENT:
		w = request_event(c, in->object);
		if (!w)
			return false;
		out->event = w->event->engine;
		return true;
	case SIM_DEVICE_WAIT_STREAM:
		other = request_stream(c, in->object);
		if (other)
			out->stream = other->engine;
		else
			*out = (struct engine_command){ .kind = SIM_DEVICE_DELAY };
		return true;
	case SIM_DEVICE_HOST:
	case SIM_DEVICE_DELAY:
		return true;
	default:
		return false;
	}
}

/* Writes the number of recordings to the pages of all processes that have the event. */
static void show_recorded(const struct event_view *w)
{
	for (const struct event_view *o = w->event->views; o; o = o->next)
		atomic_store(&o->client->page->events[o->index].recorded,
			engine_event_recorded(w->event->engine));
}

static bool submit_client_command(struct device_client *c, const struct sim_device_command *in,
	uint64_t now_ns)
{
	struct device_stream *s = request_stream(c, in->stream);
	struct engine_command out;
	struct device_context *context;

	if (!s || in->seq != engine_stream_submitted(s->engine) + 1 ||
		!translate_command(c, in, s, &out))
		return false;
	context = s->context;
	if (!engine_submit(s->engine, &out, now_ns))
		return false;
	if (in->kind == SIM_DEVICE_RECORD)
		show_recorded(request_event(c, in->object));
	node_show_busy(context);
	return true;
}

bool device_packet(struct device_client *c, const void *packet, size_t len, int fd,
	uint64_t now_ns, struct device_answer *ret)
{
	struct sim_device_submit many;
	struct sim_device_request request;
	uint32_t op;

	*ret = (struct device_answer){ .fd = -1 };
	if (c->gone || len < sizeof(op))
		return false;
	memcpy(&op, packet, sizeof(op));
	node_read(c->device, false);
	if (op != SIM_DEVICE_SUBMIT) {
		if (len != sizeof(request))
			return false;
		memcpy(&request, packet, sizeof(request));
		engine_advance(c->device->engine, now_ns);
		return device_request(c, &request, fd, now_ns, ret);
	}
	if (!c->page || len < SIM_DEVICE_SUBMIT_BYTES(1) || len > sizeof(many))
		return false;
	memcpy(&many, packet, len);
	if (many.count == 0 || many.count > SIM_DEVICE_BATCH_MAX ||
		len != SIM_DEVICE_SUBMIT_BYTES(many.count))
		return false;
	for (uint32_t i = 0; i < many.count; i++)
		if (!submit_client_command(c, &many.commands[i], now_ns))
			return false;
	return true;
}

/* --- time --- */

void device_advance(struct simulated_gpus *gpus, uint64_t now_ns)
{
	node_read(gpus, false);
	if (now_ns != UINT64_MAX)
		engine_advance(gpus->engine, now_ns);
	usage_measure(gpus, now_ns);
	if (!gpus->gone_count)
		return;
	for (struct device_client *c = gpus->clients, *next; c; c = next) {
		next = c->next;
		if (c->gone && c->free_at_ns <= now_ns)
			peer_free(c);
	}
}

uint64_t device_next_ns(const struct simulated_gpus *gpus)
{
	uint64_t next = engine_next(gpus->engine);

	for (const struct device_client *c = gpus->gone_count ? gpus->clients : NULL; c;
		c = c->next)
		if (c->gone && c->free_at_ns < next)
			next = c->free_at_ns;
	return next;
}

bool device_is_idle(const struct simulated_gpus *gpus)
{
	return !gpus->clients && !memory_exports(gpus->memories);
}

int device_exports_fd(const struct simulated_gpus *gpus)
{
	return memory_exports_fd(gpus->memories);
}

void device_exports(struct simulated_gpus *gpus)
{
	if (!memory_exports_closed(gpus->memories))
		return;
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++)
		if (gpus->slots[slot].usable)
			usage_show_again(gpus, slot);
}
