/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/check/judge.h"

#include "lib/base/digits.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define GIB           1073741824.0
#define MIB           1048576.0
#define OUT_OF_MEMORY 2 /* CUDA's error */
#define WINDOW_MS \
	50.0 /* in which a pod is back: a shorter one may be nothing but a turn of its own */
#define FREE_LEAST 0.98 /* of what was free before: a driver may keep a little */

static void say(struct verdict *v, const char *fmt, ...) PRINTF(2, 3);

static void say(struct verdict *v, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(v->what, sizeof(v->what), fmt, ap);
	va_end(ap);
}

void judge_unknown(struct verdict *ret, const char *fmt, ...)
{
	va_list ap;

	*ret = (struct verdict){ .known = false, .value = NAN, .unit = "" };
	va_start(ap, fmt);
	(void)vsnprintf(ret->what, sizeof(ret->what), fmt, ap);
	va_end(ap);
}

void judge_doubt(struct verdict *v, const char *doubt)
{
	struct verdict measured = *v;

	judge_unknown(v, "%s (measured: %s)", doubt, measured.what);
}

/* What is judged is what is shown (bench_print_figure()), so that both agree to the digit; and no "-0.0". */
static double rounded(double v)
{
	return round(v * 10) / 10 + 0.0;
}

/* ---- memory ------------------------------------------------------------------------------------------------- */

/* With what its context had taken before. */
static double got(double limit, double found, double taken)
{
	return taken + (found > 0 && found < limit ? limit - found : 0);
}

static void judge_no_limit(struct verdict *v, const struct judge_memory *m)
{
	v->value = rounded(100 * m->taken / m->gpu);
	say(v,
		"no limit: one pod got %.1f GiB, %.0f%% of the GPU, until error %d; its neighbour then got "
		"%.1f GiB",
		m->taken / GIB, v->value, m->refusal, m->neighbour_taken / GIB);
}

void judge_memory(struct verdict *ret, const struct judge_memory *m)
{
	double own = got(m->limit, m->found, m->taken), neighbours;

	*ret = (struct verdict){ .known = true, .unit = "%" };
	if (!(m->limit > 0)) {
		judge_no_limit(ret, m);
		return;
	}
	neighbours =
		rounded(100 * got(m->neighbour_limit, m->neighbour_found, m->neighbour_taken) /
			m->neighbour_limit);
	ret->value = rounded(100 * own / m->limit);
	ret->passed = ret->value <= JUDGE_MEMORY_MOST && ret->value >= JUDGE_MEMORY_LEAST &&
		      m->refusal == OUT_OF_MEMORY && neighbours >= JUDGE_MEMORY_LEAST;
	if (!m->refusal)
		say(ret, "a pod got %.1f GiB of %.1f GiB, and was not refused more", own / GIB,
			m->limit / GIB);
	else
		say(ret,
			"a pod got %.2f of its %.2f GiB, %.0f MiB of it its context, then error %d "
			"after %.0f us; its neighbour then got %.1f%% of its own",
			own / GIB, m->limit / GIB, (own - m->taken) / MIB, m->refusal,
			m->refusal_ns / 1e3, neighbours);
}

/* ---- a neighbour -------------------------------------------------------------------------------------------- */

/* The position of the least or the most. */
static size_t extreme(const double *v, size_t n, bool most)
{
	size_t at = 0;

	for (size_t i = 1; i < n; i++)
		if (most ? v[i] > v[at] : v[i] < v[at])
			at = i;
	return at;
}

static bool all_known(const double *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(v[i]))
			return false;
	return n > 0;
}

/* "1240 beside many small kernels, 1200 beside copies". */
static void list(char *buf, size_t size, const double *v, const char *const *of, size_t n,
	double scale, int digits)
{
	size_t at = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < n && at < size; i++)
		at += (size_t)snprintf(buf + at, size - at, "%s%.*f beside %s", i ? ", " : "",
			digits, v[i] * scale, of[i]);
}

void judge_loss(struct verdict *ret, const struct judge_loss *l)
{
	double fair = l->alone * l->share;
	char text[200];

	if (!(fair > 0) || !all_known(l->rates, l->n)) {
		judge_unknown(ret, "units per second were not measured");
		return;
	}
	*ret = (struct verdict){ .known = true, .unit = "%" };
	ret->value = rounded(100 * (1 - l->rates[extreme(l->rates, l->n, false)] / fair));
	ret->passed = ret->value <= JUDGE_LOSS_MOST;
	list(text, sizeof(text), l->rates, l->neighbours, l->n, 1, 0);
	say(ret, "%s; alone %.0f units/s, its share is %.0f%% of that", text, l->alone,
		100 * l->share);
}

