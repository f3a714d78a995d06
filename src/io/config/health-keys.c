/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/read.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/parse.h"
#include "lib/base/time.h"

/* `health`, our key, and then NVIDIA's two variables. */

/* @top is the object of @pattern. Returns 1 with *ret, 0 if the key is absent. */
static int read_span(struct config_reader *r, const struct yaml_node *top, const char *pattern,
	const struct config_value_path *up, const char *key, uint64_t *ret)
{
	const struct config_value_path w = { up, key, 0 };
	const struct yaml_node *n = read_find_key(top, pattern, key);
	const struct field_range *range;
	char path[80], shown[YAML_SHOW_MAX];
	int64_t ns;

	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type != YAML_STR || !parse_duration(n->text, &ns))
		return read_fail(r, n, &w, ERR_INVALID,
			"expected a duration such as 30s or 1m30s, found %s",
			yaml_show(n, shown, sizeof(shown)));
	(void)snprintf(path, sizeof(path), "%s.%s", pattern, key);
	range = field_range(path);
	if (ns < range->min || ns > range->max)
		return read_fail(r, n, &w, ERR_INVALID,
			"expected a duration from %llums to 720h, found %s",
			(unsigned long long)(range->min / (int64_t)NS_PER_MS), n->text);
	*ret = (uint64_t)ns;
	return 1;
}

/* One XID number. */
static int read_xid(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, uint32_t *ret)
{
	static const struct field_range xids = { "", 1, UINT32_MAX - 1 };
	int set = read_range(r, n, path, &xids, ret);

	return set ? set : read_type_error(r, n, path, "a whole number", "int");
}

/* A list of XIDs, or the word "all", which sets *all. */
static int read_xids(struct config_reader *r, const struct yaml_node *top,
	const struct config_value_path *up, const char *key, bool act, bool *all)
{
	const struct config_value_path path = { up, key, 0 };
	const struct yaml_node *n = read_find_key(top, "health", key);
	struct health_policy *p = &r->c->health;
	char shown[YAML_SHOW_MAX];

	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type == YAML_STR && !strcmp(n->text, "all")) {
		*all = true;
		return 0;
	}
	if (n->type != YAML_LIST)
		return read_fail(r, n, &path, ERR_INVALID,
			"expected a list of XIDs or all, found %s",
			yaml_show(n, shown, sizeof(shown)));
	for (size_t i = 0; i < n->n; i++) {
		const struct config_value_path item = { &path, NULL, i };
		uint32_t xid = 0;

		if (read_xid(r, n->items[i], &item, &xid) < 0)
			return -1;
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

/* --- xidRules --- */

#define RULE "health.xidRules[]"

static int read_rule_xids(struct config_reader *r, const struct yaml_node *rule,
	const struct config_value_path *up, struct xid_rate *rate)
{
	const struct config_value_path path = { up, "xids", 0 };
	const struct yaml_node *n = read_find_key(rule, RULE, "xids");
	const struct health_policy *p = &r->c->health;
	char shown[YAML_SHOW_MAX];

	if (!n || n->type != YAML_LIST || n->n == 0)
		return read_fail(r, n ? n : rule, &path, ERR_INVALID,
			"expected a list of XIDs, found %s",
			n ? yaml_show(n, shown, sizeof(shown)) : "nothing");
	if (n->n > XID_RATE_XIDS_MAX)
		return read_fail(r, n, &path, ERR_LIMIT, "expected at most %d XIDs, found %zu",
			XID_RATE_XIDS_MAX, n->n);
	for (size_t i = 0; i < n->n; i++) {
		const struct config_value_path item = { &path, NULL, i };
		uint32_t xid = 0;

		if (read_xid(r, n->items[i], &item, &xid) < 0)
			return -1;
		for (size_t k = 0; k < p->n_rules; k++) {
			if (p->rules[k].xid == xid)
				return read_fail(r, n->items[i], &item, ERR_INVALID,
					"XID %u is already in %s, so it would never be counted",
					xid, p->rules[k].act ? "actXids" : "ignoreXids");
		}
		for (uint32_t k = 0; k < rate->n_xids; k++) {
			if (rate->xids[k] == xid)
				return read_fail(r, n->items[i], &item, ERR_INVALID,
					"XID %u is already in this rule", xid);
		}
		rate->xids[rate->n_xids++] = xid;
	}
	if (p->act_on_all)
		return read_fail(r, n, &path, ERR_INVALID,
			"actXids is all, so no XID would ever be counted");
	return 0;
}

static int read_rule(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path)
{
	const struct config_value_path count = { path, "count", 0 },
				       policy = { path, "policy", 0 };
	const struct config_value_path within = { path, "within", 0 };
	struct xid_rate rate = { .action = HEALTH_ACT };
	int set = read_object(r, n, path, RULE), word = 1;

	if (set < 0)
		return -1;
	if (!set)
		return read_type_error(r, n, path, "an object", "struct");
	if (read_rule_xids(r, n, path, &rate) < 0)
		return -1;
	set = read_range(r, read_find_key(n, RULE, "count"), &count, field_range(RULE ".count"),
		&rate.count);
	if (set == 0)
		return read_fail(r, n, &count, ERR_INVALID,
			"expected a whole number from 1 to %d, found nothing",
			XID_RATE_COUNT_MAX);
	if (set < 0)
		return -1;
	set = read_span(r, n, RULE, path, "within", &rate.within_ns);
	if (set == 0)
		return read_fail(r, n, &within, ERR_INVALID,
			"expected a duration such as 10m, found nothing");
	if (set < 0 || read_word_value(r, read_find_key(n, RULE, "policy"), &policy,
			       &words_rule_policy, &word) < 0)
		return -1;
	rate.action = (enum health_action)(word + HEALTH_WARN);
	return health_policy_add_rate(&r->c->health, &rate, r->err);
}

static int read_rules(struct config_reader *r, const struct yaml_node *top,
	const struct config_value_path *up)
{
	const struct config_value_path path = { up, "xidRules", 0 };
	const struct yaml_node *n = read_find_key(top, "health", "xidRules");
	char shown[YAML_SHOW_MAX];

	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type != YAML_LIST)
		return read_fail(r, n, &path, ERR_INVALID, "expected a list of rules, found %s",
			yaml_show(n, shown, sizeof(shown)));
	if (n->n > XID_RATES_MAX)
		return read_fail(r, n, &path, ERR_LIMIT, "expected at most %d rules, found %zu",
			XID_RATES_MAX, n->n);
	for (size_t i = 0; i < n->n; i++) {
		const struct config_value_path item = { &path, NULL, i };

		if (read_on(r, read_rule(r, n->items[i], &item)) < 0)
			return -1;
	}
	return 0;
}

