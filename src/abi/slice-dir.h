/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directory of one slice: made by the agent at Allocate, mounted read-only into the container,
 * served by the arbiter. Which slice a process belongs to is which directory it sees at
 * SLICE_CONTAINER_DIR: no environment variable, and nothing that a process could name for itself.
 *
 * On the host they lie in SLICES_DIR below the agent's state directory (default SLICE_STATE_DIR; it
 * must outlive a reboot, as the kubelet starts containers again with the mounts of their first
 * Allocate). The agent writes slice.json, whole and by rename; the arbiter watches the directory,
 * listens on each slice's socket and applies changed limits at once. The directory is the whole
 * interface between the two, so either can be away while the other works.
 *
 *	SLICES_DIR/<id>/slice.json   what the slice is
 *	SLICES_DIR/<id>/socket       abi/slice-wire.h; mode 0666: the container's user may be any
 *
 * slice.json, version 1 (unknown keys are ignored, so that an older arbiter goes on):
 *
 *	{"version": 1, "id": "<32 hex digits>", "resource": "nvidia.com/gpu",
 *	 "devices": ["GPU-...::0"],              // device IDs of the kubelet
 *	 "gpus": [{"uuid": "GPU-...",
 *	           "memory": 4294967296,         // bytes; absent: no limit
 *	           "weight": 1, "cap": 250000}], // with "compute"; cap: millionths of the GPU, absent: none
 *	 "compute": "turns",                     // or "mps": runs under MPS, so its gates are always open; weight,
 *	                                         // cap and class are only shown. Absent: none of it
 *	 "class": "batch",                       // or "latency"
 *	 "unhooked": "report"}                   // or "stop": processes that use the GPU past the libraries
 */
#define SLICE_STATE_DIR "/var/lib/gpuslice"
#define SLICES_DIR      "slices"
/* On the host, none but root has business in SLICES_DIR: mounts do not ask its mode. Agent and arbiter both make it. */
#define SLICES_DIR_MODE 0700
#define SLICE_FILE      "slice.json"
#define SLICE_FILE_MAX  (64 * 1024)
#define SLICE_SOCKET    "socket"
#define SLICES_MAX      4096
/* The arbiter binds this name, and renames it. The agent puts a file there, whose inode the socket gets. */
#define SLICE_SOCKET_NEW "." SLICE_SOCKET ".new"

/* In the container. */
#define SLICE_CONTAINER_DIR "/run/gpuslice/slice" /* not the agent's own directory on a node */
#define SLICE_PRELOAD_FILE  "/etc/ld.so.preload"

/* Where the libraries lie in the container: one directory a version, read-only. */
#define SLICE_CONTAINER_LIB_DIR "/usr/local/gpuslice/lib"
#define SLICE_LIB_CUDA          "libgpuslice-cuda.so"
#define SLICE_LIB_NVML          "libgpuslice-nvml.so"

/*
 * Where the libraries look for the slice instead of SLICE_CONTAINER_DIR, so that they can be used
 * and tested without a container. It only counts where SLICE_CONTAINER_DIR does not exist: in a
 * pod of ours a process cannot leave its slice by it.
 */
#define SLICE_DIR_VARIABLE "GPUSLICE_SLICE_DIR"
