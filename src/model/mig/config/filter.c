/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/config/config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Device filters: one or two numbers in Go's syntax. */

/* Returns the base by the prefix of *text, and moves *text past the prefix. */
static unsigned base_of(const char **text)
{
	static const struct {
		char letter;
		unsigned base;
	} prefixes[] = { { 'x', 16 }, { 'b', 2 }, { 'o', 8 } };

	if (**text != '0' || !(*text)[1])
		return 10;
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		if (tolower((unsigned char)(*text)[1]) == prefixes[i].letter) {
			*text += 2;
			return prefixes[i].base;
		}
	}
	(*text)++;
	return 8;
}

static unsigned digit_of(char c)
{
	if (isdigit((unsigned char)c))
		return (unsigned)(c - '0');
	return isxdigit((unsigned char)c) ? (unsigned)(tolower((unsigned char)c) - 'a' + 10)
					  : 99;
}

/* Go's ParseUint(text, 0, 32): "_" may precede each digit except the first of the number. */
static bool parse_filter_number(const char *text, uint32_t *ret)
{
	const char *start = text;
	unsigned base = base_of(&text);
	uint64_t v = 0;
	bool digit = text > start; /* a prefix counts as a digit */

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text == '_' && digit) {
			digit = false;
			continue;
		}
		if (digit_of(*text) >= base)
			return false;
		v = v * base + digit_of(*text);
		if (v > UINT32_MAX)
			return false;
		digit = true;
	}
	*ret = (uint32_t)v;
	return digit;
}

/* A truncated text ends with dots, so it is not a number either. */
static void copy_filter_text(struct mig_filter *f, const char *text)
{
	size_t len = strlen(text);

	if (len > MIG_FILTER_MAX) {
		len = MIG_FILTER_MAX - 3;
		while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--; /* not within a UTF-8 character */
		(void)snprintf(f->text, sizeof(f->text), "%.*s...", (int)len, text);
	} else {
		memcpy(f->text, text, len + 1);
	}
}

void mig_filter_parse(struct mig_filter *ret, const char *text)
{
	const char *colon = strchr(text, ':');
	char first[sizeof(ret->text)];
	struct mig_filter f = { .any_subsystem = !colon };

	copy_filter_text(&f, text);
	(void)snprintf(first, sizeof(first), "%.*s",
		colon && colon - text < MIG_FILTER_MAX ? (int)(colon - text) : MIG_FILTER_MAX,
		text);
	f.never = strlen(text) >= sizeof(f.text) || !parse_filter_number(first, &f.device) ||
		  (colon && !parse_filter_number(colon + 1, &f.subsystem));
	if (f.never)
		f.device = f.subsystem = 0;
	*ret = f;
}

bool mig_filter_matches(const struct mig_filter *f, const struct mig_pci *pci)
{
	return !f->never && f->device == pci->device &&
	       (f->any_subsystem || f->subsystem == pci->subsystem);
}
