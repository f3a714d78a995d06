/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The view of a round that was counted (monitoring_count_round()). monitoring_build_view() calls the other
 * functions in the order in which they are declared. Each fills members of its own. If the view's memory does
 * not suffice, the view is marked as failed (view_failed()), which monitoring_build_view() reports. Thread:
 * loop. Blocks: monitoring_build_view(), for /proc.
 */
#include "lib/base/error.h"

struct monitoring;
struct monitoring_round;
struct view;

/*
 * The view of the round @r, a reference that the caller owns. Moves the sample of @mon into it, also on a
 * failure after that. NULL: ERR_LIMIT, ERR_NOMEM.
 */
struct view *monitoring_build_view(struct monitoring *mon, struct monitoring_round *r,
	struct error *err);

/*
 * Fills .devices of @v, which has .sample: one for each of @r's devices. Adds the round to the history of
 * devices and GPUs.
 */
void monitoring_build_devices(struct monitoring *mon, const struct monitoring_round *r,
	struct view *v);

/* Fills .gpus of @v, which has .sample and .devices: one for each GPU of the node, with its devices. */
void monitoring_build_gpus(const struct monitoring *mon, const struct monitoring_round *r,
	struct view *v);

/*
 * Fills .uses of @v, sorted by device, and links them in its .devices, which did not fail. Raises the memory of
 * a device to the sum of its containers.
 */
void monitoring_build_usage(const struct monitoring *mon, const struct monitoring_round *r,
	struct view *v);
