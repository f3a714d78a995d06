/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Time of one GetPreferredAllocation, beside what the search of NVIDIA's plugin took (one server
 * core, all links equal). Links that differ at random leave the search the most to look at. Fails
 * if a row of 16 GPUs takes more than 10 ms.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/time.h"
#include "model/prefer/prefer.h"

#define ROUNDS 21

enum links { LINKS_EQUAL, LINKS_SOCKETS, LINKS_RANDOM };

static struct gpu_link link_between(enum links links, uint32_t a, uint32_t b, uint32_t gpus)
{
	struct gpu_link link = { .level = GPU_LEVEL_SAME_CPU, .nvlinks = 18 };
	uint32_t pair = a < b ? a * gpus + b : b * gpus + a;

	if (links == LINKS_SOCKETS && a / (gpus / 2) != b / (gpus / 2))
		link = (struct gpu_link){ .level = GPU_LEVEL_CROSS_CPU };
	if (links == LINKS_RANDOM)
		link.nvlinks = (uint8_t)((pair * 2654435761u >> 24) % 19);
	return link;
}

/* The fastest of a few calls: what else the machine does only adds. 0 on an error, which is printed. */
static uint64_t measure_prefer(uint32_t gpus, uint32_t replicas, size_t size,
	enum allocation_policy policy, enum links links)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	CLEANUP(config_freep) struct config *config = NULL;
	CLEANUP(offer_freep) struct offer *offer = NULL;
	CLEANUP(freep) const char **ids = NULL;
	CLEANUP(freep) const char **all = NULL;
	struct error err = ERROR_INIT;
	uint64_t best = UINT64_MAX;
	struct prefer_request req = { .size = size };
	size_t n;

	if (inventory_new(&inv, gpus, &err) < 0 || config_new(&config, &err) < 0)
		goto out;
	for (uint32_t i = 0; i < gpus; i++) {
		inv->gpus[i].index = i;
		(void)snprintf(inv->gpus[i].uuid, sizeof(inv->gpus[i].uuid),
			"GPU-%08x-06c0-7d70-1a51-e59b25b2c16c", i);
	}
	for (uint32_t i = 0; i < gpus * gpus; i++)
		inv->links[i] = link_between(links, i / gpus, i % gpus, gpus);
	if (replicas) {
		config->sharing.entries = calloc(1, sizeof(*config->sharing.entries));
		if (!config->sharing.entries)
			goto out;
		config->sharing.n_entries = 1;
		config->sharing.entries[0].strategy = SHARING_TIME_SLICING;
		(void)snprintf(config->sharing.entries[0].name, RESOURCE_NAME_MAX,
			"nvidia.com/gpu");
		config->sharing.entries[0].replicas = replicas;
	}
	if (offer_new(&offer, inv, config, &err) < 0)
		goto out;
	req.n_available = offer->resources[0].n_devices;
	all = calloc(req.n_available, sizeof(*all));
	ids = calloc(size, sizeof(*ids));
	if (!all || !ids)
		goto out;
	for (size_t i = 0; i < req.n_available; i++)
		all[i] = offer->resources[0].devices[i].id;
	req.available = all;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start = time_mono_ns(), took;

		if (prefer_choose(&offer->resources[0], inv, policy, &req, ids, &n, &err) < 0 ||
			n != size)
			goto out;
		took = time_mono_ns() - start;
		if (took < best)
			best = took;
	}
	return best;
out:
	(void)fprintf(stderr, "prefer: %s\n", err.msg[0] ? err.msg : "no memory");
	return 0;
}

static void print_prefer_time(const char *what, size_t size, uint64_t ns, double reference_ms)
{
	printf("%-34s size %5zu  %9.3f ms", what, size, (double)ns / 1e6);
	if (reference_ms > 0)
		printf("   reference %8.0f ms, %8.0f times", reference_ms,
			reference_ms * 1e6 / (double)ns);
	printf("\n");
}

int main(void)
{
	/* Reference figures where there are any; 0: not measured. */
	static const double reference_ms[17] = { [2] = 3800,
		[3] = 66000,
		[4] = 9200,
		[5] = 17500,
		[6] = 3800,
		[7] = 2800,
		[8] = 40,
		[15] = 22000 };
	static const struct {
		const char *what;
		uint32_t gpus, replicas;
		size_t size;
		enum allocation_policy policy;
	} rows[] = {
		{ "8 GPUs x 50, distributed", 8, 50, 4, ALLOCATION_DISTRIBUTED },
		{ "8 GPUs x 50, packed", 8, 50, 4, ALLOCATION_PACKED },
		{ "8 GPUs x 500, distributed", 8, 500, 4, ALLOCATION_DISTRIBUTED },
		{ "8 GPUs x 500, packed", 8, 500, 1000, ALLOCATION_PACKED },
		{ "8 GPUs x 5000, distributed", 8, 5000, 40000, ALLOCATION_DISTRIBUTED },
		{ "64 whole GPUs (heuristic)", 64, 0, 8, ALLOCATION_DISTRIBUTED },
		{ "256 whole GPUs (heuristic)", 256, 0, 128, ALLOCATION_DISTRIBUTED },
	};
	int bad = 0;

	static const char *const wholes[] = { [LINKS_EQUAL] = "16 whole GPUs, equal links",
		[LINKS_SOCKETS] = "16 whole GPUs, two sockets",
		[LINKS_RANDOM] = "16 whole GPUs, random links" };

	for (size_t size = 1; size <= 8; size++)
		print_prefer_time("8 whole GPUs", size,
			measure_prefer(8, 0, size, ALLOCATION_DISTRIBUTED, LINKS_EQUAL), 0);
	for (enum links links = LINKS_EQUAL; links <= LINKS_RANDOM; links++) {
		for (size_t size = 1; size <= 16; size++) {
			uint64_t ns =
				measure_prefer(16, 0, size, ALLOCATION_DISTRIBUTED, links);

			print_prefer_time(wholes[links], size, ns,
				links == LINKS_EQUAL ? reference_ms[size] : 0);
			bad |= ns == 0 || ns > 10 * NS_PER_MS;
		}
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t ns = measure_prefer(rows[i].gpus, rows[i].replicas, rows[i].size,
			rows[i].policy, LINKS_EQUAL);

		print_prefer_time(rows[i].what, rows[i].size, ns, 0);
		bad |= ns == 0;
	}
	return bad;
}
