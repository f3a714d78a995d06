/* SPDX-License-Identifier: Apache-2.0 */
#include "io/price/import/import.h"

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "io/price/import/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE            65536
#define UNKNOWN_MAX      8
#define UNKNOWN_TEXT_MAX 400

void import_warn(struct strv *warnings, const char *fmt, ...)
{
	struct error ignored = ERROR_INIT;
	char text[512];
	va_list ap;

	if (!warnings)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (strv_add(warnings, text, &ignored) < 0)
		error_clear(&ignored);
}

int import_unknown_add(struct strv *types, const char *type, struct error *err)
{
	static const char of_names[] = "abcdefghijklmnopqrstuvwxyz0123456789.-";

	if (types->n == UNKNOWN_MAX || !*type || type[strspn(type, of_names)])
		return 0;
	for (size_t i = 0; i < types->n; i++)
		if (!strcmp(types->v[i], type))
			return 0;
	return strv_add(types, type, err);
}

void import_unknown_warn(const struct strv *types, const char *file, struct strv *warnings)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT(UNKNOWN_TEXT_MAX);

	for (size_t i = 0; i < types->n; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", types->v[i]);
	if (types->n)
		import_warn(warnings,
			"%s: left out, as the catalogue does not know their GPUs: %s%s", file,
			buf_str(&names), types->n == UNKNOWN_MAX ? " and maybe more" : "");
}

enum import_form import_form(const char *text, size_t len)
{
	static const struct {
		char first;
		const char *word;
		enum import_form form;
	} words[] = {
		{ '{', "\"SpotPriceHistory\"", IMPORT_SPOT_HISTORY },
		{ '{', "\"spot_advisor\"", IMPORT_SPOT_ADVISOR },
		{ '{', "\"instance_types\"",
			IMPORT_SPOT_ADVISOR }, /* the first key of the advisor's file */
		{ '{', "\"PriceList\"", IMPORT_PRICE_QUERY }, /* may contain offer codes */
		{ '{', "\"offerCode\"", IMPORT_PRICE_LIST },
		{ '{', "gpuslice/prices/", IMPORT_OWN }, /* YAML may be JSON */
		{ '[', "\"instance_type\"", IMPORT_INSTANCES },
		{ '[', "\"pricing\"", IMPORT_INSTANCES },
	};
	size_t at = 0;

	while (at < len && strchr(" \t\r\n", text[at]) && text[at])
		at++;
	if (at == len || (text[at] != '{' && text[at] != '['))
		return IMPORT_OWN;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (words[i].first == text[at] &&
			memmem(text, len, words[i].word, strlen(words[i].word)))
			return words[i].form;
	return IMPORT_UNKNOWN;
}

/* The reader that gets each piece. @text NULL: the file has ended. */
struct import_feed {
	struct price_list *list;
	struct price_instances *instances;
	struct strv *warnings;
};

static int feed_import_text(const struct import_feed *f, const char *text, size_t len,
	struct error *err)
{
	if (f->list)
		return text ? price_list_feed(f->list, text, len, err)
			    : price_list_end(f->list, f->warnings, err);
	return text ? price_instances_feed(f->instances, text, len, err)
		    : price_instances_end(f->instances, f->warnings, err);
}

static int feed_file(const struct import_feed *f, const char *path, struct error *err)
{
	CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char piece[PIECE];

	if (fd < 0)
		return error_sys(err, errno, "%s", path);
	while (true) {
		ssize_t n = read(fd, piece, sizeof(piece));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_sys(err, errno, "%s", path);
		if (!n)
			return feed_import_text(f, NULL, 0, err);
		if (feed_import_text(f, piece, (size_t)n, err) < 0)
			return -1;
	}
}

/*
 * Amends @c with the file @path. Errors begin with the path. Adds warnings for the user to @warnings,
 * which may be NULL. Blocks on the file.
 */
static int import_file(struct price_catalogue *c, const char *path, enum import_form form,
	struct strv *warnings, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(IMPORT_FILE_MAX);

	if (form == IMPORT_PRICE_LIST || form == IMPORT_INSTANCES) {
		CLEANUP(price_list_freep) struct price_list *list = NULL;
		CLEANUP(price_instances_freep) struct price_instances *instances = NULL;

		if (form == IMPORT_PRICE_LIST
				? price_list_new(&list, c, path, err) < 0
				: price_instances_new(&instances, c, path, err) < 0)
			return -1;
		return feed_file(&(struct import_feed){ list, instances, warnings }, path, err);
	}
	if (file_read(path, &text, err) < 0)
		return -1;
	if (form == IMPORT_PRICE_QUERY)
		return price_query_read(c, path, buf_str(&text), text.len, warnings, err);
	return form == IMPORT_SPOT_HISTORY
		       ? spot_history_read(c, path, buf_str(&text), text.len, warnings, err)
		       : spot_advisor_read(c, path, buf_str(&text), text.len, warnings, err);
}

/* --- the catalogue with files over it --- */

static const char forms[] =
	"version: gpuslice/prices/v1, AWS's Price List in bulk or of a query, its spot price history, its Spot "
	"Instance Advisor, or instances.json";

/* Prices of the user's catalogue get the user's rank, which is above imported files. */
static void rank_own(struct price_catalogue *c)
{
	for (size_t i = 0; i < c->n; i++) {
		for (size_t k = 0;
			c->types[i].file == &c->files[1] && k < c->types[i].n_regions; k++) {
			struct price_region *r = &c->types[i].regions[k];

			if (r->nano_per_hour >= 0)
				r->rank = PRICE_RANK_USER;
			if (r->spot_low >= 0 && !r->spot_from) /* otherwise inherited */
				r->spot_rank = PRICE_RANK_USER;
			if (r->interrupt_high_milli)
				r->interrupt_rank = PRICE_RANK_USER;
		}
	}
}

/* Reads only the first bytes, for the form. A file that cannot be read twice would lose them. */
static int read_import_form(const char *path, enum import_form *ret, struct error *err)
{
	CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[IMPORT_FORM_BYTES];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_sys(err, errno, "price catalogue: %s", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERR_INVALID,
			"price catalogue: %s: expected a regular file, as it is read more than once",
			path);
	n = read(fd, text, sizeof(text));
	if (n < 0)
		return error_sys(err, errno, "price catalogue: %s", path);
	*ret = import_form(text, (size_t)n);
	if (*ret == IMPORT_UNKNOWN)
		return error_set(err, ERR_INVALID, "%s: expected %s, found something else",
			path, forms);
	return 0;
}

int price_catalogue_load_all(struct price_catalogue **ret, const struct strv *files,
	const struct strv *overrides, struct strv *warnings, struct error *err)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	const char *own = NULL;
	enum import_form form;

	for (size_t i = 0; files && i < files->n; i++) {
		if (read_import_form(files->v[i], &form, err) < 0)
			return -1;
		if (form != IMPORT_OWN)
			continue;
		if (own)
			return error_set(err, ERR_INVALID,
				"%s: expected one catalogue of your own, found '%s' as well",
				files->v[i], own);
		own = files->v[i];
	}
	if (price_catalogue_load(&c, own, err) < 0)
		return -1;
	rank_own(c);
	for (size_t i = 0; files && i < files->n; i++) {
		if (read_import_form(files->v[i], &form, err) < 0 ||
			(form != IMPORT_OWN &&
				import_file(c, files->v[i], form, warnings, err) < 0))
			return -1;
	}
	for (size_t i = 0; overrides && i < overrides->n; i++)
		if (price_override(c, overrides->v[i], err) < 0)
			return -1;
	*ret = STEAL_PTR(c);
	return 0;
}
