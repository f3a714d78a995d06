/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/web/web-env.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/parse.h"

static void release_body(void *owner)
{
	struct web_env *e = *(struct web_env **)owner;

	atomic_fetch_add(&e->released, 1);
	free(owner);
}

/* A body that counts its release; the env's address precedes it. */
static void set_counted_reply(struct web_env *e, struct web_reply *r, const char *text,
	size_t len)
{
	struct web_env **owner = malloc(sizeof(struct web_env *) + len);

	assert_non_null(owner);
	*owner = e;
	memcpy(owner + 1, text, len);
	r->body = owner + 1;
	r->len = len;
	r->owner = owner;
	r->release = release_body;
	atomic_fetch_add(&e->made, 1);
}

static enum web_status get_metrics(void *arg, const struct web_request *q, struct web_reply *r)
{
	/* No header wants any type. */
	r->type = *q->accept ? "text/plain" : "application/openmetrics-text";
	set_counted_reply(arg, r, "gpus 8\n", 7);
	return WEB_OK;
}

static enum web_status get_healthz(void *arg, const struct web_request *q, struct web_reply *r)
{
	(void)arg;
	(void)q;
	r->body = "ok\n";
	r->len = 3;
	return WEB_OK;
}

static enum web_status get_item(void *arg, const struct web_request *q, struct web_reply *r)
{
	(void)arg;
	r->n_extra = 1;
	r->extra[0].name = "X-Item";
	r->extra[0].value = "yes";
	return web_reply_copy(r, WEB_OK, "application/json", q->rest, strlen(q->rest));
}

/* The value of a query argument, the first if there are several; NULL: absent. */
static const char *find_query(const struct web_request *q, const char *name)
{
	for (size_t i = 0; i < q->n_query; i++)
		if (!strcmp(q->query[i].name, name))
			return q->query[i].value;
	return NULL;
}

static enum web_status get_query(void *arg, const struct web_request *q, struct web_reply *r)
{
	const char *a = find_query(q, "a");

	(void)arg;
	return web_reply_copy(r, WEB_OK, "text/plain", a ? a : "none", a ? strlen(a) : 4);
}

static enum web_status get_etag(void *arg, const struct web_request *q, struct web_reply *r)
{
	(void)q;
	set_counted_reply(arg, r, "version 7\n", 10);
	(void)snprintf(r->etag, sizeof(r->etag), "v7");
	return WEB_OK;
}

static enum web_status get_big(void *arg, const struct web_request *q, struct web_reply *r)
{
	static char big[BIG_BODY];

	(void)q;
	memset(big, 'b', sizeof(big));
	set_counted_reply(arg, r, big, sizeof(big));
	return WEB_OK;
}

/* Blocks the web thread as long as the test has the lock. */
static enum web_status get_gated_route(void *arg, const struct web_request *q,
	struct web_reply *r)
{
	struct web_env *e = arg;

	(void)q;
	pthread_mutex_lock(&e->gate);
	pthread_mutex_unlock(&e->gate);
	r->len = 0;
	return WEB_OK;
}

static enum web_status get_unavailable(void *arg, const struct web_request *q,
	struct web_reply *r)
{
	(void)arg;
	(void)q;
	r->len = 0;
	return WEB_UNAVAILABLE;
}

static const struct web_route routes[] = {
	{ "/big", false, get_big },
	{ "/etag", false, get_etag },
	{ "/healthz", true, get_healthz },
	{ "/held", false, get_gated_route },
	{ "/items/*", false, get_item },
	{ "/metrics", false, get_metrics },
	{ "/query", false, get_query },
	{ "/unavailable", false, get_unavailable },
};

static void save_notice(void *arg, const struct error *err)
{
	struct web_env *e = arg;

	pthread_mutex_lock(&e->lock);
	(void)snprintf(e->notice, sizeof(e->notice), "%s", err->msg);
	pthread_mutex_unlock(&e->lock);
	atomic_fetch_add(&e->notices, 1);
}

void web_env_init(struct web_env *e)
{
	*e = (struct web_env){ .lock = PTHREAD_MUTEX_INITIALIZER,
		.gate = PTHREAD_MUTEX_INITIALIZER,
		.dir = test_tmpdir(),
		.at = "127.0.0.1",
		.options.worker_path = TEST_WEB_WORKER };
	e->options.limits.check_ns = 1; /* in every round */
	e->options.limits.cpu_permille = 1000;
}

