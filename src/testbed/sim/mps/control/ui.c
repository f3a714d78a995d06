/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/mps/control/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/time.h"
#include "testbed/sim/mps/link.h"
#include "testbed/sim/mps/log.h"

/* Lines go to who asked, and to the log. */
static void say(const struct control *c, const struct conn *x, const char *text)
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

static void say_percent(const struct control *c, const struct conn *x, uint32_t percent)
{
	char number[16], text[32];

	mps_percent_format(percent, number, sizeof(number));
	(void)snprintf(text, sizeof(text), "%s\n", number);
	say(c, x, text);
}

/* What a setting that was made wrongly says goes to the log only. */
static void set_percent(const struct control *c, const struct conn *x,
	const struct mps_command *cmd, uint32_t *percent)
{
	uint32_t v = mps_percent_parse(cmd->value);

	if (v)
		*percent = v;
	else
		control_log(c, "Invalid percentage, expected between (0.0, 100.0]");
	say_percent(c, x, *percent);
}

static void say_limit(const struct control *c, const struct conn *x,
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
	say(c, x, text);
}

static void set_limit(struct mps_settings *s, const struct mps_command *cmd)
{
	if (cmd->device < MPS_DEVICES_MAX)
		s->limits[cmd->device] = mps_limit_parse(cmd->value);
}

static void say_missing(const struct control *c, const struct conn *x, uint32_t pid)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "Server %u not found\n", pid);
	say(c, x, text);
}

static void list_servers(const struct control *c, const struct conn *x)
{
	char text[MPS_TEXT_MAX] = "";
	size_t n = 0;

	for (const struct mps_server *s = c->servers; s && n < sizeof(text) - 16; s = s->next)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%d\n", (int)s->pid);
	if (n)
		say(c, x, text);
}

/* Of one server, or of all; without any `ps` says that there is none. */
static void ask_servers(struct control *c, struct conn *x, const struct mps_command *cmd,
	const char *line)
{
	bool any = false;

	for (struct mps_server *s = c->servers; s; s = s->next) {
		struct mps_packet p = { .op = MPS_QUERY };

		if (cmd->pid && s->pid != (pid_t)cmd->pid)
			continue;
		any = true;
		(void)snprintf(p.text, sizeof(p.text), "%s", line);
		if (servers_ask(c, s, &p) && p.text[0])
			say(c, x, p.text);
	}
	if (!any && cmd->pid)
		say_missing(c, x, cmd->pid);
	else if (!any && cmd->id == MPS_CMD_PS)
		say(c, x, "Server not found\n");
}

/* Commands about the defaults. */
static void serve_defaults(struct control *c, struct conn *x, const struct mps_command *cmd)
{
	switch ((int)cmd->id) {
	case MPS_CMD_GET_DEF_PERCENT:
		say_percent(c, x, c->defaults.percent);
		break;
	case MPS_CMD_SET_DEF_PERCENT:
		set_percent(c, x, cmd, &c->defaults.percent);
		break;
	case MPS_CMD_GET_DEF_LIMIT:
		say_limit(c, x, &c->defaults, cmd->device);
		break;
	case MPS_CMD_SET_DEF_LIMIT:
		control_log(c, "set_default_device_pinned_mem_limit %s %s.", cmd->device_text,
			cmd->value);
		set_limit(&c->defaults, cmd);
		break;
	case MPS_CMD_GET_DEF_PRIORITY:
		say(c, x, c->defaults.priority ? "1\n" : "0\n");
		break;
	case MPS_CMD_SET_DEF_PRIORITY:
		if (!strcmp(cmd->value, "0") || !strcmp(cmd->value, "1"))
			c->defaults.priority = cmd->value[0] == '1';
		else
			say(c, x, "Invalid priority value - must be 0 or 1!\n");
		break;
	default:
		break;
	}
}

