/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/agent/mps/mps-env.h"

#include "lib/base/fd.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPU   "nvidia.com/gpu"
#define FIRST "GPU-0"
#define GIB   (UINT64_C(1) << 30)
#define AT    "[2026-11-23 17:47:17.605 Server   609] "

static const char control_script[] =
	"#!/bin/sh\n"
	"d=${0%/*} place=${CUDA_MPS_PIPE_DIRECTORY%/pipe}\n"
	"if [ \"$1\" = -f ]; then\n"
	"	echo \"$$ ${place##*/} $* $CUDA_VISIBLE_DEVICES\" >>\"$d/started\"\n"
	"	[ ! -e \"$d/no-start\" ] || { cat \"$d/no-start\"; exit 3; }\n"
	"	exec sleep 300\n"
	"fi\n"
	"read -r word rest\n"
	"echo \"$word${rest:+ $rest}\" >>\"$d/asked\"\n"
	"if [ -e \"$d/fail-$word\" ]; then cat \"$d/fail-$word\" >&2; exit 1; fi\n"
	"[ ! -e \"$d/hang-$word\" ] || exec sleep 300\n"
	"if [ -e \"$d/no-start\" ] || ! read -r pid ticks <\"$place/pid\" || ! kill -0 \"$pid\"; then\n"
	"	echo 'Cannot find MPS control daemon process' >&2\n"
	"	exit 1\n"
	"fi 2>/dev/null\n"
	"if [ -e \"$d/say-$word\" ]; then cat \"$d/say-$word\"\n"
	"elif [ \"$word\" = get_server_status ]; then echo ACTIVE; fi\n"
	"[ \"$word\" != quit ] || kill \"$pid\"\n";

static const char helper_script[] =
	"#!/bin/sh\n"
	"d=${0%/*} set=\n"
	"echo \"$*\" >>\"$d/helped\"\n"
	"begun() { shift 19; echo \"$1\"; }\n"
	"while :; do\n"
	"	case $1 in\n"
	"	--place) place=$2 ;;\n"
	"	--log) log=$2 ;;\n"
	"	--set) set=$2 ;;\n"
	"	--*) ;;\n"
	"	*) break ;;\n"
	"	esac\n"
	"	shift 2\n"
	"done\n"
	"what=$1\n"
	"shift\n"
	"case $what in\n"
	"run)\n"
	"	read -r stat </proc/$$/stat\n"
	"	echo \"$$ $(begun ${stat##*) })\" >\"$place/pid\"\n"
	"	exec \"$@\" >>\"$log\" 2>&1 ;;\n"
	"mode)\n"
	"	if [ -e \"$d/fail-mode$set\" ]; then cat \"$d/fail-mode$set\" >&2; exit 1; fi\n"
	"	if [ -e \"$d/say-mode\" ]; then cat \"$d/say-mode\"; exit; fi\n"
	"	for uuid; do\n"
	"		mode=0\n"
	"		[ ! -e \"$d/mode-$uuid\" ] || read -r mode <\"$d/mode-$uuid\"\n"
	"		echo \"$uuid $mode\"\n"
	"		[ -z \"$set\" ] || echo \"$set\" >\"$d/mode-$uuid\"\n"
	"	done ;;\n"
	"clients)\n"
	"	while read -r pid; do\n"
	"		echo \"$pid\" >>\"$d/who-asked\"\n"
	"		if [ -e \"$d/who-ends\" ]; then cat \"$d/who-ends\" >&2; exit 1; fi\n"
	"		[ ! -e \"$d/who-hangs\" ] || exec sleep 300\n"
	"		if [ -e \"$d/who-$pid\" ]; then cat \"$d/who-$pid\"; else echo \"$pid - -\"; fi\n"
	"	done ;;\n"
	"esac\n";

/* --- time --- */

uint64_t __real_time_mono_ns(void);
uint64_t __wrap_time_mono_ns(void);

static uint64_t skipped_ns, stopped_ns;

uint64_t __wrap_time_mono_ns(void)
{
	return (stopped_ns ? stopped_ns : __real_time_mono_ns()) + skipped_ns;
}

void mps_env_stop_clock(void)
{
	stopped_ns = __real_time_mono_ns();
}

void mps_env_skip(struct mps_env *e, uint64_t ns)
{
	skipped_ns += ns;
	for (struct mps_supervisor *sup = e->mps.daemons; sup; sup = sup->next)
		mps_supervisor_step(sup);
}

