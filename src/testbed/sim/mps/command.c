/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/mps/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/cleanup.h"
#include "lib/base/parse.h"

#define WORDS_MAX 8
#define SPACE     " \t\r\n"

struct words {
	char at[WORDS_MAX][MPS_WORD_MAX];
	size_t n;
};

static void split_command_words(struct words *w, const char *line)
{
	w->n = 0;
	for (line += strspn(line, SPACE); *line && w->n < WORDS_MAX;
		line += strspn(line, SPACE)) {
		size_t len = strcspn(line, SPACE);

		(void)snprintf(w->at[w->n++], MPS_WORD_MAX, "%.*s",
			(int)(len < MPS_WORD_MAX ? len : MPS_WORD_MAX - 1), line);
		line += len;
	}
}

static uint32_t parse_command_number(const char *text)
{
	char digits[16];
	uint32_t v = 0;

	(void)snprintf(digits, sizeof(digits), "%.*s", (int)strspn(text, "0123456789"), text);
	return parse_u32(digits, &v) ? v : 0;
}

/* The word behind option @name; NULL: it is not there. */
static const char *find_command_option(const struct words *w, const char *name)
{
	for (size_t i = 1; i + 1 < w->n; i++)
		if (!strcmp(w->at[i], name))
			return w->at[i + 1];
	return NULL;
}

static bool has_command_word(const struct words *w, const char *name)
{
	for (size_t i = 1; i < w->n; i++)
		if (!strcmp(w->at[i], name))
			return true;
	return false;
}

static void copy_command_word(char *to, const char *from)
{
	(void)snprintf(to, MPS_WORD_MAX, "%s", from);
}

static void parse_command_args(struct sim_mps_command *c, const struct words *w)
{
	const char *first = w->n > 1 ? w->at[1] : "", *second = w->n > 2 ? w->at[2] : "";
	const char *third = w->n > 3 ? w->at[3] : "", *text;

	switch ((int)c->id) {
	case MPS_CMD_SET_DEF_LIMIT:
	case MPS_CMD_GET_DEF_LIMIT:
		c->device = parse_command_number(first);
		copy_command_word(c->device_text, first);
		copy_command_word(c->value, second);
		break;
	case MPS_CMD_SET_DEF_PERCENT:
	case MPS_CMD_SET_DEF_PRIORITY:
		copy_command_word(c->value, first);
		break;
	case MPS_CMD_SET_LIMIT:
	case MPS_CMD_GET_LIMIT:
		c->pid = parse_command_number(first);
		c->device = parse_command_number(second);
		copy_command_word(c->value, third);
		break;
	case MPS_CMD_START_SERVER:
		text = find_command_option(w, "-uid");
		c->has_uid = text != NULL;
		c->uid = text ? parse_command_number(text) : 0;
		break;
	case MPS_CMD_QUIT:
		text = find_command_option(w, "-t");
		c->timeout_s = text ? parse_command_number(text) : 0;
		break;
	default:
		c->pid = parse_command_number(first);
		c->client = parse_command_number(second);
		copy_command_word(c->value, second);
		c->force = has_command_word(w, "-f");
		break;
	}
}

void mps_command_parse(struct sim_mps_command *ret, const char *line)
{
#define ROW_(id, name, changes, served, words) { name, MPS_CMD_##id, words, changes, served },
	static const struct {
		const char *name;
		enum mps_command_id id;
		size_t words;
		bool changes, served;
	} rows[] = { MPS_COMMANDS(ROW_) };
#undef ROW_
	struct words w;

	*ret = (struct sim_mps_command){ .id = MPS_CMD_UNKNOWN };
	split_command_words(&w, line);
	line += strspn(line, SPACE);
	(void)snprintf(ret->name, sizeof(ret->name), "%.*s", (int)strcspn(line, "\r\n"), line);
	for (size_t i = 0; w.n && i < ARRAY_LEN(rows); i++)
		if (!strcmp(w.at[0], rows[i].name)) {
			ret->id = rows[i].id;
			ret->changes = rows[i].changes;
			ret->served = rows[i].served;
			ret->short_of = w.n - 1 < rows[i].words;
			parse_command_args(ret, &w);
		}
}
