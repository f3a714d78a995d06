/* SPDX-License-Identifier: Apache-2.0 */
/* gpuslice kubelet: runs the stand-in kubelet, or talks to a running one (kubelet-client.h). */
#include "lib/base/paths.h"
#include "lib/base/log.h"
#include "tools/cli/cmd.h"
#include "tools/cli/kubelet-client.h"
#include "testbed/standin/control.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_def options[] = {
	{ .name = "kubelet-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_KUBELET_DIR" },
		.arg = "DIR",
		.def = DEFAULT_KUBELET_DIR,
		.help = "the kubelet's directory: device-plugins/ and pod-resources/ are in it" },
	{ .name = "filename",
		.letter = 'f',
		.type = OPTION_LIST,
		.arg = "FILE",
		.help = "apply, delete: manifests; '-' is standard input" },
	{ .name = "namespace",
		.letter = 'n',
		.type = OPTION_STR,
		.arg = "NAME",
		.help = "only this namespace; without it, all of them" },
	{ .name = "output",
		.letter = 'o',
		.type = OPTION_STR,
		.arg = "FORM",
		.help = "get: json or wide" },
	{ .name = "replicas", .type = OPTION_UINT, .arg = "N", .help = "scale: how many pods" },
	{ .name = "down",
		.type = OPTION_DURATION,
		.arg = "TIME",
		.def = "0s",
		.help = "restart: how long the kubelet is away" },
	{ .name = "killed",
		.type = OPTION_BOOL,
		.help = "restart: leave the socket files behind, as after kill -9" },
	{ .name = "node-name",
		.type = OPTION_STR,
		.arg = "NAME",
		.def = "node-1",
		.help = "run: name of the node" },
	{ .name = "node-labels",
		.type = OPTION_LIST,
		.arg = "KEY=VALUE",
		.help = "run: labels of the node" },
	{ .name = "register-with-taints",
		.type = OPTION_LIST,
		.arg = "KEY=VALUE:EFFECT",
		.help = "run: taints of the node" },
	{ .name = "mount-configmap",
		.type = OPTION_LIST,
		.arg = "[NAMESPACE/]NAME=DIR",
		.help = "run: keep DIR as the kubelet keeps a ConfigMap volume" },
	{ .name = "max-pods",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "110",
		.help = "run: pods that the node takes" },
	{ .name = "topology-manager-policy",
		.type = OPTION_STR,
		.arg = "POLICY",
		.def = "none",
		.help = "run: none or best-effort (NUMA alignment)" },
};

struct running {
	uv_loop_t loop;
	uv_signal_t signals[2];
};

static void on_kubelet_stop_signal(uv_signal_t *s, int number)
{
	(void)number;
	uv_stop(s->loop);
}

/* What the options say about the node. The caller owns the texts that it points to, except .pieces. */
struct node_setup {
	struct str_map labels;
	struct taint *taints;
	size_t n_taints;
	struct standin_mount *mounts;
	size_t n_mounts;
	struct strv pieces; /* owns the split texts */
};

static void node_setup_fini(struct node_setup *n)
{
	str_map_fini(&n->labels);
	free(n->taints);
	free(n->mounts);
	strv_fini(&n->pieces);
}

/* Stores text[0..len) in the pieces and returns the copy; NULL: an error. */
static const char *add_setup_piece(struct node_setup *n, const char *text, size_t len,
	struct error *err)
{
	return strv_addn(&n->pieces, text, len, err) < 0 ? NULL : n->pieces.v[n->pieces.n - 1];
}

static int parse_node_labels(struct node_setup *n, const struct strv *list, struct error *err)
{
	for (size_t i = 0; i < list->n; i++) {
		const char *equals = strchr(list->v[i], '='), *key;

		key = equals ? add_setup_piece(n, list->v[i], (size_t)(equals - list->v[i]),
				       err)
			     : NULL;
		if (!key || !label_key_valid(key) || !label_value_valid(equals + 1))
			return error_set(err, ERR_INVALID,
				"--node-labels: expected KEY=VALUE, found '%.120s'",
				list->v[i]);
		if (str_map_set(&n->labels, key, equals + 1, err) < 0)
			return -1;
	}
	return 0;
}

static int read_taints(struct node_setup *n, const struct strv *list, struct error *err)
{
	n->taints = calloc(list->n ? list->n : 1, sizeof(*n->taints));
	if (!n->taints)
		return error_nomem(err);
	for (size_t i = 0; i < list->n; i++) {
		const char *text = list->v[i], *colon = strrchr(text, ':');
		const char *equals = memchr(text, '=', strlen(text));
		struct taint *t = &n->taints[i];

		if (!colon || (equals && equals > colon) ||
			(strcmp(colon + 1, "NoSchedule") != 0 &&
				strcmp(colon + 1, "PreferNoSchedule") != 0 &&
				strcmp(colon + 1, "NoExecute") != 0))
			return error_set(err, ERR_INVALID,
				"--register-with-taints: expected KEY=VALUE:EFFECT, found '%.120s'",
				text);
		if (!equals)
			equals = colon;
		t->key = (char *)(uintptr_t)add_setup_piece(n, text, (size_t)(equals - text),
			err);
		t->value = (char *)(uintptr_t)(equals == colon
						       ? add_setup_piece(n, "", 0, err)
						       : add_setup_piece(n, equals + 1,
								 (size_t)(colon - equals - 1),
								 err));
		t->effect = (char *)(uintptr_t)(colon + 1);
		if (!t->key || !t->value)
			return -1;
		n->n_taints++;
	}
	return 0;
}

