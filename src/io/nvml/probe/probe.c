/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/probe/probe.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Superseded by the recovery action (230), but known to drivers without that field. */
#define FIELD_RESET_STATUS 226

void probe_crumb(struct probe *p, uint32_t gpu, unsigned step)
{
	struct worker_crumb c = {
		.count = ++p->count,
		.gpu = (uint16_t)(gpu < GPU_NODE_MAX ? gpu : WORKER_GPU_NONE),
		.step = (uint16_t)step,
	};

	/*
	 * Pairs with the load in client_check(). The store happens before the call, so a hanging call has its
	 * crumb.
	 */
	atomic_store_explicit(p->crumb, worker_crumb_pack(c), memory_order_release);
}

void probe_text(char *to, size_t cap, const char *from)
{
	size_t i = 0;

	for (; i + 1 < cap && from[i]; i++)
		to[i] = from[i] >= 0x20 && from[i] < 0x7f ? from[i] : '?';
	to[i] = '\0';
}

void probe_set_fault(struct gpu *g, enum gpu_fault fault, const char *why)
{
	if (g->fault != GPU_OK)
		return;
	g->fault = fault;
	probe_text(g->reason, sizeof g->reason, why);
}

static void set_call_fault(struct probe *p, struct gpu *g, enum gpu_fault fault,
	enum nvml_call call, nvmlReturn_t r)
{
	char text[GPU_REASON_MAX];

	if (g->fault == GPU_OK)
		g->nvml_code = (int32_t)r;
	(void)snprintf(text, sizeof text, "%s: %s", nvml_call_name(call),
		nvml_strerror(p->nvml, r));
	probe_set_fault(g, fault, text);
}

bool probe_optional(struct probe *p, struct gpu *g, enum nvml_call call, nvmlReturn_t r)
{
	if (r == NVML_ERROR_GPU_IS_LOST)
		set_call_fault(p, g, GPU_FAULT_LOST, call, r);
	else if (r == NVML_ERROR_RESET_REQUIRED)
		set_call_fault(p, g, GPU_FAULT_RESET, call, r);
	return r == NVML_SUCCESS;
}

bool probe_needed(struct probe *p, struct gpu *g, enum nvml_call call, nvmlReturn_t r)
{
	if (probe_optional(p, g, call, r))
		return true;
	set_call_fault(p, g, GPU_FAULT_FIELD, call, r);
	return false;
}

/* Skipped for a GPU that is lost or needs a reset: its calls can take long. */
#define OPTIONAL(name, ...)                                                   \
	(g->fault == GPU_OK || g->fault == GPU_FAULT_FIELD                    \
			? probe_optional(p, g, NVML_CALL_##name,              \
				  PROBE_CALL(p, g->index, name, __VA_ARGS__)) \
			: false)
#define NEEDED(name, ...) \
	probe_needed(p, g, NVML_CALL_##name, PROBE_CALL(p, g->index, name, __VA_ARGS__))

static void read_identity(struct probe *p, struct gpu *g, nvmlDevice_t d)
{
	char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
	nvmlPciInfo_t pci = { .domain = 0 };

	static_assert(sizeof text >= NVML_DEVICE_NAME_V2_BUFFER_SIZE, "one buffer for both");
	if (NEEDED(nvmlDeviceGetUUID, d, text, sizeof text)) {
		text[sizeof text - 1] = '\0';
		probe_text(g->uuid, sizeof g->uuid, text);
		if (!g->uuid[0])
			set_call_fault(p, g, GPU_FAULT_FIELD, NVML_CALL_nvmlDeviceGetUUID,
				NVML_ERROR_NO_DATA);
	}
	/* Read early: the PCI address identifies a GPU that gives nothing else. */
	if (OPTIONAL(nvmlDeviceGetPciInfo_v3, d, &pci)) {
		pci.busId[sizeof pci.busId - 1] = '\0';
		probe_text(g->bus_id, sizeof g->bus_id, pci.busId);
	}
	if (g->fault == GPU_FAULT_LOST || g->fault == GPU_FAULT_RESET)
		return;
	text[0] = '\0';
	if (NEEDED(nvmlDeviceGetName, d, text, sizeof text)) {
		text[sizeof text - 1] = '\0';
		probe_text(g->name, sizeof g->name, text);
	}
}

/* Version 1 counts memory reserved by the driver as used, version 2 separately. The result is the sum. */
static void read_gpu_memory(struct probe *p, struct gpu *g, nvmlDevice_t d)
{
	nvmlMemory_v2_t v2 = { .version = NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2) };
	nvmlMemory_t v1 = { .total = 0 };

	if (OPTIONAL(nvmlDeviceGetMemoryInfo_v2, d, &v2)) {
		g->memory_total_bytes = v2.total;
		g->memory_usable_bytes = v2.total > v2.reserved ? v2.total - v2.reserved : 0;
		if (__builtin_add_overflow(v2.used, v2.reserved, &g->memory_used_bytes))
			g->memory_used_bytes = v2.total;
	} else if (OPTIONAL(nvmlDeviceGetMemoryInfo, d, &v1)) {
		g->memory_total_bytes = g->memory_usable_bytes = v1.total;
		g->memory_used_bytes = v1.used;
	}
}

