/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cmd.h"

#include "abi/slice-dir.h"
#include "io/price/price.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "tools/cli/cost/view/view.h"
#include "tools/cli/output.h"

#include <curl/curl.h>
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* gpuslice cost: shows which pods held GPUs in a period of time, and the cost. */

#define DEFAULT_FROM    "24h"
#define DEFAULT_TIMEOUT (30 * NS_PER_SEC)

/* Sorted by name. */
static const struct option_def options[] = {
	{ .name = "bearer-token-file",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "file with the token for the Prometheus server" },
	{ .name = "billing-account",
		.type = OPTION_STR,
		.arg = "ID",
		.def = "unknown",
		.help = "BillingAccountId of the CSV" },
	{ .name = "by",
		.type = OPTION_STR,
		.arg = "WHAT",
		.def = "namespace",
		.help = "a row for each namespace, pod, container, gpu or mode; CSV has all" },
	{ .name = "ca-file",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "certificates that the Prometheus server's is checked with" },
	{ .name = "from",
		.type = OPTION_STR,
		.arg = "TIME",
		.def = DEFAULT_FROM,
		.help = "begin: a time ago (24h, 7d), a day, or RFC 3339" },
	{ .name = "ledger",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "the agent's ledger; default: " USAGE_DB_FILE
			" in the state directory" },
	{ .name = "output",
		.letter = 'o',
		.type = OPTION_STR,
		.arg = "FORM",
		.def = "table",
		.help = "table, json, or csv: FOCUS 1.3, a row for each charge" },
	{ .name = "price",
		.type = OPTION_STR,
		.arg = "PRICE",
		.help = "what the node costs per hour, such as 3.06 or 2.9EUR, instead of the "
			"ledger's prices" },
	{ .name = "prometheus",
		.type = OPTION_STR,
		.arg = "URL",
		.help = "ask this Prometheus server instead of the ledger, for all nodes" },
	{ .name = "provider",
		.type = OPTION_STR,
		.arg = "NAME",
		.def = "unknown",
		.help = "who sells the nodes: ServiceProviderName of the CSV" },
	{ .name = "state-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_LEDGER_DIR", "GPUSLICE_STATE_DIR" },
		.arg = "DIR",
		.def = SLICE_STATE_DIR,
		.help = "state directory of the agent, or its --ledger-dir" },
	{ .name = "timeout",
		.type = OPTION_DURATION,
		.arg = "DURATION",
		.def = "30s",
		.help = "how long an answer of the Prometheus server may take" },
	{ .name = "to",
		.type = OPTION_STR,
		.arg = "TIME",
		.def = "now",
		.help = "end, as --from" },
};

enum cost_format { FORM_TABLE, FORM_CSV, FORM_JSON };

struct cost_request {
	enum cost_format form;
	enum cost_by by;
	uint64_t from_s, to_s;
	int64_t price_nano; /* < 0: no --price */
	char currency[4];
};

/* --- the request --- */

/* "3.06", "2.9EUR" or "2.9 EUR". */
static int parse_cost_price(const struct options *o, struct cost_request *request,
	struct error *err)
{
	const char *text = option_str(o, "price", NULL);
	char number[40];
	size_t len;

	request->price_nano = -1;
	if (!text)
		return 0;
	len = strspn(text, "0123456789.");
	memcpy(request->currency, "USD", sizeof("USD"));
	if (len < sizeof(number)) {
		const char *currency = text + len + (text[len] == ' ');
		bool named = strlen(currency) == 3 && isupper((unsigned char)currency[0]) &&
			     isupper((unsigned char)currency[1]) &&
			     isupper((unsigned char)currency[2]);

		memcpy(number, text, len);
		number[len] = '\0';
		if (named)
			memcpy(request->currency, currency, sizeof(request->currency));
		if ((named || !text[len]) && price_parse(number, &request->price_nano))
			return 0;
	}
	return error_set(err, ERR_INVALID,
		"--price: expected a price per hour from 0 to 1000000, such as 3.06 or 2.9EUR, found "
		"'%.40s'",
		text);
}

static int parse_cost_request(const struct options *o, struct cost_request *request,
	struct error *err)
{
	static const char *const forms[] = { "table", "csv", "json" };
	static const char *const bys[] = { "namespace", "pod", "container", "gpu", "mode" };
	uint64_t now_s = time_wall_ns() / NS_PER_SEC;
	int form, by;

