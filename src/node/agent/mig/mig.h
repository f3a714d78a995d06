/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The MIG manager: makes the GPUs what the Node's label nvidia.com/mig.config says, and reports the progress in
 * nvidia.com/mig.config.state. The agent never edits a GPU itself: `gpuslice mig apply` does, as a child
 * process.
 *
 *	REST ─▶ PLAN ─▶ PAUSE ─▶ WITHDRAW ─▶ HOST ─▶ RELEASE ─▶ APPLY ─▶ SETTLE ─▶ RESTORE ─▶ REST
 *	           (clients, if a device goes)                       │      ▲
 *	                                                             └▶ REBOOT
 *
 * PLAN goes to SETTLE if there is nothing to do, to RESTORE if the layout is refused, and past PAUSE if no client
 * has to pause. PAUSE goes back to PLAN if the layout had been refused because of clients. If another layout is
 * desired meanwhile, PLAN and PAUSE end in REST. A failure leads to SETTLE, or to RESTORE if the attempt has
 * withdrawn, released and applied nothing.
 *
 * MIG devices. From WITHDRAW to SETTLE, a probe of NVML does not change the MIG devices in the facts
 * (mig/mask.h). When devices leave the offer in WITHDRAW, their MPS daemons quit, and WITHDRAW waits for that.
 * The offer after SETTLE starts other daemons (mps/mps.h).
 *
 * Files. mig.c: the desired layout, and when an attempt begins. phases.c: the phases. attempt.c: the child process of
 * APPLY; report.c reads its lines. host.c: programs on the host. label-sync.c sends the labels that node-labels.c
 * decides. io/mig-editor/ edits the GPUs, in the child process.
 *
 * Limits. Each phase of an attempt, or each program that it runs, has a deadline. After a failure, SETTLE and
 * RESTORE put back what was taken away, and the state is `failed` with the reason.
 *
 * Thread: loop.
 */
#include "node/agent/api/node-object.h"
#include "node/agent/api/task.h"
#include "node/agent/base/facts.h"
#include "node/agent/base/report.h"
#include "node/agent/base/loop.h"
#include "node/agent/config/source/source.h"
#include "lib/proc/child.h"
#include "node/agent/mig/host.h"
#include "node/agent/mig/node-labels.h"
#include "node/agent/mig/mask.h"
#include "node/agent/mig/desired.h"
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

/* The MIG manager. NULL or "" for an option that is not given. */
struct mig_options {
	bool enabled, force, with_reboot, shutdown_clients;
	/* layout of a node without the label; none: leave MIG alone */
	const char *default_name;
	const char *config_file; /* a file, or a directory with config.yaml */
	/* a ConfigMap with the layouts, in its key config.yaml: "[namespace/]name" */
	const char *config_map;
	const char *hooks_file, *clients_file, *state_file, *reboot_command, *host_root;
	const char *operator_namespace; /* where validators must run again */
};

/* What the MIG manager asks of the agent. */
struct mig_ops {
	/*
	 * NVML: .probe requests a probe of the GPUs soon, @all: with all that a probe can read. .release makes
	 * the NVML worker leave the GPUs alone until the next probe.
	 */
	void (*probe)(void *arg, bool all);
	void (*release)(void *arg);
	bool (*is_released)(void *arg);

	/* MPS: functions of these names in mps/mps.h. */
	void (*mps_query_clients)(void *arg);
	bool (*mps_has_answered)(void *arg, uint64_t since_ns);
	uint32_t (*mps_idle_servers)(void *arg, uint64_t since_ns, uint32_t *ret, uint32_t max);
	int (*mps_check_withdrawn)(void *arg,
		bool (*leaves)(void *leaves_arg, const char *uuid), void *leaves_arg,
		struct error *err);

	/*
	 * The kubelet: which pod has which device now (@done is called once), and whether no kubelet runs here.
	 */
	void (*request_pod_devices)(void *arg,
		void (*done)(void *done_arg, const struct pod_devices *list,
			const struct error *err),
		void *done_arg);
	bool (*is_kubelet_absent)(void *arg);

	/* Whether everything in the offer is registered; @why: the reason if not. */
	bool (*is_ready)(void *arg, struct buf *why);
};

/* What the MIG manager depends on. All borrowed. */
struct mig_context {
	uv_loop_t *loop;
	const struct facts *facts;
	const struct api_link *link;
	const struct reporter *reporter;
	struct wake *wake; /* the offer may have changed */
	const char *run_dir;
	const char *nvml_path, *sysfs_root, *procfs_root; /* may be NULL */
	struct mig_options options;                       /* after the init: no NULL */
	const struct mig_ops *ops;
	void *arg; /* of .ops */
};