void web_env_begin(struct web_env *e)
{
	const struct web_ops ops = { .routes = routes,
		.n_routes = ARRAY_LEN(routes),
		.notice = save_notice };
	struct error err = ERROR_INIT;

	if (!e->options.listen)
		e->options.listen = "127.0.0.1:0";
	assert_ok(web_start(&e->web, &e->options, &ops, e, &err), &err);
}

void web_env_start(struct web_env *e)
{
	web_env_begin(e);
	web_wait_serving(e);
	assert_true(web_port(e->web) > 0);
}

void web_wait_serving(const struct web_env *e)
{
	struct error why = ERROR_INIT;

	for (unsigned i = 0; web_state(e->web, &why) != WEB_SERVING; i++) {
		if (i > WEB_TIMEOUT_S * 1000)
			fail_msg("waited in vain for the web server: %s", why.msg);
		web_nap();
	}
}

void web_wait_notices(struct web_env *e, unsigned n)
{
	for (unsigned i = 0; atomic_load(&e->notices) < n; i++) {
		if (i > WEB_TIMEOUT_S * 1000)
			fail_msg("waited in vain for notice %u", n);
		web_nap();
	}
}

void web_env_fini(struct web_env *e)
{
	e->web = web_stop(e->web);
	assert_int_equal(atomic_load(&e->made), atomic_load(&e->released));
	/* A sanitizer makes the process exit like this after a leak. */
	if (strstr(e->notice, "asked to end, the web server's process exited"))
		fail_msg("%s", e->notice);
	test_rmdir(e->dir);
}

/* Reads name and parent of a process from "PID (NAME) STATE PARENT ...". */
static bool is_process(const char *pid, char *name, size_t cap, uint32_t *ret_parent)
{
	char path[64], *open, *close;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	char parent[16];

	(void)snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	if (file_read(path, &b, NULL) < 0)
		return false;
	open = strchr(b.data, '(');
	close = strrchr(b.data, ')');
	if (!open || !close || close[2] == 'Z')
		return false;
	(void)snprintf(name, cap, "%.*s", (int)(close - open - 1), open + 1);
	(void)snprintf(parent, sizeof(parent), "%.*s", (int)strspn(close + 4, "0123456789"),
		close + 4);
	return parse_u32(parent, ret_parent);
}

static pid_t find_process(pid_t other)
{
	DIR *d = opendir("/proc");
	const struct dirent *e;
	pid_t found = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		uint32_t pid, parent;
		char name[32];

		if (parse_u32(e->d_name, &pid) && (pid_t)pid != other &&
			is_process(e->d_name, name, sizeof(name), &parent) &&
			(pid_t)parent == getpid() && !strcmp(name, "gpuslice-web"))
			found = (pid_t)pid;
	}
	(void)closedir(d);
	return found;
}

pid_t web_wait_process(pid_t other)
{
	for (unsigned i = 0; i < WEB_TIMEOUT_S * 1000; i++) {
		pid_t pid = find_process(other);

		if (pid)
			return pid;
		web_nap();
	}
	fail_msg("waited in vain for a process of the web server");
	return 0;
}

unsigned web_count_fds(pid_t pid)
{
	char path[64];
	unsigned n = 0;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)(pid < 0 ? getpid() : pid));
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

void web_assert_notice(struct web_env *e, const char *text)
{
	pthread_mutex_lock(&e->lock);
	if (!strstr(e->notice, text))
		fail_msg("expected '%s' in '%s'", text, e->notice);
	pthread_mutex_unlock(&e->lock);
}

char *web_env_file(struct web_env *e, const char *name, const char *text)
{
	char path[512];

	test_write(e->dir, name, text, strlen(text), 0600);
	(void)snprintf(path, sizeof(path), "%s/%s", e->dir, name);
	return strdup(path);
}

