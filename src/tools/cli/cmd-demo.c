/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/paths.h"
#include "lib/base/time.h"
#include "model/offer/offer.h"
#include "tools/cli/cmd.h"
#include "tools/cli/demo/demo.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * gpuslice demo runs these steps:
 *	1. Whole GPUs, and one pod too many.
 *	2. Ten slices of each GPU, applied to the running agent.
 *	3. More pods.
 *	4. The two node types of the time-slicing guide.
 * All expected counts follow from the number of GPUs, so the demo runs on any node.
 */

#define RESOURCE     OFFER_GPU
#define TMPDIR_MAX   20 /* bytes; sockets are below, and a socket path has at most 107 */
#define STEP_TIMEOUT (10 * NS_PER_SEC)
#define SETTLE_NS    (120 * NS_PER_MS) /* a state that stays this long is final */
#define TICK_MS      25
#define PLAIN_WIDTH  100

static const struct option_def options[] = {
	{ .name = "examples",
		.type = OPTION_STR,
		.arg = "DIR",
		.help = "where the manifests are, instead of beside the program" },
	{ .name = "node",
		.type = OPTION_STR,
		.env = { "GPUSLICE_DEMO_NODE" },
		.arg = "MODEL",
		.def = "p3.8xlarge",
		.help = "simulate this node, also where there are real GPUs" },
	{ .name = "once",
		.type = OPTION_BOOL,
		.help = "end after the last step; exit status 1 if a step came out differently" },
	{ .name = "pause",
		.type = OPTION_DURATION,
		.arg = "TIME",
		.def = "3s",
		.help = "how long a step of the live picture stays; Enter goes on at once" },
	{ .name = "plain", .type = OPTION_BOOL, .help = "lines instead of a live picture" },
};

struct demo {
	uv_loop_t loop;
	uv_signal_t signals[3];
	uv_timer_t tick;
	uv_poll_t keyboard;
	bool keyboard_open, interrupted, skip;
	bool once;
	uint64_t pause_ns;

	struct demo_paths paths;
	struct demo_screen screen;
	struct temp_dir dir;
	unsigned n_nodes;
	struct demo_node node;
	bool real; /* the GPUs are the machine's own */
	const char *model;

	char headline[192], command[256];
	char *footer;
	struct demo_step_line steps[DEMO_STEPS_MAX];
	size_t n_steps;
	bool failed;
	int unwritten; /* errno of a failed write; 0: none failed */
};

/* --- the loop --- */

static struct demo_picture make_demo_picture(struct demo *d)
{
	return (struct demo_picture){
		.headline = d->headline,
		.command = *d->command ? d->command : NULL,
		.resource = RESOURCE,
		.node = d->node.standin ? &d->node : NULL,
		.steps = d->steps,
		.n_steps = d->n_steps,
		.footer = d->footer,
	};
}

static void redraw_demo_screen(struct demo *d)
{
	struct demo_picture p = make_demo_picture(d);

	/* Between two nodes, and at the end, the last picture stays. */
	if (p.node)
		demo_screen_update(&d->screen, &p);
}

static void on_demo_tick(uv_timer_t *t)
{
	redraw_demo_screen(t->data);
}

static void on_demo_signal(uv_signal_t *s, int number)
{
	struct demo *d = s->data;

	(void)number;
	d->interrupted = true;
}

static void on_demo_key(uv_poll_t *poll, int status, int events)
{
	struct demo *d = poll->data;
	char keys[64];
	ssize_t n = status < 0 ? -1 : read(STDIN_FILENO, keys, sizeof(keys));

	(void)events;
	d->skip = true;
	if (n <= 0)
		(void)uv_poll_stop(poll);
}

static int open_loop(struct demo *d, struct error *err)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	int rc = uv_loop_init(&d->loop);

	if (rc < 0)
		return error_sys(err, -rc, "event loop");
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		d->signals[i].data = d;
		(void)uv_signal_init(&d->loop, &d->signals[i]);
		(void)uv_signal_start(&d->signals[i], on_demo_signal, numbers[i]);
	}
	d->tick.data = d;
	(void)uv_timer_init(&d->loop, &d->tick);
	(void)uv_timer_start(&d->tick, on_demo_tick, TICK_MS, TICK_MS);
	if (d->screen.live && isatty(STDIN_FILENO) &&
		uv_poll_init(&d->loop, &d->keyboard, STDIN_FILENO) == 0) {
		d->keyboard_open = true;
		d->keyboard.data = d;
		(void)uv_poll_start(&d->keyboard, UV_READABLE, on_demo_key);
	}
	return 0;
}

