/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command language of nvidia-cuda-mps-control. Pure. Thread: any.
 */
#include "testbed/sim/mps/wire.h"

#define MPS_WORD_MAX 128

/* Sorted. X(id, name, changes a setting or state, a server answers, least number of arguments) */
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
	bool changes;    /* allowed only for the daemon's user and root */
	bool served;     /* a server answers it */
	bool short_of;   /* arguments are missing */
	uint32_t pid;    /* of a server: the first argument, where a command has one; 0: none */
	uint32_t client; /* terminate_client: its PID */
	uint32_t device;
	uint32_t uid;
	bool has_uid, force;      /* start_server -uid, shutdown_server -f */
	uint32_t timeout_s;       /* quit -t; 0: none */
	char value[MPS_WORD_MAX]; /* of a setting, as written */
	char device_text[MPS_WORD_MAX];
	char name[MPS_WORD_MAX]; /* the whole line, cut to this size */
};

/* Parses numbers as NVIDIA's program does: what is no number counts as 0. Cuts words that are too long. */
void mps_command_parse(struct sim_mps_command *ret, const char *line);