/* The kernel may interrupt connect() on a socket with a timeout, without a signal (EINTR); the connection continues. */
static int connect_fully(int fd, const struct sockaddr_in *to)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int failed = 0, ready;
	socklen_t len = sizeof(failed);

	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0)
		return 0;
	if (errno != EINTR)
		return -1;
	do
		ready = poll(&p, 1, WEB_TIMEOUT_S * 1000);
	while (ready < 0 && errno == EINTR);
	errno = ETIMEDOUT;
	if (ready > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) == 0)
		errno = failed;
	return errno == 0 ? 0 : -1;
}

int web_connect_from(const struct web_env *e, const char *source)
{
	struct sockaddr_in from = { .sin_family = AF_INET }, to = { .sin_family = AF_INET };
	const struct timeval patience = { .tv_sec = WEB_TIMEOUT_S };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(inet_pton(AF_INET, source, &from.sin_addr), 1);
	assert_int_equal(inet_pton(AF_INET, e->at, &to.sin_addr), 1);
	to.sin_port = htons((uint16_t)web_port(e->web));
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)),
		0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)),
		0);
	/* A refused client may get the error here: then it was connected, and is closed. */
	if (connect_fully(fd, &to) < 0 && errno != ECONNRESET && errno != ECONNABORTED)
		fail_msg("connect: %s", strerror(errno));
	return fd;
}

int web_connect(const struct web_env *e)
{
	return web_connect_from(e, "127.0.0.1");
}

/* A server that has closed already does not read the rest. */
void web_send(int fd, const void *bytes, size_t len)
{
	const char *text = bytes;

	while (len > 0) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return;
		assert_true(n > 0);
		text += n;
		len -= (size_t)n;
	}
}

void web_send_text(int fd, const char *text)
{
	web_send(fd, text, strlen(text));
}

/* False: the other end has closed or reset. */
static bool read_some(int fd, struct buf *b)
{
	static char some[65536];
	ssize_t n;

	do
		n = recv(fd, some, sizeof(some), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != ECONNRESET && errno != ENOTCONN)
		fail_msg("waited in vain for the server: %s", strerror(errno));
	if (n <= 0)
		return false;
	buf_add(b, some, (size_t)n);
	assert_true(buf_ok(b));
	return true;
}

void web_read_all(int fd, struct buf *b)
{
	while (read_some(fd, b))
		;
}

void web_read_reply(int fd, bool head, struct buf *b)
{
	const char *end = NULL, *length;
	uint64_t len = 0;
	char digits[24];

	buf_clear(b);
	while (!(end = strstr(buf_str(b), "\r\n\r\n")))
		if (!read_some(fd, b))
			fail_msg("the connection ended within '%s'", buf_str(b));
	length = strstr(buf_str(b), "Content-Length: ");
	if (length && !head) {
		(void)snprintf(digits, sizeof(digits), "%.*s",
			(int)strspn(length + 16, "0123456789"), length + 16);
		assert_true(parse_u64(digits, &len));
	}
	len += (size_t)(end + 4 - buf_str(b));
	while (b->len < len)
		if (!read_some(fd, b))
			fail_msg("the connection ended within the body");
	assert_int_equal(b->len, len);
}

void web_wait_closed(int fd)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);

	web_read_all(fd, &b);
}

void web_talk(const struct web_env *e, const char *request, struct buf *b)
{
	CLEANUP(closep) int fd = web_connect(e);

	buf_clear(b);
	web_send_text(fd, request);
	web_read_all(fd, b);
}

unsigned web_status_of(const struct buf *b)
{
	const char *text = buf_str(b);
	uint32_t status = 0;
	char digits[4];

	if (strncmp(text, "HTTP/1.", 7) != 0 || strlen(text) < 12)
		return 0;
	(void)snprintf(digits, sizeof(digits), "%.3s", text + 9);
	return parse_u32(digits, &status) ? status : 0;
}

void web_expect(const struct web_env *e, const char *request, unsigned status)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);

	web_talk(e, request, &b);
	if (web_status_of(&b) != status)
		fail_msg("'%.200s' is answered by '%.200s', expected %u", request, buf_str(&b),
			status);
}

void web_expect_when_serving(const struct web_env *e, const char *request, unsigned status)
{
	web_wait_serving(e);
	web_expect(e, request, status);
}

void web_nap(void)
{
	(void)poll(NULL, 0, 1);
}
