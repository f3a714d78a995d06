/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a simulated node is: numbers and text of fixed width, the same in memory and in the state file
 * (testbed/sim/state.h).
 *
 * Keys. Everything about one GPU that an operator may choose is a row of SIM_KEYS. One name serves as the struct
 * member, the catalogue's YAML key, the node file's YAML key, the word after `gpuslice sim set`, and the JSON key
 * of `gpuslice sim show`. What NVML shows is either a key itself or a pure function of keys and time
 * (testbed/sim/derive.h).
 *
 * Thread: any; the module holds no state.
 */
#include "lib/base/error.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MAX_GPUS      256
#define SIM_MAX_LINKS     18
#define SIM_MAX_PROCESSES 128 /* on one GPU */
#define SIM_NAME_MAX      64
#define SIM_PATH_MAX      1024

#define SIM_NO_INSTANCE UINT32_MAX /* gi and ci of an object that is not in a MIG instance */
#define SIM_PCI_VENDOR  0x10DE
#define SIM_BUS_HIDDEN  UINT32_MAX /* a switch that the machine does not see */
#define SIM_GIB         (UINT64_C(1) << 30)

/*
 * T(member, size, help) text; U(member, min, max, help) 32-bit number; I the same with a sign; B(member, help)
 * bytes, also written "16Gi"; C(member, help) 64-bit counter. In the rows marked "0: derived" the simulator
 * computes the value from the load if the key is 0.
 */