	if (o->args.n)
		return error_set(err, ERR_INVALID, "unexpected argument '%s'", o->args.v[0]);
	form = option_choice(o, "output", forms, ARRAY_LEN(forms), err);
	by = option_choice(o, "by", bys, ARRAY_LEN(bys), err);
	if (form < 0 || by < 0 ||
		cost_time_parse(&request->from_s, "from", option_str(o, "from", DEFAULT_FROM),
			now_s, err) < 0 ||
		cost_time_parse(&request->to_s, "to", option_str(o, "to", "now"), now_s, err) <
			0)
		return -1;
	if (request->from_s >= request->to_s)
		return error_set(err, ERR_INVALID, "--from '%.40s' is not before --to '%.40s'",
			option_str(o, "from", DEFAULT_FROM), option_str(o, "to", "now"));
	request->form = (enum cost_format)form;
	request->by = request->form == FORM_CSV ? COST_BY_CHARGE : (enum cost_by)by;
	return parse_cost_price(o, request, err);
}

/*
 * --- one query to a Prometheus server over HTTP ---
 *
 * Blocks up to .timeout_ns. No error text contains the token, or the user name and password of a URL.
 */

#define FETCH_REPLY_MAX (64U << 20) /* bytes */
#define FETCH_TOKEN_MAX 16384       /* bytes of the token file */

struct fetch {
	const char *url;        /* "https://prometheus:9090/prefix" */
	const char *token_file; /* NULL: no token */
	const char *ca_file;    /* NULL: the system's */
	uint64_t timeout_ns;
};

#define PLACE_MAX 200 /* bytes of a URL in an error */

static void curl_freep(CURL **c)
{
	if (*c)
		curl_easy_cleanup(*c);
}

static void curl_textp(char **text)
{
	curl_free(*text);
}

static void curl_urlp(CURLU **u)
{
	curl_url_cleanup(*u);
}

static size_t on_cost_fetch_data(char *data, size_t size, size_t n, void *arg)
{
	struct buf *b = arg;

	buf_add(b, data, size * n);
	return buf_ok(b) ? size * n : 0;
}

/* @url: the URL of the query. @place: the server's URL for errors, without user name and password. */
static int make_urls(const struct fetch *f, const char *query, uint64_t time_s, struct buf *url,
	char *place, struct error *err)
{
	CLEANUP(curl_urlp) CURLU *u = curl_url();
	CLEANUP(curl_textp) char *path = NULL;
	CLEANUP(curl_textp) char *whole = NULL;
	CLEANUP(curl_textp) char *shown = NULL;
	CLEANUP(curl_textp) char *escaped = curl_easy_escape(NULL, query, 0);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(4096);

	if (!u || !escaped)
		return error_nomem(err);
	if (curl_url_set(u, CURLUPART_URL, f->url, 0) != CURLUE_OK ||
		curl_url_get(u, CURLUPART_PATH, &path, 0) != CURLUE_OK)
		return error_set(err, ERR_INVALID,
			"--prometheus: expected a URL such as http://prometheus:9090");
	buf_puts(&text, path);
	while (text.len > 0 && text.data[text.len - 1] == '/')
		text.data[--text.len] = '\0';
	buf_puts(&text, "/api/v1/query");
	if (!buf_ok(&text))
		return error_set(err, ERR_LIMIT, "--prometheus: the URL is too long");
	(void)curl_url_set(u, CURLUPART_QUERY, NULL, 0);
	(void)curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0);
	if (curl_url_set(u, CURLUPART_PATH, buf_str(&text), 0) != CURLUE_OK ||
		curl_url_get(u, CURLUPART_URL, &whole, 0) != CURLUE_OK)
		return error_nomem(err);
	buf_printf(url, "%s?time=%" PRIu64 "&query=%s", whole, time_s, escaped);
	(void)curl_url_set(u, CURLUPART_USER, NULL, 0);
	(void)curl_url_set(u, CURLUPART_PASSWORD, NULL, 0);
	(void)curl_url_set(u, CURLUPART_OPTIONS, NULL, 0);
	if (curl_url_get(u, CURLUPART_URL, &shown, 0) != CURLUE_OK || !buf_ok(url))
		return error_nomem(err);
	(void)snprintf(place, PLACE_MAX, "%s", shown);
	return 0;
}

