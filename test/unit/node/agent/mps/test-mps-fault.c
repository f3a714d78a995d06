/* SPDX-License-Identifier: Apache-2.0 */

/* What happens to the clients of a daemon: faults, servers and daemons that die, and the Events about them. */
#include "unit/node/agent/mps/mps-env.h"

#include "lib/base/fd.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define GPU             "GPU-0"
#define FAULT_REPORT_NS (300 * NS_PER_MS) /* as in watch.c: until a fault is reported */
#define KILLED_NS       (500 * NS_PER_MS) /* from a client's end to the fault that it causes */
#define DRAIN_NS        (2 * NS_PER_SEC)  /* between questions while it is faulted */
#define CHECK_NS        (10 * NS_PER_SEC) /* between questions while it is ready */
#define SERVER_NS       (15 * NS_PER_SEC)
#define PAUSE_NS        (30 * NS_PER_SEC)
#define FAULT           "Server is handling a fatal GPU error."
#define HIT             "The following client process have a sticky error set:"

/* A process that is there, with a name: this one. */
static uint32_t self(void)
{
	return (uint32_t)getpid();
}

/* The daemon is ready and has this process as its client, which is of pod shop/web. */
static void up_with_pod(struct mps_env *e, struct pod_device *room, char *id)
{
	char name[32], text[64];

	mps_env_pod(e, room, id);
	(void)snprintf(name, sizeof(name), "who-%u", self());
	(void)snprintf(text, sizeof(text), "%u uid-1 %s\n", self(), id);
	mps_env_write(e, name, text);
	mps_env_up(e, 1);
	mps_env_client(e, GPU, self());
	agent_fixture_until(e->f,
		mps_clients_find(&mps_env_find_daemon(e, GPU)->clients, self())->identity ==
			MPS_IDENTITY_KNOWN);
}

/* The daemon has found these processes to be its clients. */
static void add_clients(struct mps_env *e, const uint32_t *pids, uint32_t n)
{
	const struct mps_supervisor *sup = mps_env_find_daemon(e, GPU);

	for (uint32_t i = 0; i < n; i++)
		mps_env_log(e, GPU, "Client {PID: %u, Context ID: 0} connected", pids[i]);
	agent_fixture_until(e->f, mps_clients_count(&sup->clients) == n);
}

/* The daemon answers that server 609 has that status and all clients that the agent knows. */
static void answer_status(struct mps_env *e, const char *status)
{
	const struct mps_clients *c = &mps_env_find_daemon(e, GPU)->clients;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);

	for (uint32_t i = 0; i < c->n; i++)
		if (c->v[i].connected)
			buf_printf(&b, "%u\n", c->v[i].pid);
	mps_env_write(e, "say-get_server_list", "609\n");
	mps_env_write(e, "say-get_client_list", buf_str(&b));
	mps_env_write(e, "say-get_server_status", status);
}

/* The lines of a fault of which all @pids are hit; @named 0: none is named. */
static void log_fault(struct mps_env *e, uint32_t named, const uint32_t *pids, uint32_t n)
{
	if (named)
		mps_env_log(e, GPU,
			"Client {PID: %u, Context: 1} encountered a fatal GPU error.", named);
	mps_env_log(e, GPU, FAULT);
	mps_env_log(e, GPU, HIT);
	for (uint32_t i = 0; i < n; i++)
		mps_env_log(e, GPU, "%u", pids[i]);
}

/* A fault that the daemon confirms. */
static void fault(struct mps_env *e, uint32_t named, const uint32_t *pids, uint32_t n)
{
	struct mps_supervisor *sup = mps_env_find_daemon(e, GPU);

	sup->watch.check_at_ns = 0; /* no pause after the checks before */
	answer_status(e, "FAULT\n");
	log_fault(e, named, pids, n);
	agent_fixture_until(e->f,
		sup->watch.fault.confirmed && mps_clients_count_faulted(&sup->clients) == n);
	mps_env_settle(e);
}

/* --- faults --- */