static int read_mounts(struct node_setup *n, const struct strv *list, struct error *err)
{
	n->mounts = calloc(list->n ? list->n : 1, sizeof(*n->mounts));
	if (!n->mounts)
		return error_nomem(err);
	for (size_t i = 0; i < list->n; i++) {
		const char *text = list->v[i], *equals = strchr(text, '=');
		const char *slash = equals ? memchr(text, '/', (size_t)(equals - text)) : NULL;
		const char *name = slash ? slash + 1 : text;
		struct standin_mount *m = &n->mounts[n->n_mounts++];

		if (!equals || !equals[1])
			return error_set(err, ERR_INVALID,
				"--mount-configmap: expected [NAMESPACE/]NAME=DIR, found '%.120s'",
				text);
		m->namespace_ = slash ? add_setup_piece(n, text, (size_t)(slash - text), err)
				      : "default";
		m->name = add_setup_piece(n, name, (size_t)(equals - name), err);
		m->dir = equals + 1;
		if (!m->namespace_ || !m->name)
			return -1;
	}
	return 0;
}

static int serve_standin_kubelet(struct running *r, const struct standin_options *node,
	struct error *err)
{
	struct standin *s = NULL;
	struct standin_control *control = NULL;
	int rc = -1;

	if (standin_start(&s, &r->loop, node, NULL, NULL, err) < 0)
		return -1;
	if (standin_control_start(&control, &r->loop, s, err) == 0) {
		(void)printf("stand-in kubelet for node %s in %s; Ctrl-C ends it\n",
			standin_node(s)->name, node->dir);
		(void)fflush(stdout);
		(void)uv_run(&r->loop, UV_RUN_DEFAULT);
		rc = 0;
	}
	control = standin_control_stop(control);
	s = standin_stop(s);
	return rc;
}

static int run_server(const struct options *o, struct error *err)
{
	CLEANUP(node_setup_fini) struct node_setup setup = { .n_taints = 0 };
	const char *policy = option_str(o, "topology-manager-policy", "none");
	struct standin_options node = {
		.dir = option_str(o, "kubelet-dir", DEFAULT_KUBELET_DIR),
		.node_name = option_str(o, "node-name", NULL),
		.max_pods = (uint32_t)option_uint(o, "max-pods", 0),
		.align_numa = strcmp(policy, "best-effort") == 0,
	};
	struct running r;
	int rc;

	if (!node.align_numa && strcmp(policy, "none") != 0)
		return error_set(err, ERR_INVALID,
			"--topology-manager-policy: expected none or "
			"best-effort, found '%.40s'",
			policy);
	if (parse_node_labels(&setup, &option_get(o, "node-labels")->list, err) < 0 ||
		read_taints(&setup, &option_get(o, "register-with-taints")->list, err) < 0 ||
		read_mounts(&setup, &option_get(o, "mount-configmap")->list, err) < 0)
		return -1;
	node.labels = &setup.labels;
	node.taints = setup.taints;
	node.n_taints = setup.n_taints;
	node.mounts = setup.mounts;
	node.n_mounts = setup.n_mounts;

	log_setup(LOG_INFO, LOG_TEXT);
	rc = uv_loop_init(&r.loop);
	if (rc < 0)
		return error_sys(err, -rc, "event loop");
	for (size_t i = 0; i < ARRAY_LEN(r.signals); i++) {
		(void)uv_signal_init(&r.loop, &r.signals[i]);
		(void)uv_signal_start(&r.signals[i], on_kubelet_stop_signal,
			i ? SIGTERM : SIGINT);
	}
	rc = serve_standin_kubelet(&r, &node, err);
	for (size_t i = 0; i < ARRAY_LEN(r.signals); i++)
		uv_close((uv_handle_t *)&r.signals[i], NULL);
	(void)uv_run(&r.loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&r.loop);
	return rc;
}

static int run_kubelet_command(const struct cmd *cmd, const struct options *o,
	struct error *err)
{
	(void)cmd;
	if (o->args.n == 0 || (o->args.n == 1 && strcmp(o->args.v[0], "run") == 0))
		return run_server(o, err);
	return kubelet_client_run(o, err);
}

const struct cmd cmd_kubelet = {
	.name = "kubelet",
	.usage = "[run | SUBCOMMAND] [OPTION]...",
	.summary =
		"stand in for kubelet, scheduler and API server on a machine without Kubernetes",
	.description =
		"Device plugins cannot tell it from a kubelet: they register, are asked for devices\n"
		"and see pods come and go. No container is started: an admitted pod is Running.\n"
		"\n"
		"  run                            serve until Ctrl-C (the default)\n"
		"  apply -f FILE                  Pods, Deployments, ConfigMaps as with kubectl\n"
		"  delete -f FILE | KIND/NAME     \n"
		"  scale deployment/NAME --replicas N\n"
		"  get KIND [NAME] [-o json|wide] pods, nodes, resources, deployments, configmaps\n"
		"  describe pod NAME              with the environment, mounts and devices it was given\n"
		"  label KEY=VALUE | KEY-         label the node\n"
		"  restart [--down TIME] [--killed]\n"
		"                                 stop and start the kubelet; pods keep running\n"
		"  fault [NAME [ARG]]             make something go wrong; without NAME, list what can\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_kubelet_command,
};
