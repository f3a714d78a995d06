/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Field values: the same figures as the plain calls, by number. One row for each field has the field's type, its
 * group for injected failures, and how it is computed. A field without a row is NOT_SUPPORTED up to the last
 * number that the driver knows, and INVALID_ARGUMENT above it.
 */
#include "testbed/sim/nvml/lib.h"

#include "lib/base/time.h"

#define FIELD_LAST 302 /* driver 580.159.04 */

static const unsigned short unknown_below_last[] = { 0, 274, 289, 290, 291, 292, 293, 296, 297,
	298, 299, 300 }; /* INVALID_ARGUMENT on that driver */

typedef uint64_t field_fn(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r);

struct sim_nvml_field {
	unsigned int id, type;
	enum sim_group group;
	field_fn *fn;
	uint32_t key; /* offset in struct sim_keys, if .fn is NULL */
	uint32_t size;
};

static uint64_t get_energy_field(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	(void)r;
	return sim_energy_mj(g, time_wall_ns());
}

static uint64_t memory_temperature(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	if (!g->keys.mem_temp)
		*r = NVML_ERROR_NOT_SUPPORTED;
	return sim_temperature_c(g);
}

static uint64_t get_power_field(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	if (scope != 0)
		*r = NVML_ERROR_NOT_SUPPORTED;
	return sim_power_mw(g);
}

static uint32_t links_active(const struct sim_gpu *g, uint32_t type)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SIM_MAX_LINKS; i++)
		n += g->links[i].active && g->links[i].remote_type == type;
	return n;
}

static uint64_t link_count(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	if (!g->keys.nvlink_links)
		*r = NVML_ERROR_NOT_SUPPORTED;
	return g->keys.nvlink_links;
}

static uint64_t switch_links(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	(void)r; /* 0 without switches, even without NVLink (measured) */
	return links_active(g, NVML_NVLINK_DEVICE_TYPE_SWITCH);
}

static bool link_ok(const struct sim_gpu *g, unsigned int link, nvmlReturn_t *r)
{
	if (!g->keys.nvlink_links)
		*r = NVML_ERROR_NOT_SUPPORTED;
	else if (link >= g->keys.nvlink_links || link >= SIM_MAX_LINKS)
		*r = NVML_ERROR_INVALID_ARGUMENT;
	return *r == NVML_SUCCESS;
}

static uint64_t link_speed(const struct sim_gpu *g, unsigned int link, nvmlReturn_t *r)
{
	return link_ok(g, link, r) && g->links[link].active ? g->keys.nvlink_mbps : 0;
}

static uint64_t link_state(const struct sim_gpu *g, unsigned int link, nvmlReturn_t *r)
{
	return link_ok(g, link, r) && g->links[link].active;
}

static uint64_t link_version(const struct sim_gpu *g, unsigned int link, nvmlReturn_t *r)
{
	return link_ok(g, link, r) ? g->keys.nvlink_version : 0;
}

/* Hopper has no totals over all links; it counts for each link (measured). */
static uint64_t link_errors(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	if (!g->keys.nvlink_links || g->keys.architecture >= NVML_DEVICE_ARCH_HOPPER)
		*r = NVML_ERROR_NOT_SUPPORTED;
	return g->keys.nvlink_errors * g->keys.nvlink_links;
}

static uint64_t hopper_link(const struct sim_gpu *g, unsigned int link, nvmlReturn_t *r,
	uint64_t value)
{
	if (g->keys.architecture < NVML_DEVICE_ARCH_HOPPER)
		*r = NVML_ERROR_NOT_SUPPORTED;
	else
		(void)link_ok(g, link, r);
	return value;
}

static uint64_t hopper_link_errors(const struct sim_gpu *g, unsigned int link, nvmlReturn_t *r)
{
	return hopper_link(g, link, r, g->keys.nvlink_errors);
}

/* Power state, power thresholds and their unit, as an idle H200 has them (measured). */
#define HOPPER_LINK(name, value)                                                          \
	static uint64_t name(const struct sim_gpu *g, unsigned int link, nvmlReturn_t *r) \
	{                                                                                 \
		return hopper_link(g, link, r, value);                                    \
	}