static void close_loop(struct demo *d)
{
	for (size_t i = 0; i < ARRAY_LEN(d->signals); i++)
		uv_close((uv_handle_t *)&d->signals[i], NULL);
	uv_close((uv_handle_t *)&d->tick, NULL);
	if (d->keyboard_open)
		uv_close((uv_handle_t *)&d->keyboard, NULL);
	(void)uv_run(&d->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&d->loop);
}

static int set_interrupted_error(struct error *err)
{
	return error_set(err, ERR_CANCELLED, "interrupted");
}

/* Keeps the picture for the pause; Enter or a signal ends the pause. */
static int wait_demo_pause(struct demo *d, struct error *err)
{
	uint64_t until = time_mono_ns() + d->pause_ns;

	d->skip = false;
	while (!d->interrupted && !d->skip && time_mono_ns() < until)
		(void)uv_run(&d->loop, UV_RUN_ONCE);
	return d->interrupted ? set_interrupted_error(err) : 0;
}

/* --- steps --- */

/* The expected or the actual counts. */
struct demo_counts {
	uint32_t capacity, running, pending;
	bool insufficient; /* a pending pod waits for the resource */
};

static struct demo_counts read_demo_state(struct demo *d)
{
	const struct simulated_cluster *c = standin_cluster(d->node.standin);
	struct pod_counts t = cluster_count_pods(c, NULL);
	struct demo_counts f = { .running = t.running, .pending = t.pending + t.starting };
	struct resource_count count;

	(void)device_manager_count(kubelet_devices(standin_kubelet(d->node.standin)), RESOURCE,
		&count);
	f.capacity = count.allocatable;
	for (size_t i = 0; i < c->n_pods; i++)
		f.insufficient |= c->pods[i]->phase == POD_PENDING && c->pods[i]->message &&
				  strstr(c->pods[i]->message, "Insufficient " RESOURCE);
	return f;
}

static bool as_expected(const struct demo_counts *f, const struct demo_counts *e)
{
	return f->capacity == e->capacity && f->running == e->running &&
	       f->pending == e->pending && f->insufficient == e->insufficient;
}

static void format_demo_state(char *ret, size_t cap, const struct demo_counts *f)
{
	int n = snprintf(ret, cap, "allocatable %u, %u running", f->capacity, f->running);

	if (f->pending > 0 && n > 0 && (size_t)n < cap)
		(void)snprintf(ret + n, cap - (size_t)n, ", %u pending", f->pending);
}

/* Runs the loop until the state is as expected for SETTLE_NS, or STEP_TIMEOUT is over. Returns 1: as
 * expected. */
static int wait_demo_state(struct demo *d, const struct demo_counts *e, struct error *err)
{
	uint64_t start = time_mono_ns(), since = 0;

	for (;;) {
		CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);
		uint64_t now = time_mono_ns();
		struct demo_counts f = read_demo_state(d);

		if (!demo_node_agent_runs(&d->node, &why))
			return error_set(err, ERR_UNAVAILABLE, "%s", buf_str(&why));
		if (d->interrupted)
			return set_interrupted_error(err);
		if (!as_expected(&f, e))
			since = 0;
		else if (!since)
			since = now;
		else if (now - since >= SETTLE_NS)
			return 1;
		if (now - start > STEP_TIMEOUT)
			return 0;
		(void)uv_run(&d->loop, UV_RUN_ONCE);
	}
}

/* Output that fails (closed pipe, full disk) ends the demo: no reader follows it. */
static void flush_demo_output(struct demo *d)
{
	if (fflush(stdout) == 0)
		return;
	d->unwritten = errno;
	d->interrupted = true;
}

static void begin_demo_step(struct demo *d, const char *title, const char *command)
{
	struct demo_step_line *s = &d->steps[d->n_steps++];

	*s = (struct demo_step_line){ .mark = DEMO_RUNNING };
	(void)snprintf(s->title, sizeof(s->title), "%s", title);
	(void)snprintf(d->command, sizeof(d->command), "%s", command);
	if (!d->screen.live)
		(void)printf("\n%zu  %s\n   $ %s\n", d->n_steps, title, command);
	flush_demo_output(d);
}

