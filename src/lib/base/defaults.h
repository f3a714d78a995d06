/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Places on a node that several programs must agree on. Options replace them; nothing else names them. */
#define DEFAULT_RUN_DIR \
	"/run/gpuslice" /* the agent's and the arbiter's sockets, slices, locks */
#define DEFAULT_KUBELET_DIR "/var/lib/kubelet"
#define AGENT_SOCKET        "gpusliced.sock" /* of the agent, in its run directory */
