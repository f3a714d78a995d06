/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/sched/model-internal.h"

#include "model/sched/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUBMIT_NS (10 * US) /* from the end of a wait to the next submission */

uint64_t model_random(struct model *m, uint64_t below)
{
	m->seed ^= m->seed << 13;
	m->seed ^= m->seed >> 7;
	m->seed ^= m->seed << 17;
	return below ? (m->seed * UINT64_C(2685821657736338717) >> 20) % below : 0;
}

static uint64_t pick_between(struct model *m, uint64_t min, uint64_t max)
{
	return min + model_random(m, max - min + 1);
}

/* --- what the arbiter does --- */

static bool liar(const struct model_proc *p)
{
	return p->task.kind >= MODEL_FLAPPER;
}

/* The gate of a client has changed: the page shows it at once. */
static void on_gate(void *arg, struct sched_client *client)
{
	struct model *m = arg;
	struct model_proc *p = client->user;
	struct model_slice *s = p->slice;
	uint64_t poll_at = m->now + pick_between(m, 10 * US, 100 * US);

	p->generation++;
	p->gate_at = m->now;
	m->n_gates++;
	if (client->gate == SCHED_GATE_CLOSED)
		s->closed_at[p->gpu] = model_charged(m, s, p->gpu);
	if (client->gate != SCHED_GATE_CLOSED && p->blocked)
		p->woken_at = m->now + pick_between(m, 5 * US, 50 * US);
	/* The thread that wakes up at the gate reports the state where all known work waits there. Otherwise
	 * the gate thread polls. */
	if (p->in_flight || !p->blocked)
		p->poll_at = min_u64(p->poll_at, poll_at);
	if (client->gate == SCHED_GATE_THROTTLED && client->throttle.quantum_ns != UINT64_MAX &&
		client->throttle.quantum_ns > SCHED_QUANTUM_NS * 5 / 4)
		model_fail(m, "a turn of %.3f ms", (double)client->throttle.quantum_ns / 1e6);
}

static uint64_t done_of(void *arg, const struct sched_client *client)
{
	const struct model_proc *p = client->user;

	(void)arg;
	return p->steps;
}

/* --- what a process does --- */

/* The work in flight waits for the process to submit the rest. */
static bool is_at_closed_gate(const struct model_proc *p)
{
	return p->task.kind == MODEL_BLOCKED && p->in_flight && p->todo;
}

static bool works(const struct model_proc *p)
{
	return p->in_flight && !is_at_closed_gate(p);
}

/* How long the kernel is that the process submits next. */
static uint64_t get_next_kernel_ns(const struct model_proc *p)
{
	const struct model_task *t = &p->task;

	return t->kind == MODEL_TOKEN && p->steps % t->burst != t->burst / 2 ? t->piece_ns
									     : t->kernel_ns;
}

static bool has_more(const struct model_proc *p)
{
	uint64_t min = UINT64_MAX;

	switch (p->task.kind) {
	case MODEL_SATURATE:
		return p->in_flight < p->task.ahead;
	case MODEL_LOOP:
	case MODEL_TOKEN:
		return !p->in_flight && p->m->now >= p->think_at;
	case MODEL_BURST:
		return !p->in_flight && p->todo;
	case MODEL_PACED:
		return p->todo && p->m->now >= p->think_at;
	case MODEL_BLOCKED:
		return (!p->in_flight || p->todo) && p->m->now >= p->think_at;
	case MODEL_GROUP:
		for (size_t i = 0; i < p->m->n_procs; i++) {
			const struct model_proc *q = &p->m->procs[i];

			if (q->slice == p->slice)
				min = min_u64(min, q->steps);
		}
		return p->steps + p->in_flight < min + p->task.ahead &&
		       p->m->now >= p->think_at;
	case MODEL_FALSE_BUSY:
		return !p->blocked && !p->client->busy && !p->n_packets;
	case MODEL_SHY:
		return p->m->now >= p->think_at;
	case MODEL_FLAPPER:
	case MODEL_KINDS:
		break;
	}
	return false;
}

