/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a slice adds to an Allocate: its plan, its directory and its file, by a node of 4 GPUs with 10
 * replicas each. Prints microseconds. The disk is not waited for, as in the agent; so the file system of DIR
 * counts more than what lies below it.
 *
 *	bench-slices [CALLS [DIR]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/agent/slices/store.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#define GPUS     4
#define REPLICAS 10
#define WARM_UP  50

static void die(const struct error *err)
{
	(void)fprintf(stderr, "bench-slices: %s\n", err->msg);
	exit(1);
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static const struct resource *make_node(struct inventory **inv, struct offer **offer)
{
	struct error err = ERROR_INIT;
	struct config *c = NULL;

	if (config_new(&c, &err) < 0 || inventory_new(inv, GPUS, &err) < 0)
		die(&err);
	for (uint32_t i = 0; i < GPUS; i++) {
		struct gpu *g = &(*inv)->gpus[i];

		g->index = i;
		g->memory_usable_bytes = UINT64_C(16) << 30;
		(void)snprintf(g->uuid, sizeof(g->uuid), "GPU-%08x-0000-0000-0000-000000000000",
			i);
	}
	c->sharing.entries = calloc(1, sizeof(*c->sharing.entries));
	c->sharing.n_entries = 1;
	c->sharing.entries[0] = (struct replicated){ .strategy = SHARING_TIME_SLICING,
		.name = OFFER_GPU,
		.replicas = REPLICAS,
		.isolation = { .present = true, .memory = ISOLATION_MEMORY_EQUAL } };
	if (offer_new(offer, *inv, c, &err) < 0)
		die(&err);
	(void)config_free(c);
	return offer_find(*offer, OFFER_GPU);
}

int main(int argc, char **argv)
{
	char temp[] = "/tmp/bench-slices-XXXXXX";
	const char *dir = argc > 2 ? argv[2] : mkdtemp(temp);
	struct inventory *inv = NULL;
	struct offer *offer = NULL;
	const struct resource *r = make_node(&inv, &offer);
	struct error err = ERROR_INIT;
	struct slice_store s;
	uint32_t calls = 500;
	uint64_t *times;

	if ((argc > 1 && !parse_u32(argv[1], &calls)) || calls == 0 || calls > 3000 || !dir) {
		(void)fprintf(stderr, "usage: bench-slices [CALLS (1 to 3000) [DIR]]\n");
		return 2;
	}
	times = calloc(calls, sizeof(*times));
	if (!times || slice_store_load(&s, dir, &err) < 0)
		die(&err);
	for (uint32_t i = 0; i < calls + WARM_UP; i++) {
		const char *id = r->devices[i % r->n_devices].id;
		struct slice_plan plan;
		struct stored_slice *slice;
		uint64_t t0;

		/* The agent prepares slices between allocations. */
		while (slice_store_prepare(&s, &err))
			;
		t0 = time_mono_ns();

		if (slice_plan_make(&plan, r, inv, &id, 1, &err) < 0 ||
			slice_store_add(&s, &slice, r->name, &id, 1, &plan, "1.0-0", t0,
				i * 100, &err) < 0)
			die(&err);
		if (i >= WARM_UP)
			times[i - WARM_UP] = time_mono_ns() - t0;
	}
	qsort(times, calls, sizeof(*times), by_time);
	(void)printf("slice of an Allocate, %u calls: p50 %.1f us, p99 %.1f us, most %.1f us\n",
		calls, (double)times[calls / 2] / 1e3, (double)times[calls * 99 / 100] / 1e3,
		(double)times[calls - 1] / 1e3);
	while (s.n > 0)
		if (slice_store_remove(&s, s.v[s.n - 1], &err) < 0)
			die(&err);
	slice_store_fini(&s);
	(void)offer_free(offer);
	(void)inventory_free(inv);
	free(times);
	return 0;
}
