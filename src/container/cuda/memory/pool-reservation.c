/* SPDX-License-Identifier: Apache-2.0 */
#include "container/cuda/memory/pool-reservation.h"

#include "container/cuda/device.h"
#include "container/cuda/driver.h"
#include "container/sys.h"

#include <string.h>
#include <sys/mman.h>

#define GRAINS_BITS 24 /* granules of 2 MiB: 32 TiB */
#define GRAINS_MASK ((UINT64_C(1) << GRAINS_BITS) - 1)
#define GRAINS_MAX  (GRAINS_MASK / 4) /* granules of one call */

#define POOL_RESERVATIONS_FIRST 32
#define POOL_RESERVATIONS_BLOCK 64

_Atomic uint32_t pool_reservation_gpus;

void (*charges_on_full)(int gpu) = pool_reservations_trim;

struct pool_reservations {
	_Atomic(struct pool_reservation *) list; /* entries are never removed */
	struct sys_lock making;                  /* guards new entries and keys */
	size_t first_used;
	struct pool_reservation first[POOL_RESERVATIONS_FIRST];
};

static _Atomic(void *) root;

static void warn_no_pool_memory(void)
{
	warn_once(WARN_NO_ALLOC_TABLE, "no memory for the books: async pools are not counted");
}

static struct pool_reservations *get_pool_reservations(void)
{
	struct pool_reservations *p = wiped_get(&root, sizeof(*p));

	if (!p)
		warn_no_pool_memory();
	return p;
}

static struct pool_reservation *first_pool_reservation(void)
{
	struct pool_reservations *p = get_pool_reservations();

	return p ? atomic_load_explicit(&p->list, memory_order_acquire) : NULL;
}

/* The word: charged, outstanding, number. */

static uint64_t get_charged_grains(uint64_t word)
{
	return word & GRAINS_MASK;
}

static uint64_t get_outstanding_grains(uint64_t word)
{
	return word >> GRAINS_BITS & GRAINS_MASK;
}

static uint64_t next_word(uint64_t word, uint64_t all, uint64_t out)
{
	uint64_t number = (word >> 2 * GRAINS_BITS) + 1;

	return number << 2 * GRAINS_BITS | (out & GRAINS_MASK) << GRAINS_BITS |
	       (all & GRAINS_MASK);
}

static void add_outstanding(struct pool_reservation *reservation, uint64_t grains)
{
	uint64_t w = atomic_load(&reservation->word);

	while (!atomic_compare_exchange_weak(&reservation->word, &w,
		next_word(w, get_charged_grains(w) + grains,
			get_outstanding_grains(w) + grains)))
		;
}

static void end_outstanding(struct pool_reservation *reservation, uint64_t grains)
{
	uint64_t w = atomic_load(&reservation->word);

	while (!atomic_compare_exchange_weak(&reservation->word, &w,
		next_word(w, get_charged_grains(w), get_outstanding_grains(w) - grains)))
		;
}

/* Users. */

static bool enter_pool_reservation(struct pool_reservation *reservation)
{
	int32_t n = atomic_load(&reservation->users);

	do
		if (n < 0)
			return false;
	while (!atomic_compare_exchange_weak(&reservation->users, &n, n + 1));
	return true;
}

static void leave_pool_reservation(struct pool_reservation *reservation)
{
	atomic_fetch_sub(&reservation->users, 1);
}

/* Driver calls. All run between quiet_begin() and quiet_end(). */

static CUmemoryPool get_reservation_pool(const struct pool_reservation *reservation)
{
	return (CUmemoryPool)(uintptr_t)atomic_load(&reservation->key);
}

static bool no_such(CUresult r)
{
	return r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_INVALID_HANDLE;
}

/* False: not known. A pool disappears without notice when its device is reset; its size is then 0. */
static bool read_reserved_bytes(struct pool_reservation *reservation, uint64_t *ret)
{
	CUresult r;

	*ret = 0;
	switch (atomic_load(&reservation->kind)) {
	case POOL_RESERVATION_POOL:
		r = REAL(cuMemPoolGetAttribute)(get_reservation_pool(reservation),
			CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, ret);
		break;
	case POOL_RESERVATION_GRAPH:
		r = REAL(cuDeviceGetGraphMemAttribute)(atomic_load(&reservation->device),
			CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, ret);
		break;
	default:
		return false;
	}
	if (r == CUDA_SUCCESS) {
		if (!(atomic_load(&reservation->flags) & POOL_RESERVATION_READ))
			atomic_fetch_or(&reservation->flags, POOL_RESERVATION_READ);
		return true;
	}
	*ret = 0;
	return no_such(r) && atomic_load(&reservation->flags) & POOL_RESERVATION_READ;
}

