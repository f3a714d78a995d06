/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Packets and sockets of the simulated MPS. Used in programs of others: no threads, no output. Thread: any. */
#include "testbed/sim/mps/wire.h"

#include <sys/types.h>

/* Connects to DIR/control. -1 with errno: nobody serves there. The directory of the environment: mps_dir(). */
int mps_dial(const char *dir);
const char *mps_dir(void);

/* @send_fd goes along unless it is -1; @flags as of sendmsg(). False: the peer is gone, or does not read. */
bool mps_send(int fd, struct mps_packet *p, int send_fd, int flags);

enum mps_receive_result { MPS_RECEIVED, MPS_RETRY, MPS_GONE };

/*
 * One packet, with its text ended and its numbers in range; what came along is in *recv_fd (yours; NULL: it is
 * closed). GONE also where the peer sent what is none.
 */
enum mps_receive_result mps_receive(int fd, struct mps_packet *p, int *recv_fd, int flags);

/* Whether the peer has not hung up. */
bool mps_is_alive(int fd);

/* Who connected, as the kernel says; 0 and (uid_t)-1: it does not. */
void mps_peer(int fd, pid_t *pid, uid_t *uid);
