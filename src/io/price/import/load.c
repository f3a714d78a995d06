/* SPDX-License-Identifier: Apache-2.0 */
#include "io/price/load.h"

#include "lib/base/fd.h"
#include "io/price/import/import.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
