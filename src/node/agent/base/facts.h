/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the agent knows and has decided. One part writes each member and all others read it: config/ the config,
 * gpus.c what NVML reports, reconcile.c the offer and its rounds. The exception is .node: reconcile.c also applies
 * the passing of time (node_tick()), and health/ the saved health. A part follows the facts when it is called to,
 * and reads them as they are then. A part keeps a pointer to the facts, and none to an object in them: the config
 * and the offer are replaced.
 * Thread: loop.
 */
#include "model/config/config.h"
#include "model/node/node.h"
#include "model/offer/offer.h"

/*
 * The offer in force, and the inventory that it was made from. The offer's devices point into that inventory. Both
 * are replaced together.
 */
struct agent_offer {
	struct offer *offer;
	struct inventory *inv;
};

struct facts {
	struct config *config; /* in force; never NULL once the agent has started */
	bool decided; /* false: .config is that of flags and variables alone, and nothing is offered */
	uint64_t config_generation; /* counts the configs that were in force, from 1 */

	struct node node;
	bool nvml_answered;     /* at least one inventory has arrived */
	struct error nvml_down; /* ERR_NONE while NVML works */

	struct agent_offer offered;
	struct error offer_error; /* why the last decision failed; the old offer stays */
	uint64_t rounds;          /* how often the reconcile has run */
};