/* clang-format off */
#define SIM_KEYS(T, U, I, B, C) \
	T(product, 48, "catalogue key of the product") \
	T(name, 96, "product name") \
	T(uuid, 48, "GPU-8-4-4-4-12 hexadecimal digits") \
	T(serial, 32, "board serial number") \
	T(vbios, 32, "VBIOS version") \
	T(part_number, 32, "board part number") \
	T(inforom, 16, "inforom image version") \
	U(minor, 0, 1023, "N of /dev/nvidiaN") \
	U(module_id, 0, 255, "slot on the baseboard") \
	U(pci_domain, 0, 0xFFFF, "PCI domain") \
	U(pci_bus, 0, 0xFF, "PCI bus") \
	U(pci_device, 0, 0x1F, "PCI device") \
	U(pci_device_id, 0, 0xFFFF, "PCI device id, vendor 10DE") \
	U(pci_subsystem_id, 0, 0xFFFFFFFF, "PCI subsystem id with its vendor") \
	U(pcie_switch, 0, 255, "GPUs with the same number share a PCIe switch") \
	I(numa_node, -1, 63, "NUMA node, -1: none") \
	U(brand, 0, 20, "NVML brand") \
	U(architecture, 2, 20, "NVML architecture") \
	U(cc_major, 1, 99, "compute capability, major") \
	U(cc_minor, 0, 9, "compute capability, minor") \
	U(sm_count, 1, 1024, "multiprocessors") \
	U(cores, 1, 1000000, "CUDA cores") \
	U(memory_bus_bits, 1, 16384, "memory bus width") \
	U(virtualization, 0, 4, "0 none, 1 pass-through") \
	U(mig_capable, 0, 1, "MIG mode can be asked for") \
	U(mig_reset_required, 0, 1, "MIG mode changes only with a reset or reboot") \
	U(mig_busy, 0, 1, "a client holds the GPU: no change of MIG mode, no new GPU instance") \
	U(mig_query_needs_mode, 0, 1, "MIG profiles are told only with MIG on, as by old drivers") \
	U(gpm, 0, 1, "GPM metrics are there") \
	U(mem_temp, 0, 1, "memory temperature sensor is there") \
	C(event_types, "mask of supported event types") \
	B(memory_total, "memory, as NVML shows it") \
	B(memory_reserved, "kept by the driver") \
	B(memory_other, "used, but by no process of the list") \
	B(bar1_total, "BAR1 aperture") \
	B(bar1_used, "BAR1 in use") \
	U(util_gpu, 0, 100, "load in percent, at least the sum of the processes") \
	U(util_memory, 0, 100, "memory bandwidth in percent") \
	U(util_encoder, 0, 100, "percent") \
	U(util_decoder, 0, 100, "percent") \
	U(util_jpg, 0, 100, "percent") \
	U(util_ofa, 0, 100, "percent") \
	U(power_mw, 0, 10000000, "0: derived from the load") \
	U(power_idle_mw, 0, 10000000, "without load") \
	U(power_limit_mw, 0, 10000000, "enforced limit") \
	U(power_default_mw, 0, 10000000, "default limit") \
	U(power_min_mw, 0, 10000000, "lowest limit") \
	U(power_max_mw, 0, 10000000, "highest limit") \
	U(temperature_c, 0, 200, "0: derived from the load") \
	U(temperature_idle_c, 0, 200, "without load") \
	U(temperature_load_c, 0, 200, "at full load") \
	U(temperature_shutdown_c, 0, 200, "threshold") \
	U(temperature_slowdown_c, 0, 200, "threshold") \
	U(temperature_mem_max_c, 0, 200, "threshold, 0: none") \
	U(temperature_gpu_max_c, 0, 200, "threshold") \
	U(clock_idle_mhz, 0, 10000, "graphics and SM clock without load") \
	U(clock_sm_max_mhz, 0, 10000, "graphics and SM clock at most") \
	U(clock_video_idle_mhz, 0, 10000, "video clock without load") \
	U(clock_video_max_mhz, 0, 10000, "video clock at most") \
	U(clock_mem_idle_mhz, 0, 20000, "memory clock without load") \
	U(clock_mem_max_mhz, 0, 20000, "memory clock at most") \
	C(clock_reasons, "why clocks are not higher, 0: derived") \
	U(pstate_idle, 0, 15, "performance state without load") \
	U(pcie_gen, 1, 7, "PCIe generation now") \
	U(pcie_gen_max, 1, 7, "PCIe generation at most") \
	U(pcie_width, 1, 32, "PCIe lanes now") \
	U(pcie_width_max, 1, 32, "PCIe lanes at most") \
	U(pcie_tx_kbps, 0, 4000000000, "KB/s from the GPU at full load") \
	U(pcie_rx_kbps, 0, 4000000000, "KB/s to the GPU at full load") \
	U(pcie_replays, 0, 4294967295, "PCIe replay counter") \
	U(fans, 0, 8, "number of fans") \
	U(fan_percent, 0, 100, "fan speed") \
	U(persistence, 0, 1, "persistence mode") \
	U(compute_mode, 0, 3, "0 default, 2 prohibited, 3 exclusive process") \
	U(ecc, 0, 1, "ECC mode now") \
	U(ecc_pending, 0, 1, "ECC mode after the next reset") \
	C(ecc_corrected_volatile, "corrected errors since the driver was loaded") \
	C(ecc_uncorrected_volatile, "uncorrected errors since the driver was loaded") \
	C(ecc_corrected_aggregate, "corrected errors of the board's life") \
	C(ecc_uncorrected_aggregate, "uncorrected errors of the board's life") \
	U(retired_sbe, 0, 64, "pages retired for corrected errors") \
	U(retired_dbe, 0, 64, "pages retired for uncorrected errors") \
	U(retired_pending, 0, 1, "pages wait for a reboot") \
	U(remapped_corrected, 0, 512, "rows remapped for corrected errors") \
	U(remapped_uncorrected, 0, 512, "rows remapped for uncorrected errors") \
	U(remapped_pending, 0, 1, "rows wait for a reset") \
	U(remapped_failure, 0, 1, "a row could not be remapped") \
	U(recovery_action, 0, 4, "the driver asks for: 0 nothing, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset") \
	U(remap_banks, 0, 100000, "memory banks with all spare rows left") \
	C(violation_power_ns, "time held back by the power limit") \
	C(violation_thermal_ns, "time held back by temperature") \
	C(violation_base_ns, "time below the base clocks; grows where the host lets the GPU be late") \
	U(nvlink_links, 0, 18, "links of the product") \
	U(nvlink_version, 0, 7, "NVLink generation") \
	U(nvlink_mbps, 0, 1000000, "speed of one link") \
	C(nvlink_errors, "CRC errors of each link") \
	U(fabric_state, 0, 3, "NVSwitch fabric: 0 not supported, 3 completed") \
	U(cuda_slice_us, 1, 10000000, "CUDA: time slice of a context") \
	U(cuda_switch_us, 0, 10000000, "CUDA: time lost when another context takes its turn") \
	U(cuda_preempt_us, 0, 10000000, "CUDA: time lost besides when kernels of the last one still ran") \
	U(cuda_mps, 0, 1, "CUDA: new contexts run side by side, as under MPS") \
	U(cuda_copy_mbps, 1, 10000000, "CUDA: MB/s of a copy to or from the host") \
	U(cuda_local_mbps, 1, 100000000, "CUDA: MB/s of a copy inside the GPU") \
	U(cuda_free_ms, 0, 600000, "CUDA: memory of a dead process comes back so late") \
	B(cuda_context, "CUDA: memory of a process's first context, 0: derived")
