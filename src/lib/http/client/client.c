/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/client/client.h"

#include "lib/base/time.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>
#include <sys/un.h>

#define UNIX_PATH_CAP sizeof(((struct sockaddr_un *)NULL)->sun_path)

static size_t on_http_call_data(char *data, size_t size, size_t n, void *arg)
{
	struct buf *b = arg;

	buf_add(b, data, size * n);
	return buf_ok(b) ? size * n : 0;
}

static void http_curl_freep(CURL **c)
{
	if (*c)
		curl_easy_cleanup(*c);
}

static void slist_freep(struct curl_slist **l)
{
	curl_slist_free_all(*l);
}

static int perform_http_call(CURL *c, const char *address, int *ret_status,
	const struct buf *body, struct error *err)
{
	CURLcode r = curl_easy_perform(c);
	long status = 0;

	if (r == CURLE_WRITE_ERROR && !buf_ok(body))
		return error_set(err, ERR_LIMIT, "answer of '%s' is larger than %zu bytes",
			address, body->max);
	if (r == CURLE_OPERATION_TIMEDOUT)
		return error_set(err, ERR_TIMEOUT, "'%s' did not answer in time", address);
	if (r != CURLE_OK)
		return error_set(err, ERR_UNAVAILABLE, "connect to '%s': %s", address,
			curl_easy_strerror(r));
	(void)curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	*ret_status = (int)status;
	return 0;
}

int http_call(const char *address, const char *method, const char *path, const char *body,
	uint64_t timeout_ns, int *ret_status, struct buf *ret_body, struct error *err)
{
	CLEANUP(http_curl_freep) CURL *c = curl_easy_init();
	CLEANUP(slist_freep) struct curl_slist *headers = NULL;
	CLEANUP(buf_fini) struct buf url = BUF_INIT(4096);
	bool local = !strncmp(address, "unix:", 5);

	if (local && strlen(address + 5) >= UNIX_PATH_CAP)
		return error_set(err, ERR_LIMIT,
			"connect to '%s': a unix socket path has at most %zu bytes", address,
			UNIX_PATH_CAP - 1);
	buf_printf(&url, "http://%s%s",
		local             ? "localhost"
		: *address == ':' ? "localhost"
				  : "",
		local ? "" : address);
	buf_puts(&url, path);
	headers = curl_slist_append(NULL, "Content-Type: application/json");
	if (!c || !headers || !buf_ok(&url))
		return error_nomem(err);
	if (local)
		(void)curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, address + 5);
	(void)curl_easy_setopt(c, CURLOPT_URL, buf_str(&url));
	(void)curl_easy_setopt(c, CURLOPT_PROXY, "");
	(void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http");
	(void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(timeout_ns / NS_PER_MS));
	(void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_http_call_data);
	(void)curl_easy_setopt(c, CURLOPT_WRITEDATA, ret_body);
	(void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	if (body) {
		(void)curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE,
			(curl_off_t)strlen(body));
		(void)curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
	}
	(void)curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
	return perform_http_call(c, address, ret_status, ret_body, err);
}

static enum error_code find_error_by_http_status(int status)
{
	for (int c = 1; c < ERR_COUNT_; c++) {
		if (error_class((enum error_code)c)->http == status)
			return (enum error_code)c;
	}
	return ERR_INTERNAL;
}

int http_call_json(const char *address, const char *method, const char *path, const char *body,
	uint64_t timeout_ns, struct buf *ret_body, struct error *err)
{
	json_t *j;
	const char *text;
	int status = 0;

	if (http_call(address, method, path, body, timeout_ns, &status, ret_body, err) < 0)
		return -1;
	if (status / 100 == 2)
		return 0;
	j = json_loadb(buf_str(ret_body), ret_body->len, 0, NULL);
	text = json_string_value(json_object_get(j, "error"));
	if (text)
		(void)error_set(err, find_error_by_http_status(status), "%s", text);
	else
		(void)error_set(err, find_error_by_http_status(status),
			"'%s' answered %s %s with status %d", address, method, path, status);
	json_decref(j);
	return -1;
}
