/* SPDX-License-Identifier: Apache-2.0 */

/* Clients, and the end of all that they have. */
#include "testbed/sim/device/internal.h"

#include "lib/base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void read_peer_name(uint32_t pid, char *ret, size_t cap)
{
	char path[64];
	CLEANUP(closep) int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, cap - 1);
	ret[n > 0 ? (size_t)n : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

struct device_client *device_client_new(struct simulated_gpus *gpus, uint32_t pid)
{
	struct device_client *c;

	if (gpus->client_count >= DEVICE_CLIENTS_MAX)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->device = gpus;
	c->pid = pid;
	c->page_fd = -1;
	read_peer_name(pid, c->name, sizeof(c->name));
	c->next = gpus->clients;
	if (c->next)
		c->next->at = &c->next;
	c->at = &gpus->clients;
	gpus->clients = c;
	gpus->client_count++;
	return c;
}

/*
 * An MPS client that dies in the middle of a kernel ends all other clients of its server, as observed on an H100.
 */
static void fault_of_end(const struct device_context *context)
{
	if (context->server && !context->ended && engine_context_computes(context->engine))
		engine_context_fault(context->engine, ILLEGAL_ADDRESS);
}

/* Contexts, queues and events end at once, memory when it is due. */
static void client_stop(struct device_client *c)
{
	for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++)
		if (c->contexts[i].engine) {
			fault_of_end(&c->contexts[i]);
			request_context_end(&c->contexts[i]);
		}
	for (uint32_t i = 0; c->events && i < c->event_top; i++)
		if (c->events[i])
			request_view_end(c->events[i]);
	free(STEAL_PTR(c->streams));
	free(STEAL_PTR(c->events));
	if (c->page)
		(void)munmap(c->page, sizeof(*c->page));
	c->page = NULL;
	closep(&c->page_fd);
	c->page_fd = -1;
}

void peer_free(struct device_client *c)
{
	struct simulated_gpus *gpus = c->device;

	memory_release_all(gpus->memories, &c->holder);
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++) {
		struct share *s = &c->shares[slot];

		/* The bytes of contexts that cuda_free_ms kept. */
		gpus->slots[slot].used -= s->bytes;
		s->bytes = 0;
	}
	/* Other processes may own some of the memory now, so this covers all GPUs. */
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++)
		if (c->shares[slot].listed || gpus->slots[slot].used)
			usage_show_again(gpus, slot);
	usage_unlist(c);
	instance_leave(c);
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
	gpus->client_count--;
	gpus->gone_count -= c->gone;
	free(c);
}

void device_client_gone(struct device_client *c, uint64_t now_ns)
{
	struct simulated_gpus *gpus = c->device;
	uint64_t wait_ns = 0;

	if (now_ns != UINT64_MAX) {
		/* cuda_free_ms may just have changed. */
		node_read(gpus, false);
		engine_advance(gpus->engine, now_ns);
	}
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++)
		if (c->shares[slot].bytes && gpus->slots[slot].free_ns > wait_ns)
			wait_ns = gpus->slots[slot].free_ns;
	if (!wait_ns || now_ns == UINT64_MAX) {
		client_stop(c);
		peer_free(c);
		return;
	}
	/* The bytes of the contexts stay in c->shares, although the contexts end. */
	c->gone = true;
	gpus->gone_count++;
	c->free_at_ns = now_ns + wait_ns;
	client_stop(c);
}
