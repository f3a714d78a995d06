/* SPDX-License-Identifier: Apache-2.0 */
#include "model/health/health.h"

#include "lib/base/time.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void health_init(struct health *h, uint64_t now_ns)
{
	*h = (struct health){
		.state = HEALTH_HEALTHY,
		.since_ns = now_ns,
		.retry_at_ns = UINT64_MAX,
		.probed_ns = now_ns,
	};
}

const char *health_state_name(enum health_state s)
{
	switch (s) {
	case HEALTH_HEALTHY:
		return "healthy";
	case HEALTH_UNHEALTHY:
		return "unhealthy";
	case HEALTH_PROBATION:
		return "probation";
	}
	return "unknown";
}

uint32_t health_raised(const struct health *h, const struct health_policy *p,
	enum health_action action)
{
	uint32_t mask = 0;

	for (int i = 0; i < GPU_SIGNAL_COUNT_; i++) {
		enum health_action own = p->signals[i];

		if (p->disabled && own == HEALTH_ACT)
			own = HEALTH_WARN;
		if (own == action)
			mask |= UINT32_C(1) << i;
	}
	return h->raised & mask;
}

/* Whether a health signal keeps the GPU unhealthy, even if the probes are good. */
static bool has_acting_signal(const struct health *h, const struct health_policy *p)
{
	return health_raised(h, p, HEALTH_ACT) != 0;
}

/* The text of a fault while the fault lasts, or (@past) after its end. */
static const char *fault_text(enum gpu_fault fault, bool past)
{
	switch (fault) {
	case GPU_OK:
		return "";
	case GPU_FAULT_FIELD:
		return past ? "GPU could not be read" : "GPU cannot be read";
	case GPU_FAULT_LOST:
		return past ? "GPU was lost" : "GPU is lost";
	case GPU_FAULT_RESET:
		return past ? "GPU required a reset" : "GPU requires a reset";
	case GPU_FAULT_STUCK:
		return past ? "GPU did not answer" : "GPU does not answer";
	case GPU_FAULT_GONE:
		return past ? "GPU was gone" : "GPU is gone";
	}
	return "GPU in trouble";
}

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* A reason under construction. No heap: health must change even when memory is short. */
struct reason_text {
	char s[GPU_REASON_MAX];
	size_t len;
};

static void add_reason_text(struct reason_text *t, const char *fmt, ...) PRINTF(2, 3);

/* Appends; truncates what does not fit. */
static void add_reason_text(struct reason_text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->s + t->len, sizeof(t->s) - t->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n;
	if (t->len >= sizeof(t->s))
		t->len = sizeof(t->s) - 1;
}

/* "30s", "10m", "1h30m": without the padding zeros of time_age(), which formats columns. */
static void add_wait(struct reason_text *t, uint64_t ns)
{
	uint64_t s = (ns + NS_PER_SEC - 1) / NS_PER_SEC;

	if (s >= 3600)
		add_reason_text(t, "%" PRIu64 "h", s / 3600);
	if (s % 3600 >= 60)
		add_reason_text(t, "%" PRIu64 "m", s / 60 % 60);
	if (s % 60 || s == 0)
		add_reason_text(t, "%" PRIu64 "s", s % 60);
}

/* @times 0: a single XID was enough. */
static void add_xid_text(struct reason_text *t, uint32_t xid, uint32_t times,
	uint64_t within_ns)
{
	add_reason_text(t, "XID %" PRIu32, xid);
	if (xid_text(xid)[0])
		add_reason_text(t, " (%s)", xid_text(xid));
	if (times) {
		add_reason_text(t, ", %" PRIu32 " within ", times);
		add_wait(t, within_ns);
	}
}

static void add_cause_xid(struct reason_text *t, const struct health *h)
{
	add_xid_text(t, h->cause_xid, h->cause_times, h->cause_within_ns);
}

