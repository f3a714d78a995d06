/* SPDX-License-Identifier: Apache-2.0 */
#include "model/prefer/prefer.h"

#include "model/mps/mps.h"
#include "model/slice/slice.h"
#include "model/prefer/search.h"

#include <string.h>

/* --- replicas and MIG devices: the least loaded --- */

/* Allocated replicas of one device, or of a GPU with all its MIG devices. */
struct replica_load {
	uint32_t allocated;
	uint32_t picked; /* in this call */
};

/* The replicas of one device: consecutive, as the resource is sorted. */
struct replica_group {
	uint32_t first, end;
	uint32_t cursor;     /* candidates before this position are picked */
	uint32_t candidates; /* remaining candidates */
	struct replica_load load;
	struct replica_load *gpu; /* of all devices of this resource on the same GPU */
};

struct greedy_choice {
	const struct resource *r;
	const char **candidates; /* [n_devices] the caller's ID, or NULL */
	struct replica_group *groups;
	struct replica_load *gpus;
	uint32_t n_groups, n_gpus;
};

static bool is_same_physical_device(const struct offer_device *a, const struct offer_device *b)
{
	size_t len = device_id_physical_len(a->id);

	return device_id_physical_len(b->id) == len && memcmp(a->id, b->id, len) == 0;
}

static void group_devices(struct greedy_choice *g)
{
	for (uint32_t i = 0; i < g->r->n_devices; i++) {
		const struct offer_device *d = &g->r->devices[i], *before = i ? d - 1 : NULL;
		struct replica_group *x;

		if (!before || before->gpu != d->gpu)
			g->n_gpus++;
		if (!before || !is_same_physical_device(before, d))
			g->groups[g->n_groups++] = (struct replica_group){ .first = i,
				.cursor = i,
				.gpu = &g->gpus[g->n_gpus - 1] };
		x = &g->groups[g->n_groups - 1];
		x->end = i + 1;
		x->candidates += g->candidates[i] != NULL;
		x->load.allocated += g->candidates[i] == NULL;
		x->gpu->allocated += g->candidates[i] == NULL;
	}
}

/* < 0: the policy prefers load @a. */
static int load_cmp(uint32_t a, uint32_t b, enum allocation_policy policy)
{
	int r = a < b ? -1 : a > b;

	return policy == ALLOCATION_PACKED ? -r : r;
}

/*
 * True if @a is the better choice. Equal groups are taken in order. The load of the device counts before
 * the load of its GPU. So `distributed` also spreads replicas over the MIG devices of one GPU. Devices
 * without replicas are either free or allocated, so the load of their GPU decides.
 */
static bool is_better_group(const struct replica_group *a, const struct replica_group *b,
	enum allocation_policy policy)
{
	int r = load_cmp(a->load.allocated, b->load.allocated, policy);

	if (!r)
		r = load_cmp(a->gpu->allocated, b->gpu->allocated, policy);
	if (!r && a->load.picked != b->load.picked)
		return a->load.picked < b->load.picked;
	return r ? r < 0 : a->gpu->picked < b->gpu->picked;
}

/* One device for all @n slices, because only on one device they form a larger slice. With required IDs:
 * their device. Else the best device with room. NULL: the slices must be spread. */
static struct replica_group *one_for_all(struct greedy_choice *g, enum allocation_policy policy,
	const struct offer_device *required, size_t n)
{
	struct replica_group *best = NULL;

	for (uint32_t k = 0; k < g->n_groups; k++) {
		struct replica_group *x = &g->groups[k];

		if (x->candidates < n ||
			(required &&
				!is_same_physical_device(&g->r->devices[x->first], required)))
			continue;
		if (!best || is_better_group(x, best, policy))
			best = x;
	}
	return best;
}

/* The next candidate of device @x, which must have one. */
static const char *pick_from(struct greedy_choice *g, struct replica_group *x)
{
	while (!g->candidates[x->cursor])
		x->cursor++;
	x->candidates--;
	x->load.allocated++;
	x->load.picked++;
	x->gpu->allocated++;
	x->gpu->picked++;
	return g->candidates[x->cursor++];
}

static const char *pick_next_device(struct greedy_choice *g, enum allocation_policy policy)
{
	struct replica_group *best = NULL;

	for (uint32_t k = 0; k < g->n_groups; k++)
		if (g->groups[k].candidates &&
			(!best || is_better_group(&g->groups[k], best, policy)))
			best = &g->groups[k];
	return best ? pick_from(g, best) : NULL;
}