/* clang-format on */

#define SIM_MEMBER_T(member, size, help)     char member[size];
#define SIM_MEMBER_U(member, min, max, help) uint32_t member;
#define SIM_MEMBER_I(member, min, max, help) int32_t member;
#define SIM_MEMBER_64(member, help)          uint64_t member;

struct sim_keys {
	SIM_KEYS(SIM_MEMBER_T, SIM_MEMBER_U, SIM_MEMBER_I, SIM_MEMBER_64, SIM_MEMBER_64)
};

enum sim_key_type { SIM_KEY_TEXT, SIM_KEY_U32, SIM_KEY_I32, SIM_KEY_BYTES, SIM_KEY_COUNTER };

struct sim_key {
	const char *name;
	enum sim_key_type type;
	uint32_t offset, size; /* in struct sim_keys */
	int64_t min, max;
	const char *help;
};

/* The rows of SIM_KEYS, in order; sim_key_count of them. */
extern const struct sim_key sim_key_table[];
extern const size_t sim_key_count;

const struct sim_key *sim_key_find(const char *name); /* NULL: no such key */

/*
 * Reads @text as a value of @key into @keys. The text of an error has the expected and the found value. The caller
 * adds the position.
 */
int sim_key_set(struct sim_keys *keys, const struct sim_key *key, const char *text,
	struct error *err) MUST_USE;

/* Writes the value as text; numbers in decimal. */
void sim_key_format(const struct sim_keys *keys, const struct sim_key *key, char *ret,
	size_t cap);

/*
 * Groups of NVML functions that can be made to fail together, with `gpuslice sim fail GPU GROUP CODE` or `fail:`
 * in a node file. A product without a feature has code 3 for its group.
 */
/* clang-format off */
#define SIM_GROUPS(X) \
	X(ACCOUNTING, "accounting") X(ADDRESSING_MODE, "addressing-mode") X(AFFINITY, "affinity") \
	X(ARCHITECTURE, "architecture") X(BAR1, "bar1") X(BOARD, "board") X(BRAND, "brand") \
	X(BUS_WIDTH, "bus-width") X(CLOCKS, "clocks") X(CLOCK_REASONS, "clock-reasons") \
	X(COMPUTE_CAPABILITY, "compute-capability") X(COMPUTE_MODE, "compute-mode") \
	X(CORES, "cores") X(ECC, "ecc") X(ECC_COUNTERS, "ecc-counters") X(ENERGY, "energy") \
	X(EVENTS, "events") X(FABRIC, "fabric") X(FAN, "fan") X(FIELD_VALUES, "field-values") \
	X(GPM, "gpm") X(HANDLE, "handle") X(INDEX, "index") X(INFOROM, "inforom") X(JPG_OFA, "jpg-ofa") \
	X(MARGIN, "margin") X(MEMORY, "memory") X(MIG, "mig") X(MINOR, "minor") \
	X(MODULE_ID, "module-id") X(NAME, "name") X(NUMA_NODE, "numa-node") X(NVLINK, "nvlink") \
	X(PCI, "pci") X(PCIE, "pcie") X(PERSISTENCE, "persistence") X(PLATFORM, "platform") \
	X(POWER, "power") X(POWER_LIMIT, "power-limit") X(PROCESSES, "processes") \
	X(PROCESS_UTILIZATION, "process-utilization") X(PSTATE, "pstate") \
	X(REMAPPED_ROWS, "remapped-rows") X(RETIRED_PAGES, "retired-pages") X(SERIAL, "serial") \
	X(TEMPERATURE, "temperature") X(THRESHOLDS, "thresholds") X(TOPOLOGY, "topology") \
	X(UTILIZATION, "utilization") X(UUID, "uuid") X(VBIOS, "vbios") \
	X(VIDEO, "video") X(VIOLATION, "violation") X(VIRTUALIZATION, "virtualization")
