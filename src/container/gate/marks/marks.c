/* SPDX-License-Identifier: Apache-2.0 */

/* Contexts, and the markers in them. */
#include "container/cuda/green.h"
#include "container/cuda/quiet.h"
#include "container/gate/marks/internal.h"

/* ---- what the driver answers -------------------------------------------------------------------- */

/* Errors of a context after which nothing runs in it. */
static bool stays(CUresult r)
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

enum marks_answer marks_answer(CUresult r)
{
	if (r == CUDA_SUCCESS)
		return PASSED;
	if (r == CUDA_ERROR_NOT_READY)
		return PENDING;
	if (r == CUDA_ERROR_DEINITIALIZED)
		return OVER;
	if (r == CUDA_ERROR_NOT_FOUND)
		return MISSING;
	if (r == CUDA_ERROR_INVALID_CONTEXT || r == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
		r == CUDA_ERROR_INVALID_HANDLE)
		return GONE;
	if (r >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
		r <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
		return REFUSED;
	return stays(r) ? BROKEN : UNKNOWN;
}

/* ---- events ------------------------------------------------------------------------------------- */

bool marks_make_event(CUevent *event)
{
	if (!*event && REAL(cuEventCreate)(event, MARKS_EVENT_FLAGS))
		*event = NULL;
	return *event;
}

bool marks_record(CUevent event, CUstream stream, bool thread_stream)
{
	return !(thread_stream ? REAL(cuEventRecord_ptsz)(event, stream)
			       : REAL(cuEventRecord)(event, stream));
}

/* ---- contexts ----------------------------------------------------------------------------------- */

struct marks_context *marks_find(struct marks *m, CUcontext context)
{
	for (unsigned int i = 0; i < MARKS_CONTEXTS; i++)
		if (m->contexts[i].context == context)
			return &m->contexts[i];
	return NULL;
}

bool marks_is_leaving(struct marks *m, CUcontext context)
{
	const struct marks_context *c = marks_find(m, context);

	return c && c->leaving;
}

bool marks_hold(struct marks *m, CUcontext context)
{
	if (!sys_trylock(&m->lock))
		return false;
	if (!marks_is_leaving(m, context))
		return true;
	sys_unlock(&m->lock);
	return false;
}

static unsigned long long id_of(CUcontext context)
{
	unsigned long long id = 0;

	return REAL(cuCtxGetId)(context, &id) ? 0 : id + 1;
}

/* Whether its handle is that of the same context still, as far as the driver says. */
static bool is_there(const struct marks_context *c)
{
	return !c->id || id_of(c->context) == c->id;
}

static void forget_events(struct marks_context *c)
{
	c->made = false;
	for (unsigned int i = 0; i < MARKS_PENDING; i++) {
		c->events[i] = NULL;
		c->set[i] = false;
	}
}

/*
 * No context of @gpu is known, and a marker would count as done whatever is in flight. So who comes next finds the bell
 * at the gate, and by the slow way tells which one it has (marks_here()). A keeper that is awake stays so.
 */
static void ask_who_comes(struct marks *m, unsigned int gpu)
{
	struct turn_page *page = atomic_load(&m->page);

	if (page && gpu < m->gpus)
		(void)atomic_fetch_or(&page->gpus[gpu].gate, TURN_BELL);
}

static void break_context(struct marks *m, struct marks_context *c)
{
	if (!c->broken && atomic_fetch_sub(&m->rings[c->gpu].contexts, 1) == 1)
		ask_who_comes(m, c->gpu);
	c->broken = true;
}

/*
 * The driver says that the context, or an event of ours in it, is not there: it has gone, or was reset, and
 * nobody told us. What was in it is over. What is in the one that has its handle now, if there is one, is
 * not.
 */
static void renew(struct marks *m, struct marks_context *c)
{
	forget_events(c);
	c->id = id_of(c->context);
	if (!c->id)
		break_context(m, c);
}

static void forget(struct marks *m, struct marks_context *c)
{
	break_context(m, c);
	marks_drop_own(m, c->context);
	marks_drop_waits(m, c->context);
	*c = (struct marks_context){ 0 };
}

/* PASSED: they are there. */
static enum marks_answer make_events(struct marks_context *c)
{
	CUcontext popped;
	CUresult r;

