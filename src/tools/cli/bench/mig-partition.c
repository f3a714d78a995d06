/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/bench/mig-partition.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "io/config/mig/mig.h"
#include "io/nvml/nvml.h"
#include "io/mig-editor/command.h"
#include "io/mig-editor/editor.h"
#include "io/mig-editor/lock.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCK_WAIT_NS   (10 * NS_PER_SEC)
#define IN_USE_NS      (30 * NS_PER_SEC) /* programs end, the driver cleans up */
#define IN_USE_POLL_US (500 * 1000)

enum mig_partition_goal { PARTITION_OFF, PARTITION_EQUAL, PARTITION_RESTORED };

struct bench_mig_partition {
	struct bench_mig_partition_options o;
	char nvml[PATH_MAX], saved[PATH_MAX], uuid[96];
	int lock;
	struct mig_checkpoint *before; /* the state of this GPU only */
	/* State of the change that runs now. */
	enum mig_partition_goal goal;
	uint32_t n;
	char *profile;
	volatile sig_atomic_t stop;
};

/* --- the desired layout --- */

static bool is_larger(const struct mig_gi_profile *a, const struct mig_gi_profile *b)
{
	return a->slices != b->slices ? a->slices > b->slices : a->memory_mib > b->memory_mib;
}

/* The largest profile without special engines that fits @n times on the GPU; -1: none. */
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

static int set_equal_devices(const struct bench_mig_partition *partition,
	const struct mig_layout *l, struct mig_desired *ret, struct error *err)
{
	int at = choose_profile(l, partition->n);

	if (at < 0 || partition->n > MIG_GIS_MAX)
		return error_set(err, ERR_LIMIT, "the GPU has no room for %u MIG devices",
			partition->n);
	mig_layout_name(l, (uint32_t)at, 0, partition->profile);
	ret->n = partition->n;
	for (uint32_t i = 0; i < partition->n; i++)
		ret->gi[i] = (struct mig_desired_gi){ .profile = (uint32_t)at,
			.start = MIG_START_ANY,
			.n_ci = 1,
			.ci = { l->profiles[at].slices } };
	return 0;
}

/* Returns 1 for other GPUs: the benchmark does not change them. */
static int get_bench_desired_mig(void *arg, const struct mig_node_gpu *g,
	struct mig_desired *ret, struct error *err)
{
	const struct bench_mig_partition *partition = arg;
	const struct mig_saved_gpu *saved = &partition->before->gpus[0];
	bool enabled = partition->goal == PARTITION_EQUAL ||
		       (partition->goal == PARTITION_RESTORED && saved->enabled);

	if (strcmp(g->uuid, partition->uuid) != 0) {
		(void)error_set(err, ERR_NOT_FOUND, "the benchmark is not about it");
		return 1;
	}
	if (g->fault.code != ERR_NONE) {
		error_copy(err, &g->fault);
		return -1;
	}
	*ret = (struct mig_desired){ .enabled = enabled };
	/* Some products report no profiles before MIG is on. The editor then calls this function
	 * again. */
	if (!enabled || !g->layout.n)
		return 0;
	return partition->goal == PARTITION_EQUAL
		       ? set_equal_devices(partition, &g->layout, ret, err)
		       : mig_checkpoint_want(saved, g, ret, err);
}

static int reset_bench_gpus(void *arg, const char *const *bus_ids, uint32_t n,
	struct error *err)
{
	(void)arg;
	return mig_reset_gpus("/", bus_ids, n, /* show= */ false, err);
}

static void on_bench_mig_step(void *arg, const struct mig_node_gpu *g,
	const struct mig_step *step, uint32_t n, uint32_t of, bool undo)
{
	struct bench_mig_partition *partition = arg;

	(void)g, (void)step, (void)n, (void)of, (void)undo;
	partition->stop =
		partition->goal != PARTITION_RESTORED && partition->o.stopped(partition->o.arg);
}

/* Opens NVML for one change only: an open NVML can be in the way of the next change. */
static int change_once(struct bench_mig_partition *partition, struct error *err)
{
	CLEANUP(mig_editor_closep) struct mig_editor *e = NULL;
	const struct mig_apply a = { .get_desired = get_bench_desired_mig,
		.reset = reset_bench_gpus,
		.step = on_bench_mig_step,
		.arg = partition,
		.stop = &partition->stop };
	const struct mig_node *node;
	int r;

	partition->stop = 0;
	if (mig_editor_open(&e, partition->nvml, err) < 0 ||
		mig_editor_read(e, /* clients= */ true, &node, err) < 0)
		return -1;
	r = mig_editor_apply(e, &a, err);
	return r == MIG_APPLY_PENDING ? error_prefix(err, "reset required") : r;
}

static int apply_bench_mig_goal(struct bench_mig_partition *partition,
	enum mig_partition_goal goal, struct error *err)
{
	uint64_t until = time_mono_ns() + IN_USE_NS;
	bool told = false;
	int r;

	partition->goal = goal;
	while ((r = change_once(partition, err)) < 0 && err->code == ERR_UNAVAILABLE &&
		time_mono_ns() < until &&
		(goal == PARTITION_RESTORED || !partition->o.stopped(partition->o.arg))) {
		if (!told)
			(void)fprintf(stderr, "the GPU cannot be changed yet, waiting: %s\n",
				err->msg);
		told = true;
		(void)usleep(IN_USE_POLL_US);
		error_clear(err);
	}
	if (r == 0 && goal != PARTITION_RESTORED && partition->o.stopped(partition->o.arg))
		return error_set(err, ERR_CANCELLED, "interrupted");
	return r;
}

