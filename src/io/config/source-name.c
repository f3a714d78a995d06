/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/read.h"

#include <stdio.h>
#include <string.h>

#include "model/offer/offer.h"

/* Resource names of devices before renaming: `nvidia.com/gpu`, the names of MIG devices, and the operator's
 * names in `resources`. `resources` is read before the entries that refer to it. */

#define SHARED_SUFFIX ".shared" /* suffix of renameByDefault */
#define NEAR_NAME_MAX 3         /* a name with so many edits is a different one */

/* Whether a device can have this resource name before renaming. */
static bool is_source(const struct config *c, const char *name)
{
	size_t len = strlen(name), suffix = strlen(SHARED_SUFFIX);

	if (!strcmp(name, OFFER_GPU))
		return true;
	for (size_t i = 0; i < c->n_gpu_patterns; i++)
		if (!strcmp(name, c->gpu_patterns[i].name))
			return true;
	for (size_t i = 0; i < c->n_mig_patterns; i++)
		if (!strcmp(name, c->mig_patterns[i].name))
			return true;
	return !strncmp(name, OFFER_MIG, strlen(OFFER_MIG)) &&
	       (len <= suffix || strcmp(name + len - suffix, SHARED_SUFFIX) != 0);
}

/* The most similar resource name of a device to @name; "": none. */
static void nearest_source(const struct config *c, const char *name,
	char ret[RESOURCE_NAME_MAX])
{
	size_t len = strlen(name), suffix = strlen(SHARED_SUFFIX);
	size_t best = NEAR_NAME_MAX;

	ret[0] = '\0';
	if (len > suffix && !strcmp(name + len - suffix, SHARED_SUFFIX)) {
		(void)snprintf(ret, RESOURCE_NAME_MAX, "%.*s", (int)(len - suffix), name);
		if (is_source(c, ret))
			return;
		ret[0] = '\0';
	}
	for (size_t i = 0; i <= c->n_gpu_patterns + c->n_mig_patterns; i++) {
		const char *known = i == 0 ? OFFER_GPU
				    : i <= c->n_gpu_patterns
					    ? c->gpu_patterns[i - 1].name
					    : c->mig_patterns[i - 1 - c->n_gpu_patterns].name;
		size_t d = read_distance(name, known, best);

		if (d < best) {
			best = d;
			(void)snprintf(ret, RESOURCE_NAME_MAX, "%s", known);
		}
	}
}

int warn_of_source(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, const char *name)
{
	char near[RESOURCE_NAME_MAX];

	if (is_source(r->c, name))
		return 0;
	nearest_source(r->c, name, near);
	if (!*near) /* another node may have it */
		return 0;
	return read_warn(r, n, w,
		"has no effect: no device has the name '%s' before it is renamed; did you mean "
		"'%s'?",
		name, near);
}