static bool is_tight(const struct model_proc *p)
{
	return p->client && p->client->gate == SCHED_GATE_THROTTLED &&
	       p->client->throttle.window_ns < MODEL_TIGHT_NS;
}

/* SCHED_GATE_THROTTLED: the process submits as much as its estimate allows. */
static bool is_throttled_out(const struct model_proc *p)
{
	const struct sched_throttle *throttle = &p->client->throttle;
	uint64_t guess =
		(p->in_flight + 1) * p->task.kernel_ns * p->task.estimate_permille / 1000;
	uint64_t left = UINT64_MAX, gone = p->m->now - p->gate_at;

	/* Blocked work does not count, after a while. */
	if (p->client->gate != SCHED_GATE_THROTTLED || !p->in_flight || is_at_closed_gate(p) ||
		p->m->stock)
		return false;
	if (p->in_flight == 1 && is_tight(p))
		return p->head_ns > MODEL_LEAD_NS;
	if (throttle->quantum_ns != UINT64_MAX)
		left = (throttle->quantum_ns > gone ? throttle->quantum_ns - gone : 0) +
		       throttle->overrun_ns;
	return guess > min_u64(throttle->window_ns, left);
}

static void send_model_packet(struct model_proc *p, bool busy, bool wants)
{
	struct model *m = p->m;
	struct model_packet *last = p->n_packets ? &p->packets[p->n_packets - 1] : NULL;
	uint64_t at = m->now + pick_between(m, 5 * US, 50 * US);

	if (p->n_packets == MODEL_PACKETS_MAX) {
		model_fail(m, "process %td sends without end", p - m->procs);
		return;
	}
	p->reported = busy || wants;
	p->packets[p->n_packets++] = (struct model_packet){ .busy = busy,
		.wants = wants,
		.generation = p->generation,
		.idle_ns = busy ? 0 : m->now - p->idle_at,
		.at = last ? max_u64(at, last->at) : at };
}

static bool counts_as_busy(const struct model_proc *p)
{
	if (is_at_closed_gate(p) && p->client->gate == SCHED_GATE_CLOSED)
		return false;
	return p->in_flight || p->task.kind == MODEL_FALSE_BUSY;
}

static void report_process_state(struct model_proc *p)
{
	send_model_packet(p, counts_as_busy(p), p->blocked);
}

/* The process is at the closed gate. */
static void report_blocked(struct model_proc *p)
{
	p->blocked = true;
	p->reported_generation = p->generation;
	report_process_state(p);
}

/* What the task decides about the next kernel. */
static void decide_next_kernel(struct model_proc *p)
{
	const struct model_task *t = &p->task;

	if (t->kind == MODEL_BLOCKED)
		p->todo = p->todo ? p->todo - 1 : t->burst - 1;
	else if (t->kind == MODEL_BURST || t->kind == MODEL_PACED)
		p->todo--;
	if (t->kind == MODEL_BLOCKED || t->kind == MODEL_PACED || t->kind == MODEL_GROUP)
		p->think_at = p->m->now + t->think_ns;
}

static void submit_kernels(struct model_proc *p)
{
	struct model *m = p->m;

	while (has_more(p) && m->now >= p->woken_at) {
		if (p->client->gate == SCHED_GATE_CLOSED && !m->stock) {
			/* A blocked process reports again if the gate has been open meanwhile. */
			if (!p->blocked || p->reported_generation != p->generation)
				report_blocked(p);
			return;
		}
		p->blocked = false;
		if (is_throttled_out(p))
			return;
		if (p->task.kind == MODEL_SHY) {
			p->think_at = m->now + p->task.think_ns;
			return;
		}
		if (p->task.kind == MODEL_FALSE_BUSY) {
			report_process_state(p);
			return;
		}
		if (p->in_flight++ == 0) {
			p->head_ns = get_next_kernel_ns(p);
			if (!p->client->busy || p->n_packets)
				report_process_state(p); /* the doorbell */
		}
		decide_next_kernel(p);
	}
}

