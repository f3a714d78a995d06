/* SPDX-License-Identifier: Apache-2.0 */
/* `gpuslice plan`: reads the files, prints the plan, and writes the objects to apply. */
#include "tools/cli/plan/run.h"

#include "io/config/config.h"
#include "io/price/import/load.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/paths.h"
#include "lib/base/time.h"
#include "tools/cli/cmd.h"
#include "tools/cli/config-offer.h"
#include "tools/cli/output.h"
#include "tools/cli/plan/view/view.h"
#include "tools/plan/input/input.h"
#include "tools/plan/make/make.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- whether agents accept the sharing configs --- */

#define SHOWN_PERCENT \
	97 /* of the catalogue's memory that a driver shows at least: tools/plan/gpus/gpus.yaml */

struct proof {
	const struct pools *pools;
	unsigned complaints;
	struct error broken; /* ERR_NOMEM: the proof is incomplete */
};

static const char *ignore_proof_env(const char *name)
{
	(void)name;
	return NULL;
}

/* The GPUs have no MIG devices: the sharing configs of the pools do not depend on MIG. */
static int inventory_of(struct inventory **ret, const struct plan_offer *o, struct error *err)
{
	uint64_t bytes = ((uint64_t)o->gpu_memory_mib << 20) / 100 * SHOWN_PERCENT;

	if (inventory_new(ret, o->gpus, err) < 0)
		return -1;
	for (uint32_t i = 0; i < o->gpus; i++) {
		struct gpu *g = &(*ret)->gpus[i];

		*g = (struct gpu){ .index = i,
			.minor = i,
			.has_minor = true,
			.numa_node = -1,
			.cc_major = o->gpu->cc_major,
			.cc_minor = o->gpu->cc_minor,
			.memory_total_bytes = bytes,
			.memory_usable_bytes = bytes,
			.mig_capable = o->gpu->mig != NULL };
		(void)snprintf(g->uuid, sizeof(g->uuid), "GPU-%u", i);
		(void)snprintf(g->name, sizeof(g->name), "%s", o->gpu->product);
	}
	return 0;
}

static void report_proof_error(struct proof *p, const char *name, const char *text)
{
	p->complaints++;
	if (name)
		(void)fprintf(stderr, "error: %s: %s\n", name, text);
	else
		(void)fprintf(stderr, "error: %s\n", text);
}

static void complain_all(struct proof *p, const char *name, const struct strv *texts)
{
	for (size_t i = 0; i < texts->n; i++)
		report_proof_error(p, name, texts->v[i]);
}

/* The pool has the name of the ConfigMap's key, which follows the last '#'. NULL: no pool has this
 * name. */
static const struct plan_pool *find_config_pool(const struct pools *pools, const char *name)
{
	const char *key = strrchr(name, '#');

	for (size_t i = 0; key && i < pools->n; i++)
		if (!strcmp(pools->v[i].name, key + 1))
			return &pools->v[i];
	return NULL;
}

static void prove_one(void *arg, const char *name, const char *text, struct config *config,
	const struct strv *warnings, const struct error *err, const struct strv *more)
{
	struct proof *p = arg;
	const struct plan_pool *pool = find_config_pool(p->pools, name);
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	CLEANUP(config_offer_fini) struct config_offer of = { .offer = NULL };
	struct error why = ERROR_INIT;

	(void)text;
	complain_all(p, NULL, warnings);
	if (err) {
		report_proof_error(p, NULL, err->msg);
		complain_all(p, NULL, more);
		return;
	}
	if (!pool || !config)
		return;
	if (inventory_of(&inv, pool->offer, &p->broken) < 0)
		return;
	if (config_offer_make(&of, name, config, inv, &why) < 0) {
		report_proof_error(p, NULL, why.msg);
		return;
	}
	complain_all(p, name, &of.offer->warnings);
	complain_all(p, name, &of.offer->notes);
}

/*
 * Reads the sharing configs among @files as `gpuslice config check` does. Each config is checked on a
 * node of its pool, with the GPUs that the plan expects there. The plan promises that everything is
 * offered and that programs start. So each mistake, warning and note is printed as an error.
 * ERR_INVALID: at least one was printed.
 */
static int plan_prove(const struct make_files *files, const struct pools *pools,
	struct error *err)
{
	const struct config_sources sources = { .env = ignore_proof_env };
	struct proof p = { .pools = pools, .broken = ERROR_INIT };

	for (size_t i = 0; i < files->n; i++) {
		const struct make_file *f = &files->v[i];

		if (!strcmp(f->path, MAKE_CONFIG_PATH) &&
			config_each_text(f->path, buf_str(&f->text), f->text.len, &sources,
				prove_one, &p, err) < 0)
			return error_prefix(err, "--write");
	}
	if (p.broken.code != ERR_NONE) {
		error_copy(err, &p.broken);
		return -1;
	}
	if (p.complaints)
		return error_set(err, ERR_INVALID,
			"--write: an agent does not accept the sharing configs of this plan as they "
			"are (%u error%s above), so nothing is written",
			p.complaints, p.complaints == 1 ? "" : "s");
	return 0;
}

