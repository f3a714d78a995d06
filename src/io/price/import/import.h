/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Price files of others: AWS's Price List in bulk or as its query prints it, AWS's history of spot
 * prices and Spot Instance Advisor, instances.json of instances.vantage.sh. The content of a file
 * decides its form. Inside src/io/price only.
 * Thread: the owner's of the catalogue.
 */
#include "io/price/import/amend.h"

#define IMPORT_FORM_BYTES 4096         /* first bytes of a file, which decide its form */
#define IMPORT_FILE_MAX   (256U << 20) /* limit of a file that is read as a whole, bytes */

enum import_form {
	IMPORT_UNKNOWN,
	IMPORT_OWN,
	IMPORT_PRICE_LIST,
	IMPORT_PRICE_QUERY,
	IMPORT_INSTANCES,
	IMPORT_SPOT_HISTORY,
	IMPORT_SPOT_ADVISOR
};

/* The form of a file that begins with these @len bytes. Text that is no JSON is IMPORT_OWN: that
 * reader reports what is wrong with it. */
enum import_form import_form(const char *text, size_t len);

/* --- forms --- */

/*
 * Streams. The caller feeds pieces in order, and the reader keeps little of them. Amounts go into @c while
 * the pieces come. @name is the file's name for messages, borrowed like @c. The _end functions check that the
 * text is complete, and warn of types that were left out. After an error only the _free functions may follow.
 */
struct price_list;
int price_list_new(struct price_list **ret, struct price_catalogue *c, const char *name,
	struct error *err) MUST_USE;
int price_list_feed(struct price_list *l, const char *text, size_t len,
	struct error *err) MUST_USE;
int price_list_end(struct price_list *l, struct strv *warnings, struct error *err) MUST_USE;
struct price_list *price_list_free(struct price_list *l); /* returns NULL */
DEFINE_CLEANUP(struct price_list *, price_list_free)

struct price_instances;
int price_instances_new(struct price_instances **ret, struct price_catalogue *c,
	const char *name, struct error *err) MUST_USE;
int price_instances_feed(struct price_instances *p, const char *text, size_t len,
	struct error *err) MUST_USE;
int price_instances_end(struct price_instances *p, struct strv *warnings,
	struct error *err) MUST_USE;
struct price_instances *price_instances_free(struct price_instances *p); /* returns NULL */
DEFINE_CLEANUP(struct price_instances *, price_instances_free)

/* Read a whole text of the form into @c: a query of the Price List, a history of spot prices, the Spot Instance
 * Advisor. ERR_INVALID: malformed; the text names @name. After an error @c may have a part of the amounts. */
int price_query_read(struct price_catalogue *c, const char *name, const char *text, size_t len,
	struct strv *warnings, struct error *err) MUST_USE;
int spot_history_read(struct price_catalogue *c, const char *name, const char *text, size_t len,
	struct strv *warnings, struct error *err) MUST_USE;
int spot_advisor_read(struct price_catalogue *c, const char *name, const char *text, size_t len,
	struct strv *warnings, struct error *err) MUST_USE;

/* Collects some names of GPU types that the catalogue does not know; ignores malformed names.
 * import_unknown_warn() makes one warning of all names in @types; none: no warning. */
int import_unknown_add(struct strv *types, const char *type, struct error *err) MUST_USE;
void import_unknown_warn(const struct strv *types, const char *file, struct strv *warnings);

/* Adds a line to @warnings, unless @warnings is NULL. Without memory the line is lost. */
void import_warn(struct strv *warnings, const char *fmt, ...) PRINTF(2, 3);
