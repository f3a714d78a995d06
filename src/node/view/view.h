/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is to be seen of a node at one moment: how each GPU is cut, who sits where, what each uses and costs.
 * The agent makes one view an interval; /metrics, /api/v1, the status page, `gpuslice top` and the ledger are
 * all made from it, so they cannot contradict each other, and NVML and the kubelet are asked once
 * however many look.
 *
 * A view is made by one thread and never changes after it is published; then any thread may hold a reference and
 * read. All texts and arrays belong to the view.
 *
 * Words. A *unit* is what can be divided: a GPU that is not in MIG mode, or a MIG device. A *seat* is a device that
 * the kubelet is offered: a whole unit, a replica, a slice. A *use* is one container on one unit, with one or
 * more of its seats. Ended uses stay for a while, so that the last values of their counters are seen.
 *
 * What adds up, exactly, in integers (view_check() holds it):
 *	of a unit: busy_ns      = sum of its uses' busy_ns + past.busy_ns + other_busy_ns
 *	           memory_used  = sum of its uses' memory_used + other_memory
 *	           present_ns   = sum of its uses' gpu_ns + past.gpu_ns + idle_gpu_ns
 *	           cost_nano    = sum of its uses' cost_nano + past.cost_nano + idle_cost_nano
 *	of a node: cost_nano    = sum of its units' cost_nano + other_cost_nano (GPUs that are not offered)
 *
 * Counters are monotonic as long as the agent's ledger is kept, over restarts too. Units: times in
 * nanoseconds, memory in bytes, money in nano-units of .currency, shares in millionths of the whole GPU.
 * What is not known has a flag or is NULL; it is never zero.
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
#define VIEW_NONE    UINT32_MAX /* an index that says: none */

enum view_mode {
	VIEW_EXCLUSIVE, /* whole GPUs and whole MIG devices */
	VIEW_TIME_SLICING,
	VIEW_MPS,
	VIEW_SLICES,
	VIEW_MODE_COUNT_,
};
const char *view_mode_name(enum view_mode m); /* "exclusive", "time-slicing", "mps", "slices" */

/* Where a figure of a use is from; "processes", "device", "slice". */
enum view_source {
	VIEW_FROM_NOTHING,   /* it is not known */
	VIEW_FROM_PROCESSES, /* NVML's figures of the container's processes */
	VIEW_FROM_DEVICE,    /* the unit's own, as no other container holds the unit */
	VIEW_FROM_SLICE,     /* the slice runtime's accounts */
};
const char *view_source_name(enum view_source s); /* NULL for VIEW_FROM_NOTHING */

enum view_health { VIEW_HEALTHY, VIEW_UNHEALTHY, VIEW_PROBATION };
const char *view_health_name(enum view_health h);

struct view_xid {
	uint32_t xid;
	uint64_t count;        /* since the counters began */
	uint64_t last_wall_ns; /* 0: before this agent's start */
};

struct view_signal {
	const char *name;   /* "rowRemapFailed" */
	const char *policy; /* "unhealthy", "warning", "ignore" */
	uint64_t value;     /* 0: clear, else 1 or a count */
};

/* One point of the last hour. */
struct view_point {
	uint32_t wall_s; /* end, seconds since 1970 */
	uint32_t busy;   /* millionths of the time; VIEW_NONE: not known */
	uint32_t
		allocated; /* millionths of its seats' shares that containers held; VIEW_NONE: not known */
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
	const char *warning; /* of its health, whatever it is; "" */
	uint32_t n_signals;
	struct view_signal *signals; /* those that are known */
	const char *refused; /* why it is listed and cannot be had whatever its health; "" */
	uint64_t health_since_wall_ns;
	bool present;      /* NVML shows it now */
	const char *fault; /* gpu_fault_name(); "ok" */
	const char *
		recovery; /* what the driver says it needs: "none", "reset", ...; "": cannot say */
	bool reset_known, reset_required; /* NVML says that it must be reset */
	bool mig_known, mig_capable, mig_enabled, mig_pending;
	uint32_t
		mig_slices; /* compute slices and memory slices the GPU is drawn with: 7 and 8; 0: no MIG */
	uint32_t mig_memory_slices;
	const struct sample_device *sample; /* the board's figures; NULL: not known */
	bool sampled; /* there were such figures at some time; their age: */
	uint64_t sample_age_ns;
	uint32_t first_device, n_devices; /* its units: one, or its MIG devices, perhaps none */
	const uint8_t *
		p2p; /* for each of the view's GPUs: gpu_link.p2p of the two; NULL: not asked */
	uint32_t n_xids;
	struct view_xid *xids;
	bool xids_known; /* the driver reports XIDs, or has reported some; else .xid_count is not known */
	uint64_t xid_count;
	uint32_t last_xid; /* 0: none seen */
	uint64_t
		cost_nano_per_hour; /* its part of the node's price; 0 where there is no price */
	uint32_t n_points;
	struct view_point *points; /* of the last hour, old to new */
};

