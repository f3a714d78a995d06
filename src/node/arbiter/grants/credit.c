/* SPDX-License-Identifier: Apache-2.0 */

/* Changes what is granted: in the records, which the next arbiter reads, and in the pages. Pure. */
#include "node/arbiter/grants/internal.h"

/* --- figures --- */

uint64_t grants_get_granted(const struct grants_member *m, unsigned int gpu)
{
	return atomic_load_explicit(&m->rec->granted[gpu], memory_order_relaxed);
}

/* Unused bytes, at most what was granted, whatever the page says. */
static uint64_t get_usable_credit(const struct grants_member *m, unsigned int gpu)
{
	if (!m->page || m->abandoned)
		return 0;
	return min_u64(atomic_load_explicit(&m->page->gpus[gpu].credit, memory_order_acquire),
		grants_get_granted(m, gpu));
}

uint64_t grants_get_used(const struct grants_member *m, unsigned int gpu)
{
	return grants_get_granted(m, gpu) - get_usable_credit(m, gpu);
}

uint64_t grants_get_charged(const struct grants_member *m, unsigned int gpu, bool seen_only)
{
	const struct slice_gpu_page *p = &m->page->gpus[gpu];
	uint64_t seen =
		min_u64(atomic_load_explicit(&p->seen, memory_order_acquire), GRANTS_BYTES_MAX);
	uint64_t unseen = min_u64(atomic_load_explicit(&p->unseen, memory_order_acquire),
		GRANTS_BYTES_MAX);

	return seen_only ? seen : seen + unseen;
}

uint64_t grants_get_overhead(const struct grants_member *m, unsigned int gpu)
{
	uint64_t used = grants_get_used(m, gpu), charged;

	if (!m->page || m->abandoned)
		return 0;
	charged = grants_get_charged(m, gpu, false);
	return used > charged ? used - charged : 0;
}

void grants_update_peak(struct grants_member *m, unsigned int gpu)
{
	uint64_t peak = grants_get_used(m, gpu);

	if (m->page && !m->abandoned)
		peak = max_u64(peak,
			atomic_load_explicit(&m->page->gpus[gpu].peak, memory_order_relaxed));
	/* A process never used more than was granted, whatever the page says. */
	peak = min_u64(peak, m->gpus[gpu].most);
	m->gpus[gpu].peak = max_u64(m->gpus[gpu].peak, peak);
}

uint64_t grants_get_peak(struct grants_member *m, unsigned int gpu)
{
	grants_update_peak(m, gpu);
	return m->gpus[gpu].peak;
}

uint64_t grants_slice_used(struct grants_slice *s, unsigned int gpu)
{
	uint64_t used = s->gpus[gpu].unhooked;
	bool known = true;

	for (struct grants_member *m = s->members; m; m = m->next) {
		used += grants_get_used(m, gpu);
		grants_update_peak(m, gpu);
		s->gpus[gpu].peak = max_u64(s->gpus[gpu].peak, m->gpus[gpu].peak);
		known = known && (!m->abandoned || grants_member_is_retained(m));
	}
	/* Memory of an abandoned member may be freed already, so it makes no peak. */
	if (known)
		s->gpus[gpu].peak = max_u64(s->gpus[gpu].peak, used);
	return used;
}

uint64_t grants_slice_free_bytes(struct grants_slice *s, unsigned int gpu)
{
	uint64_t limit = s->gpus[gpu].limit, used = grants_slice_used(s, gpu);

	if (limit == SLICE_NO_LIMIT)
		return SLICE_NO_LIMIT;
	return limit > used ? limit - used : 0;
}

bool grants_slice_is_over_limit(const struct grants_slice *s, unsigned int gpu)
{
	const struct grants_gpu *g = &s->gpus[gpu];

	return g->limit != SLICE_NO_LIMIT && g->granted + g->unhooked > g->limit;
}

void grants_count_refused(const struct grants_member *m, unsigned int gpu)
{
	struct slice_gpu_page *p = m->page ? &m->page->gpus[gpu] : NULL;
	uint32_t refused, more;

	if (!p)
		return;
	refused = atomic_load_explicit(&p->refused, memory_order_relaxed);
	more = refused - atomic_load_explicit(&p->counted, memory_order_relaxed);
	if (!more)
		return;
	/* The count is in the page, so that the next arbiter continues from it. A process that writes this word
	 * spoils only its own slice's figure, as it can by writing .refused. */
	atomic_store_explicit(&p->counted, refused, memory_order_relaxed);
	m->slice->gpus[gpu].refused += more;
}

