/* SPDX-License-Identifier: Apache-2.0 */
#include "io/cdi/search/search.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/root.h"

bool search_name_plain(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= NAME_MAX && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			    "0123456789._+-") == len;
}

int search_watch(struct cdi_search_context *s, const char *root, const char *path)
{
	char real[PATH_MAX], at[PATH_MAX];
	bool there = root_resolve(real, sizeof(real), root, path, NULL, NULL) == 0;

	if (root_join(at, sizeof(at), root, there ? real : path, NULL) < 0 ||
		strv_has(&s->found->watched, at))
		return 0;
	return strv_add(&s->found->watched, at, s->err);
}

int search_add_file(struct cdi_search_context *s, struct cdi_edits *to, enum cdi_file_kind kind,
	const char *path)
{
	char real[PATH_MAX];
	struct cdi_file *f;
	struct stat st;
	bool good;

	if (search_watch(s, s->seen, path) < 0)
		return -1;
	if (root_resolve(real, sizeof(real), s->seen, path, &st, NULL) < 0)
		return 0;
	good = kind == CDI_FILE ? S_ISREG(st.st_mode)
				: S_ISSOCK(st.st_mode) || S_ISDIR(st.st_mode);
	if (!good)
		return 0;
	f = cdi_grow(&to->files, &to->n_files, sizeof(*f));
	if (!f)
		return error_nomem(s->err);
	f->kind = kind;
	f->path = strdup(path);
	f->real = strdup(real);
	return f->path && f->real ? 1 : error_nomem(s->err);
}

/* --- which root --- */

/* A root in this process's view, and the path of that root on the host. */
struct cdi_root_candidate {
	const char *seen, *host;
};

static const struct cdi_root_candidate *choose_root(const struct cdi_root_candidate *c,
	size_t n, const char *version)
{
	for (size_t i = 0; i < n; i++) {
		if (*c[i].seen == '/' && search_has_driver(c[i].seen, version))
			return &c[i];
	}
	return NULL;
}

/*
 * In a container, the root of the host or of a driver container is mounted at the container driver
 * root. On the host itself, the driver root is the path in the config. The last candidate is "/": a
 * runtime that gives this container the driver's files puts them at the host's paths.
 */
static int find_root(struct cdi_search_context *s)
{
	const struct config *c = s->config;
	const char *version = s->inv->driver_version;
	const struct cdi_root_candidate candidates[] = {
		{ c->container_driver_root, c->driver_root },
		{ c->driver_root, c->driver_root },
		{ "/", "/" },
	};
	const struct cdi_root_candidate *root =
		choose_root(candidates, ARRAY_LEN(candidates), version);

	if (!root)
		return error_set(s->err, ERR_NOT_FOUND,
			"no libcuda.so.%s for this machine below '%.100s', '%.100s' or '/': mount the "
			"driver root there, or name it with --driver-root-ctr-path",
			version, c->container_driver_root, c->driver_root);
	s->seen = root->seen;
	s->found->driver_root = strdup(root->host);
	return s->found->driver_root ? 0 : error_nomem(s->err);
}

int cdi_search(struct cdi_found **ret, const struct config *config, const struct inventory *inv,
	const char *sysfs_root, struct error *err)
{
	CLEANUP(cdi_found_freep) struct cdi_found *f = calloc(1, sizeof(*f));
	struct cdi_search_context s = { .config = config, .inv = inv, .found = f, .err = err };

	if (!f)
		return error_nomem(err);
	s.sysfs = sysfs_root && *sysfs_root ? sysfs_root : "/sys";
	if (!search_name_plain(inv->driver_version))
		return error_set(err, ERR_INVALID,
			"the driver's version is '%.60s'; expected letters, digits and dots",
			inv->driver_version);
	(void)snprintf(f->driver_version, sizeof(f->driver_version), "%s", inv->driver_version);
	if (find_root(&s) < 0 || search_libraries(&s) < 0 || search_files(&s) < 0 ||
		search_nodes(&s) < 0)
		return -1;
	*ret = STEAL_PTR(f);
	return 0;
}
