/* SPDX-License-Identifier: Apache-2.0 */
#include "container/cuda/memory/lump.h"

#include "container/cuda/quiet.h"
#include "container/sys.h"
#include "container/client/warn.h"

#include <string.h>
#include <sys/mman.h>

#define GRAINS_BITS 24 /* of 2 MiB: 32 TiB */
#define GRAINS_MASK ((UINT64_C(1) << GRAINS_BITS) - 1)
#define GRAINS_MAX  (GRAINS_MASK / 4) /* of one call */

#define LUMPS_FIRST 32
#define LUMPS_BLOCK 64

_Atomic uint32_t lump_gpus;

void (*ledger_on_full)(int gpu) = lumps_trim;

static struct lump first[LUMPS_FIRST];
static size_t first_used;
static _Atomic(struct lump *) list; /* places are never taken out of it */
static struct sys_lock making;      /* guards the making of places and keys */

/* The word: charged, outstanding, number. */

static uint64_t charged(uint64_t word)
{
	return word & GRAINS_MASK;
}

static uint64_t outstanding(uint64_t word)
{
	return word >> GRAINS_BITS & GRAINS_MASK;
}

static uint64_t next_word(uint64_t word, uint64_t all, uint64_t out)
{
	uint64_t number = (word >> 2 * GRAINS_BITS) + 1;

	return number << 2 * GRAINS_BITS | (out & GRAINS_MASK) << GRAINS_BITS |
	       (all & GRAINS_MASK);
}

static void add_outstanding(struct lump *l, uint64_t grains)
{
	uint64_t w = atomic_load(&l->word);

	while (!atomic_compare_exchange_weak(&l->word, &w,
		next_word(w, charged(w) + grains, outstanding(w) + grains)))
		;
}

static void end_outstanding(struct lump *l, uint64_t grains)
{
	uint64_t w = atomic_load(&l->word);

	while (!atomic_compare_exchange_weak(&l->word, &w,
		next_word(w, charged(w), outstanding(w) - grains)))
		;
}

/* Users. */

static bool enter(struct lump *l)
{
	int32_t n = atomic_load(&l->users);

	do
		if (n < 0)
			return false;
	while (!atomic_compare_exchange_weak(&l->users, &n, n + 1));
	return true;
}

static void leave(struct lump *l)
{
	atomic_fetch_sub(&l->users, 1);
}

/* The driver. All within quiet_begin() and quiet_end(). */

static CUmemoryPool pool_of(const struct lump *l)
{
	return (CUmemoryPool)(uintptr_t)atomic_load(&l->key);
}

static bool no_such(CUresult r)
{
	return r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_INVALID_HANDLE;
}

/* False: not known. A pool goes without a word when its device is reset. */
static bool held(struct lump *l, uint64_t *ret)
{
	CUresult r;

	*ret = 0;
	switch (atomic_load(&l->kind)) {
	case LUMP_POOL:
		r = REAL(cuMemPoolGetAttribute)(pool_of(l),
			CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, ret);
		break;
	case LUMP_GRAPH:
		r = REAL(cuDeviceGetGraphMemAttribute)(atomic_load(&l->device),
			CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, ret);
		break;
	default:
		return false;
	}
	if (r == CUDA_SUCCESS) {
		if (!(atomic_load(&l->flags) & LUMP_READ))
			atomic_fetch_or(&l->flags, LUMP_READ);
		return true;
	}
	*ret = 0;
	return no_such(r) && atomic_load(&l->flags) & LUMP_READ;
}

/* What is cached goes back to the system. The caller is one of the users. */
static void trim(struct lump *l)
{
	if (atomic_load(&l->kind) == LUMP_POOL) {
		(void)REAL(cuMemPoolTrimTo)(pool_of(l), 0);
		return;
	}
	/* Pairs with work/graph.c: who launches enters, then reads the epoch. Either we see it, or it sees
	 * that nothing is resident any more. */
	atomic_fetch_add(&l->epoch, 1);
	if (atomic_load(&l->users) == 1)
		(void)REAL(cuDeviceGraphMemTrim)(atomic_load(&l->device));
}

/*
 * Sets the charge to what the driver holds and calls under way may still add; how many bytes more
 * that is. What such a call has added already counts twice here, so that only a size beyond all that
 * is charged makes it more: growth that no bound foresaw.
 */
static int64_t settle(struct lump *l)
{
	uint64_t w = atomic_load(&l->word), now, want;

	do {
		if (!held(l, &now))
			return 0;
		now = granules(now) / LEDGER_GRANULE;
		want = now + outstanding(w);
		if (want > charged(w))
			want = now > charged(w) ? now : charged(w);
		if (want == charged(w))
			return 0;
	} while (!atomic_compare_exchange_strong(&l->word, &w,
		next_word(w, want, outstanding(w))));
	return ((int64_t)want - (int64_t)charged(w)) * (int64_t)LEDGER_GRANULE;
}

