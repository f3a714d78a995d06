/* SPDX-License-Identifier: Apache-2.0 */

/* Contexts, and the fences in them. */
#include "container/cuda/green.h"
#include "container/cuda/driver.h"
#include "container/gate/fences/internal.h"

/* --- what the driver answers --- */

/* Errors of a context after which nothing runs in it. */
static bool is_sticky_context_error(CUresult r)
{
	switch ((int)r) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK:
	case CUDA_ERROR_MPS_CLIENT_TERMINATED:
	case CUDA_ERROR_EXTERNAL_DEVICE:
		return true;
	default:
		return false;
	}
}

enum fence_answer fence_answer(CUresult r)
{
	if (r == CUDA_SUCCESS)
		return FENCE_PASSED;
	if (r == CUDA_ERROR_NOT_READY)
		return FENCE_PENDING;
	if (r == CUDA_ERROR_DEINITIALIZED)
		return FENCE_ANSWER_DRIVER_DOWN;
	if (r == CUDA_ERROR_NOT_FOUND)
		return FENCE_MISSING;
	if (r == CUDA_ERROR_INVALID_CONTEXT || r == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
		r == CUDA_ERROR_INVALID_HANDLE)
		return FENCE_GONE;
	if (r >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
		r <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
		return FENCE_REFUSED;
	return is_sticky_context_error(r) ? FENCE_BROKEN : FENCE_UNKNOWN;
}

/* --- events --- */

bool fence_make_event(CUevent *event)
{
	if (!*event && REAL(cuEventCreate)(event, FENCE_EVENT_FLAGS))
		*event = NULL;
	return *event;
}

bool fence_record_event(CUevent event, CUstream stream, bool thread_stream)
{
	return !(thread_stream ? REAL(cuEventRecord_ptsz)(event, stream)
			       : REAL(cuEventRecord)(event, stream));
}

/* --- contexts --- */

static struct fence_context *fences_find_context(struct fences *f, CUcontext context)
{
	for (unsigned int i = 0; i < FENCE_CONTEXTS; i++)
		if (f->contexts[i].context == context)
			return &f->contexts[i];
	return NULL;
}

bool fences_is_context_leaving(struct fences *f, CUcontext context)
{
	const struct fence_context *c = fences_find_context(f, context);

	return c && c->leaving;
}

bool fences_lock_context(struct fences *f, CUcontext context)
{
	if (!sys_trylock(&f->lock))
		return false;
	if (!fences_is_context_leaving(f, context))
		return true;
	sys_unlock(&f->lock);
	return false;
}

static unsigned long long read_context_id(CUcontext context)
{
	unsigned long long id = 0;

	return REAL(cuCtxGetId)(context, &id) ? 0 : id + 1;
}

/* Whether the handle is still that of the same context, as far as the driver tells. */
static bool is_fence_context_valid(const struct fence_context *c)
{
	return !c->id || read_context_id(c->context) == c->id;
}

static void clear_context_events(struct fence_context *c)
{
	c->made = false;
	for (unsigned int i = 0; i < FENCES_PENDING; i++) {
		c->events[i] = NULL;
		c->set[i] = false;
	}
}

/*
 * No context of @gpu is known, and a fence would count whatever is in flight as done. So the next
 * submitting thread finds TURN_DOORBELL, takes the slow path, and adds its context
 * (fences_add_current_context()). A gate thread that is awake stays so.
 */
static void arm_doorbell(struct fences *f, unsigned int gpu)
{
	struct turn_page *page = atomic_load(&f->page);

	if (page && gpu < f->gpus)
		(void)atomic_fetch_or(&page->gpus[gpu].gate, TURN_DOORBELL);
}

static void break_context(struct fences *f, struct fence_context *c)
{
	if (!c->broken && atomic_fetch_sub(&f->rings[c->gpu].contexts, 1) == 1)
		arm_doorbell(f, c->gpu);
	c->broken = true;
}

/*
 * The driver reports that the context, or an event of this library in it, does not exist. The context has
 * gone, or was reset, and no hook saw that. What was in it is over. What is in a context that has its
 * handle now is not.
 */
static void renew_fence_context(struct fences *f, struct fence_context *c)
{
	clear_context_events(c);
	c->id = read_context_id(c->context);
	if (!c->id)
		break_context(f, c);
}

static void remove_fence_context(struct fences *f, struct fence_context *c)
{
	break_context(f, c);
	fences_drop_own(f, c->context);
	fences_drop_waits(f, c->context);
	*c = (struct fence_context){ 0 };
}

/* FENCE_PASSED: the events are there. */
static enum fence_answer make_events(struct fence_context *c)
{
	CUcontext popped;
	CUresult r;