/* --- the state before --- */

static const struct mig_node_gpu *find_bench_mig_gpu(const struct mig_node *node,
	const char *uuid)
{
	for (uint32_t i = 0; i < node->n; i++)
		if (!strcmp(node->gpus[i].uuid, uuid))
			return &node->gpus[i];
	return NULL;
}

/* Keeps this GPU only: the benchmark does not change the others. */
static int reduce_checkpoint_to_gpu(struct mig_checkpoint *c, const char *uuid,
	struct error *err)
{
	const struct mig_saved_gpu *found = mig_checkpoint_find(c, uuid);

	if (!found)
		return error_set(err, ERR_NOT_FOUND, "no GPU %s", uuid);
	c->gpus[0] = *found;
	c->n = 1;
	return 0;
}

/* Refuses a GPU whose state could not be restored afterwards. */
static int check_gpu_restorable(const struct bench_mig_partition *partition,
	const struct mig_node_gpu *g, struct error *err)
{
	struct mig_desired desired;

	if (!g)
		return error_set(err, ERR_NOT_FOUND, "no GPU %s", partition->uuid);
	if (g->fault.code != ERR_NONE) {
		error_copy(err, &g->fault);
		return -1;
	}
	if (!g->state.capable)
		return error_set(err, ERR_UNSUPPORTED, "the GPU has no MIG");
	if (g->state.enabled != g->state.pending_enabled)
		return error_set(err, ERR_UNAVAILABLE, "MIG of the GPU waits for a reset");
	if (!g->state.enabled)
		return 0;
	return mig_checkpoint_want(&partition->before->gpus[0], g, &desired, err) < 0
		       ? error_prefix(err, "as it is now it could not be given back")
		       : 0;
}

static int checkpoint_bench_gpu(struct bench_mig_partition *partition, struct error *err)
{
	CLEANUP(mig_editor_closep) struct mig_editor *e = NULL;
	const struct mig_node_gpu *g;
	const struct mig_node *node;

	if (mig_editor_open(&e, partition->nvml, err) < 0 ||
		mig_editor_read(e, /* clients= */ false, &node, err) < 0)
		return -1;
	g = find_bench_mig_gpu(node, partition->uuid);
	if (!g || g->fault.code != ERR_NONE || !g->state.capable)
		return check_gpu_restorable(partition, g, err);
	if (mig_checkpoint_make(&partition->before, node, err) < 0 ||
		reduce_checkpoint_to_gpu(partition->before, partition->uuid, err) < 0)
		return -1;
	return check_gpu_restorable(partition, g, err);
}

static int save_bench_checkpoint(const struct bench_mig_partition *partition, struct error *err)
{
	char *text;
	int r;

	if (access(partition->saved, F_OK) == 0)
		return error_set(err, ERR_EXISTS,
			"a benchmark was killed before it gave the GPU back. What it was is in '%s': "
			"'gpuslice mig restore -f' that file, if the GPU is to be that again, and remove it",
			partition->saved);
	text = mig_checkpoint_to_json(partition->before);
	if (!text)
		return error_nomem(err);
	r = file_write_atomic(partition->saved, text, strlen(text), 0644, err);
	free(text);
	return r;
}

/* --- life --- */

static struct bench_mig_partition *free_mig_partition(struct bench_mig_partition *partition)
{
	mig_checkpoint_free(partition->before);
	if (partition->lock >= 0)
		(void)close(partition->lock);
	free(partition);
	return NULL;
}

int bench_mig_partition_begin(struct bench_mig_partition **ret,
	const struct bench_mig_partition_options *o, struct error *err)
{
	struct bench_mig_partition *partition;
	char name[128];

	if (geteuid() != 0)
		return error_set(err, ERR_PERMISSION, "only root may change MIG");
	partition = calloc(1, sizeof(*partition));
	if (!partition)
		return error_nomem(err);
	partition->o = *o;
	(void)snprintf(partition->uuid, sizeof(partition->uuid), "%s", o->uuid);
	(void)snprintf(name, sizeof(name), "bench-mig-%s.json", partition->uuid);
	partition->lock = mig_lock_acquire(o->run_dir, LOCK_WAIT_NS, NULL, err);
	if (partition->lock < 0 || nvml_find(partition->nvml, o->nvml, "/", err) < 0 ||
		path_join(partition->saved, sizeof(partition->saved), o->run_dir, name, err) <
			0 ||
		checkpoint_bench_gpu(partition, err) < 0 ||
		save_bench_checkpoint(partition, err) < 0) {
		(void)free_mig_partition(partition);
		return -1;
	}
	*ret = partition;
	return 0;
}

int bench_mig_partition_disable(struct bench_mig_partition *partition, struct error *err)
{
	return apply_bench_mig_goal(partition, PARTITION_OFF, err);
}

int bench_mig_partition_create(struct bench_mig_partition *partition, uint32_t n,
	char profile[MIG_PROFILE_NAME_MAX], struct error *err)
{
	partition->n = n;
	partition->profile = profile;
	return apply_bench_mig_goal(partition, PARTITION_EQUAL, err);
}

int bench_mig_partition_restore(struct bench_mig_partition *partition, struct error *err)
{
	int r = apply_bench_mig_goal(partition, PARTITION_RESTORED, err);

	if (r == 0 && unlink(partition->saved) < 0)
		r = error_sys(err, errno, "the GPU is as it was; remove '%s'",
			partition->saved);
	else if (r < 0)
		(void)error_prefix(err,
			"the GPU could not be given back; 'gpuslice mig restore -f %s' does it",
			partition->saved);
	(void)free_mig_partition(partition);
	return r;
}
