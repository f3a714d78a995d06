/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Health of one GPU as a state machine. The caller passes in the events and the clock.
 *
 *	           xid (class app*, reset, hardware), probe fault
 *	healthy ──────────────────────────────────────────────────▶ unhealthy
 *	   ▲                                                            │ cool-down over
 *	   │  `probes_needed` good probes in a row                      ▼
 *	   └──────────────────────────────────────────────────────  probation
 *	                         (a bad probe or a new XID: back to unhealthy, longer cool-down)
 *
 *   * The policy ignores application errors by default.
 *
 * A GPU in probation is still reported as unhealthy. NVIDIA's plugin never reports a GPU as healthy again.
 * With recovery = false this module does the same.
 *
 * Time until probation:
 *  - Application and driver class: cooldown_ns.
 *  - Reset and hardware class: reset_cooldown_ns. Where the driver reports whether a reset is needed, that
 *    report decides (next item) and the wait is only cooldown_ns.
 *  - Every class: a probe is good only if no raised health signal has the policy HEALTH_ACT (failed row
 *    remapping, a reset that the driver asks for, ...). Such a signal makes a healthy GPU unhealthy for as
 *    long as the signal is raised.
 *  - A GPU that vanished and is enumerated again was reset: no further wait.
 *  - A fault that a probe found (lost, needs reset, unreadable, gone) and that ended: no wait.
 *  - After a call that did not return in time (stuck): cooldown_ns.
 *
 * In every case `probes_needed` good probes in a row must follow. Trouble in probation, or within
 * max_cooldown_ns after a recovery, is a relapse. A relapse doubles the cool-down.
 *
 * Counted XIDs. An XID of an xid_rate is counted. When the count is reached within the window, the GPU is
 * unhealthy or has a warning. A warning has no other effect.
 *
 * policy.disabled ignores the XIDs that no rule and no xid_rate names, and turns acting health signals into
 * warnings. The faults of probes still count: the agent never hands out a GPU that it cannot reach.
 * Thread: owner's (no I/O, no clock, no lock).
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "model/gpu/gpu.h"

#include <stdbool.h>
#include <stdint.h>

#define XID_LIST_MAX       64
#define XID_RATES_MAX      8
#define XID_RATE_XIDS_MAX  16
#define XID_RATE_COUNT_MAX 32

/* Meaning of an XID for the GPU. Source of the classes: the table in xid.c. */
enum xid_class {
	XID_APPLICATION, /* an error of the program; the GPU is fine */
	XID_DRIVER,      /* temporary driver or firmware trouble: cool down, then probe */
	XID_RESET,       /* the GPU needs a reset before it can be trusted */
	XID_HARDWARE,    /* broken GPU or link, until a good probe after a reset */
};

struct xid_rule {
	uint32_t xid;
	bool act; /* false: ignore */
};

/* Reaction to a health signal, or to an xid_rate that is reached. */
enum health_action {
	HEALTH_IGNORE,
	HEALTH_WARN, /* report a warning only */
	HEALTH_ACT,  /* make the GPU unhealthy */
};

/* A health signal: one row for each enum gpu_signal. */
struct health_signal {
	const char *name; /* in config, JSON and metrics: "rowRemapFailed" */
	const char *text; /* in reasons and warnings */
	enum health_action def;
	const char *repair; /* reason of the node condition; NULL: no repair needed */
};
extern const struct health_signal health_signals[GPU_SIGNAL_COUNT_];

/* Take @action when @count of these XIDs came within @within_ns on one GPU or MIG device. */
struct xid_rate {
	uint32_t xids[XID_RATE_XIDS_MAX];
	uint32_t n_xids;
	uint32_t count; /* 1 to XID_RATE_COUNT_MAX */
	uint64_t within_ns;
	enum health_action action;
};

struct health_policy {
	bool disabled;   /* DP_DISABLE_HEALTHCHECKS=all or xids */
	bool act_on_all; /* DP_ENABLE_HEALTHCHECKS=all */
	/* explicit; enable beats disable, which beats the default */
	struct xid_rule rules[XID_LIST_MAX];
	size_t n_rules;
	struct xid_rate rates[XID_RATES_MAX]; /* added by health_policy_add_rate() */
	size_t n_rates;
	uint64_t rates_id; /* hash of the rates */
	enum health_action signals[GPU_SIGNAL_COUNT_];
	bool recovery;        /* false: unhealthy until restart, like NVIDIA's plugin */
	uint64_t cooldown_ns; /* application and driver class; default 30 s */
	/* Reset and hardware class, where the driver cannot report whether a reset is needed; default
	 * 10 min. */
	uint64_t reset_cooldown_ns;
	uint64_t max_cooldown_ns;   /* limit of the doubling after relapses; default 1 h */
	uint32_t probes_needed;     /* good probes in a row; default 2 */
	uint64_t probe_interval_ns; /* time between two probes of all GPUs; default 10 s */
	/* time after which the node forgets a gone GPU; default 10 min */
	uint64_t forget_after_ns;
};

/* Fills @p with the defaults named above, those of health_signals, no rules and no rates. */
void health_policy_default(struct health_policy *p);