	if (c->made)
		return FENCE_PASSED;
	r = REAL(cuCtxPushCurrent_v2)(c->context);
	if (r)
		return fence_answer(r);
	for (unsigned int i = 0; !r && i < FENCES_PENDING; i++)
		if (!c->events[i]) {
			r = REAL(cuEventCreate)(&c->events[i], FENCE_EVENT_FLAGS);
			if (r)
				c->events[i] = NULL;
		}
	(void)REAL(cuCtxPopCurrent_v2)(&popped);
	c->made = !r;
	return fence_answer(r);
}

/* The lock is held. NULL: there is no place. */
static struct fence_context *add_fence_context(struct fences *f, CUcontext context,
	unsigned int gpu)
{
	struct fence_context *c = fences_find_context(f, context);
	unsigned long long id = read_context_id(context);

	/* A broken context may be there again, after a reset that no hook saw. */
	if (c && !c->broken && c->gpu == gpu && c->id == id)
		return c;
	if (c)
		remove_fence_context(f, c);
	c = fences_find_context(f, NULL);
	if (!c)
		return NULL;
	*c = (struct fence_context){ .context = context, .id = id, .gpu = gpu };
	(void)atomic_fetch_add(&f->rings[gpu].contexts, 1);
	return c;
}

static void count_capture(struct fences *f, _Atomic uint32_t *captures);

static void add_or_count(struct fences *f, CUcontext context, unsigned int gpu,
	_Atomic uint32_t *captures, bool early)
{
	struct fence_context *c = add_fence_context(f, context, gpu);

	if (c && early)
		(void)make_events(c);
	if (c || f->full)
		return;
	f->full = true;
	if (f->unknown_captures)
		return;
	f->risk_wait_ns = FENCE_RISK_NS;
	f->risk_ns = sys_now_ns() + f->risk_wait_ns;
	count_capture(f, captures);
}

void fences_add_context(struct fences *f, CUcontext context, unsigned int gpu,
	_Atomic uint32_t *captures, bool early)
{
	unsigned int mode;

	if (!context || gpu >= SLICE_GPUS_MAX)
		return;
	mode = quiet_begin();
	sys_lock(&f->lock);
	add_or_count(f, context, gpu, captures, early);
	sys_unlock(&f->lock);
	quiet_end(mode);
}

void fences_context_leaves(struct fences *f, CUcontext context)
{
	struct fence_context *c;

	sys_lock(&f->lock);
	c = context ? fences_find_context(f, context) : NULL;
	if (c)
		c->leaving++;
	sys_unlock(&f->lock);
}

/* The context's events went with it. */
void fences_context_gone(struct fences *f, CUcontext context)
{
	struct fence_context *c;

	if (!context)
		return;
	sys_lock(&f->lock);
	c = fences_find_context(f, context);
	/* Another context may have its handle since, and be known. */
	if (c && (c->leaving || !c->id || !is_fence_context_valid(c)))
		remove_fence_context(f, c);
	else if (!c) {
		fences_drop_own(f, context);
		fences_drop_waits(f, context);
	}
	sys_unlock(&f->lock);
}

void fences_context_stays(struct fences *f, CUcontext context)
{
	struct fence_context *c;
	unsigned int mode = quiet_begin();

	sys_lock(&f->lock);
	c = context ? fences_find_context(f, context) : NULL;
	if (c && is_fence_context_valid(c))
		c->leaving -= c->leaving > 0;
	else if (c) /* it went, and another context has its handle */
		remove_fence_context(f, c);
	sys_unlock(&f->lock);
	quiet_end(mode);
}

CUcontext fences_current_context(void)
{
	CUcontext context = NULL;

	return REAL(cuCtxGetCurrent)(&context) ? NULL : green_primary(context);
}

void fences_add_current_context(struct fences *f, unsigned int gpu, _Atomic uint32_t *captures)
{
	if (__builtin_expect(
		    atomic_load_explicit(&f->rings[gpu].contexts, memory_order_relaxed) != 0,
		    1))
		return;
	fences_add_context(f, fences_current_context(), gpu, captures, true);
	/* The thread has no context, and the driver refuses its work; the next thread may have one. */
	if (!atomic_load(&f->rings[gpu].contexts))
		arm_doorbell(f, gpu);
}

/* --- what has passed --- */

/* Submissions that are known to be done. The lock is held. */
static uint64_t count_known_done(const struct fence_ring *r)
{
	uint64_t n = r->passed ? r->targets[r->passed % FENCES_PENDING] : 0;

	for (uint64_t i = r->passed; i <= atomic_load(&r->placed); i++)
		n += r->done_beyond[i % FENCES_PENDING];
	return n;
}

/* Work that is done may not be counted in .ended yet: *done is at most .ended. The lock is held. */
static void raise_done(uint64_t *done, const struct fence_ring *r, _Atomic uint64_t *ended)
{
	uint64_t n = count_known_done(r), max = atomic_load(ended);

	n = n < max ? n : max;
	if (n > *done)
		*done = n;
}

/* Whether the fence at @place has passed in all contexts. The lock is held. */
static enum fence_answer check_fence_passed(struct fences *f, unsigned int gpu,
	unsigned int place)
{
	for (unsigned int i = 0; i < FENCE_CONTEXTS; i++) {
		struct fence_context *c = &f->contexts[i];
		enum fence_answer a;

		if (!c->context || c->gpu != gpu || !c->set[place])
			continue;
		a = c->broken    ? FENCE_PASSED
		    : c->leaving ? FENCE_PENDING
				 : fence_answer(REAL(cuEventQuery)(c->events[place]));
		if (a == FENCE_ANSWER_DRIVER_DOWN)
			return FENCE_ANSWER_DRIVER_DOWN;
		if (a == FENCE_BROKEN)
			break_context(f, c);
		else if (a == FENCE_GONE)
			renew_fence_context(f, c);
		else if (a != FENCE_PASSED)
			return FENCE_PENDING;
		c->set[place] = false;
	}
	return FENCE_PASSED;
}

/* The lock is held. */
static enum fence_answer poll_fence_ring(struct fences *f, unsigned int gpu)
{
	struct fence_ring *r = &f->rings[gpu];

