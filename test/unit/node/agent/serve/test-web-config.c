/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "node/agent/serve/web-config.h"

#include <limits.h>

static int parse_web_config(struct web_config *ret, const char *text, struct error *err)
{
	return web_config_parse(ret, "/etc/web/config.yml", text, strlen(text), err);
}

static void web_config_parse__accepts_certificate_and_key(void **state)
{
	static const char *const none[] = {
		"", "# nothing\n", "{}", "tls_server_config:\n",
		"tls_server_config: {}\nbasic_auth_users: {}\nhttp_server_config: {http2: true}\n"
	};
	static const char full[] = "tls_server_config:\n"
				   "  cert_file: tls.crt\n"
				   "  key_file: /keys/tls.key\n"
				   "  client_auth_type: \"NoClientCert\"\n"
				   "  client_ca_file: \"\"\n"
				   "  min_version: TLS12\n"
				   "  max_version: TLS13\n"
				   "  cipher_suites: []\n"
				   "  prefer_server_cipher_suites: true\n"
				   "http_server_config:\n"
				   "  http2: false\n";
	struct web_config c;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(parse_web_config(&c, full, &err), &err);
	assert_string_equal(c.cert_file, "/etc/web/tls.crt");
	assert_string_equal(c.key_file, "/keys/tls.key");
	web_config_fini(&c);
	assert_ok(web_config_parse(&c, "config.yml", full, strlen(full), &err), &err);
	assert_string_equal(c.cert_file, "tls.crt");
	web_config_fini(&c);
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		assert_ok(parse_web_config(&c, none[i], &err), &err);
		assert_null(c.cert_file);
		assert_null(c.key_file);
	}
}

/* No client gets in that the file would keep out. */
static void web_config_parse__refuses_unsupported_settings(void **state)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{ "basic_auth_users:\n  me: $2y$10$abc\n",
			"config.yml:2:3: basic_auth_users: users with passwords are not known here; "
			"use --metrics-token-file" },
		{ "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_auth_type: "
		  "RequireAndVerifyClientCert\n",
			"config.yml:4:21: client_auth_type: expected NoClientCert or nothing" },
		{ "tls_server_config:\n  client_ca_file: ca.pem\n",
			"config.yml:2:19: client_ca_file: certificates of clients are not looked at" },
		{ "tls_server_config: {min_version: TLS13, cert_file: a, key_file: b}\n",
			"min_version: expected TLS12 TLS11 TLS10 or nothing, found \"TLS13\"" },
		{ "tls_server_config: {min_version: TLS, cert_file: a, key_file: b}\n",
			"min_version: expected" },
		{ "tls_server_config: {max_version: TLS12}\n", "max_version: expected TLS13" },
		{ "tls_server_config: {cipher_suites: [A]}\n",
			"cipher_suites: those of GnuTLS" },
		{ "tls_server_config:\n  cert_file: a\n",
			"config.yml:2:3: tls_server_config: expected cert_file and key_file" },
		{ "tls_server_config: {min_version: TLS12}\n",
			"expected cert_file and key_file" },
		{ "tls_server_config: {cert_file: [a]}\n", "cert_file: expected a path" },
		{ "tls_server_config: {cert: a}\n", "cert: use cert_file" },
		{ "tls_server_config: x\n", "tls_server_config: expected keys with values" },
		{ "tls_server_config: {cret_file: a}\n",
			"config.yml:1:21: unknown key 'cret_file' in tls_server_config" },
		{ "cert_file: a\n", "config.yml:1:1: unknown key 'cert_file'" },
		{ "http_server_config: {headers: {X-A: b}}\n",
			"headers: no headers are added" },
		{ "rate_limit: {burst: 5}\n", "rate_limit: the server has limits of its own" },
		{ "a\n", "the file: expected keys with values" },
		{ "{}\n---\nb: c\n", "expected one document" },
		{ "a: [", "config.yml:2:1: expected YAML" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct web_config c = { .cert_file = NULL };
		struct error err = ERROR_INIT;

		assert_error(parse_web_config(&c, rows[i].text, &err), &err, rows[i].message);
		assert_null(c.cert_file);
	}
}

static void web_config_parse__refuses_invalid_paths(void **state)
{
	static const char head[] = "tls_server_config: {key_file: k, cert_file: ";
	static const struct {
		size_t len; /* of a path of x; 0: one with a NUL */
		const char *message;
	} rows[] = {
		{ 0, "found a NUL character" },
		{ 5000, "cert_file: expected a shorter path" },
		/* The path is too long with the directory of the file before it. */
		{ PATH_MAX - sizeof("/etc/web/") + 1, "cert_file: expected a shorter path" },
	};
	static char text[8192];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct web_config c = { .cert_file = NULL };
		struct error err = ERROR_INIT;
		size_t len = sizeof(head) - 1;

		memcpy(text, head, len);
		memset(text + len, 'x', rows[i].len);
		(void)snprintf(text + len + rows[i].len, 32, "%s}\n",
			rows[i].len ? "" : "\"a\\0b\"");
		assert_error(parse_web_config(&c, text, &err), &err, rows[i].message);
		assert_null(
			c.key_file); /* values that were parsed before the error are freed */
	}
}

static void web_config_read__names_the_unreadable_file(void **state)
{
	char *dir = test_tmpdir(), path[PATH_MAX];
	char *large = calloc(1, WEB_CONFIG_MAX + 2);
	struct web_config c = { .cert_file = NULL };
	struct error err = ERROR_INIT;

	(void)state;
	assert_non_null(large);
	(void)snprintf(path, sizeof(path), "%s/web.yml", dir);
	assert_error(web_config_read(&c, path, &err), &err, "web config file: open '");
	memset(large, '\n', WEB_CONFIG_MAX + 1);
	test_write(dir, "web.yml", large, WEB_CONFIG_MAX + 1, 0600);
	assert_error(web_config_read(&c, path, &err), &err, "web config file");
	assert_int_equal(err.code, ERR_LIMIT);
	test_write(dir, "web.yml", large, 100, 0600);
	assert_ok(web_config_read(&c, path, &err), &err);
	assert_null(c.cert_file);
	free(large);
	test_rmdir(dir);
}

static void web_config_same__compares_both_paths(void **state)
{
	static const struct {
		const char *a[2], *b[2];
		bool same;
	} rows[] = {
		{ { NULL, NULL }, { NULL, NULL }, true },
		{ { "c", "k" }, { "c", "k" }, true },
		{ { "c", "k" }, { NULL, NULL }, false },
		{ { NULL, NULL }, { "c", "k" }, false },
		{ { "c", "k" }, { "d", "k" }, false },
		{ { "c", "k" }, { "c", "l" }, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct web_config a = { .cert_file = (char *)(uintptr_t)rows[i].a[0],
			.key_file = (char *)(uintptr_t)rows[i].a[1] };
		const struct web_config b = { .cert_file = (char *)(uintptr_t)rows[i].b[0],
			.key_file = (char *)(uintptr_t)rows[i].b[1] };

		assert_int_equal(web_config_same(&a, &b), rows[i].same);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(web_config_parse__accepts_certificate_and_key),
		cmocka_unit_test(web_config_parse__refuses_unsupported_settings),
		cmocka_unit_test(web_config_parse__refuses_invalid_paths),
		cmocka_unit_test(web_config_read__names_the_unreadable_file),
		cmocka_unit_test(web_config_same__compares_both_paths),
	};

	return cmocka_run_group_tests_name("web-config", tests, NULL, NULL);
}