/* --- the objects as files --- */

/* No fsync: no other process uses the directory before rename() puts it in place with all files. */
static int write_plan_file(const char *path, const struct buf *text, struct error *err)
{
	CLEANUP(closep)
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return error_sys(err, errno, "--write: %s", path);
	if (fd_write_all(fd, buf_str(text), text->len, err) < 0)
		return error_prefix(err, "--write: %s", path);
	return 0;
}

static int write_plan_files(const struct make_files *files, const char *dir, struct error *err)
{
	char path[PATH_MAX];

	if (path_join(path, sizeof(path), dir, "patches", err) < 0 ||
		dir_make(path, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < files->n; i++) {
		const struct make_file *f = &files->v[i];

		if (path_join(path, sizeof(path), dir, f->path, err) < 0 ||
			write_plan_file(path, &f->text, err) < 0)
			return -1;
	}
	return 0;
}

/* Replaces an empty or missing directory @dir by @temp. */
static int replace_plan_dir(const char *temp, const char *dir, struct error *err)
{
	if (rename(temp, dir) == 0)
		return 0;
	if (errno == ENOTEMPTY || errno == EEXIST)
		return error_set(err, ERR_EXISTS,
			"--write: %s: expected an empty directory or none, found files in it",
			dir);
	if (errno == ENOTDIR)
		return error_set(err, ERR_EXISTS,
			"--write: %s: expected an empty directory or none, found a file", dir);
	if (errno == EBUSY)
		return error_set(err, ERR_INVALID,
			"--write: %s: expected a directory that can be put in place, found one in use",
			dir);
	return error_sys(err, errno, "--write: %s", dir);
}

static int write_dir(const struct make_files *files, const char *dir, struct error *err)
{
	char temp[PATH_MAX];
	size_t len = strlen(dir);
	int got;

	while (len > 1 && dir[len - 1] == '/')
		len--;
	if (len + sizeof(".XXXXXX") > sizeof(temp))
		return error_set(err, ERR_LIMIT, "--write: the path is too long");
	(void)snprintf(temp, sizeof(temp), "%.*s.XXXXXX", (int)len, dir);
	if (!mkdtemp(temp))
		return error_sys(err, errno, "--write: %s", temp);
	got = chmod(temp, 0755) < 0 ? error_sys(err, errno, "--write: %s", temp)
				    : write_plan_files(files, temp, err);
	if (got == 0)
		got = replace_plan_dir(temp, dir, err);
	if (got < 0)
		tree_remove(temp);
	return got;
}

/*
 * Writes all objects to @dir, or none. @dir must be empty or must not exist. Warnings go to standard
 * error. If a workload has no place, nothing is written and the result is 0: the plan reports it.
 */
static int plan_write(const struct plan_answer *a, const char *dir, struct error *err)
{
	CLEANUP(pools_freep) struct pools *pools = NULL;
	CLEANUP(make_files_fini) struct make_files files = { .v = NULL };

	/* A finding, as without --write: plan_run() returns the exit status. */
	if (a->plan.n_unplaced) {
		(void)fputs("--write: not all workloads have a place, so nothing is written\n",
			stderr);
		return 0;
	}
	if (pools_new(&pools, a, err) < 0 || make_plan_files(&files, pools, err) < 0)
		return -1;
	if (plan_prove(&files, pools, err) < 0 || write_dir(&files, dir, err) < 0)
		return -1;
	for (size_t i = 0; i < pools->n_notes; i++)
		(void)fprintf(stderr, "warning: %s\n", pools->notes[i].text);
	(void)fprintf(stderr, "%zu files are in %s; begin with %s/00-README.md\n", files.n, dir,
		dir);
	return 0;
}

/* --- the plan --- */

#define TEXT_MAX       (256U << 20)
#define PROGRESS_EVERY (NS_PER_SEC / 5)

static volatile sig_atomic_t stopped;

static void on_plan_signal(int signal)
{
	(void)signal;
	stopped = 1;
}

struct progress {
	bool terminal;
	uint64_t shown_ns;
};

static bool on_plan_progress(void *arg, double done, int64_t nano_per_hour)
{
	struct progress *p = arg;
	uint64_t now = time_mono_ns();
	char money[PLAN_MONEY_MAX];

	if (p->terminal && now - p->shown_ns > PROGRESS_EVERY) {
		p->shown_ns = now;
		(void)fprintf(stderr, "\r%3.0f %%, %s an hour so far ", done * 100,
			plan_money(nano_per_hour, true, money));
	}
	return !stopped;
}

/* Whether some workload has an SLO and a place where the planner cannot predict its times. */
static bool is_unknown(const struct plan_answer *a)
{
	for (size_t i = 0; i < a->in->n_workloads; i++)
		if (plan_slo_unknown(a, i))
			return true;
	return false;
}

static int read_plan_inputs(struct plan_input *in, const struct strv *files, struct error *err)
{
	for (size_t i = 0; i < files->n; i++)
		if (plan_input_read(in, files->v[i], err) < 0)
			return -1;
	return plan_input_end(in, err);
}

/* Warns about a stale price among the offers of the plan. One warning is enough: the shipped prices
 * have one date. */
static void warn_stale(const struct plan_answer *a)
{
	char warning[PRICE_WARNING_MAX];

	for (size_t i = 0; i < a->plan.n_nodes; i++) {
		const struct plan_offer *o = a->plan.nodes[i].offer;
		const struct price p = { .type = o->type,
			.region = o->region,
			.source = o->source,
			.stamp = o->stamp };

		if (!o->nano_per_hour ||
			!price_is_stale(&p, time_wall_ns() / NS_PER_SEC, warning))
			continue;
		(void)fprintf(stderr, "warning: %s\n", warning);
		return;
	}
}

static int write_form(struct buf *text, const struct plan_answer *a, const struct plan_run *r,
	struct error *err)
{
	char created[TIME_RFC3339_MAX];

	time_rfc3339(time_wall_ns(), created);
	switch (r->form) {
	case PLAN_AS_TEXT:
		plan_text(text, a);
		return 0;
	case PLAN_AS_JSON:
		return plan_json(text, a, r->seed, err);
	case PLAN_AS_MARKDOWN:
		plan_report(text, a, &page_markdown, created);
		return 0;
	case PLAN_AS_HTML:
		plan_report(text, a, &page_html, created);
		return 0;
	}
	return 0;
}

int plan_run(const struct plan_run *r, struct error *err)
{
	CLEANUP(plan_input_freep) struct plan_input *in = NULL;
	CLEANUP(price_catalogue_freep) struct price_catalogue *prices = NULL;
	CLEANUP(plan_answer_freep) struct plan_answer *a = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);
	CLEANUP(strv_fini) struct strv warnings = { .v = NULL };
	struct progress p = { .terminal = isatty(STDERR_FILENO) == 1 };
	struct answer_setting s = { PACK_BUDGET, PACK_BUDGET_EACH, r->seed, on_plan_progress,
		&p };
	struct sigaction sa = { .sa_handler = on_plan_signal };

	if (plan_input_new(&in, err) < 0 || read_plan_inputs(in, r->files, err) < 0 ||
		price_catalogue_load_all(&prices, r->prices, r->amounts, &warnings, err) < 0)
		return -1;
	for (size_t i = 0; i < warnings.n; i++)
		(void)fprintf(stderr, "warning: %s\n", warnings.v[i]);
	(void)sigaction(SIGINT, &sa, NULL);
	if (plan_answer_new(&a, in, prices, &s, err) < 0)
		return -1;
	if (p.terminal)
		(void)fprintf(stderr, "\r\033[K");
	warn_stale(a);
	if (write_form(&text, a, r, err) < 0)
		return -1;
	if (!buf_ok(&text))
		return error_nomem(err);
	if (output_write(r->output, buf_str(&text), text.len, err) < 0)
		return -1;
	if (r->write && plan_write(a, r->write, err) < 0)
		return -1;
	if (a->plan.stopped)
		return error_class(ERR_CANCELLED)->exit_code;
	if (a->plan.n_unplaced)
		return EXIT_FINDING;
	return is_unknown(a) ? EXIT_INCONCLUSIVE : 0;
}

