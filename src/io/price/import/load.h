/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The catalogue with files of others over it; only for callers that need them. Thread: any. */
#include "lib/base/strv.h"
#include "io/price/price.h"

/*
 * The shipped catalogue, and over it @files and @overrides. Both lists may be NULL. @files are at most
 * one catalogue of the user's, and any files of the forms of import/import.h: the content of a file
 * decides its form. @overrides are "TYPE=AMOUNT" or "TYPE/spot=AMOUNT".
 *
 * If several sources have an amount, the first of this list counts: the override; the user's
 * catalogue; AWS's files; instances.json; the shipped catalogue. Of two files of one rank the later
 * one counts. Warnings for the user are added to @warnings, a line each; NULL: none. Blocks on files.
 */
int price_catalogue_load_all(struct price_catalogue **ret, const struct strv *files,
	const struct strv *overrides, struct strv *warnings, struct error *err) MUST_USE;
