/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kube-api/kubeconfig.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/yaml/yaml.h"
#include "io/kube-api/internal.h"

/*
 * The supported keys below "cluster", "user" and "context", and the keys to refuse: they would change
 * the server or the identity if the reader ignored them. The reader ignores all other keys, as kubectl
 * does.
 */
enum kubeconfig_kind { TEXT, PATH, PEM, FLAG, REFUSED };

static const struct kubeconfig_key {
	const char *in, *name;
	enum kubeconfig_kind kind;
	size_t offset; /* in struct api_config */
} keys[] = {
#define AT(field) offsetof(struct api_config, field)
	{ "cluster", "server", TEXT, AT(server) },
	{ "cluster", "certificate-authority", PATH, AT(ca_file) },
	{ "cluster", "certificate-authority-data", PEM, AT(ca_data) },
	{ "cluster", "insecure-skip-tls-verify", FLAG, AT(insecure) },
	{ "cluster", "tls-server-name", TEXT, AT(tls_server_name) },
	{ "cluster", "proxy-url", REFUSED, 0 },
	{ "user", "client-certificate", PATH, AT(cert_file) },
	{ "user", "client-certificate-data", PEM, AT(cert_data) },
	{ "user", "client-key", PATH, AT(key_file) },
	{ "user", "client-key-data", PEM, AT(key_data) },
	{ "user", "token", TEXT, AT(token) },
	{ "user", "tokenFile", PATH, AT(token_file) },
	{ "user", "exec", REFUSED, 0 },
	{ "user", "auth-provider", REFUSED, 0 },
	{ "user", "username", REFUSED, 0 },
	{ "user", "password", REFUSED, 0 },
	{ "user", "as", REFUSED, 0 },
	{ "user", "as-uid", REFUSED, 0 },
	{ "user", "as-groups", REFUSED, 0 },
	{ "user", "as-user-extra", REFUSED, 0 },
	{ "context", "namespace", TEXT, AT(namespace_) },
#undef AT
};

struct kubeconfig_reader {
	const struct yaml_source *src;
	struct api_config *c;
	struct error *err;
};

#define FAIL(r, at, ...) \
	yaml_fail((r)->src, (at)->line, (at)->column, ERR_INVALID, (r)->err, __VA_ARGS__)

/* --- base64 --- */

static int base64_digit(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *p = c ? strchr(digits, c) : NULL;

	return p ? (int)(p - digits) : -1;
}

char *base64_text(const char *text, size_t len)
{
	CLEANUP(freep) char *ret = malloc(len / 4 * 3 + 4);
	size_t n = 0, digits = 0, padding = 0;
	uint32_t bits = 0;

	if (!ret)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		int digit = base64_digit(text[i]);

		if (text[i] == '\n' || text[i] == '\r')
			continue;
		if (text[i] == '=')
			padding++;
		else if (digit < 0 || padding > 0)
			return NULL;
		bits = bits << 6 | (digit < 0 ? 0 : (uint32_t)digit);
		if (++digits % 4 == 0) {
			ret[n++] = (char)(bits >> 16 & 0xff);
			ret[n++] = (char)(bits >> 8 & 0xff);
			ret[n++] = (char)(bits & 0xff);
		}
	}
	if (digits % 4 != 0 || padding > 2)
		return NULL;
	n -= padding;
	ret[n] = '\0';
	return strlen(ret) == n ? STEAL_PTR(ret) : NULL;
}

/* --- values --- */

static int read_scalar(struct kubeconfig_reader *r, const struct yaml_node *n,
	const struct kubeconfig_key *k, const char **ret)
{
	if (n->type == YAML_LIST || n->type == YAML_OBJECT)
		return FAIL(r, n, "%s: expected a text", k->name);
	*ret = n->type == YAML_NULL ? "" : yaml_as_text(n);
	if (strlen(*ret) != n->len && n->type == YAML_STR)
		return FAIL(r, n, "%s: the text has a NUL in it", k->name);
	return 0;
}

