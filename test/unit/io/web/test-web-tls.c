/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/web/web-env.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/time.h"

/* The server against openssl(1), which makes the certificates too. Skipped where there is none. */

/* Standard output goes to the file `out` in e->dir. Returns the exit status. */
static int run_tool(const struct web_env *e, const char *const *argv)
{
	posix_spawn_file_actions_t fds;
	int status = -1, r;
	pid_t pid = -1;

	assert_int_equal(posix_spawn_file_actions_init(&fds), 0);
	assert_int_equal(posix_spawn_file_actions_addchdir_np(&fds, e->dir), 0);
	assert_int_equal(
		posix_spawn_file_actions_addopen(&fds, 0, "request", O_RDONLY | O_CREAT, 0600),
		0);
	assert_int_equal(posix_spawn_file_actions_addopen(&fds, 1, "out",
				 O_WRONLY | O_CREAT | O_TRUNC, 0600),
		0);
	assert_int_equal(posix_spawn_file_actions_addopen(&fds, 2, "/dev/null", O_WRONLY, 0),
		0);
	r = posix_spawnp(&pid, argv[0], &fds, NULL, (char *const *)(uintptr_t)argv, environ);
	(void)posix_spawn_file_actions_destroy(&fds);
	while (r == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

#define OPENSSL(e, ...) run_tool(e, (const char *const[]){ "openssl", __VA_ARGS__, NULL })

/* NAME.crt and NAME.key, for the host name NAME. */
static void make_certificate(const struct web_env *e, const char *name)
{
	char cert[32], key[32], subject[32];

	(void)snprintf(cert, sizeof(cert), "%s.crt", name);
	(void)snprintf(key, sizeof(key), "%s.key", name);
	(void)snprintf(subject, sizeof(subject), "/CN=%s", name);
	assert_int_equal(OPENSSL(e, "req", "-x509", "-newkey", "ec", "-pkeyopt",
				 "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
				 "-subj", subject, "-keyout", key, "-out", cert),
		0);
}

/* What stands at once under another name, as a kubelet does it. */
static void replace_tls_file(const struct web_env *e, const char *from, const char *to)
{
	char old[512], new[512];
	struct error err = ERROR_INIT;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);

	(void)snprintf(old, sizeof(old), "%s/%s", e->dir, from);
	(void)snprintf(new, sizeof(new), "%s/%s", e->dir, to);
	assert_ok(file_read(old, &b, &err), &err);
	assert_ok(file_write_atomic(new, b.data, b.len, 0600, &err), &err);
}

/* GET /metrics by TLS; the output of openssl, and the answer. 0: success. */
static int get_metrics_by_tls(struct web_env *e, const char *version, const char *authority,
	struct buf *b)
{
	char to[32], out[512];
	struct error err = ERROR_INIT;
	int r;

	free(web_env_file(e, "request", GET("/metrics")));
	(void)snprintf(to, sizeof(to), "127.0.0.1:%u", web_port(e->web));
	r = OPENSSL(e, "s_client", "-connect", to, version, "-CAfile", authority,
		"-verify_return_error", "-ign_eof", "-cipher", "ALL:@SECLEVEL=0");
	(void)snprintf(out, sizeof(out), "%s/out", e->dir);
	buf_clear(b);
	assert_ok(file_read(out, b, &err), &err);
	return r == 0 && strstr(buf_str(b), "gpus 8\n") ? 0 : -1;
}

static int setup(void **state)
{
	struct web_env *e = malloc(sizeof(*e));

	assert_non_null(e);
	web_env_init(e);
	*state = e;
	if (OPENSSL(e, "version") != 0)
		return 0;
	make_certificate(e, "one");
	make_certificate(e, "two");
	replace_tls_file(e, "one.crt", "tls.crt");
	replace_tls_file(e, "one.key", "tls.key");
	return 0;
}

static void start_tls_server(struct web_env *e, char **cert, char **key)
{
	assert_true(asprintf(cert, "%s/tls.crt", e->dir) > 0);
	assert_true(asprintf(key, "%s/tls.key", e->dir) > 0);
	e->options.cert_file = *cert;
	e->options.key_file = *key;
	web_env_start(e);
}

static int teardown(void **state)
{
	struct web_env *e = *state;

	web_env_fini(e);
	free(e);
	return 0;
}

#define NEED_OPENSSL(e) SKIP_UNLESS(OPENSSL(e, "version") == 0, "there is no openssl")

static void web_tls__serves_tls_1_2_and_later_only(void **state)
{
	struct web_env *e = *state;
	CLEANUP(freep) char *cert = NULL;
	CLEANUP(freep) char *key = NULL;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);

	NEED_OPENSSL(e);
	start_tls_server(e, &cert, &key);
	assert_int_equal(get_metrics_by_tls(e, "-tls1_3", "one.crt", &b), 0);
	assert_int_equal(get_metrics_by_tls(e, "-tls1_2", "one.crt", &b), 0);
	assert_int_equal(get_metrics_by_tls(e, "-tls1_1", "one.crt", &b), -1);
	assert_int_equal(get_metrics_by_tls(e, "-tls1", "one.crt", &b), -1);
	assert_int_equal(get_metrics_by_tls(e, "-tls1_3", "two.crt", &b), -1);
	/* A request in clear text gets no answer. */
	web_talk(e, GET("/metrics"), &b);
	assert_int_equal(web_status_of(&b), 0);
	web_wait_count(e, open, 0);
}

