/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/mps/server/server.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "testbed/sim/mps/command.h"
#include "testbed/sim/mps/link.h"
#include "testbed/sim/mps/log.h"
#include "testbed/sim/location.h"

#define POLLS_MAX (2 + MPS_CLIENTS_MAX + MPS_CONTEXTS_MAX * MPS_DEVICES_MAX)

/* --- answers to commands --- */

#define ROW "%-10s%-10s%-15s%-26s%-15s%-15s\n"
/* Characters of a UUID in `ps`. */
#define UUID_SHOWN 21

/* The lists are newest first. The answer is oldest first. */
static void each_process(const struct process *p, struct buf *b)
{
	if (!p)
		return;
	each_process(p->next, b);
	buf_printf(b, "%d\n", (int)p->pid);
}

static const struct server_context *first_context(const struct mps_server_state *s,
	const struct process *p)
{
	const struct server_context *found = NULL;

	for (const struct server_context *c = s->contexts; c; c = c->next)
		if (c->process == p)
			found = c;
	return found;
}

static void table_row(const struct mps_server_state *s, const struct process *p, struct buf *b)
{
	const struct server_context *c;
	char pid[16], id[16], server[16], device[32] = "", ns[32];

	if (!p)
		return;
	table_row(s, p->next, b);
	c = first_context(s, p);
	(void)snprintf(pid, sizeof(pid), "%d", (int)p->pid);
	(void)snprintf(id, sizeof(id), "%u", p->number);
	(void)snprintf(server, sizeof(server), "%d", (int)getpid());
	if (c)
		(void)snprintf(device, sizeof(device), "%.*s", UUID_SHOWN,
			s->devices[c->device].uuid);
	(void)snprintf(ns, sizeof(ns), "%" PRIu64, p->pid_namespace);
	buf_printf(b, ROW, pid, id, server, device, ns, p->name);
}

/* The oldest, then the others, newest first, as in the log of a fault. */
static void device_clients(const struct mps_server_state *s, uint32_t device, struct buf *b)
{
	const struct server_context *first = NULL;

	buf_printf(b, "[%u] 00:00.0, %s\n", device, s->devices[device].name);
	for (const struct server_context *c = s->contexts; c; c = c->next)
		if (c->device == device)
			first = c;
	for (int pass = 0; pass < 2; pass++)
		for (const struct server_context *c = s->contexts; c; c = c->next)
			if (c->device == device && (c == first) == (pass == 0))
				buf_printf(b, "%d.%u\n", (int)c->process->pid, c->number);
}

/* Renders the answer to a command. */
static void text_render_reply(struct mps_server_state *s, const char *command, char *ret,
	size_t cap)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MPS_TEXT_MAX - 1);
	struct sim_mps_command c;

	mps_command_parse(&c, command);
	switch ((int)c.id) {
	case MPS_CMD_GET_CLIENTS:
		each_process(s->processes, &b);
		break;
	case MPS_CMD_GET_DEVICES:
		for (uint32_t i = 0; i < s->device_count; i++)
			device_clients(s, i, &b);
		break;
	case MPS_CMD_PS:
		buf_printf(&b, ROW, "PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND");
		table_row(s, s->processes, &b);
		break;
	case MPS_CMD_TERMINATE:
		if (client_terminate(s, (pid_t)c.client))
			buf_puts(&b, "0\n");
		else
			buf_printf(&b, "Client %u not found\n", c.client);
		break;
	default:
		break;
	}
	(void)snprintf(ret, cap, "%s", buf_str(&b));
}

/* --- the server --- */

void server_send_state(struct mps_server_state *s)
{
	struct mps_packet p = { .op = MPS_STATE,
		.status = s->faulted ? MPS_FAULT : MPS_ACTIVE };

	if (s->control >= 0)
		(void)mps_send(s->control, &p, -1, MSG_DONTWAIT);
}

static void settings_changed(struct mps_server_state *s, const struct mps_settings *now)
{
	char percent[16];

	mps_percent_format(now->percent, percent, sizeof(percent));
	if (!s->began) /* of a later change NVIDIA's server logs only limits */
		mps_log(s->log, "Server", "Active Threads Percentage set to %s", percent);
	for (uint32_t i = 0; i < MPS_DEVICES_MAX; i++)
		if (s->settings.limits[i] != now->limits[i])
			mps_log(s->log, "Server",
				"Device pinned memory limit for device %u set to 0x%llx bytes",
				i, (unsigned long long)now->limits[i]);
	if (!s->began)
		mps_log(s->log, "Server", "Server Priority set to %u", now->priority);
	if (!s->began)
		mps_log(s->log, "Server", "Server has started");
	s->began = true;
	s->settings = *now;
}

static void stop_mps_server(struct mps_server_state *s, bool force)
{
	struct mps_packet p = { .op = MPS_RESULT,
		.id = force ? 0 : s->process_count + s->context_count };

	mps_log(s->log, "Server", "Server has been notified to shutdown");
	if (p.id) {
		mps_log(s->log, "Server",
			"Server was unable to shutdown due to %u active clients",
			(unsigned)p.id);
	} else {
		mps_log(s->log, "Server", "Waiting for current clients to finish");
		mps_log(s->log, "Server", "Exiting");
		s->stop = true;
	}
	(void)mps_send(s->control, &p, -1, MSG_DONTWAIT);
}