bool probe_field_uint(const nvmlFieldValue_t *f, uint64_t *ret)
{
	if (f->nvmlReturn != NVML_SUCCESS)
		return false;
	switch (f->valueType) {
	case NVML_VALUE_TYPE_UNSIGNED_INT:
		*ret = f->value.uiVal;
		return true;
	case NVML_VALUE_TYPE_UNSIGNED_LONG:
		*ret = f->value.ulVal;
		return true;
	case NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
		*ret = f->value.ullVal;
		return true;
	case NVML_VALUE_TYPE_UNSIGNED_SHORT:
		*ret = f->value.usVal;
		return true;
	case NVML_VALUE_TYPE_SIGNED_INT:
		*ret = (uint64_t)f->value.siVal;
		return f->value.siVal >= 0;
	case NVML_VALUE_TYPE_SIGNED_LONG_LONG:
		*ret = (uint64_t)f->value.sllVal;
		return f->value.sllVal >= 0;
	default:
		return false;
	}
}

/* Field values about health, in one call. The driver gives each its own return code. */
enum { RECOVERY_ACTION, RESET_STATUS, FIRST_SIGNAL };

static const struct {
	unsigned int field;
	enum gpu_signal signal; /* GPU_SIGNAL_STORED_: none, goes into .recovery */
} health_fields[] = {
	[RECOVERY_ACTION] = { NVML_FI_DEV_GPU_RECOVERY_ACTION, GPU_SIGNAL_STORED_ },
	[RESET_STATUS] = { FIELD_RESET_STATUS, GPU_SIGNAL_STORED_ },
	[FIRST_SIGNAL] = { NVML_FI_DEV_REMAPPED_FAILURE, GPU_SIGNAL_REMAP_FAILED },
	{ NVML_FI_DEV_REMAPPED_PENDING, GPU_SIGNAL_REMAP_PENDING },
	{ NVML_FI_DEV_RETIRED_PENDING, GPU_SIGNAL_PAGES_PENDING },
	{ NVML_FI_DEV_ECC_DBE_VOL_TOTAL, GPU_SIGNAL_ECC_VOLATILE },
	{ NVML_FI_DEV_ECC_DBE_AGG_TOTAL, GPU_SIGNAL_ECC_AGGREGATE },
};

/* Whether the driver or the GPU does not have the field. Any other error means that it could not be read. */
static bool is_absent(nvmlReturn_t r)
{
	return r == NVML_ERROR_NOT_SUPPORTED || r == NVML_ERROR_FUNCTION_NOT_FOUND ||
	       r == NVML_ERROR_INVALID_ARGUMENT;
}

/*
 * Reads the health signals. A signal that cannot be read is unknown, not clear: .signals_failed notes it, and
 * preserve_raised_signals() of model/node/node.c uses that.
 */
