/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The data of a plan. Input: workloads, GPUs, instance types with their offers, the user's policy. Output: nodes
 * with their tenants. Plain data, without I/O.
 *
 * Units: money in nano-units of one currency (io/price/price.h), memory in MiB, processors in thousandths, times
 * in seconds, shares from 0 to 1.
 * Thread: any (pure).
 */
#include "model/mig/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_GPUS_MAX      64 /* GPU models */
#define PLAN_WORKLOADS_MAX 20000
#define PLAN_REPLICAS_MAX  100000 /* of all workloads together */
#define PLAN_PODS_MAX      64     /* on one GPU */
#define PLAN_NODE_GPUS_MAX 16

/* --- numbers --- */

/* The origin of a number, better ones first. A figure computed from several numbers has the worst of their
 * origins. */
enum plan_origin { PLAN_MEASURED, PLAN_DERIVED, PLAN_DEFAULT, PLAN_ORIGINS };
/* "measured", "derived", "default"; part of the output's format. */
extern const char *const plan_origin_names[PLAN_ORIGINS];

struct plan_number {
	double v;
	enum plan_origin origin;
	bool known;
};

/* Error band of a prediction from numbers of that origin: 0.10, 0.25, 0.50. */
double plan_band(enum plan_origin origin);

/* The plural ending of a noun for @n objects. */
static inline const char *plan_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* --- GPUs and instances --- */

struct plan_gpu {
	const char *name;    /* "A100-SXM4-40GB", as in the catalogues */
	const char *product; /* value of the label nvidia.com/gpu.product; "" if unknown */
	uint32_t multiprocessors;
	uint32_t multiprocessors_mig; /* in MIG mode */
	uint32_t memory_mib;
	double bandwidth_gb_s, tflops; /* fp16, dense; 0: unknown */
	double power_w;
	uint32_t cc_major, cc_minor;
	const struct mig_layout *mig; /* NULL: no MIG */
};

enum plan_capacity { PLAN_ON_DEMAND, PLAN_SPOT };

/* An instance type in one region, at one price. */
struct plan_offer {
	const char *type, *region, *arch, *currency;
	enum plan_capacity capacity;
	const struct plan_gpu *gpu;
	uint32_t gpus;      /* logical ones */
	uint32_t gpu_milli; /* 1000; less: a fraction of a GPU that the provider sells */
	uint32_t gpu_memory_mib;
	uint32_t cpu_milli, memory_mib; /* allocatable */
	int64_t nano_per_hour;
	int64_t low, high; /* spot: lowest and highest price of the zones; else 0 */
	/* Spot: interruptions of a node in a month, thousandths, lower and upper bound; 0, 0: unknown. */
	uint32_t interrupt_low_milli, interrupt_high_milli;
	const char *source, *stamp;
	bool has_mig;
	uint32_t vcpus, node_memory_mib; /* of the machine, not only allocatable */
};

/* --- workloads --- */

enum plan_kind { PLAN_OPEN, PLAN_CLOSED, PLAN_BATCH, PLAN_TRAIN };

/* Each level includes the levels before it. */
enum plan_isolation { PLAN_NO_ISOLATION, PLAN_MEMORY, PLAN_FAULT, PLAN_HARDWARE };

/* 0: no such objective. */
struct plan_slo {
	double p50_s, p95_s, p99_s;
	double min_rate; /* requests per second of each replica */
	double max_slowdown;
};
bool plan_has_slo(const struct plan_slo *s); /* any objective is set */

struct plan_workload {
	const char *name;
	const char *file; /* for messages */
	uint32_t line;
	uint32_t replicas;
	enum plan_kind kind;
	const struct plan_gpu *ref; /* GPU of the measurement; NULL: unknown */
	struct plan_number solo_s, busy, sm_active, sm_occupancy, dram, u, u_bw, mem_peak_mib,
		context_mib, rate, arrival_cv, burst, power_w;
	/* What disturbed the measurement, so that all figures are derived at best; NULL: nothing. */
	const char *disturbed;
	uint32_t cpu_milli, memory_mib; /* of the host, each replica */
	uint32_t gpus;                  /* whole GPUs of each replica, if more than 1 */
	struct plan_slo slo;
	enum plan_isolation isolation;
	bool checkpointable, spot_ok;
	bool anti_affinity; /* each replica needs its own node */
	bool object_apart;  /* the manifest already requires .anti_affinity */
	double restart_s, warmup_s;
	uint64_t gpus_allowed; /* bit: position in the list of GPUs */
	/* The Kubernetes object, if known, else NULL: kind ("deployment"), the container that uses the GPU,
	 * the resource that it requests today, and its namespace if the manifest has one. */
	const char *object_kind, *object_container, *object_resource, *object_space;
};

/* --- the user's policy --- */

enum plan_mode {
	PLAN_EXCLUSIVE,
	PLAN_TIME_SLICING,
	PLAN_SLICES,
	PLAN_MPS,
	PLAN_MIG,
	PLAN_MODES
};
/* "exclusive", "time-slicing", ...; part of the output's format. */
extern const char *const plan_mode_names[PLAN_MODES];

/*
 * Measured costs of sharing on one GPU model (gpuslice bench --calibration): the loss while two or more pods have
 * work, and the cost of other pods' bandwidth under MPS. NaN: the default for all GPUs.
 */
struct plan_calibration {
	const struct plan_gpu *gpu;
	double sigma_time_slicing, sigma_fair_share, kappa;
};
#define PLAN_CALIBRATIONS_MAX 64

struct plan_policy {
	unsigned modes;      /* bit: enum plan_mode */
	unsigned capacities; /* bit: enum plan_capacity */
	double headroom;     /* share of a GPU's memory that stays free */
	double rho_max;      /* share of a GPU's time that open workloads may demand */
	double max_slowdown; /* for workloads without an SLO; 0: any */
	uint32_t pods_per_gpu;
	/* For CUDA contexts beside mem_peak_mib, if a workload does not give it. */
	uint32_t context_mib;
	const struct plan_calibration *calibrations; /* the last one for a GPU applies */
	size_t n_calibrations;
};

/* The limit of the slowdown: the workload's own, or the policy's if the workload has no SLO at all; 0: none. */
double plan_get_max_slowdown(const struct plan_policy *p, const struct plan_slo *s);

/* --- plans --- */

/* Why a placement is not possible. The words of plan_reason_names are part of the output's format. */
enum plan_reason {
	PLAN_FITS,
	PLAN_NO_MEMORY,
	PLAN_NO_ISOLATION_IN_MODE,
	PLAN_MISSES_SLO,
	PLAN_RHO,
	PLAN_MIG_GEOMETRY,
	PLAN_MIG_UNSUPPORTED,
	PLAN_ARCH,
	PLAN_MODEL_NOT_ALLOWED,
	PLAN_HOST_CPU,
	PLAN_HOST_MEMORY,
	PLAN_PRICE_UNKNOWN,
	PLAN_REGION,
	PLAN_PROFILE_INCOMPLETE,
	PLAN_REASONS
};
extern const char *const plan_reason_names[PLAN_REASONS];

struct plan_tenant {
	uint32_t workload;
	uint16_t gpu;        /* of the node */
	uint16_t profile;    /* MIG: position in the layout */
	uint32_t memory_mib; /* of its slice; 0: no limit */
};

struct plan_node {
	const struct plan_offer *offer;
	enum plan_mode mode;
	uint32_t slots; /* time-slicing, MPS: replicas of each GPU; else 0 */
	uint32_t n;
	struct plan_tenant *tenants; /* by GPU */
};
