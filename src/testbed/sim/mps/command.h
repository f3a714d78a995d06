/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command language of nvidia-cuda-mps-control. Pure. Thread: any.
 */
#include "testbed/sim/mps/wire.h"

#define MPS_WORD_MAX 128

/* Sorted. X(id, name, whether it changes something, whether a server answers it, words at least) */
#define MPS_COMMANDS(X)                                                             \
	X(GET_PERCENT, "get_active_thread_percentage", false, false, 1)             \
	X(GET_CLIENTS, "get_client_list", false, true, 1)                           \
	X(GET_DEF_PERCENT, "get_default_active_thread_percentage", false, false, 0) \
	X(GET_DEF_PRIORITY, "get_default_client_priority", false, false, 0)         \
	X(GET_DEF_LIMIT, "get_default_device_pinned_mem_limit", false, false, 1)    \
	X(GET_DEVICES, "get_device_client_list", false, true, 0)                    \
	X(GET_LIMIT, "get_device_pinned_mem_limit", false, false, 2)                \
	X(GET_SERVERS, "get_server_list", false, false, 0)                          \
	X(GET_STATUS, "get_server_status", false, false, 1)                         \
	X(PS, "ps", false, true, 0)                                                 \
	X(QUIT, "quit", true, false, 0)                                             \
	X(SET_PERCENT, "set_active_thread_percentage", true, false, 2)              \
	X(SET_DEF_PERCENT, "set_default_active_thread_percentage", true, false, 1)  \
	X(SET_DEF_PRIORITY, "set_default_client_priority", true, false, 1)          \
	X(SET_DEF_LIMIT, "set_default_device_pinned_mem_limit", true, false, 2)     \
	X(SET_LIMIT, "set_device_pinned_mem_limit", true, false, 3)                 \
	X(STOP_SERVER, "shutdown_server", true, false, 1)                           \
	X(START_SERVER, "start_server", true, false, 2)                             \
	X(TERMINATE, "terminate_client", true, true, 2)

#define MPS_COMMAND_ID_(id, name, changes, served, words) MPS_CMD_##id,
enum mps_command_id { MPS_CMD_UNKNOWN, MPS_COMMANDS(MPS_COMMAND_ID_) };
#undef MPS_COMMAND_ID_

struct sim_mps_command {
	enum mps_command_id id;
	bool changes;    /* only for the user of the daemon, and for root */
	bool served;     /* a server answers it */
	bool short_of;   /* words that it needs are missing */
	uint32_t pid;    /* of a server, the first word where one belongs; 0: none */
	uint32_t client; /* terminate_client: its PID */
	uint32_t device;
	uint32_t uid;
	bool has_uid, force;      /* start_server -uid, shutdown_server -f */
	uint32_t timeout_s;       /* quit -t; 0: none */
	char value[MPS_WORD_MAX]; /* of a setting, as it was written */
	char device_text[MPS_WORD_MAX];
	char name[MPS_WORD_MAX]; /* the first word; of an unknown command the whole line */
};

/* Numbers are read as NVIDIA's program reads them: what is none is 0. Words that are too long are cut. */
void mps_command_parse(struct sim_mps_command *ret, const char *line);
