/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A view: the state of a node at one moment. It shows how each GPU is shared, which container holds which
 * replica, and what each container uses and costs.
 *
 * The agent makes one view an interval. /metrics, /api/v1, the status page and `gpuslice top` are made from the
 * view, so they cannot contradict each other. The usage records come from the accounts of the same round. The
 * agent asks NVML and the kubelet once, however many clients read.
 *
 * Life. One thread makes a view. A published view never changes, and any thread may hold a reference and read.
 * All texts and arrays belong to the view.
 *
 * Words. A *device* is what can be shared: a GPU that is not in MIG mode, or a MIG device. A *replica* is what
 * the agent offers to the kubelet: a whole device, a replica of a device, or a slice. A *use* is one container on
 * one device, with one or more of its replicas. Ended uses stay for a while, so that clients read the last values
 * of their counters.
 *
 * Sums. These hold exactly, in integers; view_check() checks them:
 *	of a device: busy_ns      = sum of its uses' busy_ns + past.busy_ns + other_busy_ns;
 *	             memory_used  = sum of its uses' memory_used + other_memory;
 *	             present_ns   = sum of its uses' gpu_ns + past.gpu_ns + idle_gpu_ns;
 *	             cost_nano    = sum of its uses' cost_nano + past.cost_nano + idle_cost_nano;
 *	of a node:   cost_nano    = sum of its devices' cost_nano + other_cost_nano.
 * Other cost is that of GPUs that are not offered, of devices that are gone, and of time with unknown
 * allocations.
 *
 * Figures. Counters are monotonic as long as the usage records are kept, over restarts too. Times are in
 * nanoseconds, memory in bytes, money in nano-units of .currency, shares in millionths of the whole GPU. A figure
 * that is not known has a flag or is NULL; it is never zero.
 * Thread: any, once published.
 */
#include "model/gpu/gpu.h"
#include "model/gpu/sample.h"
#include "model/sched/quantum-end.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIEW_MILLION 1000000U
#define VIEW_NONE    UINT32_MAX /* no such index */

enum view_mode {
	VIEW_EXCLUSIVE, /* whole GPUs and whole MIG devices */
	VIEW_TIME_SLICING,
	VIEW_MPS,
	VIEW_SLICES,
	VIEW_MODE_COUNT_,
};
const char *view_mode_name(enum view_mode m); /* "exclusive", "time-slicing", "mps", "slices" */

/* The source of a figure of a use: "processes", "device", "slice". */
enum view_source {
	VIEW_FROM_NOTHING,   /* not known */
	VIEW_FROM_PROCESSES, /* NVML's figures of the container's processes */
	VIEW_FROM_DEVICE,    /* the device's own, as no other container holds it */
	VIEW_FROM_SLICE,     /* the arbiter's usage accounts */
};
const char *view_source_name(enum view_source s); /* NULL for VIEW_FROM_NOTHING */

enum view_health { VIEW_HEALTHY, VIEW_UNHEALTHY, VIEW_PROBATION };
const char *view_health_name(enum view_health h); /* "healthy", "unhealthy", "probation" */

struct view_xid {
	uint32_t xid;
	uint64_t count;        /* since the counters began */
	uint64_t last_wall_ns; /* 0: not known */
};

struct view_signal {
	const char *name;   /* "rowRemapFailed" */
	const char *policy; /* "unhealthy", "warning", "ignore" */
	uint64_t value;     /* 0: clear, else 1 or a count */
};

/* One point of the last hour; .busy and .allocated in millionths. */
struct view_point {
	uint32_t wall_s;    /* end, seconds since 1970 */
	uint32_t busy;      /* of the time; VIEW_NONE: not known */
	uint32_t allocated; /* of the replicas' shares; VIEW_NONE: not known */
	uint32_t padding;
	uint64_t memory_used; /* UINT64_MAX: not known */
};
#define VIEW_POINTS_MAX 120
#define VIEW_POINT_S    30 /* seconds from point to point */

