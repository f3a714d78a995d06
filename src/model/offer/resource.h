/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What offer.c needs of offer/resource.c and nobody else. Thread: any (pure). */
#include "model/offer/offer.h"

/* Makes resource_find() fast. The devices do not change any more. */
int resource_build_index(struct resource *r, struct error *err) MUST_USE;

/* Frees what @r holds, not @r. */
void resource_fini(struct resource *r);