static void fault__emits_an_event_at_the_pod_of_the_client(void **state)
{
	struct mps_env *e = *state;
	char id[] = "GPU-0::3";
	struct pod_device room;
	uint32_t pid = self();
	const struct fixture_event *pod;

	mps_env_stop_clock();
	up_with_pod(e, &room, id);
	fault(e, pid, &pid, 1);
	assert_true(mps_env_is(e, GPU, MPS_FAULTED));
	assert_false(mps_env_ok(e, "GPU-0::0", NULL));
	assert_int_equal(agent_fixture_count(e->f, ""), 0); /* its story is not complete */
	mps_env_skip(e, FAULT_REPORT_NS);
	assert_int_equal(agent_fixture_count(e->f, "MPSClientFault"), 2);
	assert_string_equal(e->f->events[0].about.pod, ""); /* the Node */
	assert_non_null(strstr(e->f->events[0].message, "ended all 1 MPS clients of GPU-0"));
	assert_non_null(strstr(e->f->events[0].message, "the only client"));
	pod = &e->f->events[1];
	assert_string_equal(pod->about.namespace_, "shop");
	assert_string_equal(pod->about.pod, "web");
	assert_string_equal(pod->about.uid, "uid-1");
	assert_non_null(strstr(pod->message, "of pod shop/web"));
	assert_int_equal(mps_env_find_daemon(e, GPU)->counts.faults, 1);
}

static void fault__is_over_when_all_affected_clients_ended(void **state)
{
	struct mps_env *e = *state;
	const uint32_t pids[] = { self(), 1 };

	mps_env_up(e, 1);
	add_clients(e, pids, 2);
	fault(e, 0, pids, 2);
	mps_env_write(e, "say-get_client_list", "1\n");
	mps_env_log(e, GPU, "Client process %u disconnected", self());
	/* Which any process of a container can write. */
	mps_env_log(e, GPU, "Client process 1 disconnected");
	mps_env_skip(e, DRAIN_NS);
	mps_env_settle(e);
	mps_env_skip(e, DRAIN_NS);
	mps_env_settle(e);
	assert_true(mps_env_is(e, GPU, MPS_FAULTED)); /* one of two is there */
	assert_int_equal(agent_fixture_count(e->f, "MPSRecovered"), 0);
	mps_env_no_client(e, GPU);
	mps_env_skip(e, DRAIN_NS);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_true(mps_env_ok(e, "GPU-0::0", NULL));
	assert_int_equal(agent_fixture_count(e->f, "MPSRecovered"), 1);
	assert_int_equal(mps_env_lines(e, "started", ""), 1);
}

static void fault__is_reported_for_all_affected_clients_and_no_other(void **state)
{
	struct mps_env *e = *state;
	const uint32_t pids[] = { 1, 2, self() };
	char id[] = "GPU-0::3";
	struct pod_device room;

	mps_env_stop_clock();
	up_with_pod(e, &room, id); /* its pod would get an Event */
	add_clients(e, pids, 3);
	fault(e, 0, pids, 2);
	mps_env_log(e, GPU, "Client process 2 disconnected"); /* before the report */
	agent_fixture_until(e->f,
		mps_clients_count(&mps_env_find_daemon(e, GPU)->clients) == 2);
	mps_env_skip(e, FAULT_REPORT_NS);
	assert_int_equal(agent_fixture_count(e->f, ""), 1);
	assert_non_null(strstr(e->f->events[0].message, "ended all 2 MPS clients of GPU-0"));
}

static void fault__without_the_kubelet_emits_an_event_at_the_node(void **state)
{
	struct mps_env *e = *state;
	char id[] = "GPU-0::3";
	struct pod_device room;
	uint32_t pid = self();

	e->holders_unknown = true;
	up_with_pod(e, &room, id);
	fault(e, 0, &pid, 1);
	mps_env_skip(e, FAULT_REPORT_NS);
	assert_int_equal(agent_fixture_count(e->f, ""), 1);
	assert_string_equal(e->f->events[0].about.pod, "");
}

/* The kubelet is slow, and the daemon ends before its answer. */
static void fault__is_reported_after_its_daemon_ended(void **state)
{
	struct mps_env *e = *state;
	char id[] = "GPU-0::3";
	struct pod_device room;
	uint32_t pid = self();

	e->pod_devices_late = true;
	up_with_pod(e, &room, id);
	fault(e, 0, &pid, 1);
	mps_env_skip(e, FAULT_REPORT_NS);
	assert_int_equal(e->n_pod_device_requests, 1);
	mps_env_no_client(e, GPU);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 0));
	mps_env_skip(e, DRAIN_NS);
	mps_env_settle(e);
	mps_env_skip(e, DRAIN_NS);
	agent_fixture_until(e->f, !e->mps.daemons);
	mps_env_report_holders(e);
	assert_int_equal(agent_fixture_count(e->f, "MPSClientFault"), 2);
}

