/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/supervisor.h"

#include "node/agent/mps/compute-mode.h"
#include "node/agent/mps/process.h"
#include "node/agent/mps/server.h"
#include "lib/base/backoff.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_NS      (10 * NS_PER_SEC) /* from the start to the first answer */
#define ASK_MS         50                /* between questions until then */
#define MORE_MS        5                 /* between pieces of a long log */
#define CHECK_NS       (10 * NS_PER_SEC)
#define DRAIN_CHECK_NS (2 * NS_PER_SEC)
#define EMPTY_CHECK_NS (200 * NS_PER_MS) /* if the log shows no client */
#define QUIT_NS        (10 * NS_PER_SEC) /* a daemon without clients takes 0.15 s */
#define STOP_NS        (3 * NS_PER_SEC)  /* at the agent's end */
#define BACKOFF_NS     (200 * NS_PER_MS)
#define BACKOFF_MAX_NS (30 * NS_PER_SEC)
#define LONG_LIFE_NS   (60 * NS_PER_SEC) /* a longer life resets .failures */

static const char *const names[] = {
	[MPS_DOWN] = "down",
	[MPS_MODES] = "setting compute modes",
	[MPS_STARTING] = "starting",
	[MPS_SETTING] = "setting limits",
	[MPS_READY] = "ready",
	[MPS_FAULTED] = "fault",
	[MPS_SERVER] = "server is restarted",
	[MPS_DRAINING] = "draining",
	[MPS_QUITTING] = "quitting",
	[MPS_RESTORING] = "restoring compute modes",
};

const char *mps_state_name(enum mps_state s)
{
	return names[s];
}

bool mps_supervisor_is_usable(const struct mps_supervisor *sup)
{
	/* A daemon that was READY keeps serving while its limits or compute modes change. */
	return sup->state == MPS_READY ||
	       (sup->was_ready && (sup->state == MPS_SETTING || sup->state == MPS_MODES ||
					  sup->state == MPS_RESTORING));
}

bool mps_supervisor_has_device(const struct mps_supervisor *sup, const char *uuid)
{
	return strv_has(&sup->dir.devices, uuid);
}

/* --- other daemons --- */

static bool has_mode(const struct mps_daemon_dir *dir, const char *uuid)
{
	for (uint32_t i = 0; i < dir->n_modes; i++)
		if (!strcmp(dir->modes[i].uuid, uuid))
			return true;
	return false;
}

/* Another supervisor that saved the compute mode of one of these GPUs; NULL: none. */
static const struct mps_supervisor *find_other_with_modes(const struct mps_supervisor *sup)
{
	for (const struct mps_supervisor *o = sup->mps->daemons; o; o = o->next)
		for (size_t i = 0; o != sup && !o->closed && i < sup->desired.uuids.n; i++)
			if (has_mode(&o->dir, sup->desired.uuids.v[i]))
				return o;
	return NULL;
}

/* Another supervisor whose daemon runs on one of these GPUs; NULL: none. */
static const struct mps_supervisor *find_other_daemon(const struct mps_supervisor *sup)
{
	for (const struct mps_supervisor *o = sup->mps->daemons; o; o = o->next)
		for (size_t i = 0; o != sup && o->process && i < sup->desired.uuids.n; i++)
			if (mps_supervisor_has_device(o, sup->desired.uuids.v[i]))
				return o;
	return NULL;
}

/* --- states --- */

/* Wakes the agent: the usable devices changed. */
static void notify_mps_daemon_change(struct mps_supervisor *sup)
{
	if (!sup->mps->stopped)
		wake_up(sup->mps->c.wake);
}

static void on_mps_daemon_timer(uv_timer_t *t)
{
	mps_supervisor_step(t->data);
}

void mps_supervisor_arm(struct mps_supervisor *sup, uint64_t ms)
{
	/* Lines of a fault are checked, and the fault is reported, soon. */
	uint64_t max = sup->watch.fault.pending ? ASK_MS : MPS_TICK_MAX_MS;

	if (sup->closed)
		return;
	uv_update_time(sup->mps->c.loop);
	(void)uv_timer_start(&sup->timer, on_mps_daemon_timer, ms < max ? ms : max, 0);
}

