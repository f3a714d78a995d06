/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/monitor/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/paths.h"
#include "lib/base/spawn.h"
#include "lib/base/time.h"
#include "io/nvml/worker/events.h"

#define CALL_TIMEOUT_NS (5 * NS_PER_SEC)
#define STUCK_RETRY_NS  (60 * NS_PER_SEC)
#define WORKER_NAME     "gpuslice-nvml"

/* The init opens every GPU of the node: a second or more for each GPU that no process has open. */
#define INIT_FACTOR 12
/* For steps that wait for disks or for the scheduler, not for a GPU. */
#define OTHER_FACTOR  4
#define HANDLE_FACTOR 2
/* For all calls on one GPU together. */
#define GPU_FACTOR 6
/* The period of checks while only the event thread runs. */
#define IDLE_PERIOD_NS (2 * NS_PER_SEC)

static int copy_client_path(char **to, const char *from, struct error *err)
{
	if (!from || !from[0])
		return 0;
	*to = strdup(from);
	return *to ? 0 : error_nomem(err);
}

int client_init(struct nvml_client *c, const struct gpu_monitor_options *options, bool events,
	struct error *err)
{
	*c = (struct nvml_client){ .sock = -1, .events = events };
	c->call_timeout_ns =
		options->call_timeout_ns ? options->call_timeout_ns : CALL_TIMEOUT_NS;
	c->stuck_retry_ns = options->stuck_retry_ns ? options->stuck_retry_ns : STUCK_RETRY_NS;
	if (copy_client_path(&c->nvml_path, options->nvml_path, err) < 0 ||
		copy_client_path(&c->driver_root, options->driver_root, err) < 0 ||
		copy_client_path(&c->sysfs_root, options->sysfs_root, err) < 0 ||
		copy_client_path(&c->procfs_root, options->procfs_root, err) < 0 ||
		copy_client_path(&c->worker_path, options->worker_path, err) < 0) {
		client_fini(c);
		return -1;
	}
	return 0;
}

void client_fini(struct nvml_client *c)
{
	client_kill(c);
	(void)client_reap(c);
	while (c->n_ended > 0)
		free(c->ended[--c->n_ended]);
	probe_round_fini(&c->round);
	free(c->nvml_path);
	free(c->driver_root);
	free(c->sysfs_root);
	free(c->procfs_root);
	free(c->worker_path);
	*c = (struct nvml_client){ .sock = -1 };
}

/* --- start --- */

static int find_worker(const struct nvml_client *c, char ret[PATH_MAX], struct error *err)
{
	if (!c->worker_path)
		return libexec_find(ret, WORKER_NAME, "io/nvml/worker", err);
	if (strlen(c->worker_path) >= PATH_MAX)
		return error_set(err, ERR_LIMIT, "the path of the NVML worker is too long");
	memcpy(ret, c->worker_path, strlen(c->worker_path) + 1);
	return 0;
}

/* Moves @fd above 9, so that no dup2() to descriptors 3 and 4 of the child overwrites it. */
static int move_up(int *fd, struct error *err)
{
	int up = fcntl(*fd, F_DUPFD_CLOEXEC, 10);

	if (up < 0)
		return error_sys(err, errno, "duplicate a descriptor");
	(void)close(*fd);
	*fd = up;
	return 0;
}

static int spawn_nvml_worker(const struct nvml_client *c, int sock, int crumbs, pid_t *ret,
	struct error *err)
{
	char path[PATH_MAX];
	const char *words[12];
	char *argv[ARRAY_LEN(words)];
	const struct spawn_fd fds[] = { { sock, WORKER_FD_SOCKET },
		{ crumbs, WORKER_FD_CRUMBS } };
	size_t n = 0;

