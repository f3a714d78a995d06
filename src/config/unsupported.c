/* SPDX-License-Identifier: Apache-2.0 */
#include "config/read.h"

#include <stdio.h>

/*
 * What the format can say and this version cannot do. Kept apart from reading and checking, so that
 * a mistake in such a part is still told as what it is, and so that the issue that adds a feature
 * takes one block out here.
 */

static int refuse(const char *name, struct config_pos pos, const char *key, struct error *err,
	const char *text)
{
	const struct yaml_source src = { .name = name };

	return yaml_fail(&src, pos.line, pos.column, ERR_NOT_YET, err, "%s: %s", key, text);
}

/* Shares of the GPU's time; of its memory they are in force. */
static bool isolates_compute(const struct isolation *i)
{
	return i->present &&
	       (i->compute != ISOLATION_COMPUTE_NONE || i->class_ != SLICE_CLASS_BATCH);
}

int unsupported_check(const struct config *c, const char *name,
	const struct config_places *places, struct error *err)
{
	char key[80];

	if (c->sharing.strategy == SHARING_MPS)
		return refuse(name, c->sharing.pos, "sharing.mps", err,
			"MPS is not in this version yet; use sharing.timeSlicing meanwhile");
	for (size_t i = 0; i < c->sharing.n_entries; i++) {
		(void)snprintf(key, sizeof(key), "sharing.timeSlicing.resources[%zu].isolation",
			i);
		if (isolates_compute(&c->sharing.entries[i].isolation))
			return refuse(name, c->sharing.entries[i].isolation.pos, key, err,
				"isolation of compute comes in a later version"
				"; of this, only 'memory' is enforced yet");
	}
	if (c->n_slices)
		return refuse(name, c->slices[0].pos, "sharing.slices[0]", err,
			"software slices of any size come in a later version"
			"; use sharing.timeSlicing with isolation.memory meanwhile");
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
	return unsupported_check(c, name, &places, err);
}