	while (r->passed < atomic_load(&r->placed)) {
		enum fence_answer a =
			check_fence_passed(f, gpu, (r->passed + 1) % FENCES_PENDING);

		if (a != FENCE_PASSED)
			return a;
		r->passed++;
		cost_model_fence_passed(&r->cost_model,
			&r->snapshots[r->passed % FENCES_PENDING]);
	}
	return FENCE_PASSED;
}

static void clear_stuck(struct fence_ring *r)
{
	atomic_store(&r->stuck, 0);
	atomic_store(&r->unseen, 0);
	atomic_store(&r->blocked, false);
}

/* A fence is expected after @each_ns for each of its submissions in flight, and FENCE_STUCK_NS. The lock
 * is held. */
static void update_stuck(struct fences *f, unsigned int gpu, uint64_t now, uint64_t each_ns,
	uint64_t done, uint64_t in_flight, bool settled)
{
	struct fence_ring *r = &f->rings[gpu];
	uint64_t first = r->passed + 1, target, wait;

	if (first > atomic_load(&r->placed)) {
		r->watched = 0;
		clear_stuck(r);
		return;
	}
	if (r->watched != first) {
		target = r->targets[first % FENCES_PENDING];
		wait = target > done ? target - done : 1;
		if (__builtin_mul_overflow(wait, each_ns, &wait) || wait > FENCE_EXPECT_MAX_NS)
			wait = FENCE_EXPECT_MAX_NS;
		r->watched = first;
		r->due_ns = now + wait + FENCE_STUCK_NS;
		clear_stuck(r);
		return;
	}
	if (now <= r->due_ns)
		return;
	atomic_store(&r->blocked, fences_poll_blocked(f, gpu));
	if (!atomic_load(&r->stuck))
		atomic_store(&r->stuck, 1);
	else if (!settled)
		return;
	atomic_store(&r->unseen, in_flight);
}

enum fence_result fences_poll(struct fences *f, unsigned int gpu, struct turn_gpu_page *p,
	uint64_t now, uint64_t each_ns, uint64_t *done)
{
	struct fence_ring *r = &f->rings[gpu];
	/* Loaded in this order: equal only if no thread is between the two counts. */
	uint64_t ended = atomic_load(&p->ended), begun = atomic_load(&p->begun);
	enum fence_answer a;
	bool pending;

	sys_lock(&f->lock);
	a = poll_fence_ring(f, gpu);
	if (a != FENCE_ANSWER_DRIVER_DOWN)
		a = fences_poll_own(f, gpu, &pending);
	if (a != FENCE_ANSWER_DRIVER_DOWN) {
		raise_done(done, r, &p->ended);
		update_stuck(f, gpu, now, each_ns, *done, begun > *done ? begun - *done : 0,
			!pending && begun == ended);
	}
	sys_unlock(&f->lock);
	return a == FENCE_ANSWER_DRIVER_DOWN ? FENCE_DRIVER_DOWN : FENCE_OK;
}

/* --- placing --- */

/* Records the fence on one context. */
static enum fence_answer record_in(struct fences *f, struct fence_context *c,
	unsigned int place)
{
	enum fence_answer a = make_events(c);

	if (a == FENCE_PASSED)
		a = fence_answer(REAL(cuCtxRecordEvent)(c->context, c->events[place]));
	/* A context that has gone may answer anything. */
	if (a == FENCE_GONE || (a != FENCE_PASSED && a != FENCE_ANSWER_DRIVER_DOWN &&
				       !is_fence_context_valid(c))) {
		renew_fence_context(f, c);
		return c->broken ? FENCE_BROKEN : FENCE_UNKNOWN;
	}
	if (a == FENCE_BROKEN)
		break_context(f, c);
	return a;
}

/* On all contexts of @gpu. The lock is held. FENCE_PASSED: also where there is none. */
static enum fence_answer record_fence(struct fences *f, unsigned int gpu, unsigned int place)
{
	for (unsigned int i = 0; i < FENCE_CONTEXTS; i++) {
		struct fence_context *c = &f->contexts[i];
		enum fence_answer a;

		if (!c->context || c->gpu != gpu || c->broken)
			continue;
		a = c->leaving ? FENCE_UNKNOWN : record_in(f, c, place);
		if (a == FENCE_BROKEN)
			continue;
		if (a != FENCE_PASSED)
			return a; /* the next try records the other contexts again */
		c->set[place] = true;
	}
	return FENCE_PASSED;
}

static void clear_fence(struct fences *f, unsigned int gpu, unsigned int place)
{
	for (unsigned int i = 0; i < FENCE_CONTEXTS; i++)
		if (f->contexts[i].gpu == gpu)
			f->contexts[i].set[place] = false;
}

/*
 * Whether a fence may be recorded beside @captures. Their one capture must stand for those that no hook
 * reports, or for contexts without a place. There must be submissions up to @target without an own fence,
 * and the last try must be long ago. The lock is held.
 */
static bool may_risk_fence(struct fences *f, unsigned int gpu, uint32_t captures,
	uint64_t target)
{
	bool pending;

	if (captures != 1 || !(f->unknown_captures || f->full) || sys_now_ns() < f->risk_ns ||
		fences_poll_own(f, gpu, &pending) != FENCE_PASSED || pending ||
		count_known_done(&f->rings[gpu]) >= target)
		return false;
	f->risk_ns = sys_now_ns() + f->risk_wait_ns;
	return true;
}

/* The driver refused a fence though no capture is known, or only that one. */
static void note_unknown_capture(struct fences *f, _Atomic uint32_t *captures)
{
	if (!f->unknown_captures && !f->full)
		(void)atomic_fetch_add(captures, 1);
	f->risk_wait_ns = f->unknown_captures ? 2 * f->risk_wait_ns : FENCE_RISK_NS;
	if (f->risk_wait_ns > FENCE_RISK_MAX_NS)
		f->risk_wait_ns = FENCE_RISK_MAX_NS;
	f->risk_ns = sys_now_ns() + f->risk_wait_ns;
	f->unknown_captures = true;
}

/* @mine: captures that have not begun yet. The lock is held. */
static enum fence_result place_fence(struct fences *f, unsigned int gpu,
	_Atomic uint64_t *ended, _Atomic uint32_t *captures, uint32_t mine)
{
	struct fence_ring *r = &f->rings[gpu];
	/* A thread that begins a capture counts it with the lock held. */
	uint32_t others = atomic_load(captures) - mine;
	uint64_t number = atomic_load(&r->placed) + 1, target = atomic_load(ended);
	unsigned int place = number % FENCES_PENDING;
	enum fence_answer a;

	/* Behind a stuck fence another fence shows nothing. Where no context is known there is no work:
	 * the driver refuses work of a thread without one. */
	if (number - r->passed == FENCES_PENDING || atomic_load(&r->stuck) ||
		(others && !may_risk_fence(f, gpu, others, target)))
		return FENCE_LATER;
	a = record_fence(f, gpu, place);
	if (a != FENCE_PASSED) {
		clear_fence(f, gpu, place);
		if (a == FENCE_REFUSED)
			note_unknown_capture(f, captures);
		return a == FENCE_ANSWER_DRIVER_DOWN ? FENCE_DRIVER_DOWN
		       : a == FENCE_MISSING          ? FENCE_UNSUPPORTED
						     : FENCE_LATER;
	}
	r->targets[place] = target;
	cost_model_snapshot(&r->cost_model, &r->snapshots[place]);
	r->done_beyond[place] = 0;
	atomic_store(&r->last, target);
	/* Stored after the target was read. So a thread that reads this number, then counts .ended, is
	 * not counted by the fence. */
	atomic_store(&r->placed, number);
	return FENCE_OK;
}

enum fence_result fences_place(struct fences *f, unsigned int gpu, _Atomic uint64_t *ended,
	_Atomic uint32_t *captures, uint64_t *done)
{
	enum fence_result ret;

	sys_lock(&f->lock);
	ret = place_fence(f, gpu, ended, captures, 0);
	/* Where all contexts have gone the fence has passed. */
	if (ret == FENCE_OK && !atomic_load(&f->rings[gpu].contexts) &&
		poll_fence_ring(f, gpu) == FENCE_PASSED)
		raise_done(done, &f->rings[gpu], ended);
	sys_unlock(&f->lock);
	return ret;
}

void fences_place_after_submit(struct fences *f, unsigned int gpu, _Atomic uint64_t *ended,
	_Atomic uint32_t *captures, uint32_t apart)
{
	struct fence_ring *r = &f->rings[gpu];
	CUcontext context;
	unsigned int mode;

	if (atomic_load(ended) - atomic_load(&r->last) < apart || !sys_trylock(&f->lock))
		return;
	if (atomic_load(ended) - atomic_load(&r->last) >= apart) {
		mode = quiet_begin();
		context = fences_current_context();
		if (context && !fences_find_context(f, context))
			add_or_count(f, context, gpu, captures, true);
		/* The gate thread sees any error when it tries. */
		(void)place_fence(f, gpu, ended, captures, 0);
		quiet_end(mode);
	}
	sys_unlock(&f->lock);
}

/* The lock is held.
 * 1. This thread counts the capture. From then on place_fence() of other threads, which reads the count
 *    under the lock, records no fence.
 * 2. This thread places a fence behind all that has ended.
 * 3. A submitting thread that did not see the count has ended before step 2, and that fence counts it, or
 *    is about to submit at this moment. */
static void count_capture(struct fences *f, _Atomic uint32_t *captures)
{
	struct turn_page *page = atomic_load(&f->page);

	(void)atomic_fetch_add(captures, 1);
	for (uint32_t i = 0; page && i < f->gpus; i++) {
		_Atomic uint64_t *ended = &page->gpus[i].ended;

		/* Only the gate thread polls what has passed: with all places taken there is no fence. */
		if (atomic_load(ended) != atomic_load(&f->rings[i].last))
			(void)place_fence(f, i, ended, captures, 1);
	}
}

void fences_capture_begins(struct fences *f, _Atomic uint32_t *captures)
{
	unsigned int mode = quiet_begin();

	sys_lock(&f->lock);
	count_capture(f, captures);
	sys_unlock(&f->lock);
	quiet_end(mode);
}

uint64_t fences_count_ahead(struct fences *f, unsigned int gpu, uint64_t done)
{
	const struct fence_ring *r = &f->rings[gpu];
	uint64_t target, ret = 0;

	sys_lock(&f->lock);
	if (r->passed < atomic_load(&r->placed)) {
		target = r->targets[(r->passed + 1) % FENCES_PENDING];
		ret = target > done ? target - done : 1;
	}
	sys_unlock(&f->lock);
	return ret;
}

uint64_t fences_front_ns(struct fences *f, unsigned int gpu)
{
	const struct fence_ring *r = &f->rings[gpu];
	uint64_t ret = 0;

	sys_lock(&f->lock);
	if (r->passed < atomic_load(&r->placed))
		ret = cost_model_in_flight_ns(&r->cost_model,
			r->snapshots[(r->passed + 1) % FENCES_PENDING].work_ns);
	sys_unlock(&f->lock);
	return ret;
}

uint64_t fences_last_target(const struct fences *f, unsigned int gpu)
{
	return atomic_load(&f->rings[gpu].last);
}