/*
 * Adds NVIDIA's two variables with their intended meaning: "disable all, enable 48" acts on 48. NULL: not
 * set. The function skips malformed elements and lists them in @ret_skipped (may be NULL). It skips empty
 * elements silently. On an error (no memory, more than XID_LIST_MAX numbers) *p is unchanged.
 */
int health_policy_env(struct health_policy *p, const char *disable, const char *enable,
	struct strv *ret_skipped, struct error *err) MUST_USE;

/* ERR_LIMIT: the policy has XID_RATES_MAX rates already. */
int health_policy_add_rate(struct health_policy *p, const struct xid_rate *rate,
	struct error *err) MUST_USE;

enum xid_verdict { XID_IGNORED, XID_COUNTED, XID_ACTED };

/* The effect of one @xid; health_policy_acts(): whether it is XID_ACTED. The first match decides: all enabled;
 * a rule for @xid; a rate that counts @xid; all disabled; the default. The default acts on all XIDs, known or
 * unknown, except the application class. */
enum xid_verdict health_policy_verdict(const struct health_policy *p, uint32_t xid);
bool health_policy_acts(const struct health_policy *p, uint32_t xid);

enum xid_class xid_class(uint32_t xid); /* XID_DRIVER for an unlisted XID */
const char *xid_text(uint32_t xid);     /* short name of a known XID, else ""; static */

enum health_state { HEALTH_HEALTHY, HEALTH_UNHEALTHY, HEALTH_PROBATION };

/* Times of the last XIDs of an xid_rate: a ring of the rate's .count entries. */
struct xid_recent {
	uint64_t at_ns[XID_RATE_COUNT_MAX];
	uint32_t next, n;
	uint32_t last_xid;
};

struct health {
	enum health_state state;
	enum xid_class cause; /* worst class since last healthy */
	uint32_t last_xid;    /* acted on or not; 0: none */
	uint64_t xid_count;   /* since start, acted on or not */
	uint64_t since_ns;    /* start of this state */
	uint64_t retry_at_ns; /* end of the cool-down; UINT64_MAX: never, or no cool-down */
	uint32_t relapses;    /* doubles the cool-down */
	uint32_t good_probes;
	char reason[GPU_REASON_MAX];  /* "" while healthy */
	char warning[GPU_REASON_MAX]; /* in any state; "": none */

	/* Private to health.c from here on. */
	uint32_t cause_xid;         /* the XID of .cause; 0: only a fault */
	uint32_t cause_times;       /* count of that XID, by an xid_rate; 0: one was enough */
	uint64_t cause_within_ns;   /* window of .cause_times */
	enum gpu_fault fault;       /* of the last probe */
	enum gpu_fault cause_fault; /* last fault since last healthy */
	enum gpu_recovery recovery; /* of the last probe without a fault */
	uint32_t raised;            /* of the last probe; bit: enum gpu_signal */
	struct xid_recent recent[XID_RATES_MAX];
	uint64_t rates_id;   /* of the policy to which .recent belongs */
	uint64_t trouble_ns; /* start of the cool-down */
	uint64_t probed_ns;  /* time of the last probe */
	bool recovered;      /* was unhealthy before; recovered at .since_ns */
};

/* Starts the history of a GPU: healthy since @now_ns. */
void health_init(struct health *h, uint64_t now_ns);

/*
 * Continues the health of an earlier run in @h, after health_init(@h). Takes from @from: relapses, counted
 * XIDs, and the XID that made the GPU unhealthy with its cool-down. .recent[].at_ns must begin with the
 * oldest. All times are past times of the monotonic clock, so @from must be of the same boot.
 *
 * The next probe finds faults and signals again. With policy.recovery = false, or for an XID that the
 * policy ignores now, the restart ends the unhealthy state.
 */
void health_restore(struct health *h, const struct health_policy *p, const struct health *from,
	uint64_t now_ns);

/* Copies the times of .recent[@rate] to @at_ns, oldest first. Returns their number. */
uint32_t health_recent(const struct health *h, const struct health_policy *p, size_t rate,
	uint64_t at_ns[XID_RATE_COUNT_MAX]);

/* Apply an XID, the result @seen of a probe of the GPU, and the passing of time until @now_ns. True: the
 * kubelet's view (healthy or not), the reason or the warning changed. */
bool health_xid(struct health *h, const struct health_policy *p, uint32_t xid, uint64_t now_ns);
bool health_probe(struct health *h, const struct health_policy *p, const struct gpu *seen,
	uint64_t now_ns);
bool health_tick(struct health *h, const struct health_policy *p, uint64_t now_ns);

/* The raised signals with the policy @action; bit: enum gpu_signal. */
uint32_t health_raised(const struct health *h, const struct health_policy *p,
	enum health_action action);

/* When the next health_tick() or probe is due; UINT64_MAX: never. */
uint64_t health_due(const struct health *h, const struct health_policy *p);

static inline bool health_ok(const struct health *h)
{
	return h->state == HEALTH_HEALTHY;
}

const char *health_state_name(enum health_state s); /* "healthy", "probation"; static */