static void read_gpu_health(struct probe *p, struct gpu *g, nvmlDevice_t d)
{
	/* By the driver's numbers: none, reset the GPU, reboot, drain (P2P), drain and reset. */
	static const enum gpu_recovery actions[] = { GPU_RECOVERY_NONE, GPU_RECOVERY_RESET_GPU,
		GPU_RECOVERY_REBOOT, GPU_RECOVERY_DRAIN_P2P, GPU_RECOVERY_DRAIN_RESET };
	nvmlFieldValue_t f[ARRAY_LEN(health_fields)];
	nvmlReturn_t r;
	uint64_t v;

	if (g->fault != GPU_OK && g->fault != GPU_FAULT_FIELD)
		return;
	for (size_t i = 0; i < ARRAY_LEN(f); i++)
		f[i] = (nvmlFieldValue_t){ .fieldId = health_fields[i].field,
			.nvmlReturn = NVML_ERROR_UNKNOWN };
	r = PROBE_CALL(p, g->index, nvmlDeviceGetFieldValues, d, (int)ARRAY_LEN(f), f);
	for (size_t i = 0; i < ARRAY_LEN(f); i++) {
		if (r != NVML_SUCCESS)
			f[i].nvmlReturn = r;
		/* A driver may return GPU_IS_LOST for each field. */
		if (!probe_optional(p, g, NVML_CALL_nvmlDeviceGetFieldValues,
			    f[i].nvmlReturn) &&
			!is_absent(f[i].nvmlReturn))
			g->signals_failed |= UINT32_C(1) << health_fields[i].signal;
	}
	if (probe_field_uint(&f[RECOVERY_ACTION], &v))
		g->recovery = v < ARRAY_LEN(actions) ? actions[v] : GPU_RECOVERY_UNKNOWN;
	if (g->recovery == GPU_RECOVERY_UNKNOWN && probe_field_uint(&f[RESET_STATUS], &v)) {
		/* The older field knows no reboot, so its 0 says nothing where the newer field exists. */
		if (v)
			g->recovery = GPU_RECOVERY_RESET_GPU;
		else if (is_absent(f[RECOVERY_ACTION].nvmlReturn))
			g->recovery = GPU_RECOVERY_NONE;
	}
	for (size_t i = FIRST_SIGNAL; i < ARRAY_LEN(f); i++)
		if (probe_field_uint(&f[i], &v))
			gpu_signal_set(g, health_fields[i].signal, v);
}

/* The address in the form of sysfs: "00000000:00:1E.0" becomes 0000:00:1e.0. */
static bool sysfs_address(const char *bus_id, char *ret, size_t cap)
{
	size_t n = 0;

	if (strncmp(bus_id, "0000", 4) == 0 && strlen(bus_id) > strlen("0000:00:1e.0"))
		bus_id += 4;
	for (; bus_id[n]; n++) {
		if (n + 1 >= cap || (!isxdigit((unsigned char)bus_id[n]) && bus_id[n] != ':' &&
					    bus_id[n] != '.'))
			return false;
		ret[n] = (char)tolower((unsigned char)bus_id[n]);
	}
	ret[n] = '\0';
	return n > 0 && ret[0] != '.';
}

/* The first line of a file of the GPU's PCI device in sysfs, without its line feed. */
static bool read_pci_file(struct probe *p, const struct gpu *g, const char *name, char *ret,
	size_t cap)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64);
	char address[GPU_BUS_ID_MAX], path[512];
	int len;

	if (!sysfs_address(g->bus_id, address, sizeof address))
		return false;
	len = snprintf(path, sizeof path, "%s/bus/pci/devices/%s/%s", p->sysfs, address, name);
	if (len < 0 || (size_t)len >= sizeof path)
		return false;
	probe_crumb(p, g->index, WORKER_STEP_SYSFS);
	if (file_read(path, &b, NULL) < 0 || b.len == 0 || b.len >= cap)
		return false;
	(void)snprintf(ret, cap, "%.*s", (int)strcspn(buf_str(&b), "\n"), buf_str(&b));
	return true;
}

static int32_t read_numa_node(struct probe *p, const struct gpu *g)
{
	char text[64];
	int64_t node;

	if (!read_pci_file(p, g, "numa_node", text, sizeof text) || !parse_i64(text, &node) ||
		node < 0 || node > INT32_MAX)
		return -1;
	return (int32_t)node;
}

/* "0x030200": base class, subclass and interface, six hexadecimal digits. */
static uint32_t read_pci_class(struct probe *p, const struct gpu *g)
{
	char text[64];
	uint32_t value = 0;

	if (!read_pci_file(p, g, "class", text, sizeof text) || strlen(text) != 8 ||
		strncmp(text, "0x", 2) != 0)
		return 0;
	for (const char *c = text + 2; *c; c++) {
		if (!isxdigit((unsigned char)*c))
			return 0;
		value = value << 4 |
			(uint32_t)(isdigit((unsigned char)*c)
					   ? *c - '0'
					   : tolower((unsigned char)*c) - 'a' + 10);
	}
	return value;
}

