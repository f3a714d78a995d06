/* SPDX-License-Identifier: Apache-2.0 */
#include "io/mig-editor/job.h"

#include <stdio.h>

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