/* The texts of the signals in @mask, separated by semicolons. */
static void add_signals(struct reason_text *t, uint32_t mask)
{
	const char *sep = "";

	for (int i = 0; i < GPU_SIGNAL_COUNT_; i++) {
		if (!(mask & UINT32_C(1) << i))
			continue;
		add_reason_text(t, "%s%s", sep, health_signals[i].text);
		sep = "; ";
	}
}

/* The present fault and the XID before it. @seen may be NULL. */
static void add_cause(struct reason_text *t, const struct health *h, const struct gpu *seen)
{
	if (h->fault == GPU_OK) {
		if (h->cause_xid)
			add_cause_xid(t, h);
		else
			add_reason_text(t, "%s", fault_text(h->cause_fault, /* past= */ true));
		return;
	}
	add_reason_text(t, "%s",
		seen && seen->reason[0] ? seen->reason
					: fault_text(h->fault, /* past= */ false));
	if (h->cause_xid) {
		add_reason_text(t, ", after ");
		add_cause_xid(t, h);
	}
}

/* What happens next to the GPU. */
static void add_outlook(struct reason_text *t, const struct health *h,
	const struct health_policy *p, uint64_t now_ns)
{
	if (h->fault == GPU_OK && has_acting_signal(h, p)) {
		add_reason_text(t, "%s", t->len ? ": " : "");
		add_signals(t, health_raised(h, p, HEALTH_ACT));
		if (p->recovery)
			return;
	}
	const char *sep = t->len ? ": " : "";

	if (!p->recovery) {
		add_reason_text(t, "%sout until restart, recovery is off", sep);
	} else if (h->fault != GPU_OK) {
		return; /* the fault's text is enough: its end is unknown */
	} else if (h->state == HEALTH_PROBATION || h->retry_at_ns <= now_ns) {
		add_reason_text(t, "%son probation", sep);
	} else {
		if (h->cause == XID_HARDWARE)
			add_reason_text(t, "%shardware trouble, ", sep);
		else if (h->cause == XID_RESET)
			add_reason_text(t, "%sreset needed, ", sep);
		else
			add_reason_text(t, "%s", sep);
		add_reason_text(t, "looking again after ");
		add_wait(t, h->retry_at_ns - now_ns);
	}
}

/* Updates the reason. True if the reason changed. */
static bool update_health_reason(struct health *h, const struct health_policy *p,
	const struct gpu *seen, uint64_t now_ns)
{
	struct reason_text t = { .len = 0 };

	if (h->state != HEALTH_HEALTHY) {
		add_cause(&t, h, seen);
		add_outlook(&t, h, p, now_ns);
	}
	if (strcmp(h->reason, t.s) == 0)
		return false;
	memcpy(h->reason, t.s, sizeof(t.s));
	return true;
}

/* --- counted XIDs --- */

/* Clears counts that belong to other rules. */
static void fit_recent(struct health *h, const struct health_policy *p)
{
	if (h->rates_id == p->rates_id)
		return;
	memset(h->recent, 0, sizeof(h->recent));
	h->rates_id = p->rates_id;
}

/* The time until which the rate stays reached without further XIDs; 0: not reached. */
static uint64_t reached_until(const struct xid_rate *rate, const struct xid_recent *r)
{
	return r->n < rate->count ? 0 : add_saturating(r->at_ns[r->next], rate->within_ns);
}

static bool has_xid(const struct xid_rate *rate, uint32_t xid)
{
	for (uint32_t i = 0; i < rate->n_xids; i++)
		if (rate->xids[i] == xid)
			return true;
	return false;
}

static void add_recent_xid(struct xid_recent *r, uint32_t cap, uint32_t xid, uint64_t now_ns)
{
	r->at_ns[r->next] = now_ns;
	r->next = (r->next + 1) % cap;
	r->n += r->n < cap;
	r->last_xid = xid;
}

/* Counts @xid for each rate that lists @xid. Returns the first HEALTH_ACT rate that @xid reaches, or NULL.
 * Each HEALTH_ACT rate that @xid reaches restarts at 0. */