	if (c->made)
		return PASSED;
	r = REAL(cuCtxPushCurrent_v2)(c->context);
	if (r)
		return marks_answer(r);
	for (unsigned int i = 0; !r && i < MARKS_PENDING; i++)
		if (!c->events[i]) {
			r = REAL(cuEventCreate)(&c->events[i], MARKS_EVENT_FLAGS);
			if (r)
				c->events[i] = NULL;
		}
	(void)REAL(cuCtxPopCurrent_v2)(&popped);
	c->made = !r;
	return marks_answer(r);
}

/* The lock is held. NULL: there is no place. */
static struct marks_context *add(struct marks *m, CUcontext context, unsigned int gpu)
{
	struct marks_context *c = marks_find(m, context);
	unsigned long long id = id_of(context);

	/* One that is broken may be there again, after a reset that nobody told us of. */
	if (c && !c->broken && c->gpu == gpu && c->id == id)
		return c;
	if (c)
		forget(m, c);
	c = marks_find(m, NULL);
	if (!c)
		return NULL;
	*c = (struct marks_context){ .context = context, .id = id, .gpu = gpu };
	(void)atomic_fetch_add(&m->rings[gpu].contexts, 1);
	return c;
}

static void count_capture(struct marks *m, _Atomic uint32_t *captures);

static void add_or_count(struct marks *m, CUcontext context, unsigned int gpu,
	_Atomic uint32_t *captures, bool early)
{
	struct marks_context *c = add(m, context, gpu);

	if (c && early)
		(void)make_events(c);
	if (c || m->full)
		return;
	m->full = true;
	if (m->strange)
		return;
	m->risk_wait_ns = MARKS_RISK_NS;
	m->risk_ns = sys_now_ns() + m->risk_wait_ns;
	count_capture(m, captures);
}

void marks_add(struct marks *m, CUcontext context, unsigned int gpu, _Atomic uint32_t *captures,
	bool early)
{
	unsigned int mode;

	if (!context || gpu >= SLICE_GPUS_MAX)
		return;
	mode = quiet_begin();
	sys_lock(&m->lock);
	add_or_count(m, context, gpu, captures, early);
	sys_unlock(&m->lock);
	quiet_end(mode);
}

void marks_leaves(struct marks *m, CUcontext context)
{
	struct marks_context *c;

	sys_lock(&m->lock);
	c = context ? marks_find(m, context) : NULL;
	if (c)
		c->leaving++;
	sys_unlock(&m->lock);
}

/* Its events went with it. */
void marks_gone(struct marks *m, CUcontext context)
{
	struct marks_context *c;

	if (!context)
		return;
	sys_lock(&m->lock);
	c = marks_find(m, context);
	/* Another one may have its handle since, and be known. */
	if (c && (c->leaving || !c->id || !is_there(c)))
		forget(m, c);
	else if (!c) {
		marks_drop_own(m, context);
		marks_drop_waits(m, context);
	}
	sys_unlock(&m->lock);
}

void marks_stays(struct marks *m, CUcontext context)
{
	struct marks_context *c;
	unsigned int mode = quiet_begin();

	sys_lock(&m->lock);
	c = context ? marks_find(m, context) : NULL;
	if (c && is_there(c))
		c->leaving -= c->leaving > 0;
	else if (c) /* it went, and another one has its handle */
		forget(m, c);
	sys_unlock(&m->lock);
	quiet_end(mode);
}

CUcontext marks_current(void)
{
	CUcontext context = NULL;

	return REAL(cuCtxGetCurrent)(&context) ? NULL : green_primary(context);
}

void marks_here(struct marks *m, unsigned int gpu, _Atomic uint32_t *captures)
{
	if (__builtin_expect(
		    atomic_load_explicit(&m->rings[gpu].contexts, memory_order_relaxed) != 0,
		    1))
		return;
	marks_add(m, marks_current(), gpu, captures, true);
	/* It has none, and the driver refuses it; the next one may have. */
	if (!atomic_load(&m->rings[gpu].contexts))
		ask_who_comes(m, gpu);
}

/* ---- what has passed ---------------------------------------------------------------------------- */

/* Submissions that are known to be done. The lock is held. */
static uint64_t known(const struct marks_ring *r)
{
	uint64_t n = r->passed ? r->targets[r->passed % MARKS_PENDING] : 0;

	for (uint64_t i = r->passed; i <= atomic_load(&r->placed); i++)
		n += r->beyond[i % MARKS_PENDING];
	return n;
}

/* What is done may not have been counted by .ended yet: no more than that, here. The lock is held. */
static void raise_done(uint64_t *done, const struct marks_ring *r, _Atomic uint64_t *ended)
{
	uint64_t n = known(r), most = atomic_load(ended);

	n = n < most ? n : most;
	if (n > *done)
		*done = n;
}

/* Whether the marker at @place has passed in all contexts. The lock is held. */
static enum marks_answer look_at(struct marks *m, unsigned int gpu, unsigned int place)
{
	for (unsigned int i = 0; i < MARKS_CONTEXTS; i++) {
		struct marks_context *c = &m->contexts[i];
		enum marks_answer a;

		if (!c->context || c->gpu != gpu || !c->set[place])
			continue;
		a = c->broken    ? PASSED
		    : c->leaving ? PENDING
				 : marks_answer(REAL(cuEventQuery)(c->events[place]));
		if (a == OVER)
			return OVER;
		if (a == BROKEN)
			break_context(m, c);
		else if (a == GONE)
			renew(m, c);
		else if (a != PASSED)
			return PENDING;
		c->set[place] = false;
	}
	return PASSED;
}

/* The lock is held. */
static enum marks_answer look_at_ring(struct marks *m, unsigned int gpu)
{
	struct marks_ring *r = &m->rings[gpu];

