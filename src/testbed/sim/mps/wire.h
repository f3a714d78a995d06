/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The simulated MPS: nvidia-cuda-mps-control, nvidia-cuda-mps-server, and their packets to each other and to the
 * simulated libcuda.so.1.
 *
 * The interface to operators and programs is NVIDIA's: command line, command language, files, log lines, exit
 * codes, errors of CUDA. It follows measurements on an H100 (driver 580.159.04), else NVIDIA's documents. The
 * packets between the parts are gpuslice's own:
 *
 *	program with the command  ── MPS_UI ──────▶ control     a line of text; MPS_TEXT several, then MPS_DONE
 *	libcuda, at cuInit()      ── MPS_PROCESS ─▶ control ─── the connection itself ──▶ server ── MPS_ANSWER
 *	libcuda, for each context ── MPS_CONTEXT ─▶ control ─── the same ───────────────▶ server ── MPS_ANSWER
 *	server                    ── MPS_SERVER ──▶ control     control then asks; the server answers MPS_RESULT
 *
 * All connections are SOCK_SEQPACKET to DIR/control; each packet is one struct mps_packet. A client keeps its
 * connections open: the end of one is the end of the process, or of the context. The kernel names the peer
 * (SO_PEERCRED). The answer for a context has a ticket for the simulated GPU (testbed/sim/cuda/wire.h).
 */
#include <stdbool.h>
#include <stdint.h>

#define MPS_VERSION 1

#define MPS_ENV_DIR      "CUDA_MPS_PIPE_DIRECTORY"
#define MPS_ENV_LOG      "CUDA_MPS_LOG_DIRECTORY"
#define MPS_ENV_PERCENT  "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
#define MPS_ENV_MEMORY   "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
#define MPS_ENV_PRIORITY "CUDA_MPS_CLIENT_PRIORITY"
#define MPS_DIR_DEFAULT  "/tmp/nvidia-mps"
#define MPS_LOG_DEFAULT  "/var/log/nvidia-mps"

/* Names in the pipe directory. */
#define MPS_CONTROL    "control"
#define MPS_LOCK       "control_lock"
#define MPS_PRIVILEGED "control_privileged"
#define MPS_LOG_PIPE   "log"
#define MPS_PID_FILE   "nvidia-cuda-mps-control.pid"

#define MPS_DEVICES_MAX  64
#define MPS_CLIENTS_MAX  48   /* processes per server; a newer CUDA has 60 on some hardware */
#define MPS_CONTEXTS_MAX 48   /* per server and device */
#define MPS_TEXT_MAX     4096 /* a command, or a piece of its answer */
#define MPS_PERCENT_ONE  1000 /* percentages are in thousandths of a percent */
#define MPS_PERCENT_ALL  (100 * MPS_PERCENT_ONE)

enum mps_op {
	MPS_UI = 1,
	MPS_TEXT,
	MPS_DONE,
	MPS_PROCESS,
	MPS_CONTEXT,
	MPS_ANSWER,
	MPS_SERVER,
	/* From the control program to a server. */
	MPS_SETTINGS, /* the settings from now on; with the first packet the server begins */
	MPS_QUERY,    /* a command for the server, as text */
	MPS_STOP,     /* stop unless there are clients; .id 1: stop in any case */
	/* From a server to the control program. */
	MPS_RESULT, /* .id: number of connections that prevent a stop; .text: the answer to print */
	MPS_STATE, /* .status: enum sim_mps_state; sent unasked, at the start and at each change */
};

enum sim_mps_state { MPS_INITIALIZING, MPS_ACTIVE, MPS_FAULT };

/* What a server allows its clients, or what a client asks for itself. */
struct mps_settings {
	uint32_t percent;                 /* in thousandths of a percent; 0: not set */
	uint32_t priority;                /* 0 normal, 1 lower */
	uint64_t limits[MPS_DEVICES_MAX]; /* bytes of memory, by device; 0: no limit */
};

struct mps_packet {
	uint32_t op, version;
	uint32_t status; /* CUresult */
	uint32_t count;  /* entries of .slots */
	/* GPUs of the simulated node, in the order of the server's devices. */
	uint32_t slots[MPS_DEVICES_MAX];
	/* CONTEXT, and ANSWER to PROCESS: .id is the process's. ANSWER to CONTEXT: both are the ticket. */
	uint64_t id, cookie;
	uint32_t device, unused; /* CONTEXT: index into .slots */
	struct mps_settings settings;
	char text[MPS_TEXT_MAX];
};

/* The multiprocessors that a client may have: whole pairs, at least one pair. */
static inline uint32_t mps_width(uint32_t all, uint32_t percent)
{
	uint64_t n = (uint64_t)all * percent / MPS_PERCENT_ALL;

	if (percent >= MPS_PERCENT_ALL || all < 2)
		return all;
	return n < 2 ? 2 : (uint32_t)(n - n % 2);
}