static const struct xid_rate *count_xid(struct health *h, const struct health_policy *p,
	uint32_t xid, uint64_t now_ns)
{
	const struct xid_rate *found = NULL;

	for (size_t i = 0; i < p->n_rates; i++) {
		const struct xid_rate *rate = &p->rates[i];
		struct xid_recent *r = &h->recent[i];

		if (!has_xid(rate, xid))
			continue;
		add_recent_xid(r, rate->count, xid, now_ns);
		if (rate->action != HEALTH_ACT || reached_until(rate, r) < now_ns ||
			r->n < rate->count)
			continue;
		*r = (struct xid_recent){ .n = 0 };
		if (!found)
			found = rate;
	}
	return found;
}

/* The earliest end of a rate's warning without further XIDs; UINT64_MAX: no warning. */
static uint64_t next_warning_end(const struct health *h, const struct health_policy *p)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; h->rates_id == p->rates_id && i < p->n_rates; i++) {
		uint64_t until = reached_until(&p->rates[i], &h->recent[i]);

		if (p->rates[i].action == HEALTH_WARN && until && until < next)
			next = until;
	}
	return next;
}

/* Updates the warning. True if the warning changed. */
static bool update_health_warning(struct health *h, const struct health_policy *p,
	uint64_t now_ns)
{
	struct reason_text t = { .len = 0 };

	fit_recent(h, p);
	add_signals(&t, health_raised(h, p, HEALTH_WARN));
	for (size_t i = 0; i < p->n_rates; i++) {
		const struct xid_rate *rate = &p->rates[i];
		struct xid_recent *r = &h->recent[i];
		uint64_t until = reached_until(rate, r);

		if (until && until < now_ns)
			r->n--; /* the oldest XID is outside the window now */
		else if (until && rate->action == HEALTH_WARN) {
			add_reason_text(&t, "%s", t.len ? "; " : "");
			add_xid_text(&t, r->last_xid, rate->count, rate->within_ns);
		}
	}
	if (strcmp(h->warning, t.s) == 0)
		return false;
	memcpy(h->warning, t.s, sizeof(t.s));
	return true;
}

/* --- the state --- */

/* The cool-down after trouble. Each relapse doubles the time, up to max_cooldown_ns. */
static uint64_t compute_cooldown_ns(const struct health *h, const struct health_policy *p)
{
	bool blind = h->recovery == GPU_RECOVERY_UNKNOWN || p->disabled;
	uint64_t ns = h->cause >= XID_RESET && blind ? p->reset_cooldown_ns : p->cooldown_ns;

	for (uint32_t i = 0; i < h->relapses && ns < p->max_cooldown_ns; i++)
		ns = ns > p->max_cooldown_ns / 2 ? p->max_cooldown_ns : ns * 2;
	return ns;
}

static void set_retry(struct health *h, const struct health_policy *p)
{
	h->retry_at_ns = p->recovery ? add_saturating(h->trouble_ns, compute_cooldown_ns(h, p))
				     : UINT64_MAX;
}

static void set_health_state(struct health *h, enum health_state state, uint64_t now_ns)
{
	if (h->state == state)
		return;
	h->state = state;
	h->since_ns = now_ns;
	h->good_probes = 0;
}

/* Records new trouble. Trouble soon after the last recovery, or in probation, is a relapse. */
static void set_health_unhealthy(struct health *h, const struct health_policy *p,
	uint64_t now_ns)
{
	if (h->state == HEALTH_PROBATION) {
		h->relapses++;
	} else if (h->state == HEALTH_HEALTHY) {
		if (h->recovered && now_ns - h->since_ns < p->max_cooldown_ns)
			h->relapses++;
		else
			h->relapses = 0;
	}
	set_health_state(h, HEALTH_UNHEALTHY, now_ns);
	h->good_probes = 0;
}

