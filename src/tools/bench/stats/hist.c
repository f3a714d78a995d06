/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/stats/hist.h"

#include "lib/base/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* --- histograms --- */

#define LINEAR (1U << HIST_BITS)

/* Values with the same highest bit form an octave. The HIST_BITS bits after the highest bit select the class
 * in the octave. */
unsigned int hist_class(uint64_t ns)
{
	unsigned int octave, class;

	if (ns < LINEAR)
		return (unsigned int)ns;
	octave = 63 - (unsigned int)__builtin_clzll(ns) - HIST_BITS;
	if (octave + 1 >= HIST_OCTAVES)
		return HIST_CLASSES - 1;
	class = (unsigned int)(ns >> octave) - LINEAR;
	return ((octave + 1) << HIST_BITS) + class;
}

double hist_middle(unsigned int class)
{
	unsigned int octave = class >> HIST_BITS, place = class & (LINEAR - 1);
	double width;

	if (!octave)
		return class;
	width = (double)(UINT64_C(1) << (octave - 1));
	return (double)(LINEAR + place) * width + (width - 1) / 2;
}

void hist_clear(struct hist *h)
{
	memset(h->counts + h->from, 0, (h->to - h->from) * sizeof(*h->counts));
	h->n = 0;
	h->sum_ns = 0;
	h->from = h->to = 0;
}

/* Marks the classes from @from to @to - 1 as used. */
static void widen_class_range(struct hist *h, uint32_t from, uint32_t to)
{
	if (h->from == h->to) {
		h->from = from;
		h->to = to;
		return;
	}
	h->from = from < h->from ? from : h->from;
	h->to = to > h->to ? to : h->to;
}

void hist_add(struct hist *h, uint64_t ns)
{
	unsigned int class = hist_class(ns);

	widen_class_range(h, class, class + 1);
	h->n++;
	h->sum_ns += (double)ns;
	h->counts[class]++;
}

double hist_quantile(const struct hist *h, double q)
{
	double want = q * (double)h->n;
	uint64_t so_far = 0;
	unsigned int last = 0;

	for (unsigned int i = h->from; i < h->to; i++) {
		if (!h->counts[i])
			continue;
		so_far += h->counts[i];
		last = i;
		if ((double)so_far >= want)
			break;
	}
	return hist_middle(last);
}

double hist_mean(const struct hist *h)
{
	return h->n ? h->sum_ns / (double)h->n : 0;
}

int hist_pack(struct hist_packed *ret, const struct hist *h, struct error *err)
{
	struct hist_packed p = { .n = h->n, .sum_ns = h->sum_ns };
	uint32_t k = 0;

	*ret = (struct hist_packed){ 0 };
	for (unsigned int i = h->from; i < h->to; i++)
		p.classes += h->counts[i] != 0;
	p.class = calloc(p.classes + 1, sizeof(*p.class)); /* never zero elements */
	if (!p.class)
		return error_nomem(err);
	for (unsigned int i = h->from; i < h->to; i++)
		if (h->counts[i])
			p.class[k++] = (struct hist_class_count){ i, h->counts[i] };
	*ret = p;
	return 0;
}

void hist_packed_fini(struct hist_packed *p)
{
	free(p->class);
	*p = (struct hist_packed){ 0 };
}

void hist_join(struct hist *h, const struct hist *more)
{
	if (more->from == more->to)
		return;
	widen_class_range(h, more->from, more->to);
	h->n += more->n;
	h->sum_ns += more->sum_ns;
	for (unsigned int i = more->from; i < more->to; i++)
		h->counts[i] += more->counts[i];
}

void hist_merge(struct hist *h, const struct hist_packed *p)
{
	if (!p->classes)
		return;
	widen_class_range(h, p->class[0].class, p->class[p->classes - 1].class + 1);
	h->n += p->n;
	h->sum_ns += p->sum_ns;
	for (uint32_t i = 0; i < p->classes; i++)
		h->counts[p->class[i].class] += p->class[i].count;
}

/* --- counted units --- */

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