/* Handles a packet from the control program. False: that program is gone. */
static bool handle_control_packet(struct mps_server_state *s)
{
	struct mps_packet p, r = { .op = MPS_RESULT };
	int fd = -1;

	switch (mps_receive(s->control, &p, &fd, MSG_DONTWAIT)) {
	case MPS_RETRY:
		return true;
	case MPS_GONE:
		return false;
	case MPS_RECEIVED:
		break;
	}
	if ((p.op == MPS_PROCESS || p.op == MPS_CONTEXT) && fd >= 0)
		client_new(s, steal_fd(&fd), &p);
	else if (p.op == MPS_SETTINGS)
		settings_changed(s, &p.settings);
	else if (p.op == MPS_STOP)
		stop_mps_server(s, p.id != 0);
	else if (p.op == MPS_QUERY) {
		text_render_reply(s, p.text, r.text, sizeof(r.text));
		(void)mps_send(s->control, &r, -1, MSG_DONTWAIT);
	}
	closep(&fd);
	return true;
}

/* A connected client sends nothing: a readable connection has ended. */
static void end_closed_clients(struct mps_server_state *s, const struct pollfd *polls, size_t n)
{
	for (struct server_context *c = s->contexts, *next; c; c = next) {
		next = c->next;
		for (size_t i = 0; i < n; i++)
			if (polls[i].fd == c->fd && polls[i].revents) {
				client_context_end(s, c);
				break;
			}
	}
	for (struct process *p = s->processes, *next; p; p = next) {
		next = p->next;
		for (size_t i = 0; i < n; i++)
			if (polls[i].fd == p->fd && polls[i].revents) {
				client_process_end(s, p);
				break;
			}
	}
}

static void run_mps_server_loop(struct mps_server_state *s, struct pollfd *polls)
{
	while (!s->stop && (s->control >= 0 || s->process_count)) {
		size_t n = 0;

		polls[n++] = (struct pollfd){ .fd = s->control, .events = POLLIN };
		polls[n++] = (struct pollfd){ .fd = s->gpu.fd };
		for (const struct server_context *c = s->contexts; c; c = c->next)
			polls[n++] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
		for (const struct process *p = s->processes; p; p = p->next)
			polls[n++] = (struct pollfd){ .fd = p->fd, .events = POLLIN };
		(void)poll(polls, n, s->context_count || s->faulted ? SERVER_POLL_MS : -1);
		gpu_check_faults(s);
		if (n > 2)
			end_closed_clients(s, polls + 2, n - 2);
		if (polls[0].revents && !handle_control_packet(s)) {
			closep(&s->control);
			s->control = -1;
		}
		if (!gpu_lives(s)) {
			mps_log(s->log, "Server",
				"Server encountered a fatal exception. Shutting down");
			s->exit_code = 1;
			s->stop = true;
		}
	}
}

/* Looks in this program's directory, as installed, then in the GPU program's directory of a build tree. */
static void name_gpu_program(void)
{
	static const char *const places[] = { "gpuslice-sim-gpu",
		"../device/gpuslice-sim-gpu" };
	char self[SIM_PATH_MAX], path[SIM_PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (!slash || getenv(SIM_ENV_GPU))
		return;
	*slash = '\0';
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", self, places[i]);
		if (access(path, X_OK) == 0) {
			(void)setenv(SIM_ENV_GPU, path, 1);
			return;
		}
	}
}

static void be_slow(void)
{
	char value[16];
	uint32_t ms;
	struct timespec t;

	if (!mps_fault("slow-server", value, sizeof(value)) || !parse_u32(value, &ms))
		return;
	t = (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };
	(void)nanosleep(&t, NULL);
}

static bool init_mps_server(struct mps_server_state *s)
{
	struct mps_packet p = { .op = MPS_SERVER };
	const char *dir = mps_dir();

	mps_log(s->log, "Other", "Startup");
	mps_log(s->log, "Other", "Connecting to control daemon on socket: %s/" MPS_CONTROL,
		dir);
	s->control = mps_dial(dir);
	if (s->control < 0 || !mps_send(s->control, &p, -1, 0))
		return false;
	mps_log(s->log, "Other", "Initializing server process");
	be_slow();
	name_gpu_program();
	if (mps_fault_is("no-server") || !gpu_find_all(s) || !gpu_serve_all(s)) {
		mps_log(s->log, "Server",
			"Server encountered a fatal exception. Shutting down");
		return false;
	}
	mps_log(s->log, "Server", "Created anonymous shared memory region mps.shm.%d.%d",
		(int)getuid(), (int)getpid());
	mps_log(s->log, "Server", "CUDA MPS Server for Linux/Unix. Binary version: %d",
		SERVER_BINARY);
	mps_log(s->log, "Server", "Display Driver version: 580");
	server_send_state(s);
	return true;
}

int main(void)
{
	static struct mps_server_state s = { .log = -1,
		.control = -1,
		.gpu = SIM_DEVICE_INIT,
		.seen_pid = 1048576,
		.seen_context = 1 };
	CLEANUP(freep) struct pollfd *polls = calloc(POLLS_MAX, sizeof(*polls));
	char path[SIM_PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/" MPS_LOG_PIPE, mps_dir());
	s.log = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	(void)signal(SIGPIPE, SIG_IGN);
	if (!polls || !init_mps_server(&s))
		return 1;
	run_mps_server_loop(&s, polls);
	sim_device_close(&s.gpu);
	return s.exit_code;
}
