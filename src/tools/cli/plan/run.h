/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `gpuslice plan FILE...`, and with --translate. Thread: main; prints to standard error, too. */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stdint.h>

enum plan_form { PLAN_AS_TEXT, PLAN_AS_JSON, PLAN_AS_MARKDOWN, PLAN_AS_HTML };

struct plan_run {
	const struct strv *files;
	const struct strv *prices;  /* files that override the shipped catalogue */
	const struct strv *amounts; /* amounts that override the files: "TYPE=AMOUNT" */
	const char *output;         /* output file; NULL: standard output */
	enum plan_form form;
	const char *write; /* directory for the objects to apply; NULL: none */
	uint64_t seed;
};

/* Returns 0, or < 0, or an exit status. EXIT_FINDING: a workload has no place. EXIT_INCONCLUSIVE:
 * some SLO cannot be judged. That of ERR_CANCELLED: interrupted; the best plan so far is printed. */
int plan_run(const struct plan_run *r, struct error *err) MUST_USE;

/* Prints notes on mistakes in @files, then the current Karpenter objects for their Provisioners. */
int plan_translate(const struct strv *files, struct error *err) MUST_USE;