/* --- health signals --- */

static int read_signals(struct config_reader *r, const struct yaml_node *top,
	const struct config_value_path *up)
{
	const struct config_value_path path = { up, "signals", 0 };
	const struct yaml_node *n = read_find_key(top, "health", "signals");
	int set = read_object(r, n, &path, "health.signals");

	if (set <= 0)
		return set;
	for (int i = 0; i < GPU_SIGNAL_COUNT_; i++) {
		const char *key = health_signals[i].name;
		const struct config_value_path at = { &path, key, 0 };
		int word = (int)r->c->health.signals[i];

		if (read_on(r, read_word_value(r, read_find_key(n, "health.signals", key), &at,
				       &words_signal_policy, &word)) < 0)
			return -1;
		r->c->health.signals[i] = (enum health_action)word;
	}
	return 0;
}

static int read_environment(struct config_reader *r)
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

int read_health_keys(struct config_reader *r, const struct yaml_node *top)
{
	const struct config_value_path path = { NULL, "health", 0 },
				       recovery = { &path, "recovery", 0 };
	const struct config_value_path probes = { &path, "probes", 0 },
				       max = { &path, "maxCooldown", 0 };
	struct health_policy *p = &r->c->health;
	const struct yaml_node *n = read_find_key(top, "", "health");
	int set = read_object(r, n, &path, "health");

	if (set < 0)
		return -1;
	if (!set)
		return read_environment(r);
	if (read_on(r, read_bool(r, read_find_key(n, "health", "recovery"), &recovery,
			       &p->recovery)) < 0 ||
		read_on(r, read_span(r, n, "health", &path, "cooldown", &p->cooldown_ns)) < 0 ||
		read_on(r, read_span(r, n, "health", &path, "resetCooldown",
				   &p->reset_cooldown_ns)) < 0 ||
		read_on(r, read_span(r, n, "health", &path, "maxCooldown",
				   &p->max_cooldown_ns)) < 0 ||
		read_on(r, read_range(r, read_find_key(n, "health", "probes"), &probes,
				   field_range("health.probes"), &p->probes_needed)) < 0 ||
		read_on(r, read_span(r, n, "health", &path, "probeInterval",
				   &p->probe_interval_ns)) < 0 ||
		read_on(r, read_span(r, n, "health", &path, "forgetAfter",
				   &p->forget_after_ns)) < 0 ||
		read_on(r, read_xids(r, n, &path, "ignoreXids", false, &p->disabled)) < 0 ||
		read_on(r, read_xids(r, n, &path, "actXids", true, &p->act_on_all)) < 0 ||
		read_on(r, read_rules(r, n, &path)) < 0 ||
		read_on(r, read_signals(r, n, &path)) < 0)
		return -1;
	if (r->n_mistakes) /* after mistakes, the values to compare may be unintended */
		return 0;
	if (p->max_cooldown_ns < p->cooldown_ns || p->max_cooldown_ns < p->reset_cooldown_ns)
		return read_fail(r, read_find_key(n, "health", "maxCooldown") ?: n, &max,
			ERR_INVALID,
			"expected a duration that is not shorter than cooldown and resetCooldown");
	return read_environment(r);
}