/* clang-format on */

#define SIM_GROUP_ENUM_(id, text) SIM_GROUP_##id,
enum sim_group { SIM_GROUPS(SIM_GROUP_ENUM_) SIM_GROUP_COUNT };
#undef SIM_GROUP_ENUM_
#define SIM_GROUP_ROOM 64
static_assert(SIM_GROUP_COUNT <= SIM_GROUP_ROOM,
	"raise SIM_GROUP_ROOM and the state's version");

/* "accounting", ... @group is below SIM_GROUP_COUNT. */
const char *sim_group_name(enum sim_group group);
/* False: unknown name. */
bool sim_group_find(const char *name, enum sim_group *ret);

/* A result code by number ("15") or by name ("GPU_IS_LOST", with or without NVML_ERROR_). */
bool sim_code_parse(const char *text, uint32_t *ret);
/* Without NVML_ERROR_; "UNKNOWN" for an unknown number. */
const char *sim_code_name(uint32_t code);

struct sim_link { /* one NVLink of one GPU */
	uint32_t active;
	uint32_t remote_type;               /* NVML_NVLINK_DEVICE_TYPE_* */
	uint32_t remote_slot;               /* of the GPU behind it */
	uint32_t remote_bus, remote_device; /* PCI address of the switch behind it */
};

enum sim_process_kind { SIM_PROCESS_COMPUTE, SIM_PROCESS_GRAPHICS, SIM_PROCESS_MPS };

struct sim_process {
	uint32_t pid;
	uint32_t kind; /* enum sim_process_kind */
	uint64_t memory_bytes;
	uint32_t sm_percent, mem_percent, enc_percent, dec_percent;
	uint32_t gi, ci; /* SIM_NO_INSTANCE: not in an instance */
	uint64_t started_us;
	char name[48];
};

/*
 * MIG of one GPU: mode and instances (the rules: testbed/sim/mig.h). A GPU never uses a serial twice (within 16
 * bits). So a handle of a destroyed instance differs from one of a newer instance with the same ids.
 */
#define SIM_MAX_GIS 8 /* on one GPU */
#define SIM_MAX_CIS 8 /* in one GPU instance */

struct sim_ci {
	uint32_t id;
	uint32_t number; /* NVML's enumerator of its profile, which is also the profile's id */
	uint32_t start, size; /* compute slices inside its GPU instance */
	uint32_t serial;
	uint32_t compute_mode;
};

struct sim_gi {
	uint32_t id;
	uint32_t profile; /* position in the product's table */
	uint32_t start;   /* memory slot */
	uint32_t serial;
	uint32_t ci_count, pad;
	struct sim_ci cis[SIM_MAX_CIS]; /* by id */
};

struct sim_mig {
	uint32_t enabled, pending; /* mode now, and after the next reset */
	uint32_t serial;           /* the last one used */
	uint32_t gi_count;
	uint64_t idle_bytes;            /* memory that the instances use without processes */
	struct sim_gi gis[SIM_MAX_GIS]; /* by id */
};

