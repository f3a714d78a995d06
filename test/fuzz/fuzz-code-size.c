/* SPDX-License-Identifier: Apache-2.0 */
/* Images of GPU code, as a program may load them. */
#include "fuzz/fuzz.h"

#include "container/cuda/memory/code-size.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)code_bytes(data, size);
	return 0;
}
