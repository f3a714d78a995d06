/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The answer of /v1/status (docs/status.md). It reads what the parts of the agent have, and changes nothing.
 * Thread: loop.
 */
#include "node/agent/base/facts.h"
#include "node/agent/base/report.h"
#include "node/agent/cluster/cluster.h"
#include "node/agent/config/config.h"
#include "node/agent/kubelet/kubelet.h"
#include "node/agent/mig/mig.h"
#include "node/agent/mps/mps.h"
#include "node/agent/slices/slices.h"
#include "lib/base/error.h"

#include <stdint.h>

/*
 * What the status shows. All borrowed. The facts have a config. Each part is there from its init to its fini.
 */
struct agent_status_context {
	const struct facts *facts;
	const struct components *components;
	const struct agent_config *config;
	const struct agent_kubelet *kubelet;
	const struct cluster_client *cluster;
	const struct mig *mig;
	const struct mps *mps;
	const struct slices *slices;
	uint64_t started_wall_ns; /* when the agent started */
};

/*
 * The status as JSON text. @pod_devices: which pods have which devices; NULL: not known, and @holders_error,
 * unless NULL, says why. The caller owns the text: free(). NULL: out of memory.
 */
char *agent_status_json(const struct agent_status_context *c,
	const struct pod_devices *pod_devices, const struct error *holders_error) MUST_USE;