struct view_gpu {
	uint32_t index, minor; /* NVML's; minor VIEW_NONE: not known */
	const char *uuid, *name, *bus_id;
	bool cc_known;
	uint32_t cc_major, cc_minor;
	int32_t numa_node; /* -1: not known */
	enum view_health health;
	const char *reason;  /* "" */
	const char *warning; /* of its health, in any state; "" */
	uint32_t n_signals;
	struct view_signal *signals; /* those that are known */
	const char *refused;         /* why no pod can get it, whatever its health; "" */
	uint64_t health_since_wall_ns;
	bool present;         /* NVML shows it now */
	const char *fault;    /* gpu_fault_name(); "ok" */
	const char *recovery; /* asked for by the driver: "none", "reset"; "": not known */
	bool reset_known, reset_required; /* NVML reports whether it needs a reset */
	bool mig_known, mig_capable, mig_enabled, mig_pending;
	uint32_t mig_slices; /* of the drawing: 7 and 8; 0: no MIG */
	uint32_t mig_memory_slices;
	const struct sample_device *sample; /* the board's figures; NULL: not known */
	bool sampled;                       /* there was a sample */
	uint64_t sample_age_ns;             /* .sampled: age of the last sample */
	uint32_t first_device, n_devices;   /* its devices: one, or its MIG devices, if any */
	const uint8_t *p2p; /* gpu_link.p2p to each GPU of the view; NULL: not asked */
	uint32_t n_xids;
	struct view_xid *xids;
	bool xids_known; /* the driver reports XIDs, or has; else .xid_count is not known */
	uint64_t xid_count;
	uint32_t last_xid;           /* 0: none */
	uint64_t cost_nano_per_hour; /* its part of the node's price; 0: no price */
	uint32_t n_points;
	struct view_point *points; /* of the last hour, old to new */
};

/* Counters of a device's uses that ended so long ago that the view no longer lists them. */
struct view_past {
	uint64_t busy_ns, gpu_ns, cost_nano;
};

struct view_device {
	uint32_t gpu; /* position in .gpus */
	bool mig;
	const char *uuid;
	const char *label;                  /* "0", of a MIG device "0:1" */
	const char *profile;                /* "1g.10gb"; NULL: a GPU */
	uint32_t gi, ci;                    /* GPU_NO_INSTANCE */
	uint32_t start, size;               /* position in compute slices, of .mig_slices */
	uint32_t memory_start, memory_size; /* position in memory slices */
	bool placed;   /* the four positions and sizes are known; false without MIG */
	uint32_t part; /* millionths of the GPU; VIEW_MILLION: a whole GPU */
	enum view_health health;
	const char *reason, *refused;
	enum view_mode mode;  /* VIEW_EXCLUSIVE: not shared */
	const char *resource; /* of its first replica; "": not offered */
	bool offered;
	const struct sample_device *sample; /* NULL: not known */
	bool memory_known, reserved_known;
	uint64_t memory_total, memory_used, memory_reserved, memory_free, other_memory;
	bool busy_known;                 /* NVML can report busy time */
	uint64_t busy_ns, other_busy_ns; /* counters; other: of no known container */
	uint32_t busy;        /* millionths of the last interval; VIEW_NONE: not known */
	uint64_t present_ns;  /* counter: time that it was present, times .part */
	uint64_t idle_gpu_ns; /* counter: unallocated time of .present_ns */
	uint64_t cost_nano, idle_cost_nano; /* counters */
	bool counted; /* allocations were known at some time; else these four are not known */
	struct view_past past;
	bool allocated_known; /* the kubelet has reported allocations: .allocated, .replicas_used */
	uint32_t allocated; /* millionths of the device that containers hold now */
	uint32_t first_replica, n_replicas, replicas_used;
	uint32_t first_use, n_uses;
	uint32_t n_points;
	struct view_point *points;
};

struct view_replica {
	uint32_t device;
	const char *id, *resource; /* as the kubelet has them */
	uint32_t replica;
	uint32_t share;        /* millionths of the device */
	uint64_t memory_limit; /* UINT64_MAX: none */
	bool healthy;
	uint32_t use; /* position in .uses; VIEW_NONE: free, or not known */
};

