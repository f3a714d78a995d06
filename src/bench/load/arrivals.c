/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load/arrivals.h"

#include "base/parse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_ 64
#define UNITS_MAX 1000000

static void closefp(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

static bool read_line(struct flow_arrival *ret, char *line)
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

static int add(struct flow_arrival **list, size_t *n, size_t *room,
	const struct flow_arrival *a, struct error *err)
{
	if (*n == *room) {
		size_t more = *room ? 2 * *room : 256;
		struct flow_arrival *p = realloc(*list, more * sizeof(*p));

		if (!p)
			return error_nomem(err);
		*list = p;
		*room = more;
	}
	(*list)[(*n)++] = *a;
	return 0;
}

int arrivals_read(struct flow_arrival **ret, size_t *n, const char *path, struct error *err)
{
	CLEANUP(closefp) FILE *f = fopen(path, "re");
	CLEANUP(freep) struct flow_arrival *list = NULL;
	char line[LINE_MAX_];
	size_t room = 0;

	*ret = NULL;
	*n = 0;
	if (!f)
		return error_sys(err, errno, "open '%s'", path);
	while (fgets(line, sizeof(line), f)) {
		struct flow_arrival a;

		if (!read_line(&a, line) || (*n && a.at_ns < list[*n - 1].at_ns))
			return error_set(err, ERR_INVALID,
				"%s:%zu: expected a time in ns, not before that of the line above, and "
				"1 to %d units",
				path, *n + 1, UNITS_MAX);
		if (*n == FLOW_ARRIVALS_MAX)
			return error_set(err, ERR_LIMIT, "%s: expected at most %d lines", path,
				FLOW_ARRIVALS_MAX);
		if (add(&list, n, &room, &a, err) < 0)
			return -1;
	}
	if (ferror(f))
		return error_sys(err, errno, "read '%s'", path);
	if (!*n || !list[*n - 1].at_ns)
		return error_set(err, ERR_INVALID, "%s: expected a last time above 0", path);
	*ret = STEAL_PTR(list);
	return 0;
}