/* What changed before an operation: shrunk memory may be in the arbiter's last comparison already. */
static void settle_before(struct lump *l)
{
	int gpu = atomic_load(&l->gpu);
	enum charge_kind counts = (enum charge_kind)atomic_load(&l->counts);
	int64_t more = settle(l);

	if (more < 0 && counts == CHARGE_SEEN)
		charge_disown(gpu, (uint64_t)-more);
	else
		charge_adjust(gpu, more, counts);
}

/* What changed within an operation. */
static void settle_within(struct lump *l)
{
	int64_t more = settle(l);

	charge_adjust(atomic_load(&l->gpu), more, (enum charge_kind)atomic_load(&l->counts));
}

static void clear(struct lump *l)
{
	atomic_store(&l->flags, 0);
	atomic_store(&l->kind, LUMP_NONE);
	atomic_store(&l->key, 0);
}

/* Destroys a pool that holds nothing any more. */
static bool reap(struct lump *l)
{
	int32_t nobody = 0;
	uint64_t now;
	bool gone = false;

	if (!atomic_compare_exchange_strong(&l->users, &nobody, -1))
		return false;
	if (atomic_load(&l->flags) & LUMP_DYING) {
		settle_within(l);
		if (held(l, &now) && !now) {
			CUresult r = REAL(cuMemPoolDestroy)(pool_of(l));

			gone = !r || no_such(r);
		}
	}
	if (gone)
		clear(l);
	atomic_store(&l->users, 0);
	return gone;
}

void lump_forget(struct lump *l)
{
	int32_t nobody = 0;
	uint64_t w;

	if (!atomic_compare_exchange_strong(&l->users, &nobody, -1))
		return;
	w = atomic_exchange(&l->word, 0);
	if (charged(w))
		charge_disown(atomic_load(&l->gpu), charged(w) * LEDGER_GRANULE);
	clear(l);
	atomic_store(&l->users, 0);
}

CUresult lump_retire(struct lump *l)
{
	int gpu = atomic_load(&l->gpu);
	CUdevice device = atomic_load(&l->device);
	struct charge around;
	CUmemoryPool other;
	unsigned int mode = quiet_begin();

	charge_free_begin(&around, gpu, CHARGE_SEEN);
	if (enter(l)) {
		uint64_t none = 0;

		settle_before(l);
		(void)REAL(cuMemPoolSetAttribute)(pool_of(l), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
			&none);
		trim(l);
		settle_within(l);
		/* The driver puts the default in the place of a destroyed pool. */
		if (!REAL(cuDeviceGetMemPool)(&other, device) && other == pool_of(l) &&
			!REAL(cuDeviceGetDefaultMemPool)(&other, device))
			(void)REAL(cuDeviceSetMemPool)(device, other);
		atomic_fetch_or(&l->flags, LUMP_DYING);
		leave(l);
		(void)reap(l);
	}
	charge_free_end(&around, 0);
	quiet_end(mode);
	return CUDA_SUCCESS;
}

/* Looks at every lump of the GPUs of @gpus that holds something. */
static void each(uint32_t gpus, void (*fn)(struct lump *l))
{
	unsigned int mode = quiet_begin();

	for (struct lump *l = atomic_load(&list); l; l = l->next) {
		int gpu = atomic_load(&l->gpu);

		if (gpu < 0 || !(gpus >> gpu & 1) || !atomic_load(&l->key))
			continue;
		if (charged(atomic_load(&l->word)) && enter(l)) {
			fn(l);
			leave(l);
		}
		if (atomic_load(&l->flags) & LUMP_DYING)
			(void)reap(l);
	}
	quiet_end(mode);
}

static void look_within(struct lump *l)
{
	if (atomic_load(&l->flags) & LUMP_DYING)
		trim(l);
	settle_within(l);
}

static void trim_one(struct lump *l)
{
	settle_before(l);
	trim(l);
	settle_within(l);
}

void lumps_trim(int gpu)
{
	if (gpu >= 0 && gpu < 32 && atomic_load(&lump_gpus) >> gpu & 1)
		each(UINT32_C(1) << gpu, trim_one);
}