HOPPER_LINK(link_zero, 0)
HOPPER_LINK(link_power_state, 1)
HOPPER_LINK(link_power_threshold, 500)
HOPPER_LINK(link_power_threshold_max, 8191)
HOPPER_LINK(link_power_threshold_min, 1)
HOPPER_LINK(link_power_threshold_unit, 0)
HOPPER_LINK(link_power_threshold_supported, 2)

/* Traffic over NVLink is not simulated: the counters exist and stay 0. */
static uint64_t link_traffic(const struct sim_gpu *g, unsigned int link, nvmlReturn_t *r)
{
	if (link == UINT32_MAX)
		link = 0;
	(void)link_ok(g, link, r);
	return 0;
}

static uint64_t get_constant_zero_field(const struct sim_gpu *g, unsigned int scope,
	nvmlReturn_t *r)
{
	(void)g;
	(void)scope;
	(void)r;
	return 0;
}

/* Two older fields with values of field 230: 226 is a reset, 227 a drain and a reset. */
static uint64_t reset_status(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	(void)r;
	return g->keys.recovery_action == 1;
}

static uint64_t drain_reset_status(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	(void)r;
	return g->keys.recovery_action == 4;
}

static uint64_t mig_without_reset(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	(void)r;
	return g->keys.mig_capable && g->keys.architecture >= NVML_DEVICE_ARCH_HOPPER;
}

static uint64_t mig_query_any_time(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	(void)r;
	return g->keys.mig_capable && !g->keys.mig_query_needs_mode;
}

/* Degrees from a threshold to the limit of the margin; not before Hopper. */
static uint64_t compute_tlimit(const struct sim_gpu *g, uint32_t threshold_c, nvmlReturn_t *r)
{
	if (g->fail[SIM_GROUP_MARGIN])
		*r = (nvmlReturn_t)g->fail[SIM_GROUP_MARGIN];
	return (uint32_t)((int32_t)g->keys.temperature_gpu_max_c - (int32_t)threshold_c);
}

static uint64_t tlimit_shutdown(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	return compute_tlimit(g, g->keys.temperature_shutdown_c, r);
}

static uint64_t tlimit_slowdown(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	return compute_tlimit(g, g->keys.temperature_slowdown_c, r);
}

static uint64_t tlimit_max(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	return compute_tlimit(g, g->keys.temperature_gpu_max_c, r);
}

static uint64_t pcie_tx(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	(void)r;
	return (uint32_t)(sim_pcie_kb(g, 0, time_wall_ns()) * 1000);
}

static uint64_t pcie_rx(const struct sim_gpu *g, unsigned int scope, nvmlReturn_t *r)
{
	(void)scope;
	(void)r;
	return (uint32_t)(sim_pcie_kb(g, 1, time_wall_ns()) * 1000);
}

/*
 * A real driver sets the type of a field even if it refuses the value. So does the simulator, for numbers without
 * a row (measured).
 */
static const struct {
	unsigned short first, last, type;
} types_without_row[] = {
	{ 7, 31, 3 },
	{ 91, 91, 1 },
	{ 92, 93, 3 },
	{ 138, 141, 3 },
	{ 146, 146, 1 },
	{ 161, 163, 3 },
	{ 164, 168, 1 },
	{ 170, 172, 1 },
	{ 200, 200, 1 },
	{ 223, 225, 1 },
	{ 231, 234, 1 },
	{ 251, 253, 1 },
	{ 259, 259, 1 },
	{ 263, 264, 1 },
	{ 268, 268, 1 },
	{ 272, 273, 3 },
	{ 279, 279, 6 },
	{ 280, 280, 1 },
	{ 282, 283, 6 },
	{ 286, 287, 6 },
};

