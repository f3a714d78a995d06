/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/cut.h"

#include "base/fd.h"
#include "base/time.h"
#include "config/mig.h"
#include "gpu/nvml.h"
#include "mig/command.h"
#include "mig/editor.h"
#include "mig/lock.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCK_WAIT_NS (10 * NS_PER_SEC)

enum wish { OFF, EQUAL, AS_BEFORE };

struct bench_cut {
	char nvml[PATH_MAX], saved[PATH_MAX], uuid[96];
	int lock;
	struct mig_checkpoint *before; /* of this GPU only */
	bool changed;
	/* Of the change that is being made. */
	enum wish wish;
	uint32_t n;
	char *profile;
};

static volatile sig_atomic_t stop_asked;

static void ask_stop(int sig)
{
	(void)sig;
	stop_asked = 1;
}

/* Between two runs of an event loop, which has handlers of its own. */
static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = ask_stop, .sa_flags = SA_RESTART };

	(void)sigaction(SIGINT, &sa, NULL);
	(void)sigaction(SIGTERM, &sa, NULL);
}

/* ---- what is wanted ------------------------------------------------------------------------------------------ */

static bool is_larger(const struct mig_gi_profile *a, const struct mig_gi_profile *b)
{
	return a->slices != b->slices ? a->slices > b->slices : a->memory_mib > b->memory_mib;
}

/* The largest without special engines of which the GPU has room for @n; -1. */
static int choose_profile(const struct mig_layout *l, uint32_t n)
{
	int best = -1;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct mig_gi_profile *p = &l->profiles[i];

		if (!*p->name.attributes && p->max >= n &&
			(best < 0 || is_larger(p, &l->profiles[best])))
			best = (int)i;
	}
	return best;
}

static int want_equal(const struct bench_cut *c, const struct mig_layout *l,
	struct mig_want *ret, struct error *err)
{
	int at = choose_profile(l, c->n);

	if (at < 0 || c->n > MIG_GIS_MAX)
		return error_set(err, ERR_LIMIT, "the GPU has no room for %u MIG devices",
			c->n);
	mig_layout_name(l, (uint32_t)at, 0, c->profile);
	ret->n = c->n;
	for (uint32_t i = 0; i < c->n; i++)
		ret->gi[i] = (struct mig_want_gi){ .profile = (uint32_t)at,
			.start = MIG_START_ANY,
			.n_ci = 1,
			.ci = { l->profiles[at].slices } };
	return 0;
}

/* 1: of others' GPUs nothing is wanted. */
static int want(void *arg, const struct mig_node_gpu *g, struct mig_want *ret,
	struct error *err)
{
	const struct bench_cut *c = arg;
	const struct mig_saved_gpu *saved = &c->before->gpus[0];
	bool enabled = c->wish == EQUAL || (c->wish == AS_BEFORE && saved->enabled);

	if (strcmp(g->uuid, c->uuid) != 0) {
		(void)error_set(err, ERR_NOT_FOUND, "the benchmark is not about it");
		return 1;
	}
	if (g->fault.code != ERR_NONE) {
		error_copy(err, &g->fault);
		return -1;
	}
	*ret = (struct mig_want){ .enabled = enabled };
	/* Some products say nothing of their profiles before MIG is on; then this is asked again. */
	if (!enabled || !g->layout.n)
		return 0;
	return c->wish == EQUAL ? want_equal(c, &g->layout, ret, err)
				: mig_checkpoint_want(saved, g, ret, err);
}

static int reset(void *arg, const char *const *bus_ids, uint32_t n, struct error *err)
{
	(void)arg;
	return mig_reset_gpus("/", bus_ids, n, /* show= */ false, err);
}

/* NVML is open no longer than this: an open one may be in the way of the next change. */
static int change(struct bench_cut *c, enum wish wish, struct error *err)
{
	CLEANUP(mig_editor_closep) struct mig_editor *e = NULL;
	const struct mig_apply a = { .want = want,
		.reset = reset,
		.arg = c,
		.stop = wish == AS_BEFORE ? NULL : &stop_asked };
	const struct mig_node *node;
	int r;

	c->wish = wish;
	catch_signals();
	if (mig_editor_open(&e, c->nvml, err) < 0 ||
		mig_editor_read(e, /* clients= */ true, &node, err) < 0)
		return -1;
	r = mig_editor_apply(e, &a, err);
	return r == MIG_APPLY_PENDING ? error_prefix(err, "reset required") : r;
}