uint64_t grants_slice_refused(struct grants_slice *s, unsigned int gpu)
{
	for (const struct grants_member *m = s->members; m; m = m->next)
		grants_count_refused(m, gpu);
	return s->gpus[gpu].refused;
}

/* The part of the limit that is granted to no member. */
static uint64_t get_ungranted_bytes(const struct grants_slice *s, unsigned int gpu)
{
	const struct grants_gpu *g = &s->gpus[gpu];
	uint64_t limit = min_u64(g->limit, GRANTS_BYTES_MAX), taken = g->granted + g->unhooked;

	return limit > taken ? limit - taken : 0;
}

/* --- the only functions that change what is granted --- */

static void set_record(struct grants_member *m, unsigned int gpu, uint64_t granted)
{
	struct grants_gpu *g = &m->slice->gpus[gpu];

	g->granted = g->granted - grants_get_granted(m, gpu) + granted;
	/* Only the next arbiter reads the record. seq_cst orders this store with those to the page: see grants.h,
	 * "Records". */
	atomic_store_explicit(&m->rec->granted[gpu], granted, memory_order_seq_cst);
	m->gpus[gpu].most = max_u64(m->gpus[gpu].most, granted);
}

static uint32_t page_begin(struct slice_gpu_page *p)
{
	uint32_t odd = atomic_load_explicit(&p->seq, memory_order_relaxed) | 1;

	/* Pairs with the process, which reads .seq, then both values, then .seq again. */
	atomic_store_explicit(&p->seq, odd, memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
	return odd;
}

static void page_end(struct slice_gpu_page *p, uint32_t odd)
{
	atomic_thread_fence(memory_order_seq_cst);
	atomic_store_explicit(&p->seq, odd + 1, memory_order_seq_cst);
}

void grants_add_granted(struct grants_member *m, unsigned int gpu, uint64_t used,
	uint64_t credit)
{
	uint64_t granted = grants_get_granted(m, gpu) + used + credit;

	set_record(m, gpu, granted);
	if (m->page && !m->abandoned) {
		struct slice_gpu_page *p = &m->page->gpus[gpu];
		uint32_t odd = page_begin(p);

		atomic_store_explicit(&p->granted, granted, memory_order_seq_cst);
		if (credit)
			atomic_fetch_add_explicit(&p->credit, credit, memory_order_seq_cst);
		page_end(p, odd);
	}
}

/* Takes up to @bytes of unused credit. Returns how many. */
static uint64_t reclaim_credit(struct grants_member *m, unsigned int gpu, uint64_t bytes)
{
	struct slice_gpu_page *p;
	uint64_t credit, take = 0, granted;
	bool taken = false;
	uint32_t odd;

	if (!bytes || !get_usable_credit(m, gpu))
		return 0;
	p = &m->page->gpus[gpu];
	granted = grants_get_granted(m, gpu);
	odd = page_begin(p);
	credit = atomic_load_explicit(&p->credit, memory_order_acquire);
	for (int i = 0; i < GRANTS_CAS_TRIES && !taken; i++) {
		take = min_u64(min_u64(credit, granted), bytes);
		if (!take)
			break;
		/* Credit beyond the grant is a spoiled word: the store corrects it. */
		taken = atomic_compare_exchange_strong_explicit(&p->credit, &credit,
			min_u64(credit, granted) - take, memory_order_seq_cst,
			memory_order_acquire);
	}
	if (taken)
		atomic_store_explicit(&p->granted, granted - take, memory_order_seq_cst);
	page_end(p, odd);
	if (!taken)
		return 0;
	set_record(m, gpu, granted - take);
	return take;
}

void grants_return(struct grants_member *m, unsigned int gpu, uint64_t bytes)
{
	uint64_t granted = grants_get_granted(m, gpu);

	bytes = min_u64(bytes, granted);
	if (m->page && !m->abandoned) {
		struct slice_gpu_page *p = &m->page->gpus[gpu];
		uint32_t odd = page_begin(p);

		atomic_store_explicit(&p->granted, granted - bytes, memory_order_seq_cst);
		page_end(p, odd);
	}
	set_record(m, gpu, granted - bytes);
}

/* The member other than @not with the largest unused credit. */
static struct grants_member *find_largest_credit(struct grants_slice *s, unsigned int gpu,
	const struct grants_member * not )
{
	struct grants_member *best = NULL;
	uint64_t max = 0;

	for (struct grants_member *m = s->members; m; m = m->next) {
		uint64_t credit = m == not ? 0 : get_usable_credit(m, gpu);

		if (credit > max) {
			max = credit;
			best = m;
		}
	}
	return best;
}

void grants_reclaim_credit(struct grants_slice *s, unsigned int gpu, uint64_t bytes,
	struct grants_member *own, bool from_own)
{
	/* Each round empties one member or ends the loop. The limit of rounds is for a process that always has new
	 * credit. */
	for (unsigned int i = 0; i < 2 * s->n_members && get_ungranted_bytes(s, gpu) < bytes;
		i++) {
		struct grants_member *m = find_largest_credit(s, gpu, own);

		if (!m)
			break;
		(void)reclaim_credit(m, gpu, bytes - get_ungranted_bytes(s, gpu));
	}
	if (own && from_own && get_ungranted_bytes(s, gpu) < bytes)
		(void)reclaim_credit(own, gpu, bytes - get_ungranted_bytes(s, gpu));
}

void grants_publish_sole_member(struct grants_slice *s, unsigned int gpu,
	const struct grants_member *next)
{
	const struct grants_member *one = next;
	unsigned int n = next ? 1 : 0;

	for (const struct grants_member *m = s->members; m; m = m->next) {
		if (m != next && grants_get_granted(m, gpu)) {
			n++;
			one = m;
		}
	}
	for (struct grants_member *m = s->members; m; m = m->next) {
		/* Also for a member without a grant: it is alone if no other member has a grant. */
		bool alone = !s->gpus[gpu].unhooked && (n == 0 || (n == 1 && one == m));

		if (m->page && !m->abandoned)
			atomic_store_explicit(&m->page->gpus[gpu].alone, alone,
				memory_order_seq_cst);
	}
}

/* --- limits --- */

/* Reclaims unused credit while more is granted than the limit. */
static void reclaim_over_limit(struct grants_slice *s, unsigned int gpu)
{
	struct grants_gpu *g = &s->gpus[gpu];

	for (unsigned int i = 0; i < 2 * s->n_members && grants_slice_is_over_limit(s, gpu);
		i++) {
		struct grants_member *m = find_largest_credit(s, gpu, NULL);

		if (!m)
			break;
		(void)reclaim_credit(m, gpu, g->granted + g->unhooked - g->limit);
	}
}

void grants_reclaim_over_limit(struct grants_table *table)
{
	for (struct grants_slice *s = table->slices; s; s = s->next) {
		for (unsigned int i = 0; i < s->n_gpus; i++)
			reclaim_over_limit(s, i);
	}
}

void grants_slice_set_limit(struct grants_slice *s, unsigned int gpu, uint64_t limit)
{
	s->gpus[gpu].limit = limit;
	reclaim_over_limit(s, gpu);
	for (struct grants_member *m = s->members; m; m = m->next) {
		if (m->page)
			atomic_store_explicit(&m->page->gpus[gpu].limit, limit,
				memory_order_seq_cst);
	}
}

void grants_slice_set_unhooked(struct grants_slice *s, unsigned int gpu, uint64_t bytes)
{
	bool some = s->gpus[gpu].unhooked > 0;

	s->gpus[gpu].unhooked = min_u64(bytes, GRANTS_BYTES_MAX);
	reclaim_over_limit(s, gpu);
	if (some != (bytes > 0))
		grants_publish_sole_member(s, gpu, NULL);
}

/* --- requests --- */

void grants_adopt_page(struct grants_member *m, struct slice_page *page)
{
	struct grants_slice *s = m->slice;
	uint32_t want = atomic_load_explicit(&m->rec->request_state, memory_order_acquire);

	m->page = page;
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		struct slice_gpu_page *p = &page->gpus[i];
		uint64_t granted = atomic_load_explicit(&p->granted, memory_order_acquire);
		uint32_t odd = page_begin(p);

		/*
		 * The record is never less than the page. A difference is a raise that had not reached the page,
		 * or a decrease that had not reached the record: the page's figure is the right one. A page with a
		 * larger figure was spoiled.
		 */
		if (granted < grants_get_granted(m, i))
			set_record(m, i, granted);
		atomic_store_explicit(&p->granted, grants_get_granted(m, i),
			memory_order_seq_cst);
		atomic_store_explicit(&p->limit, s->gpus[i].limit, memory_order_seq_cst);
		page_end(p, odd);
		m->gpus[i].begun = GRANTS_UNKNOWN;
	}
	if (want == GRANTS_REQUEST_BEGUN) {
		unsigned int gpu = m->rec->request_gpu;
		bool done =
			gpu < s->n_gpus && grants_get_granted(m, gpu) != m->rec->granted_before;

		atomic_store_explicit(&m->rec->request_state,
			done ? GRANTS_REQUEST_DONE : GRANTS_REQUEST_NONE, memory_order_seq_cst);
	}
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		reclaim_over_limit(s, i);
		grants_publish_sole_member(s, i, NULL);
	}
}

