/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The order of a change: mig-parted's, with checks before each destructive step. @a's hooks run in
 * this order, except in a dry run:
 *
 *	 1. Hook apply-start.
 *	 2. Read the node, plan every GPU. A desired layout that is impossible is refused here.
 *	 3. Hook pre-apply-mode, if a mode differs.
 *	 4. Read the clients of what would go. A GPU in use is refused here. A dry run ends here.
 *	 5. Switch modes on, reset GPUs whose mode waits.
 *	 6. Plan the GPUs that report their profiles only with MIG on.
 *	 7. Switch modes off, reset GPUs whose mode waits.
 *	 8. Hook pre-apply-config, if instances differ. Then read the other clients.
 *	 9. The other steps, GPU by GPU; verify each GPU.
 *	10. Hook apply-exit, always.
 *
 * A hook may stop the programs that use GPUs. So the editor reads the clients of an instance or a mode
 * after the hook that precedes its removal: with a hook pre-apply-config, step 4 reads only GPUs whose
 * mode changes.
 */
#include "io/mig-editor/job.h"

#include <assert.h>
#include <stdlib.h>

struct mig_apply_run {
	struct mig_editor *e;
	const struct mig_apply *a;
	struct mig_job *jobs;
	uint32_t n;
	struct error first; /* first failure */
	struct error waits; /* reason of the first mode that waits */
	bool over;          /* start no further steps */
};

static const char *const result_names[] = {
	[MIG_RESULT_SAME] = "same",
	[MIG_RESULT_CHANGED] = "changed",
	[MIG_RESULT_PENDING] = "pending",
	[MIG_RESULT_SKIPPED] = "skipped",
	[MIG_RESULT_FAILED] = "failed",
	[MIG_RESULT_UNDONE] = "undone",
};
static_assert(ARRAY_LEN(result_names) == MIG_RESULT_COUNT_, "each has a name");

static const char *const hook_names[] = {
	[MIG_HOOK_APPLY_START] = "apply-start",
	[MIG_HOOK_PRE_APPLY_MODE] = "pre-apply-mode",
	[MIG_HOOK_PRE_APPLY_CONFIG] = "pre-apply-config",
	[MIG_HOOK_APPLY_EXIT] = "apply-exit",
};

const char *mig_result_name(enum mig_result r)
{
	return (size_t)r < ARRAY_LEN(result_names) ? result_names[r] : "?";
}

const char *mig_hook_point_name(enum mig_hook_point p)
{
	return (size_t)p < ARRAY_LEN(hook_names) ? hook_names[p] : "?";
}

static bool has_apply_hook(const struct mig_apply_run *r, enum mig_hook_point p)
{
	return r->a->hook && !r->a->dry_run &&
	       (!r->a->has_hook || r->a->has_hook(r->a->arg, p));
}

static int call_hook(const struct mig_apply_run *r, enum mig_hook_point p, struct error *err)
{
	return has_apply_hook(r, p) ? r->a->hook(r->a->arg, p, err) : 0;
}

/* Sets the error that the run returns. @j: the GPU where the error occurred, or NULL. */
static void set_first_error(struct mig_apply_run *r, const struct mig_job *j,
	const struct error *why)
{
	if (r->first.code)
		return;
	r->first = *why;
	if (j)
		(void)error_prefix(&r->first, "GPU %u", j->g->pub->index);
}

static void end_mig_job(struct mig_apply_run *r, struct mig_job *j, enum mig_result result,
	const struct error *why)
{
	j->ended = true;
	if (result == MIG_RESULT_FAILED || result == MIG_RESULT_UNDONE)
		set_first_error(r, j, why);
	if (result == MIG_RESULT_PENDING && !r->waits.code) {
		r->waits = *why;
		(void)error_prefix(&r->waits, "GPU %u", j->g->pub->index);
	}
	if (r->a->gpu)
		r->a->gpu(r->a->arg, j->g->pub, result, why);
}

/* Starts no further steps; reports the reason for each GPU with steps left. */
static void skip_remaining_jobs(struct mig_apply_run *r, enum error_code code, const char *text)
{
	r->over = true;
	for (uint32_t i = 0; i < r->n; i++) {
		struct mig_job *j = &r->jobs[i];
		struct error why = ERROR_INIT;

		if (!j->has_desired || j->ended)
			continue;
		if (mig_job_has_steps(j) || j->blind) {
			(void)error_set(&why, code, "%s%s", text,
				j->touched ? "; it is half-way" : "");
			end_mig_job(r, j, MIG_RESULT_SKIPPED, &why);
		} else {
			end_mig_job(r, j, j->touched ? MIG_RESULT_CHANGED : MIG_RESULT_SAME,
				NULL);
		}
	}
}

