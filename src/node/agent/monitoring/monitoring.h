/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is to be seen of the node (node/view/view.h), made once an interval and soon after devices are given out:
 *
 *	ask      NVML's figures, the arbiter's, the kubelet's list of pods; all at once
 *	read     the kubelet's checkpoint, if it changed, and whose the processes are, on a thread of the pool
 *	count    accounts (model/usage/usage.h), and make the view
 *	keep     in the ledger, on a thread of the pool
 *	publish  the view, so that what was shown is never taken back by a restart
 *
 * Whoever does not answer is missing in the view, and the rest is shown. Time for which the kubelet has not said who
 * holds what belongs to those who were last known to, for MONITORING_UNKNOWN_ROUNDS_MAX intervals. Later time is not counted, up
 * to the kubelet's answer: the GPUs may be idle or not, and its cost is the node's other cost.
 * Nothing of it runs where the agent is to show nothing (not monitoring_options.enabled): then NVML is asked for nothing
 * more than health needs, and no ledger is written.
 * Thread: loop.
 */
#include "node/agent/api/link.h"
#include "node/agent/base/components.h"
#include "node/agent/base/facts.h"
#include "node/agent/base/report.h"
#include "node/agent/kubelet/pod-resources-cache.h"
#include "node/agent/monitoring/charges.h"
#include "node/agent/monitoring/history.h"
#include "node/agent/monitoring/persist/persist.h"
#include "node/agent/monitoring/pods.h"
#include "node/agent/monitoring/processes.h"
#include "node/agent/monitoring/usage.h"
#include "node/agent/slices/slices.h"
#include "lib/base/log.h"
#include "lib/base/stamp.h"
#include "io/nvml/monitor/monitor.h"
#include "io/price/price.h"
#include "model/field/field.h"
#include "node/view/view.h"

#include <sys/stat.h>

#define MONITORING_INTERVAL_NS     (UINT64_C(5) * 1000000000)
#define MONITORING_INTERVAL_MIN_NS (UINT64_C(1) * 1000000000)
#define MONITORING_MIN_GAP_MS      350 /* after an allocation: at most so often is looked besides */
#define MONITORING_LIST_DELAY_MS   50 /* so long the kubelet may need to list it */
#define MONITORING_LIST_TIMEOUT_NS \
	(UINT64_C(3) * 1000000000) /* else it is no pod that we shall see */
#define MONITORING_UNKNOWN_ROUNDS_MAX 3
#define MONITORING_XIDS_MAX           1024

struct monitoring_xid_counter {
	char uuid[GPU_UUID_MAX];
	uint32_t xid;
	uint64_t count, last_wall_ns;
};

struct monitoring_price {
	struct price_catalogue *catalogue;
	bool load_tried;         /* to load it */
	struct error error;      /* why it is not loaded, or why the file is invalid now */
	struct file_stamp stamp; /* of the file, when it was loaded last */
	bool region_awaited;     /* the region, of the Node's labels */
	char type[PRICE_NAME_MAX], region[PRICE_NAME_MAX], currency[8];
	char source[96]; /* "" without a price */
	char logged_error[ERROR_MSG_MAX];
	int64_t nano_per_hour; /* 0: unknown */
};

/* What is shown of the node, and its price. NULL or "" for what is not given. */
struct monitoring_options {
	bool enabled;
	uint64_t interval_ns; /* from look to look; 0: 5 s */
	bool price_given;     /* else by the catalogue: */
	int64_t price_nano;   /* of the node per hour */
	const char *currency, *instance_type, *region, *price_file;
	const char *usage_db_dir; /* NULL: the state directory */
	const struct strv
		*pod_labels; /* patterns of those that are shown; NULL: none are. Borrowed */
};

/* What monitoring asks of the agent. */
struct monitoring_ops {
	/* NVML: a sample, @done comes later; < 0: it does not. And whether NVLinks and topology are wanted. */
	int (*sample)(void *arg, const struct gpu_sample_request *request,
		gpu_sample_done *done, void *done_arg, struct error *err);
	void (*want_p2p)(void *arg, bool want);
	/* Nobody looks at the GPUs, as their MIG mode changes. */
	bool (*are_gpus_released)(void *arg);

