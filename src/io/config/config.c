/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/read.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* --- settings that are not supported --- */

/* Valid settings that this version does not support. Separate from reading and checking, so that a mistake
 * in such a part gets its own error. Thus a change that adds a feature removes one block here. */

/* The places of flags, which struct config does not have. */
struct config_places {
	char discovery[FLAGS_SOURCE_MAX];
};

static int unsupported_check(const struct config *c, const struct config_places *places,
	struct error *err)
{
	if (c->discovery == DISCOVERY_TEGRA || c->discovery == DISCOVERY_VFIO)
		return error_set(err, ERR_UNSUPPORTED,
			"%s: %s GPUs are not supported; expected auto or nvml",
			places->discovery,
			c->discovery == DISCOVERY_TEGRA ? "Tegra" : "VFIO pass-through");
	return 0;
}

int config_unsupported(const struct config *c, const char *name, struct error *err)
{
	struct config_places places;

	(void)snprintf(places.discovery, sizeof(places.discovery),
		"%.200s: flags.deviceDiscoveryStrategy", name);
	return unsupported_check(c, &places, err);
}

/* --- the config --- */

/*
 * From text to struct config. The order gives the most useful error first:
 *  1. the text as YAML;
 *  2. the version;
 *  3. every key;
 *  4. flags and variables over the file, and the checks between values;
 *  5. valid settings that this version does not support.
 */

#define SUPPORTED_VERSION "v1"

static void reader_fini(struct config_reader *r)
{
	for (size_t i = 0; i < ARRAY_LEN(r->values); i++) {
		free(r->values[i].str);
		strv_fini(&r->values[i].list);
	}
	(void)config_free(r->c);
}

static int read_version(struct config_reader *r, const struct yaml_node *top)
{
	const struct config_value_path path = { NULL, "version", 0 };
	const struct yaml_node *n = read_find_key(top, "", "version");
	const char *text = "";

	if (read_text_value(r, n, &path, /* strict= */ false, &text) < 0)
		return -1;
	if (*text && strcmp(text, SUPPORTED_VERSION) != 0)
		return read_fail(r, n, &path, ERR_INVALID,
			"unknown version: %.80s; expected %s", text, SUPPORTED_VERSION);
	return 0;
}

static int read_config_document(struct config_reader *r, const struct yaml_node *top)
{
	/* A file of another version may be full of unknown keys, so check the version first. */
	if (top && top->type == YAML_OBJECT && read_version(r, top) < 0)
		return -1;
	if (top && top->type != YAML_OBJECT && top->type != YAML_NULL)
		return read_type_error(r, top, NULL, "a config, which is an object", "Config");
	if (read_on(r, read_object(r, top, NULL, "")) < 0)
		return -1;
	if (top && top->type == YAML_NULL)
		top = NULL;
	if (read_on(r, read_flags(r, top)) < 0 || read_on(r, read_resources(r, top)) < 0 ||
		read_on(r, read_sharing(r, top)) < 0 ||
		read_on(r, read_health_keys(r, top)) < 0)
		return -1;
	return 0;
}

/* Reports unsupported settings in addition to mistakes: the unsupported part may make the mistakes
 * irrelevant. */
static int check_whole_config(struct config_reader *r, const struct config_text *t)
{
	struct config_places places;

	if (flags_overlay(r) < 0 || read_on(r, flags_validate(r)) < 0)
		return -1;
	if (r->n_mistakes == 0 && flags_apply(r) < 0)
		return -1;
	flags_format_source(r, "flags.deviceDiscoveryStrategy", places.discovery,
		sizeof(places.discovery));
	if (t->accept_unsupported)
		return 0;
	return unsupported_check(r->c, &places, r->err);
}

/* Sets the first mistake as the error. The others stay in r->mistakes. */
static int set_mistakes_error(struct config_reader *r, int ret)
{
	if (r->n_mistakes == 0 || (ret < 0 && r->err->code == ERR_NOMEM))
		return ret;
	if (ret < 0 && r->err->code != ERR_NONE &&
		strv_add(r->mistakes, r->err->msg, r->err) < 0)
		return -1;
	*r->err = r->first;
	return -1;
}

static int set_config_text(char **to, const char *text, struct error *err)
{
	char *copy = strdup(text ? text : "");

	if (!copy)
		return error_nomem(err);
	free(*to);
	*to = copy;
	return 0;
}

int config_read_text(struct config **ret_config, const struct config_text *t,
	const struct config_sources *sources, struct strv *warnings, struct error *err)
{
	CLEANUP(yaml_freep) struct yaml *y = NULL;
	CLEANUP(reader_fini)
	struct config_reader r = { .src = &t->src,
		.sources = sources,
		.warnings = warnings,
		.mistakes = t->mistakes,
		.err = err };
	int ret;

	assert(config_n_fields <= CONFIG_FIELDS_MAX);
	if (config_new(&r.c, err) < 0 || set_config_text(&r.c->path, t->path, err) < 0 ||
		set_config_text(&r.c->entry, t->entry, err) < 0)
		return -1;
	if (t->src.text && yaml_parse(&y, &t->src, err) < 0)
		return -1;
	if (y && y->n > 1)
		return read_fail(&r, y->docs[1], NULL, ERR_INVALID,
			"expected one document, found the start of another one");
	ret = read_config_document(&r, y && y->n ? y->docs[0] : NULL);
	if (ret >= 0)
		ret = check_whole_config(&r, t);
	if (set_mistakes_error(&r, ret) < 0)
		return -1;
	*ret_config = STEAL_PTR(r.c);
	return 0;
}

