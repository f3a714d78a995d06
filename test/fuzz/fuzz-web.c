/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "lib/http/header.h"
#include "io/web/packet/parse.h"
#include "io/web/web.h"

static void check_bearer(const char *header)
{
	size_t len = 0, n = strlen(header);
	const char *token = web_bearer(header, &len);

	if (!token)
		return;
	if (len == 0 || token < header + 7 || token + len > header + n || token[0] == ' ' ||
		token[len - 1] == ' ')
		abort();
}

/* A header that is accepted begins with this machine's name, and has only a port behind it. */
static void check_host(const char *header)
{
	static const char name[] = "localhost";
	const char *p = header + strspn(header, " \t");

	if (!web_host_is(header, name)) {
		if (!strcmp(header, name))
			abort();
		return;
	}
	p += *p == '[';
	if (strncasecmp(p, name, strlen(name)) != 0 || !strchr(":] \t", p[strlen(name)]))
		abort();
}

static void check_route(const char *path)
{
	static const char *const routes[] = { "/", "/*", "/metrics", "/api/v1/*", "*", "" };

	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		const char *rest = web_route_rest(routes[i], path);

		if (rest && (rest < path || rest > path + strlen(path)))
			abort();
	}
}

/* The bytes are tried as a value, as a name, and as a number that two readers might read differently. */
static void check_headers(const char *bytes, size_t len)
{
	struct http_headers as_value = { .hosts = 0 }, as_name = as_value, as_length = as_value;
	bool digits = len > 0;

	http_headers_add(&as_value, "X", 1, bytes, len);
	http_headers_add(&as_name, bytes, len, "x", 1);
	http_headers_add(&as_length, "content-length", strlen("content-length"), bytes, len);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)bytes[i];

		digits = digits && c >= '0' && c <= '9';
		if (((c < ' ' && c != '\t') || c == 0x7f) && !http_headers_wrong(&as_value))
			abort();
		if ((c <= ' ' || c >= 0x7f || c == ':') && !http_headers_wrong(&as_name))
			abort();
	}
	if (digits != !http_headers_wrong(&as_length))
		abort();
}

/* Tries the bytes as a header of a remote client, and as the path of its request. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	check_bearer(text);
	check_host(text);
	check_route(text);
	check_headers(text, size);
	if (web_etag_listed(text, "abc") && strcmp(text, "*") != 0 && !strstr(text, "\"abc\""))
		abort();
	free(text);
	return 0;
}
