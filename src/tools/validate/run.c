/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the components of a validation: once, until they pass, or for ever as a watch. Writes their files and
 * ends on signals (validate.h).
 */
#include "tools/validate/validate.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/paths.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "tools/validate/files.h"
#include "tools/validate/internal.h"

/* Changes come in bursts, and a validation is expensive. */
#define SETTLE_NS  (200 * NS_PER_MS)
#define NEWS_BYTES 4096

struct validate_state {
	const struct run_options *o;
	const struct validate_settings *s;
	int changes; /* inotify */
	int signals; /* signalfd; -1: signals keep their default */
	int status;  /* watch descriptor of the status directory; -1 */
	/* This process removed or wrote the files of these, so it may remove them at the end. */
	bool ours[VALIDATE_COUNT_];
	bool unsaved[VALIDATE_COUNT_];  /* the files do not match the last report */
	bool reported[VALIDATE_COUNT_]; /* the reason of .unsaved was printed */
	/* The main thread holds the lock, except while a component runs: see run_signal_guard(). */
	pthread_mutex_t lock;
	pthread_t guard;
	int done; /* eventfd: ends the guard; -1: no guard */
};

static void report_validate_progress(const struct validate_state *run, const char *fmt, ...)
	PRINTF(2, 3);

static void report_validate_progress(const struct validate_state *run, const char *fmt, ...)
{
	char line[ERROR_MSG_MAX + 128];
	va_list ap;

	if (!run->o->progress)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	run->o->progress(line);
}

static bool has_files(const struct validate_state *run)
{
	return run->o->output_dir && run->o->output_dir[0];
}

/* --- the end by a signal --- */

static void remove_own_files(struct validate_state *run)
{
	struct error err = ERROR_INIT;

	for (int c = 0; has_files(run) && c < VALIDATE_COUNT_; c++) {
		if (run->ours[c] &&
			files_begin(run->o->output_dir, (enum validate_component)c, &err) < 0)
			report_validate_progress(run, "%s", err.msg);
	}
}

/*
 * The guard thread ends the process if a signal comes while a component runs, which may take minutes
 * if the driver hangs.
 *
 *	1. The main thread holds .lock, except while a component runs.
 *	2. A signal makes .signals readable; the guard wakes up and takes .lock.
 *	3. If the signal is still pending and .done is not set, the guard ends the process.
 *
 * With a lock instead of a signal handler, no file is being written at step 3, and gRPC's threads do
 * not matter. Children die with their parent: PR_SET_PDEATHSIG.
 */
static void *run_signal_guard(void *arg)
{
	struct validate_state *run = arg;
	struct pollfd p[2] = { { .fd = run->done, .events = POLLIN },
		{ .fd = run->signals, .events = POLLIN } };

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	(void)pthread_mutex_lock(&run->lock);
	/* Meanwhile the main thread may have seen the signal itself, or have finished. */
	if (poll(p, 2, 0) > 0 && !p[0].revents && p[1].revents) {
		report_validate_progress(run, "interrupted while a component was validated");
		if (run->o->watch_ns)
			remove_own_files(run);
		_exit(run->o->watch_ns ? 0 : 1);
	}
	(void)pthread_mutex_unlock(&run->lock);
	return NULL;
}

static void validate_run_fini(struct validate_state *run)
{
	if (run->done >= 0)
		(void)eventfd_write(run->done, 1);
	(void)pthread_mutex_unlock(&run->lock);
	if (run->done >= 0)
		(void)pthread_join(run->guard, NULL);
	(void)pthread_mutex_destroy(&run->lock);
	closep(&run->done);
	closep(&run->changes);
	closep(&run->signals);
}

static int start_guard(struct validate_state *run, struct error *err)
{
	int r;

	run->done = eventfd(0, EFD_CLOEXEC);
	if (run->done < 0)
		return error_sys(err, errno, "wait for signals");
	r = pthread_create(&run->guard, NULL, run_signal_guard, run);
	if (r == 0)
		return 0;
	closep(&run->done);
	run->done = -1;
	return error_sys(err, r, "start a thread");
}

