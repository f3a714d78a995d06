/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directory of one slice. The agent makes it at Allocate, the container has it as a read-only mount, the
 * arbiter serves it. A process belongs to the slice whose directory it sees at SLICE_CONTAINER_DIR. There is no
 * environment variable or other name by which a process could choose another slice.
 *
 * On the host. The directories are in SLICES_DIR below the agent's state directory (default SLICE_STATE_DIR).
 * This must survive a reboot, as the kubelet starts containers again with the mounts of their first Allocate.
 * The agent writes slice.json as a whole, by rename. The arbiter watches the directory, listens on each slice's
 * socket, and applies changed limits at once. The directory is the whole definition of the slices, so agent and
 * arbiter each work while the other is down.
 *
 *	SLICES_DIR/<id>/slice.json   the definition of the slice
 *	SLICES_DIR/<id>/socket       abi/slice-wire.h; mode 0666, as the container may run as any user
 *
 * slice.json, version 1 (readers ignore unknown keys, so that an older arbiter continues to work):
 *
 *	{"version": 1, "id": "<32 hex digits>", "resource": "nvidia.com/gpu",
 *	 "devices": ["GPU-...::0"],              // device IDs of the kubelet
 *	 "gpus": [{"uuid": "GPU-...",
 *	           "memory": 4294967296,         // bytes; absent: no limit
 *	           "weight": 1, "cap": 250000}], // with "compute"; cap: millionths of the GPU, absent: none
 *	 "compute": "turns",                     // or "mps": runs under MPS, its gates are always open, and weight,
 *	                                         // cap and class are for display only. Absent: neither
 *	 "class": "batch",                       // or "latency"
 *	 "unhooked": "report"}                   // or "stop": what the arbiter does with unhooked processes
 */
#define SLICE_STATE_DIR "/var/lib/gpuslice"
#define SLICES_DIR      "slices"
/* On the host only root needs SLICES_DIR; a container's mount does not depend on its mode. Agent and arbiter both
 * make it. */
#define SLICES_DIR_MODE 0700
#define SLICE_FILE      "slice.json"
#define SLICE_FILE_MAX  (64 * 1024)
#define SLICE_SOCKET    "socket"
#define SLICES_MAX      4096
/* The arbiter binds this name, then renames it to SLICE_SOCKET. The agent first puts a file there, and the socket
 * gets the inode of that file. */
#define SLICE_SOCKET_NEW "." SLICE_SOCKET ".new"

/* In the container. */
#define SLICE_CONTAINER_DIR "/run/gpuslice/slice" /* not the agent's own directory on a node */
#define SLICE_PRELOAD_FILE  "/etc/ld.so.preload"

/* Where the interception libraries are in the container: one directory for each version, read-only. */
#define SLICE_CONTAINER_LIB_DIR "/usr/local/gpuslice/lib"
#define SLICE_LIB_CUDA          "libgpuslice-cuda.so"
#define SLICE_LIB_NVML          "libgpuslice-nvml.so"

/*
 * Names a directory that replaces SLICE_CONTAINER_DIR, so that the libraries can be used and tested without a
 * container. It counts only where SLICE_CONTAINER_DIR does not exist. So a process in a pod of gpuslice cannot
 * leave its slice by it.
 */
#define SLICE_DIR_VARIABLE "GPUSLICE_SLICE_DIR"
