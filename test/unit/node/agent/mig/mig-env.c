/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/agent/mig/mig-env.h"

#include "lib/base/fd.h"

#include <unistd.h>

/* --- programs --- */

static const char tool_script[] =
	"#!/bin/sh\n"
	"dir=${0%/*} mode=apply name=\n"
	"echo \"$*\" >>\"$dir/args\"\n"
	"while [ $# -gt 0 ]; do\n"
	"	case $1 in\n"
	"	--dry-run) mode=plan ;;\n"
	"	-c) name=$2; shift ;;\n"
	"	-f) cat >\"$dir/text\" ;;\n"
	"	esac\n"
	"	shift\n"
	"done\n"
	"echo \"$mode $name\" >>\"$dir/calls\"\n"
	/* planned GPU STEPS [MODE [STAY]] */
	"planned() {\n"
	"	printf '{\"event\":\"planned\",\"gpu\":%d,\"uuid\":\"GPU-%d\",' \"$1\" \"$1\"\n"
	"	printf '\"steps\":%d,\"mode\":%s,\"stay\":[%s]}\\n' \"$2\" \"${3-null}\" \"${4-}\"\n"
	"}\n"
	"step() { printf '{\"event\":\"step\",\"gpu\":0,\"text\":\"%s\"}\\n' \"$1\"; }\n"
	"result() { printf '{\"event\":\"gpu\",\"gpu\":%d,\"uuid\":\"GPU-%d\",\"result\":\"%s\"}\\n' "
	"\"$1\" \"$1\" \"$2\"; }\n"
	/* finish OK [CODE [REASON]] */
	"finish() {\n"
	"	printf '{\"event\":\"end\",\"ok\":%s,\"code\":\"%s\",' \"$1\" \"${2-}\"\n"
	"	printf '\"reason\":\"%s\",\"nvml_calls\":7}\\n' \"${3-}\"\n"
	"	[ \"$1\" = true ]; exit\n"
	"}\n"
	". \"$dir/$mode\"\n"
	"finish true\n";

static const char chroot_script[] = "#!/bin/sh\n"
				    "dir=${0%/*}/.. verb=$3 service=${4-}\n"
				    "[ \"$1\" -ef \"$dir/host\" ] || exit 8\n"
				    "[ \"$2\" = systemctl ] || exit 9\n"
				    "echo \"$verb${4:+ $4}\" >>\"$dir/calls\"\n"
				    ". \"$dir/systemd\"\n";

/* --- files --- */

char *mig_env_path(const struct mig_env *e, const char *name)
{
	char *ret = NULL;

	assert_true(asprintf(&ret, "%s/%s", e->f->dir, name) > 0);
	return ret;
}

void mig_env_write(struct mig_env *e, const char *name, const char *text)
{
	test_write(e->f->dir, name, text, strlen(text), 0644);
}

const char *mig_env_read(struct mig_env *e, const char *name)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(sizeof(e->text) - 1);
	CLEANUP(freep) char *path = mig_env_path(e, name);

	(void)snprintf(e->text, sizeof(e->text), "%s",
		file_read(path, &b, NULL) == 0 ? buf_str(&b) : "");
	return e->text;
}

unsigned mig_env_count(struct mig_env *e, const char *call)
{
	const char *p = mig_env_read(e, "calls");
	size_t len = strlen(call);
	unsigned n = 0;

	for (; *p; p += strcspn(p, "\n"), p += *p == '\n')
		n += strcspn(p, "\n") == len && !strncmp(p, call, len);
	return n;
}

static void note_tool_call(struct mig_env *e, const char *call)
{
	CLEANUP(freep) char *path = mig_env_path(e, "calls");
	FILE *f = fopen(path, "a");

	assert_non_null(f);
	(void)fprintf(f, "%s\n", call);
	(void)fclose(f);
}

/* --- operations of the agent --- */

static void on_probe(void *arg, bool all)
{
	struct mig_env *e = arg;

	e->probes++;
	if (all && e->mig.attempt.applied && e->after) {
		e->gpus = inventory_free(e->gpus);
		e->gpus = STEAL_PTR(e->after);
	}
	if (!e->slow_nvml)
		wake_up(&e->look);
}

static void on_release(void *arg)
{
	note_tool_call(arg, "release");
}

static bool is_released(void *arg)
{
	struct mig_env *e = arg;

	e->polls++;
	return !e->locked;
}

static void mps_query_clients(void *arg)
{
	((struct mig_env *)arg)->mps_queries++;
}

static bool mps_has_answered(void *arg, uint64_t since_ns)
{
	struct mig_env *e = arg;

	assert_int_equal(since_ns, e->mig.phase_since_ns);
	e->polls++;
	return !e->mps_silent;
}

static uint32_t mps_idle_servers(void *arg, uint64_t since_ns, uint32_t *ret, uint32_t max)
{
	struct mig_env *e = arg;

	assert_int_equal(since_ns, e->mig.phase_since_ns);
	for (uint32_t i = 0; i < e->idle_servers && i < max; i++)
		ret[i] = 11 + i;
	return e->idle_servers;
}

