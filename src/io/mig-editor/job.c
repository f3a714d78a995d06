/* SPDX-License-Identifier: Apache-2.0 */
#include "io/mig-editor/job.h"

#include <stdio.h>

/* --- one step --- */

#define MIG_STEP_PENDING 1 /* the mode is set but waits for a reset */

/* What a person can do about the usual errors. */
static const char *find_step_advice(nvmlReturn_t r)
{
	static const struct {
		nvmlReturn_t code;
		const char *text;
	} rows[] = {
		{ NVML_ERROR_NO_PERMISSION,
			": changing MIG needs root and the MIG 'config' capability" },
		{ NVML_ERROR_IN_USE,
			": something uses it; 'gpuslice mig status' and 'fuser -v /dev/nvidia*' show what" },
		{ NVML_ERROR_INSUFFICIENT_RESOURCES,
			": the GPU was changed meanwhile; run the command again" },
		{ NVML_ERROR_NOT_FOUND,
			": the GPU was changed meanwhile; run the command again" },
		{ NVML_ERROR_GPU_IS_LOST, ": see the kernel log (NVRM, Xid 79) and reboot" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].code == r)
			return rows[i].text;
	}
	return "";
}

static int check_step_result(const struct mig_session *s, struct error *err,
	enum nvml_call call, nvmlReturn_t r)
{
	if (r == NVML_SUCCESS)
		return 0;
	(void)nvml_error(err, &s->nvml, call, r);
	return error_set(err, err->code, "%s (%d)%s: %s", nvml_strerror(&s->nvml, r), (int)r,
		find_step_advice(r), nvml_call_name(call));
}