struct mig;

/* What one phase does. */
struct mig_phase_row {
	const char *text;
	void (*enter)(struct mig *m);
	void (*tick)(struct mig *m); /* called every .tick_ms; NULL: never */
	uint32_t tick_ms;
	uint64_t limit_ns;
	/* called instead of .tick when the phase has lasted .limit_ns; NULL: no such limit */
	void (*on_timeout)(struct mig *m);
};

/* phases.c: by enum mig_phase. */
extern const struct mig_phase_row mig_phases[MIG_PHASES];

/* Where the text of the layouts comes from: a file, a ConfigMap, or neither for the built-in layouts. */
struct mig_layouts {
	char map_namespace[64], map[CONFIG_ENTRY_NAME_MAX];
	char dir[PATH_MAX], entry[CONFIG_ENTRY_NAME_MAX]; /* of the file */
	struct config_source *source; /* NULL: the built-in layouts, or no API server yet */
};

/* What is desired now. */
struct mig_desired_layout {
	enum mig_desired_source source;
	char key[MIG_DESIRED_KEY_MAX]; /* "": nothing */
	char waiting[ERROR_MSG_MAX];   /* why .source or .key is not known yet; "": it is */
	uint64_t text_since_ns;        /* since when only the text is missing; 0: it is not */
};

/* The layout that the present attempt applies, or that the last attempt applied. It is set before the start. */
struct mig_tried {
	enum mig_desired_source by;
	char name[MIG_DESIRED_NAME_MAX];
	char key[MIG_DESIRED_KEY_MAX]; /* "": no attempt yet, or the label was removed since */
	struct buf text;               /* of the config */
	struct error source_error;     /* why there is no text; ERR_NONE: there is */
};

/*
 * What one change of the layout has done so far. mig_attempt_start() resets all of it, and it stays readable after
 * the attempt has ended. At rest, .masked, .released, .child and .call are clear.
 */
struct mig_attempt {
	struct child *child;   /* the tool, while it runs */
	struct api_call *call; /* the request for the node's pods, in PAUSE */

	/* What the attempt has taken away. SETTLE gives the first two back. */
	bool masked;   /* WITHDRAW: the devices of .mask are not offered */
	bool released; /* RELEASE: the agent has left the GPUs alone since */
	bool applied;  /* APPLY: the tool has run, and may have changed GPUs */
	bool paused;   /* PAUSE: the pods of the GPU clients are gone */

	struct mig_mask mask;
	bool removes_devices;  /* by .mask: processes may have to stop */
	bool rebooted_now;     /* REBOOT: the reboot was requested */
	char awaited_pod[600]; /* what PAUSE waits for: a pod, or another reason */

	/* What SETTLE waits for. */
	uint64_t n_probes_needed; /* the value of mig.n_probes that shows the new layout */
	uint64_t round_needed;    /* the reconcile that offers everything again */

	struct error error; /* the first failure; ERR_NONE: none so far */
	bool in_use;        /* the GPUs were in use, so that a retry soon disturbs no process */
};

/* How the last attempt ended. */
enum mig_outcome_state {
	MIG_OUTCOME_NONE,     /* no attempt has ended since the agent's start */
	MIG_OUTCOME_FAILED,   /* the layout is not applied; .retry_at_ns says when to retry */
	MIG_OUTCOME_APPLIED,  /* the layout is applied; no drift is detected without .basis */
	MIG_OUTCOME_COMPARED, /* the layout is applied; each probe is compared with .basis */
};

/* What is known of the last attempt, and of those before it for the same mig_tried.key. */
struct mig_outcome {
	enum mig_outcome_state state;
	struct mig_basis basis; /* the layout at the end, for MIG_OUTCOME_COMPARED */
	uint64_t failed_with;   /* after a failure: hash of the GPUs then */
	uint32_t failures;      /* in a row */
	uint64_t retry_at_ns;   /* 0: no retry is due */
	bool paused_in_vain;    /* the GPUs were in use although no client was left */
	char reported_error[ERROR_MSG_MAX]; /* the last failure with an Event; "" */
};

/* Who caused the last boot of the host. The Node says it once, in the state that an earlier agent wrote. */
enum mig_last_boot {
	MIG_BOOT_UNKNOWN,  /* the Node was not read yet */
	MIG_BOOT_BY_AGENT, /* an agent rebooted for this layout: no other reboot follows */
	MIG_BOOT_OTHER,    /* the boot does not count for the layout that is desired now */
};

