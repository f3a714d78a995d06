/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the agent knows and has decided. One part writes each member, all others read: config/ the config, gpus.c what
 * NVML reports, reconcile.c what is offered. A part that follows them does so when it is called to, with the facts of
 * that moment; it keeps no pointers into them.
 * Thread: loop.
 */
#include "model/config/config.h"
#include "model/node/node.h"
#include "model/offer/offer.h"

/*
 * What is offered now: the decision and the inventory it was made from, which its devices point
 * into. Replaced as a pair.
 */
struct agent_offer {
	struct offer *offer;
	struct inventory *inv;
};

struct facts {
	struct config *config; /* in force; never NULL once the agent has started */
	bool decided; /* else it is that of flags and variables alone, and nothing is offered */

	struct node node;
	bool nvml_answered;     /* an inventory came, at least once */
	struct error nvml_down; /* ERR_NONE while NVML works */

	struct agent_offer offered;
	struct error offer_error; /* the decision could not be made; the old one stays */
	uint64_t rounds;          /* of the reconcile: how often it has run */
};
