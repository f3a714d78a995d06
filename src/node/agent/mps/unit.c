/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_NS      (10 * NS_PER_SEC) /* from its start until it answers */
#define ASK_MS         50                /* between questions meanwhile */
#define MORE_MS        5                 /* between pieces of a long log */
#define CHECK_NS       (10 * NS_PER_SEC)
#define DRAIN_CHECK_NS (2 * NS_PER_SEC)
#define EMPTY_CHECK_NS (200 * NS_PER_MS) /* where the log says that there is no client */
#define SERVER_NS      (15 * NS_PER_SEC) /* until a new server is ready */
#define QUIT_NS        (10 * NS_PER_SEC) /* a daemon without clients takes 0.15 s */
#define STOP_NS        (3 * NS_PER_SEC)  /* the same, when the agent ends */
#define BACKOFF_NS     (200 * NS_PER_MS)
#define BACKOFF_MAX_NS (30 * NS_PER_SEC)
#define LONG_LIFE_NS   (60 * NS_PER_SEC) /* it has not ended "again" */
#define TICK_MAX_MS    1000

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

const char *unit_state_name(enum mps_state s)
{
	return names[s];
}

bool unit_usable(const struct mps_unit *u)
{
	/* A daemon that was ready serves on while its limits or the GPUs' compute modes change. */
	return u->state == MPS_READY ||
	       (u->was_ready && (u->state == MPS_SETTING || u->state == MPS_MODES ||
					u->state == MPS_RESTORING));
}

bool unit_has_device(const struct mps_unit *u, const char *uuid)
{
	return strv_has(&u->place.devices, uuid);
}

/* A device that was lost when the daemon started, and is back; NULL: none. */
static const char *lacks_device(const struct mps_unit *u)
{
	for (size_t i = 0; i < u->want.uuids.n && i < GPU_NODE_MAX; i++)
		if (!u->want.lost[i] && !unit_has_device(u, u->want.uuids.v[i]))
			return u->want.uuids.v[i];
	return NULL;
}

/* CUDA ends its list of devices at one that it does not know: a lost one is left out, unless there is no other. */
static int take_devices(struct mps_unit *u, struct error *err)
{
	const struct mps_spec *s = &u->want;

	strv_clear(&u->place.devices);
	for (size_t i = 0; i < s->uuids.n && i < GPU_NODE_MAX; i++)
		if (!s->lost[i] && strv_add(&u->place.devices, s->uuids.v[i], err) < 0)
			return -1;
	return u->place.devices.n ? 0 : strv_copy(&u->place.devices, &s->uuids, err);
}

/* --- the others --- */

static bool has_mode(const struct mps_place *p, const char *uuid)
{
	for (uint32_t i = 0; i < p->n_modes; i++)
		if (!strcmp(p->modes[i].uuid, uuid))
			return true;
	return false;
}

/* Another unit that has put down what compute mode one of these GPUs had; NULL: none. */
static const struct mps_unit *has_modes(const struct mps_unit *u)
{
	for (const struct mps_unit *o = u->mps->units; o; o = o->next)
		for (size_t i = 0; o != u && !o->gone && i < u->want.uuids.n; i++)
			if (has_mode(&o->place, u->want.uuids.v[i]))
				return o;
	return NULL;
}

/* Another unit whose daemon runs on one of these GPUs; NULL: none. */
static const struct mps_unit *has_daemon(const struct mps_unit *u)
{
	for (const struct mps_unit *o = u->mps->units; o; o = o->next)
		for (size_t i = 0; o != u && o->process && i < u->want.uuids.n; i++)
			if (unit_has_device(o, u->want.uuids.v[i]))
				return o;
	return NULL;
}

/* --- states --- */

/* What can be used is something else now. */
static void changed(struct mps_unit *u)
{
	if (!u->mps->stopped)
		wake_up(u->mps->c.wake);
}