/*
 * Whether several IDs of one physical device are better than as many IDs of several devices:
 *  - Slices of a profile.
 *  - Replicas of MIG devices under MPS: each MIG device has its own daemon, and a process can use only one.
 *  - Replicas that are each too small for a CUDA context, so they can only be units of memory.
 */
static bool is_better_together(const struct resource *r, const struct inventory *inv)
{
	if (r->strategy == SHARING_SLICES)
		return true;
	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct offer_device *d = &r->devices[i];
		const struct offer_share *s = resource_share(r, d);
		uint64_t usable = slice_usable(inv, d->gpu, d->mig);

		if (i && is_same_physical_device(d, &r->devices[i - 1]))
			continue;
		if (d->mig != OFFER_WHOLE && mps_shares(r, d))
			return true;
		if (s && usable &&
			slice_limit(&s->isolation, s->replicas, usable, 1) < CUDA_CONTEXT_BYTES)
			return true;
	}
	return false;
}

static int prefer_greedy(const struct resource *r, const struct inventory *inv,
	enum allocation_policy policy, const struct prefer_request *req, const char **ret_ids,
	size_t *ret_n, struct error *err)
{
	uint32_t room = r->n_devices ? r->n_devices : 1;
	CLEANUP(freep) const char **candidates = calloc(room, sizeof(*candidates));
	CLEANUP(freep) struct replica_group *groups = calloc(room, sizeof(*groups));
	CLEANUP(freep) struct replica_load *gpus = calloc(room, sizeof(*gpus));
	struct greedy_choice g = { .r = r,
		.candidates = candidates,
		.groups = groups,
		.gpus = gpus };
	struct replica_group *one = NULL;
	size_t n_candidates = 0;

	if (!candidates || !groups || !gpus)
		return error_nomem(err);
	for (size_t i = 0; i < req->n_available; i++) {
		const struct offer_device *d = resource_find(r, req->available[i]);

		if (d)
			candidates[d - r->devices] = req->available[i];
	}
	for (size_t i = 0; i < req->n_required; i++) {
		const struct offer_device *d = resource_find(r, req->required[i]);

		if (d)
			candidates[d - r->devices] = NULL;
	}
	for (uint32_t i = 0; i < r->n_devices; i++)
		n_candidates += candidates[i] != NULL;
	if (req->n_required > req->size)
		return 0;
	if (n_candidates < req->size - req->n_required)
		return error_set(err, ERR_INVALID,
			"not enough available devices to satisfy allocation");
	group_devices(&g);
	for (size_t i = 0; i < req->n_required; i++)
		ret_ids[i] = req->required[i];
	if (req->size > 1 && is_better_together(r, inv))
		one = one_for_all(&g, policy,
			req->n_required ? resource_find(r, req->required[0]) : NULL,
			req->size - req->n_required);
	for (size_t i = req->n_required; i < req->size; i++)
		ret_ids[i] = one ? pick_from(&g, one) : pick_next_device(&g, policy);
	*ret_n = req->size;
	return 0;
}

/* --- whole GPUs: the best links --- */

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

static int prefer_aligned(const struct resource *r, const struct inventory *inv,
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

/* --- the choice --- */

static bool is_whole_gpus(const struct resource *r, const struct prefer_request *req)
{
	for (size_t i = 0; i < req->n_available; i++)
		if (device_id_is_replica(req->available[i]))
			return false;
	for (uint32_t i = 0; i < r->n_devices; i++)
		if (strncmp(r->devices[i].id, "MIG-", 4) == 0)
			return false;
	return true;
}

int prefer_choose(const struct resource *r, const struct inventory *inv,
	enum allocation_policy policy, const struct prefer_request *req, const char **ret_ids,
	size_t *ret_n, struct error *err)
{
	*ret_n = 0;
	if (req->n_available > PREFER_MAX_IDS || req->n_required > PREFER_MAX_IDS)
		return error_set(err, ERR_LIMIT, "more than %d devices", PREFER_MAX_IDS);
	if (is_whole_gpus(r, req))
		return prefer_aligned(r, inv, req, ret_ids, ret_n, err);
	return prefer_greedy(r, inv, policy, req, ret_ids, ret_n, err);
}
