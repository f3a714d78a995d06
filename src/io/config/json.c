/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/json.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/text.h"
#include "io/config/read.h"

/* As in jansson, every function here returns a new reference, or NULL for lack of memory. */

json_t *json_any_text(const char *text)
{
	json_t *j = json_string(text);
	CLEANUP(freep) char *copy = NULL;

	if (j)
		return j;
	copy = strdup(text);
	if (copy)
		utf8_make_valid(copy);
	return copy ? json_string(copy) : NULL;
}

/* Takes ownership of @value. False: no memory. */
static bool set_json_member(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value) == 0;
}

static json_t *build_duration_json(int64_t ns)
{
	char text[DURATION_TEXT_MAX];

	duration_text(ns, text);
	return json_any_text(text);
}

static json_t *build_strategies_json(const struct field_words *words, unsigned set)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < words->n; i++) {
		if (set & 1U << i)
			(void)json_array_append_new(list, json_any_text(words->words[i]));
	}
	return list;
}

static json_t *build_field_json(const struct config *c, const struct config_field *f)
{
	const char *at = (const char *)c + f->offset;

	switch (f->type) {
	case FIELD_STR:
		return json_any_text(*(char *const *)at);
	case FIELD_BOOL:
		return json_boolean(*(const bool *)at);
	case FIELD_INT:
		return json_integer(*(const uint32_t *)at);
	case FIELD_DURATION:
		return build_duration_json(*(const int64_t *)at);
	case FIELD_WORD:
		return json_any_text(f->words->words[*(const int *)at]);
	case FIELD_STRATEGIES:
		return build_strategies_json(f->words, *(const unsigned *)at);
	case FIELD_IMEX:
		return *(const bool *)at ? json_pack("[i]", 0) : json_array();
	case FIELD_OBJECT:
	case FIELD_LIST:
	case FIELD_NAME:
	case FIELD_MEMORY:
	case FIELD_DEVICES:
	case FIELD_XIDS:
		break;
	}
	return json_null();
}

static json_t *build_patterns_json(const struct resource_pattern *p, size_t n, bool builtin)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < n; i++)
		(void)json_array_append_new(list,
			json_pack("{s:o, s:s}", "pattern", json_any_text(p[i].pattern), "name",
				p[i].name));
	if (list && builtin)
		(void)json_array_append_new(list,
			json_pack("{s:s, s:s}", "pattern", "*", "name", "nvidia.com/gpu"));
	return list;
}

static json_t *build_resources_json(const struct config *c)
{
	json_t *o = json_object();

	if (o) {
		(void)set_json_member(o, "gpus",
			build_patterns_json(c->gpu_patterns, c->n_gpu_patterns, true));
		if (c->n_mig_patterns || c->mig_strategy == MIG_STRATEGY_SINGLE)
			(void)set_json_member(o, "mig",
				build_patterns_json(c->mig_patterns, c->n_mig_patterns,
					c->mig_strategy == MIG_STRATEGY_SINGLE));
	}
	return o;
}

static json_t *build_texts_json(const struct strv *list)
{
	json_t *a = json_array();

	for (size_t i = 0; a && i < list->n; i++)
		(void)json_array_append_new(a, json_any_text(list->v[i]));
	return a;
}

#define MEMORY_TEXT_MAX 40

static const char *memory_text(const struct isolation *i, char ret[MEMORY_TEXT_MAX])
{
	(void)snprintf(ret, MEMORY_TEXT_MAX, "none");
	if (i->memory == ISOLATION_MEMORY_EQUAL)
		(void)snprintf(ret, MEMORY_TEXT_MAX, "equal");
	else if (i->memory == ISOLATION_MEMORY_PERMILLE)
		(void)snprintf(ret, MEMORY_TEXT_MAX, "%.15g%%", (double)i->memory_value / 10);
	else if (i->memory == ISOLATION_MEMORY_BYTES)
		(void)snprintf(ret, MEMORY_TEXT_MAX, "%llu",
			(unsigned long long)i->memory_value);
	return ret;
}

static void set_isolation_words(json_t *o, const struct isolation *i)
{
	(void)set_json_member(o, "compute", json_string(words_compute.words[i->compute]));
	(void)set_json_member(o, "class", json_string(words_class.words[i->class_]));
	(void)set_json_member(o, "unhooked", json_string(words_unhooked.words[i->unhooked]));
}

