/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/identify.h"

#include "node/agent/mps/supervisor.h"
#include "lib/base/paths.h"

#include <inttypes.h>
#include <stdio.h>

/*
 * Asks the helper `gpuslice-mps clients` for the identity of clients, one client at a time. An environment is its
 * process's memory, and a page of it may never come (lib/base/procfs.h).
 *
 * 1. The loop sends the PID of the next client to the helper, and starts a helper if there is none.
 * 2. The helper answers within ANSWER_NS, and the client's identity is known.
 * 3. Without an answer the client stays unknown. The loop kills the helper, or leaves it behind. The next question
 *    starts another helper.
 * 4. After too many questions without an answer (struct mps_unanswered), the remaining clients wait for a later
 *    question.
 */

#define HELPER     "gpuslice-mps"
#define ANSWER_NS  (2 * NS_PER_SEC)
#define IDLE_NS    (365 * 24 * 3600 * NS_PER_SEC)
#define LOG_PER_NS (60 * NS_PER_SEC)
#define LOG_BURST  5

static struct mps_client *get_asked_client(const struct mps_supervisor *sup)
{
	struct mps_client *c =
		sup->identify.pid ? mps_clients_find(&sup->clients, sup->identify.pid) : NULL;

	return c && c->identity == MPS_IDENTITY_REQUESTED ? c : NULL;
}

static void set_client_pod_unknown(struct mps_supervisor *sup, struct mps_client *c,
	const char *reason)
{
	c->identity = MPS_IDENTITY_UNKNOWN;
	if (log_limit_pass(&sup->identify.log_limit, time_mono_ns(), LOG_PER_NS, LOG_BURST))
		log_warn("the pod of an MPS client is not known", LOG_STR("daemon", sup->key),
			LOG_UINT("pid", c->pid), LOG_STR("name", c->name),
			LOG_STR("reason", reason));
}

static int on_client_pod_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct mps_supervisor *sup = arg;

	if (mps_clients_answer(&sup->clients, line, len, err) < 0)
		return -1;
	sup->identify.pid = 0;
	proc_expect(sup->identify.child, IDLE_NS);
	mps_identify_next(sup);
	return 0;
}

static void on_client_helper_ended(void *arg, const struct child_end *e)
{
	struct mps_supervisor *sup = arg;
	struct mps_client *c = get_asked_client(sup);

	sup->identify.child = NULL;
	sup->identify.pid = 0;
	if (e->was_silent)
		mps_unanswered_count(&sup->identify.unanswered, time_mono_ns());
	if (c)
		set_client_pod_unknown(sup, c,
			e->was_silent ? "its environment cannot be read in time"
			: *e->words   ? e->words
				      : HELPER " ended");
	mps_identify_next(sup);
}

static const struct child_ops ops = { .line = on_client_pod_line,
	.ended = on_client_helper_ended };

static int start_client_helper(struct mps_supervisor *sup, struct error *err)
{
	char helper[PATH_MAX];
	const char *const argv[] = { helper, "clients", NULL };
	const struct child_spec what = { .argv = argv,
		.keep_stdin_open = true,
		.silence_ns = IDLE_NS };

	if (libexec_find(helper, HELPER, "node/agent/mps", err) < 0)
		return -1;
	return proc_start(&sup->identify.child, sup->mps->c.loop, &what, &ops, sup, err);
}

static int request_client_pod(struct mps_supervisor *sup, struct mps_client *c,
	struct error *err)
{
	char line[16];
	int n = snprintf(line, sizeof(line), "%" PRIu32 "\n", c->pid);

	if ((!sup->identify.child && start_client_helper(sup, err) < 0) ||
		proc_send(sup->identify.child, line, (size_t)n, err) < 0)
		return -1;
	proc_expect(sup->identify.child, ANSWER_NS);
	c->identity = MPS_IDENTITY_REQUESTED;
	sup->identify.pid = c->pid;
	return 0;
}

/*
 * The clients stay MPS_IDENTITY_NEEDED. Each read of the log and each check of the daemon calls
 * mps_identify_next() again.
 */
static void log_client_pods_postponed(struct mps_supervisor *sup)
{
	if (log_limit_pass(&sup->identify.log_limit, time_mono_ns(), LOG_PER_NS, LOG_BURST))
		log_warn("the pods of MPS clients are read later", LOG_STR("daemon", sup->key),
			LOG_STR("reason",
				"reading the environment of other clients took too long"));
}

void mps_identify_next(struct mps_supervisor *sup)
{
	struct error err = ERROR_INIT;
	struct mps_client *c;

	while (!sup->closed && !sup->identify.pid &&
		(c = mps_clients_next_unidentified(&sup->clients)) != NULL) {
		if (!mps_unanswered_may_query(&sup->identify.unanswered, time_mono_ns())) {
			log_client_pods_postponed(sup);
			return;
		}
		if (request_client_pod(sup, c, &err) == 0)
			return;
		set_client_pod_unknown(sup, c, err.msg);
	}
}

void mps_identify_stop(struct mps_supervisor *sup)
{
	sup->identify.child = proc_stop(sup->identify.child);
	sup->identify.pid = 0;
}
