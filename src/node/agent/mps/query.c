/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/query.h"

#include "node/agent/mps/process.h"
#include "node/agent/mps/supervisor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The commands to a daemon: its limits, its servers and their clients. */

#define COMMAND_MAX 160

/* --- commands --- */

void mps_supervisor_query(struct mps_supervisor *sup,
	void (*done)(void *arg, const char *answer, const struct error *err), const char *fmt,
	...)
{
	char text[COMMAND_MAX], control[PATH_MAX];
	struct error err = ERROR_INIT;
	char **env = mps_supervisor_env(sup);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!env)
		(void)error_nomem(&err);
	/* An agent that cannot ask counts as a missed answer. That is no fault of a daemon that serves. */
	if (!env ||
		mps_control_find(control, sup->mps->c.options.control,
			sup->mps->c.facts->config->container_driver_root, &err) < 0 ||
		mps_command_run(&sup->command, sup->mps->c.loop, control,
			(const char *const *)(uintptr_t)env, text, done, sup, &err) < 0)
		mps_supervisor_count_missed(sup, &err);
	mps_env_free(env);
}

/* --- limits --- */

static void on_set(void *arg, const char *answer, const struct error *err);

static void on_set_servers(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *sup = arg;

	if (err) {
		mps_supervisor_count_missed(sup, err);
		return;
	}
	sup->n_servers = mps_pids_read(sup->servers, MPS_SERVERS_MAX, answer);
	mps_supervisor_step(sup);
}

static unsigned long long find_mps_memory_limit(const struct mps_supervisor *sup,
	const char *uuid)
{
	for (size_t i = 0; i < sup->desired.uuids.n && i < GPU_NODE_MAX; i++)
		if (!strcmp(sup->desired.uuids.v[i], uuid))
			return sup->desired.limits[i];
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
bool mps_limits_set_next(struct mps_supervisor *sup)
{
	uint32_t n = (uint32_t)sup->dir.devices.n, step = sup->step++;
	uint32_t at = step <= n ? step : (step - n - 2) % (n + 1);
	unsigned long long limit =
		at < n ? find_mps_memory_limit(sup, sup->dir.devices.v[at]) : 0;
	uint32_t server = step <= n + 1 ? 0 : (step - n - 2) / (n + 1);

	if (step < n)
		mps_supervisor_query(sup, on_set,
			"set_default_device_pinned_mem_limit %u %lluM", at, limit);
	else if (step == n)
		mps_supervisor_query(sup, on_set, "set_default_active_thread_percentage %u",
			sup->desired.percent);
	else if (step == n + 1)
		mps_supervisor_query(sup, on_set_servers, "get_server_list");
	else if (server >= sup->n_servers)
		return false;
	else if (at < n)
		mps_supervisor_query(sup, on_set, "set_device_pinned_mem_limit %u %u %lluM",
			sup->servers[server], at, limit);
	else
		mps_supervisor_query(sup, on_set, "set_active_thread_percentage %u %u",
			sup->servers[server], sup->desired.percent);
	return true;
}

static void on_set(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *sup = arg;

	if (err)
		mps_supervisor_count_missed(sup, err);
	else if (!strncmp(answer, "Unknown command", 15) || !strncmp(answer, "Invalid", 7))
		mps_supervisor_fail(sup, "limits cannot be set: %.*s",
			(int)strcspn(answer, "\n"), answer);
	else
		mps_supervisor_step(sup);
}

/* --- servers and clients --- */

static void on_clients(void *arg, const char *answer, const struct error *err);

static void finish_mps_daemon_check(struct mps_supervisor *sup, bool has_server_fault)
{
	sup->check.done_ns = time_mono_ns();
	sup->step = sup->missed = 0;
	mps_watch_end_check(sup, has_server_fault);
	mps_supervisor_step(sup);
}

static void on_mps_server_status(void *arg, const char *answer, const struct error *err);

/* Asks each server for a fault. The log may lack the lines of a fault, or have lines without a fault. */
static void query_next_status(struct mps_supervisor *sup)
{
	if (sup->step < sup->n_servers)
		mps_supervisor_query(sup, on_mps_server_status, "get_server_status %u",
			sup->servers[sup->step++]);
	else
		finish_mps_daemon_check(sup, /* has_server_fault= */ false);
}

static void on_mps_server_status(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *sup = arg;

	if (err) {
		mps_supervisor_count_missed(sup, err);
		return;
	}
	if (!strncmp(answer, "FAULT", 5))
		finish_mps_daemon_check(sup, /* has_server_fault= */ true);
	else
		query_next_status(sup);
}

/* A server may end between two questions: it then has no clients. */
static void query_next_server(struct mps_supervisor *sup)
{
	if (sup->step < sup->n_servers) {
		mps_supervisor_query(sup, on_clients, "get_client_list %u",
			sup->servers[sup->step++]);
		return;
	}
	mps_clients_set(&sup->clients, sup->check.clients, sup->check.n_clients);
	sup->check.has_no_client = sup->check.n_clients == 0;
	mps_identify_next(sup);
	sup->step = 0;
	if (sup->stopping)
		finish_mps_daemon_check(sup, sup->check.has_server_fault);
	else
		query_next_status(sup);
}

static void on_clients(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *sup = arg;

	if (err) {
		mps_supervisor_count_missed(sup, err);
		return;
	}
	sup->check.n_clients += mps_pids_read(sup->check.clients + sup->check.n_clients,
		MPS_CLIENTS_MAX - sup->check.n_clients, answer);
	query_next_server(sup);
}

static void on_servers(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *sup = arg;

	if (err) {
		mps_supervisor_count_missed(sup, err);
		return;
	}
	sup->n_servers = mps_pids_read(sup->servers, MPS_SERVERS_MAX, answer);
	mps_watch_check_servers(sup);
	sup->check.n_clients = sup->step = 0;
	if (sup->state == MPS_SERVER)
		mps_supervisor_step(sup);
	else
		query_next_server(sup);
}

void mps_supervisor_check(struct mps_supervisor *sup)
{
	mps_watch_begin_check(sup);
	mps_supervisor_query(sup, on_servers, "get_server_list");
}