/* Gives cached memory back to the system. The caller is counted in .users. */
static void trim_pool_reservation(struct pool_reservation *reservation)
{
	if (atomic_load(&reservation->kind) == POOL_RESERVATION_POOL) {
		(void)REAL(cuMemPoolTrimTo)(get_reservation_pool(reservation), 0);
		return;
	}
	/*
	 * Pairs with begin_resident() of work/graph.c.
	 *
	 *	1. This thread raises the epoch, then reads .users.
	 *	2. A launching thread enters .users, then reads the epoch.
	 *
	 * So either this thread sees the launching thread, or that thread sees that nothing is resident any more.
	 */
	atomic_fetch_add(&reservation->epoch, 1);
	if (atomic_load(&reservation->users) == 1)
		(void)REAL(cuDeviceGraphMemTrim)(atomic_load(&reservation->device));
}

/*
 * Sets the charge to the driver's size plus what calls in progress may still add. Returns the change in bytes. The
 * sum counts twice what such a call has added already. So the charge rises only if the size alone is above it:
 * growth that no bound covered.
 */
static int64_t sync_pool_reservation(struct pool_reservation *reservation)
{
	uint64_t w = atomic_load(&reservation->word), now, want;

	do {
		if (!read_reserved_bytes(reservation, &now))
			return 0;
		now = round_up_to_granule(now) / CHARGES_GRANULE;
		want = now + get_outstanding_grains(w);
		if (want > get_charged_grains(w))
			want = now > get_charged_grains(w) ? now : get_charged_grains(w);
		if (want == get_charged_grains(w))
			return 0;
	} while (!atomic_compare_exchange_strong(&reservation->word, &w,
		next_word(w, want, get_outstanding_grains(w))));
	return ((int64_t)want - (int64_t)get_charged_grains(w)) * (int64_t)CHARGES_GRANULE;
}

/* Corrects changes before an operation. The arbiter's last comparison may already contain memory that
 * shrank. */
static void sync_before_operation(struct pool_reservation *reservation)
{
	int gpu = atomic_load(&reservation->gpu);
	enum charge_kind counts = (enum charge_kind)atomic_load(&reservation->counts);
	int64_t more = sync_pool_reservation(reservation);

	if (more < 0 && counts == CHARGE_SEEN)
		charge_disown(gpu, (uint64_t)-more);
	else
		charge_adjust(gpu, more, counts);
}

/* Corrects changes within an operation. */
static void sync_within_operation(struct pool_reservation *reservation)
{
	int64_t more = sync_pool_reservation(reservation);

	charge_adjust(atomic_load(&reservation->gpu), more,
		(enum charge_kind)atomic_load(&reservation->counts));
}

static void clear_pool_reservation(struct pool_reservation *reservation)
{
	atomic_store(&reservation->flags, 0);
	atomic_store(&reservation->kind, POOL_RESERVATION_NONE);
	atomic_store(&reservation->key, 0);
}

/* Destroys a retired pool if it holds nothing. */
static bool destroy_empty_pool(struct pool_reservation *reservation)
{
	int32_t nobody = 0;
	uint64_t now;
	bool gone = false;

	if (!atomic_compare_exchange_strong(&reservation->users, &nobody, -1))
		return false;
	if (atomic_load(&reservation->flags) & POOL_RESERVATION_DYING) {
		sync_within_operation(reservation);
		if (read_reserved_bytes(reservation, &now) && !now) {
			CUresult r = REAL(cuMemPoolDestroy)(get_reservation_pool(reservation));

			gone = !r || no_such(r);
		}
	}
	if (gone)
		clear_pool_reservation(reservation);
	atomic_store(&reservation->users, 0);
	return gone;
}

void pool_reservation_forget(struct pool_reservation *reservation)
{
	int32_t nobody = 0;
	uint64_t w;

	if (!atomic_compare_exchange_strong(&reservation->users, &nobody, -1))
		return;
	w = atomic_exchange(&reservation->word, 0);
	if (get_charged_grains(w))
		charge_disown(atomic_load(&reservation->gpu),
			get_charged_grains(w) * CHARGES_GRANULE);
	clear_pool_reservation(reservation);
	atomic_store(&reservation->users, 0);
}