/* A program can claim any device: only those of its own daemon count. */
static void fault__emits_no_event_at_a_pod_of_another_gpu(void **state)
{
	static const char *const lies[] = { "GPU-1::0", "GPU-00::1", "GPU-::0", "-" };
	struct mps_env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		struct mps_supervisor *sup;
		char id[32];
		struct pod_device room;
		uint32_t pid = self();

		(void)snprintf(id, sizeof(id), "%s", lies[i]);
		if (i == 0) {
			up_with_pod(e, &room, id);
		} else {
			mps_env_pod(e, &room, id);
			(void)snprintf(
				mps_clients_find(&mps_env_find_daemon(e, GPU)->clients, pid)
					->devices,
				MPS_DEVICES_MAX, "%s", id);
		}
		sup = mps_env_find_daemon(e, GPU);
		sup->watch.report_limit = (struct log_limit){ 0 };
		fault(e, 0, &pid, 1);
		mps_env_skip(e, FAULT_REPORT_NS);
		mps_env_settle(e);
		assert_int_equal(agent_fixture_count(e->f, "MPSClientFault"), i + 1);
		assert_string_equal(agent_fixture_last(e->f, "MPSClientFault")->about.pod, "");
	}
}

struct culprit_row {
	uint32_t n;       /* clients that are hit */
	uint32_t named;   /* position + 1 */
	uint64_t gone_ns; /* before the fault another one ended; 0: none did */
	const char *text;
};

static void assert_culprit(struct mps_env *e, const struct culprit_row *r)
{
	const uint32_t pids[] = { self(), 1, 2 }, last = 2147483647;
	const struct mps_supervisor *sup = mps_env_find_daemon(e, GPU);

	add_clients(e, pids, r->n);
	if (r->gone_ns) {
		mps_env_log(e, GPU, "Client {PID: %u, Context ID: 0} connected", last);
		mps_env_log(e, GPU, "Client process %u disconnected", last);
		agent_fixture_until(e->f,
			mps_clients_find(&sup->clients, last) &&
				!mps_clients_find(&sup->clients, last)->connected);
		mps_env_skip(e, r->gone_ns);
		mps_env_settle(e);
	}
	fault(e, r->named ? pids[r->named - 1] : 0, pids, r->n);
	mps_env_skip(e, FAULT_REPORT_NS);
	if (!strstr(agent_fixture_last(e->f, "MPSClientFault")->message, r->text))
		fail_msg("'%s' without '%s'",
			agent_fixture_last(e->f, "MPSClientFault")->message, r->text);
	mps_env_no_client(e, GPU);
	mps_env_settle(e);
	mps_env_skip(e, DRAIN_NS);
	mps_env_until_state(e, GPU, MPS_READY);
	mps_env_skip(e, 60 * NS_PER_SEC); /* that all is dropped, and reported again */
	mps_env_settle(e);
}

static void fault__names_the_faulting_client_where_it_is_known(void **state)
{
	static const struct culprit_row rows[] = {
		{ 1, 0, 0, "the only client" },
		{ 2, 0, 0, "MPS does not name who of the 2 clients it was" },
		{ 2, 2, 0, "which it saw first; it may have been another of the 2" },
		{ 3, 3, 0, "it may have been another of the 3" },
		{ 1, 0, 1,
			"it was most likely a program (process 2147483647), which had ended" },
		{ 2, 1, 1,
			"it was most likely a program (process 2147483647), which had ended" },
		{ 2, 0, KILLED_NS + NS_PER_SEC, "MPS does not name who" },
	};
	struct mps_env *e = *state;

	mps_env_stop_clock();
	mps_env_up(e, 1);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_culprit(e, &rows[i]);
	assert_int_equal(mps_env_lines(e, "started", ""), 1);
}

static void fault__in_several_pieces_is_reported_once(void **state)
{
	struct mps_env *e = *state;
	const uint32_t pids[] = { self(), 1 };
	const struct mps_supervisor *sup;

	mps_env_stop_clock();
	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	add_clients(e, pids, 2);
	fault(e, 0, pids, 1);
	mps_env_log(e, GPU, FAULT);
	mps_env_log(e, GPU, "Client {PID: 1, Context: 1} encountered a fatal GPU error.");
	agent_fixture_until(e->f, sup->watch.fault.named_pid == 1); /* named late */
	mps_env_log(e, GPU, "Client {PID: 2, Context: 1} encountered a fatal GPU error.");
	mps_env_log(e, GPU, HIT);
	mps_env_log(e, GPU, "1");
	agent_fixture_until(e->f, mps_clients_count_faulted(&sup->clients) == 2);
	mps_env_skip(e, FAULT_REPORT_NS);
	assert_int_equal(sup->counts.faults, 1);
	assert_int_equal(agent_fixture_count(e->f, "MPSClientFault"), 1);
	assert_non_null(strstr(e->f->events[0].message, "(process 1), which it saw first"));
}