static int mps_check_withdrawn(void *arg, bool (*leaves)(void *leaves_arg, const char *uuid),
	void *leaves_arg, struct error *err)
{
	static const char *const uuids[] = { "GPU-0", "GPU-1", "MIG-1-0" };
	struct mig_env *e = arg;
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_LEN(uuids); i++) {
		if (leaves(leaves_arg, uuids[i]))
			len += (size_t)snprintf(e->leaving + len, sizeof(e->leaving) - len,
				" %s", uuids[i]);
	}
	if (e->mps_check_withdrawn < 0)
		return error_set(err, ERR_UNAVAILABLE, "in use by MPS client 12");
	return e->mps_check_withdrawn;
}

void mig_env_holders(struct mig_env *e)
{
	const char *id = e->holder[e->n_pod_device_requests > 1];
	struct pod_device d = { .namespace_ = (char *)(uintptr_t) "ml",
		.pod = (char *)(uintptr_t) "train-0",
		.container = (char *)(uintptr_t) "main",
		.resource = (char *)(uintptr_t) "nvidia.com/gpu",
		.id = (char *)(uintptr_t)id };
	const struct pod_devices list = { .v = &d, .n = id ? 1 : 0 };
	struct error err = ERROR_INIT;

	assert_non_null(e->pod_devices_done);
	if (e->kubelet_fails)
		(void)error_set(&err, ERR_UNAVAILABLE, "kubelet.sock: refused");
	e->pod_devices_done(e->pod_devices_arg, e->kubelet_fails ? NULL : &list,
		e->kubelet_fails ? &err : NULL);
}

static void ask_holders(void *arg,
	void (*done)(void *done_arg, const struct pod_devices *list, const struct error *err),
	void *done_arg)
{
	struct mig_env *e = arg;

	note_tool_call(e, "holders");
	e->n_pod_device_requests++;
	e->pod_devices_done = done;
	e->pod_devices_arg = done_arg;
	if (!e->kubelet_silent)
		mig_env_holders(e);
}

static bool is_kubelet_absent(void *arg)
{
	return ((struct mig_env *)arg)->no_kubelet;
}

static bool is_ready(void *arg, struct buf *why)
{
	struct mig_env *e = arg;

	e->polls++;
	if (e->not_ready)
		buf_puts(why, "nvidia.com/mig-1g.5gb is not registered\nand more");
	return !e->not_ready;
}

static const struct mig_ops ops = { on_probe, on_release, is_released, mps_query_clients,
	mps_has_answered, mps_idle_servers, mps_check_withdrawn, ask_holders, is_kubelet_absent,
	is_ready };

/* --- probes --- */

static struct inventory *copy_of(const struct inventory *inv)
{
	struct error err = ERROR_INIT;
	struct inventory *ret = NULL;

	assert_ok(inventory_copy(&ret, inv, &err), &err);
	return ret;
}

void mig_env_probe(struct mig_env *e)
{
	struct inventory *seen = copy_of(e->gpus), *held = NULL;
	const struct inventory *now = mig_hide_changes(&e->mig, seen, &held);

	assert_non_null(now);
	assert_true(now == seen || now == held);
	agent_fixture_know(e->f, now == held ? held : seen, NULL);
	if (now == held)
		inventory_free(seen);
	mig_on_probed(&e->mig);
}

static void on_mig_probe(void *arg)
{
	struct mig_env *e = arg;

	if (!e->stopped)
		mig_env_probe(e);
}

static void on_reconcile(void *arg)
{
	((struct mig_env *)arg)->reconciles++;
	((struct mig_env *)arg)->f->facts.rounds++;
}

uint32_t mig_env_offered(struct mig_env *e, bool *ret_changing)
{
	CLEANUP(inventory_freep) struct inventory *inv = copy_of(e->f->facts.node.inv);

	mig_apply_mask(&e->mig, inv);
	if (ret_changing)
		*ret_changing = inv->gpus[0].changing;
	return inv->n_mig;
}

/* --- life --- */

static void make_files(struct mig_env *e)
{
	char path[2 * PATH_MAX];

	test_write(e->f->dir, "tool", tool_script, sizeof(tool_script) - 1, 0755);
	test_write(e->f->dir, "bin/chroot", chroot_script, sizeof(chroot_script) - 1, 0755);
	mig_env_write(e, "host/empty", "");
	mig_env_write(e, "systemd", "");
	mig_env_write(e, "plan", "planned 0 2 '\"enable\"'\n");
	mig_env_write(e, "apply",
		"planned 0 2 '\"enable\"'\nstep 'MIG on'\nresult 0 changed\n");
	(void)snprintf(e->tool, sizeof(e->tool), "%s/tool", e->f->dir);
	(void)snprintf(e->host, sizeof(e->host), "%s/host", e->f->dir);
	e->old_path = strdup(getenv("PATH"));
	(void)snprintf(path, sizeof(path), "%s/bin:%s", e->f->dir, e->old_path);
	(void)setenv("PATH", path, 1);
	(void)setenv("GPUSLICE_TOOL", e->tool, 1);
}

