/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Paths on a node on which several programs must agree. Options replace them; no other file names them. */
#define DEFAULT_RUN_DIR \
	"/run/gpuslice" /* the agent's and the arbiter's sockets, slices, locks */
#define DEFAULT_KUBELET_DIR "/var/lib/kubelet"
#define AGENT_SOCKET        "gpusliced.sock" /* in the agent's run directory */