/* --- old objects of Karpenter --- */

#define TRANSLATION_MAX (64U << 20)

int plan_translate(const struct strv *files, struct error *err)
{
	CLEANUP(plan_input_freep) struct plan_input *in = NULL;
	CLEANUP(buf_fini)
	struct buf objects = BUF_INIT(TRANSLATION_MAX), all = BUF_INIT(TRANSLATION_MAX);
	size_t n = 0;

	if (plan_input_new(&in, err) < 0)
		return -1;
	for (size_t i = 0; i < files->n; i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(PLAN_FILE_MAX);
		const char *name;

		if (plan_input_text(files->v[i], &text, &name, err) < 0 ||
			plan_input_parse(in, name, buf_str(&text), text.len, err) < 0 ||
			make_translation(&objects, name, buf_str(&text), text.len, &n, err) < 0)
			return -1;
	}
	if (!n)
		return error_set(err, ERR_NOT_FOUND,
			"--translate: expected Karpenter's Provisioners or AWSNodeTemplates, found none");
	for (size_t i = 0; i < in->n_notes; i++)
		buf_printf(&all, "# %s:%u: %s\n", in->notes[i].file, in->notes[i].line,
			in->notes[i].text);
	buf_puts(&all,
		"# Put your cluster's name for CLUSTER_NAME, and a version for latest.\n");
	buf_puts(&all, buf_str(&objects));
	if (!buf_ok(&all) || !buf_ok(&objects))
		return error_nomem(err);
	return output_write(NULL, buf_str(&all), all.len, err);
}
