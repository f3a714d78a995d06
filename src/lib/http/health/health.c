/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/health/health.h"

#include "lib/http/header.h"

#include <string.h>
#include <strings.h>

#define LINE_END     "\r\n"
#define LINE_END_LEN 2

struct health_http_text {
	const char *at;
	size_t len;
};

/* Moves the text before @end from @t to the result. False: @end does not occur. */
static bool split_text_at(struct health_http_text *t, const char *end,
	struct health_http_text *ret)
{
	size_t end_len = strlen(end);
	const char *p = memmem(t->at, t->len, end, end_len);

	if (!p)
		return false;
	*ret = (struct health_http_text){ t->at, (size_t)(p - t->at) };
	t->len -= ret->len + end_len;
	t->at = p + end_len;
	return true;
}

static bool is_same_request_text(struct health_http_text t, const char *text)
{
	return t.len == strlen(text) && memcmp(t.at, text, t.len) == 0;
}

static struct health_http_text trim_header_value(struct health_http_text t)
{
	while (t.len > 0 && (t.at[0] == ' ' || t.at[0] == '\t')) {
		t.at++;
		t.len--;
	}
	while (t.len > 0 && (t.at[t.len - 1] == ' ' || t.at[t.len - 1] == '\t'))
		t.len--;
	return t;
}

/* 0: the headers are well-formed and announce no body. */
static unsigned check_headers(struct health_http_text headers)
{
	struct http_headers h = { .hosts = 0 };
	struct health_http_text line, name;
	bool body = false;

	while (split_text_at(&headers, LINE_END, &line)) {
		if (!split_text_at(&line, ":", &name))
			return 400;
		line = trim_header_value(line);
		http_headers_add(&h, name.at, name.len, line.at, line.len);
		if (name.len == strlen("Content-Length") &&
			strncasecmp(name.at, "Content-Length", name.len) == 0)
			body = body || !is_same_request_text(line, "0");
	}
	if (http_headers_wrong(&h))
		return 400;
	return body || h.encodings > 0 ? 413 : 0;
}

static unsigned check_request_line(struct health_request *ret, struct health_http_text line)
{
	struct health_http_text method, target, path;

	if (!split_text_at(&line, " ", &method) || !split_text_at(&line, " ", &target) ||
		target.len == 0 || target.at[0] != '/')
		return 400;
	if (!is_same_request_text(line, "HTTP/1.1") && !is_same_request_text(line, "HTTP/1.0"))
		return line.len > 5 && memcmp(line.at, "HTTP/", 5) == 0 ? 505 : 400;
	ret->head = is_same_request_text(method, "HEAD");
	if (!ret->head && !is_same_request_text(method, "GET"))
		return 405;
	path = target;
	(void)split_text_at(&target, "?", &path);
	if (path.len >= sizeof(ret->path))
		path.len = 0;
	memcpy(ret->path, path.at, path.len);
	ret->path[path.len] = '\0';
	return 0;
}

unsigned health_request_parse(struct health_request *ret, const char *text, size_t len)
{
	struct health_http_text all = { text, len }, request, line = { text, 0 };
	unsigned of_line, of_headers;

	if (!split_text_at(&all, LINE_END LINE_END, &request) ||
		request.len + strlen(LINE_END LINE_END) > HEALTH_REQUEST_MAX)
		return len < HEALTH_REQUEST_MAX ? 0 : 431;
	/* Each line includes its end. The end of the last line is the first half of the separator found. */
	request.len += LINE_END_LEN;
	(void)split_text_at(&request, LINE_END, &line);
	of_line = check_request_line(ret, line);
	of_headers = check_headers(request);
	if (of_line == 400 || of_line == 505)
		return of_line;
	if (of_headers)
		return of_headers;
	return of_line ? of_line : 200;
}

static size_t count_peer_connections(const struct in6_addr *peers, size_t n,
	const struct in6_addr *peer)
{
	size_t c = 0;

	for (size_t i = 0; i < n; i++)
		c += memcmp(&peers[i], peer, sizeof(*peer)) == 0;
	return c;
}

size_t health_peers_evict(const struct in6_addr *peers, size_t n)
{
	size_t victim = 0, max = 0;

	for (size_t i = 0; i < n; i++) {
		size_t c = count_peer_connections(peers, n, &peers[i]);

		if (c > max) {
			max = c;
			victim = i;
		}
	}
	return victim;
}
