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
