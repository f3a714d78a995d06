/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/counters/internal.h"

/*
 * The rows that dcgm-exporter's default-counters.csv enables (4.8), with help texts of gpuslice. A help text must
 * not have a comma, here as in that file.
 */
const char metrics_counters_builtin[] =
	"DCGM_FI_DEV_SM_CLOCK, gauge, Clock of the SMs (in MHz).\n"
	"DCGM_FI_DEV_MEM_CLOCK, gauge, Clock of the memory (in MHz).\n"
	"DCGM_FI_DEV_MEMORY_TEMP, gauge, Temperature of the memory (in C).\n"
	"DCGM_FI_DEV_GPU_TEMP, gauge, Temperature of the GPU (in C).\n"
	"DCGM_FI_DEV_POWER_USAGE, gauge, Power draw (in W).\n"
	"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter, Energy used since the driver was loaded (in mJ).\n"
	"DCGM_FI_DEV_PCIE_REPLAY_COUNTER, counter, Retries on PCIe.\n"
	"DCGM_FI_DEV_GPU_UTIL, gauge, Part of the time in which the GPU had work (in %).\n"
	"DCGM_FI_DEV_MEM_COPY_UTIL, gauge, Part of the time in which memory was read or written (in %).\n"
	"DCGM_FI_DEV_ENC_UTIL, gauge, Utilization of the video encoders (in %).\n"
	"DCGM_FI_DEV_DEC_UTIL, gauge, Utilization of the video decoders (in %).\n"
	"DCGM_FI_DEV_XID_ERRORS, gauge, Number of the last XID error.\n"
	"DCGM_FI_DEV_FB_FREE, gauge, GPU memory that is free (in MiB).\n"
	"DCGM_FI_DEV_FB_USED, gauge, GPU memory that is used (in MiB).\n"
	"DCGM_FI_DEV_FB_RESERVED, gauge, GPU memory that the driver keeps for itself (in MiB).\n"
	"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, counter, Rate over all NVLinks (in MB/s).\n"
	"DCGM_FI_DEV_VGPU_LICENSE_STATUS, gauge, vGPU licence: 1 if there is one.\n"
	"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS, counter, Rows of memory remapped after uncorrectable errors.\n"
	"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS, counter, Rows of memory remapped after correctable errors.\n"
	"DCGM_FI_DEV_ROW_REMAP_FAILURE, gauge, 1 if remapping of a row has failed.\n"
	"DCGM_FI_DRIVER_VERSION, label, Version of the driver.\n"
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Part of the time in which the graphics engine was active.\n"
	"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Part of the cycles in which the tensor cores were active.\n"
	"DCGM_FI_PROF_DRAM_ACTIVE, gauge, Part of the cycles in which the memory interface was active.\n"
	"DCGM_FI_PROF_PCIE_TX_BYTES, gauge, Rate of bytes sent over PCIe (in bytes per second).\n"
	"DCGM_FI_PROF_PCIE_RX_BYTES, gauge, Rate of bytes received over PCIe (in bytes per second).\n";
const size_t metrics_counters_builtin_len = sizeof(metrics_counters_builtin) - 1;
