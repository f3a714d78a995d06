/* SPDX-License-Identifier: Apache-2.0 */
#include "model/health/repair.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Reasons of faults. An unreadable GPU gives no verdict: NVML may be between two driver versions. */
static const char *const fault_reasons[] = {
	[GPU_OK] = NULL,
	[GPU_FAULT_FIELD] = NULL,
	[GPU_FAULT_LOST] = "GPULost",
	[GPU_FAULT_RESET] = "GPUResetRequired",
	[GPU_FAULT_STUCK] = "GPUStuck",
	[GPU_FAULT_GONE] = "GPUGone",
};

static const char *signal_reason(const struct health *h, const struct health_policy *p)
{
	uint32_t raised = health_raised(h, p, HEALTH_ACT);

	for (int i = 0; i < GPU_SIGNAL_COUNT_; i++)
		if (raised & UINT32_C(1) << i && health_signals[i].repair)
			return health_signals[i].repair;
	return NULL;
}

static void xid_reason(uint32_t xid, char *reason, size_t cap)
{
	(void)snprintf(reason, cap, "NvidiaXID%" PRIu32 "Error", xid);
}

/* Whether the GPU or MIG device of @h needs a repair. The XID is first: repair tools select by its number. */
static bool needs_repair(const struct health *h, const struct health_policy *p, char *reason,
	size_t cap)
{
	const char *why;

	if (h->state != HEALTH_UNHEALTHY)
		return false;
	if (h->cause_xid && h->cause >= XID_RESET) {
		xid_reason(h->cause_xid, reason, cap);
		return true;
	}
	why = fault_reasons[h->fault];
	if (!why)
		why = signal_reason(h, p);
	if (why)
		(void)snprintf(reason, cap, "%s", why);
	return why != NULL;
}

/* The driver was upgraded before the first probe, so no GPU is known that has the signal. */
static bool is_unfit(const struct node *n, const struct health_policy *p, char *reason,
	size_t cap)
{
	const struct health h = { .raised = UINT32_C(1) << GPU_SIGNAL_DRIVER_MISMATCH };
	const char *why = n->driver_mismatch ? signal_reason(&h, p) : NULL;

	if (why)
		(void)snprintf(reason, cap, "%s", why);
	return why != NULL;
}

void node_repair(const struct node *n, const struct health_policy *p, struct node_repair *ret)
{
	char reason[sizeof(ret->reason)];
	uint32_t needed = 0;
	bool blind = !n->inv;

	*ret = (struct node_repair){ .state = REPAIR_UNKNOWN };
	for (uint32_t i = 0; n->inv && i < n->inv->n; i++) {
		const struct node_gpu *g = &n->gpus[i];

		blind |= g->health.fault == GPU_FAULT_FIELD;
		if (!needs_repair(&g->health, p, reason, sizeof(reason)) || needed++ > 0)
			continue;
		(void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
		(void)snprintf(ret->message, sizeof(ret->message), "GPU %" PRIu32 " (%s): %s",
			g->gpu.index, g->gpu.uuid, g->health.reason);
	}
	for (uint32_t i = 0; n->inv && i < n->inv->n_mig; i++) {
		const struct gpu_mig *m = &n->inv->mig[i];

		/* A fault of the GPU is already reported for the GPU. */
		if (!health_ok(&n->gpus[m->gpu].health) ||
			!needs_repair(&n->migs[i], p, reason, sizeof(reason)) || needed++ > 0)
			continue;
		(void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
		(void)snprintf(ret->message, sizeof(ret->message),
			"MIG device %" PRIu32 ":%" PRIu32 " (%s): %s",
			n->gpus[m->gpu].gpu.index, m->index, m->uuid, n->migs[i].reason);
	}
	/* A forgotten GPU is still missing. The waiting time of a repair tool may not be over. */
	for (uint32_t i = 0; i < n->n_missing; i++) {
		const struct node_missing *m = &n->missing[i];

		if (needed++ > 0)
			continue;
		if (m->xid)
			xid_reason(m->xid, ret->reason, sizeof(ret->reason));
		else
			(void)snprintf(ret->reason, sizeof(ret->reason), "%s",
				fault_reasons[GPU_FAULT_GONE]);
		(void)snprintf(ret->message, sizeof(ret->message),
			"GPU %" PRIu32 " (%s): GPU is gone: NVML does not list it any more",
			m->index, m->uuid);
	}
	if (!needed && is_unfit(n, p, ret->reason, sizeof(ret->reason))) {
		needed++;
		(void)snprintf(ret->message, sizeof(ret->message), "%s",
			health_signals[GPU_SIGNAL_DRIVER_MISMATCH].text);
	}
	if (needed > 1) {
		size_t len = strlen(ret->message);

		(void)snprintf(ret->message + len, sizeof(ret->message) - len,
			"; and %" PRIu32 " more", needed - 1);
	}
	ret->state = needed ? REPAIR_NEEDED : blind ? REPAIR_UNKNOWN : REPAIR_NONE;
}
