/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/run.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "validate/files.h"
#include "validate/internal.h"

/* Changes come in bursts, and the next try is not for free. */
#define SETTLE_NS  (200 * NS_PER_MS)
#define NEWS_BYTES 4096

struct run {
	const struct run_options *o;
	const struct validate_settings *s;
	int changes; /* inotify */
	int signals; /* signalfd; -1: signals are left alone */
	int status;  /* watch descriptor of the status directory; -1 */
};

static void say(const struct run *run, const char *fmt, ...) PRINTF(2, 3);

static void say(const struct run *run, const char *fmt, ...)
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

static bool has_files(const struct run *run)
{
	return run->o->output_dir && run->o->output_dir[0];
}

/* --- waiting --- */

static void run_fini(struct run *run)
{
	closep(&run->changes);
	closep(&run->signals);
}

static int run_init(struct run *run, const struct run_options *o,
	const struct validate_settings *s, struct error *err)
{
	sigset_t set;

	*run = (struct run){ .o = o, .s = s, .signals = -1, .status = -1 };
	run->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (run->changes < 0)
		return error_sys(err, errno, "watch directories");
	if (!o->wait && !o->watch_ns)
		return 0;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	run->signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (run->signals < 0) {
		run_fini(run);
		return error_sys(err, errno, "wait for signals");
	}
	return 0;
}

