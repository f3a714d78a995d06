/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks each request of a remote client: method, headers, host, token and route. Answers it with the agent's
 * reply (internal.h).
 */
#include "io/web/worker/internal.h"

#include "lib/http/header.h"
#include "io/web/packet/parse.h"

#include <string.h>

/* In each answer of the process. libmicrohttpd's own answers, to bytes that are not HTTP at all, have none
 * of them. */
static const struct {
	const char *name, *value;
} headers[] = {
	{ "Cache-Control", "no-store" },
	{ "Content-Security-Policy",
		"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
		"img-src 'self' data:; base-uri 'none'; form-action 'none'; "
		"frame-ancestors 'none'" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
	{ "Referrer-Policy", "no-referrer" },
	{ "X-Content-Type-Options", "nosniff" },
};

static void release_request_reply(struct web_reply *r)
{
	if (r->release)
		r->release(r->owner);
	r->release = NULL;
}

static struct MHD_Response *response_of(const struct web_reply *r, bool with_body)
{
	if (!with_body)
		return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	/* The const is cast away for the prototype only. */
	return MHD_create_response_from_buffer_with_free_callback_cls(r->len,
		(void *)(uintptr_t)r->body, r->release, r->owner);
}

static void add_headers(struct MHD_Response *m, const struct web_reply *r)
{
	char etag[WEB_ETAG_MAX + 2];

	for (size_t i = 0; i < ARRAY_LEN(headers); i++)
		(void)MHD_add_response_header(m, headers[i].name, headers[i].value);
	(void)MHD_add_response_header(m, MHD_HTTP_HEADER_CONTENT_TYPE,
		r->type ? r->type : "text/plain; charset=utf-8");
	for (size_t i = 0; i < r->n_extra && i < WEB_EXTRA_MAX; i++)
		(void)MHD_add_response_header(m, r->extra[i].name, r->extra[i].value);
	if (!r->etag[0])
		return;
	(void)snprintf(etag, sizeof(etag), "\"%.*s\"", WEB_ETAG_MAX - 1, r->etag);
	(void)MHD_add_response_header(m, MHD_HTTP_HEADER_ETAG, etag);
}

/* MHD_NO, for lack of memory, closes the connection. */
static enum MHD_Result queue_web_reply(struct web_server *w, struct web_conn *c,
	struct MHD_Connection *mhd, unsigned status, struct web_reply *r)
{
	bool with_body = status != MHD_HTTP_NOT_MODIFIED && r->len > 0;
	struct MHD_Response *m = response_of(r, with_body);
	enum MHD_Result result;

	if (m)
		add_headers(m, r);
	/* The response releases a body that is sent, after sending it. */
	if (!m || !with_body)
		release_request_reply(r);
	if (!m)
		return MHD_NO;
	result = MHD_queue_response(mhd, status, m);
	MHD_destroy_response(m);
	if (status >= 100 && status < 600)
		web_count(&w->shm->requests[status / 100 - 1]);
	c->heard = true;
	web_conn_list_set_state(&w->conns, c, WEB_CONN_REPLY, time_mono_ns());
	return result;
}

static enum MHD_Result queue_text_reply(struct web_server *w, struct web_conn *c,
	struct MHD_Connection *mhd, unsigned status, const char *name, const char *value,
	const char *text)
{
	struct web_reply r = { .body = text, .len = strlen(text), .n_extra = name ? 1 : 0 };

	r.extra[0].name = name;
	r.extra[0].value = value;
	return queue_web_reply(w, c, mhd, status, &r);
}

static const char *get_request_header(struct MHD_Connection *mhd, const char *name)
{
	return MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, name);
}

static bool is_read_method(const char *method)
{
	return !strcmp(method, MHD_HTTP_METHOD_GET) || !strcmp(method, MHD_HTTP_METHOD_HEAD);
}

static bool has_body(struct MHD_Connection *mhd)
{
	const char *len = get_request_header(mhd, MHD_HTTP_HEADER_CONTENT_LENGTH);

	return get_request_header(mhd, MHD_HTTP_HEADER_TRANSFER_ENCODING) ||
	       (len && strcmp(len, "0") != 0);
}

static size_t headers_size(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *i =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

	return i ? i->header_size : 0;
}

static enum MHD_Result on_request_header(void *cls, enum MHD_ValueKind kind, const char *name,
	size_t name_len, const char *value, size_t value_len)
{
	(void)kind;
	http_headers_add(cls, name, name_len, value, value_len);
	return MHD_YES;
}

/* --- the request --- */

struct query_arguments {
	struct web_request *req;
	bool wrong;
};

static enum MHD_Result on_query_argument(void *cls, enum MHD_ValueKind kind, const char *name,
	size_t name_len, const char *value, size_t value_len)
{
	struct query_arguments *g = cls;

	(void)kind;
	if (!value)
		value_len = 0;
	/* A NUL that was written as %00 would cut the text short. */
	if (g->req->n_query == WEB_QUERY_MAX || strlen(name) != name_len ||
		(value && strlen(value) != value_len)) {
		g->wrong = true;
		return MHD_NO;
	}
	g->req->query[g->req->n_query++] =
		(struct web_argument){ .name = name, .value = value ? value : "" };
	return MHD_YES;
}

