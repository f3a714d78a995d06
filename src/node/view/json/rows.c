/* SPDX-License-Identifier: Apache-2.0 */
#include "node/view/json/rows.h"

#include <stddef.h>

#define ROW(type, key, kind, member)                                              \
	{                                                                         \
		key, JSON_KIND_##kind, offsetof(struct type, member), JSON_ALWAYS \
	}
#define ROW_IF(type, key, kind, member, flag)                         \
	{                                                             \
		key, JSON_KIND_##kind, offsetof(struct type, member), \
			offsetof(struct type, flag)                   \
	}

const struct json_row json_rows_head[] = {
	ROW(view, "seq", U64, seq),
	ROW(view, "wall", TIME, wall_ns),
	ROW(view, "intervalNs", U64, interval_ns),
	ROW(view, "since", TIME, since_wall_ns),
	ROW(view, "node", TEXT, node),
	{ 0 },
};

const struct json_row json_rows_node[] = {
	ROW(view, "hostname", TEXT, hostname),
	ROW(view, "driverVersion", TEXT_KNOWN, driver_version),
	ROW(view, "nvmlVersion", TEXT_KNOWN, nvml_version),
	ROW(view, "cudaVersion", TEXT_KNOWN, cuda_version),
	ROW(view, "instanceType", TEXT_KNOWN, instance_type),
	ROW(view, "region", TEXT_KNOWN, region),
	ROW(view, "nvmlUp", BOOL, nvml_up),
	ROW(view, "nvmlError", TEXT, nvml_error),
	ROW(view, "holdersKnown", BOOL, allocations_known),
	ROW(view, "holdersError", TEXT, allocations_error),
	ROW(view, "priced", BOOL, priced),
	ROW_IF(view, "priceNanoPerHour", U64, price_nano_per_hour, priced),
	ROW_IF(view, "currency", TEXT, currency, priced),
	ROW_IF(view, "priceSource", TEXT, price_source, priced),
	ROW_IF(view, "costNano", U64, cost_nano, priced),
	ROW_IF(view, "otherCostNano", U64, other_cost_nano, priced),
	ROW(view, "configGeneration", U64, config_generation),
	ROW(view, "configSince", TIME, config_since_wall_ns),
	ROW(view, "configSource", TEXT_KNOWN, config_source),
	ROW(view, "configSharing", TEXT, config_sharing),
	ROW(view, "configError", TEXT, config_error),
	ROW(view, "configDecided", BOOL, config_decided),
	ROW(view, "ready", BOOL, ready),
	{ 0 },
};

const struct json_row json_rows_gpu[] = {
	ROW(view_gpu, "index", U32, index),
	ROW(view_gpu, "minor", U32_NONE, minor),
	ROW(view_gpu, "uuid", TEXT, uuid),
	ROW(view_gpu, "name", TEXT, name),
	ROW(view_gpu, "busId", TEXT_KNOWN, bus_id),
	ROW_IF(view_gpu, "ccMajor", U32, cc_major, cc_known),
	ROW_IF(view_gpu, "ccMinor", U32, cc_minor, cc_known),
	ROW(view_gpu, "numaNode", NUMA, numa_node),
	ROW(view_gpu, "health", HEALTH, health),
	ROW(view_gpu, "reason", TEXT, reason),
	ROW(view_gpu, "warning", TEXT, warning),
	ROW(view_gpu, "refused", TEXT, refused),
	ROW(view_gpu, "healthSince", TIME, health_since_wall_ns),
	ROW(view_gpu, "present", BOOL, present),
	ROW(view_gpu, "fault", TEXT, fault),
	ROW(view_gpu, "recovery", TEXT_KNOWN, recovery),
	ROW_IF(view_gpu, "resetRequired", BOOL, reset_required, reset_known),
	ROW_IF(view_gpu, "migCapable", BOOL, mig_capable, mig_known),
	ROW_IF(view_gpu, "migEnabled", BOOL, mig_enabled, mig_known),
	ROW_IF(view_gpu, "migPending", BOOL, mig_pending, mig_known),
	ROW(view_gpu, "migSlices", U32_ZERO, mig_slices),
	ROW(view_gpu, "migMemorySlices", U32_ZERO, mig_memory_slices),
	ROW_IF(view_gpu, "xidCount", U64, xid_count, xids_known),
	ROW(view_gpu, "lastXid", U32_ZERO, last_xid),
	{ 0 },
};

const struct json_row json_rows_xid[] = {
	ROW(view_xid, "xid", U32, xid),
	ROW(view_xid, "count", U64, count),
	ROW(view_xid, "last", TIME, last_wall_ns),
	{ 0 },
};

const struct json_row json_rows_signal[] = {
	ROW(view_signal, "name", TEXT, name),
	ROW(view_signal, "policy", TEXT, policy),
	ROW(view_signal, "value", U64, value),
	{ 0 },
};

