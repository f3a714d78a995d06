/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "model/gpu/vgpu.h"

/* PCI configuration space of a device that may answer anything. What comes out are label values. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vgpu v;

	if (vgpu_parse(&v, data, size, NULL) < 0) {
		if (size >= PCI_CONFIG_STANDARD)
			__builtin_trap();
		return 0;
	}
	if ((v.state != VGPU_ABSENT && v.state != VGPU_PRESENT) ||
		!label_value_ok(v.host_version) || !label_value_ok(v.host_branch) ||
		(v.state == VGPU_ABSENT && v.host_version[0]))
		__builtin_trap();
	return 0;
}
