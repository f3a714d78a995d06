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

/* What the agent costs itself. */

static uint32_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		(void)closedir(d);
	return n > 3 ? n - 3 : 0; /* ".", "..", and the one that looks */
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

static uint64_t cpu_ns(void)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) < 0)
		return 0;
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_SEC +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static struct view_web web_of(const struct serve *s)
{
	struct web_counts c;
	struct view_web w = { .known = false };

	if (!s || !serve_counts(s, &c))
		return w;
	w = (struct view_web){ .known = true,
		.refused_full = c.refused_full,
		.refused_address = c.refused_address,
		.displaced = c.displaced,
		.timeouts = c.timeouts,
		.malformed = c.malformed,
		.pauses = c.throttled,
		.connections = c.open };
	static_assert(sizeof(w.requests) == sizeof(c.requests), "one for each class");
	memcpy(w.requests, c.requests, sizeof(w.requests));
	return w;
}

static void build_components(const struct agent *a, struct view *v)
{
	struct view_component *to = view_array(v, COMPONENT_COUNT_, sizeof(*to));

	v->agent.components = to;
	if (!to)
		return;
	v->agent.n_components = COMPONENT_COUNT_;
	for (size_t i = 0; i < COMPONENT_COUNT_; i++) {
		const struct component_state *s = &a->components.v[i];

		to[i] = (struct view_component){ .name = component_name((enum component)i),
			.reason = view_text(v, s->why.msg),
			.since_wall_ns = s->since_wall_ns };
	}
}

void see_build_agent(const struct agent *a, struct view *v)
{
	CLEANUP(buf_fini) struct buf status = BUF_INIT(64 * 1024);
	const struct agent_see *s = &a->see;
	const struct see_keep *k = &s->keep;

	if (file_read("/proc/self/status", &status, NULL) < 0)
		buf_clear(&status);
	v->agent = (struct view_agent){
		.version = GPUSLICE_VERSION,
		.pid = (int)getpid(),
		.started_wall_ns = a->started_wall_ns,
		.cpu_ns = cpu_ns(),
		.rss_bytes = number_behind(buf_str(&status), "VmRSS:") << 10,
		.threads = (uint32_t)number_behind(buf_str(&status), "Threads:"),
		.fds = count_fds(),
		.proc_known = status.len > 0,
		.rounds = s->seq,
		.round_ns = s->round_ns,
		.nvml_calls = s->nvml_calls,
		.nvml_ns = s->nvml_ns,
		.nvml_errors = s->nvml_errors,
		.kubelet_lists = s->lists,
		.kubelet_errors = s->list_errors,
		.allocations = s->allocations,
		.allocation_errors = s->allocation_errors,
		.ledger_errors = k->errors,
		.ledger_known = k->bytes > 0,
		.ledger_bytes = k->bytes,
		.ledger_error = view_text(v, k->error.msg),
		.web = web_of(a->serve),
	};
	build_components(a, v);
}
