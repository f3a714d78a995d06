/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that use the server, and their contexts (server.h). */
#include "testbed/sim/mps/server/server.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "testbed/sim/mps/link.h"
#include "testbed/sim/mps/log.h"

static void send_client_answer(int fd, struct mps_packet *a, uint32_t status)
{
	a->op = MPS_ANSWER;
	a->status = status;
	(void)mps_send(fd, a, -1, MSG_DONTWAIT);
}

static void refuse_mps_client(int fd, uint32_t status)
{
	struct mps_packet a = { .op = MPS_ANSWER };

	send_client_answer(fd, &a, status);
	(void)close(fd);
}

/* Reads names for the log and `ps`. A process that has ended has none. */
static void read_process_identity(struct process *p)
{
	char path[64];
	struct stat st;
	int fd;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)p->pid);
	p->pid_namespace = stat(path, &st) == 0 ? st.st_ino : 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)p->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, p->name, sizeof(p->name) - 1);
	p->name[n > 0 ? n : 0] = '\0';
	p->name[strcspn(p->name, "\n")] = '\0';
	closep(&fd);
}

static void log_client_connected(struct mps_server_state *s, const struct process *p,
	uint32_t context)
{
	mps_log(s->log, "Server", "Client {PID: %d, Context ID: %u} connected", (int)p->pid,
		context);
	mps_log(s->log, "Server", "Creating worker thread for client {PID: %d, Context ID: %u}",
		(int)p->pid, context);
	s->seen_pid = p->pid;
	s->seen_context = context;
}

static void process_new(struct mps_server_state *s, int fd, const struct mps_packet *asked)
{
	struct mps_packet a = { .count = s->device_count };
	struct process *p;

	if (s->faulted) {
		refuse_mps_client(fd, MPS_NOT_READY);
		return;
	}
	if (s->process_count >= MPS_CLIENTS_MAX) {
		refuse_mps_client(fd, MPS_MAX_CLIENTS);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p || getrandom(&p->id, sizeof(p->id), GRND_NONBLOCK) < 0 || !gpu_serve_all(s)) {
		free(p);
		refuse_mps_client(fd, MPS_CONNECTION_FAILED);
		return;
	}
	mps_peer(fd, &p->pid, &p->uid);
	p->fd = fd;
	p->number = ++s->last_number;
	read_process_identity(p);
	mps_settings_lower(&p->settings, &s->settings, &asked->settings);
	p->next = s->processes;
	s->processes = p;
	s->process_count++;
	log_client_connected(s, p, 0);
	for (uint32_t i = 0; i < s->device_count; i++)
		a.slots[i] = s->devices[i].slot;
	a.id = p->id;
	a.settings = p->settings;
	send_client_answer(fd, &a, 0);
}

static void context_new(struct mps_server_state *s, int fd, const struct mps_packet *asked)
{
	struct mps_packet a = { .count = 0 };
	struct process *p = s->processes;
	struct server_context *c;
	struct server_device *d;
	uint32_t status;

	while (p && p->id != asked->id)
		p = p->next;
	if (!p || asked->device >= s->device_count) {
		refuse_mps_client(fd, MPS_CONNECTION_FAILED);
		return;
	}
	d = &s->devices[asked->device];
	gpu_check_faults(s);
	if (p->sticky || d->fault || d->contexts >= MPS_CONTEXTS_MAX) {
		refuse_mps_client(fd, p->sticky  ? p->sticky
				      : d->fault ? MPS_NOT_READY
						 : MPS_MAX_CONNECTIONS);
		return;
	}
	c = calloc(1, sizeof(*c));
	status = c ? gpu_ticket(s, p, asked->device, &a) : MPS_CONNECTION_FAILED;
	if (status) {
		free(c);
		refuse_mps_client(fd, status);
		return;
	}
	*c = (struct server_context){ .process = p,
		.number = ++p->last_context,
		.device = asked->device,
		.ticket = a.id,
		.fd = fd,
		.next = s->contexts };
	s->contexts = c;
	s->context_count++;
	d->contexts++;
	log_client_connected(s, p, c->number);
	mps_log(s->log, "Server", "Device %s (uuid %s) is associated", d->name, d->uuid);
	mps_log(s->log, "Server", "Status of client {PID: %d, Context ID: %u} is ACTIVE",
		(int)p->pid, c->number);
	send_client_answer(fd, &a, 0);
}

void client_new(struct mps_server_state *s, int fd, const struct mps_packet *p)
{
	/* Logs the previous client, as NVIDIA's server does. */
	mps_log(s->log, "Server", "Received new client request for {PID: %d, Context ID: %u}",
		(int)s->seen_pid, s->seen_context);
	if (p->op == MPS_PROCESS)
		process_new(s, fd, p);
	else
		context_new(s, fd, p);
}

static void log_client_exited(struct mps_server_state *s, const struct process *p,
	uint32_t context)
{
	mps_log(s->log, "Server",
		"Server failed to recevie command with status 806, assuming client {PID: %d, Context ID: %u} exit",
		(int)p->pid, context);
}

void client_context_end(struct mps_server_state *s, struct server_context *c)
{
	struct server_context **at = &s->contexts;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	s->context_count--;
	s->devices[c->device].contexts--;
	log_client_exited(s, c->process, c->number);
	mps_log(s->log, "Server",
		"Client {PID: %d, Context ID: %u} exiting. Number of active client contexts is %u.",
		(int)c->process->pid, c->number, s->context_count);
	(void)close(c->fd);
	free(c);
	gpu_check_faults(s);
}

void client_process_end(struct mps_server_state *s, struct process *p)
{
	struct process **at = &s->processes;

	for (struct server_context *c = s->contexts, *next; c; c = next) {
		next = c->next;
		if (c->process == p)
			client_context_end(s, c);
	}
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	s->process_count--;
	log_client_exited(s, p, 0);
	mps_log(s->log, "Server", "Client process %d disconnected", (int)p->pid);
	(void)close(p->fd);
	free(p);
}

bool client_terminate(struct mps_server_state *s, pid_t pid)
{
	bool found = false;

	for (const struct server_context *c = s->contexts; c; c = c->next) {
		if (c->process->pid != pid)
			continue;
		mps_log(s->log, "Server",
			"MPS server requesting client {PID: %d, Context ID: %u} to exit",
			(int)pid, c->number);
		gpu_end_context(s, c, MPS_CLIENT_TERMINATED);
		found = true;
	}
	if (found)
		mps_log(s->log, "Server", "Client termination succeeded.");
	return found;
}