static void print_step(struct demo *d, const struct demo_step_line *s)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64 * 1024);
	struct demo_picture p = make_demo_picture(d);

	if (d->screen.live)
		return;
	demo_draw_node(&b, &p, PLAIN_WIDTH, d->screen.colour);
	(void)printf("%s   %s " RESOURCE " %s\n", buf_str(&b), s->mark == DEMO_DONE ? "✓" : "✗",
		s->result);
	flush_demo_output(d);
}

static int end_step(struct demo *d, const struct demo_counts *e, struct error *err)
{
	struct demo_step_line *s = &d->steps[d->n_steps - 1];
	char want[128], have[128];
	struct demo_counts f;
	int rc = wait_demo_state(d, e, err);

	if (rc < 0)
		return -1;
	f = read_demo_state(d);
	format_demo_state(want, sizeof(want), e);
	format_demo_state(have, sizeof(have), &f);
	s->mark = rc ? DEMO_DONE : DEMO_FAILED;
	d->failed |= !rc;
	if (rc)
		(void)snprintf(s->result, sizeof(s->result), "%s", have);
	else
		(void)snprintf(s->result, sizeof(s->result), "expected %s; found %s", want,
			have);
	print_step(d, s);
	redraw_demo_screen(d);
	return wait_demo_pause(d, err);
}

/* --- the actions of the steps --- */

static int apply_demo_manifest(struct demo *d, const char *file, struct error *err)
{
	CLEANUP(manifest_freep) struct manifest *m = NULL;
	char path[PATH_MAX];

	if (path_join(path, sizeof(path), d->paths.examples, file, err) < 0 ||
		manifest_load(&m, path, err) < 0)
		return -1;
	return standin_apply(d->node.standin, m, NULL, err);
}

static const struct standin_ops ops = { .changed = NULL };

/* Stops the earlier node, if any, and starts a new one with the agent's configuration. */
static int replace_demo_node(struct demo *d, const char *model, const char *manifest,
	const char *namespace_, const char *config_map, const char *entry, struct error *err)
{
	char dir[64], name[16];
	struct demo_node_options o = { .paths = &d->paths,
		.dir = dir,
		.model = d->real ? NULL : model,
		.config_map_namespace = namespace_,
		.config_map = config_map,
		.entry = entry };

	demo_node_stop(&d->node);
	(void)snprintf(name, sizeof(name), "%u", ++d->n_nodes);
	if (path_join(dir, sizeof(dir), d->dir.path, name, err) < 0 ||
		demo_node_start(&d->node, &d->loop, &o, &ops, NULL, err) < 0 ||
		apply_demo_manifest(d, manifest, err) < 0)
		return -1;
	(void)snprintf(d->headline, sizeof(d->headline), "%s%s: %u × %s",
		d->real ? "this machine" : "simulated ", d->real ? "" : model, d->node.gpus->n,
		d->node.gpus->n ? d->node.gpus->gpus[0].name : "no GPU");
	if (!d->screen.live)
		(void)printf("%sgpuslice demo: %s\n", d->n_nodes > 1 ? "\n" : "", d->headline);
	/* The stand-in kubelet writes the ConfigMap volume in its next loop iteration. These
	 * iterations run before the agent starts and reads the volume. */
	for (int i = 0; i < 3; i++)
		(void)uv_run(&d->loop, UV_RUN_NOWAIT);
	return demo_node_start_agent(&d->node, &o, err);
}

