/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/base/parse.h"
#include "tools/cli/bench/bench.h"
#include "tools/cli/profile/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The request of `gpuslice profile`. */

static const char *const kinds[] = { "inference-open", "inference-closed", "batch", "train" };

/* Only letters, digits, '.', '_' and '-', so that the name is valid everywhere. */
static int set_profile_name(struct profile_request *request, const char *name, bool given,
	struct error *err)
{
	const char *slash = strrchr(name, '/'), *whole = name;
	size_t n = 0;

	if (!given && slash)
		name = slash + 1;
	for (; *name && n < PROFILE_NAME_MAX; name++) {
		bool fits = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
			    (*name >= '0' && *name <= '9') || strchr("._-", *name);

		if (!fits && given)
			return error_set(err, ERR_INVALID,
				"--name: expected letters, digits, '.', '_' and '-', found '%.40s'",
				whole);
		request->name[n++] = *name;
		if (!fits)
			request->name[n - 1] = '-';
	}
	if (!n || (*name && given))
		return error_set(err, ERR_INVALID, "--name: expected 1 to %d characters",
			PROFILE_NAME_MAX);
	return 0;
}

/* For programs that already run: the command starts none. */
static int read_observation_form(struct profile_request *request, const struct options *o,
	struct error *err)
{
	static const char *const of_starts[] = { "node", "pattern", "shares", "repetitions",
		"warmup", "startup", "mps-control" };
	uint64_t pid = option_uint(o, "pid", 0);
	const char *name = option_str(o, "name", NULL), *slash;

	request->pod = option_str(o, "pod", NULL);
	if (!request->pod && !option_get(o, "pid")->source)
		return 0;
	if (request->pod && pid)
		return error_set(err, ERR_INVALID, "expected --pid or --pod, found both");
	if (o->args.n || option_str(o, "workload", NULL))
		return error_set(err, ERR_INVALID,
			"--pid and --pod are of what runs already: expected no program");
	for (size_t i = 0; i < ARRAY_LEN(of_starts); i++)
		if (option_get(o, of_starts[i])->source)
			return error_set(err, ERR_INVALID,
				"--%s is for a program that is started, not for --pid and --pod",
				of_starts[i]);
	slash = request->pod ? strchr(request->pod, '/') : NULL;
	if (request->pod && (!slash || slash == request->pod || !slash[1]))
		return error_set(err, ERR_INVALID,
			"--pod: expected NAMESPACE/NAME, found '%.80s'", request->pod);
	if (!request->pod && (!pid || pid > INT32_MAX))
		return error_set(err, ERR_INVALID, "--pid: expected the number of a process");
	request->pid = (pid_t)pid;
	request->observe_s = 30;
	if (request->pod)
		(void)snprintf(request->shown, sizeof(request->shown), "pod %.200s",
			request->pod);
	else
		(void)snprintf(request->shown, sizeof(request->shown), "process %d", (int)pid);
	return bench_read_seconds(&request->observe_s, o, "seconds", 1, err) < 0
		       ? -1
		       : set_profile_name(request,
				 name           ? name
				 : request->pod ? slash + 1
						: "program",
				 name != NULL, err);
}

int profile_read_words(struct profile_request *request, const struct options *o,
	struct error *err)
{
	bool known = false;

	request->kind = option_str(o, "kind", "inference-closed");
	request->save_path = option_str(o, "save", NULL);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		known = known || !strcmp(request->kind, kinds[i]);
	if (!known)
		return error_set(err, ERR_INVALID,
			"--kind: expected inference-open, inference-closed, batch or train, found '%.40s'",
			request->kind);
	return read_observation_form(request, o, err);
}

int profile_read_form(struct profile_request *request, const struct options *o,
	struct error *err)
{
	const char *form = option_str(o, "output", "text");

	request->yaml = !strcmp(form, "yaml");
	if (!request->yaml && strcmp(form, "text") != 0)
		return error_set(err, ERR_INVALID,
			"--output: expected text or yaml, found '%.40s'", form);
	return 0;
}

/* Joins the words; @quoted: as a shell command, with each word in quotes. */
static int join_words(char *to, size_t room, const struct strv *words, bool quoted,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(room);

	buf_puts(&b, quoted ? "exec" : "");
	for (size_t i = 0; i < words->n; i++) {
		buf_puts(&b, quoted || i ? " " : "");
		if (!quoted) {
			buf_puts(&b, words->v[i]);
			continue;
		}
		escape_shell(&b, words->v[i]);
	}
	if (!buf_ok(&b) || b.len >= room)
		return error_set(err, ERR_LIMIT, "the command: expected less than %zu bytes",
			room);
	memcpy(to, buf_str(&b), b.len + 1);
	return 0;
}

