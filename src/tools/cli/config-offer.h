/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a node offers under a sharing config, as an agent there would decide it: the part that `gpuslice config
 * check` and `gpuslice plan --write` share. Pure. Thread: any.
 */
#include "model/config/config.h"
#include "model/mps/mps.h"
#include "model/offer/offer.h"

struct config_offer {
	struct offer *offer;  /* yours; with the warnings and notes */
	struct mps_plan *mps; /* yours; of the config's MPS daemons */
};

/* Both are NULL after < 0. @name is the config's, and begins the error. */
int config_offer_make(struct config_offer *ret, const char *name, const struct config *config,
	const struct inventory *inv, struct error *err) MUST_USE;
void config_offer_fini(struct config_offer *o);