/* --- life --- */

static void on_wake(void *arg)
{
	struct mps_env *e = arg;

	e->wakes++;
	mps_sync(&e->mps);
}

static void ask_holders(void *arg,
	void (*done)(void *done_arg, const struct pod_devices *list, const struct error *err),
	void *done_arg)
{
	struct mps_env *e = arg;

	e->n_pod_device_requests++;
	assert_null(e->pod_devices_done);
	e->pod_devices_done = done;
	e->pod_devices_arg = done_arg;
	if (!e->pod_devices_late)
		mps_env_report_holders(e);
}

void mps_env_report_holders(struct mps_env *e)
{
	struct error err = ERROR_INIT;
	void (*done)(void *arg, const struct pod_devices *list, const struct error *why) =
		e->pod_devices_done;

	e->pod_devices_done = NULL;
	if (e->holders_unknown)
		(void)error_set(&err, ERR_UNAVAILABLE, "no kubelet");
	done(e->pod_devices_arg, e->holders_unknown ? NULL : &e->pod_devices,
		e->holders_unknown ? &err : NULL);
}

static void init_mps(struct mps_env *e)
{
	static const struct mps_ops ops = { .request_pod_devices = ask_holders };
	const struct mps_context context = { .loop = &e->f->loop,
		.facts = &e->f->facts,
		.reporter = &e->f->reporter,
		.wake = &e->wake,
		.run_dir = e->f->dir,
		.options = { .control = e->control },
		.ops = &ops,
		.arg = e };

	mps_init(&e->mps, &context);
}

int mps_env_setup(void **state)
{
	struct mps_env *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	stopped_ns = 0;
	(void)signal(SIGPIPE,
		SIG_IGN); /* as the agent does: a program may not read its input */
	assert_int_equal(agent_fixture_setup((void **)&e->f), 0);
	(void)snprintf(e->root, sizeof(e->root), "%s/m", e->f->dir);
	(void)snprintf(e->control, sizeof(e->control), "%s/control", e->f->dir);
	test_write(e->f->dir, "control", control_script, strlen(control_script), 0755);
	test_write(e->f->dir, "gpuslice-mps", helper_script, strlen(helper_script), 0755);
	assert_int_equal(setenv("GPUSLICE_LIBEXEC", e->f->dir, 1), 0);
	wake_init(&e->wake, &e->f->loop, on_wake, e);
	init_mps(e);
	*state = e;
	return 0;
}

/* All started daemons, also those that the agent does not watch any more. */
static void kill_daemons(const struct mps_env *e)
{
	char path[PATH_MAX], line[1024];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/started", e->f->dir);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		uint32_t pid = mps_pid(line, strcspn(line, " "));

		if (pid > 1)
			(void)kill(-(pid_t)pid, SIGKILL);
	}
	if (file)
		(void)fclose(file);
}

static bool all_closed(const struct mps_env *e)
{
	for (const struct mps_supervisor *sup = e->mps.daemons; sup; sup = sup->next)
		if (!sup->closed || sup->handles > 0)
			return false;
	return true;
}

int mps_env_teardown(void **state)
{
	struct mps_env *e = *state;

	if (!e->mps.stopped)
		mps_stop(&e->mps);
	kill_daemons(e);
	agent_fixture_until(e->f, all_closed(e));
	mps_fini(&e->mps);
	wake_close(&e->wake);
	assert_null(e->pod_devices_done);
	(void)agent_fixture_teardown((void **)&e->f);
	free(e);
	return 0;
}

/* A killed agent does nothing any more: so no mps_supervisor_stop(). */
void mps_env_restart(struct mps_env *e)
{
	e->mps.stopped = true;
	for (struct mps_supervisor *sup = e->mps.daemons; sup; sup = sup->next)
		mps_supervisor_close(sup);
	agent_fixture_until(e->f, all_closed(e));
	mps_fini(&e->mps);
	init_mps(e);
	mps_start(&e->mps);
}

/* --- what the part follows --- */

struct inventory *mps_env_inventory(uint32_t n)
{
	struct inventory *inv = fixture_inventory(n);

