/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the parts of core/mps.h share, and nobody else needs. Thread: any (pure). */
#include "core/mps.h"

/* Of the GPU, or MIG device, at these positions. */
static inline const char *mps_uuid(const struct inventory *inv, uint32_t gpu, uint32_t mig)
{
	return mig == OFFER_WHOLE ? inv->gpus[gpu].uuid : inv->mig[mig].uuid;
}