/* Every container with the pipe directory can write to the log. */
static void fault__is_reported_five_times_a_minute_at_most(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	answer_status(e, "FAULT\n");
	for (unsigned i = 1; i <= 8; i++) {
		sup->watch.check_at_ns = 0; /* no pause after the checks before */
		mps_env_log(e, GPU, FAULT);
		agent_fixture_until(e->f, sup->counts.faults == i);
		mps_env_skip(e, FAULT_REPORT_NS);
		mps_env_settle(e);
	}
	assert_int_equal(agent_fixture_count(e->f, "MPSClientFault"), 5);
	mps_env_skip(e, 60 * NS_PER_SEC);
	mps_env_settle(e);
	sup->watch.check_at_ns = 0;
	mps_env_log(e, GPU, FAULT);
	agent_fixture_until(e->f, sup->counts.faults == 9);
	mps_env_skip(e, FAULT_REPORT_NS);
	assert_int_equal(agent_fixture_count(e->f, "MPSClientFault"), 6);
}

/* The log of NVIDIA's daemon ends if a client process writes to it what is no line. */
static void fault__without_a_line_is_found_by_a_check(void **state)
{
	struct mps_env *e = *state;
	char id[] = "GPU-0::3";
	struct pod_device room;

	up_with_pod(e, &room, id);
	mps_env_write(e, "say-get_server_status", "FAULT\n");
	mps_env_skip(e, CHECK_NS);
	mps_env_until_state(e, GPU, MPS_FAULTED);
	mps_env_skip(e, FAULT_REPORT_NS);
	mps_env_settle(e);
	assert_int_equal(agent_fixture_count(e->f, "MPSClientFault"), 2);
	assert_non_null(strstr(e->f->events[0].message, "the only client"));
	mps_env_no_client(e, GPU);
	mps_env_skip(e, DRAIN_NS);
	mps_env_until_state(e, GPU, MPS_READY);
}

/* --- a server dies --- */

/* The agent knows server 609 from the daemon. */
static void learn_server(struct mps_env *e)
{
	const struct mps_supervisor *sup = mps_env_find_daemon(e, GPU);

	mps_env_write(e, "say-get_server_list", "609\n");
	mps_env_log(e, GPU, "NEW SERVER 609: Ready");
	agent_fixture_until(e->f, sup->n_servers == 1);
	mps_env_settle(e);
}

/* The daemon reports its end, and does not list it any more. */
static void kill_server(struct mps_env *e)
{
	mps_env_write(e, "say-get_server_list", NULL);
	mps_env_write(e, "say-get_client_list", NULL);
	mps_env_log(e, GPU, "Server 609 exited with status 139");
}

static void server__that_dies_is_reported_and_the_next_one_awaited(void **state)
{
	struct mps_env *e = *state;
	char id[] = "GPU-0::3";
	struct pod_device room;

	up_with_pod(e, &room, id);
	learn_server(e);
	kill_server(e);
	agent_fixture_until(e->f, mps_env_is(e, GPU, MPS_SERVER));
	assert_false(mps_env_ok(e, "GPU-0::0", NULL));
	assert_int_equal(agent_fixture_count(e->f, "MPSServerDied"), 2);
	assert_non_null(strstr(e->f->events[0].message, "and its 1 clients with it"));
	assert_string_equal(e->f->events[1].about.pod, "web");
	assert_int_equal(mps_clients_count(&mps_env_find_daemon(e, GPU)->clients), 0);
	agent_fixture_until(e->f, mps_env_lines(e, "asked", "start_server -uid") == 1);
	mps_env_write(e, "say-get_server_list", "700\n");
	mps_env_log(e, GPU, "NEW SERVER 700: Ready");
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(agent_fixture_count(e->f, "MPSRecovered"), 1);
	assert_int_equal(mps_env_find_daemon(e, GPU)->counts.server_deaths, 1);
}

static void server__that_was_stopped_counts_as_no_death(void **state)
{
	struct mps_env *e = *state;

	mps_env_up(e, 1);
	mps_env_log(e, GPU, "Exiting");
	mps_env_log(e, GPU, "Server 609 exited with status 0");
	mps_env_client(e, GPU, 1); /* later lines have been read */
	assert_true(mps_env_is(e, GPU, MPS_READY));
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
}

