/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/unit.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES   16384
#define READ_MAX     (64 << 10) /* at a time */
#define LOOK_MAX     32         /* clients that are looked into for that */
#define TELL_BURST   5          /* stories */
#define TELL_PER_NS  (60 * NS_PER_SEC)
#define LOG_KEEP_MAX (1 << 20)         /* a longer log is cut off when it has been read */
#define KILLED_NS    (500 * NS_PER_MS) /* from a client's end to the fault that it was */
#define STORY_NS     (300 * NS_PER_MS) /* all lines of a fault come within that */

/* --- what the log says --- */

static void on_fault(struct mps_unit *u, uint32_t named)
{
	if (named && u->fault.open)
		u->fault.named = u->fault.named ? u->fault.named : named;
	if (u->fault.open)
		return;
	for (uint32_t i = 0; i < u->clients.n; i++)
		u->clients.v[i].hit = false;
	u->fault = (struct mps_fault){ .open = true, .named = named, .ns = time_mono_ns() };
	u->fault_told_at_ns = u->fault.ns + STORY_NS;
	u->faults++;
	if (u->state == MPS_READY || u->state == MPS_SETTING) {
		u->checked_ns = time_mono_ns();
		unit_enter(u, MPS_FAULTED,
			"a fatal fault of one client ended all clients of this GPU; MPS takes new "
			"ones when all of them are gone");
	}
}

void watch_found_fault(struct mps_unit *u)
{
	on_fault(u, 0);
	u->fault.late = true;
	for (uint32_t i = 0; i < u->clients.n; i++)
		u->clients.v[i].hit = u->clients.v[i].here;
}

static void on_hit(struct mps_unit *u, uint32_t pid)
{
	struct mps_client *c = mps_clients_find(&u->clients, pid);

	if (!c && u->looked++ < LOOK_MAX)
		c = mps_clients_add(&u->clients, pid);
	if (c)
		c->hit = true;
}

/* Whoever has the pipe directory can write to the log: not without end. */
static bool may_tell(struct mps_unit *u)
{
	return log_limit_pass(&u->told_limit, time_mono_ns(), TELL_PER_NS, TELL_BURST);
}

static void on_server_died(struct mps_unit *u, uint32_t pid)
{
	if (u->state == MPS_SERVER) {
		unit_no_server(u, "ended at its start");
		return;
	}
	u->server_deaths++;
	if (may_tell(u)) {
		log_warn("an MPS server died, its clients end", LOG_STR("daemon", u->key),
			LOG_UINT("pid", pid),
			LOG_UINT("clients", mps_clients_count(&u->clients)));
		report_event(u->mps->c.reporter, EVENT_WARNING, "MPSServerDied",
			"the MPS server of %s (process %u) died, and its %u clients with it",
			u->want.uuids.n ? u->want.uuids.v[0] : u->key, pid,
			mps_clients_count(&u->clients));
	}
	watch_tell_lost(u, "MPSServerDied", "the MPS server of its GPU died");
	mps_clients_set(&u->clients, NULL, 0);
	if (u->state == MPS_READY || u->state == MPS_FAULTED || u->state == MPS_SETTING)
		unit_enter(u, MPS_SERVER, "the MPS server died, another one is being started");
}

static void on_server_ready(struct mps_unit *u)
{
	bool again = u->was_ready;

	if (u->state != MPS_SERVER)
		return;
	if (u->told.percent == 0) {
		unit_enter(u, MPS_SETTING, "limits are being set");
		return;
	}
	unit_ready(u);
	if (again)
		report_event(u->mps->c.reporter, EVENT_NORMAL, "MPSRecovered",
			"MPS of %s has a new server",
			u->want.uuids.n ? u->want.uuids.v[0] : u->key);
}

static void on_event(void *arg, const struct mps_log_event *e)
{
	struct mps_unit *u = arg;

	switch (e->kind) {
	case MPS_LOG_CONNECTED:
		u->answered_none = false;
		/* Those beyond are found when the daemon is asked. */
		if (u->looked++ < LOOK_MAX)
			(void)mps_clients_add(&u->clients, e->pid);
		break;
	case MPS_LOG_GONE:
		mps_clients_remove(&u->clients, e->pid);
		break;
	case MPS_LOG_FAULT:
	case MPS_LOG_NAMED:
		on_fault(u, e->pid);
		break;
	case MPS_LOG_HIT:
		on_hit(u, e->pid);
		break;
	case MPS_LOG_SERVER_READY:
		on_server_ready(u);
		break;
	case MPS_LOG_SERVER_ENDED:
		break;
	case MPS_LOG_SERVER_DIED:
		on_server_died(u, e->pid);
		break;
	case MPS_LOG_COMPLAINT:
		(void)snprintf(u->complaint, sizeof(u->complaint), "%s", e->text);
		break;
	}
}

