/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/supervisor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The commands to a daemon: its limits, its servers and their clients. */

#define COMMAND_MAX 160

/* --- commands --- */

void mps_supervisor_query(struct mps_supervisor *u,
	void (*done)(void *arg, const char *answer, const struct error *err), const char *fmt,
	...)
{
	char text[COMMAND_MAX], control[PATH_MAX];
	struct error err = ERROR_INIT;
	char **env = mps_supervisor_env(u);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!env)
		(void)error_nomem(&err);
	/* An agent that cannot ask counts as a missed answer. That is no fault of a daemon that serves. */
	if (!env ||
		mps_control_find(control, u->mps->c.options.control,
			u->mps->c.facts->config->container_driver_root, &err) < 0 ||
		mps_command_run(&u->command, u->mps->c.loop, control,
			(const char *const *)(uintptr_t)env, text, done, u, &err) < 0)
		mps_supervisor_count_missed(u, &err);
	mps_env_free(env);
}

/* --- limits --- */

static void on_set(void *arg, const char *answer, const struct error *err);

static void on_set_servers(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *u = arg;

	if (err) {
		mps_supervisor_count_missed(u, err);
		return;
	}
	u->n_servers = mps_pids_read(u->servers, MPS_SERVERS_MAX, answer);
	mps_supervisor_step(u);
}

static unsigned long long find_mps_memory_limit(const struct mps_supervisor *u,
	const char *uuid)
{
	for (size_t i = 0; i < u->desired.uuids.n && i < GPU_NODE_MAX; i++)
		if (!strcmp(u->desired.uuids.v[i], uuid))
			return u->desired.limits[i];
	return 0;
}

/*
 * Sends the command of step .step, in NVIDIA's order:
 *
 * 1. The default memory limit of each device, then the default percentage.
 * 2. The question for the servers.
 * 3. The same limits for each running server, which has the defaults of its start.
 *
 * A device's number is its position in the list with which the daemon was started. False: there is no further
 * step.
 */
bool mps_limits_set_next(struct mps_supervisor *u)
{
	uint32_t n = (uint32_t)u->dir.devices.n, step = u->step++;
	uint32_t at = step <= n ? step : (step - n - 2) % (n + 1);
	unsigned long long limit = at < n ? find_mps_memory_limit(u, u->dir.devices.v[at]) : 0;
	uint32_t server = step <= n + 1 ? 0 : (step - n - 2) / (n + 1);

	if (step < n)
		mps_supervisor_query(u, on_set, "set_default_device_pinned_mem_limit %u %lluM",
			at, limit);
	else if (step == n)
		mps_supervisor_query(u, on_set, "set_default_active_thread_percentage %u",
			u->desired.percent);
	else if (step == n + 1)
		mps_supervisor_query(u, on_set_servers, "get_server_list");
	else if (server >= u->n_servers)
		return false;
	else if (at < n)
		mps_supervisor_query(u, on_set, "set_device_pinned_mem_limit %u %u %lluM",
			u->servers[server], at, limit);
	else
		mps_supervisor_query(u, on_set, "set_active_thread_percentage %u %u",
			u->servers[server], u->desired.percent);
	return true;
}

static void on_set(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *u = arg;

	if (err)
		mps_supervisor_count_missed(u, err);
	else if (!strncmp(answer, "Unknown command", 15) || !strncmp(answer, "Invalid", 7))
		mps_supervisor_fail(u, "limits cannot be set: %.*s", (int)strcspn(answer, "\n"),
			answer);
	else
		mps_supervisor_step(u);
}

/* --- servers and clients --- */

static void on_clients(void *arg, const char *answer, const struct error *err);

static void finish_mps_daemon_check(struct mps_supervisor *u, bool has_server_fault)
{
	u->checked_ns = time_mono_ns();
	u->step = u->missed = 0;
	mps_watch_end_check(u, has_server_fault);
	mps_supervisor_step(u);
}

static void on_mps_server_status(void *arg, const char *answer, const struct error *err);

/* Asks each server for a fault. The log may lack the lines of a fault, or have lines without a fault. */
static void query_next_status(struct mps_supervisor *u)
{
	if (u->step < u->n_servers)
		mps_supervisor_query(u, on_mps_server_status, "get_server_status %u",
			u->servers[u->step++]);
	else
		finish_mps_daemon_check(u, /* has_server_fault= */ false);
}

static void on_mps_server_status(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *u = arg;

	if (err) {
		mps_supervisor_count_missed(u, err);
		return;
	}
	if (!strncmp(answer, "FAULT", 5))
		finish_mps_daemon_check(u, /* has_server_fault= */ true);
	else
		query_next_status(u);
}

/* A server may end between two questions: it then has no clients. */
static void query_next_server(struct mps_supervisor *u)
{
	if (u->step < u->n_servers) {
		mps_supervisor_query(u, on_clients, "get_client_list %u",
			u->servers[u->step++]);
		return;
	}
	mps_clients_set(&u->clients, u->check_clients, u->n_check_clients);
	u->has_no_client = u->n_check_clients == 0;
	mps_identify_next(u);
	u->step = 0;
	if (u->stopping)
		finish_mps_daemon_check(u, u->has_server_fault);
	else
		query_next_status(u);
}

static void on_clients(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *u = arg;

	if (err) {
		mps_supervisor_count_missed(u, err);
		return;
	}
	u->n_check_clients += mps_pids_read(u->check_clients + u->n_check_clients,
		MPS_CLIENTS_MAX - u->n_check_clients, answer);
	query_next_server(u);
}

static void on_servers(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *u = arg;

	if (err) {
		mps_supervisor_count_missed(u, err);
		return;
	}
	u->n_servers = mps_pids_read(u->servers, MPS_SERVERS_MAX, answer);
	mps_watch_check_servers(u);
	u->n_check_clients = u->step = 0;
	if (u->state == MPS_SERVER)
		mps_supervisor_step(u);
	else
		query_next_server(u);
}

void mps_supervisor_check(struct mps_supervisor *u)
{
	mps_watch_begin_check(u);
	mps_supervisor_query(u, on_servers, "get_server_list");
}