/* The daemon is ready, its server has died, and another one is asked for. */
static struct mps_supervisor *lose_server(struct mps_env *e)
{
	struct mps_supervisor *sup = mps_env_find_daemon(e, GPU);

	learn_server(e);
	kill_server(e);
	agent_fixture_until(e->f, mps_env_rests(e, GPU, MPS_SERVER) && sup->step == 1);
	return sup;
}

static void server__whose_log_line_was_lost_is_found_by_a_query(void **state)
{
	struct mps_env *e = *state;

	mps_env_stop_clock();
	mps_env_up(e, 1);
	(void)lose_server(e);
	mps_env_write(e, "say-get_server_list", "700\n");
	mps_env_skip(e, SERVER_NS - NS_PER_SEC);
	mps_env_settle(e);
	assert_true(mps_env_is(e, GPU, MPS_SERVER));
	mps_env_skip(e, NS_PER_SEC);
	mps_env_until_state(e, GPU, MPS_READY);
}

static void server__that_does_not_start_restarts_the_daemon(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = lose_server(e);
	mps_env_log(e, GPU, "Failed to start the server: no memory");
	agent_fixture_until(e->f, *sup->watch.complaint);
	mps_env_skip(e, SERVER_NS);
	agent_fixture_until(e->f, !sup->process);
	assert_non_null(
		strstr(sup->why, "the MPS server was not ready in time: Failed to start"));
	assert_true(sup->needs_server);
	/* The next one is not ready before it has a server. */
	mps_env_skip(e, PAUSE_NS);
	agent_fixture_until(e->f, mps_env_rests(e, GPU, MPS_SERVER) && sup->step == 1);
	assert_false(mps_env_ok(e, "GPU-0::0", NULL));
	mps_env_log(e, GPU, "Server 701 exited with status 1");
	agent_fixture_until(e->f, !sup->process);
	assert_non_null(strstr(sup->why, "the MPS server ended at its start"));
	mps_env_skip(e, PAUSE_NS);
	agent_fixture_until(e->f, mps_env_rests(e, GPU, MPS_SERVER) && sup->step == 1);
	mps_env_write(e, "say-get_server_list", "702\n");
	mps_env_log(e, GPU, "NEW SERVER 702: Ready");
	mps_env_until_state(e, GPU, MPS_READY);
	assert_false(sup->needs_server);
	assert_int_equal(agent_fixture_count(e->f, "MPSRecovered"),
		0); /* it is "ready again" */
	assert_int_equal(agent_fixture_count(e->f, "MPSDaemonUp"), 1);
}

static void server__that_cannot_be_queried_restarts_the_daemon(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	mps_env_write(e, "fail-start_server", "no such user\n");
	learn_server(e);
	kill_server(e);
	agent_fixture_until(e->f, sup->counts.server_deaths && !sup->process);
	assert_string_equal(sup->why, "no such user");
}

/* --- the daemon dies --- */

static void daemon__that_dies_emits_events_at_the_pods_of_its_clients(void **state)
{
	struct mps_env *e = *state;
	char id[] = "GPU-0::3";
	struct pod_device room;
	struct mps_supervisor *sup;

	up_with_pod(e, &room, id);
	sup = mps_env_find_daemon(e, GPU);
	assert_int_equal(kill(mps_process_pid(sup), SIGKILL), 0);
	agent_fixture_until(e->f, !sup->process);
	assert_int_equal(agent_fixture_count(e->f, "MPSDaemonDied"), 1);
	assert_string_equal(agent_fixture_last(e->f, "MPSDaemonDied")->about.pod, "web");
	assert_int_equal(mps_clients_count(&sup->clients), 0);
}

static void daemon__that_dies_of_a_fault_reports_it_at_once(void **state)
{
	struct mps_env *e = *state;
	uint32_t pid = self();
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	add_clients(e, &pid, 1);
	fault(e, 0, &pid, 1);
	assert_int_equal(kill(mps_process_pid(sup), SIGKILL), 0);
	agent_fixture_until(e->f, !sup->process);
	assert_int_equal(agent_fixture_count(e->f, "MPSClientFault"), 1);
	assert_false(sup->watch.fault.pending);
}

/* --- lines that a process of a container writes --- */

/* Two daemons, one of which has this process as its client; server 609 is known. */
static struct mps_supervisor *up_with_liar(struct mps_env *e)
{
	uint32_t pid = self();