/* Counters of the uses of a unit that have ended so long ago that they are not listed any more. */
struct view_past {
	uint64_t busy_ns, gpu_ns, cost_nano;
};

struct view_device {
	uint32_t gpu; /* position in gpus */
	bool mig;
	const char *uuid;
	const char *label;                  /* "0", of a MIG device "0:1" */
	const char *profile;                /* "1g.10gb"; NULL: a GPU */
	uint32_t gi, ci;                    /* GPU_NO_INSTANCE */
	uint32_t start, size;               /* where it lies in compute slices; of mig_slices */
	uint32_t memory_start, memory_size; /* and in memory slices */
	bool placed;   /* else these four are not known, or there is no such thing: no MIG */
	uint32_t part; /* millionths of the GPU that it is: VIEW_MILLION of a whole one */
	enum view_health health;
	const char *reason, *refused;
	enum view_mode mode;  /* how it is shared; VIEW_EXCLUSIVE if it is not */
	const char *resource; /* of its first seat; "" if it is not offered */
	bool offered;
	const struct sample_device *sample; /* NULL: not known */
	bool memory_known, reserved_known;
	uint64_t memory_total, memory_used, memory_reserved, memory_free, other_memory;
	bool busy_known;                 /* NVML can say how long it is busy */
	uint64_t busy_ns, other_busy_ns; /* counters; other: what no container is known for */
	uint32_t busy;        /* millionths of the last interval; VIEW_NONE: not known */
	uint64_t present_ns;  /* counter: how long it has been there, times .part */
	uint64_t idle_gpu_ns; /* counter: of that, what nobody held */
	uint64_t cost_nano, idle_cost_nano; /* counters */
	bool counted; /* it was known at some time who held what: else these four are not known */
	struct view_past past;
	bool allocated_known; /* the kubelet has said who holds what: .allocated, .replicas_used */
	uint32_t allocated; /* millionths of the unit that containers hold now */
	uint32_t first_replica, n_replicas, replicas_used;
	uint32_t first_use, n_uses;
	uint32_t n_points;
	struct view_point *points;
};

struct view_replica {
	uint32_t device;
	const char *id, *resource; /* the kubelet's */
	uint32_t replica;
	uint32_t share;        /* millionths of the unit */
	uint64_t memory_limit; /* UINT64_MAX: none */
	bool healthy;
	uint32_t
		use; /* who holds it: position in uses; VIEW_NONE: free, or the kubelet has not said */
};

/* The arbiter's account of a use whose container is in a slice. Counters but for .has_quantum and what follows. */
struct view_slice {
	const char *id;
	const char *compute; /* "none", "fair", "capped", "mps" */
	const char *class_;  /* "batch", "latency" */
	uint32_t weight;     /* 0: takes no turns */
	uint32_t cap;        /* millionths of the unit; 0: none */
	bool time_known;     /* else the counters of time are not known */
	uint64_t charged_ns, queue_ns, wait_ns, throttled_ns, quanta, waits, launches, copies,
		copied_bytes;
	uint64_t revocations; /* its gates closed while it had work, or wanted to submit some */
	bool revocations_known;
	uint64_t quantum_ends[SCHED_ENDS]; /* why its quanta ended, and how often */
	bool quantum_ends_known;
	uint64_t refusals; /* allocations that the limit refused */
	bool refusals_known;
	bool reported; /* the arbiter has reported the slice on this unit; else what follows is not known */
	bool has_quantum, demoted, stuck, over_limit;
	uint64_t unhooked; /* bytes in processes without the libraries; part of memory_used */
	bool unhooked_known;
	uint32_t stopped; /* processes that were killed for it */
};

/* Of a pod, under a name that Prometheus takes. */
struct view_label {
	const char *name, *value;
};

struct view_use {
	uint32_t device;
	const char *namespace_, *pod, *container;
	const char *uid;                 /* of the pod; "" if not known */
	uint32_t n_labels;               /* of the pod, as far as they are wanted and known */
	const struct view_label *labels; /* by name, each name once */
	const char *resource;
	enum view_mode mode;
	bool live; /* holds it now; else it has ended at: */
	uint64_t began_wall_ns, ended_wall_ns;
	bool offered_now; /* else its seats are of an earlier config or layout */
	uint32_t n_replicas;
	uint32_t replica;       /* of its first seat; VIEW_NONE: it is not offered now */
	const char *replica_id; /* id of its first seat */
	uint32_t
		share; /* millionths of the whole GPU that it is counted for: seats, weight or part */
	uint32_t
		received; /* millionths of the GPU that it had in the last interval; VIEW_NONE: not known */
	enum view_source memory_from; /* of .memory_used */
	bool memory_known;            /* .memory_used */
	bool memory_counted;          /* .memory_byte_s: it was known at some time */
	bool peak_known; /* .memory_peak, the most ever: likewise, and 0 of a slice is the arbiter's word */
	bool memory_current; /* and the last interval, or that of its end, is in it */
	uint64_t memory_used, memory_peak, memory_limit; /* limit UINT64_MAX: none */
	bool processes_known;
	uint32_t n_processes;
	enum view_source busy_from; /* of .received */
	bool busy_known;            /* .busy_ns: it was known at some time */
	bool busy_current;          /* and the last interval, or that of its end, is in it */
	bool busy_exact;            /* .busy_from is the slice runtime */
	bool allocation_current; /* it has ended, or the kubelet has said now that it holds it */
	uint64_t allocated_ns;   /* counters: */
	uint64_t gpu_ns;         /* held, times share */
	uint64_t busy_ns;        /* GPU time that it used */
	uint64_t memory_byte_s;  /* bytes times seconds */
	uint64_t cost_nano;
	const struct view_slice *slice; /* NULL: none */
};

