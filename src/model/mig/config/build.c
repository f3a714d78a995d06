/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/config-build.h"

#include <string.h>

/* Makes room for one element after @n elements of @size bytes. The capacity is the next power of two. */
static int grow_mig_config_array(void *p, size_t n, size_t size, size_t max, const char *what,
	struct error *err)
{
	void *more;

	if (n >= max)
		return error_set(err, ERR_LIMIT, "expected at most %zu %s", max, what);
	if (n & (n - 1))
		return 0;
	more = reallocarray(*(void **)p, n ? 2 * n : 1, size);
	if (!more)
		return error_nomem(err);
	*(void **)p = more;
	return 0;
}

int mig_configs_new(struct mig_configs **ret, struct error *err)
{
	struct mig_configs *c = calloc(1, sizeof(*c));

	if (!c)
		return error_nomem(err);
	*ret = c;
	return 0;
}

int mig_configs_add(struct mig_configs *c, const char *name, struct mig_config **ret,
	struct error *err)
{
	size_t len = strlen(name);

	if (len >= MIG_NAME_MAX)
		return error_set(err, ERR_LIMIT,
			"expected a name of at most %d bytes, found %zu: '%.40s...'",
			MIG_NAME_MAX - 1, len, name);
	if (grow_mig_config_array(&c->configs, c->n, sizeof(*c->configs), MIG_CONFIGS_MAX,
		    "configs", err) < 0)
		return -1;
	*ret = &c->configs[c->n++];
	**ret = (struct mig_config){ .line = 0 };
	memcpy((*ret)->name, name, len + 1);
	return 0;
}

int mig_config_add_entry(struct mig_config *c, struct mig_entry **ret, struct error *err)
{
	if (grow_mig_config_array(&c->entries, c->n, sizeof(*c->entries), MIG_ENTRIES_MAX,
		    "entries", err) < 0)
		return -1;
	*ret = &c->entries[c->n++];
	**ret = (struct mig_entry){ .line = 0 };
	return 0;
}

int mig_entry_add_device(struct mig_entry *e, uint32_t index, struct error *err)
{
	if (grow_mig_config_array(&e->devices, e->n_devices, sizeof(*e->devices),
		    MIG_INDEXES_MAX, "GPU indexes", err) < 0)
		return -1;
	e->devices[e->n_devices++] = index;
	return 0;
}

int mig_entry_add_filter(struct mig_entry *e, const struct mig_filter *f, struct error *err)
{
	if (grow_mig_config_array(&e->filters, e->n_filters, sizeof(*e->filters),
		    MIG_FILTERS_MAX, "filters", err) < 0)
		return -1;
	e->filters[e->n_filters++] = *f;
	return 0;
}

int mig_entry_add_row(struct mig_entry *e, const struct mig_device_row *row, struct error *err)
{
	if (grow_mig_config_array(&e->rows, e->n_rows, sizeof(*e->rows), MIG_DEVICES_MAX,
		    "kinds of MIG devices", err) < 0)
		return -1;
	e->rows[e->n_rows++] = *row;
	return 0;
}