	mps_env_stop_clock();
	mps_env_up(e, 2);
	learn_server(e);
	add_clients(e, &pid, 1);
	answer_status(e, "ACTIVE\n");
	return mps_env_find_daemon(e, GPU);
}

/* Daemon @pid and its client are as before, and so is the other daemon, which got no question of the kind. */
static void assert_unharmed(struct mps_env *e, pid_t pid)
{
	const struct mps_supervisor *sup = mps_env_find_daemon(e, GPU);

	assert_true(mps_env_is(e, GPU, MPS_READY));
	assert_int_equal(mps_process_pid(sup), pid);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(mps_clients_count(&sup->clients), 1);
	assert_true(mps_env_ok(e, "GPU-0::0", NULL));
	assert_true(mps_env_is(e, "GPU-1", MPS_READY));
	assert_true(mps_env_ok(e, "GPU-1::0", NULL));
	assert_int_equal(mps_env_find_daemon(e, "GPU-1")->watch.vain_checks, 0);
	assert_int_equal(mps_env_lines(e, "started", ""), 2);
	assert_int_equal(mps_env_lines(e, "asked", "start_server"), 0);
}

static void forged__lines_of_all_kinds_end_nothing(void **state)
{
	static const char *const lines[] = {
		"Server 609 exited with status 139",
		"Server 1 exited with status 1",
		"NEW SERVER 700: Ready",
		"NEW SERVER 609: Ready",
		FAULT,
		"Client {PID: 1, Context: 1} encountered a fatal GPU error.",
		HIT,
		"1",
		"Exiting",
		"Failed to start the server: -multiuser-server",
		"Server encountered a fatal exception. Shutting down",
		"Client {PID: 2147483647, Context ID: 0} connected",
		"Client process 2147483647 disconnected",
	};
	struct mps_env *e = *state;
	const struct mps_supervisor *sup = up_with_liar(e);
	pid_t pid = mps_process_pid(sup);

	/* Each line twice, with time for the checks between. */
	for (size_t i = 0; i < 2 * ARRAY_LEN(lines); i++) {
		mps_env_log(e, GPU, "%s", lines[i / 2]);
		for (int k = 0; k < 4; k++) {
			mps_env_skip(e, CHECK_NS);
			mps_env_settle(e);
		}
		assert_unharmed(e, pid);
		assert_false(sup->watch.fault.pending);
	}
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
	assert_int_equal(
		sup->counts.faults + sup->counts.server_deaths + sup->counts.daemon_deaths, 0);
}

/* The fault of docs/design/mps.md: two lines were enough for SIGKILL to the daemon and all of its clients. */
static void forged__end_of_a_server_twice_kills_no_daemon(void **state)
{
	struct mps_env *e = *state;
	const struct mps_supervisor *sup = up_with_liar(e);
	pid_t pid = mps_process_pid(sup);
	unsigned asked = mps_env_lines(e, "asked", "get_server_list");

	for (int i = 0; i < 50; i++) {
		mps_env_log(e, GPU, "Server 609 exited with status 0");
		mps_env_settle(e);
	}
	agent_fixture_until(e->f, sup->watch.hints.exited_pid || sup->watch.vain_checks);
	mps_env_settle(e);
	assert_unharmed(e, pid);
	assert_in_range(mps_env_lines(e, "asked", "get_server_list"), asked, asked + 1);
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
}

static void forged__lines_are_checked_less_and_less_often(void **state)
{
	struct mps_env *e = *state;
	const struct mps_supervisor *sup = up_with_liar(e);
	pid_t pid = mps_process_pid(sup);
	unsigned asked = mps_env_lines(e, "asked", "get_server_list");

	for (int i = 0; i < 600; i++) { /* a minute */
		mps_env_log(e, GPU, "Server 609 exited with status 0");
		mps_env_skip(e, NS_PER_SEC / 10);
		mps_env_settle(e);
	}
	assert_unharmed(e, pid);
	/* After 0.3, 0.9, 2.1, 4.5, 9.3 and 18.9 s, then every 10 s; the other daemon's are some six. */
	assert_in_range(mps_env_lines(e, "asked", "get_server_list") - asked, 6, 24);
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
}

