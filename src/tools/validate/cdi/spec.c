/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/validate/cdi/spec.h"

#include <stdio.h>
#include <string.h>

#include "lib/yaml/yaml.h"

static int read_spec_kind(struct cdi_spec *s, const struct yaml_node *root,
	const struct yaml_source *src, struct error *err)
{
	const struct yaml_node *kind = yaml_get(root, "kind", false);
	const struct yaml_node *version = yaml_get(root, "cdiVersion", false);

	if (!version || version->type != YAML_STR)
		return error_set(err, ERR_INVALID, "'%s' is no CDI spec: it has no cdiVersion",
			src->name);
	if (!kind || kind->type != YAML_STR || !strchr(kind->text, '/'))
		return yaml_fail(src, root->line, root->column, ERR_INVALID, err,
			"kind: expected VENDOR/CLASS");
	if (kind->len >= sizeof(s->kind))
		return yaml_fail(src, kind->line, kind->column, ERR_LIMIT, err,
			"kind: longer than %zu bytes", sizeof(s->kind) - 1);
	memcpy(s->kind, kind->text, kind->len + 1);
	return 0;
}

static int read_spec_devices(struct cdi_spec *s, const struct yaml_node *root,
	const struct yaml_source *src, struct error *err)
{
	const struct yaml_node *list = yaml_get(root, "devices", false);

	if (!list || list->type != YAML_LIST)
		return yaml_fail(src, root->line, root->column, ERR_INVALID, err,
			"devices: expected a list");
	if (list->n > CDI_DEVICES_MAX)
		return yaml_fail(src, list->line, list->column, ERR_LIMIT, err,
			"devices: more than %d", CDI_DEVICES_MAX);
	for (size_t i = 0; i < list->n; i++) {
		const struct yaml_node *d = list->items[i];
		const struct yaml_node *name =
			d->type == YAML_OBJECT ? yaml_get(d, "name", false) : NULL;
		const char *text = name ? yaml_as_text(name) : NULL;

		if (!text || !text[0])
			return yaml_fail(src, d->line, d->column, ERR_INVALID, err,
				"devices: one has no name");
		if (strv_add(&s->devices, text, err) < 0)
			return -1;
	}
	return 0;
}

int cdi_spec_read(struct cdi_spec *ret, const char *name, const char *text, size_t len,
	struct error *err)
{
	const struct yaml_source src = { .name = name, .text = text, .len = len };
	CLEANUP(yaml_freep) struct yaml *y = NULL;
	struct cdi_spec s = { .devices = STRV_INIT };

	if (yaml_parse(&y, &src, err) < 0)
		return -1;
	if (y->n != 1 || y->docs[0]->type != YAML_OBJECT)
		return error_set(err, ERR_INVALID, "'%s' is no CDI spec: expected one object",
			name);
	if (read_spec_kind(&s, y->docs[0], &src, err) < 0 ||
		read_spec_devices(&s, y->docs[0], &src, err) < 0) {
		cdi_spec_fini(&s);
		return -1;
	}
	*ret = s;
	return 0;
}

void cdi_spec_fini(struct cdi_spec *s)
{
	strv_fini(&s->devices);
	*s = (struct cdi_spec){ .kind = "" };
}
