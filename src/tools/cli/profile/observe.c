/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/buf.h"
#include "lib/base/defaults.h"
#include "lib/base/time.h"
#include "tools/bench/run/observe.h"
#include "tools/bench/profile/write.h"
#include "tools/cli/output.h"
#include "tools/cli/profile/profile.h"

#include <stdio.h>
#include <stdlib.h>

/* Observes programs that already run. */

static int show_observation(const struct bench_observation *seen, const struct inventory *inv,
	const struct profile_request *a, struct error *err)
{
	CLEANUP(buf_fini) struct buf yaml = BUF_INIT(PROFILE_OUTPUT_MAX);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(PROFILE_OUTPUT_MAX);
	CLEANUP(buf_fini) struct buf head = BUF_INIT(PROFILE_OUTPUT_MAX);
	const struct gpu *g = inventory_find(inv, seen->gpu);
	char now[TIME_RFC3339_MAX];
	struct profile p;

	time_rfc3339(time_wall_ns(), now);
	observation_write_profile(&p, seen, a->name, a->kind);
	p.gpu = g ? profile_gpu(g->name) : "";
	buf_printf(&head,
		"gpuslice profile, of %s\n%s%s, driver %s, %s, %zu looks in %g s, %zu process%s%s\n",
		a->shown, getenv("GPUSLICE_SIM_NODE") ? "SIMULATED: " : "",
		g ? g->name : "a MIG device", inv->driver_version, now, seen->n, a->observe_s,
		seen->processes, seen->processes == 1 ? "" : "es",
		seen->alone ? "" : ", beside others");
	profile_write(&yaml, &p, buf_str(&head));
	buf_add(&text, buf_str(&head), head.len);
	profile_table(&text, &p);
	if (!buf_ok(&yaml) || !buf_ok(&text))
		return error_nomem(err);
	return profile_out(a, &yaml, &text, err);
}

int profile_run_observation(const struct profile_request *a, const struct options *o,
	struct error *err)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	const struct gpu_monitor_options monitor = { .nvml_path = option_str(o, "nvml", NULL) };
	struct observation_options how = { .monitor = &monitor,
		.pid = a->pid,
		.seconds = a->observe_s };
	char uid[PROFILE_UID_MAX];
	const struct gpu *g = NULL;
	struct bench_observation seen;

	if (a->pod && profile_pod_uid(uid, a->pod, option_str(o, "run-dir", DEFAULT_RUN_DIR),
			      err) < 0)
		return -1;
	if (gpu_inventory_once(&inv, &monitor, err) < 0)
		return -1;
	if (option_str(o, "gpu", NULL)) {
		if (bench_find_gpu(&g, inv, option_str(o, "gpu", NULL), err) < 0)
			return -1;
		how.gpu = g->uuid;
	}
	how.pod = a->pod ? uid : NULL;
	(void)fprintf(stderr, "looking at %s for %g s\n", a->shown, a->observe_s);
	if (observation_run(&seen, &how, err) < 0)
		return error_prefix(err, "%s", a->shown);
	return show_observation(&seen, inv, a, err);
}
