/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/tools/plan/plan-world.h"

#include "support/test.h"

#include <string.h>

#define BUDGET 50000

int plan_world_init(struct plan_world *w, const char *prices, const char *text,
	struct error *err)
{
	struct answer_setting s = { .budget = BUDGET, .seed = 1 };

	*w = (struct plan_world){ .in = NULL };
	assert_ok(price_catalogue_parse(&w->prices, "prices", prices, strlen(prices), err),
		err);
	assert_ok(plan_input_new(&w->in, err), err);
	assert_ok(plan_input_parse(w->in, "plan", text, strlen(text), err), err);
	assert_ok(plan_input_end(w->in, err), err);
	return plan_answer_new(&w->a, w->in, w->prices, &s, err);
}

void plan_world_fini(struct plan_world *w)
{
	plan_answer_free(w->a);
	plan_input_free(w->in);
	price_catalogue_free(w->prices);
}