#define ULL NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
#define U   NVML_VALUE_TYPE_UNSIGNED_INT
#define I   NVML_VALUE_TYPE_SIGNED_INT
#define KEY(id, type, group, member)                                                  \
	{                                                                             \
		id, type, SIM_GROUP_##group, NULL, offsetof(struct sim_keys, member), \
			sizeof(((struct sim_keys *)0)->member)                        \
	}
#define FN(id, type, group, fn)                       \
	{                                             \
		id, type, SIM_GROUP_##group, fn, 0, 0 \
	}

static const struct sim_nvml_field fields[] = {
	/* sorted by id */
	KEY(1, ULL, ECC, ecc),
	KEY(2, ULL, ECC, ecc_pending),
	KEY(3, ULL, ECC_COUNTERS, ecc_corrected_volatile),
	KEY(4, ULL, ECC_COUNTERS, ecc_uncorrected_volatile),
	KEY(5, ULL, ECC_COUNTERS, ecc_corrected_aggregate),
	KEY(6, ULL, ECC_COUNTERS, ecc_uncorrected_aggregate),
	KEY(29, ULL, RETIRED_PAGES, retired_sbe),
	KEY(30, ULL, RETIRED_PAGES, retired_dbe),
	KEY(31, ULL, RETIRED_PAGES, retired_pending),
	FN(38, ULL, NVLINK, link_errors),
	FN(45, ULL, NVLINK, link_errors),
	FN(52, ULL, NVLINK, link_errors),
	FN(59, ULL, NVLINK, link_errors),
	KEY(74, ULL, VIOLATION, violation_power_ns),
	KEY(75, ULL, VIOLATION, violation_thermal_ns),
	FN(76, ULL, VIOLATION, get_constant_zero_field),
	FN(77, ULL, VIOLATION, get_constant_zero_field),
	FN(78, ULL, VIOLATION, get_constant_zero_field),
	FN(79, ULL, VIOLATION, get_constant_zero_field),
	FN(80, ULL, VIOLATION, get_constant_zero_field),
	KEY(81, ULL, VIOLATION, violation_base_ns),
	FN(82, U, TEMPERATURE, memory_temperature),
	FN(83, ULL, ENERGY, get_energy_field),
	FN(91, U, NVLINK, link_count),
	KEY(94, U, PCIE, pcie_replays),
	FN(95, U, PCIE, get_constant_zero_field),
	FN(138, ULL, NVLINK, link_traffic),
	FN(139, ULL, NVLINK, link_traffic),
	FN(140, ULL, NVLINK, link_traffic),
	FN(141, ULL, NVLINK, link_traffic),
	KEY(142, ULL, REMAPPED_ROWS, remapped_corrected),
	KEY(143, ULL, REMAPPED_ROWS, remapped_uncorrected),
	KEY(144, ULL, REMAPPED_ROWS, remapped_pending),
	KEY(145, ULL, REMAPPED_ROWS, remapped_failure),
	FN(146, U, NVLINK, link_zero),
	FN(147, U, FIELD_VALUES, switch_links),
	FN(161, ULL, NVLINK, hopper_link_errors),
	FN(162, ULL, NVLINK, hopper_link_errors),
	FN(163, ULL, NVLINK, hopper_link_errors),
	FN(164, U, NVLINK, link_speed),
	FN(165, U, NVLINK, link_state),
	FN(166, U, NVLINK, link_version),
	FN(167, U, NVLINK, link_power_state),
	FN(168, U, NVLINK, link_power_threshold),
	FN(169, U, PCIE, get_constant_zero_field),
	FN(173, U, PCIE, get_constant_zero_field),
	FN(174, U, PCIE, get_constant_zero_field),
	FN(175, U, PCIE, get_constant_zero_field),
	FN(176, U, PCIE, get_constant_zero_field),
	FN(177, U, PCIE, get_constant_zero_field),
	FN(178, U, PCIE, get_constant_zero_field),
	FN(179, U, PCIE, get_constant_zero_field),
	FN(180, U, PCIE, get_constant_zero_field),
	FN(181, U, PCIE, get_constant_zero_field),
	FN(182, U, PCIE, get_constant_zero_field),
	FN(183, U, PCIE, get_constant_zero_field),
	FN(184, U, FIELD_VALUES, mig_without_reset),
	FN(185, U, POWER, get_power_field),
	FN(186, U, POWER, get_power_field),
	KEY(187, U, POWER_LIMIT, power_min_mw),
	KEY(188, U, POWER_LIMIT, power_max_mw),
	KEY(189, U, POWER_LIMIT, power_default_mw),
	KEY(190, U, POWER_LIMIT, power_limit_mw),
	FN(191, ULL, ENERGY, get_energy_field),
	KEY(192, U, POWER_LIMIT, power_limit_mw),
	FN(193, I, THRESHOLDS, tlimit_shutdown),
	FN(194, I, THRESHOLDS, tlimit_slowdown),
	FN(195, I, THRESHOLDS, tlimit_max),
	FN(196, I, THRESHOLDS, tlimit_max),
	FN(197, U, PCIE, pcie_tx),
	FN(198, U, PCIE, pcie_rx),
	FN(199, U, FIELD_VALUES, mig_query_any_time),
	FN(200, U, NVLINK, link_power_threshold_max),
	FN(223, U, NVLINK, link_power_threshold_min),
	FN(224, U, NVLINK, link_power_threshold_unit),
	FN(225, U, NVLINK, link_power_threshold_supported),
	FN(226, U, FIELD_VALUES, reset_status),
	FN(227, U, FIELD_VALUES, drain_reset_status),
	FN(228, U, FIELD_VALUES, get_constant_zero_field),
	FN(229, U, FIELD_VALUES, get_constant_zero_field),
	KEY(230, U, FIELD_VALUES, recovery_action),
	FN(269, ULL, VIOLATION, get_constant_zero_field),
	FN(270, ULL, VIOLATION, get_constant_zero_field),
	FN(271, ULL, VIOLATION, get_constant_zero_field),
	FN(301, ULL, REMAPPED_ROWS, get_constant_zero_field),
	FN(302, ULL, REMAPPED_ROWS, get_constant_zero_field),
};

