/* SPDX-License-Identifier: Apache-2.0 */
#include "io/price/import/import.h"

#include "lib/base/escape.h"

#include <jansson.h>
#include <string.h>

/*
 * AWS's Spot Instance Advisor (spot-advisor-data.json). spot_advisor.REGION.Linux.TYPE.r is the
 * frequency of interruptions in a month, as the number of one of five ranges.
 */

static const struct {
	uint32_t low, high; /* thousandths a month */
} ranges[] = { { 0, 50 }, { 50, 100 }, { 100, 150 }, { 150, 200 }, { 200, 1000 } };

int spot_advisor_read(struct price_catalogue *c, const char *name, const char *text, size_t len,
	struct strv *warnings, struct error *err)
{
	json_error_t where;
	json_t *root = json_loadb(text, len, 0, &where);
	json_t *regions = json_object_get(root, "spot_advisor"), *region, *one;
	const char *region_name, *type;
	size_t n = 0;
	int got = 0;

	if (!root)
		return error_set(err, ERR_INVALID, "%s:%d:%d: %s", name, where.line,
			where.column, escape_line(where.text));
	if (!json_is_object(regions))
		got = error_set(err, ERR_INVALID, "%s: spot_advisor: expected an object", name);
	json_object_foreach(regions, region_name, region)
	{
		json_object_foreach(json_object_get(region, "Linux"), type, one)
		{
			json_int_t r = json_integer_value(json_object_get(one, "r"));
			struct price_amendment a = { .type = type,
				.region = region_name,
				.what = PRICE_IS_INTERRUPTION,
				.rank = PRICE_RANK_AWS };

			if (got < 0 || r < 0 || r >= (json_int_t)ARRAY_LEN(ranges) ||
				!json_is_integer(json_object_get(one, "r")) ||
				strlen(region_name) >= PRICE_NAME_MAX ||
				!price_type_find(c, type))
				continue;
			a.low = ranges[r].low;
			a.high = ranges[r].high;
			got = price_amend(c, &a, err) < 0 ? -1 : 0;
			n++;
		}
	}
	if (got == 0 && !n)
		import_warn(warnings, "%s: nothing of a type with GPUs", name);
	json_decref(root);
	return got;
}
