/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Options of gpusliced: NVIDIA's, from config/, and gpuslice's own. Thread: main, at start. */
#include "node/agent/agent.h"
#include "lib/base/time.h"
#include "lib/base/option.h"

#define AGENT_STARTUP_TAINT  "gpuslice.io/not-ready"
#define AGENT_NODE_CONDITION "AcceleratedHardwareReady" /* EKS's and Karpenter's type */
#define AGENT_HOST_ROOT      "/host"
#define AGENT_MIG_STATE_FILE "/etc/systemd/system/nvidia-mig-manager.service.d/override.conf"
#define AGENT_SLICE_KEEP_NS  (600 * NS_PER_SEC)
#define AGENT_METRICS_LISTEN "127.0.0.1:9400" /* dcgm-exporter's port */

/* The whole table, gpuslice's own options first. The caller owns it: free(). NULL: out of memory. */
struct option_def *agent_options(size_t *ret_n) MUST_USE;

/*
 * The options for agent_start(). Strings stay those of @o. Call agent_options_fini() also after an error. Refuses
 * unknown words, and more than one config option on the command line.
 */
int agent_options_read(struct agent_options *ret, const struct options *o,
	struct error *err) MUST_USE;
void agent_options_fini(struct agent_options *o);