	/* The kubelet: who has which device now, @done is called once; and whose PIDs it sees. */
	void (*request_pod_devices)(void *arg,
		void (*done)(void *done_arg, const struct pod_devices *list,
			const struct error *err),
		void *done_arg);
	enum kubelet_pids (*kubelet_pids)(void *arg);

	/* The arbiter: .slices of the context is of now when @done is called. */
	void (*refresh_slices)(void *arg, void (*done)(void *done_arg), void *done_arg);

	/* What is served: the fields that somebody wants are set, and whether figures of links are; shows @v. */
	bool (*get_wanted_fields)(void *arg, bool fields[FIELDS_MAX]);
	void (*publish)(void *arg, struct view *v);
	struct view_web (*web)(void *arg);

	/* What is offered, as offered.c has it; and the config in force, into @v. */
	bool (*device_ok)(void *arg, const struct resource *r, const struct offer_device *d);
	const char *(*device_refusal)(void *arg, const char *uuid);
	const char *(*resource_state)(void *arg, const char *name, const char **ret_why);
	bool (*is_ready)(void *arg, struct buf *why);
	void (*fill_view_config)(void *arg, struct view *v);
};

/* What it lives in. Borrowed, all of it. */
struct monitoring_context {
	uv_loop_t *loop;
	const struct facts *facts;
	const struct api_link *link;
	const struct reporter *reporter;
	const struct components *components;
	const struct slices *slices;
	const char *plugin_dir, *state_dir;
	uint64_t started_wall_ns; /* of the agent */
	struct monitoring_options options;
	const struct monitoring_ops *ops;
	void *arg; /* of .ops */
};

struct monitoring {
	struct monitoring_context c;
	bool p2p; /* figures of links are wanted */
	uv_timer_t timer;
	uv_work_t work;
	bool started, stopped, working;

	/* The round under way. */
	bool running;
	bool awaiting_sample, awaiting_slices, awaiting_list; /* are still to come */
	uint64_t began_ns, deadline_ns;
	uint64_t allocated_ns; /* the last allocation */
	struct sample *sample;
	struct pod_devices *list;      /* a copy; NULL: not this time */
	struct view *unpublished_view; /* is published when it is kept */

	struct gpu_sample_request request;
	struct error sample_error, list_error;
	bool listed; /* in this round */
	uint64_t
		list_ns; /* when the list was asked for that is in .allocation_list; 0: never */
	uint64_t list_requested_ns; /* of the one under way */
	uint64_t list_not_before_ns;
	uint32_t list_failures, unknown_rounds;

	struct monitoring_checkpoint checkpoint;
	struct stat checkpoint_stat;
	char checkpoint_path[PATH_MAX];
	struct monitoring_pending pending;
	struct monitoring_pods pods;
	struct monitoring_allocations allocation_list;
	struct monitoring_processes processes;
	struct log_limit unread_limit;
	struct monitoring_charges charges;
	struct monitoring_history history;
	struct accounts accounts;
	struct monitoring_persist persist;
	struct monitoring_price price;
	struct monitoring_xid_counter *xids;
	size_t n_xids;
	uint64_t since_wall_ns, last_count_ns, last_wall_ns;
	uint64_t seq, round_ns;
	uint64_t nvml_calls, nvml_ns, nvml_errors, lists, list_errors, allocations,
		allocation_errors;
};

/* @mon is zeroed. */
void monitoring_init(struct monitoring *mon, const struct monitoring_context *context);
void monitoring_start(struct monitoring *mon);
/* Loads the price file again if it could not be loaded, or has changed; the last valid catalogue stays in use. */
void monitoring_retry(struct monitoring *mon);
void monitoring_with_api(struct monitoring *mon, struct api *api);
void monitoring_stop(struct monitoring *mon);
void monitoring_fini(struct monitoring *mon);

/* Devices were given out (@ok), or could not be: looked at soon. */
void monitoring_allocated(struct monitoring *mon, const char *resource, const char *const *ids,
	size_t n, bool ok);
void monitoring_add_xid(struct monitoring *mon, const char *uuid, uint32_t xid);

/* The most memory that the container has used on that GPU or MIG device; false: not known. */
bool monitoring_peak(const struct monitoring *mon, const char *uuid,
	const struct pod_device *pod_device, uint64_t *ret);
