/* SPDX-License-Identifier: Apache-2.0 */
#include "config/read.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/time.h"

/* `health`, ours, and NVIDIA's two variables on top of it. */

#define PROBES_MAX         1000
#define PROBE_INTERVAL_MIN (100 * NS_PER_MS)
#define DAY_NS             (24 * 3600 * NS_PER_SEC)

static int read_span(struct reader *r, const struct yaml_node *top, const struct where *up,
	const char *key, uint64_t min_ns, uint64_t *ret)
{
	const struct where w = { up, key, 0 };
	const struct yaml_node *n = read_key(top, "health", key);
	char shown[YAML_SHOW_MAX];
	int64_t ns;

	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type != YAML_STR || !parse_duration(n->text, &ns))
		return read_fail(r, n, &w, ERR_INVALID,
			"expected a duration such as 30s or 1m30s, found %s",
			yaml_show(n, shown, sizeof(shown)));
	if (ns < (int64_t)min_ns || ns > (int64_t)(30 * DAY_NS))
		return read_fail(r, n, &w, ERR_INVALID,
			"expected a duration from %llums to 720h, found %s",
			(unsigned long long)(min_ns / NS_PER_MS), n->text);
	*ret = (uint64_t)ns;
	return 0;
}

/* A list of XID numbers or the word all, which sets *all. */
static int read_xids(struct reader *r, const struct yaml_node *top, const struct where *up,
	const char *key, bool act, bool *all)
{
	const struct where w = { up, key, 0 };
	const struct yaml_node *n = read_key(top, "health", key);
	struct health_policy *p = &r->c->health;
	char shown[YAML_SHOW_MAX];

	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type == YAML_STR && !strcmp(n->text, "all")) {
		*all = true;
		return 0;
	}
	if (n->type != YAML_LIST)
		return read_fail(r, n, &w, ERR_INVALID,
			"expected a list of XIDs or all, found %s",
			yaml_show(n, shown, sizeof(shown)));
	for (size_t i = 0; i < n->n; i++) {
		const struct where item = { &w, NULL, i };
		uint32_t xid = 0;
		int set = read_range(r, n->items[i], &item, 1, UINT32_MAX - 1, &xid);

		if (set < 0)
			return -1;
		if (!set)
			return read_type_error(r, n->items[i], &item, "a whole number", "int");
		for (size_t k = 0; k < p->n_rules; k++) {
			if (p->rules[k].xid == xid)
				return read_fail(r, n->items[i], &item, ERR_INVALID,
					"XID %u is already in %s", xid,
					p->rules[k].act ? "actXids" : "ignoreXids");
		}
		if (p->n_rules == XID_LIST_MAX)
			return read_fail(r, n->items[i], &item, ERR_LIMIT,
				"expected at most %d XIDs in ignoreXids and actXids together",
				XID_LIST_MAX);
		p->rules[p->n_rules++] = (struct xid_rule){ xid, act };
	}
	return 0;
}

static int read_environment(struct reader *r)
{
	CLEANUP(strv_fini) struct strv skipped = STRV_INIT;
	const char *disable, *enable;

	if (!r->sources)
		return 0;
	disable = r->sources->env ? r->sources->env("DP_DISABLE_HEALTHCHECKS")
				  : getenv("DP_DISABLE_HEALTHCHECKS");
	enable = r->sources->env ? r->sources->env("DP_ENABLE_HEALTHCHECKS")
				 : getenv("DP_ENABLE_HEALTHCHECKS");
	if (health_policy_env(&r->c->health, disable, enable, &skipped, r->err) < 0)
		return -1;
	for (size_t i = 0; r->warnings && i < skipped.n && i < CONFIG_WARNINGS_MAX; i++) {
		char text[160];

		(void)snprintf(text, sizeof(text),
			"$DP_DISABLE_HEALTHCHECKS, $DP_ENABLE_HEALTHCHECKS: skipped '%.60s': expected "
			"an XID number",
			skipped.v[i]);
		if (strv_add(r->warnings, text, r->err) < 0)
			return -1;
	}
	return 0;
}

int read_health(struct reader *r, const struct yaml_node *top)
{
	const struct where w = { NULL, "health", 0 }, recovery = { &w, "recovery", 0 };
	const struct where probes = { &w, "probes", 0 }, max = { &w, "maxCooldown", 0 };
	struct health_policy *p = &r->c->health;
	const struct yaml_node *n = read_key(top, "", "health");
	int set = read_object(r, n, &w, "health");

	if (set < 0)
		return -1;
	if (!set)
		return read_environment(r);
	if (read_on(r, read_bool(r, read_key(n, "health", "recovery"), &recovery,
			       &p->recovery)) < 0 ||
		read_on(r, read_span(r, n, &w, "cooldown", 0, &p->cooldown_ns)) < 0 ||
		read_on(r, read_span(r, n, &w, "resetCooldown", 0, &p->reset_cooldown_ns)) <
			0 ||
		read_on(r, read_span(r, n, &w, "maxCooldown", 0, &p->max_cooldown_ns)) < 0 ||
		read_on(r, read_range(r, read_key(n, "health", "probes"), &probes, 1,
				   PROBES_MAX, &p->probes_needed)) < 0 ||
		read_on(r, read_span(r, n, &w, "probeInterval", PROBE_INTERVAL_MIN,
				   &p->probe_interval_ns)) < 0 ||
		read_on(r, read_span(r, n, &w, "forgetAfter", 0, &p->forget_after_ns)) < 0 ||
		read_on(r, read_xids(r, n, &w, "ignoreXids", false, &p->disabled)) < 0 ||
		read_on(r, read_xids(r, n, &w, "actXids", true, &p->act_on_all)) < 0)
		return -1;
	if (r->n_mistakes) /* what is compared may not be what was meant */
		return 0;
	if (p->max_cooldown_ns < p->cooldown_ns || p->max_cooldown_ns < p->reset_cooldown_ns)
		return read_fail(r, read_key(n, "health", "maxCooldown") ?: n, &max,
			ERR_INVALID,
			"expected a duration that is not shorter than cooldown and resetCooldown");
	return read_environment(r);
}
