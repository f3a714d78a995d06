/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a plan is made of and what it is: workloads, GPUs, instance types with their offers, what the user
 * allows; and nodes with what runs on them. Plain data, without I/O.
 *
 * Money is in nano-units of one currency (io/price/price.h), memory in MiB, processors in thousandths, times in
 * seconds, shares from 0 to 1.
 */
#include "model/mig/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_GPUS_MAX      64 /* models of GPUs */
#define PLAN_WORKLOADS_MAX 20000
#define PLAN_REPLICAS_MAX  100000 /* of all workloads together */
#define PLAN_PODS_MAX      64     /* on one GPU */
#define PLAN_NODE_GPUS_MAX 16

/* ---- numbers ---------------------------------------------------------------------------------------- */

/* Where a number comes from, better ones first: what is made of several is as good as the worst. */
enum plan_origin { PLAN_MEASURED, PLAN_DERIVED, PLAN_DEFAULT, PLAN_ORIGINS };
extern const char *const plan_origin_names[PLAN_ORIGINS];

struct plan_number {
	double v;
	enum plan_origin origin;
	bool known;
};

/* How far off a prediction made of such numbers may be: 0.10, 0.25, 0.50. */
double plan_band(enum plan_origin origin);

/* The end of a noun of which there are @n. */
static inline const char *plan_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* ---- GPUs and instances ------------------------------------------------------------------------------- */

struct plan_gpu {
	const char *name;    /* "A100-SXM4-40GB", as the catalogues have it */
	const char *product; /* of the label nvidia.com/gpu.product; "" if unknown */
	uint32_t multiprocessors;
	uint32_t multiprocessors_mig; /* in MIG mode */
	uint32_t memory_mib;
	double bandwidth_gb_s, tflops; /* fp16, dense; 0: not known */
	double power_w;
	uint32_t cc_major, cc_minor;
	const struct mig_layout *mig; /* NULL: no MIG */
};

enum plan_capacity { PLAN_ON_DEMAND, PLAN_SPOT };

/* An instance type in one region, for one price. */
struct plan_offer {
	const char *type, *region, *arch, *currency;
	enum plan_capacity capacity;
	const struct plan_gpu *gpu;
	uint32_t gpus;      /* logical ones */
	uint32_t gpu_milli; /* 1000; less: a part of a GPU that the provider cuts off */
	uint32_t gpu_memory_mib;
	uint32_t cpu_milli, memory_mib; /* allocatable */
	int64_t nano_per_hour;
	int64_t low, high; /* spot: prices of zones; else 0 */
	/* Spot: thousandths of an interruption of a node in a month, from and to; 0, 0: not known. */
	uint32_t interrupt_low_milli, interrupt_high_milli;
	const char *source, *stamp;
	bool has_mig;
	uint32_t vcpus, node_memory_mib; /* of the machine, with what is not allocatable */
};

/* ---- workloads ------------------------------------------------------------------------------------------ */

enum plan_kind { PLAN_OPEN, PLAN_CLOSED, PLAN_BATCH, PLAN_TRAIN };

/* Each includes those before it. */
enum plan_isolation { PLAN_NO_ISOLATION, PLAN_MEMORY, PLAN_FAULT, PLAN_HARDWARE };

/* 0: not asked for. */
struct plan_slo {
	double p50_s, p95_s, p99_s;
	double min_rate; /* requests per second of each replica */
	double max_slowdown;
};
bool plan_has_slo(const struct plan_slo *s); /* anything is asked for */

struct plan_workload {
	const char *name;
	const char *file; /* for messages */
	uint32_t line;
	uint32_t replicas;
	enum plan_kind kind;
	const struct plan_gpu *ref; /* where it was measured; NULL: not said */
	struct plan_number solo_s, busy, sm_active, sm_occupancy, dram, u, u_bw, mem_peak_mib,
		context_mib, rate, arrival_cv, burst, power_w;
	const char *
		disturbed; /* by what, while it was measured: no figure is better than derived; NULL */
	uint32_t cpu_milli, memory_mib; /* of the host, each replica */
	uint32_t gpus;                  /* whole ones of each replica, if more than 1 */
	struct plan_slo slo;
	enum plan_isolation isolation;
	bool checkpointable, spot_ok;
	bool anti_affinity; /* its replicas are on nodes of their own, */
	bool object_apart;  /* as its manifest says already */
	double restart_s, warmup_s;
	uint64_t gpus_allowed; /* bit: position in the list of GPUs */
	/* Of the object in Kubernetes that it is, where that is known, else NULL: "deployment", the container that uses
	 * the GPU, the resource that it asks for today, and its namespace if it names one. */
	const char *object_kind, *object_container, *object_resource, *object_space;
};

/* ---- what the user allows -------------------------------------------------------------------------------- */

enum plan_mode {
	PLAN_EXCLUSIVE,
	PLAN_TIME_SLICING,
	PLAN_SLICES,
	PLAN_MPS,
	PLAN_MIG,
	PLAN_MODES
};
extern const char *const plan_mode_names[PLAN_MODES];

/*
 * What sharing costs on one model of GPU, as it was measured there (gpuslice bench --calibration): what pods lose
 * together while two or more have work, and what others' bandwidth costs under MPS. NaN: as for all GPUs.
 */
struct plan_calibration {
	const struct plan_gpu *gpu;
	double sigma_time_slicing, sigma_fair_share, kappa;
};
#define PLAN_CALIBRATIONS_MAX 64

struct plan_policy {
	unsigned modes;      /* bit: enum plan_mode */
	unsigned capacities; /* bit: enum plan_capacity */
	double headroom;     /* of a GPU's memory that stays free */
	double rho_max;      /* of a GPU's time that open workloads may ask for */
	double max_slowdown; /* of those without one of their own; 0: any */
	uint32_t pods_per_gpu;
	uint32_t
		context_mib; /* for CUDA contexts beside mem_peak_mib, of workloads that do not say it */
	const struct plan_calibration *calibrations; /* of a GPU the last one goes */
	size_t n_calibrations;
};

/* How much slower it may be: its own limit, or the policy's where it has no SLO at all; 0: any. */
double plan_get_max_slowdown(const struct plan_policy *p, const struct plan_slo *s);

/* ---- plans -------------------------------------------------------------------------------------------------- */

/* Why something cannot be; the words of plan_reason_names are part of the output's format. */
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
