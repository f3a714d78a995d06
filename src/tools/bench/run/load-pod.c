/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/run/load-pod.h"

#include <stdio.h>
#include <stdlib.h>

struct load_pod {
	const struct load_pod_ops *ops;
	void *arg;
	struct child *child; /* NULL: the process has ended */
	bool mps;
	bool has_reported; /* no report is expected: it has come, or the pod calibrates */
	bool is_refused; /* the report was not accepted; the pod ends, and further lines do not count */
};

/*
 * Checks whether the pod runs under MPS as expected. Without a daemon, the driver silently runs a program without
 * MPS.
 */
static int check_ready_report(const struct load_pod *p, const json_t *o, const char *line,
	struct error *err)
{
	const char *error = json_string_value(json_object_get(o, "error"));
	const json_t *mps = json_object_get(o, "mps");

	if (error)
		return error_set(err, ERR_UNAVAILABLE, "%s", error);
	if (!json_is_true(json_object_get(o, "ready")))
		return error_set(err, ERR_INVALID,
			"expected that gpuslice-load is ready, found '%.60s'", line);
	if (json_is_boolean(mps) && json_is_true(mps) != p->mps)
		return error_set(err, ERR_UNAVAILABLE, "the driver runs it %s MPS",
			p->mps ? "without" : "under");
	return 0;
}

static int on_load_pod_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct load_pod *p = arg;
	json_auto_t *o = NULL;
	int r;

	if (p->is_refused)
		return 0;
	if (p->has_reported)
		return p->ops->answer(p->arg, line, len, err);
	p->has_reported = true;
	o = json_loadb(line, len, 0, NULL);
	r = check_ready_report(p, o, line, err);
	p->is_refused = r < 0;
	p->ops->ready(p->arg, r < 0 ? NULL : o, r < 0 ? err : NULL);
	return r;
}

static void on_load_pod_ended(void *arg, const struct child_end *end)
{
	struct load_pod *p = arg;

	p->child = NULL;
	p->ops->ended(p->arg, end);
}

int load_pod_start(struct load_pod **ret, uv_loop_t *loop, const struct load_pod_options *what,
	const struct load_pod_ops *ops, void *arg, struct error *err)
{
	static const struct child_ops child_ops = { .line = on_load_pod_line,
		.ended = on_load_pod_ended };
	struct load_pod *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->ops = ops;
	p->arg = arg;
	p->mps = what->mps;
	p->has_reported = what->calibrates;
	if (proc_start(&p->child, loop,
		    &(struct child_spec){ .argv = (const char *const *)what->args->v,
			    .env = (const char *const *)what->env->v,
			    .keep_stdin_open = true,
			    .silence_ns = what->setup_ns },
		    &child_ops, p, err) < 0) {
		free(p);
		return -1;
	}
	*ret = p;
	return 0;
}

int load_pod_begin(struct load_pod *p, uint64_t begin_ns, uint64_t from_ns, uint64_t to_ns,
	uint64_t silence_ns, struct error *err)
{
	char line[128];
	int len = snprintf(line, sizeof(line), "go %llu %llu %llu\n",
		(unsigned long long)begin_ns, (unsigned long long)from_ns,
		(unsigned long long)to_ns);

	if (!p->child)
		return 0;
	proc_expect(p->child, silence_ns);
	return proc_send(p->child, line, (size_t)len, err);
}

void load_pod_expect(struct load_pod *p, uint64_t silence_ns)
{
	if (p->child)
		proc_expect(p->child, silence_ns);
}

struct load_pod *load_pod_free(struct load_pod *p)
{
	if (!p)
		return NULL;
	p->child = proc_stop(p->child);
	free(p);
	return NULL;
}
