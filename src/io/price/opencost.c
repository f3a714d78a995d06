/* SPDX-License-Identifier: Apache-2.0 */
#include "io/price/price.h"

#define CPU         0.031611
#define GIB         0.004237
#define GPU         0.95
#define MIB_PER_GIB 1024.0

struct price_parts price_opencost(int64_t nano_per_hour, uint32_t vcpus, uint32_t memory_mib,
	uint32_t gpus)
{
	double weight = gpus * GPU + vcpus * CPU + memory_mib / MIB_PER_GIB * GIB;
	double scale = weight > 0 ? (double)nano_per_hour / weight : 0;

	return (struct price_parts){ (int64_t)(CPU * scale + 0.5), (int64_t)(GIB * scale + 0.5),
		(int64_t)(GPU * scale + 0.5) };
}
