/* SPDX-License-Identifier: Apache-2.0 */
#include "container/charges/charges.h"

#include "container/client/link.h"
#include "container/sys.h"

/*
 * Order of writes. `used` never falls below the bytes really in use. This holds for a reader of the page at any
 * instant, and after a kill at any instruction.
 *
 *	to charge:   1. lower credit,  2. driver call,  3. raise seen
 *	to release:  1. driver call,   2. lower seen,   3. raise credit
 *
 * So used >= seen + unseen, and overhead >= 0. Only a debt is an exception. All steps are between the increments
 * of .begun and .done.
 */

#define BOUNDS_WAIT_MS 20 /* at the limit: wait for bounds of other calls to come back */

struct charges {
	/* Bytes in use without a grant. The debt is of the whole process and ends with it. */
	_Atomic uint64_t debt[SLICE_GPUS_MAX];
	/* Bytes reserved for calls in progress. The bytes that a call does not take come back. */
	_Atomic uint64_t bounds[SLICE_GPUS_MAX];
};

static _Atomic(void *) root;

__attribute__((weak)) void (*charges_on_full)(int gpu);

static struct slice_gpu_page *find_gpu_page(int gpu)
{
	struct slice_page *p = gpu < 0 || gpu >= SLICE_GPUS_MAX ? NULL : link_page();

	return p ? &p->gpus[gpu] : NULL;
}

/* Takes @bytes from *word if *word holds that many. */
static bool deduct_credit(_Atomic uint64_t *word, uint64_t bytes)
{
	uint64_t have = atomic_load(word);

	while (have >= bytes)
		if (atomic_compare_exchange_weak(word, &have, have - bytes))
			return true;
	return false;
}

/* Takes up to @bytes from *word. Returns the bytes taken. */
static uint64_t deduct_up_to(_Atomic uint64_t *word, uint64_t bytes)
{
	uint64_t have = atomic_load(word), n;

	do
		n = have < bytes ? have : bytes;
	while (n && !atomic_compare_exchange_weak(word, &have, have - n));
	return n;
}

static struct charges *get_charges(void)
{
	struct charges *charges = wiped_get(&root, sizeof(*charges));

	return charges;
}

static _Atomic uint64_t *get_debt_counter(int gpu)
{
	struct charges *charges = get_charges();

	return charges ? &charges->debt[gpu] : NULL;
}

static uint64_t get_gpu_debt(int gpu)
{
	struct charges *charges = atomic_load_explicit(&root, memory_order_acquire);

	return charges ? atomic_load_explicit(&charges->debt[gpu], memory_order_relaxed) : 0;
}

/* Bytes that this process uses, by the page: granted - credit. .seq makes the two figures consistent with
 * each other. An arbiter that is killed during a change leaves .seq odd until the next arbiter starts. */
static uint64_t page_used(const struct slice_gpu_page *g)
{
	uint64_t granted = 0, credit = 0;

	for (int n = 0; n < 1000; n++) {
		uint32_t seq = atomic_load(&g->seq);

		granted = atomic_load(&g->granted);
		credit = atomic_load(&g->credit);
		if (!(seq & 1) && atomic_load(&g->seq) == seq)
			break;
	}
	return granted > credit ? granted - credit : 0;
}

static void update_peak(struct slice_gpu_page *g, int gpu)
{
	uint64_t used = page_used(g) + get_gpu_debt(gpu), peak = atomic_load(&g->peak);

	while (used > peak && !atomic_compare_exchange_weak(&g->peak, &peak, used))
		;
}

/* The functions below return SLICE_OK, SLICE_NO_ROOM, or -1: the arbiter did not answer. */
static int deduct_or_request(struct slice_gpu_page *g, int gpu, uint64_t bytes)
{
	return deduct_credit(&g->credit, bytes)
		       ? SLICE_OK
		       : link_request_bytes((unsigned int)gpu, bytes, NULL);
}

/* A process with a debt gets no memory until the debt is paid. */
static int pay_debt(struct slice_gpu_page *g, int gpu)
{
	uint64_t due = get_gpu_debt(gpu), paid;
	int r;

	if (__builtin_expect(!due, 1))
		return SLICE_OK;
	r = deduct_or_request(g, gpu, due);
	if (r != SLICE_OK)
		return r;
	/* Other threads may have paid a part meanwhile; the surplus goes back to the credit. */
	paid = deduct_up_to(get_debt_counter(gpu), due);
	atomic_fetch_add(&g->credit, due - paid);
	return get_gpu_debt(gpu) ? SLICE_NO_ROOM : SLICE_OK;
}

static int reserve_gpu_bytes(struct slice_gpu_page *g, int gpu, uint64_t bytes)
{
	int r = SLICE_NO_ROOM;

	if (bytes <= atomic_load_explicit(&g->limit, memory_order_relaxed))
		r = pay_debt(g, gpu);
	return r == SLICE_OK ? deduct_or_request(g, gpu, bytes) : r;
}