static int read_bearer_token(const char *path, struct buf *token, struct error *err)
{
	if (file_read(path, token, err) < 0)
		return error_prefix(err, "--bearer-token-file");
	while (token->len > 0 && isspace((unsigned char)token->data[token->len - 1]))
		token->data[--token->len] = '\0';
	for (size_t i = 0; i < token->len; i++) {
		if (!isgraph((unsigned char)token->data[i]))
			return error_set(err, ERR_INVALID,
				"--bearer-token-file: expected one line without blanks in '%s'",
				path);
	}
	if (token->len == 0)
		return error_set(err, ERR_INVALID, "--bearer-token-file: '%s' is empty", path);
	return 0;
}

static int perform_cost_fetch(CURL *c, const char *place, const struct buf *body,
	struct error *err)
{
	CURLcode r = curl_easy_perform(c);
	long status = 0;

	if (r == CURLE_WRITE_ERROR && !buf_ok(body))
		return error_set(err, ERR_LIMIT, "the answer of '%s' is larger than %zu bytes",
			place, body->max);
	if (r == CURLE_OPERATION_TIMEDOUT)
		return error_set(err, ERR_TIMEOUT, "'%s' did not answer in time", place);
	if (r != CURLE_OK)
		return error_set(err, ERR_UNAVAILABLE, "ask '%s': %s", place,
			curl_easy_strerror(r));
	(void)curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	if (status == 401 || status == 403)
		return error_set(err, ERR_PERMISSION,
			"'%s' answered with status %ld: it wants another token, see "
			"--bearer-token-file",
			place, status);
	if (status != 200 && status != 400 && status != 422 && status != 503)
		return error_set(err, ERR_UNAVAILABLE, "'%s' answered with status %ld", place,
			status);
	return 0;
}

/*
 * Evaluates @query at @time_s and appends the body to @ret. A status other than 200 is an error,
 * except 400, 422 and 503: there the body explains the failure.
 */
static int fetch_query(const struct fetch *f, const char *query, uint64_t time_s,
	struct buf *ret, struct error *err)
{
	CLEANUP(curl_freep) CURL *c = curl_easy_init();
	CLEANUP(buf_fini) struct buf token = BUF_INIT(FETCH_TOKEN_MAX);
	CLEANUP(buf_fini) struct buf url = BUF_INIT(16384);
	char place[PLACE_MAX];

	if (!c)
		return error_nomem(err);
	if (make_urls(f, query, time_s, &url, place, err) < 0)
		return -1;
	if (f->token_file) {
		if (read_bearer_token(f->token_file, &token, err) < 0)
			return -1;
		(void)curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		(void)curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, buf_str(&token));
	}
	if (f->ca_file)
		(void)curl_easy_setopt(c, CURLOPT_CAINFO, f->ca_file);
	(void)curl_easy_setopt(c, CURLOPT_URL, buf_str(&url));
	(void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	(void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(f->timeout_ns / NS_PER_MS));
	(void)curl_easy_setopt(c, CURLOPT_USERAGENT, "gpuslice/" GPUSLICE_VERSION);
	(void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_cost_fetch_data);
	(void)curl_easy_setopt(c, CURLOPT_WRITEDATA, ret);
	return perform_cost_fetch(c, place, ret, err);
}

/* --- the sources --- */

static int add_usage_db_costs(const struct options *o, const struct cost_request *request,
	struct cost_summary *summary, struct error *err)
{
	struct cost_reprice r = { .summary = summary,
		.price_nano = request->price_nano,
		.currency = request->currency };
	const char *path = option_str(o, "ledger", NULL);
	char def[PATH_MAX];
	int got;

	if (!path) {
		if (path_join(def, sizeof(def), option_str(o, "state-dir", SLICE_STATE_DIR),
			    USAGE_DB_FILE, err) < 0)
			return -1;
		path = def;
	}
	got = usage_db_read(path, request->from_s, request->to_s, cost_summary_add_record, &r,
		err);
	if (got >= 0)
		got = cost_reprice_end(&r, err);
	cost_reprice_fini(&r);
	if (got < 0 && err->code == ERR_NOT_FOUND)
		return error_set(err, ERR_NOT_FOUND,
			"there is no ledger '%s'; the agent of each node keeps one in its state "
			"directory (--state-dir): run this on the node, name a file with --ledger, or "
			"ask a Prometheus server with --prometheus URL",
			path);
	return got;
}

