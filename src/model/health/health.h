/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Health of one GPU as a state machine, driven by events and a clock that are passed in.
 *
 *	           xid (class app*, reset, hardware), probe fault
 *	healthy ──────────────────────────────────────────────────▶ unhealthy
 *	   ▲                                                            │ cool-down over
 *	   │  `probes_needed` good probes in a row                      ▼
 *	   └──────────────────────────────────────────────────────  probation
 *	                         (a bad probe or a new XID: back to unhealthy, longer cool-down)
 *
 * * application errors are ignored unless the policy says otherwise. A GPU in probation is still
 * shown as unhealthy. NVIDIA's own plugin never comes back; recovery = false gives that.
 *
 * How long until probation:
 *  - application and driver class: cooldown_ns;
 *  - reset and hardware class: reset_cooldown_ns, or only cooldown_ns where the driver can say
 *    whether it needs a reset, because then its word decides (next line);
 *  - whatever the class, a probe is only good if no health signal is raised whose policy is
 *    HEALTH_ACT: row remapping that failed, a reset that the driver asks for, ... A healthy GPU
 *    becomes unhealthy when one is raised, for as long as it is;
 *  - a GPU that vanished and is enumerated again has been reset: no more waiting;
 *  - a fault that a probe saw (lost, needs reset, unreadable, gone) and that has cleared: no
 *    waiting; after a call that did not come back (stuck): cooldown_ns.
 * In every case `probes_needed` good probes in a row follow. Trouble in probation, or within
 * max_cooldown_ns after a recovery, is a relapse and doubles the cool-down.
 *
 * An XID that is in an xid_rate is counted: the GPU is unhealthy, or has a warning, when as many came
 * within its window. A warning changes nothing else.
 *
 * policy.disabled silences XIDs, and makes health signals warnings; it does not silence the faults of
 * probes: a GPU that cannot be reached is not handed out.
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

/* What an XID says about the GPU. Source of the classes: see the table in xid.c. */
enum xid_class {
	XID_APPLICATION, /* the program's fault; the GPU is fine */
	XID_DRIVER,      /* driver or firmware trouble that passes; cool down and probe */
	XID_RESET,       /* the GPU must be reset before it can be trusted */
	XID_HARDWARE, /* the GPU or its link is broken; stays until a probe after a reset is good */
};

struct xid_rule {
	uint32_t xid;
	bool act; /* false: ignore */
};

/* What is done about a health signal, or when an xid_rate is reached. */
enum health_action {
	HEALTH_IGNORE,
	HEALTH_WARN, /* reported, nothing else */
	HEALTH_ACT,  /* the GPU is unhealthy */
};

/* A health signal: one row for each enum gpu_signal. */
struct health_signal {
	const char *name; /* in config, JSON and metrics: "rowRemapFailed" */
	const char *text; /* in reasons and warnings */
	enum health_action def;
	const char *repair; /* reason of the node condition; NULL: nothing to repair */
};
extern const struct health_signal health_signals[GPU_SIGNAL_COUNT_];

/* @action is taken when @count of these XIDs came within @within_ns, on one GPU or MIG device. */
struct xid_rate {
	uint32_t xids[XID_RATE_XIDS_MAX];
	uint32_t n_xids;
	uint32_t count; /* 1 to XID_RATE_COUNT_MAX */
	uint64_t within_ns;
	enum health_action action;
};

struct health_policy {
	bool disabled;                       /* DP_DISABLE_HEALTHCHECKS=all or xids */
	bool act_on_all;                     /* DP_ENABLE_HEALTHCHECKS=all */
	struct xid_rule rules[XID_LIST_MAX]; /* explicit; enable beats disable beats default */
	size_t n_rules;
	struct xid_rate rates[XID_RATES_MAX]; /* by health_policy_add_rate() */
	size_t n_rates;
	uint64_t rates_id; /* differs where the rates do */
	enum health_action signals[GPU_SIGNAL_COUNT_];
	bool recovery;              /* false: unhealthy until restart, as NVIDIA's plugin */
	uint64_t cooldown_ns;       /* application and driver class; default 30 s */
	uint64_t reset_cooldown_ns; /* reset and hardware class where the driver cannot say
					 whether a reset is due; default 10 min */
	uint64_t max_cooldown_ns;   /* ceiling of the doubling after relapses; default 1 h */
	uint32_t probes_needed;     /* good probes in a row; default 2 */
	uint64_t probe_interval_ns; /* how often to look at every GPU; default 10 s */
	uint64_t forget_after_ns; /* a GPU that is gone is dropped after this; default 10 min */
};

void health_policy_default(struct health_policy *p);

