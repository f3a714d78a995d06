/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/choice.h"

#include <string.h>

enum fallback { FALLBACK_NAMED, FALLBACK_SINGLE, FALLBACK_EMPTY, FALLBACK_UNKNOWN };

static const char *const fallback_names[] = {
	[FALLBACK_NAMED] = "named",
	[FALLBACK_SINGLE] = "single",
	[FALLBACK_EMPTY] = "empty",
};

static const char *const by_texts[] = {
	[CHOICE_LABEL] = "node label",
	[CHOICE_DEFAULT] = "default",
	[CHOICE_NAMED] = "fallback named",
	[CHOICE_SINGLE] = "fallback single",
	[CHOICE_EMPTY] = "fallback empty",
};

const char *config_choice_by_text(enum config_choice_by by)
{
	return by_texts[by];
}

bool config_entry_name_ok(const char *name)
{
	size_t len = strnlen(name, CONFIG_ENTRY_NAME_MAX);

	/* The kubelet swaps the content of a volume by names such as "..data". */
	return len > 0 && len < CONFIG_ENTRY_NAME_MAX && strncmp(name, "..", 2) != 0 &&
	       strcmp(name, ".") != 0 && !strchr(name, '/');
}

static enum fallback fallback_of(const char *word)
{
	enum fallback f = FALLBACK_NAMED;

	while (f < FALLBACK_UNKNOWN && strcmp(word, fallback_names[f]) != 0)
		f++;
	return f;
}

int config_fallbacks_check(const struct strv *fallbacks, struct error *err)
{
	for (size_t i = 0; i < fallbacks->n; i++) {
		/* An empty variable gives a list with one empty element. */
		if (*fallbacks->v[i] && fallback_of(fallbacks->v[i]) == FALLBACK_UNKNOWN)
			return error_set(err, ERR_INVALID,
				"unknown fallback strategy: %s; expected named, single or "
				"empty",
				fallbacks->v[i]);
	}
	return 0;
}

/* "a, b, c", truncated to the length that a message can hold. */
static void list_names(char *ret, size_t cap, const struct strv *names)
{
	static const char more[] = ", ...";
	size_t used = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < names->n; i++) {
		size_t len = strlen(names->v[i]);

		if (used + len + 2 + sizeof(more) > cap) {
			memcpy(ret + used, i ? more : more + 2,
				i ? sizeof(more) : sizeof(more) - 2);
			return;
		}
		if (i > 0) {
			memcpy(ret + used, ", ", 2);
			used += 2;
		}
		memcpy(ret + used, names->v[i], len + 1);
		used += len;
	}
}

static int choose_config_by_name(struct config_choice *ret,
	const struct config_choice_input *in, const char *name, enum config_choice_by by,
	struct error *err)
{
	char list[200];

	for (size_t i = 0; i < in->names->n; i++) {
		if (!strcmp(in->names->v[i], name)) {
			*ret = (struct config_choice){ .name = in->names->v[i], .by = by };
			return 0;
		}
	}
	list_names(list, sizeof(list), in->names);
	return error_set(err, ERR_NOT_FOUND,
		"specified config %.100s does not exist (from the %s); there are %s", name,
		by_texts[by], list);
}

static bool choose_fallback_config(struct config_choice *ret,
	const struct config_choice_input *in, enum fallback f)
{
	switch (f) {
	case FALLBACK_NAMED:
		return choose_config_by_name(ret, in, CONFIG_FALLBACK_DEFAULT, CHOICE_NAMED,
			       NULL) == 0;
	case FALLBACK_SINGLE:
		return in->names->n == 1 && choose_config_by_name(ret, in, in->names->v[0],
						    CHOICE_SINGLE, NULL) == 0;
	case FALLBACK_EMPTY:
		*ret = (struct config_choice){ .name = NULL, .by = CHOICE_EMPTY };
		return true;
	case FALLBACK_UNKNOWN:
		break;
	}
	return false;
}

static bool begins_empty(const struct config_choice_input *in)
{
	if (!in->undecided || (in->label && *in->label) ||
		(in->default_name && *in->default_name))
		return false;
	for (size_t i = 0; i < in->fallbacks->n; i++) {
		if (fallback_of(in->fallbacks->v[i]) == FALLBACK_EMPTY)
			return true;
	}
	return false;
}

int config_choose(struct config_choice *ret, const struct config_choice_input *in,
	struct error *err)
{
	char list[200];

	if (in->names->n == 0 && !begins_empty(in))
		return error_set(err, ERR_NOT_FOUND, "no configuration files available");
	if (in->label && *in->label)
		return choose_config_by_name(ret, in, in->label, CHOICE_LABEL, err);
	if (in->default_name && *in->default_name)
		return choose_config_by_name(ret, in, in->default_name, CHOICE_DEFAULT, err);
	for (size_t i = 0; i < in->fallbacks->n; i++) {
		if (choose_fallback_config(ret, in, fallback_of(in->fallbacks->v[i])))
			return 0;
	}
	list_names(list, sizeof(list), in->names);
	return error_set(err, ERR_NOT_FOUND,
		"no config was set, no default was provided, and all fallbacks failed; there are "
		"%s",
		list);
}