static void end_kernel(struct model_proc *p)
{
	struct model *m = p->m;

	p->in_flight--;
	p->work_ns += get_next_kernel_ns(p);
	p->steps++;
	p->head_ns = p->in_flight ? p->task.kernel_ns : 0;
	if (p->in_flight)
		return;
	p->idle_at = m->now;
	if (p->task.kind == MODEL_LOOP)
		p->think_at =
			m->now + (p->task.burst && p->steps % p->task.burst ? SUBMIT_NS
									    : p->task.think_ns);
	if (p->task.kind == MODEL_TOKEN)
		p->think_at =
			m->now + (p->steps % p->task.burst ? SUBMIT_NS
							   : pick_between(m, p->task.think_ns,
								     p->task.rest_ns));
	if (p->task.kind == MODEL_PACED && !p->todo)
		p->think_at = m->now + p->task.rest_ns;
	if (p->task.kind == MODEL_BURST && !p->todo) {
		if (p->n_lat < sizeof(p->lat) / sizeof(p->lat[0]))
			p->lat[p->n_lat++] = m->now - p->burst_at;
		p->burst_at = 0;
	}
	p->poll_at = min_u64(p->poll_at,
		m->now + (p->client->gate == SCHED_GATE_OPEN
					 ? pick_between(m, 10 * US, 2 * MS)
					 : pick_between(m, 10 * US, 100 * US)));
}

/* The gate thread polls, and reports if the arbiter's state is wrong or if the arbiter may have missed a
 * report. */
static void poll_process(struct model_proc *p)
{
	struct model *m = p->m;

	p->poll_at = UINT64_MAX;
	if (p->task.kind == MODEL_FLAPPER) {
		bool wants = model_random(m, 2), busy = model_random(m, 2);

		p->poll_at = m->now + pick_between(m, 20 * US, 2 * MS);
		send_model_packet(p, busy, wants);
		return;
	}
	/* Without the doorbell the arbiter assumes that the process has work. */
	if (p->client->busy || p->client->wants || p->reported || counts_as_busy(p) ||
		p->blocked)
		report_process_state(p);
}

static void deliver_packet(struct model_proc *p)
{
	struct model *m = p->m;
	struct model_packet packet = p->packets[0];

	p->n_packets--;
	memmove(p->packets, p->packets + 1, p->n_packets * sizeof(p->packets[0]));
	if (packet.generation != p->generation)
		return;
	sched_client_set_state(m->sched, p->client, packet.busy, packet.wants, packet.idle_ns,
		m->now);
	model_check_call(m);
}

/* --- time --- */

static bool is_mps(const struct model_proc *p)
{
	return p->slice->config[p->gpu].mps;
}

/* The process makes progress now: it has the GPU's context, or shares the context. */
static bool gets_on(const struct model *m, const struct model_proc *p)
{
	const struct model_proc *runs = p->slice ? m->gpus[p->gpu].runs : NULL;

	return runs && works(p) && (p == runs || (is_mps(runs) && is_mps(p)));
}

bool model_is_busy(const struct model *m, unsigned int gpu)
{
	for (size_t i = 0; i < m->n_procs; i++) {
		if (m->procs[i].gpu == gpu && gets_on(m, &m->procs[i]))
			return true;
	}
	return false;
}

/* The next context with work after the running one, round robin. NULL: no other context has work. */
static struct model_proc *find_rival(struct model *m, unsigned int gpu)
{
	const struct model_proc *runs = m->gpus[gpu].runs;
	size_t at = runs ? (size_t)(runs - m->procs) : 0;

	for (size_t i = 1; i <= m->n_procs; i++) {
		struct model_proc *p = &m->procs[(at + i) % m->n_procs];

		if (p != runs && p->slice && p->gpu == gpu && works(p) && !gets_on(m, p))
			return p;
	}
	return NULL;
}

/* The hardware changes contexts, if it is time. */
static void rotate_contexts(struct model *m, unsigned int gpu)
{
	struct model_gpu *g = &m->gpus[gpu];
	struct model_proc *next = find_rival(m, gpu);
	bool changes = next && (!model_is_busy(m, gpu) || g->ends <= m->now);
	uint64_t slice = SCHED_TIME_SLICE_NS;

	if (changes) {
		g->runs = next;
		g->change_ns = MODEL_CHANGE_NS;
		g->ends = UINT64_MAX;
		next = find_rival(m, gpu);
	}
	if (!next) {
		g->ends = UINT64_MAX;
	} else if (g->ends == UINT64_MAX) {
		if (!changes && !model_random(m, MODEL_MIDST))
			slice = model_random(m, slice);
		g->ends = m->now + g->change_ns + slice;
	}
}