/* What is written to the Node. */
struct mig_node_report {
	struct api_task task;
	struct mig_node_labels desired;
	/* The texts and labels that .desired points to. */
	char state[16], reason[ERROR_MSG_MAX], rebooted[MIG_DESIRED_KEY_MAX];
	const char *own[MIG_CLIENTS_MAX + 1];
	bool own_known;         /* .own has the labels that the agent's own pod needs */
	uint64_t generation;    /* of .desired */
	uint64_t sent, sent_ns; /* the generation of the last patch, and its time; 0: none */
	uint64_t since_wall_ns; /* when .state was set; 0: never */
};

/* The GPU operator's validators: after a change, the agent deletes their pods, and so they run again. */
struct mig_validators {
	struct api_task task;
	struct strv pods; /* paths of the pods to delete */
	enum {
		MIG_VALIDATORS_DONE,  /* there is nothing to do */
		MIG_VALIDATORS_LIST,  /* the list of pods is due or under way */
		MIG_VALIDATORS_DELETE /* .pods are being deleted, the last one first */
	} step;
	bool rerun; /* the next request lists the pods again; .step is of the request under way until then */
};

struct mig {
	struct mig_context c;
	const struct mig_phase_row *phases;
	void (*at_rest)(struct mig *m); /* an attempt has ended */
	bool started;
	char tool[PATH_MAX];
	uint64_t silence_ns, clients_ns; /* limits: tool's silence, end of clients */
	struct mig_layouts layouts;

	enum mig_phase phase;
	uv_timer_t timer; /* next tick of the phase; at rest, the next retry */
	uint64_t phase_since_ns;

	struct mig_desired_layout desired;
	struct mig_tried tried;
	struct mig_attempt attempt;
	struct mig_outcome outcome;
	struct mig_report report; /* of the tool's last run */
	struct mig_host host;
	bool cleaned;       /* with no layout desired, the stopped services were started */
	uint64_t n_probes;  /* of NVML so far */
	uint64_t probed_ns; /* when SETTLE last probed again, as a device was not whole */

	enum mig_last_boot last_boot;
	struct mig_node_report node;
	struct mig_validators validators;
};

void mig_init(struct mig *m, const struct mig_context *context);
/* Starts the manager. What it needs may be missing: then the component is degraded, and mig_retry() tries again. */
void mig_start(struct mig *m);
/* Starts a manager that could not start, or checks the files of a started one. */
void mig_retry(struct mig *m);
void mig_with_api(struct mig *m, struct api *api);
/*
 * Brings the layout in sync with what is desired. Call this after a change of the Node, the layouts or the GPUs.
 */
void mig_sync(struct mig *m);
void mig_on_probed(struct mig *m); /* after a probe of NVML, which is in the facts */
/* The inventory @seen, or *ret (caller's): @seen with the earlier state of GPUs that change. NULL: no memory. */
const struct inventory *mig_hide_changes(const struct mig *m, const struct inventory *seen,
	struct inventory **ret);
/* Takes from @inv, a copy of the node's, the devices that must not be offered now. */
void mig_apply_mask(const struct mig *m, struct inventory *inv);
bool mig_settled(const struct mig *m); /* the layout desired at the start was tried */
/* Whether the NVML worker must leave the GPUs alone now, from RELEASE to SETTLE. */
bool mig_is_released(const struct mig *m);
json_t *mig_status(const struct mig *m);
void mig_stop(struct mig *m);
void mig_fini(struct mig *m);

/* --- attempt.c: one attempt, from PLAN to REST --- */

/* .tried is set; .phase is REST. */
void mig_attempt_start(struct mig *m);
/*
 * Another layout is desired. True: the attempt had changed nothing yet and is ended. False: the attempt goes on,
 * and the new layout waits for its end.
 */
bool mig_attempt_interrupt(struct mig *m);
/* At rest with no layout desired: starts the services that an earlier agent stopped. */
void mig_attempt_clean(struct mig *m);
void mig_attempt_recheck(struct mig *m);   /* the Node or plugins may have changed */
void mig_attempt_on_probed(struct mig *m); /* after a probe of NVML */
void mig_attempt_stop(struct mig *m);

/* --- label-sync.c: what is written to the cluster --- */

void mig_node_init(struct mig *m);
void mig_node_open(struct mig *m); /* there is an API server */
/* @state and @reason as in struct mig_node_labels. */
void mig_node_set_state(struct mig *m, const char *state, const char *reason);
void mig_node_clients(struct mig *m, enum mig_clients clients);
void mig_node_rebooted(struct mig *m, const char *key);
/* Whether the Node shows all of it; true without an API server. */
bool mig_node_is_in_sync(const struct mig *m);
void mig_node_rerun_validators(struct mig *m);
void mig_node_close(struct mig *m);
