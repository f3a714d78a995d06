/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/time.h"
#include "tools/bench/run/slice-watch.h"

/*
 * The watch of a slice, and an arbiter of one connection on the same loop. The linker puts the functions here
 * between the watch and the environment and libuv (--wrap).
 */
struct stub {
	char *dir, path[PATH_MAX];
	uv_loop_t loop;
	uv_pipe_t listener, conn;
	char got[512], room[512];
	size_t n;
	unsigned lines; /* questions */
};

static struct stub stub;
static const int pieces[] = { 7, 0, UV_EAGAIN, 11 }; /* of the first question; then all */
static size_t next_piece;

int __real_uv_try_write(uv_stream_t *s, const uv_buf_t bufs[], unsigned n);
int __wrap_uv_try_write(uv_stream_t *s, const uv_buf_t bufs[], unsigned n);
int __wrap_uv_try_write(uv_stream_t *s, const uv_buf_t bufs[], unsigned n)
{
	int piece = next_piece < ARRAY_LEN(pieces) ? pieces[next_piece++] : (int)bufs[0].len;
	uv_buf_t b = uv_buf_init(bufs[0].base, piece > 0 ? (unsigned)piece : 0);

	assert_int_equal(n, 1);
	assert_true(piece <= (int)bufs[0].len);
	return piece > 0 ? __real_uv_try_write(s, &b, 1) : piece;
}

int __wrap_environment_get_slice(const struct environment *env, size_t i,
	char dir[static PATH_MAX], char id[static ENVIRONMENT_ID_MAX], struct error *err);
int __wrap_environment_get_slice(const struct environment *env, size_t i,
	char dir[static PATH_MAX], char id[static ENVIRONMENT_ID_MAX], struct error *err)
{
	(void)env;
	(void)i;
	(void)err;
	(void)snprintf(dir, PATH_MAX, "%s", stub.dir);
	(void)snprintf(id, ENVIRONMENT_ID_MAX, "abc");
	return 0;
}

int __wrap_environment_get_control(const struct environment *env, char path[static PATH_MAX],
	struct error *err);
int __wrap_environment_get_control(const struct environment *env, char path[static PATH_MAX],
	struct error *err)
{
	(void)env;
	(void)err;
	(void)snprintf(path, PATH_MAX, "%s", stub.path);
	return 0;
}

static void on_stub_room(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
	(void)h;
	(void)suggested;
	*ret = uv_buf_init(stub.room, sizeof(stub.room));
}

static void on_stub_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	static char answer[] = "{\"slices\": [{\"gpus\": [{\"launches\": 5}]}]}\n";
	uv_buf_t whole = uv_buf_init(answer, sizeof(answer) - 1);

	for (ssize_t i = 0; i < n && stub.n + 1 < sizeof(stub.got); i++) {
		stub.got[stub.n++] = b->base[i];
		if (b->base[i] != '\n')
			continue;
		stub.lines++;
		assert_int_equal(__real_uv_try_write(s, &whole, 1), whole.len);
	}
}

static void on_stub_connection(uv_stream_t *s, int status)
{
	assert_int_equal(status, 0);
	assert_int_equal(uv_pipe_init(&stub.loop, &stub.conn, 0), 0);
	assert_int_equal(uv_accept(s, (uv_stream_t *)&stub.conn), 0);
	assert_int_equal(uv_read_start((uv_stream_t *)&stub.conn, on_stub_room, on_stub_read),
		0);
}

static void watch__continues_a_partly_written_request(void **state)
{
	static const char question[] = "{\"op\": \"status\", \"slice\": \"abc\"}\n";
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;
	struct profile_watch *w = NULL;
	struct profile_window window;
	struct error err = ERROR_INIT;

	(void)state;
	stub.dir = test_tmpdir();
	(void)snprintf(stub.path, sizeof(stub.path), "%s/control", stub.dir);
	assert_int_equal(uv_loop_init(&stub.loop), 0);
	assert_int_equal(uv_pipe_init(&stub.loop, &stub.listener, 0), 0);
	assert_int_equal(uv_pipe_bind(&stub.listener, stub.path), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&stub.listener, 1, on_stub_connection), 0);
	assert_ok(watch_new(&w, &stub.loop, &err), &err);
	watch_begin_window(w, NULL, /* launches= */ false);
	while (stub.lines < 2) {
		assert_true(time_mono_ns() < end);
		(void)uv_run(&stub.loop, UV_RUN_ONCE);
	}
	assert_int_equal(stub.n, 2 * strlen(question));
	assert_memory_equal(stub.got, question, strlen(question));
	assert_memory_equal(stub.got + strlen(question), question, strlen(question));
	assert_ok(watch_end_window(w, &window, &err), &err);
	assert_in_range(window.n_samples, 1, 2);
	assert_int_equal(window.samples[0].launches, 5);
	profile_window_fini(&window);
	w = watch_free(w);
	uv_close((uv_handle_t *)&stub.listener, NULL);
	uv_close((uv_handle_t *)&stub.conn, NULL);
	(void)uv_run(&stub.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&stub.loop), 0);
	test_rmdir(stub.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(watch__continues_a_partly_written_request),
	};

	return cmocka_run_group_tests_name("bench-watch", tests, NULL, NULL);
}
