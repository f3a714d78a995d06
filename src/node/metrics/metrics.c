/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/metrics.h"

#include "node/metrics/dcgm/dcgm.h"
#include "node/metrics/own/own.h"

#include <string.h>
#include <strings.h>

/* --- the format for a client --- */

/* A remote client wrote the header: nothing is copied, and a malformed part counts as not wanted. */

struct accept_piece {
	const char *text;
	size_t len;
};

static struct accept_piece trim_accept_piece(struct accept_piece p)
{
	while (p.len && (*p.text == ' ' || *p.text == '\t')) {
		p.text++;
		p.len--;
	}
	while (p.len && (p.text[p.len - 1] == ' ' || p.text[p.len - 1] == '\t'))
		p.len--;
	return p;
}

/* Cuts the text before the next @sep off *rest. */
static bool next_accept_piece(struct accept_piece *rest, char sep, struct accept_piece *ret)
{
	const char *end;

	if (!rest->text)
		return false;
	end = rest->len ? memchr(rest->text, sep, rest->len) : NULL;
	*ret = trim_accept_piece((struct accept_piece){ rest->text,
		end ? (size_t)(end - rest->text) : rest->len });
	if (end) {
		rest->len -= (size_t)(end - rest->text) + 1;
		rest->text = end + 1;
	} else {
		*rest = (struct accept_piece){ NULL, 0 };
	}
	return true;
}

static bool is_accept_piece(struct accept_piece p, const char *text)
{
	return p.len == strlen(text) && !strncasecmp(p.text, text, p.len);
}

static bool skip_accept_prefix(struct accept_piece *p, const char *text)
{
	size_t n = strlen(text);

	if (p->len < n || strncasecmp(p->text, text, n) != 0)
		return false;
	p->text += n;
	p->len -= n;
	return true;
}

/* "0.75" in thousandths; a malformed weight is 0. */
static unsigned parse_accept_quality(struct accept_piece p)
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

static void parse_accept_range(struct accept_piece range, unsigned *open, unsigned *plain)
{
	struct accept_piece type, parameter;
	unsigned q = 1000;
	bool known_version = true;

	if (!next_accept_piece(&range, ';', &type))
		return;
	while (next_accept_piece(&range, ';', &parameter)) {
		if (skip_accept_prefix(&parameter, "q="))
			q = parse_accept_quality(parameter);
		else if (skip_accept_prefix(&parameter, "version="))
			known_version = is_accept_piece(parameter, "1.0.0") ||
					is_accept_piece(parameter, "0.0.1") ||
					is_accept_piece(parameter, "\"1.0.0\"") ||
					is_accept_piece(parameter, "\"0.0.1\"");
	}
	if (is_accept_piece(type, "application/openmetrics-text") && known_version && q > *open)
		*open = q;
	/* Any version of plain text: a client of other versions can read this text too. */
	if ((is_accept_piece(type, "text/plain") || is_accept_piece(type, "text/*") ||
		    is_accept_piece(type, "*/*")) &&
		q > *plain)
		*plain = q;
}

enum metrics_format metrics_format_of_accept(const char *accept)
{
	struct accept_piece rest = { accept, accept ? strlen(accept) : 0 }, range;
	unsigned open = 0, plain = 0;

	while (next_accept_piece(&rest, ',', &range))
		parse_accept_range(range, &open, &plain);
	return open && open >= plain ? METRICS_OPENMETRICS : METRICS_PROMETHEUS;
}

const char *metrics_content_type(enum metrics_format format)
{
	return format == METRICS_OPENMETRICS
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}

/* --- the table of families --- */

static const struct family_group {
	const struct metrics_table *tables;
	size_t n;
} groups[] = {
	{ metrics_node_tables, ARRAY_LEN(metrics_node_tables) },
	{ metrics_resource_tables, ARRAY_LEN(metrics_resource_tables) },
	{ metrics_gpu_tables, ARRAY_LEN(metrics_gpu_tables) },
	{ metrics_device_tables, ARRAY_LEN(metrics_device_tables) },
	{ metrics_container_tables, ARRAY_LEN(metrics_container_tables) },
	{ metrics_slice_tables, ARRAY_LEN(metrics_slice_tables) },
	{ metrics_opencost_tables, ARRAY_LEN(metrics_opencost_tables) },
	{ metrics_agent_tables, ARRAY_LEN(metrics_agent_tables) },
	{ metrics_web_tables, ARRAY_LEN(metrics_web_tables) },
};

const struct metrics_family *metrics_family_at(size_t i)
{
	for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
		for (size_t t = 0; t < groups[g].n; t++) {
			const struct metrics_table *table = &groups[g].tables[t];

			if (i < table->n)
				return table->families ? &table->families[i]
						       : &table->rows[i].family;
			i -= table->n;
		}
	}
	return NULL;
}

/* --- the text --- */

static int write_own(struct metrics_writer *w, struct error *err)
{
	CLEANUP(metrics_own_fini) struct metrics_own own = { .w = w };

	if (metrics_own_init(&own, w, err) < 0)
		return -1;
	metrics_own_node(&own);
	metrics_own_resources(&own);
	metrics_own_gpus(&own);
	metrics_own_devices(&own);
	metrics_own_containers(&own);
	metrics_own_slices(&own);
	metrics_own_opencost(&own);
	metrics_own_agent(&own);
	metrics_own_web(&own);
	return 0;
}

int metrics_render(struct buf *out, const struct metrics_request *rq, struct error *err)
{
	struct metrics_writer w = {
		.rq = rq,
		.v = rq->view,
		.o = rq->options,
		.out = out,
		.labels = BUF_INIT(METRICS_LABELS_MAX),
	};
	bool complete;
	int r = dcgm_write(&w, err);

	if (r >= 0)
		r = write_own(&w, err);
	if (rq->format == METRICS_OPENMETRICS)
		buf_puts(out, "# EOF\n");
	complete = buf_ok(out) && buf_ok(&w.labels);
	buf_fini(&w.labels);
	if (r < 0)
		return r;
	if (!complete)
		return error_set(err, ERR_LIMIT,
			"metrics: the text is longer than %zu bytes, or there is no memory for it",
			out->max);
	return 0;
}
