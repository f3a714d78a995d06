/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/time.h"
#include "lib/base/backoff.h"
#include "io/kube-api/internal.h"
#include "io/kube-api/kubeconfig.h"
#include "io/kube-api/stream.h"

/* "-----BEGIN X-----\n" */
#define PEM_TEXT   "-----BEGIN X-----\n"
#define PEM_BASE64 "LS0tLS1CRUdJTiBYLS0tLS0K"

/* --- in a pod --- */

static const char *env_host, *env_port, *env_port_https;

static const char *get_api_env(const char *name)
{
	if (!strcmp(name, "KUBERNETES_SERVICE_HOST"))
		return env_host;
	if (!strcmp(name, "KUBERNETES_SERVICE_PORT"))
		return env_port;
	return !strcmp(name, "KUBERNETES_SERVICE_PORT_HTTPS") ? env_port_https : NULL;
}

static void write_api_file(const char *dir, const char *name, const char *text)
{
	test_write(dir, name, text, strlen(text), 0600);
}

static void api_config_in_cluster__reads_all(void **state)
{
	static const struct {
		const char *host, *port, *https, *server;
	} rows[] = {
		{ "10.0.0.1", "443", NULL, "https://10.0.0.1:443" },
		{ "10.0.0.1", NULL, "6443", "https://10.0.0.1:6443" },
		{ "fd00::1", "443", "1", "https://[fd00::1]:443" },
		{ "[fd00::1]", "443", NULL, "https://[fd00::1]:443" },
		{ "kubernetes.default", "65535", NULL, "https://kubernetes.default:65535" },
	};
	char *dir = test_tmpdir();
	struct error err = ERROR_INIT;
	struct api_config c;

	(void)state;
	write_api_file(dir, "token", "abc\n");
	write_api_file(dir, "namespace", "gpu-system\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		env_host = rows[i].host;
		env_port = rows[i].port;
		env_port_https = rows[i].https;
		assert_ok(api_config_in_cluster(&c, dir, get_api_env, &err), &err);
		assert_string_equal(c.server, rows[i].server);
		assert_string_equal(c.namespace_, "gpu-system");
		assert_string_equal(strrchr(c.token_file, '/'), "/token");
		assert_string_equal(strrchr(c.ca_file, '/'), "/ca.crt");
		assert_string_equal(c.source, "in-cluster");
		assert_null(c.token); /* the client reads the file again for ever */
		assert_false(c.insecure);
		api_config_fini(&c);
	}
	test_rmdir(dir);
}

static void api_config_in_cluster__refuses(void **state)
{
	static const struct {
		const char *host, *port, *token, *ns, *text;
		enum error_code code;
	} rows[] = {
		{ NULL, "443", "a", NULL, "this is no pod", ERR_NOT_FOUND },
		{ "10.0.0.1", NULL, "a", NULL, "this is no pod", ERR_NOT_FOUND },
		{ "", "", "a", NULL, "this is no pod", ERR_NOT_FOUND },
		{ "10.0.0.1", "0", "a", NULL, "expected a server", ERR_INVALID },
		{ "10.0.0.1", "65536", "a", NULL, "expected a server", ERR_INVALID },
		{ "10.0.0.1", "443/x", "a", NULL, "expected a server", ERR_INVALID },
		{ "h/x", "443", "a", NULL, "expected a server", ERR_INVALID },
		{ "u@h", "443", "a", NULL, "expected a server", ERR_INVALID },
		{ "h\r\nX", "443", "a", NULL, "expected a server", ERR_INVALID },
		{ "10.0.0.1", "443", "a b", NULL, "expected a token", ERR_INVALID },
		{ "10.0.0.1", "443", NULL, NULL, "automountServiceAccountToken", ERR_INVALID },
		{ "10.0.0.1", "443", "a", "../x", "namespace", ERR_INVALID },
		{ "10.0.0.1", "443", "a", "", "namespace", ERR_INVALID },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *dir = test_tmpdir();
		struct error err = ERROR_INIT;
		struct api_config c;

		env_host = rows[i].host;
		env_port = rows[i].port;
		env_port_https = NULL;
		if (rows[i].token)
			write_api_file(dir, "token", rows[i].token);
		if (rows[i].ns)
			write_api_file(dir, "namespace", rows[i].ns);
		assert_error(api_config_in_cluster(&c, dir, get_api_env, &err), &err,
			rows[i].text);
		assert_int_equal(err.code, rows[i].code);
		assert_int_equal(api_config_in_cluster(&c, dir, get_api_env, NULL), -1);
		test_rmdir(dir);
	}
}

