/* SPDX-License-Identifier: Apache-2.0 */
#include "io/mig-editor/step.h"

#include <stdio.h>

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

int mig_step_apply(struct mig_session *s, struct mig_gpu *g, const struct mig_plan *plan,
	uint32_t i, struct mig_created *made, struct error *err)
{
	char text[128];
	int r = apply_mig_step(s, g, plan, i, made, err);

	if (r >= 0)
		return r;
	mig_step_text(&g->pub->layout, &plan->steps[i], text, sizeof(text));
	return error_prefix(err, "%s", text);
}
