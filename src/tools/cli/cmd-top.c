/* SPDX-License-Identifier: Apache-2.0 */
/* gpuslice top: options, and the choice between the live screen and text (top/view/view.h). */
#include "lib/base/paths.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "tools/cli/cmd.h"
#include "tools/cli/top/live.h"
#include "tools/cli/top/view/view.h"

#include <inttypes.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH        "/api/v1/node"
#define TIMEOUT_NS  (10 * NS_PER_SEC)
#define INTERVAL_NS (2 * NS_PER_SEC)
#define WIDTH       120 /* columns of text output without a valid $COLUMNS */
#define WIDTH_MIN   20
#define WIDTH_MAX   1000
#define TOKEN_MAX   (16U << 10) /* bytes */

static const struct option_def options[] = {
	{ .name = "run-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_RUN_DIR" },
		.arg = "DIR",
		.def = DEFAULT_RUN_DIR,
		.help = "run directory of the agent" },
	{ .name = "url",
		.type = OPTION_STR,
		.arg = "URL",
		.help = "ask the agent's web server, http://HOST:PORT or https://HOST:PORT, instead of the local socket" },
	{ .name = "token-file",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "with --url, the bearer token to show" },
	{ .name = "ca-file",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "with --url, the certificates to trust instead of the system's" },
	{ .name = "interval",
		.type = OPTION_DURATION,
		.arg = "TIME",
		.def = "2s",
		.help = "how often to look" },
	{ .name = "show",
		.type = OPTION_STR,
		.arg = "WHAT",
		.def = "pods",
		.help = "pods, slices or gpus" },
	{ .name = "sort",
		.type = OPTION_STR,
		.arg = "COLUMN",
		.def = "gpu",
		.help = "gpu, name, mode, share, received, memory, limit, peak, turns, waits or cost" },
	{ .name = "reverse",
		.letter = 'r',
		.type = OPTION_BOOL,
		.help = "sort the other way round" },
	{ .name = "filter",
		.type = OPTION_STR,
		.arg = "TEXT",
		.help = "only what has this in its namespace, pod, container, resource or UUID" },
	{ .name = "hide-idle",
		.letter = 'i',
		.type = OPTION_BOOL,
		.help = "without what does nothing" },
	{ .name = "once",
		.type = OPTION_BOOL,
		.help = "print one picture as text, as wide as $COLUMNS or 120; also what happens where there is no terminal" },
	{ .name = "count",
		.letter = 'n',
		.type = OPTION_UINT,
		.arg = "N",
		.help = "print N pictures as text, --interval apart" },
	{ .name = "json",
		.type = OPTION_BOOL,
		.help = "print the agent's answer as it is, once or --count times" },
};

/* --- options --- */

static int parse_table_choice(struct top_state *s, const struct options *o, struct error *err)
{
	static const char *const tables
		[] = { [TOP_PODS] = "pods", [TOP_SLICES] = "slices", [TOP_GPUS] = "gpus" };
	const char *show = option_str(o, "show", "pods"), *sort = option_str(o, "sort", "gpu");
	const char *filter = option_str(o, "filter", "");
	size_t table = 0;

	while (table < ARRAY_LEN(tables) && strcmp(show, tables[table]) != 0)
		table++;
	if (table == ARRAY_LEN(tables))
		return error_set(err, ERR_INVALID,
			"--show: expected pods, slices or gpus, found '%.40s'", show);
	s->choice.table = (enum top_table)table;
	if (top_sort_find(sort, &s->choice.sort) < 0 ||
		!top_sort_fits(s->choice.sort, s->choice.table))
		return error_set(err, ERR_INVALID,
			"--sort: there is no column '%.40s' in the table of %s", sort, show);
	if (strlen(filter) >= TOP_FILTER_MAX)
		return error_set(err, ERR_LIMIT,
			"--filter: expected less than %d bytes, found %zu", TOP_FILTER_MAX,
			strlen(filter));
	(void)snprintf(s->choice.filter, TOP_FILTER_MAX, "%s", filter);
	s->choice.reverse = option_bool(o, "reverse", false);
	s->choice.hide_idle = option_bool(o, "hide-idle", false);
	return 0;
}

