/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/environment/env-vars.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

int env_init(struct strv *env, struct error *err)
{
	for (size_t i = 0; environ[i]; i++)
		if (strv_add(env, environ[i], err) < 0)
			return -1;
	return 0;
}

static char **find_env_variable(const struct strv *env, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < env->n; i++)
		if (!strncmp(env->v[i], name, len) && env->v[i][len] == '=')
			return &env->v[i];
	return NULL;
}

int env_set(struct strv *env, const char *name, const char *value, struct error *err)
{
	char **at = find_env_variable(env, name), *text = NULL;

	if (at) {
		free(*at);
		memmove(at, at + 1, (size_t)(env->v + env->n - at) * sizeof(*at));
		env->n--;
	}
	if (!value)
		return 0;
	if (asprintf(&text, "%s=%s", name, value) < 0)
		return error_nomem(err);
	if (strv_add(env, text, err) < 0) {
		free(text);
		return -1;
	}
	free(text);
	return 0;
}
