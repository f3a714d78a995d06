/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Monitoring: builds a view of the node (node/view/view.h) once an interval, and soon after the agent allocates
 * devices.
 *
 * A round:
 *	1. Request. The loop asks the NVML worker for a sample, the arbiter for its slices and the kubelet for
 *	   its pods, all at once.
 *	2. Read. A pool thread reads the kubelet's checkpoint, if the file changed, and /proc for the pods of
 *	   the GPU processes.
 *	3. Count. The loop updates the accounts (model/usage/usage.h) and builds the view.
 *	4. Persist. A pool thread writes the usage records.
 *	5. Publish. The loop publishes the view after the write, so that a restart does not take back
 *	   published counters. A failed write delays no view: its batch stays for the next round.
 *
 * Missing answers. If a service does not answer, its figures are missing in the view; the view shows the rest.
 * While the kubelet does not report allocations, the last known allocations count on for
 * MONITORING_UNKNOWN_ROUNDS_MAX intervals. Later time is not counted until the kubelet answers, as the GPUs may
 * be idle or not. The cost of that time is the node's other cost.
 *
 * Without monitoring_options.enabled no round runs. The NVML worker then reads only what health needs, and the
 * agent writes no usage records.
 * Thread: loop.
 */
#include "node/agent/api/node-object.h"
#include "node/agent/base/report.h"
#include "node/agent/base/facts.h"
#include "node/agent/kubelet/pod-resources-cache.h"
#include "node/agent/monitoring/charges.h"
#include "node/agent/monitoring/history.h"
#include "node/agent/monitoring/persist/persist.h"
#include "node/agent/monitoring/pods.h"
#include "node/agent/monitoring/processes.h"
#include "node/agent/monitoring/usage.h"
#include "node/agent/slices/slices.h"
#include "lib/base/log.h"
#include "lib/base/paths.h"
#include "io/nvml/monitor/monitor.h"
#include "io/price/price.h"
#include "model/field/field.h"
#include "node/view/view.h"

#include <sys/stat.h>

#define MONITORING_INTERVAL_NS     (UINT64_C(5) * 1000000000)
#define MONITORING_INTERVAL_MIN_NS (UINT64_C(1) * 1000000000)
#define MONITORING_INTERVAL_MAX_NS (UINT64_C(300) * 1000000000)
#define MONITORING_MIN_GAP_MS      350 /* shortest time between two rounds after an allocation */
#define MONITORING_LIST_DELAY_MS   50 /* the kubelet may need this long to list an allocation */
/* An allocation that is not listed after this time is not awaited. */
#define MONITORING_LIST_TIMEOUT_NS    (UINT64_C(3) * 1000000000)
#define MONITORING_UNKNOWN_ROUNDS_MAX 3
#define MONITORING_XIDS_MAX           1024

struct monitoring_xid_counter {
	char uuid[GPU_UUID_MAX];
	uint32_t xid;
	uint64_t count, last_wall_ns;
};

struct monitoring_price {
	struct price_catalogue *catalogue;
	bool load_tried;    /* the catalogue was loaded, or failed to load */
	struct error error; /* why the catalogue is not loaded, or the file is invalid now */
	struct file_stamp stamp; /* of the file, at the last load */
	bool region_awaited;     /* the Node's labels, with the region, are not read yet */
	char type[PRICE_NAME_MAX], region[PRICE_NAME_MAX], currency[8];
	char source[96]; /* "": no price */
	char logged_error[ERROR_MSG_MAX];
	int64_t nano_per_hour; /* 0: unknown */
};

/* What the view shows of the node, and the node's price. NULL or "": not given. */
struct monitoring_options {
	bool enabled;
	uint64_t interval_ns; /* between two rounds; 0: 5 s */
	bool price_given;     /* else the catalogue gives the price */
	int64_t price_nano;   /* of the node per hour; nano-units of .currency */
	const char *currency, *instance_type, *region, *price_file;
	const char *usage_db_dir; /* NULL: the state directory */
	/* keys of pod labels to show, as patterns; NULL: none. Borrowed */
	const struct strv *pod_labels;
};

/* What monitoring asks of the agent. */
struct monitoring_ops {
	/* NVML. sample() requests a sample: @done follows later, or sample() returns < 0 and @done never comes.
	 * want_p2p() says whether NVLinks and topology are wanted. */
	int (*sample)(void *arg, const struct gpu_sample_request *request,
		gpu_sample_done *done, void *done_arg, struct error *err);
	void (*want_p2p)(void *arg, bool want);
	/* The agent has released the GPUs, as their MIG mode changes. */
	bool (*are_gpus_released)(void *arg);

	/* The kubelet. request_pod_devices() asks which pod holds which device and calls @done once.
	 * kubelet_pids() says whether the agent sees the PIDs of the node or only its own. */
	void (*request_pod_devices)(void *arg,
		void (*done)(void *done_arg, const struct pod_devices *list,
			const struct error *err),
		void *done_arg);
	enum kubelet_pids (*kubelet_pids)(void *arg);

	/* The arbiter. refresh_slices() updates .slices of the context, then calls @done. */
	void (*refresh_slices)(void *arg, void (*done)(void *done_arg), void *done_arg);

