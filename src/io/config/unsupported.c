/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/read.h"

#include <stdio.h>

/* Valid settings that this version does not support. Separate from reading and checking, so that a mistake
 * in such a part gets its own error. Thus a change that adds a feature removes one block here. */

int unsupported_check(const struct config *c, const struct config_places *places,
	struct error *err)
{
	if (c->discovery == DISCOVERY_TEGRA || c->discovery == DISCOVERY_VFIO)
		return error_set(err, ERR_UNSUPPORTED,
			"%s: %s GPUs are not supported; expected auto or nvml",
			places->discovery,
			c->discovery == DISCOVERY_TEGRA ? "Tegra" : "VFIO pass-through");
	return 0;
}

int config_unsupported(const struct config *c, const char *name, struct error *err)
{
	struct config_places places;

	(void)snprintf(places.discovery, sizeof(places.discovery),
		"%.200s: flags.deviceDiscoveryStrategy", name);
	return unsupported_check(c, &places, err);
}
