/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/isolation/verdict.h"

#include "lib/base/text.h"
#include "lib/base/units.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define OUT_OF_MEMORY 2 /* error code of CUDA */
#define WINDOW_MS \
	50.0 /* a pod is back if its rate is high enough over this window; a shorter window can be one quantum of the pod */
#define FREE_SHARE_MIN 0.98 /* of the memory free before; a driver can keep a little */

static void format_verdict_text(struct verdict *v, const char *fmt, ...) PRINTF(2, 3);

static void format_verdict_text(struct verdict *v, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(v->text, sizeof(v->text), fmt, ap);
	va_end(ap);
}

void verdict_set_unknown(struct verdict *ret, const char *fmt, ...)
{
	va_list ap;

	*ret = (struct verdict){ .known = false, .value = NAN, .unit = "" };
	va_start(ap, fmt);
	(void)vsnprintf(ret->text, sizeof(ret->text), fmt, ap);
	va_end(ap);
}

void verdict_add_doubt(struct verdict *v, const char *doubt)
{
	struct verdict measured = *v;

	verdict_set_unknown(v, "%s (measured: %s)", doubt, measured.text);
}

/*
 * Rounds to the digits that bench_print_figure() shows, so that verdict and shown value agree. Avoids "-0.0".
 */
static double round_verdict_value(double v)
{
	return round(v * 10) / 10 + 0.0;
}

/* --- memory --- */

/* Includes what the pod's context had taken before. */
static double compute_obtained_memory(double limit, double found, double taken)
{
	return taken + (found > 0 && found < limit ? limit - found : 0);
}

static void set_no_limit_verdict(struct verdict *v, const struct verdict_memory *m)
{
	v->value = round_verdict_value(100 * m->obtained / m->gpu);
	format_verdict_text(v,
		"no limit: one pod got %.1f GiB, %.0f%% of the GPU, until error %d; its neighbour then got "
		"%.1f GiB",
		m->obtained / GIB, v->value, m->refusal, m->neighbor_taken / GIB);
}

void verdict_memory(struct verdict *ret, const struct verdict_memory *m)
{
	double own = compute_obtained_memory(m->limit, m->found, m->obtained), neighbours;

	*ret = (struct verdict){ .known = true, .unit = "%" };
	if (!(m->limit > 0)) {
		set_no_limit_verdict(ret, m);
		return;
	}
	neighbours = round_verdict_value(100 *
					 compute_obtained_memory(m->neighbor_limit,
						 m->neighbor_found, m->neighbor_taken) /
					 m->neighbor_limit);
	ret->value = round_verdict_value(100 * own / m->limit);
	ret->passed = ret->value <= VERDICT_MEMORY_MAX && ret->value >= VERDICT_MEMORY_MIN &&
		      m->refusal == OUT_OF_MEMORY && neighbours >= VERDICT_MEMORY_MIN;
	if (!m->refusal)
		format_verdict_text(ret,
			"a pod got %.1f GiB of %.1f GiB, and was not refused more", own / GIB,
			m->limit / GIB);
	else
		format_verdict_text(ret,
			"a pod got %.2f of its %.2f GiB, %.0f MiB of it its context, then error %d "
			"after %.0f us; its neighbour then got %.1f%% of its own",
			own / GIB, m->limit / GIB, (own - m->obtained) / MIB, m->refusal,
			m->refusal_ns / 1e3, neighbours);
}

/* --- a neighbour --- */

/* Index of the least value, or of the greatest with @most. */
static size_t find_extreme_index(const double *v, size_t n, bool most)
{
	size_t at = 0;

	for (size_t i = 1; i < n; i++)
		if (most ? v[i] > v[at] : v[i] < v[at])
			at = i;
	return at;
}

static bool has_all_figures(const double *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(v[i]))
			return false;
	return n > 0;
}

/* "1240 beside many small kernels, 1200 beside copies within memory". */
static void format_neighbor_figures(char *buf, size_t size, const double *v,
	const char *const *of, size_t n, double scale, int digits)
{
	size_t at = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < n && at < size; i++)
		at += (size_t)snprintf(buf + at, size - at, "%s%.*f beside %s", i ? ", " : "",
			digits, v[i] * scale, of[i]);
}

void verdict_loss(struct verdict *ret, const struct verdict_loss *l)
{
	double fair = l->alone * l->share;
	char text[200];

	if (!(fair > 0) || !has_all_figures(l->rates, l->n)) {
		verdict_set_unknown(ret, "units per second were not measured");
		return;
	}
	*ret = (struct verdict){ .known = true, .unit = "%" };
	ret->value = round_verdict_value(
		100 * (1 - l->rates[find_extreme_index(l->rates, l->n, false)] / fair));
	ret->passed = ret->value <= VERDICT_LOSS_MAX;
	format_neighbor_figures(text, sizeof(text), l->rates, l->neighbors, l->n, 1, 0);
	format_verdict_text(ret, "%s; alone %.0f units/s, its share is %.0f%% of that", text,
		l->alone, 100 * l->share);
}

void verdict_latency(struct verdict *ret, const struct verdict_latency *l)
{
	char text[200];

	if (!(l->alone > 0) || !has_all_figures(l->p99s, l->n)) {
		verdict_set_unknown(ret, "the time of answers was not measured");
		return;
	}
	*ret = (struct verdict){ .known = true, .unit = "ms" };
	ret->value = round_verdict_value(
		(l->p99s[find_extreme_index(l->p99s, l->n, true)] - l->alone) / 1e6);
	ret->passed = ret->value <= VERDICT_LATENCY_MAX_MS;
	format_neighbor_figures(text, sizeof(text), l->p99s, l->neighbors, l->n, 1e-6, 2);
	format_verdict_text(ret, "p99 of short work in ms: %s; alone %.2f", text,
		l->alone / 1e6);
}

