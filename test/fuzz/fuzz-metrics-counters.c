/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "node/metrics/metrics.h"

#include <string.h>

/* A counters file of unknown origin. Accepted fields have known names, and are in order. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	bool wanted[FIELDS_MAX] = { false };

	if (metrics_counters_parse(&c, "f", (const char *)data, size, &warnings, NULL) < 0)
		return 0;
	for (uint32_t i = 0; i < c->n; i++) {
		const struct metrics_counter *row = &c->rows[i];

		if (row->label != (i >= c->n_families) || strpbrk(row->help, "\n") ||
			(row->source == METRICS_FROM_FIELD &&
				field_position(row->name) != row->field) ||
			(i && i < c->n_families && row->id < row[-1].id))
			__builtin_trap();
	}
	metrics_counters_fields(c, wanted);
	return 0;
}
