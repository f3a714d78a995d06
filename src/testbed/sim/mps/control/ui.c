/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes the commands that people send to the control daemon, and answers as NVIDIA's daemon does
 * (control.h).
 */
#include "testbed/sim/mps/control/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/time.h"
#include "testbed/sim/mps/link.h"
#include "testbed/sim/mps/log.h"

/* Sends @text to the asking program, and logs each line. */
static void send_ui_text(const struct mps_control_daemon *c, const struct mps_control_conn *x,
	const char *text)
{
	struct mps_packet p = { .op = MPS_TEXT };

	(void)snprintf(p.text, sizeof(p.text), "%s", text);
	(void)mps_send(x->fd, &p, -1, MSG_DONTWAIT);
	while (*text) {
		size_t n = strcspn(text, "\n");

		control_log(c, "%.*s", (int)n, text);
		text += n;
		text += *text == '\n';
	}
}

static void send_ui_percent(const struct mps_control_daemon *c,
	const struct mps_control_conn *x, uint32_t percent)
{
	char number[16], text[32];

	mps_percent_format(percent, number, sizeof(number));
	(void)snprintf(text, sizeof(text), "%s\n", number);
	send_ui_text(c, x, text);
}

/* The message about an invalid value goes to the log only. */
static void set_percent(const struct mps_control_daemon *c, const struct mps_control_conn *x,
	const struct sim_mps_command *cmd, uint32_t *percent)
{
	uint32_t v = mps_percent_parse(cmd->value);

	if (v)
		*percent = v;
	else
		control_log(c, "Invalid percentage, expected between (0.0, 100.0]");
	send_ui_percent(c, x, *percent);
}

static void send_ui_limit(const struct mps_control_daemon *c, const struct mps_control_conn *x,
	const struct mps_settings *s, uint32_t device)
{
	uint64_t bytes = device < MPS_DEVICES_MAX ? s->limits[device] : 0;
	char number[24], text[32];

	if (!bytes) {
		control_log(c, "No default pinned memory limit set for the device!");
		return;
	}
	mps_limit_format(bytes, number, sizeof(number));
	(void)snprintf(text, sizeof(text), "%s\n", number);
	send_ui_text(c, x, text);
}

static void set_limit(struct mps_settings *s, const struct sim_mps_command *cmd)
{
	if (cmd->device < MPS_DEVICES_MAX)
		s->limits[cmd->device] = mps_limit_parse(cmd->value);
}

static void send_ui_missing(const struct mps_control_daemon *c,
	const struct mps_control_conn *x, uint32_t pid)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "Server %u not found\n", pid);
	send_ui_text(c, x, text);
}

static void list_servers(const struct mps_control_daemon *c, const struct mps_control_conn *x)
{
	char text[MPS_TEXT_MAX] = "";
	size_t n = 0;

	for (const struct mps_server *s = c->servers; s && n < sizeof(text) - 16; s = s->next)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%d\n", (int)s->pid);
	if (n)
		send_ui_text(c, x, text);
}

/* Asks one server, or all. Without any server `ps` reports that there is none. */
static void query_mps_servers(struct mps_control_daemon *c, struct mps_control_conn *x,
	const struct sim_mps_command *cmd, const char *line)
{
	bool any = false;

	for (struct mps_server *s = c->servers; s; s = s->next) {
		struct mps_packet p = { .op = MPS_QUERY };

		if (cmd->pid && s->pid != (pid_t)cmd->pid)
			continue;
		any = true;
		(void)snprintf(p.text, sizeof(p.text), "%s", line);
		if (servers_query(c, s, &p) && p.text[0])
			send_ui_text(c, x, p.text);
	}
	if (!any && cmd->pid)
		send_ui_missing(c, x, cmd->pid);
	else if (!any && cmd->id == MPS_CMD_PS)
		send_ui_text(c, x, "Server not found\n");
}

/* Commands about the defaults. */
static void execute_defaults_command(struct mps_control_daemon *c, struct mps_control_conn *x,
	const struct sim_mps_command *cmd)
{
	switch ((int)cmd->id) {
	case MPS_CMD_GET_DEF_PERCENT:
		send_ui_percent(c, x, c->defaults.percent);
		break;
	case MPS_CMD_SET_DEF_PERCENT:
		set_percent(c, x, cmd, &c->defaults.percent);
		break;
	case MPS_CMD_GET_DEF_LIMIT:
		send_ui_limit(c, x, &c->defaults, cmd->device);
		break;
	case MPS_CMD_SET_DEF_LIMIT:
		control_log(c, "set_default_device_pinned_mem_limit %s %s.", cmd->device_text,
			cmd->value);
		set_limit(&c->defaults, cmd);
		break;
	case MPS_CMD_GET_DEF_PRIORITY:
		send_ui_text(c, x, c->defaults.priority ? "1\n" : "0\n");
		break;
	case MPS_CMD_SET_DEF_PRIORITY:
		if (!strcmp(cmd->value, "0") || !strcmp(cmd->value, "1"))
			c->defaults.priority = cmd->value[0] == '1';
		else
			send_ui_text(c, x, "Invalid priority value - must be 0 or 1!\n");
		break;
	default:
		break;
	}
}