/* --- kubeconfig --- */

#define USERS(user)       "users: [{name: other, user: {token: no}}, {name: u, user: {" user "}}]\n"
#define CLUSTERS(cluster) "clusters: [{name: c, cluster: {" cluster "}}]\n"
#define CONTEXTS                                                         \
	"contexts: [{name: x, context: {cluster: nope}},"                \
	" {name: ctx, context: {cluster: c, user: u, namespace: ns}}]\n" \
	"current-context: ctx\n"
#define KUBECONFIG(cluster, user) \
	"apiVersion: v1\nkind: Config\n" CLUSTERS(cluster) USERS(user) CONTEXTS
#define SERVER "server: 'https://h:6443'"

static int parse_kubeconfig(struct api_config *ret, const char *text, struct error *err)
{
	return kubeconfig_parse(ret, "dir/k.yaml", text, strlen(text), err);
}

static void kubeconfig__reads(void **state)
{
	static const struct {
		const char *text;
		struct api_config expected; /* NULL: not checked but for the secrets */
	} rows[] = {
#define CONST(s) (char *)(uintptr_t)(s)
		{ KUBECONFIG(SERVER, "token: abc"), { .token = CONST("abc") } },
		{ KUBECONFIG(SERVER, "token: 12345"), { .token = CONST("12345") } },
		{ KUBECONFIG("server: 'https://h:6443/', certificate-authority: ca.pem",
			  "tokenFile: /t"),
			{ .ca_file = CONST("dir/ca.pem"), .token_file = CONST("/t") } },
		{ KUBECONFIG(SERVER
			  ", certificate-authority: a, certificate-authority-data: " PEM_BASE64,
			  "client-certificate: c.pem, client-key-data: " PEM_BASE64),
			{ .ca_data = CONST(PEM_TEXT),
				.cert_file = CONST("dir/c.pem"),
				.key_data = CONST(PEM_TEXT) } },
		{ KUBECONFIG(SERVER ", insecure-skip-tls-verify: true, tls-server-name: k.svc",
			  "client-certificate-data: " PEM_BASE64 ", client-key: k.pem"),
			{ .insecure = true,
				.tls_server_name = CONST("k.svc"),
				.cert_data = CONST(PEM_TEXT),
				.key_file = CONST("dir/k.pem") } },
		{ KUBECONFIG(SERVER ", extensions: [1], proxy-url: ''",
			  "exec: null, token: '', as-groups: [], future: 1"),
			{ .token = NULL } },
		/* kubectl's config in JSON, and with other documents around it. */
		{ "{\"kind\":\"Config\",\"current-context\":\"ctx\",\"clusters\":[{\"name\":\"c\",\"cluster\":"
		  "{\"server\":\"https://h:6443\"}}],\"users\":[{\"name\":\"u\",\"user\":{\"token\":\"j\"}}],"
		  "\"contexts\":[{\"name\":\"ctx\",\"context\":{\"cluster\":\"c\",\"user\":\"u\","
		  "\"namespace\":\"ns\"}}]}",
			{ .token = CONST("j") } },
		{ "kind: Secret\ntoken: no\n---\n" KUBECONFIG(SERVER,
			  "token: abc") "---\n- 1\n",
			{ .token = CONST("abc") } },
#undef CONST
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct api_config *x = &rows[i].expected;
		struct error err = ERROR_INIT;
		struct api_config c;

		assert_ok(parse_kubeconfig(&c, rows[i].text, &err), &err);
		assert_string_equal(c.server, "https://h:6443");
		assert_string_equal(c.namespace_, "ns");
		assert_string_equal(c.source, "dir/k.yaml");
		assert_int_equal(c.insecure, x->insecure);
#define SAME(field) assert_string_equal(c.field ? c.field : "-", x->field ? x->field : "-")
		SAME(token);
		SAME(token_file);
		SAME(ca_file);
		SAME(ca_data);
		SAME(cert_file);
		SAME(cert_data);
		SAME(key_file);
		SAME(key_data);
		SAME(tls_server_name);
#undef SAME
		api_config_fini(&c);
		assert_null(c.server);
	}
}

