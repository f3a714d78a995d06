/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* gpusliced's options: NVIDIA's, from config/, and ours. Thread: main, at start. */
#include "base/option.h"

#define AGENT_KUBELET_DIR "/var/lib/kubelet"
#define AGENT_RUN_DIR     "/run/gpuslice"
#define AGENT_SOCKET      "gpusliced.sock" /* in the run directory: status over HTTP */

/* The whole table, ours first. Yours: free(). NULL: out of memory. */
struct option_def *agent_options(size_t *ret_n) MUST_USE;
