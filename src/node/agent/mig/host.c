/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/host.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"
#include "io/config/mig/mig.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* NVIDIA's limits for one service. */
#define STOP_NS   (30 * NS_PER_SEC)
#define START_NS  (120 * NS_PER_SEC)
#define REBOOT_NS (60 * NS_PER_SEC) /* for the reboot command */
#define WORDS_MAX 32

/* --- which services were stopped --- */

/* Written before the first service stops. Removed when all services run again. */
static int save_stopped_services(const struct mig_host *h, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIG_SERVICES_FILE);

	if (h->stopped.n == 0) {
		if (unlink(h->stopped_path) < 0 && errno != ENOENT)
			return error_sys(err, errno, "remove '%s'", h->stopped_path);
		return 0;
	}
	for (size_t i = 0; i < h->stopped.n; i++)
		buf_printf(&b, "%s\n", h->stopped.v[i]);
	if (!buf_ok(&b))
		return error_nomem(err);
	return file_write_atomic(h->stopped_path, buf_str(&b), b.len, 0600, err);
}

/* Skips lines that are no name of a service: such a line would fail each attempt, forever. */
static void read_stopped(struct mig_host *h)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIG_SERVICES_FILE);
	struct error err = ERROR_INIT;
	char shown[80];
	const char *p;

	if (file_read(h->stopped_path, &b, &err) < 0) {
		if (err.sys != ENOENT)
			log_warn("services that were stopped are not known",
				LOG_STR("reason", err.msg));
		return;
	}
	for (p = buf_str(&b); *p; p += strcspn(p, "\n"), p += *p == '\n') {
		size_t len = strcspn(p, "\n");

		if (len == 0)
			continue;
		if (!mig_service_is(p, len)) {
			(void)snprintf(shown, sizeof(shown), "%.*s", (int)len, p);
			log_warn("a line is no name of a service",
				LOG_STR("file", h->stopped_path), LOG_STR("found", shown));
		} else if (h->stopped.n < MIG_SERVICES_MAX &&
			   strv_addn(&h->stopped, p, len, NULL) < 0) {
			return;
		}
	}
}

int mig_host_init(struct mig_host *h, uv_loop_t *loop, const char *root, const char *run_dir,
	struct error *err)
{
	*h = (struct mig_host){ .loop = loop, .root = root };
	if (asprintf(&h->stopped_path, "%s/mig-services", run_dir) < 0) {
		h->stopped_path = NULL;
		return error_nomem(err);
	}
	read_stopped(h);
	return 0;
}

void mig_host_fini(struct mig_host *h)
{
	strv_fini(&h->services);
	strv_fini(&h->stopped);
	free(h->stopped_path);
	h->stopped_path = NULL;
}

/* --- programs --- */

static void next_service(struct mig_host *h);
static void on_host_command_ended(void *arg, const struct child_end *end);

static const struct child_ops child_ops = { .ended = on_host_command_ended };

static void finish_mig_host_step(struct mig_host *h, const struct error *err)
{
	h->step = MIG_HOST_REST;
	h->done(h->arg, err);
}

/* The other services start all the same. The next attempt tries this one again. */
static void not_started(struct mig_host *h, const struct error *err)
{
	log_error("a service of the host does not start", LOG_STR("reason", err->msg));
	if (h->first.code == ERR_NONE)
		h->first = *err;
	next_service(h);
}

static void run_mig_host_command(struct mig_host *h, const char *const *argv, uint64_t ns)
{
	const struct child_spec what = { .name = "mig", .argv = argv, .silence_ns = ns };
	struct error err = ERROR_INIT;

	if (proc_start(&h->child, h->loop, &what, &child_ops, h, &err) == 0)
		return;
	if (h->step == MIG_HOST_START)
		not_started(h, &err);
	else
		finish_mig_host_step(h, &err);
}

static void run_host_systemctl(struct mig_host *h, const char *verb, const char *service,
	uint64_t ns)
{
	const char *const argv[] = { "chroot", h->root, "systemctl", verb, service, NULL };

	run_mig_host_command(h, argv, ns);
}

static void set_service_error(const struct child_end *end, const char *what, const char *name,
	struct error *err)
{
	if (end->was_silent)
		(void)error_set(err, ERR_TIMEOUT, "%s %s: not done in time", what, name);
	else
		(void)error_set(err, ERR_IO, "%s %s: %s %d%s%s", what, name,
			end->signal ? "signal" : "status",
			end->signal ? end->signal : end->status, *end->words ? ": " : "",
			end->words);
}

/* @active: `systemctl is-active` ended with 0. The service is saved as stopped before it stops. */
static void stop_one(struct mig_host *h, bool active)
{
	const char *name = h->services.v[h->next];
	struct error err = ERROR_INIT;

	if (!active) {
		h->next++;
		next_service(h);
		return;
	}
	if (!strv_has(&h->stopped, name) && strv_add(&h->stopped, name, &err) < 0) {
		finish_mig_host_step(h, &err);
		return;
	}
	if (save_stopped_services(h, &err) < 0) {
		finish_mig_host_step(h, &err);
		return;
	}
	log_info("stopping a service of the host", LOG_STR("service", name));
	h->step = MIG_HOST_STOP;
	run_host_systemctl(h, "stop", name, STOP_NS);
}

