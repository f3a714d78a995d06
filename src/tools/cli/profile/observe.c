/* SPDX-License-Identifier: Apache-2.0 */
/* Observes programs that already run. */
#include "lib/base/buf.h"
#include "lib/base/paths.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/http/client/client.h"
#include "tools/bench/profile/profile.h"
#include "tools/bench/run/observe.h"
#include "tools/cli/output.h"
#include "tools/cli/profile/profile.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the pod --- */

#define TIMEOUT_NS (10 * NS_PER_SEC)

static const char *get_pod_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "";
}

static bool is_pod_named(const json_t *pod, const char *name)
{
	const char *namespace = get_pod_text(pod, "namespace");
	size_t n = strlen(namespace);

	return !strncmp(name, namespace, n) && name[n] == '/' &&
	       !strcmp(name + n + 1, get_pod_text(pod, "pod"));
}

/* Asks the agent with this run directory for the UID of the pod "NAMESPACE/NAME". ERR_NOT_FOUND,
 * ERR_UNAVAILABLE. */
static int profile_pod_uid(char ret[static PROFILE_UID_MAX], const char *pod,
	const char *run_dir, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(HTTP_REPLY_MAX);
	char socket[PATH_MAX], address[PATH_MAX + 8];
	json_auto_t *o = NULL;
	const json_t *each;
	size_t i;

	if (path_join(socket, sizeof(socket), run_dir, AGENT_SOCKET, err) < 0)
		return -1;
	(void)snprintf(address, sizeof(address), "unix:%s", socket);
	if (http_call_json(address, "GET", "/api/v1/pods", NULL, TIMEOUT_NS, &body, err) < 0)
		return error_prefix(err,
			"ask gpusliced for the pod; is it running, with this --run-dir?");
	o = json_loadb(buf_str(&body), body.len, 0, NULL);
	json_array_foreach(json_object_get(o, "pods"), i, each)
	{
		const char *uid = get_pod_text(each, "uid");

		if (is_pod_named(each, pod) && *uid && strlen(uid) < PROFILE_UID_MAX &&
			json_is_true(json_object_get(each, "live"))) {
			(void)snprintf(ret, PROFILE_UID_MAX, "%s", uid);
			return 0;
		}
	}
	return error_set(err, ERR_NOT_FOUND,
		"no pod '%.120s' has a GPU of this node; gpuslice status --slices shows who has",
		pod);
}

/* --- the observation --- */

static int show_observation(const struct bench_observation *seen, const struct inventory *inv,
	const struct profile_request *request, struct error *err)
{
	CLEANUP(buf_fini) struct buf yaml = BUF_INIT(PROFILE_OUTPUT_MAX);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(PROFILE_OUTPUT_MAX);
	CLEANUP(buf_fini) struct buf head = BUF_INIT(PROFILE_OUTPUT_MAX);
	const struct gpu *g = inventory_find(inv, seen->gpu);
	char now[TIME_RFC3339_MAX];
	struct profile p;

	time_rfc3339(time_wall_ns(), now);
	observation_write_profile(&p, seen, request->name, request->kind);
	p.gpu = g ? profile_gpu(g->name) : "";
	buf_printf(&head,
		"gpuslice profile, of %s\n%s%s, driver %s, %s, %zu looks in %g s, %zu process%s%s\n",
		request->shown, getenv("GPUSLICE_SIM_NODE") ? "SIMULATED: " : "",
		g ? g->name : "a MIG device", inv->driver_version, now, seen->n,
		request->observe_s, seen->processes, seen->processes == 1 ? "" : "es",
		seen->alone ? "" : ", beside others");
	profile_write(&yaml, &p, buf_str(&head));
	buf_add(&text, buf_str(&head), head.len);
	profile_table(&text, &p);
	if (!buf_ok(&yaml) || !buf_ok(&text))
		return error_nomem(err);
	return profile_out(request, &yaml, &text, err);
}

int profile_run_observation(const struct profile_request *request, const struct options *o,
	struct error *err)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	const struct gpu_monitor_options monitor = { .nvml_path = option_str(o, "nvml", NULL) };
	struct observation_options how = { .monitor = &monitor,
		.pid = request->pid,
		.seconds = request->observe_s };
	char uid[PROFILE_UID_MAX];
	const struct gpu *g = NULL;
	struct bench_observation seen;

	if (request->pod && profile_pod_uid(uid, request->pod,
				    option_str(o, "run-dir", DEFAULT_RUN_DIR), err) < 0)
		return -1;
	if (gpu_inventory_once(&inv, &monitor, err) < 0)
		return -1;
	if (option_str(o, "gpu", NULL)) {
		if (bench_find_gpu(&g, inv, option_str(o, "gpu", NULL), err) < 0)
			return -1;
		how.gpu = g->uuid;
	}
	how.pod = request->pod ? uid : NULL;
	(void)fprintf(stderr, "looking at %s for %g s\n", request->shown, request->observe_s);
	if (observation_run(&seen, &how, err) < 0)
		return error_prefix(err, "%s", request->shown);
	return show_observation(&seen, inv, request, err);
}
