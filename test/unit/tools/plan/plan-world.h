/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A plan of texts: a price catalogue and a plan file, and the answer to them. */
#include "tools/plan/answer/answer.h"

struct plan_world {
	struct plan_input *in;
	struct price_catalogue *prices;
	struct plan_answer *a;
};

/* The answer of plan_answer_new(); the texts have to be valid. plan_world_fini() also after an error. */
int plan_world_init(struct plan_world *w, const char *prices, const char *text,
	struct error *err);
void plan_world_fini(struct plan_world *w);
