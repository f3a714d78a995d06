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

/* The daemon is ready and has this process as its client, which is of pod shop/web. */
static void up_with_pod(struct mps_env *e, struct pod_device *room, char *id)
{
	char name[32], text[64];

	mps_env_pod(e, room, id);
	(void)snprintf(name, sizeof(name), "who-%u", mps_env_self());
	(void)snprintf(text, sizeof(text), "%u uid-1 %s\n", mps_env_self(), id);
	mps_env_write(e, name, text);
	mps_env_up(e, 1);
	mps_env_client(e, GPU, mps_env_self());
	agent_fixture_until(e->f,
		mps_clients_find(&mps_env_find_daemon(e, GPU)->clients, mps_env_self())
				->identity == MPS_IDENTITY_KNOWN);
}

/* --- faults --- */

static void fault__emits_an_event_at_the_pod_of_the_client(void **state)
{
	struct mps_env *e = *state;
	char id[] = "GPU-0::3";
	struct pod_device room;
	uint32_t pid = mps_env_self();
	const struct fixture_event *pod;

	mps_env_stop_clock();
	up_with_pod(e, &room, id);
	mps_env_confirm_fault(e, pid, &pid, 1);
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
	const uint32_t pids[] = { mps_env_self(), 1 };

	mps_env_up(e, 1);
	mps_env_add_clients(e, pids, 2);
	mps_env_confirm_fault(e, 0, pids, 2);
	mps_env_write(e, "say-get_client_list", "1\n");
	mps_env_log(e, GPU, "Client process %u disconnected", mps_env_self());
	/* Any process of a container can write this line, so it proves nothing. */
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
	const uint32_t pids[] = { 1, 2, mps_env_self() };
	char id[] = "GPU-0::3";
	struct pod_device room;

	mps_env_stop_clock();
	up_with_pod(e, &room, id); /* its pod would get an Event */
	mps_env_add_clients(e, pids, 3);
	mps_env_confirm_fault(e, 0, pids, 2);
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
	uint32_t pid = mps_env_self();

	e->holders_unknown = true;
	up_with_pod(e, &room, id);
	mps_env_confirm_fault(e, 0, &pid, 1);
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
	uint32_t pid = mps_env_self();

	e->pod_devices_late = true;
	up_with_pod(e, &room, id);
	mps_env_confirm_fault(e, 0, &pid, 1);
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
		uint32_t pid = mps_env_self();

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
		mps_env_confirm_fault(e, 0, &pid, 1);
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
	const uint32_t pids[] = { mps_env_self(), 1, 2 }, last = 2147483647;
	const struct mps_supervisor *sup = mps_env_find_daemon(e, GPU);

	mps_env_add_clients(e, pids, r->n);
	if (r->gone_ns) {
		mps_env_log(e, GPU, "Client {PID: %u, Context ID: 0} connected", last);
		mps_env_log(e, GPU, "Client process %u disconnected", last);
		agent_fixture_until(e->f,
			mps_clients_find(&sup->clients, last) &&
				!mps_clients_find(&sup->clients, last)->connected);
		mps_env_skip(e, r->gone_ns);
		mps_env_settle(e);
	}
	mps_env_confirm_fault(e, r->named ? pids[r->named - 1] : 0, pids, r->n);
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
	const uint32_t pids[] = { mps_env_self(), 1 };
	const struct mps_supervisor *sup;

	mps_env_stop_clock();
	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	mps_env_add_clients(e, pids, 2);
	mps_env_confirm_fault(e, 0, pids, 1);
	mps_env_log(e, GPU, MPS_ENV_FAULT);
	mps_env_log(e, GPU, "Client {PID: 1, Context: 1} encountered a fatal GPU error.");
	agent_fixture_until(e->f, sup->watch.fault.named_pid == 1); /* named late */
	mps_env_log(e, GPU, "Client {PID: 2, Context: 1} encountered a fatal GPU error.");
	mps_env_log(e, GPU, MPS_ENV_HIT);
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
	mps_env_answer_status(e, "FAULT\n");
	for (unsigned i = 1; i <= 8; i++) {
		sup->watch.check_at_ns = 0; /* no pause after the checks before */
		mps_env_log(e, GPU, MPS_ENV_FAULT);
		agent_fixture_until(e->f, sup->counts.faults == i);
		mps_env_skip(e, FAULT_REPORT_NS);
		mps_env_settle(e);
	}
	assert_int_equal(agent_fixture_count(e->f, "MPSClientFault"), 5);
	mps_env_skip(e, 60 * NS_PER_SEC);
	mps_env_settle(e);
	sup->watch.check_at_ns = 0;
	mps_env_log(e, GPU, MPS_ENV_FAULT);
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

static void server__that_dies_is_reported_and_the_next_one_awaited(void **state)
{
	struct mps_env *e = *state;
	char id[] = "GPU-0::3";
	struct pod_device room;

	up_with_pod(e, &room, id);
	mps_env_learn_server(e);
	mps_env_kill_server(e);
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

static void server__whose_log_line_was_lost_is_found_by_a_query(void **state)
{
	struct mps_env *e = *state;

	mps_env_stop_clock();
	mps_env_up(e, 1);
	(void)mps_env_lose_server(e);
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
	sup = mps_env_lose_server(e);
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
	mps_env_learn_server(e);
	mps_env_kill_server(e);
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
	uint32_t pid = mps_env_self();
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	mps_env_add_clients(e, &pid, 1);
	mps_env_confirm_fault(e, 0, &pid, 1);
	assert_int_equal(kill(mps_process_pid(sup), SIGKILL), 0);
	agent_fixture_until(e->f, !sup->process);
	assert_int_equal(agent_fixture_count(e->f, "MPSClientFault"), 1);
	assert_false(sup->watch.fault.pending);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
