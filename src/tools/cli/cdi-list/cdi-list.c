/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cdi-list/cdi-list.h"

#include <string.h>

#include "lib/yaml/yaml.h"
#include "io/cdi/cdi.h"

/* The keys of CDI 1.1.0. CDI's own library refuses a file with any other key. */
static const char *const top_keys[] = { "cdiVersion", "kind", "annotations", "devices",
	"containerEdits", NULL };
static const char *const device_keys[] = { "name", "annotations", "containerEdits", NULL };
static const char *const edit_keys[] = { "env", "deviceNodes", "netDevices", "hooks", "mounts",
	"intelRdt", "additionalGids", NULL };

struct cdi_list_reader {
	const struct yaml_source *src;
	struct error *err;
};

static int reject_cdi_value(const struct cdi_list_reader *r, const struct yaml_node *at,
	const char *key, const char *expected)
{
	char found[YAML_SHOW_MAX];

	return yaml_fail(r->src, at->line, at->column, ERR_INVALID, r->err,
		"%s: expected %s, found %s", key, expected,
		yaml_show(at, found, sizeof(found)));
}

static int check_cdi_keys(const struct cdi_list_reader *r, const struct yaml_node *o,
	const char *what, const char *const *keys)
{
	if (o->type != YAML_OBJECT)
		return reject_cdi_value(r, o, what, "an object");
	for (size_t i = 0; i < o->n; i++) {
		const struct yaml_node *key = o->pairs[i].key;
		bool known = false;

		for (size_t k = 0; keys[k] && !known; k++)
			known = key->text && !strcmp(key->text, keys[k]);
		if (!known)
			return yaml_fail(r->src, key->line, key->column, ERR_INVALID, r->err,
				"%s: CDI has no key '%.60s' here", what,
				key->text ? key->text : "");
	}
	return 0;
}

/* A missing list counts as an empty list. Returns 1 if the list has entries, else 0. */
static int check_list(const struct cdi_list_reader *r, const struct yaml_node *o,
	const char *key)
{
	const struct yaml_node *n = yaml_get(o, key, false);

	if (!n || n->type == YAML_NULL)
		return 0;
	return n->type == YAML_LIST ? n->n > 0 : reject_cdi_value(r, n, key, "a list");
}

/* Returns 1 if there is anything to edit, else 0. */
static int check_edits(const struct cdi_list_reader *r, const struct yaml_node *o)
{
	static const char *const lists[] = { "env", "deviceNodes", "netDevices", "hooks",
		"mounts", "additionalGids" };
	int any = yaml_get(o, "intelRdt", false) != NULL;

	if (check_cdi_keys(r, o, "containerEdits", edit_keys) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		int n = check_list(r, o, lists[i]);

		if (n < 0)
			return -1;
		any |= n;
	}
	return any;
}

static bool is_cdi_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A vendor or a class. The rules are those of a device name, but the first character is a letter and
 * there is no colon. */
static bool name_good(const char *text, size_t len)
{
	char name[CDI_NAME_MAX];

	if (len >= sizeof(name))
		return false;
	memcpy(name, text, len);
	name[len] = '\0';
	return is_cdi_letter(name[0]) && cdi_device_name_valid(name) && !strchr(name, ':');
}

static int read_cdi_kind(const struct cdi_list_reader *r, const struct yaml_node *top,
	struct cdi_listed *ret)
{
	const struct yaml_node *n = yaml_get(top, "kind", false);
	const char *slash;

	if (!n || n->type != YAML_STR)
		return reject_cdi_value(r, n ? n : top, "kind", "a text \"vendor/class\"");
	slash = strchr(n->text, '/');
	if (!slash || strlen(n->text) != n->len ||
		!name_good(n->text, (size_t)(slash - n->text)) ||
		!name_good(slash + 1, strlen(slash + 1)))
		return reject_cdi_value(r, n, "kind", "\"vendor/class\"");
	ret->kind = strdup(n->text);
	return ret->kind ? 0 : error_nomem(r->err);
}

