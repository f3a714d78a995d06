/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/make/make.h"

#include "price/price.h"

#include <string.h>

void make_quoted(struct buf *b, const char *text)
{
	buf_putc(b, '"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			buf_putc(b, '\\');
		if (c < ' ' || c == 0x7f)
			buf_printf(b, "\\x%02x", c);
		else
			buf_putc(b, *text);
	}
	buf_putc(b, '"');
}

void make_sum(struct buf *b, const struct pools *p)
{
	const struct plan_answer *a = p->a;
	const struct plan_offer *o = p->n ? p->v[0].offer : NULL;
	char money[PRICE_TEXT_MAX];

	buf_printf(b, "%zu node%s for %zu workload%s with %llu replica%s: %s %s an hour",
		a->plan.n_nodes, plan_plural(a->plan.n_nodes), a->in->n_workloads,
		plan_plural(a->in->n_workloads), (unsigned long long)a->replicas,
		plan_plural(a->replicas), price_text(a->plan.nano_per_hour, 2, money),
		a->currency ? a->currency : "");
	if (o)
		buf_printf(b, " in %s, prices of %s%s%s", o->region, o->source,
			*o->stamp ? ", " : "", o->stamp);
}

void make_head(struct buf *b, const struct pools *p, const char *what)
{
	buf_printf(b, "# %s\n# Of a plan of gpuslice: ", what);
	make_sum(b, p);
	buf_puts(b, ".\n");
}

bool make_differs(const struct pool *p)
{
	return p->n_resources != 1 || strcmp(p->resources[0].name, POOL_RESOURCE_WHOLE) != 0 ||
	       p->resources[0].count != p->offer->gpus || p->offer->part_milli < 1000;
}

uint32_t make_alike(const struct pool *p, uint32_t g)
{
	uint32_t to = g + 1;

	while (to < p->offer->gpus && p->cuts[to].n == p->cuts[g].n &&
		!memcmp(p->cuts[to].v, p->cuts[g].v, p->cuts[g].n * sizeof(*p->cuts[g].v)))
		to++;
	return to;
}
