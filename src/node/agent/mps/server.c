/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/server.h"

#include "node/agent/mps/supervisor.h"

#include <string.h>
#include <unistd.h>

/* The state SERVER: asks the daemon for a server, and waits until that is ready. */

#define SERVER_NS (15 * NS_PER_SEC) /* until a new server is ready */

static void fail_without_server(struct mps_supervisor *sup, const char *what)
{
	sup->needs_server = true;
	mps_supervisor_fail(sup, "the MPS server %s%s%.300s%s", what,
		*sup->watch.complaint ? ": " : "", sup->watch.complaint,
		sup->desired.exclusive
			? " (compute mode exclusive: no other program may use the GPU)"
			: "");
}

static void on_server_asked(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *sup = arg;

	(void)answer;
	if (err)
		mps_supervisor_count_missed(sup, err);
	else
		mps_supervisor_step(sup); /* the log reports a ready server */
}

static void set_server_ready(struct mps_supervisor *sup)
{
	bool again = sup->was_ready;

	if (sup->applied.percent == 0) {
		mps_supervisor_enter(sup, MPS_SETTING, "limits are being set");
	} else {
		mps_supervisor_set_ready(sup);
		if (again)
			report_event(sup->mps->c.reporter, EVENT_NORMAL, "MPSRecovered",
				"MPS of %s has a new server",
				sup->desired.uuids.n ? sup->desired.uuids.v[0] : sup->key);
	}
	mps_supervisor_step(sup);
}

static bool is_server_late(const struct mps_supervisor *sup)
{
	return time_mono_ns() - sup->since_ns >= SERVER_NS;
}

static void on_new_server_status(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *sup = arg;

	if (!err && !strncmp(answer, "ACTIVE", 6))
		set_server_ready(sup);
	else
		mps_supervisor_arm(sup, MPS_TICK_MAX_MS);
}

/*
 * A line of the log, which a client process may have written, leads to this question before SERVER_NS are over. The
 * line may be lost, too: afterwards any server counts as ready. The daemon is ended only if it answers that it has
 * no server, and so no client.
 */
static void on_new_servers(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *sup = arg;
	bool late = is_server_late(sup), exited = sup->check.hints.server_exited;

	sup->check.hints = (struct mps_hints){ .exited_pid = 0 };
	if (err) {
		mps_supervisor_count_missed(sup, err);
		return;
	}
	sup->missed = 0;
	sup->n_servers = mps_pids_read(sup->servers, MPS_SERVERS_MAX, answer);
	if (sup->n_servers > 0 && late)
		set_server_ready(sup);
	else if (sup->n_servers > 0)
		mps_supervisor_query(sup, on_new_server_status, "get_server_status %u",
			sup->servers[0]);
	else if (late)
		fail_without_server(sup, "was not ready in time");
	else if (exited)
		fail_without_server(sup, "ended at its start");
	else
		mps_supervisor_arm(sup, MPS_TICK_MAX_MS);
}

void mps_server_next(struct mps_supervisor *sup)
{
	if (sup->step == 0) {
		sup->step = 1;
		sup->watch.hints.server_exited = false;
		mps_supervisor_query(sup, on_server_asked, "start_server -uid %u",
			(unsigned)geteuid());
	} else if (is_server_late(sup) || mps_watch_needs_check(sup)) {
		mps_watch_begin_check(sup);
		mps_supervisor_query(sup, on_new_servers, "get_server_list");
	} else {
		mps_supervisor_arm(sup, MPS_TICK_MAX_MS);
	}
}
