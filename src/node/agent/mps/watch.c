/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/watch.h"

#include "node/agent/mps/supervisor.h"
#include "lib/base/backoff.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES             16384
#define READ_MAX               (64 << 10) /* bytes per mps_watch_read() */
#define LOOK_MAX               32         /* clients added per mps_watch_read() */
#define MPS_REPORT_BURST       5          /* reports at once */
#define MPS_REPORT_PER_NS      (60 * NS_PER_SEC)
#define MPS_LOG_TRUNCATE_BYTES (1 << 20)         /* a longer log is truncated once it is read */
#define KILLED_NS              (500 * NS_PER_MS) /* from a client's end to the fault that it causes */
#define FAULT_REPORT_NS        (300 * NS_PER_MS) /* all lines of a fault come within this time */
#define HINT_NS                (300 * NS_PER_MS) /* first pause between checks because of the log */
#define HINT_MAX_NS            (10 * NS_PER_SEC) /* longest pause: a check in vain doubles it */
#define HINT_RETAIN_NS         (60 * NS_PER_SEC) /* the pause is HINT_NS after so long without one */

/* --- the log against the daemon's answers --- */

static bool has_mps_server(const struct mps_supervisor *sup, uint32_t pid)
{
	for (uint32_t i = 0; i < sup->n_servers; i++)
		if (sup->servers[i] == pid)
			return true;
	return false;
}

static void unmark_faulted(struct mps_supervisor *sup)
{
	for (uint32_t i = 0; i < sup->clients.n; i++)
		sup->clients.v[i].faulted = false;
}

static bool has_marked_faulted(const struct mps_supervisor *sup)
{
	for (uint32_t i = 0; i < sup->clients.n; i++)
		if (sup->clients.v[i].faulted)
			return true;
	return false;
}

static void on_fault(struct mps_supervisor *sup, uint32_t named)
{
	if (named && sup->watch.fault.pending)
		sup->watch.fault.named_pid =
			sup->watch.fault.named_pid ? sup->watch.fault.named_pid : named;
	if (sup->watch.fault.pending)
		return;
	unmark_faulted(sup);
	sup->watch.fault =
		(struct mps_fault){ .pending = true, .named_pid = named, .ns = time_mono_ns() };
	sup->watch.report_at_ns = sup->watch.fault.ns + FAULT_REPORT_NS;
}

/* A fault whose lines the log does not have: all connected clients count as hit. */
static void assume_fault(struct mps_supervisor *sup)
{
	on_fault(sup, 0);
	sup->watch.fault.found_late = sup->found;
	for (uint32_t i = 0; i < sup->clients.n; i++)
		sup->clients.v[i].faulted = sup->clients.v[i].connected;
}

/* A list without a fault before it is no list of the server. */
static void on_client_faulted(struct mps_supervisor *sup, uint32_t pid)
{
	struct mps_client *c = mps_clients_find(&sup->clients, pid);

	if (!sup->watch.fault.pending)
		return;
	if (!c && sup->watch.n_added++ < LOOK_MAX)
		c = mps_clients_add(&sup->clients, pid);
	if (c)
		c->faulted = true;
}

/* Client processes can write to the log, so the reports are limited. */
static bool may_report_log_event(struct mps_supervisor *sup)
{
	return log_limit_pass(&sup->watch.report_limit, time_mono_ns(), MPS_REPORT_PER_NS,
		MPS_REPORT_BURST);
}

static void on_server_died(struct mps_supervisor *sup, uint32_t pid)
{
	sup->counts.server_deaths++;
	if (may_report_log_event(sup)) {
		log_warn("an MPS server died, its clients end", LOG_STR("daemon", sup->key),
			LOG_UINT("pid", pid),
			LOG_UINT("clients", mps_clients_count(&sup->clients)));
		report_event(sup->mps->c.reporter, EVENT_WARNING, "MPSServerDied",
			"the MPS server of %s (process %u) died, and its %u clients with it",
			sup->desired.uuids.n ? sup->desired.uuids.v[0] : sup->key, pid,
			mps_clients_count(&sup->clients));
	}
	mps_watch_report_lost(sup, "MPSServerDied", "the MPS server of its GPU died");
	mps_clients_set(&sup->clients, NULL, 0);
	if (sup->state == MPS_READY || sup->state == MPS_FAULTED)
		mps_supervisor_enter(sup, MPS_SERVER,
			"the MPS server died, another one is being started");
}

/* A claim of the log was true and changed the state: the next one is checked at once again. */
static void end_hint_pause(struct mps_supervisor *sup)
{
	sup->watch.vain_checks = 0;
	sup->watch.check_at_ns = 0;
}

