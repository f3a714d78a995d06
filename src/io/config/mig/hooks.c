/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/mig/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/*
 * The hooks file of mig-parted and the GPU clients file of k8s-mig-manager. mig-parted's decoder ignores
 * the version and unknown keys. A hook that silently does not run helps no operator, so both are errors
 * here. A hook without a command is an error, too.
 */

static const char *const known_hooks[] = { "apply-start", "pre-apply-mode", "pre-apply-config",
	"apply-exit" };

static int read_string(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, char **ret)
{
	const char *text = "";
	char *copy;

	if (n && read_text_value(r, n, path, /* strict= */ false, &text) < 0)
		return -1;
	copy = strdup(text);
	if (!copy)
		return error_nomem(r->err);
	*ret = copy;
	return 0;
}

static int read_strings(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, size_t max, struct strv *ret)
{
	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type != YAML_LIST)
		return mig_type_error(r, n, path, "a list of texts", "[]string");
	if (n->n > max)
		return read_fail(r, n, path, ERR_LIMIT, "expected at most %zu texts, found %zu",
			max, n->n);
	for (size_t i = 0; i < n->n; i++) {
		struct config_value_path item = { path, NULL, i };
		const char *text = "";

		if (read_text_value(r, n->items[i], &item, /* strict= */ false, &text) < 0 ||
			strv_add(ret, text, r->err) < 0)
			return -1;
	}
	return 0;
}

static int read_hook_env(struct config_reader *r, const struct yaml_pair *p,
	const struct config_value_path *up, struct strv *ret)
{
	const struct config_value_path path = { up, p->key->text, 0 };
	CLEANUP(freep) char *value = NULL, *both = NULL;

	if (!*p->key->text || strchr(p->key->text, '='))
		return read_fail(r, p->key, up, ERR_INVALID,
			"expected the name of a variable, found '%.60s'", p->key->text);
	if (read_string(r, p->value, &path, &value) < 0)
		return -1;
	if (asprintf(&both, "%s=%s", p->key->text, value) < 0) {
		both = NULL;
		return error_nomem(r->err);
	}
	return strv_add(ret, both, r->err);
}

static int read_envs(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct strv *ret)
{
	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type != YAML_OBJECT)
		return mig_type_error(r, n, path, "an object of names and values",
			"v1.EnvsMap");
	if (n->n > MIG_HOOK_WORDS_MAX)
		return read_fail(r, n, path, ERR_LIMIT,
			"expected at most %d variables, found %zu", MIG_HOOK_WORDS_MAX, n->n);
	for (size_t i = 0; i < n->n; i++) {
		if (read_hook_env(r, &n->pairs[i], path, ret) < 0)
			return -1;
	}
	strv_sort(ret);
	return 0;
}

static int read_hook(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_hook *h)
{
	if (n->type != YAML_OBJECT)
		return mig_type_error(r, n, path, "an object with a `command`", "v1.HookSpec");
	for (size_t i = 0; i < n->n; i++) {
		const struct yaml_pair *p = &n->pairs[i];
		const struct config_value_path item = { path, p->key->text, 0 };
		int bad;

		if (!strcmp(p->key->text, "command"))
			bad = read_string(r, p->value, &item, &h->command);
		else if (!strcmp(p->key->text, "workdir"))
			bad = read_string(r, p->value, &item, &h->workdir);
		else if (!strcmp(p->key->text, "args"))
			bad = read_strings(r, p->value, &item, MIG_HOOK_WORDS_MAX, &h->args);
		else if (!strcmp(p->key->text, "envs"))
			bad = read_envs(r, p->value, &item, &h->envs);
		else
			bad = mig_unexpected(r, p->key, path, "command, args, envs or workdir");
		if (bad < 0)
			return -1;
	}
	if (!h->command || !*h->command)
		return read_fail(r, n, path, ERR_INVALID, "missing required field: command");
	return h->workdir ? 0 : read_string(r, NULL, NULL, &h->workdir);
}

static int warn_name(struct config_reader *r, const struct yaml_node *key,
	const struct config_value_path *path)
{
	for (size_t i = 0; i < ARRAY_LEN(known_hooks); i++) {
		if (!strcmp(key->text, known_hooks[i]))
			return 0;
	}
	return read_warn(r, key, path,
		"'%.80s' is never run; the names are apply-start, pre-apply-mode, "
		"pre-apply-config and apply-exit",
		key->text);
}

static int read_hook_list(struct config_reader *r, const struct yaml_pair *p,
	const struct config_value_path *up, struct mig_hook_list *l)
{
	const struct config_value_path path = { up, p->key->text, 0 };
	const struct yaml_node *n = p->value;

	if (read_string(r, p->key, up, &l->name) < 0 || warn_name(r, p->key, up) < 0)
		return -1;
	if (n->type != YAML_LIST && n->type != YAML_NULL)
		return mig_type_error(r, n, &path, "a list of commands", "[]v1.HookSpec");
	if (n->n > MIG_HOOKS_MAX)
		return read_fail(r, n, &path, ERR_LIMIT,
			"expected at most %d commands, found %zu", MIG_HOOKS_MAX, n->n);
	if (mig_array(&l->hooks, n->n, sizeof(*l->hooks), r->err) < 0)
		return -1;
	l->n = n->n;
	for (size_t i = 0; i < n->n; i++) {
		struct config_value_path item = { &path, NULL, i };

		if (read_hook(r, n->items[i], &item, &l->hooks[i]) < 0)
			return -1;
	}
	return 0;
}