CUresult pool_reservation_retire(struct pool_reservation *reservation)
{
	int gpu = atomic_load(&reservation->gpu);
	CUdevice device = atomic_load(&reservation->device);
	struct charge around;
	CUmemoryPool other;
	unsigned int mode = quiet_begin();

	charge_free_begin(&around, gpu, CHARGE_SEEN);
	if (enter_pool_reservation(reservation)) {
		uint64_t none = 0;

		sync_before_operation(reservation);
		(void)REAL(cuMemPoolSetAttribute)(get_reservation_pool(reservation),
			CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none);
		trim_pool_reservation(reservation);
		sync_within_operation(reservation);
		/* As the driver does after a destruction: the default pool becomes current. */
		if (!REAL(cuDeviceGetMemPool)(&other, device) &&
			other == get_reservation_pool(reservation) &&
			!REAL(cuDeviceGetDefaultMemPool)(&other, device))
			(void)REAL(cuDeviceSetMemPool)(device, other);
		atomic_fetch_or(&reservation->flags, POOL_RESERVATION_DYING);
		leave_pool_reservation(reservation);
		(void)destroy_empty_pool(reservation);
	}
	charge_free_end(&around, 0);
	quiet_end(mode);
	return CUDA_SUCCESS;
}

/* Calls @fn for each reservation of the GPUs of @gpus that holds memory. Destroys retired pools that are
 * empty. */
static void for_each_pool_reservation(uint32_t gpus,
	void (*fn)(struct pool_reservation *reservation))
{
	unsigned int mode = quiet_begin();

	for (struct pool_reservation *reservation = first_pool_reservation(); reservation;
		reservation = reservation->next) {
		int gpu = atomic_load(&reservation->gpu);

		if (gpu < 0 || !(gpus >> gpu & 1) || !atomic_load(&reservation->key))
			continue;
		if (get_charged_grains(atomic_load(&reservation->word)) &&
			enter_pool_reservation(reservation)) {
			fn(reservation);
			leave_pool_reservation(reservation);
		}
		if (atomic_load(&reservation->flags) & POOL_RESERVATION_DYING)
			(void)destroy_empty_pool(reservation);
	}
	quiet_end(mode);
}

static void sync_or_trim(struct pool_reservation *reservation)
{
	if (atomic_load(&reservation->flags) & POOL_RESERVATION_DYING)
		trim_pool_reservation(reservation);
	sync_within_operation(reservation);
}

static void trim_one(struct pool_reservation *reservation)
{
	sync_before_operation(reservation);
	trim_pool_reservation(reservation);
	sync_within_operation(reservation);
}

void pool_reservations_trim(int gpu)
{
	if (gpu >= 0 && gpu < 32 && atomic_load(&pool_reservation_gpus) >> gpu & 1)
		for_each_pool_reservation(UINT32_C(1) << gpu, trim_one);
}

void pool_reservation_wait_begin(struct pool_reservation_wait *w)
{
	w->gpus = atomic_load_explicit(&pool_reservation_gpus, memory_order_relaxed);
	if (__builtin_expect(!w->gpus, 1))
		return;
	for (int i = 0; i < (int)(sizeof(w->around) / sizeof(*w->around)); i++)
		if (w->gpus >> i & 1)
			charge_free_begin(&w->around[i], i, CHARGE_SEEN);
	for_each_pool_reservation(w->gpus, sync_before_operation);
}

void pool_reservation_wait_end(struct pool_reservation_wait *w)
{
	if (__builtin_expect(!w->gpus, 1))
		return;
	for_each_pool_reservation(w->gpus, sync_or_trim);
	for (int i = 0; i < (int)(sizeof(w->around) / sizeof(*w->around)); i++)
		if (w->gpus >> i & 1)
			charge_free_end(&w->around[i], 0);
}

CUresult pool_reservation_begin(struct pool_reservation_op *op,
	struct pool_reservation *reservation, uint64_t bound)
{
	enum charge_kind counts;
	unsigned int mode;
	CUresult r;
	int gpu;

