/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/client/get.h"

#include "lib/base/time.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define UNIX_PATH_CAP sizeof(((struct sockaddr_un *)NULL)->sun_path)
#define FDS_MAX       8
#define POLL_MAX_MS   60000

struct http_get {
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;
	char *name; /* the server's, for messages */
	char *path;
	struct buf body;
	bool busy;
};

static size_t on_http_get_data(char *data, size_t size, size_t n, void *arg)
{
	struct http_get *g = arg;

	buf_add(&g->body, data, size * n);
	return buf_ok(&g->body) ? size * n : 0;
}

/* --- new --- */

static int check_url(const char *url, struct error *err)
{
	const char *host = strstr(url, "://");

	if (!host || (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0))
		return error_set(err, ERR_INVALID,
			"URL '%.100s': expected http://HOST:PORT or https://HOST:PORT", url);
	host += 3;
	if (!*host || *host == '/' || strpbrk(host, "?#@ \t\r\n"))
		return error_set(err, ERR_INVALID,
			"URL '%.100s': expected a host, a port and nothing else", url);
	return 0;
}

static int set_request_url(struct http_get *g, const struct http_get_options *o,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf url = BUF_INIT(8192);
	size_t len;

	if (!o->socket && check_url(o->url, err) < 0)
		return -1;
	if (o->socket && strlen(o->socket) >= UNIX_PATH_CAP)
		return error_set(err, ERR_LIMIT,
			"connect to '%s': a unix socket path has at most %zu bytes", o->socket,
			UNIX_PATH_CAP - 1);
	g->name = strdup(o->socket ? o->socket : o->url);
	g->path = strdup(o->path);
	buf_puts(&url, o->socket ? "http://localhost" : o->url);
	for (len = url.len; len > 0 && url.data[len - 1] == '/'; len--)
		;
	url.len = len;
	buf_puts(&url, o->path);
	if (!g->name || !g->path || !buf_ok(&url))
		return error_nomem(err);
	if (o->socket)
		(void)curl_easy_setopt(g->easy, CURLOPT_UNIX_SOCKET_PATH, o->socket);
	if (curl_easy_setopt(g->easy, CURLOPT_URL, buf_str(&url)) != CURLE_OK)
		return error_nomem(err);
	return 0;
}

static int add_request_header(struct http_get *g, const char *header, struct error *err)
{
	struct curl_slist *headers = curl_slist_append(g->headers, header);

	if (!headers)
		return error_nomem(err);
	g->headers = headers;
	return 0;
}

static int set_request_headers(struct http_get *g, const struct http_get_options *o,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf token = BUF_INIT(64 * 1024);

	if (add_request_header(g, "Accept: application/json", err) < 0)
		return -1;
	if (!o->token)
		return 0;
	buf_printf(&token, "Authorization: Bearer %s", o->token);
	return buf_ok(&token) ? add_request_header(g, buf_str(&token), err) : error_nomem(err);
}

