/* SPDX-License-Identifier: Apache-2.0 */
#include "io/web/packet/parse.h"

#include "io/web/web.h"

#include <string.h>
#include <strings.h>

#define BLANKS " \t"

/* @text without the blanks around it. *len is its length before and after. */
static const char *trim_header_text(const char *text, size_t *len)
{
	while (*len > 0 && strchr(BLANKS, *text)) {
		text++;
		(*len)--;
	}
	while (*len > 0 && strchr(BLANKS, text[*len - 1]))
		(*len)--;
	return text;
}

static bool is_header_word(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

const char *web_bearer(const char *header, size_t *ret_len)
{
	static const char scheme[] = "Bearer";
	size_t len = strlen(header);
	const char *token;

	if (len < sizeof(scheme) || strncasecmp(header, scheme, sizeof(scheme) - 1) != 0 ||
		header[sizeof(scheme) - 1] != ' ')
		return NULL;
	len -= sizeof(scheme);
	token = trim_header_text(header + sizeof(scheme), &len);
	if (len == 0)
		return NULL;
	*ret_len = len;
	return token;
}

/* Whether @text may follow a host: nothing, or ":" and a port, which may be empty. */
static bool is_host_port(const char *text, size_t len)
{
	if (len == 0)
		return true;
	if (*text != ':' || len > sizeof(":65535") - 1)
		return false;
	for (size_t i = 1; i < len; i++)
		if (text[i] < '0' || text[i] > '9')
			return false;
	return true;
}

bool web_host_is(const char *header, const char *name)
{
	size_t len = strlen(header);
	const char *host = trim_header_text(header, &len), *end;

	if (len > 0 && *host == '[') {
		end = memchr(host, ']', len);
		if (!end)
			return false;
		len -= (size_t)(end + 1 - host);
		return is_host_port(end + 1, len) &&
		       is_header_word(host + 1, (size_t)(end - host - 1), name);
	}
	end = memchr(host, ':', len);
	if (!end)
		end = host + len;
	return is_host_port(end, len - (size_t)(end - host)) &&
	       is_header_word(host, (size_t)(end - host), name);
}

bool web_etag_listed(const char *header, const char *etag)
{
	size_t n = strlen(etag);

	if (!strcmp(header, "*"))
		return true;
	for (const char *p = strchr(header, '"'); p; p = strchr(p, '"')) {
		const char *end = strchr(++p, '"');

		if (!end)
			return false;
		if ((size_t)(end - p) == n && !memcmp(p, etag, n))
			return true;
		p = end + 1;
	}
	return false;
}

const char *web_route_rest(const char *path, const char *request)
{
	size_t n = strlen(path);

	if (n > 0 && path[n - 1] == '*')
		return strncmp(request, path, n - 1) == 0 ? request + n - 1 : NULL;
	return strcmp(request, path) == 0 ? request + n : NULL;
}

const char *web_query(const struct web_request *req, const char *name)
{
	for (size_t i = 0; i < req->n_query; i++)
		if (!strcmp(req->query[i].name, name))
			return req->query[i].value;
	return NULL;
}

/* --- Accept: media ranges with a weight, "text/html;q=0.8, x/y" --- */

/* "0", "0.5", "1.000" in thousandths. A malformed weight counts as 1000, like a missing one. */
static unsigned parse_accept_weight(const char *text, size_t len)
{
	unsigned v = 0, place = 100;

	if (len == 0 || (text[0] != '0' && text[0] != '1') || (len > 1 && text[1] != '.'))
		return 1000;
	if (text[0] == '1')
		return 1000;
	for (size_t i = 2; i < len && i < 5; i++, place /= 10) {
		if (text[i] < '0' || text[i] > '9')
			return 1000;
		v += (unsigned)(text[i] - '0') * place;
	}
	return v;
}

/* How closely a range names the type: 0 not at all, 1 as any type, 2 as any of its kind, 3 exactly. */
static unsigned rank_media_range(const char *range, size_t len, const char *type)
{
	const char *slash = strchr(type, '/');
	size_t n = slash ? (size_t)(slash + 1 - type) : 0;

	if (is_header_word(range, len, type))
		return 3;
	if (n > 0 && len == n + 1 && range[n] == '*' && strncasecmp(range, type, n) == 0)
		return 2;
	return is_header_word(range, len, "*/*") ? 1 : 0;
}

/* The next piece up to @sep or the end, trimmed. *p moves behind the piece; NULL after the last one. */
static const char *find_next_piece(const char **p, const char *end, char sep, size_t *ret_len)
{
	const char *from = *p, *at = memchr(from, sep, (size_t)(end - from));

	*ret_len = (size_t)((at ? at : end) - from);
	*p = at ? at + 1 : NULL;
	return trim_header_text(from, ret_len);
}

unsigned web_accept_permille(const char *accept, const char *type)
{
	const char *end = accept + strlen(accept), *p = accept;
	unsigned best = 0, result = 0;

	if (!*accept)
		return 1000;
	while (p) {
		size_t len, part_len;
		const char *range = find_next_piece(&p, end, ',', &len);
		const char *range_end = range + len, *q = range;
		const char *part = find_next_piece(&q, range_end, ';', &part_len);
		unsigned close = rank_media_range(part, part_len, type), w = 1000;

		while (q) {
			part = find_next_piece(&q, range_end, ';', &part_len);
			if (part_len > 2 && !strncasecmp(part, "q=", 2))
				w = parse_accept_weight(part + 2, part_len - 2);
		}
		/* The closest range counts; among equally close ranges, the largest weight. */
		if (close > best || (close == best && close > 0 && w > result)) {
			best = close;
			result = w;
		}
	}
	return result;
}
