/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/read.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "io/config/helm-values.h"

/* Configs in Kubernetes manifests, where each entry of a ConfigMap is one config, and in values files of
 * Helm charts. */

struct manifest_walk {
	const char *path;
	const struct yaml_source *src;
	const struct config_sources *sources;
	config_each_fn *each;
	void *arg;
	struct error *err;
	int n;
	char first_kind[64]; /* kind of the first manifest without a config */
};

static const char *get_manifest_text(const struct yaml_node *object, const char *key)
{
	const struct yaml_node *n = yaml_get(object, key, false);

	return n && n->type == YAML_STR ? n->text : "";
}

static bool is_manifest(const struct yaml_node *n)
{
	return n->type == YAML_OBJECT && *get_manifest_text(n, "kind");
}

/* The line @line (from 1) of the text, and its length. */
static const char *line_at(const struct yaml_source *src, uint32_t line, size_t *ret_len)
{
	const char *p = src->text, *end = p + src->len, *next;

	for (; line > 1 && p < end; line--) {
		next = memchr(p, '\n', (size_t)(end - p));
		p = next ? next + 1 : end;
	}
	next = memchr(p, '\n', (size_t)(end - p));
	*ret_len = (size_t)((next ? next : end) - p);
	return p;
}

static size_t count_leading_blanks(const char *p, size_t len)
{
	size_t n = 0;

	while (n < len && p[n] == ' ')
		n++;
	return n;
}

/* The indentation of a block text in the file: what YAML removed from its first line. */
static uint32_t indent_of(const struct yaml_source *src, const struct yaml_node *n)
{
	const char *p = n->text;
	uint32_t line = n->line;

	for (; *p == '\n'; p++)
		line++;
	if (*p) {
		size_t raw_len, len = strcspn(p, "\n");
		const char *raw = line_at(src, line, &raw_len);
		size_t outer = count_leading_blanks(raw, raw_len),
		       inner = count_leading_blanks(p, len);

		if (outer >= inner)
			return (uint32_t)(outer - inner);
	}
	return 0;
}

/* Position of an entry's text in the file, for messages. */
static void init_entry_source(const struct yaml_source *outer, const struct yaml_node *n,
	struct yaml_source *src)
{
	src->text = n->text;
	src->len = n->len;
	if (n->style == YAML_LITERAL) {
		src->line_offset = n->line - 1;
		src->column_offset = indent_of(outer, n);
	} else if (n->style != YAML_FOLDED && !strchr(n->text, '\n')) {
		src->line_offset = n->line - 1;
		src->column_offset = n->column - (n->style == YAML_PLAIN);
	} else {
		src->inside = n->line;
	}
}

/* @path: the object with the entry, for messages. */
static int walk_entry(struct manifest_walk *w, const char *path, const struct yaml_node *key,
	const struct yaml_node *value)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT, more = STRV_INIT;
	CLEANUP(config_freep) struct config *c = NULL;
	CLEANUP(freep) char *name = NULL;
	struct error why = ERROR_INIT;
	struct config_text t = { .path = w->path, .entry = key->text, .mistakes = &more };
	int r;

	if (asprintf(&name, "%s#%s", w->path, key->text) < 0) {
		name = NULL;
		return error_nomem(w->err);
	}
	t.src.name = name;
	if (value->type == YAML_STR) {
		init_entry_source(w->src, value, &t.src);
		r = config_read_text(&c, &t, w->sources, &warnings, &why);
	} else {
		char shown[YAML_SHOW_MAX];

		r = yaml_fail(&(struct yaml_source){ .name = name }, value->line, value->column,
			ERR_INVALID, &why,
			"%s: expected the config as a text (\"%.60s: |\"), found %s", path,
			key->text, yaml_show(value, shown, sizeof(shown)));
	}
	if (r < 0 && why.code == ERR_NOMEM)
		return error_nomem(w->err);
	w->n++;
	w->each(w->arg, name, value->type == YAML_STR ? value->text : "", c, &warnings,
		r < 0 ? &why : NULL, &more);
	return 0;
}

/* Reports the line @text for a document that is not a config. */
static int report_manifest_note(struct manifest_walk *w, const char *text)
{
	CLEANUP(strv_fini) struct strv notes = STRV_INIT;
	const struct strv none = STRV_INIT;

	if (strv_add(&notes, text, w->err) < 0)
		return -1;
	w->each(w->arg, w->path, NULL, NULL, &notes, NULL, &none);
	return 0;
}

/* Reports that a manifest has no config. @why is a readable reason. */
static int report_skipped_manifest(struct manifest_walk *w, const struct yaml_node *n,
	const char *why)
{
	const struct yaml_node *meta = yaml_get(n, "metadata", false);
	char text[320];

	(void)snprintf(text, sizeof(text), "%.120s:%u:%u: %.60s '%.60s' skipped: %s", w->path,
		n->line, n->column, get_manifest_text(n, "kind"),
		meta ? get_manifest_text(meta, "name") : "", why);
	if (!*w->first_kind)
		(void)snprintf(w->first_kind, sizeof(w->first_kind), "%s",
			get_manifest_text(n, "kind"));
	return report_manifest_note(w, text);
}

