/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the agent is ready, and the reasons why not, for /readyz and the startup taint. */
#include "node/agent/internal.h"

bool agent_ready(const struct agent *a, struct buf *why)
{
	bool ready = true;

	if (!a->facts.decided) {
		buf_printf(why, "config: %s\n",
			*a->config.waiting ? a->config.waiting : a->config.last_error.msg);
		ready = false;
	}
	if (!a->facts.nvml_answered || a->facts.nvml_down.code != ERR_NONE) {
		buf_printf(why, "nvml: %s\n",
			a->facts.nvml_down.code ? a->facts.nvml_down.msg : "starting");
		ready = false;
	}
	if (a->facts.offer_error.code != ERR_NONE) {
		buf_printf(why, "offer: %s\n", a->facts.offer_error.msg);
		ready = false;
	}
	if (a->cdi.error.code != ERR_NONE) {
		buf_printf(why, "cdi: %s\n", a->cdi.error.msg);
		ready = false;
	}
	if (*slices_get_error(&a->slices)) {
		buf_printf(why, "slices: %s\n", slices_get_error(&a->slices));
		ready = false;
	}
	return agent_kubelet_ready(&a->kubelet, why) && ready;
}
