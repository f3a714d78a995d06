/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/metrics.h"

#include <string.h>
#include <strings.h>

/* The header is a stranger's: nothing is copied, and what does not parse counts as not wanted. */

struct piece {
	const char *text;
	size_t len;
};

static struct piece trim(struct piece p)
{
	while (p.len && (*p.text == ' ' || *p.text == '\t')) {
		p.text++;
		p.len--;
	}
	while (p.len && (p.text[p.len - 1] == ' ' || p.text[p.len - 1] == '\t'))
		p.len--;
	return p;
}

/* Takes what is before the next @sep off *rest. */
static bool next(struct piece *rest, char sep, struct piece *ret)
{
	const char *end;

	if (!rest->text)
		return false;
	end = rest->len ? memchr(rest->text, sep, rest->len) : NULL;
	*ret = trim((struct piece){ rest->text, end ? (size_t)(end - rest->text) : rest->len });
	if (end) {
		rest->len -= (size_t)(end - rest->text) + 1;
		rest->text = end + 1;
	} else {
		*rest = (struct piece){ NULL, 0 };
	}
	return true;
}

static bool is(struct piece p, const char *text)
{
	return p.len == strlen(text) && !strncasecmp(p.text, text, p.len);
}

static bool begins(struct piece *p, const char *text)
{
	size_t n = strlen(text);

	if (p->len < n || strncasecmp(p->text, text, n) != 0)
		return false;
	p->text += n;
	p->len -= n;
	return true;
}

/* "0.75" in thousandths; what is no weight is 0. */
static unsigned weight(struct piece p)
{
	unsigned value = 0, unit = 1000;

	if (!p.len || p.len > 5 || (p.text[0] != '0' && p.text[0] != '1') ||
		(p.len > 1 && p.text[1] != '.'))
		return 0;
	for (size_t i = 0; i < p.len; i++) {
		if (i == 1)
			continue;
		if (p.text[i] < '0' || p.text[i] > '9')
			return 0;
		value += unit * (unsigned)(p.text[i] - '0');
		unit /= 10;
	}
	return value <= 1000 ? value : 0;
}

static void look(struct piece range, unsigned *open, unsigned *plain)
{
	struct piece type, parameter;
	unsigned q = 1000;
	bool known_version = true;

	if (!next(&range, ';', &type))
		return;
	while (next(&range, ';', &parameter)) {
		if (begins(&parameter, "q="))
			q = weight(parameter);
		else if (begins(&parameter, "version="))
			known_version = is(parameter, "1.0.0") || is(parameter, "0.0.1") ||
					is(parameter, "\"1.0.0\"") ||
					is(parameter, "\"0.0.1\"");
	}
	if (is(type, "application/openmetrics-text") && known_version && q > *open)
		*open = q;
	/* Whatever version of plain text it names: what others read there reads ours. */
	if ((is(type, "text/plain") || is(type, "text/*") || is(type, "*/*")) && q > *plain)
		*plain = q;
}

enum metrics_format metrics_format_of_accept(const char *accept)
{
	struct piece rest = { accept, accept ? strlen(accept) : 0 }, range;
	unsigned open = 0, plain = 0;

	while (next(&rest, ',', &range))
		look(range, &open, &plain);
	return open && open >= plain ? METRICS_OPENMETRICS : METRICS_PROMETHEUS;
}

const char *metrics_content_type(enum metrics_format format)
{
	return format == METRICS_OPENMETRICS
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}