static int read_kubeconfig_flag(struct kubeconfig_reader *r, const struct yaml_node *n,
	const struct kubeconfig_key *k)
{
	bool *field = (bool *)((char *)r->c + k->offset);

	if (n->type == YAML_NULL)
		return 0;
	if (n->type != YAML_BOOL)
		return FAIL(r, n, "%s: expected true or false", k->name);
	*field = n->b;
	return 0;
}

/* A relative path begins at the kubeconfig's directory, as with kubectl. */
static int resolve_kubeconfig_path(struct kubeconfig_reader *r, const struct yaml_node *n,
	const char *text, char **ret)
{
	const char *slash = strrchr(r->src->name, '/');
	char path[PATH_MAX];
	int len = *text == '/' || !slash
			  ? snprintf(path, sizeof(path), "%s", text)
			  : snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - r->src->name),
				    r->src->name, text);

	if (len < 0 || (size_t)len >= sizeof(path))
		return FAIL(r, n, "the path is too long");
	*ret = strdup(path);
	return *ret ? 0 : error_nomem(r->err);
}

/* Messages never show values: most are secrets. */
static int read_kubeconfig_value(struct kubeconfig_reader *r, const struct yaml_node *n,
	const struct kubeconfig_key *k)
{
	char **field = (char **)((char *)r->c + k->offset);
	const char *text = "";

	if (k->kind == REFUSED)
		return FAIL(r, n,
			"%s: not supported; expected a token or a client certificate%s",
			k->name,
			strcmp(k->name, "proxy-url") == 0 ? ", and a server reached directly"
							  : "");
	if (k->kind == FLAG)
		return read_kubeconfig_flag(r, n, k);
	if (read_scalar(r, n, k, &text) < 0)
		return -1;
	if (!*text)
		return 0;
	if (k->kind == PATH)
		return resolve_kubeconfig_path(r, n, text, field);
	*field = k->kind == PEM ? base64_text(text, strlen(text)) : strdup(text);
	if (k->kind == PEM && (!*field || !strstr(*field, "-----BEGIN ")))
		return FAIL(r, n, "%s: expected PEM in base64", k->name);
	return *field ? 0 : error_nomem(r->err);
}

static bool is_empty_node(const struct yaml_node *n)
{
	return n->type == YAML_NULL || (n->type == YAML_STR && n->len == 0) ||
	       ((n->type == YAML_LIST || n->type == YAML_OBJECT) && n->n == 0);
}

static int read_kubeconfig_entry(struct kubeconfig_reader *r, const struct yaml_node *entry,
	const char *in)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct yaml_node *n;

		if (strcmp(keys[i].in, in) != 0)
			continue;
		n = yaml_get(entry, keys[i].name, false);
		if (n && !is_empty_node(n) && read_kubeconfig_value(r, n, &keys[i]) < 0)
			return -1;
	}
	return 0;
}

/* --- the file --- */

static const char *get_kubeconfig_text(const struct yaml_node *object, const char *key)
{
	const struct yaml_node *n =
		object && object->type == YAML_OBJECT ? yaml_get(object, key, false) : NULL;

	return n && n->type != YAML_LIST && n->type != YAML_OBJECT && n->type != YAML_NULL
		       ? yaml_as_text(n)
		       : NULL;
}

/* The object @key of the element named @name in the list @list; the first of two, as with kubectl.
 * NULL: there is none, and the error is set. */
static const struct yaml_node *find_named_object(struct kubeconfig_reader *r,
	const struct yaml_node *doc, const char *list, const char *key, const char *name)
{
	const struct yaml_node *l = yaml_get(doc, list, false), *n;
	char shown[API_SHOWN_MAX];

	(void)api_shown(shown, name);
	if (l && l->type != YAML_LIST && l->type != YAML_NULL) {
		(void)FAIL(r, l, "%s: expected a list", list);
		return NULL;
	}
	for (size_t i = 0; l && i < l->n; i++) {
		const char *found = get_kubeconfig_text(l->items[i], "name");

		if (!found || strcmp(found, name) != 0)
			continue;
		n = yaml_get(l->items[i], key, false);
		if (n && n->type == YAML_OBJECT)
			return n;
		(void)FAIL(r, l->items[i], "%s '%s': expected an object '%s'", list, shown,
			key);
		return NULL;
	}
	(void)FAIL(r, doc, "%s: there is none called '%s'", list, shown);
	return NULL;
}