static int parse_named(struct config **ret, const char *name, uint32_t line_offset,
	const char *text, size_t len, const struct config_sources *sources,
	struct strv *warnings, bool accept_unsupported, struct error *err)
{
	const char *hash = strrchr(name, '#');
	CLEANUP(freep) char *path = hash ? strndup(name, (size_t)(hash - name)) : strdup(name);
	struct config_text t = { .path = path,
		.entry = hash ? hash + 1 : NULL,
		.src = { .name = name, .text = text, .len = len, .line_offset = line_offset },
		.accept_unsupported = accept_unsupported };

	if (!path)
		return error_nomem(err);
	if (len > CONFIG_FILE_MAX)
		return error_set(err, ERR_LIMIT, "%s: expected at most %u bytes, found %zu",
			name, CONFIG_FILE_MAX, len);
	return config_read_text(ret, &t, sources, warnings, err);
}

int config_parse(struct config **ret, const char *name, uint32_t line_offset, const char *text,
	size_t len, const struct config_sources *sources, struct strv *warnings,
	struct error *err)
{
	return parse_named(ret, name, line_offset, text, len, sources, warnings, false, err);
}

int config_parse_any(struct config **ret, const char *name, uint32_t line_offset,
	const char *text, size_t len, const struct config_sources *sources,
	struct strv *warnings, struct error *err)
{
	return parse_named(ret, name, line_offset, text, len, sources, warnings, true, err);
}

bool config_is_empty(const char *text, size_t len)
{
	const struct yaml_source src = { .name = "", .text = text, .len = len };
	CLEANUP(yaml_freep) struct yaml *y = NULL;
	struct error err = ERROR_INIT;

	if (len > CONFIG_FILE_MAX || yaml_parse(&y, &src, &err) < 0)
		return false; /* the caller's parse reports the error */
	for (size_t i = 0; i < y->n; i++) {
		const struct yaml_node *top = y->docs[i];

		if (top->type != YAML_NULL && (top->type != YAML_OBJECT || top->n > 0))
			return false;
	}
	return true;
}

int config_file_read(const char *path, struct buf *b, struct error *err)
{
	struct error why = ERROR_INIT;
	char text[128];

	if (file_read(path, b, &why) == 0)
		return 0;
	if (!why.sys) { /* the error already has what was read and found */
		error_copy(err, &why);
		return -1;
	}
	/* strerror() in Go's spelling, because other programs search for it. */
	(void)snprintf(text, sizeof(text), "%s", strerror(why.sys));
	text[0] = (char)tolower((unsigned char)text[0]);
	(void)error_set(err, why.code, "error opening config file: open %s: %s", path, text);
	if (err)
		err->sys = why.sys;
	return -1;
}

/* Appends @v in units of 10^-@digits without trailing zeros: "1.5". */
static size_t format_fraction(char *buf, size_t cap, uint64_t v, unsigned digits,
	const char *unit)
{
	uint64_t scale = 1;
	char part[16];
	size_t len;

	for (unsigned i = 0; i < digits; i++)
		scale *= 10;
	len = (size_t)snprintf(part, sizeof(part), "%0*llu", (int)digits,
		(unsigned long long)(v % scale));
	if (!digits)
		len = 0;
	while (len && part[len - 1] == '0')
		len--;
	return (size_t)snprintf(buf, cap, "%llu%s%.*s%s", (unsigned long long)(v / scale),
		len ? "." : "", (int)len, part, unit);
}

void duration_text(int64_t ns, char *buf)
{
	uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	size_t cap = DURATION_TEXT_MAX, len = 0;

	if (ns == INT64_MAX) {
		(void)snprintf(buf, cap, "infinite");
		return;
	}
	if (ns < 0)
		buf[len++] = '-';
	if (!v) {
		(void)snprintf(buf, cap, "0s");
	} else if (v < 1000) {
		(void)format_fraction(buf + len, cap - len, v, 0, "ns");
	} else if (v < NS_PER_MS) {
		(void)format_fraction(buf + len, cap - len, v, 3, "\xc2\xb5s");
	} else if (v < NS_PER_SEC) {
		(void)format_fraction(buf + len, cap - len, v, 6, "ms");
	} else {
		uint64_t minutes = v / (60 * NS_PER_SEC);

		if (minutes >= 60)
			len += (size_t)snprintf(buf + len, cap - len, "%lluh",
				(unsigned long long)(minutes / 60));
		if (minutes)
			len += (size_t)snprintf(buf + len, cap - len, "%llum",
				(unsigned long long)(minutes % 60));
		(void)format_fraction(buf + len, cap - len, v % (60 * NS_PER_SEC), 9, "s");
	}
}