static void set_fabric(struct gpu *g, unsigned char state, nvmlReturn_t status,
	const unsigned char *uuid, unsigned int clique)
{
	static const unsigned char none[NVML_GPU_FABRIC_UUID_LEN];
	char *to = g->cluster_uuid;

	static_assert(sizeof g->cluster_uuid > 2 * NVML_GPU_FABRIC_UUID_LEN + 4, "with dashes");
	if (state != NVML_GPU_FABRIC_STATE_COMPLETED || status != NVML_SUCCESS ||
		memcmp(uuid, none, sizeof none) == 0)
		return;
	for (int i = 0; i < NVML_GPU_FABRIC_UUID_LEN; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*to++ = '-';
		(void)snprintf(to, 3, "%02x", uuid[i]);
		to += 2;
	}
	g->clique_id = clique;
	g->fabric_attached = true;
}

/* Drivers before 545 have only the older call. */
static void read_fabric(struct probe *p, struct gpu *g, nvmlDevice_t d)
{
	nvmlGpuFabricInfo_v2_t v2 = { .version =
					      NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2) };
	nvmlGpuFabricInfo_t v1 = { .state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED };

	if (OPTIONAL(nvmlDeviceGetGpuFabricInfoV, d, &v2))
		set_fabric(g, v2.state, v2.status, v2.clusterUuid, v2.cliqueId);
	else if (OPTIONAL(nvmlDeviceGetGpuFabricInfo, d, &v1))
		set_fabric(g, v1.state, v1.status, v1.clusterUuid, v1.cliqueId);
}

/*
 * NVML_ERROR_NOT_SUPPORTED is an answer: the GPU has no MIG. After another error pods may have MIG devices of this
 * GPU, so it must not be offered as a whole GPU.
 */
static void read_mig_mode(struct probe *p, struct gpu *g, nvmlDevice_t d)
{
	unsigned int current = 0, pending = 0;
	nvmlReturn_t r;

	if (g->fault != GPU_OK && g->fault != GPU_FAULT_FIELD)
		return;
	r = PROBE_CALL(p, g->index, nvmlDeviceGetMigMode, d, &current, &pending);
	g->mig_unknown = r != NVML_ERROR_NOT_SUPPORTED && r != NVML_ERROR_FUNCTION_NOT_FOUND &&
			 !probe_needed(p, g, NVML_CALL_nvmlDeviceGetMigMode, r);
	if (r != NVML_SUCCESS)
		return;
	g->mig_capable = true;
	g->mig_enabled = current == NVML_DEVICE_MIG_ENABLE;
	g->mig_pending = pending != current;
}

void probe_gpu(struct probe *p, uint32_t index, struct gpu *g, nvmlDevice_t *ret_device)
{
	unsigned int value = 0;
	unsigned long long events = 0;
	int major = 0, minor = 0;
	nvmlDevice_t d = NULL;

	*g = (struct gpu){ .index = index, .numa_node = -1, .mig_unknown = true };
	*ret_device = NULL;
	if (!NEEDED(nvmlDeviceGetHandleByIndex_v2, index, &d))
		return;
	*ret_device = d;
	read_identity(p, g, d);
	if (OPTIONAL(nvmlDeviceGetMinorNumber, d, &value)) {
		g->minor = value;
		g->has_minor = true;
	}
	if (OPTIONAL(nvmlDeviceGetCudaComputeCapability, d, &major, &minor) && major > 0 &&
		minor >= 0) {
		g->cc_major = (uint32_t)major;
		g->cc_minor = (uint32_t)minor;
	}
	read_gpu_memory(p, g, d);
	read_mig_mode(p, g, d);
	if (OPTIONAL(nvmlDeviceGetSupportedEventTypes, d, &events))
		g->xid_events = (events & NVML_EVENT_XID_CRITICAL) != 0;
	read_gpu_health(p, g, d);
	read_fabric(p, g, d);
	g->numa_node = read_numa_node(p, g);
	g->pci_class = read_pci_class(p, g);
}

static enum gpu_level level_of(unsigned int ancestor)
{
	switch (ancestor) {
	case NVML_TOPOLOGY_INTERNAL:
		return GPU_LEVEL_SAME_BOARD;
	case NVML_TOPOLOGY_SINGLE:
		return GPU_LEVEL_SINGLE_SWITCH;
	case NVML_TOPOLOGY_MULTIPLE:
		return GPU_LEVEL_MULTI_SWITCH;
	case NVML_TOPOLOGY_HOSTBRIDGE:
		return GPU_LEVEL_HOST_BRIDGE;
	case NVML_TOPOLOGY_NODE:
		return GPU_LEVEL_SAME_CPU;
	case NVML_TOPOLOGY_SYSTEM:
		return GPU_LEVEL_CROSS_CPU;
	default:
		return GPU_LEVEL_UNKNOWN;
	}
}

