/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api/internal.h"

/* Stub until the next commit. */
int api_watch_start(struct api_watch **ret, struct api *a, const char *collection,
	const char *name, const struct api_watch_ops *ops, void *arg, struct error *err)
{
	(void)ret;
	(void)a;
	(void)collection;
	(void)name;
	(void)ops;
	(void)arg;
	return error_set(err, ERR_NOT_YET, "watch");
}

struct api_watch *api_watch_stop(struct api_watch *w)
{
	(void)w;
	return NULL;
}