struct mig_env *mig_env_new(uv_loop_t *loop, struct patience *patience)
{
	struct mig_env *e = calloc(1, sizeof(*e));
	void *f = NULL;

	assert_non_null(e);
	assert_int_equal(agent_fixture_setup(&f), 0);
	e->f = f;
	e->loop = loop ? loop : &e->f->loop;
	e->patience = patience ? patience : &e->f->patience;
	make_files(e);
	wake_init(&e->reconcile, e->loop, on_reconcile, e);
	wake_init(&e->look, e->loop, on_mig_probe, e);
	e->link = (struct api_link){ .node_name = "n-1", .pod_name = "gpusliced-1" };
	(void)snprintf(e->link.namespace_, sizeof(e->link.namespace_), "gpu");
	e->options = (struct mig_options){ .enabled = true,
		.default_name = "all",
		.state_file = "/etc/mig.conf",
		.host_root = e->host };
	e->gpus = fixture_inventory(2);
	e->gpus->gpus[0].mig_capable = e->gpus->gpus[1].mig_capable = true;
	(void)fixture_mig(e->gpus, 1, 1, 1, 5);
	return e;
}

int mig_env_setup(void **state)
{
	*state = mig_env_new(NULL, NULL);
	return 0;
}

static void on_at_rest(struct mig *m)
{
	struct mig_env *e = m->c.arg;

	e->n_rests++;
	mig_sync(m);
}

void mig_env_start(struct mig_env *e)
{
	const struct mig_context c = { .loop = e->loop,
		.facts = &e->f->facts,
		.link = &e->link,
		.reporter = &e->f->reporter,
		.wake = &e->reconcile,
		.run_dir = e->f->dir,
		.options = e->options,
		.ops = &ops,
		.arg = e };

	mig_init(&e->mig, &c);
	memcpy(e->phases, mig_phases, sizeof(e->phases));
	for (size_t i = 0; i < MIG_PHASES; i++)
		e->phases[i].tick_ms = e->phases[i].tick ? 1 : 0;
	e->mig.phases = e->phases;
	e->mig.at_rest = on_at_rest;
	e->inited = true;
	mig_start(&e->mig);
}

void mig_env_stop(struct mig_env *e)
{
	if (e->stopped)
		return;
	e->stopped = true;
	if (e->inited)
		mig_stop(&e->mig);
	wake_close(&e->reconcile);
	wake_close(&e->look);
}

void mig_env_free(struct mig_env *e)
{
	void *f = e->f;

	(void)setenv("PATH", e->old_path, 1);
	(void)unsetenv("GPUSLICE_TOOL");
	(void)agent_fixture_teardown(&f);
	if (e->inited)
		mig_fini(&e->mig);
	inventory_free(e->gpus);
	inventory_free(e->after);
	free(e->old_path);
	free(e);
}

int mig_env_teardown(void **state)
{
	mig_env_stop(*state);
	mig_env_free(*state);
	return 0;
}

struct mig_env *mig_env_another(void **state)
{
	(void)mig_env_teardown(state);
	(void)mig_env_setup(state);
	return *state;
}

/* --- attempts --- */

bool mig_env_attempted(const struct mig_env *e)
{
	return e->mig.outcome.state != MIG_OUTCOME_NONE;
}

static bool has_ended(const struct mig_env *e)
{
	return mig_env_attempted(e) && e->mig.phase == MIG_REST;
}

void mig_env_begin(struct mig_env *e)
{
	mig_env_start(e);
	mig_env_probe(e);
}

void mig_env_run(struct mig_env *e)
{
	mig_env_begin(e);
	mig_env_until(e, has_ended(e));
}

void mig_env_retry(struct mig_env *e)
{
	unsigned before = e->n_rests;

	mig_env_until(e, e->n_rests > before && has_ended(e));
}

void mig_env_ticks(struct mig_env *e)
{
	unsigned before = e->polls;

	mig_env_until(e, e->polls >= before + 2);
}

void mig_env_late(struct mig_env *e, enum mig_phase phase)
{
	e->phases[phase].limit_ns = 0;
}

void mig_env_services(struct mig_env *e)
{
	mig_env_write(e, "clients.yaml",
		"version: v1\nsystemd-services: [a.service, b.service]\n");
	(void)snprintf(e->clients, sizeof(e->clients), "%s/clients.yaml", e->f->dir);
	e->options.shutdown_clients = true;
	e->options.clients_file = e->clients;
}

void assert_ended(const struct mig_env *e, const char *state, const char *reason)
{
	assert_int_equal(e->mig.phase, MIG_REST);
	assert_true(mig_env_attempted(e));
	assert_string_equal(e->mig.node.state, state);
	if (!strstr(e->mig.node.reason, reason))
		fail_msg("'%s': expected '%s' in it", e->mig.node.reason, reason);
	/* The attempt has left nothing behind. */
	assert_false(e->mig.attempt.masked || e->mig.attempt.released);
	assert_null(e->mig.attempt.child);
}
