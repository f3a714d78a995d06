/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `gpuslice plan FILE...`. Thread: main. */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stdint.h>

enum plan_form { PLAN_AS_TEXT, PLAN_AS_JSON, PLAN_AS_MARKDOWN, PLAN_AS_HTML };

struct plan_run {
	const struct strv *files;
	const struct strv *prices;  /* files over the shipped catalogue */
	const struct strv *amounts; /* and amounts over those: "TYPE=AMOUNT" */
	const char *output;         /* where to; NULL: standard output */
	enum plan_form form;
	const char *write; /* directory for the objects to apply; NULL: none */
	uint64_t seed;
};

/* 0; EXIT_FINDING: something has no place; EXIT_INCONCLUSIVE: some SLO cannot be judged; the exit code of ERR_CANCELLED,
 * with the best plan so far printed; or < 0. */
int plan_run(const struct plan_run *r, struct error *err) MUST_USE;
