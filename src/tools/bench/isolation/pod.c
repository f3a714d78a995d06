/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/isolation/pod.h"

#include "lib/base/time.h"
#include "lib/proc/child.h"

#include <stdio.h>
#include <stdlib.h>

#define STAY_NS                            \
	(UINT64_C(2) * ISOLATION_GRACE_S * \
		NS_PER_SEC) /* silence limit of a pod that has answered; other pods may still have to answer */

struct isolation_pod {
	const struct isolation_pod_ops *ops;
	void *arg;
	struct child *child;
	struct isolation_pod_facts facts;
	bool mps, calibrates, is_ended;
};

static double get_load_number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

/*
 * Checks whether the pod runs under MPS as expected. Without a daemon, the driver silently runs a program without
 * MPS.
 */
static int check_ready_answer(struct isolation_pod *p, const json_t *o, struct error *err)
{
	const json_t *mps = json_object_get(o, "mps");

	if (!json_is_true(json_object_get(o, "ready")))
		return error_set(err, ERR_INVALID,
			"expected that gpuslice-load is ready, found something else");
	if (json_is_boolean(mps) && json_is_true(mps) != p->mps)
		return error_set(err, ERR_UNAVAILABLE, "the driver runs it %s MPS",
			p->mps ? "without" : "under");
	p->facts.ready = true;
	p->facts.free = get_load_number(o, "free");
	p->facts.total = get_load_number(o, "total");
	p->facts.reserved = get_load_number(o, "held");
	p->ops->ready(p->arg);
	return 0;
}

static int parse_load_answer(struct isolation_pod *p, const json_t *o, struct error *err)
{
	const char *error = json_string_value(json_object_get(o, "error"));
	json_int_t dies = json_integer_value(json_object_get(o, "dies_ns"));

	if (error)
		return error_set(err, ERR_UNAVAILABLE, "%s", error);
	if (!json_is_object(o))
		return error_set(err, ERR_INVALID,
			"expected an answer of gpuslice-load, found something else");
	if (!p->facts.ready && !p->calibrates)
		return check_ready_answer(p, o, err);
	if (dies > 0) {
		p->facts.dies_ns = (uint64_t)dies;
		return 0;
	}
	if (p->facts.answer)
		return 0;
	p->facts.answer = json_incref((json_t *)(uintptr_t)o);
	if (p->child)
		proc_expect(p->child, STAY_NS);
	p->ops->answered(p->arg);
	return 0;
}

static int on_isolation_pod_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct isolation_pod *p = arg;
	json_auto_t *o = json_loadb(line, len, 0, NULL);

	if (parse_load_answer(p, o, &p->facts.error) == 0)
		return 0;
	error_copy(err, &p->facts.error);
	return -1;
}

static void set_error(struct isolation_pod *p, const struct child_end *end)
{
	if (end->status == -1)
		(void)error_set(&p->facts.error, ERR_TIMEOUT, "it could not be ended");
	else if (end->was_silent)
		(void)error_set(&p->facts.error, ERR_TIMEOUT, "no answer");
	else if (end->signal)
		(void)error_set(&p->facts.error, ERR_UNAVAILABLE, "ended by signal %d: %.120s",
			end->signal, end->words);
	else
		(void)error_set(&p->facts.error, ERR_UNAVAILABLE,
			"ended with status %d: %.120s", end->status, end->words);
}

static void on_isolation_pod_ended(void *arg, const struct child_end *end)
{
	struct isolation_pod *p = arg;
	bool done = p->facts.answer || p->facts.dies_ns || p->is_ended;

	p->child = NULL;
	p->facts.hung = end->status == -1 || (end->was_silent && !done);
	if (p->facts.error.code == ERR_NONE && (!done || end->status == -1))
		set_error(p, end);
	p->ops->ended(p->arg);
}

int isolation_pod_start(struct isolation_pod **ret, uv_loop_t *loop,
	const struct isolation_pod_options *what, const struct isolation_pod_ops *ops,
	void *arg, struct error *err)
{
	static const struct child_ops child_ops = { .line = on_isolation_pod_line,
		.ended = on_isolation_pod_ended };
	struct isolation_pod *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->ops = ops;
	p->arg = arg;
	p->mps = what->mps;
	p->calibrates = what->calibrates;
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

void isolation_pod_begin(struct isolation_pod *p, uint64_t begin_ns, uint64_t from_ns,
	uint64_t to_ns)
{
	char line[128];
	int len = snprintf(line, sizeof(line), "go %llu %llu %llu\n",
		(unsigned long long)begin_ns, (unsigned long long)from_ns,
		(unsigned long long)to_ns);
	uint64_t now = time_mono_ns();

	if (!p->child)
		return;
	proc_expect(p->child, (to_ns > now ? to_ns - now : 0) + ISOLATION_GRACE_S * NS_PER_SEC);
	/* If the send fails, the pod stays silent, and the silence limit reports that. */
	(void)!proc_send(p->child, line, (size_t)len, &p->facts.error);
}

void isolation_pod_end(struct isolation_pod *p)
{
	p->is_ended = true;
	if (p->child)
		proc_expect(p->child, 0);
}

const struct isolation_pod_facts *isolation_pod_facts(const struct isolation_pod *p)
{
	return &p->facts;
}

struct isolation_pod *isolation_pod_free(struct isolation_pod *p)
{
	if (!p)
		return NULL;
	p->child = proc_stop(p->child);
	json_decref(p->facts.answer);
	free(p);
	return NULL;
}
