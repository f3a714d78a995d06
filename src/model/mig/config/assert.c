/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/config/config.h"

/*
 * Whether a config is applied. As in mig-parted, all modes are checked first, then all instances. If
 * several entries match a GPU, the last one decides, also for the mode. mig-parted requires the modes of
 * all of them at once, which cannot succeed if they differ.
 */

bool mig_config_assert(const struct mig_config *c, const struct mig_node *node, bool mode_only,
	struct error *why)
{
	for (uint32_t i = 0; i < node->n; i++) {
		const struct mig_node_gpu *g = &node->gpus[i];
		const struct mig_entry *e = mig_config_entry(c, g);

		if (e && g->fault.code != ERR_NONE) {
			(void)error_set(why, g->fault.code, "GPU %u: %.400s", g->index,
				g->fault.msg);
			return false;
		}
		if (e && !mig_entry_mode_applied(e, g, why))
			return false;
	}
	for (uint32_t i = 0; !mode_only && i < node->n; i++) {
		const struct mig_node_gpu *g = &node->gpus[i];
		const struct mig_entry *e = mig_config_entry(c, g);

		if (!e) {
			(void)error_set(why, ERR_NOT_FOUND,
				"GPU %u: no entry of the config is about it", g->index);
			return false;
		}
		if (!mig_entry_applied(e, g, why))
			return false;
	}
	return true;
}