	if (find_worker(c, path, err) < 0)
		return -1;
	words[n++] = WORKER_NAME;
	if (c->nvml_path) {
		words[n++] = "--nvml";
		words[n++] = c->nvml_path;
	}
	if (c->driver_root) {
		words[n++] = "--driver-root";
		words[n++] = c->driver_root;
	}
	if (c->sysfs_root) {
		words[n++] = "--sysfs";
		words[n++] = c->sysfs_root;
	}
	if (c->procfs_root) {
		words[n++] = "--procfs";
		words[n++] = c->procfs_root;
	}
	if (!c->events)
		words[n++] = "--no-events";
	words[n] = NULL;
	memcpy(argv, words, sizeof argv); /* exec changes no string, despite the type */
	return spawn_helper(ret, path, argv, fds, ARRAY_LEN(fds), err);
}

static int make_crumbs(struct worker_crumbs **ret, int *ret_fd, struct error *err)
{
	CLEANUP(closep) int fd = memfd_create("gpuslice-nvml", MFD_CLOEXEC);
	void *page;

	if (fd < 0)
		return error_sys(err, errno, "make a page to share with the NVML worker");
	if (ftruncate(fd, sizeof(struct worker_crumbs)) < 0)
		return error_sys(err, errno, "size the page shared with the NVML worker");
	page = mmap(NULL, sizeof(struct worker_crumbs), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return error_sys(err, errno, "map the page shared with the NVML worker");
	*ret = page;
	*ret_fd = steal_fd(&fd);
	return 0;
}

int client_start(struct nvml_client *c, uint64_t now_ns, struct error *err)
{
	CLEANUP(closep) int ours = -1;
	CLEANUP(closep) int theirs = -1;
	CLEANUP(closep) int page = -1;
	int pair[2];

	if (c->n_ended == CLIENT_ENDED_MAX)
		return error_set(err, ERR_UNAVAILABLE,
			"%d NVML workers hang in the kernel and cannot be killed",
			CLIENT_ENDED_MAX);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_sys(err, errno, "make a socket for the NVML worker");
	ours = pair[0];
	theirs = pair[1];
	if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
		return error_sys(err, errno, "set a socket to non-blocking");
	if (make_crumbs(&c->crumbs, &page, err) < 0)
		return -1;
	if (move_up(&theirs, err) < 0 || move_up(&page, err) < 0 ||
		spawn_nvml_worker(c, theirs, page, &c->pid, err) < 0) {
		(void)munmap(c->crumbs, sizeof *c->crumbs);
		c->crumbs = NULL;
		c->pid = 0;
		return -1;
	}
	c->sock = steal_fd(&ours);
	memset(c->watch, 0, sizeof c->watch);
	return client_probe(c, now_ns, err);
}

int client_probe(struct nvml_client *c, uint64_t now_ns, struct error *err)
{
	union worker_msg m;

	/* A GPU that still holds a worker in the kernel would hold the next worker, too. */
	for (size_t i = 0; i < c->n_ended; i++) {
		for (uint32_t g = 0; g < GPU_NODE_MAX; g++) {
			struct probe_round_mark *mark = &c->round.marks[g];

			if (c->ended[i]->hung_on[g] && mark->stuck &&
				mark->retry_at_ns <= now_ns)
				mark->retry_at_ns = now_ns + c->stuck_retry_ns;
		}
	}
	probe_round_start(&c->round, now_ns, &m.probe);
	for (size_t i = 0; i < WORKER_SLOT_COUNT_; i++)
		c->watch[i].still_ns = c->watch[i].gpu_ns = 0;
	c->checked_at_ns = now_ns;
	if (send(c->sock, &m, m.head.len, MSG_NOSIGNAL) >= 0)
		return 0;
	/* If the worker has just ended, client_receive() finds that, after all that the worker sent. */
	if (errno == EPIPE || errno == ECONNRESET)
		return 0;
	return error_sys(err, errno, "ask the NVML worker");
}

/* Whether a request is pending, so that the worker's main thread must make progress. */
static bool has_pending_request(const struct nvml_client *c)
{
	return c->round.active || c->reading || c->sampling;
}

static int send_worker_request(struct nvml_client *c, const union worker_msg *m,
	uint64_t now_ns, struct error *err)
{
	if (!has_pending_request(c)) {
		for (size_t i = 0; i < WORKER_SLOT_COUNT_; i++)
			c->watch[i].still_ns = c->watch[i].gpu_ns = 0;
		c->checked_at_ns = now_ns;
	}
	if (send(c->sock, m, m->head.len, MSG_NOSIGNAL) >= 0 || errno == EPIPE ||
		errno == ECONNRESET) /* as in client_probe() */
		return 0;
	return error_sys(err, errno, "ask the NVML worker");
}

int client_read(struct nvml_client *c, uint32_t seq, const uint16_t *gpus, uint32_t n,
	uint64_t now_ns, struct error *err)
{
	union worker_msg m = { .read = { .seq = seq, .n = n } };

	memcpy(m.read.gpus, gpus, n * sizeof m.read.gpus[0]);
	worker_head(&m.head, WORKER_READ);
	if (send_worker_request(c, &m, now_ns, err) < 0)
		return -1;
	c->reading = true;
	return 0;
}

int client_sample(struct nvml_client *c, uint32_t seq, const uint64_t *wanted,
	uint64_t interval_ns, uint64_t now_ns, struct error *err)
{
	union worker_msg m = { .sample = { .seq = seq, .interval_ns = interval_ns } };

	memcpy(m.sample.wanted, wanted, sizeof m.sample.wanted);
	worker_head(&m.head, WORKER_SAMPLE);
	if (send_worker_request(c, &m, now_ns, err) < 0)
		return -1;
	c->sampling = true;
	return 0;
}

/* --- messages --- */

static int receive_probe_part(struct nvml_client *c, enum client_news *ret_news,
	const union worker_msg *m, struct error *err)
{
	int r = probe_round_feed(&c->round, m, err);

	if (r < 0)
		return -1;
	*ret_news = r > 0 ? CLIENT_INVENTORY : CLIENT_MORE;
	return 0;
}

int client_receive(struct nvml_client *c, enum client_news *ret_news, union worker_msg *ret,
	struct error *err)
{
	/* CLIENT_NONE: a part of a probe, or a type that the worker does not send. */
	static const enum client_news news[WORKER_TYPE_COUNT_] = {
		[WORKER_XID] = CLIENT_XID,
		[WORKER_PROBE_HINT] = CLIENT_PROBE_HINT,
		[WORKER_REINIT] = CLIENT_REINIT,
		[WORKER_ERROR] = CLIENT_ERROR,
		[WORKER_PROCESSES] = CLIENT_PROCESSES,
		[WORKER_READ_END] = CLIENT_READ_END,
		[WORKER_DEVICE] = CLIENT_SAMPLE,
		[WORKER_VALUES] = CLIENT_SAMPLE,
		[WORKER_TEXTS] = CLIENT_SAMPLE,
		[WORKER_USERS] = CLIENT_SAMPLE,
		[WORKER_SAMPLE_END] = CLIENT_SAMPLE_END,
	};
	ssize_t n;

	*ret_news = CLIENT_NONE;
	if (c->sock < 0)
		return 0;
	do
		n = recv(c->sock, ret, sizeof *ret, MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	if (n <= 0) {
		*ret_news = CLIENT_CLOSED;
		return 0;
	}
	if (worker_msg_check(ret, (size_t)n <= sizeof *ret ? (size_t)n : 0, err) < 0)
		return -1;
	*ret_news = news[ret->head.type];
	if (*ret_news == CLIENT_NONE)
		return receive_probe_part(c, ret_news, ret, err);
	if (*ret_news == CLIENT_READ_END)
		c->reading = false;
	else if (*ret_news == CLIENT_SAMPLE_END)
		c->sampling = false;
	return 0;
}

/* --- breadcrumbs --- */

uint64_t client_period_ns(const struct nvml_client *c)
{
	uint64_t period = c->call_timeout_ns / 8;

	if (!has_pending_request(c) && period < IDLE_PERIOD_NS)
		return IDLE_PERIOD_NS;
	return period < NS_PER_MS ? NS_PER_MS : period;
}

/* The limit of one step; 0: the step may last. */
static uint64_t limit_ns(const struct nvml_client *c, enum worker_slot slot, unsigned step)
{
	switch (step) {
	case WORKER_STEP_NONE:
		return slot == WORKER_SLOT_EVENTS ? 0 : OTHER_FACTOR * c->call_timeout_ns;
	case WORKER_STEP_OPEN:
	case WORKER_STEP_SYSFS:
	case WORKER_STEP_PROCFS:
		return OTHER_FACTOR * c->call_timeout_ns;
	case NVML_CALL_nvmlInit_v2:
		return INIT_FACTOR * c->call_timeout_ns;
	case NVML_CALL_nvmlDeviceGetHandleByIndex_v2:
		return HANDLE_FACTOR * c->call_timeout_ns;
	case NVML_CALL_nvmlEventSetWait_v2:
		return WORKER_EVENTS_WAIT_MS * NS_PER_MS + OTHER_FACTOR * c->call_timeout_ns;
	default:
		return c->call_timeout_ns;
	}
}

static struct worker_crumb crumb_of(uint64_t v)
{
	/* 0 is the initial value of the page: the thread has not stored a crumb yet. */
	if (v == 0)
		return (struct worker_crumb){ .gpu = WORKER_GPU_NONE,
			.step = WORKER_STEP_NONE };
	return worker_crumb_unpack(v);
}

static bool is_gpu_crumb(struct worker_crumb b)
{
	return b.gpu < GPU_NODE_MAX && b.step != WORKER_STEP_NONE;
}

static void mark_hung_worker(struct nvml_client *c, struct worker_crumb b, bool one_call,
	uint64_t now_ns, struct error *err)
{
	const char *step = worker_step_name(b.step);
	char age[TIME_AGE_MAX];

	time_age(one_call ? c->call_timeout_ns : GPU_FACTOR * c->call_timeout_ns, age);
	if (one_call)
		(void)error_set(err, ERR_TIMEOUT, "%s did not come back in time", step);
	else
		(void)error_set(err, ERR_TIMEOUT, "its calls take more than %s, the last is %s",
			age, step);
	c->hung_gpu = is_gpu_crumb(b);
	if (c->hung_gpu)
		probe_round_mark_stuck(&c->round, b.gpu, now_ns + c->stuck_retry_ns, err->msg);
}

bool client_check(struct nvml_client *c, uint64_t now_ns, struct error *err)
{
	uint64_t dt = now_ns - c->checked_at_ns;
	uint64_t max = 2 * client_period_ns(c);

	if (!c->crumbs || now_ns < c->checked_at_ns)
		return false;
	c->checked_at_ns = now_ns;
	/* After a pause of the machine or container, dt is not the time for which the worker has hung. */
	if (dt > max)
		dt = max;
	for (size_t i = 0; i < WORKER_SLOT_COUNT_; i++) {
		struct client_watch *w = &c->watch[i];
		/* Pairs with the store in probe_crumb(). */
		uint64_t v = atomic_load_explicit(&c->crumbs->slot[i], memory_order_acquire);
		struct worker_crumb b = crumb_of(v), before = crumb_of(w->crumb);
		uint64_t limit = limit_ns(c, (enum worker_slot)i, b.step);
		bool waits = i == WORKER_SLOT_PROBE && !has_pending_request(c);

		w->still_ns = v == w->crumb ? w->still_ns + dt : 0;
		w->gpu_ns = is_gpu_crumb(b) && b.gpu == before.gpu ? w->gpu_ns + dt : 0;
		w->crumb = v;
		if (waits || limit == 0)
			continue;
		if (w->still_ns >= limit ||
			w->gpu_ns >= (uint64_t)GPU_FACTOR * c->call_timeout_ns) {
			mark_hung_worker(c, b, w->still_ns >= limit, now_ns, err);
			return true;
		}
	}
	return false;
}

/* --- end --- */

static void close_worker_channels(struct nvml_client *c)
{
	for (size_t i = 0; i < WORKER_SLOT_COUNT_ && c->crumbs; i++)
		c->last_crumbs[i] =
			atomic_load_explicit(&c->crumbs->slot[i], memory_order_acquire);
	if (c->crumbs)
		(void)munmap(c->crumbs, sizeof *c->crumbs);
	c->crumbs = NULL;
	if (c->sock >= 0)
		(void)close(c->sock);
	c->sock = -1;
	c->reading = c->sampling = false;
	probe_round_abandon(&c->round);
}

void client_kill(struct nvml_client *c)
{
	struct client_ended *e;
	struct worker_crumb b;

	close_worker_channels(c);
	if (c->pid <= 0)
		return;
	(void)kill(c->pid, SIGKILL);
	if (waitpid(c->pid, NULL, WNOHANG) == 0) {
		e = calloc(1, sizeof *e);
		/* Without memory the client forgets a process that is about to end anyway. */
		if (e && c->n_ended < CLIENT_ENDED_MAX) {
			e->pid = c->pid;
			b = crumb_of(c->last_crumbs[WORKER_SLOT_PROBE]);
			if (is_gpu_crumb(b))
				e->hung_on[b.gpu] = true;
			c->ended[c->n_ended++] = e;
		} else {
			free(e);
		}
	}
	c->pid = 0;
}

bool client_reap(struct nvml_client *c)
{
	for (size_t i = 0; i < c->n_ended;) {
		if (waitpid(c->ended[i]->pid, NULL, WNOHANG) == 0) {
			i++;
			continue;
		}
		free(c->ended[i]);
		c->ended[i] = c->ended[--c->n_ended];
	}
	return c->n_ended == 0;
}

bool client_collect(struct nvml_client *c, int *ret_status)
{
	int status = 0;

	if (c->pid <= 0 || waitpid(c->pid, &status, WNOHANG) == 0)
		return false;
	c->pid = 0;
	close_worker_channels(c);
	*ret_status = status;
	return true;
}

bool client_status_text(int status, char *ret, size_t cap)
{
	if (!WIFSIGNALED(status)) {
		(void)snprintf(ret, cap, "exited with status %d", WEXITSTATUS(status));
		return true;
	}
	(void)snprintf(ret, cap, "ended by signal %d (%s)", WTERMSIG(status),
		strsignal(WTERMSIG(status)));
	return WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM;
}

bool client_crashed(struct nvml_client *c, const char *how, bool blame, uint64_t now_ns,
	struct error *err)
{
	struct worker_crumb b = crumb_of(c->last_crumbs[WORKER_SLOT_PROBE]);
	struct worker_crumb events = crumb_of(c->last_crumbs[WORKER_SLOT_EVENTS]);
	struct probe_round_mark *m;

	/* The crash may come from either thread. A call on a GPU is the more likely cause. */
	if (b.step == WORKER_STEP_NONE || (!is_gpu_crumb(b) && is_gpu_crumb(events)))
		b = events;
	if (b.step == WORKER_STEP_NONE)
		(void)error_set(err, ERR_UNAVAILABLE, "the NVML worker %s", how);
	else
		(void)error_set(err, ERR_UNAVAILABLE, "the NVML worker %s in %s", how,
			worker_step_name(b.step));
	if (!blame || !is_gpu_crumb(b))
		return false;
	m = &c->round.marks[b.gpu];
	if (m->stuck || ++m->crashes < 2)
		return false;
	probe_round_mark_stuck(&c->round, b.gpu, now_ns + c->stuck_retry_ns, err->msg);
	return true;
}
