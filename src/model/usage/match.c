/* SPDX-License-Identifier: Apache-2.0 */
#include "model/usage/internal.h"

#include <stdlib.h>
#include <string.h>

struct account *account_free(struct account *a)
{
	if (!a)
		return NULL;
	free(a->namespace_);
	free(a->pod);
	free(a->uid);
	free(a->container);
	free(a->resource);
	free(a);
	return NULL;
}

struct account *account_new(struct account_device *u, const struct account_use *in,
	struct error *err)
{
	struct account **more = reallocarray(u->uses, u->n_uses + 1, sizeof(struct account *));
	struct account *a = calloc(1, sizeof(*a));

	if (more)
		u->uses = more;
	if (!a || !more)
		goto no_memory;
	a->namespace_ = strdup(in->namespace_);
	a->pod = strdup(in->pod);
	a->uid = strdup(in->uid);
	a->container = strdup(in->container);
	a->resource = strdup(in->resource);
	if (!a->namespace_ || !a->pod || !a->uid || !a->container || !a->resource)
		goto no_memory;
	a->mode = in->mode;
	u->uses[u->n_uses++] = a;
	return a;

no_memory:
	(void)account_free(a);
	(void)error_nomem(err);
	return NULL;
}

static bool is_same_account_name(const struct account *a, const struct account_use *in)
{
	return a->mode == in->mode && !strcmp(a->pod, in->pod) &&
	       !strcmp(a->namespace_, in->namespace_) && !strcmp(a->container, in->container) &&
	       !strcmp(a->resource, in->resource);
}

/* The account of the pod with that UID. */
static struct account *by_uid(const struct account_device *u, const struct account_use *in)
{
	for (size_t i = 0; i < u->n_uses; i++)
		if (!u->uses[i]->matched && is_same_account_name(u->uses[i], in) &&
			!strcmp(u->uses[i]->uid, in->uid))
			return u->uses[i];
	return NULL;
}

/* The live account of that name. If the pod has a UID, only an account without one. */
static struct account *find_account_by_name(const struct account_device *u,
	const struct account_use *in)
{
	for (size_t i = 0; i < u->n_uses; i++)
		if (!u->uses[i]->matched && u->uses[i]->live &&
			is_same_account_name(u->uses[i], in) &&
			(!*in->uid || !*u->uses[i]->uid))
			return u->uses[i];
	return NULL;
}

static int set_account_uid(struct account *a, const char *uid, struct error *err)
{
	char *copy;

	if (*a->uid || !*uid)
		return 0;
	copy = strdup(uid);
	if (!copy)
		return error_nomem(err);
	free(a->uid);
	a->uid = copy;
	return 0;
}

struct account *account_match(struct account_device *u, const struct account_use *in,
	uint64_t began_wall_ns, struct error *err)
{
	struct account *a = *in->uid ? by_uid(u, in) : NULL;

	if (!a && !in->fresh)
		a = find_account_by_name(u, in);
	if (a) {
		if (set_account_uid(a, in->uid, err) < 0)
			return NULL;
	} else {
		a = account_new(u, in, err);
		if (!a)
			return NULL;
		a->began_wall_ns = began_wall_ns;
	}
	a->matched = true;
	return a;
}