static uint64_t shorten_step(uint64_t step, uint64_t now, uint64_t when)
{
	return when > now && when - now < step ? when - now : step;
}

static uint64_t next_step(const struct model *m, uint64_t until)
{
	uint64_t step = until - m->now;

	step = shorten_step(step, m->now, sched_next_deadline(m->sched));
	for (unsigned int g = 0; g < m->n_gpus; g++)
		step = shorten_step(step, m->now, m->gpus[g].ends);
	for (size_t i = 0; i < m->n_procs; i++) {
		const struct model_proc *p = &m->procs[i];
		uint64_t left;

		if (!gets_on(m, p))
			continue;
		left = m->gpus[p->gpu].change_ns + p->head_ns;
		step = min_u64(step, left);
		if (left > MODEL_LEAD_NS && is_tight(p))
			step = min_u64(step, left - MODEL_LEAD_NS);
	}
	for (size_t i = 0; i < m->n_procs; i++) {
		const struct model_proc *p = &m->procs[i];

		if (!p->slice)
			continue;
		step = shorten_step(step, m->now, p->woken_at);
		step = shorten_step(step, m->now, p->think_at);
		step = shorten_step(step, m->now, p->poll_at);
		if (p->n_packets)
			step = shorten_step(step, m->now, p->packets[0].at);
	}
	return step ? step : 1;
}

static void record_gpu_use(struct model *m, unsigned int gpu, uint64_t step)
{
	bool wrong = false;

	m->busy[gpu] += model_is_busy(m, gpu) ? step : 0;
	for (size_t i = 0; i < m->n_procs; i++) {
		const struct model_proc *p = &m->procs[i];

		if (!p->slice || p->gpu != gpu)
			continue;
		p->slice->used[gpu] += gets_on(m, p) ? step : 0;
		wrong |= p->client->busy != works(p);
	}
	if (wrong)
		m->wrong[gpu] += step;
}

static void get_on(struct model *m, unsigned int gpu, uint64_t step)
{
	uint64_t change = min_u64(m->gpus[gpu].change_ns, step);

	if (!model_is_busy(m, gpu))
		return;
	m->gpus[gpu].change_ns -= change;
	for (size_t i = 0; i < m->n_procs; i++) {
		if (m->procs[i].gpu == gpu && gets_on(m, &m->procs[i]))
			m->procs[i].head_ns -= step - change;
	}
}

static void pass_model_time(struct model *m, uint64_t step)
{
	for (unsigned int g = 0; g < m->n_gpus; g++) {
		record_gpu_use(m, g, step);
		m->concurrent[g] += m->sched->gpus[g].period.concurrent ? step : 0;
		get_on(m, g, step);
	}
	for (size_t i = 0; i < m->n_slices; i++)
		m->slices[i].allowed +=
			(double)m->slices[i].config[0].cap * (double)step / SLICE_CAP_ALL;
	m->now += step;
}

static void run_due_events(struct model *m, struct model_proc *p)
{
	if (p->in_flight && !p->head_ns)
		end_kernel(p);
	if (p->task.kind == MODEL_BURST && p->think_at <= m->now) {
		p->think_at = m->now + p->task.think_ns;
		p->todo += p->task.burst;
		p->burst_at = p->burst_at ? p->burst_at : m->now;
	}
	if (p->task.kind == MODEL_PACED && !p->todo && !p->in_flight && p->think_at <= m->now)
		p->todo = p->task.burst;
	while (p->n_packets && p->packets[0].at <= m->now)
		deliver_packet(p);
	if (p->poll_at <= m->now)
		poll_process(p);
	submit_kernels(p);
}

/* --- the run --- */