static void on_timer(uv_timer_t *t)
{
	unit_next(t->data);
}

static void arm(struct mps_unit *u, uint64_t ms)
{
	if (u->gone)
		return;
	uv_update_time(u->mps->c.loop);
	(void)uv_timer_start(&u->timer, on_timer, ms < TICK_MAX_MS ? ms : TICK_MAX_MS, 0);
}

void unit_enter(struct mps_unit *u, enum mps_state state, const char *why)
{
	bool usable = unit_usable(u), other = strcmp(u->why, why) != 0;

	if (state != u->state)
		u->since_ns = time_mono_ns();
	u->state = state;
	u->step = 0;
	memmove(u->why, why, strnlen(why, sizeof(u->why) - 1) + 1);
	u->why[sizeof(u->why) - 1] = '\0';
	log_debug("MPS", LOG_STR("daemon", u->key), LOG_STR("state", names[state]));
	if (usable != unit_usable(u) || other)
		changed(u);
}

static void back_off(struct mps_unit *u)
{
	uint64_t wait = BACKOFF_NS;

	for (uint32_t i = 0; i < u->failures && wait < BACKOFF_MAX_NS; i++)
		wait *= 2;
	u->failures++;
	u->start_at_ns = time_mono_ns() + (wait < BACKOFF_MAX_NS ? wait : BACKOFF_MAX_NS);
}

/* Each reason once, until it is ready again. */
static void say_away(struct mps_unit *u, const char *why)
{
	if (!u->wanted || !strcmp(u->said, why))
		return;
	(void)snprintf(u->said, sizeof(u->said), "%s", why);
	log_warn("MPS is away, trying again", LOG_STR("daemon", u->key),
		LOG_STR("reason", why));
	report_event(u->mps->c.reporter, EVENT_WARNING, "MPSDaemonDown", "MPS of %s: %s",
		u->want.uuids.n ? u->want.uuids.v[0] : u->key, why);
}

static void go_down(struct mps_unit *u, const char *why)
{
	char text[ERROR_MSG_MAX];

	(void)snprintf(text, sizeof(text), "%s", why); /* it may be u->why */
	back_off(u);
	say_away(u, text);
	unit_enter(u, MPS_DOWN, text);
}