static bool host_allowed(const struct web_server *w, struct MHD_Connection *mhd)
{
	const char *host = get_request_header(mhd, MHD_HTTP_HEADER_HOST);

	if (!w->only_local)
		return true;
	return host && (web_host_is(host, "localhost") || web_host_is(host, "127.0.0.1") ||
			       web_host_is(host, "::1") ||
			       (w->setup.host[0] && web_host_is(host, w->setup.host)));
}

static bool token_allowed(const struct web_server *w, struct MHD_Connection *mhd)
{
	const char *h = get_request_header(mhd, MHD_HTTP_HEADER_AUTHORIZATION), *token;
	size_t len;

	if (!w->token.path)
		return true;
	token = h ? web_bearer(h, &len) : NULL;
	return token && web_token_is(&w->token, token, len);
}

static const struct web_route_name *find_route(const struct web_server *w, const char *path)
{
	for (size_t i = 0; i < w->setup.n_routes; i++)
		if (web_route_rest(w->setup.routes[i].path, path))
			return &w->setup.routes[i];
	return NULL;
}

static enum MHD_Result serve_web_request(struct web_server *w, struct web_conn *c,
	struct MHD_Connection *mhd, struct web_request *req)
{
	const char *accept = get_request_header(mhd, MHD_HTTP_HEADER_ACCEPT);
	const char *known = get_request_header(mhd, MHD_HTTP_HEADER_IF_NONE_MATCH);
	struct query_arguments g = { .req = req };
	struct web_reply r = { .type = NULL };
	unsigned status;

	req->accept = accept ? accept : "";
	(void)MHD_get_connection_values_n(mhd, MHD_GET_ARGUMENT_KIND, on_query_argument, &g);
	if (g.wrong)
		return queue_text_reply(w, c, mhd, MHD_HTTP_BAD_REQUEST, NULL, NULL,
			"the query has too many arguments, or a NUL in one\n");
	status = web_link_request(w, req, &r);
	if (status == WEB_OK && r.etag[0] && known && web_etag_listed(known, r.etag))
		status = MHD_HTTP_NOT_MODIFIED;
	return queue_web_reply(w, c, mhd, status, &r);
}

static enum MHD_Result handle_web_request(struct web_server *w, struct web_conn *c,
	struct MHD_Connection *mhd, const char *path, const char *method)
{
	struct web_request req = { .path = path, .head = !strcmp(method, "HEAD") };
	const struct web_route_name *route = find_route(w, path);

	if (headers_size(mhd) > WEB_HEADERS_MAX)
		return queue_text_reply(w, c, mhd, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE,
			NULL, NULL, "request line and headers are larger than 16 KiB\n");
	if (route && route->open)
		return serve_web_request(w, c, mhd, &req);
	if (!host_allowed(w, mhd))
		return queue_text_reply(w, c, mhd, MHD_HTTP_FORBIDDEN, NULL, NULL,
			"this server has no token and listens on this machine only, so the Host "
			"header must be localhost, 127.0.0.1, [::1] or the address that it listens "
			"on; open it by one of these names, or give it a token\n");
	if (!token_allowed(w, mhd))
		return queue_text_reply(w, c, mhd, MHD_HTTP_UNAUTHORIZED,
			MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"gpuslice\"",
			"this needs the header 'Authorization: Bearer TOKEN'\n");
	if (!route)
		return queue_text_reply(w, c, mhd, MHD_HTTP_NOT_FOUND, NULL, NULL,
			"there is no such page\n");
	return serve_web_request(w, c, mhd, &req);
}

enum MHD_Result web_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_len,
	void **state)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct web_conn *c = info ? info->socket_context : NULL;
	struct http_headers sent = { .hosts = 0 };
	struct web_server *w = cls;

	(void)version;
	(void)upload;
	if (!c)
		return MHD_NO;
	if (*state) {
		*upload_len = 0;
		return handle_web_request(w, c, mhd, url, method);
	}
	*state = c;
	/* An answer at this point ends the connection; no body is read. */
	(void)MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, on_request_header, &sent);
	if (http_headers_wrong(&sent))
		return queue_text_reply(w, c, mhd, MHD_HTTP_BAD_REQUEST, NULL, NULL,
			http_headers_wrong(&sent));
	if (!is_read_method(method))
		return queue_text_reply(w, c, mhd, MHD_HTTP_METHOD_NOT_ALLOWED,
			MHD_HTTP_HEADER_ALLOW, "GET, HEAD", "only GET and HEAD are served\n");
	if (has_body(mhd))
		return queue_text_reply(w, c, mhd, MHD_HTTP_CONTENT_TOO_LARGE, NULL, NULL,
			"a request must not have a body\n");
	return MHD_YES;
}

void web_on_completed(void *cls, struct MHD_Connection *mhd, void **state,
	enum MHD_RequestTerminationCode why)
{
	/* Not *state: COMPLETED may come after CLOSED, which frees the connection that *state points to. */
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct web_conn *c = info ? info->socket_context : NULL;
	struct web_server *w = cls;

	(void)why;
	*state = NULL;
	if (c && c->state != WEB_CONN_CUT)
		web_conn_list_set_state(&w->conns, c,
			c->ended ? WEB_CONN_ENDING : WEB_CONN_IDLE, time_mono_ns());
}
