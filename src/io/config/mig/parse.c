/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the readers of MIG's files share: reads a file, finds its top mapping, checks its version, and reports
 * wrong types in the words of mig-parted's decoder (internal.h).
 */
#include "io/config/mig/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/fd.h"

#define SUPPORTED_VERSION "v1"

static bool is_number_node(const struct yaml_node *n)
{
	return n->type == YAML_INT || n->type == YAML_FLOAT;
}

void mig_go_text(const struct yaml_node *n, const char *go_type, char *ret, size_t cap)
{
	bool to_int = is_number_node(n) && !strcmp(go_type, "int");

	(void)snprintf(ret, cap, "json: cannot unmarshal %s%s%.40s into Go value of type %s",
		yaml_type_name(n->type), to_int ? " " : "", to_int ? n->text : "", go_type);
}

int mig_type_error(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *expected, const char *go_type)
{
	char go[MIG_GO_TEXT_MAX];

	mig_go_text(n, go_type, go, sizeof(go));
	return read_fail(r, n, path, ERR_INVALID, "%s; expected %s", go, expected);
}

int mig_unexpected(struct config_reader *r, const struct yaml_node *key,
	const struct config_value_path *path, const char *expected)
{
	return read_fail(r, key, path, ERR_INVALID, "unexpected field: %.80s; expected %s",
		key->text, expected);
}

int mig_at(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path)
{
	struct error inner = ERROR_INIT;

	if (r->err)
		inner = *r->err;
	if (inner.code == ERR_NOMEM)
		return -1;
	return read_fail(r, n, path, inner.code, "%s", inner.msg);
}

static int check_mig_file_version(struct config_reader *r, const struct yaml_node *top)
{
	const struct config_value_path path = { NULL, "version", 0 };
	const struct yaml_node *n = yaml_get(top, "version", false);
	bool manifest = yaml_get(top, "kind", false) != NULL;

	if (!n)
		return read_fail(r, top, NULL, ERR_INVALID,
			"unable to parse with missing 'version' field%s",
			manifest
				? "; this is a Kubernetes manifest, and the config is the text of "
				  "an entry under its data"
				: "");
	if (n->type != YAML_STR && n->type != YAML_NULL)
		return mig_type_error(r, n, &path, SUPPORTED_VERSION, "string");
	if (strcmp(n->text, SUPPORTED_VERSION) != 0)
		return read_fail(r, n, &path, ERR_INVALID,
			"unknown version: %.80s; expected " SUPPORTED_VERSION,
			n->type == YAML_NULL ? "" : n->text);
	return 0;
}

int mig_top(struct config_reader *r, struct yaml **tree, const struct yaml_node **ret)
{
	const struct yaml_node *top;

	if (r->src->len > MIG_FILE_MAX)
		return error_set(r->err, ERR_LIMIT, "%s: expected at most %u bytes, found %zu",
			r->src->name, MIG_FILE_MAX, r->src->len);
	if (yaml_parse(tree, r->src, r->err) < 0)
		return -1;
	if ((*tree)->n > 1)
		return read_fail(r, (*tree)->docs[1], NULL, ERR_INVALID,
			"expected one document, found the start of another one");
	top = (*tree)->n ? (*tree)->docs[0] : NULL;
	if (!top || top->type == YAML_NULL)
		return 0;
	if (top->type != YAML_OBJECT)
		return mig_type_error(r, top, NULL, "an object with `version`",
			"map[string]json.RawMessage");
	if (!top->n)
		return 0;
	*ret = top;
	return check_mig_file_version(r, top) < 0 ? -1 : 1;
}

static int read_config_stdin(struct buf *b, struct error *err)
{
	char chunk[16384];
	ssize_t n;

	while (buf_ok(b) && (n = read(STDIN_FILENO, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_sys(err, errno, "read error: standard input");
		buf_add(b, chunk, (size_t)n);
	}
	if (!buf_ok(b))
		return error_set(err, ERR_LIMIT,
			"read error: standard input: expected at most %u bytes", MIG_FILE_MAX);
	return 0;
}

int mig_file_read(const char *path, struct buf *b, struct yaml_source *ret, struct error *err)
{
	bool standard = !strcmp(path, "-");
	struct error why = ERROR_INIT;
	char text[128];

	if (standard && read_config_stdin(b, err) < 0)
		return -1;
	if (!standard && file_read(path, b, &why) < 0) {
		if (why.sys) { /* strerror() in Go's spelling, which people search for */
			(void)snprintf(text, sizeof(text), "%s", strerror(why.sys));
			text[0] = (char)tolower((unsigned char)text[0]);
			(void)error_set(&why, why.code, "open %.300s: %s", path, text);
		}
		error_copy(err, &why);
		return error_prefix(err, "read error");
	}
	*ret = (struct yaml_source){ .name = standard ? "standard input" : path,
		.text = buf_str(b),
		.len = b->len };
	return 0;
}

int mig_array(void *p, size_t n, size_t size, struct error *err)
{
	void *a = n ? calloc(n, size) : NULL;

	if (n && !a)
		return error_nomem(err);
	*(void **)p = a;
	return 0;
}