	while (r->passed < atomic_load(&r->placed)) {
		enum marks_answer a = look_at(m, gpu, (r->passed + 1) % MARKS_PENDING);

		if (a != PASSED)
			return a;
		r->passed++;
		kinds_passed(&r->kinds, &r->notes[r->passed % MARKS_PENDING]);
	}
	return PASSED;
}

static void not_stuck(struct marks_ring *r)
{
	atomic_store(&r->stuck, 0);
	atomic_store(&r->blind, 0);
	atomic_store(&r->parked, false);
}

/* What of a marker's submissions may be in flight is given @each_ns and some more. The lock is held. */
static void look_whether_stuck(struct marks *m, unsigned int gpu, uint64_t now,
	uint64_t each_ns, uint64_t done, uint64_t in_flight, bool settled)
{
	struct marks_ring *r = &m->rings[gpu];
	uint64_t first = r->passed + 1, target, wait;

	if (first > atomic_load(&r->placed)) {
		r->watched = 0;
		not_stuck(r);
		return;
	}
	if (r->watched != first) {
		target = r->targets[first % MARKS_PENDING];
		wait = target > done ? target - done : 1;
		if (__builtin_mul_overflow(wait, each_ns, &wait) || wait > MARKS_EXPECT_NS)
			wait = MARKS_EXPECT_NS;
		r->watched = first;
		r->due_ns = now + wait + MARKS_STUCK_NS;
		not_stuck(r);
		return;
	}
	if (now <= r->due_ns)
		return;
	atomic_store(&r->parked, marks_waits_block(m, gpu));
	if (!atomic_load(&r->stuck))
		atomic_store(&r->stuck, 1);
	else if (!settled)
		return;
	atomic_store(&r->blind, in_flight);
}

enum marks_result marks_look(struct marks *m, unsigned int gpu, struct turn_gpu_page *p,
	uint64_t now, uint64_t each_ns, uint64_t *done)
{
	struct marks_ring *r = &m->rings[gpu];
	/* In this order: equal if nobody is about to submit. */
	uint64_t ended = atomic_load(&p->ended), begun = atomic_load(&p->begun);
	enum marks_answer a;
	bool pending;

	sys_lock(&m->lock);
	a = look_at_ring(m, gpu);
	if (a != OVER)
		a = marks_look_at_own(m, gpu, &pending);
	if (a != OVER) {
		raise_done(done, r, &p->ended);
		look_whether_stuck(m, gpu, now, each_ns, *done,
			begun > *done ? begun - *done : 0, !pending && begun == ended);
	}
	sys_unlock(&m->lock);
	return a == OVER ? MARKS_OVER : MARKS_OK;
}

/* ---- placing ------------------------------------------------------------------------------------ */

/* On one context. */
static enum marks_answer record_in(struct marks *m, struct marks_context *c, unsigned int place)
{
	enum marks_answer a = make_events(c);

