/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/cuda/module/ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_MAX PTX_NAME_MAX
#define BYTES_MAX (UINT64_C(1) << 40)

static const char *skip_ptx_space(const char *p)
{
	while (true) {
		if (isspace((unsigned char)*p)) {
			p++;
		} else if (p[0] == '/' && p[1] == '/') {
			p += strcspn(p, "\n");
		} else if (p[0] == '/' && p[1] == '*') {
			const char *end = strstr(p + 2, "*/");

			p = end ? end + 2 : p + strlen(p);
		} else {
			return p;
		}
	}
}

static bool is_ptx_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

/* A word (with its dots) or one other character. "": the end. */
static const char *read_ptx_token(const char *p, char *ret)
{
	size_t n = 0;

	p = skip_ptx_space(p);
	if (*p && !is_ptx_word_char(*p))
		ret[n++] = *p++;
	else
		for (; is_ptx_word_char(*p); p++)
			if (n + 1 < TOKEN_MAX)
				ret[n++] = *p;
	ret[n] = '\0';
	return p;
}

bool ptx_is(const char *text)
{
	return strncmp(skip_ptx_space(text), ".version", 8) == 0;
}

/* The value of a decimal or hexadecimal digit; 16: no digit. */
static unsigned parse_ptx_digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 16;
}

/*
 * The number at the start of @p, decimal or 0x hexadecimal. Stops counting above BYTES_MAX. *end, unless NULL, is
 * the position behind it.
 */
static size_t parse_ptx_number(const char *p, const char **end)
{
	unsigned base = p[0] == '0' && (p[1] == 'x' || p[1] == 'X') ? 16 : 10;
	size_t n = 0;

	for (p += base == 16 ? 2 : 0; *p && parse_ptx_digit(*p) < base; p++)
		n = n > BYTES_MAX ? n : n * base + parse_ptx_digit(*p);
	if (end)
		*end = p;
	return n;
}

bool ptx_is_too_new(const char *text, unsigned newest)
{
	const char *end;
	size_t major = parse_ptx_number(skip_ptx_space(skip_ptx_space(text) + 8), &end);
	size_t minor = *end == '.' ? parse_ptx_number(end + 1, NULL) : 0;

	return major > newest / 10 || major * 10 + minor > newest;
}

