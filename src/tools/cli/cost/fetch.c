/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cost/fetch.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <ctype.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PLACE_MAX 200 /* bytes of a URL in an error */

static void curl_freep(CURL **c)
{
	if (*c)
		curl_easy_cleanup(*c);
}

static void curl_textp(char **text)
{
	curl_free(*text);
}

static void curl_urlp(CURLU **u)
{
	curl_url_cleanup(*u);
}

static size_t on_cost_fetch_data(char *data, size_t size, size_t n, void *arg)
{
	struct buf *b = arg;

	buf_add(b, data, size * n);
	return buf_ok(b) ? size * n : 0;
}

/* @url: the URL of the query. @place: the server's URL for errors, without user name and password. */
static int make_urls(const struct fetch *f, const char *query, uint64_t time_s, struct buf *url,
	char *place, struct error *err)
{
	CLEANUP(curl_urlp) CURLU *u = curl_url();
	CLEANUP(curl_textp) char *path = NULL;
	CLEANUP(curl_textp) char *whole = NULL;
	CLEANUP(curl_textp) char *shown = NULL;
	CLEANUP(curl_textp) char *escaped = curl_easy_escape(NULL, query, 0);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(4096);

	if (!u || !escaped)
		return error_nomem(err);
	if (curl_url_set(u, CURLUPART_URL, f->url, 0) != CURLUE_OK ||
		curl_url_get(u, CURLUPART_PATH, &path, 0) != CURLUE_OK)
		return error_set(err, ERR_INVALID,
			"--prometheus: expected a URL such as http://prometheus:9090");
	buf_puts(&text, path);
	while (text.len > 0 && text.data[text.len - 1] == '/')
		text.data[--text.len] = '\0';
	buf_puts(&text, "/api/v1/query");
	if (!buf_ok(&text))
		return error_set(err, ERR_LIMIT, "--prometheus: the URL is too long");
	(void)curl_url_set(u, CURLUPART_QUERY, NULL, 0);
	(void)curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0);
	if (curl_url_set(u, CURLUPART_PATH, buf_str(&text), 0) != CURLUE_OK ||
		curl_url_get(u, CURLUPART_URL, &whole, 0) != CURLUE_OK)
		return error_nomem(err);
	buf_printf(url, "%s?time=%" PRIu64 "&query=%s", whole, time_s, escaped);
	(void)curl_url_set(u, CURLUPART_USER, NULL, 0);
	(void)curl_url_set(u, CURLUPART_PASSWORD, NULL, 0);
	(void)curl_url_set(u, CURLUPART_OPTIONS, NULL, 0);
	if (curl_url_get(u, CURLUPART_URL, &shown, 0) != CURLUE_OK || !buf_ok(url))
		return error_nomem(err);
	(void)snprintf(place, PLACE_MAX, "%s", shown);
	return 0;
}

static int read_bearer_token(const char *path, struct buf *token, struct error *err)
{
	if (file_read(path, token, err) < 0)
		return error_prefix(err, "--bearer-token-file");
	while (token->len > 0 && isspace((unsigned char)token->data[token->len - 1]))
		token->data[--token->len] = '\0';
	for (size_t i = 0; i < token->len; i++) {
		if (!isgraph((unsigned char)token->data[i]))
			return error_set(err, ERR_INVALID,
				"--bearer-token-file: expected one line without blanks in '%s'",
				path);
	}
	if (token->len == 0)
		return error_set(err, ERR_INVALID, "--bearer-token-file: '%s' is empty", path);
	return 0;
}

static int perform_cost_fetch(CURL *c, const char *place, const struct buf *body,
	struct error *err)
{
	CURLcode r = curl_easy_perform(c);
	long status = 0;

	if (r == CURLE_WRITE_ERROR && !buf_ok(body))
		return error_set(err, ERR_LIMIT, "the answer of '%s' is larger than %zu bytes",
			place, body->max);
	if (r == CURLE_OPERATION_TIMEDOUT)
		return error_set(err, ERR_TIMEOUT, "'%s' did not answer in time", place);
	if (r != CURLE_OK)
		return error_set(err, ERR_UNAVAILABLE, "ask '%s': %s", place,
			curl_easy_strerror(r));
	(void)curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	if (status == 401 || status == 403)
		return error_set(err, ERR_PERMISSION,
			"'%s' answered with status %ld: it wants another token, see "
			"--bearer-token-file",
			place, status);
	if (status != 200 && status != 400 && status != 422 && status != 503)
		return error_set(err, ERR_UNAVAILABLE, "'%s' answered with status %ld", place,
			status);
	return 0;
}

int fetch_query(const struct fetch *f, const char *query, uint64_t time_s, struct buf *ret,
	struct error *err)
{
	CLEANUP(curl_freep) CURL *c = curl_easy_init();
	CLEANUP(buf_fini) struct buf token = BUF_INIT(FETCH_TOKEN_MAX);
	CLEANUP(buf_fini) struct buf url = BUF_INIT(16384);
	char place[PLACE_MAX];

	if (!c)
		return error_nomem(err);
	if (make_urls(f, query, time_s, &url, place, err) < 0)
		return -1;
	if (f->token_file) {
		if (read_bearer_token(f->token_file, &token, err) < 0)
			return -1;
		(void)curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		(void)curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, buf_str(&token));
	}
	if (f->ca_file)
		(void)curl_easy_setopt(c, CURLOPT_CAINFO, f->ca_file);
	(void)curl_easy_setopt(c, CURLOPT_URL, buf_str(&url));
	(void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	(void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(f->timeout_ns / NS_PER_MS));
	(void)curl_easy_setopt(c, CURLOPT_USERAGENT, "gpuslice/" GPUSLICE_VERSION);
	(void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_cost_fetch_data);
	(void)curl_easy_setopt(c, CURLOPT_WRITEDATA, ret);
	return perform_cost_fetch(c, place, ret, err);
}
