/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For offer.c only: functions of offer/resource.c. Thread: any (pure). */
#include "model/offer/offer.h"

/* Makes resource_find() fast. The devices must not change afterwards. */
int resource_build_index(struct resource *r, struct error *err) MUST_USE;

/* Frees the members of @r, but not @r. */
void resource_fini(struct resource *r);