/* The arbiter's usage account of a container in a slice. The figures up to .refusals are counters. */
struct view_slice {
	const char *id;
	const char *compute; /* "none", "fair", "capped", "mps" */
	const char *class_;  /* "batch", "latency" */
	uint32_t weight;     /* 0: no compute share */
	uint32_t cap;        /* millionths of the device; 0: none */
	bool time_known;     /* the counters of time are known */
	uint64_t charged_ns, queue_ns, wait_ns, throttled_ns, quanta, waits, launches, copies,
		copied_bytes;
	uint64_t revocations; /* gates closed while the slice had work, or wanted to submit */
	bool revocations_known;
	uint64_t quantum_ends[SCHED_ENDS]; /* why quanta ended, and how often */
	bool quantum_ends_known;
	uint64_t refusals; /* allocations that the limit refused */
	bool refusals_known;
	bool reported; /* the arbiter has reported the slice on this device; else the figures below are not known */
	bool has_quantum, demoted, stuck, over_limit;
	uint64_t unhooked; /* bytes of unhooked processes; part of .memory_used */
	bool unhooked_known;
	uint32_t stopped; /* unhooked processes that were killed */
};

/* A label of a pod, under a name that Prometheus accepts. */
struct view_label {
	const char *name, *value;
};

struct view_use {
	uint32_t device;
	const char *namespace_, *pod, *container;
	const char *uid;                 /* of the pod; "" if not known */
	uint32_t n_labels;               /* of the pod: those that are wanted and known */
	const struct view_label *labels; /* by name, each name once */
	const char *resource;
	enum view_mode mode;
	bool live;                             /* holds the device now */
	uint64_t began_wall_ns, ended_wall_ns; /* .ended_wall_ns: unless .live */
	bool offered_now; /* false: its replicas are of an earlier config or layout */
	uint32_t n_replicas;
	uint32_t replica;       /* of its first replica; VIEW_NONE: not offered now */
	const char *replica_id; /* of its first replica */
	uint32_t share;         /* millionths of the whole GPU, of all its replicas */
	/* Millionths of the GPU in the last interval; VIEW_NONE: not known. */
	uint32_t received;
	enum view_source memory_from; /* of .memory_used */
	bool memory_known;            /* .memory_used */
	bool memory_counted;          /* .memory_byte_s was known at some time */
	bool peak_known;              /* .memory_peak was known at some time; it may be 0 */
	bool memory_current; /* .memory_byte_s includes the last interval, or the end's */
	uint64_t memory_used, memory_peak, memory_limit; /* limit UINT64_MAX: none */
	bool processes_known;
	uint32_t n_processes;
	enum view_source busy_from; /* of .received */
	bool busy_known;            /* .busy_ns was known at some time */
	bool busy_current;          /* .busy_ns includes the last interval, or the end's */
	bool busy_exact;            /* .busy_from is VIEW_FROM_SLICE */
	bool allocation_current;    /* ended, or the kubelet has just listed it */
	/* Counters. */
	uint64_t allocated_ns;
	uint64_t gpu_ns;        /* allocated time, times share */
	uint64_t busy_ns;       /* GPU time used */
	uint64_t memory_byte_s; /* bytes times seconds */
	uint64_t cost_nano;
	const struct view_slice *slice; /* NULL: none */
};

struct view_resource {
	const char *name;
	enum view_mode mode;
	uint32_t replicas, capacity, allocatable;
	bool allocated_known; /* the kubelet has reported allocations */
	uint32_t used, idle;  /* held; healthy and not held */
	const char *state;    /* "registered", "registering", "waiting" */
	const char *reason;   /* "" */
};

/* State of the agent's web server. Counters since its start, except .connections. */
struct view_web {
	bool known;                              /* false: no web server */
	uint64_t requests[5];                    /* by class of the status: [0] is 1xx */
	uint64_t refused_full, refused_address;  /* connections, at a limit */
	uint64_t displaced, timeouts, malformed; /* closed without an answer */
	uint64_t pauses;                         /* its share of a CPU was used up */
	uint32_t connections;
};

