/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The source of each field's value: one row for each of fields[], in the same order. The row or its call has the
 * conversion. A value by which NVML says that it does not know (32 for a performance state) is an error, so the
 * field is absent and not wrong.
 *
 * Thread: one at a time for each struct probe.
 */
#include "model/field/field.h"
#include "model/gpu/sample.h"
#include "io/nvml/probe/probe.h"

enum source_how {
	SOURCE_NONE,  /* no source here: XIDs come as events */
	SOURCE_CALL,  /* a call of NVML */
	SOURCE_FIELD, /* a field value of NVML; many in one call */
	SOURCE_RATE,  /* NVLink counters, by the time between two samples */
	SOURCE_GPM,   /* a metric of two GPM samples */
};

/* For how long a value is valid. */
enum source_every {
	SOURCE_ALWAYS, /* read every time */
	SOURCE_COSTLY, /* takes the driver milliseconds: 10 s */
	SOURCE_FIXED,  /* constant while the driver is loaded: 10 min */
};

#define SOURCE_TX 1U /* directions of a rate */
#define SOURCE_RX 2U

/* The memory of one reading of one GPU or MIG device, so that no call is made twice. */
struct source_memo {
	bool has_memory, has_bar1, has_rates, has_ecc, has_limits, has_rows, has_fabric,
		has_pci;
	nvmlReturn_t memory_r, bar1_r, rates_r, ecc_r, limits_r, rows_r, fabric_r, pci_r;
	nvmlMemory_v2_t memory; /* from version 1 of the call without .reserved */
	bool reserved_known;
	nvmlBAR1Memory_t bar1;
	nvmlUtilization_t rates;
	unsigned int ecc[2];    /* now, pending */
	unsigned int limits[2]; /* smallest, largest; mW */
	nvmlRowRemapperHistogramValues_t rows;
	nvmlGpuFabricInfo_v2_t fabric;
	nvmlPciInfo_t pci;
};

struct source_query {
	struct probe *p;
	uint32_t gpu;        /* NVML index, for the breadcrumbs */
	nvmlDevice_t device; /* a GPU or a MIG device */
	struct source_memo memo;
};

union source_value {
	int64_t i;
	double real;
	char text[SAMPLE_TEXT_MAX];
};

typedef nvmlReturn_t source_call(struct source_query *a, uint32_t arg, union source_value *ret);

struct sample_source {
	uint16_t id; /* DCGM's number */
	uint8_t how, every;
	source_call *call;
	uint32_t arg;   /* of the call; NVML's field; a rate's directions; GPM's metric */
	uint32_t scope; /* of a field; a rate's link, UINT32_MAX: all links */
	double scale;   /* factor for a call's number (.i), a real, a GPM metric */
};

extern const struct sample_source sources[]; /* [n_fields] */
extern const size_t n_sources;

/* Memory and utilization of the device, also read apart from fields. Each calls NVML once for a reading. 0: the
 * values are in a->memo. */
nvmlReturn_t source_memory(struct source_query *a);
nvmlReturn_t source_rates(struct source_query *a);

/* The calls of the table. */
source_call source_driver, source_nvml, source_cuda, source_name, source_brand, source_index,
	source_serial, source_uuid, source_minor, source_inforom, source_image, source_vbios,
	source_pci, source_compute_capability, source_compute_mode, source_persistence,
	source_mig_mode, source_mig_max, source_virtual_mode, source_vgpu_license;
source_call source_bar1, source_bar1_bytes, source_fb, source_fb_ratio, source_clock,
	source_app_clock, source_max_clock, source_reasons, source_temperature,
	source_threshold, source_margin, source_power, source_power_limit, source_power_range,
	source_power_default, source_power_enforced, source_fabric, source_fabric_cluster,
	source_pstate, source_fan, source_pcie_throughput, source_pcie_replay,
	source_utilization, source_encoder, source_decoder, source_pcie_max_gen,
	source_pcie_max_width, source_pcie_gen, source_pcie_width, source_ecc_mode,
	source_ecc_location, source_rows;
