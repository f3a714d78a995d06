/* SPDX-License-Identifier: Apache-2.0 */
/* How to reach and trust the API server: checks of a struct api_config, and its values inside a pod (api.h). */
#include "io/kube-api/internal.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/fd.h"
#include "lib/base/parse.h"

#define SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"
#define NAMESPACE_MAX       63 /* a DNS label */
#define SERVER_MAX          1024
#define BLANKS              " \t\r\n"

void api_config_fini(struct api_config *c)
{
	char **const strings[] = { &c->server, &c->ca_file, &c->ca_data, &c->token_file,
		&c->token, &c->cert_file, &c->key_file, &c->cert_data, &c->key_data,
		&c->namespace_, &c->tls_server_name, &c->source };

	for (size_t i = 0; i < ARRAY_LEN(strings); i++)
		free(*strings[i]);
	*c = (struct api_config){ .server = NULL };
}

/* --- tokens --- */

static bool api_token_valid(const char *token)
{
	if (!*token)
		return false;
	for (; *token; token++)
		if (*token <= ' ' || *token > '~')
			return false;
	return true;
}

/* Reads the text of the file without the blanks around it. */
static int read_trimmed(const char *path, size_t max, char **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(max);
	const char *begin;
	size_t len;

	if (file_read(path, &b, err) < 0)
		return -1;
	if (strlen(buf_str(&b)) != b.len)
		return error_set(err, ERR_INVALID, "read '%s': it is no text", path);
	begin = buf_str(&b) + strspn(buf_str(&b), BLANKS);
	len = strlen(begin);
	while (len > 0 && strchr(BLANKS, begin[len - 1]))
		len--;
	*ret = strndup(begin, len);
	return *ret ? 0 : error_nomem(err);
}

int api_token_read(const char *path, char **ret, struct error *err)
{
	CLEANUP(freep) char *token = NULL;

	if (read_trimmed(path, API_TOKEN_MAX, &token, err) < 0)
		return -1;
	/* The error does not show the text: it may be a token with one wrong character. */
	if (!api_token_valid(token))
		return error_set(err, ERR_INVALID,
			"read '%s': expected a token of printable characters without blanks, found %s",
			path, *token ? "other characters" : "nothing");
	*ret = STEAL_PTR(token);
	return 0;
}

static int probe_pem(const char *path, struct error *err)
{
	CLEANUP(freep) char *text = NULL;

	if (!path)
		return 0;
	if (read_trimmed(path, API_CA_MAX, &text, err) < 0)
		return -1;
	return *text ? 0 : error_set(err, ERR_INVALID, "read '%s': the file is empty", path);
}

int api_config_probe(const struct api_config *c, struct error *err)
{
	CLEANUP(freep) char *token = NULL;

	if (c->token_file && api_token_read(c->token_file, &token, err) < 0)
		return -1;
	return probe_pem(c->ca_file, err) < 0 || probe_pem(c->cert_file, err) < 0 ||
			       probe_pem(c->key_file, err) < 0
		       ? -1
		       : 0;
}

/* --- the server's address --- */

const char *api_server_host(const char *server, size_t *ret)
{
	const char *p = strstr(server, "//");

	p = p ? p + 2 : server;
	*ret = strcspn(p, "/");
	return p;
}

/* "", ":443" */
static bool is_server_port(const char *text, size_t len)
{
	char digits[6];
	uint32_t port;

	if (len == 0)
		return true;
	if (*text != ':' || len - 1 >= sizeof(digits))
		return false;
	memcpy(digits, text + 1, len - 1);
	digits[len - 1] = '\0';
	return parse_u32(digits, &port) && port >= 1 && port <= 65535;
}

