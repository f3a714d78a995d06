/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/probe/mig-minors.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/parse.h"

#define LINE_MAX_BYTES 128
#define NO_MINOR       UINT32_MAX

/* One line: its minor number, and the instance that its key names, if any. */
struct mig_minors_line {
	bool is_instance, has_ci;
	uint32_t gpu, gi, ci, minor;
};

/* Parses @word and a number at *at, up to one of @ends or the end. */
static bool parse_word_number(const char **at, const char *word, const char *ends,
	uint32_t *ret)
{
	const char *p = *at;
	char digits[16];
	size_t n;

	if (strncmp(p, word, strlen(word)) != 0)
		return false;
	p += strlen(word);
	n = strcspn(p, ends);
	if (n == 0 || n >= sizeof(digits))
		return false;
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)n, p);
	if (!parse_u32(digits, ret))
		return false;
	*at = p + n;
	return true;
}

/* "gpu0/gi7/access" or "gpu0/gi7/ci0/access". */
static void parse_minor_key(struct mig_minors_line *l, const char *key)
{
	if (!parse_word_number(&key, "gpu", "/", &l->gpu) ||
		!parse_word_number(&key, "/gi", "/", &l->gi))
		return;
	l->has_ci = parse_word_number(&key, "/ci", "/", &l->ci);
	l->is_instance = strcmp(key, "/access") == 0;
}

static bool parse_minor_line(struct mig_minors_line *ret, const char *text, size_t len)
{
	char line[LINE_MAX_BYTES], *blank;

	*ret = (struct mig_minors_line){ .is_instance = false };
	if (len >= sizeof(line) || memchr(text, '\0', len))
		return false;
	memcpy(line, text, len);
	line[len] = '\0';
	blank = strchr(line, ' ');
	if (!blank || blank == line || !parse_u32(blank + 1, &ret->minor) ||
		ret->minor > MIG_MINOR_MAX)
		return false;
	*blank = '\0';
	parse_minor_key(ret, line);
	return true;
}

static void set_instance_minor(const struct mig_minors_line *l, struct gpu_mig *mig, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (mig[i].gi != l->gi)
			continue;
		if (!l->has_ci)
			mig[i].gi_minor = l->minor;
		else if (mig[i].ci == l->ci)
			mig[i].ci_minor = l->minor;
	}
}

static void reset_mig_minors(struct gpu_mig *mig, uint32_t n, uint32_t minor)
{
	for (uint32_t i = 0; i < n; i++) {
		mig[i].has_minors = false;
		mig[i].gi_minor = mig[i].ci_minor = minor;
	}
}

int mig_minors_fill(const char *text, size_t len, uint32_t gpu, struct gpu_mig *mig, uint32_t n,
	struct error *err)
{
	const char *end = text + len, *next;
	unsigned number = 1;

	reset_mig_minors(mig, n, NO_MINOR);
	for (const char *at = text; at < end; at = next < end ? next + 1 : end, number++) {
		struct mig_minors_line l;

		next = memchr(at, '\n', (size_t)(end - at));
		next = next ? next : end;
		if (!parse_minor_line(&l, at, (size_t)(next - at))) {
			reset_mig_minors(mig, n, 0);
			return error_set(err, ERR_INVALID,
				"line %u: expected a key and a minor number, found '%.*s'",
				number, next - at < 40 ? (int)(next - at) : 40, at);
		}
		if (l.is_instance && l.gpu == gpu)
			set_instance_minor(&l, mig, n);
	}
	for (uint32_t i = 0; i < n; i++) {
		mig[i].has_minors = mig[i].gi_minor != NO_MINOR && mig[i].ci_minor != NO_MINOR;
		if (!mig[i].has_minors)
			mig[i].gi_minor = mig[i].ci_minor = 0;
	}
	return 0;
}
