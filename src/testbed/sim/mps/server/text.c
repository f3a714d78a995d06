/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/mps/server/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "testbed/sim/mps/command.h"

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

void text_render_reply(struct mps_server_state *s, const char *command, char *ret, size_t cap)
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
