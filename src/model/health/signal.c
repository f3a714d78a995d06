/* SPDX-License-Identifier: Apache-2.0 */
#include "model/health/health.h"

/*
 * The default policies.
 *  - Unhealthy: NVML or the driver asks for an action that takes the GPU from its users (replacement,
 *    reset, reboot, drain), or new containers cannot start there (mismatch).
 *  - Warning: the error was contained, and the repair can wait for a maintenance.
 *  - Ignore: a lifetime counter never returns to 0, not even after a repair.
 */
const struct health_signal health_signals[GPU_SIGNAL_COUNT_] = {
	[GPU_SIGNAL_REMAP_FAILED] = { "rowRemapFailed",
		"a memory row could not be remapped, replace the GPU", HEALTH_ACT,
		"RowRemapFailed" },
	[GPU_SIGNAL_REMAP_PENDING] = { "rowRemapPending",
		"a remapped memory row takes effect with the next GPU reset", HEALTH_WARN,
		"RowRemapPending" },
	[GPU_SIGNAL_PAGES_PENDING] = { "retiredPagesPending",
		"a retired memory page takes effect with the next reboot", HEALTH_WARN,
		"RetiredPagesPending" },
	[GPU_SIGNAL_ECC_VOLATILE] = { "eccUncorrectedVolatile",
		"uncorrected ECC errors since the driver was loaded", HEALTH_WARN,
		"UncorrectedECCErrors" },
	[GPU_SIGNAL_ECC_AGGREGATE] = { "eccUncorrectedAggregate",
		"uncorrected ECC errors in the GPU's lifetime", HEALTH_IGNORE,
		"UncorrectedECCErrors" },
	[GPU_SIGNAL_DRIVER_MISMATCH] = { "driverMismatch",
		"the driver's library on disk does not fit the loaded kernel module, reboot the node",
		HEALTH_ACT, "DriverLibraryMismatch" },
	[GPU_SIGNAL_RESET] = { "gpuReset", "the driver asks for a GPU reset", HEALTH_ACT,
		"GPUResetRequired" },
	[GPU_SIGNAL_REBOOT] = { "nodeReboot", "the driver asks for a reboot of the node",
		HEALTH_ACT, "NodeRebootRequired" },
	[GPU_SIGNAL_DRAIN_P2P] = { "drainP2P",
		"the driver asks for this GPU to be drained of peer-to-peer work", HEALTH_ACT,
		NULL },
	[GPU_SIGNAL_DRAIN_RESET] = { "drainAndReset",
		"the driver asks for this GPU to be drained and reset", HEALTH_ACT,
		"GPUResetRequired" },
};