	if (a == PASSED)
		a = marks_answer(REAL(cuCtxRecordEvent)(c->context, c->events[place]));
	/* One that has gone may answer whatever it likes. */
	if (a == GONE || (a != PASSED && a != OVER && !is_there(c))) {
		renew(m, c);
		return c->broken ? BROKEN : UNKNOWN;
	}
	if (a == BROKEN)
		break_context(m, c);
	return a;
}

/* On all contexts of @gpu. The lock is held. PASSED: also where there is none. */
static enum marks_answer record(struct marks *m, unsigned int gpu, unsigned int place)
{
	for (unsigned int i = 0; i < MARKS_CONTEXTS; i++) {
		struct marks_context *c = &m->contexts[i];
		enum marks_answer a;

		if (!c->context || c->gpu != gpu || c->broken)
			continue;
		a = c->leaving ? UNKNOWN : record_in(m, c, place);
		if (a == BROKEN)
			continue;
		if (a != PASSED)
			return a; /* what others recorded is recorded anew */
		c->set[place] = true;
	}
	return PASSED;
}

static void forget_place(struct marks *m, unsigned int gpu, unsigned int place)
{
	for (unsigned int i = 0; i < MARKS_CONTEXTS; i++)
		if (m->contexts[i].gpu == gpu)
			m->contexts[i].set[place] = false;
}

/*
 * Whether a marker may be recorded beside @captures, of which one is that which stands for all that nobody
 * tells us of, or for contexts that have no place: if there are submissions up to @target with no event of their
 * own, and it is long ago. The lock is held.
 */
static bool may_risk(struct marks *m, unsigned int gpu, uint32_t captures, uint64_t target)
{
	bool pending;

	if (captures != 1 || !(m->strange || m->full) || sys_now_ns() < m->risk_ns ||
		marks_look_at_own(m, gpu, &pending) != PASSED || pending ||
		known(&m->rings[gpu]) >= target)
		return false;
	m->risk_ns = sys_now_ns() + m->risk_wait_ns;
	return true;
}

/* One was refused though no capture is known of, or but that one. */
static void meet_stranger(struct marks *m, _Atomic uint32_t *captures)
{
	if (!m->strange && !m->full)
		(void)atomic_fetch_add(captures, 1);
	m->risk_wait_ns = m->strange ? 2 * m->risk_wait_ns : MARKS_RISK_NS;
	if (m->risk_wait_ns > MARKS_RISK_MAX_NS)
		m->risk_wait_ns = MARKS_RISK_MAX_NS;
	m->risk_ns = sys_now_ns() + m->risk_wait_ns;
	m->strange = true;
}

/* @mine: captures that have not begun yet. The lock is held. */
static enum marks_result place_marker(struct marks *m, unsigned int gpu,
	_Atomic uint64_t *ended, _Atomic uint32_t *captures, uint32_t mine)
{
	struct marks_ring *r = &m->rings[gpu];
	/* Who begins a capture counts it with the lock held. */
	uint32_t others = atomic_load(captures) - mine;
	uint64_t number = atomic_load(&r->placed) + 1, target = atomic_load(ended);
	unsigned int place = number % MARKS_PENDING;
	enum marks_answer a;

	/* Behind one that is stuck another one tells nothing. Where no context is known there is no work: who
	 * submits without one is refused by the driver. */
	if (number - r->passed == MARKS_PENDING || atomic_load(&r->stuck) ||
		(others && !may_risk(m, gpu, others, target)))
		return MARKS_LATER;
	a = record(m, gpu, place);
	if (a != PASSED) {
		forget_place(m, gpu, place);
		if (a == REFUSED)
			meet_stranger(m, captures);
		return a == OVER ? MARKS_OVER : a == MISSING ? MARKS_NEVER : MARKS_LATER;
	}
	r->targets[place] = target;
	kinds_note(&r->kinds, &r->notes[place]);
	r->beyond[place] = 0;
	atomic_store(&r->last, target);
	/* Who sees this number comes after the target was read, and so is not counted by it. */
	atomic_store(&r->placed, number);
	return MARKS_OK;
}

enum marks_result marks_place(struct marks *m, unsigned int gpu, _Atomic uint64_t *ended,
	_Atomic uint32_t *captures, uint64_t *done)
{
	enum marks_result ret;

	sys_lock(&m->lock);
	ret = place_marker(m, gpu, ended, captures, 0);
	/* Where all contexts have gone it has passed. */
	if (ret == MARKS_OK && !atomic_load(&m->rings[gpu].contexts) &&
		look_at_ring(m, gpu) == PASSED)
		raise_done(done, &m->rings[gpu], ended);
	sys_unlock(&m->lock);
	return ret;
}

void marks_submitted(struct marks *m, unsigned int gpu, _Atomic uint64_t *ended,
	_Atomic uint32_t *captures, uint32_t apart)
{
	struct marks_ring *r = &m->rings[gpu];
	CUcontext context;
	unsigned int mode;

	if (atomic_load(ended) - atomic_load(&r->last) < apart || !sys_trylock(&m->lock))
		return;
	if (atomic_load(ended) - atomic_load(&r->last) >= apart) {
		mode = quiet_begin();
		context = marks_current();
		if (context && !marks_find(m, context))
			add_or_count(m, context, gpu, captures, true);
		/* What goes wrong the keeper sees when it tries. */
		(void)place_marker(m, gpu, ended, captures, 0);
		quiet_end(mode);
	}
	sys_unlock(&m->lock);
}

/* From then on no marker is recorded; before that all work has one. Who submits and does not see it is counted
 * by that, or is about to submit at this moment. The lock is held. */
static void count_capture(struct marks *m, _Atomic uint32_t *captures)
{
	struct turn_page *page = atomic_load(&m->page);

	(void)atomic_fetch_add(captures, 1);
	for (uint32_t i = 0; page && i < m->gpus; i++) {
		_Atomic uint64_t *ended = &page->gpus[i].ended;

		/* Only the keeper looks what has passed: with all places taken there is none. */
		if (atomic_load(ended) != atomic_load(&m->rings[i].last))
			(void)place_marker(m, i, ended, captures, 1);
	}
}

void marks_capture_begins(struct marks *m, _Atomic uint32_t *captures)
{
	unsigned int mode = quiet_begin();

	sys_lock(&m->lock);
	count_capture(m, captures);
	sys_unlock(&m->lock);
	quiet_end(mode);
}

uint64_t marks_ahead(struct marks *m, unsigned int gpu, uint64_t done)
{
	const struct marks_ring *r = &m->rings[gpu];
	uint64_t target, ret = 0;

	sys_lock(&m->lock);
	if (r->passed < atomic_load(&r->placed)) {
		target = r->targets[(r->passed + 1) % MARKS_PENDING];
		ret = target > done ? target - done : 1;
	}
	sys_unlock(&m->lock);
	return ret;
}

uint64_t marks_front_ns(struct marks *m, unsigned int gpu)
{
	const struct marks_ring *r = &m->rings[gpu];
	uint64_t ret = 0;

	sys_lock(&m->lock);
	if (r->passed < atomic_load(&r->placed))
		ret = kinds_in_flight(&r->kinds,
			r->notes[(r->passed + 1) % MARKS_PENDING].work_ns);
	sys_unlock(&m->lock);
	return ret;
}

uint64_t marks_last(const struct marks *m, unsigned int gpu)
{
	return atomic_load(&m->rings[gpu].last);
}