/* The driver has already taken @bytes, so they are charged in any case: from credit, by request, or as debt. */
static void reserve_fact(struct slice_gpu_page *g, int gpu, uint64_t bytes)
{
	_Atomic uint64_t *d;

	if (deduct_or_request(g, gpu, bytes) == SLICE_OK)
		return;
	d = get_debt_counter(gpu);
	if (d)
		atomic_fetch_add(d, bytes);
}

static void return_gpu_credit(struct slice_gpu_page *g, int gpu, uint64_t bytes)
{
	if (__builtin_expect(get_gpu_debt(gpu) != 0, 0))
		bytes -= deduct_up_to(get_debt_counter(gpu), bytes);
	if (bytes)
		atomic_fetch_add(&g->credit, bytes);
}

static _Atomic uint64_t *get_charge_counter(struct slice_gpu_page *g, enum charge_kind kind)
{
	switch (kind) {
	case CHARGE_SEEN:
		return &g->seen;
	case CHARGE_UNSEEN:
		return &g->unseen;
	case CHARGE_HIDDEN:
		return NULL;
	}
	return NULL;
}

static void count_charged_bytes(struct slice_gpu_page *g, enum charge_kind kind, uint64_t bytes)
{
	_Atomic uint64_t *n = get_charge_counter(g, kind);

	if (n && bytes)
		atomic_fetch_add(n, bytes);
}

/* Returns the bytes subtracted: never more than were counted, whatever a caller passes. */
static uint64_t uncount_charged_bytes(struct slice_gpu_page *g, enum charge_kind kind,
	uint64_t bytes)
{
	_Atomic uint64_t *n = get_charge_counter(g, kind);

	return n && bytes ? deduct_up_to(n, bytes) : 0;
}

static void add_bound(int gpu, uint64_t bytes)
{
	struct charges *charges = get_charges();

	if (charges)
		atomic_fetch_add(&charges->bounds[gpu], bytes);
}

/*
 * The bound of a call is larger than the bytes that the call takes. So a bound that does not fit now may fit when
 * the calls of other threads are over. The waiting thread has nothing reserved, so no other thread waits for it.
 */
static int reserve_after_others(struct slice_gpu_page *g, int gpu, uint64_t bytes)
{
	struct charges *charges = get_charges();
	int64_t end = sys_now() + BOUNDS_WAIT_MS;
	int r = SLICE_NO_ROOM;

	while (charges && (r = pay_debt(g, gpu)) == SLICE_OK) {
		/* Read before the request: the request finds the bytes that come back after this line. */
		uint64_t others = atomic_load(&charges->bounds[gpu]), left = 0;

		if (!deduct_credit(&g->credit, bytes))
			r = link_request_bytes((unsigned int)gpu, bytes, &left);
		if (r == SLICE_OK)
			return r;
		if (!others || left + others < bytes || sys_now() >= end)
			break;
		(void)sys_wait(-1, 0, sys_now() + 1);
	}
	return r;
}

/* Adds the bound to .bounds; on failure .bounds is unchanged. */
static int reserve_bound(struct slice_gpu_page *g, int gpu, uint64_t bound)
{
	int r = SLICE_NO_ROOM;

	add_bound(gpu, bound);
	if (__builtin_expect(reserve_gpu_bytes(g, gpu, bound) == SLICE_OK, 1))
		return SLICE_OK;
	add_bound(gpu, -bound);
	if (charges_on_full)
		charges_on_full(gpu);
	if (bound <= atomic_load(&g->limit))
		r = reserve_after_others(g, gpu, bound);
	if (r == SLICE_OK)
		add_bound(gpu, bound);
	return r;
}

