/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/stats/arrivals.h"

#include "lib/base/array.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE_MAX_ 128
#define UNITS_MAX 1000000

/* Format of Azure's LLM inference traces (github.com/Azure/AzurePublicDataset). */
#define TRACE_HEAD "TIMESTAMP,ContextTokens,GeneratedTokens"
#define YEARS_MAX  400 /* after 1900: ns since 1970 are 64 bits */
#define CONTEXT_OF_UNIT \
	512 /* context tokens that a GPU reads in the time of one generated token */

static void closefp(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

/* "2023-11-16 18:15:46.6805900" in ns since 1970. *@end points behind the time. */
static bool read_moment(uint64_t *ret, const char *text, const char **end)
{
	struct tm t = { 0 };
	const char *c = strptime(text, "%Y-%m-%d %H:%M:%S", &t);
	time_t seconds = c ? timegm(&t) : -1;
	uint64_t scale = NS_PER_SEC;

	if (!c || seconds < 0 || t.tm_year > YEARS_MAX)
		return false;
	*ret = (uint64_t)seconds * NS_PER_SEC;
	if (*c == '.')
		for (c++; *c >= '0' && *c <= '9'; c++) {
			scale /= 10;
			*ret += (uint64_t)(*c - '0') * scale;
		}
	/* All times of a trace have the same time zone. */
	if (*c == '+' || *c == '-')
		c += strspn(c + 1, "0123456789:") + 1;
	*end = c;
	return true;
}

/* One unit for each generated token, and one for each CONTEXT_OF_UNIT tokens of context, rounded up. */
static bool read_trace_line(struct flow_arrival *ret, char *line)
{
	const char *at = NULL;
	char *first, *second;
	uint32_t context, made;
	uint64_t units;

	line[strcspn(line, "\r\n")] = '\0';
	if (!read_moment(&ret->at_ns, line, &at) || *at != ',')
		return false;
	first = line + (at - line) + 1;
	second = strchr(first, ',');
	if (!second)
		return false;
	*second++ = '\0';
	if (!parse_u32(first, &context) || !parse_u32(second, &made))
		return false;
	units = (uint64_t)made + ((uint64_t)context + CONTEXT_OF_UNIT - 1) / CONTEXT_OF_UNIT;
	ret->units = (uint32_t)units;
	return units && units <= UNITS_MAX;
}

static bool parse_arrival_line(struct flow_arrival *ret, char *line)
{
	char *space = strchr(line, ' '), *end = strchr(line, '\n');
	struct flow_arrival a = { 0 };

	if (!space || !end)
		return false;
	*space = *end = '\0';
	if (!parse_u64(line, &a.at_ns) || !parse_u32(space + 1, &a.units) || !a.units ||
		a.units > UNITS_MAX)
		return false;
	*ret = a;
	return true;
}

static int add_arrival(struct flow_arrival **list, size_t *n, size_t *room,
	const struct flow_arrival *a, struct error *err)
{
	if (!ARRAY_GROW(list, *n, room, ARRAY_NO_LIMIT))
		return error_nomem(err);
	(*list)[(*n)++] = *a;
	return 0;
}

int arrivals_read(struct flow_arrival **ret, size_t *n, const char *path, struct error *err)
{
	CLEANUP(closefp) FILE *f = fopen(path, "re");
	CLEANUP(freep) struct flow_arrival *list = NULL;
	char line[LINE_MAX_];
	size_t room = 0, lines = 0;
	uint64_t first_ns = 0;
	bool trace = false;

	*ret = NULL;
	*n = 0;
	if (!f)
		return error_sys(err, errno, "open '%s'", path);
	while (fgets(line, sizeof(line), f)) {
		struct flow_arrival a;

		lines++;
		if (lines == 1 && !strncmp(line, TRACE_HEAD, strlen(TRACE_HEAD))) {
			trace = true;
			continue;
		}
		if (!(trace ? read_trace_line(&a, line) : parse_arrival_line(&a, line)) ||
			(*n && a.at_ns - first_ns < list[*n - 1].at_ns) || a.at_ns < first_ns)
			return error_set(err, ERR_INVALID,
				"%s:%zu: expected %s, not before that of the line above, and 1 to %d units",
				path, lines, trace ? "a moment and tokens" : "a time in ns",
				UNITS_MAX);
		if (*n == FLOW_ARRIVALS_MAX)
			return error_set(err, ERR_LIMIT, "%s: expected at most %d lines", path,
				FLOW_ARRIVALS_MAX);
		if (trace && !*n)
			first_ns = a.at_ns;
		a.at_ns -= first_ns;
		if (add_arrival(&list, n, &room, &a, err) < 0)
			return -1;
	}
	if (ferror(f))
		return error_sys(err, errno, "read '%s'", path);
	if (!*n || !list[*n - 1].at_ns)
		return error_set(err, ERR_INVALID, "%s: expected a last time above 0", path);
	*ret = STEAL_PTR(list);
	return 0;
}