/* --- its file --- */

static void take_plain(struct mps_unit *u, const char *data, size_t len)
{
	/* What a program says that did not even start has no date before it. */
	if (u->state != MPS_STARTING || len == 0 || data[0] == '[')
		return;
	(void)snprintf(u->complaint, sizeof(u->complaint), "%.*s",
		(int)strcspn(data, "\n") < (int)len ? (int)strcspn(data, "\n") : (int)len,
		data);
}

/* Its end has been read: nothing is lost but what is written in this moment. */
static void cut_off(struct mps_unit *u, int fd)
{
	struct stat st;

	if (u->log_at < LOG_KEEP_MAX || fstat(fd, &st) < 0 || (uint64_t)st.st_size != u->log_at)
		return;
	if (ftruncate(fd, 0) == 0)
		u->log_at = 0;
}

bool watch_read(struct mps_unit *u)
{
	CLEANUP(closep) int fd = -1;
	char data[READ_BYTES + 1];
	size_t all = 0;
	struct stat st;

	if (!u->log_watched)
		return false;
	fd = open(u->place.log, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	if ((uint64_t)st.st_size < u->log_at)
		u->log_at = 0; /* somebody cut it off */
	while (all < READ_MAX) {
		ssize_t n = pread(fd, data, READ_BYTES, (off_t)u->log_at);

		if (n <= 0)
			break;
		data[n] = '\0';
		u->log_at += (uint64_t)n;
		all += (size_t)n;
		take_plain(u, data, (size_t)n);
		mps_log_feed(&u->log, data, (size_t)n, on_event, u);
	}
	cut_off(u, fd);
	u->looked = 0;
	who_next(u);
	return all >= READ_MAX;
}

static void on_change(uv_fs_event_t *h, const char *name, int events, int status)
{
	struct mps_unit *u = h->data;
	enum mps_state before = u->state;
	uint32_t clients = mps_clients_count(&u->clients);
	bool more;

	(void)name;
	(void)events;
	(void)status;
	more = watch_read(u);
	/* The last client's end is what a fault and a drain wait for. */
	if (more || u->state != before || mps_clients_count(&u->clients) < clients)
		unit_next(u);
}

void watch_truncate(struct mps_unit *u)
{
	if (truncate(u->place.log, 0) < 0 && errno != ENOENT)
		log_debug("MPS log not truncated", LOG_STR("file", u->place.log));
	u->log_at = 0;
	mps_log_fini(&u->log);
	mps_log_init(&u->log);
}

/* Of one that was there before only what is new is read: who its clients are is asked. */
void watch_begin(struct mps_unit *u)
{
	struct stat st;
	int fd = open(u->place.log, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

	closep(&fd);
	if (u->state != MPS_STARTING)
		u->log_at = stat(u->place.log, &st) == 0 ? (uint64_t)st.st_size : 0;
	u->log_watched = true;
	(void)uv_fs_event_start(&u->log_event, on_change, u->place.log, 0);
}

void watch_end(struct mps_unit *u)
{
	u->log_watched = false;
	(void)uv_fs_event_stop(&u->log_event);
}

/* --- telling people --- */

#define WHO_MAX 400 /* a program, a namespace and a pod */

/* A copy of what is to be told, as the kubelet is asked first who is who. */
struct story {
	struct mps *mps;
	char key[MPS_KEY_MAX], gpu[GPU_UUID_MAX];
	char reason[64], what[ERROR_MSG_MAX];
	uint32_t named; /* of a fault; 0 */
	bool fault, late;
	struct mps_client killed; /* .pid 0: none */
	struct mps_client *v;
	uint32_t n;
};

static void name_client(const struct mps_client *c, const struct pod_devices *holders,
	char ret[WHO_MAX])
{
	struct event_about pod;

	if (mps_client_pod(c, holders, &pod))
		(void)snprintf(ret, WHO_MAX, "%s of pod %s/%s (process %u)", c->name,
			pod.namespace_, pod.pod, c->pid);
	else
		(void)snprintf(ret, WHO_MAX, "%s (process %u)",
			*c->name ? c->name : "a program", c->pid);
}

/* What is known of who it was. MPS does not know: what it names is the first that it looked at. */
static void describe_culprit(const struct story *s, const struct pod_devices *holders,
	char ret[ERROR_MSG_MAX])
{
	char who[WHO_MAX] = "";

	for (uint32_t i = 0; i < s->n; i++)
		if (s->v[i].pid == s->named || s->n == 1)
			name_client(&s->v[i], holders, who);
	if (s->killed.pid)
		name_client(&s->killed, holders, who);
	if (s->late)
		(void)snprintf(ret, ERROR_MSG_MAX,
			"who it was is not known, as gpusliced did not run then");
	else if (s->killed.pid)
		(void)snprintf(ret, ERROR_MSG_MAX,
			"it was most likely %s, which had ended just before: MPS does not bear "
			"that a client is killed in the middle of its GPU work",
			who);
	else if (s->n == 1)
		(void)snprintf(ret, ERROR_MSG_MAX, "it was %s, the only client", who);
	else if (*who)
		(void)snprintf(ret, ERROR_MSG_MAX,
			"MPS names %s, which it saw first; it may have been another of the %u",
			who, s->n);
	else
		(void)snprintf(ret, ERROR_MSG_MAX,
			"MPS does not name who of the %u clients it was", s->n);
}

static void tell_pods(const struct story *s, const struct pod_devices *holders,
	const char *culprit)
{
	for (uint32_t i = 0; i < s->n; i++) {
		struct event_about pod;

		if (mps_client_pod(&s->v[i], holders, &pod))
			report_pod_event(s->mps->c.reporter, &pod, EVENT_WARNING, s->reason,
				"%s: process %u (%s) has lost its GPU work%s%s", s->what,
				s->v[i].pid, s->v[i].name, *culprit ? "; " : "", culprit);
	}
}

static void on_holders(void *arg, const struct pod_devices *list, const struct error *err)
{
	struct story *s = arg;
	char culprit[ERROR_MSG_MAX] = "";

	(void)err;
	if (s->fault) {
		describe_culprit(s, list, culprit);
		log_warn("a fatal fault ended all MPS clients of a GPU",
			LOG_STR("daemon", s->key), LOG_UINT("clients", s->n),
			LOG_STR("who", culprit));
		report_event(s->mps->c.reporter, EVENT_WARNING, s->reason,
			"a fatal fault ended all %u MPS clients of %s; %s", s->n, s->gpu,
			culprit);
	}
	tell_pods(s, list, culprit);
	free(s->v);
	free(s);
}

/* What its environment says is believed of this daemon's devices only. */
static struct mps_client own_client(const struct mps_unit *u, const struct mps_client *c)
{
	struct mps_client own = *c;
	size_t len = device_id_physical_len(own.devices);

	for (size_t i = 0; i < u->want.uuids.n; i++)
		if (strlen(u->want.uuids.v[i]) == len &&
			!strncmp(u->want.uuids.v[i], own.devices, len))
			return own;
	own.devices[0] = '\0';
	return own;
}

static void tell(struct mps_unit *u, bool fault, const char *reason, const char *what)
{
	const struct mps_client *gone;
	struct story *s = u->stopping || !may_tell(u) ? NULL : calloc(1, sizeof(*s));

	if (!s)
		return;
	s->v = calloc(u->clients.n ? u->clients.n : 1, sizeof(*s->v));
	for (uint32_t i = 0; s->v && i < u->clients.n; i++)
		if (fault ? u->clients.v[i].hit : u->clients.v[i].here)
			s->v[s->n++] = own_client(u, &u->clients.v[i]);
	s->mps = u->mps;
	s->fault = fault;
	s->late = fault && u->fault.late;
	s->named = fault ? u->fault.named : 0;
	gone = fault ? mps_clients_last_gone(&u->clients, u->fault.ns - KILLED_NS) : NULL;
	if (gone && gone->gone_ns <= u->fault.ns + KILLED_NS)
		s->killed = own_client(u, gone);
	memcpy(s->key, u->key, sizeof(s->key));
	(void)snprintf(s->gpu, sizeof(s->gpu), "%s",
		u->want.uuids.n ? u->want.uuids.v[0] : u->key);
	(void)snprintf(s->reason, sizeof(s->reason), "%s", reason);
	(void)snprintf(s->what, sizeof(s->what), "%s", what);
	u->mps->c.ops->ask_holders(u->mps->c.arg, on_holders, s);
}

void watch_tell_lost(struct mps_unit *u, const char *reason, const char *what)
{
	if (mps_clients_count(&u->clients) > 0)
		tell(u, false, reason, what);
}

bool watch_fault(struct mps_unit *u, bool now)
{
	if (!u->fault.open)
		return false;
	if (!now && time_mono_ns() < u->fault_told_at_ns)
		return true;
	u->fault.open = false;
	tell(u, true, "MPSClientFault", "a fatal fault of an MPS client on its GPU");
	return false;
}
