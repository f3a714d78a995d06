/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/config/saved.h"

#include "lib/base/fd.h"
#include "io/config/config.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* JSON escapes lengthen a text: at worst six bytes for one. */
#define FILE_MAX (6 * (size_t)CONFIG_FILE_MAX + 4096)

static bool parse_saved_config_name(char ret[CONFIG_ENTRY_NAME_MAX], const json_t *o,
	const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	if (!s || (*s && !config_entry_name_ok(s)))
		return false;
	memcpy(ret, s, strlen(s) + 1);
	return true;
}

static int parse_saved_config(struct saved_config *saved, const json_t *o, const char *source,
	struct error *err)
{
	const char *from = json_string_value(json_object_get(o, "source"));
	const char *uid = json_string_value(json_object_get(o, "node"));
	const json_t *text = json_object_get(o, "text");
	json_int_t by = json_integer_value(json_object_get(o, "by"));

	if (!from || !json_is_string(text) || json_string_length(text) > CONFIG_FILE_MAX ||
		by < CHOICE_LABEL || by > CHOICE_EMPTY ||
		!parse_saved_config_name(saved->label, o, "label") ||
		!parse_saved_config_name(saved->entry, o, "entry"))
		return error_set(err, ERR_INVALID, "expected a kept config, found other JSON");
	if (strcmp(from, source) != 0)
		return error_set(err, ERR_NOT_FOUND, "the kept config is of '%s'", from);
	saved->by = (enum config_choice_by)by;
	(void)snprintf(saved->node_uid, sizeof(saved->node_uid), "%s", uid ? uid : "");
	saved->text = (struct buf)BUF_INIT(CONFIG_FILE_MAX);
	buf_add(&saved->text, json_string_value(text), json_string_length(text));
	return buf_ok(&saved->text) ? 0 : error_nomem(err);
}

int saved_config_parse(struct saved_config *ret, const char *json, size_t len,
	const char *source, struct error *err)
{
	json_error_t where;
	json_t *o = json_loadb(json, len, 0, &where);
	int r;

	if (!o)
		return error_set(err, ERR_INVALID, "kept config: %s", where.text);
	r = parse_saved_config(ret, o, source, err);
	json_decref(o);
	return r;
}

int saved_config_read(struct saved_config *ret, const char *path, const char *source,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(FILE_MAX);

	if (file_read(path, &b, err) < 0)
		return -1;
	if (saved_config_parse(ret, buf_str(&b), b.len, source, err) < 0)
		return error_prefix(err, "'%s'", path);
	return 0;
}

int saved_config_write(const struct saved_config *saved, const char *path, const char *source,
	struct error *err)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s%}", "source", source, "label",
		saved->label, "entry", saved->entry, "node", saved->node_uid, "by",
		(int)saved->by, "text", buf_str(&saved->text), saved->text.len);
	CLEANUP(freep) char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

	json_decref(o);
	if (!text) /* not UTF-8: such a config was never in force */
		return error_set(err, ERR_INVALID, "keep the config in '%s': it is no text",
			path);
	return file_write_atomic(path, text, strlen(text), 0600, err);
}