void mps_supervisor_enter(struct mps_supervisor *sup, enum mps_state state, const char *why)
{
	bool usable = mps_supervisor_is_usable(sup), other = strcmp(sup->why, why) != 0;

	if (state != sup->state)
		sup->since_ns = time_mono_ns();
	sup->state = state;
	sup->step = 0;
	memmove(sup->why, why, strnlen(why, sizeof(sup->why) - 1) + 1);
	sup->why[sizeof(sup->why) - 1] = '\0';
	log_debug("MPS", LOG_STR("daemon", sup->key), LOG_STR("state", names[state]));
	if (usable != mps_supervisor_is_usable(sup) || other)
		notify_mps_daemon_change(sup);
}

static void back_off_mps_start(struct mps_supervisor *sup)
{
	sup->start_at_ns =
		time_mono_ns() + backoff_doubled(BACKOFF_NS, BACKOFF_MAX_NS, sup->failures++);
}

/* Reports each reason once, until the daemon is READY again. */
static void report_mps_unavailable(struct mps_supervisor *sup, const char *why)
{
	if (!sup->wanted || !strcmp(sup->reported_reason, why))
		return;
	(void)snprintf(sup->reported_reason, sizeof(sup->reported_reason), "%s", why);
	log_warn("MPS is away, trying again", LOG_STR("daemon", sup->key),
		LOG_STR("reason", why));
	report_event(sup->mps->c.reporter, EVENT_WARNING, "MPSDaemonDown", "MPS of %s: %s",
		sup->desired.uuids.n ? sup->desired.uuids.v[0] : sup->key, why);
}

static void enter_mps_down(struct mps_supervisor *sup, const char *why)
{
	char text[ERROR_MSG_MAX];

	(void)snprintf(text, sizeof(text), "%s", why); /* @why may be sup->why */
	back_off_mps_start(sup);
	report_mps_unavailable(sup, text);
	mps_supervisor_enter(sup, MPS_DOWN, text);
}