static void forged__fault_of_a_client_that_works_is_dropped(void **state)
{
	struct mps_env *e = *state;
	const struct mps_supervisor *sup = up_with_liar(e);
	pid_t pid = mps_process_pid(sup);
	const uint32_t hit[] = { self(), 1 };

	log_fault(e, self(), hit, 2);
	agent_fixture_until(e->f, sup->watch.fault.pending);
	mps_env_settle(e);
	assert_true(mps_env_ok(e, "GPU-0::0", NULL)); /* the first check found no fault */
	for (int i = 0; i < 4; i++) {
		mps_env_skip(e, FAULT_REPORT_NS);
		mps_env_settle(e);
	}
	assert_false(sup->watch.fault.pending);
	assert_unharmed(e, pid);
	assert_int_equal(sup->counts.faults, 0);
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
}

/* That it ended by a fault cannot be told apart, and is over. */
static void forged__fault_of_clients_that_have_ended_is_an_event_at_most(void **state)
{
	struct mps_env *e = *state;
	const struct mps_supervisor *sup = up_with_liar(e);
	pid_t pid = mps_process_pid(sup);
	const uint32_t gone = 2147483647;

	/* Half a minute, in which checks because of the log are at 0, 0.3, 0.9, 2.1, 4.5, 9.3 and 18.9 s, and usual ones. */
	for (int i = 0; i < 30; i++) {
		log_fault(e, 0, &gone, 1);
		agent_fixture_until(e->f, sup->watch.fault.pending);
		for (int k = 0; k < 4; k++) {
			mps_env_settle(e);
			mps_env_skip(e, NS_PER_SEC / 4);
		}
		assert_unharmed(e, pid);
	}
	assert_in_range(sup->counts.faults, 5, 9);
	assert_int_equal(agent_fixture_count(e->f, ""), 5);
}

static void forged__server_is_ready_only_if_the_daemon_has_it(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;
	pid_t pid;

	mps_env_stop_clock();
	mps_env_up(e, 1);
	sup = lose_server(e);
	pid = mps_process_pid(sup);
	mps_env_log(e, GPU, "NEW SERVER 700: Ready"); /* the daemon has none */
	agent_fixture_until(e->f, sup->watch.vain_checks == 1);
	mps_env_settle(e);
	assert_true(mps_env_is(e, GPU, MPS_SERVER));
	mps_env_write(e, "say-get_server_list", "701\n");
	mps_env_write(e, "say-get_server_status", "INITIALIZING\n");
	mps_env_log(e, GPU, "NEW SERVER 701: Ready");
	mps_env_log(e, GPU, "Server 701 exited with status 1"); /* nor has it ended */
	agent_fixture_until(e->f, sup->watch.hints.ready_pid && sup->watch.hints.server_exited);
	mps_env_skip(e, NS_PER_SEC);
	agent_fixture_until(e->f, sup->watch.vain_checks == 2);
	mps_env_settle(e);
	assert_true(mps_env_is(e, GPU, MPS_SERVER));
	assert_false(mps_env_ok(e, "GPU-0::0", NULL));
	assert_int_equal(mps_process_pid(sup), pid);
	mps_env_write(e, "say-get_server_status", NULL);
	mps_env_log(e, GPU, "NEW SERVER 701: Ready");
	agent_fixture_until(e->f, sup->watch.hints.ready_pid);
	mps_env_skip(e, NS_PER_SEC);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_process_pid(sup), pid);
}

/* --- the log --- */

static void log__that_was_truncated_is_read_from_its_start(void **state)
{
	struct mps_env *e = *state;
	char path[PATH_MAX];

	mps_env_up(e, 1);
	mps_env_client(e, GPU, 1);
	(void)snprintf(path, sizeof(path), "%.2000s/GPU-0/log/mps.log", e->root);
	assert_int_equal(truncate(path, 0), 0);
	agent_fixture_until(e->f, mps_env_find_daemon(e, GPU)->watch.offset == 0);
	mps_env_client(e, GPU, 2);
}

static void fill_log(const struct mps_env *e, size_t bytes)
{
	char *text = malloc(bytes + 1);

	assert_non_null(text);
	memset(text, 'x', bytes);
	for (size_t i = 99; i < bytes; i += 100)
		text[i] = '\n';
	text[bytes - 1] = '\n';
	text[bytes] = '\0';
	mps_env_write(e, "m/GPU-0/log/mps.log", text);
	free(text);
}

static void log__is_read_to_its_end_in_pieces(void **state)
{
	struct mps_env *e = *state;

	mps_env_up(e, 1);
	fill_log(e, 300 << 10);
	mps_env_client(e, GPU, 1);
	assert_in_range(mps_env_find_daemon(e, GPU)->watch.offset, 300 << 10, 301 << 10);
}

