/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/profile.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_DIGITS  3
#define ATTRIBUTES_MAX (MIG_ATTRIBUTES_MAX / 2) /* each has at least one letter and a "," */

static_assert(MIG_PROFILE_NAME_MAX >= sizeof("999c.999g.999gb") + MIG_ATTRIBUTES_MAX,
	"any name");

/* NVML_GPU_INSTANCE_PROFILE_*: attributes by number, which the text of a name may leave out. */
static const char *const attributes_of[] = {
	[0x00] = "",        /* 1_SLICE */
	[0x01] = "",        /* 2_SLICE */
	[0x02] = "",        /* 3_SLICE */
	[0x03] = "",        /* 4_SLICE */
	[0x04] = "",        /* 7_SLICE */
	[0x05] = "",        /* 8_SLICE */
	[0x06] = "",        /* 6_SLICE */
	[0x07] = "+me",     /* 1_SLICE_REV1 */
	[0x08] = "+me",     /* 2_SLICE_REV1 */
	[0x09] = "",        /* 1_SLICE_REV2: twice the memory */
	[0x0a] = "+gfx",    /* 1_SLICE_GFX */
	[0x0b] = "+gfx",    /* 2_SLICE_GFX */
	[0x0c] = "+gfx",    /* 4_SLICE_GFX */
	[0x0d] = "-me",     /* 1_SLICE_NO_ME */
	[0x0e] = "-me",     /* 2_SLICE_NO_ME */
	[0x0f] = "+me.all", /* 1_SLICE_ALL_ME */
	[0x10] = "+me.all", /* 2_SLICE_ALL_ME */
	[0x11] = "+gfx",    /* 3_SLICE_GFX */
};

/* ctype.h depends on the locale. */
static bool is_profile_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_profile_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Removes a number with @unit, such as "12g.", from the front of *at. */
static bool parse_profile_number(const char **at, const char *unit, uint32_t *ret)
{
	const char *p = *at;
	uint32_t n = 0;

	if (*p == '0')
		return false;
	while (is_profile_digit(*p) && p - *at < NUMBER_DIGITS)
		n = n * 10 + (uint32_t)(*p++ - '0');
	if (p == *at || strncmp(p, unit, strlen(unit)) != 0)
		return false;
	*at = p + strlen(unit);
	*ret = n;
	return true;
}

/* One attribute: a part of the text. */
struct attribute_word {
	const char *text;
	size_t len;
};

static bool word_ok(struct attribute_word w)
{
	if (w.len == 0 || is_profile_digit(w.text[0]) || w.text[0] == '.' ||
		w.text[w.len - 1] == '.')
		return false;
	for (size_t i = 0; i < w.len; i++)
		if (!is_profile_letter(w.text[i]) && !is_profile_digit(w.text[i]) &&
			w.text[i] != '.')
			return false;
	return true;
}