static json_t *build_isolation_json(const struct isolation *i)
{
	json_t *o = json_object();
	char memory[MEMORY_TEXT_MAX];

	if (o) {
		(void)set_json_member(o, "memory", json_string(memory_text(i, memory)));
		set_isolation_words(o, i);
	}
	return o;
}

static json_t *build_replicated_json(const struct replicated *e)
{
	json_t *o = json_object();

	if (!o)
		return NULL;
	(void)set_json_member(o, "name", json_string(e->name));
	if (*e->rename)
		(void)set_json_member(o, "rename", json_string(e->rename));
	(void)set_json_member(o, "devices",
		e->devices == DEVICES_ALL     ? json_string("all")
		: e->devices == DEVICES_COUNT ? json_integer(e->count)
					      : build_texts_json(&e->list));
	(void)set_json_member(o, "replicas", json_integer(e->replicas));
	if (e->isolation.present)
		(void)set_json_member(o, "isolation", build_isolation_json(&e->isolation));
	return o;
}

static json_t *build_sharing_kind_json(const struct sharing *s, enum sharing_strategy strategy)
{
	const struct sharing_kind *kind = &s->kinds[strategy];
	json_t *o = json_object(), *list = json_array();

	for (size_t i = 0; list && i < s->n_entries; i++)
		if (s->entries[i].strategy == strategy)
			(void)json_array_append_new(list,
				build_replicated_json(&s->entries[i]));
	if (o) {
		(void)set_json_member(o, "renameByDefault",
			json_boolean(kind->rename_by_default));
		(void)set_json_member(o, "failRequestsGreaterThanOne",
			json_boolean(kind->fail_requests_greater_than_one));
		if (strategy == SHARING_MPS && s->mps_exclusive)
			(void)set_json_member(o, "computeMode",
				json_string(words_compute_mode.words[1]));
		(void)set_json_member(o, "resources", list);
	} else {
		json_decref(list);
	}
	return o;
}

static json_t *build_profile_json(const struct slice_profile *p)
{
	json_t *o = json_object();
	char memory[MEMORY_TEXT_MAX];

	if (!o)
		return NULL;
	(void)set_json_member(o, "name", json_string(p->name));
	if (p->count)
		(void)set_json_member(o, "count", json_integer(p->count));
	if (p->isolation.memory != ISOLATION_MEMORY_NONE)
		(void)set_json_member(o, "memory",
			json_string(memory_text(&p->isolation, memory)));
	(void)set_json_member(o, "weight", json_integer(p->weight));
	set_isolation_words(o, &p->isolation);
	return o;
}

static json_t *build_slices_json(const struct config *c)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < c->n_slices; i++) {
		const struct slice_set *s = &c->slices[i];
		json_t *profiles = json_array(), *o;

		for (size_t k = 0; profiles && k < s->n_profiles; k++)
			(void)json_array_append_new(profiles,
				build_profile_json(&s->profiles[k]));
		o = json_pack("{s:s, s:o, s:o}", "name", s->name, "devices",
			s->product ? json_pack("{s:o}", "product", json_any_text(s->product))
			: s->devices == DEVICES_LIST ? build_texts_json(&s->list)
						     : json_string("all"),
			"profiles", profiles);
		if (o && s->mps)
			(void)set_json_member(o, "mps", json_true());
		(void)json_array_append_new(list, o);
	}
	return list;
}

static json_t *build_sharing_json(const struct config *c)
{
	const struct sharing *s = &c->sharing;
	json_t *o = json_object();

	if (o) {
		(void)set_json_member(o, "timeSlicing",
			sharing_has(s, SHARING_TIME_SLICING)
				? build_sharing_kind_json(s, SHARING_TIME_SLICING)
				: json_object());
		if (sharing_has(s, SHARING_MPS))
			(void)set_json_member(o, "mps",
				build_sharing_kind_json(s, SHARING_MPS));
		if (c->n_slices)
			(void)set_json_member(o, "slices", build_slices_json(c));
	}
	return o;
}

