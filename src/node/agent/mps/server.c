/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/supervisor.h"

#include <string.h>
#include <unistd.h>

/* The state SERVER: asks the daemon for a server, and waits until that is ready. */

#define SERVER_NS (15 * NS_PER_SEC) /* until a new server is ready */

static void fail_without_server(struct mps_supervisor *u, const char *what)
{
	u->needs_server = true;
	mps_supervisor_fail(u, "the MPS server %s%s%.300s%s", what, *u->complaint ? ": " : "",
		u->complaint,
		u->desired.exclusive
			? " (compute mode exclusive: no other program may use the GPU)"
			: "");
}

static void on_server_asked(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *u = arg;

	(void)answer;
	if (err)
		mps_supervisor_count_missed(u, err);
	else
		mps_supervisor_step(u); /* the log reports a ready server */
}

static void set_server_ready(struct mps_supervisor *u)
{
	bool again = u->was_ready;

	if (u->applied.percent == 0) {
		mps_supervisor_enter(u, MPS_SETTING, "limits are being set");
	} else {
		mps_supervisor_set_ready(u);
		if (again)
			report_event(u->mps->c.reporter, EVENT_NORMAL, "MPSRecovered",
				"MPS of %s has a new server",
				u->desired.uuids.n ? u->desired.uuids.v[0] : u->key);
	}
	mps_supervisor_step(u);
}

static bool is_server_late(const struct mps_supervisor *u)
{
	return time_mono_ns() - u->since_ns >= SERVER_NS;
}

static void on_new_server_status(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *u = arg;

	if (!err && !strncmp(answer, "ACTIVE", 6))
		set_server_ready(u);
	else
		mps_supervisor_arm(u, MPS_TICK_MAX_MS);
}

/*
 * A line of the log, which a client process may have written, leads to this question before SERVER_NS are over. The
 * line may be lost, too: afterwards any server counts as ready. The daemon is ended only if it answers that it has
 * no server, and so no client.
 */
static void on_new_servers(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *u = arg;
	bool late = is_server_late(u), exited = u->checked_hints.server_exited;

	u->checked_hints = (struct mps_hints){ .exited_pid = 0 };
	if (err) {
		mps_supervisor_count_missed(u, err);
		return;
	}
	u->missed = 0;
	u->n_servers = mps_pids_read(u->servers, MPS_SERVERS_MAX, answer);
	if (u->n_servers > 0 && late)
		set_server_ready(u);
	else if (u->n_servers > 0)
		mps_supervisor_query(u, on_new_server_status, "get_server_status %u",
			u->servers[0]);
	else if (late)
		fail_without_server(u, "was not ready in time");
	else if (exited)
		fail_without_server(u, "ended at its start");
	else
		mps_supervisor_arm(u, MPS_TICK_MAX_MS);
}

void mps_server_next(struct mps_supervisor *u)
{
	if (u->step == 0) {
		u->step = 1;
		u->hints.server_exited = false;
		mps_supervisor_query(u, on_server_asked, "start_server -uid %u",
			(unsigned)geteuid());
	} else if (is_server_late(u) || mps_watch_needs_check(u)) {
		mps_watch_begin_check(u);
		mps_supervisor_query(u, on_new_servers, "get_server_list");
	} else {
		mps_supervisor_arm(u, MPS_TICK_MAX_MS);
	}
}