/*
 * Adds the meaning of NVIDIA's two variables, as they are meant: "disable all, enable 48" acts on
 * 48. NULL: not set. Malformed elements are skipped and named in @ret_skipped (may be NULL); empty
 * ones are skipped without a word. On an error (no memory, more than XID_LIST_MAX numbers) *p is
 * as before.
 */
int health_policy_env(struct health_policy *p, const char *disable, const char *enable,
	struct strv *ret_skipped, struct error *err) MUST_USE;

/* ERR_LIMIT: there are XID_RATES_MAX already. */
int health_policy_add_rate(struct health_policy *p, const struct xid_rate *rate,
	struct error *err) MUST_USE;

enum xid_verdict { XID_IGNORED, XID_COUNTED, XID_ACTED };

/*
 * What one @xid leads to: all enabled, else a rule for it, else a rate that counts it, else all
 * disabled, else the default, which is to act on everything but the application class, known or not.
 */
enum xid_verdict health_policy_verdict(const struct health_policy *p, uint32_t xid);
bool health_policy_acts(const struct health_policy *p, uint32_t xid);

enum xid_class xid_class(uint32_t xid); /* XID_DRIVER for one that is not in the table */
const char *xid_class_name(enum xid_class c);
const char *xid_text(uint32_t xid); /* short name of a known XID, "" else; static */

enum health_state { HEALTH_HEALTHY, HEALTH_UNHEALTHY, HEALTH_PROBATION };

/* When the last XIDs came that an xid_rate counts: a ring of as many as it takes. */
struct xid_recent {
	uint64_t at_ns[XID_RATE_COUNT_MAX];
	uint32_t next, n;
	uint32_t last_xid;
};

struct health {
	enum health_state state;
	enum xid_class cause; /* worst class since it was last healthy */
	uint32_t last_xid;    /* 0: none; acted on or not */
	uint64_t xid_count;   /* acted on or not, since start */
	uint64_t since_ns;    /* in this state since */
	uint64_t retry_at_ns; /* end of the cool-down; UINT64_MAX: never or nothing to end */
	uint32_t relapses;    /* doubles the cool-down */
	uint32_t good_probes;
	char reason[GPU_REASON_MAX];  /* "" when healthy */
	char warning[GPU_REASON_MAX]; /* whatever the state; "" without */

	/* Its own memory. */
	uint32_t cause_xid;         /* the XID of .cause; 0: no XID, a fault only */
	uint32_t cause_times;       /* so many of it, by an xid_rate; 0: one is enough */
	uint64_t cause_within_ns;   /* within that time */
	enum gpu_fault fault;       /* of the last probe */
	enum gpu_fault cause_fault; /* the last one since it was healthy */
	enum gpu_recovery recovery; /* of the last probe without a fault */
	uint32_t raised;            /* bit: enum gpu_signal; of the last probe */
	struct xid_recent recent[XID_RATES_MAX];
	uint64_t rates_id;   /* of the policy that .recent is for */
	uint64_t trouble_ns; /* when the cool-down began */
	uint64_t probed_ns;  /* last probe */
	bool recovered;      /* was unhealthy before and came back at .since_ns */
};

void health_init(struct health *h, uint64_t now_ns);

/*
 * Makes @h, as it is after health_init(), go on with what an earlier run had in @from: the XID that made it
 * unhealthy, the cool-down from then on, relapses, counted XIDs. Of .recent, .at_ns is from the oldest on. Times are of the
 * monotonic clock and have passed, so it must be of the same boot. What a probe sees is left to the probe, and with
 * policy.recovery = false a restart ends it all.
 */
void health_restore(struct health *h, const struct health_policy *p, const struct health *from,
	uint64_t now_ns);

/* The times of .recent[@rate] into @at_ns, from the oldest on, and how many they are. */
uint32_t health_recent(const struct health *h, const struct health_policy *p, size_t rate,
	uint64_t at_ns[XID_RATE_COUNT_MAX]);

/* Each returns true if what the kubelet sees (healthy or not), the reason or the warning changed. */
bool health_xid(struct health *h, const struct health_policy *p, uint32_t xid, uint64_t now_ns);
bool health_probe(struct health *h, const struct health_policy *p, const struct gpu *seen,
	uint64_t now_ns);
bool health_tick(struct health *h, const struct health_policy *p, uint64_t now_ns);

/* The raised signals whose policy is @action; bit: enum gpu_signal. */
uint32_t health_raised(const struct health *h, const struct health_policy *p,
	enum health_action action);

/* When health_tick() or a probe is due next; UINT64_MAX: nothing to wait for. */
uint64_t health_due(const struct health *h, const struct health_policy *p);

static inline bool health_ok(const struct health *h)
{
	return h->state == HEALTH_HEALTHY;
}

const char *health_state_name(enum health_state s);
