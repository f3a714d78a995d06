/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/supervisor.h"
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
#define SERVER_NS      (15 * NS_PER_SEC) /* until a new server is ready */
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

bool mps_supervisor_is_usable(const struct mps_supervisor *u)
{
	/* A daemon that was READY keeps serving while its limits or compute modes change. */
	return u->state == MPS_READY ||
	       (u->was_ready && (u->state == MPS_SETTING || u->state == MPS_MODES ||
					u->state == MPS_RESTORING));
}

bool mps_supervisor_has_device(const struct mps_supervisor *u, const char *uuid)
{
	return strv_has(&u->dir.devices, uuid);
}

/* --- other daemons --- */

static bool has_mode(const struct mps_daemon_dir *p, const char *uuid)
{
	for (uint32_t i = 0; i < p->n_modes; i++)
		if (!strcmp(p->modes[i].uuid, uuid))
			return true;
	return false;
}

/* Another supervisor that saved the compute mode of one of these GPUs; NULL: none. */
static const struct mps_supervisor *find_other_with_modes(const struct mps_supervisor *u)
{
	for (const struct mps_supervisor *o = u->mps->daemons; o; o = o->next)
		for (size_t i = 0; o != u && !o->closed && i < u->desired.uuids.n; i++)
			if (has_mode(&o->dir, u->desired.uuids.v[i]))
				return o;
	return NULL;
}

/* Another supervisor whose daemon runs on one of these GPUs; NULL: none. */
static const struct mps_supervisor *find_other_daemon(const struct mps_supervisor *u)
{
	for (const struct mps_supervisor *o = u->mps->daemons; o; o = o->next)
		for (size_t i = 0; o != u && o->process && i < u->desired.uuids.n; i++)
			if (mps_supervisor_has_device(o, u->desired.uuids.v[i]))
				return o;
	return NULL;
}

/* --- states --- */

/* Wakes the agent: the usable devices changed. */
static void notify_mps_daemon_change(struct mps_supervisor *u)
{
	if (!u->mps->stopped)
		wake_up(u->mps->c.wake);
}

static void on_mps_daemon_timer(uv_timer_t *t)
{
	mps_supervisor_step(t->data);
}

void mps_supervisor_arm(struct mps_supervisor *u, uint64_t ms)
{
	/* Lines of a fault are checked, and the fault is reported, soon. */
	uint64_t max = u->fault.pending ? ASK_MS : MPS_TICK_MAX_MS;

	if (u->closed)
		return;
	uv_update_time(u->mps->c.loop);
	(void)uv_timer_start(&u->timer, on_mps_daemon_timer, ms < max ? ms : max, 0);
}

void mps_supervisor_enter(struct mps_supervisor *u, enum mps_state state, const char *why)
{
	bool usable = mps_supervisor_is_usable(u), other = strcmp(u->why, why) != 0;

	if (state != u->state)
		u->since_ns = time_mono_ns();
	u->state = state;
	u->step = 0;
	memmove(u->why, why, strnlen(why, sizeof(u->why) - 1) + 1);
	u->why[sizeof(u->why) - 1] = '\0';
	log_debug("MPS", LOG_STR("daemon", u->key), LOG_STR("state", names[state]));
	if (usable != mps_supervisor_is_usable(u) || other)
		notify_mps_daemon_change(u);
}

static void back_off_mps_start(struct mps_supervisor *u)
{
	u->start_at_ns =
		time_mono_ns() + backoff_doubled(BACKOFF_NS, BACKOFF_MAX_NS, u->failures++);
}

/* Reports each reason once, until the daemon is READY again. */
static void report_mps_unavailable(struct mps_supervisor *u, const char *why)
{
	if (!u->wanted || !strcmp(u->reported_reason, why))
		return;
	(void)snprintf(u->reported_reason, sizeof(u->reported_reason), "%s", why);
	log_warn("MPS is away, trying again", LOG_STR("daemon", u->key),
		LOG_STR("reason", why));
	report_event(u->mps->c.reporter, EVENT_WARNING, "MPSDaemonDown", "MPS of %s: %s",
		u->desired.uuids.n ? u->desired.uuids.v[0] : u->key, why);
}

