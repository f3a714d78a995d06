/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "io/price/import/import.h"

#include <stdlib.h>
#include <string.h>

/* Files of others: what is read of them is an amount that can be, and an error is one line. */

static int check_imported_offer(void *arg, const struct price_offer *o)
{
	(void)arg;
	if (o->price.nano_per_hour < 0 || o->price.nano_per_hour > PRICE_MAX ||
		o->low > o->high || !o->price.source || !o->price.currency || !o->price.stamp ||
		o->interrupt_low_milli > o->interrupt_high_milli)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	CLEANUP(price_list_freep) struct price_list *l = NULL;
	CLEANUP(price_instances_freep) struct price_instances *p = NULL;
	static const char types[] =
		"version: gpuslice/prices/v1\ntypes:\n"
		"  g6.xlarge: {gpu: L4, gpus: 1, gpuMemoryMiB: 22888, pricePerHour: {us-east-1: 1}}\n";
	const char *text = (const char *)data;
	struct error err = ERROR_INIT;
	int got;

	if (price_catalogue_parse(&c, "own", types, sizeof(types) - 1, &err) < 0)
		return 0;
	switch (import_form(text, size)) {
	case IMPORT_SPOT_HISTORY:
		got = spot_history_read(c, "f", text, size, NULL, &err);
		break;
	case IMPORT_PRICE_QUERY:
		got = price_query_read(c, "f", text, size, NULL, &err);
		break;
	case IMPORT_SPOT_ADVISOR:
		got = spot_advisor_read(c, "f", text, size, NULL, &err);
		break;
	case IMPORT_INSTANCES:
		got = price_instances_new(&p, c, "f", &err);
		if (got == 0)
			got = price_instances_feed(p, text, size, &err);
		if (got == 0)
			got = price_instances_end(p, NULL, &err);
		break;
	case IMPORT_OWN:
	case IMPORT_UNKNOWN:
	case IMPORT_PRICE_LIST:
	default:
		got = price_list_new(&l, c, "f", &err);
		if (got == 0)
			got = price_list_feed(l, text, size / 2, &err);
		if (got == 0)
			got = price_list_feed(l, text + size / 2, size - size / 2, &err);
		if (got == 0)
			got = price_list_end(l, NULL, &err);
	}
	if (got < 0 && (err.code == ERR_NONE || !*err.msg || strchr(err.msg, '\n')))
		abort();
	(void)price_each(c, "us-east-1", check_imported_offer, NULL);
	return 0;
}
