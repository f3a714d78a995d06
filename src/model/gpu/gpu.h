/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The GPUs of a node, as one NVML probe found them. Plain data of fixed size. The worker sends it to the
 * agent through a socket pair as it is: both have the same build. The agent stores and compares the data.
 *
 * A GPU with an unreadable field is still listed: .fault has the kind and .reason the text. The fault does
 * not affect the other GPUs.
 *
 * Two index spaces: `struct gpu.index` is NVML's enumeration order. The position in inventory.gpus is ours
 * and is valid for that inventory only.
 * Thread: any (pure data).
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_UUID_MAX   96
#define GPU_NAME_MAX   96
#define GPU_BUS_ID_MAX 32
#define GPU_REASON_MAX 192
#define GPU_NODE_MAX   256 /* limit of GPUs of one node */
#define GPU_MIG_MAX    16  /* MIG devices of one GPU; the largest number so far is 7 */

enum gpu_fault {
	GPU_OK,
	GPU_FAULT_FIELD, /* a required field could not be read */
	GPU_FAULT_LOST,  /* NVML reports that the GPU is lost (fell off the bus) */
	GPU_FAULT_RESET, /* NVML reports that the GPU needs a reset */
	GPU_FAULT_STUCK, /* an NVML call did not return in time */
	GPU_FAULT_GONE,  /* known before, no longer enumerated */
};

/* Recovery action that the driver asks for (NVML field 230), where the driver has that field. */
enum gpu_recovery {
	GPU_RECOVERY_UNKNOWN, /* the driver or the GPU has no such field */
	GPU_RECOVERY_NONE,
	GPU_RECOVERY_RESET_GPU,
	GPU_RECOVERY_REBOOT,
	GPU_RECOVERY_DRAIN_P2P,
	GPU_RECOVERY_DRAIN_RESET,
};

/* Health signals: what NVML reports about a GPU that answers. The signals from GPU_SIGNAL_STORED_ on are
 * the values of enum gpu_recovery. Names, texts and default policies: model/health/policy.c. */
enum gpu_signal {
	GPU_SIGNAL_REMAP_FAILED,    /* a memory row could not be remapped */
	GPU_SIGNAL_REMAP_PENDING,   /* a remapped row takes effect with the next reset */
	GPU_SIGNAL_PAGES_PENDING,   /* a retired page takes effect with the next reboot */
	GPU_SIGNAL_ECC_VOLATILE,    /* uncorrected ECC errors since the driver was loaded */
	GPU_SIGNAL_ECC_AGGREGATE,   /* uncorrected ECC errors in the GPU's lifetime */
	GPU_SIGNAL_DRIVER_MISMATCH, /* the library on disk does not match the kernel module */
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
	char uuid[GPU_UUID_MAX]; /* "GPU-..."; "": unreadable */
	char name[GPU_NAME_MAX];
	char bus_id[GPU_BUS_ID_MAX]; /* NVML form, "00000000:00:1E.0"; "": unknown */
	int32_t numa_node;           /* -1: unknown */
	uint32_t cc_major, cc_minor; /* CUDA compute capability; 0.0: unknown */
	uint64_t memory_total_bytes; /* 0: unknown */
	uint64_t memory_used_bytes;  /* includes the driver's reserved memory */
	/* CUDA's total: without the driver's reserved memory; 0: unknown */
	uint64_t memory_usable_bytes;
	bool has_minor;
	bool mig_unknown; /* MIG mode unreadable: the next three are meaningless */
	bool mig_capable;
	bool mig_enabled;
	bool mig_pending; /* a mode change takes effect with the next reset */
	/* MIG devices changed during the probe; the older ones are listed */
	bool mig_unsettled;
	/* Set by the agent, not NVML: the MIG layout is changing. The listed devices may stay, and
	 * none is missing. */
	bool changing;
	bool xid_events;    /* the GPU reports XIDs as NVML events */
	uint32_t pci_class; /* 0x030200; 0: unknown */
	/* fabric state is completed, status is success, UUID is not zero */
	bool fabric_attached;
	char cluster_uuid[40]; /* of the fabric; "": not attached */
	uint32_t clique_id;
	enum gpu_recovery recovery;
	uint32_t signals_known; /* bit: enum gpu_signal below GPU_SIGNAL_STORED_ */
	/* Bit: enum gpu_signal. NVML has the signal, but the call failed now. Bit GPU_SIGNAL_STORED_:
	 * .recovery. */
	uint32_t signals_failed;
	uint64_t signals[GPU_SIGNAL_STORED_]; /* valid if known; 0: clear, else 1 or a count */
	enum gpu_fault fault;
	int32_t nvml_code;           /* of the call that caused the fault; 0: none */
	char reason[GPU_REASON_MAX]; /* readable text of the fault; "": none */
};

