/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The catalogue with files of others over it; only for those who ask for them. Thread: any. */
#include "lib/base/strv.h"
#include "io/price/price.h"

/*
 * The shipped catalogue, and over it @files: one catalogue of the user's at most, and any of AWS's Price List in bulk,
 * its spot price history, its Spot Instance Advisor, which are told apart by what is in them; and over all of them
 * @overrides, "TYPE=AMOUNT" or "TYPE/spot=AMOUNT". Both lists may be NULL. Of an amount that several have, the
 * override goes first, then the user's catalogue, then AWS's files (of two the later one), then the shipped one. What
 * somebody should know is added to @warnings, a line each, unless it is NULL.
 */
int price_catalogue_load_all(struct price_catalogue **ret, const struct strv *files,
	const struct strv *overrides, struct strv *warnings, struct error *err) MUST_USE;
