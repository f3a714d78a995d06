/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a node's GPUs are, as one look at NVML found them. Plain data of fixed size, so that the
 * worker process that talks to NVML can send it through a socket pair as it stands (same build on
 * both ends), and the agent can keep and compare it.
 *
 * A GPU of which a field could not be read is still listed: .fault says what and .reason why; the
 * other GPUs are not touched by it. Index spaces: `struct gpu.index` is NVML's enumeration order;
 * the position in inventory.gpus is ours and only valid for that inventory.
 * Thread: any (pure data).
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_UUID_MAX   96
#define GPU_NAME_MAX   96
#define GPU_BUS_ID_MAX 32
#define GPU_REASON_MAX 192
#define GPU_NODE_MAX   256 /* GPUs of one node that we handle */
#define GPU_MIG_MAX    16  /* MIG devices of one GPU; 7 is the most so far */

enum gpu_fault {
	GPU_OK,
	GPU_FAULT_FIELD, /* a field that we need could not be read */
	GPU_FAULT_LOST,  /* NVML says that the GPU is lost (fell off the bus) */
	GPU_FAULT_RESET, /* NVML says that the GPU needs a reset */
	GPU_FAULT_STUCK, /* a call did not come back in time */
	GPU_FAULT_GONE,  /* known before, not enumerated any more */
};

/* What the driver itself says it needs (NVML field 230), where it can say so. */
enum gpu_recovery {
	GPU_RECOVERY_UNKNOWN, /* the driver or the GPU has no such field */
	GPU_RECOVERY_NONE,
	GPU_RECOVERY_RESET_GPU,
	GPU_RECOVERY_REBOOT,
	GPU_RECOVERY_DRAIN_P2P,
	GPU_RECOVERY_DRAIN_RESET,
};

/*
 * Health signals: what NVML reports about a GPU that answers. Those from GPU_SIGNAL_STORED_ on are the
 * values of enum gpu_recovery. Their names, texts and default policies: model/health/signal.c.
 */
enum gpu_signal {
	GPU_SIGNAL_REMAP_FAILED,    /* a memory row could not be remapped */
	GPU_SIGNAL_REMAP_PENDING,   /* a remapped row takes effect with the next reset */
	GPU_SIGNAL_PAGES_PENDING,   /* a retired page takes effect with the next reboot */
	GPU_SIGNAL_ECC_VOLATILE,    /* uncorrected ECC errors since the driver was loaded */
	GPU_SIGNAL_ECC_AGGREGATE,   /* uncorrected ECC errors in the GPU's lifetime */
	GPU_SIGNAL_DRIVER_MISMATCH, /* the library on disk does not fit the kernel module */
	GPU_SIGNAL_STORED_,
	GPU_SIGNAL_RESET = GPU_SIGNAL_STORED_,
	GPU_SIGNAL_REBOOT,
	GPU_SIGNAL_DRAIN_P2P,
	GPU_SIGNAL_DRAIN_RESET,
	GPU_SIGNAL_COUNT_,
};

struct gpu {
	uint32_t index;          /* NVML enumeration order */
	uint32_t minor;          /* of /dev/nvidiaN; valid if has_minor */
	char uuid[GPU_UUID_MAX]; /* "GPU-..."; "" if it could not be read */
	char name[GPU_NAME_MAX];
	char bus_id[GPU_BUS_ID_MAX];  /* NVML form, "00000000:00:1E.0"; "" if unknown */
	int32_t numa_node;            /* -1: unknown */
	uint32_t cc_major, cc_minor;  /* CUDA compute capability; 0.0 if unknown */
	uint64_t memory_total_bytes;  /* 0: unknown */
	uint64_t memory_used_bytes;   /* includes what the driver reserves */
	uint64_t memory_usable_bytes; /* what CUDA calls total: without that; 0: unknown */
	bool has_minor;
	bool mig_unknown; /* MIG mode could not be read: the next three say nothing */
	bool mig_capable;
	bool mig_enabled;
	bool mig_pending; /* another MIG mode waits for a reset */
	bool mig_unsettled; /* its MIG devices changed while they were read: they are those of before */
	bool changing;      /* the agent's word, not NVML's: its MIG layout is being changed, so
				    what stands in the inventory may stay, and nothing is missed */
	bool xid_events;    /* the GPU reports XIDs through NVML events */
	uint32_t pci_class; /* 0x030200; 0: unknown */
	bool fabric_attached;  /* fabric state completed, status success, UUID not zero */
	char cluster_uuid[40]; /* of the fabric; "" unless attached */
	uint32_t clique_id;
	enum gpu_recovery recovery;
	uint32_t signals_known; /* bit: enum gpu_signal below GPU_SIGNAL_STORED_ */
	uint32_t
		signals_failed; /* likewise: NVML has it and could not read it now; .recovery is the
				    bit of GPU_SIGNAL_STORED_ */
	uint64_t signals[GPU_SIGNAL_STORED_]; /* valid if known; 0: clear, else 1 or a count */
	enum gpu_fault fault;
	int32_t nvml_code;           /* of the call behind the fault; 0 if none */
	char reason[GPU_REASON_MAX]; /* of the fault, for people; "" without */
};

