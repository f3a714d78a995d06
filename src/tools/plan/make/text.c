/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/make/make.h"

#include "io/price/price.h"

#include <string.h>

/* Bytes of the control character or line end at @text, also those in UTF-8 that YAML and terminals know; 0:
 * neither. */
static size_t control_len(const unsigned char *text, unsigned *ret)
{
	*ret = text[0];
	if (text[0] < ' ' || text[0] == 0x7f)
		return 1;
	if (text[0] == 0xc2 && text[1] >= 0x80 && text[1] <= 0x9f) {
		*ret = text[1];
		return 2;
	}
	if (text[0] == 0xe2 && text[1] == 0x80 && (text[2] == 0xa8 || text[2] == 0xa9)) {
		*ret = 0x2000U | (text[2] - 0x80U);
		return 3;
	}
	return 0;
}

void make_quoted(struct buf *b, const char *text)
{
	buf_putc(b, '"');
	while (*text) {
		unsigned code;
		size_t len = control_len((const unsigned char *)text, &code);

		if (len) {
			buf_printf(b, code > 0xff ? "\\u%04x" : "\\x%02x", code);
			text += len;
			continue;
		}
		if (*text == '"' || *text == '\\')
			buf_putc(b, '\\');
		buf_putc(b, *text++);
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

bool make_differs(const struct plan_pool *p)
{
	return p->n_resources != 1 || strcmp(p->resources[0].name, POOL_RESOURCE_WHOLE) != 0 ||
	       p->resources[0].count != p->offer->gpus || p->offer->gpu_milli < 1000;
}

uint32_t make_alike(const struct plan_pool *p, uint32_t g)
{
	uint32_t to = g + 1;

	while (to < p->offer->gpus && p->partitions[to].n == p->partitions[g].n &&
		!memcmp(p->partitions[to].v, p->partitions[g].v,
			p->partitions[g].n * sizeof(*p->partitions[g].v)))
		to++;
	return to;
}