void lump_wait_begin(struct lump_wait *w)
{
	w->gpus = atomic_load_explicit(&lump_gpus, memory_order_relaxed);
	if (__builtin_expect(!w->gpus, 1))
		return;
	for (int i = 0; i < (int)(sizeof(w->around) / sizeof(*w->around)); i++)
		if (w->gpus >> i & 1)
			charge_free_begin(&w->around[i], i, CHARGE_SEEN);
	each(w->gpus, settle_before);
}

void lump_wait_end(struct lump_wait *w)
{
	if (__builtin_expect(!w->gpus, 1))
		return;
	each(w->gpus, look_within);
	for (int i = 0; i < (int)(sizeof(w->around) / sizeof(*w->around)); i++)
		if (w->gpus >> i & 1)
			charge_free_end(&w->around[i], 0);
}

CUresult lump_begin(struct lump_op *op, struct lump *l, uint64_t bound)
{
	enum charge_kind counts;
	unsigned int mode;
	CUresult r;
	int gpu;

	op->lump = NULL;
	gpu = l ? atomic_load(&l->gpu) : LEDGER_NONE;
	if (gpu == LEDGER_UNKNOWN) {
		gpu = ledger_device_gpu(atomic_load(&l->device));
		atomic_store(&l->gpu, gpu);
		if (gpu >= 0)
			atomic_fetch_or(&lump_gpus, UINT32_C(1) << gpu);
	}
	if (gpu == LEDGER_NONE)
		return CUDA_SUCCESS;
	bound = granules(bound);
	if (bound / LEDGER_GRANULE > GRAINS_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	counts = (enum charge_kind)atomic_load(&l->counts);
	charge_free_begin(&op->around, gpu, counts);
	mode = quiet_begin();
	if (charged(atomic_load(&l->word)) && enter(l)) {
		settle_before(l);
		leave(l);
	}
	quiet_end(mode);
	r = charge_begin(&op->charge, gpu, bound, counts);
	if (r || !enter(l)) {
		if (!r)
			charge_end(&op->charge, 0);
		charge_free_end(&op->around, 0);
		return r;
	}
	add_outstanding(l, bound / LEDGER_GRANULE);
	op->lump = l;
	return CUDA_SUCCESS;
}

void lump_end(struct lump_op *op)
{
	struct lump *l = op->lump;
	uint64_t bound = op->charge.bytes;
	unsigned int mode;

	if (!l)
		return;
	op->lump = NULL;
	/* First it is ours for good: from the next line on others may find it too much and release it. */
	charge_end(&op->charge, bound);
	end_outstanding(l, bound / LEDGER_GRANULE);
	mode = quiet_begin();
	settle_within(l);
	quiet_end(mode);
	leave(l);
	charge_free_end(&op->around, 0);
}

struct lump *lump_find(enum lump_kind kind, uint64_t key)
{
	for (struct lump *l = atomic_load_explicit(&list, memory_order_acquire); l; l = l->next)
		if (atomic_load_explicit(&l->key, memory_order_acquire) == key &&
			atomic_load(&l->kind) == kind && !(atomic_load(&l->flags) & LUMP_DYING))
			return l;
	return NULL;
}

/* With .making held. */
static struct lump *new_place(void)
{
	struct lump *l, *block;

	for (l = atomic_load(&list); l; l = l->next)
		if (!atomic_load(&l->key) && !atomic_load(&l->users))
			return l;
	if (first_used < LUMPS_FIRST) {
		l = &first[first_used++];
		l->next = atomic_load(&list);
		atomic_store(&list, l);
		return l;
	}
	block = mmap(NULL, LUMPS_BLOCK * sizeof(*block), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED) {
		warn_once(WARN_NO_ROOM_FOR_ROWS,
			"no memory for the books: async pools are not counted");
		return NULL;
	}
	for (size_t i = 0; i < LUMPS_BLOCK; i++) {
		block[i].next = atomic_load(&list);
		atomic_store(&list, &block[i]);
	}
	return block;
}

struct lump *lump_of(enum lump_kind kind, uint64_t key, CUdevice device, int gpu,
	enum charge_kind counts)
{
	struct lump *l = lump_find(kind, key);

	if (l)
		return l;
	sys_lock(&making);
	l = lump_find(kind, key);
	if (!l) {
		l = new_place();
		if (l) {
			atomic_store(&l->gpu, gpu);
			atomic_store(&l->counts, counts);
			atomic_store(&l->device, device);
			atomic_store(&l->flags, 0);
			atomic_store(&l->epoch, 1);
			atomic_store(&l->stream, 0);
			atomic_store(&l->kind, kind);
			atomic_store_explicit(&l->key, key, memory_order_release);
			if (gpu >= 0)
				atomic_fetch_or(&lump_gpus, UINT32_C(1) << gpu);
		}
	}
	sys_unlock(&making);
	return l;
}
