/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/check/pod.h"

#include "lib/base/time.h"
#include "lib/proc/child.h"

#include <stdio.h>
#include <stdlib.h>

#define STAY_NS                        \
	(UINT64_C(2) * CHECK_GRACE_S * \
		NS_PER_SEC) /* for one that has answered: others may have to */

struct check_pod {
	const struct check_pod_ops *ops;
	void *arg;
	struct child *child;
	struct check_pod_facts facts;
	bool mps, calibrates, is_ended;
};

static double number_of(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

/* Whether it is where it is to be: the driver runs a program without MPS where it finds no daemon, and says nothing. */
static int take_ready(struct check_pod *p, const json_t *o, struct error *err)
{
	const json_t *mps = json_object_get(o, "mps");

	if (!json_is_true(json_object_get(o, "ready")))
		return error_set(err, ERR_INVALID,
			"expected that gpuslice-load is ready, found something else");
	if (json_is_boolean(mps) && json_is_true(mps) != p->mps)
		return error_set(err, ERR_UNAVAILABLE, "the driver runs it %s MPS",
			p->mps ? "without" : "under");
	p->facts.ready = true;
	p->facts.free = number_of(o, "free");
	p->facts.total = number_of(o, "total");
	p->facts.held = number_of(o, "held");
	p->ops->ready(p->arg);
	return 0;
}

static int take_line(struct check_pod *p, const json_t *o, struct error *err)
{
	const char *error = json_string_value(json_object_get(o, "error"));
	json_int_t dies = json_integer_value(json_object_get(o, "dies_ns"));

	if (error)
		return error_set(err, ERR_UNAVAILABLE, "%s", error);
	if (!json_is_object(o))
		return error_set(err, ERR_INVALID,
			"expected an answer of gpuslice-load, found something else");
	if (!p->facts.ready && !p->calibrates)
		return take_ready(p, o, err);
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

static int on_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct check_pod *p = arg;
	json_auto_t *o = json_loadb(line, len, 0, NULL);

	if (take_line(p, o, &p->facts.error) == 0)
		return 0;
	error_copy(err, &p->facts.error);
	return -1;
}

static void set_error(struct check_pod *p, const struct child_end *end)
{
	if (end->status == -1)
		(void)error_set(&p->facts.error, ERR_TIMEOUT, "it could not be ended");
	else if (end->silent)
		(void)error_set(&p->facts.error, ERR_TIMEOUT, "no answer");
	else if (end->signal)
		(void)error_set(&p->facts.error, ERR_UNAVAILABLE, "ended by signal %d: %.120s",
			end->signal, end->words);
	else
		(void)error_set(&p->facts.error, ERR_UNAVAILABLE,
			"ended with status %d: %.120s", end->status, end->words);
}

static void on_ended(void *arg, const struct child_end *end)
{
	struct check_pod *p = arg;
	bool done = p->facts.answer || p->facts.dies_ns || p->is_ended;

	p->child = NULL;
	p->facts.hung = end->status == -1 || (end->silent && !done);
	if (p->facts.error.code == ERR_NONE && (!done || end->status == -1))
		set_error(p, end);
	p->ops->ended(p->arg);
}

int check_pod_start(struct check_pod **ret, uv_loop_t *loop, const struct check_pod_what *what,
	const struct check_pod_ops *ops, void *arg, struct error *err)
{
	static const struct child_ops child_ops = { .line = on_line, .ended = on_ended };
	struct check_pod *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->ops = ops;
	p->arg = arg;
	p->mps = what->mps;
	p->calibrates = what->calibrates;
	if (proc_start(&p->child, loop,
		    &(struct child_what){ .argv = (const char *const *)what->args->v,
			    .env = (const char *const *)what->env->v,
			    .keep_input = true,
			    .silence_ns = what->setup_ns },
		    &child_ops, p, err) < 0) {
		free(p);
		return -1;
	}
	*ret = p;
	return 0;
}

void check_pod_go(struct check_pod *p, uint64_t begin_ns, uint64_t from_ns, uint64_t to_ns)
{
	char line[128];
	int len = snprintf(line, sizeof(line), "go %llu %llu %llu\n",
		(unsigned long long)begin_ns, (unsigned long long)from_ns,
		(unsigned long long)to_ns);
	uint64_t now = time_mono_ns();

	if (!p->child)
		return;
	proc_expect(p->child, (to_ns > now ? to_ns - now : 0) + CHECK_GRACE_S * NS_PER_SEC);
	/* Without it the pod says nothing, and that is seen. */
	(void)!proc_send(p->child, line, (size_t)len, &p->facts.error);
}

void check_pod_end(struct check_pod *p)
{
	p->is_ended = true;
	if (p->child)
		proc_expect(p->child, 0);
}

const struct check_pod_facts *check_pod_facts(const struct check_pod *p)
{
	return &p->facts;
}

struct check_pod *check_pod_free(struct check_pod *p)
{
	if (!p)
		return NULL;
	p->child = proc_stop(p->child);
	json_decref(p->facts.answer);
	free(p);
	return NULL;
}