static int run_init(struct validate_state *run, const struct run_options *o,
	const struct validate_settings *s, struct error *err)
{
	sigset_t set;
	int r = 0;

	*run = (struct validate_state){ .o = o,
		.s = s,
		.signals = -1,
		.status = -1,
		.done = -1 };
	run->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (run->changes < 0)
		return error_sys(err, errno, "watch directories");
	(void)pthread_mutex_init(&run->lock, NULL);
	(void)pthread_mutex_lock(&run->lock);
	if (!o->wait && !o->watch_ns)
		return 0;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	run->signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (run->signals < 0)
		r = error_sys(err, errno, "wait for signals");
	if (r < 0 || start_guard(run, err) < 0) {
		validate_run_fini(run);
		return -1;
	}
	return 0;
}

/* --- waiting --- */

/* Directories may appear and vanish. A second watch on the same directory changes nothing. */
static void watch_component_dirs(struct validate_state *run)
{
	const struct validate_settings *s = run->s;
	char pods[PATH_MAX] = "", dev[PATH_MAX] = "";
	const char *const dirs[] = { s->driver_ctr, or_default(s->run_dir, DEFAULT_RUN_DIR),
		pods, dev, "/etc/cdi", "/var/run/cdi" };
	const uint32_t what = IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;

	if (path_join(pods, sizeof(pods), or_default(s->kubelet_dir, DEFAULT_KUBELET_DIR),
		    "pod-resources", NULL) < 0)
		pods[0] = '\0';
	if (path_join(dev, sizeof(dev), or_default(s->own_root, "/"), "dev", NULL) < 0)
		dev[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		if (dirs[i] && dirs[i][0])
			(void)inotify_add_watch(run->changes, dirs[i], what);
	}
	for (size_t i = 0; i < s->cdi_dirs.n; i++)
		(void)inotify_add_watch(run->changes, s->cdi_dirs.v[i], what);
	if (s->status_dir && s->status_dir[0])
		run->status = inotify_add_watch(run->changes, s->status_dir, what);
}

/* Whether a change matters to the next try. The validator's own files do not count. */
static bool read_dir_changes(struct validate_state *run)
{
	char news[NEWS_BYTES] __attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *e;
	bool any = false;
	ssize_t n;

	while ((n = read(run->changes, news, sizeof(news))) > 0) {
		for (char *p = news; p < news + n; p += sizeof(*e) + e->len) {
			e = (const struct inotify_event *)(const void *)p;
			any = any || e->wd != run->status ||
			      (e->len > 0 && strcmp(e->name, ".driver-ctr-ready") == 0);
		}
	}
	return any;
}

static void wait_settle_time(void)
{
	struct timespec ts = { .tv_nsec = (long)SETTLE_NS };

	(void)nanosleep(&ts, NULL);
}

/* Waits until @ns have passed; with @early also until a change. False: a signal came. */
static bool wait_next_try(struct validate_state *run, uint64_t ns, bool early)
{
	uint64_t until = time_mono_ns() + ns;

	for (;;) {
		uint64_t now = time_mono_ns();
		struct pollfd p[2] = { { .fd = run->signals, .events = POLLIN },
			{ .fd = early ? run->changes : -1, .events = POLLIN } };
		uint64_t left_ms = now >= until ? 0 : (until - now) / NS_PER_MS + 1;

		if (poll(p, 2, left_ms > INT_MAX ? INT_MAX : (int)left_ms) < 0 &&
			errno != EINTR)
			return false;
		if (p[0].revents)
			return false;
		if (p[1].revents && read_dir_changes(run)) {
			wait_settle_time();
			return true;
		}
		if (time_mono_ns() >= until)
			return true;
	}
}

/* --- one component --- */

static void output_failed(struct validate_report *r, const struct error *err)
{
	if (r->result != VALIDATE_FAIL)
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_OUTPUT, "%s", err->msg);
}

