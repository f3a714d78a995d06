/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/make/make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN 80 /* bytes of a workload's name in its file name */

static const struct {
	const char *path;
	void (*make)(struct buf *b, const struct pools *p);
} kinds[] = {
	{ "00-README.md", make_readme },
	{ MAKE_CONFIG_PATH, make_sharing_config },
	{ MAKE_MIG_PATH, make_mig },
	{ "20-nodeclass.yaml", make_node_class },
	{ "30-nodepools.yaml", make_node_pools },
	{ "40-nodeoverlays.yaml", make_overlays },
	{ "60-cluster-autoscaler-tags.txt", make_tags },
};

void make_files_fini(struct make_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		buf_fini(&f->v[i].text);
	free(f->v);
	*f = (struct make_files){ 0 };
}

/* Appends an empty file; NULL: no memory. */
static struct make_file *add_make_file(struct make_files *f, struct error *err)
{
	if (f->n == f->cap) {
		size_t room = f->cap ? 2 * f->cap : 16;
		struct make_file *v = reallocarray(f->v, room, sizeof(*v));

		if (!v) {
			(void)error_nomem(err);
			return NULL;
		}
		f->v = v;
		f->cap = room;
	}
	f->v[f->n] = (struct make_file){ .text = BUF_INIT(MAKE_FILE_MAX) };
	return &f->v[f->n++];
}

/* A file name without special characters; @n distinguishes several patches of one workload. */
static void patch_path(char path[static MAKE_PATH_MAX], const char *name, uint32_t n)
{
	char safe[NAME_MAX_LEN + 1];
	size_t len = 0;

	for (; *name && len < NAME_MAX_LEN; name++) {
		char c = *name;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || c == '-' || c == '_' ||
			     (c == '.' && len);

		safe[len++] = '_';
		if (plain)
			safe[len - 1] = c;
	}
	safe[len] = '\0';
	if (n)
		(void)snprintf(path, MAKE_PATH_MAX, "patches/%s-%u.yaml", safe, n + 1);
	else
		(void)snprintf(path, MAKE_PATH_MAX, "patches/%s.yaml", safe);
}

/* All resources that the workload requests. */
static uint32_t resources_of(const struct pools *p, uint32_t workload,
	const char *seen[POOLS_MAX])
{
	uint32_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		for (size_t k = 0; k < p->v[i].n_tenants && n < POOLS_MAX; k++) {
			const struct pool_tenant *t = &p->v[i].tenants[k];
			const char *resource = p->v[i].resources[t->resource].name;
			uint32_t s = 0;

			while (s < n && strcmp(seen[s], resource) != 0)
				s++;
			if (t->workload == workload && s == n)
				seen[n++] = resource;
		}
	}
	return n;
}

static int patches_of(struct make_files *f, const struct pools *p, uint32_t workload,
	struct error *err)
{
	const char *resources[POOLS_MAX];
	uint32_t n = resources_of(p, workload, resources);

	for (uint32_t i = 0; i < n; i++) {
		struct make_file *file = add_make_file(f, err);

		if (!file)
			return -1;
		patch_path(file->path, p->a->in->workloads[workload].name, i);
		make_patch(&file->text, p, workload, resources[i], i, n);
	}
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct make_file *)a)->path, ((const struct make_file *)b)->path);
}

/* Adds a number to names that became equal; the list is sorted. */
static void make_paths_unique(struct make_files *f)
{
	for (size_t i = 0, to; i < f->n; i = to) {
		for (to = i + 1; to < f->n && !strcmp(f->v[to].path, f->v[i].path);)
			to++;
		for (size_t k = i + 1; k < to; k++) {
			char *dot = strrchr(f->v[k].path, '.');

			(void)snprintf(dot, MAKE_PATH_MAX - (size_t)(dot - f->v[k].path),
				"~%zu.yaml", k - i + 1);
		}
	}
}

int make_plan_files(struct make_files *ret, const struct pools *p, struct error *err)
{
	*ret = (struct make_files){ 0 };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct make_file *file = add_make_file(ret, err);

		if (!file)
			return -1;
		(void)snprintf(file->path, sizeof(file->path), "%s", kinds[i].path);
		kinds[i].make(&file->text, p);
		if (!file->text.len)
			ret->n--, buf_fini(&file->text);
	}
	for (uint32_t w = 0; w < p->a->in->n_workloads; w++)
		if (patches_of(ret, p, w, err) < 0)
			return -1;
	qsort(ret->v, ret->n, sizeof(*ret->v), by_path);
	make_paths_unique(ret);
	for (size_t i = 0; i < ret->n; i++)
		if (!buf_ok(&ret->v[i].text))
			return error_nomem(err);
	return 0;
}