	for (uint32_t i = 0; i < n; i++) {
		inv->gpus[i].cc_major = 9;
		inv->gpus[i].memory_total_bytes = 16 * GIB;
		inv->gpus[i].memory_usable_bytes = 15 * GIB;
	}
	(void)snprintf(inv->driver_version, sizeof(inv->driver_version), "580.159.04");
	return inv;
}

struct config *mps_env_config(const struct mps_env *e, uint32_t replicas)
{
	struct config *c = fixture_config();

	free(c->mps_root);
	c->mps_root = strdup(e->root);
	assert_non_null(c->mps_root);
	MPS(c).fail_requests_greater_than_one = true;
	if (replicas)
		(void)fixture_share_by(c, SHARING_MPS, GPU, NULL, replicas, NULL);
	return c;
}

void mps_env_know(struct mps_env *e, struct inventory *inv, struct config *c)
{
	agent_fixture_know(e->f, inv, c);
	mps_sync(&e->mps);
}

void mps_env_up(struct mps_env *e, uint32_t n)
{
	mps_env_know(e, mps_env_inventory(n), mps_env_config(e, 4));
	for (uint32_t i = 0; i < n; i++) {
		char key[16];

		(void)snprintf(key, sizeof(key), "GPU-%u", i);
		mps_env_until_state(e, key, MPS_READY);
	}
}

/* --- facts of the fixture --- */

struct mps_supervisor *mps_env_find_daemon(const struct mps_env *e, const char *key)
{
	for (struct mps_supervisor *sup = e->mps.daemons; sup; sup = sup->next)
		if (!sup->closed && !strcmp(sup->key, key))
			return sup;
	return NULL;
}

bool mps_env_is(const struct mps_env *e, const char *key, enum mps_state state)
{
	const struct mps_supervisor *sup = mps_env_find_daemon(e, key);

	return sup && sup->state == state;
}

bool mps_env_rests(const struct mps_env *e, const char *key, enum mps_state state)
{
	const struct mps_supervisor *sup = mps_env_find_daemon(e, key);

	return sup && sup->state == state && !sup->command.child && !sup->helper;
}

static bool is_nothing_pending(const struct mps_env *e)
{
	for (const struct mps_supervisor *sup = e->mps.daemons; sup; sup = sup->next)
		if (sup->command.child || sup->helper || sup->identify.pid)
			return false;
	return true;
}

void mps_env_settle(struct mps_env *e)
{
	agent_fixture_until(e->f, is_nothing_pending(e));
	agent_fixture_run_once(e->f);
}

bool mps_env_has_file(const struct mps_env *e, const char *key, const char *name)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%.2000s/%s/%s", e->root, key, name);
	return access(path, F_OK) == 0;
}

bool mps_env_ok(const struct mps_env *e, const char *id, const char **ret_why)
{
	const struct resource *r = offer_find(e->f->facts.offered.offer, GPU);
	const struct offer_device *d = r ? resource_find(r, id) : NULL;

	assert_non_null(d);
	return mps_device_ok(&e->mps, r, d, ret_why);
}

/* --- the scripts' files --- */

void mps_env_write(const struct mps_env *e, const char *name, const char *text)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", e->f->dir, name);
	if (text)
		test_write(e->f->dir, name, text, strlen(text), 0644);
	else
		(void)unlink(path);
}

unsigned mps_env_lines(const struct mps_env *e, const char *name, const char *text)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	CLEANUP(freep) char *all = NULL;
	char path[PATH_MAX];
	unsigned n = 0;

	(void)snprintf(path, sizeof(path), "%s/%s", e->f->dir, name);
	if (file_read(path, &b, NULL) < 0)
		return 0;
	all = strdup(buf_str(&b));
	for (char *rest = all, *at; (at = strsep(&rest, "\n"));)
		n += *at && strstr(at, text);
	return n;
}

void mps_env_log(struct mps_env *e, const char *key, const char *fmt, ...)
{
	char path[PATH_MAX], text[4096];
	va_list ap;
	FILE *file;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)snprintf(path, sizeof(path), "%.2000s/%s/log/mps.log", e->root, key);
	file = fopen(path, "ae");
	assert_non_null(file);
	(void)fprintf(file, AT "%s\n", text);
	assert_int_equal(fclose(file), 0);
}