/* Counts each NVLink of GPU @a for the pair of @a and the GPU at the other end. */
static void count_nvlinks(struct probe *p, uint32_t n, const struct gpu *gpus, uint32_t a,
	nvmlDevice_t d, struct gpu_link *links)
{
	for (unsigned int l = 0; l < NVML_NVLINK_MAX_LINKS; l++) {
		nvmlPciInfo_t remote = { .domain = 0 };
		unsigned int active = 0;
		nvmlReturn_t r =
			PROBE_CALL(p, gpus[a].index, nvmlDeviceGetNvLinkState, d, l, &active);

		/* Links are numbered without gaps; NOT_SUPPORTED may concern this link only. */
		if (r == NVML_ERROR_NOT_SUPPORTED && l > 0)
			continue;
		if (r != NVML_SUCCESS)
			return;
		if (active != NVML_FEATURE_ENABLED)
			continue;
		r = PROBE_CALL(p, gpus[a].index, nvmlDeviceGetNvLinkRemotePciInfo_v2, d, l,
			&remote);
		if (r == NVML_ERROR_INVALID_ARGUMENT)
			return;
		if (r != NVML_SUCCESS)
			continue;
		remote.busId[sizeof remote.busId - 1] = '\0';
		for (uint32_t b = 0; b < n; b++) {
			struct gpu_link *link = &links[(size_t)a * n + b];

			if (b != a && gpus[b].bus_id[0] &&
				link->nvlinks < NVML_NVLINK_MAX_LINKS &&
				strcasecmp(gpus[b].bus_id, remote.busId) == 0)
				link->nvlinks++;
		}
	}
}

void probe_links(struct probe *p, uint32_t n, const struct gpu *gpus,
	const nvmlDevice_t *devices, struct gpu_link *links)
{
	for (size_t i = 0; i < (size_t)n * n; i++)
		links[i] = (struct gpu_link){ .level = GPU_LEVEL_UNKNOWN };
	for (uint32_t a = 0; a < n; a++) {
		for (uint32_t b = a + 1; b < n && devices[a]; b++) {
			unsigned int level = UINT32_MAX;

			if (!devices[b] ||
				PROBE_CALL(p, gpus[a].index,
					nvmlDeviceGetTopologyCommonAncestor, devices[a],
					devices[b], &level) != NVML_SUCCESS)
				continue;
			links[(size_t)a * n + b].level = (uint8_t)level_of(level);
			links[(size_t)b * n + a].level = (uint8_t)level_of(level);
		}
		if (devices[a])
			count_nvlinks(p, n, gpus, a, devices[a], links);
	}
	/* Both ends should report the same number. If one end reports nothing, the other end's number counts. */
	for (uint32_t a = 0; a < n; a++) {
		for (uint32_t b = a + 1; b < n; b++) {
			struct gpu_link *ab = &links[(size_t)a * n + b],
					*ba = &links[(size_t)b * n + a];
			uint8_t max = ab->nvlinks > ba->nvlinks ? ab->nvlinks : ba->nvlinks;

			ab->nvlinks = ba->nvlinks = max;
		}
	}
}

void probe_p2p(struct probe *p, uint32_t n, const struct gpu *gpus, const nvmlDevice_t *devices,
	struct gpu_link *links)
{
	static_assert((int)GPU_P2P_NOT_SUPPORTED == (int)NVML_P2P_STATUS_NOT_SUPPORTED,
		"the numbers are NVML's");

	for (uint32_t a = 0; a < n; a++) {
		for (uint32_t b = 0; b < n; b++) {
			unsigned int status = GPU_P2P_UNKNOWN;
			nvmlReturn_t r;

			if (a == b || !devices[a] || !devices[b])
				continue;
			r = PROBE_CALL(p, gpus[a].index, nvmlDeviceGetP2PStatus, devices[a],
				devices[b], NVML_P2P_CAPS_INDEX_NVLINK, &status);
			if (r != NVML_SUCCESS && r != NVML_ERROR_NOT_SUPPORTED &&
				r != NVML_ERROR_FUNCTION_NOT_FOUND)
				continue; /* not read; links_known() decides on a retry */
			if (r != NVML_SUCCESS || status > GPU_P2P_UNKNOWN)
				status = GPU_P2P_UNKNOWN;
			links[(size_t)a * n + b].p2p = (uint8_t)(1 + status);
		}
	}
}

