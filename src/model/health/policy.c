/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which signals and XIDs make a GPU unhealthy: the defaults, NVIDIA's variables, and the rates of the config
 * (health.h).
 */
#include "model/health/health.h"

#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <string.h>
#include <strings.h>

/* --- signals --- */

/*
 * The default policies.
 *  - Unhealthy: NVML or the driver asks for an action that takes the GPU from its users (replacement,
 *    reset, reboot, drain), or new containers cannot start there (mismatch).
 *  - Warning: the error was contained, and the repair can wait for a maintenance.
 *  - Ignore: a lifetime counter never returns to 0, not even after a repair.
 */
const struct health_signal health_signals[GPU_SIGNAL_COUNT_] = {
	[GPU_SIGNAL_REMAP_FAILED] = { "rowRemapFailed",
		"a memory row could not be remapped, replace the GPU", HEALTH_ACT,
		"RowRemapFailed" },
	[GPU_SIGNAL_REMAP_PENDING] = { "rowRemapPending",
		"a remapped memory row takes effect with the next GPU reset", HEALTH_WARN,
		"RowRemapPending" },
	[GPU_SIGNAL_PAGES_PENDING] = { "retiredPagesPending",
		"a retired memory page takes effect with the next reboot", HEALTH_WARN,
		"RetiredPagesPending" },
	[GPU_SIGNAL_ECC_VOLATILE] = { "eccUncorrectedVolatile",
		"uncorrected ECC errors since the driver was loaded", HEALTH_WARN,
		"UncorrectedECCErrors" },
	[GPU_SIGNAL_ECC_AGGREGATE] = { "eccUncorrectedAggregate",
		"uncorrected ECC errors in the GPU's lifetime", HEALTH_IGNORE,
		"UncorrectedECCErrors" },
	[GPU_SIGNAL_DRIVER_MISMATCH] = { "driverMismatch",
		"the driver's library on disk does not fit the loaded kernel module, reboot the node",
		HEALTH_ACT, "DriverLibraryMismatch" },
	[GPU_SIGNAL_RESET] = { "gpuReset", "the driver asks for a GPU reset", HEALTH_ACT,
		"GPUResetRequired" },
	[GPU_SIGNAL_REBOOT] = { "nodeReboot", "the driver asks for a reboot of the node",
		HEALTH_ACT, "NodeRebootRequired" },
	[GPU_SIGNAL_DRAIN_P2P] = { "drainP2P",
		"the driver asks for this GPU to be drained of peer-to-peer work", HEALTH_ACT,
		NULL },
	[GPU_SIGNAL_DRAIN_RESET] = { "drainAndReset",
		"the driver asks for this GPU to be drained and reset", HEALTH_ACT,
		"GPUResetRequired" },
};

/* --- XIDs --- */

void health_policy_default(struct health_policy *p)
{
	*p = (struct health_policy){
		.recovery = true,
		.cooldown_ns = 30 * NS_PER_SEC,
		.reset_cooldown_ns = 600 * NS_PER_SEC,
		.max_cooldown_ns = 3600 * NS_PER_SEC,
		.probes_needed = 2,
		.probe_interval_ns = 10 * NS_PER_SEC,
		.forget_after_ns = 600 * NS_PER_SEC,
	};
	for (size_t i = 0; i < GPU_SIGNAL_COUNT_; i++)
		p->signals[i] = health_signals[i].def;
}

/* FNV-1a over the members: the struct has padding. */
static uint64_t hash_rate_member(uint64_t h, uint64_t v)
{
	return (h ^ v) * UINT64_C(0x100000001b3);
}

static uint64_t rates_id(const struct health_policy *p)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < p->n_rates; i++) {
		const struct xid_rate *r = &p->rates[i];

		for (uint32_t k = 0; k < r->n_xids; k++)
			h = hash_rate_member(h, r->xids[k]);
		h = hash_rate_member(
			hash_rate_member(hash_rate_member(h, r->count), r->within_ns),
			r->action);
	}
	return h;
}

int health_policy_add_rate(struct health_policy *p, const struct xid_rate *rate,
	struct error *err)
{
	if (p->n_rates == XID_RATES_MAX)
		return error_set(err, ERR_LIMIT, "more than %d rules", XID_RATES_MAX);
	p->rates[p->n_rates++] = *rate;
	p->rates_id = rates_id(p);
	return 0;
}

static int rule_set(struct health_policy *p, uint32_t xid, bool act, struct error *err)
{
	for (size_t i = 0; i < p->n_rules; i++) {
		if (p->rules[i].xid == xid) {
			p->rules[i].act = act;
			return 0;
		}
	}
	if (p->n_rules == XID_LIST_MAX)
		return error_set(err, ERR_LIMIT, "more than %d XIDs listed", XID_LIST_MAX);
	p->rules[p->n_rules++] = (struct xid_rule){ .xid = xid, .act = act };
	return 0;
}

/* Adds one comma-separated list. *ret_all becomes true if the list means every XID. 0 means that too, as
 * upstream. */
static int list_add(struct health_policy *p, const char *text, bool act, bool *ret_all,
	struct strv *ret_skipped, struct error *err)
{
	CLEANUP(strv_fini) struct strv list = STRV_INIT;

	if (strv_split(&list, text, ',', err) < 0)
		return -1;
	for (size_t i = 0; i < list.n; i++) {
		const char *item = list.v[i];
		uint32_t xid;

		if (!item[0])
			continue;
		if (strcasecmp(item, "all") == 0 || strcasecmp(item, "xids") == 0) {
			*ret_all = true;
		} else if (!parse_u32(item, &xid)) {
			if (ret_skipped && strv_add(ret_skipped, item, err) < 0)
				return -1;
		} else if (xid == 0) {
			*ret_all = true;
		} else if (rule_set(p, xid, act, err) < 0) {
			return -1;
		}
	}
	return 0;
}

int health_policy_env(struct health_policy *p, const char *disable, const char *enable,
	struct strv *ret_skipped, struct error *err)
{
	struct health_policy next = *p;

	/* Enable second: it wins for an XID in both lists. */
	if (disable && list_add(&next, disable, /* act= */ false, &next.disabled, ret_skipped,
			       err) < 0)
		return error_prefix(err, "DP_DISABLE_HEALTHCHECKS");
	if (enable && list_add(&next, enable, /* act= */ true, &next.act_on_all, ret_skipped,
			      err) < 0)
		return error_prefix(err, "DP_ENABLE_HEALTHCHECKS");
	*p = next;
	return 0;
}

static bool has_rate_for_xid(const struct health_policy *p, uint32_t xid)
{
	for (size_t i = 0; i < p->n_rates; i++)
		for (uint32_t k = 0; k < p->rates[i].n_xids; k++)
			if (p->rates[i].xids[k] == xid)
				return true;
	return false;
}

enum xid_verdict health_policy_verdict(const struct health_policy *p, uint32_t xid)
{
	if (p->act_on_all)
		return XID_ACTED;
	for (size_t i = 0; i < p->n_rules; i++)
		if (p->rules[i].xid == xid)
			return p->rules[i].act ? XID_ACTED : XID_IGNORED;
	if (has_rate_for_xid(p, xid))
		return XID_COUNTED;
	return p->disabled || xid_class(xid) == XID_APPLICATION ? XID_IGNORED : XID_ACTED;
}

bool health_policy_acts(const struct health_policy *p, uint32_t xid)
{
	return health_policy_verdict(p, xid) == XID_ACTED;
}
