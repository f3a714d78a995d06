/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* What the agent itself consumes. */

static uint32_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		(void)closedir(d);
	return n > 3 ? n - 3 : 0; /* ".", "..", and that of @d */
}

static uint64_t number_behind(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t n = 0;

	for (at = at ? at + strlen(key) : ""; *at == ' ' || *at == '\t'; at++)
		;
	for (; *at >= '0' && *at <= '9'; at++)
		n = n * 10 + (uint64_t)(*at - '0');
	return n;
}

static uint64_t read_agent_cpu_ns(void)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) < 0)
		return 0;
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_SEC +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static void build_components(const struct monitoring *mon, struct view *v)
{
	struct view_component *to = view_array(v, COMPONENT_COUNT_, sizeof(*to));

	v->agent.components = to;
	if (!to)
		return;
	v->agent.n_components = COMPONENT_COUNT_;
	for (size_t i = 0; i < COMPONENT_COUNT_; i++) {
		const struct component_state *s = &mon->c.components->v[i];

		to[i] = (struct view_component){ .name = component_name((enum component)i),
			.reason = view_text(v, s->why.msg),
			.since_wall_ns = s->since_wall_ns };
	}
}

void monitoring_build_agent(const struct monitoring *mon, struct view *v)
{
	CLEANUP(buf_fini) struct buf status = BUF_INIT(64 * 1024);
	const struct monitoring_persist *k = &mon->persist;

	if (file_read("/proc/self/status", &status, NULL) < 0)
		buf_clear(&status);
	v->agent = (struct view_agent){
		.version = GPUSLICE_VERSION,
		.pid = (int)getpid(),
		.started_wall_ns = mon->c.started_wall_ns,
		.cpu_ns = read_agent_cpu_ns(),
		.rss_bytes = number_behind(buf_str(&status), "VmRSS:") << 10,
		.threads = (uint32_t)number_behind(buf_str(&status), "Threads:"),
		.fds = count_fds(),
		.proc_known = status.len > 0,
		.rounds = mon->seq,
		.round_ns = mon->round_ns,
		.nvml_calls = mon->nvml_calls,
		.nvml_ns = mon->nvml_ns,
		.nvml_errors = mon->nvml_errors,
		.kubelet_lists = mon->lists,
		.kubelet_errors = mon->list_errors,
		.allocations = mon->allocations,
		.allocation_errors = mon->allocation_errors,
		.usage_db_errors = k->errors,
		.usage_db_known = k->bytes > 0,
		.usage_db_bytes = k->bytes,
		.usage_db_error = view_text(v, k->error.msg),
		.web = mon->c.ops->web(mon->c.arg),
	};
	build_components(mon, v);
}
