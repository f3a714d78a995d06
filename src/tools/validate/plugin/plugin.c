/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The device plugin: what does the node offer, and is that enough? The agent knows which resources it
 * registered and how many devices are healthy. Without an agent another plugin may serve the node;
 * then the kubelet reports what can be allocated. The check creates no pod.
 */
#include "lib/base/paths.h"
#include "tools/validate/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/parse.h"
#include "tools/validate/plugin/resources.h"

bool validate_require_parse(const char *text, char *ret_name, size_t cap, uint64_t *ret_count)
{
	const char *eq = strchr(text, '=');
	size_t len = eq ? (size_t)(eq - text) : strlen(text);

	if (len == 0 || len >= cap)
		return false;
	memcpy(ret_name, text, len);
	ret_name[len] = '\0';
	*ret_count = 1;
	return !eq || parse_u64(eq + 1, ret_count);
}

static bool is_required(void *arg, const char *resource)
{
	const struct validate_settings *s = arg;
	char name[OFFER_NAME_MAX];
	uint64_t count;

	for (size_t i = 0; i < s->require.n; i++) {
		if (validate_require_parse(s->require.v[i], name, sizeof(name), &count) &&
			strcmp(name, resource) == 0)
			return true;
	}
	return false;
}

static uint64_t healthy_of(const struct offers *o, const char *name)
{
	for (size_t i = 0; i < o->n; i++) {
		if (strcmp(o->v[i].name, name) == 0)
			return o->v[i].healthy;
	}
	return 0;
}

static void add_resource_items(const struct offers *o, struct validate_report *r)
{
	for (size_t i = 0; i < o->n; i++) {
		const struct offered_resource *f = &o->v[i];
		struct validate_item *item = report_item(r, f->name);

		if (!item)
			return;
		(void)snprintf(item->detail, sizeof(item->detail),
			"%" PRIu64 " of %" PRIu64 " devices healthy", f->healthy, f->devices);
		if (f->state[0] && strcmp(f->state, "registered") != 0) {
			item->result = VALIDATE_FAIL;
			item->code = VALIDATE_CODE_NOT_REGISTERED;
			(void)snprintf(item->text, sizeof(item->text), "%s%s%s", f->state,
				f->reason[0] ? ": " : "", f->reason);
			report_set(r, VALIDATE_FAIL, item->code, "%s is not registered: %s",
				f->name, item->text);
		} else if (f->healthy < f->devices) {
			item->result = VALIDATE_CONDITION;
			item->code = VALIDATE_CODE_UNHEALTHY;
		}
	}
}

/* Whether the offers meet every requirement. */
static bool check_required(const struct validate_settings *s, const struct offers *o,
	struct validate_report *r)
{
	char name[OFFER_NAME_MAX];
	uint64_t count, healthy;

	for (size_t i = 0; i < s->require.n; i++) {
		if (!validate_require_parse(s->require.v[i], name, sizeof(name), &count)) {
			report_set(r, VALIDATE_FAIL, VALIDATE_CODE_INTERNAL,
				"'%s' is not RESOURCE or RESOURCE=COUNT", s->require.v[i]);
			return false;
		}
		healthy = healthy_of(o, name);
		if (healthy >= count)
			continue;
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_TOO_FEW,
			"%s has %" PRIu64 " healthy devices, expected at least %" PRIu64, name,
			healthy, count);
		return false;
	}
	return true;
}

static void conclude_plugin_report(const struct offers *o, bool from_agent,
	struct validate_report *r)
{
	uint64_t devices = 0, healthy = 0;
	char text[160];

	for (size_t i = 0; i < o->n; i++) {
		devices += o->v[i].devices;
		healthy += o->v[i].healthy;
	}
	(void)snprintf(text, sizeof(text), "%zu resource%s with %" PRIu64 " healthy device%s",
		o->n, o->n == 1 ? "" : "s", healthy, healthy == 1 ? "" : "s");
	if (healthy == 0)
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_NO_RESOURCES,
			"GPU resources are not offered by the node: %s", text);
	else if (healthy < devices)
		report_set(r, VALIDATE_CONDITION, VALIDATE_CODE_UNHEALTHY,
			"%s, and %" PRIu64 " that are not", text, devices - healthy);
	else if (!from_agent)
		report_set(r, VALIDATE_CONDITION, VALIDATE_CODE_FROM_KUBELET,
			"the kubelet can give out %s", text);
	else
		report_set(r, VALIDATE_PASS, VALIDATE_CODE_OK, "%s", text);
}

void validate_plugin(const struct validate_settings *s, struct validate_report *r)
{
	const char *kubelet_dir = or_default(s->kubelet_dir, DEFAULT_KUBELET_DIR);
	CLEANUP(freep) struct offers *o = calloc(1, sizeof(*o));
	struct error err = ERROR_INIT, why = ERROR_INIT;
	struct validate_settings *arg = NULL;
	bool from_agent;

	if (!o) {
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_INTERNAL, "out of memory");
		return;
	}
	memcpy(&arg, &s, sizeof(arg));
	from_agent = offers_of_agent(o, or_default(s->run_dir, DEFAULT_RUN_DIR), &err) == 0;
	if (!from_agent && err.code != ERR_UNAVAILABLE) {
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_NO_PLUGIN, "%s", err.msg);
		return;
	}
	if (!from_agent && offers_of_kubelet(o, kubelet_dir, is_required, arg, &why) < 0) {
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_NO_PLUGIN,
			"no agent (%.180s) and no kubelet (%.180s) answers", err.msg, why.msg);
		return;
	}
	add_resource_items(o, r);
	if (r->result != VALIDATE_FAIL && check_required(s, o, r))
		conclude_plugin_report(o, from_agent, r);
}