void model_run(struct model *m, uint64_t ns)
{
	uint64_t until = m->now + ns;

	while (m->now < until && !m->failure[0]) {
		model_check_progress(m);
		for (unsigned int g = 0; g < m->n_gpus; g++)
			rotate_contexts(m, g);
		model_check_time(m);
		pass_model_time(m, next_step(m, until));
		if (sched_next_deadline(m->sched) <= m->now) {
			sched_advance_time(m->sched, m->now);
			model_check_call(m);
		}
		for (size_t i = 0; i < m->n_procs; i++) {
			if (m->procs[i].slice)
				run_due_events(m, &m->procs[i]);
		}
	}
	sched_update_charges(m->sched, m->now);
	model_check_call(m);
}

uint64_t model_charged(struct model *m, const struct model_slice *s, unsigned int gpu)
{
	struct sched_account a;

	sched_account(m->sched, s->slice, gpu, m->now, &a);
	return a.charged_ns;
}

/* --- slices and processes --- */

struct model *model_new(uint64_t seed, unsigned int n_gpus)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		abort();
	m->seed = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	m->now = START;
	m->n_gpus = n_gpus;
	m->sched = sched_new(on_gate, done_of, m);
	if (!m->sched)
		abort();
	sched_update_charges(m->sched, m->now);
	for (unsigned int g = 0; g < n_gpus; g++)
		m->gpus[g].ends = UINT64_MAX;
	return m;
}

struct model *model_free(struct model *m)
{
	sched_free(m->sched);
	free(m);
	return NULL;
}

struct model_slice *model_slice(struct model *m, const struct sched_share_config *share)
{
	struct model_slice *s = m->slices;

	while (s->slice)
		s++;
	if (s >= m->slices + MODEL_SLICES_MAX)
		abort();
	if (s == m->slices + m->n_slices)
		m->n_slices++;
	*s = (struct model_slice){ .slice = sched_slice_new(m->sched, s) };
	if (!s->slice)
		abort();
	model_share(m, s, share);
	return s;
}

void model_share(struct model *m, struct model_slice *s, const struct sched_share_config *share)
{
	for (unsigned int g = 0; g < m->n_gpus; g++) {
		s->config[g] = *share;
		if (sched_slice_set_share(m->sched, s->slice, g, share, m->now) < 0)
			abort();
	}
	model_check_call(m);
	s->allowed = (double)s->charged[0];
	s->over_least = 0;
}

void model_slice_drop(struct model *m, struct model_slice *s)
{
	for (size_t i = 0; i < m->n_procs; i++) {
		if (m->procs[i].slice == s)
			model_kill(&m->procs[i]);
	}
	sched_update_charges(m->sched, m->now);
	model_check_call(m);
	for (unsigned int g = 0; g < m->n_gpus; g++)
		m->gone[g] += s->charged[g];
	sched_slice_free(m->sched, s->slice);
	s->slice = NULL;
	model_check_call(m);
}

struct model_proc *model_proc(struct model *m, struct model_slice *s, unsigned int gpu,
	const struct model_task *task)
{
	struct model_proc *p = m->procs;

	while (p->slice)
		p++;
	if (p >= m->procs + MODEL_PROCS_MAX)
		abort();
	if (p == m->procs + m->n_procs)
		m->n_procs++;
	*p = (struct model_proc){ .m = m,
		.slice = s,
		.gpu = gpu,
		.task = *task,
		.think_at = m->now + 1,
		.poll_at = task->kind == MODEL_FLAPPER ? m->now + 1 : UINT64_MAX,
		.idle_at = m->now };
	p->task.estimate_permille = task->estimate_permille ? task->estimate_permille : 1000;
	s->in_flight += SCHED_WINDOW_NS * 1000 / min_u64(p->task.estimate_permille, 1000) +
			2 * task->kernel_ns;
	s->lies |= liar(p);
	p->client = sched_client_new(m->sched, s->slice, gpu, p, m->now);
	if (!p->client)
		abort();
	model_check_call(m);
	return p;
}

void model_kill(struct model_proc *p)
{
	struct model *m = p->m;

	sched_client_free(m->sched, p->client, m->now);
	if (m->gpus[p->gpu].runs == p)
		m->gpus[p->gpu].runs = NULL;
	*p = (struct model_proc){ .slice = NULL };
	model_check_call(m);
}
