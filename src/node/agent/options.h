/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* gpusliced's options: NVIDIA's, from config/, and ours. Thread: main, at start. */
#include "node/agent/agent.h"
#include "lib/base/time.h"
#include "lib/base/option.h"

#define AGENT_STARTUP_TAINT   "gpuslice.io/not-ready"
#define AGENT_NODE_CONDITION  "AcceleratedHardwareReady" /* as EKS and Karpenter know it */
#define AGENT_HOST_ROOT       "/host"
#define AGENT_MIG_STATE_FILE  "/etc/systemd/system/nvidia-mig-manager.service.d/override.conf"
#define AGENT_SLICE_RETAIN_NS (600 * NS_PER_SEC)
#define AGENT_METRICS_LISTEN  "127.0.0.1:9400" /* dcgm-exporter's port */

/* The whole table, ours first. Yours: free(). NULL: out of memory. */
struct option_def *agent_options(size_t *ret_n) MUST_USE;

/* What agent_start() wants. Strings stay those of @o; agent_options_fini() also after an error.
 * Refuses words that are not known, and more than one place for the config. */
int agent_options_read(struct agent_options *ret, const struct options *o,
	struct error *err) MUST_USE;
void agent_options_fini(struct agent_options *o);