static size_t host_len(const char *host)
{
	size_t n;

	if (*host == '[') {
		n = strspn(host + 1, "0123456789abcdefABCDEF:.");
		return n > 0 && host[n + 1] == ']' ? n + 2 : 0;
	}
	return strspn(host,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._");
}

/* 127.0.0.0/8, but not a host name that begins with "127.". */
static bool is_local(const char *host, size_t len)
{
	if (len > 4 && !strncmp(host, "127.", 4))
		return strspn(host, "0123456789.") >= len;
	return (len == 5 && !strncmp(host, "[::1]", len)) ||
	       (len == 9 && !strncmp(host, "localhost", len));
}

/* For messages: without a user and password, which do not belong in the address. */
static const char *show_server(char ret[API_SHOWN_MAX], const char *server)
{
	const char *at = strrchr(server, '@');

	return api_shown(ret, at ? at : server);
}

static int check_server(const struct api_config *c, struct error *err)
{
	const char *s = c->server, *host;
	bool plain = !strncmp(s, "http://", 7), secret = c->token || c->token_file;
	char shown[API_SHOWN_MAX];
	size_t len, name_len;

	(void)show_server(shown, s);
	if (strlen(s) > SERVER_MAX)
		return error_set(err, ERR_LIMIT, "%s: the server's address is longer than %d",
			c->source, SERVER_MAX);
	host = api_server_host(s, &len);
	name_len = host_len(host);
	if ((!plain && strncmp(s, "https://", 8) != 0) || name_len == 0 || name_len > len ||
		!is_server_port(host + name_len, len - name_len))
		return error_set(err, ERR_INVALID,
			"%s: expected a server like https://host:6443, found '%s'", c->source,
			shown);
	for (const char *p = host + len; *p; p++)
		if (*p <= ' ' || *p > '~' || strchr("?#\\", *p))
			return error_set(err, ERR_INVALID,
				"%s: the path in the server's address '%s' has characters that do not belong there",
				c->source, shown);
	if (plain && secret && !is_local(host, name_len))
		return error_set(err, ERR_INVALID,
			"%s: a token is not sent in clear text to '%s'; expected https://",
			c->source, shown);
	if (plain && c->tls_server_name)
		return error_set(err, ERR_INVALID,
			"%s: a TLS server name makes no sense with '%s'", c->source, shown);
	return 0;
}

bool api_namespace_ok(const char *text)
{
	size_t len = strlen(text);

	return len > 0 && len <= NAMESPACE_MAX && *text != '-' && text[len - 1] != '-' &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

int api_config_check(const struct api_config *c, struct error *err)
{
	char shown[API_SHOWN_MAX];

	if (!c->server || !c->source)
		return error_set(err, ERR_INTERNAL, "an API server without address or source");
	if (check_server(c, err) < 0)
		return -1;
	if (c->token && (strlen(c->token) > API_TOKEN_MAX || !api_token_valid(c->token)))
		return error_set(err, ERR_INVALID,
			"%s: expected a token of printable characters without blanks, at most %u bytes",
			c->source, API_TOKEN_MAX);
	if (c->tls_server_name &&
		(*c->tls_server_name == '[' ||
			host_len(c->tls_server_name) != strlen(c->tls_server_name)))
		return error_set(err, ERR_INVALID,
			"%s: expected a TLS server name like kubernetes.default.svc, found '%s'",
			c->source, api_shown(shown, c->tls_server_name));
	if (c->namespace_ && !api_namespace_ok(c->namespace_))
		return error_set(err, ERR_INVALID, "%s: expected a namespace, found '%s'",
			c->source, api_shown(shown, c->namespace_));
	if (!(c->cert_file || c->cert_data) != !(c->key_file || c->key_data))
		return error_set(err, ERR_INVALID,
			"%s: a client certificate and its key must be given together",
			c->source);
	if (c->insecure && (c->ca_file || c->ca_data))
		return error_set(err, ERR_INVALID,
			"%s: a CA makes no sense where the server is not verified", c->source);
	return 0;
}

/* --- inside a pod --- */

static int in_cluster_server(struct api_config *c, const char *(*env)(const char *name),
	struct error *err)
{
	const char *host = env("KUBERNETES_SERVICE_HOST"),
		   *port = env("KUBERNETES_SERVICE_PORT");
	char shown[API_SHOWN_MAX];
	bool v6;

	if (!port || !*port)
		port = env("KUBERNETES_SERVICE_PORT_HTTPS");
	if (!host || !*host || !port || !*port)
		return error_set(err, ERR_NOT_FOUND,
			"this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
	v6 = strchr(host, ':') && *host != '[';
	if (asprintf(&c->server, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "",
		    port) < 0) {
		c->server = NULL;
		return error_nomem(err);
	}
	/* api_config_check() would accept the slash as the start of a path. Here a slash means a
	 * malformed host or port. */
	if (strchr(host, '/') || strchr(port, '/'))
		return error_set(err, ERR_INVALID,
			"%s: expected a server like https://10.0.0.1:443, found '%s'",
			c->source, show_server(shown, c->server));
	return 0;
}

static int file_of(char **ret, const char *dir, const char *name, struct error *err)
{
	char path[PATH_MAX];

	if (path_join(path, sizeof(path), dir, name, err) < 0)
		return -1;
	*ret = strdup(path);
	return *ret ? 0 : error_nomem(err);
}

static int in_cluster_namespace(struct api_config *c, const char *dir, struct error *err)
{
	CLEANUP(freep) char *path = NULL;
	CLEANUP(freep) char *text = NULL;

	if (file_of(&path, dir, "namespace", err) < 0)
		return -1;
	if (read_trimmed(path, NAMESPACE_MAX + 2, &text, err) < 0) {
		if (!err || err->code != ERR_NOT_FOUND)
			return -1;
		error_clear(err);
		return 0;
	}
	if (!api_namespace_ok(text))
		return error_set(err, ERR_INVALID, "'%s' does not hold a namespace", path);
	c->namespace_ = STEAL_PTR(text);
	return 0;
}

static int in_cluster(struct api_config *c, const char *dir,
	const char *(*env)(const char *name), struct error *err)
{
	CLEANUP(freep) char *token = NULL;

	c->source = strdup("in-cluster");
	if (!c->source)
		return error_nomem(err);
	if (in_cluster_server(c, env, err) < 0 ||
		file_of(&c->ca_file, dir, "ca.crt", err) < 0 ||
		file_of(&c->token_file, dir, "token", err) < 0 ||
		in_cluster_namespace(c, dir, err) < 0 || api_config_check(c, err) < 0)
		return -1;
	/* A pod without a token is an installation error that a person must correct: report it at
	 * the start. */
	if (api_token_read(c->token_file, &token, err) == 0)
		return 0;
	if (err && err->code == ERR_NOT_FOUND)
		return error_set(err, ERR_INVALID,
			"this pod has no token at '%s': is automountServiceAccountToken off?",
			c->token_file);
	return -1;
}

int api_config_in_cluster(struct api_config *ret, const char *dir,
	const char *(*env)(const char *name), struct error *err)
{
	struct api_config c = { .server = NULL };
	struct error local = ERROR_INIT;
	struct error *e = err ? err : &local; /* the code below tests err->code */

	if (in_cluster(&c, dir ? dir : SERVICE_ACCOUNT_DIR, env, e) < 0) {
		api_config_fini(&c);
		return -1;
	}
	*ret = c;
	return 0;
}
