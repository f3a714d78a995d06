/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "io/config/config.h"

#include <stdlib.h>

static const char *no_env(const char *name)
{
	(void)name;
	return NULL;
}

static void count(void *arg, const char *name, const char *text, struct config *config,
	const struct strv *warnings, const struct error *err, const struct strv *more)
{
	int *n = arg;

	if (!name || !warnings || (!err && more->n) || more->n >= CONFIG_MISTAKES_MAX ||
		(config && err) || (text && !config && !err))
		abort();
	*n += text != NULL;
}

/* A file of manifests. As many configs are handed out as are counted. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct config_sources sources = { .env = no_env };
	struct error err = ERROR_INIT;
	int n = 0;
	int r = config_each_text("m.yaml", (const char *)data, size, &sources, count, &n, &err);

	if (r >= 0 ? r != n || r == 0 : err.code == ERR_NONE)
		abort();
	return 0;
}
