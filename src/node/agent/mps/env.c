/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/supervisor.h"

#include "lib/base/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHM_DRIVER 580 /* from this driver on, the shared memory of MPS is anonymous */

extern char **environ;

static bool is_of_mps(const char *v)
{
	return !strncmp(v, "CUDA_MPS_", 9) || !strncmp(v, "CUDA_VISIBLE_DEVICES=", 21);
}

static bool add_mps_env_variable(char **env, size_t *n, const char *name, const char *value)
{
	if (asprintf(&env[*n], "%s=%s", name, value) < 0) {
		env[*n] = NULL;
		return false;
	}
	(*n)++;
	return true;
}

void mps_env_free(char **env)
{
	for (size_t i = 0; env && env[i]; i++)
		free(env[i]);
	free(env);
}

/* Servers see only the devices of their daemon, so a fault on a device of another daemon does not affect them. */
static char *format_visible_devices(const struct strv *uuids)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(GPU_NODE_MAX * (GPU_UUID_MAX + 1));

	for (size_t i = 0; i < uuids->n; i++)
		buf_printf(&b, "%s%s", i ? "," : "", uuids->v[i]);
	return buf_steal(&b);
}

char **mps_supervisor_env(const struct mps_supervisor *u)
{
	CLEANUP(freep) char *devices = format_visible_devices(&u->dir.devices);
	size_t n = 0, have = 0;
	char **env;

	while (environ[have])
		have++;
	env = devices ? calloc(have + 4, sizeof(*env)) : NULL;
	if (!env)
		return NULL;
	for (size_t i = 0; i < have; i++) {
		if (is_of_mps(environ[i]))
			continue;
		env[n] = strdup(environ[i]);
		if (!env[n++]) {
			mps_env_free(env);
			return NULL;
		}
	}
	if (!add_mps_env_variable(env, &n, "CUDA_MPS_PIPE_DIRECTORY", u->dir.pipe) ||
		!add_mps_env_variable(env, &n, "CUDA_MPS_LOG_DIRECTORY", u->dir.log_dir) ||
		!add_mps_env_variable(env, &n, "CUDA_VISIBLE_DEVICES", devices)) {
		mps_env_free(env);
		return NULL;
	}
	return env;
}

bool mps_needs_shm(const struct mps *m)
{
	const char *driver = m->c.facts->node.inv ? m->c.facts->node.inv->driver_version : "";
	char major[8];
	uint32_t n;

	(void)snprintf(major, sizeof(major), "%.*s", (int)strcspn(driver, "."), driver);
	return parse_u32(major, &n) && n < SHM_DRIVER;
}
