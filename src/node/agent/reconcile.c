/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reconcile loop: decides the offer from the present facts and passes it to the parts (agent.h). One timer
 * starts the next round when something is due.
 */
#include "node/agent/internal.h"

#include "lib/base/array.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

#define DUE_MIN_MS 100 /* keeps a date in the past from spinning the loop */

/* The least time between two requests of a probe. */
#define ASK_AGAIN_NS NS_PER_SEC

/* --- decide --- */

/* Logs the lines of @now that @before lacks. */
static void log_news(const char *what, const struct strv *now, const struct strv *before)
{
	for (size_t i = 0; i < now->n; i++)
		if (!before || !strv_has(before, now->v[i]))
			log_warn(what, LOG_STR("reason", now->v[i]));
}

/*
 * Replaces the offer by a decision from the present facts. On an error (no memory, too many devices) the old offer
 * stays in force, with its own copy of the inventory.
 */
static void update_offer(struct agent *a)
{
	CLEANUP(offer_freep) struct offer *offer = NULL;
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct error err = ERROR_INIT;

	if (inventory_copy(&inv, a->facts.node.inv, &err) == 0)
		mig_apply_mask(&a->mig, inv);
	if (!inv || offer_new(&offer, inv, a->facts.config, &err) < 0) {
		if (strcmp(a->facts.offer_error.msg, err.msg) != 0)
			log_error("cannot decide what to offer, keeping the last",
				LOG_STR("reason", err.msg));
		a->facts.offer_error = err;
		return;
	}
	error_clear(&a->facts.offer_error);
	log_news("the config does not fit this node", &offer->warnings,
		a->facts.offered.offer ? &a->facts.offered.offer->warnings : NULL);
	log_news("not offered as configured", &offer->notes,
		a->facts.offered.offer ? &a->facts.offered.offer->notes : NULL);
	a->facts.offered.offer = offer_free(a->facts.offered.offer);
	a->facts.offered.inv = inventory_free(a->facts.offered.inv);
	a->facts.offered.offer = STEAL_PTR(offer);
	a->facts.offered.inv = STEAL_PTR(inv);
}

/* --- the timer --- */

static void on_due(uv_timer_t *t)
{
	struct agent *a = t->data;
	const struct health_policy *policy = &a->facts.config->health;
	uint64_t now = time_mono_ns();

	if (now >= node_due(&a->facts.node, policy)) {
		/* The config may not have fit because of a GPU that is now forgotten. */
		if (node_tick(&a->facts.node, policy, now))
			agent_config_gpus_changed(&a->config);
		a->gpus.probe_requested_ns = now;
		agent_probe(a);
	}
	wake_up(&a->wake);
}

/*
 * An answer of NVML may take long: NVML hangs, crashes, or is released. Until ASK_AGAIN_NS is over, the agent does
 * not request an overdue probe again.
 */
static uint64_t get_probe_due_ns(const struct agent *a, uint64_t now)
{
	uint64_t due = node_due(&a->facts.node, &a->facts.config->health);
	uint64_t again = a->gpus.probe_requested_ns + ASK_AGAIN_NS;

	return due <= now && a->gpus.probe_requested_ns && now < again ? again : due;
}

/* Milliseconds; UINT64_MAX: nothing is due. */
static uint64_t due_in(const struct agent *a)
{
	uint64_t now = time_mono_ns(), due = get_probe_due_ns(a, now);
	uint64_t kubelet = agent_kubelet_due(&a->kubelet, now), cdi = agent_cdi_due(&a->cdi);

	if (kubelet < due)
		due = kubelet;
	if (cdi < due)
		due = cdi;
	if (due == UINT64_MAX)
		return due;
	return due > now ? (due - now) / NS_PER_MS + DUE_MIN_MS : DUE_MIN_MS;
}

static void arm_reconcile_timer(struct agent *a)
{
	uint64_t ms = due_in(a);

	if (ms == UINT64_MAX)
		(void)uv_timer_stop(&a->due);
	else
		(void)uv_timer_start(&a->due, on_due, ms, 0);
}

/* Only moves the timer to an earlier time. Otherwise each probe would postpone a pending retry, for ever. */
void agent_set_due(struct agent *a)
{
	if (!uv_is_active((uv_handle_t *)&a->due) || due_in(a) < uv_timer_get_due_in(&a->due))
		arm_reconcile_timer(a);
}

void agent_reconcile(void *arg)
{
	struct agent *a = arg;

	a->facts.rounds++;
	if (!a->facts.node.inv) {
		/* A repair tool may wait for the reason why there are no GPUs. */
		cluster_sync(&a->cluster);
		return;
	}
	health_changes_log(&a->health_changes, &a->facts.node);
	/* Until a config is decided, nothing is offered: the first offer must be right. */
	if (a->facts.decided)
		update_offer(a);
	/* The kubelet may allocate a device as soon as it is offered, so what Allocate needs comes first. */
	agent_cdi_sync(&a->cdi);
	slices_sync(&a->slices);
	mps_sync(&a->mps);
	/* An old offer's positions do not fit the node's present GPUs, so the plugins keep their lists. */
	if (a->facts.offered.offer && a->facts.offer_error.code == ERR_NONE)
		agent_kubelet_sync(&a->kubelet);
	cluster_sync(&a->cluster);
	health_saver_save(&a->health_saver);
	arm_reconcile_timer(a);
}
