/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/kube-api/api-env.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/fd.h"

/*
 * The client against openssl(1), which gives out the file that the path names, with the HTTP headers
 * in it. Skipped where there is no openssl.
 */
struct tls {
	struct env *env;
	char *dir;
	pid_t server;
};

static pid_t spawn_tool(const struct tls *t, const char *const *argv)
{
	posix_spawn_file_actions_t fds;
	pid_t pid = -1;
	int r;

	assert_int_equal(posix_spawn_file_actions_init(&fds), 0);
	assert_int_equal(posix_spawn_file_actions_addchdir_np(&fds, t->dir), 0);
	for (int fd = 0; fd < 3; fd++)
		assert_int_equal(
			posix_spawn_file_actions_addopen(&fds, fd, "/dev/null", O_RDWR, 0), 0);
	r = posix_spawnp(&pid, argv[0], &fds, NULL, (char *const *)(uintptr_t)argv, environ);
	(void)posix_spawn_file_actions_destroy(&fds);
	return r == 0 ? pid : -1;
}

static int wait_for(pid_t pid)
{
	int status = -1;

	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

#define OPENSSL(t, ...) \
	wait_for(spawn_tool(t, (const char *const[]){ "openssl", __VA_ARGS__, NULL }))

/* A certificate that is its own authority, for 127.0.0.1 and kubernetes.test. */
static void make_certificate(const struct tls *t, const char *name)
{
	char cert[32], key[32];

	(void)snprintf(cert, sizeof(cert), "%s.crt", name);
	(void)snprintf(key, sizeof(key), "%s.key", name);
	assert_int_equal(OPENSSL(t, "req", "-x509", "-newkey", "ec", "-pkeyopt",
				 "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
				 "-subj", "/CN=test", "-addext",
				 "subjectAltName=IP:127.0.0.1,DNS:kubernetes.test", "-keyout",
				 key, "-out", cert),
		0);
}

static char *path_of(const struct tls *t, const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", t->dir, name);
	return strdup(path);
}

static void stop_server(struct tls *t)
{
	if (t->server > 0) {
		(void)kill(t->server, SIGKILL);
		(void)wait_for(t->server);
	}
	t->server = -1;
}

static bool is_port_open(unsigned port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool yes = connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0;

	(void)close(fd);
	return yes;
}

/* @ca: the issuer that client certificates must have; NULL: the server asks for none. */
static void start_server(struct tls *t, const char *name, const char *ca)
{
	struct env *e = t->env;
	char cert[32], key[32], accept[64];

	stop_server(t);
	(void)snprintf(cert, sizeof(cert), "%s.crt", name);
	(void)snprintf(key, sizeof(key), "%s.key", name);
	(void)snprintf(accept, sizeof(accept), "127.0.0.1:%u", e->port);
	t->server = spawn_tool(t,
		(const char *const[]){ "openssl", "s_server", "-HTTP", "-quiet", "-accept",
			accept, "-cert", cert, "-key", key, ca ? "-CAfile" : NULL, ca,
			"-Verify", "1", "-verify_return_error", NULL });
	assert_true(t->server > 0);
	for (int i = 0; i < 500 && !is_port_open(e->port); i++)
		run_for_ms(e, 10);
}

static int setup(void **state)
{
	struct tls *t = calloc(1, sizeof(*t));
	void *e = NULL;

	assert_non_null(t);
	if (api_env_setup(&e) < 0)
		return -1;
	t->env = e;
	t->dir = t->env->dir;
	t->server = -1;
	*state = t;
	stub_close(t->env); /* the port is openssl's now */
	if (OPENSSL(t, "version") != 0)
		return 0;
	make_certificate(t, "one");
	make_certificate(t, "two");
	free(write_file(t->env, "node",
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\n{\"a\":1}"));
	return 0;
}

static int teardown(void **state)
{
	struct tls *t = *state;
	void *e = t->env;

	stop_server(t);
	(void)api_env_teardown(&e);
	free(t);
	return 0;
}

static void skip_without_openssl(const struct tls *t)
{
	if (OPENSSL(t, "version") != 0)
		skip();
}

/* Opens the client; the strings of @c are its own. */
static void open_client(struct tls *t, struct api_config c)
{
	struct env *e = t->env;
	struct error err = ERROR_INIT;
	char server[64];

	(void)snprintf(server, sizeof(server), "https://127.0.0.1:%u", e->port);
	c.server = strdup(server);
	c.source = strdup("test");
	e->api = api_free(e->api);
	assert_ok(api_new(&e->api, &e->loop, &c, "gpusliced/1.2", &err), &err);
}

static char *read_text(const struct tls *t, const char *name)
{
	CLEANUP(freep) char *path = path_of(t, name);
	struct buf b = BUF_INIT(65536);
	struct error err = ERROR_INIT;

	assert_ok(file_read(path, &b, &err), &err);
	return buf_steal(&b);
}

static void copy_file(const struct tls *t, const char *from, const char *to)
{
	CLEANUP(freep) char *text = read_text(t, from);

	free(write_file(t->env, to, text));
}

static void api_tls__verifies_server(void **state)
{
	struct tls *t = *state;
	struct api_answer a = { .n = 0 };

	skip_without_openssl(t);
	start_server(t, "one", NULL);
	open_client(t, (struct api_config){ .ca_file = path_of(t, "one.crt") });
	fetch(t->env, "/node", &a);
	assert_false(a.has_error);
	assert_string_equal(a.body, "{\"a\":1}");
	open_client(t, (struct api_config){ .ca_data = read_text(t, "one.crt") });
	fetch(t->env, "/node", &a);
	assert_false(a.has_error);
	/* The client trusts another authority, and the authorities of the system. */
	open_client(t, (struct api_config){ .ca_file = path_of(t, "two.crt") });
	fetch(t->env, "/node", &a);
	assert_int_equal(a.err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(a.err.msg, "certificate"));
	assert_int_equal(api_requests(t->env->api), 1); /* nothing newer to try with */
	open_client(t, (struct api_config){ .server = NULL });
	fetch(t->env, "/node", &a);
	assert_int_equal(a.err.code, ERR_UNAVAILABLE);
	open_client(t, (struct api_config){ .insecure = true });
	fetch(t->env, "/node", &a);
	assert_false(a.has_error);
}

static void api_tls__server_name(void **state)
{
	struct tls *t = *state;
	struct api_answer a = { .n = 0 };

	skip_without_openssl(t);
	start_server(t, "one", NULL);
	open_client(t, (struct api_config){ .ca_file = path_of(t, "one.crt"),
			       .tls_server_name = strdup("kubernetes.test") });
	fetch(t->env, "/node", &a);
	assert_false(a.has_error);
	open_client(t, (struct api_config){ .ca_file = path_of(t, "one.crt"),
			       .tls_server_name = strdup("kubernetes.evil") });
	fetch(t->env, "/node", &a);
	assert_int_equal(a.err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(a.err.msg, "kubernetes.evil"));
}

static void api_tls__client_certificate(void **state)
{
	struct tls *t = *state;
	struct api_answer a = { .n = 0 };

	skip_without_openssl(t);
	start_server(t, "one", "two.crt");
	open_client(t, (struct api_config){ .ca_file = path_of(t, "one.crt") });
	fetch(t->env, "/node", &a);
	assert_true(a.has_error);
	open_client(t, (struct api_config){ .ca_file = path_of(t, "one.crt"),
			       .cert_file = path_of(t, "two.crt"),
			       .key_file = path_of(t, "two.key") });
	fetch(t->env, "/node", &a);
	assert_false(a.has_error);
	open_client(t, (struct api_config){ .ca_file = path_of(t, "one.crt"),
			       .cert_data = read_text(t, "two.crt"),
			       .key_data = read_text(t, "two.key") });
	fetch(t->env, "/node", &a);
	assert_false(a.has_error);
	open_client(t, (struct api_config){ .ca_file = path_of(t, "one.crt"),
			       .cert_file = path_of(t, "none.crt"),
			       .key_file = path_of(t, "two.key") });
	fetch(t->env, "/node", &a);
	assert_int_equal(a.err.code, ERR_UNAVAILABLE);
}

static void api_tls__reads_ca_again(void **state)
{
	struct tls *t = *state;
	struct api_answer a = { .n = 0 };

	skip_without_openssl(t);
	copy_file(t, "one.crt", "ca.crt");
	start_server(t, "one", NULL);
	open_client(t, (struct api_config){ .ca_file = path_of(t, "ca.crt") });
	fetch(t->env, "/node", &a);
	assert_false(a.has_error);
	/* The file first, then the server: after the failed handshake the client reads the file again, and
	 * repeats once. */
	copy_file(t, "two.crt", "ca.crt");
	start_server(t, "two", NULL);
	fetch(t->env, "/node", &a);
	assert_false(a.has_error);
	assert_int_equal(api_requests(t->env->api), 3);
	/* The client reads the certificates again after a time, although no request failed. A certificate
	 * that is no longer trusted is refused. */
	copy_file(t, "one.crt", "ca.crt");
	fetch(t->env, "/node", &a);
	assert_false(a.has_error);
	t->env->api->intervals.ca_ns = 0;
	fetch(t->env, "/node", &a);
	assert_int_equal(a.err.code, ERR_UNAVAILABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define API_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		API_TEST(api_tls__verifies_server),
		API_TEST(api_tls__server_name),
		API_TEST(api_tls__client_certificate),
		API_TEST(api_tls__reads_ca_again),
	};

	return cmocka_run_group_tests_name("api-tls", tests, NULL, NULL);
}