/* Directories may come and go; adding one that is watched changes nothing. */
static void watch_dirs(struct run *run)
{
	const struct validate_settings *s = run->s;
	char pods[PATH_MAX] = "", dev[PATH_MAX] = "";
	const char *const dirs[] = { s->driver_ctr, or_default(s->run_dir, "/run/gpuslice"),
		pods, dev, "/etc/cdi", "/var/run/cdi" };
	const uint32_t what = IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;

	if (path_join(pods, sizeof(pods), or_default(s->kubelet_dir, "/var/lib/kubelet"),
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

/* Whether something has changed that another try may care about. Our own files do not count. */
static bool changed(struct run *run)
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

static void settle(void)
{
	struct timespec ts = { .tv_nsec = (long)SETTLE_NS };

	(void)nanosleep(&ts, NULL);
}

/* Until @ns have passed, or, with @early, something has changed. False: a signal came. */
static bool rest(struct run *run, uint64_t ns, bool early)
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
		if (p[1].revents && changed(run)) {
			settle();
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

/* The files as the report says; what cannot be written makes a pass a failure. */
static void keep(const struct run *run, struct validate_report *r)
{
	struct error err = ERROR_INIT;

	if (has_files(run) && files_write(run->o->output_dir, r, &err) < 0)
		output_failed(r, &err);
}

/* Returns RUN_ENDED or 0. */
static int one(struct run *run, enum validate_component c, struct validate_report *r)
{
	char last[sizeof(r->text)] = "";
	struct error err = ERROR_INIT;
	uint64_t start = time_mono_ns();
	char age[TIME_AGE_MAX];

	if (has_files(run) && files_begin(run->o->output_dir, c, &err) < 0) {
		output_failed(r, &err);
		return 0;
	}
	for (unsigned n = 1;; n++) {
		validate_report_fini(r);
		watch_dirs(run);
		validate_component(c, run->s, r);
		if (r->result != VALIDATE_FAIL || !run->o->wait || strcmp(last, r->text) != 0)
			keep(run, r);
		if (r->result != VALIDATE_FAIL || !run->o->wait)
			return 0;
		time_age(time_mono_ns() - start, age);
		if (strcmp(last, r->text) != 0)
			say(run, "%s: waiting: %s: %s", validate_component_name(c),
				validate_code_name(r->code), r->text);
		else if (n % 12 == 0)
			say(run, "%s: still waiting after %s, try %u",
				validate_component_name(c), age, n);
		(void)snprintf(last, sizeof(last), "%s", r->text);
		if (!rest(run, run->o->interval_ns, /* early= */ true))
			return RUN_ENDED;
	}
}

/* --- rounds --- */

static int round_of(struct run *run, struct validate_report *reports)
{
	const struct run_options *o = run->o;
	const char *failed = NULL;
	char why[128];

	for (size_t i = 0; i < o->n; i++) {
		struct validate_report *r = &reports[i];

		if (failed) {
			report_set(r, VALIDATE_SKIP, VALIDATE_CODE_SKIPPED, "%s failed first",
				failed);
			continue;
		}
		if (o->skip && !validate_applies(o->list[i], run->s, why, sizeof(why))) {
			report_set(r, VALIDATE_SKIP, VALIDATE_CODE_SKIPPED, "%s", why);
			continue;
		}
		if (one(run, o->list[i], r) == RUN_ENDED)
			return RUN_ENDED;
		if (r->result == VALIDATE_FAIL)
			failed = validate_component_name(o->list[i]);
	}
	return 0;
}

static int first_round(struct run *run, struct validate_report *reports, struct error *err)
{
	for (size_t i = 0; i < run->o->n; i++)
		validate_report_init(&reports[i], run->o->list[i]);
	if (has_files(run) && run->o->cleanup && files_cleanup(run->o->output_dir, err) < 0)
		return -1;
	return round_of(run, reports);
}

int run_round(const struct run_options *options, const struct validate_settings *settings,
	struct validate_report *reports, struct error *err)
{
	struct run run;
	int r;

	if (run_init(&run, options, settings, err) < 0) {
		for (size_t i = 0; i < options->n; i++)
			validate_report_init(&reports[i], options->list[i]);
		return -1;
	}
	r = first_round(&run, reports, err);
	run_fini(&run);
	return r;
}

struct watched {
	uint64_t failures; /* in a row */
	bool valid;        /* the ready file is there */
};

static void look_again(struct run *run, struct watched *w, struct validate_report *r)
{
	enum validate_component c = r->component;
	const char *name = validate_component_name(c);

	validate_report_fini(r);
	validate_component(c, run->s, r);
	if (r->result != VALIDATE_FAIL) {
		if (!w->valid)
			say(run, "%s: passes: %s", name, r->text);
		w->failures = 0;
		keep(run, r);
		w->valid = r->result != VALIDATE_FAIL;
		return;
	}
	w->failures++;
	if (!w->valid && w->failures > run->o->watch_failures)
		return;
	say(run, "%s: fails (%u of %u): %s: %s", name, (unsigned)w->failures,
		(unsigned)run->o->watch_failures, validate_code_name(r->code), r->text);
	if (w->failures < run->o->watch_failures)
		return;
	if (w->valid)
		say(run, "%s: is not ready any more", name);
	w->valid = false;
	keep(run, r);
}

static void take_back(struct run *run, const struct validate_report *reports)
{
	struct error err = ERROR_INIT;

	for (size_t i = 0; has_files(run) && i < run->o->n; i++) {
		if (reports[i].result != VALIDATE_SKIP &&
			files_begin(run->o->output_dir, run->o->list[i], &err) < 0)
			say(run, "%s", err.msg);
	}
}

int run_watch(const struct run_options *options, const struct validate_settings *settings,
	struct validate_report *reports, struct error *err)
{
	struct watched watched[VALIDATE_COUNT_] = { { .failures = 0 } };
	struct run run;
	int r;

	if (run_init(&run, options, settings, err) < 0) {
		for (size_t i = 0; i < options->n; i++)
			validate_report_init(&reports[i], options->list[i]);
		return -1;
	}
	r = first_round(&run, reports, err);
	for (size_t i = 0; i < options->n && r == 0; i++) {
		watched[i].valid = reports[i].result != VALIDATE_FAIL;
		watched[i].failures = watched[i].valid ? 0 : options->watch_failures;
		say(&run, "%s: %s: %s", validate_component_name(options->list[i]),
			validate_result_name(reports[i].result), reports[i].text);
	}
	while (r == 0 && rest(&run, options->watch_ns, /* early= */ false)) {
		for (size_t i = 0; i < options->n; i++) {
			bool skipped = reports[i].result == VALIDATE_SKIP;

			/* What was left out because one before it failed gets its turn now. */
			if (skipped && options->skip &&
				!validate_applies(options->list[i], settings, (char[128]){ 0 },
					128))
				continue;
			/* One that fails does not end the round: the others' files must stay
			 * true as well. */
			look_again(&run, &watched[i], &reports[i]);
		}
	}
	if (r >= 0) {
		take_back(&run, reports);
		r = RUN_ENDED;
	}
	run_fini(&run);
	return r;
}
