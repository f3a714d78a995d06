/* SPDX-License-Identifier: Apache-2.0 */
#include "core/health.h"

#include "base/time.h"

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

/* What the driver asks for, as the end of "the driver asks for"; NULL: nothing. */
static const char *driver_wish(const struct health *h, const struct health_policy *p)
{
	if (p->disabled)
		return NULL;
	switch (h->recovery) {
	case GPU_RECOVERY_UNKNOWN:
	case GPU_RECOVERY_NONE:
		return NULL;
	case GPU_RECOVERY_RESET_GPU:
		return "a GPU reset";
	case GPU_RECOVERY_REBOOT:
		return "a reboot of the node";
	case GPU_RECOVERY_DRAIN:
		return "this GPU to be drained";
	}
	return NULL;
}

/* What a fault is called while it lasts, and after it has passed. */
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

/* A reason in the making, without the heap: health changes even when memory is short. */
struct text {
	char s[GPU_REASON_MAX];
	size_t len;
};

static void add(struct text *t, const char *fmt, ...) PRINTF(2, 3);

/* Appends; what does not fit is cut. */
static void add(struct text *t, const char *fmt, ...)
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

/* "30s", "10m", "1h30m": without the zeros of time_age(), which is for columns. */
static void add_wait(struct text *t, uint64_t ns)
{
	uint64_t s = (ns + NS_PER_SEC - 1) / NS_PER_SEC;

	if (s >= 3600)
		add(t, "%" PRIu64 "h", s / 3600);
	if (s % 3600 >= 60)
		add(t, "%" PRIu64 "m", s / 60 % 60);
	if (s % 60 || s == 0)
		add(t, "%" PRIu64 "s", s % 60);
}

static void add_xid(struct text *t, uint32_t xid)
{
	add(t, "XID %" PRIu32, xid);
	if (xid_text(xid)[0])
		add(t, " (%s)", xid_text(xid));
}

/* What is wrong, and which XID came before it. @seen may be NULL. */
static void add_cause(struct text *t, const struct health *h, const struct gpu *seen)
{
	if (h->fault == GPU_OK) {
		if (h->cause_xid)
			add_xid(t, h->cause_xid);
		else
			add(t, "%s", fault_text(h->cause_fault, /* past= */ true));
		return;
	}
	add(t, "%s",
		seen && seen->reason[0] ? seen->reason
					: fault_text(h->fault, /* past= */ false));
	if (h->cause_xid) {
		add(t, ", after ");
		add_xid(t, h->cause_xid);
	}
}

/* What happens next. */
static void add_outlook(struct text *t, const struct health *h, const struct health_policy *p,
	uint64_t now_ns)
{
	const char *wish = driver_wish(h, p);
	const char *sep = t->len ? ": " : "";

	if (!p->recovery) {
		add(t, "%sout until restart, recovery is off", sep);
	} else if (h->fault != GPU_OK) {
		return; /* the fault says it all, and nobody knows when it ends */
	} else if (wish) {
		add(t, "%sthe driver asks for %s", sep, wish);
	} else if (h->state == HEALTH_PROBATION || h->retry_at_ns <= now_ns) {
		add(t, "%son probation", sep);
	} else {
		if (h->cause == XID_HARDWARE)
			add(t, "%shardware trouble, ", sep);
		else if (h->cause == XID_RESET)
			add(t, "%sreset needed, ", sep);
		else
			add(t, "%s", sep);
		add(t, "looking again after ");
		add_wait(t, h->retry_at_ns - now_ns);
	}
}

/* Rewrites the reason. True if it differs from before. */
static bool explain(struct health *h, const struct health_policy *p, const struct gpu *seen,
	uint64_t now_ns)
{
	struct text t = { .len = 0 };

	if (h->state != HEALTH_HEALTHY) {
		add_cause(&t, h, seen);
		add_outlook(&t, h, p, now_ns);
	}
	if (strcmp(h->reason, t.s) == 0)
		return false;
	memcpy(h->reason, t.s, sizeof(t.s));
	return true;
}