static int find_builtin(struct suite *s, const char *name, uint32_t *ret, struct error *err)
{
	for (uint32_t i = 0; i < s->n_workloads; i++)
		if (!strcmp(s->workloads[i].name, name)) {
			*ret = i;
			return 0;
		}
	return error_set(err, ERR_INVALID,
		"--workload: no workload '%.40s'; there are: burn, small, "
		"bandwidth, decode, latency, requests",
		name);
}

static int read_program(struct profile_request *request, struct suite *s,
	struct suite_workload *room, uint32_t *ret, const struct options *o, struct error *err)
{
	const char *builtin = option_str(o, "workload", NULL),
		   *name = option_str(o, "name", NULL);
	const char *pattern = option_str(o, "pattern", NULL);

	if (builtin && (o->args.n || pattern))
		return error_set(err, ERR_INVALID, "--workload is instead of a program");
	if (builtin) {
		(void)snprintf(request->shown, sizeof(request->shown), "--workload %.40s",
			builtin);
		if (find_builtin(s, builtin, ret, err) < 0)
			return -1;
		if (!option_get(o, "kind")->source && s->workloads[*ret].flow >= SUITE_PERIODIC)
			request->kind = kinds[0];
		return set_profile_name(request, name ? name : builtin, name != NULL, err);
	}
	if (!o->args.n)
		return error_set(err, ERR_INVALID,
			"expected a program, as in gpuslice profile -- python3 infer.py, or --workload");
	if (join_words(request->command, sizeof(request->command), &o->args, true, err) < 0 ||
		join_words(request->shown, sizeof(request->shown), &o->args, false, err) < 0 ||
		set_profile_name(request, name ? name : o->args.v[0], name != NULL, err) < 0)
		return -1;
	suite_command(s, room, request->command, pattern);
	*ret = (uint32_t)s->n_workloads - 1;
	request->silent = !pattern;
	room[*ret].silent = request->silent;
	return 0;
}

static int read_shares(double *shares, size_t *n, const struct options *o, struct error *err)
{
	static const double usual[] = { 1, 0.5, 0.25 };
	const struct strv *words = &option_get(o, "shares")->list;

	*n = 0;
	if (!words->n) {
		memcpy(shares, usual, sizeof(usual));
		*n = ARRAY_LEN(usual);
		return 0;
	}
	if (words->n == 1 && !strcmp(words->v[0], "none"))
		return 0;
	shares[(*n)++] = 1; /* the others are compared with it */
	for (size_t i = 0; i < words->n; i++) {
		uint32_t percent;
		bool known = false;

		if (!parse_u32(words->v[i], &percent) || !percent || percent > 100)
			return error_set(err, ERR_INVALID,
				"--shares: expected percentages from 1 to 100, or none, found '%.40s'",
				words->v[i]);
		for (size_t k = 0; k < *n; k++)
			known = known || fabs(shares[k] * 100 - percent) < 0.5;
		if (known)
			continue;
		if (*n == PROFILE_POINTS_MAX)
			return error_set(err, ERR_LIMIT, "--shares: expected at most %d",
				PROFILE_POINTS_MAX - 1);
		shares[(*n)++] = percent / 100.0;
	}
	return 0;
}

int profile_read_suite(struct suite *s, struct suite_workload *room,
	struct profile_request *request, const struct options *o, struct error *err)
{
	uint64_t repetitions = option_uint(o, "repetitions", 2);
	double shares[PROFILE_POINTS_MAX];
	uint32_t workload = 0;
	size_t n;

	suite_defaults(s);
	if (read_program(request, s, room, &workload, o, err) < 0 ||
		read_shares(shares, &n, o, err) < 0)
		return -1;
	if (!repetitions || repetitions > 100)
		return error_set(err, ERR_INVALID,
			"--repetitions: expected 1 to 100, found %llu",
			(unsigned long long)repetitions);
	s->repetitions = (uint32_t)repetitions;
	s->seconds = 5;
	s->warmup_s = request->silent ? 10 : 2;
	if (bench_read_seconds(&s->seconds, o, "seconds", 0.5, err) < 0 ||
		bench_read_seconds(&s->startup_s, o, "startup", 0.1, err) < 0 ||
		bench_read_seconds(&s->warmup_s, o, "warmup", 0, err) < 0)
		return -1;
	request->n_shares = n ? n - 1 : 0; /* the first share is 100 % */
	return suite_profile(s, workload, shares, n, err);
}