/* ---- what it was ---------------------------------------------------------------------------------------------- */

static const struct mig_node_gpu *find(const struct mig_node *node, const char *uuid)
{
	for (uint32_t i = 0; i < node->n; i++)
		if (!strcmp(node->gpus[i].uuid, uuid))
			return &node->gpus[i];
	return NULL;
}

/* Of this GPU alone: others are nobody's business here. */
static int take_only(struct mig_checkpoint *c, const char *uuid, const char *where,
	struct error *err)
{
	const struct mig_saved_gpu *found = mig_checkpoint_find(c, uuid);

	if (!found)
		return error_set(err, ERR_NOT_FOUND, "%s has no GPU %s", where, uuid);
	c->gpus[0] = *found;
	c->n = 1;
	return 0;
}

static int look(struct bench_cut *c, struct error *err)
{
	CLEANUP(mig_editor_closep) struct mig_editor *e = NULL;
	const struct mig_node_gpu *g;
	const struct mig_node *node;

	if (mig_editor_open(&e, c->nvml, err) < 0 ||
		mig_editor_read(e, /* clients= */ false, &node, err) < 0)
		return -1;
	g = find(node, c->uuid);
	if (!g || g->fault.code != ERR_NONE || !g->state.capable)
		return error_set(err, ERR_UNSUPPORTED, "the GPU has no MIG");
	return mig_checkpoint_make(&c->before, node, err) < 0
		       ? -1
		       : take_only(c->before, c->uuid, "the node", err);
}

/* What a benchmark that was killed has left is what this GPU was. */
static int remember(struct bench_cut *c, struct error *err)
{
	char *text;
	int r;

	if (access(c->saved, F_OK) == 0) {
		c->changed = true;
		c->before = mig_checkpoint_free(c->before);
		return mig_checkpoint_load(&c->before, c->saved, err) < 0
			       ? error_prefix(err, "%s", c->saved)
			       : take_only(c->before, c->uuid, c->saved, err);
	}
	text = mig_checkpoint_to_json(c->before);
	if (!text)
		return error_nomem(err);
	r = file_write_atomic(c->saved, text, strlen(text), 0644, err);
	free(text);
	return r;
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

static struct bench_cut *cut_free(struct bench_cut *c)
{
	mig_checkpoint_free(c->before);
	if (c->lock >= 0)
		(void)close(c->lock);
	free(c);
	return NULL;
}

int bench_cut_begin(struct bench_cut **ret, const struct bench_cut_options *o,
	struct error *err)
{
	struct bench_cut *c = calloc(1, sizeof(*c));
	char name[128];

	if (!c)
		return error_nomem(err);
	(void)snprintf(c->uuid, sizeof(c->uuid), "%s", o->uuid);
	(void)snprintf(name, sizeof(name), "bench-mig-%s.json", c->uuid);
	catch_signals();
	c->lock = mig_lock_take(o->run_dir, LOCK_WAIT_NS, &stop_asked, err);
	if (c->lock < 0 || nvml_find(c->nvml, o->nvml, "/", err) < 0 ||
		path_join(c->saved, sizeof(c->saved), o->run_dir, name, err) < 0 ||
		look(c, err) < 0 || remember(c, err) < 0) {
		(void)cut_free(c);
		return -1;
	}
	*ret = c;
	return 0;
}

int bench_cut_off(struct bench_cut *c, struct error *err)
{
	c->changed = true;
	return change(c, OFF, err);
}

int bench_cut_into(struct bench_cut *c, uint32_t n, char profile[MIG_PROFILE_NAME_MAX],
	struct error *err)
{
	c->changed = true;
	c->n = n;
	c->profile = profile;
	return change(c, EQUAL, err);
}

int bench_cut_end(struct bench_cut *c, struct error *err)
{
	int r = c->changed ? change(c, AS_BEFORE, err) : 0;

	if (r == 0)
		(void)unlink(c->saved);
	else
		(void)error_prefix(err,
			"the GPU could not be given back as it was; gpuslice mig restore -f %s does it",
			c->saved);
	(void)cut_free(c);
	return r;
}