bool mps_watch_needs_check(const struct mps_supervisor *sup)
{
	bool hinted =
		sup->state == MPS_SERVER
			? sup->watch.hints.ready_pid || sup->watch.hints.server_exited
			: sup->watch.hints.ready_pid || sup->watch.hints.exited_pid ||
				  (sup->watch.fault.pending && !sup->watch.fault.confirmed);

	return hinted && time_mono_ns() >= sup->watch.check_at_ns;
}

void mps_watch_begin_check(struct mps_supervisor *sup)
{
	uint64_t now = time_mono_ns();

	sup->check.began_ns = now;
	if (mps_watch_needs_check(sup)) {
		if (now - sup->watch.check_at_ns >= HINT_RETAIN_NS)
			sup->watch.vain_checks = 0;
		sup->watch.check_at_ns =
			now + backoff_doubled(HINT_NS, HINT_MAX_NS, sup->watch.vain_checks++);
	}
	/* A check without an answer leaves its hints to the next one. */
	if (sup->watch.hints.ready_pid)
		sup->check.hints.ready_pid = sup->watch.hints.ready_pid;
	sup->check.hints.server_exited |= sup->watch.hints.server_exited;
	if (sup->watch.hints.exited_pid)
		sup->check.hints.exited_pid = sup->watch.hints.exited_pid;
	sup->watch.hints = (struct mps_hints){ .exited_pid = 0 };
}

void mps_watch_check_servers(struct mps_supervisor *sup)
{
	uint32_t pid = sup->check.hints.exited_pid;

	if (has_mps_server(sup, sup->check.hints.ready_pid))
		end_hint_pause(sup);
	sup->check.hints = (struct mps_hints){ .exited_pid = 0 };
	if (!pid)
		return;
	if (has_mps_server(sup, pid)) {
		log_debug("the MPS log reports the end of a server that is there",
			LOG_STR("daemon", sup->key), LOG_UINT("pid", pid));
		return;
	}
	end_hint_pause(sup);
	/* A client may have caused the start of the next server already. */
	sup->watch.hints.ready_pid = sup->n_servers > 0 ? sup->servers[0] : 0;
	on_server_died(sup, pid);
}

static void confirm_fault(struct mps_supervisor *sup)
{
	if (sup->watch.fault.confirmed)
		return;
	sup->watch.fault.confirmed = true;
	sup->counts.faults++;
	if (!sup->check.has_server_fault || sup->state != MPS_READY)
		return;
	end_hint_pause(sup);
	sup->watch.fault_is_over = false;
	mps_supervisor_enter(sup, MPS_FAULTED,
		"a fatal fault of one client ended all clients of this GPU; MPS takes new "
		"ones when all of them are gone");
}

/*
 * A server has the status FAULT until the last client that the fault hit has ended (measured with driver 580). So
 * without that status, and if no client that it hit is left, the fault is over, or lines of ended clients are
 * forged. If one is left there was no fault.
 */
static void check_fault_lines(struct mps_supervisor *sup)
{
	if (!sup->watch.fault.pending || sup->watch.fault.confirmed ||
		sup->check.began_ns < sup->watch.report_at_ns)
		return;
	if (has_marked_faulted(sup) && mps_clients_count_faulted(&sup->clients) == 0) {
		confirm_fault(sup);
		return;
	}
	log_debug("the MPS log reports a fault that no server has",
		LOG_STR("daemon", sup->key));
	sup->watch.fault.pending = false;
	unmark_faulted(sup);
}

void mps_watch_end_check(struct mps_supervisor *sup, bool has_server_fault)
{
	bool is_new = has_server_fault && !sup->check.has_server_fault;

	sup->check.has_server_fault = has_server_fault;
	/* A killed server has that status, too, for a moment, and no clients. */
	if (is_new && !sup->watch.fault.pending && mps_clients_count(&sup->clients) > 0)
		assume_fault(sup);
	sup->found = false;
	if (has_server_fault && sup->watch.fault.pending)
		confirm_fault(sup);
	else
		check_fault_lines(sup);
	sup->watch.fault_is_over = sup->state == MPS_FAULTED && !has_server_fault;
}

/* --- events of the log --- */

static void on_mps_log_event(void *arg, const struct mps_log_event *e)
{
	struct mps_supervisor *sup = arg;

	switch (e->kind) {
	case MPS_LOG_CONNECTED:
		sup->check.has_no_client = false;
		/* The next check finds the clients beyond this limit. */
		if (sup->watch.n_added++ < LOOK_MAX)
			(void)mps_clients_add(&sup->clients, e->pid);
		break;
	case MPS_LOG_DISCONNECTED:
		mps_clients_remove(&sup->clients, e->pid);
		break;
	case MPS_LOG_FAULT:
	case MPS_LOG_NAMED:
		on_fault(sup, e->pid);
		break;
	case MPS_LOG_CLIENT_FAULTED:
		on_client_faulted(sup, e->pid);
		break;
	case MPS_LOG_SERVER_READY:
		if (sup->state == MPS_SERVER || !has_mps_server(sup, e->pid))
			sup->watch.hints.ready_pid = e->pid;
		break;
	case MPS_LOG_SERVER_ENDED:
		break;
	case MPS_LOG_SERVER_DIED:
		sup->watch.hints.server_exited = true;
		if (has_mps_server(sup, e->pid))
			sup->watch.hints.exited_pid = e->pid;
		break;
	case MPS_LOG_COMPLAINT:
		(void)snprintf(sup->watch.complaint, sizeof(sup->watch.complaint), "%s",
			e->text);
		break;
	}
}

