/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The simulated MPS: nvidia-cuda-mps-control and nvidia-cuda-mps-server, and what they and the simulated
 * libcuda.so.1 say to each other. What people and programs see is NVIDIA's, as far as measured on an H100 (driver
 * 580.159.04), else from its documents: command line, command language, files, log lines, exit codes, errors of
 * CUDA. How the parts talk is ours:
 *
 *	program with the command  ── MPS_UI ──────▶ control     a line of text; MPS_TEXT several, then MPS_DONE
 *	libcuda, at cuInit()      ── MPS_PROCESS ─▶ control ─── the connection itself ──▶ server ── MPS_ANSWER
 *	libcuda, for each context ── MPS_CONTEXT ─▶ control ─── the same ───────────────▶ server ── MPS_ANSWER
 *	server                    ── MPS_SERVER ──▶ control     control then asks, the server answers MPS_RESULT
 *
 * All connections are SOCK_SEQPACKET to DIR/control, all packets struct mps_packet of that size. A client
 * keeps its connections: their end is the end of the process, or of the context. Who the peer is the kernel says
 * (SO_PEERCRED). A context's answer has a ticket for the simulated GPU (testbed/sim/cuda/wire.h).
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

/* In the pipe directory. */
#define MPS_CONTROL    "control"
#define MPS_LOCK       "control_lock"
#define MPS_PRIVILEGED "control_privileged"
#define MPS_LOG_PIPE   "log"
#define MPS_PID_FILE   "nvidia-cuda-mps-control.pid"

#define MPS_DEVICES_MAX  64
#define MPS_CLIENTS_MAX  48   /* processes of a server; a newer CUDA has 60 on some hardware */
#define MPS_CONTEXTS_MAX 48   /* of a server, on one device */
#define MPS_TEXT_MAX     4096 /* a command, or a piece of what it answers */
#define MPS_PERCENT_ONE  1000 /* percentages are in thousandths of one */
#define MPS_PERCENT_ALL  (100 * MPS_PERCENT_ONE)

enum mps_op {
	MPS_UI = 1,
	MPS_TEXT,
	MPS_DONE,
	MPS_PROCESS,
	MPS_CONTEXT,
	MPS_ANSWER,
	MPS_SERVER,
	/* From control to a server. */
	MPS_SETTINGS, /* what holds from now on; the first one: that it may begin */
	MPS_QUERY,    /* a command for it, as text */
	MPS_STOP,     /* unless it has clients; .id 1: in spite of them */
	/* From a server to control. */
	MPS_RESULT, /* .id: how many connections it has; text: what is to be printed */
	MPS_STATE,  /* .status: enum sim_mps_state. Unasked */
};

enum sim_mps_state { MPS_INITIALIZING, MPS_ACTIVE, MPS_FAULT };

/* What a server lets its clients have; the same of what a client asks for itself. */
struct mps_settings {
	uint32_t percent;                 /* in thousandths; 0: not said */
	uint32_t priority;                /* 0 normal, 1 lower */
	uint64_t limits[MPS_DEVICES_MAX]; /* of memory, by device; 0: none */
};

struct mps_packet {
	uint32_t op, version;
	uint32_t status; /* CUresult */
	uint32_t count;  /* of .slots */
	uint32_t slots
		[MPS_DEVICES_MAX]; /* GPUs of the simulated node, in the order of the server's devices */
	/* CONTEXT: of which process, ANSWER: the process; then the ticket of a context. */
	uint64_t id, cookie;
	uint32_t device, unused; /* CONTEXT: by its place in .slots */
	struct mps_settings settings;
	char text[MPS_TEXT_MAX];
};

/* How many multiprocessors a client may have: whole pairs, and one pair at least. */
static inline uint32_t mps_width(uint32_t all, uint32_t percent)
{
	uint64_t n = (uint64_t)all * percent / MPS_PERCENT_ALL;

	if (percent >= MPS_PERCENT_ALL || all < 2)
		return all;
	return n < 2 ? 2 : (uint32_t)(n - n % 2);
}