static int choose_interval(struct top_state *s, const struct options *o, struct error *err)
{
	const struct option_value *v = option_get(o, "interval");

	s->interval_ns = INTERVAL_NS;
	if (v->source == OPTION_UNSET)
		return 0;
	if (v->ns < (int64_t)TOP_INTERVAL_MIN_NS || v->ns > (int64_t)TOP_INTERVAL_MAX_NS)
		return error_set(err, ERR_INVALID,
			"--interval: expected 500ms to 1h, found %" PRId64 " ms",
			v->ns / (int64_t)NS_PER_MS);
	s->interval_ns = (uint64_t)v->ns;
	return 0;
}

static unsigned text_width(void)
{
	const char *columns = getenv("COLUMNS");
	uint32_t width;

	if (!columns || !parse_u32(columns, &width) || width < WIDTH_MIN)
		return WIDTH;
	return width < WIDTH_MAX ? width : WIDTH_MAX;
}

/* Chooses text output or the live screen, and the number of pictures. */
static int choose_top_output(struct top_plan *p, bool *ret_plain, const struct options *o,
	struct error *err)
{
	bool counted = option_get(o, "count")->source != OPTION_UNSET;

	p->json = option_bool(o, "json", false);
	p->count = option_uint(o, "count", 1);
	if (p->count == 0)
		return error_set(err, ERR_INVALID, "--count: expected 1 or more, found 0");
	*ret_plain = p->json || counted || option_bool(o, "once", false) ||
		     !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO);
	p->colour = !getenv("NO_COLOR");
	p->state.width = text_width();
	return 0;
}

/* --- the agent --- */

/* The first line of the file. */
static int read_top_token(const char *path, struct buf *b, struct error *err)
{
	if (file_read(path, b, err) < 0)
		return error_prefix(err, "--token-file");
	if (b->len > 0)
		b->data[strcspn(b->data, "\r\n")] = '\0';
	for (const char *p = buf_str(b); *p; p++) {
		if (*p <= ' ' || *p > '~')
			return error_set(err, ERR_INVALID,
				"--token-file: '%s' has more than a token in its first line",
				path);
	}
	if (!*buf_str(b))
		return error_set(err, ERR_INVALID, "--token-file: '%s' is empty", path);
	return 0;
}

static int find_agent(struct http_get **ret, const struct options *o, struct error *err)
{
	CLEANUP(buf_fini) struct buf token = BUF_INIT(TOKEN_MAX);
	const char *token_file = option_str(o, "token-file", NULL);
	char socket[PATH_MAX];
	struct http_get_options to = {
		.url = option_str(o, "url", NULL),
		.path = PATH,
		.ca_file = option_str(o, "ca-file", NULL),
		.timeout_ns = TIMEOUT_NS,
		.max = TOP_DOCUMENT_MAX,
	};

	if (!to.url && (token_file || to.ca_file))
		return error_set(err, ERR_INVALID, "--token-file and --ca-file go with --url");
	if (token_file && read_top_token(token_file, &token, err) < 0)
		return -1;
	if (token_file)
		to.token = buf_str(&token);
	if (!to.url) {
		if (path_join(socket, sizeof(socket), option_str(o, "run-dir", DEFAULT_RUN_DIR),
			    AGENT_SOCKET, err) < 0)
			return -1;
		to.socket = socket;
	}
	return http_get_new(ret, &to, err);
}

static int run_top_command(const struct cmd *cmd, const struct options *o, struct error *err)
{
	CLEANUP(http_get_freep) struct http_get *agent = NULL;
	struct top_plan plan = { .count = 0 };
	bool plain = false;

	(void)cmd;
	if (o->args.n > 0)
		return error_set(err, ERR_INVALID, "unexpected argument '%s'", o->args.v[0]);
	if (parse_table_choice(&plan.state, o, err) < 0 ||
		choose_interval(&plan.state, o, err) < 0 ||
		choose_top_output(&plan, &plain, o, err) < 0 || find_agent(&agent, o, err) < 0)
		return -1;
	(void)setlocale(LC_CTYPE, "");
	plan.state.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	if (!plain)
		return top_live(agent, &plan, err);
	if (top_plain(agent, &plan, err) == 0)
		return 0;
	if (err->code == ERR_UNAVAILABLE && !option_str(o, "url", NULL))
		return error_prefix(err,
			"no agent answers; is gpusliced running, with this --run-dir?");
	return -1;
}

const struct cmd cmd_top = {
	.name = "top",
	.usage = "[OPTION]...",
	.summary = "watch GPUs, slices and who uses what, live",
	.description =
		"Asks the agent of this node over its unix socket in the run directory, or --url.\n"
		"? shows the keys, q quits.\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_top_command,
};