/* Commands about one server. */
static void serve_server(struct control *c, struct conn *x, const struct mps_command *cmd)
{
	static const char *const states[] = { "INITIALIZING\n", "ACTIVE\n", "FAULT\n" };
	struct mps_server *s = servers_find(c, (pid_t)cmd->pid);

	if (!s) {
		say_missing(c, x, cmd->pid);
		return;
	}
	switch ((int)cmd->id) {
	case MPS_CMD_GET_STATUS:
		say(c, x, states[s->state]);
		break;
	case MPS_CMD_GET_PERCENT:
		say_percent(c, x, s->settings.percent);
		break;
	case MPS_CMD_SET_PERCENT:
		set_percent(c, x, cmd, &s->settings.percent);
		servers_tell(s);
		break;
	case MPS_CMD_GET_LIMIT:
		say_limit(c, x, &s->settings, cmd->device);
		break;
	case MPS_CMD_SET_LIMIT:
		set_limit(&s->settings, cmd);
		servers_tell(s);
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

static void start_server(struct control *c, struct conn *x, const struct mps_command *cmd)
{
	if (!cmd->has_uid) {
		say(c, x, "A user id (UID) is required to start a new server\n");
		return;
	}
	if (!c->servers)
		(void)servers_start(c, cmd->uid);
}

/* The answer comes when all servers have ended. */
static void quit(struct control *c, struct conn *x, const struct mps_command *cmd)
{
	if (cmd->timeout_s)
		control_log(c, "quit command issued with timeout of %u", cmd->timeout_s);
	c->quitting = true;
	c->force_at_ns =
		cmd->timeout_s ? time_mono_ns() + cmd->timeout_s * NS_PER_SEC : UINT64_MAX;
	x->waits = true;
	conn_refuse_waiting(c, 0);
	for (struct mps_server *s = c->servers; s; s = s->next)
		servers_stop(c, s);
}

static void refuse(const struct control *c, const struct conn *x, const struct mps_command *cmd)
{
	char text[256];

	if (cmd->id == MPS_CMD_QUIT)
		(void)snprintf(text, sizeof(text),
			"Not enough privilege to execute quit command\n");
	else
		(void)snprintf(text, sizeof(text),
			"Insufficient privileges for UID %u. Control deamon settings can only be modified by the user who started it or by the root user.\n",
			x->uid);
	say(c, x, text);
}

static void serve(struct control *c, struct conn *x, const struct mps_command *cmd,
	const char *line)
{
	char text[MPS_WORD_MAX + 32];

	if (cmd->changes && x->uid != 0 && x->uid != c->uid) {
		refuse(c, x, cmd);
	} else if (cmd->id == MPS_CMD_UNKNOWN) {
		(void)snprintf(text, sizeof(text), "Unknown command \"%s\"\n", cmd->name);
		say(c, x, text);
	} else if (cmd->id == MPS_CMD_QUIT) {
		quit(c, x, cmd);
	} else if (cmd->id == MPS_CMD_GET_SERVERS) {
		list_servers(c, x);
	} else if (cmd->id == MPS_CMD_START_SERVER) {
		start_server(c, x, cmd);
	} else if (cmd->short_of) {
		say(c, x, "A server PID is required\n");
	} else if (cmd->served) {
		ask_servers(c, x, cmd, line);
	} else {
		serve_defaults(c, x, cmd);
		if (cmd->pid || cmd->id == MPS_CMD_GET_STATUS || cmd->id == MPS_CMD_GET_PERCENT)
			serve_server(c, x, cmd);
	}
}

static bool hangs(const struct mps_command *cmd)
{
	char value[64];

	return mps_fault("hang", value, sizeof(value)) &&
	       (!value[0] || !strcmp(value, cmd->name) ||
		       !strncmp(cmd->name, value, strcspn(cmd->name, " ")));
}

void ui_serve(struct control *c, struct conn *x, const char *line)
{
	struct mps_packet done = { .op = MPS_DONE };
	struct mps_command cmd;

	mps_command_parse(&cmd, line);
	control_log(c, "Cmd:%s", cmd.name);
	if (hangs(&cmd)) {
		x->waits = true;
		return;
	}
	if (c->wedged) {
		/* It is heard and not answered. */
		x->waits = true;
		for (const struct mps_server *s = c->servers; s; s = s->next)
			control_log(c, "%d", (int)s->pid);
		return;
	}
	serve(c, x, &cmd, line);
	if (!x->waits)
		(void)mps_send(x->fd, &done, -1, MSG_DONTWAIT);
}