static uint64_t add_sat(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* How long to wait after trouble; doubled for each relapse, up to the ceiling. */
static uint64_t cooldown(const struct health *h, const struct health_policy *p)
{
	bool blind = h->recovery == GPU_RECOVERY_UNKNOWN || p->disabled;
	uint64_t ns = h->cause >= XID_RESET && blind ? p->reset_cooldown_ns : p->cooldown_ns;

	for (uint32_t i = 0; i < h->relapses && ns < p->max_cooldown_ns; i++)
		ns = ns > p->max_cooldown_ns / 2 ? p->max_cooldown_ns : ns * 2;
	return ns;
}

static void set_retry(struct health *h, const struct health_policy *p)
{
	h->retry_at_ns = p->recovery ? add_sat(h->trouble_ns, cooldown(h, p)) : UINT64_MAX;
}

static void enter(struct health *h, enum health_state state, uint64_t now_ns)
{
	if (h->state == state)
		return;
	h->state = state;
	h->since_ns = now_ns;
	h->good_probes = 0;
}

/* Books new trouble: a relapse if it comes too soon after the last. */
static void fall(struct health *h, const struct health_policy *p, uint64_t now_ns)
{
	if (h->state == HEALTH_PROBATION) {
		h->relapses++;
	} else if (h->state == HEALTH_HEALTHY) {
		if (h->recovered && now_ns - h->since_ns < p->max_cooldown_ns)
			h->relapses++;
		else
			h->relapses = 0;
	}
	enter(h, HEALTH_UNHEALTHY, now_ns);
	h->good_probes = 0;
}

bool health_xid(struct health *h, const struct health_policy *p, uint32_t xid, uint64_t now_ns)
{
	enum xid_class class_ = xid_class(xid);
	bool was_ok = health_ok(h);

	h->xid_count++;
	h->last_xid = xid;
	if (!health_policy_acts(p, xid))
		return false;
	fall(h, p, now_ns);
	if (!h->cause_xid || class_ >= h->cause) {
		h->cause = class_;
		h->cause_xid = xid;
	}
	h->trouble_ns = now_ns;
	set_retry(h, p);
	if (h->fault != GPU_OK) {
		/* The text of the fault is in the reason already, and only the probe knows it. */
		return was_ok;
	}
	return explain(h, p, NULL, now_ns) || was_ok;
}

static void probe_fault(struct health *h, const struct health_policy *p, const struct gpu *seen,
	uint64_t now_ns)
{
	bool fresh = h->state != HEALTH_UNHEALTHY;

	fall(h, p, now_ns);
	h->fault = seen->fault;
	h->cause_fault = seen->fault;
	if (seen->fault == GPU_FAULT_STUCK || (fresh && h->cause_xid)) {
		h->trouble_ns = now_ns;
		set_retry(h, p);
	} else if (!h->cause_xid && h->retry_at_ns == UINT64_MAX && p->recovery) {
		h->retry_at_ns = now_ns; /* nothing to wait for but the end of the fault */
	}
}

/* A probe without a fault, while not healthy: what it says about the time to wait. */
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

static void heal(struct health *h, uint64_t now_ns)
{
	enter(h, HEALTH_HEALTHY, now_ns);
	h->recovered = true;
	h->cause = XID_APPLICATION;
	h->cause_xid = 0;
	h->cause_fault = GPU_OK;
	h->retry_at_ns = UINT64_MAX;
}

/* Ends a cool-down that is over. */
static void settle(struct health *h, const struct health_policy *p, uint64_t now_ns)
{
	if (h->state == HEALTH_UNHEALTHY && h->fault == GPU_OK && p->recovery &&
		h->retry_at_ns <= now_ns && !driver_wish(h, p))
		enter(h, HEALTH_PROBATION, now_ns);
}

static void probe_good(struct health *h, const struct health_policy *p, const struct gpu *seen,
	uint64_t now_ns)
{
	if (h->state == HEALTH_HEALTHY) {
		h->recovery = seen->recovery;
		h->fault = GPU_OK;
		if (!driver_wish(h, p))
			return;
		fall(h, p, now_ns);
		h->retry_at_ns = p->recovery ? now_ns : UINT64_MAX;
		return;
	}
	probe_clear(h, p, seen, now_ns);
	if (driver_wish(h, p)) {
		/* Not a relapse: the driver says that the old trouble is still there. */
		enter(h, HEALTH_UNHEALTHY, now_ns);
		return;
	}
	settle(h, p, now_ns);
	if (h->state != HEALTH_PROBATION)
		return;
	h->good_probes++;
	if (h->good_probes >= p->probes_needed)
		heal(h, now_ns);
}

bool health_probe(struct health *h, const struct health_policy *p, const struct gpu *seen,
	uint64_t now_ns)
{
	bool was_ok = health_ok(h);

	h->probed_ns = now_ns;
	if (seen->fault != GPU_OK)
		probe_fault(h, p, seen, now_ns);
	else
		probe_good(h, p, seen, now_ns);
	/* The time left in the text is that of the trouble; it is not counted down. */
	if (!was_ok && h->state == HEALTH_UNHEALTHY && h->fault == GPU_OK &&
		!driver_wish(h, p) && p->recovery)
		now_ns = h->trouble_ns;
	return explain(h, p, seen, now_ns) || was_ok != health_ok(h);
}

bool health_tick(struct health *h, const struct health_policy *p, uint64_t now_ns)
{
	enum health_state before = h->state;

	settle(h, p, now_ns);
	return h->state != before && explain(h, p, NULL, now_ns);
}

uint64_t health_due(const struct health *h, const struct health_policy *p)
{
	uint64_t due =
		p->probe_interval_ns ? add_sat(h->probed_ns, p->probe_interval_ns) : UINT64_MAX;

	if (h->state == HEALTH_UNHEALTHY && h->fault == GPU_OK && h->retry_at_ns < due &&
		!driver_wish(h, p))
		due = h->retry_at_ns;
	return due;
}