void mps_supervisor_fail(struct mps_supervisor *sup, const char *fmt, ...)
{
	char why[ERROR_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	mps_command_stop(&sup->command);
	sup->helper = proc_stop(sup->helper);
	if (sup->process) {
		report_mps_unavailable(sup, why);
		mps_supervisor_enter(sup, MPS_QUITTING, why);
		mps_process_kill(sup);
	} else {
		enter_mps_down(sup, why);
	}
	mps_supervisor_arm(sup, 0);
}

void mps_supervisor_count_missed(struct mps_supervisor *sup, const struct error *why)
{
	/* A daemon that quits takes no commands, and waits for its clients. */
	if (sup->process && sup->state == MPS_QUITTING) {
		sup->check.done_ns = time_mono_ns(); /* its earlier answer stays valid */
		mps_supervisor_arm(sup, MPS_TICK_MAX_MS);
	} else if (sup->process && strstr(why->msg, "Cannot send command")) {
		mps_supervisor_enter(sup, MPS_QUITTING,
			"it was told to quit, and waits for its clients");
		mps_supervisor_arm(sup, MPS_TICK_MAX_MS);
	} else if (sup->stopping) { /* asks again until STOP_NS is over */
		sup->step = 0;
		mps_supervisor_arm(sup, ASK_MS);
	} else if (!sup->process || !sup->was_ready || ++sup->missed >= MPS_MISSED_MAX) {
		sup->missed = 0;
		mps_supervisor_fail(sup, "%s", why->msg);
	} else {
		log_info("MPS was asked in vain, trying again", LOG_STR("daemon", sup->key),
			LOG_STR("reason", why->msg));
		sup->step = 0;
		if (sup->check.done_ns) /* the check is due again, after a pause */
			sup->check.done_ns = 1;
		mps_supervisor_arm(sup, MPS_TICK_MAX_MS);
	}
}

void mps_supervisor_set_ready(struct mps_supervisor *sup)
{
	bool first = !sup->was_ready;

	sup->was_ready = sup->served = true;
	sup->needs_server = false;
	if (first) /* else clients may exist that no check has found yet */
		sup->check.done_ns = time_mono_ns();
	mps_supervisor_enter(sup, MPS_READY, "");
	if (first)
		log_info("MPS is ready", LOG_STR("daemon", sup->key),
			LOG_INT("pid", mps_process_pid(sup)),
			LOG_UINT("percent", sup->applied.percent),
			LOG_UINT("mib", sup->applied.limits[0]));
	if (*sup->reported_reason)
		report_event(sup->mps->c.reporter, EVENT_NORMAL, "MPSDaemonUp",
			"MPS of %s is ready again",
			sup->desired.uuids.n ? sup->desired.uuids.v[0] : sup->key);
	sup->reported_reason[0] = '\0';
}

/*
 * MPS starts a server for the first client, and that client fails if the server cannot start. Where this is
 * likely, the supervisor starts the server first.
 */
static void finish_mps_settings(struct mps_supervisor *sup)
{
	mps_spec_set_applied(&sup->applied, &sup->desired);
	sup->missed = 0;
	if (!sup->was_ready && sup->n_servers == 0 &&
		(sup->desired.exclusive || sup->needs_server))
		mps_supervisor_enter(sup, MPS_SERVER, "an MPS server is being started");
	else
		mps_supervisor_set_ready(sup);
}

bool mps_supervisor_is_unused(const struct mps_supervisor *sup)
{
	return sup->check.has_no_client && mps_clients_count(&sup->clients) == 0;
}

static bool check_is_due(const struct mps_supervisor *sup, uint64_t every)
{
	return time_mono_ns() - sup->check.done_ns >= every;
}

/* --- the next step of each state --- */

static void start_mps_process(struct mps_supervisor *sup)
{
	struct error err = ERROR_INIT;

	(void)mps_watch_report_fault(sup, /* now= */ true);
	mps_watch_truncate_log(sup);
	sup->started_ns = time_mono_ns();
	sup->missed = 0;
	sup->applied.percent = 0;
	sup->was_ready = false;
	sup->watch.complaint[0] = '\0';
	sup->n_servers = 0;
	sup->check.has_server_fault = false;
	sup->watch.hints = sup->check.hints = (struct mps_hints){ .exited_pid = 0 };
	if (mps_process_start(sup, &err) < 0) {
		mps_supervisor_fail(sup, "%s", err.msg);
		return;
	}
	mps_supervisor_enter(sup, MPS_STARTING, "the MPS control daemon is starting");
	mps_watch_start(sup);
	mps_supervisor_arm(sup, ASK_MS);
}

static void begin_mps_start(struct mps_supervisor *sup)
{
	struct error err = ERROR_INIT;

	sup->modes_are_set = false;
	if (mps_spec_list_devices(&sup->desired, &sup->dir.devices, &err) < 0 ||
		mps_daemon_dir_make(&sup->dir, &err) < 0 ||
		mps_daemon_dir_save(&sup->dir, &err) < 0) {
		mps_supervisor_fail(sup, "%s", err.msg);
	} else if (!sup->desired.exclusive) {
		start_mps_process(sup);
	} else {
		mps_supervisor_enter(sup, MPS_MODES, "the compute mode is being set");
		if (mps_modes_read(sup, &err) < 0)
			mps_supervisor_fail(sup, "%s", err.msg);
	}
}

static void on_modes(struct mps_supervisor *sup, bool ok, const char *why);

static void restore_compute_modes(struct mps_supervisor *sup)
{
	struct error err = ERROR_INIT;

	sup->modes_are_set = false;
	mps_supervisor_enter(sup, MPS_RESTORING, sup->why);
	if (mps_modes_restore(sup, &err) < 0)
		on_modes(sup, false, err.msg);
}

/* The supervisor retries a restore for as long as it takes. */
static void on_modes_restored(struct mps_supervisor *sup, bool ok, const char *why)
{
	struct error err = ERROR_INIT;

	if (!ok && strcmp(sup->reported_reason, why) != 0) {
		log_warn("a compute mode is not restored yet", LOG_STR("daemon", sup->key),
			LOG_STR("reason", why));
		(void)snprintf(sup->reported_reason, sizeof(sup->reported_reason), "%s", why);
	}
	if (ok)
		mps_modes_forget(sup);
	if (ok && mps_daemon_dir_save(&sup->dir, &err) < 0)
		log_warn("MPS's state is not written", LOG_STR("reason", err.msg));
	if (!ok && sup->stopping) { /* daemon.json has them for the next agent */
		mps_supervisor_close(sup);
		return;
	}
	mps_supervisor_enter(sup, sup->process ? MPS_READY : MPS_DOWN,
		sup->process ? "" : sup->why);
	if (!ok)
		back_off_mps_start(sup);
	mps_supervisor_step(sup);
}

static void on_modes(struct mps_supervisor *sup, bool ok, const char *why)
{
	struct error err = ERROR_INIT;

	if (sup->state == MPS_RESTORING) {
		on_modes_restored(sup, ok, why);
	} else if (!ok && sup->process) {
		/* A running daemon goes on with the mode that it has. */
		log_warn("the compute mode cannot be set, trying again",
			LOG_STR("daemon", sup->key), LOG_STR("reason", why));
		sup->modes_are_set = false;
		back_off_mps_start(sup);
		mps_supervisor_enter(sup, MPS_READY, "");
		mps_supervisor_step(sup);
	} else if (!ok) {
		mps_supervisor_fail(sup, "the compute mode cannot be set: %s", why);
	} else if (sup->modes_are_set && sup->process) {
		mps_supervisor_enter(sup, MPS_READY, "");
		mps_supervisor_step(sup);
	} else if (sup->modes_are_set) {
		start_mps_process(sup);
	} else if (mps_daemon_dir_save(&sup->dir, &err) < 0 || mps_modes_set(sup, &err) < 0) {
		on_modes(sup, false, err.msg);
	} else {
		sup->modes_are_set = true;
	}
}

/*
 * Adopts the daemon of an earlier agent that runs in the directory. Each DOWN step tries this again: gpuslice-mps
 * of a killed agent may write the pid file late.
 */
static bool adopt_mps_process(struct mps_supervisor *sup)
{
	if (!mps_process_adopt(sup))
		return false;
	log_info("an MPS control daemon is there already", LOG_STR("daemon", sup->key),
		LOG_INT("pid", mps_process_pid(sup)));
	sup->was_ready = sup->served = true;
	sup->started_ns = time_mono_ns();
	sup->found = true;
	sup->n_servers = 0;
	sup->check.has_server_fault = false;
	sup->modes_are_set = sup->dir.n_modes > 0;
	sup->applied.percent = 0;
	sup->check.done_ns = 0;
	mps_supervisor_enter(sup, MPS_READY, "");
	mps_watch_start(sup);
	return true;
}

/* The daemon is not desired: removes what is left, unless a daemon runs without this agent. */
static void next_end(struct mps_supervisor *sup)
{
	struct error err = ERROR_INIT;

	if (!sup->stopping && adopt_mps_process(sup)) {
		mps_supervisor_step(sup);
	} else if (mps_daemon_dir_clear(&sup->dir, &err) < 0 && !sup->stopping) {
		log_debug("MPS", LOG_STR("daemon", sup->key), LOG_STR("reason", err.msg));
		mps_supervisor_arm(sup, MPS_TICK_MAX_MS);
	} else {
		mps_supervisor_close(sup);
	}
}

/*
 * DOWN with saved modes: restores them if the agent ends, or the daemon is not desired, is not exclusive, or
 * failed to start twice.
 */
static void next_down(struct mps_supervisor *sup)
{
	uint64_t now = time_mono_ns();
	bool useless = !sup->wanted || sup->stopping || !sup->desired.exclusive ||
		       (sup->failures > 1 && !sup->was_ready);

	if (now < sup->start_at_ns && !sup->stopping && (sup->wanted || sup->dir.n_modes > 0)) {
		mps_supervisor_arm(sup, (sup->start_at_ns - now) / NS_PER_MS + 1);
	} else if (sup->dir.n_modes > 0 && useless) {
		restore_compute_modes(sup);
	} else if (!sup->wanted || sup->stopping) {
		next_end(sup);
	} else if (adopt_mps_process(sup)) {
		mps_supervisor_step(sup);
	} else if (find_other_with_modes(sup) || find_other_daemon(sup)) {
		/*
		 * Otherwise a client with devices of both daemons would meet two servers. Or the other supervisor
		 * would restore a compute mode that this daemon needs.
		 */
		mps_supervisor_enter(sup, MPS_DOWN,
			"another MPS daemon of this GPU has not ended yet");
		mps_supervisor_arm(sup, MPS_TICK_MAX_MS);
	} else {
		begin_mps_start(sup);
	}
}

static void on_first_answer(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *sup = arg;

	(void)answer;
	if (!err) {
		sup->n_servers = 0;
		mps_supervisor_enter(sup, MPS_SETTING, "limits are being set");
		mps_supervisor_step(sup);
	} else if (time_mono_ns() - sup->since_ns >= ANSWER_NS) {
		mps_supervisor_fail(sup, "it did not answer within %llu s of its start: %s",
			(unsigned long long)(ANSWER_NS / NS_PER_SEC), err->msg);
	} else {
		mps_supervisor_arm(sup, ASK_MS);
	}
}

/* Whether the compute modes differ from the config, and a change may be tried now. */
static bool mode_is_due(const struct mps_supervisor *sup)
{
	bool other = sup->desired.exclusive ? !sup->modes_are_set : sup->dir.n_modes > 0;

	return sup->desired.percent && other && time_mono_ns() >= sup->start_at_ns &&
	       !find_other_with_modes(sup);
}

static void apply_compute_mode(struct mps_supervisor *sup)
{
	struct error err = ERROR_INIT;

	if (!sup->desired.exclusive) {
		restore_compute_modes(sup);
	} else {
		sup->modes_are_set = false;
		mps_supervisor_enter(sup, MPS_MODES, "the compute mode is being set");
		if (mps_modes_read(sup, &err) < 0)
			on_modes(sup, false, err.msg);
	}
}

static void on_quit(void *arg, const char *answer, const struct error *err)
{
	(void)answer;
	(void)err; /* the daemon's end matters, not its answer */
	mps_supervisor_step(arg);
}

static void next_ready(struct mps_supervisor *sup)
{
	bool lacking = mps_spec_lacks_device(&sup->desired, &sup->dir.devices);

	if (!sup->wanted) {
		mps_supervisor_enter(sup, MPS_DRAINING, "its clients have not ended yet");
		sup->check.done_ns = 0;
		mps_supervisor_step(sup);
	} else if (mode_is_due(sup)) {
		apply_compute_mode(sup);
	} else if (!mps_spec_same(&sup->desired, &sup->applied)) {
		mps_supervisor_enter(sup, MPS_SETTING, "limits are being set");
		mps_supervisor_step(sup);
	} else if (lacking && mps_supervisor_is_unused(sup)) {
		mps_supervisor_enter(sup, MPS_QUITTING,
			"it is restarted with a GPU that was lost at its start");
		mps_supervisor_query(sup, on_quit, "quit");
	} else if (check_is_due(sup, lacking ? DRAIN_CHECK_NS : CHECK_NS)) {
		mps_supervisor_check(sup);
	} else {
		mps_supervisor_arm(sup, MPS_TICK_MAX_MS);
	}
}

static void next_faulted(struct mps_supervisor *sup)
{
	uint32_t left = mps_clients_count_faulted(&sup->clients);

	if (mps_watch_report_fault(sup, /* now= */ false)) {
		mps_supervisor_arm(sup, ASK_MS);
	} else if (sup->watch.fault_is_over) {
		log_info("MPS takes clients again, all that the fault hit are gone",
			LOG_STR("daemon", sup->key));
		report_event(sup->mps->c.reporter, EVENT_NORMAL, "MPSRecovered",
			"MPS of %s takes clients again, all that the fault hit have ended",
			sup->desired.uuids.n ? sup->desired.uuids.v[0] : sup->key);
		mps_supervisor_enter(sup, MPS_READY, "");
		mps_supervisor_step(sup);
	} else if (check_is_due(sup, left == 0 ? EMPTY_CHECK_NS : DRAIN_CHECK_NS)) {
		mps_supervisor_check(sup);
	} else {
		mps_supervisor_arm(sup,
			left == 0 ? EMPTY_CHECK_NS / NS_PER_MS : MPS_TICK_MAX_MS);
	}
}

/* The process goes on without this agent. */
static void leave_mps_process(struct mps_supervisor *sup)
{
	mps_process_leave(sup);
	mps_supervisor_enter(sup, MPS_DOWN, sup->why);
	mps_supervisor_step(sup);
}

static void next_draining(struct mps_supervisor *sup)
{
	bool none = mps_clients_count(&sup->clients) == 0;
	bool unknown = check_is_due(sup,
		none && !sup->check.has_no_client ? EMPTY_CHECK_NS : DRAIN_CHECK_NS);

	if (sup->wanted) {
		mps_supervisor_enter(sup, MPS_READY, "");
		mps_supervisor_step(sup);
	} else if (sup->stopping && unknown && time_mono_ns() - sup->since_ns >= STOP_NS) {
		leave_mps_process(sup);
	} else if (unknown) {
		mps_supervisor_check(sup);
	} else if (!none && sup->stopping) {
		leave_mps_process(sup);
	} else if (!mps_supervisor_is_unused(sup)) {
		mps_supervisor_arm(sup, none ? EMPTY_CHECK_NS / NS_PER_MS : MPS_TICK_MAX_MS);
	} else {
		mps_supervisor_enter(sup, MPS_QUITTING,
			sup->stopping ? "the agent ends" : "it is not wanted any more");
		mps_supervisor_query(sup, on_quit, "quit");
	}
}

void mps_supervisor_stop(struct mps_supervisor *sup)
{
	if (sup->closed)
		return;
	(void)mps_watch_read(sup);
	sup->stopping = true;
	sup->wanted = false;
	mps_command_stop(&sup->command);
	sup->helper = proc_stop(sup->helper);
	if (!sup->process) {
		mps_supervisor_enter(sup, MPS_DOWN, sup->why);
		mps_supervisor_step(sup);
	} else if (mps_clients_count(&sup->clients) > 0) {
		leave_mps_process(sup);
	} else if (sup->state != MPS_QUITTING) {
		/* Asks for clients first, unless a check has just done so: an adopted daemon may have some. */
		mps_supervisor_enter(sup, MPS_DRAINING, "the agent ends");
		mps_supervisor_step(sup);
	} else if (sup->check.done_ns == 0) {
		leave_mps_process(sup);
	}
	mps_supervisor_arm(sup, ASK_MS);
}

/* A daemon that quits takes no clients and no commands, and ends with its last client. */
static void next_quitting(struct mps_supervisor *sup)
{
	if (sup->stopping && time_mono_ns() - sup->since_ns >= STOP_NS) {
		leave_mps_process(sup);
		return;
	}
	if (time_mono_ns() - sup->since_ns >= QUIT_NS && check_is_due(sup, DRAIN_CHECK_NS)) {
		mps_supervisor_check(sup);
		return;
	}
	if (time_mono_ns() - sup->since_ns >= QUIT_NS && mps_supervisor_is_unused(sup)) {
		log_warn("the MPS control daemon did not quit, it is killed",
			LOG_STR("daemon", sup->key), LOG_INT("pid", mps_process_pid(sup)));
		mps_process_kill(sup);
	}
	mps_supervisor_arm(sup, MPS_TICK_MAX_MS);
}

static bool takes_checks(const struct mps_supervisor *sup)
{
	return !sup->stopping && (sup->state == MPS_READY || sup->state == MPS_FAULTED ||
					 sup->state == MPS_DRAINING);
}

void mps_supervisor_step(struct mps_supervisor *sup)
{
	bool more;

	if (sup->closed || sup->command.child || sup->helper)
		return;
	more = mps_watch_read(sup);
	if (sup->closed || sup->command.child || sup->helper)
		return;
	if (more) {
		mps_supervisor_arm(sup, MORE_MS);
		return;
	}
	if (sup->state != MPS_FAULTED)
		(void)mps_watch_report_fault(sup, /* now= */ false);
	if (takes_checks(sup) && mps_watch_needs_check(sup)) {
		mps_supervisor_check(sup);
		return;
	}
	switch (sup->state) {
	case MPS_DOWN:
		next_down(sup);
		break;
	case MPS_MODES:
	case MPS_RESTORING:
		break; /* on_modes() does the next step */
	case MPS_STARTING:
		mps_supervisor_query(sup, on_first_answer,
			"get_default_active_thread_percentage");
		break;
	case MPS_SETTING:
		if (!mps_limits_set_next(sup))
			finish_mps_settings(sup);
		if (sup->state != MPS_SETTING)
			mps_supervisor_arm(sup, 0);
		break;
	case MPS_READY:
		next_ready(sup);
		break;
	case MPS_FAULTED:
		next_faulted(sup);
		break;
	case MPS_SERVER:
		mps_server_next(sup);
		break;
	case MPS_DRAINING:
		next_draining(sup);
		break;
	case MPS_QUITTING:
		next_quitting(sup);
		break;
	}
}

/* --- the end of the process --- */

static void on_mps_process_end(struct mps_supervisor *sup, const char *how)
{
	bool asked = sup->state == MPS_QUITTING, started = sup->was_ready;
	uint64_t lived = time_mono_ns() - sup->started_ns;
	char why[ERROR_MSG_MAX];

	/* The rest of the log changes no state. It gives the complaint of a daemon that did not start. */
	if (sup->state != MPS_STARTING)
		sup->state = MPS_QUITTING;
	(void)mps_watch_read(sup);
	mps_watch_stop(sup);
	(void)mps_watch_report_fault(sup, /* now= */ true);
	sup->was_ready = false;
	mps_command_stop(&sup->command);
	sup->helper = proc_stop(sup->helper);
	/*
	 * The program is of an older driver. Believed only before a daemon has served: later, client processes can
	 * write to the log, also to the next daemon's.
	 */
	if (!sup->served && strstr(sup->watch.complaint, "multiuser"))
		sup->no_multiuser = true;
	sup->check.has_no_client = false;
	if (mps_clients_count(&sup->clients) > 0)
		mps_watch_report_lost(sup, "MPSDaemonDied", "the MPS control daemon ended");
	mps_clients_set(&sup->clients, NULL, 0);
	if (started && lived >= LONG_LIFE_NS)
		sup->failures = 0;
	sup->counts.daemon_deaths += sup->wanted;
	(void)snprintf(why, sizeof(why), "the MPS control daemon ended %s%s%.300s", how,
		*sup->watch.complaint ? ": " : "", sup->watch.complaint);
	dir_empty(sup->dir.pipe, DIR_EMPTY_LOOP_NS); /* no client finds a dead socket */
	enter_mps_down(sup, asked ? sup->why : why);
	mps_supervisor_arm(sup, 0);
}

/* --- life --- */

struct mps_supervisor *mps_supervisor_new(struct mps *m, const char *root, const char *key,
	struct error *err)
{
	struct mps_supervisor *sup = calloc(1, sizeof(*sup));

	if (!sup) {
		(void)error_nomem(err);
		return NULL;
	}
	if (mps_daemon_dir_init(&sup->dir, root, key, err) < 0 ||
		mps_daemon_dir_load(&sup->dir, err) < 0) {
		mps_daemon_dir_fini(&sup->dir);
		free(sup);
		return NULL;
	}
	sup->mps = m;
	sup->modes_done = on_modes;
	sup->ended = on_mps_process_end;
	(void)snprintf(sup->key, sizeof(sup->key), "%s", key);
	mps_log_init(&sup->watch.log);
	(void)uv_timer_init(m->c.loop, &sup->timer);
	sup->timer.data = sup;
	(void)uv_fs_event_init(m->c.loop, &sup->watch.event);
	sup->watch.event.data = sup;
	sup->handles = 2;
	(void)snprintf(sup->why, sizeof(sup->why), "the MPS control daemon is starting");
	sup->wanted = adopt_mps_process(sup); /* until the plan decides */
	sup->since_ns = time_mono_ns();
	return sup;
}

static void on_mps_daemon_closed(uv_handle_t *h)
{
	struct mps_supervisor *sup = h->data;

	if (--sup->handles == 0)
		notify_mps_daemon_change(sup); /* mps_sync() then frees the supervisor */
}

void mps_supervisor_close(struct mps_supervisor *sup)
{
	if (sup->closed)
		return;
	sup->closed = true;
	mps_watch_stop(sup);
	mps_command_stop(&sup->command);
	sup->helper = proc_stop(sup->helper);
	mps_identify_stop(sup);
	mps_process_leave(sup);
	uv_close((uv_handle_t *)&sup->timer, on_mps_daemon_closed);
	uv_close((uv_handle_t *)&sup->watch.event, on_mps_daemon_closed);
}

void mps_supervisor_free(struct mps_supervisor *sup)
{
	mps_log_fini(&sup->watch.log);
	mps_clients_fini(&sup->clients);
	mps_daemon_dir_fini(&sup->dir);
	mps_spec_fini(&sup->desired);
	mps_spec_fini(&sup->applied);
	free(sup);
}