static void kubeconfig__refuses(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", "expected a kubeconfig" },
		{ "kind: Pod\n", "expected a kubeconfig" },
		{ "{", "k.yaml:" },
		{ KUBECONFIG(SERVER, "token: a") "---\n" KUBECONFIG(SERVER, "token: a"),
			"second kubeconfig" },
		{ "kind: Config\n", "dir/k.yaml:1:1: current-context: expected the name" },
		{ "current-context: x\n", "contexts: there is none called 'x'" },
		{ "current-context: ctx\ncontexts: 3\n",
			"dir/k.yaml:2:11: contexts: expected a list" },
		{ "current-context: ctx\ncontexts: [{name: ctx}]\n",
			"dir/k.yaml:2:12: contexts 'ctx': expected an object 'context'" },
		{ "current-context: ctx\ncontexts: [{name: ctx, context: {user: u}}]\n",
			"it names no cluster" },
		{ CLUSTERS(SERVER) CONTEXTS, "users: there is none called 'u'" },
		{ KUBECONFIG("x: y", "token: a"), "clusters 'c': it has no server" },
		{ KUBECONFIG(SERVER, "exec: {command: aws}"), "exec: not supported" },
		{ KUBECONFIG(SERVER, "auth-provider: {name: gcp}"),
			"auth-provider: not supported" },
		{ KUBECONFIG(SERVER ", proxy-url: 'http://p'", "token: a"),
			"proxy-url: not supported" },
		{ KUBECONFIG(SERVER, "username: admin"), "username: not supported" },
		{ KUBECONFIG(SERVER, "password: geheim"), "password: not supported" },
		{ KUBECONFIG(SERVER, "token: a, as: root"), "as: not supported" },
		{ KUBECONFIG(SERVER, "token: [geheim]"), "token: expected a text" },
		{ KUBECONFIG(SERVER, "token: 'geheim x'"), "expected a token" },
		{ KUBECONFIG(SERVER, "token: \"geheim\\r\\nX: y\""), "expected a token" },
		{ KUBECONFIG(SERVER, "token: \"geheim\\0\""), "NUL" },
		{ KUBECONFIG(SERVER ", insecure-skip-tls-verify: maybe", "token: a"),
			"expected true or false" },
		{ KUBECONFIG(SERVER
			  ", insecure-skip-tls-verify: true, certificate-authority: x",
			  "token: a"),
			"a CA makes no sense" },
		{ KUBECONFIG(SERVER ", certificate-authority-data: geheim", "token: a"),
			"certificate-authority-data: expected PEM in base64" },
		{ KUBECONFIG(SERVER ", certificate-authority-data: YWJj", "token: a"),
			"expected PEM in base64" },
		{ KUBECONFIG(SERVER, "client-certificate: x"), "given together" },
		{ KUBECONFIG(SERVER ", tls-server-name: 'a b'", "token: a"),
			"expected a TLS server name" },
		{ KUBECONFIG("server: 'ftp://h'", "token: a"), "expected a server" },
		{ KUBECONFIG("server: h", "token: a"), "expected a server" },
		{ KUBECONFIG("server: 'https://'", "token: a"), "expected a server" },
		{ KUBECONFIG("server: 'https:///'", "token: a"), "expected a server" },
		{ KUBECONFIG("server: 'https://u:geheim@h'", "token: a"), "expected a server" },
		{ KUBECONFIG("server: 'https://[::1'", "token: a"), "expected a server" },
		{ KUBECONFIG("server: 'https://h:x'", "token: a"), "expected a server" },
		{ KUBECONFIG("server: 'https://h/a?b'", "token: a"), "do not belong" },
		{ KUBECONFIG("server: 'http://h'", "token: geheim"), "clear text" },
		{ "current-context: \"a\\nb\"\n", "there is none called 'a?b'" },
		{ KUBECONFIG("server: \"https://h\\n\"", "token: a"), "expected a server" },
		{ KUBECONFIG("server: 'http://127.evil'", "token: geheim"), "clear text" },
		{ KUBECONFIG("server: 'http://127.0.0.1.evil'", "token: geheim"),
			"clear text" },
		{ KUBECONFIG("server: 'http://localhost.evil'", "token: geheim"),
			"clear text" },
		{ KUBECONFIG("server: 'http://127.0.0.1', tls-server-name: a", "token: a"),
			"makes no sense" },
		{ CLUSTERS(
			  SERVER) "users: [{name: u, user: {}}]\n"
				  "contexts: [{name: x, context: {cluster: c, user: u, namespace: ../x}}]\n"
				  "current-context: x\n",
			"expected a namespace" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;
		struct api_config c = { .server = NULL };

		assert_error(parse_kubeconfig(&c, rows[i].text, &err), &err, rows[i].says);
		assert_int_equal(err.code, ERR_INVALID);
		assert_null(c.server);
		assert_null(strstr(err.msg, "geheim"));
		assert_null(strchr(err.msg, '\n'));
	}
}