#define STEP_RESULT(s, err, name, ...) \
	check_step_result((s), (err), NVML_CALL_##name, MIG_CALL(s, name, __VA_ARGS__))

static const char *get_mig_mode_name(bool enabled)
{
	return enabled ? "on" : "off";
}

/*
 * The call also succeeds where the mode only waits. So the function reads the mode afterwards. The
 * reason of the wait is in the activation status.
 */
static int set_mode(struct mig_session *s, struct mig_gpu *g, bool enabled, struct error *err)
{
	nvmlReturn_t activation = NVML_SUCCESS;
	unsigned int now = 0, pending = 0;
	struct mig_state *st = &g->pub->state;

	if (STEP_RESULT(s, err, nvmlDeviceSetMigMode, g->d, enabled, &activation) < 0 ||
		STEP_RESULT(s, err, nvmlDeviceGetMigMode, g->d, &now, &pending) < 0)
		return -1;
	st->enabled = now == NVML_DEVICE_MIG_ENABLE;
	st->pending_enabled = pending == NVML_DEVICE_MIG_ENABLE;
	if (st->pending_enabled != enabled)
		return error_set(err, ERR_UNAVAILABLE, "the driver did not take it: %s (%d)%s",
			nvml_strerror(&s->nvml, activation), (int)activation,
			find_step_advice(activation));
	if (st->enabled == enabled)
		return 0;
	(void)error_set(err, ERR_UNAVAILABLE,
		"MIG mode is %s until the GPU is reset: the driver says %s (%d)",
		get_mig_mode_name(st->enabled), nvml_strerror(&s->nvml, activation),
		(int)activation);
	return MIG_STEP_PENDING;
}

static int find_gi(const struct mig_state *st, uint32_t id)
{
	for (uint32_t i = 0; i < st->n; i++) {
		if (st->gi[i].id == id)
			return (int)i;
	}
	return -1;
}

static int find_ci(const struct mig_gi *gi, uint32_t id)
{
	for (uint32_t i = 0; i < gi->n_ci; i++) {
		if (gi->ci[i].id == id)
			return (int)i;
	}
	return -1;
}

static int no_instance(struct error *err)
{
	return error_set(err, ERR_INTERNAL, "the plan names an instance that is not there");
}

static int destroy_ci(struct mig_session *s, struct mig_gpu *g, const struct mig_step *step,
	struct error *err)
{
	int gi = find_gi(&g->pub->state, step->gi);
	int ci = gi < 0 ? -1 : find_ci(&g->pub->state.gi[gi], step->ci);

	return ci < 0 ? no_instance(err)
		      : STEP_RESULT(s, err, nvmlComputeInstanceDestroy, g->ci[gi][ci]);
}

static int destroy_gi(struct mig_session *s, struct mig_gpu *g, const struct mig_step *step,
	struct error *err)
{
	int gi = find_gi(&g->pub->state, step->gi);

	return gi < 0 ? no_instance(err)
		      : STEP_RESULT(s, err, nvmlGpuInstanceDestroy, g->gi[gi]);
}

/* Drivers before R465 choose the placement themselves; the verification at the end reads it. */
static int create_gpu_instance(struct mig_session *s, struct mig_gpu *g,
	const struct mig_step *step, nvmlGpuInstance_t *ret, struct error *err)
{
	const struct mig_gi_profile *p = &g->pub->layout.profiles[step->profile];
	nvmlGpuInstancePlacement_t placement = { .start = step->start, .size = p->size };

	if (!s->nvml.has[NVML_CALL_nvmlDeviceCreateGpuInstanceWithPlacement])
		return STEP_RESULT(s, err, nvmlDeviceCreateGpuInstance, g->d, p->id, ret);
	return STEP_RESULT(s, err, nvmlDeviceCreateGpuInstanceWithPlacement, g->d, p->id,
		&placement, ret);
}

static int create_compute_instance(struct mig_session *s, struct mig_gpu *g,
	const struct mig_step *step, const struct mig_created *made, struct error *err)
{
	nvmlComputeInstance_t ci = NULL;
	const struct mig_ci_kind *kind;
	nvmlGpuInstance_t gi;
	int at = -1;

	if (step->gi == MIG_NEW_GI) {
		gi = made->gi[step->made];
	} else {
		at = find_gi(&g->pub->state, step->gi);
		if (at < 0)
			return no_instance(err);
		gi = g->gi[at];
	}
	kind = mig_read_ci_kind(s, g->product, step->profile, gi, step->slices, err);
	return kind ? STEP_RESULT(s, err, nvmlGpuInstanceCreateComputeInstance, gi, kind->id,
			      &ci)
		    : -1;
}

static int apply_mig_step(struct mig_session *s, struct mig_gpu *g, const struct mig_plan *plan,
	uint32_t i, struct mig_created *made, struct error *err)
{
	const struct mig_step *step = &plan->steps[i];

	switch (step->action) {
	case MIG_SET_MODE:
		return set_mode(s, g, step->enabled, err);
	case MIG_DESTROY_CI:
		return destroy_ci(s, g, step, err);
	case MIG_DESTROY_GI:
		return destroy_gi(s, g, step, err);
	case MIG_CREATE_GI:
		return create_gpu_instance(s, g, step, &made->gi[i], err);
	case MIG_CREATE_CI:
		return create_compute_instance(s, g, step, made, err);
	}
	return error_set(err, ERR_INTERNAL, "unknown step %d", (int)step->action);
}

/*
 * Does step @i of @plan. The plan is from g->pub->state of the last read. The step updates only the
 * mode there. Returns 0 or MIG_STEP_PENDING. Errors name the step and the remedy.
 */
static int mig_step_apply(struct mig_session *s, struct mig_gpu *g, const struct mig_plan *plan,
	uint32_t i, struct mig_created *made, struct error *err)
{
	char text[128];
	int r = apply_mig_step(s, g, plan, i, made, err);

	if (r >= 0)
		return r;
	mig_step_text(&g->pub->layout, &plan->steps[i], text, sizeof(text));
	return error_prefix(err, "%s", text);
}

/* --- one job --- */

#define PIDS_SHOWN 4

bool mig_job_has_steps(const struct mig_job *j)
{
	return j->has_desired && !j->ended && j->next < j->plan.n;
}

const struct mig_step *mig_job_mode_step(const struct mig_job *j)
{
	for (uint32_t i = j->next; i < j->plan.n; i++) {
		if (j->plan.steps[i].action == MIG_SET_MODE)
			return &j->plan.steps[i];
	}
	return NULL;
}

int mig_job_request_desired(struct mig_job *j, const struct mig_apply *a, struct error *err)
{
	const struct mig_node_gpu *g = j->g->pub;
	int r = a->get_desired(a->arg, g, &j->desired, err);

	if (r)
		return r;
	j->has_desired = true;
	j->blind = j->desired.enabled && !g->state.enabled && !g->layout.n && !a->mode_only;
	if (j->blind)
		j->desired.n = 0;
	return 0;
}

/* "REASON (process on this GPU: 4711); end what uses it, or use --force" */
static int set_in_use_error(const struct mig_gpu *g, const char *why, struct error *err)
{
	char pids[96] = "", who[128] = "";
	size_t len = 0;

	for (uint32_t i = 0; i < g->n_clients && i < PIDS_SHOWN && len < sizeof(pids); i++)
		len += (size_t)snprintf(pids + len, sizeof(pids) - len, "%s%u", i ? ", " : "",
			g->clients[i].pid);
	if (g->n_clients)
		(void)snprintf(who, sizeof(who), " (process%s on this GPU: %s%s)",
			g->n_clients == 1 ? "" : "es", pids,
			g->n_clients > PIDS_SHOWN ? ", ..." : "");
	return error_set(err, ERR_UNAVAILABLE, "%s%s; end what uses it, or use --force", why,
		who);
}

int mig_job_plan(struct mig_job *j, const struct mig_apply *a, struct error *err)
{
	const struct mig_node_gpu *g = j->g->pub;
	bool any = a->force || !j->checked || j->undoing;
	unsigned flags = (a->mode_only ? MIG_PLAN_MODE_ONLY : 0U) | (any ? MIG_PLAN_FORCE : 0U);
	struct error why = ERROR_INIT;

	j->past += j->next;
	j->next = 0;
	j->made = (struct mig_created){ { NULL } };
	if (mig_plan_make(&j->plan, &g->layout, &g->state, &j->desired, flags, &why) < 0) {
		if (why.code == ERR_UNAVAILABLE)
			return set_in_use_error(j->g, why.msg, err);
		error_copy(err, &why);
		return -1;
	}
	if (!any && j->g->n_clients && mig_job_mode_step(j))
		return set_in_use_error(j->g, "its MIG mode would change while it is in use",
			err);
	return 0;
}

int mig_job_refresh(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	struct error *err)
{
	bool was_blind = j->blind;

	if (mig_editor_refresh_gpu(e, j->g, j->checked, err) < 0)
		return -1;
	if (was_blind && j->g->pub->state.enabled) {
		if (!j->undoing && mig_job_request_desired(j, a, err) < 0)
			return -1;
		j->blind = false;
	}
	return mig_job_plan(j, a, err);
}

int mig_job_run(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	bool mode_only, struct error *err)
{
	while (j->next < j->plan.n) {
		const struct mig_step *s = &j->plan.steps[j->next];
		bool mode = s->action == MIG_SET_MODE;
		int r;

		if (a->stop && *a->stop && !j->undoing)
			return MIG_JOB_STOPPED;
		if (a->step)
			a->step(a->arg, j->g->pub, s, j->past + j->next + 1,
				j->past + j->plan.n, j->undoing);
		j->touched = true;
		r = mig_step_apply(&e->session, j->g, &j->plan, j->next, &j->made, err);
		if (r < 0)
			return -1;
		j->next++;
		j->waits = r == MIG_STEP_PENDING;
		if (j->waits || (mode && mode_only))
			return 0;
	}
	return 0;
}

int mig_job_verify(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	struct error *err)
{
	char text[128];

	if (mig_job_refresh(j, e, a, err) < 0)
		return -1;
	if (!j->plan.n)
		return 0;
	mig_step_text(&j->g->pub->layout, &j->plan.steps[0], text, sizeof(text));
	return error_set(err, ERR_INTERNAL,
		"all steps are done, and still it would need: %s; is another program changing it?",
		text);
}

int mig_job_start_undo(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	struct error *err)
{
	mig_desired_from_state(&j->before, &j->desired);
	j->undoing = true;
	j->past = j->next = 0;
	return mig_job_refresh(j, e, a, err);
}