/* Distance of two GPUs: NVML's topology levels, from close to far. */
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
	uint8_t p2p;     /* 1 + enum gpu_p2p, from the first GPU to the second; 0: not asked */
};

/* Whether one GPU can access the other's memory over NVLink. NVML's numbers. */
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
 * One MIG device of a GPU. A device with unreadable data is listed with a .reason. Without a .reason the
 * UUID, the profile and the minors are known. A UUID can come back for another profile: the driver derives
 * it from the IDs of GPU, GI and CI, which are places on the GPU.
 */
struct gpu_mig {
	uint32_t gpu;   /* position in the inventory */
	uint32_t index; /* in NVML's list of that GPU's MIG devices */
	uint32_t gi, ci;
	char uuid[GPU_UUID_MAX];       /* "MIG-..."; "": unreadable */
	char profile[GPU_PROFILE_MAX]; /* "1g.5gb", "1c.3g.20gb", "1g.10gb+me" */
	uint64_t memory_mib;           /* same as CUDA's total */
	uint32_t multiprocessors, gi_slices, ci_slices;
	uint32_t copy, decoder, encoder, jpeg, ofa; /* engines */
	bool placed;
	uint32_t start, size; /* of the GPU instance, in memory slots; valid if placed */
	bool has_minors;
	/* N of /dev/nvidia-caps/nvidia-capN; valid if has_minors */
	uint32_t gi_minor, ci_minor;
	/* readable text of why the device is unusable; "": usable */
	char reason[GPU_REASON_MAX];
};

/* A process that has a GPU open, as NVML reports it. */
struct gpu_process {
	uint64_t bytes;  /* of GPU memory; GPU_BYTES_UNKNOWN */
	uint32_t pid;    /* in the agent's PID namespace */
	uint32_t gi, ci; /* MIG instances; GPU_NO_INSTANCE: the GPU is not in MIG mode */
	uint32_t mps;    /* 1: a client of MPS */
};

#define GPU_BYTES_UNKNOWN UINT64_MAX
#define GPU_NO_INSTANCE   UINT32_MAX

struct inventory {
	char driver_version[80]; /* "580.159.04" */
	char nvml_version[80];
	int32_t cuda_version;   /* 13000 = 13.0; 0: unknown */
	uint32_t n;             /* <= GPU_NODE_MAX */
	struct gpu *gpus;       /* [n], sorted by index */
	struct gpu_link *links; /* [n * n], row-major; NULL: none known */
	uint32_t n_mig;
	struct gpu_mig *mig; /* [n_mig], by GPU, then index; NULL: none */
};

/* An inventory with @n zeroed GPUs and .links of unknown level; 0: empty. ERR_LIMIT: more than GPU_NODE_MAX. */
int inventory_new(struct inventory **ret, uint32_t n, struct error *err) MUST_USE;
/* A copy of all of @from, which shares no memory with it. ERR_NOMEM. */
int inventory_copy(struct inventory **ret, const struct inventory *from,
	struct error *err) MUST_USE;
struct inventory *inventory_free(struct inventory *inv); /* returns NULL */
DEFINE_CLEANUP(struct inventory *, inventory_free)

/* Appends copies of @n MIG devices (at most GPU_MIG_MAX) of the GPU at position @gpu. */
int inventory_add_mig(struct inventory *inv, uint32_t gpu, const struct gpu_mig *mig,
	uint32_t n, struct error *err) MUST_USE;

/* Whether two MIG devices have the same memory, slices, multiprocessors and engines. */
bool gpu_mig_equal_capacity(const struct gpu_mig *a, const struct gpu_mig *b);

/* Copies the MIG devices of the GPU at position @gpu and returns their number. */
uint32_t inventory_mig_of(const struct inventory *inv, uint32_t gpu,
	struct gpu_mig ret[GPU_MIG_MAX]);

/* Borrowed; NULL: no such GPU. */
const struct gpu *inventory_find(const struct inventory *inv, const char *uuid);

/* GPU_LEVEL_UNKNOWN without links if a position is out of range or the link is unknown. */
struct gpu_link inventory_link(const struct inventory *inv, uint32_t a, uint32_t b);

const char *gpu_fault_name(enum gpu_fault fault); /* "lost"; static */

/* Whether signal @s of @g is known. If so, *ret (may be NULL) is 0 for clear, else 1 or a count. */
bool gpu_signal(const struct gpu *g, enum gpu_signal s, uint64_t *ret);

/* Whether @count is the real number of XIDs. For a GPU that reports no XIDs, 0 has no meaning. */
static inline bool gpu_xids_known(const struct gpu *g, uint64_t count)
{
	return g->xid_events || count > 0;
}

/* Makes @s, a signal below GPU_SIGNAL_STORED_, known. */
void gpu_signal_set(struct gpu *g, enum gpu_signal s, uint64_t value);