const struct json_row json_rows_device[] = {
	ROW(view_device, "mig", BOOL, mig),
	ROW(view_device, "uuid", TEXT, uuid),
	ROW(view_device, "label", TEXT, label),
	ROW(view_device, "profile", TEXT_KNOWN, profile),
	ROW(view_device, "gi", U32_NONE, gi),
	ROW(view_device, "ci", U32_NONE, ci),
	ROW(view_device, "part", U32, part),
	ROW(view_device, "health", HEALTH, health),
	ROW(view_device, "reason", TEXT, reason),
	ROW(view_device, "refused", TEXT, refused),
	ROW(view_device, "mode", MODE, mode),
	ROW(view_device, "resource", TEXT_KNOWN, resource),
	ROW(view_device, "offered", BOOL, offered),
	ROW_IF(view_device, "memoryTotal", U64, memory_total, memory_known),
	ROW_IF(view_device, "memoryUsed", U64, memory_used, memory_known),
	ROW_IF(view_device, "memoryReserved", U64, memory_reserved, reserved_known),
	ROW_IF(view_device, "memoryFree", U64, memory_free, memory_known),
	ROW_IF(view_device, "otherMemory", U64, other_memory, memory_known),
	ROW_IF(view_device, "busyNs", U64, busy_ns, busy_known),
	ROW_IF(view_device, "otherBusyNs", U64, other_busy_ns, busy_known),
	ROW(view_device, "busy", U32_NONE, busy),
	ROW_IF(view_device, "presentNs", U64, present_ns, counted),
	ROW_IF(view_device, "idleGpuNs", U64, idle_gpu_ns, counted),
	ROW_IF(view_device, "held", U32, allocated, allocated_known),
	ROW_IF(view_device, "replicasUsed", U32, replicas_used, allocated_known),
	{ 0 },
};

const struct json_row json_rows_place[] = {
	ROW_IF(view_device, "start", U32, start, placed),
	ROW_IF(view_device, "size", U32, size, placed),
	ROW_IF(view_device, "memoryStart", U32, memory_start, placed),
	ROW_IF(view_device, "memorySize", U32, memory_size, placed),
	{ 0 },
};

const struct json_row json_rows_replica[] = {
	ROW(view_replica, "id", TEXT, id),
	ROW(view_replica, "resource", TEXT, resource),
	ROW(view_replica, "replica", U32, replica),
	ROW(view_replica, "share", U32, share),
	ROW(view_replica, "memoryLimit", U64_MAX, memory_limit),
	ROW(view_replica, "healthy", BOOL, healthy),
	{ 0 },
};

const struct json_row json_rows_use[] = {
	ROW(view_use, "namespace", TEXT, namespace_),
	ROW(view_use, "pod", TEXT, pod),
	ROW(view_use, "container", TEXT, container),
	ROW(view_use, "uid", TEXT_KNOWN, uid),
	ROW(view_use, "resource", TEXT, resource),
	ROW(view_use, "mode", MODE, mode),
	ROW(view_use, "live", BOOL, live),
	ROW(view_use, "began", TIME, began_wall_ns),
	ROW(view_use, "ended", TIME, ended_wall_ns),
	ROW(view_use, "offeredNow", BOOL, offered_now),
	ROW(view_use, "nSeats", U32, n_replicas),
	ROW(view_use, "replica", U32_NONE, replica),
	ROW(view_use, "seat", TEXT, replica_id),
	ROW(view_use, "share", U32, share),
	ROW(view_use, "received", U32_NONE, received),
	ROW_IF(view_use, "memoryUsed", U64, memory_used, memory_known),
	ROW(view_use, "memoryFrom", SOURCE, memory_from),
	ROW_IF(view_use, "memoryPeak", U64, memory_peak, peak_known),
	ROW(view_use, "memoryLimit", U64_MAX, memory_limit),
	ROW_IF(view_use, "nProcesses", U32, n_processes, processes_known),
	ROW(view_use, "busyFrom", SOURCE, busy_from),
	ROW_IF(view_use, "busyExact", BOOL, busy_exact, busy_known),
	ROW(view_use, "heldNs", U64, allocated_ns),
	ROW(view_use, "gpuNs", U64, gpu_ns),
	ROW_IF(view_use, "busyNs", U64, busy_ns, busy_known),
	ROW_IF(view_use, "memoryByteS", U64, memory_byte_s, memory_counted),
	{ 0 },
};