static void stop_mig_run(struct mig_apply_run *r)
{
	struct error why = ERROR_INIT;

	(void)error_set(&why, ERR_CANCELLED,
		"stopped by a signal between two steps; run the same command again to go on");
	set_first_error(r, NULL, &why);
	skip_remaining_jobs(r, ERR_CANCELLED, "not come to before the signal");
}

/* --- resets and undo --- */

/* The end of the session invalidated all handles: plan again what is left. */
static void plan_again(struct mig_apply_run *r)
{
	for (uint32_t i = 0; i < r->n; i++) {
		struct mig_job *j = &r->jobs[i];
		struct error why = j->g->pub->fault;

		if (!j->has_desired || j->ended)
			continue;
		if (!why.code && mig_job_refresh(j, r->e, r->a, &why) == 0)
			continue;
		end_mig_job(r, j, MIG_RESULT_FAILED, &why);
	}
}

static int reset_waiting(struct mig_apply_run *r, struct error *err)
{
	CLEANUP(freep) const char **ids = calloc(r->n ? r->n : 1, sizeof(*ids));
	struct error why = ERROR_INIT;
	uint32_t n = 0;
	int k;

	if (!ids)
		return error_nomem(err);
	for (uint32_t i = 0; i < r->n; i++) {
		if (!r->jobs[i].waits)
			continue;
		ids[n++] = r->jobs[i].g->pub->bus_id;
		if (r->a->resetting)
			r->a->resetting(r->a->arg, r->jobs[i].g->pub);
	}
	/* An open handle would block the reset. */
	mig_session_stop(&r->e->session);
	k = r->a->reset(r->a->arg, ids, n, &why);
	if (mig_editor_restart(r->e, err) < 0) {
		r->over = true;
		return -1;
	}
	if (k < 0)
		error_copy(err, &why);
	return k;
}

/* Resets the GPUs whose mode waits, and plans again. GPUs that still wait end as pending. */
static void apply_pending_modes(struct mig_apply_run *r)
{
	struct error why = ERROR_INIT;
	bool any = false;
	int k = 0;

	for (uint32_t i = 0; i < r->n; i++)
		any = any || r->jobs[i].waits;
	if (!any)
		return;
	if (!r->a->skip_reset) {
		k = reset_waiting(r, &why);
		if (!r->over)
			plan_again(r);
	}
	for (uint32_t i = 0; i < r->n; i++) {
		struct mig_job *j = &r->jobs[i];
		const struct mig_state *s = &j->g->pub->state;
		bool waits = j->waits && (r->over || s->enabled != s->pending_enabled);
		struct error e = ERROR_INIT;

		j->waits = false;
		if (!waits || j->ended)
			continue;
		(void)error_set(&e, ERR_UNAVAILABLE,
			"MIG mode is to be %s and waits for a reset%s%s%s",
			s->pending_enabled ? "on" : "off",
			r->a->skip_reset ? " (--skip-reset)"
			: k < 0          ? ": "
					 : ", which had no effect; reboot the node",
			k < 0 ? why.msg : "",
			r->a->skip_reset || k < 0
				? "; reset it (nvidia-smi -r) or reboot, and run the command again"
				: "");
		end_mig_job(r, j, MIG_RESULT_PENDING, &e);
	}
	if (r->over && why.code) {
		set_first_error(r, NULL, &why);
		skip_remaining_jobs(r, why.code, "not come to, as NVML does not start again");
	}
}

