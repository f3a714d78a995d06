/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a node offers under a sharing config, as the node's agent would decide. `gpuslice config check`
 * and `gpuslice plan --write` share it. Pure. Thread: any.
 */
#include "model/config/config.h"
#include "model/mps/mps.h"
#include "model/offer/offer.h"

struct config_offer {
	struct offer *offer;  /* owned; with the warnings and notes */
	struct mps_plan *mps; /* owned; the config's MPS daemons */
};

/* After an error both members are NULL. @name: the name of the config; begins the error. */
int config_offer_make(struct config_offer *ret, const char *name, const struct config *config,
	const struct inventory *inv, struct error *err) MUST_USE;
void config_offer_fini(struct config_offer *o);