static int read_all_hook_lists(struct config_reader *r, const struct yaml_node *n,
	struct mig_hooks *h)
{
	const struct config_value_path path = { NULL, "hooks", 0 };

	if (n->type != YAML_OBJECT && n->type != YAML_NULL)
		return mig_type_error(r, n, &path, "an object with one list for each name",
			"v1.HooksMap");
	if (n->n > MIG_HOOKS_MAX)
		return read_fail(r, n, &path, ERR_LIMIT, "expected at most %d names, found %zu",
			MIG_HOOKS_MAX, n->n);
	if (mig_array(&h->lists, n->n, sizeof(*h->lists), r->err) < 0)
		return -1;
	h->n = n->n;
	for (size_t i = 0; i < n->n; i++) {
		if (read_hook_list(r, &n->pairs[i], &path, &h->lists[i]) < 0)
			return -1;
	}
	return 0;
}

int mig_hooks_parse(struct mig_hooks **ret, const struct yaml_source *src,
	struct strv *warnings, struct error *err)
{
	struct error why = ERROR_INIT;
	struct config_reader r = { .src = src, .warnings = warnings, .err = err ? err : &why };
	CLEANUP(yaml_freep) struct yaml *tree = NULL;
	CLEANUP(mig_hooks_freep) struct mig_hooks *h = calloc(1, sizeof(*h));
	const struct yaml_node *top = NULL;

	if (!h)
		return error_nomem(r.err);
	if (mig_top(&r, &tree, &top) < 0)
		return -1;
	for (size_t i = 0; top && i < top->n; i++) {
		const struct yaml_pair *p = &top->pairs[i];

		if (!strcmp(p->key->text, "version"))
			continue;
		if (strcmp(p->key->text, "hooks") != 0)
			return mig_unexpected(&r, p->key, NULL, "version or hooks");
		if (read_all_hook_lists(&r, p->value, h) < 0)
			return -1;
	}
	*ret = STEAL_PTR(h);
	return 0;
}

int mig_hooks_load(struct mig_hooks **ret, const char *path, struct strv *warnings,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIG_FILE_MAX);
	struct yaml_source src;

	if (mig_file_read(path, &b, &src, err) < 0)
		return -1;
	if (mig_hooks_parse(ret, &src, warnings, err) < 0)
		return error_prefix(err, "unmarshal error");
	return 0;
}

bool mig_service_is(const char *text, size_t len)
{
	if (len == 0 || len > MIG_SERVICE_NAME_MAX || text[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)text[i]) &&
			(text[i] == '\0' || !strchr(":_.@-\\", text[i])))
			return false;
	}
	return true;
}

static int read_service_names(struct config_reader *r, const struct yaml_node *list,
	const struct config_value_path *path, struct strv *ret)
{
	char shown[YAML_SHOW_MAX];

	if (read_strings(r, list, path, MIG_SERVICES_MAX, ret) < 0)
		return -1;
	for (size_t i = 0; i < ret->n; i++) {
		const struct yaml_node *n = list->items[i];

		if (n->type != YAML_STR || !mig_service_is(n->text, n->len))
			return read_fail(r, n, path, ERR_INVALID,
				"expected the name of a service, found %s",
				yaml_show(n, shown, sizeof(shown)));
	}
	return 0;
}

int mig_services_parse(struct strv *ret, const struct yaml_source *src, struct strv *warnings,
	struct error *err)
{
	static const struct config_value_path path = { NULL, "systemd-services", 0 };
	struct error why = ERROR_INIT;
	struct config_reader r = { .src = src, .warnings = warnings, .err = err ? err : &why };
	CLEANUP(yaml_freep) struct yaml *tree = NULL;
	CLEANUP(strv_fini) struct strv services = STRV_INIT;
	const struct yaml_node *top = NULL;

	if (mig_top(&r, &tree, &top) < 0)
		return -1;
	if (!top)
		return error_set(r.err, ERR_INVALID,
			"%s: expected an object with version and systemd-services", src->name);
	for (size_t i = 0; i < top->n; i++) {
		const struct yaml_pair *p = &top->pairs[i];

		if (!strcmp(p->key->text, "version"))
			continue;
		if (strcmp(p->key->text, path.key) != 0)
			return mig_unexpected(&r, p->key, NULL, "version or systemd-services");
		if (read_service_names(&r, p->value, &path, &services) < 0)
			return -1;
	}
	for (size_t i = 0; i < services.n; i++) {
		if (!strv_has(ret, services.v[i]) && strv_add(ret, services.v[i], r.err) < 0)
			return -1;
	}
	return 0;
}

int mig_services_load(struct strv *ret, const char *path, struct strv *warnings,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIG_FILE_MAX);
	struct yaml_source src;

	if (mig_file_read(path, &b, &src, err) < 0)
		return -1;
	if (mig_services_parse(ret, &src, warnings, err) < 0)
		return error_prefix(err, "unmarshal error");
	return 0;
}
