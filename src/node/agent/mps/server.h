/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state SERVER: a server has ended, or may not start, and a daemon without a server serves no client.
 *
 * For the files of this folder only. Thread: loop.
 */
struct mps_supervisor;

/* Does the next action in the state SERVER. */
void mps_server_next(struct mps_supervisor *sup);