struct view_resource {
	const char *name;
	enum view_mode mode;
	uint32_t replicas, capacity, allocatable;
	bool allocated_known; /* the kubelet has said who holds what */
	uint32_t used, idle;  /* held; healthy, and not held */
	const char *state;    /* "registered", "registering", "waiting" */
	const char *reason;   /* "" */
};

/* How the agent's web server goes. Counters but for .connections, since it listens. */
struct view_web {
	bool known;                             /* else it serves nobody */
	uint64_t requests[5];                   /* by class of the answer: [0] is 1xx */
	uint64_t refused_full, refused_address; /* connections, at a limit */
	uint64_t displaced, timeouts,
		malformed; /* connections that were closed without an answer */
	uint64_t pauses;   /* it had used its part of a processor */
	uint32_t connections;
};

/* What the agent does besides serving devices (node/agent/base/components.h). */
struct view_component {
	const char *name;
	const char *reason;     /* "": it works */
	uint64_t since_wall_ns; /* of the reason; 0 without */
};

/* Which figures the agent has of itself. */
struct view_agent {
	const char *version;
	int pid;
	uint64_t started_wall_ns;
	uint64_t cpu_ns, rss_bytes;
	uint32_t threads, fds;
	bool proc_known;   /* /proc could be read: .rss_bytes, .threads and .fds are known */
	uint64_t rounds;   /* counter: views made */
	uint64_t round_ns; /* what the last one took of the loop thread */
	uint64_t nvml_calls, nvml_ns, nvml_errors; /* counters, of samples */
	uint64_t kubelet_lists, kubelet_errors;    /* counters */
	uint64_t allocations, allocation_errors;   /* counters */
	uint64_t usage_db_errors;
	bool usage_db_known;        /* there is one */
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
	const char *driver_version, *nvml_version, *cuda_version; /* "" if not known */
	const char *instance_type, *region;                       /* "" if not known */
	bool nvml_up;
	const char *nvml_error; /* "" */
	bool allocations_known; /* the kubelet has said who holds what */
	const char *allocations_error;

	bool priced;
	uint64_t price_nano_per_hour;        /* of the node */
	const char *currency, *price_source; /* "USD"; "catalogue", "option", "label" */
	uint64_t cost_nano, other_cost_nano;

	uint64_t config_generation, config_since_wall_ns;
	const char *config_source, *config_sharing; /* as /v1/status says them */
	const char *config_error;                   /* of a newer one that was refused; "" */
	bool config_decided;
	bool ready;
	uint32_t n_warnings;
	const char **warnings;

	uint32_t n_gpus, n_devices, n_replicas, n_uses, n_resources;
	struct view_gpu *gpus;         /* by index */
	struct view_device *devices;   /* by GPU, then MIG index */
	struct view_replica *replicas; /* by unit */
	struct view_use *uses; /* by unit; live ones first, then by namespace, pod, container */
	struct view_resource *resources; /* by name */
	struct sample *sample;           /* what the .sample pointers point into; owned */
	struct view_agent agent;

	struct view_memory *memory; /* private: what all of it lies in */
};

/* Whether NVML has reported its GPUs; while it is down these are the last that it reported. */
static inline bool view_gpus_known(const struct view *v)
{
	return v->nvml_up || v->n_gpus > 0;
}

/* An empty view with one reference. ERR_LIMIT: it would be larger than VIEW_BYTES_MAX. */
#define VIEW_BYTES_MAX (64U << 20)
int view_new(struct view **ret, struct error *err) MUST_USE;

/*
 * For who makes one. Memory of the view, zeroed; the text copied, with foreign bytes made valid UTF-8 ('?') and
 * NULL as "". They return NULL when there is none, and view_failed() tells it at the end.
 */
void *view_array(struct view *v, size_t n, size_t size);
const char *view_text(struct view *v, const char *text);
const char *view_printf(struct view *v, const char *fmt, ...) PRINTF(2, 3);
bool view_failed(const struct view *v);

struct view *view_ref(struct view *v);
struct view *view_unref(struct view *v); /* returns NULL */
DEFINE_CLEANUP(struct view *, view_unref)

/* Whether the sums above hold and all indexes are in range; ERR_INTERNAL: which does not. For tests. */
int view_check(const struct view *v, struct error *err) MUST_USE;