/* Bytes of ".u32" and the like; 0: no type. */
static size_t type_bytes(const char *t)
{
	static const struct {
		const char *name;
		size_t bytes;
	} rows[] = {
		{ ".b8", 1 },
		{ ".u8", 1 },
		{ ".s8", 1 },
		{ ".b16", 2 },
		{ ".u16", 2 },
		{ ".s16", 2 },
		{ ".f16", 2 },
		{ ".b32", 4 },
		{ ".u32", 4 },
		{ ".s32", 4 },
		{ ".f32", 4 },
		{ ".b64", 8 },
		{ ".u64", 8 },
		{ ".s64", 8 },
		{ ".f64", 8 },
		{ ".texref", 8 },
		{ ".surfref", 8 },
		{ ".samplerref", 8 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(t, rows[i].name))
			return rows[i].bytes;
	return 0;
}

/*
 * Parses ".align 8 .b8 name[16]" up to the character that ends it, which it does not take. NULL: no variable.
 */
static const char *parse_ptx_variable(const char *p, char *name, size_t *align, size_t *bytes)
{
	char t[TOKEN_MAX];
	size_t count = 1, vector = 1, size = 0, times;

	*align = 0;
	name[0] = '\0';
	while (true) {
		const char *next = read_ptx_token(p, t);

		if (!t[0])
			return NULL;
		if (strchr(",;)={", t[0]))
			break;
		p = next;
		if (!strcmp(t, ".align")) {
			p = read_ptx_token(p, t);
			*align = parse_ptx_number(t, NULL);
		} else if (!strcmp(t, ".v2") || !strcmp(t, ".v4")) {
			vector = !strcmp(t, ".v2") ? 2 : 4;
		} else if (type_bytes(t)) {
			size = type_bytes(t);
		} else if (t[0] == '[') {
			p = read_ptx_token(p, t);
			if (!strcmp(t, "]"))
				continue;
			times = parse_ptx_number(t, NULL);
			if (times > BYTES_MAX || count > BYTES_MAX / 32 / (times ? times : 1))
				return NULL;
			count *= times;
		} else if (t[0] != '.' && t[0] != ']' && is_ptx_word_char(t[0]) &&
			   !isdigit((unsigned char)t[0])) {
			memcpy(name, t, sizeof(t));
		}
	}
	*bytes = size * vector * count;
	if (!*align || (*align & (*align - 1)) || *align > 4096)
		*align = size > 0 ? size * vector : 1;
	return size && name[0] ? p : NULL;
}

static const char *parse_ptx_params(const char *p, struct ptx_entry *e)
{
	char t[TOKEN_MAX], name[TOKEN_MAX];

	while (true) {
		size_t align, bytes;

		p = read_ptx_token(p, t);
		if (t[0] == ')')
			return p;
		if (t[0] == ',')
			continue;
		if (strcmp(t, ".param") != 0 || e->param_count == PTX_PARAMS_MAX)
			return NULL;
		p = parse_ptx_variable(p, name, &align, &bytes);
		if (!p || bytes > 32768)
			return NULL;
		e->bytes = (e->bytes + align - 1) / align * align;
		e->offsets[e->param_count] = e->bytes;
		e->sizes[e->param_count++] = bytes;
		e->bytes += bytes;
	}
}

static const char *parse_ptx_kernel(const char *p, struct ptx_entry *e)
{
	char t[TOKEN_MAX];
	const char *next;

	*e = (struct ptx_entry){ .kind = PTX_KERNEL };
	p = read_ptx_token(p, t);
	if (!is_ptx_word_char(t[0]))
		return NULL;
	memcpy(e->name, t, sizeof(t));
	next = read_ptx_token(p, t);
	return t[0] == '(' ? parse_ptx_params(next, e) : p;
}

/* Skips a body. Braces in strings and comments do not count. */
static const char *skip_ptx_body(const char *p)
{
	char t[TOKEN_MAX];
	unsigned depth = 1;

	while (depth) {
		p = read_ptx_token(p, t);
		if (!t[0])
			return NULL;
		if (t[0] == '"') {
			p += strcspn(p, "\"");
			p += *p == '"';
		}
		depth += t[0] == '{';
		depth -= t[0] == '}';
	}
	return p;
}

int ptx_next(const char **at, struct ptx_entry *ret)
{
	const char *p = *at;
	char t[TOKEN_MAX];
	bool managed = false, declares = false;

	while (true) {
		bool begins_line;

		p = skip_ptx_space(p);
		begins_line = p > *at && p[-1] == '\n';
		p = read_ptx_token(p, t);
		if (!t[0])
			return 0;
		/* Each line outside a declaration begins with a directive. */
		if (begins_line && !declares && t[0] != '.' && is_ptx_word_char(t[0]))
			return -1;
		declares = (declares || !strcmp(t, ".func") || !strcmp(t, ".extern")) &&
			   t[0] != ';' && t[0] != '{';
		if (t[0] == '{') {
			p = skip_ptx_body(p);
			if (!p)
				return -1;
		} else if (t[0] == '"') {
			p += strcspn(p, "\"");
			p += *p == '"';
		} else if (!strcmp(t, ".entry")) {
			p = parse_ptx_kernel(p, ret);
			break;
		} else if (!strcmp(t, ".attribute")) {
			const char *end = strchr(p, ')');

			managed = end && strstr(p, ".managed") && strstr(p, ".managed") < end;
			p = end ? end + 1 : p;
		} else if (!strcmp(t, ".global") || !strcmp(t, ".const")) {
			size_t align;
			const char *attr = skip_ptx_space(p);

			*ret = (struct ptx_entry){ .kind = !strcmp(t, ".const") ? PTX_CONSTANT
										: PTX_GLOBAL };
			if (!strncmp(attr, ".attribute", 10)) {
				const char *end = strchr(attr, ')');

				if (!end)
					return -1;
				managed = strstr(attr, ".managed") &&
					  strstr(attr, ".managed") < end;
				p = end + 1;
			}
			if (managed)
				ret->kind = PTX_MANAGED;
			p = parse_ptx_variable(p, ret->name, &align, &ret->bytes);
			break;
		}
	}
	if (!p)
		return -1;
	*at = p;
	return 1;
}