	/* The servers. collect_wanted_fields() sets the fields that a server needs and returns whether a server needs
	 * figures of NVLinks. publish() shows @v. */
	bool (*collect_wanted_fields)(void *arg, bool fields[FIELDS_MAX]);
	void (*publish)(void *arg, struct view *v);
	struct view_web (*web)(void *arg);

	/* What the agent offers to the kubelet (kubelet/). fill_view_config() writes the config in force into
	 * @v. */
	bool (*device_ok)(void *arg, const struct resource *r, const struct offer_device *d);
	const char *(*device_refusal)(void *arg, const char *uuid);
	const char *(*resource_state)(void *arg, const char *name, const char **ret_why);
	bool (*is_ready)(void *arg, struct buf *why);
	void (*fill_view_config)(void *arg, struct view *v);
};

/* What monitoring needs of the agent. All of it is borrowed. */
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

/* What monitoring does now. The steps of a pool thread use .work, so only one of them runs at a time. */
enum monitoring_step {
	MONITORING_IDLE,       /* no round runs; once started, the timer starts the next one */
	MONITORING_OPENING,    /* a pool thread opens the usage records for the first round */
	MONITORING_AWAITING,   /* the round waits for the answers to its requests */
	MONITORING_READING,    /* a pool thread reads the checkpoint and /proc for the count */
	MONITORING_PERSISTING, /* a pool thread writes the usage records before the view */
};

/* The current round, or the last one. */
struct monitoring_round_state {
	enum monitoring_step step;
	bool awaiting_sample, awaiting_slices, awaiting_list; /* not answered yet */
	uint64_t began_ns;
	uint64_t deadline_ns; /* the sample is not awaited longer */
	struct gpu_sample_request request;
	struct sample *sample;         /* NULL: no sample in this round, or the view has it */
	struct pod_devices *list;      /* a copy; NULL: no list in this round */
	struct view *unpublished_view; /* waits for the end of the write */
};

/* How the kubelet lists allocations, over the rounds. */
struct monitoring_listing {
	uint64_t listed_ns;      /* start of the round that had the last list; 0: no list yet */
	uint64_t not_before_ns;  /* no request before this time, after a failure */
	uint32_t failures;       /* in a row */
	uint32_t unknown_rounds; /* rounds without a list since the last list */
	struct error error;      /* of the last request; ERR_NONE: it was answered */
};

/* The kubelet's checkpoint as it was read last. */
struct monitoring_checkpoint_file {
	char path[PATH_MAX];
	struct stat stat; /* of the file that was read */
	struct monitoring_checkpoint content;
};

struct monitoring_xids {
	struct monitoring_xid_counter *v;
	size_t n, room;
};

/* Counters since the agent's start, for the view. */
struct monitoring_counters {
	uint64_t nvml_calls, nvml_ns, nvml_errors;
	uint64_t lists, list_errors;             /* of the kubelet's allocations */
	uint64_t allocations, allocation_errors; /* of the agent itself */
};

struct monitoring {
	struct monitoring_context c;
	bool started, stopped;
	bool p2p; /* collect_wanted_fields() wants figures of NVLinks */
	uv_timer_t timer;
	uv_work_t work;
	struct monitoring_round_state round;

	/* What is known over the rounds. */
	struct error sample_error; /* of the last sample; ERR_NONE: it came */
	struct monitoring_listing listing;
	uint64_t allocated_ns; /* time of the last allocation */
	struct monitoring_pending pending;
	struct monitoring_checkpoint_file checkpoint;
	struct monitoring_pods pods;
	struct monitoring_allocations allocation_list;
	struct monitoring_processes processes;
	struct log_limit unread_limit;
	struct monitoring_charges charges;
	struct monitoring_history history;
	struct accounts accounts;
	struct monitoring_persist persist;
	struct monitoring_price price;
	struct monitoring_xids xids;
	uint64_t since_wall_ns; /* start of the counters of use and cost */
	uint64_t last_count_ns; /* start of the last round that was counted */
	uint64_t seq;           /* of the last view */
	uint64_t round_ns;      /* time that the loop spent on the last count */
	struct monitoring_counters counters;
};

/* @mon is zeroed. */
void monitoring_init(struct monitoring *mon, const struct monitoring_context *context);
void monitoring_start(struct monitoring *mon);
/* Loads the price file again if the last load failed or the file changed. The last valid catalogue stays in use. */
void monitoring_retry(struct monitoring *mon);
void monitoring_with_api(struct monitoring *mon, struct api *api);
void monitoring_stop(struct monitoring *mon);
void monitoring_fini(struct monitoring *mon);

/* The agent allocated devices (@ok), or failed to. A round follows soon after an allocation. */
void monitoring_allocated(struct monitoring *mon, const char *resource, const char *const *ids,
	size_t n, bool ok);
void monitoring_add_xid(struct monitoring *mon, const char *uuid, uint32_t xid);

/* The peak memory of the container on that GPU or MIG device, in bytes; false: not known. */
bool monitoring_peak(const struct monitoring *mon, const char *uuid,
	const struct pod_device *pod_device, uint64_t *ret);