void grants_return_unanswered(struct grants_member *m, uint32_t tag)
{
	struct grants_record *r = m->rec;
	unsigned int gpu = r->request_gpu;
	struct slice_gpu_page *p;
	uint64_t back;
	uint32_t odd;

	if (atomic_load_explicit(&r->request_state, memory_order_acquire) !=
			GRANTS_REQUEST_DONE ||
		r->request_tag != tag || gpu >= m->slice->n_gpus || !m->page || m->abandoned)
		return;
	atomic_store_explicit(&r->request_state, GRANTS_REQUEST_NONE, memory_order_seq_cst);
	back = min_u64(r->request_bytes, grants_get_used(m, gpu));
	p = &m->page->gpus[gpu];
	odd = page_begin(p);
	atomic_fetch_add_explicit(&p->credit, back, memory_order_seq_cst);
	page_end(p, odd);
	reclaim_over_limit(m->slice, gpu);
}

/* Stored before anything changes, so that the next arbiter knows which request was under way. */
static void begin_request_record(struct grants_member *m, unsigned int gpu, uint64_t bytes,
	uint32_t tag)
{
	struct grants_record *r = m->rec;

	atomic_store_explicit(&r->request_state, GRANTS_REQUEST_NONE, memory_order_seq_cst);
	r->request_tag = tag;
	r->request_gpu = gpu;
	r->request_bytes = bytes;
	r->granted_before = grants_get_granted(m, gpu);
	atomic_store_explicit(&r->request_state, GRANTS_REQUEST_BEGUN, memory_order_seq_cst);
}