static void web_tls__follows_its_files(void **state)
{
	struct web_env *e = *state;
	CLEANUP(freep) char *cert = NULL;
	CLEANUP(freep) char *key = NULL;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);

	NEED_OPENSSL(e);
	start_tls_server(e, &cert, &key);
	assert_int_equal(get_metrics_by_tls(e, "-tls1_3", "one.crt", &b), 0);
	/* Half of a change: the pair that fits stays in force, and one notice comes. */
	replace_tls_file(e, "two.crt", "tls.crt");
	assert_int_equal(get_metrics_by_tls(e, "-tls1_3", "one.crt", &b), 0);
	assert_int_equal(get_metrics_by_tls(e, "-tls1_2", "one.crt", &b), 0);
	assert_int_equal(atomic_load(&e->notices), 1);
	web_assert_notice(e, "tls.crt");
	replace_tls_file(e, "two.key", "tls.key");
	assert_int_equal(get_metrics_by_tls(e, "-tls1_3", "two.crt", &b), 0);
	assert_int_equal(get_metrics_by_tls(e, "-tls1_3", "one.crt", &b), -1);
	for (int i = 0; i < 3; i++) {
		replace_tls_file(e, "one.crt", "tls.crt");
		replace_tls_file(e, "one.key", "tls.key");
		assert_int_equal(get_metrics_by_tls(e, "-tls1_3", "one.crt", &b), 0);
		replace_tls_file(e, "two.crt", "tls.crt");
		replace_tls_file(e, "two.key", "tls.key");
		assert_int_equal(get_metrics_by_tls(e, "-tls1_3", "two.crt", &b), 0);
	}
	free(web_env_file(e, "tls.crt", "nonsense"));
	assert_int_equal(get_metrics_by_tls(e, "-tls1_3", "two.crt", &b), 0);
	assert_int_equal(unlink(cert), 0);
	assert_int_equal(get_metrics_by_tls(e, "-tls1_3", "two.crt", &b), 0);
}

/* The first message of a handshake, cut; GnuTLS waits for the rest of it. */
static const char half_hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

static void web_tls__closes_an_incomplete_handshake(void **state)
{
	struct web_env *e = *state;
	CLEANUP(freep) char *cert = NULL;
	CLEANUP(freep) char *key = NULL;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	int fds[16];

	NEED_OPENSSL(e);
	e->options.limits.request_ns = 300 * NS_PER_MS;
	start_tls_server(e, &cert, &key);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = web_connect(e);
		web_send(fds[i], half_hello, i % 2 ? sizeof(half_hello) - 1 : 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		web_wait_closed(fds[i]);
		closep(&fds[i]);
	}
	web_wait_count(e, open, 0);
	assert_int_equal(web_counts(e->web).timeouts, ARRAY_LEN(fds));
	e->web = web_stop(e->web);
	e->options.limits.request_ns = 0;
	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = web_connect(e);
		web_send(fds[i], half_hello, sizeof(half_hello) - 1);
	}
	/* Beside them, others are served; and a stop waits for none of them. */
	assert_int_equal(get_metrics_by_tls(e, "-tls1_3", "one.crt", &b), 0);
	e->web = web_stop(e->web);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		closep(&fds[i]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(web_tls__serves_tls_1_2_and_later_only),
		TEST(web_tls__follows_its_files),
		TEST(web_tls__closes_an_incomplete_handshake),
	};

	return cmocka_run_group_tests_name("web-tls", tests, NULL, NULL);
}