/* Commands about one server. */
static void execute_server_command(struct mps_control_daemon *c, struct mps_control_conn *x,
	const struct sim_mps_command *cmd)
{
	static const char *const states[] = { "INITIALIZING\n", "ACTIVE\n", "FAULT\n" };
	struct mps_server *s = servers_find(c, (pid_t)cmd->pid);

	if (!s) {
		send_ui_missing(c, x, cmd->pid);
		return;
	}
	switch ((int)cmd->id) {
	case MPS_CMD_GET_STATUS:
		send_ui_text(c, x, states[s->state]);
		break;
	case MPS_CMD_GET_PERCENT:
		send_ui_percent(c, x, s->settings.percent);
		break;
	case MPS_CMD_SET_PERCENT:
		set_percent(c, x, cmd, &s->settings.percent);
		servers_send_settings(s);
		break;
	case MPS_CMD_GET_LIMIT:
		send_ui_limit(c, x, &s->settings, cmd->device);
		break;
	case MPS_CMD_SET_LIMIT:
		set_limit(&s->settings, cmd);
		servers_send_settings(s);
		break;
	case MPS_CMD_STOP_SERVER:
		if (cmd->force)
			servers_stop_now(c, s);
		else
			servers_stop(c, s);
		break;
	default:
		break;
	}
}

static void start_server(struct mps_control_daemon *c, struct mps_control_conn *x,
	const struct sim_mps_command *cmd)
{
	if (!cmd->has_uid) {
		send_ui_text(c, x, "A user id (UID) is required to start a new server\n");
		return;
	}
	if (!c->servers)
		(void)servers_start(c, cmd->uid);
}

/* The answer comes when all servers have ended. */
static void request_control_quit(struct mps_control_daemon *c, struct mps_control_conn *x,
	const struct sim_mps_command *cmd)
{
	if (cmd->timeout_s)
		control_log(c, "quit command issued with timeout of %u", cmd->timeout_s);
	c->quitting = true;
	c->force_at_ns =
		cmd->timeout_s ? time_mono_ns() + cmd->timeout_s * NS_PER_SEC : UINT64_MAX;
	x->waiting = true;
	conn_refuse_waiting(c, 0);
	for (struct mps_server *s = c->servers; s; s = s->next)
		servers_stop(c, s);
}

static void refuse_ui_command(const struct mps_control_daemon *c,
	const struct mps_control_conn *x, const struct sim_mps_command *cmd)
{
	char text[256];

	if (cmd->id == MPS_CMD_QUIT)
		(void)snprintf(text, sizeof(text),
			"Not enough privilege to execute quit command\n");
	else
		(void)snprintf(text, sizeof(text),
			"Insufficient privileges for UID %u. Control deamon settings can only be modified by the user who started it or by the root user.\n",
			x->uid);
	send_ui_text(c, x, text);
}

static void execute_ui_command(struct mps_control_daemon *c, struct mps_control_conn *x,
	const struct sim_mps_command *cmd, const char *line)
{
	char text[MPS_WORD_MAX + 32];

	if (cmd->changes && x->uid != 0 && x->uid != c->uid) {
		refuse_ui_command(c, x, cmd);
	} else if (cmd->id == MPS_CMD_UNKNOWN) {
		(void)snprintf(text, sizeof(text), "Unknown command \"%s\"\n", cmd->name);
		send_ui_text(c, x, text);
	} else if (cmd->id == MPS_CMD_QUIT) {
		request_control_quit(c, x, cmd);
	} else if (cmd->id == MPS_CMD_GET_SERVERS) {
		list_servers(c, x);
	} else if (cmd->id == MPS_CMD_START_SERVER) {
		start_server(c, x, cmd);
	} else if (cmd->short_of) {
		send_ui_text(c, x, "A server PID is required\n");
	} else if (cmd->served) {
		query_mps_servers(c, x, cmd, line);
	} else {
		execute_defaults_command(c, x, cmd);
		if (cmd->pid || cmd->id == MPS_CMD_GET_STATUS || cmd->id == MPS_CMD_GET_PERCENT)
			execute_server_command(c, x, cmd);
	}
}

static bool has_hang_fault(const struct sim_mps_command *cmd)
{
	char value[64];

	return mps_fault("hang", value, sizeof(value)) &&
	       (!value[0] || !strcmp(value, cmd->name) ||
		       !strncmp(cmd->name, value, strcspn(cmd->name, " ")));
}

void ui_serve(struct mps_control_daemon *c, struct mps_control_conn *x, const char *line)
{
	struct mps_packet done = { .op = MPS_DONE };
	struct sim_mps_command cmd;

	mps_command_parse(&cmd, line);
	control_log(c, "Cmd:%s", cmd.name);
	if (has_hang_fault(&cmd)) {
		x->waiting = true;
		return;
	}
	if (c->wedged) {
		/* The daemon logs the command and never answers. */
		x->waiting = true;
		for (const struct mps_server *s = c->servers; s; s = s->next)
			control_log(c, "%d", (int)s->pid);
		return;
	}
	execute_ui_command(c, x, &cmd, line);
	if (!x->waiting)
		(void)mps_send(x->fd, &done, -1, MSG_DONTWAIT);
}
