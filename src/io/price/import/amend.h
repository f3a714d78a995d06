/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Amounts from other files, over those of the catalogue. Inside src/io/price only. Each amount keeps
 * its source. A better source has precedence over a worse one, whatever the order of the files.
 * Thread: the owner's of the catalogue.
 */
#include "io/price/catalogue.h"

/* Better sources are greater. AWS's files share one rank: the list has only prices on demand, the
 * history only spot prices. */
enum {
	PRICE_RANK_SHIPPED,
	PRICE_RANK_OTHERS,
	PRICE_RANK_AWS,
	PRICE_RANK_USER,
	PRICE_RANK_OVERRIDE
};

enum price_what { PRICE_IS_ON_DEMAND, PRICE_IS_SPOT, PRICE_IS_INTERRUPTION };

struct price_amendment {
	const char *type, *region;
	enum price_what what;
	/* nano-units an hour; interruptions: thousandths a month; on demand only .low counts */
	int64_t low, high;
	unsigned rank;
	const struct price_file *file;
};

/* Returns 1, or 0 if the catalogue does not know the type. The catalogue's types are sorted already. */
int price_amend(struct price_catalogue *c, const struct price_amendment *a,
	struct error *err) MUST_USE;

/* The source lives as long as the catalogue. NULL: no memory. */
const struct price_file *price_source_add(struct price_catalogue *c, const char *source,
	const char *currency, const char *stamp, struct error *err);

/* Parses and applies "TYPE=AMOUNT" or "TYPE/spot=AMOUNT". */
int price_override(struct price_catalogue *c, const char *text, struct error *err) MUST_USE;