static uint32_t get_min_pods(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static struct demo_counts get_expected_state(uint32_t capacity, uint32_t pods)
{
	uint32_t running = get_min_pods(capacity, pods);

	return (struct demo_counts){ .capacity = capacity,
		.running = running,
		.pending = pods - running,
		.insufficient = pods > running };
}

/* One deployment on whole GPUs, then on ten slices of each GPU, then with more pods. */
static int sharing_story(struct demo *d, struct error *err)
{
	static const char deployment[] = "tensorflow-cifar10-deployment";
	struct demo_counts e;
	char title[96], command[160];
	uint32_t gpus, pods = 5;

	if (replace_demo_node(d, d->model, "whole-gpus.yaml", "kube-system",
		    "nvidia-device-plugin", "any", err) < 0)
		return -1;
	gpus = d->node.gpus->n;
	(void)snprintf(title, sizeof(title), "%u pods want a GPU each, there are %u",
		gpus < 5 ? 5 : gpus + 1, gpus);
	(void)snprintf(command, sizeof(command), "kubectl apply -f cifar10-train-deploy.yaml%s",
		gpus < 5 ? "" : " (and scale to one more than there are GPUs)");
	begin_demo_step(d, title, command);
	if (apply_demo_manifest(d, "cifar10-train-deploy.yaml", err) < 0)
		return -1;
	if (gpus >= 5) { /* one pod more than GPUs */
		pods = gpus + 1;
		if (standin_scale(d->node.standin, "gpu-demo", deployment, pods, err) < 0)
			return -1;
	}
	e = get_expected_state(gpus, pods);
	if (end_step(d, &e, err) < 0)
		return -1;

	begin_demo_step(d, "10 slices of each GPU, no restart",
		"kubectl apply -f nvidia-device-plugin.yaml");
	if (apply_demo_manifest(d, "nvidia-device-plugin.yaml", err) < 0)
		return -1;
	e = get_expected_state(gpus * 10, pods);
	if (end_step(d, &e, err) < 0)
		return -1;

	pods = gpus < 4 ? 20 : gpus * 5;
	(void)snprintf(title, sizeof(title), "%u pods share %u GPU%s", pods, gpus,
		gpus == 1 ? "" : "s");
	(void)snprintf(command, sizeof(command),
		"kubectl -n gpu-demo scale deploy %s --replicas %u", deployment, pods);
	begin_demo_step(d, title, command);
	if (standin_scale(d->node.standin, "gpu-demo", deployment, pods, err) < 0)
		return -1;
	e = get_expected_state(gpus * 10, pods);
	return end_step(d, &e, err);
}

/* The two node types of the guide. Each uses its own entry of one ConfigMap. */
static int node_types_story(struct demo *d, const char *model, uint32_t slices,
	struct error *err)
{
	struct demo_counts e;
	char title[96];
	uint32_t n;

	if (replace_demo_node(d, model, "time-slicing-config.yaml", "default",
		    "time-slicing-config", model, err) < 0)
		return -1;
	n = d->node.gpus->n * slices;
	(void)snprintf(title, sizeof(title), "%s%s: %u GPU%s × %u slices",
		d->real ? "Entry " : "", model, d->node.gpus->n,
		d->node.gpus->n == 1 ? "" : "s", slices);
	begin_demo_step(d, title,
		"kubectl apply -f time-slicing-config.yaml -f time-slicing-verification.yaml");
	if (apply_demo_manifest(d, "time-slicing-verification.yaml", err) < 0)
		return -1;
	e = get_expected_state(n, 5);
	return end_step(d, &e, err);
}

static int run_demo_stories(struct demo *d, struct error *err)
{
	if (sharing_story(d, err) < 0 || node_types_story(d, "p3.2xlarge", 4, err) < 0 ||
		node_types_story(d, "p3.8xlarge", 8, err) < 0)
		return -1;
	return 0;
}

/* --- what the user can try next --- */

/* Writes a file for the shell to source, which keeps the commands short. */
static int write_env(const struct demo *d, const char *path, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(8192);
	const char *slash = strrchr(d->paths.self, '/');

	buf_printf(&b, "export GPUSLICE_RUN_DIR='%s'\n", d->node.run_dir);
	buf_printf(&b, "export GPUSLICE_KUBELET_DIR='%s'\n", d->node.kubelet_dir);
	buf_printf(&b, "export GPUSLICE_STATE_DIR='%s/state'\n", d->node.dir);
	if (d->node.simulated)
		buf_printf(&b, "export GPUSLICE_SIM_DIR='%s'\n", d->node.sim_dir);
	if (slash)
		buf_printf(&b, "export PATH='%.*s':\"$PATH\"\n", (int)(slash - d->paths.self),
			d->paths.self);
	if (!buf_ok(&b))
		return error_nomem(err);
	return file_write_atomic(path, buf_str(&b), b.len, 0644, err);
}

static int make_footer(struct demo *d, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(8192);
	unsigned port = demo_node_page_port(&d->node);
	char env[64];

	if (path_join(env, sizeof(env), d->dir.path, "env", err) < 0 ||
		write_env(d, env, err) < 0)
		return -1;
	buf_puts(&b, "  All of this runs on. In another terminal:\n");
	buf_printf(&b, "    . %s\n", env);
	buf_puts(&b, "    gpuslice status --slices\n    gpuslice top\n"
		     "    gpuslice cost --by pod --price 12.24   # the node's price an hour\n");
	if (d->node.simulated)
		buf_puts(&b,
			"    gpuslice sim xid 0 79          # GPU 0 breaks, the others go on\n");
	buf_puts(&b,
		"    gpuslice kubelet scale deployment/time-slicing-verification --replicas 30\n"
		"    gpuslice kubelet get pods -o wide\n"
		"    gpuslice kubelet restart       # pods run on, the agent registers again\n"
		"  Ctrl-C ends the demo and leaves nothing behind.\n");
	if (port)
		buf_printf(&b, "  The status page of the node: http://127.0.0.1:%u/\n", port);
	free(d->footer);
	d->footer = buf_steal(&b);
	*d->command = '\0';
	if (!d->footer)
		return error_nomem(err);
	if (!d->screen.live)
		(void)printf("\n%s", d->footer);
	flush_demo_output(d);
	return 0;
}

static int run_until_interrupt(struct demo *d, struct error *err)
{
	if (make_footer(d, err) < 0)
		return -1;
	while (!d->interrupted) {
		CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

		if (!demo_node_agent_runs(&d->node, &why))
			return error_set(err, ERR_UNAVAILABLE, "%s", buf_str(&why));
		(void)uv_run(&d->loop, UV_RUN_ONCE);
	}
	return 0;
}

/* --- start --- */

static void choose_gpus(struct demo *d, const struct options *o)
{
	struct inventory *inv = NULL;
	struct error why = ERROR_INIT;

	d->model = option_str(o, "node", "p3.8xlarge");
	if (option_get(o, "node")->source != OPTION_UNSET)
		return;
	d->real = demo_real_gpus(&inv, &why) == 0;
	inv = inventory_free(inv);
}

static int run_demo_story(struct demo *d, const struct options *o, struct error *err)
{
	int rc;

	choose_gpus(d, o);
	rc = run_demo_stories(d, err);
	if (rc == 0 && !d->once)
		rc = run_until_interrupt(d, err);
	if (d->unwritten)
		return error_sys(err, d->unwritten, "write to standard output");
	/* Ctrl-C before the end is no error, unless --once asks for the result. */
	if (rc < 0 && err->code == ERR_CANCELLED && !d->once)
		rc = 0;
	return rc;
}

static int run_demo_command(const struct cmd *cmd, const struct options *o, struct error *err)
{
	struct demo d = { .once = option_bool(o, "once", false), .dir = TEMP_DIR_INIT };
	bool plain = option_bool(o, "plain", false) || d.once;
	int rc;

	(void)cmd;
	if (o->args.n > 0)
		return error_set(err, ERR_INVALID, "unexpected argument '%s'", o->args.v[0]);
	if (demo_paths_find(&d.paths, option_str(o, "examples", NULL), err) < 0)
		return -1;
	rc = temp_dir_make(&d.dir, "gpuslice-demo.", TMPDIR_MAX, err);
	log_setup(LOG_ERROR, LOG_TEXT);
	if (rc == 0) {
		demo_screen_init(&d.screen, plain);
		d.pause_ns = option_get(o, "pause")->source != OPTION_UNSET
				     ? (uint64_t)option_get(o, "pause")->ns
			     : d.screen.live ? 3 * NS_PER_SEC
					     : 0;
		rc = open_loop(&d, err);
	}
	if (rc == 0) {
		rc = run_demo_story(&d, o, err);
		redraw_demo_screen(&d);
		demo_node_stop(&d.node);
		close_loop(&d);
	}
	demo_screen_fini(&d.screen);
	temp_dir_remove(&d.dir);
	free(d.footer);
	if (rc == 0 && d.failed && d.once)
		return EXIT_FINDING;
	return rc;
}

const struct cmd cmd_demo = {
	.name = "demo",
	.usage = "[OPTION]...",
	.summary = "show GPU slicing on this machine, with a simulated node if it has no GPU",
	.description =
		"Starts gpusliced beside a stand-in kubelet and goes through the sharing story: one pod\n"
		"too many on whole GPUs, ten slices of each applied to the running agent, twenty pods,\n"
		"and the two node types of the time-slicing guide. Stays up to be played with.\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_demo_command,
};