uint64_t probe_bound_gpus(struct probe *p)
{
	uint64_t sum = 0;
	char path[512];
	struct dirent *e;
	DIR *dir;
	int len = snprintf(path, sizeof path, "%s/bus/pci/drivers/nvidia", p->sysfs);

	if (len < 0 || (size_t)len >= sizeof path)
		return 0;
	probe_crumb(p, WORKER_GPU_NONE, WORKER_STEP_SYSFS);
	dir = opendir(path);
	if (!dir)
		return 0;
	/*
	 * Only links to devices (0000:00:1e.0) have colons in their names. The sum does not depend on the order of
	 * the directory.
	 */
	while ((e = readdir(dir))) {
		if (strchr(e->d_name, ':'))
			sum += worker_uuid_hash(e->d_name) | 1;
	}
	(void)closedir(dir);
	return sum;
}

/* --- processes --- */

static void add_probed_process(struct probe_processes *list, const nvmlProcessInfo_t *from,
	bool mps)
{
	struct gpu_process own = { .pid = from->pid,
		.gi = from->gpuInstanceId,
		.ci = from->computeInstanceId,
		.mps = mps,
		.bytes = from->usedGpuMemory == NVML_VALUE_NOT_AVAILABLE
				 ? GPU_BYTES_UNKNOWN
				 : from->usedGpuMemory };

	for (uint32_t i = 0; i < list->n; i++) {
		struct gpu_process *p = &list->v[i];

		if (p->pid != own.pid || p->gi != own.gi || p->ci != own.ci)
			continue;
		if (p->bytes == GPU_BYTES_UNKNOWN ||
			(own.bytes != GPU_BYTES_UNKNOWN && own.bytes > p->bytes))
			p->bytes = own.bytes;
		p->mps |= own.mps;
		return;
	}
	if (list->n < PROBE_PROCESSES_MAX)
		list->v[list->n++] = own;
}

/*
 * Adds the result of one call; entries beyond the room in .v are left out. A GPU need not have the lists of
 * graphics and MPS. Without the list of compute the processes on the GPU are unknown.
 */
static void add_call_processes(struct probe_processes *list, enum nvml_call call,
	nvmlReturn_t r, unsigned n)
{
	if ((r == NVML_ERROR_NOT_SUPPORTED || r == NVML_ERROR_FUNCTION_NOT_FOUND) &&
		call != NVML_CALL_nvmlDeviceGetComputeRunningProcesses_v3)
		return;
	if (r != NVML_SUCCESS) {
		if (list->code == 0) {
			list->code = (int32_t)r;
			list->call = (uint32_t)call;
		}
		return;
	}
	for (unsigned i = 0; i < n && i < PROBE_PROCESSES_MAX; i++)
		add_probed_process(list, &list->raw[i],
			call == NVML_CALL_nvmlDeviceGetMPSComputeRunningProcesses_v3);
}

void probe_processes(struct probe *p, uint32_t gpu, nvmlDevice_t device,
	struct probe_processes *ret)
{
	unsigned int n = PROBE_PROCESSES_MAX;
	nvmlReturn_t r;

	ret->n = 0;
	ret->code = 0;
	ret->call = 0;
	/*
	 * Under MPS the list of compute processes has each client, by its own PID and with its own bytes, and the
	 * server with its own. The list of MPS has the clients once more (driver 580, H100). A driver may have the
	 * clients in the list of MPS alone, so that list is read, too.
	 */
	r = PROBE_CALL(p, gpu, nvmlDeviceGetComputeRunningProcesses_v3, device, &n, ret->raw);
	add_call_processes(ret, NVML_CALL_nvmlDeviceGetComputeRunningProcesses_v3, r, n);
	n = PROBE_PROCESSES_MAX;
	r = PROBE_CALL(p, gpu, nvmlDeviceGetGraphicsRunningProcesses_v3, device, &n, ret->raw);
	add_call_processes(ret, NVML_CALL_nvmlDeviceGetGraphicsRunningProcesses_v3, r, n);
	n = PROBE_PROCESSES_MAX;
	r = PROBE_CALL(p, gpu, nvmlDeviceGetMPSComputeRunningProcesses_v3, device, &n,
		ret->raw);
	add_call_processes(ret, NVML_CALL_nvmlDeviceGetMPSComputeRunningProcesses_v3, r, n);
	if (ret->code != 0)
		ret->n = 0;
}