bool health_xid(struct health *h, const struct health_policy *p, uint32_t xid, uint64_t now_ns)
{
	enum xid_verdict verdict = health_policy_verdict(p, xid);
	enum xid_class class_ = xid_class(xid);
	const struct xid_rate *rate = NULL;
	bool was_ok = health_ok(h), warned = false;

	h->xid_count++;
	h->last_xid = xid;
	if (verdict == XID_COUNTED) {
		fit_recent(h, p);
		rate = count_xid(h, p, xid, now_ns);
		warned = update_health_warning(h, p, now_ns);
	}
	if (verdict != XID_ACTED && !rate)
		return warned;
	set_health_unhealthy(h, p, now_ns);
	if (!h->cause_xid || class_ >= h->cause) {
		h->cause = class_;
		h->cause_xid = xid;
		h->cause_times = rate ? rate->count : 0;
		h->cause_within_ns = rate ? rate->within_ns : 0;
	}
	h->trouble_ns = now_ns;
	set_retry(h, p);
	if (h->fault != GPU_OK) {
		/* The reason already has the text of the fault, which only a probe knows. */
		return was_ok || warned;
	}
	return update_health_reason(h, p, NULL, now_ns) || was_ok || warned;
}

static void apply_fault_probe(struct health *h, const struct health_policy *p,
	const struct gpu *seen, uint64_t now_ns)
{
	bool fresh = h->state != HEALTH_UNHEALTHY;

	set_health_unhealthy(h, p, now_ns);
	h->fault = seen->fault;
	h->cause_fault = seen->fault;
	if (seen->fault == GPU_FAULT_STUCK || (fresh && h->cause_xid)) {
		h->trouble_ns = now_ns;
		set_retry(h, p);
	} else if (!h->cause_xid && h->retry_at_ns == UINT64_MAX && p->recovery) {
		h->retry_at_ns = now_ns; /* only the end of the fault is awaited */
	}
}

/* A probe without a fault of a GPU that is not healthy: updates the time to wait. */
static void probe_clear(struct health *h, const struct health_policy *p, const struct gpu *seen,
	uint64_t now_ns)
{
	bool knew = h->recovery != GPU_RECOVERY_UNKNOWN;
	bool knows = seen->recovery != GPU_RECOVERY_UNKNOWN;
	bool was_reset = h->fault == GPU_FAULT_GONE;

	h->fault = GPU_OK;
	h->recovery = seen->recovery;
	if (!p->recovery)
		return;
	if (was_reset) {
		if (h->retry_at_ns > now_ns)
			h->retry_at_ns = now_ns;
	} else if (knew != knows && h->cause >= XID_RESET && h->state == HEALTH_UNHEALTHY) {
		set_retry(h, p);
	} else if (h->retry_at_ns == UINT64_MAX) {
		set_retry(h, p); /* recovery was off when the trouble came */
	}
}

static void set_health_recovered(struct health *h, uint64_t now_ns)
{
	set_health_state(h, HEALTH_HEALTHY, now_ns);
	h->recovered = true;
	h->cause = XID_APPLICATION;
	h->cause_xid = 0;
	h->cause_times = 0;
	h->cause_fault = GPU_OK;
	h->retry_at_ns = UINT64_MAX;
}

/* Ends the cool-down when its time is over. */
static void end_health_cooldown(struct health *h, const struct health_policy *p,
	uint64_t now_ns)
{
	if (h->state == HEALTH_UNHEALTHY && h->fault == GPU_OK && p->recovery &&
		h->retry_at_ns <= now_ns && !has_acting_signal(h, p))
		set_health_state(h, HEALTH_PROBATION, now_ns);
}

static void probe_good(struct health *h, const struct health_policy *p, const struct gpu *seen,
	uint64_t now_ns)
{
	if (h->state == HEALTH_HEALTHY) {
		h->recovery = seen->recovery;
		h->fault = GPU_OK;
		if (!has_acting_signal(h, p))
			return;
		set_health_unhealthy(h, p, now_ns);
		h->retry_at_ns = p->recovery ? now_ns : UINT64_MAX;
		return;
	}
	probe_clear(h, p, seen, now_ns);
	if (has_acting_signal(h, p)) {
		/* Not a relapse: the signal shows that the old trouble persists. */
		set_health_state(h, HEALTH_UNHEALTHY, now_ns);
		return;
	}
	end_health_cooldown(h, p, now_ns);
	if (h->state != HEALTH_PROBATION)
		return;
	h->good_probes++;
	if (h->good_probes >= p->probes_needed)
		set_health_recovered(h, now_ns);
}