static json_t *build_xids_json(const struct health_policy *p, bool act)
{
	json_t *list;

	if (act ? p->act_on_all : p->disabled)
		return json_string("all");
	list = json_array();
	for (size_t i = 0; list && i < p->n_rules; i++) {
		if (p->rules[i].act == act)
			(void)json_array_append_new(list, json_integer(p->rules[i].xid));
	}
	return list;
}

static json_t *xid_rules(const struct health_policy *p)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < p->n_rates; i++) {
		const struct xid_rate *rate = &p->rates[i];
		json_t *o = json_object(), *numbers = json_array();

		for (uint32_t k = 0; numbers && k < rate->n_xids; k++)
			(void)json_array_append_new(numbers, json_integer(rate->xids[k]));
		(void)set_json_member(o, "xids", numbers);
		(void)set_json_member(o, "count", json_integer(rate->count));
		(void)set_json_member(o, "within",
			build_duration_json((int64_t)rate->within_ns));
		(void)set_json_member(o, "policy",
			json_string(words_signal_policy.words[rate->action]));
		(void)json_array_append_new(list, o);
	}
	return list;
}

/* True if @f has its default and NVIDIA's plugin would not print it then. */
static bool is_silent(const struct config *c, const struct config_field *f)
{
	bool gfd_default = !c->gfd.oneshot && !c->gfd.no_timestamp;
	const char *const defaults[] = { field_by_path("flags.gfd.outputFile")->def,
		field_by_path("flags.gfd.machineTypeFile")->def };

	if (strncmp(f->path, "flags.gfd.", 10) != 0)
		return false;
	return gfd_default && c->gfd.sleep_interval_ns == INT64_C(60000000000) &&
	       !strcmp(c->gfd.output_file, defaults[0]) &&
	       !strcmp(c->gfd.machine_type_file, defaults[1]);
}

/* The object with the key of @f; creates missing objects. Borrowed. */
static json_t *get_parent_object(json_t *top, const struct config_field *f)
{
	char key[32];
	const char *p = f->path, *dot;
	json_t *o = top;

	while (o && (dot = strchr(p, '.'))) {
		json_t *inner;

		(void)snprintf(key, sizeof(key), "%.*s", (int)(dot - p), p);
		inner = json_object_get(o, key);
		if (!inner && set_json_member(o, key, json_object()))
			inner = json_object_get(o, key);
		o = inner;
		p = dot + 1;
	}
	return o;
}

/* Whether a key with a default prints as null. The plugin has no flag for useNodeFeatureAPI: null unless
 * false. nvidiaCTKPath, once set, requests hooks: null unless set. */
static bool is_unset(const struct config *c, const struct config_field *f)
{
	if (!strcmp(f->path, "flags.useNodeFeatureAPI"))
		return c->gfd.use_node_feature_api;
	return !strcmp(f->path, "flags.plugin.nvidiaCTKPath") && !c->cdi_hook_path_set &&
	       *c->cdi_hook_path;
}

char *config_to_json(const struct config *c)
{
	json_t *top = json_object();
	bool good = top && set_json_member(top, "version", json_string("v1"));
	char *text;

	for (size_t i = 0; good && i < config_n_fields; i++) {
		const struct config_field *f = &config_fields[i];

		if (!strcmp(f->path, "resources"))
			good = set_json_member(top, f->path, build_resources_json(c));
		else if (!strcmp(f->path, "sharing"))
			good = set_json_member(top, f->path, build_sharing_json(c));
		else if (!strcmp(f->path, "health.ignoreXids"))
			good = set_json_member(get_parent_object(top, f), field_key(f),
				build_xids_json(&c->health, false));
		else if (!strcmp(f->path, "health.actXids"))
			good = set_json_member(get_parent_object(top, f), field_key(f),
				build_xids_json(&c->health, true));
		else if (!strcmp(f->path, "health.xidRules"))
			good = set_json_member(get_parent_object(top, f), field_key(f),
				xid_rules(&c->health));
		else if ((f->flags & FIELD_STORED) && !is_silent(c, f))
			good = set_json_member(get_parent_object(top, f), field_key(f),
				is_unset(c, f) ? json_null() : build_field_json(c, f));
	}
	text = good ? json_dumps(top, JSON_INDENT(2)) : NULL;
	json_decref(top);
	return text;
}