/* --- the log file --- */

static void report_log_complaint(struct mps_supervisor *sup, const char *data, size_t len)
{
	/* A program that fails to start writes lines without a date. */
	if (sup->state != MPS_STARTING || len == 0 || data[0] == '[')
		return;
	(void)snprintf(sup->watch.complaint, sizeof(sup->watch.complaint), "%.*s",
		(int)strcspn(data, "\n") < (int)len ? (int)strcspn(data, "\n") : (int)len,
		data);
}

/* The log is read to its end: only a line written at this moment is lost. */
static void truncate_read_log(struct mps_supervisor *sup, int fd)
{
	struct stat st;

	if (sup->watch.offset < MPS_LOG_TRUNCATE_BYTES || fstat(fd, &st) < 0 ||
		(uint64_t)st.st_size != sup->watch.offset)
		return;
	if (ftruncate(fd, 0) == 0)
		sup->watch.offset = 0;
}

bool mps_watch_read(struct mps_supervisor *sup)
{
	CLEANUP(closep) int fd = -1;
	char data[READ_BYTES + 1];
	size_t all = 0;
	struct stat st;

	if (!sup->watch.open)
		return false;
	fd = open(sup->dir.log, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	if ((uint64_t)st.st_size < sup->watch.offset)
		sup->watch.offset = 0; /* another process truncated the log */
	while (all < READ_MAX) {
		ssize_t n = pread(fd, data, READ_BYTES, (off_t)sup->watch.offset);

		if (n <= 0)
			break;
		data[n] = '\0';
		sup->watch.offset += (uint64_t)n;
		all += (size_t)n;
		report_log_complaint(sup, data, (size_t)n);
		mps_log_feed(&sup->watch.log, data, (size_t)n, on_mps_log_event, sup);
	}
	truncate_read_log(sup, fd);
	sup->watch.n_added = 0;
	mps_identify_next(sup);
	return all >= READ_MAX;
}

static void on_change(uv_fs_event_t *h, const char *name, int events, int status)
{
	struct mps_supervisor *sup = h->data;
	uint32_t clients = mps_clients_count(&sup->clients);
	bool more;

	(void)name;
	(void)events;
	(void)status;
	more = mps_watch_read(sup);
	/* A fault and a drain wait for the last client's end. */
	if (more || mps_clients_count(&sup->clients) < clients || mps_watch_needs_check(sup))
		mps_supervisor_step(sup);
}

void mps_watch_truncate_log(struct mps_supervisor *sup)
{
	if (truncate(sup->dir.log, 0) < 0 && errno != ENOENT)
		log_debug("MPS log not truncated", LOG_STR("file", sup->dir.log));
	sup->watch.offset = 0;
	mps_log_fini(&sup->watch.log);
	mps_log_init(&sup->watch.log);
}

/* Of an adopted daemon's log only new lines are read. The first check finds its clients. */
void mps_watch_start(struct mps_supervisor *sup)
{
	struct stat st;
	int fd = open(sup->dir.log, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

	closep(&fd);
	if (sup->state != MPS_STARTING)
		sup->watch.offset = stat(sup->dir.log, &st) == 0 ? (uint64_t)st.st_size : 0;
	sup->watch.open = true;
	(void)uv_fs_event_start(&sup->watch.event, on_change, sup->dir.log, 0);
}

void mps_watch_stop(struct mps_supervisor *sup)
{
	sup->watch.open = false;
	(void)uv_fs_event_stop(&sup->watch.event);
}

/* --- reports --- */

#define CLIENT_TEXT_MAX 400 /* a program, a namespace and a pod */

/* A copy of the facts to report, kept while the kubelet answers which pod has which device. */
struct mps_fault_report {
	struct mps *mps;
	char key[MPS_KEY_MAX], gpu[GPU_UUID_MAX];
	char reason[64], what[ERROR_MSG_MAX];
	uint32_t named; /* PID that MPS names in a fault; 0: none */
	bool fault, found_late;
	struct mps_client killed; /* client that was probably killed; .pid 0: none */
	struct mps_client *v;
	uint32_t n;
};

static void name_client(const struct mps_client *c, const struct pod_devices *pod_devices,
	char ret[CLIENT_TEXT_MAX])
{
	struct event_about pod;

	if (mps_client_pod(c, pod_devices, &pod))
		(void)snprintf(ret, CLIENT_TEXT_MAX, "%s of pod %s/%s (process %u)", c->name,
			pod.namespace_, pod.pod, c->pid);
	else
		(void)snprintf(ret, CLIENT_TEXT_MAX, "%s (process %u)",
			*c->name ? c->name : "a program", c->pid);
}

/*
 * What is known of the client that caused the fault. MPS does not know it: it names the first client that it
 * examined.
 */
static void describe_culprit(const struct mps_fault_report *s,
	const struct pod_devices *pod_devices, char ret[ERROR_MSG_MAX])
{
	char who[CLIENT_TEXT_MAX] = "";

	for (uint32_t i = 0; i < s->n; i++)
		if (s->v[i].pid == s->named || s->n == 1)
			name_client(&s->v[i], pod_devices, who);
	if (s->killed.pid)
		name_client(&s->killed, pod_devices, who);
	if (s->found_late)
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

static void report_fault_to_pods(const struct mps_fault_report *s,
	const struct pod_devices *pod_devices, const char *culprit)
{
	for (uint32_t i = 0; i < s->n; i++) {
		struct event_about pod;

		if (mps_client_pod(&s->v[i], pod_devices, &pod))
			report_pod_event(s->mps->c.reporter, &pod, EVENT_WARNING, s->reason,
				"%s: process %u (%s) has lost its GPU work%s%s", s->what,
				s->v[i].pid, s->v[i].name, *culprit ? "; " : "", culprit);
	}
}

static void on_mps_report_pod_devices(void *arg, const struct pod_devices *list,
	const struct error *err)
{
	struct mps_fault_report *s = arg;
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
	report_fault_to_pods(s, list, culprit);
	free(s->v);
	free(s);
}

/* The client, with the devices of its environment only if they are this daemon's. */
static struct mps_client own_client(const struct mps_supervisor *sup,
	const struct mps_client *c)
{
	struct mps_client own = *c;
	size_t len = device_id_physical_len(own.devices);

	for (size_t i = 0; i < sup->desired.uuids.n; i++)
		if (strlen(sup->desired.uuids.v[i]) == len &&
			!strncmp(sup->desired.uuids.v[i], own.devices, len))
			return own;
	own.devices[0] = '\0';
	return own;
}

static void report_mps_clients_lost(struct mps_supervisor *sup, bool fault, const char *reason,
	const char *what)
{
	const struct mps_client *gone;
	struct mps_fault_report *s =
		sup->stopping || !may_report_log_event(sup) ? NULL : calloc(1, sizeof(*s));

	if (!s)
		return;
	s->v = calloc(sup->clients.n ? sup->clients.n : 1, sizeof(*s->v));
	for (uint32_t i = 0; s->v && i < sup->clients.n; i++)
		if (fault ? sup->clients.v[i].faulted : sup->clients.v[i].connected)
			s->v[s->n++] = own_client(sup, &sup->clients.v[i]);
	s->mps = sup->mps;
	s->fault = fault;
	s->found_late = fault && sup->watch.fault.found_late;
	s->named = fault ? sup->watch.fault.named_pid : 0;
	gone = fault ? mps_clients_last_disconnected(&sup->clients,
			       sup->watch.fault.ns - KILLED_NS)
		     : NULL;
	if (gone && gone->disconnected_ns <= sup->watch.fault.ns + KILLED_NS)
		s->killed = own_client(sup, gone);
	memcpy(s->key, sup->key, sizeof(s->key));
	(void)snprintf(s->gpu, sizeof(s->gpu), "%s",
		sup->desired.uuids.n ? sup->desired.uuids.v[0] : sup->key);
	(void)snprintf(s->reason, sizeof(s->reason), "%s", reason);
	(void)snprintf(s->what, sizeof(s->what), "%s", what);
	sup->mps->c.ops->request_pod_devices(sup->mps->c.arg, on_mps_report_pod_devices, s);
}

void mps_watch_report_lost(struct mps_supervisor *sup, const char *reason, const char *what)
{
	if (mps_clients_count(&sup->clients) > 0)
		report_mps_clients_lost(sup, false, reason, what);
}

bool mps_watch_report_fault(struct mps_supervisor *sup, bool now)
{
	if (!sup->watch.fault.pending || (!now && !sup->watch.fault.confirmed))
		return false;
	if (!now && time_mono_ns() < sup->watch.report_at_ns)
		return true;
	if (!sup->watch.fault.confirmed) /* the daemon has ended, and cannot be asked */
		sup->counts.faults++;
	sup->watch.fault.pending = false;
	report_mps_clients_lost(sup, true, "MPSClientFault",
		"a fatal fault of an MPS client on its GPU");
	return false;
}
