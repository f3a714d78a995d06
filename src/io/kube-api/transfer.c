/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exchange with the API server: address, TLS, token, and the errors of the server's answers (internal.h).
 */
#include "io/kube-api/internal.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* --- errors of the server --- */

enum error_code api_code_of_status(int status)
{
	static const struct {
		int status;
		enum error_code code;
	} rows[] = {
		{ 401, ERR_PERMISSION },
		{ 403, ERR_PERMISSION },
		{ 404, ERR_NOT_FOUND },
		{ 405, ERR_UNSUPPORTED },
		{ 406, ERR_UNSUPPORTED },
		{ 408, ERR_TIMEOUT },
		{ 409, ERR_EXISTS },
		{ 410, ERR_NOT_FOUND },
		{ 413, ERR_LIMIT },
		{ 415, ERR_UNSUPPORTED },
		{ 429, ERR_UNAVAILABLE },
		{ 504, ERR_TIMEOUT },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].status == status)
			return rows[i].code;
	switch (status / 100) {
	case 2:
		return ERR_NONE;
	case 3:
		return ERR_UNSUPPORTED; /* an API server does not redirect clients */
	case 4:
		return ERR_INVALID;
	default:
		return ERR_UNAVAILABLE;
	}
}

void api_printable(char *ret, size_t cap, const char *text)
{
	size_t n = 0;

	for (; n < cap - 1 && n < API_TEXT_MAX && text[n]; n++)
		ret[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
	ret[n] = '\0';
}

const char *api_shown(char ret[API_SHOWN_MAX], const char *text)
{
	api_printable(ret, API_SHOWN_MAX, text);
	return ret;
}

static int set_no_answer_error(const struct api_transfer *t, const char *what,
	struct error *err)
{
	char why[API_TEXT_MAX + 1];

	if (!buf_ok(t->body))
		return error_set(err, ERR_LIMIT, "%s: the answer is larger than %zu bytes",
			what, t->body->max);
	if (t->result == CURLE_OPERATION_TIMEDOUT)
		return error_set(err, ERR_TIMEOUT, "%s: no answer in time", what);
	if (t->result == CURLE_OUT_OF_MEMORY)
		return error_nomem(err);
	/* libcurl's own text has the elapsed milliseconds: it would differ each time. */
	if (t->result == CURLE_COULDNT_CONNECT)
		return error_set(err, ERR_UNAVAILABLE, "%s: connect: %s", what,
			t->sys ? strerror(t->sys) : "no connection");
	api_printable(why, sizeof(why),
		*t->why ? t->why : t->api->curl->easy_strerror(t->result));
	return error_set(err, ERR_UNAVAILABLE, "%s: %s", what, why);
}

int api_transfer_error(const struct api_transfer *t, const char *method, const char *path,
	const json_t *body, struct error *err)
{
	const char *message = json_string_value(json_object_get(body, "message"));
	char what[ERROR_MSG_MAX / 2], text[API_TEXT_MAX + 1];
	int path_len = (int)strcspn(path, "?");

	(void)snprintf(what, sizeof(what), "%s '%.80s%.*s'", method, t->api->config.server,
		path_len < 120 ? path_len : 120, path);
	if (t->result != CURLE_OK)
		return set_no_answer_error(t, what, err);
	if (t->status / 100 == 2)
		return 0;
	if (!message || !*message)
		return error_set(err, api_code_of_status(t->status),
			"%s: the API server answers %d", what, t->status);
	api_printable(text, sizeof(text), message);
	return error_set(err, api_code_of_status(t->status),
		"%s: the API server answers %d: %s", what, t->status, text);
}

/* --- one exchange --- */

/* How long a peer may be unreachable before the connection counts as lost. Without these limits the
 * kernel repeats unacknowledged data for a quarter of an hour. */
#define KEEPALIVE_IDLE_S     30L
#define KEEPALIVE_INTERVAL_S 10L
#define UNACKNOWLEDGED_MS    30000U

/* --- credentials --- */

static int read_ca(const char *path, char **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(API_CA_MAX);

	if (file_read(path, &b, err) < 0)
		return -1;
	if (!b.len)
		return error_set(err, ERR_INVALID, "read '%s': the file is empty", path);
	*ret = buf_steal(&b);
	return *ret ? 0 : error_nomem(err);
}

/*
 * Reads the file again if the present content is older than @max_age_ns. A file that cannot be read is
 * no error while there is an older content: the server decides whether that content is still valid.
 */
static int refresh_secret(struct api_secret *s, const char *path, uint64_t max_age_ns,
	int (*reader)(const char *path, char **ret, struct error *err), struct error *err)
{
	uint64_t now = time_mono_ns();
	char *text = NULL;

	if (!path || (s->text && now - s->read_ns < max_age_ns))
		return 0;
	if (reader(path, &text, err) < 0)
		return s->text ? 0 : -1;
	s->read_ns = now;
	if (s->text && strcmp(s->text, text) == 0) {
		free(text);
		return 0;
	}
	free(s->text);
	s->text = text;
	s->generation++;
	return 0;
}

static int refresh_both(struct api *a, struct error *err)
{
	if (refresh_secret(&a->token, a->config.token_file, a->intervals.token_ns,
		    api_token_read, err) < 0)
		return -1;
	return refresh_secret(&a->ca, a->config.ca_file, a->intervals.ca_ns, read_ca, err);
}

bool api_transfer_refresh(struct api_transfer *t)
{
	struct api *a = t->api;

	if (t->retried)
		return false;
	if (t->result == CURLE_OK && t->status == 401) {
		(void)refresh_secret(&a->token, a->config.token_file, 0, api_token_read, NULL);
		t->retried = t->token_generation != a->token.generation;
	} else if (t->result == CURLE_PEER_FAILED_VERIFICATION) {
		(void)refresh_secret(&a->ca, a->config.ca_file, 0, read_ca, NULL);
		t->retried = t->ca_generation != a->ca.generation;
	}
	return t->retried;
}

/* --- libcurl's callbacks: they call neither libcurl's transfer functions nor users --- */

static void api_transfer_queue_news(struct api_transfer *t, unsigned news)
{
	if (!t->news)
		TAILQ_INSERT_TAIL(&t->api->news, t, link);
	t->news |= news;
}

static size_t on_header(char *data, size_t size, size_t n, void *arg)
{
	struct api_transfer *t = arg;
	size_t len = size * n;
	long status = 0;

	/* An empty line ends the headers of this answer, or of a "100 Continue" before it. */
	if (len > 0 && (data[0] == '\r' || data[0] == '\n')) {
		(void)t->api->curl->easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
		if (status >= 200) {
			t->status = (int)status;
			api_transfer_queue_news(t, API_NEWS_HEAD);
		}
	}
	return len;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct api_transfer *t = arg;

	buf_add(t->body, data, size * n);
	if (!buf_ok(t->body))
		return 0;
	api_transfer_queue_news(t, API_NEWS_DATA);
	return size * n;
}

static curl_socket_t on_curl_open_socket(void *arg, curlsocktype purpose,
	struct curl_sockaddr *to)
{
	int fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
	unsigned ms = UNACKNOWLEDGED_MS;

	(void)arg;
	(void)purpose;
	if (fd < 0)
		return CURL_SOCKET_BAD;
	/* Fails on sockets of other families, which need no such time-out. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
	return fd;
}

/* --- one exchange --- */

static CURLcode set_blob(struct api *a, CURL *e, CURLoption option, const char *pem)
{
	struct curl_blob blob = {
		.data = (void *)(uintptr_t)pem,
		.len = strlen(pem),
		.flags = CURL_BLOB_COPY,
	};

	return a->curl->easy_setopt(e, option, &blob);
}

static CURLcode set_pem(struct api *a, CURL *e, CURLoption file_option, const char *file,
	CURLoption data_option, const char *data)
{
	if (data)
		return set_blob(a, e, data_option, data);
	return file ? a->curl->easy_setopt(e, file_option, file) : CURLE_OK;
}

/*
 * libcurl gets the CA as text, never as a path. libcurl reuses connections whose settings are equal,
 * and keeps a parsed CA file for a day. With the text in the settings, neither outlives a change of
 * the file.
 */
static int set_tls(struct api *a, CURL *e, struct error *err)
{
	const struct curl_table *c = a->curl;
	const struct api_config *f = &a->config;
	const char *ca = f->ca_file ? a->ca.text : f->ca_data;
	CURLcode r;

	(void)c->easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (f->insecure) {
		(void)c->easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L);
		(void)c->easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	r = ca ? set_blob(a, e, CURLOPT_CAINFO_BLOB, ca) : CURLE_OK;
	if (r == CURLE_OK)
		r = set_pem(a, e, CURLOPT_SSLCERT, f->cert_file, CURLOPT_SSLCERT_BLOB,
			f->cert_data);
	if (r == CURLE_OK)
		r = set_pem(a, e, CURLOPT_SSLKEY, f->key_file, CURLOPT_SSLKEY_BLOB,
			f->key_data);
	if (r == CURLE_OUT_OF_MEMORY)
		return error_nomem(err);
	if (r != CURLE_OK)
		return error_set(err, ERR_UNSUPPORTED, CURL_SONAME "'s TLS: %s",
			c->easy_strerror(r));
	return 0;
}

static int add_transfer_header(struct api_transfer *t, const char *name, const char *value,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(API_TOKEN_MAX + 1024);
	struct curl_slist *list;

	if (!value)
		return 0;
	buf_printf(&b, "%s%s", name, value);
	if (!buf_ok(&b))
		return error_nomem(err);
	list = t->api->curl->slist_append(t->headers, buf_str(&b));
	if (!list)
		return error_nomem(err);
	t->headers = list;
	return 0;
}

static int set_transfer_headers(struct api_transfer *t, const struct api_request *req,
	struct error *err)
{
	struct api *a = t->api;
	const char *token = a->token.text ? a->token.text : a->config.token;

	if (add_transfer_header(t, "Accept: ", API_JSON, err) < 0 ||
		add_transfer_header(t, "Authorization: Bearer ", token, err) < 0 ||
		add_transfer_header(t, "Content-Type: ", req->content_type, err) < 0 ||
		add_transfer_header(t, "Host: ", a->host, err) < 0 ||
		/* No "100 Continue" first: that costs a round trip. */
		add_transfer_header(t, "Expect:", "", err) < 0)
		return -1;
	(void)a->curl->easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
	t->token_generation = a->token.generation;
	t->ca_generation = a->ca.generation;
	return 0;
}

static int set_transfer_url(struct api_transfer *t, const char *path, struct error *err)
{
	const struct curl_table *c = t->api->curl;
	CLEANUP(buf_fini) struct buf url = BUF_INIT(64U << 10);

	for (const char *p = path; *p; p++)
		if (*p <= ' ' || *p > '~' || *path != '/')
			return error_set(err, ERR_INVALID, "'%s' is no escaped path", path);
	buf_puts(&url, t->api->url);
	buf_puts(&url, path);
	if (!buf_ok(&url) ||
		c->easy_setopt(t->easy, CURLOPT_URL, buf_str(&url)) == CURLE_OUT_OF_MEMORY)
		return error_nomem(err);
	(void)c->easy_setopt(t->easy, CURLOPT_PATH_AS_IS, 1L);
	(void)c->easy_setopt(t->easy, CURLOPT_PROXY, "");
	(void)c->easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	if (!t->api->connect_to)
		return 0;
	t->connect_to = c->slist_append(NULL, t->api->connect_to);
	if (!t->connect_to)
		return error_nomem(err);
	(void)c->easy_setopt(t->easy, CURLOPT_CONNECT_TO, t->connect_to);
	return 0;
}

static long to_ms(uint64_t ns)
{
	return ns ? (long)((ns + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

static int set_transfer_options(struct api_transfer *t, const struct api_request *req,
	uint64_t timeout_ns, struct error *err)
{
	struct api *a = t->api;
	const struct curl_table *c = a->curl;
	CURL *e = t->easy;

	(void)c->easy_setopt(e, CURLOPT_PRIVATE, t);
	(void)c->easy_setopt(e, CURLOPT_ERRORBUFFER, t->why);
	(void)c->easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	(void)c->easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	(void)c->easy_setopt(e, CURLOPT_USERAGENT, a->user_agent);
	(void)c->easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	(void)c->easy_setopt(e, CURLOPT_HEADERDATA, t);
	(void)c->easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	(void)c->easy_setopt(e, CURLOPT_WRITEDATA, t);
	(void)c->easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_curl_open_socket);
	(void)c->easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	(void)c->easy_setopt(e, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	(void)c->easy_setopt(e, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
	(void)c->easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, to_ms(a->intervals.connect_ns));
	(void)c->easy_setopt(e, CURLOPT_TIMEOUT_MS, to_ms(timeout_ns));
	if (req->body && c->easy_setopt(e, CURLOPT_COPYPOSTFIELDS, req->body) != CURLE_OK)
		return error_nomem(err);
	(void)c->easy_setopt(e, CURLOPT_CUSTOMREQUEST, req->method);
	if (set_transfer_url(t, req->path, err) < 0 || set_transfer_headers(t, req, err) < 0)
		return -1;
	return set_tls(a, e, err);
}

int api_transfer_start(struct api_transfer *t, const struct api_request *req,
	uint64_t timeout_ns, struct error *err)
{
	struct api *a = t->api;

	if (refresh_both(a, err) < 0)
		return -1;
	buf_clear(t->body);
	t->status = 0;
	t->result = CURLE_OK;
	t->retry_after_ns = 0;
	t->why[0] = '\0';
	t->easy = a->curl->easy_init();
	if (!t->easy)
		return error_nomem(err);
	if (set_transfer_options(t, req, timeout_ns, err) < 0) {
		api_transfer_stop(t);
		return -1;
	}
	if (a->curl->multi_add_handle(a->multi, t->easy) != CURLM_OK) {
		api_transfer_stop(t);
		return error_nomem(err);
	}
	a->requests++;
	return 0;
}

void api_transfer_stop(struct api_transfer *t)
{
	const struct curl_table *c = t->api->curl;

	if (t->news) {
		TAILQ_REMOVE(&t->api->news, t, link);
		t->news = 0;
	}
	if (!t->easy)
		return;
	(void)c->multi_remove_handle(t->api->multi, t->easy);
	c->easy_cleanup(STEAL_PTR(t->easy));
	c->slist_free_all(STEAL_PTR(t->headers));
	c->slist_free_all(STEAL_PTR(t->connect_to));
}

static void queue_transfer_end(struct api *a, CURL *easy, CURLcode result)
{
	struct api_transfer *t = NULL;
	curl_off_t seconds = 0;
	long sys = 0;

	(void)a->curl->easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&t);
	(void)a->curl->easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
	(void)a->curl->easy_getinfo(easy, CURLINFO_OS_ERRNO, &sys);
	t->result = result;
	t->sys = (int)sys;
	if (seconds > 0 && (uint64_t)seconds < API_RETRY_AFTER_MAX_NS / NS_PER_SEC)
		t->retry_after_ns = (uint64_t)seconds * NS_PER_SEC;
	else if (seconds > 0)
		t->retry_after_ns = API_RETRY_AFTER_MAX_NS;
	api_transfer_queue_news(t, API_NEWS_END);
}

void api_settle(struct api *a)
{
	struct api_transfer *t;
	CURLMsg *m;
	int left;

	while ((m = a->curl->multi_info_read(a->multi, &left)))
		if (m->msg == CURLMSG_DONE)
			queue_transfer_end(a, m->easy_handle, m->data.result);
	/* The callback may stop any transfer, or all by api_free(). @a itself stays valid until a
	 * later iteration of the loop. */
	while ((t = TAILQ_FIRST(&a->news))) {
		unsigned news = t->news;

		if (news & API_NEWS_END)
			api_transfer_stop(t);
		else
			TAILQ_REMOVE(&a->news, t, link);
		t->news = 0;
		t->deliver(t, news);
	}
}