static int walk_configmap(struct manifest_walk *w, const struct yaml_node *n)
{
	const struct yaml_node *data = yaml_get(n, "data", false);

	if (!data || data->type == YAML_NULL || (data->type == YAML_OBJECT && !data->n))
		return report_skipped_manifest(w, n, "it has no data");
	if (data->type != YAML_OBJECT)
		return yaml_fail(w->src, data->line, data->column, ERR_INVALID, w->err,
			"data: expected an object with one config for each key");
	for (size_t i = 0; i < data->n; i++) {
		if (walk_entry(w, "data", data->pairs[i].key, data->pairs[i].value) < 0)
			return -1;
	}
	return 0;
}

static int walk_manifest(struct manifest_walk *w, const struct yaml_node *n)
{
	const char *kind = get_manifest_text(n, "kind");
	const struct yaml_node *items = yaml_get(n, "items", false);

	if (!strcmp(kind, "ConfigMap"))
		return walk_configmap(w, n);
	if ((strcmp(kind, "List") != 0 && strcmp(kind, "ConfigMapList") != 0) || !items ||
		items->type != YAML_LIST)
		return report_skipped_manifest(w, n, "there is no config in this kind");
	for (size_t i = 0; i < items->n; i++) {
		const struct yaml_node *item = items->items[i];

		/* The elements of a ConfigMapList may omit their kind. */
		if (item->type == YAML_OBJECT && !*get_manifest_text(item, "kind") &&
			!strcmp(kind, "ConfigMapList")) {
			if (walk_configmap(w, item) < 0)
				return -1;
		} else if (!is_manifest(item)) {
			return yaml_fail(w->src, item->line, item->column, ERR_INVALID, w->err,
				"items[%zu]: expected a manifest with a kind", i);
		} else if (!strcmp(get_manifest_text(item, "kind"), "ConfigMap")) {
			if (walk_configmap(w, item) < 0)
				return -1;
		} else if (report_skipped_manifest(w, item, "there is no config in this kind") <
			   0) {
			return -1;
		}
	}
	return 0;
}

/* @configs: the object at @path of the values file @n; NULL: none. */
static int walk_values(struct manifest_walk *w, const struct yaml_node *n,
	const struct yaml_node *configs, const char *path)
{
	char text[HELM_PATH_MAX + 320];

	if (!configs)
		return helm_values_empty(n, w->src, w->err);
	(void)snprintf(text, sizeof(text),
		"%.120s:%u:%u: values of a Helm chart: the configs below %s are checked",
		w->path, configs->line, configs->column, path);
	if (report_manifest_note(w, text) < 0)
		return -1;
	for (size_t i = 0; i < configs->n; i++) {
		if (walk_entry(w, path, configs->pairs[i].key, configs->pairs[i].value) < 0)
			return -1;
	}
	return 0;
}

static int walk_plain(struct manifest_walk *w)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT, more = STRV_INIT;
	CLEANUP(config_freep) struct config *c = NULL;
	struct error why = ERROR_INIT;
	struct config_text t = { .path = w->path, .src = *w->src, .mistakes = &more };
	int r = config_read_text(&c, &t, w->sources, &warnings, &why);

	if (r < 0 && why.code == ERR_NOMEM)
		return error_nomem(w->err);
	w->n++;
	w->each(w->arg, w->path, w->src->text, c, &warnings, r < 0 ? &why : NULL, &more);
	return 0;
}

int config_each_text(const char *path, const char *text, size_t len,
	const struct config_sources *sources, config_each_fn *each, void *arg,
	struct error *err)
{
	CLEANUP(yaml_freep) struct yaml *y = NULL;
	const struct yaml_node *configs;
	char path_in[HELM_PATH_MAX];
	const struct yaml_source src = { .name = path, .text = text, .len = len };
	struct manifest_walk w = { .path = path,
		.src = &src,
		.sources = sources,
		.each = each,
		.arg = arg,
		.err = err };

	if (yaml_parse(&y, &src, err) < 0)
		return -1;
	if (y->n == 1 && !is_manifest(y->docs[0]) && helm_values(y->docs[0], &configs, path_in))
		return walk_values(&w, y->docs[0], configs, path_in) < 0 ? -1 : w.n;
	if (y->n <= 1 && (!y->n || !is_manifest(y->docs[0])))
		return walk_plain(&w) < 0 ? -1 : w.n;
	for (size_t i = 0; i < y->n; i++) {
		const struct yaml_node *n = y->docs[i];

		if (n->type == YAML_NULL) /* "---" without content */
			continue;
		if (!is_manifest(n))
			return yaml_fail(&src, n->line, n->column, ERR_INVALID, err,
				"expected a Kubernetes manifest, since the file has several "
				"documents; found something without a kind");
		if (walk_manifest(&w, n) < 0)
			return -1;
	}
	if (!w.n)
		return error_set(err, ERR_INVALID,
			"%s: expected a config (version: v1) or a ConfigMap with one, found %s",
			path, *w.first_kind ? w.first_kind : "nothing");
	return w.n;
}

int config_each(const char *path, const struct config_sources *sources, config_each_fn *each,
	void *arg, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(CONFIG_FILE_MAX);
	bool standard_input = !strcmp(path, "-");

	if (standard_input ? fd_read_all(STDIN_FILENO, "standard input", &b, err) < 0
			   : config_file_read(path, &b, err) < 0)
		return -1;
	return config_each_text(standard_input ? "standard input" : path, buf_str(&b), b.len,
		sources, each, arg, err);
}
