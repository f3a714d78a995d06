/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The MIG manager: makes the GPUs what the Node's label nvidia.com/mig.config says, and says in
 * nvidia.com/mig.config.state how that goes. It never edits a GPU itself: `gpuslice mig apply` does,
 * as a child process.
 *
 *	REST ─▶ PLAN ─▶ PAUSE ─▶ WITHDRAW ─▶ HOST ─▶ RELEASE ─▶ APPLY ─▶ SETTLE ─▶ RESTORE ─▶ REST
 *	  ▲       │       (clients, where something goes)            │        ▲
 *	  └───────┴─ nothing to do, or refused                       └▶ REBOOT│ any failure
 *
 * From WITHDRAW to SETTLE a look at NVML changes nothing of the GPUs' MIG devices (mig/mask.h). What WITHDRAW takes from
 * the offer makes its MPS daemons quit, and HOST waits for that; the offer after SETTLE starts others (mps/mps.h).
 *
 * Each phase has a deadline; whatever fails, SETTLE and RESTORE put back what was taken away, and
 * the state is `failed` with the reason.
 * Thread: loop.
 */
#include "node/agent/agent.h"
#include "node/agent/api/task.h"
#include "node/agent/config/source/source.h"
#include "lib/proc/child.h"
#include "node/agent/mig/host.h"
#include "node/agent/mig/marks.h"
#include "node/agent/mig/mask.h"
#include "node/agent/mig/wish.h"
#include "model/config/choice.h"

#include <limits.h>

#define MIG_CONFIG_KEY "config.yaml" /* of a ConfigMap, as with NVIDIA's manager */

enum mig_phase {
	MIG_REST,
	MIG_PLAN,
	MIG_PAUSE,
	MIG_WITHDRAW,
	MIG_HOST,
	MIG_RELEASE,
	MIG_APPLY,
	MIG_REBOOT,
	MIG_SETTLE,
	MIG_RESTORE,
	MIG_PHASES,
};

struct agent;

/* What one phase does. */
struct mig_phase_row {
	const char *text;
	void (*enter)(struct agent *a);
	void (*tick)(struct agent *a); /* every: */
	uint32_t tick_ms;
	uint64_t limit_ns; /* then: */
	void (*late)(struct agent *a);
};

/* phases.c: by enum mig_phase. */
extern const struct mig_phase_row mig_phases[MIG_PHASES];

struct agent_mig {
	const struct mig_phase_row *phases;
	void (*at_rest)(struct agent *a); /* an attempt has ended */
	struct agent_mig_options options; /* no NULL in it */
	bool started;
	char tool[PATH_MAX];
	char map_namespace[64], map[CONFIG_ENTRY_NAME_MAX];
	char dir[PATH_MAX], entry[CONFIG_ENTRY_NAME_MAX]; /* of the config file */
	struct config_source *source;    /* NULL: the built-in layouts, or no API server yet */
	uint64_t silence_ns, clients_ns; /* how long the tool, and clients, are waited for */

	enum mig_phase phase;
	uv_timer_t timer; /* next look in the phase */
	uint64_t phase_since_ns, next_ns;

	/* What is wanted now. */
	enum mig_wish_by by;
	char key[MIG_WISH_KEY_MAX];
	char waiting[ERROR_MSG_MAX]; /* why that is not known yet; "" */
	uint64_t text_since_ns;      /* since when only the text is waited for; 0: it is not */
	bool rebooting;              /* the Node said so when we came */
	bool node_seen;

	/* The attempt that runs, or was the last. */
	char name[MIG_WISH_NAME_MAX], tried[MIG_WISH_KEY_MAX];
	enum mig_wish_by tried_by;
	struct buf text;           /* of the config */
	struct error source_error; /* why there is none */
	struct child *child;
	struct mig_report report;
	struct mig_mask mask;
	bool takes; /* .mask: somebody may have to be stopped */
	bool masked, released, paused, applied, rebooted_now;
	bool cleaned;        /* services were started with nothing wanted */
	bool paused_in_vain; /* for .tried: what is in use is not a client's */
	struct api_call *call;
	const char *own[MIG_CLIENTS_MAX + 1];
	bool own_known;
	char waits_for[600]; /* a pod */
	uint64_t looks;      /* of NVML so far */
	uint64_t looks_wanted, probed_ns;
	struct error outcome; /* ERR_NONE: good */
	bool in_use;
	struct mig_host host;

	/* What came of it. */
	bool ever; /* an attempt has ended */
	bool good; /* the last one did well */
	bool drift_known;
	struct mig_basis basis;
	uint64_t failed_with; /* hash of the GPUs then */
	uint32_t failures;
	uint64_t retry_at_ns; /* 0: none */
	uint64_t since_wall_ns;
	char told[ERROR_MSG_MAX]; /* last failure that an Event has told */

	/* On the Node. */
	struct task marks;
	struct mig_marks want;
	char state[16], reason[ERROR_MSG_MAX], rebooted[MIG_WISH_KEY_MAX];
	uint64_t marks_generation, marks_sent, marks_at_ns;
	struct task validators;
	struct strv pods; /* paths of those to be deleted */
	bool validators_due, validators_listed;
};

/* --- attempt.c: one attempt, from PLAN to REST --- */

/* With .name, .text, .tried as they are to be; .phase is REST. */
void mig_attempt_start(struct agent *a);
/* Another wish: an attempt that has changed nothing yet begins anew. True: it does; else the wish
 * is looked at when it has ended. */
bool mig_attempt_interrupt(struct agent *a);
/* At rest, where nothing is wanted: starts what an agent before us stopped. */
void mig_attempt_clean(struct agent *a);
void mig_attempt_look(struct agent *a);   /* the Node or the plugins may be other ones */
void mig_attempt_looked(struct agent *a); /* NVML was looked at */
void mig_attempt_stop(struct agent *a);

/* --- node.c: what is written to the cluster --- */

void mig_node_init(struct agent *a);
void mig_node_open(struct agent *a); /* there is an API server */
/* @state and @reason as in struct mig_marks. */
void mig_node_say(struct agent *a, const char *state, const char *reason);
void mig_node_clients(struct agent *a, enum mig_clients clients);
void mig_node_rebooted(struct agent *a, const char *key);
/* Whether the Node shows all of it; true where there is no API server. */
bool mig_node_shows(const struct agent *a);
void mig_node_validate_again(struct agent *a);
void mig_node_close(struct agent *a);
