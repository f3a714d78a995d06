/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/serve/web-config.h"

#include "lib/base/fd.h"
#include "lib/yaml/yaml.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum web_config_key_kind {
	SECTION,
	CERT,
	KEY,
	TAKEN,   /* any value: the server does so, or the value has no effect */
	ONLY,    /* one of these words, separated by blanks; or nothing */
	REFUSED, /* unless the value is empty */
};

#define USE_TOKEN "use --metrics-token-file, and 'authorization' with it in the scrape config"

static const struct web_config_row {
	const char *section; /* "": the file itself */
	const char *key;
	enum web_config_key_kind what;
	const char *text; /* the words, or what to use instead */
} rows[] = {
	{ "", "basic_auth_users", REFUSED,
		"users with passwords are not known here; " USE_TOKEN },
	{ "", "http_server_config", SECTION, NULL },
	{ "", "rate_limit", REFUSED, "the server has limits of its own; take it out" },
	{ "", "tls_server_config", SECTION, NULL },
	{ "http_server_config", "headers", REFUSED,
		"no headers are added; those that protect a browser are there anyway" },
	{ "http_server_config", "http2", TAKEN, NULL },
	{ "tls_server_config", "cert", REFUSED, "use cert_file" },
	{ "tls_server_config", "cert_file", CERT, NULL },
	{ "tls_server_config", "cipher_suites", REFUSED, "those of GnuTLS are used" },
	{ "tls_server_config", "client_allowed_sans", REFUSED,
		"certificates of clients are not looked at; " USE_TOKEN },
	{ "tls_server_config", "client_auth_type", ONLY, "NoClientCert" },
	{ "tls_server_config", "client_ca", REFUSED,
		"certificates of clients are not looked at; " USE_TOKEN },
	{ "tls_server_config", "client_ca_file", REFUSED,
		"certificates of clients are not looked at; " USE_TOKEN },
	{ "tls_server_config", "curve_preferences", REFUSED, "those of GnuTLS are used" },
	{ "tls_server_config", "key", REFUSED, "use key_file" },
	{ "tls_server_config", "key_file", KEY, NULL },
	{ "tls_server_config", "max_version", ONLY, "TLS13" },
	/* The server requires TLS 1.2 at least, also if the file asks for less. */
	{ "tls_server_config", "min_version", ONLY, "TLS12 TLS11 TLS10" },
	{ "tls_server_config", "prefer_server_cipher_suites", TAKEN, NULL },
};

struct web_config_reading {
	struct web_config *c;
	const struct yaml_source *src;
	struct error *err;
};

static int set_web_config_error(const struct web_config_reading *r, const struct yaml_node *n,
	const char *key, const char *expected)
{
	char found[YAML_SHOW_MAX];

	return yaml_fail(r->src, n->line, n->column, ERR_INVALID, r->err,
		"%s: expected %s, found %s", key, expected, yaml_show(n, found, sizeof(found)));
}

/* Nothing, "", [], {}. */
static bool is_web_config_empty(const struct yaml_node *n)
{
	if (n->type == YAML_LIST || n->type == YAML_OBJECT)
		return n->n == 0;
	return n->type == YAML_NULL || n->len == 0;
}