/* How close two GPUs are. NVML's topology levels, from close to far. */
enum gpu_level {
	GPU_LEVEL_SAME_BOARD,
	GPU_LEVEL_SINGLE_SWITCH,
	GPU_LEVEL_MULTI_SWITCH,
	GPU_LEVEL_HOST_BRIDGE,
	GPU_LEVEL_SAME_CPU,
	GPU_LEVEL_CROSS_CPU,
	GPU_LEVEL_UNKNOWN,
};

struct gpu_link {
	uint8_t level;   /* enum gpu_level */
	uint8_t nvlinks; /* links between the two, 0..36 */
	uint8_t p2p; /* 1 + enum gpu_p2p, from the first of the two to the second; 0: not asked */
};

/* Whether the one can reach the other's memory over NVLink. NVML's numbers. */
enum gpu_p2p {
	GPU_P2P_OK,
	GPU_P2P_CHIPSET_NOT_SUPPORTED,
	GPU_P2P_GPU_NOT_SUPPORTED,
	GPU_P2P_TOPOLOGY_NOT_SUPPORTED,
	GPU_P2P_DISABLED_BY_REGKEY,
	GPU_P2P_NOT_SUPPORTED,
	GPU_P2P_UNKNOWN,
};

#define GPU_PROFILE_MAX 32

/*
 * One MIG device, under the GPU that it is cut from. One of which something cannot be read is listed
 * with a .reason; without it there are a UUID, a profile and the minors. A UUID may come again for
 * another profile, since it is made of the ids of GPU, GI and CI, and those are places.
 */
struct gpu_mig {
	uint32_t gpu;   /* position in the inventory */
	uint32_t index; /* in NVML's list of that GPU's MIG devices */
	uint32_t gi, ci;
	char uuid[GPU_UUID_MAX];       /* "MIG-..."; "" if it could not be read */
	char profile[GPU_PROFILE_MAX]; /* "1g.5gb", "1c.3g.20gb", "1g.10gb+me" */
	uint64_t memory_mib;           /* what CUDA calls total, too */
	uint32_t multiprocessors, gi_slices, ci_slices;
	uint32_t copy, decoder, encoder, jpeg, ofa; /* engines */
	bool placed;
	uint32_t start, size; /* of its GPU instance in memory slots; valid if placed */
	bool has_minors;
	uint32_t gi_minor,
		ci_minor; /* N of /dev/nvidia-caps/nvidia-capN; valid if has_minors */
	char reason[GPU_REASON_MAX]; /* why it cannot be used, for people; "": it can */
};

/* A process that has a GPU open, as NVML knows it. */
struct gpu_process {
	uint64_t bytes;  /* of GPU memory; GPU_BYTES_UNKNOWN */
	uint32_t pid;    /* in our PID namespace */
	uint32_t gi, ci; /* MIG instances; GPU_NO_INSTANCE: the GPU is not in MIG mode */
	uint32_t mps;    /* 1: it is a client of MPS */
};

#define GPU_BYTES_UNKNOWN UINT64_MAX
#define GPU_NO_INSTANCE   UINT32_MAX

struct inventory {
	char driver_version[80]; /* "580.159.04" */
	char nvml_version[80];
	int32_t cuda_version;   /* 13000 = 13.0; 0: unknown */
	uint32_t n;             /* <= GPU_NODE_MAX */
	struct gpu *gpus;       /* [n], sorted by index */
	struct gpu_link *links; /* [n * n], row-major; NULL: nothing known */
	uint32_t n_mig;
	struct gpu_mig *mig; /* [n_mig], by GPU, then index; NULL without */
};

/* An empty inventory, or one with @n zeroed GPUs and .links allocated, all unknown. */
int inventory_new(struct inventory **ret, uint32_t n, struct error *err) MUST_USE;
int inventory_copy(struct inventory **ret, const struct inventory *from,
	struct error *err) MUST_USE;
struct inventory *inventory_free(struct inventory *inv); /* returns NULL */
DEFINE_CLEANUP(struct inventory *, inventory_free)

/* Adds copies of @n MIG devices (at most GPU_MIG_MAX) of the GPU at position @gpu, behind those that
 * are there. */
int inventory_add_mig(struct inventory *inv, uint32_t gpu, const struct gpu_mig *mig,
	uint32_t n, struct error *err) MUST_USE;

/* Copies the MIG devices of the GPU at position @gpu and returns their number. */
uint32_t inventory_mig_of(const struct inventory *inv, uint32_t gpu,
	struct gpu_mig ret[GPU_MIG_MAX]);

/* Borrowed; NULL: no such GPU. */
const struct gpu *inventory_find(const struct inventory *inv, const char *uuid);

/* GPU_LEVEL_UNKNOWN and no links if either is out of range or nothing is known. */
struct gpu_link inventory_link(const struct inventory *inv, uint32_t a, uint32_t b);

const char *gpu_fault_name(enum gpu_fault fault); /* "lost"; static */

/* Whether @s is known of @g. Then *ret (may be NULL) is 0 if it is clear, else 1 or a count. */
bool gpu_signal(const struct gpu *g, enum gpu_signal s, uint64_t *ret);

/* Whether @count is how many XIDs there were: of a GPU that reports none, 0 says nothing. */
static inline bool gpu_xids_known(const struct gpu *g, uint64_t count)
{
	return g->xid_events || count > 0;
}

/* Makes @s, one below GPU_SIGNAL_STORED_, known. */
void gpu_signal_set(struct gpu *g, enum gpu_signal s, uint64_t value);