void unit_fail(struct mps_unit *u, const char *fmt, ...)
{
	char why[ERROR_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	mps_command_stop(&u->command);
	u->helper = proc_stop(u->helper);
	if (u->process) {
		say_away(u, why);
		unit_enter(u, MPS_QUITTING, why);
		process_kill(u);
	} else {
		go_down(u, why);
	}
	arm(u, 0);
}

void unit_missed(struct mps_unit *u, const struct error *why)
{
	/* It was told to quit, takes no commands any more, and waits for its clients. */
	if (u->process && u->state == MPS_QUITTING) {
		u->checked_ns = time_mono_ns(); /* what it answered before counts */
		arm(u, TICK_MAX_MS);
	} else if (u->process && strstr(why->msg, "Cannot send command")) {
		unit_enter(u, MPS_QUITTING, "it was told to quit, and waits for its clients");
		arm(u, TICK_MAX_MS);
	} else if (u->stopping) { /* asked again until the time for that is over */
		u->step = 0;
		arm(u, ASK_MS);
	} else if (!u->process || !u->was_ready || ++u->misses >= MPS_MISSES_MAX) {
		u->misses = 0;
		unit_fail(u, "%s", why->msg);
	} else {
		log_info("MPS was asked in vain, trying again", LOG_STR("daemon", u->key),
			LOG_STR("reason", why->msg));
		u->step = 0;
		if (u->checked_ns) /* due again, after a pause */
			u->checked_ns = 1;
		arm(u, TICK_MAX_MS);
	}
}

/* --- limits --- */

static bool spec_same(const struct mps_spec *a, const struct mps_spec *b)
{
	if (a->percent != b->percent || a->uuids.n != b->uuids.n)
		return false;
	for (size_t i = 0; i < a->uuids.n && i < GPU_NODE_MAX; i++)
		if (a->limits[i] != b->limits[i])
			return false;
	return true;
}

static void take_told(struct mps_unit *u)
{
	memcpy(u->told.limits, u->want.limits, sizeof(u->told.limits));
	u->told.percent = u->want.percent;
	strv_clear(&u->told.uuids);
	if (strv_copy(&u->told.uuids, &u->want.uuids, NULL) < 0)
		u->told.percent = 0; /* told once more */
}

void unit_ready(struct mps_unit *u)
{
	bool first = !u->was_ready;

	u->was_ready = true;
	u->needs_server = false;
	if (first) /* else it may have clients that nobody has asked for yet */
		u->checked_ns = time_mono_ns();
	unit_enter(u, MPS_READY, "");
	if (first)
		log_info("MPS is ready", LOG_STR("daemon", u->key),
			LOG_INT("pid", process_pid(u)), LOG_UINT("percent", u->told.percent),
			LOG_UINT("mib", u->told.limits[0]));
	if (*u->said)
		report_event(u->mps->c.reporter, EVENT_NORMAL, "MPSDaemonUp",
			"MPS of %s is ready again",
			u->want.uuids.n ? u->want.uuids.v[0] : u->key);
	u->said[0] = '\0';
}

/* A server starts with the first client, which finds out that it cannot: not where that is to be expected. */
static void settle(struct mps_unit *u)
{
	take_told(u);
	u->misses = 0;
	if (!u->was_ready && u->n_servers == 0 && (u->want.exclusive || u->needs_server))
		unit_enter(u, MPS_SERVER, "an MPS server is being started");
	else
		unit_ready(u);
}

bool unit_has_no_client(const struct mps_unit *u)
{
	return u->answered_none && mps_clients_count(&u->clients) == 0;
}

static bool check_is_due(const struct mps_unit *u, uint64_t every)
{
	return time_mono_ns() - u->checked_ns >= every;
}

/* --- what is next in each state --- */

static void start_process(struct mps_unit *u)
{
	struct error err = ERROR_INIT;

	(void)watch_fault(u, /* now= */ true);
	watch_truncate(u);
	u->started_ns = time_mono_ns();
	u->misses = 0;
	u->told.percent = 0;
	u->was_ready = false;
	u->complaint[0] = '\0';
	u->n_servers = 0;
	if (process_start(u, &err) < 0) {
		unit_fail(u, "%s", err.msg);
		return;
	}
	unit_enter(u, MPS_STARTING, "the MPS control daemon is starting");
	watch_begin(u);
	arm(u, ASK_MS);
}

static void begin(struct mps_unit *u)
{
	struct error err = ERROR_INIT;

	u->modes_are_set = false;
	if (take_devices(u, &err) < 0 || mps_place_make(&u->place, &err) < 0 ||
		mps_place_save(&u->place, &err) < 0) {
		unit_fail(u, "%s", err.msg);
	} else if (!u->want.exclusive) {
		start_process(u);
	} else {
		unit_enter(u, MPS_MODES, "the compute mode is being set");
		if (modes_read(u, &err) < 0)
			unit_fail(u, "%s", err.msg);
	}
}

static void on_modes(struct mps_unit *u, bool ok, const char *why);

static void restore(struct mps_unit *u)
{
	struct error err = ERROR_INIT;

	u->modes_are_set = false;
	unit_enter(u, MPS_RESTORING, u->why);
	if (modes_restore(u, &err) < 0)
		on_modes(u, false, err.msg);
}

static void on_modes(struct mps_unit *u, bool ok, const char *why)
{
	struct error err = ERROR_INIT;

	if (u->state == MPS_RESTORING) {
		/* What cannot be put back is tried again for as long as it takes. */
		if (!ok && strcmp(u->said, why) != 0) {
			log_warn("a compute mode is not restored yet",
				LOG_STR("daemon", u->key), LOG_STR("reason", why));
			(void)snprintf(u->said, sizeof(u->said), "%s", why);
		}
		if (ok)
			modes_forget(u);
		if (ok && mps_place_save(&u->place, &err) < 0)
			log_warn("MPS's state is not written", LOG_STR("reason", err.msg));
		if (!ok && u->stopping) { /* the next agent finds them written down */
			unit_close(u);
			return;
		}
		unit_enter(u, u->process ? MPS_READY : MPS_DOWN, u->process ? "" : u->why);
		if (!ok)
			back_off(u);
		unit_next(u);
	} else if (!ok && u->process) {
		/* A daemon that serves goes on as it is. */
		log_warn("the compute mode cannot be set, trying again",
			LOG_STR("daemon", u->key), LOG_STR("reason", why));
		u->modes_are_set = false;
		back_off(u);
		unit_enter(u, MPS_READY, "");
		unit_next(u);
	} else if (!ok) {
		unit_fail(u, "the compute mode cannot be set: %s", why);
	} else if (u->modes_are_set && u->process) {
		unit_enter(u, MPS_READY, "");
		unit_next(u);
	} else if (u->modes_are_set) {
		start_process(u);
	} else if (mps_place_save(&u->place, &err) < 0 || modes_set(u, &err) < 0) {
		on_modes(u, false, err.msg);
	} else {
		u->modes_are_set = true;
	}
}

/* One that nobody knows of yet: it was started by an agent that was killed in that moment. */
static bool adopt(struct mps_unit *u)
{
	if (!process_adopt(u))
		return false;
	log_info("an MPS control daemon is there already", LOG_STR("daemon", u->key),
		LOG_INT("pid", process_pid(u)));
	u->was_ready = true;
	u->started_ns = time_mono_ns();
	u->found = true;
	u->modes_are_set = u->place.n_modes > 0;
	u->told.percent = 0;
	u->checked_ns = 0;
	unit_enter(u, MPS_READY, "");
	watch_begin(u);
	return true;
}

/* Nobody is to come here: what is left goes, unless a daemon does without us. */
static void next_end(struct mps_unit *u)
{
	struct error err = ERROR_INIT;

	if (!u->stopping && adopt(u)) {
		unit_next(u);
	} else if (mps_place_clear(&u->place, &err) < 0 && !u->stopping) {
		log_debug("MPS", LOG_STR("daemon", u->key), LOG_STR("reason", err.msg));
		arm(u, TICK_MAX_MS);
	} else {
		unit_close(u);
	}
}

/* Left with modes: they are put back where nobody is to come, and where it did not even start. */
static void next_down(struct mps_unit *u)
{
	uint64_t now = time_mono_ns();
	bool useless = !u->wanted || u->stopping || !u->want.exclusive ||
		       (u->failures > 1 && !u->was_ready);

	if (now < u->start_at_ns && !u->stopping && (u->wanted || u->place.n_modes > 0)) {
		arm(u, (u->start_at_ns - now) / NS_PER_MS + 1);
	} else if (u->place.n_modes > 0 && useless) {
		restore(u);
	} else if (!u->wanted || u->stopping) {
		next_end(u);
	} else if (adopt(u)) {
		unit_next(u);
	} else if (has_modes(u) || has_daemon(u)) {
		/* Else a process of both would meet two servers, or that one put another mode back under this one's. */
		unit_enter(u, MPS_DOWN, "another MPS daemon of this GPU has not ended yet");
		arm(u, TICK_MAX_MS);
	} else {
		begin(u);
	}
}

static void on_first_answer(void *arg, const char *answer, const struct error *err)
{
	struct mps_unit *u = arg;

	(void)answer;
	if (!err) {
		u->n_servers = 0;
		unit_enter(u, MPS_SETTING, "limits are being set");
		unit_next(u);
	} else if (time_mono_ns() - u->since_ns >= ANSWER_NS) {
		unit_fail(u, "it did not answer within %llu s of its start: %s",
			(unsigned long long)(ANSWER_NS / NS_PER_SEC), err->msg);
	} else {
		arm(u, ASK_MS);
	}
}

/* The config has another compute mode than the GPUs of the daemon that runs, and it is time to try that. */
static bool mode_is_due(const struct mps_unit *u)
{
	bool other = u->want.exclusive ? !u->modes_are_set : u->place.n_modes > 0;

	return u->want.percent && other && time_mono_ns() >= u->start_at_ns && !has_modes(u);
}

static void follow_mode(struct mps_unit *u)
{
	struct error err = ERROR_INIT;

	if (!u->want.exclusive) {
		restore(u);
	} else {
		u->modes_are_set = false;
		unit_enter(u, MPS_MODES, "the compute mode is being set");
		if (modes_read(u, &err) < 0)
			on_modes(u, false, err.msg);
	}
}

static void on_quit(void *arg, const char *answer, const struct error *err)
{
	(void)answer;
	(void)err; /* its end says more than its answer */
	unit_next(arg);
}

static void next_ready(struct mps_unit *u)
{
	bool lacking = lacks_device(u) != NULL;

	if (!u->wanted) {
		unit_enter(u, MPS_DRAINING, "its clients have not ended yet");
		u->checked_ns = 0;
		unit_next(u);
	} else if (mode_is_due(u)) {
		follow_mode(u);
	} else if (!spec_same(&u->want, &u->told)) {
		unit_enter(u, MPS_SETTING, "limits are being set");
		unit_next(u);
	} else if (lacking && unit_has_no_client(u)) {
		unit_enter(u, MPS_QUITTING,
			"it is restarted with a GPU that was lost at its start");
		unit_ask(u, on_quit, "quit");
	} else if (check_is_due(u, lacking ? DRAIN_CHECK_NS : CHECK_NS)) {
		unit_check(u);
	} else {
		arm(u, TICK_MAX_MS);
	}
}

static void next_faulted(struct mps_unit *u)
{
	uint32_t left = mps_clients_count_hit(&u->clients);

	if (watch_fault(u, /* now= */ false)) {
		arm(u, ASK_MS);
	} else if (left == 0) {
		log_info("MPS takes clients again, all that the fault hit are gone",
			LOG_STR("daemon", u->key));
		report_event(u->mps->c.reporter, EVENT_NORMAL, "MPSRecovered",
			"MPS of %s takes clients again, all that the fault hit have ended",
			u->want.uuids.n ? u->want.uuids.v[0] : u->key);
		unit_enter(u, MPS_READY, "");
		unit_next(u);
	} else if (check_is_due(u, DRAIN_CHECK_NS)) {
		unit_check(u);
	} else {
		arm(u, TICK_MAX_MS);
	}
}

void unit_no_server(struct mps_unit *u, const char *what)
{
	u->needs_server = true;
	unit_fail(u, "the MPS server %s%s%.300s%s", what, *u->complaint ? ": " : "",
		u->complaint,
		u->want.exclusive
			? " (compute mode exclusive: no other program may use the GPU)"
			: "");
}

static void on_server_asked(void *arg, const char *answer, const struct error *err)
{
	struct mps_unit *u = arg;

	(void)answer;
	if (err)
		unit_fail(u, "%s", err->msg);
	else
		arm(u, TICK_MAX_MS); /* the log says when it is ready */
}

/* The line of the log that says so may have been lost. */
static void on_late_server(void *arg, const char *answer, const struct error *err)
{
	struct mps_unit *u = arg;

	if (err || mps_pids_read(u->servers, MPS_SERVERS_MAX, answer) == 0) {
		unit_no_server(u, "was not ready in time");
		return;
	}
	unit_ready(u);
	unit_next(u);
}

static void next_server(struct mps_unit *u)
{
	if (u->step == 0) {
		u->step = 1;
		unit_ask(u, on_server_asked, "start_server -uid %u", (unsigned)geteuid());
	} else if (time_mono_ns() - u->since_ns >= SERVER_NS) {
		unit_ask(u, on_late_server, "get_server_list");
	} else {
		arm(u, TICK_MAX_MS);
	}
}

/* It goes on without us. */
static void leave(struct mps_unit *u)
{
	process_leave(u);
	unit_enter(u, MPS_DOWN, u->why);
	unit_next(u);
}

static void next_draining(struct mps_unit *u)
{
	bool none = mps_clients_count(&u->clients) == 0;
	bool unknown =
		check_is_due(u, none && !u->answered_none ? EMPTY_CHECK_NS : DRAIN_CHECK_NS);

	if (u->wanted) {
		unit_enter(u, MPS_READY, "");
		unit_next(u);
	} else if (u->stopping && unknown && time_mono_ns() - u->since_ns >= STOP_NS) {
		leave(u);
	} else if (unknown) {
		unit_check(u);
	} else if (!none && u->stopping) {
		leave(u);
	} else if (!unit_has_no_client(u)) {
		arm(u, none ? EMPTY_CHECK_NS / NS_PER_MS : TICK_MAX_MS);
	} else {
		unit_enter(u, MPS_QUITTING,
			u->stopping ? "the agent ends" : "it is not wanted any more");
		unit_ask(u, on_quit, "quit");
	}
}

void unit_stop(struct mps_unit *u)
{
	if (u->gone)
		return;
	(void)watch_read(u);
	u->stopping = true;
	u->wanted = false;
	mps_command_stop(&u->command);
	u->helper = proc_stop(u->helper);
	if (!u->process) {
		unit_enter(u, MPS_DOWN, u->why);
		unit_next(u);
	} else if (mps_clients_count(&u->clients) > 0) {
		leave(u);
	} else if (u->state != MPS_QUITTING) {
		/* Asks for clients first, where that was not done just now: one that was found may have some. */
		unit_enter(u, MPS_DRAINING, "the agent ends");
		unit_next(u);
	} else if (u->checked_ns == 0) {
		leave(u);
	}
	arm(u, ASK_MS);
}

/* A daemon that was told to quit takes no clients and no commands, and ends with its last client. */
static void next_quitting(struct mps_unit *u)
{
	if (u->stopping && time_mono_ns() - u->since_ns >= STOP_NS) {
		leave(u);
		return;
	}
	if (time_mono_ns() - u->since_ns >= QUIT_NS && check_is_due(u, DRAIN_CHECK_NS)) {
		unit_check(u);
		return;
	}
	if (time_mono_ns() - u->since_ns >= QUIT_NS && unit_has_no_client(u)) {
		log_warn("the MPS control daemon did not quit, it is killed",
			LOG_STR("daemon", u->key), LOG_INT("pid", process_pid(u)));
		process_kill(u);
	}
	arm(u, TICK_MAX_MS);
}

void unit_next(struct mps_unit *u)
{
	bool more;

	if (u->gone || u->command.child || u->helper)
		return;
	more = watch_read(u);
	if (u->gone || u->command.child || u->helper)
		return;
	if (more) {
		arm(u, MORE_MS);
		return;
	}
	if (u->state != MPS_FAULTED)
		(void)watch_fault(u, /* now= */ false);
	switch (u->state) {
	case MPS_DOWN:
		next_down(u);
		break;
	case MPS_MODES:
	case MPS_RESTORING:
		break; /* on_modes() */
	case MPS_STARTING:
		unit_ask(u, on_first_answer, "get_default_active_thread_percentage");
		break;
	case MPS_SETTING:
		if (!limits_tell_next(u))
			settle(u);
		if (u->state != MPS_SETTING)
			arm(u, 0);
		break;
	case MPS_READY:
		next_ready(u);
		break;
	case MPS_FAULTED:
		next_faulted(u);
		break;
	case MPS_SERVER:
		next_server(u);
		break;
	case MPS_DRAINING:
		next_draining(u);
		break;
	case MPS_QUITTING:
		next_quitting(u);
		break;
	}
}

/* --- its end --- */

static void on_end(struct mps_unit *u, const char *how)
{
	bool asked = u->state == MPS_QUITTING, started = u->was_ready;
	uint64_t lived = time_mono_ns() - u->started_ns;
	char why[ERROR_MSG_MAX];

	/* What its log still says changes nothing, but for the words of one that did not even start. */
	if (u->state != MPS_STARTING)
		u->state = MPS_QUITTING;
	(void)watch_read(u);
	watch_end(u);
	(void)watch_fault(u, /* now= */ true);
	u->was_ready = false;
	mps_command_stop(&u->command);
	u->helper = proc_stop(u->helper);
	/* An older driver, if it never served: since then processes of clients can write to its log. */
	if (!started && strstr(u->complaint, "multiuser"))
		u->single = true;
	u->answered_none = false;
	if (mps_clients_count(&u->clients) > 0)
		watch_tell_lost(u, "MPSDaemonDied", "the MPS control daemon ended");
	mps_clients_set(&u->clients, NULL, 0);
	if (started && lived >= LONG_LIFE_NS)
		u->failures = 0;
	u->deaths += u->wanted;
	(void)snprintf(why, sizeof(why), "the MPS control daemon ended %s%s%.300s", how,
		*u->complaint ? ": " : "", u->complaint);
	dir_empty(u->place.pipe,
		DIR_EMPTY_LOOP_NS); /* nobody is to find a socket there that leads nowhere */
	go_down(u, asked ? u->why : why);
	arm(u, 0);
}

/* --- life --- */

struct mps_unit *unit_new(struct mps *m, const char *root, const char *key, struct error *err)
{
	struct mps_unit *u = calloc(1, sizeof(*u));

	if (!u) {
		(void)error_nomem(err);
		return NULL;
	}
	if (mps_place_init(&u->place, root, key, err) < 0 ||
		mps_place_load(&u->place, err) < 0) {
		mps_place_fini(&u->place);
		free(u);
		return NULL;
	}
	u->mps = m;
	u->modes_done = on_modes;
	u->ended = on_end;
	(void)snprintf(u->key, sizeof(u->key), "%s", key);
	mps_log_init(&u->log);
	(void)uv_timer_init(m->c.loop, &u->timer);
	u->timer.data = u;
	(void)uv_fs_event_init(m->c.loop, &u->log_event);
	u->log_event.data = u;
	u->handles = 2;
	(void)snprintf(u->why, sizeof(u->why), "the MPS control daemon is starting");
	u->wanted = adopt(u); /* until the config says otherwise */
	u->since_ns = time_mono_ns();
	return u;
}

static void on_closed(uv_handle_t *h)
{
	struct mps_unit *u = h->data;

	if (--u->handles == 0)
		changed(u); /* which frees it */
}

void unit_close(struct mps_unit *u)
{
	if (u->gone)
		return;
	u->gone = true;
	watch_end(u);
	mps_command_stop(&u->command);
	u->helper = proc_stop(u->helper);
	who_stop(u);
	process_leave(u);
	uv_close((uv_handle_t *)&u->timer, on_closed);
	uv_close((uv_handle_t *)&u->log_event, on_closed);
}

void unit_free(struct mps_unit *u)
{
	mps_log_fini(&u->log);
	mps_clients_fini(&u->clients);
	mps_place_fini(&u->place);
	strv_fini(&u->want.uuids);
	strv_fini(&u->told.uuids);
	free(u);
}
