/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/root.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int root_join(char *ret, size_t cap, const char *root, const char *path, struct error *err)
{
	size_t len = strlen(root);
	int n;

	while (len && root[len - 1] == '/')
		len--;
	n = snprintf(ret, cap, "%.*s%s", (int)len, root, path);
	if (len > INT_MAX || n < 0 || (size_t)n >= cap)
		return error_set(err, ERR_LIMIT, "'%.60s%.60s' is longer than %zu bytes", root,
			path, cap - 1);
	return 0;
}

struct root_walk {
	const char *root;
	char done[PATH_MAX]; /* without links; "" is the root itself */
	char rest[PATH_MAX];
	unsigned links;
	struct stat st; /* of .done */
};

static void strip_root_component(struct root_walk *w)
{
	char *slash = strrchr(w->done, '/');

	if (slash)
		*slash = '\0';
}

/* Replaces the link's name in the rest of the path with the link's text. */
static int follow_root_link(struct root_walk *w, const char *at, struct error *err)
{
	char text[PATH_MAX], rest[PATH_MAX];
	ssize_t len = readlink(at, text, sizeof(text) - 1);
	int n;

	if (len < 0)
		return error_sys(err, errno, "read the link '%s'", at);
	text[len] = '\0';
	if (++w->links > ROOT_LINKS_MAX)
		return error_set(err, ERR_LIMIT, "'%s': more than %d links", at,
			ROOT_LINKS_MAX);
	n = snprintf(rest, sizeof(rest), "%s/%s", text, w->rest);
	if (n < 0 || (size_t)n >= sizeof(rest))
		return error_set(err, ERR_LIMIT, "'%s': the path is too long", at);
	memcpy(w->rest, rest, (size_t)n + 1);
	if (text[0] == '/')
		w->done[0] = '\0';
	else
		strip_root_component(w);
	return 0;
}

static int resolve_path_component(struct root_walk *w, const char *name, size_t len,
	struct error *err)
{
	size_t done = strlen(w->done);
	char at[PATH_MAX];

	if (len == 0 || (len == 1 && name[0] == '.'))
		return 0;
	if (len == 2 && name[0] == '.' && name[1] == '.') {
		strip_root_component(w);
		return 0;
	}
	if (done + 1 + len >= sizeof(w->done))
		return error_set(err, ERR_LIMIT, "'%s%.60s': the path is too long", w->root,
			w->done);
	w->done[done] = '/';
	memcpy(w->done + done + 1, name, len);
	w->done[done + 1 + len] = '\0';
	if (root_join(at, sizeof(at), w->root, w->done, err) < 0)
		return -1;
	if (lstat(at, &w->st) < 0)
		return error_sys(err, errno, "'%s'", at);
	return S_ISLNK(w->st.st_mode) ? follow_root_link(w, at, err) : 0;
}

int root_resolve(char *ret, size_t cap, const char *root, const char *path, struct stat *st,
	struct error *err)
{
	struct root_walk w = { .root = root };
	size_t len = strlen(path);
	char name[NAME_MAX + 1], at[PATH_MAX];

	if (len >= sizeof(w.rest))
		return error_set(err, ERR_LIMIT, "'%.60s': the path is too long", path);
	memcpy(w.rest, path, len + 1);
	while (*w.rest) {
		len = strcspn(w.rest, "/");
		if (len >= sizeof(name))
			return error_set(err, ERR_LIMIT, "'%.60s': a name is too long", w.rest);
		memcpy(name, w.rest, len);
		memmove(w.rest, w.rest + len + (w.rest[len] == '/'),
			strlen(w.rest + len + (w.rest[len] == '/')) + 1);
		if (resolve_path_component(&w, name, len, err) < 0)
			return -1;
	}
	/* Again: the last step may have been "..". */
	if (root_join(at, sizeof(at), root, *w.done ? w.done : "/", err) < 0)
		return -1;
	if (lstat(at, &w.st) < 0)
		return error_sys(err, errno, "'%s'", at);
	if (snprintf(ret, cap, "%s", *w.done ? w.done : "/") >= (int)cap)
		return error_set(err, ERR_LIMIT, "'%s' is longer than %zu bytes", w.done,
			cap - 1);
	if (st)
		*st = w.st;
	return 0;
}

int root_list(struct strv *ret, const char *root, const char *path, const char *pattern,
	struct error *err)
{
	char real[PATH_MAX], at[PATH_MAX];
	const struct dirent *e;
	int r = 0;
	DIR *dir;

	if (root_resolve(real, sizeof(real), root, path, NULL, NULL) < 0 ||
		root_join(at, sizeof(at), root, real, NULL) < 0)
		return 0;
	dir = opendir(at);
	if (!dir)
		return 0;
	while (r == 0 && (e = readdir(dir)))
		if (fnmatch(pattern, e->d_name, FNM_PERIOD) == 0)
			r = strv_add(ret, e->d_name, err);
	(void)closedir(dir);
	if (r == 0)
		strv_sort(ret);
	return r;
}