/* --- a fault --- */

static size_t first_block(const struct verdict_blocks *b, double from_ms)
{
	double at = floor(from_ms / b->block_ms);

	return at > 0 ? (size_t)at : 0;
}

/* The longest time without a unit since @from_ms, in ms; whole blocks. */
static double verdict_pause_ms(const struct verdict_blocks *b, double from_ms)
{
	size_t longest = 0, here = 0;

	for (size_t i = first_block(b, from_ms); i < b->n; i++) {
		here = b->units[i] ? 0 : here + 1;
		longest = here > longest ? here : longest;
	}
	return (double)longest * b->block_ms;
}

/* Units after the block that contains @at_ms. */
static uint64_t count_units_after(const struct verdict_blocks *b, double at_ms)
{
	uint64_t sum = 0;

	for (size_t i = first_block(b, at_ms) + 1; i < b->n; i++)
		sum += b->units[i];
	return sum;
}

void verdict_fault(struct verdict *ret, const struct verdict_fault *f)
{
	char next[160];
	bool went_on;

	if (!*f->fault) {
		verdict_set_unknown(ret, "the illegal access was not noticed");
		return;
	}
	*ret = (struct verdict){ .known = true, .value = NAN, .unit = "ms" };
	if (*f->next)
		(void)snprintf(next, sizeof(next), "no new pod could begin: %.110s", f->next);
	else
		(void)snprintf(next, sizeof(next), "a new pod ran after %.0f ms", f->next_ms);
	if (*f->neighbor) {
		format_verdict_text(ret,
			"the pod at fault ended (%.110s), its neighbour too (%.110s); %s",
			f->fault, f->neighbor, next);
		return;
	}
	ret->value = verdict_pause_ms(&f->blocks, f->at_ms);
	went_on = count_units_after(&f->blocks, f->at_ms) > 0;
	ret->passed = !*f->next && went_on;
	format_verdict_text(ret,
		"the pod at fault ended (%.110s), its neighbour %s, %s %.0f ms; %s", f->fault,
		went_on ? "went on" : "did nothing any more",
		ret->value > 0 ? "its longest pause about" : "no pause of",
		ret->value > 0 ? ret->value : 2 * f->blocks.block_ms, next);
}

/* --- recovery --- */

double verdict_recovered_ms(const struct verdict_blocks *b, double at_ms, double units_per_s)
{
	size_t window = (size_t)ceil(WINDOW_MS / b->block_ms);
	double need = units_per_s * (double)window * b->block_ms / 1e3;

	for (size_t i = first_block(b, at_ms) + 1; i + window <= b->n; i++) {
		double sum = 0;

		for (size_t k = i; k < i + window; k++)
			sum += b->units[k];
		if (sum >= need)
			return (double)i * b->block_ms - at_ms;
	}
	return NAN;
}

static void format_recovery_text(struct verdict *v, const struct verdict_recovery *r,
	bool memory)
{
	int digits = digits_to_differ(r->next_found / GIB, r->found / GIB, 1);
	char next[240];

	if (*r->next)
		(void)snprintf(next, sizeof(next), "no new pod could begin: %.180s", r->next);
	/* More is free than the first pod found: memory in use at that time is free now. */
	else if (memory && r->next_found >= r->found)
		(void)snprintf(next, sizeof(next),
			"a new pod ran after %.0f ms, and found all of %.1f GiB free",
			r->next_ms, r->next_found / GIB);
	else
		(void)snprintf(next, sizeof(next),
			"a new pod ran after %.0f ms, and found %.*f of %.*f GiB free%s",
			r->next_ms, digits, r->next_found / GIB, digits, r->found / GIB,
			memory ? "" : ": less than there was");
	if (*r->neighbor)
		format_verdict_text(v, "the neighbour of the killed one ended too (%.120s); %s",
			r->neighbor, next);
	else if (isnan(v->value))
		format_verdict_text(v,
			"in %.1f s its neighbour was not back at %.0f%% of %.0f units/s; %s",
			((double)r->blocks.n * r->blocks.block_ms - r->at_ms) / 1e3,
			100 * VERDICT_RECOVERED_SHARE, r->whole, next);
	else
		format_verdict_text(v,
			"its neighbour was back at %.0f%% of %.0f units/s after %.*f ms; %s",
			100 * VERDICT_RECOVERED_SHARE, r->whole,
			digits_to_differ(v->value, VERDICT_RECOVERED_MAX_MS, 0), v->value,
			next);
}

void verdict_recovery(struct verdict *ret, const struct verdict_recovery *r)
{
	bool memory = r->next_found >= FREE_SHARE_MIN * r->found;

	if (!*r->neighbor && !(r->whole > 0)) {
		verdict_set_unknown(ret, "what the neighbour does alone was not measured");
		return;
	}
	*ret = (struct verdict){ .known = true, .value = NAN, .unit = "ms" };
	if (!*r->neighbor)
		ret->value = round_verdict_value(verdict_recovered_ms(&r->blocks, r->at_ms,
			VERDICT_RECOVERED_SHARE * r->whole));
	ret->passed = ret->value <= VERDICT_RECOVERED_MAX_MS && !*r->next && memory;
	format_recovery_text(ret, r, memory);
}