/* A step failed: restores the state before the run. */
static void undo_mig_job(struct mig_apply_run *r, struct mig_job *j, const struct error *why)
{
	struct error back = ERROR_INIT, e = *why;
	int k;

	set_first_error(r, j, why);
	if (!j->touched) {
		end_mig_job(r, j, MIG_RESULT_FAILED, why);
		return;
	}
	k = mig_job_start_undo(j, r->e, r->a, &back);
	while (k == 0 && !j->ended && j->plan.n > j->next) {
		k = mig_job_run(j, r->e, r->a, /* mode_only= */ false, &back);
		if (k == 0 && j->waits)
			apply_pending_modes(r);
	}
	if (k == 0 && !j->ended)
		k = mig_job_verify(j, r->e, r->a, &back);
	if (j->ended)
		return;
	if (k == 0) {
		end_mig_job(r, j, MIG_RESULT_UNDONE, why);
		return;
	}
	(void)error_set(&e, why->code,
		"%s; going back did not work either: %s; see 'gpuslice mig status', and run the command again",
		why->msg, back.msg);
	end_mig_job(r, j, MIG_RESULT_FAILED, &e);
}

/* --- phases --- */

static void plan_all(struct mig_apply_run *r)
{
	for (uint32_t i = 0; i < r->n; i++) {
		struct mig_job *j = &r->jobs[i];
		struct error why = ERROR_INIT;
		int k;

		j->g = &r->e->gpus[i];
		j->before = j->g->pub->state;
		k = mig_job_request_desired(j, r->a, &why);
		if (k == 0 && mig_job_plan(j, r->a, &why) == 0)
			continue;
		end_mig_job(r, j, k > 0 ? MIG_RESULT_SKIPPED : MIG_RESULT_FAILED, &why);
	}
	if (r->first.code)
		skip_remaining_jobs(r, ERR_CANCELLED,
			"not changed, as what is wanted of another GPU cannot be");
}

static void check_clients(struct mig_apply_run *r, bool modes_only)
{
	bool failed_before = r->first.code != ERR_NONE, in_use = false, unreadable = false;

	for (uint32_t i = 0; i < r->n; i++) {
		struct mig_job *j = &r->jobs[i];
		struct error why = ERROR_INIT;
		int k;

		if (!mig_job_has_steps(j) || j->checked ||
			(modes_only && !mig_job_mode_step(j)))
			continue;
		j->checked = true;
		k = mig_read_clients(&r->e->session, j->g, &why);
		if (k >= 0 && mig_job_plan(j, r->a, &why) == 0)
			continue;
		in_use = in_use || k >= 0;
		unreadable = unreadable || k < 0;
		end_mig_job(r, j, MIG_RESULT_FAILED, &why);
	}
	if (in_use)
		skip_remaining_jobs(r, ERR_CANCELLED, "not changed, as another GPU is in use");
	else if (unreadable)
		skip_remaining_jobs(r, ERR_CANCELLED,
			"not changed, as the processes on another GPU cannot be read");
	else if (failed_before)
		skip_remaining_jobs(r, ERR_CANCELLED,
			"not changed, as the MIG mode of another GPU could not be changed");
}

/* Reports each plan once, and a second time for a GPU that reports its profiles later. */
static void report_gpu_plans(struct mig_apply_run *r)
{
	for (uint32_t i = 0; i < r->n && r->a->planned; i++) {
		struct mig_job *j = &r->jobs[i];

		if (!j->has_desired || j->ended || j->announced)
			continue;
		j->announced = !j->blind;
		r->a->planned(r->a->arg, j->g->pub, &j->plan);
	}
}

static void after_error(struct mig_apply_run *r, struct mig_job *j, const struct error *why)
{
	undo_mig_job(r, j, why);
	/* The driver would refuse the other changes as well. */
	if (why->code == ERR_PERMISSION && !r->over)
		skip_remaining_jobs(r, why->code, "not come to, as the driver refuses changes");
}

/* Switches the modes whose desired value is @enabled. */
static void set_modes(struct mig_apply_run *r, bool enabled)
{
	for (uint32_t i = 0; i < r->n && !r->over; i++) {
		struct mig_job *j = &r->jobs[i];
		struct error why = ERROR_INIT;
		int k;

		if (!mig_job_has_steps(j) || !mig_job_mode_step(j) ||
			j->desired.enabled != enabled)
			continue;
		k = mig_job_run(j, r->e, r->a, /* mode_only= */ true, &why);
		if (k == MIG_JOB_STOPPED)
			stop_mig_run(r);
		else if (k < 0)
			after_error(r, j, &why);
	}
	apply_pending_modes(r);
}

