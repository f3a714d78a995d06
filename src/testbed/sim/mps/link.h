/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Packets and sockets of the simulated MPS. Linked into tenants' programs: no threads, no output. Thread: any. */
#include "testbed/sim/mps/wire.h"

#include <sys/types.h>

/*
 * mps_dial() connects to DIR/control; -1 with errno: no daemon serves there. mps_dir(): the directory that the
 * environment names.
 */
int mps_dial(const char *dir);
const char *mps_dir(void);

/* Sends @send_fd too, unless it is -1; @flags of sendmsg(). False: the peer is gone, or its socket is full. */
bool mps_send(int fd, struct mps_packet *p, int send_fd, int flags);

enum mps_receive_result { MPS_RECEIVED, MPS_RETRY, MPS_GONE };

/*
 * Receives one packet; its text is terminated and its numbers are in range. *recv_fd is a descriptor that came
 * with it, for the caller to close; @recv_fd NULL: closed here. MPS_GONE also if the peer sent an invalid packet.
 */
enum mps_receive_result mps_receive(int fd, struct mps_packet *p, int *recv_fd, int flags);

/* Whether the peer is still connected. */
bool mps_is_alive(int fd);

/* The peer's process and user, from the kernel; 0 and (uid_t)-1: not known. */
void mps_peer(int fd, pid_t *pid, uid_t *uid);