int http_get_new(struct http_get **ret, const struct http_get_options *o, struct error *err)
{
	CLEANUP(http_get_freep) struct http_get *g = calloc(1, sizeof(*g));

	if (!g)
		return error_nomem(err);
	g->body = (struct buf)BUF_INIT(o->max);
	g->multi = curl_multi_init();
	g->easy = curl_easy_init();
	if (!g->multi || !g->easy)
		return error_nomem(err);
	if (set_request_url(g, o, err) < 0 || set_request_headers(g, o, err) < 0)
		return -1;
	(void)curl_easy_setopt(g->easy, CURLOPT_PROXY, "");
	(void)curl_easy_setopt(g->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(g->easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(g->easy, CURLOPT_TIMEOUT_MS, (long)(o->timeout_ns / NS_PER_MS));
	(void)curl_easy_setopt(g->easy, CURLOPT_WRITEFUNCTION, on_http_get_data);
	(void)curl_easy_setopt(g->easy, CURLOPT_WRITEDATA, g);
	(void)curl_easy_setopt(g->easy, CURLOPT_HTTPHEADER, g->headers);
	if (o->ca_file && curl_easy_setopt(g->easy, CURLOPT_CAINFO, o->ca_file) != CURLE_OK)
		return error_nomem(err);
	*ret = STEAL_PTR(g);
	return 0;
}

static void end_request(struct http_get *g)
{
	if (g->busy)
		(void)curl_multi_remove_handle(g->multi, g->easy);
	g->busy = false;
}

struct http_get *http_get_free(struct http_get *g)
{
	if (g) {
		end_request(g);
		if (g->easy)
			curl_easy_cleanup(g->easy);
		if (g->multi)
			(void)curl_multi_cleanup(g->multi);
		curl_slist_free_all(g->headers);
		buf_fini(&g->body);
		free(g->name);
		free(g->path);
		free(g);
	}
	return NULL;
}

/* --- asking --- */

int http_get_begin(struct http_get *g, struct error *err)
{
	CURLMcode r;

	buf_clear(&g->body);
	r = curl_multi_add_handle(g->multi, g->easy);
	if (r != CURLM_OK)
		return error_set(err, ERR_INTERNAL, "ask '%s': %s", g->name,
			curl_multi_strerror(r));
	g->busy = true;
	return 0;
}

bool http_get_is_busy(const struct http_get *g)
{
	return g->busy;
}

const struct buf *http_get_body(const struct http_get *g)
{
	return &g->body;
}

static int set_transfer_error(const struct http_get *g, CURLcode r, struct error *err)
{
	if (r == CURLE_WRITE_ERROR && !buf_ok(&g->body))
		return error_set(err, ERR_LIMIT, "answer of '%s' is larger than %zu bytes",
			g->name, g->body.max);
	if (r == CURLE_OPERATION_TIMEDOUT)
		return error_set(err, ERR_TIMEOUT, "'%s' did not answer in time", g->name);
	return error_set(err, ERR_UNAVAILABLE, "connect to '%s': %s", g->name,
		curl_easy_strerror(r));
}

static enum error_code classify_http_status(long status)
{
	return status == 401 || status == 403 ? ERR_PERMISSION
	       : status == 404                ? ERR_NOT_FOUND
	       : status >= 500                ? ERR_UNAVAILABLE
					      : ERR_INVALID;
}

static int set_status_error(const struct http_get *g, long status, struct error *err)
{
	json_t *j = json_loadb(buf_str(&g->body), g->body.len, 0, NULL);
	const char *text = json_string_value(json_object_get(j, "error"));

	(void)error_set(err, classify_http_status(status),
		"'%s' answered GET %s with status %ld%s%.200s", g->name, g->path, status,
		text ? ": " : "", text ? text : "");
	json_decref(j);
	return -1;
}

/* Reads curl's result of the only request. */
static int read_get_result(struct http_get *g, struct error *err)
{
	int left;
	CURLMsg *m = curl_multi_info_read(g->multi, &left);
	CURLcode r;
	long status = 0;

	if (!m || m->msg != CURLMSG_DONE)
		return 0;
	r = m->data.result; /* invalid after the next call */
	(void)curl_easy_getinfo(g->easy, CURLINFO_RESPONSE_CODE, &status);
	end_request(g);
	if (r != CURLE_OK)
		return set_transfer_error(g, r, err);
	return status == 200 ? HTTP_GET_DONE : set_status_error(g, status, err);
}

int http_get_wait(struct http_get *g, const int *fds, size_t n_fds, uint64_t timeout_ns,
	struct error *err)
{
	struct curl_waitfd extra[FDS_MAX] = { 0 };
	uint64_t end = time_mono_ns() + timeout_ns;

	for (size_t i = 0; i < n_fds && i < FDS_MAX; i++)
		extra[i] = (struct curl_waitfd){ .fd = fds[i], .events = CURL_WAIT_POLLIN };
	for (;;) {
		uint64_t now, ms;
		int running = 0, ready = 0, r;

		if (g->busy && curl_multi_perform(g->multi, &running) != CURLM_OK) {
			end_request(g);
			return error_set(err, ERR_INTERNAL, "ask '%s': curl is confused",
				g->name);
		}
		r = g->busy ? read_get_result(g, err) : 0;
		now = time_mono_ns();
		if (r != 0 || now >= end)
			return r;
		ms = (end - now + NS_PER_MS - 1) / NS_PER_MS;
		(void)curl_multi_poll(g->multi, extra,
			(unsigned)(n_fds < FDS_MAX ? n_fds : FDS_MAX),
			(int)(ms < POLL_MAX_MS ? ms : POLL_MAX_MS), &ready);
		for (size_t i = 0; i < n_fds && i < FDS_MAX; i++) {
			if (extra[i].revents)
				return 0;
		}
	}
}