/* One GPU. The members that each call needs come first; few calls read the process table. */
struct sim_gpu {
	struct sim_keys keys;
	uint64_t energy_mj;            /* up to energy_at_ns */
	uint64_t energy_at_ns;         /* wall clock */
	uint64_t pcie_kb[2];           /* sent, received up to energy_at_ns */
	uint16_t fail[SIM_GROUP_ROOM]; /* NVML code that a group answers; 0: works */
	struct sim_link links[SIM_MAX_LINKS];
	uint32_t process_count;
	uint32_t process_load;   /* sum of sm_percent, at most 100 */
	uint64_t process_memory; /* sum of memory_bytes */
	struct sim_mig mig;
	struct sim_process processes[SIM_MAX_PROCESSES];
	struct sim_keys born; /* the values that a reset restores */
	uint16_t born_fail[SIM_GROUP_ROOM];
};

#define SIM_GPU_CORE_BYTES offsetof(struct sim_gpu, mig.gis)

/* Whether a slot holds a GPU, and which one in its history: a stale handle has an older epoch. */
struct sim_slot {
	uint32_t present;
	uint32_t epoch; /* counts the GPUs that were ever put into this slot */
	uint32_t lost;  /* fallen off the bus */
	uint32_t pad;
};

enum sim_driver {
	SIM_DRIVER_LOADED,
	SIM_DRIVER_UNLOADED,      /* init: 9 */
	SIM_DRIVER_MISMATCH,      /* init: 18 */
	SIM_DRIVER_NO_PERMISSION, /* init: 4 */
};

struct sim_node_info { /* the numbers that nearly every call reads */
	uint32_t nvml_major;
	uint32_t cuda_version;
	uint32_t driver;     /* enum sim_driver */
	uint32_t slot_count; /* slots ever used; later slots are empty */
	uint32_t level_switch, level_numa, level_far; /* NVML_TOPOLOGY_* between two GPUs */
	uint32_t p2p; /* NVML_P2P_STATUS_* of two GPUs without NVLink between them */
};

struct sim_node_head {
	char name[SIM_NAME_MAX];
	char spec[SIM_PATH_MAX]; /* GPUSLICE_SIM_NODE: model name or absolute path */
	uint64_t spec_hash;      /* of the node file's content; 0 for a model */
	uint64_t seed;           /* makes UUIDs and serials differ between nodes of one model */
	char driver_version[48];
	struct sim_node_info info;
	struct sim_slot slots[SIM_MAX_GPUS];
};

struct sim_node {
	struct sim_node_head head;
	struct sim_gpu gpus[SIM_MAX_GPUS];
};

/* State files are read and written as 64-bit words. */
static_assert(offsetof(struct sim_node_head, info) % 8 == 0, "words");
static_assert(sizeof(struct sim_node_info) % 8 == 0, "words");
static_assert(offsetof(struct sim_node_head, slots) % 8 == 0, "words");
static_assert(offsetof(struct sim_node, gpus) % 8 == 0, "words");
static_assert(sizeof(struct sim_gpu) % 8 == 0, "words");
static_assert(SIM_GPU_CORE_BYTES % 8 == 0, "words");
static_assert(offsetof(struct sim_gpu, processes) % 8 == 0, "words");

/*
 * GPUs in the order of NVML's index: their number, the slot of an index (false: no such GPU), and the index of a GPU by
 * its slot.
 */
uint32_t sim_node_count(const struct sim_node_head *head);
bool sim_node_slot_of_index(const struct sim_node_head *head, uint32_t index, uint32_t *ret);
uint32_t sim_node_index_of_slot(const struct sim_node_head *head, uint32_t slot);

/* "00000000:00:1E.0", the eight-digit upper-case form. @ret has 32 bytes. */
void sim_bus_id(const struct sim_keys *keys, char *ret);

/* Updates the sums after a change of the process table or of MIG instances. */
void sim_gpu_sum_processes(struct sim_gpu *gpu);