static void on_host_service_started(struct mig_host *h, const struct child_end *end)
{
	char **at = &h->stopped.v[h->next];
	struct error err = ERROR_INIT;

	if (end->was_silent || end->status != 0 || end->signal != 0) {
		set_service_error(end, "start service", *at, &err);
		not_started(h, &err);
		return;
	}
	free(*at);
	h->stopped.n--;
	memmove(at, at + 1, (h->stopped.n - h->next) * sizeof(*at));
	h->stopped.v[h->stopped.n] = NULL;
	next_service(h);
}

static void on_host_command_ended(void *arg, const struct child_end *end)
{
	struct mig_host *h = arg;
	struct error err = ERROR_INIT;
	bool good = !end->was_silent && end->status == 0 && end->signal == 0;

	h->child = NULL;
	switch (h->step) {
	case MIG_HOST_ASK:
		stop_one(h, good);
		break;
	case MIG_HOST_STOP:
		if (good) {
			h->next++;
			next_service(h);
			break;
		}
		set_service_error(end, "stop service", h->services.v[h->next], &err);
		finish_mig_host_step(h, &err);
		break;
	case MIG_HOST_START:
		on_host_service_started(h, end);
		break;
	case MIG_HOST_COMMAND:
		if (!good)
			set_service_error(end, "command", h->what, &err);
		finish_mig_host_step(h, &err);
		break;
	case MIG_HOST_REST:
		break;
	}
}

static void next_service(struct mig_host *h)
{
	struct error none = ERROR_INIT;

	if (h->step == MIG_HOST_START) {
		if (h->next > 0) {
			run_host_systemctl(h, "start", h->stopped.v[--h->next], START_NS);
			return;
		}
		if (save_stopped_services(h, &none) < 0)
			log_warn("list of stopped services stays", LOG_STR("reason", none.msg));
		finish_mig_host_step(h, &h->first);
		return;
	}
	if (h->next == h->services.n) {
		finish_mig_host_step(h, &none);
		return;
	}
	h->step = MIG_HOST_ASK;
	run_host_systemctl(h, "is-active", h->services.v[h->next], STOP_NS);
}

void mig_host_stop(struct mig_host *h)
{
	h->next = 0;
	h->step = MIG_HOST_ASK;
	next_service(h);
}

void mig_host_start(struct mig_host *h)
{
	error_clear(&h->first);
	h->next = h->stopped.n;
	h->step = MIG_HOST_START;
	next_service(h);
}

void mig_host_reload(struct mig_host *h)
{
	const char *const argv[] = { "chroot", h->root, "systemctl", "daemon-reload", NULL };

	h->step = MIG_HOST_COMMAND;
	h->what = argv[3];
	run_mig_host_command(h, argv, STOP_NS);
}

void mig_host_reboot(struct mig_host *h, const char *command)
{
	CLEANUP(strv_fini) struct strv words = STRV_INIT;
	const char *argv[WORDS_MAX + 1];
	struct error err = ERROR_INIT;
	size_t n = 0;

	h->step = MIG_HOST_COMMAND;
	h->what = "reboot";
	if (strv_split(&words, command, ' ', &err) < 0) {
		finish_mig_host_step(h, &err);
		return;
	}
	for (size_t i = 0; i < words.n && n < WORDS_MAX; i++) {
		if (*words.v[i])
			argv[n++] = words.v[i];
	}
	argv[n] = NULL;
	if (n == 0) {
		(void)error_set(&err, ERR_INVALID, "the reboot command is empty");
		finish_mig_host_step(h, &err);
		return;
	}
	log_warn("rebooting the host", LOG_STR("command", command));
	run_mig_host_command(h, argv, REBOOT_NS);
}

void mig_host_cancel(struct mig_host *h)
{
	h->child = proc_stop(h->child);
	h->step = MIG_HOST_REST;
}

/* --- the boot service's selection --- */

int mig_host_select(const struct mig_host *h, const char *file, const char *name,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf now = BUF_INIT(MIG_SERVICES_FILE);
	char path[PATH_MAX], text[256];
	int n;

	if (path_join(path, sizeof(path), h->root, *file == '/' ? file + 1 : file, err) < 0)
		return -1;
	if (access(path, F_OK) < 0)
		return 1;
	n = snprintf(text, sizeof(text),
		"[Service]\nEnvironment=\"MIG_PARTED_SELECTED_CONFIG=%s\"\n", name);
	if (n < 0 || (size_t)n >= sizeof(text))
		return error_set(err, ERR_LIMIT, "'%s': the name is too long", path);
	if (file_read(path, &now, NULL) == 0 && !strcmp(buf_str(&now), text))
		return 1;
	return file_write_atomic(path, text, (size_t)n, 0644, err);
}