static void kubeconfig__file(void **state)
{
	char *dir = test_tmpdir(), path[512];
	struct error err = ERROR_INIT;
	struct api_config c;

	(void)state;
	write_api_file(dir, "k",
		KUBECONFIG("server: 'http://[::1]:80/k8s/c-1'", "tokenFile: t"));
	(void)snprintf(path, sizeof(path), "%s/k", dir);
	assert_ok(api_config_kubeconfig(&c, path, &err), &err);
	assert_string_equal(c.server, "http://[::1]:80/k8s/c-1");
	assert_int_equal(strncmp(c.token_file, dir, strlen(dir)), 0);
	api_config_fini(&c);
	(void)snprintf(path, sizeof(path), "%s/none", dir);
	assert_error(api_config_kubeconfig(&c, path, &err), &err, "/none");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	test_rmdir(dir);
}

static void base64__reads(void **state)
{
	static const struct {
		const char *text, *bytes; /* NULL: refused */
	} rows[] = {
		{ "", "" }, { "YQ==", "a" }, { "YWI=", "ab" }, { "YWJj", "abc" },
		{ "YW\nJj\r\nZA==\n", "abcd" }, { "+/+/", "\xfb\xff\xbf" }, { "YQ=", NULL },
		{ "YQ", NULL }, { "Y===", NULL }, { "====", NULL }, { "YQ==YQ==", NULL },
		{ "Y Q=", NULL }, { "YQ-_", NULL }, { "YQAA", NULL }, /* a NUL in it */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *found = base64_text(rows[i].text, strlen(rows[i].text));

		assert_string_equal(found ? found : "refused",
			rows[i].bytes ? rows[i].bytes : "refused");
		free(found);
	}
}

/* --- small parts --- */

