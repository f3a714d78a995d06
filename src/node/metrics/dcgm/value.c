/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/dcgm/dcgm.h"

#include <inttypes.h>
#include <string.h>

#define MIB 1048576

enum { ID_DRIVER_VERSION = 1, ID_NVML_VERSION = 2 };

/* Rates that GPM reports in MiB/s, as dcgm-exporter writes them. A sample has bytes/s. */
static bool is_gpm_rate(uint16_t id)
{
	return (id >= 1009 && id <= 1012) || (id >= 1040 && id <= 1075);
}

static bool format_sampled_value(const struct sample_device *u, uint16_t field, bool raw_units,
	char *ret)
{
	const struct sample_value *value;
	const char *text;

	if (!u)
		return false;
	if (fields[field].kind == FIELD_TEXT) {
		text = sample_text(u, field);
		if (text && *text)
			(void)snprintf(ret, DCGM_VALUE_MAX, "%s", text);
		return text && *text;
	}
	value = sample_value(u, field);
	if (!value)
		return false;
	if (fields[field].kind == FIELD_REAL)
		(void)snprintf(ret, DCGM_VALUE_MAX, "%.6f", value->real);
	else
		(void)snprintf(ret, DCGM_VALUE_MAX, "%" PRId64,
			raw_units && is_gpm_rate(fields[field].id) ? value->i / MIB : value->i);
	return true;
}

/* What the agent knows of the node, if no GPU reported it. */
static bool known_of_node(const struct view *v, uint16_t id, char *ret)
{
	const char *text = id == ID_DRIVER_VERSION ? v->driver_version
			   : id == ID_NVML_VERSION ? v->nvml_version
						   : NULL;

	if (!text || !*text)
		return false;
	(void)snprintf(ret, DCGM_VALUE_MAX, "%s", text);
	return true;
}

bool dcgm_value(const struct dcgm_device *d, const struct view *v, uint16_t field, bool copies,
	bool raw_units, char *ret)
{
	bool of_instance = fields[field].of & (FIELD_OF_MIG | FIELD_OF_GI);

	if (d->mig_device && of_instance)
		return format_sampled_value(d->sample, field, raw_units, ret);
	/* Figures of boards: an instance has them only as a copy. */
	if (d->mig_device && !copies)
		return false;
	/* Figures of instances: at the board too, they would count twice. */
	if (d->divided && of_instance && !copies)
		return false;
	return format_sampled_value(d->board, field, raw_units, ret) ||
	       known_of_node(v, fields[field].id, ret);
}