void mps_env_client(struct mps_env *e, const char *key, uint32_t pid)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u\n", pid);
	mps_env_write(e, "say-get_server_list", "609\n");
	mps_env_write(e, "say-get_client_list", text);
	mps_env_log(e, key, "Client {PID: %u, Context ID: 0} connected", pid);
	agent_fixture_until(e->f, mps_clients_find(&mps_env_find_daemon(e, key)->clients, pid));
}

void mps_env_no_client(struct mps_env *e, const char *key)
{
	struct mps_supervisor *sup = mps_env_find_daemon(e, key);

	mps_env_write(e, "say-get_client_list", NULL);
	mps_env_write(e, "say-get_server_status", NULL);
	for (uint32_t i = 0; i < sup->clients.n; i++)
		if (sup->clients.v[i].connected)
			mps_env_log(e, key, "Client process %u disconnected",
				sup->clients.v[i].pid);
	agent_fixture_until(e->f, mps_clients_count(&sup->clients) == 0);
}

void mps_env_pod(struct mps_env *e, struct pod_device *room, char *id)
{
	static char shop[] = "shop", web[] = "web", container[] = "c", gpu[] = GPU;

	*room = (struct pod_device){ shop, web, container, gpu, id, false };
	e->pod_devices = (struct pod_devices){ .v = room, .n = 1 };
}

/* --- servers and faults of the first daemon --- */

uint32_t mps_env_self(void)
{
	return (uint32_t)getpid();
}

void mps_env_add_clients(struct mps_env *e, const uint32_t *pids, uint32_t n)
{
	const struct mps_supervisor *sup = mps_env_find_daemon(e, FIRST);

	for (uint32_t i = 0; i < n; i++)
		mps_env_log(e, FIRST, "Client {PID: %u, Context ID: 0} connected", pids[i]);
	agent_fixture_until(e->f, mps_clients_count(&sup->clients) == n);
}

void mps_env_answer_status(struct mps_env *e, const char *status)
{
	const struct mps_clients *c = &mps_env_find_daemon(e, FIRST)->clients;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);

	for (uint32_t i = 0; i < c->n; i++)
		if (c->v[i].connected)
			buf_printf(&b, "%u\n", c->v[i].pid);
	mps_env_write(e, "say-get_server_list", "609\n");
	mps_env_write(e, "say-get_client_list", buf_str(&b));
	mps_env_write(e, "say-get_server_status", status);
}

void mps_env_log_fault(struct mps_env *e, uint32_t named, const uint32_t *pids, uint32_t n)
{
	if (named)
		mps_env_log(e, FIRST,
			"Client {PID: %u, Context: 1} encountered a fatal GPU error.", named);
	mps_env_log(e, FIRST, MPS_ENV_FAULT);
	mps_env_log(e, FIRST, MPS_ENV_HIT);
	for (uint32_t i = 0; i < n; i++)
		mps_env_log(e, FIRST, "%u", pids[i]);
}

void mps_env_confirm_fault(struct mps_env *e, uint32_t named, const uint32_t *pids, uint32_t n)
{
	struct mps_supervisor *sup = mps_env_find_daemon(e, FIRST);

	sup->watch.check_at_ns = 0; /* no pause after the checks before */
	mps_env_answer_status(e, "FAULT\n");
	mps_env_log_fault(e, named, pids, n);
	agent_fixture_until(e->f,
		sup->watch.fault.confirmed && mps_clients_count_faulted(&sup->clients) == n);
	mps_env_settle(e);
}

void mps_env_learn_server(struct mps_env *e)
{
	const struct mps_supervisor *sup = mps_env_find_daemon(e, FIRST);

	mps_env_write(e, "say-get_server_list", "609\n");
	mps_env_log(e, FIRST, "NEW SERVER 609: Ready");
	agent_fixture_until(e->f, sup->n_servers == 1);
	mps_env_settle(e);
}

void mps_env_kill_server(struct mps_env *e)
{
	mps_env_write(e, "say-get_server_list", NULL);
	mps_env_write(e, "say-get_client_list", NULL);
	mps_env_log(e, FIRST, "Server 609 exited with status 139");
}

struct mps_supervisor *mps_env_lose_server(struct mps_env *e)
{
	struct mps_supervisor *sup = mps_env_find_daemon(e, FIRST);

	mps_env_learn_server(e);
	mps_env_kill_server(e);
	agent_fixture_until(e->f, mps_env_rests(e, FIRST, MPS_SERVER) && sup->step == 1);
	return sup;
}