static int check_cdi_version(const struct cdi_list_reader *r, const struct yaml_node *top)
{
	const struct yaml_node *n = yaml_get(top, "cdiVersion", false);
	const char *digits = "0123456789", *s;

	if (!n || n->type != YAML_STR)
		return reject_cdi_value(r, n ? n : top, "cdiVersion",
			"a text such as \"0.5.0\"");
	s = n->text;
	for (int part = 0; part < 3; part++) {
		size_t len = strspn(s, digits);

		if (len == 0 || s[len] != (part < 2 ? '.' : '\0'))
			return reject_cdi_value(r, n, "cdiVersion", "a text such as \"0.5.0\"");
		s += len + 1;
	}
	return 0;
}

static int read_cdi_device(const struct cdi_list_reader *r, const struct yaml_node *n,
	struct cdi_listed *ret)
{
	const struct yaml_node *name, *edits;
	int any;

	if (check_cdi_keys(r, n, "devices[]", device_keys) < 0)
		return -1;
	name = yaml_get(n, "name", false);
	if (!name || name->type != YAML_STR || strlen(name->text) != name->len ||
		!cdi_device_name_valid(name->text))
		return reject_cdi_value(r, name ? name : n, "name",
			"a text of letters, digits and \"_-.:\"");
	edits = yaml_get(n, "containerEdits", false);
	any = edits ? check_edits(r, edits) : 0;
	if (any < 0)
		return -1;
	if (!any)
		return yaml_fail(r->src, n->line, n->column, ERR_INVALID, r->err,
			"device '%.60s' has no containerEdits", name->text);
	return strv_add(&ret->devices, name->text, r->err);
}

/* Sorts a copy: a hostile file can have thousands of names. */
static int check_unique(const struct cdi_list_reader *r, const struct yaml_node *at,
	const struct strv *names)
{
	CLEANUP(strv_fini) struct strv sorted = STRV_INIT;

	if (strv_copy(&sorted, names, r->err) < 0)
		return -1;
	strv_sort(&sorted);
	for (size_t i = 1; i < sorted.n; i++)
		if (!strcmp(sorted.v[i - 1], sorted.v[i]))
			return yaml_fail(r->src, at->line, at->column, ERR_INVALID, r->err,
				"device '%s' is there twice", sorted.v[i]);
	return 0;
}

static int read_cdi_devices(const struct cdi_list_reader *r, const struct yaml_node *top,
	struct cdi_listed *ret)
{
	const struct yaml_node *list = yaml_get(top, "devices", false);

	if (!list || list->type != YAML_LIST || list->n == 0)
		return reject_cdi_value(r, list ? list : top, "devices",
			"a list of at least one device");
	if (list->n > CDI_LIST_DEVICES_MAX)
		return yaml_fail(r->src, list->line, list->column, ERR_LIMIT, r->err,
			"devices: expected at most %d, found %zu", CDI_LIST_DEVICES_MAX,
			list->n);
	for (size_t i = 0; i < list->n; i++)
		if (read_cdi_device(r, list->items[i], ret) < 0)
			return -1;
	return check_unique(r, list, &ret->devices);
}

int cdi_list_parse(struct cdi_listed *ret, const char *name, const char *text, size_t len,
	struct error *err)
{
	const struct yaml_source src = { .name = name, .text = text, .len = len };
	const struct cdi_list_reader r = { .src = &src, .err = err };
	CLEANUP(yaml_freep) struct yaml *y = NULL;
	const struct yaml_node *top, *common;

	*ret = (struct cdi_listed){ .kind = NULL };
	if (yaml_parse(&y, &src, err) < 0)
		return -1;
	if (y->n != 1)
		return yaml_fail(&src, 1, 1, ERR_INVALID, err,
			"expected one CDI specification, found %zu documents", y->n);
	top = y->docs[0];
	if (check_cdi_keys(&r, top, "specification", top_keys) < 0 ||
		check_cdi_version(&r, top) < 0 || read_cdi_kind(&r, top, ret) < 0)
		return -1;
	common = yaml_get(top, "containerEdits", false);
	if (common && common->type != YAML_NULL && check_edits(&r, common) < 0)
		return -1;
	return read_cdi_devices(&r, top, ret);
}

void cdi_listed_fini(struct cdi_listed *l)
{
	free(l->kind);
	strv_fini(&l->devices);
}
