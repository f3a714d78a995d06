/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the progress of `gpuslice mig apply`, as JSON lines or as text (mig.h). */
#include "tools/cli/mig/mig.h"

#include <jansson.h>
#include <stdlib.h>

#include "io/config/json.h"

/* Takes over @j. Flushes each line before the next action, so that a reader can use a deadline. */
static void write_json_event(struct mig_progress *p, json_t *j)
{
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	if (text)
		(void)fprintf(p->to, "%s\n", text);
	(void)fflush(p->to);
	free(text);
	json_decref(j);
}

static json_t *gpu_event(const char *event, const struct mig_node_gpu *g)
{
	return json_pack("{s:s, s:I, s:o}", "event", event, "gpu", (json_int_t)g->index, "uuid",
		json_any_text(g->uuid));
}

static bool is_ci_destroyed(const struct mig_plan *plan, uint32_t gi, uint32_t ci)
{
	for (uint32_t i = 0; i < plan->n; i++) {
		if (plan->steps[i].action == MIG_DESTROY_CI && plan->steps[i].gi == gi &&
			plan->steps[i].ci == ci)
			return true;
	}
	return false;
}

typedef void kept_ci_fn(void *arg, uint32_t gi, uint32_t ci);

static void visit_kept_cis(const struct mig_node_gpu *g, const struct mig_plan *plan,
	kept_ci_fn *visit, void *arg)
{
	for (uint32_t i = 0; i < g->state.n; i++) {
		const struct mig_gi *gi = &g->state.gi[i];

		for (uint32_t k = 0; k < gi->n_ci; k++) {
			if (!is_ci_destroyed(plan, gi->id, gi->ci[k].id))
				visit(arg, gi->id, gi->ci[k].id);
		}
	}
}

static void count_kept_ci(void *arg, uint32_t gi, uint32_t ci)
{
	(void)gi;
	(void)ci;
	++*(uint32_t *)arg;
}

static void list_kept_ci(void *arg, uint32_t gi, uint32_t ci)
{
	(void)json_array_append_new(arg,
		json_pack("{s:I, s:I}", "gi", (json_int_t)gi, "ci", (json_int_t)ci));
}

static const char *get_plan_mig_mode(const struct mig_plan *plan)
{
	for (uint32_t i = 0; i < plan->n; i++) {
		if (plan->steps[i].action == MIG_SET_MODE)
			return plan->steps[i].enabled ? "enable" : "disable";
	}
	return NULL;
}

static void write_mig_plan_event(struct mig_progress *p, const struct mig_node_gpu *g,
	const struct mig_plan *plan)
{
	json_t *j = gpu_event("planned", g), *stay = json_array(), *steps = json_array();
	const char *mode = get_plan_mig_mode(plan);
	char text[128];

	visit_kept_cis(g, plan, list_kept_ci, stay);
	(void)json_object_set_new(j, "steps", json_integer(plan->n));
	(void)json_object_set_new(j, "mode", mode ? json_string(mode) : json_null());
	(void)json_object_set_new(j, "stay", stay);
	for (uint32_t i = 0; i < plan->n && p->dry_run; i++) {
		mig_step_text(&g->layout, &plan->steps[i], text, sizeof(text));
		(void)json_array_append_new(steps, json_any_text(text));
	}
	if (p->dry_run)
		(void)json_object_set(j, "plan", steps);
	json_decref(steps);
	write_json_event(p, j);
}

void mig_progress_planned(struct mig_progress *p, const struct mig_node_gpu *g,
	const struct mig_plan *plan)
{
	uint32_t stay = 0;
	char text[128];

	if (!p->to)
		return;
	if (p->json) {
		write_mig_plan_event(p, g, plan);
		return;
	}
	visit_kept_cis(g, plan, count_kept_ci, &stay);
	(void)fprintf(p->to, "GPU %u %s: ", g->index, g->uuid);
	if (plan->n)
		(void)fprintf(p->to, "%u step%s, %u MIG device%s stay%s\n", plan->n,
			plan->n == 1 ? "" : "s", stay, stay == 1 ? "" : "s",
			stay == 1 ? "s" : "");
	else
		(void)fprintf(p->to, "is as wanted\n");
	for (uint32_t i = 0; i < plan->n && p->dry_run; i++) {
		mig_step_text(&g->layout, &plan->steps[i], text, sizeof(text));
		(void)fprintf(p->to, "  %u. %s\n", i + 1, text);
	}
	(void)fflush(p->to);
}

void mig_progress_step(struct mig_progress *p, const struct mig_node_gpu *g,
	const struct mig_step *s, uint32_t n, uint32_t of, bool undo)
{
	char text[128];

	if (!p->to)
		return;
	mig_step_text(&g->layout, s, text, sizeof(text));
	if (p->json) {
		json_t *j = gpu_event("step", g);

		(void)json_object_set_new(j, "n", json_integer(n));
		(void)json_object_set_new(j, "of", json_integer(of));
		(void)json_object_set_new(j, "text", json_any_text(text));
		if (undo)
			(void)json_object_set_new(j, "undo", json_true());
		write_json_event(p, j);
		return;
	}
	(void)fprintf(p->to, "GPU %u [%u/%u] %s%s\n", g->index, n, of, undo ? "back: " : "",
		text);
	(void)fflush(p->to);
}

void mig_progress_resetting(struct mig_progress *p, const struct mig_node_gpu *g)
{
	if (!p->to)
		return;
	if (p->json) {
		write_json_event(p, gpu_event("reset", g));
		return;
	}
	(void)fprintf(p->to, "GPU %u reset (%s)\n", g->index, g->bus_id);
	(void)fflush(p->to);
}

void mig_progress_gpu(struct mig_progress *p, const struct mig_node_gpu *g,
	enum mig_result result, const struct error *why)
{
	const char *name = mig_result_name(result), *reason = why ? why->msg : "";

	if (!p->to)
		return;
	if (p->json) {
		json_t *j = gpu_event("gpu", g);

		(void)json_object_set_new(j, "result", json_string(name));
		(void)json_object_set_new(j, "reason", json_any_text(reason));
		write_json_event(p, j);
		return;
	}
	/* An unchanged GPU was already reported with the plan, and a GPU that is left alone has a
	 * note. */
	if (result != MIG_RESULT_SAME && !(why && why->code == ERR_NOT_FOUND))
		(void)fprintf(p->to, "GPU %u: %s%s%s\n", g->index, name, *reason ? ": " : "",
			reason);
	(void)fflush(p->to);
}

void mig_progress_hook(struct mig_progress *p, const char *name, const char *command)
{
	if (!p->to)
		return;
	if (p->json) {
		write_json_event(p, json_pack("{s:s, s:s, s:o}", "event", "hook", "name", name,
					    "command", json_any_text(command)));
		return;
	}
	(void)fprintf(p->to, "hook %s: %s\n", name, command);
	(void)fflush(p->to);
}

void mig_progress_note(struct mig_progress *p, const char *text)
{
	if (p->json)
		write_json_event(p,
			json_pack("{s:s, s:o}", "event", "note", "text", json_any_text(text)));
	else
		(void)fprintf(stderr, "note: %s\n", text);
}

void mig_progress_end(struct mig_progress *p, bool ok, const char *code, const char *reason,
	uint64_t nvml_calls)
{
	if (p->json)
		write_json_event(p, json_pack("{s:s, s:b, s:s, s:o, s:I}", "event", "end", "ok",
					    ok, "code", code, "reason", json_any_text(reason),
					    "nvml_calls", (json_int_t)nvml_calls));
}