void judge_late(struct verdict *ret, const struct judge_late *l)
{
	char text[200];

	if (!(l->alone > 0) || !all_known(l->p99s, l->n)) {
		judge_unknown(ret, "the time of answers was not measured");
		return;
	}
	*ret = (struct verdict){ .known = true, .unit = "ms" };
	ret->value = rounded((l->p99s[extreme(l->p99s, l->n, true)] - l->alone) / 1e6);
	ret->passed = ret->value <= JUDGE_LATE_MOST_MS;
	list(text, sizeof(text), l->p99s, l->neighbours, l->n, 1e-6, 2);
	say(ret, "p99 of short work in ms: %s; alone %.2f", text, l->alone / 1e6);
}

/* ---- a fault ------------------------------------------------------------------------------------------------ */

static size_t first_block(const struct judge_blocks *b, double from_ms)
{
	double at = floor(from_ms / b->block_ms);

	return at > 0 ? (size_t)at : 0;
}

double judge_pause_ms(const struct judge_blocks *b, double from_ms)
{
	size_t longest = 0, here = 0;

	for (size_t i = first_block(b, from_ms); i < b->n; i++) {
		here = b->units[i] ? 0 : here + 1;
		longest = here > longest ? here : longest;
	}
	return (double)longest * b->block_ms;
}

/* Units behind the block in which something happened. */
static uint64_t units_after(const struct judge_blocks *b, double at_ms)
{
	uint64_t sum = 0;

	for (size_t i = first_block(b, at_ms) + 1; i < b->n; i++)
		sum += b->units[i];
	return sum;
}

void judge_fault(struct verdict *ret, const struct judge_fault *f)
{
	char next[160];
	bool went_on;

	if (!*f->fault) {
		judge_unknown(ret, "the illegal access was not noticed");
		return;
	}
	*ret = (struct verdict){ .known = true, .value = NAN, .unit = "ms" };
	if (*f->next)
		(void)snprintf(next, sizeof(next), "no new pod could begin: %.110s", f->next);
	else
		(void)snprintf(next, sizeof(next), "a new pod ran after %.0f ms", f->next_ms);
	if (*f->neighbour) {
		say(ret, "the pod at fault ended (%.110s), its neighbour too (%.110s); %s",
			f->fault, f->neighbour, next);
		return;
	}
	ret->value = judge_pause_ms(&f->blocks, f->at_ms);
	went_on = units_after(&f->blocks, f->at_ms) > 0;
	ret->passed = !*f->next && went_on;
	say(ret, "the pod at fault ended (%.110s), its neighbour %s, %s %.0f ms; %s", f->fault,
		went_on ? "went on" : "did nothing any more",
		ret->value > 0 ? "its longest pause about" : "no pause of",
		ret->value > 0 ? ret->value : 2 * f->blocks.block_ms, next);
}

/* ---- recovery ----------------------------------------------------------------------------------------------- */

double judge_back_ms(const struct judge_blocks *b, double at_ms, double units_per_s)
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

static void say_recovery(struct verdict *v, const struct judge_recovery *r, bool memory)
{
	int digits = digits_beside(r->next_found / GIB, r->found / GIB, 1);
	char next[240];

	if (*r->next)
		(void)snprintf(next, sizeof(next), "no new pod could begin: %.180s", r->next);
	/* More than the first pod found: what that one met there has ended since. */
	else if (memory && r->next_found >= r->found)
		(void)snprintf(next, sizeof(next),
			"a new pod ran after %.0f ms, and found all of %.1f GiB free",
			r->next_ms, r->next_found / GIB);
	else
		(void)snprintf(next, sizeof(next),
			"a new pod ran after %.0f ms, and found %.*f of %.*f GiB free%s",
			r->next_ms, digits, r->next_found / GIB, digits, r->found / GIB,
			memory ? "" : ": less than there was");
	if (*r->neighbour)
		say(v, "the neighbour of the killed one ended too (%.120s); %s", r->neighbour,
			next);
	else if (isnan(v->value))
		say(v, "in %.1f s its neighbour was not back at %.0f%% of %.0f units/s; %s",
			((double)r->blocks.n * r->blocks.block_ms - r->at_ms) / 1e3,
			100 * JUDGE_BACK, r->whole, next);
	else
		say(v, "its neighbour was back at %.0f%% of %.0f units/s after %.*f ms; %s",
			100 * JUDGE_BACK, r->whole,
			digits_beside(v->value, JUDGE_BACK_MOST_MS, 0), v->value, next);
}

void judge_recovery(struct verdict *ret, const struct judge_recovery *r)
{
	bool memory = r->next_found >= FREE_LEAST * r->found;

	if (!*r->neighbour && !(r->whole > 0)) {
		judge_unknown(ret, "what the neighbour does alone was not measured");
		return;
	}
	*ret = (struct verdict){ .known = true, .value = NAN, .unit = "ms" };
	if (!*r->neighbour)
		ret->value =
			rounded(judge_back_ms(&r->blocks, r->at_ms, JUDGE_BACK * r->whole));
	ret->passed = ret->value <= JUDGE_BACK_MOST_MS && !*r->next && memory;
	say_recovery(ret, r, memory);
}