static int read_user(struct kubeconfig_reader *r, const struct yaml_node *doc, const char *name)
{
	const struct yaml_node *user;

	if (!name || !*name)
		return 0;
	user = find_named_object(r, doc, "users", "user", name);
	return user ? read_kubeconfig_entry(r, user, "user") : -1;
}

static int read_context(struct kubeconfig_reader *r, const struct yaml_node *doc)
{
	const char *name = get_kubeconfig_text(doc, "current-context"), *cluster_name;
	const struct yaml_node *context, *cluster;
	char shown[API_SHOWN_MAX];

	if (!name || !*name)
		return FAIL(r, doc,
			"current-context: expected the name of a context, found none");
	context = find_named_object(r, doc, "contexts", "context", name);
	if (!context)
		return -1;
	cluster_name = get_kubeconfig_text(context, "cluster");
	if (!cluster_name || !*cluster_name)
		return FAIL(r, context, "contexts '%s': it names no cluster",
			api_shown(shown, name));
	cluster = find_named_object(r, doc, "clusters", "cluster", cluster_name);
	if (!cluster || read_kubeconfig_entry(r, context, "context") < 0 ||
		read_kubeconfig_entry(r, cluster, "cluster") < 0)
		return -1;
	if (!r->c->server)
		return FAIL(r, cluster, "clusters '%s': it has no server",
			api_shown(shown, cluster_name));
	return read_user(r, doc, get_kubeconfig_text(context, "user"));
}

/* The only document that is a kubeconfig; the file may have others. NULL: the error is set. */
static const struct yaml_node *find_document(struct kubeconfig_reader *r, const struct yaml *y)
{
	const struct yaml_node *found = NULL;

	for (size_t i = 0; i < y->n; i++) {
		const char *kind = get_kubeconfig_text(y->docs[i], "kind");

		if (y->docs[i]->type != YAML_OBJECT ||
			(kind && *kind && strcmp(kind, "Config") != 0))
			continue;
		if (found) {
			(void)FAIL(r, y->docs[i], "a second kubeconfig in one file");
			return NULL;
		}
		found = y->docs[i];
	}
	if (!found)
		(void)error_set(r->err, ERR_INVALID,
			"%s: expected a kubeconfig (kind: Config), found none", r->src->name);
	return found;
}

/* Data has precedence over a file, as in kubectl. The rest of the program then sees the data only. */
static void prefer_data(char **file, char *const *data)
{
	if (*data) {
		free(*file);
		*file = NULL;
	}
}

static int read_kubeconfig(struct kubeconfig_reader *r)
{
	CLEANUP(yaml_freep) struct yaml *y = NULL;
	const struct yaml_node *doc;
	char *server;

	r->c->source = strdup(r->src->name);
	if (!r->c->source)
		return error_nomem(r->err);
	if (yaml_parse(&y, r->src, r->err) < 0)
		return -1;
	doc = find_document(r, y);
	if (!doc || read_context(r, doc) < 0)
		return -1;
	prefer_data(&r->c->ca_file, &r->c->ca_data);
	prefer_data(&r->c->cert_file, &r->c->cert_data);
	prefer_data(&r->c->key_file, &r->c->key_data);
	/* "https://host/" with the path of a request would give "//". */
	server = r->c->server;
	for (size_t n = strlen(server); n > 0 && server[n - 1] == '/'; n--)
		server[n - 1] = '\0';
	return api_config_check(r->c, r->err);
}

int kubeconfig_parse(struct api_config *ret, const char *path, const char *text, size_t len,
	struct error *err)
{
	struct yaml_source src = { .name = path, .text = text, .len = len };
	struct api_config c = { .server = NULL };
	struct kubeconfig_reader r = { .src = &src, .c = &c, .err = err };

	if (read_kubeconfig(&r) < 0) {
		api_config_fini(&c);
		return -1;
	}
	*ret = c;
	return 0;
}

int api_config_kubeconfig(struct api_config *ret, const char *path, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KUBECONFIG_MAX);

	if (file_read(path, &b, err) < 0)
		return -1;
	return kubeconfig_parse(ret, path, buf_str(&b), b.len, err);
}