static uint32_t raised_in(const struct gpu *seen)
{
	uint32_t raised = 0;

	for (int i = 0; i < GPU_SIGNAL_COUNT_; i++) {
		uint64_t value;

		if (gpu_signal(seen, (enum gpu_signal)i, &value) && value > 0)
			raised |= UINT32_C(1) << i;
	}
	return raised;
}

bool health_probe(struct health *h, const struct health_policy *p, const struct gpu *seen,
	uint64_t now_ns)
{
	bool was_ok = health_ok(h), warned;

	h->probed_ns = now_ns;
	h->raised = raised_in(seen);
	if (seen->fault != GPU_OK)
		apply_fault_probe(h, p, seen, now_ns);
	else
		probe_good(h, p, seen, now_ns);
	warned = update_health_warning(h, p, now_ns);
	/* The text keeps the wait as of the trouble's start. It does not count down. */
	if (!was_ok && h->state == HEALTH_UNHEALTHY && h->fault == GPU_OK &&
		!has_acting_signal(h, p) && p->recovery)
		now_ns = h->trouble_ns;
	return update_health_reason(h, p, seen, now_ns) || was_ok != health_ok(h) || warned;
}

bool health_tick(struct health *h, const struct health_policy *p, uint64_t now_ns)
{
	enum health_state before = h->state;
	bool warned = update_health_warning(h, p, now_ns);

	end_health_cooldown(h, p, now_ns);
	return (h->state != before && update_health_reason(h, p, NULL, now_ns)) || warned;
}

uint64_t health_due(const struct health *h, const struct health_policy *p)
{
	uint64_t due = p->probe_interval_ns ? add_saturating(h->probed_ns, p->probe_interval_ns)
					    : UINT64_MAX;

	if (h->state == HEALTH_UNHEALTHY && h->fault == GPU_OK && h->retry_at_ns < due &&
		!has_acting_signal(h, p))
		due = h->retry_at_ns;
	if (next_warning_end(h, p) < due)
		due = add_saturating(next_warning_end(h, p), 1);
	return due;
}

/* --- state of an earlier run --- */

uint32_t health_recent(const struct health *h, const struct health_policy *p, size_t rate,
	uint64_t at_ns[XID_RATE_COUNT_MAX])
{
	const struct xid_recent *r = &h->recent[rate];
	uint32_t cap;

	if (h->rates_id != p->rates_id || rate >= p->n_rates)
		return 0;
	cap = p->rates[rate].count;
	for (uint32_t i = 0; i < r->n; i++)
		at_ns[i] = r->at_ns[(r->next + cap - r->n + i) % cap];
	return r->n;
}

void health_restore(struct health *h, const struct health_policy *p, const struct health *from,
	uint64_t now_ns)
{
	h->recovered = from->recovered;
	h->relapses = from->relapses;
	h->since_ns = from->since_ns;
	fit_recent(h, p);
	for (size_t i = 0; from->rates_id == p->rates_id && i < p->n_rates; i++)
		for (uint32_t k = 0; k < from->recent[i].n; k++)
			add_recent_xid(&h->recent[i], p->rates[i].count,
				from->recent[i].last_xid, from->recent[i].at_ns[k]);
	if (from->cause_xid && p->recovery &&
		health_policy_verdict(p, from->cause_xid) != XID_IGNORED) {
		h->state = HEALTH_UNHEALTHY;
		h->cause = xid_class(from->cause_xid);
		h->cause_xid = from->cause_xid;
		h->cause_times = from->cause_times;
		h->cause_within_ns = from->cause_within_ns;
		h->trouble_ns = from->trouble_ns;
		set_retry(h, p);
	}
	(void)update_health_warning(h, p, now_ns);
	(void)update_health_reason(h, p, NULL, now_ns);
}