/* Reports once why the files cannot be written. */
static void report_unsaved(struct validate_state *run, enum validate_component c,
	const char *why)
{
	if (!run->reported[c])
		report_validate_progress(run, "%s: %s", validate_component_name(c), why);
	run->reported[c] = true;
}

/* Writes the files of the report. A failed write turns a pass into a failure. */
static void write_report_files(struct validate_state *run, struct validate_report *r)
{
	enum validate_component c = r->component;
	struct error err = ERROR_INIT;

	if (!has_files(run))
		return;
	run->ours[c] = true;
	if (files_write(run->o->output_dir, r, &err) == 0) {
		run->unsaved[c] = run->reported[c] = false;
		return;
	}
	/* The report of a failure has no room for another error. */
	if (r->result == VALIDATE_FAIL)
		report_unsaved(run, c, err.msg);
	run->unsaved[c] = true;
	output_failed(r, &err);
}

/* Removes the component's files, until there is a report. */
static int clear_report_files(struct validate_state *run, enum validate_component c,
	struct validate_report *r)
{
	struct error err = ERROR_INIT;

	if (!has_files(run))
		return 0;
	run->ours[c] = true;
	if (files_begin(run->o->output_dir, c, &err) == 0)
		return 0;
	run->unsaved[c] = true;
	output_failed(r, &err);
	return -1;
}

/* Validates without the lock: a signal ends the process meanwhile. */
static void run_component_unlocked(struct validate_state *run, enum validate_component c,
	struct validate_report *r)
{
	(void)pthread_mutex_unlock(&run->lock);
	validate_component(c, run->s, r);
	(void)pthread_mutex_lock(&run->lock);
}

/* Returns RUN_ENDED or 0. */
static int run_component(struct validate_state *run, enum validate_component c,
	struct validate_report *r)
{
	char last[sizeof(r->text)] = "";
	uint64_t start = time_mono_ns();
	char age[TIME_AGE_MAX];

	if (clear_report_files(run, c, r) < 0)
		return 0;
	for (unsigned n = 1;; n++) {
		validate_report_fini(r);
		watch_component_dirs(run);
		run_component_unlocked(run, c, r);
		if (r->result != VALIDATE_FAIL || !run->o->wait || strcmp(last, r->text) != 0)
			write_report_files(run, r);
		if (r->result != VALIDATE_FAIL || !run->o->wait)
			return 0;
		time_age(time_mono_ns() - start, age);
		if (strcmp(last, r->text) != 0)
			report_validate_progress(run, "%s: waiting: %s: %s",
				validate_component_name(c), validate_code_name(r->code),
				r->text);
		else if (n % 12 == 0)
			report_validate_progress(run, "%s: still waiting after %s, try %u",
				validate_component_name(c), age, n);
		(void)snprintf(last, sizeof(last), "%s", r->text);
		if (!wait_next_try(run, run->o->interval_ns, /* early= */ true))
			return RUN_ENDED;
	}
}

/* --- rounds --- */

static int round_of(struct validate_state *run, struct validate_report *reports)
{
	const struct run_options *o = run->o;
	const char *failed = NULL;
	char why[128];

	for (size_t i = 0; i < o->n; i++) {
		struct validate_report *r = &reports[i];
		bool applies =
			!o->skip || validate_applies(o->list[i], run->s, why, sizeof(why));

		if (r->result == VALIDATE_FAIL) { /* the cleanup before the round failed */
			failed = validate_component_name(o->list[i]);
			continue;
		}
		if (failed) {
			report_set(r, VALIDATE_SKIP, VALIDATE_CODE_SKIPPED, "%s failed first",
				failed);
			/* An older pass is not valid any more. If the component does not apply here,
			 * its files belong to another validator. */
			if (applies)
				(void)clear_report_files(run, o->list[i], r);
			continue;
		}
		if (!applies) {
			report_set(r, VALIDATE_SKIP, VALIDATE_CODE_SKIPPED, "%s", why);
			continue;
		}
		if (run_component(run, o->list[i], r) == RUN_ENDED)
			return RUN_ENDED;
		if (r->result == VALIDATE_FAIL)
			failed = validate_component_name(o->list[i]);
	}
	return 0;
}

