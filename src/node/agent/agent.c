/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include "abi/slice-dir.h"
#include "node/agent/options.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/base/unix-socket.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOCK_WAIT_NS (5 * NS_PER_SEC) /* wait for the lock of a killed agent */

const struct error *agent_failure(const struct agent *a)
{
	return &a->failure.why;
}

static int copy_path(char *to, size_t cap, const char *option, const char *path,
	struct error *err)
{
	int n = snprintf(to, cap, "%s", path);

	if (n <= 0 || (size_t)n >= cap)
		return error_set(err, ERR_INVALID,
			"--%s: expected a directory of 1 to %zu bytes, found %d", option,
			cap - 1, n);
	return 0;
}

/* Starts the web server, before there is a view to show. */
static int start_serve(struct agent *a, const struct agent_options *o, struct error *err)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;

	if (!o->monitoring.enabled)
		return 0;
	if (serve_new(&a->serve, &o->serve, &warnings, err) < 0)
		return -1;
	for (size_t i = 0; i < warnings.n; i++)
		log_warn("metrics", LOG_STR("reason", warnings.v[i]));
	serve_start(a->serve);
	return 0;
}

static int start_all(struct agent *a, const struct agent_options *o, struct error *err)
{
	if (copy_path(a->run_dir, sizeof(a->run_dir), "run-dir", o->run_dir, err) < 0 ||
		agent_kubelet_set_paths(&a->kubelet, o->kubelet_dir, o->kubelet_socket, err) <
			0 ||
		run_lock_take(&a->run_lock, LOCK_WAIT_NS, err) < 0 ||
		agent_config_start(&a->config, err) < 0)
		return -1;
	health_saver_start(&a->health_saver);
	/* The NVML worker probes the GPUs while the loop sets up gRPC. */
	if (agent_gpus_start(a, err) < 0 || agent_kubelet_start(&a->kubelet, err) < 0)
		return -1;
	agent_http_sync(&a->http);
	slices_start(&a->slices);
	mig_start(&a->mig);
	if (start_serve(a, o, err) < 0)
		return -1;
	agent_upkeep_start(a, &o->errors);
	mps_start(&a->mps);
	cluster_start(&a->cluster);
	monitoring_start(&a->monitoring);
	return 0;
}

int agent_start(struct agent **ret, uv_loop_t *loop, const struct agent_options *options,
	struct error *err)
{
	struct agent *a = calloc(1, sizeof(*a));

	if (!a)
		return error_nomem(err);
	a->state_dir = options->slices.state_dir ? options->slices.state_dir : SLICE_STATE_DIR;
	a->loop = loop;
	a->failure.loop = loop;
	a->started_wall_ns = time_wall_ns();
	node_init(&a->facts.node);
	wake_init(&a->wake, loop, agent_reconcile, a);
	(void)uv_timer_init(loop, &a->due);
	a->due.data = a;
	agent_upkeep_init(a);
	agent_parts_init(a, options);
	agent_counters_init(a, options);
	if (start_all(a, options, err) < 0) {
		(void)agent_stop(a);
		return -1;
	}
	*ret = a;
	return 0;
}

void agent_reload(struct agent *a)
{
	agent_config_reload(&a->config);
	agent_probe(a);
	mig_sync(&a->mig);
	agent_kubelet_check_dir(&a->kubelet);
}

struct agent *agent_stop(struct agent *a)
{
	if (!a)
		return NULL;
	wake_close(&a->wake);
	agent_upkeep_stop(a);
	health_saver_stop(&a->health_saver);
	monitoring_stop(&a->monitoring);
	agent_counters_stop(a);
	mig_stop(&a->mig);
	mps_stop(&a->mps);
	slices_stop(&a->slices);
	/* Early: this answers the status requests that wait for the kubelet. */
	agent_kubelet_stop(&a->kubelet);
	agent_http_stop(&a->http);
	agent_config_stop(&a->config);
	cluster_stop(&a->cluster);
	a->gpus.monitor = gpu_monitor_stop(a->gpus.monitor);
	uv_close((uv_handle_t *)&a->due, NULL);
	(void)uv_run(a->loop, UV_RUN_DEFAULT);
	run_lock_release(&a->run_lock);
	a->facts.offered.offer = offer_free(a->facts.offered.offer);
	a->facts.offered.inv = inventory_free(a->facts.offered.inv);
	agent_cdi_fini(&a->cdi);
	node_fini(&a->facts.node);
	agent_config_fini(&a->config);
	cluster_fini(&a->cluster);
	mig_fini(&a->mig);
	slices_fini(&a->slices);
	mps_fini(&a->mps);
	monitoring_fini(&a->monitoring);
	health_saver_fini(&a->health_saver);
	health_changes_fini(&a->health_changes);
	agent_kubelet_fini(&a->kubelet);
	a->serve = serve_free(a->serve);
	free(a);
	return NULL;
}