	op->reservation = NULL;
	gpu = reservation ? atomic_load(&reservation->gpu) : CHARGES_NO_GPU;
	if (gpu == CHARGES_GPU_UNKNOWN) {
		gpu = device_find_gpu(atomic_load(&reservation->device));
		atomic_store(&reservation->gpu, gpu);
		if (gpu >= 0)
			atomic_fetch_or(&pool_reservation_gpus, UINT32_C(1) << gpu);
	}
	if (gpu == CHARGES_NO_GPU)
		return CUDA_SUCCESS;
	bound = round_up_to_granule(bound);
	if (bound / CHARGES_GRANULE > GRAINS_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	counts = (enum charge_kind)atomic_load(&reservation->counts);
	charge_free_begin(&op->around, gpu, counts);
	mode = quiet_begin();
	if (get_charged_grains(atomic_load(&reservation->word)) &&
		enter_pool_reservation(reservation)) {
		sync_before_operation(reservation);
		leave_pool_reservation(reservation);
	}
	quiet_end(mode);
	r = charge_begin(&op->charge, gpu, bound, counts);
	if (r || !enter_pool_reservation(reservation)) {
		if (!r)
			charge_end(&op->charge, 0);
		charge_free_end(&op->around, 0);
		return r;
	}
	add_outstanding(reservation, bound / CHARGES_GRANULE);
	op->reservation = reservation;
	return CUDA_SUCCESS;
}

void pool_reservation_end(struct pool_reservation_op *op)
{
	struct pool_reservation *reservation = op->reservation;
	uint64_t bound = op->charge.bytes;
	unsigned int mode;

	if (!reservation)
		return;
	op->reservation = NULL;
	/* First the bound becomes a charge. From the next line on, other threads may find the charge too
	 * high and release it. */
	charge_end(&op->charge, bound);
	end_outstanding(reservation, bound / CHARGES_GRANULE);
	mode = quiet_begin();
	sync_within_operation(reservation);
	quiet_end(mode);
	leave_pool_reservation(reservation);
	charge_free_end(&op->around, 0);
}

struct pool_reservation *pool_reservation_find(enum pool_reservation_kind kind, uint64_t key)
{
	for (struct pool_reservation *reservation = first_pool_reservation(); reservation;
		reservation = reservation->next)
		if (atomic_load_explicit(&reservation->key, memory_order_acquire) == key &&
			atomic_load(&reservation->kind) == kind &&
			!(atomic_load(&reservation->flags) & POOL_RESERVATION_DYING))
			return reservation;
	return NULL;
}

/* The caller holds .making. */
static struct pool_reservation *new_pool_reservation(struct pool_reservations *p)
{
	struct pool_reservation *reservation, *block;

	for (reservation = atomic_load(&p->list); reservation; reservation = reservation->next)
		if (!atomic_load(&reservation->key) && !atomic_load(&reservation->users))
			return reservation;
	if (p->first_used < POOL_RESERVATIONS_FIRST) {
		reservation = &p->first[p->first_used++];
		reservation->next = atomic_load(&p->list);
		atomic_store(&p->list, reservation);
		return reservation;
	}
	block = mmap(NULL, POOL_RESERVATIONS_BLOCK * sizeof(*block), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED) {
		warn_no_pool_memory();
		return NULL;
	}
	for (size_t i = 0; i < POOL_RESERVATIONS_BLOCK; i++) {
		block[i].next = atomic_load(&p->list);
		atomic_store(&p->list, &block[i]);
	}
	return block;
}

struct pool_reservation *pool_reservation_get(enum pool_reservation_kind kind, uint64_t key,
	CUdevice device, int gpu, enum charge_kind counts)
{
	struct pool_reservation *reservation = pool_reservation_find(kind, key);
	struct pool_reservations *p = get_pool_reservations();

	if (reservation || !p)
		return reservation;
	sys_lock(&p->making);
	reservation = pool_reservation_find(kind, key);
	if (!reservation) {
		reservation = new_pool_reservation(p);
		if (reservation) {
			atomic_store(&reservation->gpu, gpu);
			atomic_store(&reservation->counts, counts);
			atomic_store(&reservation->device, device);
			atomic_store(&reservation->flags, 0);
			atomic_store(&reservation->epoch, 1);
			atomic_store(&reservation->stream, 0);
			atomic_store(&reservation->kind, kind);
			atomic_store_explicit(&reservation->key, key, memory_order_release);
			if (gpu >= 0)
				atomic_fetch_or(&pool_reservation_gpus, UINT32_C(1) << gpu);
		}
	}
	sys_unlock(&p->making);
	return reservation;
}
