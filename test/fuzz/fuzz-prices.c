/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "io/price/price.h"

#include <stdlib.h>
#include <string.h>

static int check_parsed_offer(void *arg, const struct price_offer *o)
{
	(void)arg;
	if (o->price.nano_per_hour < o->low || o->price.nano_per_hour > o->high ||
		!o->gpu_milli || o->gpu_milli > 1000)
		abort();
	return 0;
}

/* A catalogue of prices: what is read can be looked up, and an amount survives being written. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	CLEANUP(freep) char *text = malloc(size + 1);
	struct error err = ERROR_INIT;
	struct price p;
	int64_t nano, again;
	char buf[PRICE_TEXT_MAX], warning[PRICE_WARNING_MAX];

	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (price_catalogue_parse(&c, "f", text, size, &err) < 0 && err.code == ERR_NONE)
		abort();
	if (c && price_find(c, "a", "r", &p, &err) == 0) {
		if (p.nano_per_hour < 0 || p.nano_per_hour > PRICE_MAX)
			abort();
		(void)price_is_stale(&p, UINT64_C(4000000000), warning);
	}
	if (c)
		(void)price_each(c, "r", check_parsed_offer, NULL);
	if (price_parse(text, &nano) &&
		(!price_parse(price_text(nano, 0, buf), &again) || again != nano))
		abort();
	return 0;
}