#define ENDS(key, why) \
	ROW_IF(view_slice, key, U64, quantum_ends[SCHED_END_##why], quantum_ends_known)

const struct json_row json_rows_slice[] = {
	ROW(view_slice, "id", TEXT, id),
	ROW(view_slice, "compute", TEXT, compute),
	ROW(view_slice, "class", TEXT, class_),
	ROW(view_slice, "weight", U32_ZERO, weight),
	ROW(view_slice, "cap", U32_ZERO, cap),
	ROW_IF(view_slice, "chargedNs", U64, charged_ns, time_known),
	ROW_IF(view_slice, "queueNs", U64, queue_ns, time_known),
	ROW_IF(view_slice, "waitNs", U64, wait_ns, time_known),
	ROW_IF(view_slice, "meterNs", U64, throttled_ns, time_known),
	ROW_IF(view_slice, "turns", U64, quanta, time_known),
	ROW_IF(view_slice, "waits", U64, waits, time_known),
	ROW_IF(view_slice, "launches", U64, launches, time_known),
	ROW_IF(view_slice, "copies", U64, copies, time_known),
	ROW_IF(view_slice, "copiedBytes", U64, copied_bytes, time_known),
	ROW_IF(view_slice, "revocations", U64, revocations, revocations_known),
	ENDS("quantaExpired", EXPIRED),
	ENDS("quantaRenewed", RENEWED),
	ENDS("quantaIdle", IDLE),
	ENDS("quantaCap", CAP),
	ENDS("quantaInterrupted", INTERRUPTED),
	ENDS("quantaGang", GANG),
	ENDS("quantaLatency", LATENCY),
	ENDS("quantaConcurrent", CONCURRENT),
	ENDS("quantaChanged", CHANGED),
	ENDS("quantaClosed", CLOSED),
	ROW_IF(view_slice, "refusals", U64, refusals, refusals_known),
	ROW_IF(view_slice, "turn", BOOL, has_quantum, reported),
	ROW_IF(view_slice, "demoted", BOOL, demoted, reported),
	ROW_IF(view_slice, "stuck", BOOL, stuck, reported),
	ROW_IF(view_slice, "over", BOOL, over_limit, reported),
	ROW_IF(view_slice, "unhooked", U64, unhooked, unhooked_known),
	ROW_IF(view_slice, "stopped", U32, stopped, reported),
	{ 0 },
};

const struct json_row json_rows_resource[] = {
	ROW(view_resource, "name", TEXT, name),
	ROW(view_resource, "mode", MODE, mode),
	ROW(view_resource, "replicas", U32, replicas),
	ROW(view_resource, "capacity", U32, capacity),
	ROW(view_resource, "allocatable", U32, allocatable),
	ROW_IF(view_resource, "used", U32, used, allocated_known),
	ROW(view_resource, "state", TEXT, state),
	ROW(view_resource, "reason", TEXT, reason),
	{ 0 },
};

const struct json_row json_rows_agent[] = {
	ROW(view_agent, "version", TEXT, version),
	ROW(view_agent, "pid", INT, pid),
	ROW(view_agent, "started", TIME, started_wall_ns),
	ROW(view_agent, "cpuNs", U64, cpu_ns),
	ROW(view_agent, "rssBytes", U64_ZERO, rss_bytes),
	ROW(view_agent, "threads", U32_ZERO, threads),
	ROW(view_agent, "fds", U32_ZERO, fds),
	ROW(view_agent, "rounds", U64, rounds),
	ROW(view_agent, "roundNs", U64, round_ns),
	ROW(view_agent, "nvmlCalls", U64, nvml_calls),
	ROW(view_agent, "nvmlNs", U64, nvml_ns),
	ROW(view_agent, "nvmlErrors", U64, nvml_errors),
	ROW(view_agent, "kubeletLists", U64, kubelet_lists),
	ROW(view_agent, "kubeletErrors", U64, kubelet_errors),
	ROW(view_agent, "allocations", U64, allocations),
	ROW(view_agent, "allocationErrors", U64, allocation_errors),
	ROW(view_agent, "ledgerErrors", U64, usage_db_errors),
	ROW_IF(view_agent, "ledgerBytes", U64, usage_db_bytes, usage_db_known),
	ROW(view_agent, "ledgerError", TEXT, usage_db_error),
	ROW_IF(view_agent, "webConnections", U32, web.connections, web.known),
	ROW_IF(view_agent, "webRequests2xx", U64, web.requests[1], web.known),
	ROW_IF(view_agent, "webRequests3xx", U64, web.requests[2], web.known),
	ROW_IF(view_agent, "webRequests4xx", U64, web.requests[3], web.known),
	ROW_IF(view_agent, "webRequests5xx", U64, web.requests[4], web.known),
	ROW_IF(view_agent, "webRefusedFull", U64, web.refused_full, web.known),
	ROW_IF(view_agent, "webRefusedAddress", U64, web.refused_address, web.known),
	ROW_IF(view_agent, "webDisplaced", U64, web.displaced, web.known),
	ROW_IF(view_agent, "webTimeouts", U64, web.timeouts, web.known),
	ROW_IF(view_agent, "webMalformed", U64, web.malformed, web.known),
	ROW_IF(view_agent, "webPauses", U64, web.pauses, web.known),
	{ 0 },
};

const struct json_row json_rows_component[] = {
	ROW(view_component, "name", TEXT, name),
	ROW(view_component, "reason", TEXT, reason),
	ROW(view_component, "since", TIME, since_wall_ns),
	{ 0 },
};