static void log__is_truncated_at_its_limit(void **state)
{
	struct mps_env *e = *state;

	mps_env_up(e, 1);
	fill_log(e, (1 << 20) + 1);
	agent_fixture_until(e->f, mps_env_lines(e, "m/GPU-0/log/mps.log", "x") == 0);
	assert_int_equal(mps_env_find_daemon(e, GPU)->watch.offset, 0);
	mps_env_client(e, GPU, 1);
}

static void log__that_is_a_link_is_not_followed(void **state)
{
	struct mps_env *e = *state;
	char path[PATH_MAX], other[PATH_MAX];

	mps_env_up(e, 1);
	(void)snprintf(path, sizeof(path), "%.2000s/GPU-0/log/mps.log", e->root);
	(void)snprintf(other, sizeof(other), "%s/other", e->f->dir);
	mps_env_log(e, GPU, FAULT);
	agent_fixture_until(e->f, mps_env_find_daemon(e, GPU)->watch.fault.pending);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	mps_env_log(e, GPU, "Client {PID: 1, Context ID: 0} connected"); /* through the link */
	assert_false(mps_watch_read(mps_env_find_daemon(e, GPU)));
	assert_null(mps_clients_find(&mps_env_find_daemon(e, GPU)->clients, 1));
}

/* Each costs a file of /proc: the rest is found when the daemon is asked. */
static void log__with_many_clients_has_some_identified(void **state)
{
	struct mps_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 16);
	const struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	for (unsigned i = 0; i < 100; i++)
		buf_printf(&b, "[x Server 609] Client {PID: %u, Context ID: 0} connected\n",
			5000 + i);
	mps_env_write(e, "m/GPU-0/log/mps.log", buf_str(&b));
	agent_fixture_until(e->f, mps_clients_count(&sup->clients) > 0);
	assert_in_range(mps_clients_count(&sup->clients), 32, 64); /* in one piece, or in two */
	assert_false(mps_supervisor_is_unused(sup));
	buf_clear(&b);
	for (unsigned i = 0; i < 100; i++)
		buf_printf(&b, "%u\n", 5000 + i);
	mps_env_write(e, "say-get_server_list", "609\n");
	mps_env_write(e, "say-get_client_list", buf_str(&b));
	mps_env_skip(e, 10 * NS_PER_SEC);
	agent_fixture_until(e->f, mps_clients_count(&sup->clients) == 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MPS_TEST(fault__emits_an_event_at_the_pod_of_the_client),
		MPS_TEST(fault__is_over_when_all_affected_clients_ended),
		MPS_TEST(fault__is_reported_for_all_affected_clients_and_no_other),
		MPS_TEST(fault__without_the_kubelet_emits_an_event_at_the_node),
		MPS_TEST(fault__is_reported_after_its_daemon_ended),
		MPS_TEST(fault__emits_no_event_at_a_pod_of_another_gpu),
		MPS_TEST(fault__names_the_faulting_client_where_it_is_known),
		MPS_TEST(fault__in_several_pieces_is_reported_once),
		MPS_TEST(fault__is_reported_five_times_a_minute_at_most),
		MPS_TEST(fault__without_a_line_is_found_by_a_check),
		MPS_TEST(server__that_dies_is_reported_and_the_next_one_awaited),
		MPS_TEST(server__that_was_stopped_counts_as_no_death),
		MPS_TEST(server__whose_log_line_was_lost_is_found_by_a_query),
		MPS_TEST(server__that_does_not_start_restarts_the_daemon),
		MPS_TEST(server__that_cannot_be_queried_restarts_the_daemon),
		MPS_TEST(daemon__that_dies_emits_events_at_the_pods_of_its_clients),
		MPS_TEST(daemon__that_dies_of_a_fault_reports_it_at_once),
		MPS_TEST(forged__lines_of_all_kinds_end_nothing),
		MPS_TEST(forged__end_of_a_server_twice_kills_no_daemon),
		MPS_TEST(forged__lines_are_checked_less_and_less_often),
		MPS_TEST(forged__fault_of_a_client_that_works_is_dropped),
		MPS_TEST(forged__fault_of_clients_that_have_ended_is_an_event_at_most),
		MPS_TEST(forged__server_is_ready_only_if_the_daemon_has_it),
		MPS_TEST(log__that_was_truncated_is_read_from_its_start),
		MPS_TEST(log__is_read_to_its_end_in_pieces),
		MPS_TEST(log__is_truncated_at_its_limit),
		MPS_TEST(log__that_is_a_link_is_not_followed),
		MPS_TEST(log__with_many_clients_has_some_identified),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