static int word_compare(struct attribute_word a, struct attribute_word b)
{
	int order = memcmp(a.text, b.text, a.len < b.len ? a.len : b.len);

	return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Inserts @w into the @n sorted words; false: duplicate. */
static bool insert_attribute(struct attribute_word *sorted, size_t n, struct attribute_word w)
{
	size_t i = n;

	for (; i > 0 && word_compare(sorted[i - 1], w) >= 0; i--)
		if (word_compare(sorted[i - 1], w) == 0)
			return false;
	memmove(sorted + i + 1, sorted + i, (n - i) * sizeof(*sorted));
	sorted[i] = w;
	return true;
}

/* Parses the text after "gb": a sign and a list. NULL, or the error. */
static const char *parse_attributes(char ret[MIG_ATTRIBUTES_MAX], const char *text)
{
	struct attribute_word sorted[ATTRIBUTES_MAX];
	size_t n = 0;

	ret[0] = '\0';
	if (!*text)
		return NULL;
	if (*text != '+' && *text != '-')
		return "nothing, '+' or '-' after the GB";
	if (strnlen(text, MIG_ATTRIBUTES_MAX) >= MIG_ATTRIBUTES_MAX)
		return "shorter attributes";
	for (const char *at = text; *at;) {
		struct attribute_word w = { .text = at + 1, .len = strcspn(at + 1, ",") };

		if (!word_ok(w))
			return "attributes of letters, digits and inner dots, beginning with a letter";
		if (!insert_attribute(sorted, n++, w))
			return "each attribute once";
		at = w.text + w.len;
	}
	for (size_t i = 0, len = 0; i < n; i++) {
		ret[len++] = i == 0 ? *text : ',';
		memcpy(ret + len, sorted[i].text, sorted[i].len);
		len += sorted[i].len;
		ret[len] = '\0';
	}
	return NULL;
}

/* NULL, or what was expected. */
static const char *parse_profile_text(struct mig_profile *p, const char *at)
{
	bool has_c = parse_profile_number(&at, "c.", &p->c);

	if (!parse_profile_number(&at, "g.", &p->g))
		return has_c ? "compute slices like '3g.' after 'c.'"
			     : "compute slices like '1g.' first";
	if (!has_c)
		p->c = p->g;
	if (!parse_profile_number(&at, "gb", &p->gb))
		return "memory like '5gb' after 'g.'";
	return parse_attributes(p->attributes, at);
}

int mig_profile_parse(struct mig_profile *ret, const char *text, struct error *err)
{
	struct mig_profile p = { 0 };
	const char *expected = parse_profile_text(&p, text);

	if (expected)
		return error_set(err, ERR_INVALID,
			"MIG profile '%.*s': expected %s, as in '1g.10gb+me'",
			2 * MIG_PROFILE_NAME_MAX, text, expected);
	*ret = p;
	return 0;
}

void mig_profile_format(const struct mig_profile *p, char ret[MIG_PROFILE_NAME_MAX])
{
	char c[sizeof("4294967295c.")] = "";

	if (p->c != p->g)
		(void)snprintf(c, sizeof(c), "%" PRIu32 "c.", p->c);
	(void)snprintf(ret, MIG_PROFILE_NAME_MAX, "%s%" PRIu32 "g.%" PRIu32 "gb%s", c, p->g,
		p->gb, p->attributes);
}

bool mig_profile_equal(const struct mig_profile *a, const struct mig_profile *b)
{
	return a->c == b->c && a->g == b->g && a->gb == b->gb &&
	       strcmp(a->attributes, b->attributes) == 0;
}

void mig_profile_word(const struct mig_profile *p, char ret[MIG_PROFILE_NAME_MAX])
{
	mig_profile_format(p, ret);
	for (; *ret; ret++)
		if (*ret == '+' || *ret == ',')
			*ret = '.';
}

uint32_t mig_profile_eighths(uint64_t memory_mib, uint64_t total_mib)
{
	if (!total_mib || memory_mib > UINT32_MAX || total_mib > UINT32_MAX)
		return 0;
	return (uint32_t)((8 * memory_mib + total_mib - 1) / total_mib);
}

uint32_t mig_profile_gb(uint64_t memory_mib, uint64_t total_mib)
{
	uint64_t eighths = mig_profile_eighths(memory_mib, total_mib);
	uint64_t gib = total_mib / 1024 + (total_mib % 1024 != 0);
	uint64_t gb = (eighths * gib + 4) / 8; /* round half up */

	return eighths && gb <= MIG_PROFILE_NUMBER_MAX ? (uint32_t)gb : 0;
}

const char *mig_profile_attributes(uint32_t number)
{
	return number < ARRAY_LEN(attributes_of) ? attributes_of[number] : NULL;
}

bool mig_profile_shape_ok(uint32_t c, uint32_t g)
{
	return c > 0 && (c == g || c <= g - g / 2); /* 2c <= g + 1 */
}
