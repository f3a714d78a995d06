/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What a daemon is asked and told: its limits, its servers and their clients. */

#define COMMAND_MAX 160

/* --- questions --- */

void unit_ask(struct mps_unit *u,
	void (*done)(void *arg, const char *answer, const struct error *err), const char *fmt,
	...)
{
	char text[COMMAND_MAX], control[PATH_MAX];
	struct error err = ERROR_INIT;
	char **env = unit_env(u);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!env)
		(void)error_nomem(&err);
	/* That we cannot ask is no fault of a daemon that serves. */
	if (!env ||
		mps_control_find(control, u->mps->c.options.control,
			u->mps->c.facts->config->container_driver_root, &err) < 0 ||
		mps_command_run(&u->command, u->mps->c.loop, control,
			(const char *const *)(uintptr_t)env, text, done, u, &err) < 0)
		unit_missed(u, &err);
	env_free(env);
}

/* --- limits --- */

static void on_set(void *arg, const char *answer, const struct error *err);

static void on_set_servers(void *arg, const char *answer, const struct error *err)
{
	struct mps_unit *u = arg;

	if (err) {
		unit_missed(u, err);
		return;
	}
	u->n_servers = mps_pids_read(u->servers, MPS_SERVERS_MAX, answer);
	unit_next(u);
}

static unsigned long long limit_of(const struct mps_unit *u, const char *uuid)
{
	for (size_t i = 0; i < u->want.uuids.n && i < GPU_NODE_MAX; i++)
		if (!strcmp(u->want.uuids.v[i], uuid))
			return u->want.limits[i];
	return 0;
}

/*
 * NVIDIA's commands, in its order: the memory of each device, then the percentage; then the same for each server that
 * runs, which has the defaults of when it was started. A device's number is its place in the list that the daemon was
 * started with. False: there is nothing more to tell.
 */
bool limits_tell_next(struct mps_unit *u)
{
	uint32_t n = (uint32_t)u->place.devices.n, step = u->step++;
	uint32_t at = step <= n ? step : (step - n - 2) % (n + 1);
	unsigned long long limit = at < n ? limit_of(u, u->place.devices.v[at]) : 0;
	uint32_t server = step <= n + 1 ? 0 : (step - n - 2) / (n + 1);

	if (step < n)
		unit_ask(u, on_set, "set_default_device_pinned_mem_limit %u %lluM", at, limit);
	else if (step == n)
		unit_ask(u, on_set, "set_default_active_thread_percentage %u", u->want.percent);
	else if (step == n + 1)
		unit_ask(u, on_set_servers, "get_server_list");
	else if (server >= u->n_servers)
		return false;
	else if (at < n)
		unit_ask(u, on_set, "set_device_pinned_mem_limit %u %u %lluM",
			u->servers[server], at, limit);
	else
		unit_ask(u, on_set, "set_active_thread_percentage %u %u", u->servers[server],
			u->want.percent);
	return true;
}

static void on_set(void *arg, const char *answer, const struct error *err)
{
	struct mps_unit *u = arg;

	if (err)
		unit_missed(u, err);
	else if (!strncmp(answer, "Unknown command", 15) || !strncmp(answer, "Invalid", 7))
		unit_fail(u, "limits cannot be set: %.*s", (int)strcspn(answer, "\n"), answer);
	else
		unit_next(u);
}

/* --- what it has --- */

static void on_clients(void *arg, const char *answer, const struct error *err);

static void checked(struct mps_unit *u)
{
	u->checked_ns = time_mono_ns();
	u->step = u->misses = 0;
	unit_next(u);
}

static void on_status(void *arg, const char *answer, const struct error *err);

/* Of a daemon that was there before, nobody has read what its log said. */
static void ask_next_status(struct mps_unit *u)
{
	if (u->step < u->n_servers)
		unit_ask(u, on_status, "get_server_status %u", u->servers[u->step++]);
	else
		checked(u);
}

static void on_status(void *arg, const char *answer, const struct error *err)
{
	struct mps_unit *u = arg;

	if (err) {
		unit_missed(u, err);
		return;
	}
	if (!strncmp(answer, "FAULT", 5)) {
		watch_found_fault(u);
		checked(u);
	} else {
		ask_next_status(u);
	}
}

/* A server may end between two questions: then it has no clients. */
static void ask_next_server(struct mps_unit *u)
{
	if (u->step < u->n_servers) {
		unit_ask(u, on_clients, "get_client_list %u", u->servers[u->step++]);
		return;
	}
	mps_clients_set(&u->clients, u->seen, u->n_seen);
	u->answered_none = u->n_seen == 0;
	who_next(u);
	u->step = 0;
	if (!u->found || u->stopping) {
		checked(u);
		return;
	}
	u->found = false;
	ask_next_status(u);
}

static void on_clients(void *arg, const char *answer, const struct error *err)
{
	struct mps_unit *u = arg;

	if (err) {
		unit_missed(u, err);
		return;
	}
	u->n_seen += mps_pids_read(u->seen + u->n_seen, MPS_CLIENTS_MAX - u->n_seen, answer);
	ask_next_server(u);
}

static void on_servers(void *arg, const char *answer, const struct error *err)
{
	struct mps_unit *u = arg;

	if (err) {
		unit_missed(u, err);
		return;
	}
	u->n_servers = mps_pids_read(u->servers, MPS_SERVERS_MAX, answer);
	u->n_seen = u->step = 0;
	ask_next_server(u);
}

void unit_check(struct mps_unit *u)
{
	unit_ask(u, on_servers, "get_server_list");
}
