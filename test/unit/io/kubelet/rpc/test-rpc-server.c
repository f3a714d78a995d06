/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/kubelet/rpc/rpc-env.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/unix-socket.h"

/* --- opening and closing servers --- */

static void rpc_server_close__ends_what_is_open(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	FRESH(struct watcher, w);
	struct rpc_server *server = start_test_server(e, &s);
	struct rpc_client *c = dial(e);

	(void)watch(c, &w);
	run(e, &w.messages, 1);
	invoke(c, "/t.T/Keep", "a", 1, &a);
	run(e, &s.n_kept, 2);
	rpc_server_close(server);
	assert_int_equal(s.ends, 1); /* at once */
	run(e, &a.n, 1);
	run(e, &w.ends, 1);
	assert_int_not_equal(a.status, RPC_OK);
	assert_int_not_equal(w.status, RPC_OK);
	assert_int_equal(access(e->path, F_OK), -1);
	run_for_ms(e, 20);
	rpc_reply_error(s.kept[1], RPC_INTERNAL, "late");

	/* No server: an answer with the reason, and at once. */
	call_and_wait(e, c, "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_UNAVAILABLE);
	assert_non_null(strstr(a.text, "No such file"));
	(void)watch(c, &w);
	run(e, &w.ends, 2);
	assert_int_equal(w.status, RPC_UNAVAILABLE);
}

static void rpc_server_close__inside_handler(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	struct rpc_client *c;

	s.close_in_handler = start_test_server(e, &s);
	c = dial(e);
	call_and_wait(e, c, "/t.T/Close", "x", 1, &a);
	assert_int_equal(s.calls, 1);
	free(a.reply);
}

static void rpc_free__closes_remaining_connections(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	FRESH(struct watcher, w);
	struct rpc_client *c;

	(void)start_test_server(e, &s);
	c = dial(e);
	(void)watch(c, &w);
	run(e, &w.messages, 1);
	invoke(c, "/t.T/Keep", "a", 1, &a);
	run(e, &s.n_kept, 2);
	invoke(c, "/t.T/Echo", "a", 1, &a);
	e->rpc = rpc_free(e->rpc);
	assert_int_equal(a.n, 2);
	assert_int_equal(w.ends, 1);
	assert_int_equal(s.ends, 1);
}

static void rpc_client__finds_restarted_server_at_once(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	struct rpc_server *server = start_test_server(e, &s);
	struct rpc_client *c = dial(e);
	uint64_t begin;
	int i;

	call_and_wait(e, c, "/t.T/Echo", "1", 1, &a);
	for (i = 0; i < 5; i++) {
		rpc_server_close(server);
		call_and_wait(e, c, "/t.T/Echo", "x", 1, &a);
		assert_int_equal(a.status, RPC_UNAVAILABLE);
		server = start_test_server(e, &s);
		begin = time_mono_ns();
		call_and_wait(e, c, "/t.T/Echo", "2", 1, &a);
		assert_int_equal(a.status, RPC_OK);
		assert_true(time_mono_ns() - begin < 500 * NS_PER_MS);
	}
	free(a.reply);
}

static void rpc_serve__refuses_path_in_use(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	struct error err = ERROR_INIT;
	struct rpc_server *other = NULL;

	(void)start_test_server(e, &s);
	assert_error(rpc_serve(e->rpc, e->path, rpc_env_methods, rpc_env_n_methods, &s, &other,
			     &err),
		&err, "another process serves");
	assert_int_equal(err.code, ERR_EXISTS);
	/* The attempt has done no harm. */
	call_and_wait(e, dial(e), "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	free(a.reply);
}

static void rpc_serve__replaces_dead_socket_but_no_file(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	struct error err = ERROR_INIT;
	struct rpc_server *server = NULL;
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_ok(file_write_atomic(e->path, "x", 1, 0600, &err), &err);
	assert_error(rpc_serve(e->rpc, e->path, rpc_env_methods, rpc_env_n_methods, &s, &server,
			     &err),
		&err, "no socket");
	assert_int_equal(err.code, ERR_INVALID); /* no process serves it */
	assert_int_equal(unlink(e->path), 0);

	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", e->path);
	assert_int_equal(bind(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	(void)close(fd);
	(void)start_test_server(e, &s);
	call_and_wait(e, dial(e), "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	free(a.reply);
}

/* A process that is killed with a socket that is bound and not yet renamed leaves it behind. */
static void rpc_serve__removes_the_socket_of_a_killed_server(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char name[UNIX_PATH_MAX_LEN + 32];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	unix_temporary_name(e->path, name);
	assert_int_equal(strncmp(name, e->path, strrchr(e->path, '/') + 1 - e->path), 0);
	assert_true(snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", name) <
		    (int)sizeof(sa.sun_path));
	assert_int_equal(bind(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	(void)close(fd);
	(void)start_test_server(e, &s);
	assert_int_equal(access(name, F_OK), -1);
	call_and_wait(e, dial(e), "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	free(a.reply);
}

static void rpc_serve__refuses_long_path(void **state)
{
	struct env *e = *state;
	struct error err = ERROR_INIT;
	struct rpc_server *server = NULL;
	struct rpc_client *client = NULL;
	char path[200] = "/tmp/";

	memset(path + 5, 'x', sizeof(path) - 6);
	path[108] = '\0';
	assert_error(rpc_serve(e->rpc, path, rpc_env_methods, rpc_env_n_methods, NULL, &server,
			     &err),
		&err, "has 108 bytes; a unix socket's path has at most 107");
	assert_int_equal(err.code, ERR_LIMIT);
	assert_error(rpc_dial(e->rpc, path, &client, &err), &err, "at most 107");
}

static void rpc_server_close__spares_newer_socket(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct service, s2);
	FRESH(struct rpc_answer, a);
	struct rpc_server *old = start_test_server(e, &s);

	/* The file is deleted, and another server takes the name. */
	assert_int_equal(unlink(e->path), 0);
	(void)start_test_server(e, &s2);
	rpc_server_close(old);
	run_for_ms(e, 100);
	call_and_wait(e, dial(e), "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	assert_int_equal(s2.calls, 1);
	free(a.reply);
}

static void rpc_server_relisten__recreates_a_deleted_socket(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	FRESH(struct watcher, w);
	struct error err = ERROR_INIT;
	struct rpc_server *server = start_test_server(e, &s);

	(void)watch(dial(e), &w);
	run(e, &w.messages, 1);
	assert_ok(rpc_server_relisten(server, &err), &err);
	assert_int_equal(unlink(e->path), 0);
	assert_int_equal(rpc_server_relisten(server, &err), RPC_RELISTENED);
	assert_ok(rpc_server_relisten(server, &err), &err);
	call_and_wait(e, dial(e), "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	/* The old connection has not suffered. */
	rpc_stream_send(s.kept[0], "still", 5);
	run(e, &w.messages, 2);
	free(a.reply);
}

static void on_hangup(void *arg, unsigned left)
{
	assert_int_equal(left, 0);
	++*(unsigned *)arg;
}

static void rpc_server_peers__counts_connections(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	struct rpc_server *server = start_test_server(e, &s);
	struct rpc_client *c = dial(e);
	unsigned hangups = 0;

	rpc_server_on_hangup(server, on_hangup, &hangups);
	assert_int_equal(rpc_server_peers(server), 0);
	call_and_wait(e, c, "/t.T/Echo", "x", 1, &a);
	assert_int_equal(rpc_server_peers(server), 1);
	rpc_client_close(c);
	run(e, &hangups, 1);
	assert_int_equal(rpc_server_peers(server), 0);
	free(a.reply);
}

static unsigned open_fds(void)
{
	unsigned n = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void rpc_serve__opens_and_closes_often(void **state)
{
	struct env *e = *state;
	const char *count = getenv("RPC_TEST_CYCLES");
	uint32_t i, cycles = 1000;
	unsigned fds = 0;

	if (count)
		assert_true(parse_u32(count, &cycles));
	for (i = 0; i < cycles; i++) {
		FRESH(struct service, s);
		FRESH(struct rpc_answer, a);
		FRESH(struct watcher, w);
		struct rpc_server *server = start_test_server(e, &s);
		struct rpc_client *c = dial(e);

		if (i % 4 == 0)
			(void)watch(c, &w);
		call_and_wait(e, c, "/t.T/Echo", "x", 1, &a);
		assert_int_equal(a.status, RPC_OK);
		if (i % 2)
			rpc_client_close(c);
		rpc_server_close(server);
		if (!(i % 2))
			rpc_client_close(c);
		free(a.reply);
		if (i == 20)
			fds = open_fds();
	}
	run_for_ms(e, 50);
	if (cycles > 20)
		assert_true(open_fds() <= fds);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rpc_env_setup, rpc_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(rpc_server_close__ends_what_is_open),
		T(rpc_server_close__inside_handler),
		T(rpc_free__closes_remaining_connections),
		T(rpc_client__finds_restarted_server_at_once),
		T(rpc_serve__refuses_path_in_use),
		T(rpc_serve__replaces_dead_socket_but_no_file),
		T(rpc_serve__removes_the_socket_of_a_killed_server),
		T(rpc_serve__refuses_long_path),
		T(rpc_server_close__spares_newer_socket),
		T(rpc_server_relisten__recreates_a_deleted_socket),
		T(rpc_server_peers__counts_connections),
		T(rpc_serve__opens_and_closes_often),
	};

	return cmocka_run_group_tests_name("rpc-server", tests, NULL, NULL);
}
