/* SPDX-License-Identifier: Apache-2.0 */
#include "model/prefer/internal.h"

#include "model/prefer/search.h"

/* One available GPU, in the caller's order. */
struct aligned_device {
	const char *id;
	const struct offer_device *device;
	bool required;
	bool unhealthy;
};

/* Score of a link as in NVIDIA's go-gpuallocator: PCIe distance, plus 100 for each NVLink. An unknown link
 * scores 0: such a pair is the last choice, not an error. */
static uint32_t link_score(struct gpu_link link)
{
	static const uint32_t by_level[] = {
		[GPU_LEVEL_SAME_BOARD] = 60,
		[GPU_LEVEL_SINGLE_SWITCH] = 50,
		[GPU_LEVEL_MULTI_SWITCH] = 40,
		[GPU_LEVEL_HOST_BRIDGE] = 30,
		[GPU_LEVEL_SAME_CPU] = 20,
		[GPU_LEVEL_CROSS_CPU] = 10,
		[GPU_LEVEL_UNKNOWN] = 0,
	};
	uint32_t score = link.level < ARRAY_LEN(by_level) ? by_level[link.level] : 0;

	return score + 100u * link.nvlinks;
}

/* The greater score of both directions: one direction may be unknown because that GPU was lost. */
static uint32_t pair_score(const struct inventory *inv, uint32_t a, uint32_t b)
{
	uint32_t x = link_score(inventory_link(inv, a, b));
	uint32_t y = link_score(inventory_link(inv, b, a));

	return x > y ? x : y;
}

static bool is_unhealthy_device(const struct inventory *inv, const struct offer_device *d)
{
	return d->gpu >= inv->n || inv->gpus[d->gpu].fault != GPU_OK;
}

/* Collects the known IDs of @available, each once. Returns their number. */
static uint32_t collect_places(const struct resource *r, const struct inventory *inv,
	const struct prefer_request *req, struct aligned_device *places, uint32_t *at)
{
	uint32_t n = 0;

	for (size_t i = 0; i < req->n_available; i++) {
		const struct offer_device *d = resource_find(r, req->available[i]);

		if (!d || at[d - r->devices])
			continue;
		places[n++] = (struct aligned_device){ .id = req->available[i],
			.device = d,
			.unhealthy = is_unhealthy_device(inv, d) };
		at[d - r->devices] = n;
	}
	return n;
}

/* Marks the required GPUs. *ret_n: number of different GPUs; UINT32_MAX: a required GPU is not available. */
static int mark_required_places(const struct resource *r, const struct prefer_request *req,
	struct aligned_device *places, const uint32_t *at, uint32_t *ret_n, struct error *err)
{
	uint32_t n = 0;

	for (size_t i = 0; i < req->n_required; i++) {
		const struct offer_device *d = resource_find(r, req->required[i]);
		uint32_t place = d ? at[d - r->devices] : 0;

		if (!d)
			return error_set(err, ERR_INVALID,
				"unable to retrieve list of required devices: no device with "
				"uuid: %s",
				req->required[i]);
		if (!place) {
			*ret_n = UINT32_MAX;
			return 0;
		}
		n += !places[place - 1].required;
		places[place - 1].required = true;
	}
	*ret_n = n;
	return 0;
}

/* Drops unhealthy GPUs that are not required. Returns the number of remaining places. */
static uint32_t drop_unhealthy_devices(struct aligned_device *places, uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++)
		if (!places[i].unhealthy || places[i].required)
			places[kept++] = places[i];
	return kept;
}

/* Too few healthy GPUs, or too many for the search: first the required, then the healthy, then the rest. */
static void choose_unaligned(const struct aligned_device *places, uint32_t n, size_t size,
	const char **ret_ids, size_t *ret_n)
{
	for (int pass = 0; pass < 3; pass++) {
		for (uint32_t i = 0; i < n && *ret_n < size; i++) {
			int rank = places[i].required ? 0 : places[i].unhealthy ? 2 : 1;

			if (rank == pass)
				ret_ids[(*ret_n)++] = places[i].id;
		}
	}
}

static int choose_aligned(const struct inventory *inv, const struct aligned_device *places,
	uint32_t n, uint32_t size, const char **ret_ids, size_t *ret_n, struct error *err)
{
	CLEANUP(freep) uint32_t *scores = calloc((size_t)n * n, sizeof(*scores));
	bool required[PREFER_SEARCH_MAX] = { false }, chosen[PREFER_SEARCH_MAX] = { false };
	struct prefer_search s = { .n = n,
		.size = size,
		.scores = scores,
		.required = required,
		.chosen = chosen };
	int r;

	if (!scores)
		return error_nomem(err);
	for (uint32_t i = 0; i < n; i++) {
		required[i] = places[i].required;
		for (uint32_t j = 0; j < n; j++)
			if (i != j)
				scores[i * n + j] = pair_score(inv, places[i].device->gpu,
					places[j].device->gpu);
	}
	r = n <= PREFER_EXACT_GPUS ? prefer_search_exact(&s, err)
				   : prefer_search_greedy(&s, err);
	if (r < 0)
		return -1;
	for (uint32_t i = 0; i < n && *ret_n < size; i++)
		if (chosen[i])
			ret_ids[(*ret_n)++] = places[i].id;
	return 0;
}

int prefer_aligned(const struct resource *r, const struct inventory *inv,
	const struct prefer_request *req, const char **ret_ids, size_t *ret_n,
	struct error *err)
{
	size_t room = r->n_devices ? r->n_devices : 1;
	CLEANUP(freep) struct aligned_device *places = calloc(room, sizeof(*places));
	CLEANUP(freep) uint32_t *at = calloc(room, sizeof(*at));
	uint32_t n, n_required = 0, n_good = 0;

	if (!places || !at)
		return error_nomem(err);
	n = collect_places(r, inv, req, places, at);
	if (mark_required_places(r, req, places, at, &n_required, err) < 0)
		return -1;
	if (req->size == 0 || n < req->size || n_required > req->size)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		n_good += !places[i].unhealthy || places[i].required;
	if (n_good < req->size || n_good > PREFER_SEARCH_MAX) {
		choose_unaligned(places, n, req->size, ret_ids, ret_n);
		return 0;
	}
	n = drop_unhealthy_devices(places, n);
	return choose_aligned(inv, places, n, (uint32_t)req->size, ret_ids, ret_n, err);
}