static CUresult begin_charge(struct charge *c, int gpu, uint64_t bound, enum charge_kind kind,
	bool last)
{
	struct slice_gpu_page *g;
	int r;

	*c = (struct charge){ .gpu = gpu, .kind = kind };
	if (gpu == CHARGES_NO_GPU)
		return CUDA_SUCCESS;
	g = find_gpu_page(gpu);
	if (!g)
		return bound ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	atomic_fetch_add(&g->begun, 1);
	if (!bound)
		return CUDA_SUCCESS;
	r = reserve_bound(g, gpu, bound);
	if (r != SLICE_OK) {
		/* In a slice without a limit, the refusal does not come from a limit. */
		if (last && r == SLICE_NO_ROOM && atomic_load(&g->limit) != SLICE_NO_LIMIT)
			atomic_fetch_add(&g->refused, 1);
		atomic_fetch_add(&g->done, 1);
		c->gpu = CHARGES_NO_GPU;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->bytes = bound;
	return CUDA_SUCCESS;
}

CUresult charge_begin(struct charge *c, int gpu, uint64_t bound, enum charge_kind kind)
{
	return begin_charge(c, gpu, bound, kind, true);
}

CUresult charge_try(struct charge *c, int gpu, uint64_t bound, enum charge_kind kind)
{
	return begin_charge(c, gpu, bound, kind, false);
}

void charge_end(struct charge *c, uint64_t bytes)
{
	struct slice_gpu_page *g = find_gpu_page(c->gpu);

	if (!g)
		return;
	if (bytes > c->bytes)
		reserve_fact(g, c->gpu, bytes - c->bytes);
	count_charged_bytes(g, c->kind, bytes);
	if (bytes < c->bytes)
		return_gpu_credit(g, c->gpu, c->bytes - bytes);
	if (c->bytes)
		add_bound(c->gpu, -c->bytes);
	if (bytes)
		update_peak(g, c->gpu);
	atomic_fetch_add(&g->done, 1);
	if (bytes && (c->kind == CHARGE_HIDDEN || get_gpu_debt(c->gpu)))
		charges_request_compare(c->gpu);
	c->gpu = CHARGES_NO_GPU;
}

void charge_free_begin(struct charge *c, int gpu, enum charge_kind kind)
{
	(void)begin_charge(c, gpu, 0, kind, false);
}

void charge_free_end(struct charge *c, uint64_t bytes)
{
	struct slice_gpu_page *g = find_gpu_page(c->gpu);

	if (!g)
		return;
	/* Bytes of CHARGE_HIDDEN are in no counter. The arbiter gives them back after a comparison with
	 * NVML. */
	return_gpu_credit(g, c->gpu, uncount_charged_bytes(g, c->kind, bytes));
	atomic_fetch_add(&g->done, 1);
	if (bytes && c->kind == CHARGE_HIDDEN)
		charges_request_compare(c->gpu);
	c->gpu = CHARGES_NO_GPU;
}

void charge_release(int gpu, uint64_t bytes, enum charge_kind kind)
{
	struct charge c;

	charge_free_begin(&c, gpu, kind);
	charge_free_end(&c, bytes);
}

void charge_adjust(int gpu, int64_t bytes, enum charge_kind kind)
{
	struct charge c;

	if (bytes < 0) {
		charge_release(gpu, -(uint64_t)bytes, kind);
	} else if (bytes) {
		(void)charge_begin(&c, gpu, 0, kind);
		charge_end(&c, (uint64_t)bytes);
	}
}

void charge_packed(int gpu, int64_t bytes, int64_t in)
{
	struct slice_gpu_page *g = find_gpu_page(gpu);

	if (!g)
		return;
	atomic_fetch_add(&g->packed, (uint64_t)bytes);
	atomic_fetch_add(&g->packed_in, (uint64_t)in);
}

void charge_disown_quietly(int gpu, uint64_t bytes)
{
	struct slice_gpu_page *g = find_gpu_page(gpu);

	if (!g || !bytes)
		return;
	atomic_fetch_add(&g->begun, 1);
	(void)uncount_charged_bytes(g, CHARGE_SEEN, bytes);
	atomic_fetch_add(&g->done, 1);
}

void charge_disown(int gpu, uint64_t bytes)
{
	charge_disown_quietly(gpu, bytes);
	if (bytes)
		charges_request_compare(gpu);
}

bool charges_active(void)
{
	if (__builtin_expect(atomic_load_explicit(&link_off, memory_order_relaxed), 1))
		return false;
	return link_page() || link_open(true) != LINK_NO_SLICE;
}

bool charges_read_usage(int gpu, uint64_t *limit, uint64_t *used)
{
	struct slice_gpu_page *g = find_gpu_page(gpu);
	struct slice_viewed v;

	if (!g)
		return false;
	*limit = atomic_load(&g->limit);
	if (atomic_load(&g->alone)) {
		*used = page_used(g) + get_gpu_debt(gpu);
		return true;
	}
	if (!link_view(0, &v) && (uint32_t)gpu < v.gpu_count) {
		*limit = v.gpus[gpu].limit;
		*used = v.gpus[gpu].used + get_gpu_debt(gpu);
		return true;
	}
	*used = atomic_load(&g->credit);
	*used = *limit > *used ? *limit - *used : 0;
	return true;
}

void charges_request_compare(int gpu)
{
	if (find_gpu_page(gpu))
		link_compare((unsigned int)gpu);
}

bool charges_read_limit(int gpu, uint64_t *limit)
{
	struct slice_gpu_page *g = find_gpu_page(gpu);

	if (g)
		*limit = atomic_load(&g->limit);
	return g != NULL;
}

uint64_t charges_read_overhead(int gpu)
{
	struct slice_gpu_page *g = find_gpu_page(gpu);
	uint64_t used, counted;

	if (!g)
		return 0;
	used = page_used(g);
	counted = atomic_load(&g->seen) + atomic_load(&g->unseen);
	return used > counted ? used - counted : 0;
}