static int first_round(struct validate_state *run, struct validate_report *reports)
{
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < run->o->n; i++)
		validate_report_init(&reports[i], run->o->list[i]);
	if (has_files(run) && run->o->cleanup && run->o->n > 0 &&
		files_cleanup(run->o->output_dir, &err) < 0)
		output_failed(&reports[0], &err);
	return round_of(run, reports);
}

int run_round(const struct run_options *options, const struct validate_settings *settings,
	struct validate_report *reports, struct error *err)
{
	struct validate_state run;
	int r;

	if (run_init(&run, options, settings, err) < 0) {
		for (size_t i = 0; i < options->n; i++)
			validate_report_init(&reports[i], options->list[i]);
		return -1;
	}
	r = first_round(&run, reports);
	validate_run_fini(&run);
	return r;
}

struct watched {
	uint64_t failures; /* in a row */
	bool valid;        /* the ready file exists */
};

static void recheck_component(struct validate_state *run, struct watched *w,
	struct validate_report *r)
{
	enum validate_component c = r->component;
	const char *name = validate_component_name(c);

	validate_report_fini(r);
	run_component_unlocked(run, c, r);
	if (r->result != VALIDATE_FAIL) {
		bool was_valid = w->valid;

		w->failures = 0;
		write_report_files(run, r);
		w->valid = r->result != VALIDATE_FAIL;
		if (!w->valid)
			report_unsaved(run, c, r->text);
		else if (!was_valid)
			report_validate_progress(run, "%s: passes: %s", name, r->text);
		return;
	}
	w->failures++;
	if (!w->valid && w->failures > run->o->watch_failures) {
		if (run->unsaved[c])
			write_report_files(run, r);
		return;
	}
	report_validate_progress(run, "%s: fails (%u of %u): %s: %s", name,
		(unsigned)w->failures, (unsigned)run->o->watch_failures,
		validate_code_name(r->code), r->text);
	if (w->failures < run->o->watch_failures)
		return;
	if (w->valid)
		report_validate_progress(run, "%s: is not ready any more", name);
	w->valid = false;
	write_report_files(run, r);
}

int run_watch(const struct run_options *options, const struct validate_settings *settings,
	struct validate_report *reports, struct error *err)
{
	struct watched watched[VALIDATE_COUNT_] = { { .failures = 0 } };
	struct validate_state run;
	int r;

	if (run_init(&run, options, settings, err) < 0) {
		for (size_t i = 0; i < options->n; i++)
			validate_report_init(&reports[i], options->list[i]);
		return -1;
	}
	r = first_round(&run, reports);
	for (size_t i = 0; i < options->n && r == 0; i++) {
		enum validate_result result = reports[i].result;

		watched[i].valid = result != VALIDATE_FAIL && result != VALIDATE_SKIP;
		watched[i].failures = result == VALIDATE_FAIL ? options->watch_failures : 0;
		report_validate_progress(&run, "%s: %s: %s",
			validate_component_name(options->list[i]),
			validate_result_name(reports[i].result), reports[i].text);
	}
	while (r == 0 && wait_next_try(&run, options->watch_ns, /* early= */ false)) {
		for (size_t i = 0; i < options->n; i++) {
			bool skipped = reports[i].result == VALIDATE_SKIP;

			/* A component that was skipped because of an earlier failure runs now. */
			if (skipped && options->skip &&
				!validate_applies(options->list[i], settings, (char[128]){ 0 },
					128))
				continue;
			/* A failure does not end the round: the files of the other components must
			 * stay true. */
			recheck_component(&run, &watched[i], &reports[i]);
		}
	}
	remove_own_files(&run);
	validate_run_fini(&run);
	return RUN_ENDED;
}
