/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The requests of processes after their hello (register.h), and the answers. Thread: loop. */
#include "node/arbiter/clients/packet.h"

#include <stdbool.h>

struct arbiter;
struct arbiter_conn;

/*
 * Handles the packet @p, which packet_read() accepted. @fd: the page that came with it, or -1; stays the
 * caller's. May close the connection, which frees @c.
 */
void conn_request(struct arbiter_conn *c, const union packet *p, int fd);

/*
 * Answers the requests that wait for NVML's figures. @wait: a request that still has no room may wait for the
 * next reading; else each is answered now. See struct readings_ops (control/readings.h).
 */
void conns_retry_waiting(struct arbiter *a, bool wait);