static void backoff_next__stays_in_bounds(void **state)
{
	struct backoff b = BACKOFF_API;
	uint64_t full = b.min_ns;

	(void)state;
	for (int i = 0; i < 100; i++) {
		struct backoff low = b, high = b;
		/* The least and the most that any random number gives. */
		uint64_t max = backoff_next(&high, 0, 0);
		uint64_t min = backoff_next(&low, 0, full / 2);

		assert_int_equal(max, full);
		assert_int_equal(min, full - full / 2);
		for (uint64_t r = 0; r < 50; r++) {
			struct backoff any = b;

			assert_in_range(backoff_next(&any, 0, r * 0x9e3779b97f4a7c15U), min,
				max);
		}
		(void)backoff_next(&b, 0, 1);
		full = full * 2 > b.max_ns ? b.max_ns : full * 2;
	}
	assert_int_equal(full, 30 * NS_PER_SEC);
	assert_int_equal(backoff_next(&b, 100 * NS_PER_SEC, 0), 100 * NS_PER_SEC);
	assert_int_equal(backoff_next(&b, 100 * NS_PER_SEC, 25 * NS_PER_SEC), 125 * NS_PER_SEC);
	for (uint64_t r = 0; r < 50; r++)
		assert_in_range(backoff_next(&b, 100 * NS_PER_SEC, r * 0x9e3779b97f4a7c15U),
			100 * NS_PER_SEC, 125 * NS_PER_SEC);
	b.failures = UINT32_MAX;
	assert_int_equal(backoff_next(&b, 0, 0), 30 * NS_PER_SEC);
	assert_int_equal(b.failures, UINT32_MAX);
	backoff_reset(&b);
	assert_int_equal(backoff_next(&b, 0, 0), NS_PER_SEC / 2);
	b = (struct backoff){ .min_ns = UINT64_MAX / 2 + 9,
		.max_ns = UINT64_MAX,
		.failures = 5 };
	assert_int_equal(backoff_next(&b, 0, 0), UINT64_MAX);
	b = (struct backoff){ .min_ns = 9, .max_ns = 3 };
	assert_int_equal(backoff_next(&b, 0, 0), 3);
}

static void api_escape__leaves_unreserved(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(256);

	(void)state;
	api_escape(&b, "aZ09-._~ /?&=%+\n\xc3\xa4");
	assert_string_equal(buf_str(&b), "aZ09-._~%20%2F%3F%26%3D%25%2B%0A%C3%A4");
}

static void stream_next__splits_lines(void **state)
{
	static const char text[] = "\n\r\none\r\ntwo\n\nthree\nrest";
	struct error err = ERROR_INIT;
	const char *line;
	size_t len;

	(void)state;
	for (size_t cut = 0; cut < sizeof(text); cut++) {
		struct api_stream s = STREAM_INIT(5);
		char all[64] = "";

		for (int part = 0; part < 2; part++) {
			buf_add(&s.bytes, text + (part ? cut : 0),
				part ? sizeof(text) - 1 - cut : cut);
			while (stream_next(&s, &line, &len, &err) == STREAM_LINE) {
				assert_int_equal(strlen(line), len);
				(void)snprintf(all + strlen(all), sizeof(all) - strlen(all),
					"%s|", line);
			}
		}
		assert_string_equal(all, "one|two|three|");
		assert_true(stream_is_inside(&s));
		assert_int_equal(s.bytes.len, 4); /* parsed values are not kept */
		buf_add(&s.bytes, "xx", 2);
		assert_error(stream_next(&s, &line, &len, &err), &err, "longer than 5 bytes");
		api_stream_fini(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_config_in_cluster__reads_all),
		cmocka_unit_test(api_config_in_cluster__refuses),
		cmocka_unit_test(kubeconfig__reads),
		cmocka_unit_test(kubeconfig__refuses),
		cmocka_unit_test(kubeconfig__file),
		cmocka_unit_test(base64__reads),
		cmocka_unit_test(backoff_next__stays_in_bounds),
		cmocka_unit_test(api_escape__leaves_unreserved),
		cmocka_unit_test(stream_next__splits_lines),
	};

	return cmocka_run_group_tests_name("api-config", tests, NULL, NULL);
}