static void enter_mps_down(struct mps_supervisor *u, const char *why)
{
	char text[ERROR_MSG_MAX];

	(void)snprintf(text, sizeof(text), "%s", why); /* @why may be u->why */
	back_off_mps_start(u);
	report_mps_unavailable(u, text);
	mps_supervisor_enter(u, MPS_DOWN, text);
}

void mps_supervisor_fail(struct mps_supervisor *u, const char *fmt, ...)
{
	char why[ERROR_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	mps_command_stop(&u->command);
	u->helper = proc_stop(u->helper);
	if (u->process) {
		report_mps_unavailable(u, why);
		mps_supervisor_enter(u, MPS_QUITTING, why);
		mps_process_kill(u);
	} else {
		enter_mps_down(u, why);
	}
	mps_supervisor_arm(u, 0);
}

void mps_supervisor_count_missed(struct mps_supervisor *u, const struct error *why)
{
	/* A daemon that quits takes no commands, and waits for its clients. */
	if (u->process && u->state == MPS_QUITTING) {
		u->checked_ns = time_mono_ns(); /* its earlier answer stays valid */
		mps_supervisor_arm(u, MPS_TICK_MAX_MS);
	} else if (u->process && strstr(why->msg, "Cannot send command")) {
		mps_supervisor_enter(u, MPS_QUITTING,
			"it was told to quit, and waits for its clients");
		mps_supervisor_arm(u, MPS_TICK_MAX_MS);
	} else if (u->stopping) { /* asks again until STOP_NS is over */
		u->step = 0;
		mps_supervisor_arm(u, ASK_MS);
	} else if (!u->process || !u->was_ready || ++u->missed >= MPS_MISSED_MAX) {
		u->missed = 0;
		mps_supervisor_fail(u, "%s", why->msg);
	} else {
		log_info("MPS was asked in vain, trying again", LOG_STR("daemon", u->key),
			LOG_STR("reason", why->msg));
		u->step = 0;
		if (u->checked_ns) /* the check is due again, after a pause */
			u->checked_ns = 1;
		mps_supervisor_arm(u, MPS_TICK_MAX_MS);
	}
}

void mps_supervisor_set_ready(struct mps_supervisor *u)
{
	bool first = !u->was_ready;

	u->was_ready = u->served = true;
	u->needs_server = false;
	if (first) /* else clients may exist that no check has found yet */
		u->checked_ns = time_mono_ns();
	mps_supervisor_enter(u, MPS_READY, "");
	if (first)
		log_info("MPS is ready", LOG_STR("daemon", u->key),
			LOG_INT("pid", mps_process_pid(u)),
			LOG_UINT("percent", u->applied.percent),
			LOG_UINT("mib", u->applied.limits[0]));
	if (*u->reported_reason)
		report_event(u->mps->c.reporter, EVENT_NORMAL, "MPSDaemonUp",
			"MPS of %s is ready again",
			u->desired.uuids.n ? u->desired.uuids.v[0] : u->key);
	u->reported_reason[0] = '\0';
}

/*
 * MPS starts a server for the first client, and that client fails if the server cannot start. Where this is
 * likely, the supervisor starts the server first.
 */
static void finish_mps_settings(struct mps_supervisor *u)
{
	mps_spec_set_applied(&u->applied, &u->desired);
	u->missed = 0;
	if (!u->was_ready && u->n_servers == 0 && (u->desired.exclusive || u->needs_server))
		mps_supervisor_enter(u, MPS_SERVER, "an MPS server is being started");
	else
		mps_supervisor_set_ready(u);
}

bool mps_supervisor_is_unused(const struct mps_supervisor *u)
{
	return u->has_no_client && mps_clients_count(&u->clients) == 0;
}

static bool check_is_due(const struct mps_supervisor *u, uint64_t every)
{
	return time_mono_ns() - u->checked_ns >= every;
}

/* --- the next step of each state --- */

static void start_mps_process(struct mps_supervisor *u)
{
	struct error err = ERROR_INIT;

	(void)mps_watch_report_fault(u, /* now= */ true);
	mps_watch_truncate_log(u);
	u->started_ns = time_mono_ns();
	u->missed = 0;
	u->applied.percent = 0;
	u->was_ready = false;
	u->complaint[0] = '\0';
	u->n_servers = 0;
	u->has_server_fault = false;
	u->hints = u->checked_hints = (struct mps_hints){ .exited_pid = 0 };
	if (mps_process_start(u, &err) < 0) {
		mps_supervisor_fail(u, "%s", err.msg);
		return;
	}
	mps_supervisor_enter(u, MPS_STARTING, "the MPS control daemon is starting");
	mps_watch_start(u);
	mps_supervisor_arm(u, ASK_MS);
}

static void begin_mps_start(struct mps_supervisor *u)
{
	struct error err = ERROR_INIT;

	u->modes_are_set = false;
	if (mps_spec_list_devices(&u->desired, &u->dir.devices, &err) < 0 ||
		mps_daemon_dir_make(&u->dir, &err) < 0 ||
		mps_daemon_dir_save(&u->dir, &err) < 0) {
		mps_supervisor_fail(u, "%s", err.msg);
	} else if (!u->desired.exclusive) {
		start_mps_process(u);
	} else {
		mps_supervisor_enter(u, MPS_MODES, "the compute mode is being set");
		if (mps_modes_read(u, &err) < 0)
			mps_supervisor_fail(u, "%s", err.msg);
	}
}

static void on_modes(struct mps_supervisor *u, bool ok, const char *why);

static void restore_compute_modes(struct mps_supervisor *u)
{
	struct error err = ERROR_INIT;

	u->modes_are_set = false;
	mps_supervisor_enter(u, MPS_RESTORING, u->why);
	if (mps_modes_restore(u, &err) < 0)
		on_modes(u, false, err.msg);
}

/* The supervisor retries a restore for as long as it takes. */
static void on_modes_restored(struct mps_supervisor *u, bool ok, const char *why)
{
	struct error err = ERROR_INIT;

	if (!ok && strcmp(u->reported_reason, why) != 0) {
		log_warn("a compute mode is not restored yet", LOG_STR("daemon", u->key),
			LOG_STR("reason", why));
		(void)snprintf(u->reported_reason, sizeof(u->reported_reason), "%s", why);
	}
	if (ok)
		mps_modes_forget(u);
	if (ok && mps_daemon_dir_save(&u->dir, &err) < 0)
		log_warn("MPS's state is not written", LOG_STR("reason", err.msg));
	if (!ok && u->stopping) { /* daemon.json has them for the next agent */
		mps_supervisor_close(u);
		return;
	}
	mps_supervisor_enter(u, u->process ? MPS_READY : MPS_DOWN, u->process ? "" : u->why);
	if (!ok)
		back_off_mps_start(u);
	mps_supervisor_step(u);
}

static void on_modes(struct mps_supervisor *u, bool ok, const char *why)
{
	struct error err = ERROR_INIT;

	if (u->state == MPS_RESTORING) {
		on_modes_restored(u, ok, why);
	} else if (!ok && u->process) {
		/* A running daemon goes on with the mode that it has. */
		log_warn("the compute mode cannot be set, trying again",
			LOG_STR("daemon", u->key), LOG_STR("reason", why));
		u->modes_are_set = false;
		back_off_mps_start(u);
		mps_supervisor_enter(u, MPS_READY, "");
		mps_supervisor_step(u);
	} else if (!ok) {
		mps_supervisor_fail(u, "the compute mode cannot be set: %s", why);
	} else if (u->modes_are_set && u->process) {
		mps_supervisor_enter(u, MPS_READY, "");
		mps_supervisor_step(u);
	} else if (u->modes_are_set) {
		start_mps_process(u);
	} else if (mps_daemon_dir_save(&u->dir, &err) < 0 || mps_modes_set(u, &err) < 0) {
		on_modes(u, false, err.msg);
	} else {
		u->modes_are_set = true;
	}
}

/*
 * Adopts the daemon of an earlier agent that runs in the directory. Each DOWN step tries this again: gpuslice-mps
 * of a killed agent may write the pid file late.
 */
static bool adopt_mps_process(struct mps_supervisor *u)
{
	if (!mps_process_adopt(u))
		return false;
	log_info("an MPS control daemon is there already", LOG_STR("daemon", u->key),
		LOG_INT("pid", mps_process_pid(u)));
	u->was_ready = u->served = true;
	u->started_ns = time_mono_ns();
	u->found = true;
	u->n_servers = 0;
	u->has_server_fault = false;
	u->modes_are_set = u->dir.n_modes > 0;
	u->applied.percent = 0;
	u->checked_ns = 0;
	mps_supervisor_enter(u, MPS_READY, "");
	mps_watch_start(u);
	return true;
}

/* The daemon is not desired: removes what is left, unless a daemon runs without this agent. */
static void next_end(struct mps_supervisor *u)
{
	struct error err = ERROR_INIT;

	if (!u->stopping && adopt_mps_process(u)) {
		mps_supervisor_step(u);
	} else if (mps_daemon_dir_clear(&u->dir, &err) < 0 && !u->stopping) {
		log_debug("MPS", LOG_STR("daemon", u->key), LOG_STR("reason", err.msg));
		mps_supervisor_arm(u, MPS_TICK_MAX_MS);
	} else {
		mps_supervisor_close(u);
	}
}

/*
 * DOWN with saved modes: restores them if the agent ends, or the daemon is not desired, is not exclusive, or
 * failed to start twice.
 */
static void next_down(struct mps_supervisor *u)
{
	uint64_t now = time_mono_ns();
	bool useless = !u->wanted || u->stopping || !u->desired.exclusive ||
		       (u->failures > 1 && !u->was_ready);

	if (now < u->start_at_ns && !u->stopping && (u->wanted || u->dir.n_modes > 0)) {
		mps_supervisor_arm(u, (u->start_at_ns - now) / NS_PER_MS + 1);
	} else if (u->dir.n_modes > 0 && useless) {
		restore_compute_modes(u);
	} else if (!u->wanted || u->stopping) {
		next_end(u);
	} else if (adopt_mps_process(u)) {
		mps_supervisor_step(u);
	} else if (find_other_with_modes(u) || find_other_daemon(u)) {
		/*
		 * Otherwise a client with devices of both daemons would meet two servers. Or the other supervisor
		 * would restore a compute mode that this daemon needs.
		 */
		mps_supervisor_enter(u, MPS_DOWN,
			"another MPS daemon of this GPU has not ended yet");
		mps_supervisor_arm(u, MPS_TICK_MAX_MS);
	} else {
		begin_mps_start(u);
	}
}

static void on_first_answer(void *arg, const char *answer, const struct error *err)
{
	struct mps_supervisor *u = arg;

	(void)answer;
	if (!err) {
		u->n_servers = 0;
		mps_supervisor_enter(u, MPS_SETTING, "limits are being set");
		mps_supervisor_step(u);
	} else if (time_mono_ns() - u->since_ns >= ANSWER_NS) {
		mps_supervisor_fail(u, "it did not answer within %llu s of its start: %s",
			(unsigned long long)(ANSWER_NS / NS_PER_SEC), err->msg);
	} else {
		mps_supervisor_arm(u, ASK_MS);
	}
}

/* Whether the compute modes differ from the config, and a change may be tried now. */
static bool mode_is_due(const struct mps_supervisor *u)
{
	bool other = u->desired.exclusive ? !u->modes_are_set : u->dir.n_modes > 0;

	return u->desired.percent && other && time_mono_ns() >= u->start_at_ns &&
	       !find_other_with_modes(u);
}

static void apply_compute_mode(struct mps_supervisor *u)
{
	struct error err = ERROR_INIT;

	if (!u->desired.exclusive) {
		restore_compute_modes(u);
	} else {
		u->modes_are_set = false;
		mps_supervisor_enter(u, MPS_MODES, "the compute mode is being set");
		if (mps_modes_read(u, &err) < 0)
			on_modes(u, false, err.msg);
	}
}

static void on_quit(void *arg, const char *answer, const struct error *err)
{
	(void)answer;
	(void)err; /* the daemon's end matters, not its answer */
	mps_supervisor_step(arg);
}

static void next_ready(struct mps_supervisor *u)
{
	bool lacking = mps_spec_lacks_device(&u->desired, &u->dir.devices);

	if (!u->wanted) {
		mps_supervisor_enter(u, MPS_DRAINING, "its clients have not ended yet");
		u->checked_ns = 0;
		mps_supervisor_step(u);
	} else if (mode_is_due(u)) {
		apply_compute_mode(u);
	} else if (!mps_spec_same(&u->desired, &u->applied)) {
		mps_supervisor_enter(u, MPS_SETTING, "limits are being set");
		mps_supervisor_step(u);
	} else if (lacking && mps_supervisor_is_unused(u)) {
		mps_supervisor_enter(u, MPS_QUITTING,
			"it is restarted with a GPU that was lost at its start");
		mps_supervisor_query(u, on_quit, "quit");
	} else if (check_is_due(u, lacking ? DRAIN_CHECK_NS : CHECK_NS)) {
		mps_supervisor_check(u);
	} else {
		mps_supervisor_arm(u, MPS_TICK_MAX_MS);
	}
}

static void next_faulted(struct mps_supervisor *u)
{
	uint32_t left = mps_clients_count_faulted(&u->clients);

	if (mps_watch_report_fault(u, /* now= */ false)) {
		mps_supervisor_arm(u, ASK_MS);
	} else if (u->fault_is_over) {
		log_info("MPS takes clients again, all that the fault hit are gone",
			LOG_STR("daemon", u->key));
		report_event(u->mps->c.reporter, EVENT_NORMAL, "MPSRecovered",
			"MPS of %s takes clients again, all that the fault hit have ended",
			u->desired.uuids.n ? u->desired.uuids.v[0] : u->key);
		mps_supervisor_enter(u, MPS_READY, "");
		mps_supervisor_step(u);
	} else if (check_is_due(u, left == 0 ? EMPTY_CHECK_NS : DRAIN_CHECK_NS)) {
		mps_supervisor_check(u);
	} else {
		mps_supervisor_arm(u, left == 0 ? EMPTY_CHECK_NS / NS_PER_MS : MPS_TICK_MAX_MS);
	}
}

/* The process goes on without this agent. */
static void leave_mps_process(struct mps_supervisor *u)
{
	mps_process_leave(u);
	mps_supervisor_enter(u, MPS_DOWN, u->why);
	mps_supervisor_step(u);
}

static void next_draining(struct mps_supervisor *u)
{
	bool none = mps_clients_count(&u->clients) == 0;
	bool unknown =
		check_is_due(u, none && !u->has_no_client ? EMPTY_CHECK_NS : DRAIN_CHECK_NS);

	if (u->wanted) {
		mps_supervisor_enter(u, MPS_READY, "");
		mps_supervisor_step(u);
	} else if (u->stopping && unknown && time_mono_ns() - u->since_ns >= STOP_NS) {
		leave_mps_process(u);
	} else if (unknown) {
		mps_supervisor_check(u);
	} else if (!none && u->stopping) {
		leave_mps_process(u);
	} else if (!mps_supervisor_is_unused(u)) {
		mps_supervisor_arm(u, none ? EMPTY_CHECK_NS / NS_PER_MS : MPS_TICK_MAX_MS);
	} else {
		mps_supervisor_enter(u, MPS_QUITTING,
			u->stopping ? "the agent ends" : "it is not wanted any more");
		mps_supervisor_query(u, on_quit, "quit");
	}
}

void mps_supervisor_stop(struct mps_supervisor *u)
{
	if (u->closed)
		return;
	(void)mps_watch_read(u);
	u->stopping = true;
	u->wanted = false;
	mps_command_stop(&u->command);
	u->helper = proc_stop(u->helper);
	if (!u->process) {
		mps_supervisor_enter(u, MPS_DOWN, u->why);
		mps_supervisor_step(u);
	} else if (mps_clients_count(&u->clients) > 0) {
		leave_mps_process(u);
	} else if (u->state != MPS_QUITTING) {
		/* Asks for clients first, unless a check has just done so: an adopted daemon may have some. */
		mps_supervisor_enter(u, MPS_DRAINING, "the agent ends");
		mps_supervisor_step(u);
	} else if (u->checked_ns == 0) {
		leave_mps_process(u);
	}
	mps_supervisor_arm(u, ASK_MS);
}

/* A daemon that quits takes no clients and no commands, and ends with its last client. */
static void next_quitting(struct mps_supervisor *u)
{
	if (u->stopping && time_mono_ns() - u->since_ns >= STOP_NS) {
		leave_mps_process(u);
		return;
	}
	if (time_mono_ns() - u->since_ns >= QUIT_NS && check_is_due(u, DRAIN_CHECK_NS)) {
		mps_supervisor_check(u);
		return;
	}
	if (time_mono_ns() - u->since_ns >= QUIT_NS && mps_supervisor_is_unused(u)) {
		log_warn("the MPS control daemon did not quit, it is killed",
			LOG_STR("daemon", u->key), LOG_INT("pid", mps_process_pid(u)));
		mps_process_kill(u);
	}
	mps_supervisor_arm(u, MPS_TICK_MAX_MS);
}

static bool takes_checks(const struct mps_supervisor *u)
{
	return !u->stopping &&
	       (u->state == MPS_READY || u->state == MPS_FAULTED || u->state == MPS_DRAINING);
}

void mps_supervisor_step(struct mps_supervisor *u)
{
	bool more;

	if (u->closed || u->command.child || u->helper)
		return;
	more = mps_watch_read(u);
	if (u->closed || u->command.child || u->helper)
		return;
	if (more) {
		mps_supervisor_arm(u, MORE_MS);
		return;
	}
	if (u->state != MPS_FAULTED)
		(void)mps_watch_report_fault(u, /* now= */ false);
	if (takes_checks(u) && mps_watch_needs_check(u)) {
		mps_supervisor_check(u);
		return;
	}
	switch (u->state) {
	case MPS_DOWN:
		next_down(u);
		break;
	case MPS_MODES:
	case MPS_RESTORING:
		break; /* on_modes() does the next step */
	case MPS_STARTING:
		mps_supervisor_query(u, on_first_answer,
			"get_default_active_thread_percentage");
		break;
	case MPS_SETTING:
		if (!mps_limits_set_next(u))
			finish_mps_settings(u);
		if (u->state != MPS_SETTING)
			mps_supervisor_arm(u, 0);
		break;
	case MPS_READY:
		next_ready(u);
		break;
	case MPS_FAULTED:
		next_faulted(u);
		break;
	case MPS_SERVER:
		mps_server_next(u);
		break;
	case MPS_DRAINING:
		next_draining(u);
		break;
	case MPS_QUITTING:
		next_quitting(u);
		break;
	}
}

/* --- the end of the process --- */

static void on_mps_process_end(struct mps_supervisor *u, const char *how)
{
	bool asked = u->state == MPS_QUITTING, started = u->was_ready;
	uint64_t lived = time_mono_ns() - u->started_ns;
	char why[ERROR_MSG_MAX];

	/* The rest of the log changes no state. It gives the complaint of a daemon that did not start. */
	if (u->state != MPS_STARTING)
		u->state = MPS_QUITTING;
	(void)mps_watch_read(u);
	mps_watch_stop(u);
	(void)mps_watch_report_fault(u, /* now= */ true);
	u->was_ready = false;
	mps_command_stop(&u->command);
	u->helper = proc_stop(u->helper);
	/*
	 * The program is of an older driver. Believed only before a daemon has served: later, client processes can
	 * write to the log, also to the next daemon's.
	 */
	if (!u->served && strstr(u->complaint, "multiuser"))
		u->no_multiuser = true;
	u->has_no_client = false;
	if (mps_clients_count(&u->clients) > 0)
		mps_watch_report_lost(u, "MPSDaemonDied", "the MPS control daemon ended");
	mps_clients_set(&u->clients, NULL, 0);
	if (started && lived >= LONG_LIFE_NS)
		u->failures = 0;
	u->deaths += u->wanted;
	(void)snprintf(why, sizeof(why), "the MPS control daemon ended %s%s%.300s", how,
		*u->complaint ? ": " : "", u->complaint);
	dir_empty(u->dir.pipe, DIR_EMPTY_LOOP_NS); /* no client finds a dead socket */
	enter_mps_down(u, asked ? u->why : why);
	mps_supervisor_arm(u, 0);
}

/* --- life --- */

struct mps_supervisor *mps_supervisor_new(struct mps *m, const char *root, const char *key,
	struct error *err)
{
	struct mps_supervisor *u = calloc(1, sizeof(*u));

	if (!u) {
		(void)error_nomem(err);
		return NULL;
	}
	if (mps_daemon_dir_init(&u->dir, root, key, err) < 0 ||
		mps_daemon_dir_load(&u->dir, err) < 0) {
		mps_daemon_dir_fini(&u->dir);
		free(u);
		return NULL;
	}
	u->mps = m;
	u->modes_done = on_modes;
	u->ended = on_mps_process_end;
	(void)snprintf(u->key, sizeof(u->key), "%s", key);
	mps_log_init(&u->log);
	(void)uv_timer_init(m->c.loop, &u->timer);
	u->timer.data = u;
	(void)uv_fs_event_init(m->c.loop, &u->log_event);
	u->log_event.data = u;
	u->handles = 2;
	(void)snprintf(u->why, sizeof(u->why), "the MPS control daemon is starting");
	u->wanted = adopt_mps_process(u); /* until the plan decides */
	u->since_ns = time_mono_ns();
	return u;
}

static void on_mps_daemon_closed(uv_handle_t *h)
{
	struct mps_supervisor *u = h->data;

	if (--u->handles == 0)
		notify_mps_daemon_change(u); /* mps_sync() then frees the supervisor */
}

void mps_supervisor_close(struct mps_supervisor *u)
{
	if (u->closed)
		return;
	u->closed = true;
	mps_watch_stop(u);
	mps_command_stop(&u->command);
	u->helper = proc_stop(u->helper);
	mps_identify_stop(u);
	mps_process_leave(u);
	uv_close((uv_handle_t *)&u->timer, on_mps_daemon_closed);
	uv_close((uv_handle_t *)&u->log_event, on_mps_daemon_closed);
}

void mps_supervisor_free(struct mps_supervisor *u)
{
	mps_log_fini(&u->log);
	mps_clients_fini(&u->clients);
	mps_daemon_dir_fini(&u->dir);
	mps_spec_fini(&u->desired);
	mps_spec_fini(&u->applied);
	free(u);
}
