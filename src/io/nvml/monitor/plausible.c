/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/monitor/plausible.h"

#include <math.h>

#define TEMPERATURE_MIN (-273)
#define TEMPERATURE_MAX 1000
#define WATTS_MAX       100000
#define COUNTER_MAX     (INT64_C(1) << 62)
#define JOULES_MAX      ((double)COUNTER_MAX / 1000)
#define FAN_MAX         2 /* of a fan's normal speed */

/* Limits of integers, by DCGM's numbers; a field in no row is a counter, a number or a mask. */
static const struct {
	uint16_t first, last;
	int64_t min, max;
} ranges[] = {
	{ 50, 69, 0, UINT32_MAX },                      /* numbers and modes */
	{ 90, 93, 0, PLAUSIBLE_BYTES_MAX >> 20 },       /* MiB */
	{ 100, 111, 0, 100000 },                        /* MHz */
	{ 113, 115, 0, 100000 },                        /* MHz */
	{ 140, 154, TEMPERATURE_MIN, TEMPERATURE_MAX }, /* C */
	{ 158, 159, TEMPERATURE_MIN, TEMPERATURE_MAX }, /* C */
	{ 190, 190, 0, 15 },                            /* performance state */
	{ 191, 191, 0, 200 },                           /* % of a fan's normal speed */
	{ 200, 201, 0, PLAUSIBLE_BYTES_MAX >> 10 },     /* KB/s */
	{ 203, 207, 0, 100 },                           /* % */
	{ 235, 238, 0, 1024 },                          /* PCIe generations and lanes */
	{ 250, 253, 0, PLAUSIBLE_BYTES_MAX >> 20 },     /* MiB */
	{ 300, 301, 0, 1 },                             /* ECC mode */
	{ 440, 449, 0, PLAUSIBLE_BYTES_MAX >> 20 },     /* MB/s */
	{ 475, 480, 0, PLAUSIBLE_BYTES_MAX >> 20 },     /* MB/s */
	{ 494, 496, 0, PLAUSIBLE_BYTES_MAX >> 20 },     /* MB/s */
	{ 843, 897, 0, PLAUSIBLE_BYTES_MAX >> 20 },     /* MB/s */
	{ FIELD_PROFILING_FIRST, FIELD_PROFILING_LAST, 0,
		(int64_t)PLAUSIBLE_BYTES_MAX },          /* bytes/s */
	{ 1600, 1602, 0, (int64_t)PLAUSIBLE_BYTES_MAX }, /* bytes */
	{ 1603, 1610, 0, INT64_C(100000) * 1000000 },    /* Hz */
};

static bool real_is_plausible(uint16_t id, double v)
{
	double max = 1; /* a ratio */

	if (id >= 155 && id <= 164)
		max = WATTS_MAX;
	else if (id == 1611)
		max = JOULES_MAX;
	else if (id == 1612)
		max = FAN_MAX;
	return isfinite(v) && v >= 0 && v <= max;
}

bool plausible_value(const struct sample_value *v)
{
	const struct field *f = &fields[v->field];

	if (f->kind == FIELD_REAL)
		return real_is_plausible(f->id, v->real);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (f->id >= ranges[i].first && f->id <= ranges[i].last)
			return v->i >= ranges[i].min && v->i <= ranges[i].max;
	}
	return v->i >= 0 && v->i <= COUNTER_MAX;
}

static void check_device_memory(struct sample_device *device)
{
	bool good = device->memory_known && device->memory_total <= PLAUSIBLE_BYTES_MAX &&
		    device->memory_used <= device->memory_total &&
		    device->memory_free <= device->memory_total;

	device->reserved_known = good && device->reserved_known &&
				 device->memory_reserved <= device->memory_total;
	device->memory_known = good;
	if (!good)
		device->memory_total = device->memory_used = device->memory_free = 0;
	if (!device->reserved_known)
		device->memory_reserved = 0;
}

static void check_times(struct sample_device *device, uint64_t now_ns)
{
	if (device->at_ns > now_ns)
		device->at_ns = now_ns;
	if (device->interval_ns > PLAUSIBLE_INTERVAL_MAX || device->interval_ns > now_ns)
		device->interval_ns = 0;
	device->busy_known = device->busy_known && device->interval_ns > 0 &&
			     device->busy_ns <= device->interval_ns;
	if (!device->busy_known)
		device->busy_ns = 0;
}

/* One impossible busy time makes the times of all processes of the device doubtful. */
static void check_device_processes(struct sample_device *device)
{
	uint64_t max = device->busy_known ? device->busy_ns : device->interval_ns, sum = 0;
	bool good = device->processes_known && device->interval_ns > 0;

	if (!device->processes_known)
		device->n_processes = 0;
	for (uint32_t i = 0; i < device->n_processes; i++) {
		struct sample_process *p = &device->processes[i];

		if (p->bytes > PLAUSIBLE_BYTES_MAX)
			p->bytes = GPU_BYTES_UNKNOWN;
		if (!p->busy_known)
			continue;
		good = good && p->busy_ns <= max - sum;
		sum += good ? p->busy_ns : 0;
	}
	for (uint32_t i = 0; i < device->n_processes; i++) {
		struct sample_process *p = &device->processes[i];

		p->busy_known = p->busy_known && good;
		if (!p->busy_known)
			p->busy_ns = 0;
	}
}

static void check_device_values(struct sample_device *device)
{
	uint32_t of = device->gi == GPU_NO_INSTANCE ? FIELD_OF_GPU : FIELD_OF_MIG | FIELD_OF_GI;
	uint32_t n = 0;

	for (uint32_t i = 0; i < device->n_values; i++) {
		if ((fields[device->values[i].field].of & of) &&
			plausible_value(&device->values[i]))
			device->values[n++] = device->values[i];
	}
	device->n_values = n;
}

void plausible_check_device(struct sample_device *device, uint64_t now_ns)
{
	check_device_memory(device);
	check_times(device, now_ns);
	check_device_processes(device);
	check_device_values(device);
}