enum slice_status grants_request(struct grants_member *m, unsigned int gpu, uint64_t bytes,
	uint32_t tag, uint64_t *ret_free)
{
	struct grants_slice *s = m->slice;
	enum slice_status status = SLICE_NO_ROOM;
	uint64_t left = grants_slice_free_bytes(s, gpu), extra;

	left = min_u64(left, GRANTS_BYTES_MAX);
	/* A member without a page has no place for the grant. An unhooked process of the slice can use more than
	 * the limit. */
	if (m->page && !m->abandoned && bytes <= left) {
		extra = min_u64((left - bytes) / GRANTS_EXTRA_DIVISOR, GRANTS_EXTRA_MAX);
		grants_reclaim_credit(s, gpu, bytes + extra, m, false);
		grants_reclaim_credit(s, gpu, bytes, m, true);
		if (get_ungranted_bytes(s, gpu) >= bytes) {
			extra = min_u64(extra, get_ungranted_bytes(s, gpu) - bytes);
			grants_publish_sole_member(s, gpu, m);
			begin_request_record(m, gpu, bytes, tag);
			grants_add_granted(m, gpu, bytes, extra);
			atomic_store_explicit(&m->rec->request_state, GRANTS_REQUEST_DONE,
				memory_order_seq_cst);
			grants_update_peak(m, gpu);
			status = SLICE_OK;
		}
	}
	if (ret_free)
		*ret_free = grants_slice_free_bytes(s, gpu);
	return status;
}