static int add_prometheus_costs(const struct options *o, const struct cost_request *request,
	struct cost_summary *summary, struct error *err)
{
	const struct option_value *timeout = option_get(o, "timeout");
	const struct fetch f = {
		.url = option_str(o, "prometheus", ""),
		.token_file = option_str(o, "bearer-token-file", NULL),
		.ca_file = option_str(o, "ca-file", NULL),
		.timeout_ns = timeout->source == OPTION_UNSET ? DEFAULT_TIMEOUT
							      : (uint64_t)timeout->ns,
	};
	CLEANUP(cost_summary_freep) struct cost_summary *answers = NULL;

	if (request->price_nano >= 0)
		return error_set(err, ERR_INVALID,
			"--price is for the ledger of one node; the agents tell a Prometheus server what "
			"their nodes cost");
	if (timeout->source != OPTION_UNSET && timeout->ns <= 0)
		return error_set(err, ERR_INVALID, "--timeout: expected more than 0");
	if (cost_summary_new(&answers, COST_BY_CHARGE, err) < 0)
		return -1;
	for (size_t i = 0; i < cost_n_queries; i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(4096);
		CLEANUP(buf_fini) struct buf answer = BUF_INIT(FETCH_REPLY_MAX);

		cost_query_text(&text, &cost_queries[i], request->to_s - request->from_s);
		if (fetch_query(&f, buf_str(&text), request->to_s, &answer, err) < 0 ||
			cost_query_read(answers, &cost_queries[i], buf_str(&answer), answer.len,
				request->from_s, request->to_s, err) < 0)
			return -1;
	}
	return cost_summary_merge(summary, answers, err);
}

static int run_cost_command(const struct cmd *cmd, const struct options *o, struct error *err)
{
	static int (*const print[])(struct buf * b, const struct cost_print *p,
		struct error *err) = {
		[FORM_TABLE] = cost_print_table,
		[FORM_CSV] = cost_print_csv,
		[FORM_JSON] = cost_print_json,
	};
	CLEANUP(cost_summary_freep) struct cost_summary *summary = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(COST_TEXT_MAX);
	struct cost_request request = { .price_nano = -1 };
	struct cost_print p;
	bool remote = option_str(o, "prometheus", NULL) != NULL;

	(void)cmd;
	if (parse_cost_request(o, &request, err) < 0 ||
		cost_summary_new(&summary, request.by, err) < 0)
		return -1;
	if (remote && option_str(o, "ledger", NULL))
		return error_set(err, ERR_INVALID,
			"--ledger and --prometheus: expected one of them");
	if ((remote ? add_prometheus_costs(o, &request, summary, err)
		    : add_usage_db_costs(o, &request, summary, err)) < 0)
		return -1;
	p = (struct cost_print){
		.summary = summary,
		.by = request.by,
		.from_s = request.from_s,
		.to_s = request.to_s,
		.estimated = remote,
		.provider = option_str(o, "provider", "unknown"),
		.account = option_str(o, "billing-account", "unknown"),
	};
	if (print[request.form](&text, &p, err) < 0)
		return -1;
	return output_write(NULL, buf_str(&text), text.len, err);
}

const struct cmd cmd_cost = {
	.name = "cost",
	.usage = "[OPTION]...",
	.summary = "show who held GPUs, how much of them, and what that cost",
	.description =
		"From the ledger of this node's agent, or from a Prometheus server. GPU hours are those of\n"
		"whole GPUs: a slice of a quarter that is held for an hour is 0.25. What nobody held is idle\n"
		"and has rows of its own, so that the rows of a ledger sum exactly to the node's price. The\n"
		"time is rounded out to the buckets of the ledger: 5 minutes, hours after 2 days, days\n"
		"after 60.\n"
		"\n"
		"  gpuslice cost --from 7d --by pod\n"
		"  gpuslice cost --from 2026-11-01 --to 2026-12-01 --output csv\n"
		"  gpuslice cost --prometheus http://prometheus:9090 --from 24h\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_cost_command,
};