static bool has_word(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = words; (at = strstr(at, word)); at++)
		if ((at == words || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
			return true;
	return false;
}

/* Relative to the file's directory, as in exporter-toolkit. */
static int parse_web_config_path(const struct web_config_reading *r, const struct yaml_node *n,
	const char *key, char **ret)
{
	const char *path = r->src->name, *slash = strrchr(path, '/');
	char full[PATH_MAX];
	int len;

	if (n->type == YAML_LIST || n->type == YAML_OBJECT || strlen(n->text) != n->len)
		return set_web_config_error(r, n, key, "a path");
	len = snprintf(full, sizeof(full), "%.*s%s",
		*n->text == '/' || !slash ? 0 : (int)(slash + 1 - path), path, n->text);
	if (len < 0 || (size_t)len >= sizeof(full))
		return set_web_config_error(r, n, key, "a shorter path");
	*ret = strdup(full);
	return *ret ? 0 : error_nomem(r->err);
}

static int parse_web_config_section(const struct web_config_reading *r,
	const struct yaml_node *n, const char *name);

static int parse_web_config_value(const struct web_config_reading *r, const struct yaml_node *n,
	const struct web_config_row *row)
{
	char expected[100];

	if (is_web_config_empty(n))
		return 0;
	switch (row->what) {
	case SECTION:
		return parse_web_config_section(r, n, row->key);
	case CERT:
		return parse_web_config_path(r, n, row->key, &r->c->cert_file);
	case KEY:
		return parse_web_config_path(r, n, row->key, &r->c->key_file);
	case TAKEN:
		return 0;
	case ONLY:
		(void)snprintf(expected, sizeof(expected), "%s or nothing", row->text);
		if (n->type == YAML_LIST || n->type == YAML_OBJECT ||
			!has_word(row->text, n->text))
			return set_web_config_error(r, n, row->key, expected);
		return 0;
	case REFUSED:
		break;
	}
	return yaml_fail(r->src, n->line, n->column, ERR_UNSUPPORTED, r->err, "%s: %s",
		row->key, row->text);
}

static const struct web_config_row *find_web_config_row(const char *section, const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!strcmp(rows[i].section, section) && !strcmp(rows[i].key, key))
			return &rows[i];
	return NULL;
}

static int parse_web_config_section(const struct web_config_reading *r,
	const struct yaml_node *n, const char *name)
{
	if (n->type != YAML_OBJECT)
		return set_web_config_error(r, n, *name ? name : "the file",
			"keys with values");
	for (size_t i = 0; i < n->n; i++) {
		const struct yaml_node *key = n->pairs[i].key;
		const struct web_config_row *row = find_web_config_row(name, key->text);

		if (!row)
			return yaml_fail(r->src, key->line, key->column, ERR_INVALID, r->err,
				"unknown key '%.80s'%s%s", key->text, *name ? " in " : "",
				name);
		if (parse_web_config_value(r, n->pairs[i].value, row) < 0)
			return -1;
	}
	if (!strcmp(name, "tls_server_config") && (!r->c->cert_file || !r->c->key_file))
		return yaml_fail(r->src, n->line, n->column, ERR_INVALID, r->err,
			"tls_server_config: expected cert_file and key_file");
	return 0;
}

int web_config_parse(struct web_config *ret, const char *path, const char *text, size_t len,
	struct error *err)
{
	const struct yaml_source src = { .name = path, .text = text, .len = len };
	CLEANUP(yaml_freep) struct yaml *y = NULL;
	struct web_config c = { .cert_file = NULL };
	const struct web_config_reading r = { .c = &c, .src = &src, .err = err };

	if (yaml_parse(&y, &src, err) < 0)
		return -1;
	if (y->n > 1)
		return yaml_fail(&src, y->docs[1]->line, y->docs[1]->column, ERR_INVALID, err,
			"expected one document, found %zu", y->n);
	if (y->n && !is_web_config_empty(y->docs[0]) &&
		parse_web_config_section(&r, y->docs[0], "") < 0) {
		web_config_fini(&c);
		return -1;
	}
	*ret = c;
	return 0;
}

int web_config_read(struct web_config *ret, const char *path, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(WEB_CONFIG_MAX);

	if (file_read(path, &text, err) < 0)
		return error_prefix(err, "web config file");
	return web_config_parse(ret, path, buf_str(&text), text.len, err);
}

static bool same_path(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

bool web_config_same(const struct web_config *a, const struct web_config *b)
{
	return same_path(a->cert_file, b->cert_file) && same_path(a->key_file, b->key_file);
}

void web_config_fini(struct web_config *c)
{
	free(c->cert_file);
	free(c->key_file);
	*c = (struct web_config){ .cert_file = NULL };
}