static const struct sim_nvml_field *field_find(unsigned int id)
{
	size_t low = 0, high = ARRAY_LEN(fields);

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (fields[middle].id == id)
			return &fields[middle];
		if (fields[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static nvmlReturn_t code_without_row(unsigned int id)
{
	for (size_t i = 0; i < ARRAY_LEN(unknown_below_last); i++)
		if (unknown_below_last[i] == id)
			return NVML_ERROR_INVALID_ARGUMENT;
	return id > FIELD_LAST ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
}

static unsigned int refused_type(unsigned int id)
{
	for (size_t i = 0; i < ARRAY_LEN(types_without_row); i++)
		if (id >= types_without_row[i].first && id <= types_without_row[i].last)
			return types_without_row[i].type;
	return 0;
}

static void fill_field_value(const struct sim_gpu *g, nvmlFieldValue_t *v, uint64_t now_us)
{
	const struct sim_nvml_field *f = field_find(v->fieldId);
	uint64_t value = 0;

	v->timestamp = (long long)now_us;
	v->latencyUsec = 0;
	v->valueType = refused_type(v->fieldId);
	v->value.ullVal = 0;
	v->nvmlReturn = f ? (nvmlReturn_t)g->fail[f->group] : code_without_row(v->fieldId);
	if (v->nvmlReturn)
		return;
	if (f->fn)
		value = f->fn(g, v->scopeId, &v->nvmlReturn);
	else
		__builtin_memcpy(&value, (const char *)&g->keys + f->key, f->size);
	if (v->nvmlReturn)
		return;
	v->valueType = f->fn == switch_links && !g->keys.nvlink_links ? 0 : f->type;
	v->value.ullVal = value; /* little-endian: narrower members read the low bytes */
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *values)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_FIELD_VALUES, values && n > 0, &g);
	uint64_t now_us = time_wall_ns() / 1000;

	for (int i = 0; r == NVML_SUCCESS && i < n; i++)
		fill_field_value(&g, &values[i], now_us);
	return r;
}