/* What the agent does besides serving devices (node/agent/base/report.h). */
struct view_component {
	const char *name;
	const char *reason;     /* "": it works */
	uint64_t since_wall_ns; /* of the reason; 0: none */
};

/* Figures of the agent itself. */
struct view_agent {
	const char *version;
	int pid;
	uint64_t started_wall_ns;
	uint64_t cpu_ns, rss_bytes;
	uint32_t threads, fds;
	bool proc_known;   /* .rss_bytes, .threads and .fds could be read */
	uint64_t rounds;   /* counter: views made */
	uint64_t round_ns; /* loop thread time of the previous view */
	uint64_t nvml_calls, nvml_ns, nvml_errors; /* counters, of samples */
	uint64_t kubelet_lists, kubelet_errors;    /* counters */
	uint64_t allocations, allocation_errors;   /* counters */
	uint64_t usage_db_errors;
	bool usage_db_known;        /* the file exists */
	uint64_t usage_db_bytes;    /* of the file */
	const char *usage_db_error; /* "" */
	struct view_web web;
	uint32_t n_components;
	struct view_component *components;
};

struct view {
	_Atomic uint32_t refs;
	uint64_t seq;              /* 1 for the first */
	uint64_t wall_ns, mono_ns; /* of the moment */
	uint64_t interval_ns;      /* between two views, as configured */
	uint64_t since_wall_ns;    /* when the counters began */
	const char *node, *hostname;
	const char *driver_version, *nvml_version, *cuda_version; /* "": not known */
	const char *instance_type, *region;                       /* "": not known */
	bool nvml_up;
	const char *nvml_error; /* "" */
	bool allocations_known; /* the kubelet has reported allocations */
	const char *allocations_error;

	bool priced;
	uint64_t price_nano_per_hour;        /* of the node */
	const char *currency, *price_source; /* "USD"; "catalogue ...", "option" */
	uint64_t cost_nano, other_cost_nano;

	uint64_t config_generation, config_since_wall_ns;
	const char *config_source, *config_sharing; /* as in /v1/status */
	const char *config_error;                   /* of a newer config that was refused; "" */
	bool config_decided;
	bool ready;
	uint32_t n_warnings;
	const char **warnings;

	uint32_t n_gpus, n_devices, n_replicas, n_uses, n_resources;
	struct view_gpu *gpus;         /* by index */
	struct view_device *devices;   /* by GPU, then MIG index */
	struct view_replica *replicas; /* by device */
	struct view_use *uses; /* by device; live first, then by namespace, pod, container */
	struct view_resource *resources; /* by name */
	struct sample *sample;           /* owner of the .sample pointers' targets */
	struct view_agent agent;

	struct view_memory *memory; /* private: memory of the view */
};

/* Whether NVML has reported its GPUs. While NVML is down the view shows the last reported GPUs. */
static inline bool view_gpus_known(const struct view *v)
{
	return v->nvml_up || v->n_gpus > 0;
}

/* Limit of a view's texts and arrays. Beyond it view_failed() is true. */
#define VIEW_BYTES_MAX (64U << 20)
/* An empty view with one reference; ERR_NOMEM. */
int view_new(struct view **ret, struct error *err) MUST_USE;

/*
 * For the maker of a view. view_array() gives zeroed memory of the view. view_text() and view_printf() copy a
 * text: invalid UTF-8 becomes '?', NULL becomes "". They return NULL beyond the limit or out of memory; then
 * view_failed() is true.
 */
void *view_array(struct view *v, size_t n, size_t size);
const char *view_text(struct view *v, const char *text);
/* The text is cut after 511 bytes. */
const char *view_printf(struct view *v, const char *fmt, ...) PRINTF(2, 3);
bool view_failed(const struct view *v);

/* Adds a reference, for another thread too. Returns @v. */
struct view *view_ref(struct view *v);
/* Drops a reference; the last one frees the view. NULL: nothing. Returns NULL. */
struct view *view_unref(struct view *v);
DEFINE_CLEANUP(struct view *, view_unref)

/* Whether the sums above hold and all indexes are in range; ERR_INTERNAL names the fault. For tests. */
int view_check(const struct view *v, struct error *err) MUST_USE;
