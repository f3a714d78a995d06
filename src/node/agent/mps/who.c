/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/unit.h"

#include "lib/base/libexec.h"

#include <inttypes.h>
#include <stdio.h>

/*
 * Who the clients are is asked of `gpuslice-mps clients`, one client at a time, as environments are their processes'
 * memory: a page of it may never come (lib/base/procfs.h). If no answer comes in time the client stays unknown, and that
 * process of ours is killed, or left behind. The next question starts another one. After many that did not answer
 * (struct mps_silence) the other clients wait for a while, and are asked about then.
 */

#define HELPER     "gpuslice-mps"
#define ANSWER_NS  (2 * NS_PER_SEC)
#define IDLE_NS    (365 * 24 * 3600 * NS_PER_SEC)
#define LOG_PER_NS (60 * NS_PER_SEC)
#define LOG_BURST  5

static struct mps_client *asked(const struct mps_unit *u)
{
	struct mps_client *c =
		u->asked_pid ? mps_clients_find(&u->clients, u->asked_pid) : NULL;

	return c && c->who == MPS_WHO_ASKED ? c : NULL;
}

static void set_unknown(struct mps_unit *u, struct mps_client *c, const char *reason)
{
	c->who = MPS_WHO_UNKNOWN;
	if (log_limit_pass(&u->who_limit, time_mono_ns(), LOG_PER_NS, LOG_BURST))
		log_warn("the pod of an MPS client is not known", LOG_STR("daemon", u->key),
			LOG_UINT("pid", c->pid), LOG_STR("name", c->name),
			LOG_STR("reason", reason));
}

static int on_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct mps_unit *u = arg;

	if (mps_clients_answer(&u->clients, line, len, err) < 0)
		return -1;
	u->asked_pid = 0;
	proc_expect(u->who, IDLE_NS);
	who_next(u);
	return 0;
}

static void on_ended(void *arg, const struct child_end *e)
{
	struct mps_unit *u = arg;
	struct mps_client *c = asked(u);

	u->who = NULL;
	u->asked_pid = 0;
	if (e->silent)
		mps_silence_count(&u->who_silence, time_mono_ns());
	if (c)
		set_unknown(u, c,
			e->silent   ? "its environment cannot be read in time"
			: *e->words ? e->words
				    : HELPER " ended");
	who_next(u);
}

static const struct child_ops ops = { .line = on_line, .ended = on_ended };

static int start(struct mps_unit *u, struct error *err)
{
	char helper[PATH_MAX];
	const char *const argv[] = { helper, "clients", NULL };
	const struct child_what what = { .argv = argv,
		.keep_input = true,
		.silence_ns = IDLE_NS };

	if (libexec_find(helper, HELPER, "node/agent/mps", err) < 0)
		return -1;
	return proc_start(&u->who, u->mps->c.loop, &what, &ops, u, err);
}

static int ask(struct mps_unit *u, struct mps_client *c, struct error *err)
{
	char line[16];
	int n = snprintf(line, sizeof(line), "%" PRIu32 "\n", c->pid);

	if ((!u->who && start(u, err) < 0) || proc_send(u->who, line, (size_t)n, err) < 0)
		return -1;
	proc_expect(u->who, ANSWER_NS);
	c->who = MPS_WHO_ASKED;
	u->asked_pid = c->pid;
	return 0;
}

/* They stay wanted: each check of the daemon comes here again. */
static void postpone(struct mps_unit *u)
{
	if (log_limit_pass(&u->who_limit, time_mono_ns(), LOG_PER_NS, LOG_BURST))
		log_warn("the pods of MPS clients are read later", LOG_STR("daemon", u->key),
			LOG_STR("reason",
				"reading the environment of other clients took too long"));
}

void who_next(struct mps_unit *u)
{
	struct error err = ERROR_INIT;
	struct mps_client *c;

	while (!u->gone && !u->asked_pid && (c = mps_clients_wanted(&u->clients)) != NULL) {
		if (!mps_silence_may_ask(&u->who_silence, time_mono_ns())) {
			postpone(u);
			return;
		}
		if (ask(u, c, &err) == 0)
			return;
		set_unknown(u, c, err.msg);
	}
}

void who_stop(struct mps_unit *u)
{
	u->who = proc_stop(u->who);
	u->asked_pid = 0;
}
