/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/stats/count.h"

#include <stdlib.h>

int count_init(struct count *c, uint64_t from_ns, uint64_t to_ns, size_t blocks,
	struct error *err)
{
	*c = (struct count){ .from_ns = from_ns, .to_ns = to_ns, .n = blocks };
	c->blocks = calloc(blocks, sizeof(*c->blocks));
	return c->blocks ? 0 : error_nomem(err);
}

void count_fini(struct count *c)
{
	free(c->blocks);
	*c = (struct count){ 0 };
}

void count_add_unit(struct count *c, uint64_t at_ns, uint64_t took_ns)
{
	uint64_t all = c->to_ns - c->from_ns;

	if (at_ns < c->from_ns || at_ns >= c->to_ns)
		return;
	c->units++;
	hist_add(&c->blocks[(size_t)((unsigned __int128)(at_ns - c->from_ns) * c->n / all)],
		took_ns);
}

static json_t *block_json(const struct hist *h)
{
	json_t *times = json_array();

	for (uint32_t i = h->from; times && i < h->to; i++)
		if (h->counts[i] &&
			(json_array_append_new(times, json_integer(i)) < 0 ||
				json_array_append_new(times, json_integer(h->counts[i])) < 0)) {
			json_decref(times);
			times = NULL;
		}
	return json_pack("{s:f, s:o}", "sum_ns", h->sum_ns, "times", times);
}

json_t *count_json(const struct count *c)
{
	json_t *blocks = json_array();

	for (size_t i = 0; blocks && i < c->n; i++)
		if (json_array_append_new(blocks, block_json(&c->blocks[i])) < 0) {
			json_decref(blocks);
			blocks = NULL;
		}
	return json_pack("{s:o}", "blocks", blocks);
}

json_t *count_short_json(const struct count *c)
{
	json_t *counts = json_array();

	for (size_t i = 0; counts && i < c->n; i++)
		if (json_array_append_new(counts, json_integer((json_int_t)c->blocks[i].n)) <
			0) {
			json_decref(counts);
			counts = NULL;
		}
	return json_pack("{s:o}", "counts", counts);
}