/* Plans the GPUs that report their profiles since MIG is on. */
static void plan_blind(struct mig_apply_run *r)
{
	bool bad = false;

	for (uint32_t i = 0; i < r->n && !r->over; i++) {
		struct mig_job *j = &r->jobs[i];
		struct error why = ERROR_INIT;

		if (!j->blind || j->ended)
			continue;
		if (mig_job_refresh(j, r->e, r->a, &why) == 0)
			continue;
		bad = true;
		undo_mig_job(r, j, &why);
	}
	if (bad)
		skip_remaining_jobs(r, ERR_CANCELLED,
			"not changed, as what is wanted of another GPU cannot be");
	else if (!r->over)
		report_gpu_plans(r);
}

static void set_instances(struct mig_apply_run *r)
{
	for (uint32_t i = 0; i < r->n && !r->over; i++) {
		struct mig_job *j = &r->jobs[i];
		struct error why = ERROR_INIT;
		int k;

		if (!j->has_desired || j->ended)
			continue;
		k = mig_job_run(j, r->e, r->a, /* mode_only= */ false, &why);
		if (k == MIG_JOB_STOPPED) {
			stop_mig_run(r);
			return;
		}
		if (k == 0 && j->touched)
			k = mig_job_verify(j, r->e, r->a, &why);
		if (k < 0)
			after_error(r, j, &why);
		else
			end_mig_job(r, j, j->touched ? MIG_RESULT_CHANGED : MIG_RESULT_SAME,
				NULL);
	}
}

static bool has_pending_job(const struct mig_apply_run *r, bool modes)
{
	for (uint32_t i = 0; i < r->n; i++) {
		const struct mig_job *j = &r->jobs[i];

		if (mig_job_has_steps(j) && (!modes || mig_job_mode_step(j)))
			return true;
	}
	return false;
}

static void hook_or_leave(struct mig_apply_run *r, enum mig_hook_point p)
{
	struct error why = ERROR_INIT;

	if (r->over || call_hook(r, p, &why) == 0)
		return;
	set_first_error(r, NULL, &why);
	skip_remaining_jobs(r, why.code, "not come to, as a hook failed");
}

static void apply_mig_changes(struct mig_apply_run *r)
{
	bool later = has_apply_hook(r, MIG_HOOK_PRE_APPLY_CONFIG);

	plan_all(r);
	if (!r->over && has_pending_job(r, /* modes= */ true))
		hook_or_leave(r, MIG_HOOK_PRE_APPLY_MODE);
	if (!r->over)
		check_clients(r, /* modes_only= */ later);
	if (!r->over)
		report_gpu_plans(r);
	if (r->over || r->a->dry_run)
		return;
	set_modes(r, /* enabled= */ true);
	plan_blind(r);
	set_modes(r, /* enabled= */ false);
	if (!r->over && !r->a->mode_only && has_pending_job(r, /* modes= */ false)) {
		hook_or_leave(r, MIG_HOOK_PRE_APPLY_CONFIG);
		if (!r->over)
			check_clients(r, /* modes_only= */ false);
	}
	if (!r->over)
		set_instances(r);
}

static int make_jobs(struct mig_apply_run *r, struct error *err)
{
	const struct mig_node *node;

	if (!r->e->fresh && mig_editor_read(r->e, /* clients= */ false, &node, err) < 0)
		return -1;
	r->e->fresh = false;
	r->n = r->e->node.n;
	r->jobs = calloc(r->n ? r->n : 1, sizeof(*r->jobs));
	return r->jobs ? 0 : error_nomem(err);
}

int mig_editor_apply(struct mig_editor *e, const struct mig_apply *a, struct error *err)
{
	struct mig_apply_run r = { .e = e, .a = a };
	struct error why = ERROR_INIT;
	int k = call_hook(&r, MIG_HOOK_APPLY_START, err);

	e->fresh = e->fresh && !has_apply_hook(&r, MIG_HOOK_APPLY_START);
	if (k == 0)
		k = make_jobs(&r, err);
	if (k == 0)
		apply_mig_changes(&r);
	free(r.jobs);
	/* An error of the last hook counts only if there was no other. */
	if (call_hook(&r, MIG_HOOK_APPLY_EXIT, &why) < 0 && k == 0)
		set_first_error(&r, NULL, &why);
	if (k < 0)
		return k;
	if (r.first.code) {
		error_copy(err, &r.first);
		return -1;
	}
	if (!r.waits.code)
		return 0;
	error_copy(err, &r.waits);
	return MIG_APPLY_PENDING;
}
